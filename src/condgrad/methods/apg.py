"""APG: accelerated projected gradients with restarts, for g = 0."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from condgrad._types import Array
from condgrad.domains import Domain
from condgrad.domains.projections import FaceProjector, Frame, Projector
from condgrad.methods.protocol import Known, Method, State, curvature_of, direction, gradient
from condgrad.methods.register import declare, refusal
from condgrad.problem import Problem, Term

LARGE = 1000
"""Side of a spectrahedron beyond which all eigenvectors, for a step, take too long."""
PRODUCTS = 6
"""Products with A*A for a first guess of its norm."""


@dataclass(kw_only=True)
class SmoothState(State):
    """The iterate, and the latest gradient of f."""

    gradients: list[Array]
    """Cotangents of the latest gradient, one for every term."""


@dataclass(kw_only=True)
class ApgState(SmoothState):
    """The iterate, the point ahead of it, and the length of a step."""

    ahead: Array
    """Z, from which a step starts."""
    most: float
    """About Σ ω L ‖A‖², the first L."""
    length: float
    """1/L of the latest step."""
    momentum: float = 1.0
    """t_k of the extrapolation."""
    frame: Frame = None
    """Arrays with which the next projection begins."""


@dataclass(frozen=True)
class Apg(Method):
    r"""Projected gradient steps with extrapolation and restarts.

    .. math:: W ← S = \mathrm{proj}(Z - ∇f(Z)/L), \qquad
              Z ← S + \frac{t_k - 1}{t_{k+1}}(S - W)

    with t_{k+1} = (1 + √(1 + 4t_k²))/2. t begins anew if ⟨Z − S, S − W⟩ > 0, the gradient scheme of
    [2]_.

    L is measured, at first by a few products, and falls by a tenth after a step. If
    Σ_t ω_t L_t ‖A_t(S − Z)‖² > L‖S − Z‖² the step is made anew with 1.2 times that curvature. So L
    never exceeds 1.2 Σ_t ω_t L_t ‖A_t‖².

    Proved: without restarts, with exact projections, and if L did not fall,
    f − f* ≤ 2L‖W_1 − W*‖²/(k + 1)² for the last L [1]_.

    References
    ----------
    .. [1] A. Beck, M. Teboulle, "A fast iterative shrinkage-thresholding algorithm for linear
       inverse problems", SIAM J. Imaging Sci. 2(1), 2009.
    .. [2] B. O'Donoghue, E. Candès, "Adaptive restart for accelerated gradient schemes", Found.
       Comput. Math. 15, 2015.
    """

    proofs: ClassVar[tuple[int, int]] = (20, 10)
    slug: str = "apg"
    name: str = "APG"

    def suits(self, problem: Problem) -> str | None:
        able = projector_of(problem.domain) is not None and curved(problem)
        return None if able else refusal(self)

    def init(
        self, problem: Problem, W: Array, rng: Any, known: Known, multipliers: object = None
    ) -> ApgState:
        most = sum(_lipschitz(t) for t in problem.terms)
        gradients = [t.map.zeros(problem.dtype) for t in problem.terms]
        own = {"ahead": W.copy(), "most": most, "length": 1 / most}
        return ApgState.begun(problem, W, rng, known, gradients=gradients, **own)

    def step(self, problem: Problem, state: ApgState, at_most: int = 1) -> ApgState:
        s, Z = state, state.ahead
        S, L = self._stepped(problem, s, gradient_at(problem, s, Z))
        D = np.subtract(S, s.W)
        if float(np.vdot(Z - S, D)) > 0:
            s.momentum = 1.0
        later = float((1 + np.sqrt(1 + 4 * s.momentum**2)) / 2)
        np.multiply(D, D.dtype.type((s.momentum - 1) / later), out=Z)
        Z += S
        s.W[...] = S
        s.momentum, s.length = later, 1 / L
        s.k, s.calls, s.eta, s.beta = s.k + 1, s.calls + 1, 1.0, 1.0
        return s

    def _stepped(self, problem: Problem, s: ApgState, v: Array) -> tuple[Array, float]:
        """The projection of Z − v/L, and an L that is not below the curvature on the way there."""
        projector, Z = projector_of(problem.domain), s.ahead
        assert projector is not None
        L = max(0.9 / s.length, 1e-6 * s.most)
        while True:
            D = np.multiply(v, v.dtype.type(-1 / L))
            D += Z
            S, s.frame, spent = projector.project(D, s.frame)
            s.products += spent
            np.subtract(S, Z, out=D)
            square = float(np.vdot(D, D))
            bend = curvature(problem, D) / square if square > 0 else 0.0
            if bend <= L:
                return S, L
            L = 1.2 * bend

    def rebase(self, problem: Problem, state: ApgState, share: float) -> ApgState:
        state.ahead[...] = state.W
        state.frame = None
        return state


def projector_of(domain: Domain) -> Projector | None:
    """Projector onto a domain, and also onto a spectrahedron of side up to `LARGE`."""
    found, face = domain.projector(), domain.face
    if found is not None or face is None or domain.shape[0] > LARGE:
        return found
    return FaceProjector(face)


def gradient_at(problem: Problem, s: SmoothState, W: Array) -> Array:
    """∇f(W), with its rows counted and its cotangents in the state."""
    for i, t in enumerate(problem.terms):
        s.rows[i] += gradient(t, W, s.gradients[i], 1.0)
    return direction(problem, s.gradients)


def curved(problem: Problem) -> bool:
    """Whether g = 0 and some term of f has a curvature."""
    return not problem.composite and any(curvature_of(t) * t.map.row_norm for t in problem.terms)


def curvature(problem: Problem, D: Array) -> float:
    """Σ_t ω_t L_t ‖A_t D‖², all terms smooth."""
    own = [t for t in problem.terms if curvature_of(t)]
    return sum(curvature_of(t) * t.passes.squares(D, [slice(0, t.map.size)], None) for t in own)


def _lipschitz(term: Term) -> float:
    """About ω L ‖A‖², by a few products; never more."""
    x, value = np.random.default_rng(0).standard_normal(term.map.shape), 0.0
    for _ in range(PRODUCTS if curvature_of(term) else 0):
        norm = float(np.linalg.norm(x))
        if not 0 < norm < np.inf:
            break
        z = term.map.rows(x / norm)
        x, value = term.map.adjoint(z), float(np.vdot(z, z))
    return curvature_of(term) * value


@declare(
    "apg",
    "APG",
    estimates="full, –",
    needs="f smooth and not linear; g = 0; a domain with a projection",
    iterations="ε⁻¹ᐟ²",
    cost="ε⁻¹ᐟ² d n",
    exponent=2.0,
    reference="Beck, Teboulle, SIAM J. Imaging Sci. 2(1), 2009; O'Donoghue, Candès, Found. Comput. "
    "Math. 15, 2015, for restarts",
)
def apg() -> Apg:
    """Accelerated projected gradients with restarts, for g = 0.

    W goes to the projection of an extrapolated point. `condgrad.methods.apg.Apg` says what is
    proved.
    """
    return Apg()
