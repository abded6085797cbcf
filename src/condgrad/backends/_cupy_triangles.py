"""The passes over triangle rows on a GPU; `_cupy` hands them out.

Their tables lie in tiles (`condgrad.backends.tiles`). Ranges of rows must be whole apexes, which is
what `Triangles.stretch` draws.
"""

from __future__ import annotations

import time
from enum import IntEnum
from functools import cache
from typing import Any

import cupy as cp
import numpy as np

from condgrad._types import Array
from condgrad.backends import tiles
from condgrad.backends._cupy_source import SOURCE
from condgrad.backends.contract import Drivers

THREADS = 256
WAVES = 8
"""Blocks for each multiprocessor that a pass is cut into."""
BUFFER = 1 << 30
"""Bytes for sums over the rows and columns of tiles."""

spent = 0.0
"""Seconds spent compiling."""


class Sums(IntEnum):
    """What the kernel `sums` adds up, r = x − clip(x, lower, upper)."""

    MISS = 0
    """Σ r², Σ z² and max |r| with x = z."""
    MERIT = 1
    """Σ r² and Σ y² with x = z + βy."""
    SQUARES = 2
    """Σ z² where y ≠ 0."""
    PRICE = 3
    """Σ |y r| with x = z."""


@cache
def module(real: str) -> Any:
    """The kernels for tables of a type."""
    global spent
    began = time.perf_counter()
    name = {"float32": "float", "float64": "double"}[real]
    found = cp.RawModule(code=SOURCE, options=("-std=c++17", f"-DREAL={name}"))
    found.get_function("ascend")
    spent += time.perf_counter() - began
    return found


@cache
def processors() -> int:
    """Multiprocessors of the GPU."""
    return int(cp.cuda.Device().attributes["MultiProcessorCount"])


@cache
def kernel(real: str, name: str) -> Any:
    """One of them."""
    return module(real).get_function(name)


def launch(real: np.dtype, name: str, grid: tuple[int, ...], *arguments: Any) -> None:
    """Run a kernel; integers and floats among the arguments have the types of the kernel."""
    kernel(real.name, name)(grid, (THREADS,), arguments)


class Pass:
    """How a pass over some apexes is dealt out to blocks, a batch of apexes at a time."""

    def __init__(self, W: Array, apexes: Array, real: np.dtype, wide: bool = False) -> None:
        n = W.shape[0]
        self.n, self.across, self.tiles = np.int32(n), np.int32(tiles.across(n)), tiles.count(n)
        dtype = np.dtype(np.float64) if wide else real
        side = int(self.across) * tiles.SIDE
        self.W = cp.zeros((side, side), dtype)
        self.W[:n, :n] = W
        most = max(1, BUFFER // (self.tiles * 128 * dtype.itemsize))
        self.batches = [apexes[i : i + most] for i in range(0, apexes.size, most)]

    def split(self, count: int) -> tuple[int, int]:
        """Parts that so many apexes are cut into, and how many each has."""
        parts = min(count, max(1, -(-WAVES * processors() // self.tiles)))
        per = -(-count // parts)
        return -(-count // per), per


def apexes_of(n: int, ends: Array) -> Array:
    """The apexes whose rows ranges hold."""
    pairs = (n - 1) * (n - 2) // 2
    if (np.asarray(ends) % pairs).any():
        raise ValueError("ranges of triangle rows on a GPU are whole apexes")
    ranges = [np.arange(start // pairs, stop // pairs, dtype=np.int32) for start, stop in ends]
    return np.concatenate(ranges)


def ascend(
    W: Array, G: Array, y: Array, ends: Array, lower: float, upper: float, beta: float
) -> float:
    """`Drivers.ascend`."""
    real, total = y.dtype, 0.0
    bounds = [real.type(x) for x in (1 / beta, lower / beta, upper / beta)]
    p, D = Pass(W, apexes_of(W.shape[0], ends), real), cp.zeros(W.shape)
    for some in p.batches:
        parts, per = p.split(some.size)
        at, count = cp.asarray(some), np.int32(some.size)
        sums = cp.empty(p.tiles * some.size * 128, real)
        pairs = cp.empty(parts * p.tiles * 4096, real)
        squares = cp.empty(parts * p.tiles)
        first = (p.W, p.n, p.across, at, count, np.int32(per))
        launch(real, "ascend", (p.tiles, parts), *first, y, *bounds, sums, pairs, squares)
        launch(real, "fold", (some.size,), D, sums, at, count, p.n, p.across)
        launch(real, "add_pairs", (p.tiles, 16), D, pairs, np.int32(parts), p.n, p.across)
        total += float(squares.sum())
    G += D.astype(G.dtype, copy=False)
    return total


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
    """`Drivers.dual`."""
    real = y.dtype
    scalars = [real.type(x) for x in (1 / beta, lower / beta, upper / beta, theta)]
    p, D = Pass(W, apexes_of(W.shape[0], ends), real), cp.zeros(W.shape)
    for some in p.batches:
        parts, per = p.split(some.size)
        at, count = cp.asarray(some), np.int32(some.size)
        sums = cp.empty(p.tiles * some.size * 128, real)
        pairs = cp.empty(parts * p.tiles * 4096, real)
        first = (p.W, p.n, p.across, at, count, np.int32(per))
        launch(real, "dual", (p.tiles, parts), *first, y, slopes, *scalars, sums, pairs)
        launch(real, "fold", (some.size,), D, sums, at, count, p.n, p.across)
        launch(real, "add_pairs", (p.tiles, 16), D, pairs, np.int32(parts), p.n, p.across)
    G += D.astype(G.dtype, copy=False)


def pair(
    W: Array, images: bool, G: Array, y: Array, start: int, stop: int, low: float, high: float
) -> tuple[float, float, float]:
    """`Drivers.pair`, summed in float64 whatever the table is."""
    real, totals = y.dtype, np.zeros(3)
    p = Pass(W, apexes_of(W.shape[0], np.array([[start, stop]])), real, wide=True)
    D = cp.zeros(W.shape)
    for some in p.batches:
        parts, per = p.split(some.size)
        at, count = cp.asarray(some), np.int32(some.size)
        sums, found = cp.empty(p.tiles * some.size * 128), cp.empty((3, parts * p.tiles))
        pairs = cp.empty(parts * p.tiles * 4096)
        first = (p.W, np.int32(images), p.n, p.across, at, count, np.int32(per))
        ends = np.float64(low), np.float64(high)
        launch(real, "pair", (p.tiles, parts), *first, y, *ends, sums, pairs, found)
        launch(real, "fold_wide", (some.size,), D, sums, at, count, p.n, p.across)
        launch(real, "add_pairs_wide", (p.tiles, 16), D, pairs, np.int32(parts), p.n, p.across)
        totals += found.sum(axis=1).get()
    G += D.astype(G.dtype, copy=False)
    return float(totals[0]), float(totals[1]), float(totals[2])


def summed(
    kind: Sums,
    W: Array,
    y: Array | None,
    ends: Array,
    lower: float = 0.0,
    upper: float = 0.0,
    beta: float = 0.0,
) -> tuple[float, float, float]:
    """The sums of a kind over ranges of rows."""
    real = np.dtype(np.float32) if y is None else y.dtype
    p = Pass(W, apexes_of(W.shape[0], ends), real, wide=True)
    one, two, worst = 0.0, 0.0, 0.0
    scalars = [np.float64(x) for x in (lower, upper, beta)]
    for some in p.batches:
        parts, per = p.split(some.size)
        found = cp.empty((3, parts * p.tiles))
        first = (p.W, np.int32(kind), p.n, p.across, cp.asarray(some), np.int32(some.size))
        table = cp.empty(0, real) if y is None else y
        launch(real, "sums", (p.tiles, parts), *first, np.int32(per), table, *scalars, found)
        add, more = found[:2].sum(axis=1).get()
        one, two, worst = one + float(add), two + float(more), max(worst, float(found[2].max()))
    return one, two, worst


def miss(W: Array, start: int, stop: int, lower: float, upper: float) -> tuple[float, float, float]:
    """`Drivers.miss`."""
    return summed(Sums.MISS, W, None, np.array([[start, stop]]), lower, upper)


def merit(
    W: Array, y: Array, start: int, stop: int, lower: float, upper: float, beta: float
) -> tuple[float, float]:
    """`Drivers.merit`."""
    return summed(Sums.MERIT, W, y, np.array([[start, stop]]), lower, upper, beta)[:2]


def squares(D: Array, slopes: Array, ends: Array) -> float:
    """`Drivers.squares`."""
    return summed(Sums.SQUARES, D, slopes, ends)[0]


def triangle_price(
    point: Array, y: Array, start: int, stop: int, lower: float, upper: float
) -> float:
    """Σ |y_l r_l|, r the residuals at a point."""
    return summed(Sums.PRICE, point, y, np.array([[start, stop]]), lower, upper)[0]


def triangle_square(y: Array) -> float:
    """Σ y² of a table."""
    blocks = WAVES * processors()
    found = cp.empty(blocks)
    launch(y.dtype, "square", (blocks,), y, np.int64(y.size // 4), found)
    return float(found.sum())


DRIVERS = Drivers(ascend, dual, miss, merit, squares, pair)
"""All of them."""
