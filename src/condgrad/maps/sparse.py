"""Maps given by explicit rows: sparse matrices A_1 … A_m, or the rows of a data matrix."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import scipy.sparse as sp

from condgrad._check import canonical, numbers, real_matrix, sides
from condgrad._floats import lengths
from condgrad._types import ALL, Array, Rows, ids_of, span
from condgrad.backends import kernels
from condgrad.backends.arrays import floats, host
from condgrad.backends.segments import Products, Segments
from condgrad.errors import ProblemError
from condgrad.maps._base import LinearMap


class DataMatrix(LinearMap):
    r"""z = X w for a vector w: row l is the l-th data point x_l.

    Parameters
    ----------
    X : array or SciPy sparse matrix, shape (n, d), or array of shape (n, d1, d2)
        Data, one row a point. With three sides row l is the matrix X[l], and W is d1 × d2.
    shape : (int, int), optional
        Shape of W where it is a matrix and X has d = d1 d2 columns: row l is then a d1 × d2 matrix
        read row by row. `SparseStack` takes a list of sparse matrices.

    Examples
    --------
    >>> DataMatrix([[1.0, 2.0], [0.0, 1.0]]).rows(np.array([3.0, 4.0]))
    array([11.,  4.])
    >>> DataMatrix(np.ones((1, 2, 3))).rows(np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]))
    array([21.])
    """

    def __init__(self, X: Any, shape: Any = None) -> None:
        if sp.issparse(X):
            csr = canonical("X", X)
            self._csr: _Csr | _CsrOnGpu | None = _Csr(csr)
            self._dense = np.empty((0, 0))
            self._lengths = self._csr.lengths
            rows, columns = csr.shape
        else:
            data = numbers("X", X)
            if data.ndim == 3 and data.size:
                shape, data = shape or data.shape[1:], data.reshape(len(data), -1)
            self._csr = None
            self._dense = real_matrix("X", data)
            self._lengths = lengths(self._dense)
            rows, columns = self._dense.shape
        self.shape = (int(columns),) if shape is None else sides("shape", shape)
        if np.prod(self.shape) != columns:
            raise ProblemError(
                f"shape is {self.shape}, which has {np.prod(self.shape)} entries: X has {columns} "
                "columns"
            )
        self.size, self.storage = int(rows), int(columns)
        self.row_norm = float(self._lengths.max())

    def require_symmetric(self) -> None:
        indptr, indices, data, dense = self.arrays
        rows = self._dense if dense else (data, indices, indptr)
        stack = sp.csr_array(rows, shape=(self.size, self.storage))
        if objection := _asymmetry("X", stack, self.shape):
            raise ProblemError(objection)

    @property
    def depth(self) -> int:
        return self.size if self._csr is None else self._csr.depth

    def lengths(self, at: Rows = ALL) -> Array | float:
        found: Array = self._lengths[at]
        return found

    def rows(self, W: Array, at: Rows = ALL) -> Array:
        w = W.reshape(-1)
        if self._csr is not None:
            return self._csr.gather(w, at)
        if isinstance(at, slice):
            return np.asarray(self._dense[at] @ w, dtype=W.dtype)
        z: Array = kernels(w).dense_gather(self._dense, w, at)
        return z

    def scatter(self, G: Array, at: Rows, y: Array) -> None:
        if self._csr is not None:
            self._csr.scatter(G, at, y)
        elif isinstance(at, slice):
            G += y @ self._dense[at]
        else:
            kernels(G).dense_scatter(G, self._dense, at, y)

    def add_to(self, G: Array, weight: float, out: Array) -> None:
        out += weight * G.reshape(self.shape)

    @property
    def arrays(self) -> tuple[Array, Array, Array, bool]:
        """X as (indptr, indices, data) of CSR, and whether it is dense: then without indices."""
        if isinstance(csr := self._csr, _Csr):
            return csr.indptr, csr.indices, csr.data, False
        indptr = np.arange(self.size + 1) * self.storage
        return indptr, np.empty(0, np.int64), self._dense.reshape(-1), True


class SparseStack(DataMatrix):
    r"""z_l = ⟨A_l, W⟩ for sparse A_1, …, A_m shaped as W, kept in one CSR array.

    Parameters
    ----------
    matrices : sequence of SciPy sparse or dense matrices, or one sparse matrix of m rows
        The A_l, square or rectangular. In the second form row l is A_l read row by row, and `n`
        must be given. On a domain of symmetric matrices an A_l that is not symmetric is refused: it
        is more often a slip than a wish.
    n : int or (int, int), optional
        Side or shape of W, needed with the second form.

    Examples
    --------
    >>> A = SparseStack([np.eye(2), np.ones((2, 2))])
    >>> A.rows(np.array([[1.0, 2.0], [2.0, 5.0]]))
    array([ 6., 10.])
    """

    portable = True

    def __init__(self, matrices: Sequence[Any] | Any, n: Any = None) -> None:
        if sp.issparse(matrices):
            if n is None:
                raise ProblemError("n is missing: the side of W is needed with one m × n² matrix")
            shape, stack = sides("n", n), canonical("matrices", matrices)
            entries = shape[0] * shape[1]
            if stack.shape[1] != entries:
                raise ProblemError(
                    f"matrices has {stack.shape[1]} columns: with n = {n} it needs {entries}"
                )
        else:
            try:
                listed = list(matrices)
            except Exception:  # what is no list, or a class of a user that claims to be one
                raise ProblemError(
                    f"matrices is a {type(matrices).__name__}: pass a list of matrices shaped as W"
                ) from None
            stack, shape = _flatten(listed)
        super().__init__(stack, shape)
        self._objection = _asymmetry("matrices", stack, self.shape)

    def require_symmetric(self) -> None:
        if self._objection:
            raise ProblemError(self._objection)

    def on(self, like: Array) -> SparseStack:
        new = cast(SparseStack, super().on(like))
        assert isinstance(self._csr, _Csr)
        new._csr = _CsrOnGpu(self._csr, like)
        return new

    def chosen(self, ids: Array) -> SparseStack:
        """The map with some of its rows."""
        csr = self._csr
        assert isinstance(csr, _Csr)
        shape = (self.size, self.storage)
        whole = sp.csr_array((csr.data, csr.indices, csr.indptr), shape=shape)
        return SparseStack(whole[ids], self.shape)


class _Csr:
    """Rows of a CSR matrix, gathered and scattered by the compiled kernels."""

    def __init__(self, csr: Any) -> None:
        self.indptr = csr.indptr.astype(np.int64)
        self.indices = csr.indices.astype(np.int64)
        self.data = csr.data.copy()
        self.size = self.indptr.size - 1
        owner, sizes = np.repeat(np.arange(self.size), np.diff(self.indptr)), np.abs(self.data)
        top = np.zeros(self.size)
        np.maximum.at(top, owner, sizes)
        top[top == 0] = 1.0
        squares = np.bincount(owner, weights=np.square(sizes / top[owner]), minlength=self.size)
        with np.errstate(over="ignore"):
            self.lengths = top * np.sqrt(squares)
        """Norm of every row."""
        self.depth = int(np.bincount(self.indices, minlength=1).max()) + 1
        """Rows that share a column at most, and the product."""

    def gather(self, x: Array, at: Rows) -> Array:
        ids = ids_of(at, self.size)
        z: Array = kernels(x).csr_gather(self.indptr, self.indices, self.data, x, ids)
        return z

    def scatter(self, G: Array, at: Rows, y: Array) -> None:
        kernels(G).csr_scatter(G, self.indptr, self.indices, self.data, ids_of(at, self.size), y)


class _CsrOnGpu:
    """Rows on a GPU: one list by rows for images, one by columns for the adjoint.

    Both are summed in a fixed order. No more numbers meet in a sum than in the other class, and
    adding a 0 is exact, so that `depth` is the same.
    """

    def __init__(self, csr: _Csr, like: Array) -> None:
        self.size, self.depth = csr.size, csr.depth
        self._by_row = Segments(csr.indptr, like)
        self._columns = np.asarray(csr.indices.astype(np.int32), like=like)
        self._data = np.asarray(csr.data, like=like)
        order = np.argsort(csr.indices, kind="stable")
        used, starts = np.unique(csr.indices[order], return_index=True)
        owner = np.repeat(np.arange(csr.size, dtype=np.int32), np.diff(csr.indptr))
        self._by_column = Segments(np.append(starts, order.size), like)
        self._used = np.asarray(used, like=like)
        self._rows = np.asarray(owner[order], like=like)
        self._turned = np.asarray(csr.data[order], like=like)

    def gather(self, x: Array, at: Rows) -> Array:
        if not isinstance(at, slice):
            return self.gather(x, ALL)[np.asarray(at, like=x)]
        products = Products(self._columns, floats(x), 0, x.size)
        z = self._by_row.sums(self._data, *span(at, self.size), products)
        return z.astype(x.dtype, copy=False)

    def scatter(self, G: Array, at: Rows, y: Array) -> None:
        if not isinstance(at, slice):  # rows may be there twice
            total = np.bincount(host(at), host(y), minlength=self.size)
            at, y = ALL, np.asarray(total, like=y)
        products = Products(self._rows, floats(y), *span(at, self.size))
        sums = self._by_column.sums(self._turned, 0, self._by_column.size, products)
        G[self._used] += sums.astype(G.dtype, copy=False)


def _flatten(matrices: list[Any]) -> tuple[Any, tuple[int, int]]:
    """A list of matrices of one shape as the rows of one CSR array."""
    if not matrices:
        raise ProblemError("matrices is empty: a term needs at least one row")
    flat: list[Any] = []
    shape = (0, 0)
    for l, A in enumerate(matrices):
        name = f"matrices[{l}]"
        A = sp.coo_array(canonical(name, A) if sp.issparse(A) else real_matrix(name, A))
        if flat and shape != A.shape:
            raise ProblemError(
                f"matrices[{l}] has shape {A.shape}, matrices[0] has {shape}: all must agree"
            )
        shape = (int(A.shape[0]), int(A.shape[1]))
        flat.append(A.reshape((1, shape[0] * shape[1])).tocsr())
    return canonical("matrices", sp.vstack(flat)), shape


def _asymmetry(name: str, stack: Any, shape: tuple[int, ...]) -> str | None:
    """A sentence that names a flat row which is no symmetric matrix, or None; all in one go."""
    side = shape[0]
    if side != shape[1]:
        return f"{name} has rows of shape {shape}: they must be square and symmetric"
    columns = (stack.indices % side) * side + stack.indices // side
    transposed = sp.csr_array((stack.data, columns, stack.indptr), shape=stack.shape)
    gap, size = abs(stack - transposed), abs(stack)
    bad = np.nonzero(gap.max(axis=1).toarray() > 1e-10 * size.max(axis=1).toarray())[0]
    if not bad.size:
        return None
    return f"{name}[{bad[0]}] is not symmetric: pass (A + A.T)/2 if its symmetric part is meant"
