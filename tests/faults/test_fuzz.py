"""5,000 mutated files over all readers and saved runs, and streams, within 7 GiB of memory."""

from __future__ import annotations

import gzip
import json
import os
import sys
from collections import Counter
from pathlib import Path

import pytest

import processes

resource = pytest.importorskip("resource")
MEMORY = 7 << 30
PART = 500
"""Files for each process."""


def limited():
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


def call(*command, **env):
    command = (sys.executable, *map(str, command))
    return processes.run(*command, env={**os.environ, **env}, preexec_fn=limited)


def test_mutated_files(many, seed, tmp_path):
    files, found, bad = many(5000), Counter(), []
    for first in range(0, files, PART):
        last = min(first + PART, files)
        done = call(Path(__file__).with_name("fuzz.py"), seed, first, last, tmp_path)
        assert done.returncode == 0, done.stderr[-2000:]
        part = json.loads(done.stdout.splitlines()[-1])
        found.update(part["found"])
        bad += part["bad"]
    print(f"\n{files} mutated files of {part['kinds']} kinds: {dict(found)}, {len(bad)} bad")
    assert not bad


READ = """
import sys
from condgrad import io
try:
    getattr(io, sys.argv[1])(sys.argv[2])
except ValueError as error:
    assert type(error).__name__ == "InputError"
    print(error)
"""


@pytest.mark.parametrize("reader", ["read_graph", "read_ratings", "read_features", "read_sdpa"])
def test_streams_and_bombs(reader, tmp_path):
    bomb = tmp_path / "bomb.gz"
    with gzip.open(bomb, "wb", compresslevel=1) as file:
        for _ in range(3 << 10):
            file.write(bytes(1 << 20))
    long = tmp_path / "long.txt"
    long.write_bytes(b"1 2 3\n" * (50 << 20))
    for path in ("/dev/zero", bomb, long):
        done = call("-c", READ, reader, path)
        print(done.stdout.strip()[:150])
        assert done.returncode == 0, done.stderr
        assert "too large" in done.stdout or "expected" in done.stdout or "missing" in done.stdout


def test_the_command_says_it_in_a_sentence(tmp_path):
    path = tmp_path / "claims.edges"
    path.write_text("100000000 1\n1 2\n")
    for words in (("solve", "sparsest-cut", path), ("solve", "max-cut", path)):
        done = call("-m", "condgrad", *words)
        assert done.returncode not in (0, 1)
        assert "Traceback" not in done.stderr
        assert "CONDGRAD_READ_GIB" in " ".join(done.stderr.split())
