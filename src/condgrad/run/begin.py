"""Options of a run, and the run that can do it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from condgrad._types import Array
from condgrad.cluster import Ray, cluster_of, require_large
from condgrad.errors import ProblemError
from condgrad.methods import suited
from condgrad.methods.registry import Method, check
from condgrad.problem import Problem
from condgrad.run import journal
from condgrad.run.asked import Asked, Options
from condgrad.run.callbacks import Callback, Watch
from condgrad.run.factored_loop import FactoredRun, suits
from condgrad.run.limits import Goal
from condgrad.run.loop import Run
from condgrad.run.prepare import generator


def start(
    problem: Problem,
    method: Method | None = None,
    *,
    start: Array | None = None,
    gap: float | None = None,
    feasibility: float | None = None,
    row_feasibility: float | None = None,
    certify: bool = True,
    record: int | None = None,
    metrics: Mapping[str, Callable[[Array], float]] | None = None,
    callbacks: Sequence[Callback] = (),
    propose: Callable[[Array], Array | None] | None = None,
    floor: float | None = None,
    errors: bool = False,
    duals: bool = False,
    seed: int | None = 0,
    n_jobs: int | None = None,
    device: str = "cpu",
    cluster: str | Ray | None = None,
) -> Run:
    """A run that has not begun; `condgrad.solve` has the parameters.

    Returns
    -------
    Run
        ``run.advance(seconds=60)`` advances it, ``run.result()`` is its result at any time, and
        ``for info in run:`` goes one iteration at a time. Memory is asked for here.
    """
    return asked(**locals()).begin()


def asked(
    problem: Problem,
    method: Method | None = None,
    *,
    start: Array | None = None,
    gap: float | None = None,
    feasibility: float | None = None,
    row_feasibility: float | None = None,
    seed: int | None = 0,
    n_jobs: int | None = None,
    device: str = "cpu",
    cluster: str | Ray | None = None,
    metrics: Mapping[str, Callable[[Array], float]] | None = None,
    **watched: Any,
) -> Asked:
    """Run that the options of `start` ask for, checked."""
    goal = Goal(gap, feasibility, row_feasibility)
    if seed is None:
        seed = journal.fresh_seed()
    generator(seed)
    watch = Watch(metrics=metrics or {}, **watched)
    watch.require(goal)
    wish = cluster_of(cluster)
    if wish is not None and device == "auto":
        raise ProblemError(
            "device is 'auto' and cluster is given: leave device out, or use 'cuda' for what stays "
            "here; with Ray(gpus_per_shard=1) the shards are on GPUs"
        )
    options = Options(start, goal, watch, seed, n_jobs, device, wish)
    if method is None and isinstance(problem, Problem):
        if suits(problem, options):
            if wish is not None:
                raise ProblemError(
                    "cluster is given, but W is kept as factors here, whose rows are not dealt: "
                    "leave cluster out, or name a method"
                )
            return Asked(FactoredRun, problem, None, options)
        method = suited(problem)
    check(problem, method)
    if wish is not None:
        require_large(problem)
    return Asked(Run, problem, method.on(problem), options)
