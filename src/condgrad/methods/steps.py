"""How W moves along a direction: to an atom of the oracle, or to a low-rank point."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.linalg

from condgrad._types import Array, Params
from condgrad.backends import ops
from condgrad.domains import Domain
from condgrad.domains.eigen import deflated
from condgrad.domains.spectral import Face
from condgrad.estimators import Estimator, Full, SagAugmented, State, TableState
from condgrad.functions import Smooth
from condgrad.functions.block import project_simplex
from condgrad.points.atoms import Atom
from condgrad.points.dense import Dense
from condgrad.problem import Problem

Lap = Callable[[str], object]


@dataclass(frozen=True)
class Atoms:
    """Steps to atoms: W ← (1 − η_k) W + η_k s, η_k that of the schedule."""


@dataclass(frozen=True)
class Spectral:
    """Low-rank steps over a spectrahedron, see `BlockStep`; elsewhere steps to atoms.

    They want f taken in full, a `SagAugmented` estimator of every composite term, and β0 found.

    Parameters
    ----------
    share : float, default 10
        η_k = share/(k + share), or 1 where every row is drawn at every iteration.
    theta : float, default 1/2
        θ of the multipliers' step.
    safety, safety_whole : float, default 4 and 2
        Factor on the measured curvature, and where every row is drawn.
    recent : float, default 0.9
        Weight of the measured curvature from one iteration to the next.
    slow : float, default 0.02
        How fast it falls.
    guard : int, default 6
        Vectors kept beyond the rank, or a quarter of the rank where that is more.
    small : int, default 100
        Up to this side a part is taken apart whole.
    """

    share: float = 10.0
    theta: float = 0.5
    safety: float = 4.0
    safety_whole: float = 2.0
    recent: float = 0.9
    slow: float = 0.02
    guard: int = 6
    small: int = 100


ATOMS, SPECTRAL = Atoms(), Spectral()


@dataclass
class AtomState:
    """What a step to an atom remembers."""

    last: Atom | None = None
    """The atom before, near which the next one may lie."""


@dataclass
class BlockState:
    """What a block step remembers."""

    squares: list[float]
    """Σ ‖A_t D‖² over the latest steps, a weighted sum for every term; …"""
    curvature: list[float]
    """… relative to that of ‖D‖², rising at once and falling slowly."""
    length: float
    """Σ ‖D‖² with the same weights."""
    frames: list[Array | None]
    """Vectors that serve the next step, for every part."""
    D: Array
    """The step before."""


class AtomStep:
    r"""W ← (1 − η_k) W + η_k s, s the oracle's answer to the direction v."""

    press = 1.0
    """How much the worst row of a family counts beside the family where β is adapted."""

    def __init__(self, domain: Domain) -> None:
        self._domain = domain
        self.state: Any = AtomState()

    def over(self, domain: Domain) -> None:
        """Go on over another domain."""
        self._domain = domain

    def params(self, p: Params) -> Params:
        """The scalars of an iteration that goes with this step."""
        return p

    def move(
        self, W: Dense, v: Array, own: Sequence[Params], rng: np.random.Generator, lap: Lap
    ) -> int:
        """Move W; return the matrix-vector products spent. `own` has the scalars of every term."""
        near = self._domain.hint(W.array, self.state.last)
        atom = self._domain.lmo(v, effort=own[0].effort, hint=near, rng=rng)
        self.state.last = atom
        lap("oracle")
        W.step(own[0].eta, atom)
        return atom.products


class BlockStep(AtomStep):
    r"""W ← (1 − η_k) W + η_k S, S the minimiser of ⟨v, S⟩ + (η_k L/2)‖S − W‖² over a spectrahedron.

    S is the projection of X = W − v/(η_k L), of low rank where the solutions have low rank: a block
    of atoms instead of one. It is found block by block by Rayleigh-Ritz on the span of K and XK, K
    the vectors of the step before; where those are more than n/4, up to side 100 and at the second
    step, a block of X is taken apart whole. The first step goes to an atom, and all the way.

    L is measured: Σ_t ω_t c_t ‖A_t D‖²/‖D‖², D the step before and c_t = 1/β_t, or the smoothness
    of a term of f, over the drawn rows with a slope other than 0, as a mean over the latest steps
    that rises at once and falls slowly, times a safety. β_t stays where control puts it, and θ is
    1/2.

    Where every row is drawn every time η is 1. For equalities that is the linearised method of
    multipliers with penalty ρ = ω/(2β), y ← y + ρ(AW − b) and then
    W ← proj(W − (∇f + A*(y + ρ(AW − b)))/L), which converges for L ≥ ρ‖A‖² where f is linear and β
    stays [3]_; a measured L may be less, and β moves. With inequalities, and elsewhere, no rate is
    proved. Where the estimates lag by a round of blocks, η_k falls and the safety is larger; those
    constants were chosen on nine graphs (docs/certificates.md).

    References
    ----------
    .. [1] Z. Allen-Zhu, E. Hazan, W. Hu, Y. Li, "Linear convergence of a Frank-Wolfe type algorithm
       over trace-norm balls", NeurIPS 2017.
    .. [2] L. Ding, Y. Fei, Q. Xu, C. Yang, "Spectral Frank-Wolfe algorithm", ICML 2020.
    .. [3] J. Yang, X. Yuan, "Linearized augmented Lagrangian and alternating direction methods for
       nuclear norm minimization", Math. Comp. 82, 2013.
    """

    press = 0.0

    def __init__(
        self, problem: Problem, face: Face, states: Sequence[State], rule: Spectral
    ) -> None:
        super().__init__(problem.domain)
        self._rule = rule
        self._terms, self._states, self._face = problem.terms, states, face
        size, shape = len(problem.terms), problem.domain.shape
        self.state: BlockState = BlockState(
            [0.0] * size, [0.0] * size, 0.0, [None] * len(face.parts), np.zeros(shape)
        )
        self._X = np.empty(shape)
        drawers = [s.blocks for s in states if isinstance(s, TableState)]
        self._whole = all(len(d.starts) == 1 for d in drawers)

    def over(self, domain: Domain) -> None:
        super().over(domain)
        parts, self._face = self._face.parts, domain.face  # type: ignore[attr-defined]
        if self._face.parts != parts:
            self.state.frames = [None] * len(self._face.parts)

    def params(self, p: Params) -> Params:
        eta = 1.0 if self._whole else self._rule.share / (p.k + self._rule.share)
        return replace(p, eta=eta, beta=1.0, beta_before=1.0, theta=self._rule.theta)

    def move(
        self, W: Dense, v: Array, own: Sequence[Params], rng: np.random.Generator, lap: Lap
    ) -> int:
        eta, D, face = own[0].eta, self.state.D, self._face
        if own[0].k == 1:
            atom = self._domain.lmo(v, effort=own[0].effort, hint=W.array, rng=rng)
            np.subtract(atom.dense(), W.array, out=D)
            products = atom.products
        else:
            L = self._lipschitz([p.beta for p in own])
            L = max(eta * L, 1e-9 * float(np.linalg.norm(v)) / face.trace) or 1.0
            X = self._X
            ops.symmetric_part(v, X)
            X *= -1 / L
            X += W.array
            if face.offset is not None:
                X -= face.offset
            products = self._project(X, D)
            if face.offset is not None:
                D += face.offset
            D -= W.array
            D *= eta
        lap("oracle")
        W.shift(D)
        return products

    def _lipschitz(self, betas: Sequence[float]) -> float:
        """L at the step before."""
        own = self.state
        own.length = self._rule.recent * own.length + float(np.vdot(own.D, own.D))
        safety, total = self._rule.safety_whole if self._whole else self._rule.safety, 0.0
        for i, (t, s, beta) in enumerate(zip(self._terms, self._states, betas, strict=True)):
            bend = 1 / beta
            if isinstance(t.function, Smooth):
                bend = t.function.smoothness
                if bend == 0:
                    continue
            slopes = s.slopes if t.function.indicator and isinstance(s, TableState) else None
            drawn = s.drawn if isinstance(s, TableState) and s.drawn else [slice(0, t.map.size)]
            share = t.map.size / sum(at.stop - at.start for at in drawn)
            found = share * t.keeper.squares(own.D, drawn, slopes)
            own.squares[i] = self._rule.recent * own.squares[i] + found
            now, was = own.squares[i] / max(own.length, 1e-300), own.curvature[i]
            own.curvature[i] = max(now, was + self._rule.slow * (now - was))
            total += safety * t.weight * own.curvature[i] * bend
        return total

    def _project(self, X: Array, out: Array) -> int:
        """Write the projection of X to `out`; return the products with X it took."""
        face = self._face
        found = [self._spectrum(i, X[part, part]) for i, part in enumerate(face.parts)]
        diagonal = np.einsum("ii->i", X)[face.diagonal]
        values = np.concatenate([*(f[0] for f in found), diagonal])
        d = np.maximum(values, 0.0)
        if face.equality or d.sum() > face.trace:
            d = project_simplex(values, face.trace)
        if len(face.parts) != 1 or diagonal.size:
            out.fill(0)
        products, start = 0, 0
        for i, (part, (own, vectors, spent)) in enumerate(zip(face.parts, found, strict=True)):
            U = self._keep(i, d[start : start + own.size], vectors)
            if out[part, part].flags.c_contiguous:
                np.dot(U, U.T, out=out[part, part])
            else:
                out[part, part] = U @ U.T
            products, start = products + spent, start + own.size
        np.einsum("ii->i", out)[face.diagonal] = d[start:] if diagonal.size else 0.0
        return products

    def _spectrum(self, i: int, X: Array) -> tuple[Array, Array, int]:
        """Leading eigenpairs of block i in falling order, off the pinned vectors, and products."""
        n, Q, K, products = X.shape[0], self._pinned(i), self.state.frames[i], 0
        if n <= self._rule.small or K is None:
            P, T = None, -deflated(-X, Q)
        else:
            Y = X @ K
            Y -= Q @ (Q.T @ Y)
            Y -= K @ (K.T @ Y)
            Y /= np.maximum(np.linalg.norm(Y, axis=0), 1e-300)
            P = scipy.linalg.qr(np.hstack([Q, K, Y]), mode="economic", check_finite=False)[0]
            P = P[:, Q.shape[1] :]  # off the pinned vectors even where Y is rounding
            T, products = P.T @ (X @ P), 3 * K.shape[1]
        values, vectors = scipy.linalg.eigh(T, check_finite=False)
        free = n - Q.shape[1]  # the pinned come last
        values, vectors = values[::-1][:free], vectors[:, ::-1][:, :free]
        return values, vectors if P is None else P @ vectors, products

    def _pinned(self, i: int) -> Array:
        return self._face.basis[self._face.parts[i]]

    def _keep(self, i: int, d: Array, vectors: Array) -> Array:
        """U with UUᵀ the projection of block i; its vectors and some more serve the next step."""
        n, Q, rank = vectors.shape[0], self._pinned(i), int(np.count_nonzero(d))
        frame = vectors[:, : rank + max(self._rule.guard, rank // 4)]
        frame = frame - Q @ (Q.T @ frame)
        self.state.frames[i] = frame if frame.shape[1] <= n // 4 else None
        U: Array = frame[:, :rank] * np.sqrt(d[:rank])
        return U


def step_of(
    rule: Atoms | Spectral,
    problem: Problem,
    estimators: Sequence[Estimator],
    states: Sequence[State],
) -> AtomStep:
    """The step of a run: that of the rule, where problem and domain have what it needs."""
    face = getattr(problem.domain, "face", None)
    fits = isinstance(rule, Spectral) and face is not None and bool(problem.composite)
    for t, e in zip(problem.terms, estimators, strict=True):
        fits = fits and isinstance(e, Full if t.function.smooth else SagAugmented)
    if fits:
        assert isinstance(face, Face)
        assert isinstance(rule, Spectral)
        return BlockStep(problem, face, states, rule)
    return AtomStep(problem.domain)
