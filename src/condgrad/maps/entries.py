"""Maps that read entries of W."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from condgrad._check import array_of, dimension, sides
from condgrad._types import ALL, Array, Rows
from condgrad.backends import kernels
from condgrad.backends.arrays import contiguous, diagonal
from condgrad.errors import ProblemError
from condgrad.maps._base import Covering, RowStorage


class AllEntries(Covering, RowStorage):
    r"""Every entry of W, row by row: z_{(i,j)} = W_ij, or z_i = w_i for a vector.

    Parameters
    ----------
    shape : (int, int), int or (int,)
        Shape of W; one integer for a square matrix, ``(d,)`` for a vector.

    Examples
    --------
    >>> AllEntries(2).rows(np.array([[1.0, 2.0], [3.0, 4.0]]))
    array([1., 2., 3., 4.])
    """

    row_norm = 1.0
    portable = True

    def __init__(self, shape: Any) -> None:
        vector = isinstance(shape, (tuple, list)) and len(shape) == 1
        self.shape = (dimension("shape[0]", shape[0]),) if vector else sides("shape", shape)
        self.size = self.storage = int(np.prod(self.shape))

    def rows(self, W: Array, at: Rows = ALL) -> Array:
        if hasattr(W, "entries"):  # kept as factors
            factors: Any = W
            if isinstance(at, slice):
                return np.asarray(factors.ranged(at))
            return np.asarray(factors.entries(*np.divmod(at, self.shape[-1])))
        flat = W.reshape(-1)
        return flat[at] if isinstance(at, slice) else kernels(flat).take(flat, at)

    @property
    def stretch(self) -> int:
        """A row of W."""
        return self.shape[-1] if len(self.shape) == 2 else 1

    def norm(self, symmetric: bool = False) -> float:
        return 1.0


class Entries(RowStorage):
    r"""Chosen entries of W: z_l = W_{i_l j_l}.

    The cotangent is one number per chosen entry, however large W is.

    Parameters
    ----------
    rows, cols : array of int
        Positions (i_l, j_l), counted from 0, without repeats.
    shape : (int, int)
        Shape of W.

    See Also
    --------
    Entries.of : the pattern of a SciPy sparse matrix, in CSR order.
    """

    row_norm = 1.0
    portable = True

    def __init__(self, rows: Any, cols: Any, shape: Any) -> None:
        self.shape = sides("shape", shape)
        i, j = array_of("rows", rows), array_of("cols", cols)
        if i.ndim != 1 or i.shape != j.shape:
            raise ProblemError(
                f"rows has shape {i.shape} and cols {j.shape}: both must be vectors of one length"
            )
        if i.size == 0:
            raise ProblemError("rows is empty: a term needs at least one entry of W")
        if i.dtype.kind not in "iu" or j.dtype.kind not in "iu":
            raise ProblemError("rows and cols must be integers: positions counted from 0")
        if min(i.min(), j.min()) < 0 or i.max() >= self.shape[0] or j.max() >= self.shape[1]:
            raise ProblemError(
                f"rows or cols leave the matrix of shape {self.shape}: positions are counted from 0"
            )
        self._flat = i.astype(np.int64) * self.shape[1] + j
        ordered = self._flat
        if not np.all(ordered[:-1] < ordered[1:]):
            ordered = np.sort(ordered)
        if np.any(ordered[:-1] == ordered[1:]):
            raise ProblemError("rows and cols name an entry twice: merge repeated entries first")
        self.size = self.storage = i.size

    @classmethod
    def of(cls, pattern: Any) -> Entries:
        """Entries stored in a SciPy sparse matrix; row l belongs to ``pattern.tocsr().data[l]``."""
        if not sp.issparse(pattern):
            raise ProblemError(
                "pattern is not a SciPy sparse matrix: use Entries(rows, cols, shape)"
            )
        csr = pattern.tocsr()
        i = np.repeat(np.arange(csr.shape[0]), np.diff(csr.indptr))
        return cls(i, csr.indices, csr.shape)

    def positions(self, at: Rows = ALL) -> tuple[Array, Array]:
        """(i_l, j_l) of the rows `at`."""
        i, j = np.divmod(self._flat[at], self.shape[1])
        return i, j

    def rows(self, W: Array, at: Rows = ALL) -> Array:
        if hasattr(W, "entries"):  # kept as factors
            entries: Array = W.entries(*self.positions(at))
            return entries
        flat = self._flat[at] if isinstance(at, slice) else kernels(W).take(self._flat, at)
        z: Array = kernels(W).take(W.reshape(-1), flat)
        return z

    def add_to(self, G: Array, weight: float, out: Array) -> None:
        if out.flags.c_contiguous:
            kernels(out).axpy_at(out.reshape(-1), self._flat, weight, G)
        else:
            out.flat[self._flat] += weight * G  # a reshaped copy would swallow the sum

    def norm(self, symmetric: bool = False) -> float:
        if self.origin is not None:
            return self.origin.norm(symmetric)
        if symmetric and self.shape[0] == self.shape[1]:
            i, j = np.divmod(self._flat, self.shape[1])
            if not np.isin(j * self.shape[1] + i, self._flat).any():
                return float(np.sqrt(0.5))  # W_ij = W_ji share the length of W
        return 1.0


class Diagonal(RowStorage):
    r"""z_i = W_ii of a square W.

    Parameters
    ----------
    n : int
        Side of W.
    """

    row_norm = 1.0
    portable = True

    def __init__(self, n: int) -> None:
        self.size = self.storage = dimension("n", n)
        self.shape = (self.size, self.size)

    def rows(self, W: Array, at: Rows = ALL) -> Array:
        return contiguous(diagonal(W)[at])

    def add_to(self, G: Array, weight: float, out: Array) -> None:
        diagonal(out)[:] += weight * G

    def norm(self, symmetric: bool = False) -> float:
        return 1.0
