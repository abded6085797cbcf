"""Matrices of low rank, kept as factors."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any, ClassVar

import numpy as np
import scipy.linalg

from condgrad._types import Array
from condgrad.backends import ops, threads
from condgrad.errors import ProblemError

SHOWN = 4_000_000
"""Entries up to which a run hands out its point as an array."""
CHUNK = 1 << 14
"""Rows of factors that are made float64 at a time."""


@dataclass(repr=False, eq=False)
class Factored:
    """W = U diag(s) Vᵀ, of which only the factors are kept.

    It stands for an array W that is only read, and is never changed. ``np.asarray(W)`` and `dense`
    make the whole matrix, `entries` some of it.

    Parameters
    ----------
    U : array of shape (n, r)
        Columns u_k.
    s : array of shape (r,)
        Numbers s_k. In a result they are the singular values, from the largest on, and the columns
        of U and V are orthonormal.
    V : array of shape (m, r)
        Columns v_k.

    Examples
    --------
    >>> W = Factored([[1.0], [0.0]], [3.0], [[0.0], [1.0]])
    >>> W.entries([0, 1], [1, 1])
    array([3., 0.])
    >>> np.asarray(W)
    array([[0., 3.],
           [0., 0.]])
    """

    ndim: ClassVar[int] = 2
    U: Any
    s: Any
    V: Any

    def __post_init__(self) -> None:
        self.U, self.s, self.V = (_floats(x) for x in (self.U, self.s, self.V))
        good = self.U.ndim == self.V.ndim == 2 and self.s.ndim == 1
        if not good or not self.U.shape[1] == self.V.shape[1] == self.s.size:
            raise ProblemError(
                f"U, s and V have shapes {self.U.shape}, {self.s.shape} and {self.V.shape}: they "
                "must be (n, r), (r,) and (m, r)"
            )

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the matrix."""
        return self.U.shape[0], self.V.shape[0]

    @property
    def dtype(self) -> np.dtype[Any]:
        """Precision of the factors."""
        return np.result_type(self.U, self.V)

    @classmethod
    def zeros(cls, shape: tuple[int, ...], dtype: Any = np.float64) -> Factored:
        """The matrix of zeros, of rank 0."""
        n, m = shape
        return cls(np.zeros((n, 0), dtype), np.zeros(0, dtype), np.zeros((m, 0), dtype))

    @classmethod
    def of(cls, array: Any, tol: float = 1e-12) -> Factored:
        """The singular vectors of an array with values above `tol` times the largest."""
        U, s, VT = scipy.linalg.svd(np.asarray(array), full_matrices=False)
        rank = int(np.count_nonzero(s > tol * s[0])) if s.size else 0
        return cls(U[:, :rank], s[:rank], VT[:rank].T)

    @property
    def rank(self) -> int:
        """Columns of the factors."""
        return self.s.size

    @property
    def size(self) -> int:
        """Entries of the matrix."""
        return self.shape[0] * self.shape[1]

    def __repr__(self) -> str:
        return f"<Factored: {self.shape[0]} x {self.shape[1]}, rank {self.rank}, {self.dtype}>"

    @property
    def left(self) -> Array:
        """U diag(s), so that W = left Vᵀ."""
        return np.ascontiguousarray(self.U * self.s)

    def entries(self, i: Any, j: Any) -> Array:
        """W_{i_l j_l}, one number for each pair of positions."""
        i, j = np.atleast_1d(i), np.atleast_1d(j)
        shape = np.broadcast_shapes(i.shape, j.shape)
        i, j = (np.broadcast_to(x, shape).reshape(-1) for x in (i, j))
        for name, x, side in (("i", i, self.shape[0]), ("j", j, self.shape[1])):
            if x.dtype.kind not in "iu":
                raise ProblemError(f"{name} has dtype {x.dtype}: positions are integers from 0")
            if x.size and (x.min() < 0 or x.max() >= side):
                raise ProblemError(f"{name} leaves the matrix of shape {self.shape}")
        found = pair_dots(self.left, self.V, i, j)
        return found.reshape(shape).astype(self.dtype, copy=False)

    def ranged(self, at: slice) -> Array:
        """A range of the entries of the flattened matrix."""
        (start, stop, _), m = at.indices(self.size), self.shape[1]
        first, last = start // m, -(-stop // m)
        rows = Factored(self.U[first:last], self.s, self.V).dense()
        return rows.reshape(-1)[start - first * m : stop - first * m]

    def dense(self, dtype: Any = None) -> Array:
        """The whole matrix."""
        return (self.left @ self.V.T).astype(dtype or self.dtype, copy=False)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        if copy is False:
            raise ValueError("a matrix kept as factors is an array only as a copy")
        return self.dense(dtype)

    def __matmul__(self, K: Any) -> Array:
        return (self.U * self.s) @ (self.V.T @ np.asarray(K))

    @property
    def T(self) -> Factored:
        """The transpose, of the same factors."""
        return Factored(self.V, self.s, self.U)

    def astype(self, dtype: Any, copy: bool = True) -> Factored:
        """Return this matrix in another precision."""
        return Factored(*(x.astype(dtype, copy=copy) for x in (self.U, self.s, self.V)))

    def copy(self) -> Factored:
        """Factors of its own."""
        return Factored(self.U.copy(), self.s.copy(), self.V.copy())

    def dot(self, other: Factored) -> float:
        """⟨W, other⟩, summed in float64."""
        left, right = _inner(self.U, other.U), _inner(self.V, other.V)
        return float(np.einsum("a,ab,ab,b->", self.s, left, right, other.s, dtype=np.float64))

    @property
    def square(self) -> float:
        """‖W‖² if the columns of U and of V are orthonormal."""
        return float(np.sum(np.square(self.s), dtype=np.float64))

    def decomposed(self) -> Factored:
        """Return this matrix with orthonormal factors, singular values falling."""
        (Q, R), (P, S) = (
            scipy.linalg.qr(X, mode="economic", check_finite=False) for X in (self.U, self.V)
        )
        a, s, bt = scipy.linalg.svd((R * self.s) @ S.T, full_matrices=False, check_finite=False)
        return Factored(Q @ a, s, P @ bt.T)


def pair_dots(P: Array, Q: Array, i: Array, j: Array) -> Array:
    """The inner products of rows i of P and j of Q, in threads."""
    P, Q = np.ascontiguousarray(P), np.ascontiguousarray(Q)
    out = np.empty(i.size, np.result_type(P, Q))
    parts = chain(*threads.share([slice(0, i.size)]))
    threads.run([partial(ops.pair_dots, i[at], j[at], P, Q, out[at]) for at in parts])
    return out


def finite(W: Any) -> bool:
    """Whether no number of a point is infinite or NaN."""
    parts = (W.U, W.s, W.V) if isinstance(W, Factored) else (W,)
    return all(bool(np.isfinite(x).all()) for x in parts)


def shown(W: Any) -> Any:
    """A point as users see it: factors as an array, up to `SHOWN` entries of it."""
    return W.dense() if isinstance(W, Factored) and W.size <= SHOWN else W


def _inner(A: Array, B: Array) -> Array:
    """AᵀB in float64, a chunk of rows at a time."""
    total = np.zeros((A.shape[1], B.shape[1]))
    for first in range(0, A.shape[0], CHUNK):
        a, b = (X[first : first + CHUNK].astype(np.float64, copy=False) for X in (A, B))
        total += a.T @ b
    return total


def _floats(x: Any) -> Array:
    array = np.asarray(x)
    array = array if array.dtype in (np.float32, np.float64) else array.astype(np.float64)
    return np.ascontiguousarray(array)
