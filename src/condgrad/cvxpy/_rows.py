"""Rows over blocks: substituted, symmetric, each said once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import sparse

from condgrad._types import Array
from condgrad.cvxpy._affine import Affine
from condgrad.cvxpy._variables import Part
from condgrad.sdp.layout import Layout

ROUNDING = 1e-12
"""Part of its terms up to which a sum may be 0."""
Named = tuple[int | None, Affine]
"""Rows with the id of their constraint, None where the user wrote none."""


class Space(Layout):
    """The blocks u of a problem, one behind the other, and the variables x made of them."""

    def __init__(self, blocks: Sequence[int], parts: Sequence[Part]) -> None:
        super().__init__(blocks)
        used = sum(p.T.shape[1] for p in parts)
        slack = sparse.csr_array((0, self.size - used))
        self._T = sparse.csr_array(sparse.block_diag([*(p.T for p in parts), slack]))
        self._offset = np.concatenate([np.zeros(0), *(p.offset for p in parts)])
        self.entries = self._offset.size
        """How many entries all variables have."""
        self._mirror = self.mirror()

    def rows(self, affine: Affine) -> Affine:
        """A x + b in terms of u, the matrix of every semidefinite block symmetric."""
        b = affine.A @ self._offset + affine.b
        size = abs(affine.A) @ np.abs(self._offset) + affine.size
        return Affine(self.symmetric(affine.A @ self._T), b, size)

    def slack_rows(self, affine: Affine, block: int) -> Affine:
        """(E + Eᵀ)/2 − S for the upper triangle of a square expression and its slack block S."""
        n, start = self.blocks[block], self.starts[block]
        i, j = np.triu_indices(n)
        A = (affine.A[i + j * n] + affine.A[j + i * n]) / 2
        b = (affine.b[i + j * n] + affine.b[j + i * n]) / 2
        A, b, size = self.rows(Affine(A, b, affine.size[i + j * n] + affine.size[j + i * n]))
        entries = (np.full(i.size, -1.0), (np.arange(i.size), start + i * n + j))
        return Affine(A + self.symmetric(sparse.csr_array(entries, shape=A.shape)), b, size)

    def values(self, u: Array) -> Array:
        """x, all entries."""
        return self._T @ u + self._offset

    def symmetric(self, A: Any) -> Any:
        """Rows with the matrix of every semidefinite block replaced by its symmetric part."""
        A = sparse.csr_array(A)
        turned = sparse.csr_array((A.data, self._mirror[A.indices], A.indptr), shape=A.shape)
        half = sparse.csr_array((A + turned) / 2)
        half.eliminate_zeros()
        half.sort_indices()
        return half


class Family:
    """Rows A u + b that are all zero, or all at most zero, equal ones kept once.

    Rows are told apart by two random projections, equal bit by bit for equal rows. Left out are
    rows without variables, whose b, 0 where it is rounding, are `constants`, and those that an
    infinite b makes void.
    """

    def __init__(self, space: Space, rows: Sequence[Named]) -> None:
        self._pieces = [(id, affine.b.size) for id, affine in rows]
        nothing = Affine(sparse.csr_array((0, space.size)), np.zeros(0))
        whole = [nothing, *(affine for _, affine in rows)]
        A = sparse.csr_array(sparse.vstack([w.A for w in whole], format="csr"))
        b = np.concatenate([w.b for w in whole])
        empty = (np.diff(A.indptr) == 0) | (b == np.inf)
        size = np.concatenate([w.size for w in whole])
        self.constants = np.where(np.abs(b) > ROUNDING * size, b, 0.0)[empty]
        kept = np.flatnonzero(~empty & np.isfinite(b))
        mask = np.random.default_rng(0).normal(size=(space.size, 2))
        keys = np.column_stack([A @ mask, b])[kept]
        _, first, inverse = np.unique(keys, axis=0, return_index=True, return_inverse=True)
        order = np.argsort(first)
        self.A, self.b = A[kept[first[order]]], b[kept[first[order]]]
        self._which = np.full(b.size, -1)
        self._which[kept] = np.argsort(order)[inverse.ravel()]

    def spread(self, y: Array) -> dict[int, Array]:
        """Multipliers of the rows kept, shared out among equal ones, by constraint."""
        count = np.bincount(self._which[self._which >= 0], minlength=y.size)
        each = np.append(y / np.maximum(count, 1), 0.0)[self._which]
        ends = np.cumsum([size for _, size in self._pieces], dtype=int)
        pairs = zip(self._pieces, np.split(each, ends), strict=False)
        return {id: piece for (id, _), piece in pairs if id is not None}
