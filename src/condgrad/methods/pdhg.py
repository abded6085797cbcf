"""PDHG: over-relaxed primal-dual steps, if a domain has cheap projections."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from condgrad._types import Array
from condgrad.domains.projections import Frame
from condgrad.errors import ProblemError
from condgrad.functions import Linear
from condgrad.methods.balance import first_weight, scale
from condgrad.methods.protocol import Known, State, curvature_of, direction, gradient, length_of
from condgrad.methods.register import declare, refusal
from condgrad.methods.tables import SlopeTable, Tabled, stored, table_bytes
from condgrad.problem import Problem, Term

FIRST = 3
"""Iterations before ω moves first."""
EVERY, SHARE = 5, 0.1
"""Iterations until ω moves again, and the least share of all before that they are."""


@dataclass
class DualSide(SlopeTable):
    """The multipliers of a term; the cotangent alone of a linear one, whose y is known."""

    mean: Array | None = None
    """A*y; None if it is `y`, or the term is linear."""

    @property
    def moving(self) -> list[Array]:
        """y and A*y, which steps change in place; nothing for a linear term."""
        return [a for a in (self.y, self.mean) if a is not None]

    @property
    def estimate(self) -> Array:
        """A*y, which enters the direction."""
        return self.moving[-1] if self.moving else self.G

    def move(self, term: Term, W: Array, beta: float, theta: float) -> None:
        """γ ← h'_β(A W + βy) and y ← y + θ(γ − y) in place, and A*y with it."""
        self.renew(term, W, [slice(0, term.map.size)], beta, theta)
        if self.mean is not None:
            self.mean += self.mean.dtype.type(theta) * (self.G - self.mean)


@dataclass(kw_only=True)
class PdhgState(State):
    """Both sides of primal-dual steps."""

    tables: list[DualSide]
    """The dual side of every term."""
    ahead: Array
    """2S − W̃, at which rows are evaluated."""
    before: Array
    """W̃, from which a step starts."""
    norm: float
    """‖A‖, with the rows of every term in units of their length; it shortens both steps."""
    weight: float
    """ω between the primal and the dual step."""
    due: float = FIRST
    """The next iteration to move ω after."""
    frame: Frame = None
    """Arrays with which the next projection begins."""


@dataclass(frozen=True)
class Pdhg(Tabled):
    r"""Over-relaxed primal-dual steps over a domain with a projection.

    .. math:: γ = h'_{1/σ}\bigl(A(2S - \tilde W) + y/σ\bigr),\qquad
              S = \mathrm{proj}(\tilde W - τ A^*y),\qquad
              (\tilde W, y) ← (\tilde W, y) + ρ\,(S - \tilde W,\; γ - y)

    as of [1]_ and, with ρ, [2]_. Here σ = ω/‖A‖ and τ = 1/(ω‖A‖), and W is S. Rows count by their
    length. For a term of weight c with rows of length up to a the multiplier is c y, and σ is
    divided by a². The prox of f is taken, but linear terms enter the direction as they are.

    The sizes of both sides and of their changes move the weight ω,

    .. math:: ω^2 = \frac{‖Δy‖}{‖ΔW‖}\,\frac{‖y‖}{‖W‖}

    which balances relative residuals, as is usual for the penalty of an ADMM. ω begins with the
    curvature of f. It moves after iteration 3, after 5 more, and then after a tenth more each time.
    It moves by a factor of at most 4 up to iteration 10, and of at most 2 later. From iteration 50
    on it goes half of the way, on a logarithmic scale.

    Proved: with ω fixed and ρ in (0, 2), σ τ ‖A‖² = 1 suffices for convergence in finite dimensions
    ([2]_, Theorem 3.3). Here ω moves, ever more rarely and less. Projections of large matrices are
    only as accurate as a warm subspace makes them. γ is dual feasible, so bounds hold whatever the
    steps are.

    Parameters
    ----------
    relax : float
        ρ, between 1 and 2.

    References
    ----------
    .. [1] A. Chambolle, T. Pock, "A first-order primal-dual algorithm for convex problems with
       applications to imaging", J. Math. Imaging Vis. 40, 2011.
    .. [2] L. Condat, "A primal-dual splitting method for convex optimization involving
       Lipschitzian, proximable and linear composite terms", J. Optim. Theory Appl. 158, 2013.
    """

    proofs: ClassVar[tuple[int, int]] = (20, 10)
    numbers: ClassVar[int] = 2
    """Numbers that are kept for every row."""
    state: ClassVar[type[PdhgState]] = PdhgState
    relax: float = 1.7
    slug: str = "pdhg"
    name: str = "PDHG"

    def suits(self, problem: Problem) -> str | None:
        able = problem.domain.projector() is not None and problem.composite
        return None if able else refusal(self)

    def init(
        self, problem: Problem, W: Array, rng: Any, known: Known, multipliers: object = None
    ) -> Any:
        bent = [t for t in problem.terms if not isinstance(t.function, Linear)]
        norms = [t.map.norm(problem.domain.symmetric) / length_of(t) for t in bent]
        norm = float(np.linalg.norm(norms)) or 1.0
        bend = sum(curvature_of(t) * length_of(t) ** 2 for t in problem.terms)
        own: dict[str, Any] = {"norm": norm, "weight": bend or first_weight(problem, W, norm)}
        own |= {"ahead": W.copy(), "before": W.copy(), "betas": [scale(t) for t in problem.terms]}
        own["tables"] = [self._side(t, problem) for t in problem.terms]
        return self.state.begun(problem, W, rng, known, **own)

    def _side(self, term: Term, problem: Problem) -> DualSide:
        """The side of a term with y = 0, or with the only slope that a linear one has."""
        if not isinstance(term.function, Linear):
            mean = None if stored(term) else term.map.zeros(problem.dtype)
            return DualSide.of(term, problem, mean=mean)
        side = DualSide(term.map.zeros(problem.dtype))
        gradient(term, np.zeros(term.map.shape, problem.dtype), side.G, 1.0)
        return side

    def step(self, problem: Problem, state: Any, at_most: int = 1) -> Any:
        s, projector = state, problem.domain.projector()
        s.eta, s.beta = 1.0, s.norm / s.weight
        s.betas = [scale(t) * s.beta for t in problem.terms]
        s.rows = [count + t.map.size for count, t in zip(s.rows, problem.terms, strict=True)]
        self.ascend(problem, s)
        v = direction(problem, [f.estimate for f in s.tables])
        v *= v.dtype.type(-1 / (s.weight * s.norm))
        v += s.before
        assert projector is not None
        S, s.frame, products = projector.project(v, s.frame)
        s.W[...] = S
        self.land(problem, s, v)
        s.k, s.calls, s.products = s.k + 1, s.calls + 1, s.products + products
        return s

    def ascend(self, problem: Problem, s: Any) -> None:
        """Move y beyond the slopes at the point ahead."""
        for f, term, beta in zip(s.tables, problem.terms, s.betas, strict=True):
            if f.y is not None:
                f.move(term, s.ahead, beta, self.relax)

    def land(self, problem: Problem, s: Any, v: Array) -> None:
        """Move W̃ beyond W, which is the projection; v may be written to."""
        D, k = np.subtract(s.W, s.before, out=v), s.k + 1
        np.add(s.W, D, out=s.ahead)
        moved = float(np.vdot(D, D))
        D *= v.dtype.type(self.relax)
        s.before += D
        if k >= s.due:
            s.due = max(k + EVERY, k * (1 + SHARE))
            target, most = self._ratio(problem, s, moved) / s.weight, 4.0 if k <= 10 else 2.0
            if np.isfinite(target) and target > 0:
                s.weight *= min(max(target, 1 / most), most) ** (1.0 if k < 50 else 0.5)

    def _ratio(self, problem: Problem, s: PdhgState, moved: float) -> float:
        """The ω of the latest changes and the sizes of both sides; `moved` is ‖S − W̃‖²."""
        changes = sizes = 0.0
        for t, f in zip(problem.terms, s.tables, strict=True):
            if f.y is not None:
                unit, w = length_of(t) ** 2, t.weight**2
                changes += unit * w * change(f, self.relax)
                sizes += unit * (w * t.passes.square(f.y))
        below = moved * float(np.vdot(s.W, s.W))
        return float((changes * sizes / below) ** 0.25) if below > 0 else 0.0

    def measures(self, problem: Problem) -> bool:
        return True

    def rebase(self, problem: Problem, state: Any, share: float) -> Any:
        s = super().rebase(problem, state, share)
        for f in s.tables:
            if f.mean is not None:
                f.mean *= f.mean.dtype.type(share)
        s.ahead[...] = s.before[...] = s.W
        s.frame, s.due = None, s.k + FIRST
        return s

    def row_bytes(self, term: Term, problem: Problem) -> int:
        linear = isinstance(term.function, Linear)
        return 0 if linear else table_bytes(term, problem, self.numbers)


def change(f: DualSide, theta: float) -> float:
    """‖γ − y‖² of the latest pass, y as it was before."""
    off = f.y - f.followed  # (θ − 1)(γ − y before)
    return float(np.vdot(off, off)) / (theta - 1) ** 2


@declare(
    "pdhg",
    "PDHG",
    estimates="multipliers of all rows",
    needs="a g; f and g with a prox; a domain with a projection, not a spectrahedron",
    reference="Chambolle, Pock, J. Math. Imaging Vis. 40, 2011; Condat, JOTA 158, 2013, for the "
    "relaxation",
)
def pdhg(relax: float = 1.7) -> Pdhg:
    """Over-relaxed primal-dual steps over a domain with a projection.

    All rows move their multipliers at every iteration, those of f too, and W goes to a projection.
    `condgrad.methods.pdhg.Pdhg` says what is proved. Projections onto nuclear balls are partial
    singular value decompositions, each begun at the end of the one before.

    Parameters
    ----------
    relax : float, default 1.7
        How far both sides go, in units of their steps; between 1 and 2.
    """
    number = isinstance(relax, (int, float, np.number)) and not isinstance(relax, bool)
    if not (number and 1 < relax < 2):
        raise ProblemError(f"relax is {relax!r}: it must lie between 1 and 2")
    return Pdhg(float(relax))
