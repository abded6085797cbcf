"""A bound on the smallest eigenvalue of a large matrix, of which only products are taken."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from condgrad import _deadline as deadline
from condgrad._floats import EPS, above, below, power_of_two
from condgrad._types import Array
from condgrad.backends.arrays import diagonal

COLUMNS = 8
"""Random starts; with all of them the bound may fail only where each misses the eigenvector."""
EVERY = 10
"""Steps between two tests of what the columns prove."""
MOST = 1e100
"""Columns that have grown so long prove enough."""


def bound_by_products(
    M: Any, failure: float, steps: int, beside: tuple[float, Array] | None = None
) -> float:
    r"""A number below the smallest eigenvalue of a symmetric M, but with chance `failure`.

    Let H = (M − cI)/w, with numbers c and w for which the eigenvalues of H lie about in [−1, 1]
    (what is proved does not rest on that), T_k Chebyshev's polynomials and g a Gaussian vector. If
    u is a unit eigenvector of H for the eigenvalue −x, x > 1, then ‖T_k(H) g‖ ≥ T_k(x) |⟨u, g⟩|.
    With probability 1 − p one of s independent starts has |⟨u, g⟩| ≥ c = √(π/2) p^(1/s), for
    the density of ⟨u, g⟩ is at most 1/√(2π). So, with the longest of the s columns,

    .. math:: λ_{min}(H) ≥ -\cosh\big(\tfrac1k \operatorname{arcosh}(\max_i ‖T_k(H) g_i‖/c)\big)

    for all k together. With s = 8 the logarithm behind it is a third of what one start needs,
    which is what Lanczos has to pay for [1]_, and three arrays of s columns are kept.

    Rounding is a part of the proof. Let ŵ_k be the columns as computed and e_k what the step to
    ŵ_k is off by: ‖e_k‖ ≤ 2γ_l ‖\|H\|‖ ‖ŵ_{k−1}‖ + u‖ŵ_k‖, l being the numbers in a row. Then
    ŵ_k = T_k(H) g + Σ_j U_{k−j}(H) e_j, and as U_m(x) ≤ (m + 1) T_m(x) and T_{k−j}(x) ≤
    T_k(x)/T_j(x), ‖ŵ_k‖ ≥ T_k(x) (c − Σ_j (k − j + 1) ‖e_j‖/T_j(x)). Where the sum is below c/2
    at an x with T_k(x) = 2‖ŵ_k‖/c it is so at every larger one, none of which can be an eigenvalue.

    Parameters
    ----------
    M : array or SciPy sparse array
        Exactly symmetric.
    failure : float
        The probability p, over the starts, which are drawn for this M.
    steps : int
        Products with each column.
    beside : (float, array), optional
        t ≥ 0 and a vector q: the matrix is M + t q qᵀ. Its product is that of M and another one,
        which passes through n + 4 operations more.

    References
    ----------
    .. [1] J. Kuczyński, H. Woźniakowski, "Estimating the largest eigenvalue by the power and
       Lanczos algorithms with a random start", SIAM J. Matrix Anal. Appl. 13(4), 1992.
    """
    n, sparse = M.shape[0], sp.issparse(M)
    unit = power_of_two(M.data if sparse else M)
    M = (sp.csr_array(M) if sparse else M) / unit
    bits = int(np.float64((M.data if sparse else M).sum()).view(np.uint64))  # other starts
    rng = np.random.default_rng([0, n, steps, bits])
    t, q = (0.0, np.zeros(n)) if beside is None else (beside[0] / unit, beside[1])

    def times(S: Any, more: float, X: Array) -> Array:
        """(S + more · q qᵀ) X."""
        Y: Array = S @ X
        if beside is not None:
            Y += np.multiply.outer(q, more * (q @ X))
        return Y

    low, high = _ends(partial(times, M, t), n, max(20, steps // 2), rng)
    center, width = (low + high) / 2, max((high - low) / 2, 1e-3)
    H, longest, rank = M, n, t / width
    if sparse:
        H = M - center * sp.eye_array(n)
        longest = int(np.diff(H.indptr).max())
    else:
        diagonal(H)[:] -= center
    H *= 1 / width
    size = above(float(abs(H).sum(axis=1).max()), longest)
    long = above(rank * float(q @ q), n)  # ‖|t q qᵀ|‖
    rounded = (longest + 4) * size
    if beside is not None:
        rounded, size = rounded + size + (n + 8) * long, size + long
    least = np.sqrt(np.pi / 2) * failure ** (1 / COLUMNS)
    before = rng.standard_normal((n, COLUMNS))
    now = times(H, rank, before)
    norms = [_longest(before), _longest(now)]
    best = size  # no eigenvalue is larger in absolute value
    for k in range(1, steps + 1):
        late = not deadline.fits(0.0)
        if k % EVERY == 0 or k == steps or late or not norms[-1] < MOST:
            best = min(best, _proved(np.array(norms), least, rounded))
        if k == steps or late or not norms[-1] < MOST:
            break
        after = times(H, rank, now)
        after *= 2
        after -= before
        before, now = now, after
        norms.append(_longest(now))
    # M = cI + wH but for 3 roundings of each number
    lost = 4 * EPS * (width * size + 2 * abs(center) + width)
    return below(unit, center - width * (1 + 8 * EPS) * best - lost)


def _longest(columns: Array) -> float:
    """The length of the longest column, not below it."""
    squares = np.einsum("ij,ij->j", columns, columns)
    return above(float(np.sqrt(squares.max())), columns.shape[0])


def _proved(norms: Array, least: float, rounded: float) -> float:
    """The x that no eigenvalue −x of H exceeds, by the lengths of the columns so far.

    A product with a column of length 1 is off by EPS/2 times `rounded` at most.
    """
    k = norms.size - 1
    angle = np.arccosh(max(1.0, 2 * norms[-1] / least)) / k
    j = np.arange(1, k + 1)
    errors = EPS * (rounded * norms[:-1] + norms[1:])
    with np.errstate(over="ignore"):
        grown = np.cosh(j * angle)
    if not np.sum((k - j + 1) * errors / grown) <= 0.49 * least:
        return np.inf
    return float(np.cosh(angle)) * (1 + 1e-12)


def _ends(
    times: Callable[[Array], Array], n: int, steps: int, rng: np.random.Generator
) -> tuple[float, float]:
    """About the smallest and the largest eigenvalue: Lanczos, nothing of which is kept."""
    q, off = rng.standard_normal(n), 0.0
    last = np.zeros(n)
    q /= np.linalg.norm(q)
    diagonal: list[float] = []
    beside: list[float] = []
    for _ in range(min(steps, n)):
        r = times(q) - off * last
        diagonal.append(float(q @ r))
        r -= diagonal[-1] * q
        off = float(np.linalg.norm(r))
        if off < 1e-10:
            break
        beside.append(off)
        last, q = q, r / off
    values = scipy.linalg.eigh_tridiagonal(
        np.array(diagonal), np.array(beside[: len(diagonal) - 1]), eigvals_only=True
    )
    return float(values[0]), float(values[-1])
