"""Solve the reduced problem, bring the answer back, and prove what can be proved."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from condgrad import _deadline as deadline
from condgrad import _progress as progress
from condgrad._types import Array
from condgrad.backends import devices
from condgrad.backends.arrays import HOST, foreign
from condgrad.errors import ProblemError
from condgrad.evaluation import worst
from condgrad.methods import Method
from condgrad.run.journal import advanced
from condgrad.run.limits import Goal, Limits
from condgrad.run.loop import TOWARDS, Run
from condgrad.run.prepare import require_portable
from condgrad.run.result import Result, Status
from condgrad.run.solve import start
from condgrad.sdp import exact
from condgrad.sdp._answer import answer, only_zero, shaped
from condgrad.sdp._dual import Dual, Point, Repair, certified, slack, slopes_at
from condgrad.sdp._model import SDP, check
from condgrad.sdp._recession import from_multipliers, impossible, ray, recession, refuted
from condgrad.sdp._reduce import Reduced
from condgrad.sdp._size import GROWTH, from_rows, least_squares, trace_of
from condgrad.sdp._solution import Solution
from condgrad.sdp._trace import scale_of
from condgrad.sdp._watch import SLIGHTLY, Ends, highest, seen
from condgrad.sdp.layout import require_room

ATTEMPTS = 10
"""Guesses of the trace bound."""
UNPROVED = 5
"""Guesses without a bound for all W after which no guess far beyond all data follows."""
BINDS = 0.5
"""Share of the trace bound from which it counts as binding."""
HOPELESS = 1e-2
"""Relative infeasibility at the end of a run from which the rows themselves are in doubt."""
BROKEN = (Status.STOPPED, Status.INTERRUPTED, Status.NONFINITE, Status.OUT_OF_MEMORY)
"""Ends of a run after which there is no other."""
TIGHTER = 0.1
"""Factor on the gap that a run is asked for, where its bound does not hold for all W yet."""
LIMITS = ("max_iter", "max_epochs", "max_lmo")
"""Options that limit every run of the method."""
SOLVED = 28
"""Matrices in memory while a program is solved, about."""
ROW = 10.0
"""A single row may be missed by this many times `feasibility` of its own scale."""


def run(
    sdp: SDP,
    trace_bound: float | None,
    max_seconds: float | None,
    method: Method | None,
    options: Mapping[str, Any],
) -> Solution:
    """Solve a program; see `SDP.solve`."""
    began = time.perf_counter()
    found = Search(sdp, trace_bound, max_seconds, method, options).run()
    return replace(found, seconds=time.perf_counter() - began)


@dataclass
class Trial:
    """A run with one bound on the trace."""

    result: Result
    solution: Solution
    binds: bool
    """Whether W came near a guessed bound on the trace."""


class Search:
    """Runs with one trace bound after the other, until something is proved or a limit ends it."""

    def __init__(
        self,
        sdp: SDP,
        trace_bound: float | None,
        max_seconds: float | None,
        method: Method | None,
        options: Mapping[str, Any],
    ) -> None:
        self.began = time.perf_counter()
        check(sdp, trace_bound, options)
        if options.get("device", "cpu") == "cpu":
            require_room(sdp.layout, SOLVED)
        self.sdp, self.given, self.limit = sdp, trace_bound, max_seconds
        self.method, self.options = method, dict(options)
        self.reduced = Reduced(sdp, like=place_of(sdp, self.options.get("device", "cpu")))
        self.inner: Array | None = None
        """A direction without end in which the rows hold."""
        self.repair: Repair | None = None
        self.going: Run | None = None
        self.latest: Solution | None = None
        """Solution of the latest run."""
        self.trace = 0.0
        """The trace bound of the run that goes on."""
        self.least = 0.0
        """About the least ‖W‖ that matters."""
        self.result: Result | None = None
        """Result of the latest run."""
        self.at = (0.0, "guess")
        """Its trace bound, and the source of that."""
        self.ends = Ends()
        self.data = max((float(np.abs(f.right).max()) for f in self.reduced.families), default=0.0)
        """The largest right-hand side, for rows of length 1."""

    def _scaled(self, reduced: Reduced) -> Reduced:
        """The program in a scale in which the rows that bound its trace are alike."""
        if reduced.trace is None:
            left = self.left()
            share = None if left is None else left / 12
            reduced.trace, self.inner = ray(reduced, share, self.options)
            if reduced.trace is not None:
                M = slack(reduced, Point(-reduced.trace.c), cost=False).Z
                reduced.lift = scale_of(reduced, M)
        if reduced.lift is None:
            return reduced
        scaled = Reduced(self.sdp, reduced.lift, reduced.like)
        scaled.failure += reduced.failure
        if scaled.trace is None and reduced.trace is not None:
            scaled.trace = from_multipliers(scaled, reduced.trace.c)
        return scaled if scaled.trace is not None else reduced

    def left(self) -> float | None:
        """Seconds until the limit."""
        return max(0.0, deadline.left()) if deadline.is_set() else None

    def run(self) -> Solution:
        """The best that can be said."""
        with progress.answers(lambda last: seen(self.going, self.reduced, last)):
            return self._found()

    def _found(self) -> Solution:
        try:
            return self._run()
        except KeyboardInterrupt:
            if self.result is not None:  # without a new proof
                found = answer(self.reduced, self.result, None, *self.at, self.least)
                if self.latest is not None and not self.latest.conditional:
                    found = replace(found, bound=self.latest.bound)
                return replace(found, status=Status.INTERRUPTED)
            self.least, _ = least_squares(self.reduced)  # before the first run
            trace, source, _ = trace_of(self.reduced, self.given, self.least)
            if self.reduced.refuted or trace <= 0:
                return only_zero(self.reduced, trace, source)
            self.options["max_iter"], self.going = 0, None
            found = self._trial(trace, source, False, 1.0, last=True).solution
            return replace(found, status=Status.INTERRUPTED)

    def _run(self) -> Solution:
        if self.given is None and not self.reduced.refuted:
            self.reduced = self._scaled(self.reduced)
        reduced = self.reduced
        self.repair = from_rows(reduced)
        self.least, residual = least_squares(reduced)
        trace, source, exact = trace_of(reduced, self.given, self.least)
        if reduced.refuted or trace <= 0:
            return only_zero(reduced, trace, source)
        if not (reduced.families or self.sdp.losses or reduced.cost.any()):
            return only_zero(reduced, 0.0, source)  # whatever W is
        if impossible(reduced, residual, self.repair):
            reduced.refuted = True
            return only_zero(reduced, trace, source)
        if source != "guess":
            return self._once(trace, source, exact)
        left = self.left()
        share = None if left is None else left / 6
        found = recession(reduced, share, self.options, self.inner)
        self.repair = found.repair or self.repair
        if found.direction is not None:
            return self._unbounded(found.direction)
        return self._guesses(trace)

    def _once(self, trace: float, source: str, exact: bool) -> Solution:
        """One run, where the trace bound is known, and closer ones where that is not enough."""
        share = 1.0
        while True:
            trial = self._trial(trace, source, exact, share, last=True)
            solution = self._refutation(trial, trace)
            if solution.status is Status.INFEASIBLE or solution.status in BROKEN:
                return _ended(self.reduced, solution)
            if self._accurate(solution):
                return replace(solution, status=Status.CONVERGED)
            if solution.status is not Status.CONVERGED:
                return solution
            left = self.left()
            if share < TIGHTER**2 or (left is not None and left <= 0.1 * (self.limit or 0.0)):
                return replace(solution, status=Status.INACCURATE)
            share *= TIGHTER

    def _guesses(self, trace: float) -> Solution:
        """Runs with trace bounds that are guessed, raised while they bind."""
        tighter = 1.0
        best: Solution | None = None
        for attempt in range(1, ATTEMPTS + 1):
            last = attempt == ATTEMPTS
            trial = self._trial(trace, "guess", False, tighter, last)
            solution = self._refutation(trial, trace)
            if best is None or _miss(solution) <= _miss(best):
                best = solution
            if solution.status is Status.INFEASIBLE or solution.status in BROKEN:
                return _ended(self.reduced, replace(best, status=solution.status))
            if self._accurate(solution):
                return replace(solution, status=Status.CONVERGED)
            enough = attempt >= UNPROVED and trace > GROWTH**2 * self.data
            if last or self._late() or (enough and np.isinf(solution.bound)):
                break
            end = trial.result.status
            if trial.binds or end is Status.INFEASIBLE:
                trace *= GROWTH
            elif end is Status.CONVERGED and tighter > TIGHTER**3:
                tighter *= TIGHTER
            elif end is not Status.MAX_SECONDS:  # else that was a part of the time only
                break
        assert best is not None
        status = trial.result.status
        if status in (Status.CONVERGED, Status.INFEASIBLE) or trial.binds:
            status = Status.INACCURATE if np.isfinite(best.bound) else Status.UNDECIDED
        return replace(best, status=Status.MAX_SECONDS if self._late() else status)

    def _late(self) -> bool:
        """Whether there is no time left for another run."""
        left = self.left()
        return left is not None and left <= 0.02 * (self.limit or 0.0)

    def _trial(self, trace: float, source: str, exact: bool, tighter: float, last: bool) -> Trial:
        """Go on over Tr W ≤ trace, or = where the rows say so."""
        reduced, options, left = self.reduced, self.options, self.left()
        seconds = None if left is None else 0.9 * left if last else max(left / 3, min(left, 1.0))
        feasibility = tighter * reduced.tolerance(options["feasibility"])
        goal = Goal(tighter * options["gap"], feasibility, options.get("row_feasibility"))
        most = highest(reduced, trace) / reduced.money
        most_iter, epochs, lmo = (options.get(name) for name in LIMITS)
        if most_iter is epochs is lmo is seconds is None:
            most_iter = TOWARDS
        limits = Limits(most_iter, epochs, seconds, lmo)
        run = self._over(trace, exact, goal)
        guessed = source == "guess" and not last
        self.ends.watch(most, trace if guessed else np.inf, run.state.k)
        result = advanced(run, limits, goal)
        self.result, self.at = result, (trace, source)
        dual = self._dual(result, trace if source != "rows" else SLIGHTLY * trace)
        if source == "rows":
            dual = dual._replace(bound=dual.within)  # the rows prove τ
        solution = self.latest = answer(reduced, result, dual, trace, source, self.least)
        binds = source == "guess" and float(np.trace(result.W)) > BINDS * trace
        return Trial(result, solution, binds)

    def _over(self, trace: float, exact: bool, goal: Goal) -> Run:
        """The run, moved to a trace bound, or a new one where there is none yet."""
        if self.going is None:
            own = {n: v for n, v in self.options.items() if n not in LIMITS}
            own.update(gap=goal.gap, feasibility=goal.feasibility, duals=True)
            own["callbacks"] = [*self.options.get("callbacks", ()), self.ends]
            self.going = start(self.reduced.problem(trace, exact), self.method, **own)
            if not foreign(self.going.problem.like):  # as device="auto" may have it
                self.reduced.like = HOST
        elif trace != self.trace:
            self.going.move(self.reduced.domain(trace, exact))
        self.trace = trace
        return self.going

    def _dual(self, result: Result, trace: float) -> Dual:
        """The best of the dual points at hand."""
        reduced = self.reduced
        W = reduced.flat(result.W.astype(np.float64))
        y = reduced.money * reduced.multipliers(result.duals)
        dual = certified(reduced, Point(y, slopes_at(reduced, W)), self.repair, trace)
        if self.sdp.losses:  # the run had slopes of its own
            dual = dual._replace(within=max(dual.within, reduced.money * result.lower_bound))
            reduced.failure += result.bound_failure
        if dual.bound == -np.inf:
            found = exact.proved(reduced, y)
            if found is not None:
                there = Point(found[1])
                Z = slack(reduced, there)
                within = max(dual.within, found[0])
                return Dual(there, Z.Z, found[0], within, min(Z.lowest, 0.0))
        return dual

    def _accurate(self, solution: Solution) -> bool:
        """Whether the tolerances are met in the units of the program: ‖AW − b‖ ≤ f (1 + ‖b‖).

        No row may be missed by more than 10 f of its own scale; and where none is by more than
        f/100 of it, the unit of the rows does not matter.
        """
        b = self.sdp.b
        largest = float(np.abs(b).max()) if b.size else 0.0
        miss = solution.errors.primal * (1 + largest) / (1 + float(np.linalg.norm(b)))
        most = self.options["feasibility"]
        rows = miss <= most and solution.worst_row <= ROW * most
        rows = rows or solution.worst_row <= most / 100
        return bool(solution.gap <= self.options["gap"] and rows)

    def _refutation(self, trial: Trial, trace: float) -> Solution:
        """The solution, INFEASIBLE where that can be proved, or as a run for it was broken off.

        A bound beyond all values over the domain proves it for Tr W ≤ trace; else, where the rows
        are in doubt, a run without cost does. Where the trace is a guess that is no proof, but its
        multipliers may be one.
        """
        solution, reduced = trial.solution, self.reduced
        guessed = solution.trace_from == "guess"
        if solution.status in BROKEN:
            return solution
        beyond = reduced.sign * solution.conditional_bound > highest(reduced, trace)
        doubtful = trial.result.worst > HOPELESS and not trial.binds
        ended = trial.result.status is Status.INFEASIBLE
        if not (beyond or doubtful or ended):
            return solution
        conditional = solution.trace_from == "user"
        if beyond and not guessed:
            return replace(solution, status=Status.INFEASIBLE, conditional=conditional)
        left = self.left()
        seconds = None if left is None else max(left / 9, 0.2)
        result = refuted(reduced, trace, seconds, self.method, self.options)
        reduced.failure += result.bound_failure
        if result.status in BROKEN and result.lower_bound <= 0:
            return replace(solution, status=result.status)
        proved = result.lower_bound > 0
        if proved and guessed:
            proved = impossible(reduced, reduced.multipliers(result.duals), self.repair)
        status = Status.INFEASIBLE if proved else solution.status
        if not proved and ended:
            status = Status.UNDECIDED
        conditional, chance = conditional or solution.conditional, reduced.failure
        return replace(solution, status=status, conditional=conditional, bound_failure=chance)

    def _unbounded(self, direction: Array) -> Solution:
        """The value falls along a direction: the program is unbounded if some W is feasible."""
        reduced = self.reduced
        plain = self.sdp.without_cost()
        closer = {**self.options, "feasibility": 0.1 * self.options["feasibility"]}
        found = run(plain, self.given, self.left(), self.method, closer)
        W, Z = (np.concatenate([*map(np.ravel, _list(parts))]) for parts in (found.W, found.Z))
        value = reduced.sign * float(reduced.cost @ W)
        status = found.status
        if status is Status.CONVERGED:
            status = Status.UNBOUNDED
        elif status is Status.INACCURATE:
            status = Status.UNDECIDED
        infinite, nan = -reduced.sign * np.inf, float("nan")
        verdict = {Status.INFEASIBLE: -infinite}.get(status, infinite)
        return replace(
            found,
            status=status,
            value=value if status is not Status.INFEASIBLE else found.value,
            y=reduced.sign * found.y,
            Z=shaped(self.sdp, Z + reduced.cost),  # the run was without a cost
            errors=found.errors._replace(dual_cone=nan, gap=np.inf, complementarity=nan),
            bound=verdict,
            bound_failure=found.bound_failure + reduced.failure,
            conditional_bound=verdict,
            sense=self.sdp.sense,
            ray=shaped(self.sdp, direction),
        )


def _list(parts: Any) -> list[Array]:
    return parts if isinstance(parts, list) else [parts]


def _ended(reduced: Reduced, solution: Solution) -> Solution:
    """No value is better than +∞ where no W is feasible."""
    if solution.status is not Status.INFEASIBLE:
        return solution
    beyond = reduced.sign * np.inf
    return replace(solution, bound=beyond, conditional_bound=beyond)


def _miss(solution: Solution) -> float:
    """Infeasibility, where it is large."""
    return max(HOPELESS, worst(solution.families))


def place_of(sdp: SDP, device: str) -> Array:
    """Device on which eigenvalues are bounded: a GPU if runs can be there and it pays."""
    devices.check_device(device)
    sides = [b for b in sdp.blocks if b > 0]
    large = sdp.size >= devices.WORTH or max(sides, default=0) >= devices.WIDE
    if device == "cpu" or (device == "auto" and not large):
        return HOST
    try:
        for i, one in enumerate(sdp.losses):
            require_portable(one.function, f"loss {i + 1} has")
        return devices.on_gpu()
    except ProblemError:
        if device == "cuda":
            raise
        return HOST
