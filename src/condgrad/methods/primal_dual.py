"""Primal-dual steps over a spectrahedron, and the weight between the two sides."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import cast

import numpy as np

from condgrad._types import Array, Params
from condgrad.backends.scalars import norm, square
from condgrad.certificate import Certificate
from condgrad.domains import Face
from condgrad.estimators import Estimator
from condgrad.functions import Smooth
from condgrad.methods.control import Measured, first_factors, passes_over
from condgrad.methods.lead import Propose, look
from condgrad.methods.spectral import FrameState, FrameStep, fits
from condgrad.methods.steps import AtomStep, Lap
from condgrad.points.dense import Dense
from condgrad.problem import Problem, Term
from condgrad.rows import Keeper


@dataclass(frozen=True)
class PrimalDual:
    """Primal-dual steps over a spectrahedron, see `PrimalDualStep`.

    Parameters
    ----------
    safety : float, default 0.9
        Factor on the longest step that the latest change allows.
    growth : float, default 0.6
        A step is longer than the one before by at most 1 + (k + 1)^(−growth).
    guard, small : int, default 6 and 60
        As for `condgrad.methods.spectral.Spectral`.
    """

    safety: float = 0.9
    growth: float = 0.6
    guard: int = 6
    small: int = 60

    def suits(self, problem: Problem, pairs: Iterable[tuple[Estimator, Term]]) -> bool:
        """Whether the domain is a spectrahedron, and estimators allow steps to projections."""
        return fits(problem, pairs)

    def begin(self, problem: Problem, rows: Sequence[Keeper]) -> AtomStep:
        """The step of a run."""
        return PrimalDualStep(problem, cast(Face, problem.domain.face), rows, self)


PRIMAL_DUAL = PrimalDual()


@dataclass
class PrimalDualState(FrameState):
    """State of a primal-dual step."""

    length: float
    """s, the length of both steps."""
    weight: float
    """ω, the ratio of the steps: σ = s ω, τ = s/ω."""


class PrimalDualStep(FrameStep):
    r"""The primal half of stochastic primal-dual passes (SPDHG, [1]_); `Ascent` is the dual one.

    .. math:: y ← h'_{1/σ}(A W + y/σ) \text{ on the drawn rows},\qquad
              W ← \mathrm{proj}\bigl(W - τ(∇f + A^*(y + \tfrac1p Δy))\bigr),
              \qquad σ = sω,\; τ = s/ω

    Rows count by their length: for a family with rows of length up to a and weight c the multiplier
    is c y, and its σ is divided by a². s follows PDLP's rule [2]_ with the lengths of SPDHG's
    analysis,

    .. math:: s ← \min\{\, 0.9\, \bar s,\; (1 + (k+1)^{-0.6})\, s \,\},\qquad
              \bar s = \frac{p\, ω‖ΔW‖^2 + ‖Δy‖^2/ω}{2\,|⟨ΔW, A^*Δy⟩|}

    and never falls below √p/‖A‖; no step is taken back.

    Proved: y is dual feasible whatever the steps are, so that bounds hold. With s = √p/‖A‖ for good
    and ω fixed, σ τ ‖A‖² ≤ p, which is the condition of [1]_ (Theorem 4.3 there) where f is linear
    and one of 1/p batches is drawn at random. Here batches come in a random order, each once a
    round, s is mostly longer than that, and ω moves: nothing is proved of the iterates then.

    References
    ----------
    .. [1] A. Chambolle, M. J. Ehrhardt, P. Richtárik, C.-B. Schönlieb, SIAM J. Optim. 28(4), 2018.
    .. [2] D. Applegate et al., "Practical large-scale linear programming using primal-dual hybrid
       gradient", NeurIPS 2021.
    """

    def __init__(
        self, problem: Problem, face: Face, rows: Sequence[Keeper], rule: PrimalDual
    ) -> None:
        super().__init__(problem, face, rows, rule.guard, rule.small)
        self._rule, self._own = rule, [r for r in rows if not r.term.function.smooth]
        symmetric = problem.domain.symmetric
        self.scales = [_scale(r) for r in rows]
        norms = [r.term.map.norm(symmetric) / _length(r) for r in self._own]
        self.norm = float(np.linalg.norm(norms)) or 1.0
        self._bend = sum(
            r.term.weight * r.term.function.smoothness * r.term.map.norm(symmetric) ** 2
            for r in rows
            if isinstance(r.term.function, Smooth) and r.term.function.smoothness
        )
        D = np.zeros(problem.domain.shape, like=face.basis)
        none = [None for _ in face.parts]
        self.state: PrimalDualState = PrimalDualState([*none], D, [*none], self.least, 1.0)

    @property
    def least(self) -> float:
        """√p/‖A‖."""
        return float(np.sqrt(min(r.share for r in self._own)) / self.norm)

    def widen(self) -> None:
        """Draw as many rows at a time as suits the rank of W."""
        sides = [part.stop - part.start for part in self._face.parts]
        pairs = zip(self.state.frames, sides, strict=True)
        columns = max((n / 3 if K is None else K.shape[1] for K, n in pairs), default=0)
        for r in self._own:
            r.widen(columns)

    def params(self, p: Params) -> Params:
        beta = 1 / (self.state.length * self.state.weight)
        return replace(p, eta=1.0, beta=beta, beta_before=beta)

    def move(
        self, W: Dense, v: Array, own: Sequence[Params], rng: np.random.Generator, lap: Lap
    ) -> int:
        s, D, face = self.state, self.state.D, self._face
        tau = 1 / (s.weight / s.length + self._bend)
        S, products = self._projection(W.descended(v, tau, face.offset))
        lap("oracle")
        W.towards(S, D)
        changes = [r.change(D) for r in self._own]
        across = 2 * abs(sum(product for product, _ in changes))
        squares = sum(c * _length(r) ** 2 for r, (_, c) in zip(self._own, changes, strict=True))
        share = min(r.share for r in self._own)
        most = (share * s.weight * square(D) + squares / s.weight) / max(across, 1e-300)
        longer = (1 + (own[0].k + 1) ** -self._rule.growth) * s.length
        s.length = min(max(self._rule.safety * most, self.least), longer)
        return products


@dataclass(frozen=True)
class PrimalWeight:
    r"""ω between the primal and the dual step, moved when the bound is computed.

    The first guess is what a violation costs: with S the oracle's answer to ∇f, U the objective of
    a feasible point that was proposed for it, and r its violation in units of the rows' lengths,

    .. math:: ω = \tfrac45 ‖A‖ (U - ⟨∇f, S⟩)/‖r‖^2,

    or, where nothing was proposed, ‖A‖ over the mean of the β that `Balance` would begin with.
    Later ω is kept between `least` and `most` times ‖y‖/‖W − W_1‖, the ratio of the distances that
    both sides have to go, and, from twice `start` passes on, is moved by 1.5 where violation and
    slack on one side, and the Frank-Wolfe gap of the direction on the other, differ by more than
    `far`, or by `near` after `late` passes. The constants were chosen on 30 graphs.

    For the lower end y is that of inequalities alone, where there are some. Multipliers of
    equations are often known up to little long before, or long in directions that cost nothing: of
    W_ii = 1 over W of fixed trace their mean. In max-cut with triangle inequalities they are twenty
    times as long as the others, and kept ω as much too large.

    Parameters
    ----------
    least, most : float, default 0.4 and 9
    far, near, late : float, default 30, 2 and 250
        See above.
    start : float, default 10
        Passes over the rows before ω moves.
    every, share, whole : float, default 5, 0.15 and 0.25
        Passes between two measurements, and at least this part of all before, the last where all
        rows are drawn at every iteration and passes are cheap beside bounds.
    """

    least: float = 0.4
    most: float = 9.0
    far: float = 30.0
    near: float = 2.0
    late: float = 250.0
    start: float = 10.0
    every: float = 5.0
    share: float = 0.15
    whole: float = 0.25

    def begin(
        self,
        problem: Problem,
        W: Array,
        tolerances: tuple[float, float, float],
        certificate: Certificate,
        step: AtomStep,
        propose: Propose | None = None,
    ) -> Weighing:
        """The control of a run from W."""
        assert isinstance(step, PrimalDualStep)
        return Weighing(self, problem, W, certificate, step, propose)


PRIMAL_WEIGHT = PrimalWeight()


@dataclass
class WeightState:
    """State of control."""

    factors: list[float]
    """β_t is this multiple of 1/(sω)."""
    first: Array
    """W_1."""
    due: float
    """The number of passes at which to measure next."""
    bound: float = -np.inf
    """The best lower bound that was measured."""


class Weighing:
    """`PrimalWeight` in a run."""

    def __init__(
        self,
        rule: PrimalWeight,
        problem: Problem,
        W: Array,
        certificate: Certificate,
        step: PrimalDualStep,
        propose: Propose | None,
    ) -> None:
        self._rule, self._problem, self._step = rule, problem, step
        self._certificate, self._propose = certificate, propose
        self.state = WeightState(step.scales, W.astype(np.float64), 3.0, certificate.best.value)
        step.state.weight = self._guess(W)

    def aim(self, tolerances: tuple[float, float, float]) -> None:
        """Tolerances play no part."""

    def over(self, problem: Problem, W: Array, k: int, certificate: Certificate) -> None:
        """Go on over another domain, ω halfway to a first guess for it."""
        self._problem, self._certificate = problem, certificate
        self.state.bound = certificate.best.value
        own = self._step.state
        own.weight = float(np.sqrt(own.weight * self._guess(W)))

    def _guess(self, W: Array) -> float:
        """The first ω."""
        problem, step = self._problem, self._step
        seen = look(problem, self._propose, W)
        if seen is not None:
            families = problem.evaluate(seen.point).families
            lengths = {t.name: t.map.row_norm or 1.0 for t in problem.composite}
            missed = sum((f.l2 / lengths[name]) ** 2 for name, f in families.items())
            if missed > 0 and seen.above > seen.below:
                return 0.8 * step.norm * (seen.above - seen.below) / missed
        guesses = zip(first_factors(problem, W, 0.5), step.scales, problem.terms, strict=True)
        return step.norm / float(np.mean([b / c for b, c, t in guesses if not t.function.smooth]))

    def params(self, i: int, p: Params) -> Params:
        """The scalars of an iteration as term i sees them."""
        factor = self.state.factors[i]
        return replace(p, beta=factor * p.beta, beta_before=factor * p.beta_before)

    def betas(self, p: Params) -> list[float]:
        """β of every term."""
        return [factor * p.beta for factor in self.state.factors]

    def after(self, p: Params, W: Array, rows: Sequence[Keeper]) -> Measured | None:
        """Measure, and move ω, where that is due."""
        s, rule = self.state, self._rule
        passes = passes_over(rows)
        if passes < s.due:
            return None
        own = [r for r in rows if not r.term.function.smooth]
        share = rule.whole if all(r.whole for r in own) else rule.share
        s.due = max(s.due + rule.every, passes * (1 + share))
        evaluation = self._problem.evaluate(W, rows)
        if not evaluation.finite:
            return None
        report = self._certificate.evaluate(W, rows, self.betas(p))
        s.bound = max(s.bound, report.bound.value)
        if passes >= rule.start:
            size = max(abs(evaluation.objective), abs(s.bound))
            if passes >= 2 * rule.start and size > 0 and np.isfinite(size):
                off = max((f.scaled for f in evaluation.families.values()), default=0.0)
                need = max(max(report.slack.values()) / size, off)
                self._weigh(need / max(report.fw_gap / size, 1e-6), passes >= rule.late)
            self._hold(W, own)
            self._step.widen()
        return Measured(evaluation, report)

    def _weigh(self, need: float, late: bool) -> None:
        """Move ω towards the side that has further to go."""
        far = self._rule.near if late else self._rule.far
        self._step.state.weight *= 1.5 if need > far else 1 / 1.5 if need < 1 / far else 1

    def _hold(self, W: Array, own: Sequence[Keeper]) -> None:
        """Keep ω near the ratio of both distances."""
        rule, step = self._rule, self._step.state
        far = max(norm(W - self.state.first), 1e-300)
        squares = [r.dual_square * _length(r) ** 2 for r in own]
        loose = [s for r, s in zip(own, squares, strict=True) if r.term.loose]
        least, most = (float(np.sqrt(sum(s))) / far for s in (loose or squares, squares))
        if np.isfinite(most) and most > 0:
            step.weight = min(max(step.weight, rule.least * least), rule.most * most)


def _length(rows: Keeper) -> float:
    """The length of the rows."""
    return float(rows.term.map.row_norm) or 1.0


def _scale(rows: Keeper) -> float:
    """β of a term in units of 1/(sω)."""
    return 1.0 if rows.term.function.smooth else rows.term.weight * _length(rows) ** 2
