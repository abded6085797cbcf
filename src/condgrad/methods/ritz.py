"""Eigenvectors of a projection on a GPU, from those of the step before, with few launches."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg.lapack import dpotrf, dtrtri

from condgrad._floats import TINY
from condgrad._types import Array
from condgrad.backends import kernels
from condgrad.backends.arrays import host
from condgrad.points.low_rank import Products

SHORT = 1e-9
"""Squared length, of columns of about length 1, that is taken for rounding."""
PIVOT = 1e-2
"""Columns of length 1 are independent where none is nearer than this to those before it."""


class Mixed(NamedTuple):
    """Columns that are made of given rows when it is known how many are wanted."""

    rows: Array
    """Rows that the columns are made of, the last ones Q."""
    mix: Array
    """Coefficients of the rows, a column for each, in an array of NumPy."""
    pinned: int
    """The number of columns of Q."""

    def made(self, count: int, d: Array) -> tuple[Room, Array]:
        """A room with the first columns, and the first of these times √d.

        That is one copy to the GPU and one product: the latter lie in the room, too, until it is
        used.
        """
        mix, rank, r = self.mix[:, :count], d.size, self.pinned
        k, known = mix.shape[1], mix.shape[0]
        room = Room(np.empty((4 * k + r, self.rows.shape[1]), like=self.rows), k, r)
        both = np.zeros((k + r + rank, known))
        both[:k] = mix.T
        both[np.arange(k, k + r), np.arange(known - r, known)] = 1.0
        both[k + r :] = (mix[:, :rank] * np.sqrt(d)).T
        made = room.rows[k : 2 * k + r + rank]
        kernels(made).gemm(made, np.asarray(both, like=made), self.rows)
        return room, made[k + r :].T


class Room(NamedTuple):
    """Rows for R, K, Q, XR and XK, one behind the other, K and Q being there."""

    rows: Array
    k: int
    r: int

    @property
    def K(self) -> Array:
        """K as columns."""
        return self.rows[self.k : 2 * self.k].T


def room_of(K: Array, Q: Array) -> Room:
    """A room for given columns, K off Q."""
    (n, k), r = K.shape, Q.shape[1]
    rows = np.empty((4 * k + r, n), like=K)
    rows[k : 2 * k] = K.T
    if r:
        rows[2 * k : 2 * k + r] = Q.T
    return Room(rows, k, r)


def ritz(X: Products, part: slice, room: Room) -> tuple[Array, Mixed, int]:
    """Rayleigh-Ritz on the span of K and XK, K off Q: values that fall, columns off Q, products.

    With R the columns of XK off those of K and Q, and B = (R, K, Q, XR, XK), kept as its transpose,
    BᵀB is all that comes to the CPU, and what combines R, K and Q all that goes back. R is scaled
    to columns of length 1 there.
    """
    B, k, r = room
    count, known, gemm, V = 2 * k, 2 * k + r, kernels(B).gemm, X.whole(part)
    R, off, Z, Y = B[:k], B[k:known], B[known : known + k], B[known + k :]
    gemm(Y, off[:k], V)
    C = np.empty((k, k + r), like=B)
    gemm(C, Y, off.T)
    R[...] = Y
    gemm(R, C, off, -1.0, 1.0)
    gemm(Z, R, V)
    squares = np.empty((len(B), len(B)), like=B)
    gemm(squares, B, B.T)
    M = host(squares)
    if not np.isfinite(M).all():
        raise np.linalg.LinAlgError("the direction is not finite")
    values, mix = ritz_pairs(M[:count, :count], M[:count, known:])
    whole = np.concatenate([mix, -M[count:known, :count] @ mix])
    return values, Mixed(B[:known], whole, r), 2 * k


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
