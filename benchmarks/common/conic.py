"""Conic solvers as solvers of the suite."""

from __future__ import annotations

import shutil

from benchmark_utils.base import CertifiedSolver
from benchmark_utils.lmi import SOLVERS


class ConicSolver(CertifiedSolver):
    """`model` builds the linear matrix inequality, `read` takes W and the duals from the answer."""

    def solve(self, tolerance):
        lmi = self.model(self.data)
        answer = SOLVERS[self.name.lower()](lmi, tolerance, self.left)
        self.W, self.duals = self.read(answer)


def require_csdp() -> None:
    """A program and not a package: benchopt takes an ImportError for `not installed`."""
    if shutil.which("csdp") is None:
        raise ImportError("the program csdp is not there (Debian: coinor-csdp)")
