"""Eigenvectors of a projection on a GPU, from those of the step before, with few launches."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg.lapack import dpotrf, dtrtri

from condgrad._floats import TINY
from condgrad._types import Array
from condgrad.backends.arrays import host
from condgrad.points.low_rank import Products

SHORT = 1e-9
"""Squared length, of columns of about length 1, that is taken for rounding."""
PIVOT = 1e-2
"""Columns of length 1 are independent where none is nearer than this to those before it."""


class Mixed(NamedTuple):
    """Columns that are made of given rows when it is known how many are wanted."""

    rows: Array
    mix: Array
    """What they are made of, a column for each, in an array of NumPy."""

    def made(self, count: int, d: Array) -> tuple[Array, Array]:
        """The first columns, and the first of these times √d, by one copy and one product."""
        mix, rank = self.mix[:, :count], d.size
        both = np.concatenate([mix.T, (mix[:, :rank] * np.sqrt(d)).T])
        found = np.asarray(both, like=self.rows).dot(self.rows)
        return found[: mix.shape[1]].T, found[mix.shape[1] :].T


def ritz(X: Products, part: slice, K: Array, Q: Array) -> tuple[Array, Mixed, int]:
    """Rayleigh-Ritz on the span of K and XK, K off Q: values that fall, columns off Q, products.

    With R the columns of XK off those of K and Q, and B = (R, K, Q, XR, XK), kept as its transpose,
    BᵀB is all that comes to the CPU, and what combines R, K and Q all that goes back. R is scaled
    to columns of length 1 there.
    """
    (n, k), r = K.shape, Q.shape[1]
    count, known = 2 * k, 2 * k + r
    B = np.empty((known + count, n), K.dtype, like=K)
    R, off, Y, Z = B[:k], B[k:known], B[known + k :], B[known : known + k]
    B[k:count] = K.T
    if r:
        B[count:known] = Q.T
    X.rows_times(part, off[:k], Y)
    Y.dot(off.T).dot(off, out=R)
    np.subtract(Y, R, out=R)
    X.rows_times(part, R, Z)
    M = host(B.dot(B.T))
    if not np.isfinite(M).all():
        raise np.linalg.LinAlgError("the direction is not finite")
    values, mix = ritz_pairs(M[:count, :count], M[:count, known:])
    whole = np.concatenate([mix, -M[count:known, :count] @ mix])
    return values, Mixed(B[:known], whole), 2 * k


def ritz_pairs(squares: Array, T: Array) -> tuple[Array, Array]:
    """Ritz values that fall, and what makes their vectors of columns C, by CᵀC and CᵀXC.

    Combinations whose squared length is below `SHORT` are left out.
    """
    scale = 1 / np.sqrt(np.maximum(np.diagonal(squares), TINY))
    S = scale[:, None] * squares * scale
    L, failed = dpotrf(S, lower=1, clean=1)
    if not failed and np.diagonal(L).min() > PIVOT:
        P = scale[:, None] * dtrtri(L, lower=1)[0].T
    else:
        lengths, V = np.linalg.eigh(S)
        used = lengths > SHORT * lengths[-1]
        P = scale[:, None] * V[:, used] / np.sqrt(lengths[used])
    T = P.T @ T @ P
    values, U = np.linalg.eigh(0.5 * (T + T.T))
    return values[::-1], P @ U[:, ::-1]
