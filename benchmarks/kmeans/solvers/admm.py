"""ADMM between {W ⪰ 0, W1 = 1, Tr W = k} and W ≥ 0, a full eigendecomposition a step.

The textbook form (Boyd et al. 2011): U is the scaled multiplier of W = Z, the penalty is balanced
by the residuals. The certificate that ends it is on the clock, as condgrad's is.
"""

from __future__ import annotations

import numpy as np
from benchmark_utils.base import CertifiedSolver
from benchmark_utils.judge import certify, onto_simplex

EVERY = 20
"""Steps between certificates."""


class Solver(CertifiedSolver):
    name = "ADMM"

    def solve(self, tolerance):
        problem, C, k = self.application().problem, self.data.distances, self.data.k
        n = len(C)
        rho = np.linalg.norm(C) / k
        Z, U = problem.domain.center(), np.zeros((n, n))
        step = 0
        while self.left > 0:
            step += 1
            W = project(Z - U - C / rho, k)
            old, Z = Z, np.maximum(W + U, 0.0)
            U += W - Z
            primal, dual = np.linalg.norm(W - Z), rho * np.linalg.norm(Z - old)
            if step % EVERY:
                continue
            duals = {"non-negativity": rho * U.reshape(-1)}
            found = certify(problem, W, duals, repair=False)["value"]
            self.note(found)
            self.W, self.duals = W, duals
            if found <= tolerance:
                return
            size = max(np.linalg.norm(rho * U), 1e-300)
            factor = np.sqrt((primal / np.linalg.norm(W)) / max(dual / size, 1e-300))
            factor = float(np.clip(factor, 0.5, 2.0))
            rho, U = rho * factor, U / factor


def project(V, k: int):
    """The nearest W ⪰ 0 with W1 = 1 and Tr W = k."""
    n = len(V)
    V = 0.5 * (V + V.T)
    mean = V.mean(axis=0)
    V = V - mean - mean[:, None] + mean.mean()
    low = 2 * np.linalg.norm(V) + 1.0  # moves the eigenvector 1 to the first place
    values, vectors = np.linalg.eigh(V - low / n)
    values, vectors = onto_simplex(values[1:], k - 1), vectors[:, 1:]
    kept = values > 0
    return (vectors[:, kept] * values[kept]) @ vectors[:, kept].T + 1 / n
