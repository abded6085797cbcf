"""Proofs of a run: its bound, that there is no solution, or that the parts cannot be."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from condgrad import _deadline as deadline
from condgrad._types import Array
from condgrad.certificate import Bound, Certificate, Report, relative_gap
from condgrad.certificate.contradiction import SLACK, Suspicion
from condgrad.certificate.farkas import Refuter
from condgrad.evaluation import Evaluation
from condgrad.problem import Problem
from condgrad.rows import Keeper
from condgrad.run.limits import Goal


class Proofs:
    """The certificate of a run, and the two proofs that end one.

    Parameters
    ----------
    problem : Problem
        The problem.
    goal : Goal
        Its tolerances say what counts as feasible.
    rows : sequence of Keeper
        Who keeps the rows of every term, and dual points.
    certificate : Certificate or None
        What proves bounds; control may use the same. None: no bound is wanted.
    keep : bool
        Hand out the multipliers behind the bound.
    """

    def __init__(
        self,
        problem: Problem,
        goal: Goal,
        rows: Sequence[Keeper],
        certificate: Certificate | None,
        keep: bool,
    ) -> None:
        self._problem, self.goal, self._rows = problem, goal, rows
        self._certificate = certificate
        self._refuter, self._suspicion = Refuter(problem, keep), Suspicion(problem)
        self.bound = Bound()
        if certificate is not None and deadline.is_set():  # there may be no time for the first
            self.bound = certificate.best
        self.ray: dict[str, Array] = {}
        """The multipliers that prove the problem infeasible."""

    @property
    def wanted(self) -> bool:
        """Whether there is a certificate: one was asked for, and it was not taken back."""
        return self._certificate is not None

    @property
    def duals(self) -> dict[str, Array]:
        """The multipliers behind the bound, where they were asked for."""
        kept = {} if self._certificate is None else self._certificate.duals
        return self.ray or kept if kept else {}

    def certify(
        self, W: Array, betas: Sequence[float], known: Report | None = None
    ) -> Report | None:
        """Bound the optimum by the dual points of the moment; None where the parts cannot be.

        `known` is what the certificate has said of them already.
        """
        assert self._certificate is not None
        report = known or self._certificate.evaluate(W, self._rows, betas)
        self.bound = self._certificate.best
        parts, suspicion = report.points["slopes"], self._suspicion
        odd = suspicion.disagree(W, parts, report.fw_gap)
        if odd or suspicion.one_sided(W, self._rows, betas):
            self._withdraw()
            return None
        return report

    def refute(
        self, k: int, W: Array, betas: Sequence[float], evaluation: Evaluation, report: Report
    ) -> bool:
        """Whether the constraints are proved to have no solution; then the bound is infinite."""
        if not self._refuter.due(k, self.goal.far(evaluation)):
            return False
        found = self._refuter.look(W, report.points, self._rows, betas)
        if found is None:
            return False
        self.ray = found.ray
        self.bound = Bound(np.inf, found.kind, found.failure, f"ray of {found.source}")
        return True

    def converged(
        self, point: Array, evaluation: Evaluation, W: Array, betas: Sequence[float]
    ) -> bool:
        """Whether a point meets the goal, the price of what it violates included."""
        goal, unit = self.goal, self._problem.unit
        if not goal.wanted or goal.distance(evaluation, self.bound, unit) > 1:
            return False
        most = evaluation.objective + self._price(point, W, betas)
        return relative_gap(most, self.bound.value, unit) <= goal.tolerances[0]

    def _price(self, point: Array, W: Array, betas: Sequence[float]) -> float:
        """Σ ω |y_l| |r_l| of what a point violates, y the multipliers behind the bound.

        The optimum is not above the value of the point by more, if y is optimal (`contradiction`).
        y is 0 behind the values of the terms.
        """
        if self.bound.source == "values":
            return 0.0
        point, W = (a.astype(np.float64, copy=False) for a in (point, W))
        which = "multipliers" if self.bound.source.startswith("multipliers") else "slopes"
        trios = zip(self._problem.terms, self._rows, betas, strict=True)
        held = [(r, beta) for t, r, beta in trios if t.function.indicator]
        return sum(r.price(which, W, beta, point) for r, beta in held)

    def contradicted(
        self,
        k: int,
        point: Array,
        evaluation: Evaluation,
        W: Array,
        betas: Sequence[float],
        end: bool,
    ) -> bool:
        """Whether a point refutes the bound, which is then taken back.

        It is looked at where it meets the constraints to the tolerances and lies below the bound;
        what the violation that is left is worth is known to `Suspicion`.
        """
        bound, value = self.bound.value, evaluation.objective
        size, far = max(abs(bound), abs(value), self._problem.unit), self.goal.far(evaluation)
        if not np.isfinite(bound) or bound <= value + SLACK * size or far > 1:
            return False
        converged = self.goal.distance(evaluation, self.bound, self._problem.unit) <= 1
        if not self._suspicion.due(k, end or converged):
            return False
        if not self._suspicion.confirmed(point, W, self._rows, betas, self.bound):
            return False
        self._withdraw()
        return True

    def _withdraw(self) -> None:
        """Take back what was proved by parts that cannot be."""
        self.bound, self._certificate = Bound(), None
