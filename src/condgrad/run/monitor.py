"""Monitor of the loop: clock, limits, trace, callbacks, the best point."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np

from condgrad import _progress as progress
from condgrad._deadline import OutOfTime
from condgrad._types import Array
from condgrad.backends.arrays import foreign, host
from condgrad.backends.devices import device_of
from condgrad.certificate import Bound, Certificate, relative_gap
from condgrad.errors import ProblemError
from condgrad.evaluation import Evaluation
from condgrad.methods.control import Measured
from condgrad.methods.lead import asked
from condgrad.methods.registry import Control
from condgrad.methods.steps import AtomStep
from condgrad.points.factored import Factored, finite, shown
from condgrad.problem import Problem
from condgrad.run.callbacks import Info, Watch
from condgrad.run.limits import FIRST, Clock, Counts, Goal, Limits, Pause
from condgrad.run.measures import Best, errors, like, merit, number, profile, smoothed
from condgrad.run.proofs import Proofs
from condgrad.run.result import KEEP, Result, Status, Trace

if TYPE_CHECKING:
    from condgrad.run.state import RunState


class Monitor:
    """Everything about a run that is not the method: it reads the state and changes nothing."""

    _transient = ("_until", "keep")
    _until: Callable[[Info], object] | None = None
    keep: Callable[[], None] | None = None
    """Called between two iterations."""
    hurried = False
    """Whether the clock has kept it from something that it would have done."""

    def __init__(
        self,
        problem: Problem,
        state: RunState,
        control: Control | None,
        certificate: Certificate | None,
        goal: Goal,
        watch: Watch,
        clock: Clock | None = None,
        proofs: type[Proofs] = Proofs,
        pace: tuple[int, int] = AtomStep.proofs,
    ) -> None:
        self._problem, self._state, self._W, self._rows = problem, state, state.W, state.terms
        self._control, self._goal = control, goal
        self._watch, self._metrics = watch, watch.metrics
        self._per_decade, self._sparse = watch.record or 30, watch.record is None
        self._limits = Limits(None, None, None, None)
        certificate = certificate if watch.certify else None
        self._proofs = proofs(problem, goal, self._rows, certificate, watch.duals)
        self._since, self._first = state.k, max(pace[0], state.k // 10)
        self._pace = pace[1]  # `AtomStep.proofs`
        self._certify_next = state.k + self._first
        self._proposed: tuple[Any, Any] = (None, None)
        self._pause = Pause()
        counted = problem.composite or problem.smooth
        self._counted = [i for i, t in enumerate(problem.terms) if t in counted]
        self._total = sum(t.map.size for t in counted)
        self.trace, self.clock = Trace(), clock or Clock()
        self.clock.start()
        self.seconds = self.clock.seconds
        self._next = state.k + 1
        self._recorded = self._certified = -1
        self.status: Status | None = Status.PAUSED
        self._pause.plan(problem.domain.shape)
        self._best = Best(self._W.array.copy(), state.k, *self._record())
        if not self._best.evaluation.finite:
            self.status = Status.NONFINITE
        self._doubt(self._W.array, self._best.evaluation)

    def aim(self, goal: Goal, ends: Sequence[Status]) -> None:
        """Watch for another goal; a run that has converged may go on, as one may after `ends`."""
        self._goal = self._proofs.goal = goal
        if self.status in (Status.CONVERGED, *ends):
            met = goal.wanted and self._distance(self._best.evaluation) <= 1
            self.status = Status.CONVERGED if met else Status.PAUSED

    def follow(self, control: Control | None) -> None:
        """Watch another method go on."""
        self._control = control

    def begin(
        self,
        limits: Limits,
        until: Callable[[Info], object] | None,
        ends: Sequence[Status],
        since: Counts | None = None,
    ) -> bool:
        """Count limits from now or `since`; False where the run has ended by other than `ends`."""
        if self.status not in ends:
            return False
        k, epochs, lmo = since or self.counts
        self._until = until
        self._limits = limits.since(k, epochs, self.seconds, lmo)
        self._pause.watched()
        self.status = self._reached()
        self.clock.start()
        return self.status is None

    def _later(self, least: int, per_decade: int) -> int:
        """The next of so many iterations per decade, counted from where the watching began."""
        done = self._state.k - self._since
        return self._since + max(least, done + 1, int(np.ceil(done * 10 ** (1 / per_decade))))

    def _reached(self) -> Status | None:
        s = self._state
        found = self._limits.reached(s.k, self.epochs, self.seconds, s.lmo_calls)
        return found or (Status.MAX_SECONDS if self._pause.due() else None)

    @property
    def counts(self) -> Counts:
        """Iterations, epochs and oracle calls so far."""
        return self._state.k, self.epochs, self._state.lmo_calls

    @property
    def bound(self) -> Bound:
        """The best bound so far."""
        return self._proofs.bound

    @property
    def epochs(self) -> float:
        """Composite rows evaluated per composite row."""
        return sum(self._rows[i].rows for i in self._counted) / self._total

    @property
    def _watched(self) -> bool:
        """Whether bounds count before the end."""
        return self._proofs.wanted and (self._goal.wanted or self._control is not None)

    def ahead(self, most: int, share: float) -> int:
        """Iterations of `share` epochs to the next that is recorded or may be the last."""
        s = self._state
        if self._watch.callbacks or self._watch.errors or self._until is not None:
            return 1
        due = min(self._next, self._certify_next) if self._watched else self._next
        room = self._limits.room(s.k, self.epochs, s.lmo_calls, share)
        return max(1, int(min(most, due - s.k, room)))

    def after(self, measured: Measured | None = None) -> bool:
        """Look at the state after some iterations, and what control measured; True ends the run."""
        k = self._state.k
        self.seconds = self.clock.seconds
        self._pause.iterated()
        certify = self._watched and (k >= self._certify_next or measured is not None)
        if k >= self._next or certify:
            if k >= self._next:
                self._next = self._later(1, self._per_decade)
            self._judge(measured)
        if self.status is None:
            self.status = self._ask() or self._reached()
        progress.look(self)
        if self.status is None and self.keep is not None:
            self.keep()
        self.clock.lap("metrics", counts=False)
        self._pause.watched()
        return self.status is not None

    def result(self, method: str, seed: Any, judge: bool = True, factors: bool = False) -> Result:
        """The result, with the last iterate judged and recorded unless `judge` is False.

        With `factors` a point that is kept as such stays so, however small it is.
        """
        whole = judge and self._W.whole and finite(self._W.array)
        if whole and self._recorded != self._state.k:
            self._judge()
        elif whole and self._certified != self._state.k and self.status is not Status.CONVERGED:
            self._certify(self._last, None)
            self._doubt(self._W.array, self._last)
            self._doubt(self._best.W, self._best.evaluation)
            gap = relative_gap(self._last.objective, self.bound.value, self._problem.unit)
            self.trace.amend({"lower_bound": self.bound.value, "gap": gap})
        assert self.status is not None
        W, best = self._best.W, self._best.evaluation
        if not judge and foreign(W):  # a signal may have come between
            best = self._problem.evaluate(W, self._rows)
        return Result(
            W=W.copy() if factors else shown(host(W.copy())),
            status=self.status,
            objective=best.objective,
            infeasibility=best.infeasibility,
            families=best.families,
            iterations=self._state.k,
            best_iteration=self._best.k,
            epochs=self.epochs,
            seconds=self.seconds,
            lmo_calls=self._state.lmo_calls,
            matvecs=self._state.matvecs,
            rows={r.term.name: r.rows for r in self._rows},
            trace=self.trace.copy(),
            method=method,
            seed=seed,
            metrics=self._best.metrics,
            proposed=self._best.proposed,
            lower_bound=self.bound.value,
            gap=relative_gap(best.objective, self.bound.value, self._problem.unit),
            bound_kind=self.bound.kind,
            bound_failure=self.bound.failure,
            bound_source=self.bound.source,
            profile=profile(self.clock, self._rows),
            duals=self._proofs.duals,
            ray=self._proofs.ray,
            device=device_of(self._W.array),
        )

    def info(self) -> Info:
        """View of the latest iteration, for callbacks."""
        s = self._state
        assert s.params is not None
        seen = (s.W.array, self.seconds, self.epochs, s.lmo_calls)
        return Info(s.k, s.params, *seen, self.trace, self._problem)

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

    def _judge(self, measured: Measured | None = None) -> None:
        """Record the iterate, keep the best point so far, and see whether it has converged."""
        evaluation, metrics = self._record(measured)
        if not evaluation.finite:
            self.status = Status.NONFINITE
            return
        self._offer(self._W.array, evaluation, metrics)
        if (
            self._goal.wanted
            and self._watch.propose is not None
            and self._certified == self._state.k
        ):
            self.clock.lap("metrics", counts=False)
            self.hurried = True
            with suppress(OutOfTime), self._pause.part("proposal"):
                self._consider(asked(self._watch.propose, self._W.array))
                self.hurried = False
            self.clock.lap("proposal", counts=False)
        self._doubt(self._best.W, self._best.evaluation)
        if self._converged():
            self.status = Status.CONVERGED

    def _consider(self, proposed: Any) -> None:
        """Offer a proposed point; one that was proposed before is not evaluated again."""
        if proposed is not self._proposed[0]:
            self._proposed = (proposed, None)
            point = None if proposed is None else like(proposed, self._W.array)
            if point is not None and self._problem.domain.contains(point, 1e-6):
                metrics = self._measured(point)
                self._proposed = (
                    proposed,
                    (point, self._problem.evaluate(point, self._rows), metrics),
                )
        if self._proposed[1] is not None:
            point, evaluation, metrics = self._proposed[1]
            self._offer(point, evaluation, metrics, proposed=True)

    def _measured(self, W: Array) -> dict[str, float]:
        """The user's metrics at a point."""
        point = shown(host(W)) if self._metrics else W
        return {name: number(name, metric(point)) for name, metric in self._metrics.items()}

    def _offer(
        self,
        W: Array,
        evaluation: Evaluation,
        metrics: dict[str, float],
        proposed: bool = False,
    ) -> None:
        """Keep a point where it is the best so far."""
        self._doubt(W, evaluation)
        if self._goal.wanted and np.isfinite(self.bound.value):
            better = self._rank(evaluation) <= self._rank(self._best.evaluation)
        else:
            best = self._best
            better = self._merit(W, evaluation) <= self._merit(best.W, best.evaluation)
        if better:
            plain = not isinstance(W, Factored)  # factors are never changed
            kept = self._best.W if plain else W
            self._best = Best(kept, self._state.k, evaluation, metrics, proposed)
            if plain:  # no signal comes between
                kept[...] = W

    def _merit(self, W: Array, evaluation: Evaluation) -> float:
        return merit(W, evaluation, self._rows, self.betas())

    def _rank(self, evaluation: Evaluation) -> tuple[float, float, float]:
        """Smaller is better; of two points that have converged the more feasible one."""
        distance = self._distance(evaluation)
        return (1.0, evaluation.worst, distance) if distance <= 1 else (distance, 0.0, 0.0)

    def _distance(self, evaluation: Evaluation) -> float:
        """Distance of a point from convergence: at most 1 if it has converged."""
        return self._goal.distance(evaluation, self.bound, self._problem.unit)

    def _converged(self) -> bool:
        """Whether the best point meets the goal."""
        best = self._best
        return self._proofs.converged(best.W, best.evaluation, self._W.array, self.betas())

    def betas(self) -> list[float]:
        """β of every term now."""
        beta, control = self._state.params.beta if self._state.params else 1.0, self._state.control
        factors = [1.0] * len(self._rows) if control is None else control.factors
        return [beta * factor for factor in factors]

    def _certify(self, evaluation: Evaluation, measured: Measured | None) -> None:
        """Bound the optimum, by what control measured where it did."""
        k = self._state.k
        due = k >= self._certify_next or self.status is not None or measured is not None
        if not self._proofs.wanted or not due or not evaluation.finite:
            return
        self._certify_next = self._later(self._first, self._pace)
        if self._goal.wanted and self._sparse:
            self._next = self._certify_next
        self.clock.lap("metrics", counts=False)
        W, betas, self._certified = self._W.array, self.betas(), k
        known = measured.report if measured else None
        try:
            with self._pause.part("certificate", known is None, FIRST if k == self._since else 1):
                report = self._proofs.certify(W, betas, known)
                if report is None:
                    self._contradicted()
                elif self.status is None and self._proofs.refute(k, W, betas, evaluation, report):
                    self.status = Status.INFEASIBLE
        except OutOfTime:  # the last good bound stands
            self.hurried = True
            self.status = self.status or Status.MAX_SECONDS
            return
        if report is None:
            return
        if foreign(W):
            report.points.clear()  # nobody asks again, and they are as large as W
        self.seconds = self.clock.lap("certificate", counts=self._goal.wanted)

    def _doubt(self, point: Array, evaluation: Evaluation) -> None:
        """End the run, and take back its bound, where a point refutes it."""
        known = (self._W.array, self.betas(), self.status is not None)
        if self._proofs.contradicted(self._state.k, point, evaluation, *known):
            self._contradicted()

    def _contradicted(self) -> None:
        """End the run without a bound."""
        self.trace.replace("lower_bound", -np.inf)
        self.trace.replace("gap", np.inf)
        if self.status not in KEEP:
            self.status = Status.CONTRADICTION

    def _record(self, measured: Measured | None = None) -> tuple[Evaluation, dict[str, float]]:
        """Add a row to the trace."""
        s, W, p = self._state, self._W.array, self._state.params
        evaluation = measured.evaluation if measured else self._problem.evaluate(W, self._rows)
        metrics = dict.fromkeys(self._metrics, np.nan)
        if evaluation.finite:
            metrics = self._measured(W)
        self._certify(evaluation, measured)
        self._last = evaluation
        row: dict[str, float] = {
            "k": s.k,
            "seconds": self.seconds,
            "epochs": self.epochs,
            "lmo_calls": s.lmo_calls,
            "matvecs": s.matvecs,
            "rows": sum(r.rows for r in self._rows),
            "objective": evaluation.objective,
            "smoothed": smoothed(W, evaluation, self._problem.terms, self.betas()) if p else np.nan,
            "infeasibility": evaluation.infeasibility,
            "lower_bound": self.bound.value,
            "gap": relative_gap(evaluation.objective, self.bound.value, self._problem.unit),
            "eta": p.eta if p else np.nan,
            "beta": p.beta if p else np.nan,
        }
        row.update({f"epochs.{r.term.name}": r.rows / r.term.map.size for r in self._rows})
        for name, violation in evaluation.families.items():
            row.update({f"{name}.{kind}": v for kind, v in violation._asdict().items()})
        if self._control is not None:
            betas = zip(self._problem.terms, self.betas(), strict=True)
            row.update({f"{t.name}.beta": b for t, b in betas if not t.function.smooth})
        if self._watch.errors:
            lost = not evaluation.finite or self.status in KEEP
            row.update(errors(None if lost else self._W.previous, p, self._rows))
        clash = sorted(set(row) & set(metrics))
        if clash:
            raise ProblemError(f"metrics names {clash}, which the trace has already: rename them")
        self.trace.append({**row, **metrics})
        self._recorded = self._state.k
        return evaluation, metrics
