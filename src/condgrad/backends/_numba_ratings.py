"""Compiled: Bayesian ridge regressions of the rows of a factor, one after the other.

The slow, obvious twin is in `_reference_ratings`, where the documentation is.
"""

from __future__ import annotations

import numpy as np

from condgrad._types import Array
from condgrad.backends._numba_cache import njit

REORDER = {"reassoc", "contract"}
"""Lets a sum be vectorised; the order of additions is fixed at compile time all the same."""


@njit(cache=True, nogil=True, fastmath=REORDER)
def _inverse(A: Array, out: Array) -> None:
    """The inverse of a positive definite matrix, of which the lower half is read and lost."""
    n = A.shape[0]
    for c in range(n):
        pivot = A[c, c]
        for t in range(c):
            pivot -= A[c, t] * A[c, t]
        pivot = np.sqrt(pivot)
        A[c, c] = pivot
        for r in range(c + 1, n):
            s = A[r, c]
            for t in range(c):
                s -= A[r, t] * A[c, t]
            A[r, c] = s / pivot
    for c in range(n):  # the inverse of the Cholesky factor takes its place
        A[c, c] = 1 / A[c, c]
        for r in range(c + 1, n):
            s = 0.0
            for t in range(c, r):
                s -= A[r, t] * A[t, c]
            A[r, c] = s / A[r, r]
    for r in range(n):
        for c in range(r + 1):
            s = 0.0
            for t in range(r, n):
                s += A[t, r] * A[t, c]
            out[r, c] = s
            out[c, r] = s


@njit(cache=True, nogil=True, fastmath=REORDER)
def ridge_rows(
    indptr: Array,
    indices: Array,
    values: Array,
    X: Array,
    M: Array,
    ridge: Array,
    noise: float,
    start: int,
    stop: int,
    out: Array,
    moments: Array,
) -> float:
    n = X.shape[1]
    k = n - 1
    A, B, b, total = np.empty((n, n)), np.empty((n, n)), np.empty(n), 0.0
    for i in range(start, stop):
        A[:] = 0
        b[:] = 0
        for e in range(indptr[i], indptr[i + 1]):
            x, m, y = X[indices[e]], M[indices[e]], values[e]
            for r in range(k):
                b[r] += y * x[r] - m[r, k]
                A[k, r] += x[r]
                for t in range(r + 1):
                    A[r, t] += m[r, t]
            A[k, k] += 1
            b[k] += y - x[k]
            total += y * y - 2 * y * x[k] + m[k, k]
        for r in range(n):
            for t in range(r + 1):
                B[r, t] = A[r, t] / noise
            B[r, r] += ridge[r]
        _inverse(B, moments[i])
        for r in range(n):
            s = 0.0
            for t in range(n):
                s += moments[i, r, t] * b[t]
            out[i, r] = s / noise
        for r in range(n):
            for t in range(n):
                moments[i, r, t] += out[i, r] * out[i, t]
            total -= 2 * out[i, r] * b[r]
            for t in range(r):
                total += 2 * A[r, t] * moments[i, r, t]
            total += A[r, r] * moments[i, r, r]
    return total
