"""The one loop."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from condgrad import memory, vector_loop
from condgrad._types import Array
from condgrad.backends import threads
from condgrad.callbacks import Callback
from condgrad.checks import check_parts
from condgrad.errors import ProblemError, from_keyboard
from condgrad.estimators import Estimator, Full, State
from condgrad.limits import Goal, Limits
from condgrad.methods import sag_cgal
from condgrad.monitor import Monitor
from condgrad.points.dense import Dense
from condgrad.problem import Problem, Term
from condgrad.registry import Method, check
from condgrad.result import Result, Status
from condgrad.scaling import Scaling
from condgrad.schedules import Schedule
from condgrad.steps import AtomStep, step_of


def solve(
    problem: Problem,
    method: Method | None = None,
    *,
    start: Array | None = None,
    max_iter: int | None = None,
    max_epochs: float | None = None,
    max_seconds: float | None = None,
    max_lmo: int | None = None,
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
) -> Result:
    """Run a method on a problem until it has converged, or a limit or the keyboard ends it.

    Parameters
    ----------
    problem : Problem
        What to minimise.
    method : Method, optional
        How, for example ``condgrad.h_sag_v2(beta0=1.0, batch=0.05)``; default
        ``condgrad.sag_cgal()``, which finds its own β0.
    start : array, optional
        W_1, a point of the domain; default: the domain's centre.
    max_iter, max_epochs, max_seconds, max_lmo : number, optional
        Limits on iterations, on epochs (passes over the composite rows), on the method's own time
        and on oracle calls. The first one reached ends the run; without any, 1000 iterations do,
        or 100,000 where a gap is asked for.
    gap, feasibility : float, optional
        End with the status ``CONVERGED`` once |objective − bound| / max(|objective|, |bound|) is at
        most `gap`, the bound being proved, and ‖z − proj z‖₂ / (1 + max(‖z‖₂, ‖b‖₂)) at most
        `feasibility` for every constraint family, with the 1 and without it (`Violation.scaled`).
        Where one is given the other is 1e-3.
    row_feasibility : float, optional
        … and no single row is missed by more than this share of its limit |b_l| or, where that is
        0 or small, of what a row of its length reads (`Violation.row`). Default: ten times
        `feasibility`; the norm of a family of many rows would hide one of them.
    certify : bool, default True
        Prove a lower bound on the optimum, ten times per decade of iterations and at the end. Off
        the clock, unless a gap is asked for.
    record : int, optional
        Rows of the trace per decade of iterations; the first and the last are always recorded.
        Default 30, or where there is a bound if a gap is asked for.
    metrics : mapping of str to callable, optional
        More numbers to record, each a function of W.
    callbacks : sequence of callables, optional
        Called with an `Info` after every iteration; a `Status` or True stops the run.
    propose : callable, optional
        Offers a point of the domain for an iterate W, for example a rounded solution, or None. It
        is asked where a bound was computed and a gap is asked for; the point returned is the best.
    floor : float, optional
        A lower bound on the optimum that is known beforehand, such as 0 for a sum of distances.
    errors : bool, default False
        Record ``NAME.error``, by how much each estimate of slopes is off, for the terms whose
        estimator keeps them row by row (SAG, Full). Costs a pass over their rows at each recorded
        iteration, off the clock, and a copy of W; the run itself stays the same.
    duals : bool, default False
        Keep the multipliers behind the bound in ``Result.duals``; they take as many numbers as
        there are rows.
    seed : int or None, default 0
        The same seed on the same machine with the same number of threads gives the same run bit
        for bit; None draws a new one.
    n_jobs : int, optional
        Threads for the kernels that can use several; default: all cores, or OMP_NUM_THREADS of
        them where that is set; −1: all cores. BLAS gets one thread.

    Returns
    -------
    Result
        The best point, an honest status and the trace, whatever ended the run.

    Raises
    ------
    ProblemError
        Where the input cannot work, parts of your own do not belong together (they are tried at
        random arguments), or the run will not fit into the free memory; the sentence says what to
        change.
    """
    method = sag_cgal() if method is None else method
    check(problem, method)
    goal = Goal(gap, feasibility, certify, propose, floor, row_feasibility)
    if goal.wanted and max_iter is max_epochs is max_seconds is max_lmo is None:
        max_iter = 100_000
    limits = Limits(max_iter, max_epochs, max_seconds, max_lmo)
    if seed is None:
        seed = int(np.random.default_rng().integers(2**63))
    rng = _generator(seed)
    estimators = [method.estimator(t) for t in problem.terms]
    memory.require(needs(problem, estimators))
    check_parts(problem, certify)
    W = Dense(_start(problem, start), errors or any(e.needs_previous for e in estimators))
    states = [e.init(t, problem) for e, t in zip(estimators, problem.terms, strict=True)]
    with threads.using(n_jobs), threads.calm_blas():
        tolerances = (*goal.tolerances, goal.rows)
        scaling = Scaling(problem, W.array, *tolerances) if method.auto else None
        watch = (limits, record, metrics or {}, callbacks, estimators, errors, goal, scaling, duals)
        monitor = Monitor(problem, W, states, *watch)
        try:
            if not (callbacks or errors) and vector_loop.applies(problem, estimators, states):
                vector_loop.run(problem, method.schedule, estimators, states, W, rng, monitor)
            elif monitor.status is None:
                block = method.block and method.auto
                step = step_of(problem, block, estimators, states)
                if scaling is not None:
                    scaling.press = step.press
                _iterate(
                    problem, method.schedule, step, estimators, states, W, scaling, rng, monitor
                )
        except (KeyboardInterrupt, SystemError) as error:
            if not from_keyboard(error):
                raise
            monitor.status = Status.INTERRUPTED
        except np.linalg.LinAlgError:
            monitor.status = Status.NONFINITE
        except MemoryError:
            monitor.status = Status.OUT_OF_MEMORY
        return _result(monitor, method.name, seed)


def _result(monitor: Monitor, name: str, seed: Any) -> Result:
    """The result; where Ctrl-C ends its last certificate, with the bound before."""
    try:
        return monitor.result(name, seed)
    except (KeyboardInterrupt, SystemError) as error:
        if not from_keyboard(error):
            raise
        monitor.status = Status.INTERRUPTED
        return monitor.result(name, seed, judge=False)


def _iterate(
    problem: Problem,
    schedule: Schedule,
    step: AtomStep,
    estimators: Sequence[Estimator],
    states: Sequence[State],
    W: Dense,
    scaling: Scaling | None,
    rng: np.random.Generator,
    monitor: Monitor,
) -> None:
    """Every method is this loop."""
    lap, v = monitor.clock.lap, np.zeros(problem.domain.shape, problem.dtype)
    lend(problem.terms, estimators, states, v)
    for k in itertools.count(1):
        p = step.params(schedule(k))
        own = [p if scaling is None else scaling.params(i, p) for i in range(len(states))]
        for e, s, t, mine in zip(estimators, states, problem.terms, own, strict=True):
            e.update(s, t, W, mine, rng)
        lap("rows")
        direction(problem.terms, states, v)
        if not (problem.domain.finite_only or np.isfinite(np.vdot(v, v))):
            monitor.status = Status.NONFINITE
            return
        lap("direction")
        products = step.move(W, v, own, rng, lap)
        if monitor.after(k, p, products):
            return


def needs(problem: Problem, estimators: Sequence[Estimator]) -> list[memory.Need]:
    """What a run takes of the memory, by parts.

    Sixteen arrays shaped as W, in float64, are for the iterate, the best one and the one before,
    the direction, the oracle and the bound, which takes two more for every term.
    """
    arrays = 16 + 2 * len(problem.terms)
    dense = memory.Need("W, direction and oracle", arrays * 8 * int(np.prod(problem.domain.shape)))
    pairs = zip(estimators, problem.terms, strict=True)
    return [dense, *itertools.chain(*(e.memory(t, problem) for e, t in pairs))]


def direction(terms: Sequence[Term], states: Sequence[State], out: Array) -> Array:
    """v = Σ_t ω_t gain_t A_t* y_t, written to `out`."""
    pairs = sorted(zip(terms, states, strict=True), key=lambda pair: not pair[0].map.covers)
    for i, (t, s) in enumerate(pairs):
        put = t.map.set_to if i == 0 else t.map.add_to
        put(s.G, t.weight * s.gain, out)
    return out


def lend(
    terms: Sequence[Term], estimators: Sequence[Estimator], states: Sequence[State], v: Array
) -> None:
    """Let the first term that covers W write its gradient straight to the direction.

    Only where it is taken in full, which writes all of it anew at every iteration.
    """
    for t, e, s in zip(terms, estimators, states, strict=True):
        if t.map.covers:
            if isinstance(e, Full):
                s.G = v.reshape(-1)
            return


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
