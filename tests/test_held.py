"""Ctrl-C while Numba is imported or compiles: it is a `KeyboardInterrupt`, once that is done."""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import condgrad
import processes
from condgrad._signals import held

HOOK = """
import signal, sys

class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == "numba.core.types":
            signal.raise_signal(signal.SIGINT)

sys.meta_path.insert(0, Interrupt())
import numpy as np
from condgrad.backends import ops

at, here, out = np.arange(3), np.ones((3, 1)), np.zeros(3)
try:
    ops.pair_dots(at, at, here, here, out)
except KeyboardInterrupt:
    print("interrupted")
ops.pair_dots(at, at, here, here, out)
print(out)
"""


def test_the_signal_comes_at_the_end():
    before, seen = signal.getsignal(signal.SIGINT), []

    def whole():
        with held():
            with held():
                signal.raise_signal(signal.SIGINT)
                seen.append("inside")
            seen.append("outside")
        seen.append("after")

    with pytest.raises(KeyboardInterrupt):
        whole()
    assert seen == ["inside", "outside"]
    assert signal.getsignal(signal.SIGINT) is before


def test_a_handler_of_the_user_gets_it_once():
    got = []
    before = signal.signal(signal.SIGINT, lambda *args: got.append(args[0]))
    try:
        with held():
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)
            assert not got
        assert got == [signal.SIGINT]
    finally:
        signal.signal(signal.SIGINT, before)


def test_other_threads_hold_nothing():
    seen = []

    def other():
        with held():
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    assert seen == [signal.getsignal(signal.SIGINT)]


def test_while_a_kernel_compiles():
    event = pytest.importorskip("numba.core.event")
    from condgrad.backends._numba_cache import njit

    @njit()
    def twice(x):
        return 2 * x

    class Impatient(event.Listener):
        def on_start(self, event):
            signal.raise_signal(signal.SIGINT)

        def on_end(self, event):
            pass

    with event.install_listener("numba:compile", Impatient()), pytest.raises(KeyboardInterrupt):
        twice(np.arange(3))
    assert len(twice.signatures) == 1  # it was compiled to the end
    assert twice(np.arange(3)).tolist() == [0, 2, 4]


def test_while_numba_is_imported():
    pytest.importorskip("numba")
    source = str(Path(condgrad.__file__).parents[1])
    done = processes.run(sys.executable, "-c", HOOK, env={**os.environ, "PYTHONPATH": source})
    assert (done.returncode, done.stdout) == (0, "interrupted\n[1. 1. 1.]\n"), done.stderr
