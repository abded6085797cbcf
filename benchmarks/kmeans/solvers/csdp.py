"""CSDP with all n(n − 1)/2 entries as variables."""

from __future__ import annotations

from benchmark_utils.clusters import AllEntries
from benchmark_utils.conic import ConicSolver, require_csdp

require_csdp()


class Solver(AllEntries, ConicSolver):
    name = "CSDP"
    tunable = False
