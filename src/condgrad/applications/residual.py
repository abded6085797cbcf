"""The convex part of a recommender: what biases leave, over a weighted nuclear ball."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from condgrad._types import Array
from condgrad.applications._base import Application, require_room
from condgrad.applications.matrix_completion import FEWER
from condgrad.applications.ratings import (
    Observed,
    balanced_factors,
    fit_biases,
    norm_weights,
    range_of,
)
from condgrad.domains import NuclearBall
from condgrad.functions import L1, Interval, Squared
from condgrad.maps import AllEntries, Entries, LinearMap, Scaled
from condgrad.methods import Balance, ConditionalGradient, Method, pdhg
from condgrad.methods.factored_apg import FactoredApg
from condgrad.methods.sag_cgal import SagCgal
from condgrad.points.factored import Factored, pair_dots
from condgrad.problem import Problem, Term
from condgrad.run.journal import solved
from condgrad.run.limits import Goal, Limits
from condgrad.run.loop import Asked
from condgrad.run.result import Result
from condgrad.run.solve import solve
from condgrad.schedules import Power


class ResidualFit:
    """Ratings less their mean and biases, and the problem of the nuclear ball over the rest.

    Parameters
    ----------
    observed : Observed
        The ratings.
    center, biases, bias_damping, weighting, bounds, constrain, l1
        As of `condgrad.sklearn.MatrixCompletion`.
    """

    def __init__(
        self,
        observed: Observed,
        *,
        center: bool = True,
        biases: bool = True,
        bias_damping: float = 5.0,
        weighting: float = 0.5,
        bounds: Any = "auto",
        constrain: bool = False,
        l1: float | None = None,
    ) -> None:
        i, j, values, shape = observed
        self.observed, self.weighting, self.l1 = observed, weighting, l1
        self.biases, self.damping = biases, bias_damping
        self.constrain, self.bounds = constrain, range_of(bounds, values)
        self.mean = float(values.mean()) if center else 0.0
        self.user_biases, self.item_biases = np.zeros(shape[0]), np.zeros(shape[1])
        if biases:
            self.user_biases, self.item_biases = fit_biases(observed, self.mean, bias_damping)
        self.residual = values - self.mean - self.user_biases[i] - self.item_biases[j]
        self.user_mean = values.size / shape[0]
        by_user, by_item = (
            np.bincount(at, minlength=side) for at, side in zip((i, j), shape, strict=True)
        )
        self.D = norm_weights(by_user, self.user_mean, weighting)
        self.E = norm_weights(by_item, values.size / shape[1], weighting)
        self.unit = float(np.sqrt(np.mean(self.residual**2) * shape[0] * shape[1])) or 1.0
        """The unit of relative radii; a perfect fit has no residual."""

    @property
    def smooth(self) -> bool:
        """Whether the problem reads observed entries only, so that W can be kept as factors."""
        return not self.constrain and self.l1 is None

    def base(self, i: Array, j: Array) -> Array:
        """Mean and biases at given positions."""
        return self.mean + self.user_biases[i] + self.item_biases[j]

    def clip(self, ratings: Array) -> Array:
        """The ratings within the bounds."""
        return ratings if self.bounds is None else np.clip(ratings, *self.bounds)

    def problem(self, radius: float) -> Problem:
        """The problem over a ball of that radius; its W is D Z E."""
        i, j, _, shape = self.observed
        fit: LinearMap = Entries(i, j, shape)
        everywhere: LinearMap | None = None if self.smooth else AllEntries(shape)
        if self.weighting:
            fit = Scaled(fit, 1 / (self.D[i] * self.E[j]))
            if everywhere is not None:
                everywhere = Scaled(everywhere, (1 / np.outer(self.D, self.E)).reshape(-1))
        terms = [Term(fit, Squared(self.residual), weight=2.0, name="fit")]
        if self.constrain:
            assert self.bounds is not None
            assert everywhere is not None
            base = (self.mean + self.user_biases[:, None] + self.item_biases).reshape(-1)
            low, high = self.bounds
            terms.append(Term(everywhere, Interval(low - base, high - base), name="box"))
        if self.l1 is not None:
            assert everywhere is not None
            terms.append(Term(everywhere, L1(self.l1), name="l1"))
        return Problem(NuclearBall(shape, radius), terms)

    def solve(
        self,
        radius: float,
        *,
        method: str | Method | None = None,
        start: Factored | None = None,
        max_iter: int,
        tol: float | None,
        seed: int = 0,
        n_jobs: int | None = None,
    ) -> Result:
        """Solve it; by projections with W as factors, unless a method is given or needed."""
        how: Any = {"certify": tol is not None, "floor": 0.0, "seed": seed, "n_jobs": n_jobs}
        if method is None and self.smooth:
            first = _within(start, radius)
            run = Asked(self.problem(radius), FactoredApg(), Goal(tol), start=first, **how)
            return solved(run, Limits(max_iter, None, None, None), factors=True)
        require_room(self.observed.shape, 2, FEWER)
        problem = self.problem(radius)
        chosen = _method(problem, method or pdhg(), radius, tol)
        return solve(problem, chosen, max_iter=max_iter, **how)

    def factors(self, result: Result) -> tuple[Array, Array, float]:
        """Factors of Z out of W = D Z E, and half of the multiplier κ = −⟨∇f, W⟩/‖W‖_* of the ball.

        ‖W‖_* is the least (‖P‖² + ‖Q‖²)/2 over W = PQᵀ, so where W is optimal a row p of P
        minimises Σ (Z_ij − R_ij)² + (κ/2) ‖p‖² given Q.
        """
        W: Any = result.W
        if isinstance(W, Factored):
            P, Q = W.U * np.sqrt(W.s), W.V * np.sqrt(W.s)
        else:
            P, Q = balanced_factors(W, min(W.shape))
        norm = float(np.vdot(Q, Q))
        P, Q = P / self.D[:, None], Q / self.E[:, None]
        Z = pair_dots(P, Q, self.observed.rows, self.observed.cols)
        slope = 2 * float(np.vdot(self.residual - Z, Z))
        return P, Q, max(slope / norm / 2, 0.0) if norm > 0 else 0.0


def _within(start: Factored | None, radius: float) -> Factored | None:
    """A start, scaled into the ball where it is too large."""
    norm = 0.0 if start is None else float(start.s.sum())
    if start is None or norm <= radius:
        return start
    return Factored(start.U, start.s * (radius / norm), start.V)


def _method(problem: Problem, method: str | Method, radius: float, tol: float | None) -> Method:
    """The method, its first step as long as the largest singular value σ of the residuals.

    That is the best step where every entry is observed. Where few are it is a short one, but
    2/(k + 1) would overshoot for the first r/σ iterations or so.
    """
    if isinstance(method, Method):
        return method
    start, size = np.zeros(problem.domain.shape), problem.terms[0].map.size
    application = Application("", "auto", problem, start, {"": "auto"}, min(1000, size))
    built, _, _ = application.method(method)
    if not isinstance(built, (ConditionalGradient, SagCgal)):
        return built  # there are no atoms to step to
    v = problem.terms[0].gradient(start, 1.0)
    sigma = -float(np.vdot(v, problem.domain.lmo(v).dense())) / (2 * radius)
    late = 2 * radius / sigma if sigma > 0 else 0.0
    built = replace(built, schedule=replace(built.schedule, eta=Power(2, 1 + late, 1)))
    return built if tol is not None else replace(built, balance=Balance(per_decade=0))
