"""Bounds on eigenvalues on a GPU, where few arrays of the size of a matrix may be had.

`symmetric`, `mean_eigenvalue` and `deflate` serve the CPU as well.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from condgrad._floats import EPS, above
from condgrad._types import Array
from condgrad.backends import kernels
from condgrad.backends.arrays import (
    contiguous,
    diagonal,
    factor_of,
    floats,
    foreign,
    namespace,
    slabs,
)
from condgrad.backends.scalars import norm, square
from condgrad.domains.bottom import bottom

LARGE = 10_000
"""Above this side all eigenvalues are computed only where nothing else proves anything."""
CLOSE = 1e-7
"""A first try for how far a bound is below such a value, in units of ‖V‖_F/√n."""


def symmetric(v: Array, spent: bool = False) -> Array:
    """v/2 + vᵀ/2 in float64, on a GPU in v itself where that is `spent`."""
    if not foreign(v):
        half = 0.5 * floats(v)
        return np.asarray(half + half.T)
    V = v if spent and v.dtype == np.float64 else v.astype(np.float64)
    V = contiguous(V)
    kernels(V).symmetrise(V)
    return V


def mean_eigenvalue(V: Array, basis: Array) -> float:
    """The mean eigenvalue of a symmetric V off orthonormal columns."""
    n, r = basis.shape
    return (float(np.trace(V)) - float(np.vdot(basis, V @ basis))) / (n - r)


def deflate(V: Array, basis: Array, top: float | None = None) -> None:
    """Project orthonormal columns out of a symmetric V, in place; they get the eigenvalue `top`.

    Default: beyond the top of the spectrum.
    """
    if basis.shape[1] == 0:
        return
    Q = basis.astype(V.dtype, copy=False)
    X = V @ Q
    Z = X.T - (Q.T @ X) @ Q.T
    for s in slabs(V):
        part = V[s]
        part -= X[s] @ Q.T
        part -= Q[s] @ Z
    if top is None:
        # no eigenvalue of V lies above
        top = 2 * max(float(np.abs(V[s]).sum(axis=1).max()) for s in slabs(V)) or 1.0
    Y = V.dtype.type(top) * Q
    for s in slabs(V):
        part = V[s]
        part += Y[s] @ Q.T


def checked(V: Array, near: Array | None, whole: int) -> float:
    r"""A number below the smallest eigenvalue of a symmetric V on a GPU, with entries of about 1.

    Nothing is taken for granted of how eigenvalues and factors are computed there. Let B be V − σI
    as computed, σ a little below what was found for the smallest eigenvalue, and L any matrix, here
    what the Cholesky factorisation of B gave. Then LLᵀ ⪰ 0, so λ_min(B) ≥ −‖B − LLᵀ‖. The product
    as computed, in whatever order its sums are taken, is off by at most γ_n ‖l_i‖‖l_j‖ in entry
    (i, j), and so by γ_n ‖L‖_F² in norm; the difference E with B by u‖E‖_F, and the diagonal of B
    by u b_ii:

    .. math:: λ_{min}(V) ≥ σ - (1 + u)‖E‖_F - γ_n ‖L‖_F^2 - u \max_i |b_{ii}|.

    V is that of a caller who may have made it equal to its transpose with a rounding of each entry,
    for which u‖V‖_F more is taken off. So E and LLᵀ are symmetric, too, and entries above the
    diagonal are not computed, but in blocks on it.

    Parameters
    ----------
    V : array
        The matrix; what is written to its diagonal is taken back.
    near : array or None
        Columns near the lowest eigenvectors.
    whole : int
        Up to this side all eigenvalues are computed for a guess.
    """
    size, best = norm(V), -np.inf
    for guess, lower, factor, tries in _guesses(V, near, size, whole):
        for i in range(tries):
            found, done = _factored(V, guess, lower * factor**i)
            best = max(best, found)
            if done:
                return best - EPS * size
    return max(best, -above(size, V.size + 4)) - EPS * size  # |λ| ≤ ‖V‖_F


def _guesses(
    V: Array, near: Array | None, size: float, whole: int
) -> Iterator[tuple[float, float, float, int]]:
    """Guesses of the smallest eigenvalue, how far below to look, by what factor more, how often.

    All eigenvalues come last where there are many: a block can miss the lowest one. Where they
    would take too long, a bound that is less tight comes before them.
    """
    n, least = V.shape[0], EPS * (4 + 2 * size)
    if n > whole:
        for start in (None,) if near is None else (near, None):
            found = bottom(V, start)
            first = min(found.residual, CLOSE * size / np.sqrt(n))
            patient = start is None and n > LARGE
            yield float(found.values[0]), max(least, first), 8.0, 12 if patient else 5
    yield float(namespace(V).linalg.eigvalsh(V)[0]), least, 4.0, 40


def _factored(V: Array, guess: float, lower: float) -> tuple[float, bool]:
    """Bound from the factor of V − σI, σ = guess − lower, and whether it is the best one."""
    n, sigma, own = V.shape[0], guess - lower, diagonal(V).copy()
    diagonal(V)[:] -= sigma
    try:
        L = factor_of(V)
        if L is None:
            return -np.inf, False
        largest, whole = float(np.abs(diagonal(V)).max()), square(L)
        total = sum(_missed(V, L, s) for s in slabs(V))
    finally:
        diagonal(V)[:] = own
    lost = above(float(np.sqrt(total)), V.size + 8) + EPS * ((n + 4) * whole + largest)
    if not np.isfinite(lost):
        return -np.inf, False
    return sigma - lost - EPS * abs(sigma), lost <= 4 * (lower + EPS * (n + 8) * whole)


def _missed(B: Array, L: Array, s: slice) -> float:
    """Σ e² of the rows `s` of E = B − LLᵀ up to the diagonal, what lies left of it twice."""
    E = L[s] @ L[: s.stop].T
    E -= B[s, : s.stop]
    left, block = E[:, : s.start], E[:, s.start :]
    return 2 * (square(left) if s.start else 0.0) + square(block)
