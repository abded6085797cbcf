"""The rows of a term, kept by the actors of a cluster."""

from __future__ import annotations

import copy
import functools
from dataclasses import replace
from typing import Any, cast

import numpy as np

from condgrad import _deadline as deadline
from condgrad._ours import ours
from condgrad._types import Array, Params
from condgrad.backends.arrays import placed
from condgrad.cluster.engine import Engine
from condgrad.cluster.shard import plus
from condgrad.cluster.terms import DealtTerm
from condgrad.cluster.wire import Point, Reply, sendable
from condgrad.estimators import DualState, Estimator, SagAugmented, State, TableState
from condgrad.maps.dealt import Deal
from condgrad.points.dense import Dense
from condgrad.problem import Problem, Term
from condgrad.rows import KEEPERS, Keeper, Part, Sizes


class Sharded(Keeper):
    """Rows that are dealt to actors, each with an ordinary keeper; here are sums only.

    Rows are drawn here, as by the keeper of all of them, and every actor takes its part of what was
    drawn: the number of actors changes nothing but the order of sums.
    """

    here = False
    _transient = ("_measured",)
    _measured: tuple[Array, float] | None = None
    """A step, and Σ z² of the rows that were drawn after it, if the actors have said so."""

    @classmethod
    def serves(cls, term: Term, estimator: Estimator, problem: Problem) -> bool:
        return isinstance(term, DealtTerm)

    def __init__(self, term: Term, estimator: Estimator, problem: Problem) -> None:
        map = copy.copy(term.map)
        map.table = _none  # type: ignore[method-assign]
        hollow = replace(cast(DealtTerm, term).alone, map=map)
        self.term, self.estimator = term, estimator
        self.state: State = estimator.init(hollow, problem)
        self.files: list[str] = []
        """Stems of the files in which actors have written their tables for a checkpoint."""
        self.tables: list[Any] | None = None
        """Tables of the actors while a checkpoint is made without such files."""
        self._late: dict[int, Any] = {}
        square = ours(term.map) and term.map.covers and problem.domain.symmetric
        self._half = square and self.engine.shards > 1  # one has the bits of the run without
        self.torn = False
        """Whether what is here may not be the sum of what the actors have."""
        self._own = _given(estimator, self.state, self.engine.gpu)
        if term.name not in self.engine.keepers:
            self.engine.hold(cast(DealtTerm, term).alone, self._own, problem.dtype)
        self.engine.keepers[term.name] = self

    @property
    def engine(self) -> Engine:
        """The actors."""
        found: Engine = cast(DealtTerm, self.term).engine
        return found

    @property
    def losses(self) -> int:  # type: ignore[override]
        return len(self.engine.losses)

    @property
    def _name(self) -> str:
        return self.term.name

    def update(self, W: Dense, p: Params, rng: np.random.Generator) -> None:
        s, engine = self.state, self.engine
        if self.torn:  # the clock had ended an update, which actors have made, or a repair
            engine.safe(self.gather)
        drawer: Any = s.drawer
        drawn = None if drawer is None else drawer.draw(rng)
        if isinstance(s, TableState):
            s.drawn = drawn or []
        loose = engine.wish.staleness > 0 and not self.whole
        if not loose:
            self._settle()  # before W is sent: who is replaced now needs all of it
        wire = np.dtype(np.float32) if engine.wish.wire == "float32" else None
        reply = Reply(wire, self._half, loose)
        seen = wire or (s.changed if isinstance(s, DualState) else W.array).dtype
        point = sendable(W, seen, None if loose else engine.held)
        engine.point, engine.held, self._measured = W, None, None
        ranges = [slice(0, self.term.map.size)] if drawn is None else drawn
        try:
            if loose:
                self._loose(point, p, drawn, reply)
            else:
                found = engine.total("update", self._name, point, p, drawn, reply, heal=False)
                self._take(*found, sum(at.stop - at.start for at in ranges), reply)
                engine.held = point.number
                if isinstance(s, TableState) and None not in found[1] and W.taken is not None:
                    self._measured = W.taken.D, sum(found[1])
        except engine.faults as error:
            self.torn = True  # unless they are all brought back in time
            engine.heal(error)  # which gathers what the actors have
        except deadline.OutOfTime:
            self.torn = True
            raise
        engine.tick()

    def _take(self, G: Array, squares: list[float], count: int, reply: Reply) -> None:
        """Take the sums of the actors over so many rows."""
        s, shape = self.state, self.term.map.shape
        if isinstance(s, DualState):
            reply.unpacked(G, s.changed, shape)
            s.G += s.changed
            s.squares, s.share = sum(squares), count / self.term.map.size
        elif reply.change:
            change = np.empty(s.G.shape, G.dtype, like=s.G)
            reply.unpacked(G, change, shape)
            s.G += change
        else:
            reply.unpacked(G, s.G, shape)
        s.evaluated += count

    def _loose(self, W: Point, p: Params, drawn: list[slice] | None, reply: Reply) -> None:
        """An update that waits only for those who are too far behind."""
        engine, s, k, deals = self.engine, self.state, p.k, self._deals()
        ranges = [slice(0, self.term.map.size)] if drawn is None else drawn
        idle = [i for i in range(engine.shards) if i not in self._late]
        asked = engine.asked("update", self._name, W, p, drawn, reply, whom=idle)
        for i, answer in zip(idle, asked, strict=True):
            own = [deals[i].own(at) for at in ranges]
            self._late[i] = k, answer, sum(at.stop - at.start for at in own)
        behind = [late for late in self._late.values() if k - late[0] >= engine.wish.staleness]
        if behind:
            engine.wait([late[1] for late in behind], len(behind))
        there = engine.wait([late[1] for late in self._late.values()], 1)
        done = [i for i, late in self._late.items() if late[1] in there]
        late = [self._late.pop(i) for i in done]
        total, squares = functools.reduce(plus, [engine.get(answer) for _, answer, _ in late])
        drawn_now, count = sum(at.stop - at.start for at in ranges), sum(rows for *_, rows in late)
        self._take(total, squares, drawn_now, reply)
        s.evaluated += count - drawn_now

    def _settle(self) -> None:
        """Wait for those who are behind."""
        if self._late:
            self.engine.safe(self.gather)

    def _deals(self) -> list[Deal]:
        shards = self.engine.shards
        return [Deal.of(self.term.map, shards, i) for i in range(shards)]

    def gather(self) -> None:
        """Sum anew what the actors have: the estimate is A*y of the multipliers that they keep."""
        s, late = self.state, self._late
        s.G[...] = placed(self.engine.total("gather", self._name, heal=False)[0], s.G)
        s.evaluated += sum(rows for *_, rows in late.values())  # they have answered before
        self._late, self.torn = {}, False
        if isinstance(s, DualState):
            s.changed.fill(0)
            s.squares = 0.0

    def measure(self, D: Array) -> float:
        s, size = self.state, self.term.map.size
        if self._measured is not None and self._measured[0] is D:
            total, self._measured = self._measured[1], None
        else:
            total = float(sum(self.engine.ask("squares", self._name, D)))
        if not isinstance(s, TableState):
            return total
        drawn = s.drawn or [slice(0, size)]
        return size / sum(at.stop - at.start for at in drawn) * total

    @property
    def dual_square(self) -> float:
        return float(sum(self.engine.ask("dual_square", self._name)))

    def leave(self) -> None:
        """Nothing is here; the actors let go when they switch."""

    def adopt(self, other: Keeper) -> None:
        with deadline.lifted():  # half of the actors would not do
            self.engine.switch(self._name, self._own)
            self.state.evaluated = other.rows
            self.engine.safe(self.gather)

    def over(self, problem: Problem, share: float) -> None:
        self.engine.once("scale", self._name, share)
        self.engine.safe(self.gather)

    def merit(self, W: Array, beta: float) -> float | None:
        found = self.engine.ask("merit", self._name, W, beta)
        return None if found[0] is None else float(sum(found))

    def pairing(self, which: str, W: Array | None, beta: float) -> Part:
        self._settle()
        sent = W if self._reads(which) else None
        total, found = self.engine.total("pairing", self._name, which, sent, beta)
        v = placed(total, self.state.G)
        conjugates, products, values, sizes = zip(*found, strict=True)
        product, more, w = sum(products), len(found) - 1, self.term.weight
        if sent is None and W is not None:
            product = w * (float(np.vdot(v, W)) / w)
        own = [Sizes(*s) for s in sizes]
        bounds = Sizes(
            sum(s.spread for s in own),
            max(s.depth for s in own) + more,
            sum(s.conjugates for s in own),
            max(s.additions for s in own) + more,
        )
        return Part(v, sum(conjugates), product, sum(values), bounds, self.losses)

    def _reads(self, which: str) -> bool:
        """Whether a pairing needs the images of W."""
        none = which == "residuals" or not self.points
        return none or not (self.term.function.indicator and ours(self.term.map))

    def point(self, which: str, W: Array, beta: float) -> Array:
        found = self.engine.ask("point", self._name, which, W, beta)
        if self.engine.gpu:  # each with zeros for the others
            return np.asarray(sum(found))
        y = np.empty(self.term.map.size)
        for deal, own in zip(self._deals(), found, strict=True):
            y[deal.ids()] = own
        return y

    def price(self, which: str, W: Array, beta: float, point: Array) -> float:
        return float(sum(self.engine.ask("price", self._name, which, W, beta, point)))

    def stow(self) -> None:
        """Have the tables where a checkpoint of the run finds them."""
        self._settle()
        if self.engine.wish.checkpoint is None:
            self.tables = self.engine.ask("tables", self._name)
        else:
            self.files = self.engine.written(self._name, "saved", self.files)

    def stowed(self) -> None:
        """The checkpoint is made."""
        self.tables = None

    def revive(self) -> None:
        """Go on with the tables of a checkpoint."""
        engine, own = self.engine, cast(DealtTerm, self.term)
        engine.hold(own.alone, self._own, self.state.G.dtype)
        engine.keepers[self._name] = self
        shards = engine.shards
        engine.took(
            self._name,
            self.tables or [f"{self.files[-1]}.{i}.npz" for i in range(shards)],
        )
        self.tables = None


def _none(dtype: Any = np.float64) -> Array:
    """A table of no rows."""
    return np.empty(0, dtype)


def _given(estimator: Estimator, state: State, gpu: bool) -> Estimator:
    """The estimator as actors have it, with the type of tables that all rows would have."""
    if gpu or not isinstance(estimator, SagAugmented):
        return estimator
    return replace(estimator, table_dtype=cast(Any, state).y.dtype)


KEEPERS.insert(0, Sharded)
