"""condgrad; rounding is not used, as the relaxation is not tight."""

from __future__ import annotations

from benchmark_utils.ours import CondgradSolver


class Solver(CondgradSolver):
    name = "condgrad"
    parameters = {  # noqa: RUF012
        "method, point": [("default", "iterate"), ("cgal", "iterate")]
    }
    parameter_template = "{method}, {point}"
