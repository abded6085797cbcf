"""The one loop."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from condgrad._types import Array
from condgrad.callbacks import Callback
from condgrad.errors import ProblemError
from condgrad.estimators import State
from condgrad.monitor import Limits, Monitor
from condgrad.points.dense import Dense
from condgrad.problem import Problem, Term
from condgrad.registry import Method, check
from condgrad.result import Result, Status


def solve(
    problem: Problem,
    method: Method,
    *,
    start: Array | None = None,
    max_iter: int | None = None,
    max_epochs: float | None = None,
    max_seconds: float | None = None,
    max_lmo: int | None = None,
    record: int = 30,
    metrics: Mapping[str, Callable[[Array], float]] | None = None,
    callbacks: Sequence[Callback] = (),
    errors: bool = False,
    seed: int | None = 0,
) -> Result:
    """Run a method on a problem until a limit, a callback or the keyboard ends it.

    Parameters
    ----------
    problem : Problem
        What to minimise.
    method : Method
        How, for example ``condgrad.h_sag_v2(beta0=1.0, batch=0.05)``.
    start : array, optional
        W_1, a point of the domain; default: the domain's centre.
    max_iter, max_epochs, max_seconds, max_lmo : number, optional
        Limits on iterations, on epochs (passes over the composite rows), on the method's own time
        and on oracle calls. The first one reached ends the run; without any, 1000 iterations do.
    record : int, default 30
        Rows of the trace per decade of iterations; the first and the last are always recorded.
    metrics : mapping of str to callable, optional
        More numbers to record, each a function of W.
    callbacks : sequence of callables, optional
        Called with an `Info` after every iteration; a `Status` or True stops the run.
    errors : bool, default False
        Record ``NAME.error``, by how much each estimate of slopes is off, for the terms whose
        estimator keeps them row by row (SAG, Full). Costs a pass over their rows at each recorded
        iteration, off the clock, and a copy of W; the run itself stays the same.
    seed : int or None, default 0
        The same seed on the same machine gives the same run bit for bit; None draws a new one.

    Returns
    -------
    Result
        The best point, an honest status and the trace, whatever ended the run.

    Raises
    ------
    ProblemError
        Where the input cannot work; the sentence says what to change.
    """
    check(problem, method)
    limits = Limits(max_iter, max_epochs, max_seconds, max_lmo)
    if seed is None:
        seed = int(np.random.default_rng().integers(2**63))
    rng = _generator(seed)
    estimators = [method.estimator(t) for t in problem.terms]
    W = Dense(_start(problem, start), errors or any(e.needs_previous for e in estimators))
    states = [e.init(t, problem) for e, t in zip(estimators, problem.terms, strict=True)]
    v = np.zeros(problem.domain.shape, problem.dtype)
    watched = estimators if errors else ()
    monitor = Monitor(problem, W, states, limits, record, metrics or {}, callbacks, watched)
    try:
        for k in itertools.count(1) if monitor.status is None else ():
            p = method.schedule(k)
            for e, s, t in zip(estimators, states, problem.terms, strict=True):
                e.update(s, t, W, p, rng)
            direction(problem.terms, states, v)
            if not np.isfinite(np.vdot(v, v)):  # some oracles would hide it
                monitor.status = Status.NONFINITE
                break
            atom = problem.domain.lmo(v, effort=p.effort, hint=W.array, rng=rng)
            W.step(p.eta, atom)
            if monitor.after(k, p, atom):
                break
    except KeyboardInterrupt:
        monitor.status = Status.INTERRUPTED
    except np.linalg.LinAlgError:
        monitor.status = Status.NONFINITE
    return monitor.result(method.name, seed)


def direction(terms: Sequence[Term], states: Sequence[State], out: Array) -> Array:
    """v = Σ_t ω_t gain_t A_t* y_t, written to `out`."""
    out.fill(0)
    for t, s in zip(terms, states, strict=True):
        t.map.add_to(s.G, t.weight * s.gain, out)
    return out


def _generator(seed: Any) -> np.random.Generator:
    try:
        return np.random.default_rng(seed)
    except (TypeError, ValueError):
        raise ProblemError(f"seed is {seed!r}: it must be a non-negative integer or None") from None


def _start(problem: Problem, start: Array | None) -> Array:
    """Check the starting point."""
    if start is None:
        return problem.domain.center().astype(problem.dtype)
    array = np.asarray(start)
    if array.dtype.kind != "f":
        raise ProblemError(
            f"start has dtype {array.dtype}, which would truncate the iterates: pass "
            "start.astype(float)"
        )
    if array.shape != problem.domain.shape:
        raise ProblemError(
            f"start has shape {array.shape}, but points of the domain have {problem.domain.shape}: "
            "reshape it, or leave it out to start from the domain's centre"
        )
    if not np.isfinite(array).all():
        raise ProblemError("start contains NaN or infinity: replace those entries")
    if not problem.domain.contains(array, 1e-6):
        raise ProblemError(
            f"start lies outside the {type(problem.domain).__name__}: scale or project it, or "
            "leave it out to start from the domain's centre"
        )
    return array.astype(problem.dtype)
