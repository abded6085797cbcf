"""The slow, obvious twin of `_numba_ratings`."""

from __future__ import annotations

import numpy as np

from condgrad._types import Array


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
    """Factors and bias of the rows start to stop of a ratings matrix, given those of the columns.

    The ratings y of row i, in CSR, are y = p'q + b + c + noise: (p, b) belongs to the row and is
    unknown, (q, c) to the column, known by its mean, a row of `X`, and its second moments, of `M`.
    With the precisions `ridge` of (p, b) and the variance `noise` the posterior of (p, b) is
    normal. Its mean goes to `out` and its second moments to `moments`; returned is the expected
    Σ (y − p'q − b − c)² of all these rows.
    """
    k, total = X.shape[1] - 1, 0.0
    for i in range(start, stop):
        at = slice(indptr[i], indptr[i + 1])
        x, m, y = X[indices[at]], M[indices[at]], values[at]
        partner = m.copy()  # second moments of (q, 1)
        partner[:, k, :k] = partner[:, :k, k] = x[:, :k]
        partner[:, k, k] = 1
        A = partner.sum(axis=0)
        b = np.append(y @ x[:, :k] - m[:, :k, k].sum(axis=0), np.sum(y - x[:, k]))
        covariance = np.linalg.inv(A / noise + np.diag(ridge))
        out[i] = covariance @ b / noise
        moments[i] = covariance + np.outer(out[i], out[i])
        total += np.sum(y**2 - 2 * y * x[:, k] + m[:, k, k])
        total += -2 * float(out[i] @ b) + float(np.sum(A * moments[i]))
    return total
