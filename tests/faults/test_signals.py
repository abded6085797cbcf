"""SIGINT, SIGTERM and SIGHUP at random moments of the program.

Wherever the signal comes there is no traceback, the exit code is 128 + signal, and once an
iteration was done the answer is printed and all that was asked for is on disk, whole. Half of the
moments are at random, the others in a stage that is drawn: the program says by a byte in a file
what it is doing. A table of outcomes and of the seconds from signal to exit is printed; those are
not judged: they are those of the machine.
"""

from __future__ import annotations

import json
import mmap
import os
import signal
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import condgrad as cg
import processes
from condgrad.record import Record

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs signals of POSIX")
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
STAGES = ("start", "load", "compile", "loop", "certificate", "rounding", "writing")
PROGRAM = """
import mmap, os, sys
with open(os.environ["STAGE_FILE"], "r+b") as file:
    stage = mmap.mmap(file.fileno(), 2)
stage[0] = 1
from condgrad.cli import main, outputs
from condgrad.applications import _base, choosing, large_max_cut, mixing
from condgrad.methods import FactoredApg, Method
from condgrad.run.monitor import Monitor
from numba.core import event

def within(place, name, number, done=False):
    real = getattr(place, name)
    def staged(*args, **options):
        before, stage[0] = stage[0], number
        try:
            return real(*args, **options)
        finally:
            stage[0] = before
            if done:
                stage[1] = 1
    setattr(place, name, staged)

class Compiling(event.Listener):
    depth = 0
    def on_start(self, _):
        self.depth += 1
        self.before = stage[0] if self.depth == 1 else self.before
        stage[0] = 2
    def on_end(self, _):
        self.depth -= 1
        if not self.depth:
            stage[0] = self.before

event.register("numba:compile", Compiling())
within(Monitor, "after", 3, done=True)
within(mixing, "_sweep", 3, done=True)
for place in (Method, FactoredApg):
    within(place, "measure", 4)
within(mixing, "_bound", 4)
within(_base.Rounder, "__call__", 5)
within(large_max_cut._Run, "_round", 5)
within(choosing, "_corrected", 5)
within(outputs.Outputs, "give", 6)
main()
"""


def planted(rng, n, groups=2):
    """The edge list of a graph with clusters."""
    side = np.arange(n) % groups
    A = rng.random((n, n)) < np.where(side[:, None] == side, 0.2, 0.02)
    u, v = np.nonzero(np.triu(A, 1))
    lines = [f"{n} {u.size}", *(f"{a + 1} {b + 1} 1" for a, b in zip(u, v, strict=True))]
    return "\n".join(lines) + "\n"


def ratings(rng, users, items):
    full = 3 + rng.normal(size=(users, 3)) @ rng.normal(size=(3, items)) / 2
    i, j = np.nonzero(rng.random((users, items)) < 0.25)
    rows = zip(i, j, np.clip(np.rint(full[i, j]), 1, 5), strict=True)
    return "".join(f"u{a}\tm{b}\t{x:g}\n" for a, b, x in rows)


@pytest.fixture(scope="module")
def commands(tmp_path_factory):
    """Commands and whether they have an answer in words."""
    folder, rng = tmp_path_factory.mktemp("data"), np.random.default_rng(17)
    (folder / "cut.txt").write_text(planted(rng, 120))
    (folder / "large.txt").write_text(planted(rng, 1200))
    (folder / "ratings.tsv").write_text(ratings(rng, 300, 200))
    points = rng.normal(size=(250, 3)) + 4 * rng.integers(0, 3, size=(250, 1))
    np.save(folder / "points.npy", points)
    n = 60
    lines = [f"{n}", "1", f"{n}", " ".join(["1"] * n)]
    W = np.triu(rng.integers(0, 2, size=(n, n)), 1)
    for i, j in zip(*np.nonzero(W), strict=True):
        lines.append(f"0 1 {i + 1} {j + 1} -1")
    lines += [f"{i + 1} 1 {i + 1} {i + 1} 1" for i in range(n)]
    (folder / "p.dat-s").write_text("\n".join(lines) + "\n")
    (folder / "condgrad").write_text(PROGRAM)
    long = ("--gap", "1e-12", "--feasibility", "1e-12", "--seconds", "5")
    return folder, {
        "cut": ("solve", "sparsest-cut", "cut.txt", *long),
        "k-means": ("solve", "kmeans", "points.npy", "-k", "3", *long),
        "sdp": ("solve", "sdp", "p.dat-s", *long),
        "completion": ("solve", "matrix-completion", "ratings.tsv", "--plain", *long),
        "recommender": ("solve", "matrix-completion", "ratings.tsv"),
        "max-cut": ("solve", "max-cut", "large.txt", "--gap", "1e-9", "--seconds", "5"),
        "short cut": ("solve", "sparsest-cut", "cut.txt", "--iterations", "30"),
        "short k-means": ("solve", "kmeans", "points.npy", "-k", "3", "--iterations", "30"),
    }


def strike(folder, out, args, number, wait_for, delay):
    """Run a command, send it a signal, and say what came of it."""
    with open(out / "stage", "wb") as file:
        file.write(b"\0\0")
    files = {"--json": out / "r.json", "--save": out / "r.npz"}
    more = [str(x) for pair in files.items() for x in pair]
    env = {**os.environ, "STAGE_FILE": str(out / "stage"), "COLUMNS": "160"}
    env["PYTHONPATH"] = str(Path(cg.__file__).parents[1])
    with open(out / "stage", "r+b") as file:
        stage = mmap.mmap(file.fileno(), 2)
    pipes = {"stdout": processes.PIPE, "stderr": processes.PIPE, "encoding": "utf-8"}
    program = (sys.executable, str(folder / "condgrad"), *args, *more)
    with processes.started(*program, cwd=folder, env=env, **pipes) as process:
        while process.poll() is None and stage[0] < 1:
            time.sleep(0.001)  # Python itself begins
        while wait_for and process.poll() is None and stage[0] != wait_for:
            time.sleep(0.001)
        end = time.monotonic() + delay
        while process.poll() is None and time.monotonic() < end:
            time.sleep(0.001)
        at, iterated = stage[0], stage[1]
        if process.poll() is not None:
            return None
        process.send_signal(number)
        began = time.monotonic()
        stdout, stderr = process.communicate()
        seconds = time.monotonic() - began
    return STAGES[at], bool(iterated), process.returncode, stdout, stderr, files, seconds


def fault(number, iterated, code, stdout, stderr, files):
    """What is wrong with an outcome, or nothing; a program that was done already may say 0."""
    if "Traceback" in stderr + stdout or "Exception ignored" in stderr:
        return "a traceback"
    done = code == 0 and files["--save"].exists()
    if done and json.loads(files["--json"].read_text())["status"] == "interrupted":
        done = False
    if code != 128 + number and not done:
        return f"exit code {code}"
    if not iterated:
        return ""
    if "objective" not in stdout and "value" not in stdout:
        return "no answer on the screen"
    for path in files.values():
        if not path.exists():
            return f"no {path.name}"
    if json.loads(files["--json"].read_text())["iterations"] < 0:
        return "odd JSON"
    try:
        Record.load(files["--save"])
    except cg.InputError as error:
        return str(error)
    left = [p.name for p in files["--json"].parent.iterdir() if ".part" in p.name]
    return f"left {left}" if left else ""


def test_signals_at_random_moments(commands, tmp_path, rng, many, capsys):
    folder, table = commands
    outcomes, faults, waits, tried = Counter(), [], {}, 0
    total = many(180)
    while len(waits) < total and tried < 3 * total:
        tried += 1
        name = list(table)[tried % len(table)]
        number = SIGNALS[tried % 3]
        by_stage = rng.random() < 0.5
        wait_for = int(rng.choice([2, 3, 4, 5, 6])) if by_stage else 0
        delay = float(rng.uniform(0, 0.05 if by_stage else 5))
        out = tmp_path / f"{tried}"
        out.mkdir()
        found = strike(folder, out, table[name], number, wait_for, delay)
        if found is None:
            continue  # it had ended before
        stage, iterated, code, stdout, stderr, files, seconds = found
        wrong = fault(number, iterated, code, stdout, stderr, files)
        waits[tried] = seconds
        key = (name, stage, signal.Signals(number).name)
        outcomes[stage, "answer" if iterated else "line", not wrong] += 1
        if wrong:
            faults.append((key, wrong, round(seconds, 2), stdout[-300:], stderr[-1500:]))
        with capsys.disabled():
            print(f"{tried:4} {name:13} {stage:12} {key[2]:8} {seconds:5.2f} s  {wrong or 'good'}")
            if wrong:
                print(stdout[-1000:], stderr[-2000:])
    spent = np.sort(list(waits.values()))
    with capsys.disabled():
        print()
        for (stage, kind, good), count in sorted(outcomes.items()):
            print(f"{stage:12} {kind:7} {'good' if good else 'BAD':5} {count}")
        print(f"{spent.size} signals; seconds to the end: median {np.median(spent):.2f}, "
              f"95 % {np.quantile(spent, 0.95):.2f}, most {spent[-1]:.2f}")  # fmt: skip
    assert not faults, faults
