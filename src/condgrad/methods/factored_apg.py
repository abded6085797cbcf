"""FactoredApg: accelerated projected gradients over a nuclear ball, with W kept as factors.

All terms are separable and read entries, so the gradient is sparse. No array has the shape of W.
Constraints and regularisers have multipliers. An interval on all entries has multipliers for a
table of entries, which changes from one round of steps to the next. The multipliers of all other
entries are 0, a point of dom h* with h*(0) = 0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import scipy.linalg
from scipy.special import betaincinv

from condgrad._floats import EPS
from condgrad._ours import ours
from condgrad._types import Array, pick
from condgrad.backends import memory, threads
from condgrad.certificate.infeasible import Refutation
from condgrad.certificate.lower_bound import Bound, Duals, Report, Slopes, margin, sizes_of
from condgrad.domains import NuclearBall
from condgrad.domains.eigen import LARGE
from condgrad.domains.singular import STEPS, Top, top_bound
from condgrad.evaluation import Evaluation, Sampled, Violation
from condgrad.functions import Proximable, Squared
from condgrad.functions.group import project_simplex
from condgrad.maps import AllEntries, Entries
from condgrad.maps.pattern import Pattern, SparseMatrix, read_entries
from condgrad.methods.protocol import Known, Method, State
from condgrad.passes import Miss
from condgrad.passes.plain import row_misses, scalar_bounds
from condgrad.points import factored as points
from condgrad.points.factored import Factored
from condgrad.problem import CHUNK, Problem, Term, entry_size

NEARLY_ORTHONORMAL = 1e-2
"""How far from orthonormal columns may be that a second Cholesky factor makes so."""
BETA_BY_CURVATURE = 3.0
"""The curvature of losses by that of what is smoothed."""
FIRST_ROUND_STEPS = 10
"""Steps of the first rounds but one, which has one; later ones have a tenth of the steps so far."""
LEAST_NEW_ENTRIES = 10_000
"""Entries that may come into a table at the end of any round."""
TABLE_BYTES = 200
"""Bytes for each entry of a table, while another is made."""
EXACT_ENTRIES = 10**9
"""Entries up to which an interval is measured on all of them."""
DRAWN_ENTRIES = 1 << 20
"""Entries that are drawn if there are more."""
SHARE_FAILURE = 1e-3
"""Probability with which the share of entries that miss may exceed `Sampled.share`."""
FORECAST_COLUMNS = 60
"""Columns of the factors that memory is asked for beforehand; a frame that grows asks again."""
THREAD_BLOCKS = 4
"""Blocks of `CHUNK` rows a thread must get before plain array work is worth waking it."""
SCALE_SEARCH = 12
"""Conjugates computed to find how far to scale slopes."""
GAP_SHARE = 0.1
"""Lanczos ends if another step could gain less than this part of the gap."""
OBJECTIVE_SHARE = 1e-7
"""Lanczos ends if another step could gain less than this part of the objective."""


def suitable(problem: Problem) -> bool:
    """Whether W can be kept as factors."""
    return type(problem.domain) is NuclearBall and all(
        boxed(t) or (t.function.separable and read_entries(t.map) is not None)
        for t in problem.terms
    )


def chosen(problem: Problem) -> bool:
    """Whether W is kept as factors by default.

    It is if all terms are losses, or if W is too large to be handed out as an array.
    """
    large = bool(np.prod(problem.domain.shape, dtype=float) > points.SHOWN)
    return suitable(problem) and (large or not problem.composite)


def boxed(term: Term) -> bool:
    """Whether a term holds all entries of a matrix in one interval."""
    return type(term.map) is AllEntries and scalar_bounds(term.function) is not None


# --- the rows in use ------------------------------------------------------------------------------


@dataclass(eq=False)
class Table:
    """The entries that have multipliers, of the terms that hold all entries in an interval."""

    places: list[Array]
    """For every term its entries in order, as numbers of the flattened matrix; other terms have
    none."""


class Block(NamedTuple):
    """Some rows of a term."""

    term_index: int
    term: Term
    factor: Array | float
    """The factors of the rows on entries of W."""
    rows: slice
    """The rows of the block among those of its term."""
    at: slice
    """The rows of the block among those of all terms."""

    def images(self, entries: Array) -> Array:
        """z at a W with these entries, in their precision."""
        return (entries[self.at] * self.factor).astype(entries.dtype, copy=False)


class Dual(NamedTuple):
    """Numbers of a bound at a dual point y, which sum over all rows."""

    conjugate: float
    """Σ ω h*(y)."""
    rounding: float
    """The rounding error of Σ ω A*y and of the conjugates."""


class Rows:
    """The rows of all terms of a problem, with those of a table for intervals on all entries.

    Numbers of rows stand in one array, one term behind the other. *Entries* are those of W, without
    the factors of a `Scaled` map. Constraints and regularisers are smoothed about multipliers,
    ω (h_β(z + βy) − β‖y‖²/2), which are numbers of rows too, 0 for losses.
    """

    def __init__(self, problem: Problem, table: Table) -> None:
        self.terms, self.dtype, (n, m) = problem.terms, problem.dtype, problem.domain.shape
        self.held = [(i, t) for i, t in enumerate(self.terms) if t.function.indicator]
        """The constraints, with their numbers among the terms."""
        self.parts: list[slice] = []
        """The rows of every term."""
        self.factors: list[Array | float] = []
        """Factors of the rows on entries of W, for every term."""
        self.curvature = 0.0
        """At least the Lipschitz constant of the losses' gradient."""
        self.others = 0.0
        """At least β times that of what is smoothed."""
        self._blocks: list[Block] = []
        maps, start = [], 0
        for i, (t, places) in enumerate(zip(self.terms, table.places, strict=True)):
            table_map = Entries(*np.divmod(places, m), (n, m)) if places.size else None
            map, c = read_entries(t.map) or (table_map, 1.0)
            size = 0 if map is None else map.size
            maps += [] if map is None else [map]
            steep = t.weight * float(np.max(np.square(c)))
            self.curvature += steep * float(getattr(t.function, "smoothness", 0.0))
            self.others += 0.0 if t.function.smooth else steep
            for first in range(0, size, CHUNK):
                rows = slice(first, min(first + CHUNK, size))
                at = slice(start + rows.start, start + rows.stop)
                self._blocks.append(Block(i, t, pick(c, rows), rows, at))
            self.parts.append(slice(start, start + size))
            self.factors.append(c)
            start += size
        self.pattern, self.size = Pattern(maps, (n, m)), start
        safe = all(ours(t.function) for t in self.terms)  # others may not bear threads
        least = THREAD_BLOCKS if safe else len(self._blocks) + 1
        self._each = partial(_each, self._blocks, least)
        """Results of some work on every block, in their order."""

    def entries(self, W: Factored) -> Array:
        """Entries of W at all rows."""
        return self.pattern.by_rows.dots(W.left.astype(self.dtype, copy=False), W.V)

    def gradient(self, entries: Array, y: Array, beta: float) -> tuple[Array, float, Array]:
        """The values of the gradient at a W with these entries, the function, and h'_β(z + βy)."""
        v, new = np.empty_like(entries), np.zeros_like(y)

        def work(b: Block) -> float:
            h, w, at, z, less = b.term.function, b.term.weight, b.at, b.images(entries), 0.0
            if not h.smooth:
                z += beta * y[at]
                less = beta * float(np.vdot(y[at], y[at])) / 2
            slope = h.slope(z, beta, b.rows)
            np.multiply(slope, w * b.factor, out=v[at], casting="same_kind")
            if not h.smooth:
                new[at] = h.into_dual(slope, b.rows)
            return w * (h.smoothed(z, beta, b.rows) - less)

        return v, sum(self._each(work)), new

    def slopes(self, entries: Array, y: Array, beta: float) -> Array:
        """The dual point at a W with these entries, in float64: h'_β(z + βy), slopes of losses."""
        new, entries = np.empty(self.size), entries.astype(np.float64, copy=False)

        def work(b: Block) -> None:
            h, z = b.term.function, b.images(entries)
            if not h.smooth:
                z += beta * y[b.at]
            new[b.at] = h.into_dual(h.slope(z, beta, b.rows), b.rows)

        self._each(work)
        return new

    def bent(self, v: Array, w: Array, a: Array, b: Array) -> float:
        """⟨v − w, a − b⟩ of arrays of rows."""

        def work(block: Block) -> float:
            at = block.at
            return float(np.sum((v[at] - w[at]) * (a[at] - b[at]), dtype=np.float64))

        return sum(self._each(work))

    def value(self, index: int, entries: Array) -> float:
        """ω h(z) of a term at a W with these entries."""
        own = [b for b in self._blocks if b.term_index == index]
        h, weight = self.terms[index].function, self.terms[index].weight
        return weight * sum(h.value(b.images(entries), b.rows) for b in own)

    def images(self, index: int, entries: Array) -> Array:
        """z of a term at a W with these entries, in float64."""
        z: Array = entries[self.parts[index]].astype(np.float64) * self.factors[index]
        return z

    def dual(self, y: Array, radius: float, held: bool = False) -> Dual:
        """The sums at a dual point y in float64; with `held` over the constraints alone."""

        def work(b: Block) -> list[float]:
            t, h, own = b.term, b.term.function, y[b.at]
            if held and not h.indicator:
                return [0.0, 0.0, 0.0]
            conjugates = h.conjugate(own, b.rows), h.conjugate_size(own, b.rows)
            return [t.weight * float(x) for x in (*conjugates, t.map.spread(own, b.rows))]

        totals, sizes = np.zeros((len(self.terms), 3)), []
        for block, sums in zip(self._blocks, self._each(work), strict=True):
            totals[block.term_index] += sums
        for i, (t, (_, size, spread)) in enumerate(zip(self.terms, totals.tolist(), strict=True)):
            pieces = [b.rows for b in self._blocks if b.term_index == i] or [slice(0, 0)]
            sizes.append(sizes_of(t, spread / t.weight, size / t.weight, pieces))
        return Dual(sum(totals[:, 0].tolist()), margin(sizes, radius, len(sizes)))

    def conjugate(self, y: Array, scale: float) -> float:
        """Σ ω h*(scale · y)."""

        def work(b: Block) -> float:
            return b.term.weight * float(b.term.function.conjugate(scale * y[b.at], b.rows))

        return sum(self._each(work))

    def adjoint(self, y: Array) -> SparseMatrix:
        """Σ ω A*y in float64."""
        trios = zip(self.terms, self.factors, self.parts, strict=True)
        return self.pattern.matrix(np.concatenate([y[at] * c * t.weight for t, c, at in trios]))


def _each(blocks: Sequence[Any], least: int, work: Callable[[Any], Any]) -> list[Any]:
    """Results of some work on blocks, in their order; a thread gets at least so many."""
    jobs = max(1, min(threads.count(), len(blocks) // least))
    cuts = np.linspace(0, len(blocks), jobs + 1).astype(int)

    def some(part: Sequence[Any]) -> list[Any]:
        return [work(b) for b in part]

    done = threads.run([partial(some, blocks[a:b]) for a, b in pairwise(cuts)])
    return [found for part in done for found in part]


_rows: WeakKeyDictionary[Table, Rows] = WeakKeyDictionary()


def rows_of(problem: Problem, table: Table) -> Rows:
    """The rows of a problem with a table, made once for every table."""
    if table not in _rows:
        _rows[table] = Rows(problem, table)
    return _rows[table]


# --- intervals on all entries ---------------------------------------------------------------------


class Seen(NamedTuple):
    """Violations of an interval by all entries, or by drawn ones as an estimate for all."""

    misses: list[Miss]
    missed: int
    """The number of entries that miss the interval."""
    places: Array
    """The chosen entries among those that miss, in order, as numbers of the flattened matrix."""
    looks: int
    """The number of entries that were looked at."""


def drawn(term: Term) -> bool:
    """Whether a term is an interval on more entries than are looked at."""
    return boxed(term) and term.map.size > EXACT_ENTRIES


def look(term: Term, W: Factored, share: float = 0.0, salt: int = 0) -> Seen:
    """Look at all entries; of those that miss the interval choose about a share.

    The choice depends on the places and the salt, not on the number of threads.
    """
    left, size = W.left, entry_size(W)

    def work(at: slice) -> tuple[Miss, int, Array]:
        found, r = _missed(term, W.ranged(at, left), size)
        if not found.worst:
            return found, 0, np.zeros(0, np.int64)
        bad = np.flatnonzero(r) + at.start
        return found, bad.size, bad[_hashed(bad, salt) < share] if share < 1 else bad

    misses, counts, places = zip(*_each(list(term.chunks()), 1, work), strict=True)
    return Seen(list(misses), sum(counts), np.concatenate(places), term.map.size)


def draw(term: Term, W: Factored, rng: np.random.Generator, count: int) -> Seen:
    """Look at drawn entries, and estimate what all would be."""
    flat = np.unique(rng.integers(term.map.size, size=count))
    found, r = _missed(term, W.entries(*np.divmod(flat, W.shape[1])), entry_size(W))
    bad, scale = flat[r != 0], W.size / flat.size
    estimate = found._replace(squares=scale * found.squares, images=W.dot(W))
    return Seen([estimate], int(scale * bad.size), bad, flat.size)


def sampled(term: Term, W: Factored, rng: np.random.Generator) -> Sampled:
    """Violations by newly drawn entries, with a bound on the share of all (Clopper, Pearson).

    An entry misses by more than rounding if it does by more than 10⁻⁶ of the size of its data.
    """
    z = W.entries(*(rng.integers(side, size=DRAWN_ENTRIES) for side in W.shape))
    far = np.abs(_residual(term, z))
    bad = far > 1e-6 * np.maximum(term.function.data_size(z), entry_size(W))
    missed, share, count = int(np.count_nonzero(bad)), 1.0, DRAWN_ENTRIES
    if missed < count:
        share = float(betaincinv(missed + 1, count - missed, 1 - SHARE_FAILURE))
    worst = float(np.max(far, initial=0.0, where=bad))
    return Sampled(count, term.map.size, missed, worst, share, SHARE_FAILURE)


def _residual(term: Term, z: Array) -> Array:
    assert isinstance(term.function, Proximable)
    return term.function.residual(z)


def _missed(term: Term, z: Array, unit: float) -> tuple[Miss, Array]:
    """How entries z miss an interval, and r = z − proj z."""
    r = _residual(term, z)
    worst = float(np.max(np.abs(r), initial=0.0))
    rows = row_misses(worst, 1.0, term.function.data_size(z[:1]), unit)  # one number for all
    return Miss(float(np.vdot(r, r)), float(np.vdot(z, z)), worst, *rows), r


def _hashed(places: Array, salt: int) -> Array:
    """A number in [0, 1) for each place, as if drawn [1]_.

    References
    ----------
    .. [1] G. Steele, D. Lea, C. Flood, "Fast splittable pseudorandom number generators", OOPSLA
       2014: the finaliser of SplitMix.
    """
    x = places.astype(np.uint64) + np.uint64(salt)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        x = (x ^ (x >> np.uint64(shift))) * np.uint64(factor)
    found: Array = ((x ^ (x >> np.uint64(31))) >> np.uint64(11)) * 2.0**-53
    return found


# --- the method -----------------------------------------------------------------------------------


@dataclass(kw_only=True)
class FactoredState(State):
    """The iterate and the one before, their entries, and the frame of the next projection."""

    before: Factored
    """W before the latest iteration."""
    table: Table
    """The entries in use of the intervals on all entries."""
    entries: Array
    """The entries of W at all rows."""
    entries_before: Array
    """The entries of `before` at all rows."""
    v: Array
    """The values of ∇f at W on the pattern of the rows."""
    objective: float
    """f at W, smoothed terms included."""
    frame: Array
    """Columns near the leading right singular vectors of the point that is projected next."""
    curvature: float
    """L, the measured curvature."""
    y: Array
    """The multipliers of all rows; empty if all terms are losses."""
    smoothing: float
    """β, with which terms are smoothed about their multipliers."""
    both: float
    """⟨W, W_before⟩."""
    missed: list[int]
    """For every term the number of entries that missed its interval when all were looked at."""
    momentum: float = 1.0
    """t_k of Nesterov's sequence."""
    brisk: bool = True
    """Whether f fell fast in the latest iteration."""
    round_ends: int = 1
    """The iteration with which the round of steps ends."""


@dataclass(frozen=True)
class FactoredApg(Method):
    r"""W⁺ = proj(Z − ∇f(Z)/L), Z = W + m (W − W_before): FISTA [1]_ with restarts, all by products.

    ∇f(Z) is a sparse matrix V on the observed entries, and Z a difference of two points of low
    rank. X = Z − V/L is never formed: X K and XᵀQ are products of thin matrices, and gathers along
    V. One step of subspace iteration on the frame K finds leading singular vectors: Q = orth(X K),
    then the singular value decomposition of QᵀX. The singular values are projected onto
    {d ≥ 0, Σ d ≤ r}. Those that survive, and some more, are the next frame. The frame grows if all
    survive, but not while f falls fast: in our tests most columns added then were dropped later.

    L is measured. A step with ⟨∇f(W⁺) − ∇f(Z), W⁺ − Z⟩ > L ‖W⁺ − Z‖² is made anew with a larger L.
    L falls a little from one iteration to the next. Along matrices of low rank the curvature is
    about that along a single entry times the share of observed entries. So this L is far below the
    Lipschitz constant. m follows Nesterov's sequence, which begins anew if
    ⟨Z − W⁺, W⁺ − W⟩ > 0 [2]_.

    Constraints and regularisers are smoothed with a fixed β about multipliers y. Every step renews
    them: y ← h'_β(z + βy). Extrapolation then goes wrong after a while, so it begins anew with
    every round of steps. At the end of a round entries with a multiplier of 0 leave the table.
    Entries of W that miss the interval enter it, a part of them if they are many. At an optimum of
    rank r about as many multipliers are not 0 as W has degrees of freedom, r (n + m).

    Proved is the bound of `condgrad.certificate.lower_bound` at the slopes y of W,
    F* ≥ −r σ_max(v) − Σ_t ω_t h_t*(y_t). Its roundings are counted as there, and σ_max comes from
    `condgrad.domains.singular`. All slopes are also scaled by a t ≥ 0, v and σ_max with them, and
    the better bound counts. For squares ω h*(t y) = ω (t²‖y‖²/2 + t⟨b, y⟩), so t has a formula;
    otherwise it is searched for. h* is taken at the numbers fl(t y) themselves. Their distance from
    t y is one of the roundings that `margin` counts for scaling.

    Parameters
    ----------
    guard, part : int, default 20 and 5
        max(guard, rank/part) columns are kept beyond the rank. They are drawn if all singular
        values survive.
    small : int, default 100
        Up to this smaller side all singular vectors are kept.
    fall, slow : float, default 0.7 and 0.2
        After a step L is multiplied by max(fall, ρ^slow), ρ ≤ 1 the measured curvature over L.
    safety : float, default 1.2
        Factor on a measured curvature after a step that was too long.
    tries : int, default 20
        Most steps tried in an iteration.
    brisk : float, default 0.02
        While f falls by more than this part of itself in an iteration the frame does not grow.

    References
    ----------
    .. [1] A. Beck, M. Teboulle, "A fast iterative shrinkage-thresholding algorithm for linear
       inverse problems", SIAM J. Imaging Sci. 2(1), 2009.
    .. [2] B. O'Donoghue, E. Candès, "Adaptive restart for accelerated gradient schemes", Found.
       Comput. Math. 15, 2015.
    """

    factors: ClassVar[bool] = True
    remedy: ClassVar[str] = "leave out users and items with few ratings, or take a sample"
    slug: str = "factors"
    name: str = "accelerated projected gradient"
    guard: int = 20
    part: int = 5
    small: int = 100
    fall: float = 0.7
    slow: float = 0.2
    safety: float = 1.2
    tries: int = 20
    brisk: float = 0.02

    def suits(self, problem: Problem) -> str | None:
        if suitable(problem):
            return None
        return (
            "problem is not over a NuclearBall with separable terms on Entries alone, but for "
            "intervals on AllEntries: use condgrad.solve without this method, which keeps W as an "
            "array"
        )

    def init(
        self,
        problem: Problem,
        W: Factored,
        rng: np.random.Generator,
        known: Known,
        multipliers: Sequence[Array | None] | None = None,
    ) -> FactoredState:
        table = Table([np.zeros(0, np.int64) for _ in problem.terms])
        rows = rows_of(problem, table)
        entries, beta = rows.entries(W), _first_beta(problem, rows)
        y = np.zeros(rows.size if problem.composite else 0, problem.dtype)
        v, objective, _ = rows.gradient(entries, y, beta)
        density = min(1.0, rows.size / W.size)  # rows for each entry of W
        return FactoredState(
            W=W,
            rng=rng,
            known=known,
            rows=[0] * len(problem.terms),
            betas=[1.0] * len(problem.terms),
            before=W.copy(),
            table=table,
            entries=entries,
            entries_before=entries.copy(),
            v=v,
            objective=objective,
            frame=self._framed(problem, W.V, W.rank, rng),
            curvature=(rows.curvature + rows.others / beta) * density,
            y=y,
            smoothing=beta,
            both=W.square,
            missed=[W.size] * len(problem.terms),
        )

    def step(self, problem: Problem, state: FactoredState, at_most: int = 1) -> FactoredState:
        s, rows, W = state, rows_of(problem, state.table), state.W
        later = (1 + np.sqrt(1 + 4 * s.momentum**2)) / 2
        m, entries, v = (s.momentum - 1) / later, s.entries, s.v
        if m:
            entries = s.entries - s.entries_before
            entries *= entries.dtype.type(m)
            entries += s.entries
            v, _, _ = rows.gradient(entries, s.y, s.smoothing)
        V = rows.pattern.matrix(v)
        least = 1e-9 * float(np.linalg.norm(v)) / _radius(problem)
        most, square, both = rows.curvature + rows.others / s.smoothing, W.square, s.both
        far = (1 + m) ** 2 * square - 2 * m * (1 + m) * both + m**2 * s.before.square  # ‖Z‖²
        for _ in range(self.tries):
            L = max(min(s.curvature, most), least) or 1.0
            columns = s.frame.shape[1]
            s.products += 2 * columns
            new, inner = self._projected(problem, s, V, m, L)
            found = rows.entries(new)
            slopes, objective, y = rows.gradient(found, s.y, s.smoothing)
            bend = rows.bent(slopes, v, found, entries)
            inner += float(np.vdot(v, found)) / L  # ⟨W⁺, Z⟩
            size = max(0.0, new.square - 2 * inner + far)  # ‖W⁺ − Z‖²
            clear = size > 100 * float(np.finfo(problem.dtype).eps) * new.square
            if not clear or bend <= L * size or most <= L:
                break
            s.curvature = float(self.safety * bend / size)
            s.frame = s.frame[:, :columns]
        if clear:
            fall = min(1.0, max(0.0, bend / (size * L))) ** self.slow
            s.curvature = float(L * max(self.fall, fall))
        s.both = new.dot(W)
        ahead = inner - ((1 + m) * square - m * both) - new.square + s.both  # ⟨Z − W⁺, W⁺ − W⟩
        s.momentum = 1.0 if ahead > 0 or objective > s.objective else float(later)
        s.brisk = bool(s.objective - objective > self.brisk * abs(s.objective))
        s.before, s.W, s.entries_before, s.entries = W, new, s.entries, found
        s.v, s.objective, s.k = slopes, objective, s.k + 1
        if problem.composite:
            s.y = y
            s.v, s.objective, _ = rows.gradient(found, y, s.smoothing)
        s.rows = [n + at.stop - at.start for n, at in zip(s.rows, rows.parts, strict=True)]
        s.calls, s.eta, s.beta = s.calls + 1, 1.0, s.smoothing
        s.betas = [s.smoothing] * len(problem.terms)
        if problem.composite and s.k >= s.round_ends:
            s.round_ends, s.momentum = s.k + max(FIRST_ROUND_STEPS, s.k // 10), 1.0
            if any(map(boxed, problem.terms)):
                self._renew(problem, s, rows)
        return s

    def _projected(
        self, problem: Problem, s: FactoredState, V: SparseMatrix, m: float, L: float
    ) -> tuple[Factored, float]:
        """The projection W⁺ of X = Z − V/L, as far as the frame sees it, and ⟨W⁺, X⟩."""
        K, kind, radius = s.frame, problem.dtype.type, _radius(problem)

        def image(K: Array, product: Array, W: Factored, before: Factored) -> Array:
            product *= kind(-1 / L)
            _add(product, W, K, 1 + m)
            _add(product, before, K, -m)
            return product

        Q, _ = orthonormal(image(K, V.times(K), s.W, s.before))
        P, R = orthonormal(image(Q, V.transposed(Q), s.W.T, s.before.T))
        a, values, bt = scipy.linalg.svd(R.T, full_matrices=False, check_finite=False)
        d = values.astype(np.float64)
        if d.sum() > radius:
            d = project_simplex(d, radius)
        rank = int(np.count_nonzero(d))
        right = np.ascontiguousarray(P @ bt.T)
        if s.brisk and rank == K.shape[1]:
            s.frame = right.copy()
        else:
            s.frame = self._framed(problem, right, rank, s.rng)
        new = Factored(Q @ a[:, :rank], d[:rank].astype(kind), right[:, :rank])
        return new, float(d @ values)

    def _framed(self, problem: Problem, right: Array, rank: int, rng: np.random.Generator) -> Array:
        """The frame of the next step: columns that survived, a guard, and drawn columns."""
        n, shape = right.shape[0], problem.domain.shape
        wanted, most = rank + max(self.guard, rank // self.part), min(shape)
        wanted = most if most <= self.small else min(wanted, most)
        have = min(wanted, right.shape[1])
        if wanted > right.shape[1]:
            more = 10 * sum(shape) * (wanted - have) * right.itemsize
            if more > 0.9 * memory.free_memory():
                raise MemoryError
        drawn = rng.standard_normal((n, wanted - have)) / np.sqrt(n)
        return np.hstack([right[:, :have], drawn.astype(problem.dtype)])

    def _renew(self, problem: Problem, s: FactoredState, rows: Rows) -> None:
        """Begin another round, with other entries of the intervals on all of them."""
        terms, places, own = problem.terms, [], []
        losses = sum(t.map.size for t in terms if not boxed(t))
        most = max(losses, s.W.rank * sum(s.W.shape), LEAST_NEW_ENTRIES)
        for i, (t, known, at) in enumerate(zip(terms, s.table.places, rows.parts, strict=True)):
            y = s.y[at]
            if boxed(t):
                if drawn(t):
                    seen = draw(t, s.W, s.rng, max(DRAWN_ENTRIES, losses // 4))
                else:
                    salt = int(s.rng.integers(2**63))
                    seen = look(t, s.W, most / max(1, s.missed[i]), salt)
                s.missed[i], new = seen.missed, seen.places
                s.rows[i] += seen.looks
                if new.size > most:
                    new = s.rng.choice(new, most, replace=False)
                old, values = known[y != 0], y[y != 0]
                known = np.union1d(old, new)
                if TABLE_BYTES * known.size > 0.9 * memory.free_memory():
                    raise MemoryError
                y = np.zeros(known.size, y.dtype)
                y[np.searchsorted(known, old)] = values
            places.append(known)
            own.append(y)
        s.table, s.y = Table(places), np.concatenate(own)
        rows = rows_of(problem, s.table)
        s.entries, s.entries_before = rows.entries(s.W), rows.entries(s.before)
        s.v, s.objective, _ = rows.gradient(s.entries, s.y, s.smoothing)

    def rebase(self, problem: Problem, state: FactoredState, share: float) -> FactoredState:
        return state

    def evaluate(self, problem: Problem, state: FactoredState, W: Factored) -> Evaluation:
        """Objective and violations of W; violations of more than 10⁹ entries are estimates.

        The drawn entries depend on k alone: neither an earlier look nor a resume changes them.
        """
        rows, terms = rows_of(problem, state.table), problem.terms
        families = {t.name: self._violation(problem, state, i) for i, t in rows.held}
        others = [i for i, t in enumerate(terms) if not t.function.indicator]
        objective = sum(rows.value(i, state.entries) for i in others)
        total, estimated = problem.total(families), any(map(drawn, terms))
        return Evaluation(objective, families, total, estimated)

    def _violation(self, problem: Problem, s: FactoredState, index: int) -> Violation:
        """Violation of a constraint by W."""
        t, diameter = problem.terms[index], problem.domain.diameter
        if not boxed(t):
            return t.violation(s.W, diameter)
        if not drawn(t):
            return t.judged(look(t, s.W).misses, s.W, diameter)
        # other entries than those that the steps draw, with those of the table
        seen = draw(t, s.W, np.random.default_rng([s.k + 1, 0]), DRAWN_ENTRIES)
        z = s.entries[rows_of(problem, s.table).parts[index]]
        known, _ = _missed(t, z, entry_size(s.W))
        return t.judged([*seen.misses, known._replace(squares=0.0, images=0.0)], s.W, diameter)

    def sampled(self, problem: Problem, W: Factored) -> dict[str, Sampled]:
        rng = np.random.default_rng([0, 0])
        return {t.name: sampled(t, W, rng) for t in problem.terms if drawn(t)}

    def merit(
        self, problem: Problem, state: FactoredState, W: Factored, evaluation: Evaluation
    ) -> float:
        """The augmented Lagrangian; entries without a multiplier are penalised."""
        rows, beta, total = rows_of(problem, state.table), state.beta, evaluation.objective
        entries = state.entries if W is state.W or not rows.held else rows.entries(W)
        for i, t in rows.held:
            z, y = rows.images(i, entries), state.y[rows.parts[i]].astype(np.float64)
            own = t.function.smoothed(z + beta * y, beta) - beta * float(np.vdot(y, y)) / 2
            if boxed(t):
                squares = float(np.vdot(r := _residual(t, z), r))
                own += max(0.0, evaluation.families[t.name].l2 ** 2 - squares) / (2 * beta)
            total += t.weight * own
        return total

    def price(self, problem: Problem, state: FactoredState, which: str, point: Factored) -> float:
        """ω Σ |y_l| |r_l| over the rows of constraints, r the residuals of a point."""
        rows, total = rows_of(problem, state.table), 0.0
        entries = rows.entries(point)
        for i, t in rows.held:
            r = _residual(t, rows.images(i, entries))
            total += t.weight * float(np.abs(r * state.y[rows.parts[i]]).sum())
        return total

    def duals(self, problem: Problem, state: FactoredState) -> dict[str, Duals]:
        """The slopes at W; `measure` takes those about the multipliers."""
        return {"slopes": [Slopes(state.smoothing) for _ in problem.terms]}

    def measure(
        self, problem: Problem, state: FactoredState, known: Evaluation | None = None
    ) -> Report:
        """Evaluate W and bound the optimum; gap and slack, which no step needs, are NaN."""
        rows, missing = rows_of(problem, state.table), [np.nan] * len(problem.terms)
        evaluation = known or self.evaluate(problem, state, state.W)
        y = rows.slopes(state.entries, state.y, state.smoothing)
        return Report(evaluation, _proved(problem, rows, y, evaluation.objective), np.nan, missing)

    def ray(self, problem: Problem, state: FactoredState, keep: bool = False) -> Refutation:
        """Look at the multipliers of the constraints alone (`condgrad.certificate.infeasible`)."""
        rows, radius = rows_of(problem, state.table), _radius(problem)
        y = rows.slopes(state.entries, state.y, state.smoothing)
        for t, at in zip(problem.terms, rows.parts, strict=True):
            if not t.function.indicator:
                y[at] = 0.0
        dual = rows.dual(y, radius, held=True)
        if not np.isfinite(dual).all():
            return Refutation(Bound(), {})
        top = top_bound(rows.adjoint(y))
        if not _value(radius * top.value, dual) > 0:
            return Refutation(Bound(failure=top.failure), {})
        return Refutation(_bound(np.inf, top, "ray of slopes"), {})

    def memory(self, problem: Problem) -> int:
        n, m = problem.domain.shape
        size = sum(t.map.size for t in problem.terms if not boxed(t))
        item, small, columns = problem.dtype.itemsize, min(n, m), min(FORECAST_COLUMNS, n, m)
        proof = 5 * 8 * small**2 if small <= LARGE else 8 * STEPS * small
        if any(map(boxed, problem.terms)):  # as many more in a table, and while it changes
            size *= 3
        ratings, factors = size * (24 + 9 * item), 14 * (n + m) * columns * item
        return ratings + factors + size * 4 * 8 + proof


def _radius(problem: Problem) -> float:
    assert isinstance(problem.domain, NuclearBall)
    return problem.domain.radius


def _first_beta(problem: Problem, rows: Rows) -> float:
    """β by the curvature of the losses, or by their slopes if there is none."""
    weight = max((t.weight for t in problem.terms if not t.function.smooth), default=1.0)
    curvature = rows.curvature
    if not curvature:
        zero = np.zeros(rows.size, rows.dtype)
        slopes, _, _ = rows.gradient(zero, zero, 1.0)
        curvature = float(np.linalg.norm(slopes)) / _radius(problem) or 1.0
    return BETA_BY_CURVATURE * weight / curvature


def _add(out: Array, W: Factored, K: Array, factor: float) -> None:
    """out += factor · W K."""
    if W.rank and factor:
        small = (W.V.T @ K) * (W.s * factor)[:, None]
        out += W.U @ small.astype(out.dtype, copy=False)


def orthonormal(Y: Array) -> tuple[Array, Array]:
    """Orthonormal columns Q and R with Y = QR.

    R is a Cholesky factor of YᵀY, its columns scaled to length 1, and once more one of QᵀQ. These
    are products of matrices, six times as fast as reflections, which serve if columns of Y are too
    close to one another.
    """
    R, Q = np.eye(Y.shape[1], dtype=Y.dtype), Y
    for again in (False, True):
        gram = Q.T @ Q
        sizes = np.sqrt(np.diagonal(gram))
        if not (np.isfinite(gram).all() and np.all(sizes > 0)):
            break
        gram /= np.outer(sizes, sizes)
        if again and float(np.abs(gram - np.eye(sizes.size)).max()) > NEARLY_ORTHONORMAL:
            break
        try:
            C = scipy.linalg.cholesky(gram, check_finite=False) * sizes
        except np.linalg.LinAlgError:
            break
        inverse = scipy.linalg.solve_triangular(C, np.eye(sizes.size), check_finite=False)
        Q, R = Q @ inverse.astype(Y.dtype, copy=False), (C @ R).astype(Y.dtype, copy=False)
        if again:
            return Q, R
    if not np.isfinite(Y).all():
        raise np.linalg.LinAlgError("the direction is not finite")
    Q, R = scipy.linalg.qr(Y, mode="economic", check_finite=False)
    return np.ascontiguousarray(Q), R


# --- the bound ------------------------------------------------------------------------------------


def _proved(problem: Problem, rows: Rows, y: Array, objective: float) -> Bound:
    """The bound of the slopes y at a W with this objective."""
    radius = _radius(problem)
    dual = rows.dual(y, radius)
    if not np.isfinite([objective, *dual]).all():
        return Bound()  # a slope is NaN or infinite, or the numbers are too large

    def enough(low: float, high: float) -> bool:
        gap, size = objective + dual.conjugate + radius * low, abs(objective) + abs(dual.conjugate)
        return radius * (high - low) <= max(GAP_SHARE * gap, OBJECTIVE_SHARE * size)

    top = top_bound(rows.adjoint(y), enough)
    best = _bound(_value(radius * top.value, dual), top, "slopes")
    t = _best_scale(rows, y, radius * top.value, dual.conjugate)
    if t != 1.0 and np.isfinite(t):
        value = _value(t * radius * top.value, rows.dual(t * y, radius))
        if value > best.value:
            best = _bound(value, top, "slopes, scaled")
    return best


def _bound(value: float, top: Top, source: str) -> Bound:
    kind = "probabilistic" if top.failure else "exact-singular-value"
    return Bound(value, kind, top.failure, source)


def _value(low: float, dual: Dual) -> float:
    """−r σ − Σ ω h*(y), rounded downwards; `low` is r σ."""
    last = 8 * EPS * (low + abs(dual.conjugate))
    value = -low - dual.conjugate - dual.rounding - last
    return value if np.isfinite(value) else -np.inf


def _best_scale(rows: Rows, y: Array, line: float, conjugate: float) -> float:
    """The t ≥ 0 for which t·y proves most, about; `line` is r σ."""
    pairs = list(zip(rows.terms, rows.parts, strict=True))
    square = [(t.weight, y[at]) for t, at in pairs if type(t.function) is Squared]
    if len(square) + sum(t.function.interval is not None for t, _ in pairs) == len(pairs):
        squares = sum(w * 0.5 * float(np.vdot(own, own)) for w, own in square)
        line += conjugate - squares
        return max(0.0, -line / (2 * squares)) if squares > 0 else 1.0

    def lost(t: float) -> float:
        value = t * line + rows.conjugate(y, t)
        return value if np.isfinite(value) else 1e300

    from scipy.optimize import minimize_scalar  # takes long to load, and few runs need it

    most = 2.0 if lost(1.01) < 1e300 else 1.0
    options = {"maxiter": SCALE_SEARCH, "xatol": 1e-4}
    found = minimize_scalar(lost, bounds=(0.0, most), method="bounded", options=options)
    return float(found.x)
