"""Rows of any map with any function, in passes that fit the cache."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, cast

import numpy as np

from condgrad._types import Array, Ranges
from condgrad.backends import kernels
from condgrad.functions import Function, Proximable
from condgrad.maps import LinearMap, RowStorage


class Miss(NamedTuple):
    """How rows miss a set, r = z − proj z."""

    squares: float
    """Σ r²."""
    images: float
    """Σ z²."""
    worst: float
    """max |r|."""
    row: float = 0.0
    """max |r_l| / max(|b_l|, ‖a_l‖·unit) over the rows with data b_l ≠ 0. Where all rows make one
    constraint, ‖r‖₂ takes the place of |r_l|, here and below."""
    plain: float = 0.0
    """max |r_l| / ‖a_l‖ over the other rows."""


class Pairing(NamedTuple):
    """Sums over rows at a dual point y."""

    conjugate: float
    """h*(y)."""
    conjugates: float
    """`Function.conjugate_size`."""
    total: float
    """`LinearMap.spread`."""
    product: float = 0.0
    """⟨y, z⟩."""
    value: float = 0.0
    """h(z) of a function that is no constraint."""


class Plain:
    """Passes over the rows of one term, whatever its map and function.

    Everything it returns is of the size of W or smaller, never of the rows; what is kept row by row
    is handed to it and changed in place.
    """

    parallel = False
    """Whether a range of rows is one call that other threads can share."""
    halves = False
    """Whether a table can be in bfloat16."""

    @classmethod
    def serves(cls, map: LinearMap, function: Function) -> bool:
        """True if these passes serve such rows."""
        return True

    def __init__(self, map: LinearMap, function: Function) -> None:
        self.map, self.function = map, function

    def gradient(self, W: Array, G: Array, ranges: Iterable[slice], beta: float) -> None:
        """G = A* h'_β(A W), by ranges that hold every row once."""
        G.fill(0)
        for at in ranges:
            self.map.scatter(G, at, self.function.slope(self.map.rows(W, at), beta, at))

    def renew(
        self, W: Array, G: Array, ranges: Ranges, y: Array, slopes: Array, beta: float, theta: float
    ) -> None:
        """Renew slopes γ and multipliers y of ranges of rows, and G = A*γ with them, in place.

        γ ← h'_β(z + βy), then y ← y + θ(γ − y); `y` and `slopes` hold all rows.
        """
        for at in ranges:
            new = self._renewed(W, at, y, beta).astype(slopes.dtype, copy=False)
            self.map.scatter(G, at, np.subtract(new, slopes[at], dtype=G.dtype))
            slopes[at] = new
            y[at] += (theta * (new - y[at])).astype(y.dtype, copy=False)

    def ascend(self, W: Array, G: Array, ranges: Ranges, y: Array, beta: float) -> float:
        """y ← h'_β(z + βy) of ranges of rows and G += A*(y⁺ − y), in place; Σ (y⁺ − y)²."""
        total = 0.0
        for at in ranges:
            new = self._renewed(W, at, y, beta).astype(y.dtype, copy=False)
            change = np.subtract(new, y[at], dtype=G.dtype)
            self.map.scatter(G, at, change)
            y[at] = new
            total += float(np.vdot(change, change))
        return total

    def _renewed(self, W: Array, at: slice, y: Array, beta: float) -> Array:
        """h'_β(z + βy) of the rows `at`, in dom h* whatever rounding did."""
        z = self.map.rows(W, at)
        shifted = (z + beta * y[at]).astype(z.dtype, copy=False)
        return self.function.into_dual(self.function.envelope_slope(shifted, beta, at), at)

    def collect(self, G: Array, y: Array) -> None:
        """G += A*y of a table."""
        for at in chunks(self.map, self.function):
            self.map.scatter(G, at, y[at].astype(G.dtype, copy=False))

    def resum(self, G: Array, y: Array) -> None:
        """Make G = A*y again if rows of y were lost; those of this process never are."""

    def table(self, dtype: Any) -> Array:
        """A table with a number 0 for every row."""
        return self.map.table(dtype)

    def scale(self, y: Array, G: Array, share: float) -> None:
        """Multiply a table, and the cotangent G = A*y that belongs to it, by a share, in place."""
        if G is not y:
            G *= G.dtype.type(share)
        y *= y.dtype.type(share)

    def square(self, y: Array) -> float:
        """Σ y² of a table."""
        return float(np.vdot(y, y))

    def lengths(self, W: Array, at: slice) -> float:
        """‖A W‖² over the rows `at`."""
        return float(np.square(self.map.rows(W, at)).sum())

    def price(self, W: Array, at: slice, y: Array | None, beta: float, point: Array) -> float:
        """Σ |y_l| |r_l| of an indicator over the rows `at`, r the residuals at a point.

        `y` holds all rows and is put into dom h*; without it the slopes h'_β(z) serve.
        """
        h = self.function
        assert isinstance(h, Proximable)
        slopes = h.slope(self.map.rows(W, at), beta, at) if y is None else y[at]
        inside = h.into_dual(slopes.astype(np.float64, copy=False), at)
        return float(np.sum(np.abs(inside * h.residual(self.map.rows(point, at), at))))

    def squares(self, D: Array, ranges: Ranges, slopes: Array | None) -> float:
        """‖A D‖² over ranges of rows, or over those of them whose slope is not 0."""
        total = 0.0
        for at in ranges:
            z = self.map.rows(D, at)
            total += np.vdot(z, z) if slopes is None else kernels(z).masked_squares(z, slopes[at])
        return float(total)

    def miss(self, W: Array, at: slice, unit: float = 0.0) -> Miss:
        """How the rows `at` miss the set of an indicator; `unit` is the size of an entry of W."""
        map, function = self.map, self.function
        assert isinstance(function, Proximable)
        z = map.rows(W, at)
        r = function.residual(z, at)
        far, squares, lengths = np.abs(r), float(np.vdot(r, r)), map.lengths(at)
        data = function.data_size(z, at)
        if function.separable:
            rows = row_misses(far, lengths, data, unit)
        else:
            rows = row_misses(np.sqrt(squares), map.row_norm, data, unit)
        return Miss(squares, float(np.vdot(z, z)), float(far.max()), *rows)

    def merit(self, W: Array, at: slice, y: Array, beta: float) -> float:
        """dist²(z + βy)/(2β) − β‖y‖²/2 over the rows `at`, the augmented Lagrangian's part."""
        some = y[at]
        shifted = (self.map.rows(W, at) + beta * some).astype(W.dtype, copy=False)
        smoothed = float(self.function.smoothed(shifted, beta, at))
        return smoothed - beta * float(np.vdot(some, some)) / 2

    def pair(self, W: Array | None, G: Array, at: slice, y: Array | None, beta: float) -> Pairing:
        """G += A*y over the rows `at`, and the sums at y that a lower bound needs.

        `y` holds all rows and is put into dom h*; without it the slopes h'_β(z) serve. Without W
        there are no products and values.
        """
        map, function = self.map, self.function
        z = None if W is None else map.rows(W, at)
        if y is None:
            assert z is not None
            slopes = function.slope(z, beta, at)
        else:
            slopes = y[at].astype(np.float64, copy=False)
        slopes = function.into_dual(slopes, at)
        map.scatter(G, at, slopes)
        conjugate, size = function.conjugate(slopes, at), function.conjugate_size(slopes, at)
        total = map.spread(slopes, at)
        if z is None:
            return Pairing(conjugate, size, total)
        value = 0.0 if function.indicator else function.value(z, at)
        return Pairing(conjugate, size, total, float(np.vdot(slopes, z)), value)


class Stored(Plain):
    """Passes whose cotangent is y itself: a pass writes it, and nothing is summed."""

    @classmethod
    def serves(cls, map: LinearMap, function: Function) -> bool:
        return isinstance(map, RowStorage) and type(map).scatter is RowStorage.scatter

    @property
    def _writes(self) -> bool:
        """Whether the function has `slope_into`, unless a class derived has changed its slope."""
        kinds = type(self.function).__mro__
        owner = next(c for c in kinds if {"prox", "slope", "slope_into"} & set(vars(c)))
        return "slope_into" in vars(owner)

    def gradient(self, W: Array, G: Array, ranges: Iterable[slice], beta: float) -> None:
        for at in ranges:
            z = self.map.rows(W, at)
            if self._writes:  # without temporaries
                cast(Any, self.function).slope_into(z, beta, at, G[at])
            else:
                G[at] = self.function.slope(z, beta, at)

    def renew(
        self, W: Array, G: Array, ranges: Ranges, y: Array, slopes: Array, beta: float, theta: float
    ) -> None:
        """As for any map; the slopes are the cotangent, so `slopes` is left alone."""
        bounds = scalar_bounds(self.function)
        for at in ranges:
            if bounds is not None:
                kernels(W).interval_dual(self.map.rows(W, at), *bounds, beta, theta, y[at], G[at])
            else:
                G[at] = self._renewed(W, at, y, beta)
                y[at] += (theta * (G[at] - y[at])).astype(y.dtype, copy=False)

    def ascend(self, W: Array, G: Array, ranges: Ranges, y: Array, beta: float) -> float:
        bounds = scalar_bounds(self.function)
        if bounds is None:
            return super().ascend(W, G, ranges, y, beta)
        step = kernels(W).interval_ascend
        rows = ((self.map.rows(W, at), y[at], G[at]) for at in ranges)
        return sum(float(step(z, *bounds, beta, some, own)) for z, some, own in rows)


def chunks(map: LinearMap, function: Function) -> Iterator[slice]:
    """All rows, in contiguous chunks; in one chunk where the function does not separate."""
    step = map.chunk if function.separable else map.size
    for start in range(0, map.size, step):
        yield slice(start, min(start + step, map.size))


def scalar_bounds(function: Function) -> tuple[float, float] | None:
    """(lower, upper) of an interval that is the same for all rows, or None."""
    ends = function.interval
    if ends is None or not all(isinstance(end, float) for end in ends):
        return None
    return float(ends[0]), float(ends[1])


def row_misses(
    far: Array | float, lengths: Array | float, data: Array | float, unit: float
) -> tuple[float, float]:
    """`Miss.row` and `Miss.plain` of rows that miss by `far`."""
    if not np.ndim(lengths) and not np.ndim(data):  # one limit for all of them
        far = np.max(far)
    with np.errstate(divide="ignore", invalid="ignore"):
        limited = far / np.maximum(data, np.multiply(lengths, unit))
        plain = np.divide(far, lengths)
    off, has = np.greater(far, 0), np.greater(data, 0)
    return float(np.where(off & has, limited, 0.0).max()), float(
        np.where(off & ~has, plain, 0.0).max()
    )
