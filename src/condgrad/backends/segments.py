"""Sums over the segments of a list on a GPU, in an order that does not change."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from condgrad._types import Array
from condgrad.backends import kernels

EACH = 32
"""Numbers that a thread adds up at most."""
LANES = 32
"""Threads that share a segment at most."""


class Products(NamedTuple):
    """Summands data[e] · x[indices[e] − low] over low ≤ indices[e] < high."""

    indices: Array
    x: Array
    low: int
    high: int


class Level(NamedTuple):
    """Segments none of which is longer than `EACH` numbers for each of its threads."""

    starts: Array
    """Beginnings of the segments and the end of the last, in an array of NumPy."""
    there: Array
    """Copy of `starts` on the GPU."""
    lanes: int
    """Threads per segment."""


class Segments:
    """A list of numbers that is cut into segments, each of which is to be summed.

    A few threads add up a segment. A long one is cut into pieces whose sums make a list of their
    own, and so on. Nothing is added atomically, so the same numbers give the same bits.

    Parameters
    ----------
    starts : array of int
        Where the segments begin, in rising order, and the end of the last; an array of NumPy.
    like : array
        The numbers will lie where it does.
    """

    def __init__(self, starts: Array, like: Array) -> None:
        self.size = starts.size - 1
        self._levels: list[Level] = []
        while True:
            counts = np.diff(starts)
            lanes = _lanes(counts)
            pieces = -(-counts // (EACH * lanes))
            if pieces.max(initial=0) <= 1:
                break
            above = np.append(0, np.cumsum(pieces))
            owner = np.repeat(np.arange(counts.size), pieces)
            cuts = starts[owner] + EACH * lanes * (np.arange(owner.size) - above[owner])
            self._append(np.append(cuts, starts[-1]), lanes, like)
            starts = above
        self._append(starts, lanes, like)

    def _append(self, starts: Array, lanes: int, like: Array) -> None:
        starts = starts.astype(np.int64)
        self._levels.append(Level(starts, np.asarray(starts, like=like), lanes))

    def sums(self, data: Array, first: int, last: int, products: Products | None = None) -> Array:
        """The sums of segments first … last − 1, in float64.

        `data` is the whole list where there are `products`, else the numbers of these segments.
        """
        ends = [(first, last)]
        for level in self._levels[:0:-1]:
            ends.append((int(level.starts[ends[-1][0]]), int(level.starts[ends[-1][1]])))
        for level, (a, b) in zip(self._levels, reversed(ends), strict=True):
            own = (level.there, a, b - a, level.lanes)
            if a == b:
                data = np.zeros(0, like=data)
            elif products is not None:
                data = kernels(data).product_sums(*own, data, *products)
            else:
                data = kernels(data).segment_sums(*own, data, int(level.starts[a]))
            products = None
        return data


def _lanes(counts: Array) -> int:
    """Threads for each of some segments: one for every four numbers, a power of two."""
    mean = float(counts.mean()) if counts.size else 0.0
    return min(LANES, 1 << max(0, int(np.ceil(np.log2(max(mean, 1.0) / 4)))))
