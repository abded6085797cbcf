"""Limits of a run, and the clock."""

from __future__ import annotations

import copy
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from condgrad import _deadline as deadline
from condgrad._check import positive
from condgrad.backends import compile_seconds
from condgrad.certificate import Bound, relative_gap
from condgrad.errors import ProblemError
from condgrad.evaluation import ROWS, Evaluation
from condgrad.run.result import Status

Counts = tuple[int, float, int]
"""Iterations, epochs and oracle calls."""


class Limits:
    """Limits of a run; if none is given, 1000 iterations."""

    def __init__(
        self,
        max_iter: float | None,
        max_epochs: float | None,
        max_seconds: float | None,
        max_lmo: float | None,
        names: Sequence[str] = ("max_iter", "max_epochs", "max_seconds", "max_lmo"),
    ) -> None:
        most = (max_iter, max_epochs, max_seconds, max_lmo)
        for name, value in zip(names, most, strict=True):
            number = isinstance(value, (int, float, np.number)) and not isinstance(value, bool)
            if value is not None and not (number and np.isreal(value) and value >= 0):
                raise ProblemError(f"{name} is {value!r}: it must be a number of at least 0")
            if name in (names[0], names[3]) and value not in (None, np.inf) and value % 1:
                raise ProblemError(f"{name} is {value!r}: it must be a whole number")
        if max_iter is max_epochs is max_seconds is max_lmo is None:
            most = (1000, None, None, None)
        numbers = (np.inf if value is None else value for value in most)
        self.iterations, self.epochs, self.seconds, self.lmo = numbers

    def since(self, counts: Counts) -> Limits:
        """Return these limits, counted from there."""
        later, (k, epochs, lmo) = copy.copy(self), counts
        later.iterations += k
        later.epochs += epochs
        later.lmo += lmo
        return later

    def room(self, counts: Counts) -> float:
        """Iterations that pass no limit but time, if they are as those so far."""
        k, epochs, lmo = counts
        share = epochs / k if epochs else 1.0
        return min(self.iterations - k, self.lmo - lmo, (self.epochs - epochs) / share)

    def reached(self, counts: Counts) -> Status | None:
        """The first limit that is reached; time is the deadline's."""
        k, epochs, lmo = counts
        if k >= self.iterations:
            return Status.MAX_ITER
        if epochs >= self.epochs - 1e-9:
            return Status.MAX_EPOCHS
        if deadline.over():
            return Status.MAX_SECONDS
        return Status.MAX_LMO if lmo >= self.lmo else None


@dataclass
class Clock:
    """Clock of a run: every second since `start` belongs to one part of the run."""

    parts: dict[str, float] = field(default_factory=dict)
    """Seconds of each part."""
    seconds: float = 0.0
    """Seconds of the method alone: without metrics, callbacks, and the compiling of kernels."""

    def __post_init__(self) -> None:
        self.start()

    def start(self) -> None:
        """Begin now; what went before belongs to no part."""
        self.since, self._compiled = time.perf_counter(), compile_seconds()

    def lap(self, part: str, counts: bool = True) -> float:
        """Give the time since the last lap to a part; return its seconds."""
        since, compiled = self.since, self._compiled
        self.start()
        compiling = self._compiled - compiled
        spent = max(0.0, self.since - since - compiling)
        self.parts[part] = self.parts.get(part, 0.0) + spent
        if compiling:
            self.parts["compiling"] = self.parts.get("compiling", 0.0) + compiling
        self.seconds += spent if counts else 0.0
        return spent


@dataclass(frozen=True)
class Goal:
    """Goal of a run: its tolerances. If one of the three is given the others have their defaults.

    Parameters
    ----------
    gap : float, optional
        The relative gap between objective and proven bound; default 1e-3.
    feasibility : float, optional
        The relative infeasibility of every constraint family; default 1e-3.
    row_feasibility : float, optional
        That of every single row; default ten times `feasibility`. `condgrad.solve` says how the
        three are measured.

    Examples
    --------
    >>> Goal(gap=1e-4).tolerances
    (0.0001, 0.001)
    """

    gap: float | None = None
    feasibility: float | None = None
    row_feasibility: float | None = None

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if value is not None:
                positive(name, value)

    @property
    def wanted(self) -> bool:
        """Whether the run may end by convergence."""
        return any(tolerance is not None for tolerance in vars(self).values())

    @property
    def tolerances(self) -> tuple[float, float]:
        """(gap, feasibility), 1e-3 if one was not given."""
        return self.gap or 1e-3, self.feasibility or 1e-3

    @property
    def row_tolerance(self) -> float:
        """The tolerance for single rows."""
        return self.row_feasibility or ROWS * self.tolerances[1]

    @property
    def all(self) -> tuple[float, float, float]:
        """The tolerances for the gap, for families and for single rows."""
        return (*self.tolerances, self.row_tolerance)

    def distance(self, evaluation: Evaluation, bound: Bound, unit: float = 0.0) -> float:
        """Distance of a point from convergence: at most 1 if it has converged."""
        off = relative_gap(evaluation.objective, bound.value, unit) / self.tolerances[0]
        return max(off, self.far(evaluation))

    def far(self, evaluation: Evaluation) -> float:
        """Distance of a point from feasibility: at most 1 if it is feasible, to the tolerances."""
        return max(evaluation.worst / self.tolerances[1], evaluation.worst_row / self.row_tolerance)
