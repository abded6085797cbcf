"""Maps that take inner products and sums of W."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from condgrad._check import canonical, dimension, numbers, sides
from condgrad._floats import length
from condgrad._types import ALL, Array, Rows, span
from condgrad.backends import kernels
from condgrad.backends.arrays import diagonal, namespace, placed
from condgrad.errors import ProblemError
from condgrad.maps._base import LinearMap, RowStorage

STRIP = 512
"""Side of the tiles in which a matrix is compared with its transpose."""


class Inner(LinearMap):
    r"""One row, z = ⟨C, W⟩.

    Parameters
    ----------
    C : array or SciPy sparse matrix
        Matrix (or vector, for vector problems) of the shape of W. On a domain of symmetric matrices
        a C that is not symmetric is refused: it is more often a slip than a wish.
    """

    size = storage = 1
    portable = True

    def __init__(self, C: Any, _symmetric: bool = False, _rounded: int = 0) -> None:
        if sp.issparse(C):
            C = csr = canonical("C", C)
            data = csr.data
            rows = np.repeat(np.arange(csr.shape[0]), np.diff(csr.indptr))
            self._flat: Array | None = rows.astype(np.int64) * csr.shape[1] + csr.indices
            self.shape = (int(csr.shape[0]), int(csr.shape[1]))
        else:
            C = numbers("C", C)
            data = np.ascontiguousarray(C).reshape(-1)
            self._flat = None
            self.shape = tuple(int(s) for s in C.shape)
        if 0 in self.shape or not self.shape:
            raise ProblemError(f"C has shape {self.shape}: it must not be empty")
        self._data = data.copy()
        self._objection = None if _symmetric else asymmetry("C", C)
        self._rounded = _rounded  # operations that have rounded a number of C already
        self.row_norm = length(self._data)

    @property
    def depth(self) -> int:
        return 1 + self._rounded

    def require_symmetric(self) -> None:
        if self._objection:
            raise ProblemError(self._objection)

    def matrix(self, like: Array) -> Array:
        """A dense C where `like` lies."""
        return placed(self._data, like).reshape(self.shape)

    def rows(self, W: Array, at: Rows = ALL) -> Array:
        flat = W.reshape(-1)
        if self._flat is None:
            value = flat @ self._data.astype(W.dtype, copy=False)
        else:
            value = kernels(flat).dot_at(flat, self._flat, self._data)
        return namespace(W).full(1, value, dtype=W.dtype)[at]

    def scatter(self, G: Array, at: Rows, y: Array) -> None:
        G[0] += y.sum()

    def add_to(self, G: Array, weight: float, out: Array) -> None:
        c = weight * float(G[0])
        if not out.flags.c_contiguous:  # a reshaped copy would swallow the sum
            out.flat[ALL if self._flat is None else self._flat] += c * self._data
        elif self._flat is None:
            kernels(out).axpy(out.reshape(-1), c, self._data)
        else:
            kernels(out).axpy_at(out.reshape(-1), self._flat, c, self._data)

    def norm(self, symmetric: bool = False) -> float:
        if not symmetric or len(self.shape) != 2 or self.shape[0] != self.shape[1]:
            return self.row_norm
        if self.origin is not None:
            return self.origin.norm(symmetric)
        flat = np.arange(self._data.size) if self._flat is None else self._flat
        C = sp.csr_array((self._data, np.divmod(flat, self.shape[1])), shape=self.shape)
        return float(np.linalg.norm(0.5 * (C + C.T).data))


class Trace(LinearMap):
    r"""One row, z = Tr W.

    Parameters
    ----------
    n : int
        Side of W.
    """

    size = storage = 1
    portable = True

    def __init__(self, n: int) -> None:
        side = dimension("n", n)
        self.shape, self.row_norm = (side, side), float(np.sqrt(side))

    def rows(self, W: Array, at: Rows = ALL) -> Array:
        return namespace(W).full(1, np.trace(W), dtype=W.dtype)[at]

    def scatter(self, G: Array, at: Rows, y: Array) -> None:
        G[0] += y.sum()

    def add_to(self, G: Array, weight: float, out: Array) -> None:
        diagonal(out)[:] += weight * G[0]

    def norm(self, symmetric: bool = False) -> float:
        return self.row_norm


class RowSums(RowStorage):
    r"""z_i = Σ_j W_ij, that is W1.

    Parameters
    ----------
    shape : (int, int) or int
        Shape of W; one integer for a square.
    """

    portable = True

    def __init__(self, shape: Any) -> None:
        self.shape = sides("shape", shape)
        self.size = self.storage = self.shape[0]
        self.row_norm = float(np.sqrt(self.shape[1]))

    def rows(self, W: Array, at: Rows = ALL) -> Array:
        if isinstance(at, slice):
            start, stop = span(at, self.size)
            sums: Array = W[start:stop].sum(axis=1)
            return sums
        z: Array = kernels(W).row_gather(W, at)
        return z

    def add_to(self, G: Array, weight: float, out: Array) -> None:
        out += weight * G[:, None]

    def norm(self, symmetric: bool = False) -> float:
        return self.row_norm


def asymmetry(name: str, C: Any) -> str | None:
    """A sentence that says why a matrix is not symmetric up to rounding, or None."""
    if C.ndim != 2 or C.shape[0] != C.shape[1]:
        return f"{name} has shape {C.shape}: it must be square and symmetric"
    if isinstance(C, np.ndarray):
        strips = [slice(i, i + STRIP) for i in range(0, C.shape[0], STRIP)]
        pairs = [(s, i) for s in strips for i in strips if s.start <= i.start]
        pairs = [(s, i) for s, i in pairs if not np.array_equal(C[s, i], C[i, s].T)]
        if not pairs:
            return None
        gap = max(abs(C[s, i] - C[i, s].T).max() for s, i in pairs)
        size = max(abs(C[s]).max() for s in strips)
    else:
        gap, size = abs(C - C.T).max(), abs(C).max()
    if gap <= 1e-10 * size:
        return None
    return (
        f"{name} is not symmetric (it differs from its transpose by {gap:.3g}): pass ({name} + "
        f"{name}.T)/2 if its symmetric part is meant"
    )
