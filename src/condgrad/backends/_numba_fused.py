"""Compiled passes over the rows of a family, written once over its two kernels.

A family brings `sweep`, which writes the images of a range of rows to an array, and `add`, their
adjoint. Its passes are the functions here with these two in place of the placeholders. A chunk of
rows stays in the nearest cache between the steps of a pass.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import cache
from types import FunctionType
from typing import Any

import numpy as np
from numba.core.registry import CPUDispatcher

from condgrad._types import Array
from condgrad.backends._numba_cache import njit
from condgrad.backends.contract import Drivers

CHUNK = 4096
"""Rows at a time."""
REORDER = {"reassoc", "contract"}


def sweep(W: Array, start: int, stop: int, out: Array) -> None:
    """Placeholder: the images of the rows start … stop − 1."""


def add(G: Array, start: int, stop: int, y: Array) -> None:
    """Placeholder: their adjoint, G += Σ y_l a_l."""


def dual(
    W: Array,
    G: Array,
    y: Array,
    slopes: Array,
    ends: Array,
    lower: float,
    upper: float,
    beta: float,
    theta: float,
) -> None:
    real, wide = y.dtype.type, G.dtype.type
    b, t, low, high = real(1 / beta), real(theta), real(lower / beta), real(upper / beta)
    buffer = np.empty(CHUNK, W.dtype)
    for r in range(ends.shape[0]):
        start, stop = ends[r, 0], ends[r, 1]
        skip = start - ends[r, 2] if ends.shape[1] == 3 else 0
        for i in range(start, stop, CHUNK):
            j = min(i + CHUNK, stop)
            sweep(W, i, j, buffer)
            z, some_y = buffer[: j - i], y[i - skip : j - skip]
            some_slopes = slopes[i - skip : j - skip]
            for s in range(j - i):
                old = some_y[s]
                x = old + b * real(z[s])
                g = x - min(max(x, low), high)
                z[s] = wide(g) - wide(some_slopes[s])
                some_slopes[s] = g
                some_y[s] = old + t * (g - old)
            add(G, i, j, buffer)


def ascend(
    W: Array, G: Array, y: Array, ends: Array, lower: float, upper: float, beta: float
) -> float:
    real, wide, total = y.dtype.type, G.dtype.type, 0.0
    b, low, high = real(1 / beta), real(lower / beta), real(upper / beta)
    buffer = np.empty(CHUNK, W.dtype)
    for r in range(ends.shape[0]):
        start, stop = ends[r, 0], ends[r, 1]
        skip = start - ends[r, 2] if ends.shape[1] == 3 else 0
        for i in range(start, stop, CHUNK):
            j = min(i + CHUNK, stop)
            sweep(W, i, j, buffer)
            z, some = buffer[: j - i], y[i - skip : j - skip]
            for s in range(j - i):
                x = some[s] + b * real(z[s])
                new = x - min(max(x, low), high)
                change = wide(new) - wide(some[s])
                total += change * change
                z[s] = change
                some[s] = new
            add(G, i, j, buffer)
    return total


def squares(D: Array, slopes: Array, ends: Array) -> float:
    total = 0.0
    buffer = np.empty(CHUNK, D.dtype)
    for r in range(ends.shape[0]):
        start, stop = ends[r, 0], ends[r, 1]
        skip = start - ends[r, 2] if ends.shape[1] == 3 else 0
        for i in range(start, stop, CHUNK):
            j = min(i + CHUNK, stop)
            sweep(D, i, j, buffer)
            z, some = buffer[: j - i], slopes[i - skip : j - skip]
            for s in range(j - i):
                total += z[s] * z[s] * (some[s] != 0)
    return total


@njit(cache=True, nogil=True, fastmath={"reassoc", "nnan", "nsz"})
def largest(z: Array, low: float, high: float) -> float:
    # NaN plays no part here (it shows in the sums), or the loop would not vectorise.
    worst = z.dtype.type(0)
    for s in range(z.size):
        worst = max(worst, abs(z[s] - min(max(z[s], low), high)))
    return worst


def miss(W: Array, start: int, stop: int, lower: float, upper: float) -> tuple[float, float, float]:
    total, images, worst = 0.0, 0.0, 0.0
    low, high = W.dtype.type(lower), W.dtype.type(upper)
    buffer = np.empty(CHUNK, W.dtype)
    for i in range(start, stop, CHUNK):
        j = min(i + CHUNK, stop)
        sweep(W, i, j, buffer)
        z = buffer[: j - i]
        for s in range(j - i):
            r = z[s] - min(max(z[s], low), high)
            total += r * r
            images += z[s] * z[s]
        worst = max(worst, largest(z, low, high))
    return total, images, worst


def merit(
    W: Array,
    y: Array,
    start: int,
    stop: int,
    lower: float,
    upper: float,
    beta: float,
    skip: int = 0,
) -> tuple[float, float]:
    total, lengths = 0.0, 0.0
    buffer = np.empty(CHUNK, W.dtype)
    for i in range(start, stop, CHUNK):
        j = min(i + CHUNK, stop)
        sweep(W, i, j, buffer)
        z, some = buffer[: j - i], y[i - skip : j - skip]
        for s in range(j - i):
            x = np.float64(z[s]) + beta * some[s]
            r = x - min(max(x, lower), upper)
            total += r * r
            lengths += np.float64(some[s]) * some[s]
    return total, lengths


def pair(
    W: Array,
    images: bool,
    G: Array,
    y: Array,
    start: int,
    stop: int,
    low: float,
    high: float,
    skip: int = 0,
) -> tuple[float, float, float]:
    above, below, product = 0.0, 0.0, 0.0
    z, inside = np.empty(CHUNK, W.dtype), np.empty(CHUNK, G.dtype)
    for i in range(start, stop, CHUNK):
        j = min(i + CHUNK, stop)
        some = y[i - skip : j - skip]
        if images:
            sweep(W, i, j, z)
        for s in range(j - i):
            v = min(max(np.float64(some[s]), low), high)
            inside[s] = v
            above += max(v, 0.0)
            below += max(-v, 0.0)
        for s in range(j - i if images else 0):
            product += inside[s] * z[s]
        add(G, i, j, inside)
    return above, below, product


@cache
def fused(sweep: str | Callable[..., None], add: str | Callable[..., None]) -> Drivers:
    own = importlib.import_module("condgrad.backends._numba")
    named = [getattr(own, f) if isinstance(f, str) else f for f in (sweep, add)]
    kernels = [f if isinstance(f, CPUDispatcher) else njit(nogil=True)(f) for f in named]
    sums = [_over(driver, *kernels, fastmath=REORDER) for driver in (miss, merit, squares, pair)]
    return Drivers(
        _over(ascend, *kernels, fastmath=REORDER - {"contract"}), _over(dual, *kernels), *sums
    )


def _over(driver: Callable[..., Any], sweep: Any, add: Any, **options: Any) -> Callable[..., Any]:
    """A driver with the kernels of a family, compiled.

    It is cached beside the family's file, and its own code is part of the key: a change of either
    compiles it anew.
    """
    here = sweep.py_func
    code = driver.__code__.replace(co_filename=here.__code__.co_filename)
    name = f"{here.__qualname__}_{driver.__name__}".replace("<locals>.", "")
    own = FunctionType(
        code, {**driver.__globals__, "sweep": sweep, "add": add}, name, driver.__defaults__
    )
    own.__qualname__, own.__module__ = name, here.__module__
    return njit(cache=sweep.stats.cache_path is not None, nogil=True, **options)(own)
