"""The clock of a call: one deadline, made at the door and asked by all that takes long.

`limited` makes it where a user's `max_seconds` comes in, and calls inside of that one can only make
it earlier. Loops end at the limit (`over`). After it there is a fifth of the limit and half a
second for what makes an answer of it: a last certificate, a rounding. Work that cannot be stopped,
such as an eigenvalue routine of LAPACK, is not begun where it would pass that end (`job`,
`require`): then `OutOfTime` is raised, and who began the call answers with what there is. Without a
limit nothing here has any effect.
"""

from __future__ import annotations

import inspect
import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import wraps
from numbers import Real
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

STARTED = time.perf_counter()
"""Time at which the package was imported: the program's own clock."""
SHARE, MORE = 0.2, 0.5
"""After the limit so much of it, and so many seconds, are for the answer; half a second more, which
nobody may use, is for handing it out."""
GLANCE, CROWDED = 0.5, 5.0
"""Seconds after which others on the processor are taken into account, and how much at most."""
SIDE = 300
"""Side of the matrices whose product is timed."""
VALUES, VECTORS, CHOLESKY, SINGULAR = 3.0, 6.0, 0.5, 12.0
"""Time of LAPACK's routines, in products of matrices of the same side: all eigenvalues, those with
their vectors, a factorisation, singular values with their vectors."""
PROOF = VALUES + CHOLESKY
"""Time of a proof of an extreme eigenvalue by LAPACK, in such products."""


class OutOfTime(Exception):
    """The time of a call is up, or not enough for what comes next."""


@dataclass(frozen=True)
class Deadline:
    """Times of a call, by `time.perf_counter`."""

    limit: float
    """Time at which loops end."""
    end: float
    """Time at which the answer must be complete."""
    began: float
    """Time at which the outermost call began."""
    spent: float
    """Processor time of this process when the outermost call began, in seconds."""


_current: ContextVar[Deadline | None] = ContextVar("deadline", default=None)
_speed: dict[str, float] = {}


@contextmanager
def within(seconds: Any, since: float | None = None) -> Iterator[None]:
    """End what is in the block so many seconds after `since` (default: now), if not before.

    What is no number of seconds is no limit: `Limits` refuses it.
    """
    number = isinstance(seconds, Real) and not isinstance(seconds, bool)
    if not number or not 0 <= seconds < math.inf:
        yield
        return
    began, spent = time.perf_counter(), time.process_time()
    limit = (began if since is None else since) + float(seconds)
    end, outer = limit + SHARE * float(seconds) + MORE, _current.get()
    if outer is not None:
        limit, end = min(limit, outer.limit), min(end, outer.end)
        began, spent = outer.began, outer.spent
    token = _current.set(Deadline(limit, end, began, spent))
    try:
        yield
    finally:
        _current.reset(token)


@contextmanager
def lifted() -> Iterator[None]:
    """Without a limit: what is in the block is short, and must not be left half done."""
    token = _current.set(None)
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
    return _current.get() is not None


def left() -> float:
    """Seconds to the limit, negative after it."""
    now = _current.get()
    return math.inf if now is None else now.limit - time.perf_counter()


def room() -> float:
    """Seconds to the end of all that follows the limit."""
    now = _current.get()
    return math.inf if now is None else now.end - time.perf_counter()


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


def require(seconds: float) -> None:
    """Raise `OutOfTime` where so many seconds more are not in time."""
    if not fits(seconds):
        raise OutOfTime


def check() -> None:
    """Raise `OutOfTime` where a preparation takes so long that there is little time to answer."""
    if left() + room() <= 0:
        raise OutOfTime


def cost(side: float, products: float) -> float:
    """About the seconds of so many products of matrices of that side, 0 where nobody asks.

    Two small matrices are multiplied once; how slow the latest job was counts, and how much of the
    processor others have left us.
    """
    if _current.get() is None:
        return 0.0
    if "product" not in _speed:
        import numpy as np  # this module is the first that the program loads

        X, spent = np.ones((SIDE, SIDE)), []
        for _ in range(3):
            began = time.perf_counter()
            X @ X
            spent.append(time.perf_counter() - began)
        _speed["product"] = min(spent) / SIDE**3
    pace = max(_speed.get("slower", 1.0), _crowd())
    return _speed["product"] * products * float(side) ** 3 * pace


def _crowd() -> float:
    """By how much others slow us down: the time of the call so far, in that of the processor."""
    now = _current.get()
    if now is None:
        return 1.0
    wall, own = time.perf_counter() - now.began, time.process_time() - now.spent
    return 1.0 if wall < GLANCE else min(max(wall / max(own, 1e-9), 1.0), CROWDED)


@contextmanager
def job(side: float, products: float, asked: bool = False) -> Iterator[None]:
    """Work that cannot be stopped; see `cost`. Where it was `asked` before it is begun."""
    if _current.get() is None:
        yield
        return
    expected = cost(side, products)
    if not asked:
        require(expected)
    began = time.perf_counter()
    yield
    if side >= SIDE:  # less says little of large ones
        ratio = (time.perf_counter() - began) / max(expected, 1e-9) * _speed.get("slower", 1.0)
        _speed["slower"] = min(max(ratio, 0.5 * _speed.get("slower", 1.0), 1.0), 20.0)
