"""The clock of a call: one deadline, made at the door and asked by loops.

`limited` makes it where a user's `max_seconds` comes in, and calls inside of that one can only make
it earlier. Loops end at the limit (`over`). After it there is a fifth of the limit and half a
second for what makes an answer of it: a last certificate, a rounding. Work of known cost is not
begun where it would pass that end (`fits`); nothing is broken off. Without a limit nothing here has
any effect.
"""

from __future__ import annotations

import inspect
import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache, wraps
from numbers import Real
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

STARTED = time.perf_counter()
"""Time at which the package was imported: the program's own clock."""
SHARE, MORE = 0.2, 0.5
"""After the limit so much of it, and so many seconds, are for the answer; half a second more, which
nobody may use, is for handing it out."""
SIDE = 300
"""Side of the matrices whose product is timed."""
VALUES, VECTORS, CHOLESKY = 3.0, 6.0, 0.5
"""Time of LAPACK's routines, in products of matrices of the same side: all eigenvalues, those with
their vectors, a factorisation."""
PROOF = VALUES + CHOLESKY
"""Time of a proof of an extreme eigenvalue by LAPACK, in such products."""

_current: ContextVar[tuple[float, float]] = ContextVar("deadline", default=(math.inf, math.inf))
"""The time at which loops end, and that at which the answer must be complete."""


@contextmanager
def within(seconds: Any, since: float | None = None) -> Iterator[None]:
    """End what is in the block so many seconds after `since` (default: now), if not before.

    What is no number of seconds is no limit: `Limits` refuses it.
    """
    number = isinstance(seconds, Real) and not isinstance(seconds, bool)
    if not number or not 0 <= seconds < math.inf:
        yield
        return
    limit = (time.perf_counter() if since is None else since) + float(seconds)
    first, last = _current.get()
    token = _current.set((min(limit, first), min(limit + SHARE * float(seconds) + MORE, last)))
    try:
        yield
    finally:
        _current.reset(token)


def limited(call: Callable[P, T]) -> Callable[P, T]:
    """Hold a function to its argument `max_seconds`, wherever that is."""
    signature = inspect.signature(call)
    declared = signature.parameters.get("max_seconds")
    default = None if declared is None else declared.default
    place = list(signature.parameters).index("max_seconds") if declared is not None else math.inf

    @wraps(call)
    def inner(*args: P.args, **kwargs: P.kwargs) -> T:
        seconds: Any = kwargs.get("max_seconds", default)
        if place < len(args):
            seconds = args[int(place)]
        with within(seconds):
            return call(*args, **kwargs)

    return inner


def is_set() -> bool:
    """Whether there is a limit."""
    return left() < math.inf


def left() -> float:
    """Seconds to the limit, negative after it."""
    return _current.get()[0] - time.perf_counter()


def room() -> float:
    """Seconds to the end of all that follows the limit."""
    return _current.get()[1] - time.perf_counter()


def share(part: float) -> float:
    """When a search that can end at any time should, by `time.perf_counter`.

    It may have that part of the time to the limit and, after it, half of what is left.
    """
    if not is_set():
        return math.inf
    return time.perf_counter() + max(part * left(), 0.5 * min(room(), room() - left()))


def over() -> bool:
    """Whether the limit has passed."""
    return left() <= 0


def fits(seconds: float) -> bool:
    """Whether so many seconds more are in time."""
    return seconds <= room()


def cost(side: float, products: float) -> float:
    """About the seconds of so many products of matrices of that side, 0 where nobody asks."""
    return _product() / SIDE**3 * products * float(side) ** 3 if is_set() else 0.0


@cache
def _product() -> float:
    """Seconds of a product of two matrices of the side `SIDE`, the least of three."""
    import numpy as np  # this module is the first that the program loads

    X, spent = np.ones((SIDE, SIDE)), []
    for _ in range(3):
        began = time.perf_counter()
        X @ X
        spent.append(time.perf_counter() - began)
    return min(spent)
