"""Clarabel with all triangle rows."""

from __future__ import annotations

import clarabel  # noqa: F401
from benchmark_utils.conic import ConicSolver
from benchmark_utils.cuts import AllTriangles


class Solver(AllTriangles, ConicSolver):
    name = "Clarabel"
    requirements = ("pip::clarabel",)
    tunable = False
