"""A cone program through its dual: runs, repairs and proofs."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import cvxpy as cp
import cvxpy.settings as settings
import numpy as np
from scipy import sparse

from condgrad import _progress as progress
from condgrad._floats import EPS
from condgrad._types import Array
from condgrad.backends import memory
from condgrad.cvxpy._cone_judge import UNIT, Judge, Outcome
from condgrad.cvxpy._cone_point import (
    complementary,
    contradict,
    descends,
    meets,
    repaired,
    violations,
)
from condgrad.cvxpy._cone_program import ConeProgram, kernel
from condgrad.cvxpy._cone_proof import CUTS, dual_of, refuted, too_large
from condgrad.cvxpy._write import blocks_of
from condgrad.run.result import Status
from condgrad.sdp import SDP, Solution

DENSE = 8
"""Dense matrices of the equations, and made of them, while they are solved."""
REMEDY = "use condgrad.cvxpy.solve(problem), which keeps rows sparse, or write a smaller problem"
FIRST = 500
"""Iterations of the first run; each may take `LONGER` times those of the one before."""
LONGER = 4
EXACT = 64 * EPS
"""Relative error of a short sum of products."""
TIGHTER = 0.1
"""Factor on the tolerances of a run that ended by itself, but not well enough."""
TIGHTEST = 1e-5
"""Least product of such factors."""
LOOSE = 1e-6
"""Where a gap has to be measured in this part instead of `UNIT` the answer is inaccurate."""
STRICT = 1e-6
"""Part of the feasibility asked for that leaves no doubt about a point."""


GONE = (settings.INFEASIBLE, settings.INFEASIBLE_INACCURATE)
"""Words for a program without a feasible point."""


class Eliminated:
    """The program in w, where x = start + N w solves the equations.

    Differences that the rounding of N explains are taken for 0: a row or a price of 1e-16 is none.
    """

    def __init__(self, program: ConeProgram) -> None:
        self.program = program
        m, n = program.G.shape
        what = f"{m} equations of {n} unknowns as dense matrices"
        memory.require_room(DENSE * 8 * m * n, REMEDY, what)
        self.kernel = kernel(program.G.toarray(), program.h)
        start, N = self.kernel.start, self.kernel.N
        entry, move, reach = self.kernel[3:]
        A, b, c = program.A, program.b, program.c
        seen = abs(A) @ entry  # what an error of N is to each row of A
        size = EXACT * (np.abs(b) + abs(A) @ np.abs(start))
        self.slack = _beyond(b - A @ start, reach * seen + size)
        size = EXACT * (abs(N).T @ np.abs(c))
        self.price = _beyond(N.T @ c, float(entry @ np.abs(c)) * move + size)
        rows = sparse.coo_array(N.T @ A.T)
        if program.h.size:
            j, i = rows.coords
            size = EXACT * sparse.csr_array(abs(N).T @ abs(A).T)[j, i]
            rows.data = _beyond(rows.data, move[j] * seen[i] + np.asarray(size).reshape(-1))
        self.rows = program.space.symmetric(rows)
        """Row j says what w_j does to −(b − A x)."""
        self.seen = np.diff(self.rows.indptr) > 0
        """Which w the cones see."""

    def whole(self, w: Array) -> Array:
        """w for the entries that the cones see, the others 0."""
        full = np.zeros(self.seen.size)
        full[self.seen] = w
        return full

    def point(self, w: Array) -> Array:
        """x for the entries of w that the cones see."""
        return self.kernel.start + self.kernel.N @ self.whole(w)

    def dual(self, right: Array) -> SDP:
        """min slack'y subject to rows y = right, y in the dual cone; w are its multipliers."""
        sdp = SDP(self.program.space.split(self.slack))
        return sdp.subject_to_rows(self.rows[self.seen], "==", right)

    def steepest(self) -> SDP:
        """min ‖rows y + price‖₁ over the dual cone.

        Its multipliers are the w with |w_j| ≤ 1 of the least price'w along which the cones go on.
        """
        zeros = [np.zeros_like(b) for b in self.program.space.split(self.slack)]
        eye = sparse.eye_array(int(self.seen.sum()))
        sdp = SDP([*zeros, np.ones(2 * eye.shape[0])])
        rows = sparse.hstack([self.rows[self.seen], eye, -eye])
        return sdp.subject_to_rows(rows, "==", -self.price[self.seen])


def _beyond(numbers: Array, noise: Array) -> Array:
    """Numbers, 0 where they are noise."""
    return np.where(np.abs(numbers) > noise, numbers, 0.0)


class Run(Judge):
    """One solve, with what is left of its limits.

    Every statement is checked in the cone program itself: ``optimal`` stands on a point that meets
    the cones and a proven bound, ``infeasible`` on multipliers with cost 0 and a bound above 0,
    ``unbounded`` on a point and a direction; they are called inaccurate where that holds up to
    rounding only. What the runs on the dual say of themselves decides
    nothing, but ``optimal_inaccurate`` for programs that are too large for proofs.
    """

    def __init__(
        self, program: ConeProgram, options: dict[str, Any], constant: float = 0.0
    ) -> None:
        super().__init__(program, options, constant)
        self.reduced = Eliminated(program)
        self.last: Solution | None = None

    def solve(self) -> Outcome:
        """The answer."""
        program, reduced = self.program, self.reduced
        start = reduced.kernel.start
        gone = contradict(program, reduced.kernel.missed)
        if gone:
            return self._outcome(gone, start)
        unseen = np.where(reduced.seen, 0.0, -reduced.price)
        falls = descends(program, reduced.kernel, unseen)
        if falls:
            return self._falling(start, falls)
        if unseen.any():  # a price that may be rounding, or not
            return self._outcome(settings.USER_LIMIT, start)
        if not reduced.seen.any():
            return self._fixed(start)
        return self._search()

    def _search(self) -> Outcome:
        """Longer and tighter runs on the dual, until something is settled."""
        program, reduced = self.program, self.reduced
        iterations, factor, best, nearly = FIRST, 1.0, None, None
        sdp = reduced.dual(-reduced.price[reduced.seen])
        while True:
            solution = self._run(sdp, iterations, factor)
            blocks = blocks_of(solution.W)
            x = repaired(program, reduced.kernel, reduced.point(solution.y))
            found = self._judged(x, blocks)
            if found.status == settings.OPTIMAL_INACCURATE and not too_large(program):
                nearly = found
            elif found.status != settings.USER_LIMIT:
                status, _ = self._feasible(found.x, iterations)  # what it misses may be a sign
                return self._outcome(status, x) if status in GONE else found
            best = _better(program, best, found)
            gone = refuted(program, blocks, self.deadline)
            if gone:
                return self._outcome(gone, x)
            falls = descends(program, reduced.kernel, reduced.whole(solution.y))
            if falls:
                return self._falling(x, falls)
            if iterations > FIRST or solution.status is not Status.MAX_ITER:
                status, x = self._feasible(x, iterations)
                if status in GONE:
                    return self._outcome(status, x)
                falls = None if np.isfinite(found.bound) else self._descends(iterations)
                if falls:
                    return self._falling(x, falls)
            factor *= 1.0 if solution.status is Status.MAX_ITER else TIGHTER
            iterations *= LONGER
            if self._over() or factor < TIGHTEST:
                return nearly or replace(best, solution=self.last)

    def _judged(self, x: Array, blocks: list[Array]) -> Outcome:
        """Optimal, where a proven bound comes as near to a point as asked for.

        Inaccurate, where it is proved up to rounding only or in a larger unit, or not looked at
        because the program is too large; else at a limit.
        """
        program = self.program
        value = float(program.c @ x)
        enough = value - 0.5 * self.gap * abs(value + self.constant)
        dual = dual_of(program, program.c, blocks, enough, self.deadline)
        y, low = dual.point.flat(), max(dual.bound, dual.value)
        points = [x]
        if np.isfinite(low) and self._gap(x, low) > self.gap:
            points += [complementary(program, self.reduced.kernel, x, y, cut) for cut in CUTS]
        status = settings.USER_LIMIT
        for bound, part, word in (
            (dual.bound, UNIT, settings.OPTIMAL),
            (low, UNIT, settings.OPTIMAL_INACCURATE),
            (low, LOOSE, settings.OPTIMAL_INACCURATE),
        ):
            fine = [p for p in points if self.near(p, bound, part)]
            if fine:
                x, status = fine[0], word
                break
        if too_large(program) and self.last is not None:
            ended = self.last.status is Status.CONVERGED and np.isfinite(self.last.bound)
            ended = ended and meets(program, x, self.feasibility)
            status = settings.OPTIMAL_INACCURATE if ended else settings.USER_LIMIT
        gap, unit = self._gap(x, dual.bound), self._unit(x)
        return Outcome(status, x, dual.point.nu, y, dual.bound, gap, unit, self.last)

    def _fixed(self, x: Array) -> Outcome:
        """The answer where the cones see one point only."""
        blocks = self.program.slack(x)
        if not meets(self.program, x, STRICT * self.feasibility):
            gone = refuted(self.program, [_outside(b) for b in blocks], self.deadline)
            if gone or not meets(self.program, x, self.feasibility):
                return self._outcome(gone or settings.USER_LIMIT, x)
        return self._judged(x, [np.zeros_like(b) for b in blocks])

    def _falling(self, x: Array, falls: str) -> Outcome:
        """The answer where there is a direction along which c'x falls, in the words for that."""
        status, x = self._feasible(x, FIRST)
        if status == settings.OPTIMAL:
            status = falls
        elif status not in GONE:
            status = settings.INFEASIBLE_OR_UNBOUNDED
        return self._outcome(status, x)

    def _feasible(self, x: Array, iterations: int) -> tuple[str, Array]:
        """``optimal`` and a point of the cones, ``infeasible`` where there is none, or neither.

        min slack'y with rows y = 0 and Tr y ≤ 1 is below 0 where there is none.
        """
        program, reduced = self.program, self.reduced
        factor = TIGHTER
        while not meets(program, x, STRICT * self.feasibility):
            near = meets(program, x, self.feasibility)
            gone = refuted(program, [_outside(b) for b in program.slack(x)], self.deadline)
            if gone:
                return gone, x
            done = self._over() or factor < (TIGHTER if near else TIGHTEST)
            if done or not reduced.seen.any():
                return settings.OPTIMAL if near else settings.USER_LIMIT, x
            sdp = reduced.dual(np.zeros(int(reduced.seen.sum())))
            solution = self._run(sdp, iterations, factor, trace_bound=1.0)
            gone = refuted(program, blocks_of(solution.W), self.deadline)
            if gone:
                return gone, x
            other = repaired(program, reduced.kernel, reduced.point(solution.y))
            x = x if near and not meets(program, other, self.feasibility) else other
            factor *= TIGHTER
        return settings.OPTIMAL, x

    def _descends(self, iterations: int) -> str | None:
        """Look for a direction along which c'x falls within the cones."""
        solution = self._run(self.reduced.steepest(), iterations, TIGHTER, trace_bound=None)
        return descends(self.program, self.reduced.kernel, self.reduced.whole(solution.y))

    def _run(self, sdp: SDP, iterations: int, factor: float, **options: Any) -> Solution:
        """One run, within what is left."""
        iterations = max(1, min(iterations, self.iterations))
        left = None
        if np.isfinite(self.deadline):
            left = max(1e-3, self.deadline - time.perf_counter())
        tolerances = {"gap": factor * self.gap, "feasibility": factor * self.feasibility}
        limits = {"max_iter": iterations, "max_seconds": left}
        with progress.changed(lambda seen: seen._replace(what="scaled dual", gap=np.nan)):
            self.last = sdp.solve(**{**self.options, **options, **tolerances, **limits})
        spent = 0 if self.last.result is None else self.last.result.iterations
        self.iterations -= max(1, iterations // 10, min(spent, iterations))
        if not np.isfinite(self.last.y).all():
            raise cp.error.SolverError(f"condgrad: {self.last.status}")
        return self.last

    def _over(self) -> bool:
        return self.iterations <= 0 or time.perf_counter() >= self.deadline

    def _outcome(self, status: str, x: Array) -> Outcome:
        """An answer without multipliers."""
        return replace(self._verdict(status, x), solution=self.last)


def _better(program: ConeProgram, one: Outcome | None, other: Outcome) -> Outcome:
    """Of two answers the point that misses less of the cones, with the better bound."""
    if one is None:
        return other
    miss = [float(violations(program, o.x)[:, 0].max(initial=0.0)) for o in (one, other)]
    x = one.x if miss[0] < miss[1] else other.x
    return replace(one if one.bound > other.bound else other, x=x)


def _outside(block: Array) -> Array:
    """A multiplier that sees what a slack misses of its cone."""
    if block.ndim == 1:
        return np.maximum(-block, 0.0)
    values, vectors = np.linalg.eigh(block)
    return np.asarray((vectors * np.maximum(-values, 0.0)) @ vectors.T)
