"""Smooth terms that read entries of a W kept as factors: their rows, and the sparse gradient."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from condgrad._ours import ours
from condgrad._types import Array, pick
from condgrad.backends import threads
from condgrad.functions import Function
from condgrad.maps.pattern import Pattern, SparseMatrix, read_entries
from condgrad.points.factored import Factored
from condgrad.problem import CHUNK, Problem, Term, Violation

ENOUGH = 4 * CHUNK
"""Rows a thread must get before plain array work is worth waking it."""


def observable(problem: Problem) -> bool:
    """Whether all terms are smooth, separable and read entries only."""
    return all(
        t.function.smooth and t.function.separable and read_entries(t.map) is not None
        for t in problem.terms
    )


class Block(NamedTuple):
    """Some rows of a term."""

    term: int
    rows: slice
    """Which of its rows, …"""
    at: slice
    """… and where they stand among those of all terms."""


class Dual(NamedTuple):
    """The slopes at a point, moved into dom h* and scaled, and what the terms say of them."""

    y: Array
    conjugates: list[float]
    """ω h*(y) of every term; …"""
    sizes: list[float]
    """… ω times what it is rounded against …"""
    spreads: list[float]
    """… and Σ ω|y_l|‖a_l‖, against which A*y is."""
    products: list[float]
    """ω ⟨y, z⟩."""
    values: list[float]
    """ω h(z)."""


class Observed:
    """The rows of all terms of a problem that reads entries only (`observable`).

    Numbers of rows stand in one array, one term behind the other. *Entries* are those of W, without
    the factors of a `Scaled` map.

    Parameters
    ----------
    problem : Problem
        The problem.
    """

    def __init__(self, problem: Problem) -> None:
        self.terms, self.dtype = problem.terms, problem.dtype
        self._ours = all(ours(t.function) for t in self.terms)  # others may not bear threads
        read = [read_entries(t.map) for t in self.terms]
        assert all(r is not None for r in read)
        self._factors = [r[1] for r in read if r is not None]
        self.pattern = Pattern([r[0] for r in read if r is not None])
        self.size, self._blocks, start = self.pattern.size, [], 0
        for i, t in enumerate(self.terms):
            for first in range(0, t.map.size, CHUNK):
                rows = slice(first, min(first + CHUNK, t.map.size))
                at = slice(start + rows.start, start + rows.stop)
                self._blocks.append(Block(i, rows, at))
            start += t.map.size

    @property
    def smoothness(self) -> float:
        """At least the Lipschitz constant of the gradient."""
        pairs = zip(self.terms, self._factors, strict=True)
        return float(sum(t.weight * _smooth(t) * float(np.max(np.square(c))) for t, c in pairs))

    @property
    def density(self) -> float:
        """Rows for each entry of W, at most 1."""
        return min(1.0, self.size / (self.pattern.shape[0] * self.pattern.shape[1]))

    def entries(self, W: Factored) -> Array:
        """Entries of W at all rows."""
        return self.pattern.by_rows.dots(W.left.astype(self.dtype, copy=False), W.V)

    def gradient(self, entries: Array) -> tuple[Array, float]:
        """The values of ∇f on the pattern at a W with these entries, and f."""
        v = np.empty_like(entries)

        def work(b: Block) -> float:
            t, c = self.terms[b.term], pick(self._factors[b.term], b.rows)
            z = (entries[b.at] * c).astype(entries.dtype, copy=False)
            np.multiply(
                t.function.slope(z, 1.0, b.rows), t.weight * c, out=v[b.at], casting="same_kind"
            )
            return t.weight * t.function.value(z, b.rows)

        return v, sum(self._each(work))

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

    def dual(self, entries: Array, scale: float = 1.0, slopes: Array | None = None) -> Dual:
        """The slopes at a W with these entries, as a point of dom h*; or given ones, scaled."""
        y = np.empty(self.size)

        def work(b: Block) -> list[float]:
            t, h = self.terms[b.term], self.terms[b.term].function
            z = entries[b.at].astype(np.float64) * pick(self._factors[b.term], b.rows)
            if slopes is None:
                own = h.into_dual(h.slope(z, 1.0, b.rows), b.rows)
            else:
                own = scale * slopes[b.at]  # h* is infinite where that leaves its domain
            y[b.at] = own
            conjugates = h.conjugate(own, b.rows), h.conjugate_size(own, b.rows)
            sums = t.map.spread(own, b.rows), float(np.vdot(own, z)), h.value(z, b.rows)
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
        return [b.rows for b in self._blocks if b.term == term]

    def _each(self, work: Callable[[Block], Any]) -> list[Any]:
        """What some work says of every block, in their order."""
        jobs = max(1, min(threads.count(), self.size // ENOUGH)) if self._ours else 1
        cuts = np.linspace(0, len(self._blocks), jobs + 1).astype(int)

        def some(blocks: Sequence[Block]) -> list[Any]:
            return [work(b) for b in blocks]

        done = threads.run([partial(some, self._blocks[a:b]) for a, b in pairwise(cuts)])
        return [found for part in done for found in part]


class ObservedTerm:
    """Who answers for one term of `Observed` in a run, in the place of a keeper."""

    sampling = 0.0

    def __init__(self, observed: Observed, term: int) -> None:
        self.term: Term = observed.terms[term]
        self._observed, self._index = observed, term
        self.rows = 0
        """Rows evaluated so far."""
        self._at: tuple[Any, Array | None] = (None, None)

    def know(self, W: Factored, entries: Array) -> None:
        """Remember the entries of a point, which will be asked for."""
        self._at = (W, entries)

    def value(self, W: Any) -> float:
        """ω h(A W)."""
        known, entries = self._at
        if known is not W or entries is None:
            return self.term.value(W)
        return self._observed.value(self._index, entries)

    def violation(self, W: Array, diameter: float) -> Violation:
        """There is none: smooth terms are no constraints."""
        raise AssertionError("a smooth term has no violation")

    def arrays(self) -> dict[str, Any]:
        """What a copy would need to go on."""
        return {"rows": self.rows}


def _smooth(term: Term) -> float:
    function: Function = term.function
    return float(getattr(function, "smoothness", 0.0))
