"""SCS with all n(n − 1)/2 entries as variables."""

from __future__ import annotations

import scs  # noqa: F401
from benchmark_utils.clusters import AllEntries
from benchmark_utils.conic import ConicSolver


class Solver(AllEntries, ConicSolver):
    name = "SCS"
    requirements = ("pip::scs",)
