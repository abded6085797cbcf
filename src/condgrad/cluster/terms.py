"""Terms whose rows are with actors, and the passes over such rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from condgrad._types import Array
from condgrad.backends import memory, tiles
from condgrad.backends.arrays import placed
from condgrad.certificate.lower_bound import Part, Sizes
from condgrad.cluster.engine import Engine
from condgrad.cluster.shard import cuttable
from condgrad.errors import ProblemError
from condgrad.maps import Perimeters, RowStorage, Triangles
from condgrad.maps.dealt import Deal
from condgrad.methods.protocol import Method
from condgrad.passes import Fused, Miss, Plain
from condgrad.problem import Problem, Term


def summed(what: str) -> Callable[..., float]:
    """A method that sums what actors say."""

    def method(self: Any, *args: Any) -> float:
        return float(sum(self.engine.ask(self.name, what, *args)))

    return method


class Dealt(Plain):
    """Passes over rows that are with actors: W, ranges and β go out, sums come back.

    A table is a `Table`. Rows are drawn here, and every actor takes its part of what was drawn: the
    number of actors changes nothing but the order of sums.
    """

    square, squares = summed("passes.square"), summed("passes.squares")

    def __init__(self, term: DealtTerm) -> None:
        super().__init__(term.map, term.function)
        self.name, self.engine, self.halves = term.name, term.engine, term.engine.gpu

    def renew(
        self,
        W: Array,
        G: Array,
        ranges: Sequence[slice],
        y: Any,
        slopes: Any,
        beta: float,
        theta: float,
    ) -> None:
        found = self._swept("renew", G, slopes, W, ranges, y, slopes, beta, theta)
        G[...] = placed(self._adjoint(slopes, G) if found is None else found[0], G)

    def ascend(self, W: Array, G: Array, ranges: Sequence[slice], y: Any, beta: float) -> float:
        found = self._swept("ascend", G, None, W, ranges, y, beta)
        if found is None:  # `resum` sees what has changed
            return 0.0
        G += placed(found[0], G)
        return float(sum(found[1]))

    def _swept(self, what: str, G: Array, *args: Any) -> Any:
        """`Shard.sweep` of all actors; None if one was lost."""
        return self.engine.ask(self.name, "sweep", what, G.dtype, *args, total=True, once=True)

    def _adjoint(self, y: Any, G: Array) -> Array:
        """A*y."""
        found: Array = self.engine.ask(self.name, "adjoint", y, G.dtype, total=True)[0]
        return found

    def collect(self, G: Array, y: Any) -> None:
        G += placed(self._adjoint(y, G), G)
        y.fresh = True

    def resum(self, G: Array, y: Any) -> None:
        if not y.fresh:
            G.fill(0)
            self.collect(G, y)

    def table(self, dtype: Any) -> Any:
        return self.engine.table(self.name, self.map.size, np.dtype(dtype))

    def scale(self, y: Any, G: Array, share: float) -> None:
        self.engine.ask(self.name, "scale", y, share, once=True)
        y.fresh = False
        self.resum(G, y)


@dataclass(frozen=True, eq=False, repr=False)
class DealtTerm(Term):
    """A term whose rows are with actors: what is asked of all rows is asked of them."""

    dealt: ClassVar[bool] = True
    engine: Any = None
    value, smoothed, merit = summed("value"), summed("smoothed"), summed("merit")
    lengths, price = summed("lengths"), summed("price")

    @property
    def passes(self) -> Plain:
        """Object that makes the passes over the rows of the term."""
        return Dealt(self)

    @property
    def alone(self) -> Term:
        """The term itself, on the CPU, as it was before its arrays went to a GPU."""
        map, function = self.map.origin or self.map, self.function.origin or self.function
        return Term(map, function, self.weight, self.name)

    def misses(self, W: Array, unit: float) -> list[Miss]:
        return [m for part in self.engine.ask(self.name, "misses", W, unit) for m in part]

    def part(self, W: Array | None, y: Any) -> Part:
        """`part_of`; a sum over actors is one more addition for each."""
        total, parts = self.engine.ask(self.name, "part", W, y, total=True)
        v, more = placed(total, self.map.zeros()), len(parts) - 1
        _, conjugates, products, values, sizes = zip(*parts, strict=True)
        spreads, depths, absolutes, additions = zip(*sizes, strict=True)
        own = Sizes(sum(spreads), max(depths) + more, sum(absolutes), max(additions) + more)
        return Part(v, sum(conjugates), sum(products), sum(values), own)

    def point(self, W: Array, y: Any) -> Array:
        """`point_of`."""
        found, shards = self.engine.ask(self.name, "point", W, y), self.engine.shards
        if self.engine.gpu:  # each with zeros for the others
            return np.asarray(sum(found))
        whole = np.empty(self.map.size)
        for i, own in enumerate(found):
            whole[Deal.of(self.map, shards, i).ids()] = own
        return whole


def large(term: Term) -> bool:
    """Whether a term of g has more rows than W has entries, so that dealing them is of use."""
    many = term.map.size > int(np.prod(term.map.shape)) and not isinstance(term.map, RowStorage)
    return many and not term.function.smooth


def require_large(problem: Problem) -> None:
    """Refuse a problem without anything to deal, before a cluster is looked for."""
    if not any(large(t) for t in problem.terms):
        raise ProblemError(
            "cluster is given, but no term has more rows than W has entries, so that there is "
            "nothing to deal: leave cluster out"
        )


def dealt(problem: Problem, method: Method, engine: Engine, free: float | None = None) -> Problem:
    """The problem with its large terms dealt to actors; `free` is what a GPU has for the rest.

    Raises
    ------
    ProblemError
        If one cannot be dealt, or there is too little memory, here or there.
    """
    if not method.deals:
        raise ProblemError(
            f"{method.name} cannot be dealt to a cluster: use condgrad.spdhg or condgrad.sag_cgal"
        )
    terms = [
        DealtTerm(t.map, t.function, t.weight, t.name, engine) if large(t) else t
        for t in problem.terms
    ]
    own = [t.alone for t in terms if isinstance(t, DealtTerm)]
    for term in own:
        _check(term, engine)
    found = problem.over(problem.domain, terms, problem.like)
    rows = sum(method.row_bytes(t, found) for t in terms if t.dealt)
    where = "memory" if free is None else "a GPU's memory"
    memory.require_room(method.memory(found) - rows, method.remedy, free=free, where=where)
    sums = 8 * 8 * int(np.prod(problem.domain.shape))
    buffers = tiles.buffers(problem.domain.shape[0]) if engine.gpu else 0
    engine.begin(own, -(-rows // engine.shards) + sums + buffers, method.remedy)
    return found


def _check(term: Term, engine: Engine) -> None:
    """Refuse a term that cannot be dealt."""
    why, units, what = "", term.map.size, "rows"
    if engine.gpu:
        fit = Fused.serves(term.map, term.function)
        if not (fit and type(term.map) in (Triangles, Perimeters)):
            why = (
                "to GPUs, which are for triangles and perimeters with one interval for all rows: "
                "use gpus_per_shard=0"
            )
        units, what = tiles.count(term.map.shape[0]), "tiles of 64 × 64 pairs"
    if not cuttable(term.function):
        kind = type(term.function).__name__
        why = f"to a cluster one by one, as rows of a {kind} cannot: leave cluster out"
    if why:
        raise ProblemError(f"term {term.name!r} cannot be dealt {why}")
    if engine.shards > units:
        raise ProblemError(
            f"there are {engine.shards} shards, but term {term.name!r} has only {units} {what}: "
            f"use at most {units} shards"
        )
