"""Maps that multiply W by matrices, A W, W B and A W B."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from condgrad._check import canonical, dimension, real_matrix
from condgrad._floats import TINY
from condgrad._types import ALL, Array, Rows, ids_of, span
from condgrad.backends import ops
from condgrad.maps._base import Covering
from condgrad.maps.sparse import DataMatrix

AT_ONCE = 1 << 22
"""Numbers in the factors of drawn rows that are made at a time."""


class Sandwich(Covering):
    r"""z = A W B, entry by entry: z_{(i,j)} = a_iᵀ W b_j = ⟨a_i b_jᵀ, W⟩.

    a_i are the rows of A and b_j the columns of B. The images go row by row: (i, j) is row i q + j.
    The adjoint is A*y = Aᵀ Y Bᵀ, Y the multipliers as a p × q matrix. Neither the rows nor, where W
    is kept as factors (`condgrad.points.Factored`), W itself are ever made.

    Parameters
    ----------
    A : array or SciPy sparse matrix, shape (p, n)
        What W is multiplied by from the left; n is the number of rows of W.
    B : array or SciPy sparse matrix, shape (m, q)
        What W is multiplied by from the right; m is the number of columns of W.

    See Also
    --------
    Left : A W.
    Right : W B.

    Examples
    --------
    >>> map = Sandwich([[1.0, 1.0]], [[1.0, 0.0], [0.0, 2.0], [0.0, 3.0]])
    >>> map.rows(np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]))
    array([ 5., 41.])
    """

    def __init__(self, A: Any, B: Any) -> None:
        left, right = _matrix("A", A), _matrix("B", B)
        self._set(left, right, (left.shape[1], right.shape[0]), (left.shape[0], right.shape[1]))

    def _set(self, A: Any, B: Any, shape: tuple[int, int], images: tuple[int, int]) -> None:
        """Take the factors, None for an identity, the shape of W and that of the images."""
        p, q = self._images = int(images[0]), int(images[1])
        n, m = self.shape = int(shape[0]), int(shape[1])
        self.size, self.storage = p * q, n * m
        self._A: Any = A
        self._BT: Any = None if B is None else _turned(B)
        self._sizes = [np.ones(k) if X is None else _row_lengths(X) for X, k in self._sides()]
        with np.errstate(over="ignore"):  # a problem refuses such norms
            self.row_norm = float(self._sizes[0].max() * self._sizes[1].max())
        self.chunk = max(1, self.chunk // q) * q  # whole rows of the images
        a, b = (0 if X is None else X.size for X, _ in self._sides())  # of sparse ones: as stored
        self._left_first = A is None or (B is not None and a * m + b * p <= b * n + a * q)
        """Whether (A W) B is cheaper than A (W B)."""

    def _sides(self) -> tuple[tuple[Any, int], tuple[Any, int]]:
        return (self._A, self._images[0]), (self._BT, self._images[1])

    @property
    def stretch(self) -> int:
        """A row of the images, which shares a row of A."""
        return self._images[1]

    @property
    def depth(self) -> int:
        """Two sums, the rows of A added chunk by chunk, and two products."""
        a, b = (1 if X is None else _per_column(X) for X, _ in self._sides())
        return 2 * a + b + 3

    def lengths(self, at: Rows = ALL) -> Array | float:
        i, j = np.divmod(ids_of(at, self.size), self._images[1])
        found: Array = self._sizes[0][i] * self._sizes[1][j]
        return found

    def spread(self, y: Array, at: Rows = ALL) -> float:
        """Spread, with the underflow of the first product multiplied by the other factor."""
        found = super().spread(y, at)
        most = sum(float(sizes.max()) for sizes in self._sizes)
        lost = y.size * TINY * most * float(np.sqrt(self.storage))
        return found + lost if found else 0.0

    def rows(self, W: Array, at: Rows = ALL) -> Array:
        if isinstance(at, slice):
            start, stop = span(at, self.size)
            whole, own = self._whole(start, stop)
            left, right = self._halves(W, whole, ALL)
            found: Array = np.asarray(left @ right.T, dtype=W.dtype).reshape(-1)[own]
            return found
        z = np.empty(at.size)
        step = max(1, AT_ONCE // max(self.shape))
        for first in range(0, at.size, step):
            part = slice(first, first + step)
            (i, to_i), (j, to_j) = self._pairs(at[part])
            left, right = (_dense(half, np.float64) for half in self._halves(W, i, j))
            ops.pair_dots(to_i, to_j, left, right, z[part])
        return z.astype(W.dtype, copy=False)

    def scatter(self, G: Array, at: Rows, y: Array) -> None:
        if isinstance(at, slice):
            start, stop = span(at, self.size)
            whole, own = self._whole(start, stop)
            Y: Any = np.zeros(((whole.stop - whole.start), self._images[1]), y.dtype)
            Y.reshape(-1)[own] = y
            self._add(G, Y, whole, ALL)
            return
        (i, to_i), (j, to_j) = self._pairs(at)
        Y = sp.csr_array((y, (to_i, to_j)), shape=(i.size, j.size))  # repeats are summed
        self._add(G, Y, i, j)

    def norm(self, symmetric: bool = False) -> float:
        """‖A‖ ‖B‖ in spectral norms; over symmetric W it can be less where both are there."""
        both = self._A is not None and self._BT is not None
        if symmetric and both and self.shape[0] == self.shape[1]:
            return super().norm(symmetric)
        given = [DataMatrix(X).norm() for X in (self._A, self._BT) if X is not None]
        return float(np.prod(given))

    def _whole(self, start: int, stop: int) -> tuple[slice, slice]:
        """The rows of the images that hold a range, and where it lies in them."""
        q = self._images[1]
        first = start // q
        last = max(first, -(-stop // q)) if stop > start else first
        return slice(first, last), slice(start - first * q, max(start, stop) - first * q)

    def _pairs(self, at: Array) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
        """The rows and columns of the images among `at`, each once, and which belongs to whom."""
        i, j = np.divmod(at, self._images[1])
        found = (np.unique(x, return_inverse=True) for x in (i, j))
        (i, to_i), (j, to_j) = found
        return (i, to_i.astype(np.int64)), (j, to_j.astype(np.int64))

    def _halves(self, W: Any, i: Rows, j: Rows) -> tuple[Any, Any]:
        """Two matrices whose rows have the images (i, j) as their inner products."""
        A, BT = (None if X is None else X[at] for X, at in ((self._A, i), (self._BT, j)))
        if hasattr(W, "entries"):  # kept as factors
            left, right = W.left, W.V
            return left[i] if A is None else A @ left, right[j] if BT is None else BT @ right
        if self._left_first:
            return W[i] if A is None else A @ W, BT
        return A, W.T[j] if BT is None else BT @ W.T

    def _add(self, G: Array, Y: Any, i: Rows, j: Rows) -> None:
        """G += Aᵀ Y Bᵀ for the multipliers Y of the images (i, j)."""
        out = G.reshape(self.shape)
        if self._A is None:
            out[i] += _dense(Y @ self._BT[j])
        elif self._BT is None:
            out[:, j] += _dense(self._A[i].T @ Y)
        elif self._left_first:
            out += _dense(self._A[i].T @ (Y @ self._BT[j]))
        else:
            out += _dense((self._A[i].T @ Y) @ self._BT[j])


class Left(Sandwich):
    r"""z = A W, entry by entry: z_{(i,j)} = Σ_k A_ik W_kj.

    A linear model with many outputs: the rows of A are data points, W has a column for each output.
    The images go row by row, so that data for them is ``Y.ravel()``.

    Parameters
    ----------
    A : array or SciPy sparse matrix, shape (p, n)
        What W is multiplied by.
    columns : int
        Columns of W.

    Examples
    --------
    >>> Left([[1.0, 2.0]], columns=3).rows(np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]))
    array([ 9., 12., 15.])
    """

    def __init__(self, A: Any, columns: int) -> None:
        left, m = _matrix("A", A), dimension("columns", columns)
        self._set(left, None, (left.shape[1], m), (left.shape[0], m))


class Right(Sandwich):
    r"""z = W B, entry by entry: z_{(i,j)} = Σ_k W_ik B_kj.

    Parameters
    ----------
    B : array or SciPy sparse matrix, shape (m, q)
        What W is multiplied by.
    rows : int
        Rows of W.

    Examples
    --------
    >>> Right([[1.0], [2.0]], rows=3).rows(np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]))
    array([ 5., 11., 17.])
    """

    def __init__(self, B: Any, rows: int) -> None:
        right, n = _matrix("B", B), dimension("rows", rows)
        self._set(None, right, (n, right.shape[0]), (n, right.shape[1]))


def _matrix(name: str, value: Any) -> Any:
    """A factor as a checked copy, CSR where it is sparse."""
    return (canonical(name, value) if sp.issparse(value) else real_matrix(name, value)).copy()


def _turned(X: Any) -> Any:
    return X.T.tocsr() if sp.issparse(X) else np.ascontiguousarray(X.T)


def _row_lengths(X: Any) -> Array:
    found: Array = np.asarray(DataMatrix(X).lengths())
    return found


def _per_column(X: Any) -> int:
    """Rows that share a column at most."""
    return int(np.bincount(X.indices, minlength=1).max()) if sp.issparse(X) else int(X.shape[0])


def _dense(X: Any, dtype: Any = None) -> Array:
    """A half or a sum as an array, its rows one behind the other."""
    return np.ascontiguousarray(X.toarray() if sp.issparse(X) else X, dtype)
