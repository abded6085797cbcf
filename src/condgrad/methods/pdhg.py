"""PDHG: over-relaxed primal-dual steps, where a domain has cheap projections.

At iteration k

    1. the multipliers y of all terms, f's too, go to slopes γ at a point ahead, and beyond them,
    2. W is the projection of W̃ − τ A*y, and W̃ goes to it, and beyond it,
    3. if that is due, the weight ω between both steps moves.

References: Chambolle, Pock, J. Math. Imaging Vis. 40, 2011; Condat, J. Optim. Theory Appl. 158,
2013.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from condgrad._types import Array
from condgrad.certificate.lower_bound import Dual, Duals, Slopes
from condgrad.domains.projections import Frame
from condgrad.errors import ProblemError
from condgrad.functions import Linear, Smooth
from condgrad.maps import RowStorage
from condgrad.methods.balance import first_factors
from condgrad.methods.protocol import (
    Known,
    Method,
    State,
    direction,
    gradient,
    length_of,
    require_finite,
    shared,
)
from condgrad.methods.register import declare, refusal
from condgrad.problem import Problem, Term

FINE = 10_000_000
"""Rows up to which tables are in float64: beyond that passes wait for the memory."""

# --- state ----------------------------------------------------------------------------------------


@dataclass
class DualSide:
    """What is kept of one term; of a linear one, whose y is known, its cotangent alone."""

    G: Array
    """A*γ, which is γ itself if the map stores rows."""
    y: Array | None = None
    """A multiplier for every row."""
    slopes: Array | None = None
    """γ of the latest pass, 0 before the first; None if it is `G`."""
    mean: Array | None = None
    """A*y; None if it is `y`."""

    @classmethod
    def of(cls, term: Term, problem: Problem) -> Self:
        """Before the first iteration: y = 0, or the only slope of a linear term."""
        G = term.map.zeros(problem.dtype)
        if isinstance(term.function, Linear):
            gradient(term, np.zeros(term.map.shape, problem.dtype), G, 1.0, 1)
            return cls(G)
        table, dtype = term.passes.table, precision(term, problem)
        if isinstance(term.map, RowStorage):
            return cls(G, table(dtype))
        return cls(G, table(dtype), table(dtype), G.copy())

    @property
    def estimate(self) -> Array:
        """A*y, which enters the direction."""
        if self.mean is not None:
            return self.mean
        return self.G if self.y is None else self.y

    @property
    def gamma(self) -> Array:
        """γ of the latest pass."""
        return self.G if self.slopes is None else self.slopes


@dataclass(kw_only=True)
class PrimalDualState(State):
    """The primal side of steps to projections."""

    ahead: Array
    """2S − W̃, at which rows are evaluated."""
    before: Array
    """W̃, from which a step starts."""
    norm: float
    """‖A‖, by which both steps are shortened, the rows of every term in units of their length."""
    weight: float
    """ω between the primal and the dual step."""
    frame: Frame = None
    """What the latest projection leaves for the next one."""


@dataclass(kw_only=True)
class PdhgState(PrimalDualState):
    """Both sides, and when ω is moved."""

    terms: list[DualSide]
    """The dual side of every term."""
    due: float
    """The next iteration to move ω after."""


# --- method ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PrimalDual(Method):
    """Base of primal-dual steps to projections, which turns one iteration of them."""

    proofs: ClassVar[tuple[int, int]] = (20, 10)

    def suits(self, problem: Problem) -> str | None:
        able = problem.domain.projector() is not None and problem.composite
        return None if able else refusal(self)

    def step(self, problem: Problem, state: Any, at_most: int = 1) -> Any:
        s, k, beta = state, state.k + 1, state.norm / state.weight
        s.eta, s.beta, s.betas = 1.0, beta, [c * beta for c in scales(problem)]
        for i, t in enumerate(problem.terms):
            if s.terms[i].y is not None:
                self.follow(s, s.terms[i], t, s.betas[i])
            s.rows[i] += t.map.size
        v = direction(problem, [f.estimate for f in s.terms])
        require_finite(problem, v)
        s.products += self.move(problem, s, v, k)
        s.k, s.calls = k, s.calls + 1
        return s

    @abstractmethod
    def follow(self, s: Any, f: Any, term: Term, beta: float) -> None:
        """Bring the multipliers of a term to the point ahead, in place."""

    @abstractmethod
    def move(self, problem: Problem, s: Any, v: Array, k: int) -> int:
        """Move W along the direction, which may be written to; the products taken."""

    def measures(self, problem: Problem) -> bool:
        return True

    def duals(self, problem: Problem, state: Any) -> dict[str, Duals]:
        pairs = zip(state.terms, state.betas, strict=True)
        point: list[Dual] = [Slopes(beta) if f.y is None else f.gamma for f, beta in pairs]
        return {"slopes": point}

    def multipliers(self, problem: Problem, state: Any) -> list[Array | None]:
        return [f.y for f in state.terms]

    def rebase(self, problem: Problem, state: Any, share: float) -> Any:
        s = state
        for f in s.terms:
            for a in (f.G, f.y, f.slopes, f.mean):
                if a is not None and f.y is not None:
                    a *= a.dtype.type(share)
        s.ahead[...] = s.before[...] = s.W
        s.frame = None
        return s

    def row_bytes(self, term: Term, problem: Problem) -> int:
        if isinstance(term.function, Linear):
            return 0
        number, whole = precision(term, problem).itemsize, 5 * 8 * term.map.size
        rows = 0 if term.function.separable else whole
        if isinstance(term.map, RowStorage):
            return number * term.map.entries + rows
        mean = term.map.storage * problem.dtype.itemsize
        return 2 * number * term.map.entries + rows + mean


@dataclass(frozen=True)
class Pdhg(PrimalDual):
    r"""Over-relaxed primal-dual steps over a domain with a projection.

    .. math:: γ = h'_{1/σ}\bigl(A(2S - \tilde W) + y/σ\bigr),\qquad
              S = \mathrm{proj}(\tilde W - τ A^*y),\qquad
              (\tilde W, y) ← (\tilde W, y) + ρ\,(S - \tilde W,\; γ - y)

    with σ = ω/‖A‖ and τ = 1/(ω‖A‖); W is S. Rows count by their length: for a term with rows of
    length up to a and weight c the multiplier is c y, and its σ is divided by a². f is taken by its
    prox, but for linear terms, which enter the direction as they are.

    The weight ω is moved by the sizes of both sides and of their changes,

    .. math:: ω^2 = \frac{‖Δy‖}{‖ΔW‖}\,\frac{‖y‖}{‖W‖}

    which balances relative residuals, as is usual for the penalty of an ADMM. ω begins with the
    curvature of f and moves towards this, ever more rarely: after iteration 3, after 5 more and
    then after a tenth more each time; by a factor of at most 4 up to iteration 10 and 2 later, and
    half of the way, on a logarithmic scale, from iteration 50 on.

    Proved: with ω fixed and ρ in (0, 2), σ τ ‖A‖² = 1 suffices for convergence in finite dimensions
    ([1]_, Theorem 3.3). Here ω moves, ever more rarely and less, and projections of large matrices
    are accurate only up to what a warm subspace gives. γ is dual feasible, so that bounds hold
    whatever the steps are.

    Parameters
    ----------
    relax : float
        ρ, between 1 and 2.

    References
    ----------
    .. [1] L. Condat, "A primal-dual splitting method for convex optimization involving
       Lipschitzian, proximable and linear composite terms", J. Optim. Theory Appl. 158, 2013.
    """

    relax: float = 1.7
    first: int = 3
    every: int = 5
    share: float = 0.1
    slug: str = "pdhg"
    name: str = "PDHG"

    def init(
        self,
        problem: Problem,
        W: Array,
        rng: np.random.Generator,
        known: Known,
        multipliers: Sequence[Array | None] | None = None,
    ) -> PdhgState:
        norm = norm_of(problem)
        return PdhgState(
            W=W.copy(),
            rng=rng,
            known=known,
            rows=[0] * len(problem.terms),
            betas=scales(problem),
            terms=[DualSide.of(t, problem) for t in problem.terms],
            ahead=W.copy(),
            before=W.copy(),
            norm=norm,
            weight=first_weight(problem, W, norm),
            due=self.first,
        )

    def follow(self, s: PdhgState, f: DualSide, term: Term, beta: float) -> None:
        renew(f, term, s.ahead, beta, self.relax)

    def move(self, problem: Problem, s: PdhgState, v: Array, k: int) -> int:
        S, products = projected(problem, s, v)
        D = np.subtract(S, s.before, out=v)
        np.add(S, D, out=s.ahead)
        moved = float(np.vdot(D, D))
        D *= v.dtype.type(self.relax)
        s.before += D
        s.W[...] = S
        if k >= s.due:
            s.due = max(k + self.every, k * (1 + self.share))
            target, most = self._ratio(problem, s, moved) / s.weight, 4.0 if k <= 10 else 2.0
            if np.isfinite(target) and target > 0:
                s.weight *= min(max(target, 1 / most), most) ** (1.0 if k < 50 else 0.5)
        return products

    def _ratio(self, problem: Problem, s: PdhgState, moved: float) -> float:
        """The ω of the latest changes and the sizes of both sides; `moved` is ‖S − W̃‖²."""
        changes = sizes = 0.0
        for t, f in zip(problem.terms, s.terms, strict=True):
            if f.y is not None:
                unit, w = length_of(t) ** 2, t.weight**2
                changes += unit * w * change(f, self.relax)
                sizes += unit * (w * t.passes.square(f.y))
        below = moved * float(np.vdot(s.W, s.W))
        return float((changes * sizes / below) ** 0.25) if below > 0 else 0.0

    def rebase(self, problem: Problem, state: PdhgState, share: float) -> PdhgState:
        state.due = state.k + self.first
        s: PdhgState = super().rebase(problem, state, share)
        return s


# --- parts of primal-dual steps -------------------------------------------------------------------


def precision(term: Term, problem: Problem) -> np.dtype[Any]:
    """Precision of the tables of a term."""
    if isinstance(term.map, RowStorage):
        return problem.dtype
    return np.dtype(np.float64 if term.map.size <= FINE else np.float32)


def norm_of(problem: Problem) -> float:
    """‖A‖ of all rows but those of linear terms, each term in units of their length."""
    own = [t for t in problem.terms if not isinstance(t.function, Linear)]
    norms = [t.map.norm(problem.domain.symmetric) / length_of(t) for t in own]
    return float(np.linalg.norm(norms)) or 1.0


def scales(problem: Problem) -> list[float]:
    """β of every term in units of ‖A‖/ω."""
    return [t.weight * length_of(t) ** 2 for t in problem.terms]


def first_weight(problem: Problem, W: Array, norm: float) -> float:
    """The first ω, the curvature of f, or by the β that one step suggests if f is linear."""
    bend = sum(
        t.weight * t.function.smoothness * length_of(t) ** 2
        for t in problem.smooth
        if isinstance(t.function, Smooth)
    )
    if bend:
        return float(bend)
    trios = zip(first_factors(problem, W, 0.5), scales(problem), problem.terms, strict=True)
    return norm / float(np.mean([b / c for b, c, t in trios if not t.function.smooth]))


def renew(f: DualSide, term: Term, W: Array, beta: float, theta: float) -> None:
    """γ ← h'_β(A W + βy), y ← y + θ(γ − y) and A*y with it, in place."""
    y, slopes = f.y, f.gamma
    assert y is not None

    def work(ranges: Sequence[slice], G: Array) -> None:
        term.passes.renew(W, G, ranges, y, slopes, beta, theta)

    shared(term, [slice(0, term.map.size)], work, f.G)
    if f.mean is not None:
        f.mean += f.mean.dtype.type(theta) * (f.G - f.mean)


def change(f: DualSide, theta: float) -> float:
    """‖γ − y‖² of the latest pass, y as it was before."""
    off = f.y - f.gamma  # (θ − 1)(γ − y before)
    return float(np.vdot(off, off)) / (theta - 1) ** 2


def projected(problem: Problem, s: PrimalDualState, v: Array) -> tuple[Array, int]:
    """The projection of W̃ − τv, and the products taken; v is written to."""
    projector = problem.domain.projector()
    assert projector is not None
    v *= v.dtype.type(-1 / (s.weight * s.norm))
    v += s.before
    S, s.frame, products = projector.project(v, s.frame)
    return S, products


@declare(
    "pdhg",
    "PDHG",
    estimates="multipliers of all rows",
    needs="a g; f and g with a prox; a domain with a projection, not a spectrahedron",
    iterations="not proved",
    cost="not proved",
    exponent=float("nan"),
    reference="Chambolle, Pock, J. Math. Imaging Vis. 40, 2011; Condat, JOTA 158, 2013, for the "
    "relaxation",
)
def pdhg(relax: float = 1.7) -> Pdhg:
    """Over-relaxed primal-dual steps over a domain with a projection.

    All rows move their multipliers at every iteration, those of f too, and W goes to a projection
    (`condgrad.methods.pdhg.Pdhg`, which says what is proved). Projections onto nuclear balls are
    partial singular value decompositions, each begun where the last one ended.

    Parameters
    ----------
    relax : float, default 1.7
        How far both sides go, in units of their steps; between 1 and 2.
    """
    number = isinstance(relax, (int, float, np.number)) and not isinstance(relax, bool)
    if not (number and 1 < relax < 2):
        raise ProblemError(f"relax is {relax!r}: it must lie between 1 and 2")
    return Pdhg(float(relax))
