"""Signals in another process, sent from inside at a known point."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
from pathlib import Path

import pytest

import condgrad as cg
import processes
from condgrad import _signals

posix = pytest.mark.skipif(os.name != "posix", reason="needs signals of POSIX")
SCRIPT = """
import os
from condgrad.cli import main
exec(os.environ["PATCH"])
main()
"""
RUNNING = """
import signal
from condgrad.run.monitor import Monitor
real_after = Monitor.after
def after(self, state):
    ended = real_after(self, state)
    if state.k == 12:
        os.kill(os.getpid(), signal.NUMBER)
    return ended
Monitor.after = after
"""
LOST = """
import ctypes, signal, time
from condgrad.run.monitor import Monitor
real, callback = Monitor.after, ctypes.CFUNCTYPE(None)(lambda: signal.raise_signal(signal.SIGTERM))
def after(self, state):
    real(self, state)
    callback()
    while True:
        time.sleep(0.01)
Monitor.after = after
"""
TWICE = """
import signal, threading
from condgrad.cli import outputs
from condgrad import _files
def write(path, fields):
    with _files.replaced(path) as file:
        file.write(b"half")
        file.flush()
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGHUP)
        threading.Event().wait()
outputs.write_json = write
"""
ONCE = """
import numpy, signal
from condgrad import html
from condgrad.cli import outputs
place = {"write_json": outputs, "savez_compressed": numpy, "page": html, "draw": outputs}[NAME]
real = getattr(place, NAME)
def write(*args, **options):
    os.kill(os.getpid(), signal.SIGHUP)
    return real(*args, **options)
setattr(place, NAME, write)
"""
LOADING = """
import signal
import condgrad.io
def read(*args, **options):
    os.kill(os.getpid(), signal.SIGTERM)
condgrad.io.read_named_graph = read
"""
COMPILING = """
import os, signal, sys
from numba.core import event
from condgrad import _signals
from condgrad.backends._numba_cache import njit

kernel, due = njit()(lambda x: x + 1), int(sys.argv[1])

class Signals(event.Listener):
    def on_start(self, event):
        global due
        for _ in range(due):
            os.kill(os.getpid(), signal.SIGTERM)
        due = 0

    def on_end(self, event):
        pass

event.register("numba:compile", Signals())
_signals.ready()
try:
    kernel(1)
except KeyboardInterrupt:
    print("interrupted", len(kernel.signatures))
print(kernel(1), _signals.code())
"""


@pytest.fixture
def program(tmp_path):
    (tmp_path / "condgrad").write_text(SCRIPT)

    def run(patch, *more, **options):
        args = ("solve", "sparsest-cut", "karate_club", "--gap", "1e-2", "--whole")
        args = (*args, "--json", str(tmp_path / "r.json"), *more)
        return processes.run(
            *(sys.executable, str(tmp_path / "condgrad"), *args),
            env={**os.environ, "PATCH": patch, "PYTHONPATH": str(Path(cg.__file__).parents[1])},
            cwd=tmp_path,
            **options,
        )

    return run


@posix
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_a_run_ends_with_what_it_has(program, tmp_path, name):
    done = program(RUNNING.replace("NUMBER", name))
    assert (done.returncode, done.stderr) == (128 + getattr(signal, name), "")
    assert "Cut found" in done.stdout
    assert f"the run was interrupted ({name})" in done.stdout
    assert json.loads((tmp_path / "r.json").read_text())["status"] == "interrupted"


@posix
def test_an_interruption_that_python_loses_is_tried_again(program, tmp_path):
    """In a callback of C nothing can be raised."""
    done = program(LOST)
    assert (done.returncode, done.stderr) == (143, "")
    assert "Cut found" in done.stdout
    assert json.loads((tmp_path / "r.json").read_text())["status"] == "interrupted"


@posix
def test_one_more_signal_does_not_tear_the_answer(program, tmp_path):
    done = program(RUNNING.replace("NUMBER", "SIGTERM") + ONCE.replace("NAME", "'write_json'"))
    assert (done.returncode, done.stderr) == (143, "")
    assert "Cut found" in done.stdout
    assert json.loads((tmp_path / "r.json").read_text())["status"] == "interrupted"


@posix
def test_a_second_signal_ends_it_at_once(program, tmp_path):
    (tmp_path / "r.json").write_text("old")
    done = program(TWICE)
    assert done.returncode in (128 + signal.SIGHUP, 128 + signal.SIGTERM)  # whichever is read last
    assert done.stderr == ""
    assert "Cut found" in done.stdout
    assert (tmp_path / "r.json").read_text() == "old"
    assert {p.name for p in tmp_path.iterdir()} == {"condgrad", "r.json"}


def ignore():
    """Ignore signals as nohup and a shell's background do, and as nobody should."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)


@posix
def test_a_program_goes_on_after_signals_that_were_ignored_when_it_began(program, tmp_path):
    done = program(ONCE.replace("NAME", "'write_json'"), preexec_fn=ignore)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads((tmp_path / "r.json").read_text())["status"] == "converged"


@posix
def test_processes_of_tests_hear_signals():
    code = "import signal\nfor name in ('INT', 'TERM', 'HUP'):\n"
    code += "    assert signal.getsignal(getattr(signal, 'SIG' + name)) is not signal.SIG_IGN, name"
    done = processes.run(sys.executable, "-c", code)
    assert done.returncode == 0, done.stderr


@posix
def test_processes_of_tests_hear_signals_that_the_tests_ignore():
    name = f"{__file__}::{test_processes_of_tests_hear_signals.__name__}"
    command = (sys.executable, "-m", "pytest", "-p", "no:cacheprovider", name)
    done = processes.run(*command, cwd=Path(__file__).parents[1], preexec_fn=ignore)
    assert done.returncode == 0, done.stdout


def test_processes_of_tests_have_a_limit():
    """They are started by `processes`; pools have limits of their own."""
    for path in Path(__file__).parent.rglob("test_*.py"):
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"^ *import subprocess$", text, re.MULTILINE), path


@posix
@pytest.mark.parametrize("name", ["write_json", "savez_compressed", "page", "draw"])
def test_a_signal_while_files_are_written_waits(program, tmp_path, name):
    files = {"--save": "r.npz", "--report": "r.html", "--plot": "r.svg"}
    args = [text for option, file in files.items() for text in (option, str(tmp_path / file))]
    done = program(ONCE.replace("NAME", repr(name)), *args)
    assert (done.returncode, done.stderr) == (129, "")
    assert json.loads((tmp_path / "r.json").read_text())["status"] == "converged"
    names = {"condgrad", "r.json", *files.values()}
    assert {path.name for path in tmp_path.iterdir()} == names


@posix
def test_where_there_is_nothing_to_save(program, tmp_path):
    done = program(LOADING)
    expected = (143, "", "condgrad: interrupted (SIGTERM)\n")
    assert (done.returncode, done.stdout, done.stderr) == expected
    assert not (tmp_path / "r.json").exists()


@posix
@pytest.mark.parametrize(
    ("signals", "code", "out"), [(1, 0, "interrupted 1\n2 143\n"), (2, 143, "")]
)
def test_while_a_kernel_compiles(tmp_path, signals, code, out):
    """One signal waits until it is compiled, and a second one ends the process."""
    (tmp_path / "condgrad").write_text(COMPILING)
    env = {**os.environ, "PYTHONPATH": str(Path(cg.__file__).parents[1])}
    done = processes.run(sys.executable, str(tmp_path / "condgrad"), str(signals), env=env)
    assert (done.returncode, done.stdout, done.stderr) == (code, out, "")


def test_what_a_signal_is_called(monkeypatch):
    assert (_signals.code(), _signals.by()) == (130, "")
    monkeypatch.setattr(_signals, "_came", [signal.SIGTERM])
    assert (_signals.code(), _signals.by()) == (143, " (SIGTERM)")
