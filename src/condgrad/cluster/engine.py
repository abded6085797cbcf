"""The actors of a run: they are asked together, and those that die are replaced."""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any
from weakref import WeakSet

from condgrad.backends.arrays import host
from condgrad.cluster.connect import connected, short, within
from condgrad.cluster.options import Ray
from condgrad.cluster.shard import Shard, Summand, Table
from condgrad.errors import ProblemError
from condgrad.problem import Term

PATIENCE = 120.0
"""Seconds for actors to begin, or to say that they are alive."""
TRIES = 3
"""Times in a row that actors may be lost at one question."""
INLINE = 80_000
"""Bytes of an array that goes with every call; larger ones go once to every node."""


class Lost(Exception):
    """Actors were lost again and again."""


class Engine:
    """The actors of one run.

    Parameters
    ----------
    wish : Ray
        What is asked for.
    """

    def __init__(self, wish: Ray) -> None:
        self._ray, self.gpu = connected(wish), wish.gpus_per_shard > 0
        self._faults: type[Exception] = self._ray.exceptions.RayError
        self._each = {"CPU": wish.cpus_per_shard, "GPU": wish.gpus_per_shard}
        self.shards = wish.shards or self._room()
        self.tables: WeakSet[Table] = WeakSet()
        """The tables that are in use."""
        self.losses: list[str] = []
        self.actors: list[Any] = []
        self._terms: list[Any] = []
        self._numbers = itertools.count()

    # --- to begin

    def begin(self, terms: Sequence[Term], needed: int, remedy: str) -> None:
        """Start the actors, unless they are there, and let them keep the rows of some terms.

        `needed` are the bytes that each of them will take.
        """
        errors = self._ray.exceptions
        try:
            if not self.actors:
                self._require_room()
                self.actors = [self._actor(i) for i in range(self.shards)]
            places = [place for place, _ in self.facts()]
            pairs = zip(self.actors, places, strict=True)
            self.get([a.require.remote(needed, remedy, places.count(p)) for a, p in pairs])
            self._terms = [self._ray.put(t) for t in terms]
            self.get([a.hold.remote(t) for a in self.actors for t in self._terms])
        except errors.GetTimeoutError:
            raise ProblemError(
                f"{self.shards} shards were not ready after {PATIENCE:g} s: the cluster is busy, "
                "or its nodes lack CPUs or GPUs for them (ray status)"
            ) from None
        except errors.RayTaskError as error:
            raise within(error) from None
        except errors.RayError as error:
            raise ProblemError(f"a shard could not begin: {short(error)}") from None
        except (TypeError, AttributeError) as error:
            raise ProblemError(
                f"the rows cannot be sent to other processes ({short(error)}): a map or a "
                "function of your own must be one that pickle can copy"
            ) from None

    def _room(self) -> int:
        """Number of shards for which the cluster has room."""
        free, kind = self._ray.available_resources(), "GPU" if self.gpu else "CPU"
        return max(1, int(free.get(kind, 0) / self._each[kind]))

    def _require_room(self) -> None:
        """Refuse more shards than the cluster has CPUs or GPUs for; Ray would wait without end."""
        for kind, each in self._each.items():
            wanted, there = each * self.shards, self._ray.cluster_resources().get(kind, 0)
            if there < wanted:
                raise ProblemError(
                    f"{self.shards} shards need {wanted:g} {kind}s, but the cluster has {there:g}: "
                    "ask for fewer shards, or add nodes"
                )

    def _actor(self, number: int) -> Any:
        cpus, gpus = self._each.values()
        how = {"max_restarts": 0, "max_task_retries": 0, "enable_task_events": False}
        kind = self._ray.remote(Shard).options(
            num_cpus=cpus, num_gpus=gpus, scheduling_strategy="SPREAD", **how
        )
        return kind.remote(number, self.shards, cpus, gpus)

    def facts(self) -> list[tuple[str, int]]:
        """Node and process of every actor."""
        found: list[tuple[str, int]] = self.get([a.where.remote() for a in self.actors], PATIENCE)
        return found

    # --- tables

    def table(self, name: str, size: int, dtype: Any) -> Table:
        """A table with a number 0 for every row of a term."""
        table = Table(next(self._numbers), name, size, dtype)
        self.tables.add(table)
        self.ask(name, "table", table)
        return table

    @contextlib.contextmanager
    def fetched(self) -> Iterator[None]:
        """With all tables here, so that they can be written to a file."""
        try:
            for table in self.tables:
                table.parts = self.ask(table.name, "fetch", table)
            yield
        finally:
            for table in self.tables:
                table.parts = None

    def revive(self, state: Any) -> None:
        """Let the actors go on with the tables of a state that comes from a file."""
        values = [value for part in state.tables for value in vars(part).values()]
        for table in (value for value in values if isinstance(value, Table)):
            parts, table.parts = self._ray.put(table.parts), None
            table.number = next(self._numbers)
            self.tables.add(table)
            self.ask(table.name, "table", table, parts)

    # --- questions

    def ask(self, name: str, what: str, *args: Any, total: bool = False, once: bool = False) -> Any:
        """Answers of every actor in their order, or the `total` of their arrays and all else.

        A lost actor is replaced, and all are asked again; or what may be done but `once` is None.
        """
        for _ in range(TRIES):
            try:
                found = self.get(self._asked(name, what, *args))
                return _summed(found) if total else found
            except self._faults as error:
                self._heal(error)
                if once:
                    return None
            except BaseException:  # actors may have done it when Ctrl-C came
                if once:
                    self._doubt()
                raise
        raise Lost(f"{self.losses[-1]}, and so were others {TRIES} times in a row")

    def _asked(self, name: str, what: str, *args: Any) -> list[Any]:
        """Ask all actors; the answers are still to come."""
        if not self.actors:
            raise Lost("the run was closed, and its actors were given back: start or resume it")
        alive, put = [t.number for t in self.tables], self._ray.put
        sent = [put(a) if getattr(a, "nbytes", 0) > INLINE else a for a in map(host, args)]
        return [actor.answer.remote(alive, name, what, *sent) for actor in self.actors]

    def get(self, asked: Any, patience: float = math.inf) -> Any:
        """Answers, which are waited for so many seconds."""
        return self._ray.get(asked, timeout=None if patience == math.inf else patience)

    # --- losses

    def _doubt(self) -> None:
        """What the driver knows of the tables may not be what the actors have."""
        for table in self.tables:
            table.fresh = False

    def _heal(self, error: Exception) -> None:
        """Replace the actors that are gone; what else can be behind an error is raised."""
        self._doubt()
        errors = self._ray.exceptions
        for _ in range(TRIES):
            cause = getattr(error, "cause", None)
            if isinstance(error, errors.RayTaskError) and not isinstance(cause, errors.RayError):
                raise within(error) from None
            try:
                gone = [i for i, actor in enumerate(self.actors) if not self._alive(actor)]
                for number in gone:
                    self._replace(number, error)
            except self._faults as other:
                error = other
                continue
            if not gone:
                self.losses.append(f"an answer was lost ({short(error)}) and asked for again")
            return
        raise Lost(f"shards of the cluster could not be brought back ({short(error)})")

    def _alive(self, actor: Any) -> bool:
        """Whether an actor answers."""
        with contextlib.suppress(self._faults):
            return bool(self.get(actor.where.remote(), PATIENCE))
        return False

    def _replace(self, number: int, error: Exception) -> None:
        with contextlib.suppress(Exception):
            self._ray.kill(self.actors[number])  # it may only be out of reach
        new = self._actor(number)
        self.get(new.where.remote(), PATIENCE)
        self.get([new.hold.remote(term) for term in self._terms])
        alive = [t.number for t in self.tables]
        self.get([new.answer.remote(alive, t.name, "table", t) for t in self.tables])
        self.actors[number] = new  # now that it has its rows
        self.losses.append(
            f"shard {number + 1} of {self.shards} was lost ({short(error)}) and began again with "
            "empty multipliers"
        )

    @property
    def note(self) -> str:
        """The latest losses of shards, in words."""
        return "; ".join(self.losses[-3:])

    def close(self) -> None:
        """Give the actors back."""
        actors, self.actors = self.actors, []
        for actor in actors:
            with contextlib.suppress(Exception):
                self._ray.kill(actor)


def _summed(parts: list[Summand]) -> Summand:
    """The sum of arrays in a new one, and all that was said with them."""
    total = parts[0][0].copy()
    for array, _ in parts[1:]:
        total += array
    return total, [more for _, said in parts for more in said]
