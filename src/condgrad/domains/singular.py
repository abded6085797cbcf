"""The largest singular value of a matrix that is known by its products, bounded from above."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import scipy.linalg

from condgrad._floats import EPS, above, length, power_of_two
from condgrad._types import Array
from condgrad.backends import ops
from condgrad.domains.eigen import FAILURE, LARGE, top_of_gram
from condgrad.maps.pattern import SparseMatrix

GRAM = 10**9
"""Multiplications up to which VᵀV is formed."""
STEPS = 400
"""Largest number of Lanczos steps."""
LOOK = 10
"""Lanczos steps between two tests of convergence."""


class Top(NamedTuple):
    """A probable upper bound of the largest singular value."""

    value: float
    failure: float
    """Probability that the largest singular value exceeds `value`."""
    products: int
    """Products with the matrix that the bound took."""


def top_bound(V: SparseMatrix, enough: Callable[[float, float], bool] | None = None) -> Top:
    r"""A number above the largest singular value σ of a sparse V in float64.

    Where the smaller side is at most 3000, and VᵀV (or VVᵀ) takes no more than 10⁹
    multiplications, it is formed, and its largest eigenvalue is proved (`lowest_bound`). Else
    Lanczos on it starts from a random vector of length 1. Where λ = σ² exceeds all Ritz values, the
    component c of the start along its eigenvector obeys c² Σ_k p_k(λ)² ≤ 1, p_k the orthonormal
    polynomials of the tridiagonal matrix, since c p_k(λ) is that of the k-th vector
    (`_reference.hidden`). The sum grows with λ, and P(|c| ≤ ε) ≤ ε √(2n/π). So λ ≤ x with the
    probability 1 − 10⁻¹⁰, x the number at which the sum is large enough. This is exact for what
    Lanczos has computed; 4nε‖V‖_F σ more is for rounding, which is not proved.

    Parameters
    ----------
    V : SparseMatrix
        The matrix.
    enough : callable, optional
        Told a number that σ is at least and one that it is at most; True ends Lanczos.
    """
    unit = power_of_two(V.values)
    size = above(length(V.values / unit), V.values.size + 4) if V.values.size else 0.0
    size = above(size * float(np.sqrt(V.repeats)), 2)  # (Σ x_i)² ≤ k Σ x_i² for k numbers
    if size == 0:
        return Top(0.0, 0.0, 0)
    n = min(V.shape)
    if n <= LARGE:
        matrix = V.compressed() / unit
        matrix = matrix if matrix.shape[0] >= matrix.shape[1] else matrix.T.tocsr()
        if float(np.square(np.diff(matrix.indptr).astype(float)).sum()) <= GRAM:
            gram = (matrix.T @ matrix).toarray()
            top, failure = top_of_gram(gram, matrix.shape[0])
            return Top(unit * min(size, top * (1 + 4 * EPS)), failure, 0)
    return _by_lanczos(V, unit, size, enough)


def _by_lanczos(
    V: SparseMatrix, unit: float, size: float, enough: Callable[[float, float], bool] | None
) -> Top:
    n, tall = min(V.shape), V.shape[0] >= V.shape[1]
    first, second = (V.times, V.transposed) if tall else (V.transposed, V.times)
    steps = min(n, STEPS)
    bits = int(np.float64(V.values.sum()).view(np.uint64))  # another start for every V
    r = np.random.default_rng([1, n, steps, bits]).standard_normal(n)
    r /= np.linalg.norm(r)
    Q, diagonal, off = np.empty((steps, n)), np.empty(steps), np.empty(steps)
    goal, best, done = np.pi / (2 * n) * FAILURE**2, size, 0
    for k in range(steps):
        Q[k], done = r, k + 1
        r = second(first(r[:, None]) / unit)[:, 0] / unit  # squares must not underflow
        diagonal[k] = Q[k] @ r
        for _ in range(2):
            r -= (Q[:done] @ r) @ Q[:done]
        off[k] = max(float(np.linalg.norm(r)), 1e-300)
        r /= off[k]
        over = off[k] <= 10 * EPS * np.sqrt(n) * size**2 or done == steps
        if over or done % LOOK == 0:
            ritz = scipy.linalg.eigvalsh_tridiagonal(
                diagonal[:done], off[:k], select="i", select_range=(k, k)
            )
            low = float(np.sqrt(max(ritz[0], 0.0)))
            best = _highest(diagonal[:done], off[:done], float(ritz[0]), size**2, goal)
            best = min(size, float(np.sqrt(best)) + 4 * max(V.shape) * EPS * size)
            if over or (enough is not None and enough(unit * low, unit * best)):
                break
    return Top(unit * best * (1 + 4 * EPS), FAILURE, 2 * done)


def _highest(diagonal: Array, off: Array, low: float, high: float, goal: float) -> float:
    """The least number found beyond which so little of a start could hide a vector."""
    high = max(low, high)
    for _ in range(60):
        middle = 0.5 * (low + high)
        if ops.hidden(diagonal, off, middle) <= goal:
            high = middle
        else:
            low = middle
        if high - low <= 1e-9 * high:
            break
    return high
