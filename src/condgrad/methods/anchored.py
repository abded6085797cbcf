"""Primal-dual steps that are drawn back to where they began, with restarts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import cast

import numpy as np

from condgrad._types import Array, Params
from condgrad.domains.projections import Projector
from condgrad.estimators import Anchored, AnchoredState, Estimator
from condgrad.methods.projected import ProjectedState, Relaxation, RelaxedStep, length_of
from condgrad.methods.steps import AtomStep, Lap
from condgrad.points.dense import Dense
from condgrad.problem import Problem, Term
from condgrad.rows import Keeper


@dataclass(frozen=True)
class Anchoring(Relaxation):
    """Anchored primal-dual steps over domains with a projection, see `AnchoredStep`.

    Parameters
    ----------
    relax : float, default 2
        How far both sides go, in units of their steps.
    enough, some, share : float, default 0.2, 0.8 and 0.36
        A round ends where the residual has fallen to this part of its first, to the second and has
        begun to grow, or after this share of all iterations.
    safety, growth, fall : float, default 1.3, 1.2 and 2
        N of a round is `safety` times the largest that the round before has seen, but not smaller
        by more than the factor `fall`; where a step shows that N is too small, `safety` is
        multiplied by `growth`.
    """

    relax: float = 2.0
    enough: float = 0.2
    some: float = 0.8
    share: float = 0.36
    safety: float = 1.3
    growth: float = 1.2
    fall: float = 2.0

    def suits(self, problem: Problem, pairs: Iterable[tuple[Estimator, Term]]) -> bool:
        """Whether the domain has a projection, and all rows are kept for it."""
        pairs = list(pairs)
        return super().suits(problem, pairs) and all(isinstance(e, Anchored) for e, _ in pairs)

    def begin(self, problem: Problem, rows: Sequence[Keeper]) -> AtomStep:
        """The step of a run."""
        return AnchoredStep(problem, cast(Projector, problem.domain.projector()), rows, self)


@dataclass
class AnchoredPrimal(ProjectedState):
    """State of an anchored step."""

    anchor: Array = field(kw_only=True)
    """W̃_0."""
    turn: int = -1
    """Iterations since the latest restart; −1 before the first step."""
    count: int = 0
    """Iterations of all rounds."""
    first: float = np.inf
    """Residual at the beginning of the round."""
    last: float = np.inf
    """Latest residual of the round."""
    norm: float = 1.0
    """N, which bounds the norm of the rows that move."""
    seen: float = 0.0
    """Largest lower bound on N that steps of the round have shown."""
    safety: float = 1.0
    """Factor from `seen` to N at the next restart."""


class AnchoredStep(RelaxedStep):
    r"""The primal half of reflected primal-dual steps with an anchor; `Anchored` is the other.

    With T the step of the method of Chambolle and Pock, as in `RelaxedStep`, and u = (W̃, y),

    .. math:: u_{j+1} = \frac{j+1}{j+2}\,(2 T u_j - u_j) + \frac{1}{j+2}\,u_0,

    the iteration of Halpern [1]_. u_0 begins as u_j again, and j as 0, where the residual
    r = ‖u − Tu‖_M has fallen enough, M = (‖A‖ω, −A*; −A, ‖A‖/ω) being the metric of T, or the round
    has become long. Then ω goes half of the way, on a logarithmic scale, to ‖y − y_0‖/‖W̃ − W̃_0‖.
    The three rules of restarts are those of [2]_; W is the primal part of Tu.

    ‖A‖ is that of the rows that move: with (ΔW, Δy) = Tu − u, in place of ‖A‖ the steps have an N
    that is a little more than what the round before has shown,

    .. math:: N ≥ \max \frac{2\,|⟨ΔW, A^*Δy⟩|}{ω‖ΔW‖^2 + ‖Δy‖^2/ω},

    as in PDLP's rule for step lengths [2]_. A step that needs a larger one ends the round. N never
    exceeds ‖A‖, and is ‖A‖ after enough of such steps.

    Proved, for N = ‖A‖: within a round, with exact projections, r ≤ 2‖u_0 − u*‖_M/(j + 1); for
    linear programs, with ω fixed and rounds of suitable length, r falls linearly [1]_. γ is dual
    feasible, so that bounds hold whatever the steps are.

    References
    ----------
    .. [1] H. Lu, J. Yang, "Restarted Halpern PDHG for linear programming", arXiv:2407.16144, 2024.
    .. [2] D. Applegate et al., "Practical large-scale linear programming using primal-dual hybrid
       gradient", NeurIPS 2021.
    """

    weighs = True
    state: AnchoredPrimal

    def __init__(
        self, problem: Problem, projector: Projector, rows: Sequence[Keeper], rule: Anchoring
    ) -> None:
        super().__init__(problem, projector, rows, rule)
        s = self.state
        self.state = AnchoredPrimal(projector, s.ahead, s.before, anchor=np.zeros_like(s.before))
        self.state.norm, self.state.safety = self.norm, rule.safety
        self._restarts = rule

    def ahead(self, W: Dense) -> Dense:
        if not self.state.begun:
            self.state.turn = -1
        return super().ahead(W)

    def params(self, p: Params) -> Params:
        s = self.state
        beta, rho = s.norm / s.weight, 1 / (max(s.turn, 0) + 2)
        return replace(super().params(p), beta=beta, beta_before=beta, rho=rho)

    def move(
        self, W: Dense, v: Array, own: Sequence[Params], rng: np.random.Generator, lap: Lap
    ) -> int:
        s, D, real = self.state, self._room, v.dtype.type
        if s.turn < 0:
            self._restart()
        else:
            np.subtract(W.array, s.before, out=D)
            error, share = self._residual(D), own[0].rho
            D *= real(self._restarts.relax)
            s.before += D
            s.before *= real(1 - share)
            s.before += real(share) * s.anchor
            s.turn, s.count = s.turn + 1, s.count + 1
            if s.turn == 1:
                s.first, s.last = error, np.inf
            if self._due(error):
                self._weigh()
                self._restart()
            s.last = error
        np.multiply(v, real(-1 / (s.weight * s.norm)), out=D)
        D += s.before
        S, products = s.projector.nearest(D)
        lap("oracle")
        np.multiply(S, real(2), out=s.ahead.array)
        s.ahead.array -= s.before
        W.place(S)
        return products

    def _residual(self, D: Array) -> float:
        """‖u − Tu‖_M, D the change of W̃ that T makes; see what N it needs."""
        s, across, squares = self.state, 0.0, 0.0
        for r in self.own:
            w, kept = r.term.weight, r.state
            assert isinstance(kept, AnchoredState)
            across += r.term.map.paired(kept.drift, w, D)
            squares += (w * length_of(r)) ** 2 * kept.moved
        both = s.weight * float(np.vdot(D, D)) + squares / s.weight
        if both > 0:
            s.seen = max(s.seen, 2 * abs(across) / both)
        return float(np.sqrt(max(s.norm * both - 2 * across, 0.0)))

    def _due(self, error: float) -> bool:
        """Whether to begin a new round."""
        s, rule = self.state, self._restarts
        if s.seen > s.norm * (1 + 1e-9):
            s.safety *= rule.growth
            return True
        if s.turn == 1:
            return False
        fell = error <= rule.some * s.first and error > s.last
        return error <= rule.enough * s.first or fell or s.turn >= rule.share * s.count

    def _weigh(self) -> None:
        """Move ω towards the ratio of the ways that both sides went in this round, and N."""
        s, squares = self.state, 0.0
        far = float(np.linalg.norm(s.before - s.anchor))
        for r in self.own:
            assert isinstance(r.estimator, Anchored)
            squares += (r.term.weight * length_of(r)) ** 2 * r.estimator.gone(r.state)
        ratio = np.sqrt(squares) / far if far > 0 else 0.0
        if np.isfinite(ratio) and ratio > 0:
            s.weight = float(np.sqrt(s.weight * ratio))
        least = s.norm / self._restarts.fall
        s.norm, s.seen = min(self.norm, max(s.safety * s.seen, least)), 0.0

    def _restart(self) -> None:
        """Begin a round where both sides are."""
        s = self.state
        s.anchor[...], s.turn = s.before, 0
        for r in self.own:
            assert isinstance(r.estimator, Anchored)
            r.estimator.set_anchor(r.state)
