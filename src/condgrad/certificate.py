"""Lower bounds on the optimum, proved by the dual points that estimators keep.

For any y_t in dom h_t* Fenchel's inequality gives

    F* ≥ min_{s in domain} ⟨v, s⟩ − Σ_t ω_t h_t*(y_t),      v = Σ_t ω_t A_t* y_t.

The slope of a Moreau envelope lies in dom h*, and so does every average of slopes: the tables of
SAG and the multipliers of CGAL are such y. A table changes while the method runs; a bound is
computed from it afresh, with A*y summed anew (but for the average of directions), and the minimum
over the domain proved by the domain (`Domain.minimum`), because the oracle's own answer may lie
above the minimum.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
from scipy.sparse.linalg import LinearOperator, lsqr

from condgrad._types import ALL, Array
from condgrad.backends import ops, threads
from condgrad.domains._base import EPS
from condgrad.estimators import Estimator, Full, State
from condgrad.functions import Linear
from condgrad.maps._base import Pairing
from condgrad.problem import Problem, Term

SEARCH = 6
"""Oracle calls to find how far to move along a direction."""
LATEST = 10
"""The average of directions counts about the latest k/10 of them."""
CARRIES = 0.5
"""A combination of equality rows counts as the identity where it misses less than this of it."""


@dataclass(frozen=True)
class Bound:
    """A lower bound on the optimum and how it is known; see `Domain.minimum` for the kinds."""

    value: float = -np.inf
    kind: str = "none"
    failure: float = 0.0
    """Probability that the bound does not hold."""
    source: str = ""
    """The dual point it stands on."""


class Report(NamedTuple):
    """What one evaluation of the certificate says about the iterate W."""

    bound: Bound
    fw_gap: float
    """⟨v, W⟩ − min ⟨v, s⟩ for the slopes in use: how far the steps lag behind."""
    slack: dict[str, float]
    """Per composite term ω |⟨y, z⟩ − h*(y) − h(z)|, h(z) = 0 for a constraint: what its smoothing
    is still worth in units of the objective."""
    points: dict[str, list[Part]]
    """The dual points that were tried, a part for each term."""


@dataclass
class Part:
    """One term at one dual point."""

    v: Array
    conjugate: float
    product: float
    """ω⟨y, z⟩."""
    value: float
    """ω h(z) of a term that is no constraint."""
    size: float
    """ω Σ|y_l| times the largest row norm: what the sum v is rounded against."""
    conjugates: float
    """Sum of the absolute values that `conjugate` is made of, block by block."""


class Average(NamedTuple):
    """An average of directions, which is one of dual points."""

    v: Array
    conjugate: float
    k: int
    largest: float
    """The largest number that went into it."""


class Certificate:
    """The best lower bound so far.

    Parameters
    ----------
    problem : Problem
        The problem whose optimum is bounded.
    floor : float, optional
        A lower bound that is known beforehand.
    keep : bool, default False
        Keep the multipliers behind the best bound in `duals`; then averages of directions, which
        have none row by row, give no bound.
    """

    def __init__(self, problem: Problem, floor: float | None = None, keep: bool = False) -> None:
        self.problem, self._keep = problem, keep
        self.duals: dict[str, Array] = {}
        """y of every composite term at the best bound, before a shift."""
        self._scale: dict[str, float] = {}
        self.best = Bound() if floor is None else Bound(float(floor), "given", 0.0, "given")
        lowest = -sum(_conjugate_of_zero(t) for t in problem.terms)  # y = 0: Σ ω inf h
        if lowest > self.best.value:
            self.best = Bound(lowest, "exact", 0.0, "values")
        self._shifts: list[tuple[Array, float]] | None = None
        self._average: Average | None = None
        center = problem.domain.center()
        self._reach = float(np.linalg.norm(center)) + float(problem.domain.diameter)
        self._at_zero = sum(_conjugate_of_zero(t) for t in problem.composite)

    def follow(
        self,
        k: int,
        v: Array,
        estimators: Sequence[Estimator],
        states: Sequence[State],
    ) -> None:
        """Take the direction of iteration k into the average of the latest tenth of them.

        An average of dual points is one. It is known where f is linear and taken in full and every
        composite term keeps the conjugate of its slopes; and in float64, where rounding does not
        count.
        """
        total = 0.0
        if self._keep:
            return
        for t, e, s in zip(self.problem.terms, estimators, states, strict=True):
            if any(a is not None and a.dtype != np.float64 for a in (s.G, s.slopes)):
                return
            if s.conjugates is not None:
                total += t.weight * sum(s.conjugates.values())
            elif not (isinstance(t.function, Linear) and isinstance(e, Full)):
                return
        if not np.isfinite(total):
            self._average = None
            return
        size = max(float(np.linalg.norm(v)), abs(total))
        if self._average is None:
            self._average, self._spare = Average(v.copy(), total, k, size), np.empty_like(v)
            return
        a, share, mean = self._average, min(1.0, LATEST / (k + LATEST - 1)), self._spare
        ops.between(a.v.reshape(-1), v.reshape(-1), share, mean.reshape(-1))
        conjugate = a.conjugate + share * (total - a.conjugate)
        self._average, self._spare = Average(mean, conjugate, k, max(a.largest, size)), a.v

    def evaluate(
        self,
        W: Array,
        estimators: Sequence[Estimator],
        states: Sequence[State],
        betas: Sequence[float],
    ) -> Report:
        """Bound the optimum by the dual points of the moment; keep the best bound."""
        W, terms = W.astype(np.float64, copy=False), self.problem.terms
        kept = [e.duals(s, t) for e, s, t in zip(estimators, states, terms, strict=True)]
        parts = [
            part_of(t, W, d.get("slopes"), beta)
            for t, d, beta in zip(terms, kept, betas, strict=True)
        ]
        found, fw_gap = self._bound(parts, "slopes")
        which, points = "slopes", {"slopes": parts}
        slack = {
            t.name: abs(p.product - p.conjugate - p.value)
            for t, p in zip(terms, parts, strict=True)
            if not t.function.smooth
        }
        if any("multipliers" in d for d in kept):
            parts = [
                part_of(t, None, d["multipliers"], 1.0) if "multipliers" in d else p
                for t, d, p in zip(terms, kept, parts, strict=True)
            ]
            points["multipliers"] = parts
            other, _ = self._bound(parts, "multipliers")
            which = "multipliers" if other.value > found.value else which
            found = _better(found, other)
        if self._average is not None:
            found = _better(found, self._averaged(self._average))
        if self._keep and (found.value > self.best.value or not self.duals):
            scale = self._scale.get(which, 1.0) if "scaled" in found.source else 1.0
            self.duals = {
                t.name: scale * _point(t, d.get(which, d.get("slopes")), W, beta)
                for t, d, beta in zip(terms, kept, betas, strict=True)
                if not t.function.smooth
            }
        failure = self.best.failure + found.failure
        if found.value > self.best.value:
            self.best = found
        if failure:
            self.best = Bound(self.best.value, self.best.kind, failure, self.best.source)
        return Report(found, fw_gap, slack, points)

    def _bound(self, parts: Sequence[Part], source: str) -> tuple[Bound, float]:
        """The bound of a dual point, repaired, and ⟨v, W⟩ − min ⟨v, s⟩ before the repairs."""
        domain, terms = self.problem.domain, self.problem.terms
        smooth = [p for p, t in zip(parts, terms, strict=True) if t.function.smooth]
        other = [p for p, t in zip(parts, terms, strict=True) if not t.function.smooth]
        base, pull = _sum(smooth, domain.shape), _sum(other, domain.shape)
        fixed, moving = sum(p.conjugate for p in smooth), sum(p.conjugate for p in other)
        size = sum(p.size for p in parts)
        conjugates = sum(p.conjugates for p in parts)
        total = sum(p.product for p in parts)
        length = float(np.linalg.norm(base) + np.linalg.norm(pull))
        if not np.isfinite([size, conjugates, total, length]).all():  # a slope is NaN or infinite
            return Bound(), np.inf

        def value(v: Array, conjugate: float, name: str) -> tuple[Bound, float]:
            low = domain.minimum(v)
            reach = self._reach * (size + float(np.linalg.norm(v)))
            rounding = 64 * EPS * (reach + conjugates + abs(conjugate) + abs(low.value))
            return Bound(low.value - conjugate - rounding, low.kind, low.failure, name), low.value

        v, conjugate = base + pull, fixed + moving
        best, low = value(v, conjugate, source)
        gap = total - low
        points = [(v, conjugate, source)]
        t = self._search(base, pull, moving - self._at_zero, 0.0, 1.0) if other else 1.0
        self._scale[source] = t
        if t < 1.0:
            scaled = fixed + t * moving + (1 - t) * self._at_zero  # h* is convex
            points.append((base + t * pull, scaled, f"{source}, scaled"))
            best = _better(best, value(*points[1])[0])
        for direction, b in self._identities():
            for v, conjugate, name in points:
                far = 2 * np.sqrt(v.shape[0]) * float(np.linalg.norm(v))
                far /= max(float(np.linalg.norm(direction)), 1e-300)
                t = self._search(v, direction, b, -far, far)
                shifted = (v + t * direction, conjugate + t * b, f"{name}, shifted")
                best = _better(best, value(*shifted)[0])
        return best, gap

    def _averaged(self, a: Average) -> Bound:
        """The bound of the averaged dual point."""
        low = self.problem.domain.minimum(a.v)
        rounding = (64 + a.k) * EPS * (1 + self._reach) * a.largest  # of sums kept by differences
        return Bound(low.value - a.conjugate - rounding, low.kind, low.failure, "average")

    def _search(self, v: Array, d: Array, c: float, low: float, high: float) -> float:
        """Maximise t ↦ min ⟨v + t d, s⟩ − t c, concave, by bisection on its slope ⟨d, s⟩ − c."""
        rng = np.random.default_rng(0)

        def slope(t: float) -> float:
            atom = self.problem.domain.lmo(v + t * d, effort=4.0, rng=rng)
            return float(np.vdot(d, atom.dense())) - c

        if slope(high) >= 0:
            return high
        steps = SEARCH if low == 0 else 5 * SEARCH
        for _ in range(steps):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if slope(middle) >= 0 else (low, middle)
        return low

    def _identities(self) -> list[tuple[Array, float]]:
        """(ω A*c, ω h*(c)) of the equality families with A*c near the identity.

        Where Σ_l c_l a_l = I the constraint fixes the trace to ⟨b, c⟩, so moving y along c trades
        the smallest eigenvalue of v for that number instead of the domain's larger bound.
        """
        if self._shifts is None:
            self._shifts = []
            if self.problem.domain.symmetric:
                found = [_identity(t) for t in self.problem.terms if _equality(t)]
                self._shifts = [f for f in found if f is not None and not self._fixed(f[0])]
        return self._shifts

    def _fixed(self, direction: Array) -> bool:
        """Whether the domain fixes the trace and the direction is the identity: nothing to gain."""
        face = getattr(self.problem.domain, "face", None)
        if face is None or not face.equality:
            return False
        size = float(np.trace(direction)) / direction.shape[0]
        off = np.linalg.norm(direction - size * np.eye(direction.shape[0]))
        return bool(off <= 1e-9 * np.linalg.norm(direction))


def _better(a: Bound, b: Bound) -> Bound:
    """The larger bound; it fails where either does."""
    best = b if b.value > a.value else a  # NaN never wins
    return Bound(best.value, best.kind, a.failure + b.failure, best.source)


def part_of(term: Term, W: Array | None, y: Array | None, beta: float) -> Part:
    """One term at the dual point y, or at the slopes of W where none is kept."""

    def work(part: list[slice]) -> tuple[Array, list[Pairing]]:
        G = term.map.zeros()
        return G, [term.map.pair(W, G, at, term.function, y, beta) for at in part]

    parts = [list(term.blocks())] if y is None else term.parts()  # slopes at W make an array
    done = threads.run([partial(work, part) for part in parts])
    G = done[0][0]
    for other, _ in done[1:]:
        G += other
    sums = [sum(column) for column in zip(*(p for _, pairs in done for p in pairs), strict=True)]
    conjugate, conjugates, size, product, value = sums
    v = np.zeros(term.map.shape)
    term.map.add_to(G, term.weight, v)
    w, size = term.weight, term.map.row_norm * size
    return Part(v, w * conjugate, w * product, w * value, w * size, w * conjugates)


def relative_gap(objective: float, bound: float, unit: float = 0.0) -> float:
    """|objective − bound| / max(|objective|, |bound|, unit), infinite without a bound."""
    size = max(abs(objective), abs(bound), unit)
    if not np.isfinite(bound) or not np.isfinite(objective):
        return np.inf
    return abs(objective - bound) / size if size > 0 else 0.0


def _sum(parts: Sequence[Part], shape: tuple[int, ...]) -> Array:
    total = np.zeros(shape)
    for p in parts:
        total += p.v
    return total


def _conjugate_of_zero(term: Term) -> float:
    """ω h*(0) = −ω inf h."""
    blocks = (term.function.conjugate(np.zeros(b.stop - b.start), b) for b in term.blocks())
    return term.weight * sum(blocks)


def _point(term: Term, y: Array | None, W: Array, beta: float) -> Array:
    """A copy of y in dom h*, or the slopes h'_β(A W) where there is none."""
    slopes = term.function.slope(term.map.rows(W), beta, ALL) if y is None else y
    point: Array = term.function.into_dual(np.array(slopes, np.float64), ALL)
    return point


def _equality(term: Term) -> bool:
    low, high = getattr(term.function, "lower", None), getattr(term.function, "upper", None)
    return low is not None and high is not None and bool(np.array_equal(low, high))


def _identity(term: Term) -> tuple[Array, float] | None:
    """Least squares A*c ≈ I; None where it misses too much."""
    shape, size = term.map.shape, term.map.size
    eye = np.eye(shape[0])

    def symmetric(y: Array) -> Array:
        V = term.map.adjoint(np.asarray(y, np.float64).reshape(-1))
        return (0.5 * (V + V.T)).reshape(-1)

    def rows(x: Array) -> Array:
        V = np.asarray(x, np.float64).reshape(shape)
        return term.map.rows(np.ascontiguousarray(0.5 * (V + V.T)))

    operator = LinearOperator((eye.size, size), matvec=symmetric, rmatvec=rows, dtype=np.float64)
    c = lsqr(operator, eye.reshape(-1), atol=1e-12, btol=1e-12, iter_lim=100)[0]
    V = symmetric(c).reshape(shape)
    if np.linalg.norm(V - eye) > CARRIES * np.linalg.norm(eye):
        return None
    return term.weight * V, term.weight * term.function.conjugate(c)
