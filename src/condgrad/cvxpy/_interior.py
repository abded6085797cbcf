"""A cone program by a solver that CVXPY has installed, and what its answer proves.

Clarabel and SCS come with CVXPY. What they say of themselves decides nothing that is called proved:
a point is measured in the cone program, its multipliers are corrected until they prove a bound, and
verdicts are proved or said to be the solver's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import cvxpy.settings as settings
import numpy as np
from scipy import linalg
from scipy.sparse.linalg import lsqr

from condgrad import _deadline as deadline
from condgrad._types import Array
from condgrad.backends import memory
from condgrad.cvxpy._cone_judge import UNIT, Judge, Outcome
from condgrad.cvxpy._cone_point import descends, meets, repaired, violations, widened
from condgrad.cvxpy._cone_program import ConeProgram, kernel
from condgrad.cvxpy._cone_proof import Dual, dual_of, refuted, repaired_dual, too_large
from condgrad.cvxpy._solvers import Raw, clarabel, scs

SOLVER = "Clarabel"
ITERATIONS = 200
"""The most steps of the solver."""
TOLERANCE = 1e-8
"""Its own tolerances, less where a smaller gap is asked for."""
CLOSER = 1e-3
"""Factor on them where nothing could be proved."""
SCALE = 1e-6
"""Part of the largest number of x that is, at the highest price, the least unit of a gap."""
FIRST_ORDER = "SCS"
SIDE = 16
"""Side of a matrix from which on steps of first order are tried first."""
QUICK = 3e-7
"""Tolerance of the steps of first order."""
COARSE = 1e-5
"""Least gap for which steps of first order are tried first."""
LONG = 40
"""Side of a matrix from which on every proof is tried before the interior-point solver."""
SQUARES = 1e-10
"""Tolerance of the least squares for what equations miss."""
MET = 1e-6
"""Part of its terms that an equation may miss at most."""
REMEDY = 'use backend="condgrad", or write a smaller problem'
SAYS = "as {} says; it is not proved here"
"""The proviso of verdicts that could not be proved."""
HERE = SAYS.format(SOLVER)
MAX_UNKNOWNS = 4000
"""Unknowns from which on an answer of SCS's without a proof is kept: a step of the interior-point
solver takes longer than all of SCS's."""


def require_room(program: ConeProgram) -> None:
    """Refuse matrices whose dense systems do not fit into the memory.

    A matrix of side n has a dense block of side n(n + 1)/2 in the system of every step.
    """
    sides = [side for side in program.space.blocks if side > 0]
    numbers = sum((side * (side + 1) // 2) ** 2 for side in sides)
    what = f"{SOLVER}'s systems, the largest matrix of side {max(sides, default=0)}"
    memory.require_room(16 * numbers, REMEDY, what)


Prove = Callable[..., Dual]
"""`dual_of`, or `repaired_dual`, its first attempt."""


class Interior(Judge):
    """One solve by the solvers that are installed."""

    def __init__(
        self,
        program: ConeProgram,
        lifted: Callable[[], ConeProgram | None],
        options: dict[str, Any],
        constant: float = 0.0,
        quick: bool = False,
    ) -> None:
        super().__init__(program, options, constant)
        self.quick = quick
        """Whether steps of first order may be tried first."""
        self.lifted = lifted
        """Makes the program with second-order cones as matrices, where directions are judged."""

    def solve(self) -> Outcome | None:
        """The answer; None where the solver failed, and somebody else should be asked."""
        program, steps = self.program, min(self.iterations, ITERATIONS)
        found = self._quickly()
        if found is not None:
            return found
        require_room(program)
        tolerance = max(min(TOLERANCE, 0.01 * self.gap), 1e-13)
        raw = clarabel(program, program.c, tolerance, steps, deadline.left())
        outcome = self._read(raw)
        if outcome and outcome.status == settings.OPTIMAL_INACCURATE and not too_large(program):
            again = clarabel(program, program.c, CLOSER * tolerance, steps, deadline.left())
            other = self._read(again)
            if other and other.status == settings.OPTIMAL:
                raw, outcome = again, other
        if outcome is None:
            return None
        return replace(outcome, by=SOLVER, steps=raw.steps, seconds=raw.seconds)

    def _quickly(self) -> Outcome | None:
        """The answer of steps of first order, if it can be proved, else None."""
        sides = [float(s) for s in self.program.space.blocks if s >= SIDE]
        if not (self.quick and sides and self.gap >= COARSE):
            return None
        steps = int(
            sum(s**6 for s in sides) / sum(s**4 for s in sides)
        )  # less than Clarabel's work
        raw = scs(self.program, QUICK, min(steps, self.iterations), deadline.left())
        if raw is None or not np.isfinite(raw.x).all():
            return None
        outcome = self._judged(raw, repaired_dual, quick=True)
        dense = max(sides) >= LONG and not too_large(self.program)
        if outcome.status == settings.USER_LIMIT and dense:
            outcome = self._judged(raw, quick=True)
        if outcome.status == settings.USER_LIMIT:
            return None
        return replace(outcome, by=FIRST_ORDER, steps=raw.steps, seconds=raw.seconds)

    def _read(self, raw: Raw) -> Outcome | None:
        """Judge an answer; None if it is of no use."""
        if "PrimalInfeasible" in raw.word:
            return self._gone(raw)
        if "DualInfeasible" in raw.word:
            return self._falling(raw)
        if not np.isfinite(raw.x).all() or not all(np.isfinite(b).all() for b in raw.blocks):
            return None
        outcome = self._judged(raw)
        good = outcome.status in (settings.OPTIMAL, settings.OPTIMAL_INACCURATE)
        return outcome if good or raw.word in ("MaxTime", "MaxIterations") else None

    def _judged(self, raw: Raw, prove: Prove = dual_of, quick: bool = False) -> Outcome:
        """Optimal, if the point is feasible and a proven bound is as near as asked for.

        A `quick` point is moved a little only, and left to another solver if that is not enough.
        """
        program, x = self.program, self._inside(raw.x, quick)
        small = x.size <= MAX_UNKNOWNS
        value = float(program.c @ x)
        enough = value - 0.5 * self.gap * abs(value + self.constant)
        if quick and small and not self._meets(x):
            return self._verdict(settings.USER_LIMIT, x)
        dual = prove(program, program.c, raw.blocks, enough, self.deadline, raw.nu)
        y, nu = dual.point.flat(), dual.point.nu
        gap, unit = self._gap(x, dual.bound), self._unit(x)
        status, proviso = settings.USER_LIMIT, ""
        if gap <= self.gap and self._meets(x):
            status = settings.OPTIMAL
        elif raw.word == "Solved" and not (quick and small) and self._nearly(x, quick):
            status = settings.OPTIMAL_INACCURATE
            proviso = "optimal " + SAYS.format(FIRST_ORDER if quick else SOLVER)
        if not np.isfinite(dual.bound):
            y, nu = np.concatenate([np.zeros(0), *(np.ravel(b) for b in raw.blocks)]), raw.nu
        return Outcome(status, x, nu, y, dual.bound, gap, unit, proviso=proviso)

    def _unit(self, x: Array, part: float = UNIT) -> float:
        """At least a small part of the largest number of x at the highest price.

        Where x is 0, of the least right-hand side.
        The solver has such tolerances, without which an optimum of 0 is never reached.
        """
        program = self.program
        price, number = (float(np.abs(v).max(initial=0.0)) for v in (program.c, x))
        least = SCALE * price * max(number, program.smallest)
        return max(least, super()._unit(x, part))

    def _inside(self, x: Array, quick: bool) -> Array:
        """The point, moved if it misses a cone by more than asked for; a `quick` one a little."""
        program = self.program
        if not (program.b.any() or program.h.any()):  # any multiple of a point is one
            return np.zeros_like(x)
        if self._meets(x):
            return x
        near = x
        if program.h.size:
            near = x + lsqr(program.G, program.h - program.G @ x, *[SQUARES] * 2)[0]
        near = widened(program, near)
        if quick or self._meets(near):
            return near
        if too_large(program):
            return x
        G, h = program.G.toarray(), program.h
        if h.size:
            x = x + linalg.lstsq(G, h - G @ x, lapack_driver="gelsy")[0]
        return repaired(program, kernel(G, h), x, self.feasibility)

    def _meets(self, x: Array) -> bool:
        """Whether a point meets cones and equations."""
        program = self.program
        miss = np.abs(program.G @ x - program.h)
        size = np.abs(program.h) + abs(program.G) @ np.abs(x) + program.smallest
        fine = bool((miss <= min(MET, self.feasibility) * size).all())
        return fine and meets(program, x, self.feasibility)

    def _nearly(self, x: Array, quick: bool) -> bool:
        """Whether a point misses cones and equations by little next to its largest number."""
        program, largest = self.program, float(np.abs(x).max(initial=0.0))
        miss, size = violations(program, x).T
        little = 10 * QUICK if quick else MET
        fine = bool((miss <= little * np.maximum(size, largest)).all())
        gaps = np.abs(program.G @ x - program.h)
        size = np.abs(program.h) + abs(program.G) @ np.abs(x)
        return fine and bool((gaps <= little * np.maximum(size, largest)).all())

    def _gone(self, raw: Raw) -> Outcome:
        """The answer where the solver says that no point is feasible."""
        word = refuted(self.program, raw.blocks, self.deadline)
        proviso = "" if word else f"infeasible {HERE}"
        return self._verdict(word or settings.INFEASIBLE_INACCURATE, raw.x, proviso)

    def _falling(self, raw: Raw) -> Outcome:
        """The answer where the solver says that c'x falls for ever: if there is a point at all."""
        program = self.program
        nothing = np.zeros_like(program.c)
        start = clarabel(program, nothing, TOLERANCE, ITERATIONS, deadline.left())
        if "PrimalInfeasible" in start.word:
            return self._gone(start)
        if not np.isfinite(start.x).all() or not self._meets(start.x):
            return self._verdict(settings.INFEASIBLE_OR_UNBOUNDED, raw.x, "")
        word, lifted = None, self.lifted()
        if lifted is not None and not too_large(lifted):
            found = kernel(lifted.G.toarray(), lifted.h)
            w = np.linalg.lstsq(found.N.toarray(), raw.x)[0]
            word = descends(lifted, found, w)
        proviso = "" if word else f"unbounded {HERE}"
        return self._verdict(word or settings.UNBOUNDED_INACCURATE, start.x, proviso)
