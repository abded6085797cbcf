"""What watches a run: clock, limits, trace, callbacks, proofs, best point. It changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from condgrad import _progress as progress
from condgrad._deadline import OutOfTime
from condgrad._types import Array
from condgrad.backends.arrays import foreign, host
from condgrad.backends.devices import device_of
from condgrad.certificate import infeasible, lower_bound
from condgrad.certificate.lower_bound import Bound, Report, relative_gap
from condgrad.errors import ProblemError
from condgrad.evaluation import Evaluation
from condgrad.methods.protocol import Method, State, passes_over, penalty
from condgrad.points.factored import Factored, finite, shown
from condgrad.problem import Problem
from condgrad.run.callbacks import Info, Scalars, Watch
from condgrad.run.limits import FIRST, Clock, Counts, Goal, Limits, Pause
from condgrad.run.result import KEEP, PARTS, Result, Status, Trace


@dataclass
class Best:
    """The best point so far."""

    W: Any
    k: int
    evaluation: Evaluation
    metrics: dict[str, float]
    proposed: bool = False


class Monitor:
    """The record of a run and what is proved of it.

    Parameters
    ----------
    problem, method, state
        What runs: the problem where it runs, the method in the form that suits it, its state.
    goal, watch
        What the user asked for.
    clock : Clock, optional
        The clock of a run that has moved to another domain.
    """

    _transient = ("_until", "keep", "before")
    _until: Callable[[Info], object] | None = None
    keep: Callable[[], None] | None = None
    """Called between two iterations."""
    before: Any = None
    """W before the latest iteration, if errors of estimates are asked for."""
    hurried = False
    """Whether the clock has kept the run from something that it would have done."""

    def __init__(
        self,
        problem: Problem,
        method: Method,
        state: State,
        goal: Goal,
        watch: Watch,
        clock: Clock | None = None,
    ) -> None:
        self._problem, self._method, self._state = problem, method, state
        self._goal, self._watch = goal, watch
        self._per_decade, self._sparse = watch.record or 30, watch.record is None
        self._limits = Limits(None, None, None, None)
        first, self._pace = method.proofs
        self._since, self._first = state.k, max(first, state.k // 10)
        self._next_proof = state.k + self._first
        self._next = state.k + 1
        self._recorded = self._proved = -1
        self._proves = watch.certify
        """Whether bounds are wanted and none has turned out to be wrong."""
        self.bound = self._known_bound() if watch.certify else Bound()
        self.duals: dict[str, Array] = {}
        """Multipliers behind the bound."""
        self.ray: dict[str, Array] = {}
        """Multipliers that prove the problem infeasible."""
        self._looks, self._failure = infeasible.Looks(), 0.0
        """When such a proof is looked for, and the chance that one of all looks errs."""
        self._proposed: tuple[Any, Any] = (None, None)
        self._pause = Pause()
        self._pause.plan(problem.domain.shape)
        self.trace, self.clock = Trace(), clock or Clock()
        self.clock.start()
        self.seconds = self.clock.seconds
        self.status: Status | None = Status.PAUSED
        self._best = Best(state.W.copy(), state.k, *self._record())
        if not self._best.evaluation.finite:
            self.status = Status.NONFINITE
        self._doubt(state.W, self._best.evaluation)

    def _known_bound(self) -> Bound:
        """The larger one of the user's bound and that of y = 0."""
        floor, lowest = self._watch.floor, lower_bound.trivial(self._problem)
        given = Bound() if floor is None else Bound(float(floor), "given", 0.0, "given")
        return Bound(lowest, "exact", 0.0, "values") if lowest > given.value else given

    # --- limits and counts

    @property
    def counts(self) -> Counts:
        """Iterations, epochs and oracle calls so far."""
        return self._state.k, self.epochs, self._state.calls

    @property
    def epochs(self) -> float:
        """Composite rows evaluated per composite row."""
        return passes_over(self._problem, self._state.rows)

    def aim(self, goal: Goal, ends: Sequence[Status]) -> None:
        """Watch for another goal; a run that has converged may go on, as one may after `ends`."""
        self._goal = goal
        if self.status in (Status.CONVERGED, *ends):
            met = goal.wanted and self._distance(self._best.evaluation) <= 1
            self.status = Status.CONVERGED if met else Status.PAUSED

    def begin(
        self,
        limits: Limits,
        until: Callable[[Info], object] | None,
        ends: Sequence[Status],
        since: Counts | None = None,
    ) -> bool:
        """Count limits from now or `since`; False if the run has ended by other than `ends`."""
        if self.status not in ends:
            return False
        k, epochs, calls = since or self.counts
        self._until = until
        self._limits = limits.since(k, epochs, self.seconds, calls)
        self._pause.watched()
        self.status = self._reached()
        self.clock.start()
        return self.status is None

    def room(self) -> int:
        """Iterations until the next one to look at, or a limit."""
        s, problem = self._state, self._problem
        if self._watch.callbacks or self._watch.errors or self._until is not None:
            return 1
        due = min(self._next, self._next_proof) if self._watched else self._next
        share = passes_over(problem, [self._method.drawn(t) for t in problem.terms])
        room = self._limits.room(s.k, self.epochs, s.calls, share)
        return max(1, int(min(due - s.k, room)))

    def _later(self, least: int, per_decade: int) -> int:
        """The next of so many iterations per decade, counted from where the watching began."""
        done = self._state.k - self._since
        return self._since + max(least, done + 1, int(np.ceil(done * 10 ** (1 / per_decade))))

    def _reached(self) -> Status | None:
        found = self._limits.reached(self._state.k, self.epochs, self.seconds, self._state.calls)
        return found or (Status.MAX_SECONDS if self._pause.due() else None)

    @property
    def _watched(self) -> bool:
        """Whether bounds count before the end."""
        return self._proves and (self._goal.wanted or self._method.measures(self._problem))

    # --- after an iteration

    def after(self, state: State) -> bool:
        """Look at the state after some iterations; True ends the run."""
        self._state, k, report = state, state.k, state.report
        self.seconds = self.clock.lap("method")
        self._pause.iterated()
        prove = self._watched and (k >= self._next_proof or report is not None)
        if k >= self._next or prove:
            if k >= self._next:
                self._next = self._later(1, self._per_decade)
            self._judge()
        if self.status is None:
            self.status = self._ask() or self._reached()
        progress.look(self)
        if self.status is None and self.keep is not None:
            self.keep()
        self.clock.lap("metrics", counts=False)
        self._pause.watched()
        return self.status is not None

    def _ask(self) -> Status | None:
        """Show the iteration to the callbacks."""
        if not self._watch.callbacks and self._until is None:
            return None
        info = self.info()
        answers = [callback(info) for callback in self._watch.callbacks]
        if self._until is not None and self._until(info):
            answers.append(Status.PAUSED)
        for answer in answers:
            if isinstance(answer, Status):
                return answer
        yes = any(isinstance(a, (bool, np.bool_)) and a for a in answers)
        return Status.STOPPED if yes else None

    def info(self) -> Info:
        """View of the latest iteration, for callbacks."""
        s = self._state
        params = Scalars(s.k, s.eta, s.beta)
        return Info(s.k, params, s.W, self.seconds, self.epochs, s.calls, self.trace, self._problem)

    def _judge(self) -> None:
        """Record the iterate, keep the best point so far, and see whether it has converged."""
        evaluation, metrics = self._record()
        if not evaluation.finite:
            self.status = Status.NONFINITE
            return
        self._offer(self._state.W, evaluation, metrics)
        propose = self._watch.propose
        if self._goal.wanted and propose is not None and self._proved == self._state.k:
            self.clock.lap("metrics", counts=False)
            self.hurried = True
            with suppress(OutOfTime), self._pause.part("proposal"):
                self._consider(proposal(propose, self._state.W))
                self.hurried = False
            self.clock.lap("proposal", counts=False)
        self._doubt(self._best.W, self._best.evaluation)
        if self._converged():
            self.status = Status.CONVERGED

    def _record(self) -> tuple[Evaluation, dict[str, float]]:
        """Add a row to the trace."""
        s, problem, report = self._state, self._problem, self._state.report
        evaluation = report.evaluation if report else self._method.evaluate(problem, s, s.W)
        metrics = dict.fromkeys(self._watch.metrics, np.nan)
        if evaluation.finite:
            metrics = self._measured(s.W)
        self._prove(evaluation)
        self._last = evaluation
        row: dict[str, float] = {
            "k": s.k,
            "seconds": self.seconds,
            "epochs": self.epochs,
            "lmo_calls": s.calls,
            "matvecs": s.products,
            "rows": sum(s.rows),
            "objective": evaluation.objective,
            "smoothed": self._smoothed(evaluation) if s.k else np.nan,
            "infeasibility": evaluation.infeasibility,
            "lower_bound": self.bound.value,
            "gap": relative_gap(evaluation.objective, self.bound.value, problem.unit),
            "eta": s.eta,
            "beta": s.beta,
        }
        trios = list(zip(problem.terms, s.rows, s.betas, strict=True))
        row.update({f"epochs.{t.name}": rows / t.map.size for t, rows, _ in trios})
        for name, violation in evaluation.families.items():
            row.update({f"{name}.{kind}": v for kind, v in violation._asdict().items()})
        if self._method.measures(problem):
            row.update({f"{t.name}.beta": b for t, _, b in trios if not t.function.smooth})
        if self._watch.errors:
            known = self.before is not None and evaluation.finite and self.status not in KEEP
            errors = self._method.errors(problem, s, self.before if known else s.W)
            row.update({f"{name}.error": e if known else np.nan for name, e in errors.items()})
        clash = sorted(set(row) & set(metrics))
        if clash:
            raise ProblemError(f"metrics names {clash}, which the trace has already: rename them")
        self.trace.append({**row, **metrics})
        self._recorded = s.k
        return evaluation, metrics

    def _smoothed(self, evaluation: Evaluation) -> float:
        """F_β at the iterate; what the constraints add is known already."""
        total, s = evaluation.objective, self._state
        for t, beta in zip(self._problem.terms, s.betas, strict=True):
            if t.function.indicator:
                total += penalty(t, evaluation, beta)
            elif not t.function.smooth:
                total += t.smoothed(s.W, beta) - t.value(s.W)
        return total

    def _measured(self, W: Any) -> dict[str, float]:
        """The user's metrics at a point."""
        metrics = self._watch.metrics
        point = shown(host(W)) if metrics else W
        return {name: number(name, metric(point)) for name, metric in metrics.items()}

    # --- the best point

    def _consider(self, proposed: Any) -> None:
        """Offer a proposed point; one that was proposed before is not evaluated again."""
        if proposed is not self._proposed[0]:
            self._proposed = (proposed, None)
            W = None if proposed is None else like(proposed, self._state.W)
            if W is not None and self._problem.domain.contains(W, 1e-6):
                known = self._problem.evaluate(W), self._measured(W)
                self._proposed = (proposed, (W, *known))
        if self._proposed[1] is not None:
            point, evaluation, metrics = self._proposed[1]
            self._offer(point, evaluation, metrics, proposed=True)

    def _offer(
        self, W: Any, evaluation: Evaluation, metrics: dict[str, float], proposed: bool = False
    ) -> None:
        """Keep a point that is the best so far."""
        self._doubt(W, evaluation)
        best = self._best
        if self._goal.wanted and np.isfinite(self.bound.value):
            better = self._rank(evaluation) <= self._rank(best.evaluation)
        else:
            better = self._merit(W, evaluation) <= self._merit(best.W, best.evaluation)
        if better:
            plain = not isinstance(W, Factored)  # factors are never changed
            kept = best.W if plain else W
            self._best = Best(kept, self._state.k, evaluation, metrics, proposed)
            if plain:  # no signal comes between
                kept[...] = W

    def _merit(self, W: Any, evaluation: Evaluation) -> float:
        return self._method.merit(self._problem, self._state, W, evaluation)

    def _rank(self, evaluation: Evaluation) -> tuple[float, float, float]:
        """Smaller is better; of two points that have converged the more feasible one."""
        distance = self._distance(evaluation)
        return (1.0, evaluation.worst, distance) if distance <= 1 else (distance, 0.0, 0.0)

    def _distance(self, evaluation: Evaluation) -> float:
        """Distance of a point from convergence: at most 1 if it has converged."""
        return self._goal.distance(evaluation, self.bound, self._problem.unit)

    def _converged(self) -> bool:
        """Whether the best point meets the goal, the price of what it violates included.

        The price is Σ ω |y_l| |r_l|, y the multipliers behind the bound; they are 0 behind the
        values of the terms.
        """
        best, bound, unit = self._best, self.bound, self._problem.unit
        if not self._goal.wanted or self._distance(best.evaluation) > 1:
            return False
        most, which = best.evaluation.objective, bound.source.partition(",")[0]
        if which != "values":
            most += self._method.price(self._problem, self._state, which, best.W)
        return relative_gap(most, bound.value, unit) <= self._goal.tolerances[0]

    # --- proofs

    def _prove(self, evaluation: Evaluation) -> None:
        """Bound the optimum, by what the method has measured if it did."""
        s, k, report = self._state, self._state.k, self._state.report
        due = k >= self._next_proof or self.status is not None or report is not None
        if not self._proves or not due or not evaluation.finite:
            return
        self._next_proof = self._later(self._first, self._pace)
        if self._goal.wanted and self._sparse:
            self._next = self._next_proof
        self.clock.lap("metrics", counts=False)
        self._proved = k
        try:
            with self._pause.part("certificate", report is None, FIRST if k == self._since else 1):
                self._accept(report or self._method.measure(self._problem, s))
                if self.status is None:
                    self._refute(evaluation)
        except OutOfTime:  # the last good bound stands
            self.hurried = True
            self.status = self.status or Status.MAX_SECONDS
            return
        self.seconds = self.clock.lap("certificate", counts=self._goal.wanted)

    def _accept(self, report: Report) -> None:
        """Keep the better bound, and its multipliers if they are asked for."""
        wanted = self._watch.duals and self._problem.composite
        if wanted and (report.bound.value > self.bound.value or not self.duals):
            duals = self._method.duals(self._problem, self._state)
            self.duals = lower_bound.behind(self._problem, self._state.W, duals, report)
        self.bound = lower_bound.better(self.bound, report.bound)

    def _refute(self, evaluation: Evaluation) -> None:
        """Look for a proof that no point is feasible, if the violation does not fall."""
        far = self._goal.far(evaluation)
        if not evaluation.families or not self._looks.due(self._state.k, far):
            return
        found = self._method.ray(self._problem, self._state, self._watch.duals)
        self._failure += found.bound.failure
        if found.bound.value > 0:
            self.bound = found.bound._replace(failure=self._failure)
            self.ray, self.status = found.ray, Status.INFEASIBLE

    def _doubt(self, point: Any, evaluation: Evaluation) -> None:
        """End the run, and take back its bound, if a feasible point of the domain lies below it.

        Then a part of the problem, or a bound that was given, is wrong.
        """
        if lower_bound.contradicted(self._problem, point, evaluation, self.bound):
            self._proves, self.bound = False, Bound()
            self.trace.replace("lower_bound", -np.inf)
            self.trace.replace("gap", np.inf)
            if self.status not in KEEP:
                self.status = Status.CONTRADICTION

    # --- the result

    def result(self, method: str, seed: Any, judge: bool = True, factors: bool = False) -> Result:
        """The result, with the last iterate judged and recorded unless `judge` is False.

        With `factors` a point that is kept as such stays so, however small it is.
        """
        s, problem = self._state, self._problem
        judge = judge and finite(s.W)
        if judge and self._recorded != s.k:
            self._judge()
        elif judge and self._proved != s.k and self.status is not Status.CONVERGED:
            self._prove(self._last)
            self._doubt(s.W, self._last)
            self._doubt(self._best.W, self._best.evaluation)
            gap = relative_gap(self._last.objective, self.bound.value, problem.unit)
            self.trace.amend({"lower_bound": self.bound.value, "gap": gap})
        assert self.status is not None
        W, best = self._best.W, self._best.evaluation
        if not judge and foreign(W):  # a signal may have come between
            best = problem.evaluate(W)
        self.clock.lap("metrics", counts=False)
        return Result(
            W=W.copy() if factors else shown(host(W.copy())),
            status=self.status,
            objective=best.objective,
            infeasibility=best.infeasibility,
            families=best.families,
            iterations=s.k,
            best_iteration=self._best.k,
            epochs=self.epochs,
            seconds=self.seconds,
            lmo_calls=s.calls,
            matvecs=s.products,
            rows={t.name: rows for t, rows in zip(problem.terms, s.rows, strict=True)},
            trace=self.trace.copy(),
            method=method,
            seed=seed,
            metrics=self._best.metrics,
            proposed=self._best.proposed,
            lower_bound=self.bound.value,
            gap=relative_gap(best.objective, self.bound.value, problem.unit),
            bound_kind=self.bound.kind,
            bound_failure=self.bound.failure,
            bound_source=self.bound.source,
            profile=dict.fromkeys(PARTS, 0.0) | self.clock.parts,
            duals=self.ray or self.duals if self._watch.duals else {},
            ray=self.ray,
            device=device_of(s.W),
        )


def proposal(propose: Callable[[Any], Any], W: Any) -> Any:
    """A point for W, which is an array of NumPy for all but those who take any (`anywhere`)."""
    return propose(W if getattr(propose, "anywhere", False) else host(W))


def number(name: str, value: Any) -> float:
    """Value of a metric, as a number."""
    try:
        return float(value)
    except (TypeError, ValueError):
        kind = type(value).__name__
        raise ProblemError(f"metrics[{name!r}] returned a {kind}: return a number") from None


def like(proposed: Any, W: Array) -> Array:
    """A proposed point, checked, in the precision of a run and where it is."""
    point = proposed if foreign(proposed) else np.asarray(proposed)
    if point.shape != W.shape:
        raise ProblemError(
            f"propose returned shape {point.shape}: it must return a point of shape {W.shape}, or "
            "None"
        )
    same = point.astype(W.dtype, copy=not foreign(point))
    return np.asarray(same, like=W)
