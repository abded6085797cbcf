"""ADMM between the nuclear ball, by a full SVD a step, and fit with box, entry by entry.

The specialist where an SVD is affordable. The certificate that ends it is on the clock.
"""

from __future__ import annotations

import numpy as np
from benchmark_utils.base import CertifiedSolver
from benchmark_utils.judge import certify, onto_simplex

EVERY = 5
"""Steps between certificates."""


class Solver(CertifiedSolver):
    name = "ADMM"

    def solve(self, tolerance):
        problem, data = self.application().problem, self.data
        seen = data.rows, data.cols
        low, high = data.values.min(), data.values.max()
        rho, step = 0.5, 0
        Z = np.clip(np.full(data.shape, data.values.mean()), low, high)
        U = np.zeros(data.shape)
        while self.left > 0:
            step += 1
            W = onto_ball(Z - U, problem.domain.radius)
            old, V = Z, W + U
            Z = V.copy()
            Z[seen] = (2 * data.values + rho * V[seen]) / (2 + rho)
            np.clip(Z, low, high, out=Z)
            U = V - Z
            if step % EVERY:
                continue
            slopes = Z[seen] - data.values  # the term `fit` is ½(z − x)² with weight 2
            box = rho * U
            box[seen] -= 2 * slopes
            self.W, self.duals = W, {"fit": slopes, "box": box.reshape(-1)}
            found = certify(problem, self.W, self.duals, repair=False)["value"]
            self.note(found)
            if found <= tolerance:
                return
            primal = np.linalg.norm(W - Z) / np.linalg.norm(Z)
            dual = np.linalg.norm(Z - old) / max(np.linalg.norm(U), 1e-300)
            factor = float(np.clip(np.sqrt(primal / max(dual, 1e-300)), 0.5, 2.0))
            rho, U = rho * factor, U / factor


def onto_ball(V, radius: float):
    """The nearest matrix of that nuclear norm or less."""
    left, values, right = np.linalg.svd(V, full_matrices=False)
    if values.sum() > radius:
        values = onto_simplex(values, radius)
    kept = values > 0
    return (left[:, kept] * values[kept]) @ right[kept]
