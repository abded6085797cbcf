"""Options of every door for CVXPY, and the distance of a cone program's point from a bound."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from condgrad import _deadline as deadline
from condgrad._types import Array
from condgrad.certificate import relative_gap
from condgrad.cvxpy._cone_point import meets
from condgrad.cvxpy._cone_program import ConeProgram
from condgrad.errors import ProblemError
from condgrad.run.limits import Goal, Limits
from condgrad.sdp import Solution

OPTIONS = (
    *("gap", "feasibility", "max_seconds", "max_iter"),
    *("trace_bound", "method", "seed", "device"),
)
"""Options that are handed to `condgrad.sdp.SDP.solve`."""
GAP = 1e-3
"""The gap where the user names none."""
FEASIBILITY = 1e-6
"""The feasibility where the user names none: solvers of CVXPY's keep rows as closely."""
ITERATIONS = 20_000
"""Of all runs together, where the user says nothing."""
UNIT = 1e-9
"""A gap is measured in at least this part of the terms of the value, so that an optimum of 0 can be
reached. The terms of the bound do not count: multipliers grow without limit near infeasibility."""


def checked(options: dict[str, Any]) -> dict[str, Any]:
    """Refuse options that nobody reads, and tolerances and limits that are no numbers."""
    for name in options:
        if name not in OPTIONS:
            raise ProblemError(
                f"{name} is no option of condgrad.cvxpy: use {', '.join(OPTIONS)} or verbose, and "
                "for condgrad.cvxpy.solve backend"
            )
    Goal(options.get("gap"), options.get("feasibility"))
    Limits(options.get("max_iter"), None, options.get("max_seconds"), None)
    default = {name for name in ("gap", "feasibility") if options.get(name) is None}
    return {name: value for name, value in options.items() if name not in default}


@dataclass(frozen=True, eq=False)
class Outcome:
    """Status, point and bound of a cone program, in its own scaled units."""

    status: str
    """CVXPY's word."""
    x: Array
    nu: Array
    y: Array
    bound: float
    """Proven: c'x is not below it at any feasible x."""
    gap: float
    unit: float = 0.0
    """Least unit of the gap."""
    solution: Solution | None = None
    """The last run on the dual."""
    by: str = "condgrad"
    """Solver that found the point."""
    steps: int | None = None
    """Number of steps of another solver."""
    seconds: float | None = None
    """Seconds of another solver."""
    proviso: str = ""
    """Part of the answer that is not proved."""


class Judge:
    """A program with the tolerances and limits of a call."""

    def __init__(
        self, program: ConeProgram, options: dict[str, Any], constant: float = 0.0
    ) -> None:
        self.options = dict(options)
        self.constant = constant / program.value_unit
        """Constant of the user's objective beside c'x."""
        self.gap = float(self.options.pop("gap", GAP))
        self.feasibility = float(self.options.pop("feasibility", FEASIBILITY))
        self.options.pop("max_seconds", None)  # the door holds all to it
        self.deadline = time.perf_counter() + deadline.left()
        limit = self.options.pop("max_iter", None)
        self.iterations = ITERATIONS if limit is None else int(limit)
        self.program = program

    def near(self, x: Array, low: float, part: float = UNIT) -> bool:
        """Whether a point meets the cones and is as near to a bound as asked for."""
        return self._gap(x, low, part) <= self.gap and self._meets(x)

    def _meets(self, x: Array) -> bool:
        """Whether a point meets the cones."""
        return meets(self.program, x, self.feasibility)

    def _gap(self, x: Array, low: float, part: float = UNIT) -> float:
        """The gap of a point to a bound."""
        value, unit = float(self.program.c @ x), self._unit(x, part)
        return relative_gap(value + self.constant, low + self.constant, unit)

    def _unit(self, x: Array, part: float = UNIT) -> float:
        """Least unit of a gap: a part of the terms of the value."""
        size = float(np.abs(self.program.c) @ np.abs(x))
        return max(part * size, UNIT * self.program.smallest)

    def _verdict(self, status: str, x: Array, proviso: str = "") -> Outcome:
        """An answer without multipliers."""
        zero = np.zeros(self.program.h.size), np.zeros(self.program.b.size)
        return Outcome(status, x, *zero, -np.inf, np.inf, proviso=proviso)
