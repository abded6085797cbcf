"""The answer of a run in the terms of the program."""

from __future__ import annotations

from typing import Any

import numpy as np

from condgrad._types import Array
from condgrad.evaluation import Violation
from condgrad.run.result import Result, Status
from condgrad.sdp._dual import Dual, Point, slack, slopes_at, worth
from condgrad.sdp._families import holds, images
from condgrad.sdp._model import SDP
from condgrad.sdp._reduce import Reduced
from condgrad.sdp._solution import DimacsErrors, Solution

UNIT = 1e-6
"""A relative gap is taken of at least this part of what the value is summed from."""


def value_at(reduced: Reduced, W: Array) -> float:
    """The objective of the minimisation at W in flat form."""
    losses = (one.weight * float(one.function.value(one.A @ W)) for one in reduced.sdp.losses)
    return float(reduced.cost @ W) + sum(losses)


def answer(
    reduced: Reduced, result: Result, dual: Dual | None, trace: float, source: str, least: float
) -> Solution:
    """The point of a run with what a dual point proves; without one no eigenvalue is asked for.

    Under a trace bound of the user's the bound is the one that needs it, where it is better.
    `least` is about the least ‖W‖ that matters.
    """
    sdp, sign = reduced.sdp, reduced.sign
    W = reduced.flat(result.W.astype(np.float64))
    value, miss = value_at(reduced, W), missed(sdp, W)[1]
    if dual is None:
        nan, far = float("nan"), float(np.linalg.norm(miss))
        far /= 1 + float(np.abs(sdp.b).max(initial=0.0))
        errors = DimacsErrors(far, nan, nan, nan, np.inf, nan)
        dual = Dual(Point(np.zeros(sdp.size)), np.full_like(result.W, nan), -np.inf, -np.inf, nan)
    else:
        errors = _errors(reduced, result.W, W, value, dual)
    l2, size = float(np.linalg.norm(miss)), 1 + float(np.linalg.norm(sdp.b))
    worst = _worst_row(reduced, W, miss)
    largest = float(np.abs(miss).max(initial=0))
    violation = Violation(l2, largest, l2 / size, l2 / size, worst)
    families = dict.fromkeys(result.families, violation)
    conditional = source == "user" and dual.within > dual.bound
    terms = float(np.abs(reduced.cost) @ np.abs(W))
    range_ = max(terms, least * float(np.linalg.norm(reduced.cost)))
    status = result.status
    if source == "guess" and status is Status.INFEASIBLE:  # that holds for W up to the guess
        status = Status.UNDECIDED
    return Solution(
        W=shaped(sdp, W),
        value=sign * value,
        bound=sign * (dual.within if conditional else dual.bound),
        conditional_bound=sign * dual.within,
        y=sign * dual.point.y,
        Z=shaped(sdp, reduced.flat_slack(dual.Z)),
        status=status,
        errors=errors,
        sense=sdp.sense,
        trace_bound=trace * reduced.widest,
        trace_from=source,
        conditional=conditional,
        seconds=0.0,
        result=result,
        infeasibility=l2,
        families=families,
        worst_row=worst,
        unit=UNIT * (range_ or abs(value_at(reduced, np.zeros(W.size)))),
        bound_failure=reduced.failure,
    )


def only_zero(reduced: Reduced, trace: float, source: str) -> Solution:
    """The answer where the rows leave W = 0 at most."""
    sdp, sign, nan = reduced.sdp, reduced.sign, float("nan")
    flat = np.zeros(sdp.layout.size)
    feasible = not reduced.refuted and trace == 0 and bool(holds(sdp, np.zeros(sdp.size)).all())
    point = Point(np.zeros(sdp.size), slopes_at(reduced, flat))
    if feasible:
        value = value_at(reduced, flat)
        found = _above_zero(reduced, point)
        low, there = worth(reduced, point), slack(reduced, found)  # f(0) ≥ −Σ ω h*(u)
        dual = Dual(found, there.Z, low, low, there.lowest)
        errors = _errors(reduced, reduced.square(flat), flat, value, dual)
        l2 = float(np.linalg.norm(missed(sdp, flat)[1]))
    else:
        there = slack(reduced, point)
        l2, value, dual = np.inf, np.inf, Dual(point, there.Z, np.inf, np.inf, there.lowest)
        errors = DimacsErrors(np.inf, 0.0, 0.0, nan, np.inf, nan)
    return Solution(
        W=shaped(sdp, flat),
        value=sign * value,
        bound=sign * dual.bound,
        conditional_bound=sign * dual.bound,
        y=sign * dual.point.y,
        Z=shaped(sdp, reduced.flat_slack(dual.Z)),
        status=Status.CONVERGED if feasible else Status.INFEASIBLE,
        errors=errors,
        sense=sdp.sense,
        trace_bound=max(trace, 0.0),
        trace_from=source,
        conditional=False,
        seconds=0.0,
        result=None,
        infeasibility=l2,
        bound_failure=reduced.failure,
    )


def _above_zero(reduced: Reduced, point: Point) -> Point:
    """Multipliers with Z ⪰ 0, by going along those that say Tr W ≤ 0."""
    lowest, t = slack(reduced, point).lowest, reduced.trace
    if t is None or lowest >= 0:
        return point
    return Point(point.y + lowest / t.lowest * t.c, point.u)


def shaped(sdp: SDP, flat: Array) -> Any:
    """A flat vector as the user gave the blocks."""
    parts = sdp.layout.split(flat)
    return parts[0] if len(parts) == 1 else parts


def missed(sdp: SDP, flat: Array) -> tuple[Array, Array]:
    """b − A W of every row, and the part of it that violates the row."""
    slack_, kinds = sdp.b - images(sdp, flat), sdp.kinds
    low, high = np.minimum(slack_, 0), np.maximum(slack_, 0)
    return slack_, np.where(kinds == 0, slack_, np.where(kinds < 0, low, high))


def _worst_row(reduced: Reduced, flat: Array, miss: Array) -> float:
    """The largest violation of a row relative to its scale, see `Solution.worst_row`."""
    sdp = reduced.sdp
    if not miss.any():
        return 0.0
    i, j = reduced.positions
    diagonal = np.zeros(sdp.layout.side)
    diagonal[i[~reduced.off]] = np.sqrt(np.maximum(flat[~reduced.off], 0.0))
    scale = reduced.absolute @ (diagonal[i] * diagonal[j])
    for l, (block, U, s) in sdp.low_rank.items():
        corner = sdp.layout.corners[block]
        own = np.abs(U).T @ diagonal[corner : corner + U.shape[0]]
        scale[l] = float(np.abs(s) @ np.square(own))
    whole = reduced.plain_norms * float(np.linalg.norm(flat))
    scale = np.where(sdp.b == 0, whole, np.maximum(scale, np.abs(sdp.b)))
    off = np.flatnonzero(miss)
    return float((np.abs(miss[off]) / np.maximum(scale[off], 1e-300)).max())


def _errors(reduced: Reduced, W: Array, flat: Array, value: float, dual: Dual) -> DimacsErrors:
    """The DIMACS measures of the minimisation; a loss counts by its gradient at W."""
    sdp = reduced.sdp
    b, kinds, y = sdp.b, sdp.kinds, dual.point.y
    open_slack, miss = missed(sdp, flat)
    lowest = dual.lowest
    if reduced.scaled:
        lowest = reduced.lowest(reduced.plain(reduced.flat_slack(dual.Z)))
    right = 1 + (float(np.abs(b).max()) if b.size else 0.0)
    cost = 1 + float(np.abs(reduced.cost).max())
    lower = float(b @ y) if not sdp.losses else dual.within
    size = 1 + abs(value) + abs(lower)
    open_rows = (kinds != 0) & (miss == 0)
    product = float(np.vdot(W, dual.Z)) + float(np.abs(open_slack * y)[open_rows].sum())
    return DimacsErrors(
        primal=float(np.linalg.norm(miss)) / right,
        primal_cone=max(0.0, -reduced.lowest(reduced.plain(flat))) / right,
        dual=0.0,
        dual_cone=max(0.0, -lowest) / cost,
        gap=(value - lower) / size,
        complementarity=product / size,
    )
