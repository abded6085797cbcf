"""R-PDHG: primal-dual steps that are drawn back to where a round began, with restarts.

Both sides are as those of PDHG. Rounds end if the residual has fallen enough; then ω and the norm
by which steps are shortened move, and both sides begin where they are.

Reference: Lu, Yang, arXiv:2407.16144, 2024.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from condgrad._types import Array
from condgrad.functions import Linear
from condgrad.maps import RowStorage
from condgrad.methods.pdhg import (
    DualSide,
    PrimalDual,
    PrimalDualState,
    change,
    first_weight,
    norm_of,
    projected,
    renew,
    scales,
)
from condgrad.methods.protocol import Known, length_of
from condgrad.methods.register import declare
from condgrad.problem import Problem, Term

STILL = 1e-12
"""A side that went less than this share of its size in a round went by rounding alone."""


@dataclass
class AnchoredSide(DualSide):
    """A dual side, where it began, and how far the latest pass would move it."""

    anchor: Array | None = None
    """y_0, the multipliers at the beginning of the round."""
    origin: Array | None = None
    """A*y_0; None if it is `anchor`."""
    drift: Array | None = None
    """A*(γ − y) of the latest pass."""
    moved: float = 0.0
    """‖γ − y‖² of the latest pass."""

    @classmethod
    def of(cls, term: Term, problem: Problem) -> Self:
        f = super().of(term, problem)
        if f.y is not None:
            f.anchor, f.drift = f.y.copy(), np.zeros_like(f.estimate)
            f.origin = None if f.mean is None else f.mean.copy()
        return f


@dataclass(kw_only=True)
class RpdhgState(PrimalDualState):
    """Both sides and where they began, and what the round has seen."""

    terms: list[AnchoredSide]
    """The dual side of every term."""
    anchor: Array
    """W̃_0."""
    largest: float
    """‖A‖; `norm` is N, which bounds the norm of the rows that move."""
    safety: float
    """Factor from `seen` to N at the next restart."""
    seen: float = 0.0
    """Largest lower bound on N that steps of the round have shown."""
    turn: int = -1
    """Iterations since the latest restart; −1 before the first step."""
    count: int = 0
    """Iterations of all rounds."""
    first: float = np.inf
    """Residual at the beginning of the round."""
    last: float = np.inf
    """Latest residual of the round."""

    @property
    def pull(self) -> float:
        """1/(j + 2), the share of the anchor."""
        return 1 / (max(self.turn, 0) + 2)


@dataclass(frozen=True)
class Rpdhg(PrimalDual):
    r"""Reflected primal-dual steps with an anchor.

    With T the step of the method of Chambolle and Pock, as in `condgrad.methods.pdhg.Pdhg`, and
    u = (W̃, y),

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

    References
    ----------
    .. [1] H. Lu, J. Yang, "Restarted Halpern PDHG for linear programming", arXiv:2407.16144, 2024.
    .. [2] D. Applegate et al., "Practical large-scale linear programming using primal-dual hybrid
       gradient", NeurIPS 2021.
    """

    relax: float = 2.0
    enough: float = 0.2
    some: float = 0.8
    share: float = 0.36
    safety: float = 1.3
    growth: float = 1.2
    fall: float = 2.0
    slug: str = "rpdhg"
    name: str = "R-PDHG"

    def init(
        self,
        problem: Problem,
        W: Array,
        rng: np.random.Generator,
        known: Known,
        multipliers: Sequence[Array | None] | None = None,
    ) -> RpdhgState:
        norm = norm_of(problem)
        return RpdhgState(
            W=W.copy(),
            rng=rng,
            known=known,
            rows=[0] * len(problem.terms),
            betas=scales(problem),
            terms=[AnchoredSide.of(t, problem) for t in problem.terms],
            ahead=W.copy(),
            before=W.copy(),
            norm=norm,
            weight=first_weight(problem, W, norm),
            anchor=np.zeros_like(W),
            largest=norm,
            safety=self.safety,
        )

    def follow(self, s: RpdhgState, f: AnchoredSide, term: Term, beta: float) -> None:
        share, drift = s.pull, f.drift
        assert drift is not None
        drift[...] = f.estimate
        renew(f, term, s.ahead, beta, self.relax)
        f.moved = change(f, self.relax)
        np.subtract(f.G, drift, out=drift)
        for now, first in ((f.y, f.anchor), (f.mean, f.origin)):
            if now is not None:
                now *= now.dtype.type(1 - share)
                now += now.dtype.type(share) * first

    def move(self, problem: Problem, s: RpdhgState, v: Array, k: int) -> int:
        if s.turn < 0:
            self._restart(s)
        else:
            self._advance(problem, s, np.subtract(s.W, s.before))
        S, products = projected(problem, s, v)
        np.multiply(S, v.dtype.type(2), out=s.ahead)
        s.ahead -= s.before
        s.W[...] = S
        return products

    def _advance(self, problem: Problem, s: RpdhgState, D: Array) -> None:
        """One step of W̃, D the change that T makes; a new round if that is due."""
        real, error, share = D.dtype.type, self._residual(problem, s, D), s.pull
        D *= real(self.relax)
        s.before += D
        s.before *= real(1 - share)
        s.before += real(share) * s.anchor
        s.turn, s.count = s.turn + 1, s.count + 1
        if s.turn == 1:
            s.first, s.last = error, np.inf
        if self._due(s, error):
            self._weigh(problem, s)
            self._restart(s)
        s.last = error

    def _residual(self, problem: Problem, s: RpdhgState, D: Array) -> float:
        """‖u − Tu‖_M, D the change of W̃ that T makes; `seen` learns what N it needs."""
        across = squares = 0.0
        for t, f in zip(problem.terms, s.terms, strict=True):
            if f.drift is not None:
                across += t.map.paired(f.drift, t.weight, D)
                squares += (t.weight * length_of(t)) ** 2 * f.moved
        both = s.weight * float(np.vdot(D, D)) + squares / s.weight
        if both > 0:
            s.seen = max(s.seen, 2 * abs(across) / both)
        return float(np.sqrt(max(s.norm * both - 2 * across, 0.0)))

    def _due(self, s: RpdhgState, error: float) -> bool:
        """Whether to begin a new round."""
        if s.seen > s.norm * (1 + 1e-9):
            s.safety *= self.growth
            return True
        if s.turn == 1:
            return False
        fell = error <= self.some * s.first and error > s.last
        return error <= self.enough * s.first or fell or s.turn >= self.share * s.count

    def _weigh(self, problem: Problem, s: RpdhgState) -> None:
        """Move ω towards the ratio of the ways that both sides went in this round, and N."""
        squares, sizes, far = 0.0, 0.0, float(np.linalg.norm(s.before - s.anchor))
        for t, f in zip(problem.terms, s.terms, strict=True):
            if f.y is not None:
                off, unit = f.y - f.anchor, (t.weight * length_of(t)) ** 2
                squares += unit * float(np.vdot(off, off))
                sizes += unit * float(np.vdot(f.y, f.y))
        ways = (far, STILL * np.linalg.norm(s.before)), (squares, STILL**2 * sizes)
        ratio = np.sqrt(squares) / far if all(way > least for way, least in ways) else 0.0
        if np.isfinite(ratio) and ratio > 0:
            s.weight = float(np.sqrt(s.weight * ratio))
        s.norm = min(s.largest, max(s.safety * s.seen, s.norm / self.fall))
        s.seen = 0.0

    def _restart(self, s: RpdhgState) -> None:
        """Begin a round where both sides are."""
        s.anchor[...], s.turn = s.before, 0
        for f in s.terms:
            for first, now in ((f.anchor, f.y), (f.origin, f.mean)):
                if first is not None and now is not None:
                    first[...] = now

    def rebase(self, problem: Problem, state: RpdhgState, share: float) -> RpdhgState:
        s: RpdhgState = super().rebase(problem, state, share)
        self._restart(s)
        s.turn = -1
        return s

    def row_bytes(self, term: Term, problem: Problem) -> int:
        if isinstance(term.function, Linear):
            return 0
        spread = 1 if isinstance(term.map, RowStorage) else 2
        first = 8 * term.map.size + spread * term.map.storage * problem.dtype.itemsize
        return super().row_bytes(term, problem) + first


@declare(
    "rpdhg",
    "R-PDHG",
    estimates="multipliers of all rows",
    needs="a g; f and g with a prox; a domain with a projection, not a spectrahedron",
    iterations="not proved",
    cost="not proved",
    exponent=float("nan"),
    reference="Lu, Yang, arXiv:2407.16144, 2024",
)
def rpdhg() -> Rpdhg:
    """Primal-dual steps with an anchor and restarts.

    As `pdhg`, but both sides are drawn back to where a round began, and rounds end where the
    residual has fallen (`condgrad.methods.rpdhg.Rpdhg`, which says what is proved). Made for linear
    f, where steps of `pdhg` circle around the optimum.
    """
    return Rpdhg()
