"""CSDP with all triangle rows."""

from __future__ import annotations

from benchmark_utils.conic import ConicSolver, require_csdp
from benchmark_utils.cuts import AllTriangles

require_csdp()


class Solver(AllTriangles, ConicSolver):
    name = "CSDP"
    tunable = False
