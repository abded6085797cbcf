"""Processes that save to one path at the same time leave one whole file, at every moment."""

from __future__ import annotations

import contextlib
import sys

import pytest

import processes
from condgrad.record import Record
from condgrad.run.result import Trace

WRITERS = 3
SAVE = """
import sys
import numpy as np
from condgrad.applications import sparsest_cut
from condgrad.record import Record

ring = np.roll(np.eye(9), 1, axis=0)
run = sparsest_cut(ring + ring.T).run(max_iter=5 + int(sys.argv[2]))
record = Record.of(run, adjacency=ring + ring.T)
print("ready", flush=True)
sys.stdin.readline()
for _ in range(int(sys.argv[3])):
    record.save(sys.argv[1]) if sys.argv[1].endswith("saved.npz") else run.trace.save(sys.argv[1])
"""


@pytest.mark.parametrize("name", ["saved.npz", "trace.npz", "trace.csv", "trace.json"])
def test_simultaneous_saves(name, tmp_path, many):
    path, times = tmp_path / name, many(40)
    load = Record.load if name == "saved.npz" else Trace.load
    how = {"stdin": processes.PIPE, "stdout": processes.PIPE, "text": True}
    seen = 0
    with contextlib.ExitStack() as stack:
        writers = []
        for k in range(WRITERS):
            call = (sys.executable, "-c", SAVE, str(path), str(k), str(times))
            writers.append(stack.enter_context(processes.started(*call, **how)))
        for writer in writers:
            assert writer.stdout.readline() == "ready\n"
        for writer in writers:
            writer.stdin.write("\n")
            writer.stdin.close()
        while any(writer.poll() is None for writer in writers):
            if path.exists():
                load(path)  # whole, whoever is writing
                seen += 1
        assert [writer.wait() for writer in writers] == [0] * WRITERS
    load(path)
    print(f"\n{name}: {WRITERS * times} saves, read {seen} times meanwhile")
    assert [file.name for file in tmp_path.iterdir()] == [name]
