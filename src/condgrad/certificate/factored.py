"""Lower bounds for a W that is kept as factors: v is sparse, and no array has its shape.

The bound is that of `bound` at the slopes y of W, F* ≥ −r σ_max(v) − Σ_t ω_t h_t*(y_t), with the
same count of roundings, and σ_max from `domains.singular`. All slopes are scaled by a t ≥ 0 too,
v and σ_max with them: the best of both counts. For squares ω h*(t y) = ω (t²‖y‖²/2 + t⟨b, y⟩), so t
has a formula; else it is searched for. What counts is h* at the numbers fl(t y) themselves, and
that these are not quite t y is one of the roundings that `margin` counts for scaling.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from condgrad._floats import EPS
from condgrad._types import Array
from condgrad.certificate.bound import Bound, Certificate, Report, margin
from condgrad.certificate.contradiction import GIVEN, SLACK
from condgrad.domains import NuclearBall
from condgrad.domains.singular import top_bound
from condgrad.functions import Squared
from condgrad.points.factored import Factored
from condgrad.problem import Problem
from condgrad.rows import Sizes, sizes_of
from condgrad.rows.observed import Dual, Observed

SEARCH = 12
"""Conjugates computed to find how far to scale slopes."""
SHARE = 0.1
"""Lanczos ends if another step could gain less than this part of the gap."""
LEAST = 1e-7
"""Lanczos ends if another step could gain less than this part of the objective."""


class FactoredCertificate(Certificate):
    """The best lower bound so far, over a nuclear ball, from the slopes at entries of W.

    Parameters
    ----------
    problem : Problem
        The problem.
    observed : Observed
        Its rows.
    floor : float, optional
        A lower bound that is known beforehand.
    """

    def __init__(self, problem: Problem, observed: Observed, floor: float | None = None) -> None:
        super().__init__(problem, floor)
        assert isinstance(problem.domain, NuclearBall)
        self.observed, self._radius = observed, problem.domain.radius
        self.entries: tuple[Any, Array | None] = (None, None)
        """A point whose entries are known, and these."""
        self.about: tuple[Array | None, float] = (None, 1.0)
        """Multipliers and their β."""

    def evaluate(self, W: Any, rows: Sequence[Any], betas: Sequence[float]) -> Report:
        """Bound the optimum by the slopes at W; keep the best bound.

        The gap in the report is NaN where the terms contradict Fenchel's inequality.
        """
        found, fw_gap = self.bound_at(W)
        failure = self.best.failure + found.failure
        if found.value > self.best.value:
            self.best = found
        if failure:
            self.best = Bound(self.best.value, self.best.kind, failure, self.best.source)
        return Report(found, fw_gap, {}, {"slopes": []})

    def bound_at(self, W: Factored) -> tuple[Bound, float]:
        """The bound of the slopes at W, and ⟨v, W⟩ − min ⟨v, s⟩."""
        known, entries = self.entries
        if known is not W or entries is None:
            entries = self.observed.entries(W)
        dual = self.observed.dual(entries, about=self.about)
        objective, conjugate = sum(dual.values), sum(dual.conjugates)
        rounding = self._rounding(dual)
        if not np.isfinite([objective, conjugate, rounding, sum(dual.products)]).all():
            return Bound(), np.inf  # a slope is NaN or infinite, or the numbers are too large
        if self._wrong(dual):
            return Bound(), np.nan

        def enough(low: float, high: float) -> bool:
            gap = objective + conjugate + self._radius * low
            room = max(SHARE * gap, LEAST * (abs(objective) + abs(conjugate)))
            return self._radius * (high - low) <= room

        top = top_bound(self.observed.adjoint(dual.y), enough)
        kind = "probabilistic" if top.failure else "exact-singular-value"
        value = self._value(top.value, dual, 1.0)
        best, gap = Bound(value, kind, top.failure, "slopes"), sum(dual.products)
        gap += self._radius * top.value
        t = self._scale(top.value, dual)
        if t != 1.0 and np.isfinite(t):
            scaled = self.observed.dual(entries, t, dual.y)
            value = self._value(top.value, scaled, t)
            if value > best.value:
                best = Bound(value, kind, top.failure, "slopes, scaled")
        return best, gap

    def ray(self, W: Factored) -> Bound:
        """Bound from the multipliers of the constraints alone; above 0 nothing is feasible.

        See `farkas`.
        """
        known, entries = self.entries
        if known is not W or entries is None:
            entries = self.observed.entries(W)
        dual = self.observed.dual(entries, about=self.about)
        held = [t.function.indicator for t in self.problem.terms]
        for at, own in zip(self.observed.parts, held, strict=True):
            if not own:
                dual.y[at] = 0.0

        def of(numbers: list[float]) -> list[float]:
            return [x if own else 0.0 for x, own in zip(numbers, held, strict=True)]

        sums = of(dual.conjugates), of(dual.sizes), of(dual.spreads)
        if not np.isfinite(sums).all():
            return Bound()
        top = top_bound(self.observed.adjoint(dual.y))
        kind = "probabilistic" if top.failure else "exact-singular-value"
        found = Dual(dual.y, *sums, dual.products, dual.values)
        return Bound(self._value(top.value, found, 1.0), kind, top.failure, "ray of slopes")

    def _value(self, top: float, dual: Dual, t: float) -> float:
        """−t r σ − Σ ω h*(y), rounded downwards."""
        low, conjugate = t * self._radius * top, sum(dual.conjugates)
        last = 8 * EPS * (low + abs(conjugate))
        value = -low - conjugate - self._rounding(dual) - last
        return value if np.isfinite(value) else -np.inf

    def _rounding(self, dual: Dual) -> float:
        return margin(self._sizes(dual), self._radius, len(self.problem.terms))

    def _sizes(self, dual: Dual) -> list[Sizes]:
        """Sizes against which the sums of every term are rounded."""
        found = []
        for i, t in enumerate(self.problem.terms):
            pieces = self.observed.pieces(i)
            spread, size = dual.spreads[i] / t.weight, dual.sizes[i] / t.weight
            found.append(sizes_of(t, spread, size, pieces))
        return found

    def _scale(self, top: float, dual: Dual) -> float:
        """The t ≥ 0 for which t·y proves most, about."""
        line, y = self._radius * top, dual.y
        square = [type(t.function) is Squared for t in self.problem.terms]
        if all(s or t.function.interval for s, t in zip(square, self.problem.terms, strict=True)):
            squares = sum(
                t.weight * 0.5 * float(np.vdot(y[at], y[at]))
                for s, t, at in zip(square, self.problem.terms, self.observed.parts, strict=True)
                if s
            )
            line += sum(dual.conjugates) - squares
            return max(0.0, -line / (2 * squares)) if squares > 0 else 1.0

        def lost(t: float) -> float:
            value = t * line + self.observed.conjugate(y, t)
            return value if np.isfinite(value) else 1e300

        from scipy.optimize import minimize_scalar  # takes long to load, and few runs need it

        most = 2.0 if lost(1.01) < 1e300 else 1.0
        options = {"maxiter": SEARCH, "xatol": 1e-4}
        found = minimize_scalar(lost, bounds=(0.0, most), method="bounded", options=options)
        return float(found.x)

    def _wrong(self, dual: Dual) -> bool:
        """Whether ⟨y, z⟩ > h(z) + h*(y) for a term."""
        slack = max(SLACK, self.observed.size * EPS)
        columns = zip(dual.products, dual.values, dual.conjugates, dual.sizes, strict=True)
        return any(
            product - value - conjugate > slack * (abs(product) + abs(value) + size)
            for t, (product, value, conjugate, size) in zip(
                self.problem.terms, columns, strict=True
            )
            if not t.function.indicator
        )

    def refuted(self, point: Any, bound: Bound) -> bool:
        """Whether a point of the ball, all of which are feasible, lies below a bound: it is wrong.

        The bound itself counts, whatever the slopes of the moment prove.
        """
        objective = self.problem.objective(point)
        size = abs(objective) + abs(bound.value)
        slack = SLACK
        if bound.source == "given":
            size, slack = size + 1e6 * self.problem.unit, GIVEN
        eps = float(np.finfo(self.observed.dtype).eps)
        inside = float(np.sum(point.decomposed().s)) <= self._radius * (1 + 1e3 * eps)
        return inside and bound.value > objective + max(slack, 1e3 * eps) * size
