"""One actor: its share of the rows of some terms, and the tables of these rows."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import numpy as np

from condgrad._ours import ours
from condgrad._types import Array
from condgrad.backends import devices, memory, threads, tiles
from condgrad.backends.arrays import HOST, host, placed
from condgrad.certificate import lower_bound
from condgrad.functions import Function
from condgrad.maps.dealt import Deal, Dealt
from condgrad.methods.protocol import shared
from condgrad.problem import Term

FUNCTIONS: dict[str, Callable[..., Any]] = {
    "point": lower_bound.point_of,
    "price": lower_bound.price_of,
}
"""What is asked of a term beside its own methods."""
Summand = tuple[Array, list[Any]]
"""An array that is summed over actors, and what each of them says besides."""


@dataclass(eq=False)
class Table:
    """A table with a number for every row of a term, of which each actor keeps its rows."""

    number: int
    """By which actors know it."""
    name: str
    """The name of the term."""
    size: int
    """Rows of the term."""
    dtype: np.dtype[Any]
    fresh: bool = True
    """Whether the driver's A*y is that of the table, as far as the driver knows."""
    parts: list[Any] | None = None
    """What every actor has of it, while it is written to a file."""


def cut(function: Function, deal: Deal) -> Function:
    """The function of a shard's rows."""
    if function.size is None:
        return function
    own, ids = copy.copy(function), deal.ids()
    for name, value in vars(function).items():
        if isinstance(value, np.ndarray) and value.shape[:1] == (deal.size,):
            setattr(own, name, value[ids])
    own.size = ids.size
    return own


def cuttable(function: Function) -> bool:
    """Whether `cut` knows what the data of a function are."""
    return function.separable and (function.size is None or ours(function))


class Shard:
    """One actor.

    Parameters
    ----------
    number, shards : int
        Which of how many.
    jobs : int
        Threads.
    gpus : float
        GPUs that it has; with any, or a share of one, tables and passes are there.
    """

    def __init__(self, number: int, shards: int, jobs: int, gpus: float) -> None:
        self._number, self._shards, self._share = number, shards, min(1.0, gpus)
        self._calm, self._like = threads.Calm(jobs), devices.on_gpu() if gpus else HOST
        self._terms: dict[str, Term] = {}
        self._tables: dict[int, list[Array]] = {}
        """Tables; that of slopes γ with A*γ, which follows it row by row."""

    def where(self) -> tuple[str, int]:
        """Node and process of the shard."""
        import ray

        return ray.get_runtime_context().get_node_id(), os.getpid()

    def require(self, needed: int, remedy: str, beside: int) -> None:
        """Refuse what will not fit beside other shards of this node."""
        if self._share:
            free, where = self._share * devices.free_memory(), "a GPU's memory"
        else:
            free, where = memory.free_memory() / beside, "each shard's part of a node's memory"
        memory.require_room(needed, remedy, free=free, where=where)

    def hold(self, term: Term) -> None:
        """Keep its share of the rows of a term from now on."""
        if self._share:
            map: Any = term.map.on(self._like)
            map.share = tiles.dealt(map.shape[0], self._shards, self._number)
            own = Term(map, term.function.on(self._like), term.weight, term.name)
        else:
            deal = Deal.of(term.map, self._shards, self._number)
            own = Term(Dealt(term.map, deal), cut(term.function, deal), term.weight, term.name)
        self._terms[term.name] = own

    def answer(self, alive: Sequence[int], name: str, what: str, *args: Any) -> Any:
        """What a method below says of a term, or one of its own; tables not `alive` are dropped."""
        self._tables = {n: kept for n, kept in self._tables.items() if n in alive}
        term = self._terms[name]
        with self._calm():
            if what in vars(Shard):
                return getattr(self, what)(term, *args)
            given = [self._here(term, a) for a in args]
            if what in FUNCTIONS:
                return FUNCTIONS[what](term, *given)
            return attrgetter(what)(term)(*given)

    def _here(self, term: Term, value: Any) -> Any:
        """A table, or an array that can be written, where passes want it; ranges of own rows."""
        if isinstance(value, Table):
            return self._tables[value.number][0]
        if isinstance(value, np.ndarray):
            return placed(np.array(value), self._like)
        if isinstance(value, list) and isinstance(term.map, Dealt):
            deal = term.map.deal  # on a GPU tiles are dealt, and apexes drawn
            return [deal.own(at) for at in value]
        return value

    def table(self, term: Term, table: Table, parts: Sequence[Any] | None = None) -> None:
        """Begin a table, with zeros or what was fetched."""
        given = [] if parts is None else [self._here(term, a) for a in parts[self._number]]
        self._tables[table.number] = given or [term.passes.table(table.dtype)]

    def fetch(self, term: Term, table: Table) -> list[Array]:
        """A table, and its A*γ if that is kept."""
        return [host(a) for a in self._tables[table.number]]

    def sweep(self, term: Term, what: str, dtype: Any, slopes: Table | None, *args: Any) -> Summand:
        """`Plain.ascend`, for A*Δy, or `Plain.renew`, for all of A*γ."""
        W, drawn, *given = (self._here(term, a) for a in args)
        kept = [HOST] if slopes is None else self._tables[slopes.number]
        if len(kept) == 1:
            kept.append(term.map.zeros(dtype))

        def work(part: Sequence[slice], G: Array) -> Any:
            return getattr(term.passes, what)(W, G, part, *given)

        said = shared(term, drawn, work, kept[1])
        return host(kept[1]), said

    def adjoint(self, term: Term, table: Table, dtype: np.dtype[Any]) -> Summand:
        """A*y of a table."""
        y, *kept = self._tables[table.number]
        if not kept:
            kept = [term.map.zeros(dtype)]
            term.passes.collect(kept[0], y)
        return host(kept[0]), []

    def scale(self, term: Term, table: Table, share: float) -> None:
        """`Plain.scale`."""
        y, G = [*self._tables[table.number], term.map.zeros()][:2]
        term.passes.scale(y, G, share)

    def part(self, term: Term, W: Array | None, y: Any) -> Summand:
        """`part_of`: the dense array, and the rest."""
        found = lower_bound.part_of(term, self._here(term, W), self._here(term, y))
        return host(found.v), [found._replace(v=np.empty(0))]
