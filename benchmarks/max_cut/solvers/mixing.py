"""The mixing method: W = VᵀV with unit columns, one column minimised after the other.

Wang, Chang and Kolter, 2017. Its certificate is y_i = ‖Σ_j C_ij v_j‖; computing it is on the clock.
"""

from __future__ import annotations

import numpy as np
from benchmark_utils.base import CertifiedSolver
from benchmark_utils.judge import certify
from scipy import sparse as sp

EVERY = 10
"""Sweeps between certificates."""


class Solver(CertifiedSolver):
    name = "mixing"

    def solve(self, tolerance):
        problem = self.application().problem
        A = sp.csr_array(0.25 * self.data.adjacency)  # C without its diagonal, which is fixed
        n = A.shape[0]
        degree = np.asarray(A.sum(axis=1)).reshape(-1)
        V = np.random.default_rng(0).normal(size=(n, int(np.sqrt(2 * n)) + 1))
        V /= np.linalg.norm(V, axis=1, keepdims=True)
        rows = [(A.indices[a:b], A.data[a:b]) for a, b in zip(A.indptr, A.indptr[1:], strict=False)]
        sweep = 0
        while self.left > 0:
            for i, (at, weight) in enumerate(rows):
                g = weight @ V[at]
                V[i] = -g / max(np.linalg.norm(g), 1e-300)
            sweep += 1
            if sweep % EVERY:
                continue
            self.W = V @ V.T
            self.duals = {"diagonal": np.linalg.norm(A @ V, axis=1) + degree}
            found = certify(problem, self.W, self.duals, repair=False)["value"]
            self.note(found)
            if found <= tolerance:
                return
