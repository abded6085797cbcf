"""Some rows of a map: those that one of several keepers has."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from condgrad._types import ALL, Array, Rows, span
from condgrad.maps._base import Kernel, LinearMap

LEAST = 1024
"""Rows of a unit per shard, if there are as many: enough to be worth a compiled call."""
UNITS = 32
"""Least number of units: the last one, dealt unevenly, is then a small part of all."""


class Deal(NamedTuple):
    """Which rows of a map a shard has: the same part of every unit.

    Rows come in *units*, one behind the other, such as those of an apex. What is drawn is whole
    units, or nearly so, and every shard has its part of it.
    """

    size: int
    """Rows of the map."""
    unit: int
    """Rows of a unit; the last one may have fewer."""
    low: int
    """First row of each unit that belongs to the shard."""
    high: int
    """Row of each unit behind the last that belongs to the shard."""

    @classmethod
    def of(cls, map: LinearMap, shards: int, shard: int) -> Deal:
        """The rows of one of several shards."""
        stretch, size = map.stretch, map.size
        wanted = max(shards, min(shards * LEAST, size // UNITS))
        unit = min(size, stretch * -(-wanted // stretch))
        return cls(size, unit, unit * shard // shards, unit * (shard + 1) // shards)

    @property
    def width(self) -> int:
        """Rows of a unit."""
        return self.high - self.low

    @property
    def rows(self) -> int:
        """Rows of the shard."""
        return self.before(self.size)

    def before(self, row: int) -> int:
        """How many rows of the shard come before a row of the map."""
        units, rest = divmod(row, self.unit)
        return units * self.width + min(max(rest - self.low, 0), self.width)

    def own(self, at: slice) -> slice:
        """The shard's numbers of its rows in a range of the map's."""
        return slice(self.before(at.start), self.before(at.stop))

    def pieces(self, start: int, stop: int) -> Array:
        """The ranges of the map's rows that a range of the shard's is, with the shard's first."""
        if self.width == self.unit:
            return np.array([[start, stop, start]], np.int64)
        units = np.arange(start // self.width, -(-stop // self.width), dtype=np.int64)
        place = np.maximum(units * self.width, start)
        ends = np.minimum((units + 1) * self.width, stop)
        first = units * self.unit + self.low + place - units * self.width
        return np.stack([first, first + ends - place, place], axis=1)

    def ids(self, at: Rows = ALL) -> Array:
        """The map's numbers of rows of the shard."""
        own = np.arange(*span(at, self.rows)) if isinstance(at, slice) else at
        units, rest = np.divmod(own, self.width)
        found: Array = units * self.unit + self.low + rest
        return found


class Dealt(LinearMap):
    """The rows of a map that a shard has, numbered from 0; W and the cotangent are the map's.

    Parameters
    ----------
    map : LinearMap
        The map.
    deal : Deal
        Which rows.
    """

    def __init__(self, map: LinearMap, deal: Deal) -> None:
        self.map, self.deal = map, deal
        self.size, self.shape, self.storage = deal.rows, map.shape, map.storage
        self.row_norm, self.chunk = map.row_norm, map.chunk

    @property
    def covers(self) -> bool:  # type: ignore[override]
        return self.map.covers

    @property
    def kernels(self) -> tuple[Kernel, Kernel] | None:  # type: ignore[override]
        """Kernels of the map; `pieces` has the numbers of its rows."""
        return self.map.swept

    def seen(self, W: Array) -> Array:
        return self.map.seen(W)

    def pieces(self, start: int, stop: int) -> Array:
        return self.deal.pieces(start, stop)

    def rows(self, W: Array, at: Rows = ALL) -> Array:
        if not isinstance(at, slice):
            return self.map.rows(W, self.deal.ids(at))
        parts = self.deal.pieces(*span(at, self.size)).tolist()
        found = [self.map.rows(W, slice(start, stop)) for start, stop, _ in parts]
        if len(found) == 1:
            return found[0]
        return np.concatenate(found) if found else self.map.rows(W, slice(0, 0))

    def scatter(self, G: Array, at: Rows, y: Array) -> None:
        if not isinstance(at, slice):
            self.map.scatter(G, self.deal.ids(at), y)
            return
        first, last = span(at, self.size)
        for start, stop, place in self.deal.pieces(first, last).tolist():
            self.map.scatter(G, slice(start, stop), y[place - first : place - first + stop - start])

    def add_to(self, G: Array, weight: float, out: Array) -> None:
        self.map.add_to(G, weight, out)

    def set_to(self, G: Array, weight: float, out: Array) -> None:
        self.map.set_to(G, weight, out)

    @property
    def depth(self) -> int:
        """Depth of the map: a sum over rows is cut in one more place, and has fewer of them."""
        return self.map.depth if self.deal.width == self.deal.unit else self.map.depth + 8

    def lengths(self, at: Rows = ALL) -> Array | float:
        if np.ndim(self.map.lengths(slice(0, 1))) == 0:
            return self.map.lengths()
        return self.map.lengths(self.deal.ids(at))

    @property
    def stretch(self) -> int:
        return self.deal.width

    def norm(self, symmetric: bool = False) -> float:
        """At most that of the map."""
        return self.map.norm(symmetric)
