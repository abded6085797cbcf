"""Terms that read entries of a W kept as factors: their rows, and the sparse gradient.

A term that holds all entries in an interval has a table of some of them, with a multiplier each.
That of all others is 0, a point of dom h* with h*(0) = 0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from condgrad._ours import ours
from condgrad._types import Array, pick
from condgrad.backends import threads
from condgrad.evaluation import Violation
from condgrad.functions import Function, Proximable
from condgrad.maps import AllEntries, Entries
from condgrad.maps.pattern import Pattern, SparseMatrix, read_entries
from condgrad.passes import Miss
from condgrad.points.factored import Factored
from condgrad.problem import CHUNK, Problem, Term
from condgrad.rows.everywhere import draw, exact, look, missed

ENOUGH = 4 * CHUNK
"""Rows a thread must get before plain array work is worth waking it."""


def observable(problem: Problem) -> bool:
    """Whether all terms are smooth, separable and read entries only."""
    return all(
        t.function.smooth and t.function.separable and read_entries(t.map) is not None
        for t in problem.terms
    )


def everywhere(term: Term) -> bool:
    """Whether a term holds all entries of a matrix in one interval."""
    ends = term.function.interval
    one = ends is not None and all(isinstance(end, float) for end in ends)
    return one and type(term.map) is AllEntries and len(term.map.shape) == 2


def tabled(problem: Problem) -> bool:
    """Whether all terms are separable and read entries, but for intervals on all of them."""
    return all(
        everywhere(t) or (t.function.separable and read_entries(t.map) is not None)
        for t in problem.terms
    )


class Block(NamedTuple):
    """Some rows of a term."""

    term: int
    rows: slice
    """Rows of the block among those of its term."""
    at: slice
    """Rows of the block among those of all terms."""


class Dual(NamedTuple):
    """The slopes at a point, moved into dom h* and scaled, and what the terms say of them."""

    y: Array
    conjugates: list[float]
    """ω h*(y) of every term."""
    sizes: list[float]
    """ω times the size against which h*(y) is rounded, of every term."""
    spreads: list[float]
    """Σ ω|y_l|‖a_l‖ of every term, the size against which A*y is rounded."""
    products: list[float]
    """ω ⟨y, z⟩."""
    values: list[float]
    """ω h(z)."""


class Observed:
    """The rows of all terms of a problem that reads entries (`tabled`).

    Numbers of rows stand in one array, one term behind the other. *Entries* are those of W, without
    the factors of a `Scaled` map. Constraints and regularisers are smoothed about multipliers,
    ω (h_β(z + βy) − β‖y‖²/2), which are numbers of rows too, 0 for losses.

    Parameters
    ----------
    problem : Problem
        The problem.
    tables : mapping, optional
        By its index the rows of a term that reads all entries; none of those that are not named.
    """

    def __init__(self, problem: Problem, tables: Mapping[int, Entries] | None = None) -> None:
        self.terms, self.dtype = problem.terms, problem.dtype
        self.tables = dict(tables or {})
        self._ours = all(ours(t.function) for t in self.terms)  # others may not bear threads
        read, self._factors = [], []
        for i, t in enumerate(self.terms):
            found = (self.tables.get(i), 1.0) if everywhere(t) else read_entries(t.map)
            assert found is not None
            read.append(found[0])
            self._factors.append(found[1])
        self.pattern = Pattern([m for m in read if m is not None], problem.domain.shape)
        self.size, self._blocks, self.parts = self.pattern.size, [], []
        start = 0
        for i, m in enumerate(read):
            size = 0 if m is None else m.size
            for first in range(0, size, CHUNK):
                rows = slice(first, min(first + CHUNK, size))
                at = slice(start + rows.start, start + rows.stop)
                self._blocks.append(Block(i, rows, at))
            self.parts.append(slice(start, start + size))
            start += size
        self.plain = all(t.function.smooth for t in self.terms)

    @property
    def curvature(self) -> float:
        """At least the Lipschitz constant of the losses' gradient."""
        return sum(self._steep(i) * _smooth(t) for i, t in enumerate(self.terms))

    def smoothness(self, beta: float) -> float:
        """At least the Lipschitz constant of the gradient, smoothed terms included."""
        others = (i for i, t in enumerate(self.terms) if not t.function.smooth)
        return self.curvature + sum(self._steep(i) for i in others) / beta

    def _steep(self, term: int) -> float:
        return self.terms[term].weight * float(np.max(np.square(self._factors[term])))

    @property
    def density(self) -> float:
        """Rows for each entry of W, at most 1."""
        return min(1.0, self.size / (self.pattern.shape[0] * self.pattern.shape[1]))

    def entries(self, W: Factored) -> Array:
        """Entries of W at all rows."""
        return self.pattern.by_rows.dots(W.left.astype(self.dtype, copy=False), W.V)

    def gradient(
        self, entries: Array, y: Array | None = None, beta: float = 1.0
    ) -> tuple[Array, float]:
        """The values of the gradient on the pattern at a W with these entries, and the function."""
        v = np.empty_like(entries)

        def work(b: Block) -> float:
            t, c = self.terms[b.term], pick(self._factors[b.term], b.rows)
            z, less = (entries[b.at] * c).astype(entries.dtype, copy=False), 0.0
            if y is not None and not t.function.smooth:
                z += entries.dtype.type(beta) * y[b.at]
                less = beta * float(np.vdot(y[b.at], y[b.at])) / 2
            np.multiply(
                t.function.slope(z, beta, b.rows), t.weight * c, out=v[b.at], casting="same_kind"
            )
            return t.weight * (t.function.smoothed(z, beta, b.rows) - less)

        return v, sum(self._each(work))

    def ascended(self, entries: Array, y: Array, beta: float) -> Array:
        """The multipliers y ← h'_β(z + βy) at a W with these entries."""
        new = np.zeros_like(y)

        def work(b: Block) -> None:
            t, c = self.terms[b.term], pick(self._factors[b.term], b.rows)
            if not t.function.smooth:
                z = (entries[b.at] * c + beta * y[b.at]).astype(y.dtype, copy=False)
                new[b.at] = t.function.into_dual(t.function.slope(z, beta, b.rows), b.rows)

        self._each(work)
        return new

    def bent(self, v: Array, w: Array, a: Array, b: Array) -> float:
        """⟨v − w, a − b⟩ of arrays of rows."""

        def work(block: Block) -> float:
            at = block.at
            return float(np.sum((v[at] - w[at]) * (a[at] - b[at]), dtype=np.float64))

        return sum(self._each(work))

    def mixed(self, a: Array, b: Array, m: float) -> Array:
        """A + m (a − b) of arrays of rows."""
        out, m = np.empty_like(a), a.dtype.type(m)

        def work(block: Block) -> None:
            at = block.at
            out[at] = a[at] + m * (a[at] - b[at])

        self._each(work)
        return out

    def value(self, term: int, entries: Array) -> float:
        """ω h(z) of a term at a W with these entries."""
        t, total = self.terms[term], 0.0
        for b in self._blocks:
            if b.term == term:
                z = (entries[b.at] * pick(self._factors[term], b.rows)).astype(entries.dtype)
                total += t.function.value(z, b.rows)
        return t.weight * total

    def augmented(self, term: int, entries: Array, y: Array, beta: float) -> tuple[float, float]:
        """h_β(z + βy) − β‖y‖²/2 of an indicator, and ‖z − proj z‖², of its rows."""
        h, at, c = self.terms[term].function, self.parts[term], self._factors[term]
        assert isinstance(h, Proximable)
        z, own = entries[at].astype(np.float64) * c, y[at].astype(np.float64)
        residual = h.residual(z)
        smoothed = h.smoothed(z + beta * own, beta) - beta * float(np.vdot(own, own)) / 2
        return smoothed, float(np.vdot(residual, residual))

    def price(self, term: int, entries: Array, y: Array) -> float:
        """ω Σ |y_l| |r_l| of an indicator, r the residuals of its rows."""
        t, at = self.terms[term], self.parts[term]
        assert isinstance(t.function, Proximable)
        residual = t.function.residual(entries[at].astype(np.float64) * self._factors[term])
        return t.weight * float(np.abs(residual * y[at]).sum())

    def dual(
        self,
        entries: Array,
        scale: float = 1.0,
        slopes: Array | None = None,
        about: tuple[Array | None, float] = (None, 1.0),
    ) -> Dual:
        """The slopes at a W with these entries, as a point of dom h*; or given ones, scaled.

        Slopes of what is smoothed are those `about` multipliers y with a β.
        """
        y, (multipliers, beta) = np.empty(self.size), about

        def work(b: Block) -> list[float]:
            t, h = self.terms[b.term], self.terms[b.term].function
            z = entries[b.at].astype(np.float64) * pick(self._factors[b.term], b.rows)
            if slopes is None:
                near = z if multipliers is None or h.smooth else z + beta * multipliers[b.at]
                own = h.into_dual(h.slope(near, beta, b.rows), b.rows)
            else:
                own = scale * slopes[b.at]  # h* is infinite where that leaves its domain
            y[b.at] = own
            conjugates = h.conjugate(own, b.rows), h.conjugate_size(own, b.rows)
            value = 0.0 if h.indicator else h.value(z, b.rows)
            sums = t.map.spread(own, b.rows), float(np.vdot(own, z)), value
            return [t.weight * float(x) for x in (*conjugates, *sums)]

        totals = np.zeros((len(self.terms), 5))
        for block, sums in zip(self._blocks, self._each(work), strict=True):
            totals[block.term] += sums
        return Dual(y, *(column.tolist() for column in totals.T))

    def conjugate(self, y: Array, scale: float) -> float:
        """Σ ω h*(scale · y)."""

        def work(b: Block) -> float:
            t = self.terms[b.term]
            return t.weight * float(t.function.conjugate(scale * y[b.at], b.rows))

        return sum(self._each(work))

    def adjoint(self, y: Array) -> SparseMatrix:
        """Σ ω A*y in float64."""
        v = np.empty(self.size)

        def work(b: Block) -> None:
            v[b.at] = y[b.at] * pick(self._factors[b.term], b.rows) * self.terms[b.term].weight

        self._each(work)
        return self.pattern.matrix(v)

    def pieces(self, term: int) -> list[slice]:
        """The pieces in which the rows of a term are summed."""
        return [b.rows for b in self._blocks if b.term == term] or [slice(0, 0)]

    def _each(self, work: Callable[[Block], Any]) -> list[Any]:
        """Results of some work on every block, in their order."""
        jobs = max(1, min(threads.count(), self.size // ENOUGH)) if self._ours else 1
        cuts = np.linspace(0, len(self._blocks), jobs + 1).astype(int)

        def some(blocks: Sequence[Block]) -> list[Any]:
            return [work(b) for b in blocks]

        done = threads.run([partial(some, self._blocks[a:b]) for a, b in pairwise(cuts)])
        return [found for part in done for found in part]


class ObservedTerm:
    """Answers for one term of `Observed` in a run, in the place of a keeper."""

    sampling = 0.0

    def __init__(self, observed: Observed, term: int) -> None:
        self.term: Term = observed.terms[term]
        self._observed, self._index = observed, term
        self.rows = 0
        """Rows evaluated so far."""
        self._at: tuple[Any, Array | None] = (None, None)
        self._seen: list[tuple[Any, list[Miss]]] = []
        """Misses of all entries of the best point and of the latest."""
        self._looks = 0
        self._best: Any = None
        self.multipliers: Array | None = None

    def know(
        self,
        W: Factored,
        entries: Array,
        observed: Observed,
        multipliers: Array | None = None,
        misses: list[Miss] | None = None,
    ) -> None:
        """Remember the entries of a point, which will be asked for, and what was seen of all."""
        self._at, self._observed, self.multipliers = (W, entries), observed, multipliers
        if misses is not None:
            self._remember(W, misses)
            self.rows += self.term.map.size

    def value(self, W: Any) -> float:
        """ω h(A W)."""
        known, entries = self._at
        if known is not W or entries is None:
            return self.term.value(W)
        return self._observed.value(self._index, entries)

    def violation(self, W: Any, diameter: float) -> Violation:
        """Violation of a constraint; estimated if entries are too many."""
        if not everywhere(self.term):
            return self.term.violation(W, diameter)
        return self.term.judged(self._misses(W), W, diameter)

    def _misses(self, W: Factored) -> list[Miss]:
        for point, misses in self._seen:
            if point is W:
                return misses
        return self._remember(W, self._look(W))

    def _remember(self, W: Factored, misses: list[Miss]) -> list[Miss]:
        others = [(point, known) for point, known in self._seen if point is self._best]
        self._seen = [*others, (W, misses)]
        return misses

    def _look(self, W: Factored) -> list[Miss]:
        """Misses of all entries of a point, or of drawn ones and those of the table."""
        if exact(self.term):
            self.rows += self.term.map.size
            return look(self.term, W).misses
        self._looks += 1  # others than before, and than those that the steps draw
        seen, count = draw(self.term, W, np.random.default_rng([self._looks, 0]))
        self.rows += count
        known, entries = self._at
        if known is W and entries is not None:
            mine = missed(self.term, W, entries[self._observed.parts[self._index]])
            seen.misses.append(mine._replace(squares=0.0, images=0.0))
        return seen.misses

    def merit(self, W: Any, beta: float) -> float | None:
        """The part of the augmented Lagrangian; entries without a multiplier are penalised."""
        known, entries = self._at
        y, observed = self.multipliers, self._observed
        if y is None or not self.term.function.indicator:
            return None
        if known is not W or entries is None:  # it is compared with the latest
            self._best, entries = W, observed.entries(W)
        smoothed, squares = observed.augmented(self._index, entries, y, beta)
        if everywhere(self.term):
            rest = sum(miss.squares for miss in self._misses(W)) - squares
            smoothed += max(0.0, rest) / (2 * beta)
        return self.term.weight * smoothed

    def price(self, which: str, W: Any, beta: float, point: Any) -> float:
        """ω Σ |y_l| |r_l| of a constraint at a point, over the rows that have a multiplier."""
        assert self.multipliers is not None
        return self._observed.price(self._index, self._observed.entries(point), self.multipliers)

    def arrays(self) -> dict[str, Any]:
        """Numbers that a copy needs to go on."""
        return {"rows": self.rows}


def _smooth(term: Term) -> float:
    function: Function = term.function
    return float(getattr(function, "smoothness", 0.0))
