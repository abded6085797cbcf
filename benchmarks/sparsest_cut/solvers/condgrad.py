"""condgrad; `rounded` is what a user gets, `iterate` leaves the proposed cuts out."""

from __future__ import annotations

from benchmark_utils.ours import CondgradSolver


class Solver(CondgradSolver):
    name = "condgrad"
    parameters = {  # noqa: RUF012
        "method, point": [
            ("default", "rounded"),
            ("sag-cgal", "iterate"),
            ("cgal", "iterate"),
            ("h-sag-v2", "iterate"),
        ]
    }
    parameter_template = "{method}, {point}"
    cgal_beta0 = 100.0  # that of the H-SAG-CGM paper for these problems
