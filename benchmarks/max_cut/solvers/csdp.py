"""CSDP on the dual, which has n variables."""

from __future__ import annotations

from benchmark_utils.conic import ConicSolver, require_csdp
from benchmark_utils.maxcut import Diagonals

require_csdp()


class Solver(Diagonals, ConicSolver):
    name = "CSDP"
    tunable = False
