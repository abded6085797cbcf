"""Ctrl-C held back while something is done that cannot be done by half.

An interrupted import of Numba leaves tables half filled, and the next one fails with another
exception; interrupted while it compiles Numba may lose the exception, or crash. In the program
`condgrad` the handlers of `_early` and `_keyboard` see to that.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


@contextmanager
def held() -> Iterator[None]:
    """A context at whose end the `KeyboardInterrupt` of a Ctrl-C within is raised.

    Whatever handler of Python is there gets the signal then; one of this package gets it at once.
    """
    before = signal.getsignal(signal.SIGINT)
    ours = str(getattr(before, "__module__", "")).partition(".")[0] == "condgrad"
    main = threading.current_thread() is threading.main_thread()
    if ours or not main or not callable(before):
        yield
        return
    came: list[FrameType | None] = []

    def wait(signum: int, frame: FrameType | None) -> None:
        came.append(frame)

    try:
        signal.signal(signal.SIGINT, wait)
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if came:
            before(signal.SIGINT, came[0])


def whole(function: Callable[P, T]) -> Callable[P, T]:
    """The function, within `held`."""

    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        with held():
            return function(*args, **kwargs)

    return call
