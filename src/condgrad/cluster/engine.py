"""The actors of a run: they are asked together, and those that die are replaced."""

from __future__ import annotations

import contextlib
import itertools
import math
import pickle
import secrets
import time
import warnings
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from condgrad import _deadline as deadline
from condgrad._types import Array
from condgrad.backends.arrays import host
from condgrad.cluster.connect import connected
from condgrad.cluster.faults import short, within
from condgrad.cluster.options import Ray
from condgrad.cluster.shard import Shard, plus
from condgrad.cluster.wire import INLINE, sendable, size_of
from condgrad.errors import ProblemError
from condgrad.estimators import Estimator
from condgrad.points.dense import Dense
from condgrad.problem import Term

if TYPE_CHECKING:
    from condgrad.cluster.keeper import Sharded

PATIENCE = 120.0
"""Seconds for actors to begin, or to say that they are alive."""
SOON = 10.0
"""Seconds in which actors that were given back are gone."""
TRIES = 3
"""Times in a row that actors may be lost at one question."""
KEPT = {"recent": 2, "saved": 3}
"""Tables on disk that are kept of each kind: to restart actors, and behind checkpoints of runs."""


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
        self.wish, self._ray = wish, connected(wish)
        self.gpu = wish.gpus_per_shard > 0
        self.shards = wish.shards or self._room()
        self.keepers: weakref.WeakValueDictionary[str, Sharded] = weakref.WeakValueDictionary()
        self.losses: list[str] = []
        self._held: dict[str, tuple[Any, Estimator, Any]] = {}
        self._recent: dict[str, list[str]] = {}
        self._token, self._count, self._wrote = secrets.token_hex(6), 0, time.monotonic()
        self.actors: list[Any] = []
        self._tokens = itertools.count()
        self.point: Dense | None = None
        """W of the run."""
        self.held: int | None = None
        """Number of the step after which all actors have W; None if they do not."""

    def begin(self) -> None:
        """Start the actors, unless they are there."""
        if not self.actors:
            self._require_room()
            self.actors = [self._actor(i) for i in range(self.shards)]
            self._ready()
            if self.wish.checkpoint is not None:
                folder = str(Path(self.wish.checkpoint).absolute())
                for actor in self.actors:  # one after the other: one complaint is enough
                    with self._sentences():
                        self.get(actor.try_folder.remote(folder))

    def _room(self) -> int:
        """Number of shards for which the cluster has room."""
        free, wish = self._ray.available_resources(), self.wish
        kind, each = ("GPU", wish.gpus_per_shard) if self.gpu else ("CPU", wish.cpus_per_shard)
        return max(1, int(free.get(kind, 0) / each))

    def _require_room(self) -> None:
        """Refuse more shards than the cluster has CPUs or GPUs for; Ray would wait without end."""
        wish, began = self.wish, time.monotonic()
        for kind, each in (("CPU", wish.cpus_per_shard), ("GPU", wish.gpus_per_shard)):
            wanted, all_of_them = each * self.shards, self._ray.cluster_resources().get(kind, 0)
            free = self._ray.available_resources().get(kind, 0)
            while free < wanted <= all_of_them and time.monotonic() - began < SOON:
                time.sleep(0.1)  # those of a run that has just ended
                free = self._ray.available_resources().get(kind, 0)
            if free < wanted:
                raise ProblemError(
                    f"{self.shards} shards need {wanted:g} {kind}s, but the cluster has {free:g} "
                    f"of {all_of_them:g} free: ask for fewer shards, or add nodes"
                )

    def _actor(self, number: int) -> Any:
        wish = self.wish
        kind = self._ray.remote(Shard).options(
            num_cpus=wish.cpus_per_shard,
            num_gpus=wish.gpus_per_shard,
            max_restarts=0,
            max_task_retries=0,
            enable_task_events=False,
            scheduling_strategy="SPREAD",
        )
        return kind.remote(number, self.shards, wish.cpus_per_shard, wish.gpus_per_shard)

    def _ready(self) -> None:
        """Wait until all are there."""
        with self._sentences():
            asked = [a.where.remote() for a in self.actors]
            self.places = [node for node, *_ in self.get(asked, PATIENCE)]

    @contextlib.contextmanager
    def _sentences(self) -> Any:
        """Raise a fault before a run begins with a sentence for users."""
        errors = self._ray.exceptions
        try:
            yield
        except errors.GetTimeoutError:
            raise ProblemError(
                f"{self.shards} shards were not ready after {PATIENCE:g} s: the cluster is busy, "
                "or its nodes lack CPUs or GPUs for them (ray status)"
            ) from None
        except errors.RayTaskError as error:
            raise within(error, "a shard") from None
        except errors.RayError as error:
            raise ProblemError(f"a shard could not begin: {short(error)}") from None

    def facts(self) -> list[tuple[str, int, int]]:
        """Node, process and resident memory of every actor."""
        found: list[tuple[str, int, int]] = self.get([a.where.remote() for a in self.actors])
        return found

    def require(self, terms: Sequence[Term], estimators: Sequence[Estimator]) -> None:
        """Refuse tables that do not fit into the memory of the nodes."""
        with self._sentences():
            try:
                shared = self._ray.put(list(terms))
            except (TypeError, AttributeError, self._ray.exceptions.RayError) as error:
                raise ProblemError(
                    f"the rows cannot be sent to other processes ({short(error)}): a map or a "
                    "function of your own must be one that pickle can copy"
                ) from None
            pairs = zip(self.actors, self.places, strict=True)
            beside = [(actor, self.places.count(place)) for actor, place in pairs]
            own = list(estimators)
            self.get([actor.require.remote(shared, own, n) for actor, n in beside])

    def hold(self, term: Term, estimator: Estimator, dtype: Any) -> None:
        """Let the actors keep the rows of a term."""
        shared = self._ray.put(term)
        self._held[term.name] = shared, estimator, dtype
        with self._sentences():
            self.get([a.hold.remote(shared, estimator, dtype) for a in self.actors])

    def asked(
        self, what: str, name: str, *args: Any, whom: Sequence[int] | None = None
    ) -> list[Any]:
        """Ask actors, all unless it is said whom, in one message; the answers are still to come."""
        if not self.actors:
            raise Lost("the run was closed, and its actors were given back: start or resume it")
        message = self._message((what, name, *args))
        every = range(self.shards) if whom is None else whom
        return [self.actors[i].answer.remote(message) for i in every]

    def ask(self, what: str, name: str, *args: Any) -> list[Any]:
        """Answers of every actor, in their order."""
        answers: list[Any] = self.safe(lambda: self.get(self.asked(what, name, *args)))
        return answers

    def total(self, what: str, name: str, *args: Any, heal: bool = True) -> tuple[Array, list[Any]]:
        """The sum of the arrays that actors answer with, and all else that they say."""

        def work() -> tuple[Array, list[Any]]:
            return self._sum(self.asked(what, name, *args))

        return self.safe(work) if heal else work()

    def _message(self, given: tuple[Any, ...]) -> Any:
        """Message to all actors: a few bytes with every call, or an object once for each node."""
        args = tuple(map(self._lean, given))
        if sum(map(size_of, args)) > INLINE:
            return self._ray.put(args)
        try:
            return pickle.dumps(args, protocol=5)
        except (pickle.PicklingError, AttributeError, TypeError):  # a function of a user's own
            return self._ray.cloudpickle.dumps(args)

    def _lean(self, value: Any) -> Any:
        """The W of the run as what leads there from the one that actors have; arrays from here."""
        W = self.point
        if W is None or value is not W.array or W.taken is None or self.held is None:
            return host(value)
        return sendable(W, W.array.dtype, self.held)

    def _sum(self, parts: list[Any]) -> tuple[Array, list[Any]]:
        """The sum of arrays, two at a time where they are, so that two of them come here."""
        owners = list(self.actors)
        while len(parts) > 2:
            pairs = range(0, len(parts) - 1, 2)
            sums = [owners[i].plus.remote(parts[i], parts[i + 1]) for i in pairs]
            parts = sums + parts[2 * len(sums) :]
            owners = [owners[i] for i in pairs] + owners[2 * len(sums) :]
        found = self.get(parts)
        total, said = found[0] if len(found) == 1 else plus(*found)
        return (total.copy() if len(found) == 1 else total), said

    def safe(self, work: Callable[[], Any]) -> Any:
        """Result of some work; a lost actor is replaced, and asked again."""
        for _ in range(TRIES):
            try:
                return work()
            except self.faults as error:
                self.heal(error)
        raise Lost(f"{self.losses[-1]}, and so were others {TRIES} times in a row")

    @property
    def faults(self) -> type[Exception]:
        """Errors that Ray raises if an actor is lost, or if a fault is within one."""
        kind: type[Exception] = self._ray.exceptions.RayError
        return kind

    def heal(self, error: Exception) -> None:
        """Replace the actors that are gone; what else can be behind an error is raised."""
        self.held = None
        for keeper in list(self.keepers.values()):
            keeper.torn = True  # until it has gathered, for which there may be no time now
        errors = self._ray.exceptions
        if isinstance(error, errors.RayTaskError) and not isinstance(error.cause, errors.RayError):
            raise within(error, "a shard") from None
        for attempt in range(TRIES):
            try:
                gone = self._gone()
                if not gone and attempt == 0:
                    self.losses.append(f"an answer was lost ({short(error)}) and asked for again")
                for number in gone:
                    self._replace(number, error)
                for keeper in list(self.keepers.values()):
                    keeper.gather()
                return
            except errors.RayTaskError as other:
                if not isinstance(other.cause, errors.RayError):
                    raise within(other, "a shard") from None
                error = other
            except errors.RayError as other:
                error = other
        raise Lost(f"shards of the cluster could not be brought back ({short(error)})")

    def _gone(self) -> list[int]:
        """The actors that do not answer."""
        asked, gone = [a.where.remote() for a in self.actors], []
        for number, one in enumerate(asked):
            try:
                self.places[number] = self.get(one, PATIENCE)[0]
            except self.faults:
                gone.append(number)
        return gone

    def _replace(self, number: int, error: Exception) -> None:
        with contextlib.suppress(Exception):
            self._ray.kill(self.actors[number])  # it may only be out of reach
        new = self._actor(number)
        place = self.get(new.where.remote(), PATIENCE)[0]
        found = "empty multipliers"
        for name, held in self._held.items():
            self.get(new.hold.remote(*held))
            paths = self._latest(name)
            if paths is not None:
                with contextlib.suppress(self._ray.exceptions.RayTaskError):  # a damaged file
                    self.get(new.take.remote(name, paths[number]))
                    found = "its part of the last checkpoint"
        self.actors[number], self.places[number] = new, place  # now that it has its rows
        self.losses.append(
            f"shard {number + 1} of {self.shards} was lost ({short(error)}) and began again with "
            f"{found}"
        )

    def _latest(self, name: str) -> list[str] | None:
        own = self.keepers.get(name)
        found = [*self._recent.get(name, []), *([] if own is None else own.files)]
        if not found:
            return None
        last = max(found, key=lambda stem: int(stem.rpartition("-")[2]))
        return self._paths(last)

    def _paths(self, stem: str) -> list[str]:
        return [f"{stem}.{i}.npz" for i in range(self.shards)]

    def written(self, name: str, kind: str, before: list[str]) -> list[str]:
        """Let the actors write their tables of a term; the stems of the files that are kept."""
        assert self.wish.checkpoint is not None
        numbers = [int(stem.rpartition("-")[2]) for stem in before]
        self._count = max([self._count, *numbers]) + 1
        which = list(self._held).index(name)
        place = Path(self.wish.checkpoint).absolute() / f"{self._token}-{which}-{kind}"
        stem = f"{place}-{self._count}"

        def work() -> None:
            pairs = zip(self.actors, self._paths(stem), strict=True)
            self.get([actor.write.remote(name, path) for actor, path in pairs])

        self.safe(work)
        stems = [*before, stem]
        for old in stems[: -KEPT[kind]]:
            self._forget(old)
        return stems[-KEPT[kind] :]

    def _forget(self, stem: str) -> None:
        for path in self._paths(stem):
            with contextlib.suppress(OSError):
                Path(path).unlink()

    def tick(self) -> None:
        """Write the tables, if it is time."""
        if self.wish.checkpoint is None or time.monotonic() - self._wrote < self.wish.every:
            return
        self._wrote = time.monotonic()
        try:
            for name in self._held:
                self._recent[name] = self.written(name, "recent", self._recent.get(name, []))
        except OSError as error:
            warnings.warn(
                f"the tables of the shards could not be written ({error.strerror or error}): the "
                "run goes on, and who is lost has those that were written before",
                RuntimeWarning,
                stacklevel=2,
            )
        self._wrote = time.monotonic()

    def took(self, name: str, tables: Sequence[Any]) -> None:
        """Let every actor go on with its part of tables, arrays or names of files."""
        with self._sentences():
            pairs = zip(self.actors, tables, strict=True)
            self.get([actor.take.remote(name, own) for actor, own in pairs])

    def switch(self, name: str, estimator: Estimator) -> None:
        """Let the actors go on with another estimator; `Sharded.gather` follows."""
        shared, _, dtype = self._held[name]
        self.once("switch", name, estimator)
        self._held[name] = shared, estimator, dtype  # which who was lost before has switched to

    def once(self, what: str, name: str, *args: Any) -> None:
        """Let every actor do something once, however often it must be asked."""
        token = next(self._tokens)

        def work() -> None:
            self.get(self.asked("once", name, token, what, *args), PATIENCE)

        self.safe(work)

    def wait(self, asked: Sequence[Any], least: int) -> set[Any]:
        """Answers that are there, once there are so many."""
        count, some, room = len(asked), list(asked), deadline.room()
        limit = None if room == math.inf else max(0.0, room)
        there = self._ray.wait(some, num_returns=least, timeout=limit, fetch_local=False)[0]
        if len(there) < least:
            raise deadline.OutOfTime
        return set(self._ray.wait(some, num_returns=count, timeout=0, fetch_local=False)[0])

    def get(self, asked: Any, patience: float = math.inf) -> Any:
        """Answers, which are waited for as long as the call may take."""
        room = deadline.room()
        most = min(patience, room)
        try:
            return self._ray.get(asked, timeout=None if most == math.inf else max(0.0, most))
        except self._ray.exceptions.GetTimeoutError:
            if room <= patience:  # Ray's clock may be a little ahead
                raise deadline.OutOfTime from None
            raise

    @property
    def note(self) -> str:
        """Losses of shards, in words."""
        if len(self.losses) <= 3:
            return "; ".join(self.losses)
        return f"{len(self.losses)} times shards were lost, the last time: {self.losses[-1]}"

    def close(self) -> None:
        """Give the actors back, and delete what was written to restart them."""
        for stems in self._recent.values():
            for stem in stems:
                self._forget(stem)
        self._recent = {}
        actors, self.actors = self.actors, []
        for actor in actors:
            with contextlib.suppress(Exception):
                self._ray.kill(actor)
