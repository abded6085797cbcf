"""Shard of an actor: it keeps its share of the rows of some terms, by ordinary keepers."""

from __future__ import annotations

import copy
import os
import pickle
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np

from condgrad._files import replaced
from condgrad._ours import ours
from condgrad._types import Array, Params
from condgrad.backends import devices, memory, threads, tiles
from condgrad.backends.arrays import HOST, host, placed
from condgrad.cluster.wire import Follower, Point, Reply
from condgrad.errors import ProblemError
from condgrad.estimators import DualState, Estimator, State, TableState
from condgrad.functions import Function
from condgrad.maps.dealt import Deal, Dealt
from condgrad.problem import Problem, Term
from condgrad.rows import Keeper

TABLES = ("y", "slopes")
"""Attributes that an estimator may keep row by row."""
STATM = Path("/proc/self/statm")
"""File of Linux with the memory of a process, in pages."""


Summand = tuple[Array, list[Any]]
"""An array that is summed over actors, and what each of them says besides."""


def plus(one: Summand, other: Summand) -> Summand:
    """The sum of two arrays, and what was said with both."""
    return one[0] + other[0], one[1] + other[1]


class Told:
    """Rows that somebody else has drawn."""

    seconds = 0.0
    whole = False
    share = 1.0

    def __init__(self, ranges: list[slice]) -> None:
        self.ranges = ranges

    def draw(self, rng: Any) -> list[slice]:
        """Those rows."""
        return self.ranges


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


def tables_of(state: State) -> dict[str, Array]:
    """Tables of a state that has numbers row by row, and the cotangent that belongs to them."""
    found = {n: getattr(state, n) for n in ("G", *TABLES) if getattr(state, n, None) is not None}
    return {n: host(a) for n, a in found.items()}


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
        self.number, self.shards = number, shards
        self._calm = threads.Calm(jobs)
        self._gpu, self._share = gpus > 0, min(1.0, gpus)
        self._like = devices.on_gpu() if self._gpu else HOST
        self._follower = Follower(self._like)
        self._keepers: dict[str, Keeper] = {}
        self._terms: dict[str, Term] = {}
        self._once: int | None = None
        self._problem = SimpleNamespace(dtype=np.dtype(np.float64), like=self._like)

    def where(self) -> tuple[str, int, int]:
        """Node, process and resident memory of the shard; 0 if the system does not say."""
        import ray

        used = 0
        if STATM.exists():
            used = int(STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        return ray.get_runtime_context().get_node_id(), os.getpid(), used

    def require(self, terms: list[Term], estimators: list[Estimator], beside: int) -> None:
        """Refuse what will not fit beside other shards of this node."""
        own = [self._cut(t) for t in terms]
        needs = [n for t, e in zip(own, estimators, strict=True) for n in e.memory(t, self.problem)]
        shape = max(int(np.prod(t.map.shape)) for t in own)
        needs.append(memory.Need("W and sums", 8 * 8 * shape))
        if self._gpu:
            needs += [memory.Need("sums", tiles.buffers(own[0].map.shape[0]))]
            memory.require(needs, self._share * devices.free_memory(), "a GPU's memory")
        else:
            free = memory.free_memory() / beside
            memory.require(needs, free, "each shard's part of a node's memory")

    @property
    def problem(self) -> Problem:
        """All that estimators want to know of the problem."""
        return cast(Problem, self._problem)

    def _cut(self, term: Term) -> Term:
        if self._gpu:
            map: Any = term.map.on(self._like)
            map.share = tiles.dealt(map.shape[0], self.shards, self.number)
            return Term(map, term.function.on(self._like), term.weight, term.name)
        deal = Deal.of(term.map, self.shards, self.number)
        return Term(Dealt(term.map, deal), cut(term.function, deal), term.weight, term.name)

    def hold(self, term: Term, estimator: Estimator, dtype: Any) -> None:
        """Keep its share of the rows of a term from now on."""
        self._problem.dtype = np.dtype(dtype)
        own = self._terms[term.name] = self._cut(term)
        with self._calm():
            self._keepers[term.name] = Keeper(own, estimator, self.problem)

    def switch(self, name: str, estimator: Estimator) -> None:
        """Go on with another estimator and the multipliers of the one before."""
        with self._calm():
            old = self._keepers[name]
            old.leave()
            new = Keeper(old.term, estimator, self.problem)
            new.adopt(old)
            self._keepers[name] = new

    def answer(self, message: Any) -> Any:
        """Call one of the methods below, which is named first (`Engine.asked`)."""
        what, *args = pickle.loads(message) if isinstance(message, bytes) else message
        return getattr(self, what)(*args)

    def once(self, name: str, token: int, what: str, *args: Any) -> None:
        """Do something, unless it was done when the same was asked before (`Engine.once`)."""
        if self._once != token:
            getattr(self, what)(name, *args)
            self._once = token

    def _point(self, W: Any) -> Any:
        """A point that was sent, in an array of its own: kernels want those that can be written."""
        if W is None or isinstance(W, Point):
            return None if W is None else self._follower.reach(W).array
        return placed(np.array(W), self._like)

    def update(
        self, name: str, W: Point, p: Params, drawn: list[slice] | None, reply: Reply
    ) -> Summand:
        """The estimator's rule over what was drawn; the cotangent, or A*Δy, and Σ Δy².

        Of an estimator that measures steps, where the step to W was made here, `squares` of it.
        """
        keeper = self._keepers[name]
        s, shape = keeper.state, keeper.term.map.shape
        before = s.G.copy() if reply.change and not isinstance(s, DualState) else None
        if drawn is not None:
            cast(Any, s).stretches = Told(drawn if self._gpu else self._own(keeper, drawn))
        with self._calm():
            keeper.update(self._follower.reach(W), p, cast(Any, None))
        if isinstance(s, DualState):
            return reply.packed(s.changed, shape), [s.squares]
        D = self._follower.D
        square = None if D is None or not isinstance(s, TableState) else self._squares(name, D)
        return reply.packed(s.G if before is None else s.G - before, shape), [square]

    def _own(self, keeper: Keeper, drawn: list[slice]) -> list[slice]:
        """The shard's part of the drawn rows; on a GPU tiles are dealt, and apexes drawn."""
        deal = cast(Dealt, keeper.term.map).deal
        return [deal.own(at) for at in drawn]

    def plus(self, one: Summand, other: Summand) -> Summand:
        """Sum of two answers."""
        return plus(one, other)

    def gather(self, name: str) -> Summand:
        """Cotangent of a term as it is."""
        return host(self._keepers[name].state.G), []

    def squares(self, name: str, D: Array) -> float:
        """‖A D‖² over the rows in use that were drawn."""
        return self._squares(name, self._point(D))

    def _squares(self, name: str, D: Array) -> float:
        keeper = self._keepers[name]
        s, term = keeper.state, keeper.term
        slopes = cast(Any, s).slopes if hasattr(s, "slopes") and term.function.indicator else None
        drawn = getattr(s, "drawn", None) or [slice(0, term.map.size)]
        with self._calm():
            return term.passes.squares(D, drawn, slopes)

    def misses(self, name: str, W: Array, unit: float) -> list[Any]:
        """`Term.misses`."""
        with self._calm():
            return [tuple(m) for m in self._terms[name].misses(self._point(W), unit)]

    def lengths(self, name: str, W: Array) -> float:
        """`Term.lengths`."""
        with self._calm():
            return self._terms[name].lengths(self._point(W))

    def value(self, name: str, W: Array) -> float:
        """`Term.value`."""
        with self._calm():
            return self._terms[name].value(self._point(W))

    def merit(self, name: str, W: Array, beta: float) -> float | None:
        """`Keeper.merit`."""
        with self._calm():
            return self._keepers[name].merit(self._point(W), beta)

    def dual_square(self, name: str) -> float:
        """`Keeper.dual_square`."""
        with self._calm():
            return self._keepers[name].dual_square

    def pairing(self, name: str, which: str, W: Array | None, beta: float) -> Summand:
        """`Keeper.pairing`, in float64: the dense array, and the rest."""
        with self._calm():
            part = self._keepers[name].pairing(which, self._point(W), beta)
        rest = (part.conjugate, part.product, part.value, tuple(part.sizes))
        return host(part.v), [rest]

    def point(self, name: str, which: str, W: Array, beta: float) -> Array:
        """`Keeper.point`."""
        with self._calm():
            return self._keepers[name].point(which, self._point(W), beta)

    def price(self, name: str, which: str, W: Array, beta: float, point: Array) -> float:
        """`Keeper.price`."""
        with self._calm():
            return self._keepers[name].price(which, self._point(W), beta, self._point(point))

    def scale(self, name: str, share: float) -> None:
        """`Keeper.over`."""
        with self._calm():
            self._keepers[name].over(self.problem, share)

    def tables(self, name: str) -> dict[str, Array]:
        """Tables of a term."""
        return {n: a.copy() for n, a in tables_of(self._keepers[name].state).items()}

    def try_folder(self, folder: str) -> None:
        """Refuse a folder to which files cannot be written."""
        try:
            Path(folder).mkdir(parents=True, exist_ok=True)
            tempfile.TemporaryFile(dir=folder).close()
        except OSError as error:
            raise ProblemError(
                f"checkpoint is {folder!r}, where nothing can be written ({error.strerror}): name "
                "a folder that all nodes see"
            ) from None

    def write(self, name: str, path: str) -> None:
        """Write that to a file, which is whole or not there."""
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        with replaced(Path(path)) as file:
            np.savez(file, **tables_of(self._keepers[name].state))  # type: ignore[arg-type]

    def take(self, name: str, tables: dict[str, Array] | str) -> None:
        """Go on with what such a file has, or with tables that are given.

        Of another estimator's the multipliers are taken over.
        """
        if isinstance(tables, str):
            try:
                with np.load(tables) as file:
                    tables = {n: file[n] for n in file.files}
            except OSError as error:
                raise ProblemError(
                    f"the tables {tables!r} of a checkpoint cannot be read ({error.strerror}): it "
                    "belongs together with the folder of Ray(checkpoint=…)"
                ) from None
        keeper, own = self._keepers[name], tables_of(self._keepers[name].state)
        s = keeper.state
        alike = {n: a.size for n, a in own.items()} == {n: a.size for n, a in tables.items()}
        if tables["y"].size != own["y"].size if "y" in own else not alike:
            raise ProblemError("the tables of a checkpoint belong to other rows")
        with self._calm():
            if alike:
                for n, array in tables.items():
                    getattr(s, n)[...] = placed(array, self._like)
            else:
                y = placed(tables["y"].astype(own["y"].dtype), self._like)
                keeper.estimator.adopt(s, keeper.term, y, s.evaluated)
