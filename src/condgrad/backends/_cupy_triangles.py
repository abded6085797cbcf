"""The passes over triangle rows on a GPU; `_cupy` hands them out.

Their tables lie in tiles (`condgrad.backends.tiles`). Ranges of triangle rows must be whole apexes,
which is what `Triangles.stretch` draws. The same kernels, compiled with other signs, serve
perimeter rows, of which an apex has as many as there are pairs below it: a range stands for the
apexes whose first row is in it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from enum import IntEnum
from functools import cache, lru_cache, partial
from typing import Any, NamedTuple, cast

import cupy as cp
import numpy as np

from condgrad._types import Array
from condgrad.backends import _cupy_source, tiles
from condgrad.backends._cupy_entries import axpy
from condgrad.backends.contract import Drivers
from condgrad.backends.tiles import apexes_of, salt, split

THREADS = 256
RESIDENT = 2
"""Blocks that a multiprocessor works on at a time."""
TYPES = {"float32": ("float", 0), "float64": ("double", 0), tiles.HALF.name: ("float", 1)}
"""The type of the work on a table, and whether the table is in bfloat16, by its type."""
WIDE = np.dtype(np.float64)
Share = tuple[int, int] | None
"""The first tile of a table and how many it has, where others are elsewhere."""

spent = 0.0
"""Seconds spent compiling."""


class Sums(IntEnum):
    """Sums that the kernel of that number makes, r = x − clip(x, lower, upper)."""

    MISS = 0
    """Σ r², Σ z² and max |r| with x = z."""
    MERIT = 1
    """Σ r² and Σ y² with x = z + βy."""
    SQUARES = 2
    """Σ z² where y ≠ 0."""
    PRICE = 3
    """Σ |y r| with x = z."""


@cache
def module(table: str, perimeters: bool, share: Share = None) -> Any:
    """The kernels for tables of a type, of triangle or of perimeter rows, whole or of a share."""
    global spent
    began = time.perf_counter()
    name, half = TYPES[table]
    rows = f"-DPERIMETER={int(perimeters)}"
    own = () if share is None else (f"-DSKIP={share[0]}", f"-DHELD={share[1]}")
    options = ("-std=c++17", f"-DREAL={name}", f"-DHALF={half}", rows, *own)
    found = cp.RawModule(code=_cupy_source.SOURCE, options=options)
    found.get_function("ascend")
    spent += time.perf_counter() - began
    return found


@cache
def processors() -> int:
    """Multiprocessors of the GPU."""
    return int(cp.cuda.Device().attributes["MultiProcessorCount"])


@cache
def kernel(table: np.dtype, name: str, perimeters: bool = False, share: Share = None) -> Any:
    """One of them."""
    return module(table.name, perimeters, share).get_function(name)


def launch(
    table: np.dtype,
    name: str,
    grid: tuple[int, ...],
    *arguments: Any,
    perimeters: bool = False,
    share: Share = None,
) -> None:
    """Run a kernel; integers and floats among the arguments have the types of the kernel."""
    kernel(table, name, perimeters, share)(grid, (THREADS,), arguments)


def work(table: np.dtype) -> np.dtype:
    """The type of the work on a table."""
    return np.dtype(np.float32) if table == tiles.HALF else table


@cache
def padded() -> Any:
    """A kernel that writes a matrix of side n to one of a larger side, with zeros around it."""
    return cp.ElementwiseKernel(
        "raw S W, int32 n, int32 side",
        "T out",
        "int r = i / side, c = i % side; out = r < n && c < n ? (T)W[(size_t)r * n + c] : (T)0",
        "padded",
    )


class Some(NamedTuple):
    """Apexes that a kernel works on at a time."""

    parts: int
    """Blocks for every tile."""
    apexes: Array
    number: np.int32
    """Number of the apexes."""
    per: np.int32
    """The most apexes of a block."""


class Pass:
    """How a pass over some apexes is dealt out to blocks, a batch of apexes at a time.

    Parameters
    ----------
    W : array
        The point.
    ends : array
        Start and stop of ranges of rows.
    table : dtype
        Type of the tables.
    real : dtype
        Type of W and of all sums.
    perimeters : bool
        Whose rows they are.
    share : (int, int), optional
        The tiles of the tables, where these are not all.
    """

    def __init__(
        self,
        W: Array,
        ends: Array,
        table: np.dtype,
        real: np.dtype,
        perimeters: bool = False,
        share: Share = None,
    ) -> None:
        n = W.shape[0]
        side = tiles.across(n) * tiles.SIDE
        self.W = cp.empty((side, side), real) if side > n else W.astype(real, copy=False)
        if side > n:
            padded()(W, n, side, self.W)  # the rest is done while it runs
        self.n, self.across = np.int32(n), np.int32(side // tiles.SIDE)
        self.tiles = tiles.count(n) if share is None else share[1]
        self.table, self.real, self.shape = table, real, W.shape
        ranges = np.asarray(ends, np.int64).tobytes()
        self._batches = batches(n, ranges, real.itemsize, perimeters, self.tiles)
        own: dict[str, Any] = {} if share is None else {"share": share}
        self._launch: Any = partial(launch, table, perimeters=perimeters, **own)

    def __iter__(self) -> Iterator[Some]:
        return iter(self._batches)

    def run(self, name: str, some: Some, *arguments: Any) -> None:
        """Run a kernel over the tiles."""
        self._launch(name, (self.tiles, some.parts), *arguments)

    def collect(
        self, name: str, G: Array, before: tuple[Any, ...], after: tuple[Any, ...], rows: int = 0
    ) -> Array:
        """G += A* of what a kernel hands out, and the sums of the `rows` numbers of its blocks.

        Its arguments are W, `before`, what it works on, `after` and where it writes.
        """
        totals, straight = np.zeros(rows), G.flags.c_contiguous and self._folds(G.dtype)
        D = G if straight else cp.zeros(self.shape)
        kind = "_wide" if self.real == WIDE else "_single" if D.dtype != WIDE else ""
        found = []
        for some in self:
            sums = cp.empty(self.tiles * int(some.number) * 128, self.real)
            pairs = cp.empty(some.parts * self.tiles * 4096, self.real)
            found.append(cp.empty((rows, some.parts * self.tiles)))
            place = (self.n, self.across, some.apexes, some.number, some.per)
            out = (sums, pairs, found[-1]) if rows else (sums, pairs)
            self.run(name, some, self.W, *before, *place, *after, *out)
            side = self.n, self.across
            rows_of = (D, sums, some.apexes, some.number, *side)
            self._launch(f"fold{kind}", (int(some.number),), *rows_of)
            pairs_of = (D, pairs, np.int32(some.parts), *side)
            self._launch(f"add_pairs{kind}", (self.tiles, 16), *pairs_of)
        if not straight:
            axpy(G, 1.0, D)
        for one in found if rows else ():  # all work is on its way
            totals += one.get().sum(axis=1)
        return totals

    def _folds(self, dtype: np.dtype) -> bool:
        """Whether sums can be added to an array of a type as they are."""
        return dtype == WIDE or (dtype == np.float32 and self.real != WIDE)


@lru_cache(maxsize=64)
def batches(n: int, ends: bytes, size: int, perimeters: bool, count: int) -> list[Some]:
    """The apexes whose rows ranges hold, as many at a time as sums in numbers of a size allow.

    `count` is that of the tiles.
    """
    apexes = sent(n, ends, perimeters)
    most, found = max(1, tiles.BUFFER // (count * 128 * size)), []
    for i in range(0, apexes.size, most):
        some = apexes[i : i + most]
        parts, per = split(count, some.size, RESIDENT * processors())
        found.append(Some(parts, some, np.int32(some.size), np.int32(per)))
    return found


@lru_cache(maxsize=64)
def sent(n: int, ends: bytes, perimeters: bool) -> Array:
    """The apexes whose rows ranges hold, on the GPU."""
    return cp.asarray(apexes_of(n, np.frombuffer(ends, np.int64).reshape(-1, 2), perimeters))


def ascend(
    W: Array,
    G: Array,
    y: Array,
    ends: Array,
    lower: float,
    upper: float,
    beta: float,
    perimeters: bool = False,
    share: Share = None,
) -> float:
    """`Drivers.ascend`."""
    real = work(y.dtype)
    bounds = [real.type(x) for x in (1 / beta, lower / beta, upper / beta)]
    own = (y, *bounds, salt(beta, ends, y.dtype))
    totals = Pass(W, ends, y.dtype, real, perimeters, share).collect("ascend", G, (), own, 1)
    return float(totals[0])


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
    perimeters: bool = False,
    share: Share = None,
) -> None:
    """`Drivers.dual`."""
    real = work(y.dtype)
    scalars = [real.type(x) for x in (1 / beta, lower / beta, upper / beta, theta)]
    own = (y, slopes, *scalars, salt(beta, ends, y.dtype))
    Pass(W, ends, y.dtype, real, perimeters, share).collect("dual", G, (), own)


def pair(
    W: Array,
    images: bool,
    G: Array,
    y: Array,
    start: int,
    stop: int,
    low: float,
    high: float,
    perimeters: bool = False,
    share: Share = None,
) -> tuple[float, float, float]:
    """`Drivers.pair`, summed in float64 whatever the table is; bounds are 0 or infinite."""
    real, one = work(y.dtype), not images and (low >= 0 or high <= 0)
    own = Pass(W, np.array([[start, stop]]), y.dtype, WIDE, perimeters, share)
    ends, name = (real.type(low), real.type(high)), "pair_one" if one else "pair"
    totals = own.collect(name, G, (np.int32(images),), (y, *ends), 3)
    return float(totals[0]), float(totals[1]), float(totals[2])


def summed(
    kind: Sums,
    W: Array,
    y: Array | None,
    ends: Array,
    lower: float = 0.0,
    upper: float = 0.0,
    beta: float = 0.0,
    perimeters: bool = False,
    share: Share = None,
) -> tuple[float, float, float]:
    """The sums of a kind over ranges of rows."""
    table = cp.empty(0, np.float32) if y is None else y
    p, one, two, worst = Pass(W, ends, table.dtype, WIDE, perimeters, share), 0.0, 0.0, 0.0
    scalars = [np.float64(x) for x in (lower, upper, beta)]
    for some in p:
        found = cp.empty((3, some.parts * p.tiles))
        place = (p.n, p.across, some.apexes, some.number, some.per)
        p.run(f"sums{int(kind)}", some, p.W, *place, table, *scalars, found)
        add, more, far = found.get()  # blocks are few, and one copy is all that is waited for
        one, two = one + float(add.sum()), two + float(more.sum())
        worst = max(worst, float(far.max()))
    return one, two, worst


def miss(
    W: Array,
    start: int,
    stop: int,
    lower: float,
    upper: float,
    perimeters: bool = False,
    share: Share = None,
) -> tuple[float, float, float]:
    """`Drivers.miss`."""
    ends = np.array([[start, stop]])
    return summed(Sums.MISS, W, None, ends, lower, upper, perimeters=perimeters, share=share)


def merit(
    W: Array,
    y: Array,
    start: int,
    stop: int,
    lower: float,
    upper: float,
    beta: float,
    perimeters: bool = False,
    share: Share = None,
) -> tuple[float, float]:
    """`Drivers.merit`."""
    ends = np.array([[start, stop]])
    return summed(Sums.MERIT, W, y, ends, lower, upper, beta, perimeters, share)[:2]


def squares(
    D: Array, slopes: Array, ends: Array, perimeters: bool = False, share: Share = None
) -> float:
    """`Drivers.squares`."""
    return summed(Sums.SQUARES, D, slopes, ends, perimeters=perimeters, share=share)[0]


def triangle_price(
    point: Array,
    y: Array,
    start: int,
    stop: int,
    lower: float,
    upper: float,
    perimeters: bool = False,
    share: Share = None,
) -> float:
    """Σ |y_l r_l|, r the residuals at a point."""
    ends = np.array([[start, stop]])
    return summed(Sums.PRICE, point, y, ends, lower, upper, 0.0, perimeters, share)[0]


def triangle_square(y: Array) -> float:
    """Σ y² of a table, whose rows it is does not matter."""
    blocks = 8 * processors()
    found = cp.empty(blocks)
    launch(y.dtype, "square", (blocks,), y, np.int64(y.size // 4), found)
    return float(found.get().sum())


PASSES: tuple[Any, ...] = (ascend, dual, miss, merit, squares, pair)
DRIVERS = {
    "triangle_sweep": Drivers(*PASSES),
    "perimeter_sweep": Drivers(*[cast("Any", partial(f, perimeters=True)) for f in PASSES]),
}
"""All of them, by the kernel that is swept with on the CPU."""


def shared(sweep: str, share: Share) -> Drivers:
    """Drivers of the kernels, for tables of a share of the tiles."""
    own = {"perimeters": sweep == "perimeter_sweep", "share": share}
    return Drivers(*[cast("Any", partial(f, **own)) for f in PASSES])
