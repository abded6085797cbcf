"""Terms whose rows are with actors."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from condgrad._types import Array
from condgrad.backends import memory, tiles
from condgrad.backends.arrays import HOST, placed
from condgrad.certificate.lower_bound import part_of, point_of, price_of
from condgrad.cluster.engine import Engine
from condgrad.cluster.shard import Table, cuttable
from condgrad.errors import ProblemError
from condgrad.maps import RowStorage
from condgrad.maps.dealt import Dealt
from condgrad.methods.protocol import Method
from condgrad.problem import Problem, Term


def asked(what: Any, *first: Any) -> Callable[..., Any]:
    """A method whose result is the sum of what actors answer."""

    def method(self: Any, *args: Any) -> Any:
        return self.ask(what, *first, *args)

    return method


@dataclass(frozen=True, eq=False, repr=False)
class DealtTerm(Term):
    """A term whose rows are with actors, and the passes over them: W goes out, sums come back.

    A table is a `Table`. Rows are drawn here, and every actor takes its part of what was drawn: the
    number of actors changes nothing but the order of sums.
    """

    engine: Any = None
    halves: bool = False
    """Whether a table can be in bfloat16."""
    parallel = False
    value, smoothed, merit = asked(Term.value), asked(Term.smoothed), asked(Term.merit)
    misses, lengths = asked(Term.misses), asked(Term.lengths)
    square, squares = asked("passes", "square"), asked("passes", "squares")

    @property
    def passes(self) -> Any:
        """The term itself."""
        return self

    @property
    def alone(self) -> Term:
        """The term itself, on the CPU, as it was before its arrays went to a GPU."""
        map, function = self.map.origin or self.map, self.function.origin or self.function
        return Term(map, function, self.weight, self.name)

    def ask(self, what: Any, *args: Any) -> Any:
        """The sum of what actors answer, with arrays where those of the map lie."""
        return _sum(self.engine.ask(self.name, what, *args), self.map.like)

    def table(self, dtype: Any) -> Table:
        """A table with a number 0 for every row."""
        return Table(self.name, self.map.size, np.dtype(dtype), self.engine.doubts)

    def renew(
        self, W: Array, G: Array, drawn: Sequence[slice], y: Any, slopes: Any, *steps: float
    ) -> None:
        """As `Plain.renew`."""
        found, _ = self.ask("sweep", "renew", G, W, drawn, y, slopes, *steps)
        G[...] = found
        self.resum(G, slopes)

    def ascend(self, W: Array, G: Array, drawn: Sequence[slice], y: Any, beta: float) -> float:
        """As `Plain.ascend`; if an actor was lost `resum` sees what has changed."""
        found, moved = self.ask("sweep", "ascend", G[:0], W, drawn, y, beta)
        G += found
        return float(moved)

    def collect(self, G: Array, y: Any) -> None:
        """G += A*y of a table."""
        G += self.ask("adjoint", y, G.dtype)
        y.doubts = self.engine.doubts

    def resum(self, G: Array, y: Any) -> None:
        """Make G = A*y again if rows of y may have been lost."""
        if y.doubts != self.engine.doubts:
            G.fill(0)
            self.collect(G, y)

    def scale(self, y: Any, G: Array, share: float) -> None:
        """Multiply a table, and the cotangent G = A*y that belongs to it, by a share, in place."""
        self.ask("passes", "scale", y, np.zeros_like(G), share)
        G.fill(0)
        self.collect(G, y)


def _sum(answers: Sequence[Any], like: Array) -> Any:
    """The sum of arrays and numbers, all that is in lists, and tuples of such."""
    if isinstance(answers[0], tuple):
        parts = (_sum(some, like) for some in zip(*answers, strict=True))
        return tuple.__new__(type(answers[0]), parts)
    total = None if answers[0] is None else functools.reduce(operator.add, answers)
    return placed(total, like) if isinstance(total, np.ndarray) else total


part_of.register(DealtTerm, lambda term, *args: term.ask(part_of, *args))
price_of.register(DealtTerm, lambda term, *args: term.ask(price_of, *args))


@point_of.register(DealtTerm)
def _point(term: DealtTerm, W: Array, y: Any) -> Array:
    found, map = term.engine.ask(term.name, point_of, HOST, y), term.alone.map
    if term.engine.gpu:  # each with zeros for the others
        return np.asarray(sum(found))
    whole = np.empty(map.size)
    for i, own in enumerate(found):
        whole[Dealt(map, len(found), i).ids()] = own
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
        DealtTerm(t.map, t.function, t.weight, t.name, engine, engine.gpu) if large(t) else t
        for t in problem.terms
    ]
    own = [t for t in terms if isinstance(t, DealtTerm)]
    for t in own:
        if engine.shards > t.map.size or not cuttable(t.function):
            kind = type(t.function).__name__
            raise ProblemError(
                f"the {t.map.size} rows of term {t.name!r} ({kind}) cannot be dealt to "
                f"{engine.shards} shards one by one: use fewer shards, or leave cluster out"
            )
    found = problem.over(problem.domain, terms, problem.like)
    rows = sum(method.row_bytes(t, found) for t in own)
    where = "memory" if free is None else "a GPU's memory"
    memory.require_room(method.memory(found) - rows, method.remedy, free=free, where=where)
    side, entries = problem.domain.shape[0], int(np.prod(problem.domain.shape))
    sums = tiles.buffers(side) if engine.gpu else 8 * 8 * entries
    engine.begin([t.alone for t in own], rows // engine.shards + sums, method.remedy)
    return found
