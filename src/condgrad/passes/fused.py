"""Rows whose passes are compiled as one: images, slopes, tables and A*y in one loop."""

from __future__ import annotations

from functools import partial

import numpy as np

from condgrad._floats import TINY
from condgrad._types import Array, Ranges, span
from condgrad.backends import kernels, threads, tiles
from condgrad.backends.arrays import contiguous, foreign
from condgrad.backends.contract import Drivers
from condgrad.functions import Function
from condgrad.maps import LinearMap
from condgrad.passes.plain import Miss, Pairing, Plain, row_misses, scalar_bounds


class Fused(Plain):
    """Rows of a map that brings `LinearMap.kernels`, with the same interval for all of them."""

    parallel = True

    @classmethod
    def serves(cls, map: LinearMap, function: Function) -> bool:
        if map.swept is None or scalar_bounds(function) is None:
            return False
        return not np.ndim(map.lengths())

    def __init__(self, map: LinearMap, function: Function) -> None:
        super().__init__(map, function)
        bounds = scalar_bounds(function)
        assert bounds is not None
        self._lower, self._upper = bounds

    def _drivers(self, array: Array) -> Drivers:
        """The passes for arrays of this type."""
        assert self.map.kernels is not None
        drivers: Drivers = kernels(array).fused(*self.map.kernels)
        return drivers

    def _seen(self, W: Array) -> Array:
        """W as the kernels want it."""
        return contiguous(self.map.seen(W))

    def _cotangent(self, G: Array) -> Array:
        """G as the kernels want it."""
        return G.reshape(self.map.shape) if self.map.covers else G

    def renew(
        self, W: Array, G: Array, ranges: Ranges, y: Array, slopes: Array, beta: float, theta: float
    ) -> None:
        W, G, ends = self._seen(W), self._cotangent(G), self._ends(ranges)
        self._drivers(W).dual(W, G, y, slopes, ends, self._lower, self._upper, beta, theta)

    def ascend(self, W: Array, G: Array, ranges: Ranges, y: Array, beta: float) -> float:
        W, G, ends = self._seen(W), self._cotangent(G), self._ends(ranges)
        return float(self._drivers(W).ascend(W, G, y, ends, self._lower, self._upper, beta))

    def squares(self, D: Array, ranges: Ranges, slopes: Array | None) -> float:
        if slopes is None:
            return super().squares(D, ranges, slopes)
        D = self._seen(D)

        def work(part: list[slice]) -> float:
            return float(self._drivers(D).squares(D, slopes, self._ends(part)))

        parts = threads.share(ranges) if self.parallel else [list(ranges)]
        return sum(threads.run([partial(work, part) for part in parts]))

    def _ends(self, ranges: Ranges) -> Array:
        """Start and stop of each range as kernels count rows, and its place, a row each."""
        pieces = [self.map.pieces(*span(at, self.map.size)) for at in ranges]
        return np.concatenate([np.empty((0, 3), np.int64), *pieces])

    def _pieces(self, at: slice) -> list[tuple[int, ...]]:
        """Pieces of one range, with how far start lies behind the place."""
        return [(start, stop, start - place) for start, stop, place in self._ends([at]).tolist()]

    def miss(self, W: Array, at: slice, unit: float = 0.0) -> Miss:
        W, map = self._seen(W), self.map
        miss, bounds = self._drivers(W).miss, (self._lower, self._upper)
        found = [miss(W, *piece[:2], *bounds) for piece in self._pieces(at)]
        squares, images = (sum(column) for column in list(zip(*found, strict=True))[:2])
        worst = max(far for _, _, far in found)
        data = self.function.data_size(np.empty(0), at)
        return Miss(squares, images, worst, *row_misses(worst, map.row_norm, data, unit))

    def lengths(self, W: Array, at: slice) -> float:
        return self.miss(W, at).images

    def merit(self, W: Array, at: slice, y: Array, beta: float) -> float:
        W, bounds = self._seen(W), (self._lower, self._upper)
        merit = self._drivers(W).merit
        found = [merit(W, y, *p[:2], *bounds, beta, *p[2:]) for p in self._pieces(at)]
        squares, lengths = (sum(column) for column in zip(*found, strict=True))
        return float(squares / (2 * beta) - beta * lengths / 2)

    def pair(self, W: Array | None, G: Array, at: slice, y: Array | None, beta: float) -> Pairing:
        if y is None:
            return super().pair(W, G, at, y, beta)
        map, lower, upper = self.map, self._lower, self._upper
        low, high = 0.0 if np.isneginf(lower) else -np.inf, 0.0 if np.isposinf(upper) else np.inf
        point = np.empty(map.shape, like=G) if W is None else self._seen(W)
        pair, start = self._drivers(G).pair, (point, W is not None, self._cotangent(G), y)
        sums = [pair(*start, *p[:2], low, high, *p[2:]) for p in self._pieces(at)]
        above, below, product = (sum(column) for column in zip(*sums, strict=True))
        up, down = above * upper if above > 0 else 0.0, below * lower if below > 0 else 0.0
        size, total = abs(up) + abs(down), map.row_norm * (above + below)
        size += TINY if (above > 0 and upper != 0) or (below > 0 and lower != 0) else 0.0
        lost = map.size * TINY * (map.row_norm + float(np.sqrt(np.prod(map.shape))))
        total += lost if total > 0 else 0.0  # by underflow, as in `LinearMap.spread`
        return Pairing(up - down, size, total, product)


class Tiled(Fused):
    """Passes on a GPU, where tables lie in tiles and all rows are one call."""

    parallel = False
    halves = True

    @classmethod
    def serves(cls, map: LinearMap, function: Function) -> bool:
        return foreign(map.like) and super().serves(map, function)

    @property
    def _share(self) -> tuple[tuple[int, int], ...]:
        """The tiles of the tables, where these are not all."""
        share = getattr(self.map, "share", None)
        return () if share is None else (share,)

    def _drivers(self, array: Array) -> Drivers:
        assert self.map.kernels is not None
        drivers: Drivers = kernels(array).fused(*self.map.kernels, *self._share)
        return drivers

    def _ends(self, ranges: Ranges) -> Array:
        return super()._ends(ranges)[:, :2]  # places are those of tiles

    def _pieces(self, at: slice) -> list[tuple[int, ...]]:
        return [span(at, self.map.size)]

    def squares(self, D: Array, ranges: Ranges, slopes: Array | None) -> float:
        if slopes is None:
            return sum(self.lengths(D, at) for at in ranges)
        return super().squares(D, ranges, slopes)

    def collect(self, G: Array, y: Array) -> None:
        whole = self.map.zeros()
        self.pair(None, whole, slice(0, self.map.size), y, 1.0)
        G += whole.astype(G.dtype, copy=False)

    def scale(self, y: Array, G: Array, share: float) -> None:
        if y.dtype != tiles.HALF:
            super().scale(y, G, share)
            return
        tiles.scale(y, share)  # which rounds again: A*y is another
        G.fill(0)
        self.collect(G, y)

    def square(self, y: Array) -> float:
        return float(kernels(y).triangle_square(y))

    def price(self, W: Array, at: slice, y: Array | None, beta: float, point: Array) -> float:
        if y is None:
            return super().price(W, at, y, beta, point)
        point, rows = self._seen(point), span(at, self.map.size)
        others = self.map.kernels == ("perimeter_sweep", "perimeter_add")
        how = (self._lower, self._upper, others, *self._share)
        found = kernels(point).triangle_price(point, y, *rows, *how)
        return float(found)
