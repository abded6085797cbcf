"""What watches the loop: clock, limits, trace, callbacks, the best point."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from condgrad._types import Array, Params
from condgrad.backends import compile_seconds
from condgrad.callbacks import Callback, Info
from condgrad.errors import ProblemError
from condgrad.estimators import Estimator, State
from condgrad.points.atoms import Atom
from condgrad.points.dense import Dense
from condgrad.problem import Evaluation, Problem, Term
from condgrad.result import Result, Status, Trace


class Limits:
    """Where a run must end; without any limit, after 1000 iterations."""

    def __init__(
        self,
        max_iter: float | None,
        max_epochs: float | None,
        max_seconds: float | None,
        max_lmo: float | None,
    ) -> None:
        given = {
            "max_iter": max_iter,
            "max_epochs": max_epochs,
            "max_seconds": max_seconds,
            "max_lmo": max_lmo,
        }
        for name, value in given.items():
            number = isinstance(value, (int, float, np.number)) and not isinstance(value, bool)
            if value is not None and not (number and np.isreal(value) and value >= 0):
                raise ProblemError(f"{name} is {value!r}: it must be a number of at least 0")
            if name in ("max_iter", "max_lmo") and value not in (None, np.inf) and value % 1:
                raise ProblemError(f"{name} is {value!r}: it must be a whole number")
        if all(value is None for value in given.values()):
            max_iter = 1000
        self.iterations = np.inf if max_iter is None else max_iter
        self.epochs = np.inf if max_epochs is None else max_epochs
        self.seconds = np.inf if max_seconds is None else max_seconds
        self.lmo = np.inf if max_lmo is None else max_lmo

    def reached(self, k: int, epochs: float, seconds: float, lmo: int) -> Status | None:
        """The first limit that is reached."""
        if k >= self.iterations:
            return Status.MAX_ITER
        if epochs >= self.epochs - 1e-9:
            return Status.MAX_EPOCHS
        if seconds >= self.seconds:
            return Status.MAX_SECONDS
        if lmo >= self.lmo:
            return Status.MAX_LMO
        return None


class Clock:
    """Seconds of the method alone: it stands while metrics are evaluated or kernels compiled."""

    def __init__(self) -> None:
        self._spent, self._since, self._compiled = 0.0, 0.0, 0.0

    def start(self) -> None:
        """Let it run."""
        self._since, self._compiled = time.perf_counter(), compile_seconds()

    def stop(self) -> float:
        """Stop it; return the seconds so far."""
        compiled = compile_seconds() - self._compiled
        self._spent += max(0.0, time.perf_counter() - self._since - compiled)
        return self._spent


class Monitor:
    """Everything about a run that is not the method."""

    def __init__(
        self,
        problem: Problem,
        W: Dense,
        states: Sequence[State],
        limits: Limits,
        record: int,
        metrics: Mapping[str, Callable[[Array], float]],
        callbacks: Sequence[Callback],
        watched: Sequence[Estimator] = (),
    ) -> None:
        if isinstance(record, bool) or not isinstance(record, (int, np.integer)) or record < 1:
            raise ProblemError(f"record is {record!r}: it must be an integer of at least 1")
        if not isinstance(metrics, Mapping):
            raise ProblemError("metrics must be a dict from names to functions of W")
        for name, metric in metrics.items():
            if not callable(metric):
                raise ProblemError(f"metrics[{name!r}] is not callable: pass a function of W")
        if callable(callbacks) or not all(callable(c) for c in callbacks):
            raise ProblemError("callbacks must be a sequence of callables: pass [callback]")
        self._problem, self._W, self._states = problem, W, states
        self._limits, self._per_decade = limits, record
        self._metrics, self._callbacks, self._watched = metrics, callbacks, watched
        counted = problem.composite or problem.smooth
        self._counted = [i for i, t in enumerate(problem.terms) if t in counted]
        self._total = sum(t.map.size for t in counted)
        self.trace, self.clock = Trace(), Clock()
        self.k, self.lmo_calls, self.matvecs, self.seconds = 0, 0, 0, 0.0
        self._next = 1
        self._params: Params | None = None
        self._recorded = -1
        self.status: Status | None = None
        self._best = W.array.copy()
        self._best_k, self._best_evaluation, self._best_metrics = 0, *self._record()
        if not self._best_evaluation.finite:
            self.status = Status.NONFINITE
        elif limits.reached(0, 0.0, 0.0, 0) is not None:
            self.status = limits.reached(0, 0.0, 0.0, 0)
        self.clock.start()

    @property
    def epochs(self) -> float:
        """Composite rows evaluated per composite row."""
        return sum(self._states[i].rows for i in self._counted) / self._total

    def after(self, k: int, p: Params, atom: Atom) -> bool:
        """Account for iteration k; True ends the run."""
        self.seconds = self.clock.stop()
        self.k, self._params = k, p
        self.lmo_calls += 1
        self.matvecs += atom.products
        limit = self._limits.reached(k, self.epochs, self.seconds, self.lmo_calls)
        if k >= self._next or limit is not None:
            self._next = max(k + 1, int(np.ceil(k * 10 ** (1 / self._per_decade))))
            self._judge()
        if self.status is None:
            self.status = self._ask() or limit
        self.clock.start()
        return self.status is not None

    def result(self, method: str, seed: Any) -> Result:
        """The result, with the last iterate judged and recorded."""
        if self._recorded != self.k and self._W.whole and np.isfinite(self._W.array).all():
            self._judge()
        assert self.status is not None
        best = self._best_evaluation
        return Result(
            W=self._best,
            status=self.status,
            objective=best.objective,
            infeasibility=best.infeasibility,
            families=best.families,
            iterations=self.k,
            best_iteration=self._best_k,
            epochs=self.epochs,
            seconds=self.seconds,
            lmo_calls=self.lmo_calls,
            matvecs=self.matvecs,
            rows={t.name: s.rows for t, s in zip(self._problem.terms, self._states, strict=True)},
            trace=self.trace,
            method=method,
            seed=seed,
            metrics=self._best_metrics,
        )

    def _ask(self) -> Status | None:
        """Show the iteration to the callbacks."""
        if not self._callbacks:
            return None
        assert self._params is not None
        info = Info(
            self.k,
            self._params,
            self._W.array,
            self.seconds,
            self.epochs,
            self.lmo_calls,
            self.trace,
            self._problem,
        )
        answers = [callback(info) for callback in self._callbacks]
        for answer in answers:
            if isinstance(answer, Status):
                return answer
        yes = any(isinstance(a, (bool, np.bool_)) and a for a in answers)
        return Status.STOPPED if yes else None

    def _judge(self) -> None:
        """Record the iterate, and keep it where it is the best so far."""
        evaluation, metrics = self._record()
        if not evaluation.finite:
            self.status = Status.NONFINITE
            return
        if self._merit(self._W.array, evaluation) <= self._merit(self._best, self._best_evaluation):
            self._best[...] = self._W.array
            self._best_k, self._best_evaluation, self._best_metrics = self.k, evaluation, metrics

    def _merit(self, W: Array, evaluation: Evaluation) -> float:
        """What the method descends on at this β and, where it has them, these multipliers.

        Objective + Σ ω_t dist_t²/(2β) over the constraint families; the augmented Lagrangian
        dist²(z + βy)/(2β) − β‖y‖²/2 where the estimator keeps multipliers y.
        """
        beta, total = self._params.beta if self._params else 1.0, evaluation.objective
        for t, s in zip(self._problem.terms, self._states, strict=True):
            if not t.function.indicator:
                continue
            if s.y is None:
                total += penalty(t, evaluation, beta)
            else:
                shifted = t.map.rows(W) + beta * s.y
                slack = beta * float(np.vdot(s.y, s.y)) / 2
                total += t.weight * (t.function.smoothed(shifted, beta) - slack)
        return total

    def _smoothed(self, evaluation: Evaluation, beta: float) -> float:
        """F_β at the iterate; the constraints' part is known already."""
        W, total = self._W.array, evaluation.objective
        for t in self._problem.composite:
            if t.function.indicator:
                total += penalty(t, evaluation, beta)
            else:
                total += t.smoothed(W, beta) - t.value(W)
        return total

    def _errors(self, finite: bool) -> dict[str, float]:
        """ω ‖h'_{β_k}(A W_k) − y‖_1 of every watched estimate y that is kept row by row.

        After the step W_k is the previous point. NaN where there was no iteration yet, or where
        one may have been broken off after its estimates had moved on.
        """
        W, p, lost = self._W.previous, self._params, (Status.INTERRUPTED, Status.NONFINITE)
        parts = list(zip(self._watched, self._states, self._problem.terms, strict=False))
        if W is None or p is None or not finite or self.status in lost:
            return {f"{t.name}.error": np.nan for e, _, t in parts if e.by_row}
        return {f"{t.name}.error": e.error(s, t, W, p.beta) for e, s, t in parts if e.by_row}

    def _record(self) -> tuple[Evaluation, dict[str, float]]:
        """Add a row to the trace."""
        W, p = self._W.array, self._params
        evaluation = self._problem.evaluate(W)
        metrics = dict.fromkeys(self._metrics, np.nan)
        if evaluation.finite:
            metrics = {name: _number(name, metric(W)) for name, metric in self._metrics.items()}
        pairs = list(zip(self._problem.terms, self._states, strict=True))
        row: dict[str, float] = {
            "k": self.k,
            "seconds": self.seconds,
            "epochs": self.epochs,
            "lmo_calls": self.lmo_calls,
            "matvecs": self.matvecs,
            "rows": sum(s.rows for _, s in pairs),
            "objective": evaluation.objective,
            "smoothed": self._smoothed(evaluation, p.beta) if p else np.nan,
            "infeasibility": evaluation.infeasibility,
            "eta": p.eta if p else np.nan,
            "beta": p.beta if p else np.nan,
        }
        row.update({f"epochs.{t.name}": s.rows / t.map.size for t, s in pairs})
        for name, violation in evaluation.families.items():
            row[f"{name}.l2"], row[f"{name}.max"] = violation
        row.update(self._errors(evaluation.finite))
        clash = sorted(set(row) & set(metrics))
        if clash:
            raise ProblemError(f"metrics names {clash}, which the trace has already: rename them")
        self.trace.append({**row, **metrics})
        self._recorded = self.k
        return evaluation, metrics


def penalty(term: Term, evaluation: Evaluation, beta: float) -> float:
    """ω dist²/(2β) of a constraint family."""
    return term.weight * evaluation.families[term.name].l2 ** 2 / (2 * beta)


def _number(name: str, value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        kind = type(value).__name__
        raise ProblemError(f"metrics[{name!r}] returned a {kind}: return a number") from None
