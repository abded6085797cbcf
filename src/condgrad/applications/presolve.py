"""Sparsest cuts block by block."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from condgrad import _deadline as deadline
from condgrad import _progress as progress
from condgrad._deadline import limited
from condgrad._floats import EPS
from condgrad._round import counted
from condgrad._types import Array
from condgrad.applications._base import Application
from condgrad.applications._outcome import Outcome, Rounded, gap_of
from condgrad.applications.blocks import Block, blocks_of, cut_of_cycle, extended
from condgrad.applications.graphs import adjacency_matrix
from condgrad.applications.rounding import Cut, round_cut, sizes_of, smaller_side, sweep_orders
from condgrad.applications.rounding_device import DeviceGraph, DeviceRounder
from condgrad.applications.sparsest_cut import Rounding, sparsest_cut_of, unit_of
from condgrad.applications.spectral import spectral
from condgrad.backends.devices import on_gpu
from condgrad.certificate import relative_gap
from condgrad.cluster import large
from condgrad.domains.eigen import LARGE
from condgrad.errors import MemoryLimit
from condgrad.methods import Method
from condgrad.run.callbacks import Info
from condgrad.run.journal import journaled, settled
from condgrad.run.limits import Goal, Limits
from condgrad.run.result import Result, Status, Trace

GPU = 200
"""Vertices of a block from which its first cut is found on a GPU where the run is there."""
BROKEN = (Status.INTERRUPTED, Status.OUT_OF_MEMORY, Status.NONFINITE)
"""Ends of a run after which there is no other."""


class Start(NamedTuple):
    """Knowledge of a block before any run."""

    cut: Cut
    bound: float
    """No cut of the block has a lower value."""
    kind: str
    """Kind of proof of the bound."""
    failure: float
    """Probability that the bound does not hold."""
    best: bool
    """Whether the cut is the best one."""


@dataclass(frozen=True, kw_only=True, repr=False)
class ByBlocks(Application):
    """A sparsest cut that is looked for in every block of the graph (`blocks_of`).

    The problem is that of the largest block; all of them have the same unit for values.
    """

    adjacency: Any
    weights: Array
    blocks: Sequence[Block]

    @journaled
    @limited
    def run(
        self,
        slug: str | Method | None = None,
        beta0: float | str | None = None,
        batch: Any = None,
        **limits: Any,
    ) -> Outcome:
        """Solve block by block, those first whose cuts look best.

        Every block has a bound before the first run, by its second eigenvalue (`spectral`). A run
        ends once its bound shows that the block has no cut better than the best one at hand by more
        than the gap. The outcome is that of the whole graph: the best cut, the lowest bound and
        what all runs cost together (`of_all`). A block that is too large for the memory has no run.
        """
        verbose = limits.pop("verbose", False)
        with progress.shown(verbose, max_seconds=limits.get("max_seconds")):
            return self._run(slug, beta0, batch, **limits)

    def _run(
        self, slug: str | Method | None, beta0: float | str | None, batch: Any, **limits: Any
    ) -> Outcome:
        slug = slug or self.default(beta0)
        Limits(None, None, limits.get("max_seconds"), None)
        if limits.get("gap") is not None:
            Goal(limits["gap"])
        began, seconds = time.perf_counter(), limits.pop("max_seconds", None)
        callbacks, gap = list(limits.pop("callbacks", ())), limits.get("gap")
        self.method(slug, beta0, batch)  # refused before any work
        if not self.blocks:
            label = sp.csgraph.connected_components(self.adjacency, directed=False)[1]
            best = Cut(smaller_side(label == label[0]), 0.0)
            none = {0: Start(best, 0.0, "exact", 0.0, True)}
            return self._outcome(slug, best, none, [], gap, limits.get("seed", 0))
        progress.doing(f"bounds and first cuts of {counted(len(self.blocks), 'block')}")
        like = on_gpu() if limits.get("device") == "cuda" else None
        data = self.adjacency, self.weights
        firsts = settled("cuts", lambda: [self._first(b, like) for b in self.blocks], data)
        starts = sorted(zip(self.blocks, firsts, strict=True), key=lambda found: found[1].cut.value)
        place, lowest = starts[0][0], starts[0][1].cut  # the best so far
        runs = [(i, block) for i, (block, start) in enumerate(starts) if not start.best]
        rest = {i: start for i, (_, start) in enumerate(starts)}  # blocks without a run so far
        seed, ends = limits.get("seed", 0), list[Outcome]()
        about: dict[str, Any] = {
            "failure": sum(start.failure for start in rest.values()),
            "floor": min(start.bound for start in rest.values()),
        }
        broken, left = False, ""
        stop: Status | None = None

        def seen(last: Mapping[str, float]) -> progress.Seen:
            """The best cut so far, and what is proved of the blocks so far."""
            others = (start.bound for j, start in rest.items() if j != i)
            bounds = [last["lower_bound"], *others, *(end.result.lower_bound for end in ends)]
            value, own = lowest.value, progress.inner(last)
            if own is not None and own.gap == own.gap:  # a cut of the block at work
                value = min(value, own.value / self.unit.scale)
            return self.seen(value, min(bounds))

        with progress.answers(seen):
            for i, block in runs:
                if deadline.over():
                    stop = Status.MAX_SECONDS
                    break
                if len(runs) > 1:
                    progress.part(f"block {runs.index((i, block)) + 1} of {len(runs)}")

                def enough(info: Info, value: float = lowest.value) -> Status | None:
                    bound = info.trace.last["lower_bound"]
                    done = gap is not None and bound >= (1 - gap) * value
                    return Status.CONVERGED if done else None

                if seconds is not None:
                    spent = time.perf_counter() - began
                    limits["max_seconds"] = max(0.0, seconds - spent)
                own = self._own(block, rest[i])
                how = {**limits, "callbacks": [*callbacks, enough]}
                if not any(map(large, own.problem.terms)):
                    how.pop("cluster", None)
                try:
                    end = own.run(slug, beta0, batch, **how)
                except MemoryLimit as error:
                    stop, left = Status.OUT_OF_MEMORY, str(error)
                    continue
                ends.append(end)
                del rest[i]
                if end.rounded is not None and end.rounded.value < lowest.value:
                    place, lowest = block, end.rounded.answer
                broken = end.rounded is None or end.status in BROKEN  # None: Ctrl-C
                if broken:
                    break
            best = self._whole(place, lowest.side)
            about |= {"stop": stop, "note": left}
            return self._outcome(slug, best, rest, ends, gap, seed, broken, **about)

    def _own(self, block: Block, start: Start) -> Application:
        """The problem of a block; that of the largest one is there already."""
        known: dict[str, Any]
        known = {"floor": start.bound, "floor_kind": start.kind, "floor_failure": start.failure}
        if block is self.blocks[0] and block.vertices.size > 2:
            there = {f.name: getattr(self, f.name) for f in fields(Application)}
            return Application(**there | known | {"settings": {"vertices": block.vertices.size}})
        own = sparsest_cut_of(inner(self.adjacency, block), uneven(block.weights))
        return replace(own, unit=self.unit, **known)

    def _first(self, block: Block, like: Array | None) -> Start:
        """A bound and a cut of a block by its second eigenvector, or the best cut of a cycle.

        In a large block only the orders by the eigenvector and by degrees are tried.
        """
        part, mu = inner(self.adjacency, block), block.weights
        if (best := cut_of_cycle(part, mu)) is not None:
            return Start(best, best.value * (1 - self._slack), "exact", 0.0, True)
        bound, kind, failure, v = spectral(part, mu)
        if like is not None and mu.size > GPU:
            own = self.rounding if block is self.blocks[0] else None
            graph = own.sent(like) if isinstance(own, Rounding) else DeviceGraph(part, mu, like)
            cut = DeviceRounder(graph).by_eigenvector()
        elif mu.size > LARGE:
            degrees = np.asarray(part.sum(axis=1)).reshape(-1)
            cut = sweep_orders(part, mu, np.stack([v / np.sqrt(mu), degrees / mu]))
        else:
            cut = round_cut(part, np.outer(v, v), 1, mu)
        return Start(cut, bound, kind, failure, False)

    def _whole(self, block: Block, side: Array) -> Cut:
        """A cut of a block as one of the graph."""
        side = smaller_side(extended(self.adjacency, block, side))
        rest, mu = self.weights[~side].sum(), self.weights[side].sum()
        across = self.adjacency[side][:, ~side].sum()
        return Cut(side, float((mu + rest) ** 2 * across / (2 * mu * rest)))

    @property
    def _slack(self) -> float:
        """Relative error of a value by rounding of weights."""
        return (8 * self.weights.size + 16) * EPS

    def _outcome(
        self,
        slug: str | Method,
        best: Cut,
        rest: Mapping[int, Start],
        ends: Sequence[Outcome],
        gap: float | None,
        seed: Any,
        broken: bool = False,
        *,
        floor: float = 0.0,
        failure: float = 0.0,
        stop: Status | None = None,
        note: str = "",
    ) -> Outcome:
        """Outcome for the graph, by blocks with a run and the `rest` without.

        `floor` and `failure` are of the bounds before any run. `stop` and `note` say why blocks
        have no run.
        """
        first = min(rest.values(), key=lambda start: start.bound, default=None)
        known = np.inf if first is None else first.bound
        last = min(ends, key=lambda end: end.result.lower_bound, default=None)
        bound = known if last is None else min(known, last.result.lower_bound)
        near = gap_of(best.value, bound, False) <= (gap or 0.0)
        rounded = Rounded(best.value, np.zeros((0, 0)), best)
        settings = {**self.settings, "blocks": len(self.blocks), "runs": len(ends)}
        how: dict[str, Any]
        if first is not None and known <= bound and not broken:
            result = of_all(best.value, bound, ends, seed, floor)
            kind = "probabilistic" if failure or result.bound_failure else first.kind
            result = replace(result, bound_kind=kind)
            if stop is not None and not near:
                result = replace(result, status=stop, note=note)
            facts = (result, self.formula, settings, rounded)
            how = {"asked": gap, "floor_failure": failure, "unit": self.unit}
            return Outcome(self.name, self.preset, "presolve", None, None, *facts, **how)
        assert last is not None
        last = ends[-1] if broken else last
        if self.adjacency.shape[0] > last.settings["vertices"]:
            result = of_all(best.value, bound, ends, seed, floor)
            names = "status", "method", "bound_kind", "bound_source", "device", "note"
            own = {name: getattr(last.result, name) for name in names}
            result = replace(result, **own, best_iteration=result.iterations, proposed=True)
        else:
            off = relative_gap(last.result.objective, bound)
            result = last.result
            if bound < result.lower_bound:
                result = replace(result, lower_bound=bound, gap=off)
        if near and gap is not None and not broken and result.status is not Status.CONVERGED:
            result = replace(result, status=Status.CONVERGED)
        how = {"rounded": rounded, "settings": settings, "asked": gap, "result": result}
        return replace(last, **how, floor_failure=failure)


def by_blocks(adjacency: Any, vertex_weights: Any = None) -> ByBlocks:
    """The sparsest cut of a graph with at least 2 vertices, block by block.

    That of a graph with several components has the value 0.

    Parameters
    ----------
    adjacency : array or SciPy sparse matrix
        Symmetric, non-negative weights; the diagonal is ignored.
    vertex_weights : array, optional
        Positive weights of the vertices; default: 1.
    """
    A = adjacency_matrix(adjacency, least=2)
    return by_blocks_of(A, sizes_of(vertex_weights, A.shape[0]))


def by_blocks_of(A: Any, weights: Array) -> ByBlocks:
    """Relaxations by blocks of a checked adjacency matrix, with a weight for every vertex."""
    whole = sp.csgraph.connected_components(A, directed=False)[0] == 1
    blocks = blocks_of(A, weights) if whole else []
    part, mu, size = sp.csr_array(np.ones((3, 3)) - np.eye(3)), None, 0  # where there is no run
    if blocks:
        size, block = blocks[0].vertices.size, blocks[0]
        if size > 2:
            part, mu = inner(A, block), uneven(block.weights)
    first = sparsest_cut_of(part, mu)
    own = {f.name: getattr(first, f.name) for f in fields(Application)}
    own["settings"] = {"vertices": A.shape[0], "largest block": size}
    own["unit"] = unit_of(weights)
    return ByBlocks(**own, adjacency=A, weights=weights, blocks=blocks)


def inner(A: Any, block: Block) -> Any:
    """The part of an adjacency matrix that belongs to a block."""
    at = block.vertices
    return A if at.size == A.shape[0] else sp.csr_array(A)[at][:, at]


SUMS = "k", "seconds", "epochs", "lmo_calls", "matvecs", "rows"
"""Columns of a trace that go on where the next run begins."""


def of_all(value: float, bound: float, ends: Sequence[Outcome], seed: Any, floor: float) -> Result:
    """The runs on all blocks as one on the graph that found its best cut.

    Its trace has their points, one run after the other, all in the same unit, or the best cut of
    the blocks before where that is better, and the cut as the last one. Before the last run its
    bound is the one that was known before the first.

    Parameters
    ----------
    value : float
        Of the best cut.
    bound : float
        No cut of the graph has a lower value.
    ends : sequence of Outcome
        The runs in their order.
    seed : object
        That of the runs.
    floor : float
        A bound for the graph before any run.
    """
    runs = [end.result for end in ends]
    names = "iterations", "epochs", "seconds", "lmo_calls", "matvecs"
    spent: dict[str, Any] = {name: sum(getattr(run, name) for run in runs) for name in names}
    rows, profile = sum((Counter(r.rows) for r in runs), Counter()), Counter[str]()
    for run in runs:
        profile.update(run.profile)
    trace, before, lowest = Trace(), dict.fromkeys(SUMS, 0.0), np.inf
    for i, run in enumerate(runs):
        columns = {name: run.trace[name].tolist() for name in (*SUMS, "objective", "infeasibility")}
        proved = (
            np.minimum(bound, run.trace["lower_bound"])
            if run is runs[-1]
            else [floor] * len(run.trace)
        )
        for *point, least in zip(*columns.values(), proved, strict=True):
            row = {n: x + before.get(n, 0.0) for n, x in zip(columns, point, strict=True)}
            if row["objective"] > lowest:  # the cut of an earlier block is better
                row |= {"objective": lowest, "infeasibility": 0.0}
            row["gap"] = relative_gap(row["objective"], least)
            trace.append({**row, "lower_bound": float(least)})
        before = {name: trace.last[name] for name in SUMS} if len(trace) else before
        if (cut := ends[i].rounded) is not None:
            lowest = min(lowest, cut.value)
    gap = relative_gap(value, bound)
    last = {**before, "objective": value, "infeasibility": 0.0, "lower_bound": bound, "gap": gap}
    trace.append(last)
    failure = sum(run.bound_failure for run in runs)
    how: dict[str, Any] = {"lower_bound": bound, "gap": gap, "bound_failure": failure, "seed": seed}
    how |= {"bound_kind": "probabilistic" if failure else "exact", "method": "presolve"}
    how |= {"best_iteration": 0, "rows": dict(rows), "profile": dict(profile), "trace": trace}
    none = {
        name: v._replace(**dict.fromkeys(v._fields, 0.0))
        for r in runs
        for name, v in r.families.items()
    }
    return Result(np.zeros((0, 0)), Status.CONVERGED, value, 0.0, none, **spent, **how)


def uneven(weights: Array) -> Array | None:
    """Weights that are not all the same, or None."""
    return None if (weights == weights[0]).all() else weights
