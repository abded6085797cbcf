"""min Σ_Ω (W_ij − X_ij)² over ‖W‖_* ≤ r with entries between the least and the largest rating."""

from __future__ import annotations

from benchmark_utils.base import CertifiedObjective
from benchmark_utils.judge import into_ball
from benchmark_utils.ratings import ratings

from condgrad.applications import matrix_completion


class Objective(CertifiedObjective):
    name = "Matrix completion"

    @staticmethod
    def application(rows, cols, values, shape, radius):
        return matrix_completion(rows, cols, values, shape, radius=radius)

    @staticmethod
    def tiny(n):
        return {**ratings((2 * n, n)), "radius": 6.0 * n}

    def into_domain(self, W):
        return into_ball(self.problem.domain, W)
