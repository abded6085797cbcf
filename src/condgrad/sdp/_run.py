"""Solve the reduced problem, bring the answer back, and prove what can be proved."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.sparse.linalg import lsqr

from condgrad._types import Array
from condgrad.callbacks import Info
from condgrad.errors import ProblemError
from condgrad.problem import Violation
from condgrad.registry import Method
from condgrad.result import Result, Status
from condgrad.sdp._dual import SLIGHTLY, Dual, certified, gradient_of
from condgrad.sdp._families import holds, stacked
from condgrad.sdp._model import SDP
from condgrad.sdp._reduce import Reduced
from condgrad.sdp._solution import DimacsErrors, Solution
from condgrad.solve import solve

GROWTH = 10.0
"""Factor on a guessed trace bound that binds."""
ATTEMPTS = 7
"""Guesses of the trace bound."""
BINDS = 0.5
"""Share of the trace bound from which it counts as binding."""
PATIENCE = 1000
"""Iterations after which a run ends whose guessed trace bound is reached."""
HOPELESS = 1e-2
"""Relative infeasibility at the end of a run from which the rows themselves are in doubt."""
BROKEN = (Status.STOPPED, Status.INTERRUPTED, Status.NONFINITE, Status.OUT_OF_MEMORY)
"""Ends of a run after which there is no other."""
ENOUGH = 3
"""Raises of a guessed trace bound with converged runs and better values that say enough."""


def run(
    sdp: SDP,
    trace_bound: float | None,
    max_seconds: float | None,
    method: Method | None,
    options: Mapping[str, Any],
) -> Solution:
    """Solve a program; see `SDP.solve`."""
    began = time.perf_counter()
    _check(sdp, trace_bound, options)
    reduced = Reduced(sdp)
    if reduced.lift is not None and trace_bound is None:
        reduced = Reduced(sdp, reduced.lift)
    least, residual = _least_squares(reduced)
    trace, source, exact = _trace(reduced, trace_bound, least)
    if reduced.refuted or trace <= 0:
        return _only_zero(reduced, trace, source, began)
    most = trace * (GROWTH ** (ATTEMPTS - 1) if source == "guess" else SLIGHTLY)
    if certified(reduced, residual, most, "", np.zeros(sdp.layout.size)).bound > 0:
        return _only_zero(reduced, most, source, began)
    attempt, grown, W, before, best = 0, 0, None, -np.inf, None
    while True:
        attempt += 1
        last = source != "guess" or attempt == ATTEMPTS
        left = None if max_seconds is None else max(0.0, max_seconds - time.perf_counter() + began)
        slice_ = None if left is None else 0.9 * left if last else max(left / 3, min(left, 1.0))
        own: dict[str, Any] = {"start": W, "max_seconds": slice_, "duals": True}
        own["callbacks"] = [*options.get("callbacks", ()), _impossible(_highest(reduced, trace))]
        if not last:
            own["callbacks"].append(_full(trace))
        own["feasibility"] = reduced.tolerance(options["feasibility"])
        problem = reduced.problem(trace, exact)
        result = solve(problem, method, **{**options, **own})
        solution = _solution(reduced, result, trace, source, began)
        solution = replace(solution, unit=problem.unit)
        if result.status is Status.CONVERGED and not _accurate(reduced, solution, options):
            solution = replace(solution, status=Status.INACCURATE)
        binds = source == "guess" and float(np.trace(result.W)) > BINDS * trace
        if binds:  # the bound holds for small W only
            solution = replace(solution, bound=-reduced.sign * np.inf)
        if result.status not in BROKEN:
            doubtful = result.worst > HOPELESS and (last or not binds)
            end = _refutation(reduced, solution, doubtful, slice_, method, options)
            solution = solution if end is None else replace(solution, status=end)
        value, status = reduced.sign * solution.value, solution.status
        if best is None or _miss(solution) <= _miss(best) or status is Status.INFEASIBLE:
            best = solution
        fell = value < GROWTH / 2 * min(before, 0.0)  # in proportion to the raise
        grown += int(status is Status.CONVERGED and binds and fell)
        over = max_seconds is not None and time.perf_counter() - began >= 0.98 * max_seconds
        done = status is Status.CONVERGED and not binds
        if last or over or done or status in BROKEN:
            if last and grown >= ENOUGH:
                status = Status.UNBOUNDED
            if status is Status.INFEASIBLE:
                best = replace(best, bound=reduced.sign * np.inf)
            return replace(best, status=status, seconds=time.perf_counter() - began)
        if binds or status is Status.INFEASIBLE:
            trace *= GROWTH
        W, before = result.W, value


def _check(sdp: SDP, trace_bound: float | None, options: Mapping[str, Any]) -> None:
    """Refuse what cannot be solved."""
    if trace_bound is not None and not (np.isfinite(trace_bound) and trace_bound > 0):
        raise ProblemError(f"trace_bound is {trace_bound!r}: it must be positive and finite")
    if sdp.size == 0 and not sdp.losses and trace_bound is None:
        raise ProblemError("the program has no rows: add some with subject_to, or a trace_bound")
    if {"start", "duals"} & set(options) or callable(options.get("callbacks")):
        raise ProblemError("start and duals are no options here, and callbacks must be a list")


def _accurate(reduced: Reduced, solution: Solution, options: Mapping[str, Any]) -> bool:
    """Whether the tolerances are met in the units of the program: ‖AW − b‖ ≤ f (1 + ‖b‖)."""
    b = reduced.sdp.b
    largest = float(np.abs(b).max()) if b.size else 0.0
    miss = solution.errors.primal * (1 + largest) / (1 + float(np.linalg.norm(b)))
    return bool(solution.gap <= options["gap"] and miss <= options["feasibility"])


def _miss(solution: Solution) -> float:
    """Infeasibility, where it is large; of an INFEASIBLE end nothing is kept for later."""
    assert solution.result is not None
    hopeless = solution.status is Status.INFEASIBLE
    return np.inf if hopeless else max(HOPELESS, solution.result.worst)


def _highest(reduced: Reduced, trace: float) -> float:
    """At least the largest ⟨C, W⟩ over W ⪰ 0, Tr W ≤ trace; ∞ with losses."""
    if reduced.sdp.losses:
        return float("inf")
    highest = max(0.0, -reduced.lowest(-reduced.square(reduced.cost)))
    return SLIGHTLY * trace * highest + 1e-9 * float(np.abs(reduced.cost).max())


def _impossible(highest: float) -> Callable[[Info], Status | None]:
    """Ends a run whose bound is beyond every value over the domain."""

    def ask(info: Info) -> Status | None:
        return Status.INFEASIBLE if info.trace.last["lower_bound"] > highest else None

    return ask


def _full(trace: float) -> Callable[[Info], Status | None]:
    """Ends a run whose trace bound is reached: it is too small."""

    def ask(info: Info) -> Status | None:
        full = info.k >= PATIENCE and float(np.trace(info.W)) > 0.99 * trace
        return Status.MAX_ITER if full else None

    return ask


def _trace(reduced: Reduced, given: float | None, least: float) -> tuple[float, str, bool]:
    """The bound on the trace, where it comes from, and whether the rows fix the trace to it."""
    found = reduced.trace
    if found is not None and (given is None or found.total / found.lowest <= given):
        exact = found.exact and not reduced.sdp.losses  # their bound is that of the domain
        return found.total if exact else (1 + 1e-9) * found.total / found.lowest, "rows", exact
    if given is not None:
        return float(given), "user", False
    return GROWTH * max(least, 1e-6), "guess", False


def _least_squares(reduced: Reduced) -> tuple[float, Array]:
    """About the least ‖W‖_F (at most Tr W) that the equalities allow, and what they are missed by.

    The second is for every row of the program, scaled so that A* of it is 0.
    """
    families, y = [f for f in reduced.families if f.equality], np.zeros(reduced.sdp.size)
    if not families:
        return 1.0, y
    A, right = stacked(families), np.concatenate([f.right for f in families])
    x = lsqr(A, right, atol=1e-14, btol=1e-14, iter_lim=200)[0]
    ids, factor = (np.concatenate([getattr(f, n) for f in families]) for n in ("ids", "factor"))
    y[ids] = factor * (right - A @ x)
    return float(np.linalg.norm(x)) or 1.0, y


def _solution(
    reduced: Reduced, result: Result, trace: float, source: str, began: float
) -> Solution:
    """The answer in the terms of the program."""
    sdp, sign = reduced.sdp, reduced.sign
    W = reduced.flat(result.W.astype(np.float64))
    gradient = gradient_of(reduced, W)
    dual = certified(reduced, _multipliers(reduced, result), trace, source, gradient)
    if sdp.losses:
        dual = dual._replace(bound=result.lower_bound)
    value = float(reduced.cost @ W) + sum(
        one.weight * float(one.function.value(one.A @ W)) for one in sdp.losses
    )
    errors = _errors(reduced, result.W, W, value, dual)
    miss = missed(sdp, W)[1]
    l2, size = float(np.linalg.norm(miss)), 1 + float(np.linalg.norm(sdp.b))
    violation = Violation(l2, float(np.abs(miss).max(initial=0)), l2 / size, l2 / size)
    families = dict.fromkeys(result.families, violation)
    result = replace(result, families=families, infeasibility=l2)
    Z = reduced.flat_slack(dual.Z)
    return Solution(
        W=_shaped(sdp, W),
        value=sign * value,
        bound=sign * dual.bound,
        y=sign * dual.y,
        Z=_shaped(sdp, Z),
        status=result.status,
        errors=errors,
        sense=sdp.sense,
        trace_bound=trace,
        trace_from=source,
        seconds=time.perf_counter() - began,
        result=result,
    )


def _shaped(sdp: SDP, flat: Array) -> Any:
    parts = sdp.layout.split(flat)
    return parts[0] if len(parts) == 1 else parts


def _multipliers(reduced: Reduced, result: Result) -> Array:
    """y of the minimisation, row by row of the program."""
    y, start = np.zeros(reduced.sdp.size), 0
    for f in reduced.families if "rows" in result.duals else ():
        own = result.duals["rows"][start : start + f.map.size]
        y[f.ids] = -f.factor * (own if f.equality else np.maximum(own, 0.0))
        start += f.map.size
    return y


def _refutation(
    reduced: Reduced,
    solution: Solution,
    doubtful: bool,
    seconds: float | None,
    method: Method | None,
    options: Mapping[str, Any],
) -> Status | None:
    """INFEASIBLE where it can be proved, the end of the run for it where that was broken off.

    A bound beyond all values over the domain proves it; else, where the rows are in doubt, a run.
    """
    if reduced.sign * solution.bound > _highest(reduced, solution.trace_bound):
        return Status.INFEASIBLE
    if doubtful and solution.status is not Status.INFEASIBLE:
        return refuted(reduced, solution.trace_bound, seconds, method, options)
    return None


def refuted(
    reduced: Reduced,
    trace: float,
    seconds: float | None,
    method: Method | None,
    options: Mapping[str, Any],
) -> Status | None:
    """Try to prove that no W ⪰ 0 with Tr W ≤ trace meets the rows: with cost 0 a bound above 0."""

    def proved(info: Info) -> bool:
        return bool(info.trace.last["lower_bound"] > 0)

    rows = reduced.problem(SLIGHTLY * trace, equality=False, cost=False)
    limit = None if seconds is None else max(seconds / 9, 0.2)
    callbacks = [*options.get("callbacks", ()), proved]
    more = {**options, "callbacks": callbacks, "max_seconds": limit, "gap": None, "floor": None}
    result = solve(rows, method, **more)
    if result.lower_bound > 0:
        return Status.INFEASIBLE
    return result.status if result.status in BROKEN else None


def missed(sdp: SDP, flat: Array) -> tuple[Array, Array]:
    """b − A W of every row, and the part of it that violates the row."""
    images = sdp.A @ flat
    for l, (block, U, s) in sdp.low_rank.items():
        images[l] += np.einsum("ij,ij->j", U, sdp.layout.split(flat)[block] @ U) @ s
    slack, kinds = sdp.b - images, sdp.kinds
    low, high = np.minimum(slack, 0), np.maximum(slack, 0)
    return slack, np.where(kinds == 0, slack, np.where(kinds < 0, low, high))


def _errors(reduced: Reduced, W: Array, flat: Array, value: float, dual: Dual) -> DimacsErrors:
    """The DIMACS measures of the minimisation; a loss counts by its gradient at W."""
    sdp = reduced.sdp
    b, kinds = sdp.b, sdp.kinds
    slack, miss = missed(sdp, flat)
    lowest = dual.lowest
    if reduced.scaled:
        lowest = reduced.lowest(reduced.plain(reduced.flat_slack(dual.Z)))
    right = 1 + (float(np.abs(b).max()) if b.size else 0.0)
    cost = 1 + float(np.abs(reduced.cost).max())
    lower = float(b @ dual.y) if not sdp.losses else dual.bound
    size = 1 + abs(value) + abs(lower)
    open_rows = (kinds != 0) & (miss == 0)
    product = float(np.vdot(W, dual.Z)) + float(np.abs(slack * dual.y)[open_rows].sum())
    return DimacsErrors(
        primal=float(np.linalg.norm(miss)) / right,
        primal_cone=max(0.0, -reduced.lowest(reduced.plain(flat))) / right,
        dual=0.0,
        dual_cone=max(0.0, -lowest) / cost,
        gap=(value - lower) / size,
        complementarity=product / size,
    )


def _only_zero(reduced: Reduced, trace: float, source: str, began: float) -> Solution:
    """The answer where the rows leave W = 0 at most."""
    sdp, sign, nan = reduced.sdp, reduced.sign, float("nan")
    flat = np.zeros(sdp.layout.size)
    feasible = not reduced.refuted and trace == 0 and bool(holds(sdp, np.zeros(sdp.size)).all())
    zero = np.zeros(sdp.size)
    value = sum(o.weight * float(o.function.value(o.A @ flat)) for o in sdp.losses)
    if feasible:
        dual = certified(reduced, zero, 0.0, source, gradient_of(reduced, flat))
        dual = dual._replace(bound=value)
        errors = _errors(reduced, reduced.square(flat), flat, value, dual)
    else:
        value, dual = np.inf, Dual(zero, reduced.square(flat), np.inf, 0.0)
        errors = DimacsErrors(np.inf, 0.0, 0.0, 0.0, np.inf, nan)
    return Solution(
        W=_shaped(sdp, flat),
        value=sign * value,
        bound=sign * dual.bound,
        y=sign * dual.y,
        Z=_shaped(sdp, reduced.flat_slack(dual.Z)),
        status=Status.CONVERGED if feasible else Status.INFEASIBLE,
        errors=errors,
        sense=sdp.sense,
        trace_bound=max(trace, 0.0),
        trace_from=source,
        seconds=time.perf_counter() - began,
        result=None,
    )
