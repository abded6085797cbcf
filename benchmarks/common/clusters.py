"""The k-means relaxation as a linear matrix inequality.

W1 = 1 gives the diagonal, W = I − Laplacian(w) with w the entries above it; Tr W = k says that they
sum to (n − k)/2, and since distances are non-negative ≥ will do.
"""

from __future__ import annotations

import numpy as np
from benchmark_utils.lmi import Lmi, Triangle
from scipy import sparse as sp


class AllEntries:
    """For a `ConicSolver`."""

    def model(self, data):
        C, n = data.distances, len(data.distances)
        triangle = Triangle(n)
        i, j = np.triu_indices(n, 1)
        pairs = np.arange(i.size)
        at = np.concatenate([triangle.at[i, j], triangle.at[i, i], triangle.at[j, j]])
        value = np.repeat([np.sqrt(2), -1.0, -1.0], i.size)
        M = sp.csc_array((value, (at, np.tile(pairs, 3))), shape=(triangle.size, i.size))
        G = sp.csc_array(-sp.vstack([sp.eye_array(i.size), np.ones((1, i.size))]))
        h = np.zeros(i.size + 1)
        h[-1] = -(n - data.k) / 2
        q = 2 * C[i, j] - C[i, i] - C[j, j]
        return Lmi(q, G, h, M, triangle.vec(np.eye(n)), n)

    def read(self, answer):
        n = len(self.data.distances)
        i, j = np.triu_indices(n, 1)
        W, y = np.zeros((n, n)), np.zeros((n, n))
        W[i, j] = W[j, i] = answer.x
        W[np.diag_indices(n)] = 1 - W.sum(axis=1)
        y[i, j] = y[j, i] = -0.5 * answer.y[:-1]
        return W, {"non-negativity": y.reshape(-1)}
