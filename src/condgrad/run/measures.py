"""Numbers that are watched in a run beside objective and violations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from condgrad._types import Array, Params
from condgrad.backends.arrays import foreign
from condgrad.errors import ProblemError
from condgrad.evaluation import Evaluation
from condgrad.points.dense import Dense
from condgrad.problem import Term
from condgrad.rows import Keeper
from condgrad.run.limits import Clock
from condgrad.run.result import PARTS


@dataclass
class Best:
    """The best point so far."""

    W: Array
    k: int
    evaluation: Evaluation
    metrics: dict[str, float]
    proposed: bool = False


def merit(
    W: Array, evaluation: Evaluation, rows: Sequence[Keeper], betas: Sequence[float]
) -> float:
    """Function that the method descends on at these β and, if it has them, these multipliers.

    Objective + Σ ω_t dist_t²/(2β) over the constraint families; the augmented Lagrangian
    dist²(z + βy)/(2β) − β‖y‖²/2 where the estimator keeps multipliers y.
    """
    total = evaluation.objective
    for r, beta in zip(rows, betas, strict=True):
        if r.term.function.indicator:
            own = r.merit(W, beta)
            total += penalty(r.term, evaluation, beta) if own is None else own
    return total


def smoothed(
    W: Array, evaluation: Evaluation, terms: Sequence[Term], betas: Sequence[float]
) -> float:
    """F_β at a point; the constraints' part is known already."""
    total = evaluation.objective
    for t, beta in zip(terms, betas, strict=True):
        if t.function.smooth:
            continue
        if t.function.indicator:
            total += penalty(t, evaluation, beta)
        else:
            total += t.smoothed(W, beta) - t.value(W)
    return total


def penalty(term: Term, evaluation: Evaluation, beta: float) -> float:
    """ω dist²/(2β) of a constraint family."""
    return term.weight * evaluation.families[term.name].l2 ** 2 / (2 * beta)


def errors(W: Dense | None, p: Params | None, rows: Sequence[Keeper]) -> dict[str, float]:
    """ω ‖h'_{β_k}(A W_k) − y‖_1 of every estimate y that is kept row by row.

    After the step W_k is the previous point. NaN where there was no iteration yet, or where one may
    have been broken off after its estimates had moved on.
    """
    kept = [r for r in rows if r.estimator.by_row]
    if W is None or p is None:
        return {f"{r.term.name}.error": np.nan for r in kept}
    return {f"{r.term.name}.error": r.error(W, p.beta) for r in kept}


def number(name: str, value: Any) -> float:
    """Value of a metric, as a number."""
    try:
        return float(value)
    except (TypeError, ValueError):
        kind = type(value).__name__
        raise ProblemError(f"metrics[{name!r}] returned a {kind}: return a number") from None


def like(proposed: Any, W: Array) -> Array:
    """A proposed point, checked, in the precision of a run and where it is."""
    point = proposed if foreign(proposed) else np.asarray(proposed)
    if point.shape != W.shape:
        raise ProblemError(
            f"propose returned shape {point.shape}: it must return a point of shape {W.shape}, or "
            "None"
        )
    same = point.astype(W.dtype, copy=not foreign(point))
    return np.asarray(same, like=W)


def profile(clock: Clock, rows: Sequence[Keeper]) -> dict[str, float]:
    """Seconds by part; the estimators know how much of theirs went into drawing rows."""
    clock.lap("metrics", counts=False)
    parts = dict.fromkeys(PARTS, 0.0) | clock.parts
    parts["sampling"] = sum(r.sampling for r in rows)
    whole = "loop" if parts["loop"] else "rows"
    parts[whole] = max(0.0, parts[whole] - parts["sampling"])
    return parts
