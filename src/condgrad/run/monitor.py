"""Monitor of a run: clock, limits, trace, callbacks, proofs, the best point.

It changes nothing of the run. What it finds is in one `Record`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from condgrad import _deadline as deadline
from condgrad import _progress as progress
from condgrad._types import Array
from condgrad.backends.arrays import foreign, host
from condgrad.backends.devices import device_of
from condgrad.certificate import infeasible, lower_bound
from condgrad.certificate.lower_bound import Bound, Report, relative_gap
from condgrad.errors import ProblemError
from condgrad.evaluation import Evaluation
from condgrad.methods.protocol import State, passes_over, penalty
from condgrad.points.factored import Factored, finite, shown
from condgrad.run.callbacks import Info, Scalars
from condgrad.run.limits import Clock, Counts, Limits
from condgrad.run.result import GOES_ON, KEEP, PARTS, Result, Status, Trace

if TYPE_CHECKING:
    from condgrad.run.loop import Asked, Run

FIRST = 4.0
"""Certificates for which there must be time before the one of the first point."""


@dataclass
class Best:
    """The best point so far."""

    W: Any
    k: int
    evaluation: Evaluation
    metrics: dict[str, float]
    proposed: bool = False


@dataclass
class Record:
    """History of a run so far; beside the state of its method a file keeps nothing else."""

    bound: Bound
    """The best bound on the optimum."""
    since: int
    """The iteration at which watching began."""
    next_record: int
    """The next iteration that the trace gets a row of."""
    next_proof: int
    """The next iteration after which the optimum is bounded."""
    proves: bool
    """Whether bounds are wanted and none has turned out to be wrong."""
    clock: Clock
    best: Best
    last: Evaluation
    """The evaluation of the latest recorded iterate."""
    trace: Trace = field(default_factory=Trace)
    status: Status | None = Status.PAUSED
    """Why the run ended; None while it is at work."""
    recorded: int = -1
    """The latest recorded iteration."""
    proved: int = -1
    """The latest iteration after which the optimum was bounded."""
    duals: dict[str, Array] = field(default_factory=dict)
    """Multipliers behind the bound, if they are asked for."""
    ray: dict[str, Array] = field(default_factory=dict)
    """Multipliers that prove the problem infeasible."""
    looks: infeasible.Looks = field(default_factory=infeasible.Looks)
    """When such a proof is looked for."""
    failure: float = 0.0
    """The chance that one of all these looks errs."""
    hurried: bool = False
    """Whether the clock has kept the run from something that it would have done."""

    def copy(self) -> Record:
        """A record of its own, which may change without this one."""
        best, clock = replace(self.best, W=self.best.W.copy()), self.clock
        clock, looks = replace(clock, parts=dict(clock.parts)), replace(self.looks)
        return replace(self, best=best, clock=clock, looks=looks, trace=self.trace.copy())


class Monitor:
    """The record of a run and what is proved of it.

    Parameters
    ----------
    run : Run
        The run that is watched.
    clock : Clock, optional
        The clock of a run that has moved to another domain.
    record : Record, optional
        What was shown of a run that comes from a file.
    """

    _until: Callable[[Info], object] | None = None
    keep: Callable[[], None] | None = None
    """Called between two iterations."""
    before: Any = None
    """W before the latest iteration, if errors of estimates are asked for."""

    def __init__(self, run: Run, clock: Clock | None = None, record: Record | None = None) -> None:
        problem, method, state, asked = run.problem, run.form, run.state, run.asked
        self._problem, self._method, self._state, self._asked = problem, method, state, asked
        self._name = run.name
        self._per_decade, self._sparse = asked.record or 30, asked.record is None
        self._limits = Limits(None, None, None, None)
        self._proposed: tuple[Any, Any] = (None, None)
        self._took: dict[str, float] = {}
        """Seconds of the latest iteration, certificate and proposal."""
        if len(problem.domain.shape) == 2:  # as all eigenvalues, until one was made
            self._took["certificate"] = deadline.cost(min(problem.domain.shape), deadline.VALUES)
        since = state.k if record is None else record.since
        first, self._pace = method.proofs
        self._first = max(first, since // 10)
        if record is not None:
            self.record = record
            return
        bound = Bound()
        if asked.certify:  # the larger one of the user's bound and that of y = 0
            floor, lowest = asked.floor, lower_bound.trivial(problem)
            bound = bound if floor is None else Bound(float(floor), "given", 0.0, "given")
            bound = Bound(lowest, "exact", 0.0, "values") if lowest > bound.value else bound
        due, clock = (since + 1, since + self._first), clock or Clock()
        unseen = Evaluation(np.nan, {}, np.nan)
        best = Best(state.W.copy(), state.k, unseen, {})
        self.record = r = Record(bound, since, *due, asked.certify, clock, best, unseen)
        clock.start()
        best.evaluation, best.metrics = self._record()
        if not best.evaluation.finite:
            r.status = Status.NONFINITE
        self._doubt(state.W, best.evaluation)

    # --- limits and counts

    @property
    def counts(self) -> Counts:
        """Iterations, epochs and oracle calls so far."""
        return self._state.k, self.epochs, self._state.calls

    @property
    def trace(self) -> Trace:
        """The rows so far."""
        return self.record.trace

    @property
    def epochs(self) -> float:
        """Composite rows evaluated per composite row."""
        return passes_over(self._problem, self._state.rows)

    def aim(self, asked: Asked) -> None:
        """Watch for another goal; a run that has converged may go on."""
        changed, r = asked.goal != self._asked.goal, self.record
        self._asked = asked
        if changed and r.status in (Status.CONVERGED, *GOES_ON):
            met = asked.goal.wanted and self._distance(r.best.evaluation) <= 1
            r.status = Status.CONVERGED if met else Status.PAUSED

    def begin(
        self,
        limits: Limits,
        until: Callable[[Info], object] | None = None,
        since: Counts | None = None,
    ) -> bool:
        """Count limits from now or `since`; False if the run has ended for good."""
        r = self.record
        if r.status not in GOES_ON:
            return False
        self._until, self._limits = until, limits.since(since or self.counts)
        r.status = self._reached()
        r.clock.start()
        return r.status is None

    def room(self) -> int:
        """Iterations until the next one to look at, or a limit."""
        r = self.record
        if self._asked.callbacks or self._asked.errors or self._until is not None:
            return 1
        due = min(r.next_record, r.next_proof) if self._watched else r.next_record
        room = self._limits.room(self.counts)
        return max(1, int(min(due - self._state.k, room)))

    def _later(self, least: int, per_decade: int) -> int:
        """The next of so many iterations per decade, counted from where the watching began."""
        since = self.record.since
        done = self._state.k - since
        return since + max(least, done + 1, int(np.ceil(done * 10 ** (1 / per_decade))))

    def _reached(self) -> Status | None:
        """The limit that is reached; that on time is if there is none for another round."""
        in_time = deadline.fits(sum(self._took.values()))
        return self._limits.reached(self.counts) or (None if in_time else Status.MAX_SECONDS)

    def _fits(self, part: str, times: float = 1.0) -> bool:
        """Whether there is time for a part of the run; the record keeps that there was not."""
        fits = deadline.fits(times * self._took.get(part, 0.0))
        self.record.hurried |= not fits
        return fits

    @property
    def _watched(self) -> bool:
        """Whether bounds count before the end."""
        return self.record.proves and (
            self._asked.goal.wanted or self._method.measures(self._problem)
        )

    # --- after an iteration

    def after(self, state: State) -> bool:
        """Look at the state after some iterations; True ends the run."""
        self._state, r, k, report = state, self.record, state.k, state.report
        self._took["method" if report is None else "certificate"] = r.clock.lap("method")
        prove = self._watched and (k >= r.next_proof or report is not None)
        if k >= r.next_record or prove:
            if k >= r.next_record:
                r.next_record = self._later(1, self._per_decade)
            self._judge()
        if r.status is None:
            r.status = self._ask() or self._reached()
        progress.look(self)
        if r.status is None and self.keep is not None:
            self.keep()
        r.clock.lap("metrics", counts=False)
        return r.status is not None

    def _ask(self) -> Status | None:
        """Show the iteration to the callbacks."""
        callbacks, until = self._asked.callbacks, self._until
        if not callbacks and until is None:
            return None
        info = self.info()
        answers = [callback(info) for callback in callbacks]
        answers += [Status.PAUSED] if until is not None and until(info) else []
        yes = any(isinstance(a, (bool, np.bool_)) and a for a in answers)
        return next((a for a in answers if isinstance(a, Status)), Status.STOPPED if yes else None)

    def info(self) -> Info:
        """View of the latest iteration, for callbacks."""
        s, (k, epochs, calls) = self._state, self.counts
        params, seconds = Scalars(k, s.eta, s.beta), self.record.clock.seconds
        return Info(k, params, s.W, seconds, epochs, calls, self.trace, self._problem)

    def _judge(self) -> None:
        """Record the iterate, keep the best point so far, and see whether it has converged."""
        r, (evaluation, metrics) = self.record, self._record()
        if not evaluation.finite:
            r.status = Status.NONFINITE
            return
        self._offer(self._state.W, evaluation, metrics)
        offers = (
            self._asked.propose if self._asked.goal.wanted and r.proved == self._state.k else None
        )
        if offers is not None and self._fits("proposal"):
            r.clock.lap("metrics", counts=False)
            self._consider(proposal(offers, self._state.W))
            self._took["proposal"] = r.clock.lap("proposal", counts=False)
        self._doubt(r.best.W, r.best.evaluation)
        if self._converged():
            r.status = Status.CONVERGED

    def _record(self) -> tuple[Evaluation, dict[str, float]]:
        """Add a row to the trace."""
        s, r, problem, report = self._state, self.record, self._problem, self._state.report
        evaluation = report.evaluation if report else self._method.evaluate(problem, s, s.W)
        whole = evaluation.finite
        metrics = self._measured(s.W) if whole else dict.fromkeys(self._asked.metrics, np.nan)
        self._prove(evaluation)
        r.last = evaluation
        row: dict[str, float] = {
            "k": s.k,
            "seconds": r.clock.seconds,
            "epochs": self.epochs,
            "lmo_calls": s.calls,
            "matvecs": s.products,
            "rows": sum(s.rows),
            "objective": evaluation.objective,
            "smoothed": self._smoothed(evaluation) if s.k else np.nan,
            "infeasibility": evaluation.infeasibility,
            "lower_bound": r.bound.value,
            "gap": relative_gap(evaluation.objective, r.bound.value, problem.unit),
            "eta": s.eta,
            "beta": s.beta,
        }
        trios = list(zip(problem.terms, s.rows, s.betas, strict=True))
        row.update({f"epochs.{t.name}": rows / t.map.size for t, rows, _ in trios})
        for name, violation in evaluation.families.items():
            row.update({f"{name}.{kind}": v for kind, v in violation._asdict().items()})
        if self._method.measures(problem):
            row.update({f"{t.name}.beta": b for t, _, b in trios if not t.function.smooth})
        if self._asked.errors:
            known = self.before is not None and whole and r.status not in KEEP
            errors = self._method.errors(problem, s, self.before if known else s.W)
            row.update({f"{name}.error": e if known else np.nan for name, e in errors.items()})
        clash = sorted(set(row) & set(metrics))
        if clash:
            raise ProblemError(f"metrics names {clash}, which the trace has already: rename them")
        r.trace.append({**row, **metrics})
        r.recorded = s.k
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
        found, metrics = {}, self._asked.metrics
        point = shown(host(W)) if metrics else W
        for name, metric in metrics.items():
            value = metric(point)
            try:
                found[name] = float(value)
            except (TypeError, ValueError):
                kind = type(value).__name__
                raise ProblemError(
                    f"metrics[{name!r}] returned a {kind}: return a number"
                ) from None
        return found

    # --- the best point

    def _consider(self, proposed: Any) -> None:
        """Offer a proposed point; one that was proposed before is not evaluated again."""
        if proposed is not self._proposed[0]:
            self._proposed = (proposed, None)
            W = None if proposed is None else self._placed(proposed)
            if W is not None and finite(W) and self._problem.domain.contains(W, 1e-6):
                known = self._problem.evaluate(W), self._measured(W)
                self._proposed = (proposed, (W, *known))
        if self._proposed[1] is not None:
            point, evaluation, metrics = self._proposed[1]
            self._offer(point, evaluation, metrics, proposed=True)

    def _placed(self, proposed: Any) -> Array:
        """A proposed point in the precision of the run and where its W is."""
        W, point = self._state.W, proposed if foreign(proposed) else np.asarray(proposed)
        if point.shape != W.shape:
            raise ProblemError(
                f"propose returned shape {point.shape}: it must return a point of shape {W.shape}, "
                "or None"
            )
        return np.asarray(point.astype(W.dtype, copy=not foreign(point)), like=W)

    def _offer(
        self, W: Any, evaluation: Evaluation, metrics: dict[str, float], proposed: bool = False
    ) -> None:
        """Keep a point that is the best so far."""
        self._doubt(W, evaluation)
        r, best = self.record, self.record.best
        if self._asked.goal.wanted and np.isfinite(r.bound.value):
            better = self._rank(evaluation) <= self._rank(best.evaluation)
        else:
            merit = partial(self._method.merit, self._problem, self._state)
            better = merit(W, evaluation) <= merit(best.W, best.evaluation)
        if better:
            plain = not isinstance(W, Factored)  # factors are never changed
            r.best = Best(best.W if plain else W, self._state.k, evaluation, metrics, proposed)
            if plain:  # no signal comes between
                best.W[...] = W

    def _rank(self, evaluation: Evaluation) -> tuple[float, float, float]:
        """Smaller is better; of two points that have converged the more feasible one."""
        distance = self._distance(evaluation)
        return (1.0, evaluation.worst, distance) if distance <= 1 else (distance, 0.0, 0.0)

    def _distance(self, evaluation: Evaluation) -> float:
        """Distance of a point from convergence: at most 1 if it has converged."""
        return self._asked.goal.distance(evaluation, self.record.bound, self._problem.unit)

    def _converged(self) -> bool:
        """Whether the best point meets the goal, the price of what it violates included.

        The price is Σ ω |y_l| |r_l|, y the multipliers behind the bound, or the slopes if it was
        given; they are 0 behind the values of the terms.
        """
        best, bound, unit = self.record.best, self.record.bound, self._problem.unit
        if not self._asked.goal.wanted or self._distance(best.evaluation) > 1:
            return False
        most, which = best.evaluation.objective, bound.source.partition(",")[0]
        if which != "values":
            which = "slopes" if which == "given" else which
            most += self._method.price(self._problem, self._state, which, best.W)
        return relative_gap(most, bound.value, unit) <= self._asked.goal.tolerances[0]

    # --- proofs

    def _prove(self, evaluation: Evaluation) -> None:
        """Bound the optimum, by what the method has measured if it did."""
        r, k, report = self.record, self._state.k, self._state.report
        due = k >= r.next_proof or r.status is not None or report is not None
        if not r.proves or not due or not evaluation.finite:
            return
        r.next_proof = self._later(self._first, self._pace)
        if self._asked.goal.wanted and self._sparse:
            r.next_record = r.next_proof
        r.clock.lap("metrics", counts=False)
        r.proved = k
        if report is None and not self._fits("certificate", FIRST if k == r.since else 1.0):
            r.status = r.status or Status.MAX_SECONDS  # the last good bound stands
            return
        self._accept(report or self._method.measure(self._problem, self._state, evaluation))
        if r.status is None:
            self._refute(evaluation)
        spent = r.clock.lap("certificate", counts=self._asked.goal.wanted)
        if report is None:
            self._took["certificate"] = spent

    def _accept(self, report: Report) -> None:
        """Keep the better bound, and its multipliers if they are asked for."""
        r = self.record
        better = report.bound.value > r.bound.value or not r.duals
        if self._asked.duals and self._problem.composite and better:
            duals = self._method.duals(self._problem, self._state)
            r.duals = lower_bound.behind(self._problem, self._state.W, duals, report)
        r.bound = lower_bound.better(r.bound, report.bound)

    def _refute(self, evaluation: Evaluation) -> None:
        """Look for a proof that no point is feasible, if the violation does not fall."""
        r, far = self.record, self._asked.goal.far(evaluation)
        if not evaluation.families or not r.looks.due(self._state.k, far):
            return
        found = self._method.ray(self._problem, self._state, self._asked.duals)
        r.failure += found.bound.failure
        if found.bound.value > 0:
            r.bound = found.bound._replace(failure=r.failure)
            r.ray, r.status = found.ray, Status.INFEASIBLE

    def _doubt(self, point: Any, evaluation: Evaluation) -> None:
        """End the run, and take back its bound, if a feasible point of the domain lies below it.

        Then a part of the problem, or a bound that was given, is wrong.
        """
        r = self.record
        if lower_bound.contradicted(self._problem, point, evaluation, r.bound):
            r.proves, r.bound = False, Bound()
            r.trace.replace("lower_bound", -np.inf)
            r.trace.replace("gap", np.inf)
            if r.status not in KEEP:
                r.status = Status.CONTRADICTION

    # --- the result

    def result(self, judge: bool = True, factors: bool = False) -> Result:
        """The result, with the last iterate judged, recorded and proved unless `judge` is False.

        That is done on a copy of the record, so that the run goes on unchanged. With
        `factors` a point that is kept as such stays so, however small it is.
        """
        kept = self.record
        self.record, judge = kept.copy(), judge and finite(self._state.W)
        try:
            s, r, problem = self._state, self.record, self._problem
            if judge and r.recorded != s.k:
                self._judge()
            elif judge and r.proved != s.k and r.status is not Status.CONVERGED:
                self._prove(r.last)
                self._doubt(r.best.W, r.best.evaluation)
                gap = relative_gap(r.last.objective, r.bound.value, problem.unit)
                r.trace.amend({"lower_bound": r.bound.value, "gap": gap})
            assert r.status is not None
            W, best = r.best.W, r.best.evaluation
            if foreign(W) and not judge:  # a signal may have come between
                best = problem.evaluate(W)
            r.clock.lap("metrics", counts=False)
            return Result(
                W=W if factors else shown(host(W)),
                status=r.status,
                objective=best.objective,
                infeasibility=best.infeasibility,
                families=best.families,
                iterations=s.k,
                best_iteration=r.best.k,
                epochs=self.epochs,
                seconds=r.clock.seconds,
                lmo_calls=s.calls,
                matvecs=s.products,
                rows={t.name: rows for t, rows in zip(problem.terms, s.rows, strict=True)},
                trace=r.trace,
                method=self._name,
                seed=self._asked.seed,
                metrics=r.best.metrics,
                proposed=r.best.proposed,
                lower_bound=r.bound.value,
                gap=relative_gap(best.objective, r.bound.value, problem.unit),
                bound_kind=r.bound.kind,
                bound_failure=r.bound.failure,
                bound_source=r.bound.source,
                profile=dict.fromkeys(PARTS, 0.0) | r.clock.parts,
                duals=r.ray or r.duals if self._asked.duals else {},
                ray=r.ray,
                device=device_of(s.W),
            )
        finally:
            self.record = kept


def proposal(propose: Callable[[Any], Any], W: Any) -> Any:
    """A point for W, which is an array of NumPy for all but those who take any (`anywhere`)."""
    return propose(W if getattr(propose, "anywhere", False) else host(W))
