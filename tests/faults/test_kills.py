"""SIGKILL at random moments of checkpointed commands: what is resumed ends as if nothing was."""

import json
import os
import signal
import sys
import time
from pathlib import Path
from subprocess import TimeoutExpired

import networkx as nx
import numpy as np
import pytest

import condgrad as cg
import processes
from condgrad.io import write_sdpa
from condgrad.run import files
from condgrad.sdp import SDP
from saving import CASES, case, same_result

TIMES = ("seconds", "profile")
"""What differs from run to run."""


def cut(folder):
    file = folder / "graph.edges"
    graph = nx.random_regular_graph(3, 60, seed=1)
    lines = [f"60 {graph.size()}", *(f"{a + 1} {b + 1}" for a, b in graph.edges)]
    file.write_text("\n".join(lines) + "\n")
    return ["sparsest-cut", str(file), "--gap", "1e-4", "--iterations", "1500"]


def kmeans(folder):
    file, rng = folder / "points.csv", np.random.default_rng(0)
    X = rng.standard_normal((150, 3)) + 1.5 * rng.integers(0, 3, (150, 1))
    np.savetxt(file, X, delimiter=",")
    return ["kmeans", str(file), "-k", "4", "--gap", "1e-4", "--iterations", "3000"]


def sdp(folder):
    file, rng, n = folder / "program.dat-s", np.random.default_rng(5), 40
    X = np.eye(n) + np.outer(*[rng.standard_normal(n)] * 2)
    program = SDP(-np.diag(rng.uniform(0.5, 1.5, n)), "max")
    for a in rng.standard_normal((60, n)):
        program = program.subject_to(np.outer(a, a), "==", float(a @ X @ a))
    write_sdpa(file, program.to_sdpa())
    return ["sdp", str(file), "--gap", "1e-5", "--iterations", "4000"]


def completion(folder):
    file, rng = folder / "ratings.tsv", np.random.default_rng(0)
    full = rng.standard_normal((200, 4)) @ rng.standard_normal((4, 120))
    rated = np.clip(np.rint(3 + full), 1, 5)
    at = np.argwhere(rng.random(full.shape) < 0.3)
    file.write_text("".join(f"{u}\t{i}\t{rated[u, i]:g}\n" for u, i in at))
    return ["matrix-completion", str(file), "--plain", "--gap", "1e-6", "--iterations", "1500"]


COMMANDS = [cut, kmeans, sdp, completion]


def started(command, out, kept=None):
    """The program at work."""
    more = ["--json", str(out), "--quiet"]
    if kept is not None:
        more += ["--checkpoint", str(kept), "--every", "0.05", "--resume", str(kept)]
        more += ["--resume-or-start"]
    program = [sys.executable, "-m", "condgrad", "solve", *command, *more]
    return processes.started(*program, stdout=processes.DEVNULL, stderr=processes.PIPE)


def plain(value):
    """The numbers of a JSON file without times."""
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items() if not k.endswith(TIMES)}
    return [plain(v) for v in value] if isinstance(value, list) else value


@pytest.mark.parametrize("command", COMMANDS)
def test_killed_and_resumed(command, tmp_path, rng, many):
    command, kept, out = command(tmp_path), tmp_path / "kept", tmp_path / "out.json"
    began = time.monotonic()
    with started(command, out) as process:
        _, errors = process.communicate()
    assert process.returncode == 0, errors.decode()
    length, whole = time.monotonic() - began, plain(json.loads(out.read_text()))
    out.unlink()
    kills = found = 0
    while kills < many(5):
        with started(command, out, kept) as process:
            try:
                process.wait(rng.uniform(0, length))
                kept.unlink()  # it has ended: once more
            except TimeoutExpired:
                kills += 1
        if kept.exists():
            files.load(kept)
            found += 1
    with started(command, out, kept) as process:
        _, errors = process.communicate()
    assert process.returncode == 0, errors.decode()
    assert plain(json.loads(out.read_text())) == whole
    assert not [f for f in tmp_path.glob(".condgrad-*") if f.stat().st_size]
    print(f"{command[0]}: {kills} kills in {length:.1f} s, {found} times with a checkpoint")


PROGRAM = """
import os, signal, sys
import condgrad as cg
from saving import case
kill = lambda info: info.k > int(sys.argv[3]) and os.kill(os.getpid(), signal.SIGKILL)
problem, method = case(sys.argv[2])
how = {"checkpoint": sys.argv[1], "every": 1e-9 if int(sys.argv[3]) % 2 else 0}
cg.solve(problem, method, max_iter=40, callbacks=[kill], **how)
"""


@pytest.mark.parametrize("name", CASES)
def test_a_killed_run_of_every_method(name, tmp_path, rng):
    """Every iteration is written, or as often as ten times what a checkpoint takes has passed."""
    (problem, method), path, at = case(name), tmp_path / "run", int(rng.integers(3, 38))
    paths = os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    command = (sys.executable, "-c", PROGRAM, str(path), name, str(at))
    done = processes.run(*command, env={**os.environ, "PYTHONPATH": paths})
    assert done.returncode == -signal.SIGKILL, done.stderr
    how = {"max_iter": 40, "callbacks": [lambda info: None]}
    found = cg.solve(problem, method, checkpoint=path, resume=True, **how)
    same_result(found, cg.solve(problem, method, **how))
