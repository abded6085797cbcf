"""Lower bounds on the optimum, proved by the dual points that estimators keep.

For any y_t in dom h_t* Fenchel's inequality gives

    F* ≥ min_{s in domain} ⟨v, s⟩ − Σ_t ω_t h_t*(y_t),      v = Σ_t ω_t A_t* y_t.

The slope of a Moreau envelope lies in dom h*, and so does every average of slopes: the tables of
SAG and the multipliers of CGAL are such y. A table changes while the method runs; a bound is
computed from it afresh, with A*y summed anew, and the minimum over the domain proved by the domain
(`Domain.minimum`), because the oracle's own answer may lie above the minimum.

Rounding. y is a point of dom h* as it stands (`Function.into_dual`), in float64; what is rounded is
v, the conjugates and the difference. With the count of `_floats`:

* An entry of ω A*y is a sum of numbers ω y_l a_le, each of which passes through at most `depth`
  operations of the map, 4 for ω and for the threads' partial sums, and one more for each term that
  is added, for scaling and for shifting. So it is off by γ_k Σ_l ω|y_l||a_le|, and v, by the
  triangle inequality, by at most γ_k Σ_l ω|y_l|‖a_l‖ in norm; ⟨v, s⟩ by that times max ‖s‖.
* ω h*(y) is a sum of numbers whose absolute values sum to C (`Function.conjugate_size`) and of
  which each passes through at most one operation for each row of a piece and for each piece, and 16
  more: it is off by γ_k C.
* A shift moves y to y + t c, which need not be a float. Both v + t ω A*c and ω h*(y) + t ω h*(c)
  are sums as above: |t| times what c adds to the two sizes is added to those of y.
* `Domain.minimum` has taken off its own rounding. Each of the last differences is off by u times
  the numbers that are subtracted.

So every operation is counted once, and `margin` adds them up.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from time import perf_counter
from typing import Any, NamedTuple, cast

import numpy as np

from condgrad import _deadline as deadline
from condgrad._floats import EPS, TINY, length
from condgrad._types import Array
from condgrad.backends.arrays import foreign, namespace
from condgrad.certificate.clipping import Clipping
from condgrad.certificate.section import best_scale, nearby, served
from condgrad.certificate.shifts import Shift, equality, shift_of
from condgrad.problem import Problem, Term
from condgrad.rows import Keeper, Part, Sizes, sizes_of, together

SEARCH = 6
"""Oracle calls on a CPU that search how far to move along a direction."""
CUTS = 2
"""Oracle calls of that search on a GPU, beside those at both ends."""


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
    """Result of one evaluation of the certificate at the iterate W."""

    bound: Bound
    fw_gap: float
    """⟨v, W⟩ − min ⟨v, s⟩ for the slopes in use: how far the steps lag behind."""
    slack: dict[str, float]
    """Per composite term ω |⟨y, z⟩ − h*(y) − h(z)|, h(z) = 0 for a constraint: what its smoothing
    is still worth in units of the objective."""
    points: dict[str, list[Part]]
    """The dual points that were tried, a part for each term."""


class Certificate:
    """The best lower bound so far.

    Parameters
    ----------
    problem : Problem
        The problem whose optimum is bounded.
    floor : float, optional
        A lower bound that is known beforehand.
    keep : bool, default False
        Keep the multipliers behind the best bound in `duals`.
    """

    def __init__(self, problem: Problem, floor: float | None = None, keep: bool = False) -> None:
        self.problem, self._keep = problem, keep
        self.duals: dict[str, Array] = {}
        """y of every composite term at the best bound, before a shift."""
        self.scale: dict[str, float] = {}
        """The factor in [0, 1] on the dual points of the moment that proves most, by their kind."""
        self.best = Bound() if floor is None else Bound(float(floor), "given", 0.0, "given")
        zeros = {t.name: _at_zero(t) for t in problem.terms}  # y = 0: Σ ω inf h
        self._shifts: list[Shift] | None = None
        self._clipping = Clipping.of(problem)
        self._changed: dict[str, Array] = {}
        """`duals` of the latest bound where `_clipping` has found it."""
        self._took = 0.0
        """Seconds of the latest evaluation."""
        self._reach = float(problem.domain.reach)
        self._zero = [zeros[t.name] for t in problem.composite]
        sizes = [p.sizes for p in zeros.values()]
        lowest = -sum(p.conjugate for p in zeros.values())
        if any(s.conjugates for s in sizes):
            lowest -= self._margin(sizes)
        if lowest > self.best.value:
            self.best = Bound(lowest, "exact", 0.0, "values")

    def evaluate(self, W: Array, rows: Sequence[Keeper], betas: Sequence[float]) -> Report:
        """Bound the optimum by the dual points of the moment; keep the best bound."""
        deadline.require(self._took)
        began = perf_counter()
        report = self._evaluate(W, rows, betas)
        self._took = perf_counter() - began
        return report

    def _evaluate(self, W: Array, rows: Sequence[Keeper], betas: Sequence[float]) -> Report:
        W, terms = W.astype(np.float64, copy=False), self.problem.terms
        parts = [r.pairing("slopes", W, beta) for r, beta in zip(rows, betas, strict=True)]
        kept = any("multipliers" in r.points for r in rows)
        near = nearby(W) if served(self.problem.domain, W) else None
        self._changed = {}
        if self._clipping is not None and not kept:
            found, fw_gap = self._clipped(parts, W, rows, betas)
        else:
            found, fw_gap = self._bound(parts, "slopes", near)
        which, points = "slopes", {"slopes": parts}
        slack = {
            t.name: abs(p.product - p.conjugate - p.value)
            for t, p in zip(terms, parts, strict=True)
            if not t.function.smooth
        }
        if kept:
            parts = [
                r.pairing("multipliers", None, 1.0) if "multipliers" in r.points else p
                for r, p in zip(rows, parts, strict=True)
            ]
            points["multipliers"] = parts
            with suppress(deadline.OutOfTime):  # what the slopes prove stands
                other, _ = self._bound(parts, "multipliers", near)
                which = "multipliers" if other.value > found.value else which
                found = _better(found, other)
        known = True
        if self._keep and (found.value > self.best.value or not self.duals):
            scale = self.scale.get(which, 1.0) if "scaled" in found.source else 1.0
            duals = self._changed or {
                t.name: scale * r.point(which, W, beta)
                for t, r, beta in zip(terms, rows, betas, strict=True)
                if not t.function.smooth
            }
            known = together(points[which], rows)
            self.duals = duals if known else self.duals
        failure = self.best.failure + found.failure
        if found.value > self.best.value and known:  # it stands with its multipliers
            self.best = found
        if failure:
            self.best = Bound(self.best.value, self.best.kind, failure, self.best.source)
        return Report(found, fw_gap, slack, points)

    def _bound(
        self, parts: Sequence[Part], source: str, near: Array | None = None
    ) -> tuple[Bound, float]:
        """The bound of a dual point, repaired, and ⟨v, W⟩ − min ⟨v, s⟩ before the repairs.

        `near`, where `served`, are columns near the lowest eigenvectors of v.
        """
        domain, terms = self.problem.domain, self.problem.terms
        smooth = [p for p, t in zip(parts, terms, strict=True) if t.function.smooth]
        other = [p for p, t in zip(parts, terms, strict=True) if not t.function.smooth]
        like = self.problem.like
        base, pull = (_sum(some, domain.shape, like) for some in (smooth, other))
        fixed, moving = sum(p.conjugate for p in smooth), sum(p.conjugate for p in other)
        zero = sum(p.conjugate for p in self._zero)
        rounding = self._margin([p.sizes for p in [*parts, *self._zero]])
        total = sum(p.product for p in parts)
        if not np.isfinite([rounding, total, length(base), length(pull)]).all():
            return Bound(), np.inf  # a slope is NaN or infinite, or the numbers are too large

        shifts = self._identities()
        spent = near is not None and not shifts  # nobody reads v after its minimum

        def value(
            v: Array, conjugate: float, name: str, more: float = 0.0, near: Array | None = None
        ) -> tuple[Bound, float]:
            known = {} if near is None else {"near": near, "spent": spent}
            low = cast(Any, domain).minimum(v, **known)
            last = 2 * EPS * (abs(low.value) + abs(conjugate))
            found = float(low.value) - float(conjugate) - float(rounding + more + last)
            found = found if np.isfinite(found) else -np.inf
            return Bound(found, low.kind, low.failure, name), low.value

        scaled_near, t, low = near, 1.0, None
        if near is not None and other and domain.face is not None:
            t, near, scaled_near, low = best_scale(domain.face, base, pull, moving - zero, near)
        elif other:
            t = self._search(base, pull, moving - zero, 0.0, 1.0)
        points: list[tuple[Array, float, str]] = []

        def tried(v: Array, conjugate: float, name: str, near: Array | None) -> tuple[Bound, float]:
            if shifts:
                points.append((v, conjugate, name))
            return value(v, conjugate, name, near=near)

        best = Bound()
        if low is None or t == 1.0 or shifts:
            best, proved = tried(base + pull, fixed + moving, source, near)
            gap = total - proved
        else:  # the scaled point promises more, and control needs no proof
            gap = max(total - low, 0.0)
        self.scale[source] = t
        if t < 1.0:
            scaled = fixed + t * moving + (1 - t) * zero  # h* is convex
            with suppress(deadline.OutOfTime):
                best = _better(
                    best, tried(base + t * pull, scaled, f"{source}, scaled", scaled_near)[0]
                )
        for shift, (v, conjugate, name) in itertools.product(shifts, points):
            with suppress(deadline.OutOfTime):
                far = 2 * np.sqrt(v.shape[0]) * length(v) / length(shift.v)
                t = self._search(v, shift.v, shift.conjugate, -far, far)
                moved = (v + t * shift.v, conjugate + t * shift.conjugate, f"{name}, shifted")
                best = _better(best, value(*moved, abs(t) * self._margin([shift.sizes]))[0])
        return best, gap

    def _clipped(
        self, parts: Sequence[Part], W: Array, rows: Sequence[Keeper], betas: Sequence[float]
    ) -> tuple[Bound, float]:
        """Bound over a nuclear ball, by a better dual point than the one given."""
        assert self._clipping is not None
        total = sum(p.product for p in parts)
        if not np.isfinite([total, *(length(p.v) for p in parts)]).all():
            return Bound(), np.inf
        given = [r.point("slopes", W, beta) for r, beta in zip(rows, betas, strict=True)]
        parts, points, changed, low = self._clipping.improved(parts, given)
        v = _sum(parts, self.problem.domain.shape, self.problem.like)
        rounding = self._margin([p.sizes for p in parts])
        conjugate = sum(p.conjugate for p in parts)
        if not np.isfinite([rounding, conjugate, length(v)]).all():
            return Bound(), np.inf
        least = self.problem.domain.minimum(v)
        last = 2 * EPS * (abs(least.value) + abs(conjugate))
        value = float(least.value) - float(conjugate) - float(rounding + last)
        name = f"slopes, {changed}" if changed else "slopes"
        if self._keep:
            pairs = zip(self.problem.terms, points, strict=True)
            self._changed = {t.name: y for t, y in pairs if not t.function.smooth}
        return Bound(value, least.kind, least.failure, name), total - low

    def _margin(self, sizes: Sequence[Sizes]) -> float:
        """Rounding error of v and the conjugates."""
        return margin(sizes, self._reach, len(self.problem.terms))

    def _search(self, v: Array, d: Array, c: float, low: float, high: float) -> float:
        """Maximise t ↦ min ⟨v + t d, s⟩ − t c, concave, by bisection on its slope ⟨d, s⟩ − c."""
        if foreign(v):
            return self._cut(v, d, c, low, high)
        rng = np.random.default_rng(0)

        def slope(t: float) -> float:
            deadline.require(0.0)
            atom = self.problem.domain.lmo(v + t * d, effort=4.0, rng=rng)
            return float(np.vdot(d, atom.dense())) - c

        if slope(high) >= 0:
            return high
        steps = SEARCH if low == 0 else 5 * SEARCH
        for _ in range(steps):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if slope(middle) >= 0 else (low, middle)
        return low

    def _cut(self, v: Array, d: Array, c: float, low: float, high: float) -> float:
        """Search on a GPU with its accurate, dear oracle: the next t is where two tangents meet.

        The best t that was looked at counts.
        """
        rng, seen = np.random.default_rng(0), []

        def look(t: float) -> tuple[float, float, float]:
            deadline.require(0.0)
            s = self.problem.domain.lmo(v + t * d, effort=4.0, rng=rng).dense()
            slope = float(np.vdot(d, s)) - c
            seen.append((float(np.vdot(v, s)) + t * slope, t))
            return t, seen[-1][0], slope

        right = look(high)
        if right[2] >= 0:
            return high
        left = look(0.8 * high if low == 0 else low)
        if left[2] < 0:
            left, right = look(low), left
        for _ in range(CUTS if low == 0 else 5 * CUTS):
            if left[2] <= 0 or right[2] >= 0:
                break
            span = right[0] - left[0]
            t = left[0] + (right[1] - left[1] - right[2] * span) / (left[2] - right[2])
            t = min(max(t, left[0] + 0.02 * span), right[0] - 0.02 * span)
            found = look(t)
            left, right = (found, right) if found[2] >= 0 else (left, found)
        return max(seen)[1]

    def _identities(self) -> list[Shift]:
        """The shifts along which the equality families have A*c near the identity.

        Where Σ_l c_l a_l = I the constraint fixes the trace to ⟨b, c⟩, so moving y along c trades
        the smallest eigenvalue of v for that number instead of the domain's larger bound.
        """
        if self._shifts is None:
            self._shifts = []
            if self.problem.domain.symmetric:
                found = [shift_of(t) for t in self.problem.terms if equality(t)]
                self._shifts = [f for f in found if f is not None and not self._fixed(f.v)]
        return self._shifts

    def _fixed(self, direction: Array) -> bool:
        """Whether the domain fixes the trace and the direction is the identity: nothing to gain."""
        face = self.problem.domain.face
        if face is None or not face.equality:
            return False
        size = float(np.trace(direction)) / direction.shape[0]
        off = np.linalg.norm(direction - size * namespace(direction).eye(direction.shape[0]))
        return bool(off <= 1e-9 * np.linalg.norm(direction))


def margin(sizes: Sequence[Sizes], reach: float, terms: int) -> float:
    """Rounding error of v and the conjugates; see the head of this file."""
    last = terms + 8  # sums over terms, scaling, shifting
    v = sum((s.depth + last) * s.spread for s in sizes)
    conjugates = sum((s.additions + last) * s.conjugates for s in sizes)
    return EPS * (reach * v + conjugates) + TINY if v or conjugates else 0.0


def _better(a: Bound, b: Bound) -> Bound:
    """The larger bound; it fails where either does."""
    best = b if b.value > a.value else a  # NaN never wins
    return Bound(best.value, best.kind, a.failure + b.failure, best.source)


def relative_gap(objective: float, bound: float, unit: float = 0.0) -> float:
    """|objective − bound| / max(|objective|, |bound|, unit), infinite without a bound."""
    size = max(abs(objective), abs(bound), unit)
    if not np.isfinite(bound) or not np.isfinite(objective):
        return np.inf
    return abs(objective - bound) / size if size > 0 else 0.0


def _sum(parts: Sequence[Part], shape: tuple[int, ...], like: Array) -> Array:
    if foreign(like) and len(parts) == 1:  # an array less
        return parts[0].v
    total = np.zeros(shape, like=like)
    for p in parts:
        total += p.v
    return total


def _at_zero(term: Term) -> Part:
    """The term at y = 0: ω h*(0) = −ω inf h."""
    pieces, h = list(term.chunks()), term.function
    if h.interval is not None:  # 0 for any interval
        return Part(np.zeros(0), 0.0, 0.0, 0.0, sizes_of(term, 0.0, 0.0, pieces))
    zeros = [(np.zeros(p.stop - p.start, like=h.like), p) for p in pieces]
    conjugate = sum(h.conjugate(*zero) for zero in zeros)
    size = sum(h.conjugate_size(*zero) for zero in zeros)
    sizes = sizes_of(term, 0.0, size, pieces)
    return Part(np.zeros(0), term.weight * conjugate, 0.0, 0.0, sizes)
