"""condgrad as a solver of the suite."""

from __future__ import annotations

from benchmark_utils.base import CertifiedSolver

from condgrad import solve
from condgrad.applications import Rounder
from condgrad.certificate import relative_gap


class CondgradSolver(CertifiedSolver):
    """A method of condgrad, with or without rounded solutions offered to it as points."""

    warm_size = 45  # above it the oracles are Lanczos, which has kernels of its own
    cgal_beta0 = 1.0
    """CGAL has no automatic form but sag-cgal: it needs a number."""

    def solve(self, tolerance):
        app = self.application()
        offered = {}

        def propose(W):
            point = rounder(W)
            if point is not offered.get("point"):
                offered.update(point=point, at=app.problem.evaluate(point))
            return point

        def watch(info):
            if len(info.trace) == seen[0]:
                return
            seen[0], row = len(info.trace), info.trace.last
            parts = [x for key, x in row.items() if key.endswith((".relative", ".scaled"))]
            accuracy = max(row["gap"], *parts)
            if "at" in offered:
                gap = relative_gap(offered["at"].objective, row["lower_bound"])
                accuracy = min(accuracy, max(gap, offered["at"].worst))
            self.note(accuracy)

        rounder = Rounder(app.rounding) if self.point == "rounded" else None
        seen = [0]
        beta0 = self.cgal_beta0 if self.method == "cgal" else None
        result = solve(
            app.problem,
            app.method(app.default(None) if self.method == "default" else self.method, beta0)[0],
            start=app.start,
            gap=tolerance,
            feasibility=tolerance,
            max_seconds=self.time_limit,
            propose=None if rounder is None else propose,
            callbacks=[watch],
            floor=app.floor,
        )
        self.W, self.lower_bound = result.W, result.lower_bound
