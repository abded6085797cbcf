"""R-PDHG: steps of PDHG that are drawn back to the beginning of a round, with restarts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from condgrad._types import Array
from condgrad.methods.pdhg import Pdhg, PdhgState, change
from condgrad.methods.protocol import length_of
from condgrad.methods.register import declare
from condgrad.problem import Problem

ENOUGH, SOME = 0.2, 0.8
"""Shares of the first r of a round; it ends if r is below one, or below the other and grows."""
LONG = 0.36
"""Share of all iterations that a round may take."""
SAFETY, GROWTH = 1.3, 1.2
"""First ratio of N to what the round before has shown, and its growth if N was too small."""
FALL = 2.0
"""Largest factor by which N falls from round to round."""
STILL = 1e-12
"""Share of its size that a side goes in a round by rounding alone."""
LEAST = 1e-12
"""The least N, as a share of ‖A‖: if no multiplier ever moves nothing says how large N must be."""


@dataclass(kw_only=True)
class RpdhgState(PdhgState):
    """Both sides, the beginning of the round, and its residuals; N is in `norm`."""

    anchors: list[list[Array]] = field(default_factory=list)
    """u_0, with its arrays as in `point`."""
    largest: float = np.inf
    """‖A‖, which N never exceeds."""
    safety: float = SAFETY
    """Ratio of N after the next restart to `seen`."""
    seen: float = 0.0
    """The largest N that a step of the round has needed."""
    turn: int = -1
    """j, the iterations since the latest restart; −1 before the first step."""
    count: int = 0
    """Iterations of all rounds together."""
    first: float = np.inf
    """Residual at the beginning of the round."""
    last: float = np.inf
    """Latest residual of the round."""

    @property
    def point(self) -> list[list[Array]]:
        """u: W̃, and y and A*y of every term."""
        return [[self.before], *(f.moving for f in self.tables)]

    def restart(self) -> None:
        """Begin a round at u."""
        self.anchors, self.turn = [], 0  # there may be no room for old and new ones
        self.anchors = [[a.copy() for a in part] for part in self.point]


@dataclass(frozen=True)
class Rpdhg(Pdhg):
    r"""Reflected primal-dual steps with an anchor.

    With T the step of the method of Chambolle and Pock, as in `condgrad.methods.pdhg.Pdhg`, and
    u = (W̃, y),

    .. math:: u_{j+1} = \frac{j+1}{j+2}\,(2 T u_j - u_j) + \frac{1}{j+2}\,u_0,

    the iteration of Halpern [1]_. W is the primal part of Tu.

    M = (‖A‖ω, −A*; −A, ‖A‖/ω) is the metric of T. A round, in which u_0 is fixed, ends if the
    residual r = ‖u − Tu‖_M has fallen enough, or if the round has become long. Then u_0 = u_j and
    j = 0, and ω goes half of the way to ‖y − y_0‖/‖W̃ − W̃_0‖ on a logarithmic scale. The three rules
    of restarts are those of [2]_.

    Steps have N in place of ‖A‖, because not all rows move. With (ΔW, Δy) = Tu − u it is a little
    more than what the round before has shown,

    .. math:: N ≥ \max \frac{2\,|⟨ΔW, A^*Δy⟩|}{ω‖ΔW‖^2 + ‖Δy‖^2/ω},

    as in PDLP's rule for step lengths [2]_. A step that needs a larger N ends the round. N never
    exceeds ‖A‖, and is ‖A‖ after enough of such steps.

    Proved, for N = ‖A‖: within a round, with exact projections, r ≤ 2‖u_0 − u*‖_M/(j + 1). For
    linear programs, with ω fixed and rounds of suitable length, r falls linearly [1]_. γ is dual
    feasible, so bounds hold whatever the steps are.

    References
    ----------
    .. [1] H. Lu, J. Yang, "Restarted Halpern PDHG for linear programming", arXiv:2407.16144, 2024.
    .. [2] D. Applegate et al., "Practical large-scale linear programming using primal-dual hybrid
       gradient", NeurIPS 2021.
    """

    numbers: ClassVar[int] = 3
    state: ClassVar[type[PdhgState]] = RpdhgState
    relax: float = 2.0
    slug: str = "rpdhg"
    name: str = "R-PDHG"

    def init(self, *args: Any, **options: Any) -> RpdhgState:
        s: RpdhgState = super().init(*args, **options)
        s.largest = s.norm
        return s

    def ascend(self, problem: Problem, s: RpdhgState) -> None:
        begins = s.turn < 0  # y moves alone
        if begins:
            s.restart()
        D, share = np.subtract(s.W, s.before), 1 / (s.turn + 2)
        error = self._reflected(problem, s, D)
        D *= D.dtype.type(self.relax)
        s.before += D
        for part, anchors in zip(s.point, s.anchors, strict=True):
            for now, first in zip(part, anchors, strict=True):
                now *= now.dtype.type(1 - share)
                now += now.dtype.type(share) * first
        if begins:
            s.restart()
            return
        s.turn, s.count = s.turn + 1, s.count + 1
        s.first = error if s.turn == 1 else s.first
        if self._due(s, error):
            self._weigh(problem, s)
            s.restart()
        s.last = error

    def land(self, problem: Problem, s: RpdhgState, v: Array) -> None:
        np.multiply(s.W, v.dtype.type(2), out=s.ahead)
        s.ahead -= s.before

    def _reflected(self, problem: Problem, s: RpdhgState, D: Array) -> float:
        """Move y to 2Ty − y, and return ‖u − Tu‖_M, with D the change of W̃ that T makes."""
        across = squares = 0.0
        for t, f, beta in zip(problem.terms, s.tables, s.betas, strict=True):
            if f.y is not None:
                drift = f.estimate.copy()
                f.move(t, s.ahead, beta, self.relax)
                np.subtract(f.G, drift, out=drift)  # A*(γ − y)
                across += t.map.paired(drift, t.weight, D)
                squares += (t.weight * length_of(t)) ** 2 * change(f, self.relax)
        both = s.weight * float(np.vdot(D, D)) + squares / s.weight
        if both > 0:
            s.seen = max(s.seen, 2 * abs(across) / both)
        return float(np.sqrt(max(s.norm * both - 2 * across, 0.0)))

    def _due(self, s: RpdhgState, error: float) -> bool:
        """Whether to begin a new round."""
        if s.seen > s.norm * (1 + 1e-9):
            s.safety *= GROWTH
            return True
        fell = error <= ENOUGH * s.first or (error <= SOME * s.first and error > s.last)
        return s.turn > 1 and (fell or s.turn >= LONG * s.count)

    def _weigh(self, problem: Problem, s: RpdhgState) -> None:
        """Move ω towards the ratio of the ways that both sides went in this round, and N."""
        (start,), *firsts = s.anchors
        squares, sizes, far = 0.0, 0.0, float(np.linalg.norm(s.before - start))
        for t, f, first in zip(problem.terms, s.tables, firsts, strict=True):
            if f.y is not None:
                off, unit = f.y - first[0], (t.weight * length_of(t)) ** 2
                squares += unit * float(np.vdot(off, off))
                sizes += unit * float(np.vdot(f.y, f.y))
        ways = (far, STILL * np.linalg.norm(s.before)), (squares, STILL**2 * sizes)
        ratio = np.sqrt(squares) / far if all(way > least for way, least in ways) else 0.0
        if np.isfinite(ratio) and ratio > 0:
            s.weight = float(np.sqrt(s.weight * ratio))
        least = max(s.safety * s.seen, s.norm / FALL, LEAST * s.largest)
        s.norm = min(s.largest, least)
        s.seen = 0.0

    def rebase(self, problem: Problem, state: RpdhgState, share: float) -> RpdhgState:
        s: RpdhgState = super().rebase(problem, state, share)
        s.turn = -1
        return s


@declare(
    "rpdhg",
    "R-PDHG",
    estimates="multipliers of all rows",
    needs="a g; f and g with a prox; a domain with a projection, not a spectrahedron",
    reference="Lu, Yang, arXiv:2407.16144, 2024",
)
def rpdhg() -> Rpdhg:
    """Primal-dual steps with an anchor and restarts.

    As `pdhg`, but both sides are drawn back to the beginning of a round, which ends if the residual
    has fallen. `condgrad.methods.rpdhg.Rpdhg` says what is proved. The method is made for linear f,
    for which steps of `pdhg` circle around the optimum.
    """
    return Rpdhg()
