"""Ctrl-C at any moment of the program: one line or the answer, exit code 130.

The signal is sent from inside, at a known point, so that no test waits for a moment.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

import numpy as np
import pytest

import condgrad as cg
import processes
from condgrad import _signals
from condgrad.applications import sparsest_cut
from condgrad.problem import Problem
from condgrad.run.result import Trace

needs_signals = pytest.mark.skipif(os.name != "posix", reason="needs signals of POSIX")
RING = np.roll(np.eye(7), 1, axis=0) + np.roll(np.eye(7), -1, axis=0)
GRAPH = np.triu(np.random.default_rng(0).random((9, 9)), 1)
GRAPH += GRAPH.T
HOOK = """
import atexit, os, signal, sys

class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == os.environ.get("INTERRUPT_AT"):
            os.environ.pop("INTERRUPT_AT")
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupt())
if os.environ.get("INTERRUPT_AT") == "exit":
    atexit.register(os.kill, os.getpid(), signal.SIGINT)
"""
LINE = "condgrad: interrupted (SIGINT)\n"
SCRIPT = "from condgrad.cli import main\nmain()\n"


@pytest.fixture
def program(tmp_path):
    """Run the program in a process that gets a SIGINT when it looks for a module."""
    (tmp_path / "sitecustomize.py").write_text(HOOK)
    (tmp_path / "condgrad").write_text(SCRIPT)
    source = str(Path(cg.__file__).parents[1])

    def run(at, *args, module=False):
        start = ["-m", "condgrad"] if module else [str(tmp_path / "condgrad")]
        path = os.pathsep.join([str(tmp_path), source])
        env = {**os.environ, "INTERRUPT_AT": at, "PYTHONPATH": path}
        return processes.run(sys.executable, *start, *map(str, args), env=env, cwd=tmp_path)

    return run


@needs_signals
@pytest.mark.parametrize("module", [False, True])
@pytest.mark.parametrize("at", ["numpy", "scipy.sparse", "condgrad.run", "typer"])
def test_while_the_program_loads(program, at, module):
    done = program(at, "solve", "sparsest-cut", "petersen", module=module)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", LINE)


@needs_signals
@pytest.mark.parametrize("at", ["condgrad.report", "condgrad.io", "numba", "condgrad.html"])
def test_in_what_a_command_loads(program, tmp_path, at):
    """Before there is an answer, while kernels compile, and while the report is written."""
    page = tmp_path / "page.html"
    done = program(at, "solve", "sparsest-cut", "petersen", "--report", page, "--seed", 0)
    assert done.returncode == 130
    assert "Traceback" not in done.stdout + done.stderr
    if at in ("condgrad.report", "condgrad.io"):
        assert (done.stdout, done.stderr) == ("", LINE)
    if at == "condgrad.html":
        assert "Cut found" in done.stdout
        assert (done.stderr, page.exists()) == ("", True)


@needs_signals
def test_when_all_is_done(program):
    done = program("exit", "methods")
    assert (done.returncode, done.stderr) == (0, "")
    assert "sag-cgal" in done.stdout


@needs_signals
def test_a_package_that_is_imported_changes_nothing(program, tmp_path):
    (tmp_path / "other.py").write_text("import condgrad\n")
    env = {**os.environ, "INTERRUPT_AT": "scipy.sparse", "PYTHONPATH": str(tmp_path)}
    done = processes.run(sys.executable, str(tmp_path / "other.py"), env=env)
    assert done.stderr.rstrip().endswith("KeyboardInterrupt")


def interrupt(*_, **__):
    raise KeyboardInterrupt


def test_before_there_is_an_answer(run, monkeypatch):
    monkeypatch.setattr("condgrad.io.read_named_graph", interrupt)
    assert run("solve", "sparsest-cut", "petersen") == (130, "", "condgrad: interrupted\n")


@pytest.fixture
def first(monkeypatch):
    """Ctrl-C after some iterations; the list has an entry from then on."""
    happened = []

    def look(run):
        if run.counts[0] == 12 and not happened:
            happened.append(12)
            raise KeyboardInterrupt

    monkeypatch.setattr("condgrad._progress.look", look)
    return happened


def test_once(run, first):
    code, out, err = run("solve", "sparsest-cut", "karate_club", "--gap", 1e-9)
    assert (code, err) == (130, "")
    assert "the run was interrupted" in out
    assert "Cut found" in out
    assert first == [12]


@pytest.mark.parametrize("raised", [KeyboardInterrupt(), SystemError("kernel")])
def test_again_in_the_last_certificate(run, first, monkeypatch, raised):
    real = cg.Method.measure

    def impatient(self, *args):
        if first:
            if isinstance(raised, SystemError):
                raise raised from KeyboardInterrupt()
            raise raised
        return real(self, *args)

    monkeypatch.setattr(cg.Method, "measure", impatient)
    code, out, err = run("solve", "sparsest-cut", "karate_club", "--gap", 1e-9)
    assert (code, err) == (130, "")
    assert "the run was interrupted" in out
    assert "lower bound" in out
    assert "Cut found" in out


@pytest.mark.parametrize(
    ("place", "name", "record"),
    [
        (cg.Method, "measure", None),
        (cg.Method, "measure", 500),
        (Problem, "evaluate", None),
        (Trace, "append", None),
        (Trace, "amend", 500),
    ],
)
def test_result_of_two_interruptions_is_whole(monkeypatch, place, name, record):
    """Wherever the second one comes in the last judgement, point and figures belong together."""
    problem, happened = sparsest_cut(GRAPH).problem, []
    real = getattr(place, name)

    def impatient(self, *args):
        if len(happened) == 1:
            happened.append(name)
            if name == "append":  # half a row
                real(self, dict(list(args[0].items())[:3]))
            raise KeyboardInterrupt
        return real(self, *args)

    def stop(info):
        if info.k == 14:  # where no bound is due
            happened.append(info.k)
            raise KeyboardInterrupt

    monkeypatch.setattr(place, name, impatient)
    result = cg.solve(problem, max_iter=50, gap=1e-9, callbacks=[stop], record=record)
    monkeypatch.setattr(place, name, real)
    assert happened == [14, name]
    assert result.status is cg.Status.INTERRUPTED
    again = problem.evaluate(result.W)
    assert (result.objective, result.families) == (again.objective, again.families)
    assert np.isfinite(result.lower_bound)
    assert len({len(result.trace[column]) for column in result.trace}) == 1
    assert result.trace.last["k"] == result.trace["k"][-1]


def test_again_in_the_rounding(run, first, monkeypatch):
    def impatient(rounding):
        def round_cut(*args, **options):
            return interrupt() if first else rounding(*args, **options)

        return round_cut

    module = sys.modules["condgrad.applications.sparsest_cut"]
    monkeypatch.setattr(module, "round_cut", impatient(module.round_cut))
    code, out, err = run("solve", "sparsest-cut", "karate_club", "--gap", 1e-9)
    assert (code, err) == (130, "")
    assert "Cut found" in out  # one that was offered before


def test_in_the_only_rounding(run, monkeypatch):
    monkeypatch.setattr(sys.modules["condgrad.applications.sparsest_cut"], "round_cut", interrupt)
    args = ("solve", "sparsest-cut", "petersen", "--iterations", 20, "--preset", "paper")
    code, out, err = run(*args)
    assert (code, err) == (130, "")
    assert "objective" in out
    assert "Nothing was rounded" in out
    code, out, _ = run(*args, "--json", "-")
    assert (code, json.loads(out)["cut"]) == (130, None)
    with pytest.raises(KeyboardInterrupt):
        cg.sparsest_cut(RING, max_seconds=None, gap=1e300, presolve=False)


def test_in_the_rounding_of_clusters(run, tmp_path, monkeypatch):
    np.save(tmp_path / "p.npy", np.random.default_rng(0).normal(size=(9, 2)))
    monkeypatch.setattr(sys.modules["condgrad.applications.kmeans"], "rounded_clusters", interrupt)
    args = ("-k", 2, "--iterations", 20, "--preset", "paper", "--json", tmp_path / "r.json")
    code, out, err = run("solve", "kmeans", tmp_path / "p.npy", *args)
    assert (code, err) == (130, "")
    assert "Nothing was rounded" in out
    assert json.loads((tmp_path / "r.json").read_text())["labels"] is None


def test_files_take_the_place_of_older_ones(run, tmp_path):
    old, link = tmp_path / "old.json", tmp_path / "link.json"
    old.write_text("{}")
    link.symlink_to(old)
    args = ("solve", "sparsest-cut", "petersen", "--iterations", 9)
    assert run(*args, "--json", link)[0] == 0
    assert link.is_symlink()
    assert json.loads(old.read_text())["application"] == "sparsest-cut"
    assert run(*args, "--json", os.devnull)[0] == 0
    assert not Path(os.devnull).is_file()


def test_the_demo_says_so_by_its_code(run, first, tmp_path):
    code, out, _ = run("demo", "--plot", tmp_path / "demo.png")
    assert code == 130
    assert "Cut found" in out


def test_no_memory_is_a_line(run, monkeypatch):
    def full(*_, **__):
        raise MemoryError("129 GiB")

    monkeypatch.setattr("condgrad.io.read_named_graph", full)
    code, out, err = run("solve", "sparsest-cut", "petersen")
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert "not enough memory (129 GiB)" in err


STOPPED = """
import sys
from dataclasses import replace
from pathlib import Path
from condgrad.experiments import plan, reproduce
if __name__ == "__main__":
    short = plan(["fig1"], seeds=1, quick=True, embedded=True)
    long = [replace(job, length=10**8) for job in short]
    for job, fault in reproduce([*short, *long], Path(sys.argv[1]), 2):
        print(job.key, flush=True)
"""


@needs_signals
def test_a_run_of_an_experiment_cut_short_is_not_kept(tmp_path):
    (tmp_path / "stopped.py").write_text(STOPPED)
    line = (sys.executable, str(tmp_path / "stopped.py"), str(tmp_path / "runs"))
    with processes.started(*line, stdout=processes.PIPE, stderr=processes.PIPE) as process:
        assert process.stdout.readline()
        assert process.stdout.readline()  # both workers are in their long runs now
        os.killpg(process.pid, signal.SIGINT)
        process.communicate()
    assert len(list(tmp_path.rglob("*.npz"))) == 2


def test_the_script_is_known_by_its_name(monkeypatch):
    for name, line, expected in (
        ("/x/bin/condgrad", ["python", "/x/bin/condgrad", "demo"], True),
        ("-m", ["python", "-u", "-m", "condgrad", "demo"], True),
        ("-m", ["python", "-m", "pytest", "condgrad"], False),
        ("/x/pytest", ["python", "/x/pytest", "condgrad"], False),
        ("/x/bin/condgrad", ["python", "-c", "from multiprocessing.spawn import x"], False),
        ("", ["python"], False),
    ):
        monkeypatch.setattr(sys, "argv", [name])
        monkeypatch.setattr(sys, "orig_argv", line)
        assert _signals.is_program() is expected
