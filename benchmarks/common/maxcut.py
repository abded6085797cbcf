"""The max-cut relaxation as the dual linear matrix inequality: n variables, W is its multiplier."""

from __future__ import annotations

import numpy as np
from benchmark_utils.lmi import Lmi, Triangle
from scipy import sparse as sp


class Diagonals:
    """For a `ConicSolver`."""

    def model(self, data):
        n = len(data.adjacency)
        L = np.diag(data.adjacency.sum(axis=1)) - data.adjacency
        triangle, i = Triangle(n), np.arange(n)
        M = sp.csc_array((np.ones(n), (triangle.at[i, i], i)), shape=(triangle.size, n))
        return Lmi(np.ones(n), sp.csc_array((0, n)), np.zeros(0), M, triangle.vec(-0.25 * L), n)

    def read(self, answer):
        return answer.Z, {"diagonal": answer.x}
