"""FactoredApg: accelerated projected gradients over a nuclear ball, with W kept as factors.

All terms are separable and read entries, so the gradient is sparse. No array has the shape of W.
Constraints and regularisers have multipliers. An interval on all entries has multipliers for a
table of entries, which changes from one round of steps to the next. The multipliers of all other
entries are 0, a point of dom h* with h*(0) = 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, pairwise
from typing import Any, ClassVar, NamedTuple, cast

import numpy as np
import scipy.linalg
from numpy.random import Generator

from condgrad._floats import EPS
from condgrad._ours import ours
from condgrad._types import Array, pick
from condgrad.backends import threads
from condgrad.certificate.infeasible import Refutation
from condgrad.certificate.lower_bound import Bound, Report, margin, sizes_of
from condgrad.domains import NuclearBall
from condgrad.domains.eigen import LARGE
from condgrad.domains.singular import STEPS, top_bound
from condgrad.evaluation import Evaluation
from condgrad.functions.group import project_simplex
from condgrad.maps import AllEntries, Entries
from condgrad.maps.pattern import Pattern, SparseMatrix, read_entries
from condgrad.methods.protocol import Given, Known, Method, State
from condgrad.passes.plain import scalar_bounds
from condgrad.points import factored as points
from condgrad.points.factored import Factored
from condgrad.problem import CHUNK, Problem, Term

NEARLY_ORTHONORMAL = 1e-2
"""How far from orthonormal columns may be that a second Cholesky factor makes so."""
BETA_BY_CURVATURE = 3.0
"""The curvature of losses by that of what is smoothed."""
FIRST_ROUND_STEPS = 10
"""Steps of the first rounds but one, which has one; later ones have a tenth of the steps so far."""
LEAST_NEW_ENTRIES = 10_000
"""Entries that may come into a table at the end of any round."""
FORECAST_COLUMNS = 60
"""Columns of the factors that memory is asked for beforehand."""
THREAD_BLOCKS = 4
"""Blocks of `CHUNK` rows a thread must get before plain array work is worth waking it."""
GAP_SHARE = 0.1
"""Lanczos ends if another step could gain less than this part of the gap."""
OBJECTIVE_SHARE = 1e-7
"""Lanczos ends if another step could gain less than this part of the objective."""


def chosen(problem: Problem) -> bool:
    """Whether W is kept as factors by default.

    It is if all terms are losses, or if W is too large to be handed out as an array.
    """
    large = math.prod(problem.domain.shape) > points.SHOWN
    return (large or not problem.composite) and FactoredApg().suits(problem) is None


def boxed(term: Term) -> bool:
    """Whether a term holds all entries of a matrix in one interval."""
    return type(term.map) is AllEntries and scalar_bounds(term.function) is not None


def smoothness(term: Term) -> float:
    """The Lipschitz constant L of h' of a loss; 0 for other terms."""
    return float(getattr(term.function, "smoothness", 0.0))


# --- the rows in use ------------------------------------------------------------------------------


class Block(NamedTuple):
    """Some rows of a term."""

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

    def residual(self, entries: Array) -> Array:
        """z − proj z of a constraint, in float64."""
        z = self.images(entries.astype(np.float64, copy=False))
        return cast(Array, cast(Any, self.term.function).residual(z, self.rows))


@dataclass(eq=False)
class Rows:
    """The rows of all terms of a problem, with those of a table for intervals on all entries.

    Numbers of rows stand in one array, one term behind the other. *Entries* are those of W, without
    the factors of a `Scaled` map. Constraints and regularisers are smoothed about multipliers,
    ω (h_β(z + βy) − β‖y‖²/2), which are numbers of rows too. Those of losses play no part.
    """

    places: list[Array]
    """The table: for every interval on all entries those that have multipliers, in order, as
    numbers of the flattened matrix; none for other terms."""
    ready = False

    def of(self, problem: Problem) -> Rows:
        """These rows, ready for work; what follows from the table is made once."""
        if not self.ready:
            self._prepare(problem)
        return self

    def _prepare(self, problem: Problem) -> None:
        n, m = problem.domain.shape
        self.whole: list[Block] = []
        """All rows of every term."""
        self.blocks: list[Block] = []
        """All rows of every term, in ranges of `CHUNK`."""
        self.curvature = 0.0
        """At least the Lipschitz constant of the losses' gradient."""
        self.others = 0.0
        """At least β times that of what is smoothed."""
        maps, start = [], 0
        for t, places in zip(problem.terms, self.places, strict=True):
            table_map = Entries(*np.divmod(places, m), (n, m)) if places.size else None
            map, c = read_entries(t.map) or (table_map, 1.0)
            size = 0 if map is None else map.size
            maps += [] if map is None else [map]
            steep = t.weight * float(np.max(np.square(c)))
            self.curvature += steep * smoothness(t)
            self.others += 0.0 if t.function.smooth else steep
            self.whole.append(Block(t, c, slice(0, size), slice(start, start + size)))
            for rows in (slice(i, min(i + CHUNK, size)) for i in range(0, size, CHUNK)):
                at = slice(start + rows.start, start + rows.stop)
                self.blocks.append(Block(t, pick(c, rows), rows, at))
            start += size
        self.pattern, self.ready = Pattern(maps, (n, m)), True
        self.held = [b for b in self.whole if b.term.function.indicator]
        """The rows of the constraints."""
        safe = all(ours(t.function) for t in problem.terms)  # others may not bear threads
        self._each = partial(_each, least=THREAD_BLOCKS if safe else len(self.blocks) + 1)

    def entries(self, W: Factored) -> Array:
        """Entries of W at all rows."""
        return self.pattern.by_rows.dots(W.left, W.V)

    def gradient(
        self, entries: Array, y: Array, beta: float, proof: bool = False
    ) -> tuple[Array, float, Array]:
        """The values of the gradient at a W with these entries, the function, and h'_β(z + βy).

        The last is the dual point, slopes of losses included; without `proof` and without y it is
        left out.
        """
        v, new = np.empty_like(entries), np.empty_like(entries if proof else y)

        def work(b: Block) -> float:
            h, w, at, z, less = b.term.function, b.term.weight, b.at, b.images(entries), 0.0
            if not h.smooth:
                z += beta * y[at]
                less = beta * float(np.vdot(y[at], y[at])) / 2
            slope = h.slope(z, beta, b.rows)
            np.multiply(slope, w * b.factor, out=v[at], casting="same_kind")
            if new.size:
                new[at] = h.into_dual(slope, b.rows)
            return w * (h.smoothed(z, beta, b.rows) - less)

        return v, sum(self._each(work, self.blocks)), new

    def bent(self, v: Array, w: Array, a: Array, b: Array) -> float:
        """⟨v − w, a − b⟩ of arrays of rows."""

        def work(block: Block) -> float:
            at = block.at
            return float(np.sum((v[at] - w[at]) * (a[at] - b[at]), dtype=np.float64))

        return sum(self._each(work, self.blocks))

    def dual(self, y: Array, radius: float, held: bool) -> tuple[float, float]:
        """Σ ω h*(y) at a y in float64, and the rounding error of it and of Σ ω A*y.

        With `held` over the constraints alone.
        """
        conjugate, sizes = 0.0, []
        own = [b for b in self.blocks if b.term.function.indicator or not held]

        def work(b: Block) -> list[float]:
            h, some = b.term.function, y[b.at]
            sums = h.conjugate(some, b.rows), h.conjugate_size(some, b.rows)
            return [float(x) for x in (*sums, b.term.map.spread(some, b.rows))]

        for b, (value, size, spread) in zip(own, self._each(work, own), strict=True):
            conjugate += b.term.weight * value
            pieces = [other.rows for other in own if other.term is b.term]
            sizes.append(sizes_of(b.term, spread, size, pieces))
        return conjugate, margin(sizes, radius, len(self.whole))

    def adjoint(self, y: Array) -> SparseMatrix:
        """Σ ω A*y in float64."""
        parts = [y[b.at] * b.factor * b.term.weight for b in self.whole]
        return self.pattern.matrix(np.concatenate(parts))


def _each(work: Callable[[Any], Any], parts: Sequence[Any], least: int = 1) -> list[Any]:
    """Results of some work on parts, in their order; a thread gets at least so many."""
    jobs = max(1, min(threads.count(), len(parts) // least))
    cuts = np.linspace(0, len(parts), jobs + 1).astype(int)
    tasks: list[Any] = [partial(list, map(work, parts[a:b])) for a, b in pairwise(cuts)]
    return list(chain(*threads.run(tasks)))


def look(term: Term, W: Factored, share: float, seed: int) -> tuple[int, Array]:
    """How many entries miss an interval on all of them, and about a share of those.

    These are numbers of the flattened matrix, in order. The choice depends on the seed, not on the
    number of threads.
    """

    def work(at: slice) -> tuple[int, Array]:
        bad = np.flatnonzero(cast(Any, term.function).residual(W.ranged(at))) + at.start
        chosen = np.random.default_rng([seed, at.start]).random(bad.size) < share
        return bad.size, bad[chosen]

    counts, places = zip(*_each(work, list(term.chunks())), strict=True)
    return sum(counts), np.concatenate(places)


# --- the method -----------------------------------------------------------------------------------


@dataclass(kw_only=True)
class FactoredState(State):
    """The iterate and the one before, their entries, and the frame of the next projection."""

    before: Factored
    """W before the latest iteration."""
    in_use: Rows
    """The rows that have a part in the steps."""
    entries: Array
    """The entries of W at all rows."""
    entries_before: Array
    """The entries of `before` at all rows."""
    objective: float
    """f at W, smoothed terms included."""
    frame: Array
    """Columns near the leading right singular vectors of the point that is projected next."""
    curvature: float
    """L, the measured curvature."""
    y: Array
    """The multipliers of all rows, slopes of losses; empty if all terms are losses."""
    smoothing: float
    """β, with which terms are smoothed about their multipliers."""
    missed: list[int]
    """For every term the number of entries that missed its interval when all were looked at."""
    both: float = 0.0
    """⟨W, W_before⟩, after the first iteration."""
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
    the better bound counts. For squares ω h*(t y) = ω (t²‖y‖²/2 + t⟨b, y⟩), so t has a formula. It
    serves other losses of curvature L too, with ‖y‖²/(2L) as their squares. h* is taken at the
    numbers fl(t y) themselves. Their distance from t y is one of the roundings that `margin` counts
    for scaling.

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
    brisk: float = 0.02

    def suits(self, problem: Problem) -> str | None:
        served = (boxed(t) or (t.function.separable and read_entries(t.map)) for t in problem.terms)
        if type(problem.domain) is NuclearBall and all(served):
            return None
        return (
            "problem is not over a NuclearBall with separable terms on Entries alone, but for "
            "intervals on AllEntries: use condgrad.solve without this method, which keeps W as an "
            "array"
        )

    def init(
        self, problem: Problem, W: Factored, rng: Generator, known: Known, multipliers: Given = None
    ) -> FactoredState:
        rows = Rows([np.zeros(0, np.int64) for _ in problem.terms]).of(problem)
        entries, beta = rows.entries(W), _first_beta(problem, rows)
        y = np.zeros(rows.pattern.size if problem.composite else 0, problem.dtype)
        density = min(1.0, rows.pattern.size / W.size)  # rows for each entry of W
        return FactoredState.begun(
            problem,
            W,
            rng,
            known,
            before=W,
            in_use=rows,
            entries=entries,
            entries_before=entries.copy(),
            objective=rows.gradient(entries, y, beta)[1],
            frame=self._framed(problem, W.V, W.rank, rng),
            curvature=(rows.curvature + rows.others / beta) * density,
            y=y,
            smoothing=beta,
            missed=[W.size] * len(problem.terms),
        )

    def step(self, problem: Problem, state: FactoredState, at_most: int = 1) -> FactoredState:
        s, rows, W = state, state.in_use.of(problem), state.W
        later = (1 + math.sqrt(1 + 4 * s.momentum**2)) / 2
        m, entries = (s.momentum - 1) / later, s.entries
        if m:
            entries = s.entries - s.entries_before
            entries *= m
            entries += s.entries
        v, _, _ = rows.gradient(entries, s.y, s.smoothing)
        V = rows.pattern.matrix(v)
        least = 1e-9 * float(np.linalg.norm(v)) / _radius(problem)
        most, square, both = rows.curvature + rows.others / s.smoothing, W.square, s.both
        far = (1 + m) ** 2 * square - 2 * m * (1 + m) * both + m**2 * s.before.square  # ‖Z‖²
        while True:  # until L is long enough, at most the Lipschitz constant
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
            s.curvature = self.safety * bend / size
            s.frame = s.frame[:, :columns]
        if clear:
            fall = min(1.0, max(0.0, bend / (size * L))) ** self.slow
            s.curvature = L * max(self.fall, fall)
        s.both = new.dot(W)
        ahead = inner - ((1 + m) * square - m * both) - new.square + s.both  # ⟨Z − W⁺, W⁺ − W⟩
        s.momentum = 1.0 if ahead > 0 or objective > s.objective else later
        s.brisk = s.objective - objective > self.brisk * abs(s.objective)
        s.before, s.W, s.entries_before, s.entries = W, new, s.entries, found
        s.objective, s.k, s.calls = objective, s.k + 1, s.calls + 1
        s.rows = [n + b.rows.stop for n, b in zip(s.rows, rows.whole, strict=True)]
        s.eta, s.beta, s.betas = 1.0, s.smoothing, [s.smoothing] * len(problem.terms)
        if problem.composite:
            s.y = y
            if s.k >= s.round_ends:
                s.round_ends, s.momentum = s.k + max(FIRST_ROUND_STEPS, s.k // 10), 1.0
                if any(map(boxed, problem.terms)):
                    self._renew(problem, s, rows)
            s.objective = s.in_use.of(problem).gradient(s.entries, s.y, s.smoothing)[1]
        return s

    def _projected(
        self, problem: Problem, s: FactoredState, V: SparseMatrix, m: float, L: float
    ) -> tuple[Factored, float]:
        """The projection W⁺ of X = Z − V/L, as far as the frame sees it, and ⟨W⁺, X⟩."""
        K, radius = s.frame, _radius(problem)

        def image(K: Array, product: Array, W: Factored, before: Factored) -> Array:
            product *= -1 / L
            for point, factor in ((W, 1 + m), (before, -m)):
                if point.rank and factor:
                    product += point.U @ ((point.V.T @ K) * (point.s * factor)[:, None])
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
        s_new = d[:rank].astype(problem.dtype)
        return Factored(Q @ a[:, :rank], s_new, right[:, :rank]), float(d @ values)

    def _framed(self, problem: Problem, right: Array, rank: int, rng: Generator) -> Array:
        """The frame of the next step: columns that survived, a guard, and drawn columns."""
        n, shape = right.shape[0], problem.domain.shape
        wanted, most = rank + max(self.guard, rank // self.part), min(shape)
        wanted = most if most <= self.small else min(wanted, most)
        have = min(wanted, right.shape[1])
        drawn = rng.standard_normal((n, wanted - have)) / np.sqrt(n)
        return np.hstack([right[:, :have], drawn.astype(problem.dtype)])

    def _renew(self, problem: Problem, s: FactoredState, rows: Rows) -> None:
        """Begin another round, with other entries of the intervals on all of them."""
        places, own = [], []
        losses = sum(t.map.size for t in problem.terms if not boxed(t))
        most = max(losses, s.W.rank * sum(s.W.shape), LEAST_NEW_ENTRIES)
        for i, (b, known) in enumerate(zip(rows.whole, rows.places, strict=True)):
            y = s.y[b.at]
            if boxed(b.term):
                share, seed = most / max(1, s.missed[i]), int(s.rng.integers(2**63))
                s.missed[i], new = look(b.term, s.W, share, seed)
                s.rows[i] += b.term.map.size
                if new.size > most:
                    new = s.rng.choice(new, most, replace=False)
                old, values = known[y != 0], y[y != 0]
                known = np.union1d(old, new)
                y = np.zeros(known.size, y.dtype)
                y[np.searchsorted(known, old)] = values
            places.append(known)
            own.append(y)
        s.in_use, s.y = Rows(places), np.concatenate(own)
        rows = s.in_use.of(problem)
        s.entries, s.entries_before = rows.entries(s.W), rows.entries(s.before)

    def rebase(self, problem: Problem, state: FactoredState, share: float) -> FactoredState:
        return state

    def evaluate(self, problem: Problem, state: FactoredState, W: Factored) -> Evaluation:
        """Objective and violations of the iterate, whose entries are known."""
        families = problem.violations(cast(Array, W))
        blocks = state.in_use.of(problem).blocks
        pairs = [(b, b.term.function) for b in blocks if not b.term.function.indicator]
        objective = sum(b.term.weight * h.value(b.images(state.entries), b.rows) for b, h in pairs)
        return Evaluation(objective, families, problem.total(families))

    def merit(
        self, problem: Problem, state: FactoredState, W: Factored, evaluation: Evaluation
    ) -> float:
        """The augmented Lagrangian; entries without a multiplier are penalised."""
        rows, beta = state.in_use.of(problem), state.smoothing
        if not rows.held:
            return evaluation.objective
        entries = rows.entries(W)
        total = rows.gradient(entries, state.y, beta)[1]
        for b in rows.held:
            r = b.residual(entries)
            others = evaluation.families[b.term.name].l2 ** 2 - float(np.vdot(r, r))
            total += b.term.weight * max(0.0, others) / (2 * beta)
        return total

    def price(self, problem: Problem, state: FactoredState, which: str, point: Factored) -> float:
        """ω Σ |y_l| |r_l| over the rows of constraints, r the residuals of a point."""
        rows = state.in_use.of(problem)
        entries = rows.entries(point)
        prices = ((b, np.abs(b.residual(entries) * state.y[b.at])) for b in rows.held)
        return sum(b.term.weight * float(each.sum()) for b, each in prices)

    def measure(
        self, problem: Problem, state: FactoredState, known: Evaluation | None = None
    ) -> Report:
        """Evaluate W and bound the optimum; gap and slack, which no step needs, are NaN."""
        evaluation = known or self.evaluate(problem, state, state.W)
        bound = _proved(problem, state, evaluation.objective)
        return Report(evaluation, bound, np.nan, [np.nan] * len(problem.terms))

    def ray(self, problem: Problem, state: FactoredState, keep: bool = False) -> Refutation:
        """Look at the multipliers of the constraints alone (`condgrad.certificate.infeasible`)."""
        low = _proved(problem, state, 0.0, held=True)
        value, source = (np.inf, "ray of slopes") if low.value > 0 else (-np.inf, "")
        return Refutation(low._replace(value=value, source=source), {})

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
    zero = np.zeros(rows.pattern.size, problem.dtype)
    steep = float(np.linalg.norm(rows.gradient(zero, zero, 1.0)[0])) / _radius(problem)
    weight = max((t.weight for t in problem.terms if not t.function.smooth), default=1.0)
    return BETA_BY_CURVATURE * weight / (rows.curvature or steep or 1.0)


def orthonormal(Y: Array) -> tuple[Array, Array]:
    """Orthonormal columns Q and R with Y = QR.

    R is a Cholesky factor of YᵀY, its columns scaled to length 1, and once more one of QᵀQ. These
    are products of matrices, six times as fast as reflections, which serve if columns of Y are too
    close to one another.
    """
    try:
        Q, R = _cholesky(Y, 1.0)
        Q, C = _cholesky(Q, NEARLY_ORTHONORMAL)
        return Q, C @ R
    except np.linalg.LinAlgError:
        if not np.isfinite(Y).all():
            raise
    Q, R = scipy.linalg.qr(Y, mode="economic", check_finite=False)
    return np.ascontiguousarray(Q), R


def _cholesky(Y: Array, far: float) -> tuple[Array, Array]:
    """Y C⁻¹ and C, the Cholesky factor of YᵀY; refused if cosines of columns are above `far`."""
    gram = Y.T @ Y
    sizes = np.sqrt(np.diagonal(gram))
    with np.errstate(all="ignore"):
        gram /= np.outer(sizes, sizes)
    if not np.max(np.abs(gram - np.eye(sizes.size))) <= far:  # it may be NaN
        raise np.linalg.LinAlgError("columns are 0, not finite, or too close to one another")
    C = scipy.linalg.cholesky(gram, check_finite=False) * sizes
    inverse = scipy.linalg.solve_triangular(C, np.eye(sizes.size), check_finite=False)
    return Y @ inverse.astype(Y.dtype, copy=False), C


# --- the bound ------------------------------------------------------------------------------------


def _proved(problem: Problem, s: FactoredState, objective: float, held: bool = False) -> Bound:
    """The bound of the slopes about the multipliers at a W with this objective.

    With `held` that of the constraints alone.
    """
    rows, radius = s.in_use.of(problem), _radius(problem)
    entries = s.entries.astype(np.float64, copy=False)
    y = rows.gradient(entries, s.y, s.smoothing, proof=True)[2]
    for b in rows.whole:
        if held and not b.term.function.indicator:
            y[b.at] = 0.0
    conjugate, rounding = rows.dual(y, radius, held)
    if not np.isfinite([objective, conjugate, rounding]).all():
        return Bound()  # a slope is NaN or infinite, or the numbers are too large

    def enough(low: float, high: float) -> bool:
        gap, size = objective + conjugate + radius * low, abs(objective) + abs(conjugate)
        return radius * (high - low) <= max(GAP_SHARE * gap, OBJECTIVE_SHARE * size)

    top = top_bound(rows.adjoint(y), enough)
    line, losses = radius * top.value, [b for b in rows.whole if smoothness(b.term)]
    squares = sum(
        b.term.weight * 0.5 * float(np.vdot(y[b.at], y[b.at])) / smoothness(b.term) for b in losses
    )
    best, source = _value(line, conjugate, rounding), "slopes"
    t = max(0.0, -(line + (conjugate - squares)) / (2 * squares)) if squares else 1.0
    if t != 1.0 and np.isfinite(t):
        scaled = _value(t * radius * top.value, *rows.dual(t * y, radius, held))
        best, source = (scaled, "slopes, scaled") if scaled > best else (best, source)
    kind = "probabilistic" if top.failure else "exact-singular-value"
    return Bound(best, kind, top.failure, source)


def _value(low: float, conjugate: float, rounding: float) -> float:
    """−r σ − Σ ω h*(y), rounded downwards; `low` is r σ."""
    value = -low - conjugate - rounding - 8 * EPS * (low + abs(conjugate))
    return value if np.isfinite(value) else -np.inf
