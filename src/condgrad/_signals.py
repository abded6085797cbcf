"""Signals: what ends the program `condgrad`, and what waits until it does no harm.

In the program SIGINT (Ctrl-C), SIGTERM and SIGHUP raise `KeyboardInterrupt`: a run that is at work
ends with what it has. While the answer is printed and written they wait. A second signal ends the
process at once, without files that are not whole. While the package loads the first one does, with
one line: so this module is loaded before all others. If another program imports the package, its
handlers stay, and `held` delays them.
"""

from __future__ import annotations

import _thread
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, NoReturn, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

NAMES = ("SIGINT", "SIGTERM", "SIGHUP")
SIGNALS = tuple(getattr(signal, name) for name in NAMES if hasattr(signal, name))
"""The signals that end the program."""
SOON = 0.1
"""Seconds after which an interruption that Python could not raise is tried again."""
_came: list[int] = []
"""The signal that has interrupted the program."""
_waiting: list[int] = []
"""The signal that came while none is raised."""


def is_program() -> bool:
    """Whether this process was started as ``condgrad`` or ``python -m condgrad``."""
    name, words = (getattr(sys, "argv", None) or [""])[0], sys.orig_argv
    if name == "-m":  # Python is still looking for the module
        return "condgrad" in words[words.index("-m") + 1 :][:1]
    return name in words and os.path.splitext(os.path.basename(name))[0] == "condgrad"


def came() -> bool:
    """Whether a signal has interrupted the program."""
    return bool(_came or _waiting)


def code() -> int:
    """The exit code of a program that a signal, or else the keyboard, ended."""
    return 128 + (*_came, *_waiting, int(signal.SIGINT))[0]


def by() -> str:
    """The name of the signal in brackets, or nothing."""
    return f" ({signal.Signals(code() - 128).name})" if came() else ""


def line() -> str:
    """Sentence of an interruption that leaves nothing to save."""
    return f"condgrad: interrupted{by()}\n"


def end(signum: int, frame: FrameType | None = None) -> NoReturn:
    """End the process at once; files that are not whole are removed."""
    files: Any = sys.modules.get("condgrad._files")
    if hasattr(files, "abandon"):
        files.abandon()
    os._exit(128 + signum)


def interrupt(signum: int, frame: FrameType | None = None) -> NoReturn:
    """Raise `KeyboardInterrupt`, but end the process if that was done before."""
    if _came:
        end(signum)
    _came.append(signum)
    raise KeyboardInterrupt


def ready() -> None:
    """From now on signals interrupt the program."""
    _came.clear()
    _waiting.clear()
    _replace((_loading,), interrupt)
    if is_program():
        sys.unraisablehook = _unraisable


def writing() -> None:
    """From now on one signal changes the exit code alone, as there is an answer."""
    _replace((interrupt,), _wait)


def done() -> None:
    """Let a first signal not change the exit code while Python takes the process down."""
    if not came():
        _replace((_loading, interrupt, _wait), signal.SIG_IGN)


@contextmanager
def held() -> Iterator[None]:
    """A context at whose end a signal that came within has its effect, such as `KeyboardInterrupt`.

    An interrupted import of Numba leaves tables half filled, and the next one fails with another
    exception. Interrupted while it compiles Numba may lose the exception, or crash.
    """
    main = threading.current_thread() is threading.main_thread()
    before = {n: h for n in SIGNALS if main and callable(h := signal.getsignal(n))}
    if _wait in before.values():
        before = {}
    try:
        for number in before:
            signal.signal(number, _wait)
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if before:
            waiting, _waiting[:] = dict.fromkeys(_waiting), []
            for number in waiting:
                before[number](number, None)


def whole(function: Callable[P, T]) -> Callable[P, T]:
    """The function, within `held`."""

    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        with held():
            return function(*args, **kwargs)

    return call


def _wait(signum: int, frame: FrameType | None) -> None:
    if _waiting and is_program():
        end(signum)
    _waiting.append(signum)


def _loading(signum: int, frame: FrameType | None) -> NoReturn:
    _came.append(signum)
    try:
        os.write(2, line().encode())
    finally:
        end(signum)


def _replace(before: tuple[Any, ...], handler: Any) -> None:
    """Set a handler where one of those before is."""
    for number in SIGNALS:
        if signal.getsignal(number) in before:
            signal.signal(number, handler)


def _unraisable(unraisable: Any) -> None:
    """Interrupt once more a moment later, as after one in a callback of C, which loses it."""
    if _came and isinstance(unraisable.exc_value, KeyboardInterrupt):
        threading.Timer(SOON, _thread.interrupt_main, (_came.pop(),)).start()
    else:
        sys.__unraisablehook__(unraisable)


if is_program():
    _replace((signal.SIG_DFL, signal.default_int_handler), _loading)
