"""The lower end of a spectrum on a GPU, where a block of vectors costs little more than one."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from condgrad._floats import EPS, TINY
from condgrad._types import Array
from condgrad.backends.arrays import beyond, diagonal, host, namespace
from condgrad.backends.scalars import norm

BLOCK = 32
"""Vectors in a block."""
DEGREE = 12
"""Degree of the polynomial between two projections."""
ROUNDS = 6
"""The most of these."""
RESIDUAL, STILL = 1e-5, 1e-7
"""It ends where the residual of the lowest pair is this part of ‖V‖_F/√n, or the change of its
value this part of the spread of the spectrum."""
POWER, COLUMNS = 8, 4
"""Products, and of how many columns, for the upper end."""
CLOSE = 0.01
"""Values farther from the lowest than this part of the spread are always damped."""

DEPENDENT = 1e-4
"""Columns of length 1 are near dependence where a combination has this squared length or less."""
FEW = 80
"""Columns up to which a projection on a GPU solves its small eigenproblem on the CPU, those of XK
being as many again."""
LEAN = 6000
"""Above this side no other matrix is made beside V."""


class Bottom(NamedTuple):
    """Approximate eigenpairs at the lower end of a spectrum."""

    values: Array
    """In rising order, in an array of NumPy; the lowest is never below the smallest eigenvalue but
    for rounding."""
    vectors: Array
    """Orthonormal columns."""
    residual: float
    """‖Vx − θx‖ of the lowest pair, by products of columns, or what rounding makes of it."""
    products: int
    """Vectors that V was multiplied by."""


def bottom(V: Array, near: Array | None = None) -> Bottom:
    """Eigenpairs at the lower end of a symmetric V, by subspace iteration with a filter.

    Between two Rayleigh-Ritz projections a block is multiplied by the Chebyshev polynomial of V
    that is small between the largest value of the block and the upper end of the spectrum.

    Parameters
    ----------
    V : array
        Symmetric, on a GPU or not.
    near : array, optional
        Columns to start from; default: random ones, the same at every call.

    References
    ----------
    .. [1] Y. Zhou, Y. Saad, M. L. Tiago, J. R. Chelikowsky, "Self-consistent-field calculations
       using Chebyshev-filtered subspace iteration", J. Comput. Phys. 219(1), 2006.
    """
    n = V.shape[0]
    unit = norm(V) / np.sqrt(n)
    width = min(BLOCK, max(1, n // 4))
    start = drawn(n, width, V) if near is None else near[:, :width]
    found = projected(V, start)
    products, top = start.shape[1], np.inf
    for i in range(ROUNDS):
        if found.residual <= RESIDUAL * unit:
            break
        if i == 0:
            top, products = _upper(V), products + POWER * COLUMNS
        spread = top - found.values[0]
        if not 0 < spread < np.inf:
            break
        low = max(float(found.values[-1]), float(found.values[0]) + CLOSE * spread)
        if low >= top:
            break
        before = found.values[0]
        found = projected(V, _filtered(V, found.vectors, low, top))
        products += (DEGREE + 1) * start.shape[1]
        if abs(before - found.values[0]) <= STILL * spread:
            break
    return found._replace(products=products)


def _upper(V: Array) -> float:
    """About the largest absolute value of an eigenvalue, or somewhat more.

    With g random, ‖V^k g‖ is at least that to the power k times a number of about 1.
    """
    X = drawn(V.shape[0], COLUMNS, V)
    for _ in range(POWER):
        X = V @ X
    return 1.05 * (norm(X) / np.sqrt(COLUMNS)) ** (1 / POWER)


def _filtered(V: Array, P: Array, low: float, high: float) -> Array:
    """T(V) P with the Chebyshev polynomial T that is at most 1 between `low` and `high`."""
    middle, half = (low + high) / 2, (high - low) / 2
    B = None
    if V.shape[0] <= LEAN:
        B = V * (2 / half)
        diagonal(B)[:] -= 2 * middle / half

    def times(Y: Array) -> Array:
        """2/half (V − middle) Y."""
        if B is not None:
            Z: Array = B @ Y
            return Z
        Z = V @ Y
        Z -= middle * Y
        Z *= 2 / half
        return Z

    before, Y = P, 0.5 * times(P)
    for _ in range(DEGREE - 1):
        after = times(Y)
        after -= before
        before, Y = Y, after
    return Y


def projected(V: Array, Y: Array) -> Bottom:
    """The Ritz pairs of V on the span of columns, by their products, which come to the CPU.

    Where the columns, scaled to length 1, are near dependence, they are made orthonormal first.
    """

    def gram(Y: Array) -> Array:
        B = np.concatenate([Y, V @ Y], axis=1)
        return host(B.T @ B)

    M, k = gram(Y), Y.shape[1]
    if not np.isfinite(M).all():  # a filter can make columns too long for squares
        Y = Y / np.maximum(np.abs(Y).max(axis=0), TINY)
        M = gram(Y)
    scale = 1 / np.sqrt(np.maximum(np.diagonal(M)[:k], TINY))
    squares, W = np.linalg.eigh(scale[:, None] * M[:k, :k] * scale)
    if not squares[0] > DEPENDENT:
        P = beyond(np.empty((V.shape[0], 0), like=V), Y * np.asarray(scale, like=V))
        M, W = gram(P), np.eye(k)
    else:
        P, W = Y, scale[:, None] * W / np.sqrt(squares)
    T = W.T @ M[:k, k:] @ W
    values, small = np.linalg.eigh(0.5 * (T + T.T))
    U = W @ small
    u, theta = U[:, 0], float(values[0])
    long = float(np.abs(u) @ np.sqrt(np.diagonal(M)[k:])) ** 2
    off = (
        float(u @ M[k:, k:] @ u)
        - 2 * theta * float(u @ M[:k, k:] @ u)
        + theta**2 * float(u @ M[:k, :k] @ u)
    )
    residual = float(np.sqrt(max(off, EPS * long)))
    return Bottom(values, P @ np.asarray(U, like=V), residual, 0)


def drawn(n: int, width: int, like: Array) -> Array:
    """Random columns, the same at every call."""
    return _columns(n, max(BLOCK, width), namespace(like))[:, :width]


@lru_cache(maxsize=1)
def _columns(n: int, width: int, xp: Any) -> Array:
    """The latest of them, on the device of arrays of the module `xp`."""
    columns: Array = xp.asarray(np.random.default_rng(0).standard_normal((n, width)))
    return columns
