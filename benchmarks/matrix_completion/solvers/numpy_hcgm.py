"""HCGM in plain NumPy with SciPy's `svds`: what one would write without a library."""

from __future__ import annotations

import numpy as np
from benchmark_utils.base import CertifiedSolver
from benchmark_utils.judge import certify
from scipy.sparse.linalg import svds


class Solver(CertifiedSolver):
    name = "NumPy HCGM"
    beta0 = 1.0

    def solve(self, tolerance):
        problem, data = self.application().problem, self.data
        seen, radius = (data.rows, data.cols), problem.domain.radius
        low, high = data.values.min(), data.values.max()
        W, check, k = np.zeros(data.shape), 10, 0
        while self.left > 0:
            k += 1
            beta = self.beta0 / np.sqrt(k + 1)
            slopes = W[seen] - data.values
            box = (W - np.clip(W, low, high)) / beta
            v = box.copy()
            v[seen] += 2 * slopes
            u, _, w = svds(v, k=1, tol=1e-2 / k, random_state=k)
            if k >= check:
                check = int(np.ceil(check * 1.26))
                self.W, self.duals = W.copy(), {"fit": slopes, "box": box.reshape(-1)}
                found = certify(problem, self.W, self.duals, repair=False)["value"]
                self.note(found)
                if found <= tolerance:
                    return
            W += 2 / (k + 1) * (-radius * np.outer(u, w) - W)
