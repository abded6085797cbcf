"""Lower bounds on the optimum, proved by points of the dual problem.

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

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial, singledispatch
from itertools import chain, product
from typing import Any, NamedTuple, cast
from weakref import WeakKeyDictionary

import numpy as np
from scipy.sparse.linalg import LinearOperator, lsqr

from condgrad._floats import EPS, TINY, length
from condgrad._ours import ours
from condgrad._types import ALL, Array
from condgrad.backends import threads
from condgrad.backends.arrays import host, namespace
from condgrad.certificate import nuclear
from condgrad.certificate.section import Scale, best_scale, best_step, nearby
from condgrad.evaluation import Evaluation
from condgrad.maps import Covering
from condgrad.passes import Pairing
from condgrad.problem import CHUNK, Problem, Term, steepest

NEAR_IDENTITY = 0.5
"""A combination of equality rows counts as the identity if it misses less than this of it."""


@dataclass(frozen=True)
class Slopes:
    """The dual point h'_β(A W) of a term, computed row by row where it is needed."""

    beta: float


Dual = Array | Slopes
Duals = Sequence[Dual]
"""A dual point: for every term its y, or where y comes from."""


class Bound(NamedTuple):
    """A lower bound on the optimum and how it is known; see `Domain.minimum` for the kinds."""

    value: float = -np.inf
    kind: str = "none"
    failure: float = 0.0
    """Probability that the bound does not hold."""
    source: str = ""
    """The dual point that it stands on."""


@dataclass
class Report:
    """Measurements of an iterate and of its dual points."""

    evaluation: Evaluation
    """Objective and violations of the iterate."""
    bound: Bound
    """The best bound of the dual points."""
    fw_gap: float
    """⟨v, W⟩ − min ⟨v, s⟩ at the dual point that the steps follow: how far they lag behind."""
    slack: list[float]
    """Per term ω |⟨y, z⟩ − h*(y) − h(z)|, h(z) = 0 for a constraint; 0 for smooth terms. It says
    what the smoothing of the term is still worth in units of the objective."""
    scales: dict[str, float] = field(default_factory=dict)
    """The factor in [0, 1] on every dual point that proves most, by the name of the point."""

    @property
    def scale(self) -> float:
        """The factor that proves most, on the multipliers if there are any."""
        return next(reversed(self.scales.values()), 1.0)


class Sizes(NamedTuple):
    """Sizes against which two sums are rounded, and numbers of operations."""

    spread: float = 0.0
    """Σ_l ω|y_l|‖a_l‖, of the sum v."""
    depth: int = 0
    """Operations that a number passes through on its way into v."""
    conjugates: float = 0.0
    """ω times the absolute values that the conjugate is summed from."""
    additions: int = 0
    """Operations that a number passes through on its way into the conjugate."""


class Part(NamedTuple):
    """One term at one dual point."""

    v: Array
    """ω A*y."""
    conjugate: float
    """ω h*(y)."""
    product: float
    """ω⟨y, z⟩."""
    value: float
    """ω h(z) of a term that is no constraint."""
    sizes: Sizes


@singledispatch
def part_of(term: Term, W: Array | None, y: Dual) -> Part:
    """One term at the dual point y; W is needed of slopes, and for ⟨y, z⟩.

    Of a constraint with a map of condgrad's own, whose adjoint is not in doubt, ⟨y, z⟩ is ⟨v, W⟩.
    """
    table, beta = (None, y.beta) if isinstance(y, Slopes) else (y, 1.0)
    trusted = table is not None and term.function.indicator and ours(term.map)
    images = None if trusted else W

    def work(pieces: list[slice]) -> tuple[Array, list[Pairing]]:
        G = term.map.zeros()
        return G, [term.passes.pair(images, G, at, table, beta) for at in pieces]

    shares = [list(term.chunks())]
    if table is not None and term.passes.parallel:  # slopes at W make an array
        shares = [  # so that sums stay short
            [
                slice(i, min(i + CHUNK, at.stop))
                for at in share
                for i in range(at.start, at.stop, CHUNK)
            ]
            for share in term.parts()
        ]
    done = threads.run([partial(work, share) for share in shares])
    G = done[0][0]
    for other, _ in done[1:]:
        G += other
    sums = [sum(column) for column in zip(*(p for _, pairs in done for p in pairs), strict=True)]
    conjugate, conjugates, spread, inner, value = sums
    w, pieces = term.weight, list(chain(*shares))
    in_place = type(term.map).set_to is Covering.set_to  # which may write to G itself
    v: Array = G.reshape(term.map.shape) if in_place else np.empty(term.map.shape, like=G)
    term.map.set_to(G, w, v)
    if images is None and W is not None:
        inner = float(np.vdot(v, W)) / w
    sizes = sizes_of(term, spread, conjugates, pieces, len(shares))
    return Part(v, w * conjugate, w * inner, w * value, sizes)


def sizes_of(
    term: Term, spread: float, conjugates: float, pieces: Sequence[slice], threads: int = 1
) -> Sizes:
    """The sizes of a dual point from the sums over its rows."""
    longest, w = max(p.stop - p.start for p in pieces), term.weight
    additions = longest + len(pieces) + 16
    return Sizes(w * spread, term.map.depth + threads + 4, w * conjugates, additions)


def margin(sizes: Sequence[Sizes], reach: float, terms: int) -> float:
    """Rounding error of v and the conjugates; see the head of this file."""
    last = terms + 8  # sums over terms, scaling, shifting
    v = sum((s.depth + last) * s.spread for s in sizes)
    conjugates = sum((s.additions + last) * s.conjugates for s in sizes)
    return EPS * (reach * v + conjugates) + TINY if v or conjugates else 0.0


@singledispatch
def point_of(term: Term, W: Array, y: Dual) -> Array:
    """A dual point of a term row by row, in dom h*, in a new array of NumPy."""
    slopes = term.function.slope(term.map.rows(W), y.beta, ALL) if isinstance(y, Slopes) else y
    slopes = np.array(host(term.map.listed(slopes)), np.float64)
    inside: Array = (term.function.origin or term.function).into_dual(slopes, ALL)
    return inside


# --- what bounds need of a problem, found once ---------------------------------------------------


class Shift(NamedTuple):
    """A direction in which the multipliers of a family of equations may be moved freely."""

    c: Array
    """The direction, row by row."""
    v: Array
    """ω A*c, near the identity."""
    conjugate: float
    """ω h*(c)."""
    sizes: Sizes


_shifts: WeakKeyDictionary[Problem, list[Shift]] = WeakKeyDictionary()


def shifts(problem: Problem) -> list[Shift]:
    """The shifts along which families of equations have A*c near the identity, found once.

    If Σ_l c_l a_l = I the constraint fixes the trace to ⟨b, c⟩, so that moving y along c trades the
    smallest eigenvalue of v for that number instead of the domain's larger bound.
    """
    if problem not in _shifts:
        found = [_shift_of(t) for t in problem.terms] if problem.domain.symmetric else []
        _shifts[problem] = [s for s in found if s is not None and not _fixed(problem, s.v)]
    return _shifts[problem]


def trivial(problem: Problem) -> float:
    """The bound of the dual point y = 0, Σ ω inf h; −∞ if it proves nothing."""
    zero = [at_zero(t) for t in problem.terms]
    lowest = -sum(c for c, _ in zero)
    if any(s.conjugates for _, s in zero):
        lowest -= margin([s for _, s in zero], float(problem.domain.reach), len(zero))
    return float(lowest)


def at_zero(term: Term) -> tuple[float, Sizes]:
    """ω h*(0) = −ω inf h, and what it is rounded against."""
    pieces, h = list(term.chunks()), term.function
    if h.interval is not None:  # 0 for any interval
        return 0.0, sizes_of(term, 0.0, 0.0, pieces)
    zeros = [(np.zeros(p.stop - p.start, like=h.like), p) for p in pieces]
    conjugate = sum(h.conjugate(*zero) for zero in zeros)
    size = sum(h.conjugate_size(*zero) for zero in zeros)
    return term.weight * conjugate, sizes_of(term, 0.0, size, pieces)


def _shift_of(term: Term) -> Shift | None:
    """The shift of a family of equations along the identity, by least squares, if it has one."""
    ends = term.function.interval
    if ends is None or not np.array_equal(*ends):
        return None
    like, map, function = term.map.like, term.map, term.function
    if map.origin is not None and function.origin is not None:
        term = replace(term, map=map.origin, function=function.origin)
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
    if np.linalg.norm(V - eye) > NEAR_IDENTITY * np.linalg.norm(eye):
        return None
    w, h = term.weight, term.function
    sizes = sizes_of(term, term.map.spread(c), h.conjugate_size(c), [slice(0, c.size)])
    return Shift(c, np.asarray(w * V, like=like), w * h.conjugate(c), sizes)


def _fixed(problem: Problem, direction: Array) -> bool:
    """Whether the domain fixes the trace and the direction is the identity: nothing to gain."""
    face = problem.domain.face
    if face is None or not face.equality:
        return False
    size = float(np.trace(direction)) / direction.shape[0]
    off = np.linalg.norm(direction - size * namespace(direction).eye(direction.shape[0]))
    return bool(off <= 1e-9 * np.linalg.norm(direction))


# --- the bound of a dual point --------------------------------------------------------------------


class Proof(NamedTuple):
    """Bound of a dual point, with the gap and the best scale of the point."""

    bound: Bound
    gap: float
    """⟨v, W⟩ − min ⟨v, s⟩ before any repair."""
    scale: float = 1.0
    """The factor on the point that promises most."""


def proved(
    problem: Problem, v: Array, conjugate: float, rounding: float, source: str, **how: Any
) -> tuple[Bound, float]:
    """min ⟨v, s⟩ − Σ ω h*(y) less all rounding, and the minimum; −∞ if a number is not finite."""
    low = cast(Any, problem.domain).minimum(v, **how)
    last = 2 * EPS * (abs(low.value) + abs(conjugate))
    value = float(low.value) - float(conjugate) - float(rounding + last)
    value = value if np.isfinite(value) else -np.inf
    return Bound(value, low.kind, low.failure, source), low.value


def unrepaired(problem: Problem, parts: Sequence[Part], source: str, more: float = 0.0) -> Bound:
    """The bound of a dual point as it is; `more` is rounding beside that of v and conjugates."""
    v, conjugate = _sum(parts, problem), sum(p.conjugate for p in parts)
    sizes, reach = [p.sizes for p in parts], float(problem.domain.reach)
    rounding = margin(sizes, reach, len(problem.terms)) + more
    if not np.isfinite([rounding, conjugate, length(v)]).all():
        return Bound()
    return proved(problem, v, conjugate, rounding, source)[0]


def bound(problem: Problem, parts: Sequence[Part], name: str, near: Array | None = None) -> Proof:
    """The bound of a dual point, and of its repairs, scaled and shifted: the best counts.

    y of the composite terms becomes t y, 0 ≤ t ≤ 1; then y of a family of equations becomes y + r c
    for each shift c. `near` are columns near the lowest eigenvectors of v.
    """
    domain, moves = problem.domain, shifts(problem)
    pairs = list(zip(problem.terms, parts, strict=True))
    smooth = [p for t, p in pairs if t.function.smooth]
    other = [(p, at_zero(t)) for t, p in pairs if not t.function.smooth]
    base, pull = _sum(smooth, problem), _sum([p for p, _ in other], problem)
    fixed, moving = sum(p.conjugate for p in smooth), sum(p.conjugate for p, _ in other)
    zero, reach = sum(c for _, (c, _) in other), float(domain.reach)
    sizes = [*(p.sizes for p in parts), *(s for _, (_, s) in other)]
    rounding, total = margin(sizes, reach, len(parts)), sum(p.product for p in parts)
    if not np.isfinite([rounding, total, length(base), length(pull)]).all():
        return Proof(Bound(), np.inf)  # a slope is NaN or infinite, or the numbers are too large
    scale = Scale(1.0, near, near)
    if near is not None and other and domain.face is not None:
        scale = best_scale(domain.face, base, pull, moving - zero, near)
    elif other:
        scale = Scale(best_step(domain, base, pull, moving - zero, 0.0, 1.0))
    best, points, low = Bound(), [], scale.lowest
    gap = 0.0 if low is None else max(total - low, 0.0)  # a section's gap needs no proof
    tried = {1.0: scale.whole} if low is None or scale.t == 1.0 or moves else {}
    for t, columns in (tried | {scale.t: scale.scaled}).items():
        conjugate = fixed + t * moving + ((1 - t) * zero if t < 1 else 0.0)  # h* is convex
        v, source = base + t * pull, name if t == 1.0 else f"{name}, scaled"
        points += [(v, conjugate, source)] if moves else []
        how = {} if columns is None else {"near": columns, "spent": not moves}
        found, lowest = proved(problem, v, conjugate, rounding, source, **how)
        best, gap = better(best, found), total - lowest if t == 1.0 else gap
    for shift, (v, conjugate, source) in product(moves, points):
        far = 2 * np.sqrt(v.shape[0]) * length(v) / length(shift.v)
        r = best_step(domain, v, shift.v, shift.conjugate, -far, far)
        more = abs(r) * margin([shift.sizes], reach, len(parts))
        moved = v + r * shift.v, conjugate + r * shift.conjugate, rounding + more
        best = better(best, proved(problem, *moved, f"{source}, shifted")[0])
    return Proof(best, gap, scale.t)


def _sum(parts: Sequence[Part], problem: Problem) -> Array:
    if len(parts) == 1:
        return parts[0].v
    total = np.zeros(problem.domain.shape, like=problem.like)
    for p in parts:
        total += p.v
    return total


def better(a: Bound, b: Bound) -> Bound:
    """The larger bound; it fails where either does."""
    best = b if b.value > a.value else a  # NaN never wins
    return best._replace(failure=a.failure + b.failure)


def measure(
    problem: Problem, W: Array, duals: dict[str, Duals], known: Evaluation | None = None
) -> Report:
    """Evaluate an iterate and prove what its dual points prove; the first is the steps' own."""
    evaluation = known or problem.evaluate(W)
    if not evaluation.finite:
        return Report(evaluation, Bound(), np.inf, [np.inf] * len(problem.terms))
    W = W.astype(np.float64, copy=False)
    (name, point), *others = duals.items()
    parts = _parts(problem, W, point)
    slack = [
        0.0 if t.function.smooth else abs(p.product - p.conjugate - p.value)
        for t, p in zip(problem.terms, parts, strict=True)
    ]
    if not others and nuclear.serves(problem):
        first, _ = improved(problem, W, parts, point)
        return Report(evaluation, first.bound, first.gap, slack)
    near = nearby(problem.domain, W)
    first = bound(problem, parts, name, near)
    best, scales = first.bound, {name: first.scale}
    for other, y in others:
        quads = zip(problem.terms, parts, point, y, strict=True)
        same = [
            p if own is x or isinstance(own, Slopes) else part_of(t, None, own)
            for t, p, x, own in quads
        ]
        proof = bound(problem, same, other, near)
        best, scales[other] = better(best, proof.bound), proof.scale
    return Report(evaluation, best, first.gap, slack, scales)


def _parts(problem: Problem, W: Array | None, point: Duals) -> list[Part]:
    return [part_of(t, W, y) for t, y in zip(problem.terms, point, strict=True)]


def improved(
    problem: Problem, W: Array, parts: Sequence[Part], point: Duals
) -> tuple[Proof, Sequence[Array]]:
    """The bound over a nuclear ball by a better dual point, and its multipliers by term."""
    total, given = sum(p.product for p in parts), _points(problem, W, point)
    if not np.isfinite([total, *(length(p.v) for p in parts)]).all():
        return Proof(Bound(), np.inf), given
    found = nuclear.improved(problem, _sum(parts, problem), given)
    if found.changes:
        parts = _parts(problem, None, found.points)
    best = unrepaired(problem, parts, ", ".join(["slopes", *found.changes]))
    return Proof(best, total - found.lowest), found.points


def _points(problem: Problem, W: Array, point: Duals) -> list[Array]:
    return [point_of(t, W, y) for t, y in zip(problem.terms, point, strict=True)]


def behind(problem: Problem, W: Array, duals: dict[str, Duals], report: Report) -> dict[str, Array]:
    """The multipliers of every composite term behind the bound of a report, before a shift."""
    W = W.astype(np.float64, copy=False)
    which = report.bound.source.partition(",")[0]
    if which not in duals:
        return {}
    point, scaled = duals[which], "scaled" in report.bound.source
    scale = report.scales.get(which, 1.0) if scaled else 1.0
    points: Sequence[Array] = _points(problem, W, point)
    if nuclear.serves(problem) and len(duals) == 1:
        _, points = improved(problem, W, _parts(problem, W, point), point)
    pairs = zip(problem.terms, points, strict=True)
    return {t.name: scale * y for t, y in pairs if not t.function.smooth}


def price(problem: Problem, W: Array, duals: dict[str, Duals], which: str, point: Array) -> float:
    """Σ ω |y_l| |r_l| over the constraints, r the residuals of a point.

    The optimum is not above the value of the point by more, if y is optimal. For a bound that no
    dual point proves, y is the first.
    """
    point, W = (a.astype(np.float64, copy=False) for a in (point, W))
    pairs = zip(problem.terms, duals.get(which) or next(iter(duals.values())), strict=True)
    return sum(t.weight * price_of(t, W, y, point) for t, y in pairs if t.function.indicator)


@singledispatch
def price_of(term: Term, W: Array, y: Dual, point: Array) -> float:
    """Σ |y_l| |r_l| of a constraint at a point."""
    table, beta = (None, y.beta) if isinstance(y, Slopes) else (y, 1.0)
    return sum(term.passes.price(W, b, table, beta, point) for b in term.chunks())


def contradicted(problem: Problem, W: Any, evaluation: Evaluation, bound: Bound) -> bool:
    """Whether a point of the domain without any violation lies clearly below a bound.

    Rounding is allowed for: a point outside of a cone by ε can gain √ε, and the value of the point
    is a sum whose terms may cancel.
    """
    value, outside = evaluation.objective, 1e3 * float(np.finfo(W.dtype).eps)
    size = abs(value) + abs(bound.value) + 1e6 * problem.unit
    met = all(v.max == 0 for v in evaluation.families.values())
    if not (met and np.isfinite(size) and bound.value > value + 2 * np.sqrt(outside) * size):
        return False
    reach, terms = float(problem.domain.reach), problem.terms
    images = sum(t.weight * t.map.size * steepest(t, reach) * t.map.row_norm for t in terms)
    above = bound.value > value + 2 * np.sqrt(outside) * size + outside * images * reach
    return above and bool(problem.domain.contains(W, outside))


def relative_gap(objective: float, bound: float, unit: float = 0.0) -> float:
    """|objective − bound| / max(|objective|, |bound|, unit), infinite without a bound."""
    size = max(abs(objective), abs(bound), unit)
    if not np.isfinite(bound) or not np.isfinite(objective):
        return np.inf
    return abs(objective - bound) / size if size > 0 else 0.0
