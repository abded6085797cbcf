"""One actor: its share of the rows of some terms, and the tables of these rows."""

from __future__ import annotations

import copy
import os
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from condgrad._ours import ours
from condgrad._types import Array
from condgrad.backends import devices, memory, threads, tiles
from condgrad.backends.arrays import HOST, host, placed
from condgrad.errors import ProblemError
from condgrad.functions import Function
from condgrad.maps import Perimeters, Triangles
from condgrad.maps.dealt import Dealt
from condgrad.methods.protocol import shared
from condgrad.passes import Tiled
from condgrad.problem import Term


@dataclass(eq=False)
class Table:
    """A table with a number for every row of a term, of which each actor keeps its rows."""

    name: str
    """The name of the term."""
    size: int
    """Rows of the term."""
    dtype: np.dtype[Any]
    doubts: int
    """`Engine.doubts` when the driver's A*y was last that of the table."""
    key: str = field(default_factory=lambda: uuid.uuid4().hex)
    """By which actors know it."""
    parts: list[Any] | None = None
    """Rows of the table by actor, while the table is written to a file."""


def cut(function: Function, map: Dealt) -> Function:
    """The function of a shard's rows."""
    if function.size is None:
        return function
    own = copy.copy(function)
    for name, value in vars(function).items():
        if isinstance(value, np.ndarray) and value.shape[:1] == (function.size,):
            setattr(own, name, value[map.ids()])
    own.size = map.size
    return own


def cuttable(function: Function) -> bool:
    """Whether `cut` knows what the data of a function are."""
    return function.separable and (function.size is None or ours(function))


class Shard:
    """One actor, which begins a table with zeros when it meets it.

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
        self._number, self._shards, self._gpu = number, shards, gpus > 0
        self._calm, self._like = threads.Calm(jobs), devices.on_gpu() if gpus else HOST
        self._terms: dict[str, Term] = {}
        self._tables: dict[str, Array] = {}

    def where(self) -> tuple[str, int, float]:
        """Node of the shard with its GPUs, its process, and the memory that is free there."""
        import ray

        place = f"{ray.get_runtime_context().get_node_id()} {ray.get_gpu_ids()}"
        free = devices.free_memory() if self._gpu else memory.free_memory()
        return place, os.getpid(), free

    def hold(self, term: Term) -> None:
        """Keep its share of the rows of a term from now on."""
        own: Any
        if self._gpu:
            own, function = term.map.on(self._like), term.function.on(self._like)
            own.share = tiles.dealt(own.shape[0], self._shards, self._number)
            tiled = type(own) in (Triangles, Perimeters) and Tiled.serves(own, function)
            if not (tiled and own.share[1]):
                raise ProblemError(
                    f"term {term.name!r} cannot be dealt to {self._shards} shards on GPUs, which "
                    "are for triangles and perimeters with one interval for all rows, and a tile "
                    "of 64 × 64 pairs each at least: use gpus_per_shard=0"
                )
        else:
            own = Dealt(term.map, self._shards, self._number)
            function = cut(term.function, own)
        self._terms[term.name] = Term(own, function, term.weight, term.name)

    def answer(self, name: str, what: Any, *args: Any) -> Any:
        """Answer of a function, or of a method below, for a term."""
        term = self._terms[name]
        given = [self._here(term, a) for a in args]
        with self._calm():
            found = (what if callable(what) else getattr(self, what))(term, *given)
        if isinstance(found, tuple):
            return tuple.__new__(type(found), map(host, found))
        return host(found)

    def _here(self, term: Term, value: Any) -> Any:
        """A table, or an array that can be written, where passes want it; ranges of own rows."""
        if isinstance(value, Table):
            if value.key not in self._tables:
                self._tables[value.key] = term.passes.table(value.dtype)
            return self._tables[value.key]
        if isinstance(value, np.ndarray):
            return placed(np.array(value), self._like)
        if isinstance(value, list) and isinstance(term.map, Dealt):
            before = term.map.before  # on a GPU tiles are dealt, and apexes drawn
            return [slice(before(at.start), before(at.stop)) for at in value]
        return value

    def give(self, term: Term, y: Array, parts: tuple[Array, ...]) -> None:
        """Go on with a table that was fetched from all actors."""
        y[...] = placed(parts[self._number], self._like)

    def fetch(self, term: Term, y: Array) -> Array:
        """A table."""
        return y

    def passes(self, term: Term, what: str, *args: Any) -> Any:
        """A pass over all of its rows."""
        return getattr(term.passes, what)(*args)

    def sweep(
        self, term: Term, what: str, G: Array, W: Array, drawn: Sequence[slice], *given: Any
    ) -> tuple[Array, Any]:
        """`Plain.ascend` or `Plain.renew`: G and Σ (Δy)².

        Only the first actor adds to the G that is given, if it is not empty: it is summed here.
        """
        G = term.map.zeros(G.dtype) if self._number or not G.size else G

        def work(part: Sequence[slice], G: Array) -> Any:
            return getattr(term.passes, what)(W, G, part, *given) or 0

        said = shared(term, drawn, work, G)
        return G, sum(said)

    def adjoint(self, term: Term, y: Array, dtype: Any) -> Array:
        """A*y of a table."""
        G = term.map.zeros(dtype)
        term.passes.collect(G, y)
        return G
