"""SCS with all triangle rows."""

from __future__ import annotations

import scs  # noqa: F401
from benchmark_utils.conic import ConicSolver
from benchmark_utils.cuts import AllTriangles


class Solver(AllTriangles, ConicSolver):
    name = "SCS"
    requirements = ("pip::scs",)

    def bytes(self, data):
        return 950.0 * len(data.adjacency) ** 3  # 3.3 GB measured at n = 150
