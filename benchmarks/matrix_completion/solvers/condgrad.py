"""condgrad."""

from __future__ import annotations

from benchmark_utils.ours import CondgradSolver


class Solver(CondgradSolver):
    name = "condgrad"
    parameters = {  # noqa: RUF012
        "method, point": [("default", "iterate"), ("sag-cgal", "iterate"), ("h-sag-v1", "iterate")]
    }
    parameter_template = "{method}, {point}"
