"""The result of a run for which there was no time to begin."""

from __future__ import annotations

from typing import Any

import numpy as np

from condgrad.certificate import relative_gap
from condgrad.domains import NuclearBall
from condgrad.methods.registry import Method
from condgrad.points.factored import Factored
from condgrad.problem import Problem
from condgrad.rows.observed import observable
from condgrad.run.result import PARTS, Result, Status, Trace


def unstarted(problem: Problem, method: Method | None, floor: float | None, seed: Any) -> Result:
    """The centre of the domain, with a bound only where one is known beforehand."""
    W = _first(problem)
    found, bound = problem.evaluate(W), -np.inf if floor is None else float(floor)
    gap, trace = relative_gap(found.objective, bound), Trace()
    row = dict.fromkeys(("k", "seconds", "epochs", "lmo_calls", "matvecs", "rows"), 0.0)
    row |= {"objective": found.objective, "smoothed": np.nan, "eta": np.nan, "beta": np.nan}
    row |= {"infeasibility": found.infeasibility, "lower_bound": bound, "gap": gap}
    for name, violation in found.families.items():
        row.update({f"{name}.{kind}": v for kind, v in violation._asdict().items()})
    trace.append(row)
    return Result(
        W=W,
        status=Status.MAX_SECONDS,
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
        method="" if method is None else method.name,
        seed=seed,
        lower_bound=bound,
        gap=gap,
        bound_kind="none" if floor is None else "given",
        profile=dict.fromkeys(PARTS, 0.0),
    )


def _first(problem: Problem) -> Any:
    """The centre, as factors where nothing may be as large as W."""
    domain = problem.domain
    if isinstance(domain, NuclearBall) and observable(problem):
        return Factored.zeros(domain.shape, problem.dtype)
    return domain.center()
