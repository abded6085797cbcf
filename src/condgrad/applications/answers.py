"""Answers of all calls as outcomes of a run, to be drawn, recorded and reported."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from condgrad.applications._outcome import PLAIN, Outcome, Rounded, Unit
from condgrad.applications.presolve import of_all
from condgrad.certificate import relative_gap
from condgrad.errors import ProblemError
from condgrad.run.answer import Answer
from condgrad.run.result import Result, Trace


def outcome_of(run: Any) -> Outcome:
    """The outcome that an answer is, or that it was made from, with the numbers of the answer.

    A cut, a partition, a clustering is the rounded solution of its run. Values of the run that have
    another unit, or lack an offset, are turned into those of the answer. Where no run was needed
    there is one without iterations.

    Parameters
    ----------
    run : Answer
        What a call of condgrad has returned.
    """
    if isinstance(run, Outcome):
        return run
    if not isinstance(run, Answer):
        raise ProblemError(
            f"run is a {type(run).__name__}: give what a call returned, such as a Result, an "
            "Outcome or a GraphCut"
        )
    if isinstance(run, Result):
        return Outcome("problem", "", run.method, None, None, run)
    result: Result | None = getattr(run, "result", None)
    name, unit = run._application, getattr(run, "unit", PLAIN)
    sign = -1 if run.sense == "max" else 1
    if not isinstance(unit, Unit):  # a program, which has all numbers of its own
        if result is None:
            raise ProblemError("the program was solved without a run: there is nothing to draw")
        own: dict[str, Any] = {"sense": run.sense, "solution": run}
        return Outcome(name, "auto", result.method, None, None, result, **own)
    value, bound = (sign * (x - _offset(run)) / unit.scale for x in (run.objective, run.bound))
    if result is None:
        result = of_all(value, bound, [], None, bound)
    result = replace(result, status=run.status, W=getattr(run, "W", result.W))
    if _offset(run):
        by = sign * _offset(run) / unit.scale
        value, bound, result = value + by, bound + by, _shifted(result, by)
    rounded = Rounded(value, result.W, run)
    whole = bool(np.isfinite(bound) and bound == np.ceil(result.lower_bound) > result.lower_bound)
    if not whole and not unit.slack:  # a bound of the answer is rounded to its own safe side
        off = relative_gap(result.objective, bound)
        result = replace(result, lower_bound=bound, gap=off)
    failure = max(0.0, float(getattr(run, "bound_failure", 0.0)) - result.bound_failure)
    facts: dict[str, Any] = {"rounded": rounded, "sense": run.sense, "unit": unit}
    facts |= {"floor_failure": failure, "floor_kind": "exact", "whole": whole}
    return Outcome(name, "auto", result.method, None, None, result, **facts)


def names_of(run: Any) -> tuple[Any, ...] | None:
    """The names of the vertices of a cut or a partition, in the order of the graph."""
    parts = getattr(run, "partition", None) or getattr(run, "parts", None)
    if parts is None or not isinstance(run, Answer):
        return None
    side = getattr(run, "side", None)
    labels: Any = getattr(run, "labels", None) if side is None else np.where(side, 0, 1)
    members = [iter(part) for part in parts]
    return tuple(next(members[label]) for label in labels.tolist())


def _offset(run: Any) -> float:
    return float(getattr(run, "offset", 0.0))


def _shifted(result: Result, by: float) -> Result:
    """The run on a problem whose objective is larger by a number."""
    moved = {name: result.trace[name] for name in result.trace}
    for name in {"objective", "smoothed", "lower_bound"} & set(moved):
        moved[name] = moved[name] + by
    if "gap" in moved:
        pairs = zip(moved["objective"], moved["lower_bound"], strict=True)
        moved["gap"] = np.array([relative_gap(*pair) for pair in pairs])
    value, bound = result.objective + by, result.lower_bound + by
    numbers: dict[str, Any] = {"objective": value, "lower_bound": bound}
    numbers["gap"] = relative_gap(value, bound)
    return replace(result, **numbers, trace=Trace.of(moved))
