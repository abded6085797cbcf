"""Rows that are matrices of low rank, kept as their factors."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from condgrad._check import array_of, numbers, real_matrix
from condgrad._floats import length, lengths
from condgrad._types import ALL, Array, Rows, span
from condgrad.backends.arrays import host
from condgrad.backends.segments import Segments
from condgrad.errors import ProblemError
from condgrad.maps._base import LinearMap


class LowRankStack(LinearMap):
    r"""z_l = ⟨A_l, W⟩ = Σ_j s_j u_jᵀ W u_j over the factors j of row l, A_l = Σ_j s_j u_j u_jᵀ.

    One product of W with all factors serves all rows; the A_l are never formed.

    Parameters
    ----------
    factors : array, shape (n, r)
        The u_j as columns, those of one row side by side.
    counts : sequence of int
        How many columns belong to each row, at least 1; they sum to r.
    values : array, shape (r,), optional
        The s_j; default 1.

    Examples
    --------
    >>> A = LowRankStack(np.array([[1.0, 1.0], [0.0, 1.0]]), [1, 1])
    >>> A.rows(np.array([[1.0, 2.0], [2.0, 5.0]]))
    array([ 1., 10.])
    """

    portable = True

    def __init__(self, factors: Any, counts: Any, values: Any = None) -> None:
        self._U = real_matrix("factors", factors).copy()
        n, r = self._U.shape
        number = array_of("counts", counts)
        if number.ndim != 1 or number.dtype.kind not in "iu" or number.size == 0:
            raise ProblemError("counts must be a vector of integers: the columns of each row")
        if number.min() < 1 or number.sum() != r:
            raise ProblemError(f"counts must be at least 1 and sum to {r}, the columns of factors")
        self._s = np.ones(r) if values is None else numbers("values", values).copy()
        if self._s.shape != (r,):
            raise ProblemError(
                f"values has shape {self._s.shape}: give one for each of {r} columns"
            )
        self.shape, self.size, self.storage = (n, n), number.size, n * n
        self._starts = np.concatenate([[0], np.cumsum(number)])
        with np.errstate(over="ignore", invalid="ignore"):  # a problem refuses such norms
            self.norms = np.array([self._norm_of(l) for l in range(self.size)])
            """‖A_l‖_F."""
            self.row_norm = float(self.norms.max())
            parts = np.abs(self._s) * np.square(lengths(np.ascontiguousarray(self._U.T)))
            self._lengths = np.add.reduceat(parts, self._starts[:-1])
        self._segments: Segments | None = None  # on a GPU only
        self._owner = np.repeat(np.arange(self.size), number)

    def on(self, like: Array) -> LowRankStack:
        new = cast(LowRankStack, super().on(like))
        new._starts, new._segments = self._starts, Segments(self._starts, like)
        return new

    @property
    def depth(self) -> int:
        """An entry of A*y is a sum over all factors of products of four numbers."""
        return int(self._s.size) + 3

    def lengths(self, at: Rows = ALL) -> Array | float:
        """Σ_j |s_j| ‖u_j‖², since the factors of a row may cancel."""
        found: Array = self._lengths[at]
        return found

    def _norm_of(self, l: int) -> float:
        part = slice(self._starts[l], self._starts[l + 1])
        R = np.asarray(np.linalg.qr(self._U[:, part], mode="r"))
        return length((R * self._s[part]) @ R.T)

    def _columns(self, at: Rows) -> tuple[Array | slice, Array]:
        """The columns of the rows `at`, and where each row's begin among them."""
        if isinstance(at, slice):
            first, last = span(at, self.size)
            start = self._starts[first]
            return slice(start, self._starts[last]), self._starts[first:last] - start
        counts = np.diff(self._starts)[at]
        begins = np.cumsum(counts) - counts
        columns = np.repeat(self._starts[at] - begins, counts) + np.arange(counts.sum())
        return columns, begins

    def chosen(self, ids: Array) -> LowRankStack:
        """The map with some of its rows."""
        columns, _ = self._columns(ids)
        counts = np.diff(self._starts)[ids]
        return LowRankStack(self._U[:, columns], counts, self._s[columns])

    def rows(self, W: Array, at: Rows = ALL) -> Array:
        if self._segments is not None and not isinstance(at, slice):
            return self.rows(W)[np.asarray(at, like=W)]
        columns, begins = self._columns(at)
        if begins.size == 0:
            return np.zeros(0, W.dtype, like=W)
        U = self._U[:, columns]
        terms = self._s[columns] * np.einsum("ij,ij->j", U, W @ U)
        if self._segments is not None:
            z = self._segments.sums(terms, *span(at, self.size))
        else:
            z = np.add.reduceat(terms, begins)
        return z.astype(W.dtype, copy=False)

    def scatter(self, G: Array, at: Rows, y: Array) -> None:
        if self._segments is not None and not isinstance(at, slice):  # rows may be there twice
            total = np.bincount(host(at), host(y), minlength=self.size)
            at, y = ALL, np.asarray(total, like=y)
        columns, _ = self._columns(at)
        if isinstance(at, slice):
            each = y[self._owner[columns] - span(at, self.size)[0]]
        else:
            each = np.repeat(y, np.diff(self._starts)[at])
        weight, U = self._s[columns] * each, self._U[:, columns]
        G += ((U * weight) @ U.T).reshape(-1).astype(G.dtype, copy=False)

    def add_to(self, G: Array, weight: float, out: Array) -> None:
        out += weight * G.reshape(self.shape)
