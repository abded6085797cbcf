"""Steps to projections, where a domain has cheap ones: primal-dual, and accelerated gradients."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import cast

import numpy as np

from condgrad._types import Array, Params
from condgrad.backends.arrays import foreign
from condgrad.certificate import Certificate
from condgrad.domains import Domain
from condgrad.domains.projections import FaceProjector, Projector
from condgrad.estimators import Estimator, Relaxed
from condgrad.functions import Linear, Smooth
from condgrad.methods.control import first_factors
from condgrad.methods.lead import Propose
from condgrad.methods.steps import AtomStep, Lap
from condgrad.points.dense import Dense
from condgrad.problem import Problem, Term
from condgrad.rows import Keeper

LARGE = 1000
"""Side of a spectrahedron up to which all eigenvectors are found for a step."""


@dataclass
class ProjectedState:
    """State of a step to a projection."""

    projector: Projector
    ahead: Dense
    """Point at which rows are evaluated."""
    before: Array
    """Point from which a primal-dual step starts; empty for an accelerated one."""
    weight: float = 1.0
    """ω between the primal and the dual step, or 1/L of an accelerated one."""
    moved: float = 0.0
    """‖S − W̃‖² of the latest step."""
    momentum: float = 1.0
    """t_k of an accelerated step."""
    begun: bool = False
    """Whether both points are those of the run."""


class ProjectedStep(AtomStep):
    """Base of steps to projections."""

    proofs = (20, 10)
    state: ProjectedState

    def __init__(self, problem: Problem, projector: Projector) -> None:
        super().__init__(problem.domain)
        zeros = np.zeros(problem.domain.shape, problem.dtype)
        self.state = ProjectedState(projector, Dense(zeros), np.empty(0, problem.dtype))
        self._room = np.empty_like(zeros)

    def over(self, domain: Domain) -> None:
        super().over(domain)
        projector = domain.projector()
        assert projector is not None
        self.state.projector, self.state.begun = projector, False

    def ahead(self, W: Dense) -> Dense:
        s = self.state
        if not s.begun:
            s.ahead.array[...] = W.array
            if s.before.size:
                s.before[...] = W.array
            s.begun = True
        return s.ahead


@dataclass(frozen=True)
class Relaxation:
    """Primal-dual steps over domains with a projection, see `RelaxedStep`.

    Parameters
    ----------
    relax : float, default 1.7
        How far both sides go, in units of their steps; between 1 and 2.
    """

    relax: float = 1.7

    def suits(self, problem: Problem, pairs: Iterable[tuple[Estimator, Term]]) -> bool:
        """Whether the domain has a projection, and all rows are kept for it."""
        able = problem.domain.projector() is not None and bool(problem.composite)
        return able and all(isinstance(e, Relaxed) for e, _ in pairs)

    def begin(self, problem: Problem, rows: Sequence[Keeper]) -> AtomStep:
        """The step of a run."""
        return RelaxedStep(problem, cast(Projector, problem.domain.projector()), rows, self)


class RelaxedStep(ProjectedStep):
    r"""The primal half of over-relaxed primal-dual steps; `condgrad.estimators.Relaxed` the other.

    .. math:: S = \mathrm{proj}(\tilde W - τ A^*y),\qquad
              γ = h'_{1/σ}\bigl(A(2S - \tilde W) + y/σ\bigr),\qquad
              (\tilde W, y) ← (\tilde W, y) + ρ\,(S - \tilde W,\; γ - y)

    with σ = ω/‖A‖ and τ = 1/(ω‖A‖); W is S. Rows count by their length, as for `PrimalDualStep`,
    and f is taken by its prox, but for linear terms, which enter the direction as they are.

    Proved: with ω fixed and ρ in (0, 2), σ τ ‖A‖² = 1 suffices for convergence in finite dimensions
    ([1]_, Theorem 3.3). Here ω moves, ever more rarely and less, and projections of large matrices
    are accurate only up to what a warm subspace gives. γ is dual feasible, so that bounds hold
    whatever the steps are.

    References
    ----------
    .. [1] L. Condat, "A primal-dual splitting method for convex optimization involving
       Lipschitzian, proximable and linear composite terms", J. Optim. Theory Appl. 158, 2013.
    """

    weighs = False
    """True if the step moves ω by itself."""

    def __init__(
        self, problem: Problem, projector: Projector, rows: Sequence[Keeper], rule: Relaxation
    ) -> None:
        super().__init__(problem, projector)
        self._rule, self.state.before = rule, np.zeros_like(self._room)
        self.own = [r for r in rows if not isinstance(r.term.function, Linear)]
        symmetric = problem.domain.symmetric
        norms = [r.term.map.norm(symmetric) / length_of(r) for r in self.own]
        self.norm = float(np.linalg.norm(norms)) or 1.0

    def params(self, p: Params) -> Params:
        beta = self.norm / self.state.weight
        return replace(p, eta=1.0, beta=beta, beta_before=beta, theta=self._rule.relax)

    def move(
        self, W: Dense, v: Array, own: Sequence[Params], rng: np.random.Generator, lap: Lap
    ) -> int:
        s, D, real = self.state, self._room, v.dtype.type
        np.multiply(v, real(-1 / (s.weight * self.norm)), out=D)
        D += s.before
        S, products = s.projector.nearest(D)
        lap("oracle")
        np.subtract(S, s.before, out=D)
        s.moved = float(np.vdot(D, D))
        np.add(S, D, out=s.ahead.array)
        D *= real(self._rule.relax)
        s.before += D
        W.place(S)
        return products

    def ratio(self, W: Array) -> float:
        """Best ω by the latest changes and by the sizes of both sides."""
        relax, changes, sizes = self._rule.relax, 0.0, 0.0
        for r in self.own:
            assert isinstance(r.estimator, Relaxed)
            unit = length_of(r) ** 2
            changes += unit * r.term.weight**2 * r.estimator.change(r.state, relax)
            sizes += unit * r.dual_square
        below = self.state.moved * float(np.vdot(W, W))
        return float((changes * sizes / below) ** 0.25) if below > 0 else 0.0


@dataclass(frozen=True)
class Ratio:
    r"""ω between the primal and the dual step, by the sizes of both sides and of their changes.

    .. math:: ω^2 = \frac{‖Δy‖}{‖ΔW‖}\,\frac{‖y‖}{‖W‖}

    which balances relative residuals, as is usual for the penalty of an ADMM. ω begins with the
    curvature of f and moves towards this, ever more rarely: after iteration 3, after 5 more and
    then after a tenth more each time; by a factor of at most 4 up to iteration 10 and 2 later, and
    half of the way, on a logarithmic scale, from iteration 50 on.
    """

    first: int = 3
    every: int = 5
    share: float = 0.1

    def begin(
        self,
        problem: Problem,
        W: Array,
        tolerances: tuple[float, float, float],
        certificate: Certificate,
        step: AtomStep,
        propose: Propose | None = None,
    ) -> Balanced:
        """The control of a run from W."""
        assert isinstance(step, RelaxedStep)
        return Balanced(self, problem, W, step)


@dataclass
class RatioState:
    """State of control."""

    factors: list[float]
    """β_t is this multiple of ‖A‖/ω."""
    due: float
    """The next iteration to move ω after."""


class Balanced:
    """`Ratio` in a run."""

    def __init__(self, rule: Ratio, problem: Problem, W: Array, step: RelaxedStep) -> None:
        self._rule, self._step = rule, step
        lengths = [t.map.row_norm or 1.0 for t in problem.terms]
        factors = [t.weight * a**2 for t, a in zip(problem.terms, lengths, strict=True)]
        self.state = RatioState(factors, rule.first)
        bend = sum(
            t.weight * t.function.smoothness * (t.map.row_norm or 1.0) ** 2
            for t in problem.smooth
            if isinstance(t.function, Smooth)
        )
        if not bend:
            guess = zip(first_factors(problem, W, 0.5), factors, problem.terms, strict=True)
            betas = [b / c for b, c, t in guess if not t.function.smooth]
            bend = step.norm / float(np.mean(betas))
        step.state.weight = float(bend)

    def aim(self, tolerances: tuple[float, float, float]) -> None:
        """Tolerances play no part."""

    def over(self, problem: Problem, W: Array, k: int, certificate: Certificate) -> None:
        """Go on over another domain: ω stays where it is, and may move at once."""
        self.state.due = k + self._rule.first

    def params(self, i: int, p: Params) -> Params:
        """The scalars of an iteration as term i sees them."""
        factor = self.state.factors[i]
        return replace(p, beta=factor * p.beta, beta_before=factor * p.beta_before)

    def betas(self, p: Params) -> list[float]:
        """β of every term."""
        return [factor * p.beta for factor in self.state.factors]

    def after(self, p: Params, W: Array, rows: Sequence[Keeper]) -> None:
        """Move ω where that is due."""
        if p.k < self.state.due or self._step.weighs:
            return
        self.state.due = max(p.k + self._rule.every, p.k * (1 + self._rule.share))
        s, most = self._step.state, 4.0 if p.k <= 10 else 2.0
        target = self._step.ratio(W) / s.weight
        if np.isfinite(target) and target > 0:
            s.weight *= min(max(target, 1 / most), most) ** (1.0 if p.k < 50 else 0.5)


RELAXATION, RATIO = Relaxation(), Ratio()


def nearest_by(domain: Domain) -> Projector | None:
    """Projector onto a domain, also of a spectrahedron on the CPU, if no g needs multipliers.

    Of a large one all eigenvectors take too long.
    """
    found, face = domain.projector(), domain.face
    if found is not None or face is None or foreign(face.basis) or domain.shape[0] > LARGE:
        return found
    return FaceProjector(face)


@dataclass(frozen=True)
class Accelerated:
    """Accelerated gradient steps over domains with a projection."""

    def suits(self, problem: Problem, pairs: Iterable[tuple[Estimator, Term]]) -> bool:
        """Whether all terms are smooth and some are not linear, and the domain has a projection."""
        able = nearest_by(problem.domain) is not None and not problem.composite
        return able and any(bent(t) for t in problem.terms) and all(e.whole(t) for e, t in pairs)

    def begin(self, problem: Problem, rows: Sequence[Keeper]) -> AtomStep:
        """The step of a run."""
        return AcceleratedStep(problem, cast(Projector, nearest_by(problem.domain)), rows)


class AcceleratedStep(ProjectedStep):
    r"""Projected gradient steps with extrapolation and restarts.

    .. math:: W ← S = \mathrm{proj}(Z - ∇f(Z)/L), \qquad
              Z ← S + \frac{t_k - 1}{t_{k+1}}(S - W)

    with t_{k+1} = (1 + √(1 + 4t_k²))/2. t begins anew where ⟨Z − S, S − W⟩ > 0, the gradient scheme
    of [2]_. L is measured: a step with Σ_t ω_t L_t ‖A_t(S − Z)‖² > L‖S − Z‖² is made anew with 1.2
    times that curvature, and L falls by a tenth after a step. It begins with a few products, and
    never exceeds 1.2 Σ_t ω_t L_t ‖A_t‖².

    Proved: without restarts, and if L did not fall, f − f* ≤ 2L‖W_1 − W*‖²/(k + 1)² for the last L
    ([1]_, exact projections).

    References
    ----------
    .. [1] A. Beck, M. Teboulle, "A fast iterative shrinkage-thresholding algorithm for linear
       inverse problems", SIAM J. Imaging Sci. 2(1), 2009.
    .. [2] B. O'Donoghue, E. Candès, "Adaptive restart for accelerated gradient schemes", Found.
       Comput. Math. 15, 2015.
    """

    def __init__(self, problem: Problem, projector: Projector, rows: Sequence[Keeper]) -> None:
        super().__init__(problem, projector)
        self._rows, self._guess = rows, sum(_bend(t) for t in problem.terms)
        self.state.weight = 1 / self._guess

    def over(self, domain: Domain) -> None:
        AtomStep.over(self, domain)
        projector = nearest_by(domain)
        assert projector is not None
        self.state.projector, self.state.begun = projector, False

    def params(self, p: Params) -> Params:
        return replace(p, eta=1.0, beta=1.0, beta_before=1.0)

    def move(
        self, W: Dense, v: Array, own: Sequence[Params], rng: np.random.Generator, lap: Lap
    ) -> int:
        s, D, Z, real = self.state, self._room, self.state.ahead.array, v.dtype.type
        L, products = max(0.9 / s.weight, 1e-6 * self._guess), 0
        while True:
            np.multiply(v, real(-1 / L), out=D)
            D += Z
            S, spent = s.projector.nearest(D)
            products += spent
            np.subtract(S, Z, out=D)
            lap("oracle")
            square = float(np.vdot(D, D))
            bend = curvature(self._rows, D) / square if square > 0 else 0.0
            if bend <= L:
                break
            L = 1.2 * bend
        s.weight = 1 / L
        np.subtract(S, W.array, out=D)
        if float(np.vdot(Z - S, D)) > 0:
            s.momentum = 1.0
        later = (1 + np.sqrt(1 + 4 * s.momentum**2)) / 2
        np.multiply(D, real((s.momentum - 1) / later), out=Z)
        Z += S
        s.momentum = float(later)
        W.place(S)
        return products


ACCELERATED = Accelerated()
PRODUCTS = 6
"""Products with A*A for a first guess of its norm."""


def curvature(rows: Sequence[Keeper], D: Array) -> float:
    """Σ_t ω_t L_t ‖A_t D‖², all terms smooth."""
    total = 0.0
    for r in rows:
        h = r.term.function
        assert isinstance(h, Smooth)
        if h.smoothness:
            total += r.term.weight * h.smoothness * r.measure(D)
    return total


def bent(term: Term) -> bool:
    """Whether a term has a curvature."""
    h = term.function
    return isinstance(h, Smooth) and bool(h.smoothness * term.map.row_norm)


def _bend(term: Term) -> float:
    """About ω L ‖A‖², by a few products; never more."""
    h, map = term.function, term.map
    if not isinstance(h, Smooth) or not h.smoothness:
        return 0.0
    x, value = np.random.default_rng(0).standard_normal(map.shape), 0.0
    for _ in range(PRODUCTS):
        norm = float(np.linalg.norm(x))
        if not 0 < norm < np.inf:
            break
        z = map.rows(x / norm)
        x, value = map.adjoint(z), float(np.vdot(z, z))
    return float(term.weight * h.smoothness * value)


def length_of(rows: Keeper) -> float:
    """The length of the rows."""
    return float(rows.term.map.row_norm) or 1.0
