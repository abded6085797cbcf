"""The result of a run that was not begun: no time was left, or Ctrl-C came before it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from condgrad._types import Array
from condgrad.certificate import relative_gap
from condgrad.points.factored import Factored
from condgrad.problem import Problem
from condgrad.run.factored_loop import chosen
from condgrad.run.result import PARTS, Result, Status, Trace


def unstarted(
    problem: Problem,
    method: str,
    floor: float | None,
    seed: Any,
    *,
    start: Any = None,
    status: Status = Status.MAX_SECONDS,
    metrics: Mapping[str, Callable[[Array], float]] | None = None,
) -> Result:
    """The start, or the centre of the domain, with a bound only where one is known beforehand."""
    W = start
    if start is None:
        W = _first(problem)
    elif not isinstance(start, Factored):
        W = np.asarray(start, problem.dtype)
    found, bound = problem.evaluate(W), -np.inf if floor is None else float(floor)
    gap, trace = relative_gap(found.objective, bound, problem.unit), Trace()
    row = dict.fromkeys(("k", "seconds", "epochs", "lmo_calls", "matvecs", "rows"), 0.0)
    row |= {"objective": found.objective, "smoothed": np.nan, "eta": np.nan, "beta": np.nan}
    row |= {"infeasibility": found.infeasibility, "lower_bound": bound, "gap": gap}
    for name, violation in found.families.items():
        row.update({f"{name}.{kind}": v for kind, v in violation._asdict().items()})
    trace.append(row)
    return Result(
        W=W,
        status=status,
        objective=found.objective,
        infeasibility=found.infeasibility,
        families=found.families,
        iterations=0,
        best_iteration=0,
        epochs=0.0,
        seconds=0.0,
        lmo_calls=0,
        matvecs=0,
        rows={t.name: 0 for t in problem.terms},
        trace=trace,
        method=method,
        seed=seed,
        lower_bound=bound,
        gap=gap,
        bound_kind="none" if floor is None else "given",
        metrics={name: float(metric(W)) for name, metric in (metrics or {}).items()},
        profile=dict.fromkeys(PARTS, 0.0),
    )


def _first(problem: Problem) -> Any:
    """The centre, as factors where nothing may be as large as W."""
    domain = problem.domain
    if chosen(problem):
        return Factored.zeros(domain.shape, problem.dtype)
    return domain.center()
