"""Clarabel on the dual, which has n variables."""

from __future__ import annotations

import clarabel  # noqa: F401
from benchmark_utils.conic import ConicSolver
from benchmark_utils.maxcut import Diagonals


class Solver(Diagonals, ConicSolver):
    name = "Clarabel"
    requirements = ("pip::clarabel",)
    tunable = False
