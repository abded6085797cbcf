"""Cuts of graphs in one call: `sparsest_cut` and `max_cut`.

They take a graph as you have it (networkx, SciPy sparse, NumPy), solve the semidefinite relaxation,
round it and say what is proved. `condgrad.applications` has functions of the same names that only
build the problem, for those who choose the method, the limits and the rounding themselves.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
import scipy.sparse as sp

from condgrad import _progress as progress
from condgrad import applications
from condgrad._adjacency import sizes_by, weights_of
from condgrad._check import flag
from condgrad._deadline import limited
from condgrad._round import bound_text, toward, up
from condgrad._types import Array
from condgrad.applications import PLAIN, Constructed, Outcome, Sense, Unit, closeness
from condgrad.applications.max_cut import CUT, check_room
from condgrad.applications.presolve import by_blocks_of, of_all, uneven
from condgrad.applications.rounding import smaller_side
from condgrad.applications.sparsest_cut import sparsest_cut_of, unit_of
from condgrad.applications.spectral import floor_of
from condgrad.backends.devices import check_device
from condgrad.certificate import relative_gap
from condgrad.cluster import Ray, cluster_of
from condgrad.methods import Method
from condgrad.run.journal import EVERY, checkpoints
from condgrad.run.limits import Goal, Limits
from condgrad.run.result import Result, Status

SHOWN = 20
"""Number of vertices of a cut that are printed."""
PASSES = 3000
"""Limit for max-cut without `max_seconds`: a relative gap to an optimum of 0 is never small."""


@dataclass(frozen=True, eq=False, repr=False)
class GraphCut(Constructed):
    """A cut of a graph and what is proved of it."""

    partition: tuple[tuple[Any, ...], tuple[Any, ...]]
    """The two sides, the smaller one first: vertices by name where the graph has names (nodes of
    networkx, names of a file or a frame), else indices from 0."""
    side: Array
    """True for the vertices of the first side, in the order of the graph."""
    value: float
    """Value of the cut: w(S, S̄)/(|S||S̄|) for a sparsest cut, w(S, S̄) for a maximum cut."""
    bound: float
    """No sparsest cut has a smaller value, no maximum cut a larger one."""
    gap: float
    """|value − bound| / max(|value|, |bound|); 0 is a proof that no cut is better. Where the best
    value is 0 the gap says little, being 0 or 1: read `bound`."""
    status: Status
    """Why the run ended: it converged where the gap is at most what was asked for, and is RELAXED
    where the relaxation was solved but is not as tight as that."""
    sense: Sense
    """``min`` for a sparsest cut, ``max`` for a maximum cut."""
    result: Result
    """The run on the relaxation in its own units: it minimises n²/2 times the value of a sparsest
    cut (with weights of vertices, half the square of their sum times), or the negative of that of a
    maximum cut. If there was no run it has no iterations, and value and bound of the cut. `note`
    says so if the relaxation did not fit into the memory. `W` is empty then, and wherever the graph
    was solved block by block: the cut is in `side`."""
    bound_failure: float = 0.0
    """Probability that the bound does not hold; 0 up to 3000 vertices, 1e-10 for each time it was
    computed beyond, or with so little time that Lanczos or products had to do."""
    unit: Unit = PLAIN
    """Unit of `value`, and its relation to values of `result`."""

    @property
    def _application(self) -> str:  # type: ignore[override]
        return "max-cut" if self.sense == "max" else "sparsest-cut"

    def _facts(self) -> dict[str, str]:
        sides = " + ".join(str(len(side)) for side in self.partition)
        return {"vertices": sides, **super()._facts()}

    def summary(self) -> str:
        """Value, bound and smaller side of the cut, as a sentence."""
        name = "Maximum cut" if self.sense == "max" else "Sparsest cut"
        beyond = "above" if self.sense == "max" else "below"
        known = f"none {beyond} {bound_text(self.bound, 6, self.sense)} exists"
        if self.bound_failure:
            known += f" (wrong with probability {up(self.bound_failure, 2)})"
        n = self.side.size
        size = f"{len(self.partition[0])} of {n} vert{'ices' if n != 1 else 'ex'}: "
        members = ", ".join(map(str, self.partition[0][:SHOWN]))
        size = size if members else "all vertices are on one side"
        more = ", …" if len(self.partition[0]) > SHOWN else ""
        proved = closeness(self.value, self.bound, "cut", self.sense)
        return (
            f"{name}: value {self.value:.6g}, {known}, so {proved};"
            f" {size}{members}{more}{self._resumed()}"
        )


@limited
def sparsest_cut(
    graph: Any,
    *,
    gap: float = 1e-3,
    max_seconds: float | None = 60.0,
    seed: int = 0,
    weight: str | None = "weight",
    vertex_weight: Any = None,
    presolve: bool = True,
    method: str | Method | None = None,
    n_jobs: int | None = None,
    device: str = "cpu",
    cluster: str | Ray | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    every: float = EVERY,
    resume: str | os.PathLike[str] | bool | None = None,
    verbose: bool | int = False,
) -> GraphCut:
    r"""The cut with the smallest w(S, S̄)/(|S||S̄|), with a proven bound.

    It is found by rounding the relaxation with triangle inequalities, which is often tight;
    `condgrad.applications.sparsest_cut` builds that problem, in the units n² w(S, S̄)/(2|S||S̄|).
    W is dense and there are n(n − 1)(n − 2)/2 inequalities: up to a few hundred vertices. The bound
    that comes first, for connected graphs of any size, is the second eigenvalue of the Laplacian.
    It is also the last if the relaxation does not fit into the memory or the time; a `method` and
    ``presolve=False`` want the whole relaxation, and raise `MemoryLimit` then. A graph whose best
    cut lies in a smaller part is solved there: the two sides of a best cut can be taken to be
    connected, and so to differ within one biconnected block, in which every vertex has the weight
    of all that hangs on it. Trees, and graphs with several components, take no run at all.

    Parameters
    ----------
    graph : networkx.Graph, SciPy sparse matrix, array, frame or NamedGraph
        Undirected, with weights >= 0 and at least 2 vertices; a matrix holds the weights and is
        symmetric. Parallel edges are summed, loops ignored. A frame of pandas, Polars or Arrow has
        a row for each edge (`condgrad.io.graph_from_edges`), or is a matrix whose rows are named as
        its columns. `condgrad.io.read_named_graph` reads files.
    gap : float, default 1e-3
        Relative gap to end at.
    max_seconds : float, optional
        Limit on the time of the call, default 60; None: no limit. It counts everything: the call
        returns near the limit, between two steps.
    seed : int, default 0
        Of all randomness.
    weight : str or None, default "weight"
        Edge attribute of a networkx graph, or column of a frame, that holds the weight; None: every
        edge has weight 1. One that no edge has is refused; where only some have it the others
        weigh 1, with a warning.
    vertex_weight : str, mapping or array, optional
        Positive weights of the vertices, the node attribute of a networkx graph that holds them, a
        mapping from its nodes or numbers in the order of the graph: |S| is their sum over S.
        Default: 1.
    presolve : bool, default True
        Solve block by block; False, or with a `method`: solve the relaxation of the whole graph.
    method : str or Method, optional
        How to solve that relaxation: a name out of `condgrad.METHODS`, or a `Method` such as
        ``condgrad.h_sag_v2("auto")``. Default: what suits.
    n_jobs : int, optional
        Threads, as for `condgrad.solve`.
    device : {"cpu", "cuda", "auto"}
        Where the relaxation is solved, as for `condgrad.solve`.
    cluster : str or condgrad.cluster.Ray, optional
        A Ray cluster to deal the inequalities to, as for `condgrad.solve`.
    checkpoint, every, resume
        A file that keeps the state of all runs, and one to go on from, as for `condgrad.solve`.
    verbose : bool or int, default False
        Show the best cut so far, its bound and its gap while it runs, as for `condgrad.solve`.

    Examples
    --------
    >>> bridge = np.kron(np.eye(2), 1 - np.eye(3))
    >>> bridge[2, 3] = bridge[3, 2] = 1
    >>> cut = sparsest_cut(bridge)
    >>> cut.partition, round(cut.value, 4)
    (((0, 1, 2), (3, 4, 5)), 0.1111)
    """
    _check(gap, max_seconds, device)
    flag("presolve", presolve)
    A, names = weights_of(graph, weight, signed=False)
    n = A.shape[0]
    sizes = sizes_by(graph, vertex_weight, n)
    connected = sp.csgraph.connected_components(A, directed=False)[0] == 1
    if n == 2 and connected:
        first, second = map(Fraction, sizes)
        best, times = Fraction(A[0, 1]) / (first * second), (first + second) ** 2 / 2
        return _known(names, np.array([True, False]), best, times, "min", unit_of(sizes), seed)
    options: dict[str, Any] = {"gap": gap, "max_seconds": max_seconds, "seed": seed}
    options |= {"n_jobs": n_jobs, "device": device}
    options |= {} if cluster is None else {"cluster": cluster_of(cluster)}
    with progress.shown(verbose, max_seconds=max_seconds), checkpoints(checkpoint, every, resume):
        progress.doing("looking for blocks of the graph")
        if not connected or (presolve and method is None):
            application: applications.Application = by_blocks_of(A, sizes)
        else:
            applications.require_room((n, n), 3, "cut a part of the graph")
            own = {"unit": unit_of(sizes), **floor_of(A, sizes)}
            application = replace(sparsest_cut_of(A, uneven(sizes)), **own)
        found = application.run(method, **options)
    return _cut(found, names)


@limited
def max_cut(
    graph: Any,
    *,
    triangles: bool = False,
    presolve: bool | None = None,
    gap: float = 1e-3,
    max_seconds: float | None = 60.0,
    seed: int = 0,
    weight: str | None = "weight",
    method: str | Method | None = None,
    n_jobs: int | None = None,
    hyperplanes: int = 100,
    device: str = "cpu",
    cluster: str | Ray | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    every: float = EVERY,
    resume: str | os.PathLike[str] | bool | None = None,
    verbose: bool | int = False,
) -> GraphCut:
    r"""A cut of large weight w(S, S̄), with a proven bound on the largest.

    It is found by rounding the relaxation of Goemans and Williamson, which is not tight: expect a
    gap of some percent however long it runs. With `triangles` a better one is solved, with a much
    smaller gap. Where all weights are integers the bound is rounded down to one.
    `condgrad.applications.max_cut` builds the problem alone.

    Parameters
    ----------
    graph : networkx.Graph, SciPy sparse matrix, array, frame or NamedGraph
        As for `sparsest_cut`, with weights of any sign and at least one vertex. Up to 5000 vertices
        W is dense; beyond, it stays a factor, and a graph may have 10⁵ and more.
    triangles : bool, default False
        Add all 4 C(n, 3) triangle inequalities to the relaxation, for up to some hundreds of
        vertices. The optimum of a planar graph is found so.
    presolve : bool, optional
        Take out vertices that do not change the optimum, and add triangle inequalities near the
        edges that are left; `result.W` is that of the cut. Default: with more than 5000 vertices.
    gap : float, default 1e-3
        Relative gap of the relaxation to end at.
    max_seconds, seed, weight, method, n_jobs, device, checkpoint, every, resume, verbose
        As for `sparsest_cut`.
    cluster : str or condgrad.cluster.Ray, optional
        With `triangles`: a Ray cluster to deal them to, as for `condgrad.solve`.
    hyperplanes : int, default 100
        How many random hyperplanes to round with.

    Examples
    --------
    >>> ring = np.roll(np.eye(5), 1, axis=0) + np.roll(np.eye(5), -1, axis=0)
    >>> cut = max_cut(ring)
    >>> cut.value, cut.bound, cut.gap
    (4.0, 4.0, 0.0)
    """
    _check(gap, max_seconds, device)
    flag("triangles", triangles)
    if hasattr(graph, "shape"):
        check_room(graph)
    A, names = weights_of(graph, weight, signed=True)
    n, total = A.shape[0], float(A.data[A.data > 0].sum()) / 2
    if n <= 2 or total == 0:
        side = (np.arange(n) == 0) & (total > 0)
        return _known(names, side, Fraction(total), Fraction(1), "max", CUT, seed)
    limit = np.inf if max_seconds is None else max_seconds
    with progress.shown(verbose, max_seconds=max_seconds), checkpoints(checkpoint, every, resume):
        more: dict[str, Any] = {"warm_seconds": limit, "hyperplanes": hyperplanes, "seed": seed}
        how: dict[str, Any] = {"triangles": triangles, "presolve": presolve, "warm": gap}
        application = applications.max_cut(A, **how, **more)
        options: dict[str, Any] = {"gap": gap, "max_seconds": max_seconds, "seed": seed}
        options |= {"n_jobs": n_jobs, "device": device}
        options |= {} if cluster is None else {"cluster": cluster_of(cluster)}
        options |= {"max_epochs": PASSES} if max_seconds is None else {}
        found = application.run(method, **options)
    return _cut(found, names)


def _check(gap: float, max_seconds: float | None, device: str) -> None:
    """Refuse bad options before any work."""
    check_device(device)
    Goal(gap)
    Limits(None, None, max_seconds, None)


def _partition(side: Array, names: tuple[Any, ...]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    pairs = list(zip(names, side, strict=True))
    return tuple(n for n, first in pairs if first), tuple(n for n, first in pairs if not first)


def _known(
    names: tuple[Any, ...],
    side: Array,
    best: Fraction,
    times: Fraction,
    sense: Sense,
    unit: Unit,
    seed: Any,
) -> GraphCut:
    """A cut that is the best for a simple reason; a run has `times` its value."""
    sign, side = (-1 if sense == "max" else 1), smaller_side(side)
    value, bound = float(best), toward(best, -sign * math.inf)
    own, low = float(sign * times * best), toward(sign * times * best, -math.inf)
    result = of_all(own, low, [], seed, low)
    known = (value, bound, relative_gap(value, bound), Status.CONVERGED, sense)
    return GraphCut(_partition(side, names), side, *known, result, unit=unit)


def _cut(run: Outcome, names: tuple[Any, ...]) -> GraphCut:
    """The cut of a run."""
    if run.rounded is None:  # the keyboard ended the rounding as well
        raise KeyboardInterrupt
    side = run.rounded.answer.side
    return GraphCut(
        _partition(side, names),
        side,
        run.value,
        run.value_bound,
        run.rounded_gap,
        run.status,
        run.sense,
        run.result,
        run.bound_failure,
        run.unit,
    )
