"""The actors of a run: they are asked together, and those that die are replaced."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from condgrad import _deadline as deadline
from condgrad.backends import memory
from condgrad.backends.arrays import host
from condgrad.cluster.connect import Ray, connected, short
from condgrad.cluster.shard import Shard, Table
from condgrad.errors import ProblemError
from condgrad.problem import Term

PATIENCE = 120.0
"""Seconds for actors to begin."""
TRIES = 3
"""Times in a row that actors may be lost at one question."""


class Late(Exception):
    """Actors have not answered before the time of the call was up."""


class Lost(Exception):
    """Actors were lost again and again."""


class Engine:
    """The actors of one run.

    Parameters
    ----------
    wish : Ray
        What is asked for.

    Raises
    ------
    ProblemError
        If there is no such cluster, or it has not so many CPUs or GPUs.
    """

    def __init__(self, wish: Ray) -> None:
        self._ray, self.gpu = connected(wish), wish.gpus_per_shard > 0
        self._faults: type[Exception] = self._ray.exceptions.RayError
        self._each = {"CPU": wish.cpus_per_shard, "GPU": wish.gpus_per_shard}
        kind, free = "GPU" if self.gpu else "CPU", self._ray.available_resources()
        self.shards = wish.shards or max(1, int(free.get(kind, 0) / self._each[kind]))
        there = self._ray.cluster_resources()
        for kind, each in self._each.items():
            if there.get(kind, 0) < each * self.shards:  # Ray would wait without end
                raise ProblemError(
                    f"{self.shards} shards need {each * self.shards:g} {kind}s, but the cluster "
                    f"has {there.get(kind, 0):g}: ask for fewer shards, or add nodes"
                )
        self.actors: dict[int, Any] = {}
        self.facts: dict[int, tuple[str, int, float]] = {}
        """Place, process and free memory of every actor when it began (`Shard.where`)."""
        self.losses: list[str] = []
        self.doubts = 0
        """Questions that were not answered by all: sums from before may not be of what there is."""
        self._terms: list[Any] = []

    # --- to begin

    def begin(self, terms: Sequence[Term], needed: int, remedy: str) -> None:
        """Start the actors, unless they are there, and let them keep the rows of some terms.

        `needed` are the bytes that each of them will take.
        """
        try:
            if not self.actors:
                self._terms = [self._ray.put(t) for t in terms]
                self._start(range(self.shards))
        except self._faults as error:
            self._require_fault(error)
            raise ProblemError(
                f"{self.shards} shards could not begin ({short(error)}): see that the cluster has "
                "CPUs, GPUs and memory for them (ray status)"
            ) from None
        except (TypeError, AttributeError) as error:
            raise ProblemError(
                f"the rows cannot be sent to other processes ({short(error)}): a map or a "
                "function of your own must be one that pickle can copy"
            ) from None
        places = [place for place, *_ in self.facts.values()]
        free = min(free / places.count(place) for place, _, free in self.facts.values())
        where = "each shard's part of the memory of its node or GPU"
        memory.require_room(needed, f"{remedy}, or add nodes", free=free, where=where)

    def _start(self, numbers: Iterable[int]) -> None:
        """Start actors, in the place of those that had these numbers."""
        cpus, gpus = self._each.values()
        how = {"num_cpus": cpus, "num_gpus": gpus, "scheduling_strategy": "SPREAD"}
        kind = self._ray.remote(Shard).options(**how)
        new = {i: kind.remote(i, self.shards, cpus, gpus) for i in numbers}
        self.get([a.hold.remote(t) for a in new.values() for t in self._terms], PATIENCE)
        facts = self.get([a.where.remote() for a in new.values()], PATIENCE)
        self.actors |= new  # now that they have their rows
        self.facts |= zip(new, facts, strict=True)

    # --- tables

    @contextlib.contextmanager
    def fetched(self, state: Any) -> Iterator[None]:
        """With all tables of a state here, so that they can be written to a file."""
        try:
            for table in _tables(state):
                table.parts = self.ask(table.name, "fetch", table)
            yield
        finally:
            for table in _tables(state):
                table.parts = None

    def revive(self, state: Any) -> None:
        """Let the actors go on with the tables of a state that comes from a file."""
        for table in _tables(state):
            parts = self._ray.put(tuple(table.parts or ()))
            table.parts, table.doubts = None, self.doubts
            self.ask(table.name, "give", table, parts)

    # --- questions

    def ask(self, name: str, what: Any, *args: Any) -> list[Any]:
        """Answers of all actors; lost actors are replaced, and all are asked again."""
        why = ""
        for _ in range(TRIES):
            self.doubts += 1  # until all have answered
            found: list[Any] = []
            lost: list[int] = []
            for number, answer in self._asked(name, what, *args).items():
                try:
                    found.append(self.get(answer))
                except self._faults as error:
                    self._require_fault(error)
                    why = short(error)
                    lost.append(number)
            if not lost:
                self.doubts -= 1
                return found
            self._replace(lost, why)
        raise Lost(f"shards of the cluster could not be brought back ({why})")

    def _asked(self, name: str, what: Any, *args: Any) -> dict[int, Any]:
        """Ask all actors; the answers are still to come."""
        if not self.actors:
            raise Lost("the run was closed, and its actors were given back: start or resume it")
        put = self._ray.put  # once for every node
        sent = [put(a) if isinstance(a, np.ndarray) else a for a in map(host, args)]
        return {i: actor.answer.remote(name, what, *sent) for i, actor in self.actors.items()}

    def get(self, asked: Any, patience: float = math.inf) -> Any:
        """Answers, which are waited for so many seconds, but not beyond the limit of the call."""
        room = deadline.room()
        most = min(patience, room)
        try:
            return self._ray.get(asked, timeout=None if most == math.inf else max(0.0, most))
        except self._ray.exceptions.GetTimeoutError:
            if room <= patience:
                raise Late("actors of the cluster have not answered in time") from None
            raise

    # --- losses

    def _require_fault(self, error: Any) -> None:
        """Raise what the work of an actor has raised, as it would have been raised here."""
        own = isinstance(error, self._ray.exceptions.RayTaskError)
        if own and not isinstance(error.cause, self._faults):
            raise error.cause from None

    def _replace(self, lost: Sequence[int], why: str) -> None:
        """Start other actors for those that are lost; if that fails the next question finds out."""
        self._kill([self.actors[number] for number in lost])  # they may only be out of reach
        with contextlib.suppress(self._faults):
            self._start(lost)
            self.losses += [
                f"shard {number + 1} of {self.shards} was lost ({why}) and began again with empty "
                "multipliers"
                for number in lost
            ]

    def _kill(self, actors: Iterable[Any]) -> None:
        for actor in actors:
            with contextlib.suppress(Exception):
                self._ray.kill(actor)

    @property
    def note(self) -> str:
        """The latest losses of shards, in words."""
        return "; ".join(self.losses[-3:])

    def close(self) -> None:
        """Give the actors back."""
        self._kill(self.actors.values())
        self.actors = {}


def _tables(state: Any) -> list[Table]:
    """The tables of a state that are with actors."""
    values = [value for part in state.tables for value in vars(part).values()]
    return [value for value in values if isinstance(value, Table)]
