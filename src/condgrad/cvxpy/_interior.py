"""A cone program by an interior-point solver, and what its answer proves.

Clarabel comes with CVXPY. What it says of itself decides nothing that is called proved: its point
is measured in the cone program, its multipliers are corrected until they prove a bound, and its
verdicts are proved or said to be its own.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from importlib.util import find_spec
from typing import Any, NamedTuple

import cvxpy.settings as settings
import numpy as np
from scipy import linalg, sparse

from condgrad import _deadline as deadline
from condgrad._types import Array
from condgrad.backends import memory
from condgrad.cvxpy._cone_judge import UNIT, Judge, Outcome
from condgrad.cvxpy._cone_point import descends, meets, repaired, violations
from condgrad.cvxpy._cone_program import ConeProgram, kernel
from condgrad.cvxpy._cone_proof import Dual, dual_of, refuted, too_large

SOLVER = "Clarabel"
ITERATIONS = 200
"""The most steps of the solver."""
TOLERANCE = 1e-8
"""Its own tolerances, less where a smaller gap is asked for."""
CLOSER = 1e-3
"""Factor on them where nothing could be proved."""
ROOT = float(np.sqrt(2.0))
SCALE = 1e-6
"""Part of the largest number of x at the highest price in which a gap is measured at least."""
MET = 1e-6
"""Part of its terms that an equation may miss at most."""
REMEDY = 'use backend="condgrad", or write a smaller problem'
HERE = f"as {SOLVER} says; it is not proved here"
"""The proviso of verdicts that could not be proved."""
LARGE = f"{SOLVER} solved it, but the program is too large for a proof"


class Raw(NamedTuple):
    """What the solver returned, in the units of the program."""

    word: str
    """Its status."""
    x: Array
    nu: Array
    blocks: list[Array]
    steps: int
    seconds: float


def installed() -> bool:
    """Whether there is an interior-point solver."""
    return find_spec("clarabel") is not None


def require_room(program: ConeProgram) -> None:
    """Refuse matrices whose dense systems do not fit into the memory.

    A matrix of side n has a dense block of side n(n + 1)/2 in the system of every step.
    """
    sides = [side for side in program.space.blocks if side > 0]
    numbers = sum((side * (side + 1) // 2) ** 2 for side in sides)
    what = f"{SOLVER}'s systems, the largest matrix of side {max(sides, default=0)},"
    memory.require([memory.Need(what, 16 * numbers, REMEDY)])


def asked(program: ConeProgram, cost: Array, tolerance: float, steps: int, limit: float) -> Raw:
    """Clarabel's answer to min cost'x over the program."""
    import clarabel  # type: ignore[import-untyped]

    rows, right, cones = _triangles(program)
    options = clarabel.DefaultSettings()
    options.verbose = False
    options.max_iter = max(1, steps)
    options.tol_gap_abs = options.tol_gap_rel = options.tol_feas = tolerance
    if np.isfinite(limit):
        options.time_limit = max(1e-3, limit)
    P = sparse.csc_array((cost.size, cost.size))
    solver = clarabel.DefaultSolver(P, cost, sparse.csc_array(rows), right, cones, options)
    found = solver.solve()
    z, m = np.array(found.z), program.h.size
    word = str(found.status)
    return Raw(
        word, np.array(found.x), z[:m], _squares(program, z[m:]), found.iterations, found.solve_time
    )


def _triangles(program: ConeProgram) -> tuple[Any, Array, list[Any]]:
    """Rows with the upper triangles of matrices, column by column, off the diagonal times √2."""
    import clarabel

    m, n = program.h.size, program.numbers
    cones = [clarabel.ZeroConeT(m)] if m else []
    at, factor = [np.arange(n)], [np.ones(n)]
    cones += [clarabel.NonnegativeConeT(n)] if n else []
    blocks = zip(program.kinds, program.space.blocks, program.space.starts, strict=False)
    for kind, side, start in blocks:
        if kind == "second-order":
            cones.append(clarabel.SecondOrderConeT(-side))
            at.append(start + np.arange(-side))
            factor.append(np.ones(-side))
        elif kind == "matrix":
            cones.append(clarabel.PSDTriangleConeT(side))
            j, i = np.tril_indices(side)
            at.append(start + i * side + j)
            factor.append(np.where(i < j, ROOT, 1.0))
    chosen, weight = np.concatenate(at), np.concatenate(factor)
    own = sparse.diags_array(weight) @ program.A[chosen]
    rows = sparse.vstack([program.G, own], format="csc")
    return rows, np.concatenate([program.h, weight * program.b[chosen]]), cones


def _squares(program: ConeProgram, z: Array) -> list[Array]:
    """The blocks of multipliers of those rows."""
    blocks, start = [], 0
    for kind, side in zip(program.kinds, program.space.blocks, strict=True):
        if kind != "matrix":
            blocks.append(z[start : start - side])
            start -= side
            continue
        j, i = np.tril_indices(side)
        own = z[start : start + i.size] / np.where(i < j, ROOT, 1.0)
        Y = np.zeros((side, side))
        Y[i, j] = Y[j, i] = own
        blocks.append(Y)
        start += i.size
    return blocks


class Interior(Judge):
    """One solve by the interior-point solver."""

    def __init__(
        self,
        program: ConeProgram,
        lifted: Callable[[], ConeProgram | None],
        options: dict[str, Any],
        constant: float = 0.0,
    ) -> None:
        super().__init__(program, options, constant)
        self.lifted = lifted
        """Makes the program with second-order cones as matrices, where directions are judged."""

    def solve(self) -> Outcome | None:
        """The answer; None where the solver failed, and somebody else should be asked."""
        program, steps = self.program, min(self.iterations, ITERATIONS)
        require_room(program)
        tolerance = max(min(TOLERANCE, 0.01 * self.gap), 1e-13)
        raw = asked(program, program.c, tolerance, steps, self._left())
        outcome = self._read(raw)
        if outcome and outcome.status == settings.OPTIMAL_INACCURATE and not too_large(program):
            again = asked(program, program.c, CLOSER * tolerance, steps, self._left())
            other = self._read(again)
            if other and other.status == settings.OPTIMAL:
                raw, outcome = again, other
        if outcome is None:
            return None
        return replace(outcome, by=SOLVER, steps=raw.steps, seconds=raw.seconds)

    def _read(self, raw: Raw) -> Outcome | None:
        """What an answer is worth."""
        if "PrimalInfeasible" in raw.word:
            return self._gone(raw)
        if "DualInfeasible" in raw.word:
            return self._falling(raw)
        if not np.isfinite(raw.x).all() or not all(np.isfinite(b).all() for b in raw.blocks):
            return None
        outcome = self._judged(raw)
        good = outcome.status in (settings.OPTIMAL, settings.OPTIMAL_INACCURATE)
        return outcome if good or raw.word in ("MaxTime", "MaxIterations") else None

    def _judged(self, raw: Raw) -> Outcome:
        """Optimal, where a proven bound comes as near to the point as asked for."""
        program, x = self.program, self._inside(raw.x)
        value = float(program.c @ x)
        enough = value - 0.5 * self.gap * abs(value + self.constant)
        dual: Dual = dual_of(program, program.c, raw.blocks, enough, self.deadline, raw.nu)
        y, nu = dual.point.flat(), dual.point.nu
        terms = float(np.abs(program.b) @ np.abs(y) + np.abs(program.h) @ np.abs(nu))
        gap = self._gap(x, dual.bound, terms)
        status, proviso = settings.USER_LIMIT, ""
        if self.near(x, dual.bound, terms):
            status = settings.OPTIMAL
        elif raw.word == "Solved" and self._nearly(x):
            status = settings.OPTIMAL_INACCURATE
            proviso = LARGE if too_large(program) else f"optimal {HERE}"
        if not np.isfinite(dual.bound):
            y, nu = np.concatenate([np.zeros(0), *(np.ravel(b) for b in raw.blocks)]), raw.nu
        return Outcome(status, x, nu, y, dual.bound, gap, None, proviso=proviso)

    def _gap(
        self, x: Array, low: float, terms: float, part: float = UNIT, least: float = 0.0
    ) -> float:
        """A gap in at least a small part of the largest number of x at the highest price.

        Where x is 0, of the least right-hand side.
        The solver has such tolerances, without which an optimum of 0 is never reached.
        """
        program = self.program
        price, number = (float(np.abs(v).max(initial=0.0)) for v in (program.c, x))
        return super()._gap(x, low, terms, part, SCALE * price * max(number, program.smallest))

    def _inside(self, x: Array) -> Array:
        """The point, moved where it misses a cone by more than asked for."""
        program = self.program
        if not (program.b.any() or program.h.any()):  # any multiple of a point is one
            return np.zeros_like(x)
        if self._meets(x) or too_large(program):
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

    def _nearly(self, x: Array) -> bool:
        """Whether a point misses cones and equations by little next to its largest number."""
        program, largest = self.program, float(np.abs(x).max(initial=0.0))
        miss, size = violations(program, x).T
        fine = bool((miss <= MET * np.maximum(size, largest)).all())
        gaps = np.abs(program.G @ x - program.h)
        size = np.abs(program.h) + abs(program.G) @ np.abs(x)
        return fine and bool((gaps <= MET * np.maximum(size, largest)).all())

    def _gone(self, raw: Raw) -> Outcome:
        """The answer where the solver says that no point is feasible."""
        word = refuted(self.program, raw.blocks, self.deadline)
        proviso = "" if word else f"infeasible {HERE}"
        return self._verdict(word or settings.INFEASIBLE_INACCURATE, raw.x, proviso)

    def _falling(self, raw: Raw) -> Outcome:
        """The answer where the solver says that c'x falls for ever: if there is a point at all."""
        program = self.program
        nothing = np.zeros_like(program.c)
        start = asked(program, nothing, TOLERANCE, ITERATIONS, self._left())
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

    def _left(self) -> float:
        """Seconds for the next call."""
        return min(self.deadline - time.perf_counter(), deadline.left())
