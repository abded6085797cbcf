"""Problems of vectors with one loss on data rows: the loop of `solve`, many iterations a call.

SAG on the rows of a `DataMatrix` over the simplex or the l1 ball moves one entry of w and a few of
G per iteration, next to which a turn of the generic loop is expensive. Here the iterations between
two that the monitor wants to see run in one compiled call, on the same rows and with the same
steps, so that the run is that of the generic loop up to rounding (which decides ties).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from condgrad._types import Array
from condgrad.backends import backend, ops
from condgrad.domains import Domain, L1Ball, Simplex
from condgrad.errors import from_keyboard
from condgrad.estimators import SAG, SagState
from condgrad.estimators.sampling import batch_size
from condgrad.estimators.tables import DenseTable
from condgrad.functions import Function, Huber, Linear, Logistic, Squared
from condgrad.maps import DataMatrix
from condgrad.problem import Problem
from condgrad.rows import Keeper
from condgrad.run.result import Status
from condgrad.schedules import Schedule, values

if TYPE_CHECKING:
    from condgrad.run.monitor import Monitor
    from condgrad.run.state import RunState

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


def applies(problem: Problem, rows: Sequence[Keeper]) -> bool:
    """Whether `run` can take the place of the generic loop.

    Types are compared exactly, since a class derived from one of them can mean something else.
    """
    if len(problem.terms) != 1 or backend() != "numba":
        return False
    term, estimator, state = rows[0].term, rows[0].estimator, rows[0].state
    return (
        type(estimator) is SAG
        and isinstance(state, SagState)
        and type(term.map) is DataMatrix
        and any(type(term.function) is loss for loss, _ in LOSSES)
        and type(problem.domain) in (Simplex, L1Ball)
        and type(state.table) is DenseTable
        and (term.map.size == 1 or batch_size(estimator.batch, term.map.size) < term.map.size)
    )


@dataclass
class Scaled:
    """W = c u: a step changes c and one entry of u. Kept, so that no run depends on its calls."""

    u: Array
    c: Array
    """One number."""


def run(domain: Domain, schedule: Schedule, state: RunState, monitor: Monitor) -> None:
    """Iterate until the monitor has a status; only where `applies` says so.

    A call ends at the next iteration to be seen, at a limit, or after `WORK`.
    """
    (rows,), scaled, W = state.terms, state.vector, state.W
    term, estimator, s = rows.term, rows.estimator, rows.state
    assert scaled is not None
    assert isinstance(estimator, SAG)
    assert isinstance(s, SagState)
    assert isinstance(term.map, DataMatrix)
    assert isinstance(s.table, DenseTable)
    size, batch = term.map.size, batch_size(estimator.batch, term.map.size)
    arrays = term.map.arrays
    cost = batch * (1 + arrays[2].size // size) + int(np.sqrt(domain.shape[0]))
    longest = max(1, min(WORK // cost, DRAWN // batch))
    fixed = (*_loss(term.function, size), *_set(domain), term.weight)
    most, done = float(np.finfo(W.array.dtype).max), np.zeros(1, np.int64)
    while monitor.status is None:
        k, interrupted = state.k, False
        if k == 0 and estimator.warm_start:
            estimator.update(s, term, W, schedule(1), state.rng)
            count, ids = 1, np.empty((1, 0), np.int64)
        else:
            count = monitor.ahead(longest, batch / size)
            ids = s.sampler.draw_many(count, batch, state.rng)
        eta = values(schedule.eta, k + 1, count)
        done[0] = 0
        if W.previous is not None:
            W.previous.array[...] = W.array
        point = (scaled.u, scaled.c, W.array)
        try:
            ops.vector_sag(*arrays, *point, s.G, s.table.values, ids, eta, *fixed, most, done)
        except (KeyboardInterrupt, SystemError) as error:  # the call is over, or never began
            if not from_keyboard(error):
                raise
            interrupted = True
        steps = int(done[0])
        s.evaluated += ids.shape[1] * (steps if interrupted else min(count, steps + 1))
        monitor.clock.lap("loop")
        if steps:
            state.k, state.params = k + steps, schedule(k + steps)
            state.lmo_calls += steps
            monitor.after()
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
    """True for the ball, and the size of the set."""
    if isinstance(domain, L1Ball):
        return True, domain.radius
    assert isinstance(domain, Simplex)
    return False, domain.total
