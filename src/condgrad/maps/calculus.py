"""Maps made from maps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from condgrad._check import dimension, numbers
from condgrad._types import ALL, Array, Rows, ids_of, pick, span
from condgrad.backends.arrays import contiguous
from condgrad.errors import ProblemError
from condgrad.maps._base import LinearMap

if TYPE_CHECKING:
    from condgrad.domains.product import Product


class Stack(LinearMap):
    """Several maps, one above the other: z = (A_1 W, A_2 W, …).

    Parameters
    ----------
    maps : sequence of LinearMap
        Maps of one and the same W.
    """

    portable = True

    def __init__(self, maps: Sequence[LinearMap]) -> None:
        if isinstance(maps, LinearMap):
            raise ProblemError(f"maps is one {type(maps).__name__}: pass a list of maps")
        self.maps = tuple(maps)
        if not self.maps:
            raise ProblemError("maps is empty: a stack needs at least one map")
        for i, m in enumerate(self.maps):
            _require_map(f"maps[{i}]", m)
        shapes = {m.shape for m in self.maps}
        if len(shapes) > 1:
            raise ProblemError(
                f"maps act on W of different shapes {sorted(shapes)}: all must agree"
            )
        self.shape = self.maps[0].shape
        self._first = np.concatenate([[0], np.cumsum([m.size for m in self.maps])])
        self._place = np.concatenate([[0], np.cumsum([m.storage for m in self.maps])])
        self.size, self.storage = int(self._first[-1]), int(self._place[-1])
        self.row_norm = max(m.row_norm for m in self.maps)

    def on(self, like: Array) -> Stack:
        new = cast(Stack, super().on(like))
        new.maps = tuple(m.on(like) for m in self.maps)
        new._first, new._place = self._first, self._place
        return new

    @property
    def depth(self) -> int:
        """All that the maps take, and their sum."""
        return sum(m.depth + 1 for m in self.maps)

    def lengths(self, at: Rows = ALL) -> Array | float:
        out = np.empty(ids_of(at, self.size).size, like=self.like)
        for m, part, where in self._parts(at):
            out[where] = m.lengths(part)
        return out

    def require_symmetric(self) -> None:
        for m in self.maps:
            m.require_symmetric()

    def rows(self, W: Array, at: Rows = ALL) -> Array:
        if isinstance(at, slice):
            return np.concatenate([m.rows(W, part) for m, part, _ in self._parts(at)])
        z = np.empty(at.size, W.dtype, like=W)
        for m, part, where in self._parts(at):
            z[where] = m.rows(W, part)
        return z

    def scatter(self, G: Array, at: Rows, y: Array) -> None:
        for i, (m, part, where) in enumerate(self._parts(at)):
            m.scatter(G[self._place[i] : self._place[i + 1]], part, contiguous(y[where]))

    def add_to(self, G: Array, weight: float, out: Array) -> None:
        for i, m in enumerate(self.maps):
            m.add_to(G[self._place[i] : self._place[i + 1]], weight, out)

    def _parts(self, at: Rows) -> list[tuple[LinearMap, Rows, Any]]:
        """For each map: its own rows among `at`, and where they stand in `at`."""
        parts: list[tuple[LinearMap, Rows, Any]] = []
        for m, first in zip(self.maps, self._first, strict=False):
            if isinstance(at, slice):
                start, stop = span(at, self.size)
                low = int(np.clip(start - first, 0, m.size))
                high = max(low, int(np.clip(stop - first, 0, m.size)))
                offset = int(low + first - start)
                parts.append((m, slice(low, high), slice(offset, offset + high - low)))
            else:
                where = np.nonzero((at >= first) & (at < first + m.size))[0]
                parts.append((m, at[where] - first, where))
        return parts


class Scaled(LinearMap):
    r"""z_l = c_l ⟨a_l, W⟩.

    Parameters
    ----------
    map : LinearMap
        The map to scale.
    factor : float or array
        c, one number for all rows or one per row.
    """

    portable = True

    def __init__(self, map: LinearMap, factor: Any) -> None:
        _require_map("map", map)
        data = numbers("factor", factor)
        if data.shape not in ((), (map.size,)):
            raise ProblemError(
                f"factor has shape {data.shape}: pass a number or one number for each of the "
                f"{map.size} rows"
            )
        self.map, self.factor = map, data.copy() if data.ndim else float(data)
        self.size, self.storage, self.shape = map.size, map.storage, map.shape
        self.row_norm = float(np.abs(data).max()) * map.row_norm

    def on(self, like: Array) -> Scaled:
        new = cast(Scaled, super().on(like))
        new.map = self.map.on(like)
        return new

    @property
    def depth(self) -> int:
        """The factor comes on top."""
        return self.map.depth + 1

    def lengths(self, at: Rows = ALL) -> Array | float:
        found: Array | float = np.abs(pick(self.factor, at)) * self.map.lengths(at)
        return found

    def require_symmetric(self) -> None:
        self.map.require_symmetric()

    def rows(self, W: Array, at: Rows = ALL) -> Array:
        return (pick(self.factor, at) * self.map.rows(W, at)).astype(W.dtype, copy=False)

    def scatter(self, G: Array, at: Rows, y: Array) -> None:
        self.map.scatter(G, at, (pick(self.factor, at) * y).astype(G.dtype, copy=False))

    def add_to(self, G: Array, weight: float, out: Array) -> None:
        self.map.add_to(G, weight, out)


class Restricted(LinearMap):
    """A map of one block of a `Product` domain.

    Parameters
    ----------
    map : LinearMap
        Map of the block.
    product : condgrad.domains.Product
        The domain whose points are the blocks, one behind the other.
    block : int
        Which block, counted from 0.
    """

    def __init__(self, map: LinearMap, product: Product, block: int) -> None:
        _require_map("map", map)
        if not hasattr(product, "domains"):
            raise ProblemError(
                f"product is a {type(product).__name__}: pass a condgrad.domains.Product"
            )
        if dimension("block", block, least=0) >= len(product.domains):
            raise ProblemError(f"block is {block}: the product has {len(product.domains)} blocks")
        if product.domains[block].shape != map.shape:
            raise ProblemError(
                f"map acts on shape {map.shape}, but block {block} has shape "
                f"{product.domains[block].shape}: they must agree"
            )
        if product.domains[block].symmetric:
            map.require_symmetric()
        self.map, self._product, self._block = map, product, block
        self.size, self.storage, self.shape = map.size, map.storage, product.shape
        self.row_norm = map.row_norm

    @property
    def depth(self) -> int:
        return self.map.depth

    def lengths(self, at: Rows = ALL) -> Array | float:
        return self.map.lengths(at)

    def rows(self, W: Array, at: Rows = ALL) -> Array:
        return self.map.rows(self._product.block(W, self._block), at)

    def scatter(self, G: Array, at: Rows, y: Array) -> None:
        self.map.scatter(G, at, y)

    def add_to(self, G: Array, weight: float, out: Array) -> None:
        self.map.add_to(G, weight, self._product.block(out, self._block))

    def norm(self, symmetric: bool = False) -> float:
        return self.map.norm(symmetric)


def _require_map(name: str, value: Any) -> None:
    if not isinstance(value, LinearMap):
        raise ProblemError(f"{name} is a {type(value).__name__}: pass one of condgrad.maps")
