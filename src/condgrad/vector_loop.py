"""Problems of vectors with one loss on data rows: the loop of `solve`, many iterations a call.

SAG on the rows of a `DataMatrix` over the simplex or the l1 ball moves one entry of w and a few of
G per iteration, next to which a turn of the generic loop is expensive. Here the iterations between
two that the monitor wants to see run in one compiled call, on the same rows and with the same
steps, so that the run is that of the generic loop up to rounding (which decides ties).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from condgrad._types import Array
from condgrad.backends import backend, ops
from condgrad.domains import L1Ball, Simplex
from condgrad.domains._base import Domain
from condgrad.errors import from_keyboard
from condgrad.estimators import SAG, Estimator, State
from condgrad.functions import Huber, Linear, Logistic, Squared
from condgrad.functions._base import Function
from condgrad.maps import DataMatrix
from condgrad.monitor import Monitor
from condgrad.points.dense import Dense
from condgrad.problem import Problem
from condgrad.result import Status
from condgrad.sampling import batch_size
from condgrad.schedules import Schedule, values
from condgrad.tables import DenseTable

LOSSES: tuple[tuple[type[Function], str], ...] = (
    (Linear, "c"),
    (Squared, "target"),
    (Logistic, "labels"),
    (Huber, "target"),
)
"""The losses by their number in the kernel, with the name of their data."""
WORK = 10_000_000
"""Non-zeros handled in one call, a few hundredths of a second: how soon time and keyboard count."""
DRAWN = 1 << 20
"""Rows drawn ahead for one call."""


def applies(problem: Problem, estimators: Sequence[Estimator], states: Sequence[State]) -> bool:
    """Whether `run` can take the place of the generic loop.

    Types are compared exactly, since a class derived from one of them can mean something else.
    """
    if len(problem.terms) != 1 or backend() != "numba":
        return False
    (term,), (estimator,), (state,) = problem.terms, estimators, states
    return (
        type(estimator) is SAG
        and type(term.map) is DataMatrix
        and any(type(term.function) is loss for loss, _ in LOSSES)
        and type(problem.domain) in (Simplex, L1Ball)
        and type(state.table) is DenseTable
        and (term.map.size == 1 or batch_size(estimator.batch, term.map.size) < term.map.size)
    )


def run(
    problem: Problem,
    schedule: Schedule,
    estimators: Sequence[Estimator],
    states: Sequence[State],
    W: Dense,
    rng: np.random.Generator,
    monitor: Monitor,
) -> None:
    """Iterate until the monitor has a status; only where `applies` says so.

    A call ends at the next iteration to be recorded or certified, at a limit, or after `WORK`. None
    of that depends on the clock, so that the same seed gives the same run bit for bit.
    """
    (term,), (estimator,), (s,) = problem.terms, estimators, states
    assert isinstance(estimator, SAG)
    assert isinstance(term.map, DataMatrix)
    assert isinstance(s.table, DenseTable)
    assert s.sampler is not None
    size, batch = term.map.size, batch_size(estimator.batch, term.map.size)
    arrays = term.map.arrays
    cost = batch * (1 + arrays[2].size // size) + int(np.sqrt(problem.domain.shape[0]))
    longest = max(1, min(WORK // cost, DRAWN // batch))
    fixed = (*_loss(term.function, size), *_set(problem.domain), term.weight)
    most, done = float(np.finfo(problem.dtype).max), np.zeros(1, np.int64)
    while monitor.status is None:
        k, interrupted = monitor.k, False
        if k == 0 and estimator.warm_start:
            estimator.update(s, term, W, schedule(1), rng)
            count, ids = 1, np.empty((1, 0), np.int64)
        else:
            count = monitor.ahead(longest, batch / size)
            ids = s.sampler.draw_many(count, batch, rng)
        eta = values(schedule.eta, k + 1, count)
        done[0] = 0
        try:
            ops.vector_sag(*arrays, W.array, s.G, s.table.values, ids, eta, *fixed, most, done)
        except (KeyboardInterrupt, SystemError) as error:  # the call is over, or never began
            if not from_keyboard(error):
                raise
            interrupted = True
        steps = int(done[0])
        s.rows += ids.shape[1] * (steps if interrupted else min(count, steps + 1))
        monitor.clock.lap("loop")
        if steps:
            monitor.after(k + steps, schedule(k + steps), 0, steps)
        if interrupted:
            raise KeyboardInterrupt
        if steps < count:
            monitor.status = Status.NONFINITE


def _loss(function: Function, size: int) -> tuple[int, Array, float]:
    """Number of the loss, its data row by row, and δ."""
    number, name = next((i, n) for i, (f, n) in enumerate(LOSSES) if type(function) is f)
    target = np.broadcast_to(getattr(function, name), size).astype(np.float64)
    return number, target, float(getattr(function, "delta", 0.0))


def _set(domain: Domain) -> tuple[bool, float]:
    """Whether it is the ball, and its size."""
    if isinstance(domain, L1Ball):
        return True, domain.radius
    assert isinstance(domain, Simplex)
    return False, domain.total
