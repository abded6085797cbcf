"""Some rows of a map: those that one of several keepers has."""

from __future__ import annotations

import numpy as np

from condgrad._types import ALL, Array, Rows, ids_of, span
from condgrad.maps._base import Kernel, LinearMap

LEAST = 1024
"""Rows of a unit per shard, if there are as many: enough to be worth a compiled call."""
UNITS = 32
"""Least number of units: the last one, dealt unevenly, is then a small part of all."""


class Dealt(LinearMap):
    """The rows of a map that a shard has, numbered from 0; W and the cotangent are the map's.

    Rows come in *units*, one behind the other, such as those of an apex. What is drawn is whole
    units, or nearly so, and every shard has the same part of each.

    Parameters
    ----------
    map : LinearMap
        The map.
    shards, shard : int
        How many shards there are, and which of them has the rows.
    """

    def __init__(self, map: LinearMap, shards: int, shard: int) -> None:
        wanted = max(shards, min(shards * LEAST, map.size // UNITS))
        self.map, self.unit = map, min(map.size, map.stretch * -(-wanted // map.stretch))
        self.low = self.unit * shard // shards
        self.width = self.unit * (shard + 1) // shards - self.low
        self.size, self.shape, self.storage = self.before(map.size), map.shape, map.storage
        self.row_norm, self.chunk = map.row_norm, map.chunk

    def before(self, row: int) -> int:
        """How many rows of the shard come before a row of the map."""
        units, rest = divmod(row, self.unit)
        return units * self.width + min(max(rest - self.low, 0), self.width)

    def ids(self, at: Rows = ALL) -> Rows:
        """The map's numbers of rows of the shard."""
        if self.width == self.unit:
            return at
        units, rest = np.divmod(ids_of(at, self.size), self.width)
        found: Array = units * self.unit + self.low + rest
        return found

    def pieces(self, start: int, stop: int) -> Array:
        if self.width == self.unit:
            return super().pieces(start, stop)
        units = np.arange(start // self.width, -(-stop // self.width), dtype=np.int64)
        place = np.maximum(units * self.width, start)
        ends = np.minimum((units + 1) * self.width, stop)
        first = units * (self.unit - self.width) + self.low + place
        return np.stack([first, first + ends - place, place], axis=1)

    @property
    def covers(self) -> bool:  # type: ignore[override]
        return self.map.covers

    @property
    def kernels(self) -> tuple[Kernel, Kernel] | None:  # type: ignore[override]
        """Kernels of the map; `pieces` has the numbers of its rows."""
        return self.map.swept

    def seen(self, W: Array) -> Array:
        return self.map.seen(W)

    def rows(self, W: Array, at: Rows = ALL) -> Array:
        return self.map.rows(W, self.ids(at))

    def scatter(self, G: Array, at: Rows, y: Array) -> None:
        first, last = span(at, self.size)
        for start, stop, place in self.pieces(first, last).tolist():  # `depth` is that of ranges
            self.map.scatter(G, slice(start, stop), y[place - first : place - first + stop - start])

    def set_to(self, G: Array, weight: float, out: Array) -> None:
        self.map.set_to(G, weight, out)

    def add_to(self, G: Array, weight: float, out: Array) -> None:
        self.map.add_to(G, weight, out)

    @property
    def depth(self) -> int:
        """Depth of the map: a sum over rows is cut in one more place, and has fewer of them."""
        return self.map.depth if self.width == self.unit else self.map.depth + 8

    def lengths(self, at: Rows = ALL) -> Array | float:
        if np.ndim(self.map.lengths(slice(0, 1))) == 0:
            return self.map.lengths()
        return self.map.lengths(self.ids(at))
