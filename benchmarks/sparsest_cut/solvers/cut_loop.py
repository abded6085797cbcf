"""Triangles added as they are violated, each round solved by SCS.

The specialist: a round has as many variables as rows so far, and most graphs need few of the cubic
number of rows. The certificate that ends it is on the clock, as condgrad's is.
"""

from __future__ import annotations

import numpy as np
import scs  # noqa: F401
from benchmark_utils.base import CertifiedSolver
from benchmark_utils.cuts import by_multipliers, gram
from benchmark_utils.judge import certify, into_spectrahedron
from benchmark_utils.lmi import SOLVERS

MOST = 40
"""Rows added per round and vertex."""


class Solver(CertifiedSolver):
    name = "cut loop"
    requirements = ("pip::scs",)

    def solve(self, tolerance):
        problem = self.application().problem
        triangles = problem.terms[1].map
        n = triangles.shape[0]
        ids, best = np.zeros(0, dtype=np.int64), np.inf
        while self.left > 0:
            lmi = by_multipliers(self.data.adjacency, ids)
            answer = SOLVERS["scs"](lmi, tolerance / 10, self.left)
            y = np.zeros(triangles.size)
            y[ids] = answer.x[1:]
            W = into_spectrahedron(gram(answer.Z), n / 2, 0.0)
            found = certify(problem, W, {"triangles": y})["value"]
            self.note(found)
            if found < best:
                best, self.W, self.duals = found, W, {"triangles": y}
            if found <= tolerance:
                return
            z = triangles.rows(W)
            z[ids] = 0.0
            worst = np.argpartition(-z, min(MOST * n, z.size - 1))[: MOST * n]
            new = worst[z[worst] > 1e-9 * n]
            if not new.size:
                return  # SCS is no more accurate than this
            ids = np.union1d(ids[y[ids] > 1e-7 * max(y.max(), 1e-300)], new)
