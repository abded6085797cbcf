"""Products of domains."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from condgrad._floats import EPS, length
from condgrad._types import Array
from condgrad.domains._base import KINDS, Domain, Minimum
from condgrad.domains.projections import ProductProjector, Projector
from condgrad.errors import ProblemError
from condgrad.points.atoms import Atom, Blocks


class Product(Domain):
    """W_1 × W_2 × …; a point is one vector that holds the blocks one behind the other.

    Use `condgrad.maps.Restricted` to apply a map to one block, and `block` to look at one.

    Parameters
    ----------
    domains : sequence of Domain
        The factors.
    """

    def __init__(self, domains: Sequence[Domain]) -> None:
        self.domains = tuple(domains) if isinstance(domains, Iterable) else (domains,)
        if not self.domains:
            raise ProblemError("domains is empty: a product needs at least one factor")
        for i, d in enumerate(self.domains):
            if not isinstance(d, Domain):
                raise ProblemError(f"domains[{i}] is a {type(d).__name__}: it must be a Domain")
        lengths = [int(np.prod(d.shape)) for d in self.domains]
        self._start = np.concatenate([[0], np.cumsum(lengths)])
        self.shape = (int(self._start[-1]),)
        self.diameter = length(np.array([d.diameter for d in self.domains]))

    def block(self, W: Array, i: int) -> Array:
        """Block i of a point, in its own shape, as a view."""
        return W[self._start[i] : self._start[i + 1]].reshape(self.domains[i].shape)

    def lmo(self, v: Array, *, hint: Array | None = None, **options: Any) -> Atom:
        atoms = []
        for i, d in enumerate(self.domains):
            near = None if hint is None else self.block(hint, i)
            atoms.append(d.lmo(self.block(v, i), hint=near, **options))
        return Blocks(atoms)

    def projector(self) -> Projector | None:
        """Projector onto the product, if all factors have one."""
        found = [d.projector() for d in self.domains]
        parts = [p for p in found if p is not None]
        able = len(parts) == len(found) and type(self) is Product
        return ProductProjector(parts, [d.shape for d in self.domains]) if able else None

    def minimum(self, v: Array) -> Minimum:
        parts = [d.minimum(self.block(v, i)) for i, d in enumerate(self.domains)]
        kind = max((p.kind for p in parts), key=KINDS.index)
        rounding = len(parts) * EPS * sum(abs(p.value) for p in parts)
        return Minimum(sum(p.value for p in parts) - rounding, kind, sum(p.failure for p in parts))

    @property
    def reach(self) -> float:
        return length(np.array([d.reach for d in self.domains]))

    def contains(self, W: Array, tol: float = 1e-8) -> bool:
        return all(d.contains(self.block(W, i), tol) for i, d in enumerate(self.domains))

    def center(self) -> Array:
        return np.concatenate([d.center().reshape(-1) for d in self.domains])
