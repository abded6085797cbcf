"""Steps to low-rank points: the projection of a matrix onto a spectrahedron."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from condgrad._types import Array, Params
from condgrad.backends.arrays import beyond, eigenpairs, foreign, host, namespace
from condgrad.backends.scalars import norm, products
from condgrad.domains import Domain, Face
from condgrad.domains.bottom import FEW, bottom
from condgrad.domains.eigen import deflated
from condgrad.estimators import Estimator
from condgrad.functions import Smooth
from condgrad.functions.group import project_simplex
from condgrad.methods.ritz import Mixed, Room, ritz, room_of
from condgrad.methods.steps import AtomStep, Lap
from condgrad.points.dense import Dense
from condgrad.points.low_rank import LowRank, Products
from condgrad.problem import Problem, Term
from condgrad.rows import Keeper

BLOCKS = 600
"""Side from which the first step on a GPU begins with a block and not with all eigenvectors."""


def fits(problem: Problem, pairs: Iterable[tuple[Estimator, Term]]) -> bool:
    """Whether the domain is a spectrahedron, and estimators allow steps to projections."""
    known = problem.domain.face is not None and bool(problem.composite)
    return known and all(e.steps_by(t) for e, t in pairs)


def face_for(problem: Problem, rows: Sequence[Keeper]) -> Face | None:
    """Face that a projection onto the domain needs, or None if it cannot be used."""
    able = fits(problem, [(r.estimator, r.term) for r in rows])
    return problem.domain.face if able else None


@dataclass(frozen=True)
class Spectral:
    """Low-rank steps over a spectrahedron, see `SpectralStep`; elsewhere steps to atoms.

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

    def suits(self, problem: Problem, pairs: Iterable[tuple[Estimator, Term]]) -> bool:
        """True: off spectrahedra the steps go to atoms."""
        return True

    def begin(self, problem: Problem, rows: Sequence[Keeper]) -> AtomStep:
        """The step of a run: this one, where problem and estimators have what it needs."""
        face = face_for(problem, rows)
        return AtomStep(problem.domain) if face is None else SpectralStep(problem, face, rows, self)


SPECTRAL = Spectral()


@dataclass
class Decomposition:
    """All eigenpairs of a matrix in falling order, off the pinned vectors."""

    vectors: Array
    values: Array
    uses: int = 0
    """Later steps that it served."""


@dataclass
class FrameState:
    """State of a step to the projection of a matrix."""

    frames: list[Array | None]
    """Vectors that serve the next step, for every part."""
    D: Array
    """The step before."""
    whole: list[Decomposition | None]
    """The latest decomposition of every part, where it serves later steps."""


@dataclass
class SpectralState(FrameState):
    """State of a spectral step."""

    squares: list[float]
    """Σ ‖A_t D‖² over the latest steps, a weighted sum for every term."""
    curvature: list[float]
    """`squares` over `length` for every term, rising at once and falling slowly."""
    length: float
    """Σ ‖D‖² with the same weights."""


class Spectrum(NamedTuple):
    """Leading eigenpairs of a part of a matrix."""

    values: Array
    """In falling order, in an array of NumPy: there are few of them."""
    vectors: Array | Mixed
    products: int
    """Vectors that the part was multiplied by."""
    beginning: int = 0
    """The columns of a block that was found from nothing; where more are used there may be more."""


class FrameStep(AtomStep):
    """Steps to the projection of a matrix onto a spectrahedron, part by part.

    It is found by Rayleigh-Ritz on the span of K and XK, K the vectors of the step before. Up to
    side `small` a part of X is taken apart whole, and so it is where K has more than n/4 columns,
    but for up to `again` steps afterwards in which it has at most n/2: there K is corrected by a
    Davidson step, its residual divided by the differences of eigenvalues in the basis of the latest
    decomposition.
    """

    press = 0.0
    again = 8
    state: FrameState

    def __init__(
        self, problem: Problem, face: Face, rows: Sequence[Keeper], guard: int, small: int
    ) -> None:
        super().__init__(problem.domain)
        self._rows, self._face = rows, face
        self._guard, self._small = guard, small
        self._rooms: dict[int, tuple[Room, Array]] = {}
        """Memory for the frame of a part on a GPU, and that frame, by part."""

    def over(self, domain: Domain) -> None:
        super().over(domain)
        assert domain.face is not None
        parts, self._face = self._face.parts, domain.face
        if self._face.parts != parts:
            self.state.frames = [None for _ in self._face.parts]
            self.state.whole = [None for _ in self._face.parts]

    @property
    def _sees(self) -> bool:
        """Whether `ritz` makes the next projection, which sees by itself what is not finite."""
        pairs, there = zip(self.state.frames, self.state.whole, strict=True), self._face.basis
        few = all(K is not None and W is None and K.shape[1] <= FEW for K, W in pairs)
        return foreign(there) and few and there.shape[0] > self._small

    def finite(self, v: Array) -> bool:
        return self._sees or super().finite(v)

    def _projection(self, X: Products) -> tuple[LowRank, int]:
        """The point nearest to X, and the products with X that it took."""
        face = self._face
        found = [self._spectrum(i, X) for i in range(len(face.parts))]
        d = self._shares(found, X)
        if any(f.beginning for f in found) and self._short(found, d):
            found = [self._spectrum(i, X, whole=True) for i in range(len(face.parts))]
            d = self._shares(found, X)
        factors, start = [], 0
        for i, (own, vectors, *_) in enumerate(found):
            factors.append(self._keep(i, d[start : start + own.size], vectors))
            start += own.size
        S = LowRank(face.parts, factors, face.diagonal, d[start:], face.offset)
        return S, sum(f.products for f in found)

    def _shares(self, found: Sequence[Spectrum], X: Products) -> Array:
        """The eigenvalues of the projection, in an array of NumPy."""
        face, values = self._face, [f.values for f in found]
        if face.diagonal.size:
            values.append(host(X.diagonal(face.diagonal)))
        joined = np.concatenate(values)
        d = np.maximum(joined, 0.0)
        if face.equality or d.sum() > face.trace:
            d = project_simplex(joined, face.trace)
        return d

    @staticmethod
    def _short(found: Sequence[Spectrum], d: Array) -> bool:
        """Whether a projection may want more vectors than a block has found."""
        ends = np.cumsum([f.values.size for f in found])
        used = [int(np.count_nonzero(own)) for own in np.split(d, ends)]
        return any(0 < f.beginning < count for f, count in zip(found, used, strict=False))

    def _spectrum(self, i: int, X: Products, whole: bool = False) -> Spectrum:
        """Leading eigenpairs of a part in falling order, off the pinned vectors, and products.

        On a GPU a large part begins with a block of vectors where none are known. Where few are,
        the products of all columns that are needed come to the CPU in one copy (`ritz`).
        """
        part, K, earlier = self._face.parts[i], self.state.frames[i], self.state.whole[i]
        Q = self._face.basis[part]
        n, products, there = Q.shape[0], 0, foreign(Q) and not whole
        if there and K is None and n > BLOCKS:
            K = bottom(-X.whole(part)).vectors
            K = K - Q @ (Q.T @ K) if Q.shape[1] else K
            return Spectrum(*ritz(X, part, room_of(K, Q)), beginning=K.shape[1])
        if there and K is not None and earlier is None and n > self._small and K.shape[1] <= FEW:
            room, known = self._rooms.get(i, (None, None))
            return Spectrum(*ritz(X, part, room if room and known is K else room_of(K, Q)))
        if n <= self._small or K is None or whole:
            P, T = None, -deflated(-X.whole(part), Q)
        else:
            if earlier is not None:
                P, products = beyond(Q, _corrected(X.times(part, K), K, Q, earlier)), 2 * K.shape[1]
            else:
                P, products = beyond(Q, K, _residual(X.times(part, K), K, Q)), 3 * K.shape[1]
            T = P.T @ X.times(part, P)
        values, vectors = eigenpairs(T)
        free = n - Q.shape[1]  # the pinned come last
        values, vectors = values[::-1][:free], vectors[:, ::-1][:, :free]
        if P is None and n > self._small:
            self.state.whole[i] = Decomposition(vectors, values)
        return Spectrum(values, vectors if P is None else P @ vectors, products)

    def _keep(self, i: int, d: Array, vectors: Array | Mixed) -> Array:
        """U with UUᵀ the projection of a part; its vectors and some more serve the next step."""
        Q = self._face.basis[self._face.parts[i]]
        n, rank, earlier = Q.shape[0], int(np.count_nonzero(d)), self.state.whole[i]
        count = rank + max(self._guard, rank // 4)
        U: Array
        if isinstance(vectors, Mixed):
            room, U = vectors.made(count, d[:rank])
            frame = room.K
            self._rooms[i] = room, frame
        else:
            frame = vectors[:, :count]
            frame = frame - Q @ (Q.T @ frame) if Q.shape[1] else frame
            U = frame[:, :rank] * np.asarray(np.sqrt(d[:rank]), like=frame)
        if frame.shape[1] <= n // 4:
            self.state.frames[i], self.state.whole[i] = frame, None
        elif earlier is not None and earlier.uses < self.again and rank < frame.shape[1] <= n // 2:
            self.state.frames[i], earlier.uses = frame, earlier.uses + 1
        else:
            self.state.frames[i] = None
        return U


def _residual(Y: Array, K: Array, Q: Array) -> Array:
    """Columns Y = XK off those of K and Q, of length 1."""
    xp = namespace(K)
    if Q.shape[1]:
        Y -= Q @ (Q.T @ Y)
    Y -= K @ (K.T @ Y)
    Y /= xp.maximum(xp.linalg.norm(Y, axis=0), 1e-300)
    return Y


def _corrected(Y: Array, K: Array, Q: Array, earlier: Decomposition) -> Array:
    """K nearer to eigenvectors of X, Y = XK, by those of a matrix that was near X.

    With V, λ the latter beyond the columns of K and θ the Rayleigh quotients of these, a column is
    changed by V (Vᵀ(XK − Kθ) / (θ − λ)): to first order that makes it an eigenvector.
    """
    xp, columns = namespace(K), K.shape[1]
    T = K.T @ Y
    V, values = earlier.vectors[:, columns:], np.asarray(earlier.values, like=K)
    apart = xp.diagonal(T) - values[columns:, None]
    least = 1e-3 * (values[0] - values[-1]) or 1.0  # where all are the same
    return K + V @ ((V.T @ (Y - K @ T)) / xp.maximum(apart, least))


class SpectralStep(FrameStep):
    r"""W ← (1 − η_k) W + η_k S, S the minimiser of ⟨v, S⟩ + (η_k L/2)‖S − W‖² over a spectrahedron.

    S is the projection of X = W − v/(η_k L), of low rank where the solutions have low rank: a block
    of atoms instead of one. It is found part by part by Rayleigh-Ritz on the span of K and XK, K
    the vectors of the step before, see `FrameStep`. The first step goes to an atom, all the way.

    L is measured: Σ_t ω_t c_t ‖A_t D‖²/‖D‖², D the step before and c_t = 1/β_t, or the smoothness
    of a term of f, over the drawn rows with a slope other than 0, as a mean over the latest steps
    that rises at once and falls slowly, times a safety. β_t stays where control puts it, and θ is
    1/2.

    Where every row is drawn every time η is 1. For equalities that is the linearised method of
    multipliers with penalty ρ = ω/(2β), y ← y + ρ(AW − b) and then
    W ← proj(W − (∇f + A*(y + ρ(AW − b)))/L), which converges for L ≥ ρ‖A‖² where f is linear and β
    stays [3]_; a measured L may be less, and β moves. With inequalities, and elsewhere, no rate is
    proved. Where the estimates lag by a round of stretches, η_k falls and the safety is larger;
    those constants were chosen on nine graphs (docs/certificates.md).

    References
    ----------
    .. [1] Z. Allen-Zhu, E. Hazan, W. Hu, Y. Li, "Linear convergence of a Frank-Wolfe type algorithm
       over trace-norm balls", NeurIPS 2017.
    .. [2] L. Ding, Y. Fei, Q. Xu, C. Yang, "Spectral Frank-Wolfe algorithm", ICML 2020.
    .. [3] J. Yang, X. Yuan, "Linearized augmented Lagrangian and alternating direction methods for
       nuclear norm minimization", Math. Comp. 82, 2013.
    """

    def __init__(
        self, problem: Problem, face: Face, rows: Sequence[Keeper], rule: Spectral
    ) -> None:
        super().__init__(problem, face, rows, rule.guard, rule.small)
        self._rule = rule
        size, none = len(rows), [None for _ in face.parts]
        D = np.zeros(problem.domain.shape, like=face.basis)
        self.state: SpectralState = SpectralState(
            [*none], D, [*none], [0.0] * size, [0.0] * size, 0.0
        )
        self._whole = all(r.whole for r in rows)

    def params(self, p: Params) -> Params:
        eta = 1.0 if self._whole else self._rule.share / (p.k + self._rule.share)
        return replace(p, eta=eta, beta=1.0, beta_before=1.0, theta=self._rule.theta)

    def move(
        self, W: Dense, v: Array, own: Sequence[Params], rng: np.random.Generator, lap: Lap
    ) -> int:
        eta, D, face = own[0].eta, self.state.D, self._face
        if own[0].k == 1:
            atom = self._domain.lmo(v, effort=own[0].effort, hint=W.array, rng=rng)
            spent = atom.products
            np.subtract(atom.dense(), W.array, out=D)
            lap("oracle")
            W.shift(D)
        else:
            if foreign(v):  # one copy for both
                length, size = products((D, D), (v, v))
                size = float(np.sqrt(size))
            else:
                length, size = products((D, D))[0], norm(v)
            L = self._lipschitz([p.beta for p in own], length)
            L = max(eta * L, 1e-9 * size / face.trace) or 1.0
            S, spent = self._projection(W.descended(v, 1 / L, face.offset))
            lap("oracle")
            W.towards(S, D, eta)
        return spent

    def _lipschitz(self, betas: Sequence[float], length: float) -> float:
        """L at the step before, which has ‖D‖² = `length`."""
        own = self.state
        own.length = self._rule.recent * own.length + length
        safety, total = self._rule.safety_whole if self._whole else self._rule.safety, 0.0
        for i, (r, beta) in enumerate(zip(self._rows, betas, strict=True)):
            h = r.term.function
            bend = h.smoothness if isinstance(h, Smooth) else 1 / beta
            if bend == 0:
                continue
            own.squares[i] = self._rule.recent * own.squares[i] + r.measure(own.D)
            now, was = own.squares[i] / max(own.length, 1e-300), own.curvature[i]
            own.curvature[i] = max(now, was + self._rule.slow * (now - was))
            total += safety * r.term.weight * own.curvature[i] * bend
        return total
