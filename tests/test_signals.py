"""Signals in another process, sent from inside at a known point."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import threading
from pathlib import Path

import pytest

import condgrad as cg
import processes
from condgrad import _keyboard

posix = pytest.mark.skipif(os.name != "posix", reason="needs signals of POSIX")
SCRIPT = """
import os
from condgrad.cli import main
exec(os.environ["PATCH"])
main()
"""
STUCK = """
import numpy as np, signal, threading
from condgrad.run.monitor import Monitor
real, X = Monitor.after, np.random.default_rng(0).normal(size=(4000, 4000))
def stuck(self, *args):
    real(self, *args)
    threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGTERM)).start()
    np.linalg.eigvalsh(X + X.T)  # no handler of Python runs before its end
Monitor.after = stuck
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
import signal
from condgrad.cli import outputs
real = outputs.write_json
def write(path, fields):
    os.kill(os.getpid(), signal.SIGHUP)
    real(path, fields)
outputs.write_json = write
"""
LOADING = """
import signal
import condgrad.io
def read(*args, **options):
    os.kill(os.getpid(), signal.SIGTERM)
condgrad.io.read_named_graph = read
"""
COMPILING = """
import os, signal, threading, time
from numba.core import event
from condgrad import _keyboard
from condgrad.backends._numba_cache import njit

first, second = (njit()(lambda x: x + 1), njit()(lambda x: x + 2))

class Slow(event.Listener):
    def on_start(self, event):
        if threading.current_thread() is threading.main_thread():
            os.kill(os.getpid(), signal.SIGINT)
            end = time.monotonic() + 2
            while time.monotonic() < end:
                time.sleep(0.01)

    def on_end(self, event):
        pass

event.register("numba:compile", Slow())
_keyboard.ready()
_keyboard.finishes(lambda found: print("answer", found) or 130)
with _keyboard.offers(lambda _: second(1), source=True):
    first(1)
    time.sleep(60)
"""


@pytest.fixture
def program(tmp_path):
    (tmp_path / "condgrad").write_text(SCRIPT)

    def run(patch, **options):
        args = ("solve", "sparsest-cut", "karate_club", "--gap", "1e-2", "--whole", "--json")
        return processes.run(
            *(sys.executable, str(tmp_path / "condgrad"), *args, str(tmp_path / "r.json")),
            env={**os.environ, "PATCH": patch, "PYTHONPATH": str(Path(cg.__file__).parents[1])},
            cwd=tmp_path,
            **options,
        )

    return run


@posix
def test_a_run_that_does_not_come_back(program, tmp_path):
    """The thread that watches prints and writes the answer, with what was rounded."""
    done = program(STUCK)
    assert (done.returncode, done.stderr) == (143, "")
    assert "Cut found" in done.stdout
    assert "the run was interrupted (SIGTERM)" in done.stdout
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
    done = program(ONCE, preexec_fn=ignore)
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
def test_a_signal_while_files_are_written_waits(program, tmp_path):
    done = program(ONCE)
    assert (done.returncode, done.stderr) == (129, "")
    assert json.loads((tmp_path / "r.json").read_text())["status"] == "converged"


@posix
def test_where_there_is_nothing_to_save(program, tmp_path):
    done = program(LOADING)
    expected = (143, "", "condgrad: interrupted (SIGTERM)\n")
    assert (done.returncode, done.stdout, done.stderr) == expected
    assert not (tmp_path / "r.json").exists()


@posix
def test_an_answer_that_needs_numba_while_numba_is_at_work(tmp_path):
    """Its lock is free again before the main thread stands still."""
    (tmp_path / "condgrad").write_text(COMPILING)
    env = {**os.environ, "PYTHONPATH": str(Path(cg.__file__).parents[1])}
    done = processes.run(sys.executable, str(tmp_path / "condgrad"), env=env)
    assert (done.returncode, done.stdout, done.stderr) == (130, "answer 3\n", "")


@pytest.fixture
def armed(monkeypatch):
    """As in the program."""
    state = _keyboard._State()
    state.armed = True
    monkeypatch.setattr(_keyboard, "_state", state)
    return state


def test_offers_make_one_answer(armed):
    assert _keyboard.answer() is None
    with _keyboard.offers(lambda inner: None if inner is None else f"<{inner}>") as outer:
        assert not armed.root.any()
        with _keyboard.offers(lambda _: "run", source=True) as inner:
            assert armed.root.any()
            assert _keyboard.answer() == "<run>"
            assert inner.keep("result") == "result"
        assert _keyboard.answer() == "<result>"
        with _keyboard.offers(lambda _: "next"):
            assert _keyboard.answer() == "<next>"
        assert outer.keep("outcome") == "outcome"
    assert _keyboard.answer() == "outcome"


def test_an_answer_counts_until_the_next_place_has_one(armed):
    with _keyboard.offers(lambda _: "first", source=True):
        pass
    with _keyboard.offers(lambda inner: inner) as second:
        assert _keyboard.answer() == "first"
        assert _keyboard._state.root.any()
        second.keep("second")
    assert _keyboard.answer() == "second"
    with _keyboard.offers(lambda _: None):
        assert (_keyboard.answer(), _keyboard._state.root.any()) == ("second", True)


def test_offers_that_fail_are_forgotten(armed):
    with pytest.raises(ValueError, match="odd"), _keyboard.offers(lambda _: "run"):
        raise ValueError("odd")
    assert _keyboard.answer() is None
    armed.came = signal.SIGINT
    with pytest.raises(KeyboardInterrupt), _keyboard.offers(lambda _: "run"):
        raise KeyboardInterrupt
    assert _keyboard.answer() == "run"


def test_other_programs_and_threads_offer_nothing(armed):
    found = []

    def other():
        with _keyboard.offers(lambda _: "run") as offer:
            found.extend([_keyboard.answer(), offer.keep("kept")])

    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    armed.armed = False
    other()
    assert found == [None, "kept"] * 2


def test_what_a_signal_is_called(armed):
    assert (_keyboard.code(), _keyboard.by()) == (130, "")
    armed.came = signal.SIGTERM
    assert (_keyboard.code(), _keyboard.by()) == (143, " (SIGTERM)")
