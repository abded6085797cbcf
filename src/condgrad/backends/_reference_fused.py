"""Slow and obvious twins of the passes over the rows of a family."""

from __future__ import annotations

import importlib
from collections.abc import Callable

import numpy as np

from condgrad._types import Array
from condgrad.backends.contract import Drivers


class Family:
    """Passes over the rows of a family by its two kernels, see `Drivers`."""

    def __init__(self, sweep: Callable[..., None], add: Callable[..., None]) -> None:
        self.sweep, self.add = sweep, add

    def images(self, W: Array, start: int, stop: int) -> Array:
        """z of the rows start … stop − 1."""
        z = np.empty(stop - start, W.dtype)
        self.sweep(W, start, stop, z)
        return z

    def ascend(
        self,
        W: Array,
        G: Array,
        y: Array,
        ends: Array,
        lower: float,
        upper: float,
        beta: float,
    ) -> float:
        total = 0.0
        for start, stop, at in placed(ends):
            some = y[at]
            x = some + self.images(W, start, stop) / beta
            change = x - np.clip(x, lower / beta, upper / beta) - some
            some += change
            self.add(G, start, stop, change)
            total += float(change @ change)
        return total

    def dual(
        self,
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
        for start, stop, at in placed(ends):
            x, old = y[at] + self.images(W, start, stop) / beta, slopes[at].copy()
            slopes[at] = x - np.clip(x, lower / beta, upper / beta)
            y[at] += theta * (slopes[at] - y[at])
            self.add(G, start, stop, slopes[at] - old)

    def miss(
        self, W: Array, start: int, stop: int, lower: float, upper: float
    ) -> tuple[float, float, float]:
        z = self.images(W, start, stop).astype(np.float64)
        r = z - np.clip(z, lower, upper)
        return float(r @ r), float(z @ z), float(np.abs(r).max(initial=0.0))

    def merit(
        self,
        W: Array,
        y: Array,
        start: int,
        stop: int,
        lower: float,
        upper: float,
        beta: float,
        skip: int = 0,
    ) -> tuple[float, float]:
        some = y[start - skip : stop - skip].astype(np.float64)
        x = self.images(W, start, stop) + beta * some
        r = x - np.clip(x, lower, upper)
        return float(r @ r), float(some @ some)

    def squares(self, D: Array, slopes: Array, ends: Array) -> float:
        total = 0.0
        for start, stop, at in placed(ends):
            z = self.images(D, start, stop) * (slopes[at] != 0)
            total += float(z @ z)
        return total

    def pair(
        self,
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
        v = np.clip(y[start - skip : stop - skip].astype(np.float64), low, high)
        self.add(G, start, stop, v)
        z = self.images(W, start, stop) if images else np.zeros(v.size)
        return float(np.maximum(v, 0).sum()), float(np.maximum(-v, 0).sum()), float(v @ z)


def placed(ends: Array) -> list[tuple[int, int, slice]]:
    """Start and stop of each range, and where in a table it is, by a third column or by itself."""
    found = ((int(e[0]), int(e[1]), int(e[2] if len(e) == 3 else e[0])) for e in ends)
    return [(start, stop, slice(at, at + stop - start)) for start, stop, at in found]


def fused(sweep: str | Callable[..., None], add: str | Callable[..., None]) -> Drivers:
    """The passes over the rows of a family; names are those of kernels."""
    own = importlib.import_module("condgrad.backends._reference")
    f = Family(*(getattr(own, k) if isinstance(k, str) else k for k in (sweep, add)))
    return Drivers(f.ascend, f.dual, f.miss, f.merit, f.squares, f.pair)
