"""Partitions of graphs in one call: bisection, k-section and correlation clustering."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from condgrad import _progress as progress
from condgrad._adjacency import weights_of
from condgrad._check import flag
from condgrad._deadline import limited
from condgrad._round import bound_text, counted, up
from condgrad._types import Array
from condgrad.applications import PLAIN, Application, Constructed, Outcome, Unit, closeness, gap_of
from condgrad.applications.correlation import correlation_clustering_of
from condgrad.applications.section import part_sizes, section_of
from condgrad.backends.devices import check_device
from condgrad.errors import ProblemError
from condgrad.run.journal import EVERY, checkpoints
from condgrad.run.limits import Goal, Limits
from condgrad.run.result import Result, Status


@dataclass(frozen=True, eq=False, repr=False)
class Partition(Constructed):
    """A partition of the vertices of a graph and what is proved of it."""

    parts: tuple[tuple[Any, ...], ...]
    """The parts, in the order of their first vertices: nodes of a networkx graph, else indices."""
    labels: Array
    """The part of each vertex, in the order of the graph."""
    value: float
    """Weight of the edges between parts, or of all disagreements of a correlation clustering."""
    bound: float
    """No partition has a smaller value."""
    gap: float
    """|value − bound| / max(|value|, |bound|); 0 is a proof that no partition is better."""
    status: Status
    """Why the run ended; RELAXED where the relaxation was solved but is not as tight as asked."""
    result: Result
    """The run on the relaxation, in the same units."""
    bound_failure: float = 0.0
    """Probability that the bound does not hold; 0 up to 3000 vertices."""
    unit: Unit = PLAIN
    """Noun of the answer; values have the unit of the run."""

    sense = "min"
    _application = "partition"

    def _sizes(self, between: str, most: int) -> str:
        sizes = between.join(str(len(part)) for part in self.parts[:most])
        return sizes + (f"{between}…" if len(self.parts) > most else "")

    def _facts(self) -> dict[str, str]:
        return {"vertices": self._sizes(" + ", 5), **super()._facts()}

    def summary(self) -> str:
        """Value, bound and sizes of the parts, as a sentence."""
        count = counted(len(self.parts), "part")
        wrong = ""
        if self.bound_failure:
            wrong = f" (wrong with probability {up(self.bound_failure, 2)})"
        return (
            f"Partition of {self.labels.size} vertices into {count} ({self._sizes(', ', 10)}): "
            f"value {self.value:.6g}, none below {bound_text(self.bound, 6, 'min')} exists{wrong}, "
            f"so {closeness(self.value, self.bound, 'partition', 'min')}"
        )


@limited
def k_section(
    graph: Any,
    parts: int | Sequence[int] = 2,
    *,
    triangles: bool | None = None,
    gap: float = 1e-3,
    max_seconds: float | None = 60.0,
    seed: int = 0,
    weight: str | None = "weight",
    n_jobs: int | None = None,
    device: str = "cpu",
    checkpoint: str | os.PathLike[str] | None = None,
    every: float = EVERY,
    resume: str | os.PathLike[str] | bool | None = None,
    verbose: bool | int = False,
) -> Partition:
    """The partition into parts of given sizes with the least weight between them, with a bound.

    `condgrad.applications.section.section` has the relaxation. Where all weights are integers the
    bound is rounded up to one.

    Parameters
    ----------
    graph : networkx.Graph, SciPy sparse matrix or array
        Undirected, with weights of any sign; loops are ignored.
    parts : int or sequence of int, default 2
        How many parts, of sizes that differ by at most one as in the DIMACS challenges, or their
        sizes, which sum to the number of vertices.
    triangles : bool, optional
        Ask the relaxation for the triangle inequalities. Default: where it is not tight without.
    gap : float, default 1e-3
        Relative gap to end at.
    max_seconds, seed, weight, n_jobs, device, checkpoint, every, resume, verbose
        As for `condgrad.sparsest_cut`.

    Examples
    --------
    >>> bridge = np.kron(np.eye(2), 1 - np.eye(3))
    >>> bridge[2, 3] = bridge[3, 2] = 1
    >>> found = k_section(bridge)
    >>> found.parts, found.value, found.gap
    (((0, 1, 2), (3, 4, 5)), 1.0, 0.0)
    """
    flag("triangles", triangles, optional=True)
    A, names = weights_of(graph, weight, signed=True)
    if A.shape[0] < 2:
        raise ProblemError("graph has one vertex: a partition into parts needs at least 2")
    sizes = part_sizes(parts, A.shape[0])
    options: dict[str, Any] = {"gap": gap, "max_seconds": max_seconds, "seed": seed}
    options |= {"n_jobs": n_jobs, "device": device}
    with progress.shown(verbose, max_seconds=max_seconds), checkpoints(checkpoint, every, resume):
        found = _tightened(lambda rows: section_of(A, sizes, rows), triangles, options)
    return _partition(found, names)


def bisection(graph: Any, sizes: Sequence[int] | None = None, **options: Any) -> Partition:
    """The cut into two parts of equal size, or of these sizes, with the least weight across.

    Parameters
    ----------
    graph : networkx.Graph, SciPy sparse matrix or array
        As for `k_section`.
    sizes : pair of int, optional
        Sizes of both parts; default: half of the vertices each, one more in the first where their
        number is odd.
    **options
        As for `k_section`.
    """
    if "parts" in options:
        raise ProblemError("parts is no option of bisection, which has two: give sizes to it")
    if sizes is not None and len(sizes) != 2:
        raise ProblemError(f"sizes has {len(sizes)} numbers: a bisection has two, see k_section")
    return k_section(graph, 2 if sizes is None else sizes, **options)


@limited
def correlation_clustering(
    graph: Any,
    *,
    triangles: bool | None = None,
    gap: float = 1e-3,
    max_seconds: float | None = 60.0,
    seed: int = 0,
    weight: str | None = "weight",
    n_jobs: int | None = None,
    device: str = "cpu",
    checkpoint: str | os.PathLike[str] | None = None,
    every: float = EVERY,
    resume: str | os.PathLike[str] | bool | None = None,
    verbose: bool | int = False,
) -> Partition:
    """The clustering of a signed graph with the fewest disagreements, with a proven bound.

    A disagreement is a pair of positive weight that is apart or of negative weight that is
    together; it costs the size of its weight. The number of clusters is found.
    `condgrad.applications.correlation.correlation_clustering` has the relaxation.

    Parameters
    ----------
    graph : networkx.Graph, SciPy sparse matrix or array
        Undirected, with weights of any sign: similarities. Pairs without an edge do not matter.
    triangles : bool, optional
        Ask the relaxation for the triangle inequalities. Default: where it is not tight without.
    gap : float, default 1e-3
        Relative gap to end at.
    max_seconds, seed, weight, n_jobs, device, checkpoint, every, resume, verbose
        As for `condgrad.sparsest_cut`.

    Examples
    --------
    >>> like = np.kron(np.eye(2), np.ones((3, 3))) * 2 - 1
    >>> like[0, 5] = like[5, 0] = 1
    >>> found = correlation_clustering(like)
    >>> found.labels.tolist(), found.value, found.gap
    ([0, 0, 0, 1, 1, 1], 1.0, 0.0)
    """
    flag("triangles", triangles, optional=True)
    S, names = weights_of(graph, weight, signed=True)
    options: dict[str, Any] = {"gap": gap, "max_seconds": max_seconds, "seed": seed}
    options |= {"n_jobs": n_jobs, "device": device}
    with progress.shown(verbose, max_seconds=max_seconds), checkpoints(checkpoint, every, resume):
        found = _tightened(lambda rows: correlation_clustering_of(S, rows), triangles, options)
    return _partition(found, names)


def _tightened(
    application: Callable[[bool], Application], triangles: bool | None, options: dict[str, Any]
) -> Outcome:
    """A run without triangle inequalities, and one with them where that is not tight enough."""
    check_device(options["device"])
    Goal(options["gap"])
    Limits(None, None, options["max_seconds"], None)
    first = application(bool(triangles)).run(**options)
    if triangles is not None or first.status is not Status.RELAXED:
        return first

    def seen(second: progress.Seen) -> progress.Seen:
        """The better of both runs, to be shown."""
        value = first.value if second.gap != second.gap else min(first.value, second.value)
        gap = gap_of(value, second.bound, False)
        return second._replace(what=first.unit.what, value=value, gap=gap)

    with progress.changed(seen):
        second = application(True).run(**{**options, "floor": first.result.lower_bound})
    if second.rounded is None or first.rounded is None:
        return first
    if first.rounded.value < second.rounded.value:
        second = replace(second, rounded=first.rounded)
    return second


def _partition(run: Outcome, names: tuple[Any, ...]) -> Partition:
    if run.rounded is None:  # the keyboard ended the rounding as well
        raise KeyboardInterrupt
    labels = run.rounded.answer.labels
    parts: dict[int, list[Any]] = {}
    for name, label in zip(names, labels.tolist(), strict=True):
        parts.setdefault(label, []).append(name)
    # the last certificate can reach what a limit did not leave the time for
    at_last = run.status in Status.limits() and run.rounded_gap <= (run.asked or 0.0)
    order = {label: at for at, label in enumerate(parts)}
    return Partition(
        tuple(tuple(part) for part in parts.values()),
        np.array([order[label] for label in labels.tolist()]),
        run.rounded.value,
        run.rounded_bound,
        run.rounded_gap,
        Status.CONVERGED if at_last else run.status,
        run.result,
        run.bound_failure,
        run.unit,
    )
