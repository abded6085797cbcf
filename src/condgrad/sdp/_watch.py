"""What ends a run early: a bound beyond all values, a trace bound that is reached."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from condgrad.run.callbacks import Info
from condgrad.run.result import Status
from condgrad.sdp._reduce import Reduced

PATIENCE = 1000
"""Iterations after which a run ends whose guessed trace bound is reached."""
SLIGHTLY = 1 + 1e-6
"""Factor on τ, for the rounding of a τ that comes from the rows."""


def highest(reduced: Reduced, trace: float) -> float:
    """At least the largest ⟨C, W⟩ over W ⪰ 0, Tr W ≤ trace; ∞ with losses."""
    if reduced.sdp.losses:
        return float("inf")
    most = max(0.0, -reduced.lowest(-reduced.square(reduced.cost)))
    return SLIGHTLY * SLIGHTLY * trace * most


def impossible(most: float) -> Callable[[Info], Status | None]:
    """Ends a run whose bound is beyond every value over the domain."""

    def ask(info: Info) -> Status | None:
        return Status.INFEASIBLE if info.trace.last["lower_bound"] > most else None

    return ask


def full(trace: float) -> Callable[[Info], Status | None]:
    """Ends a run whose trace bound is reached: it is too small."""

    def ask(info: Info) -> Status | None:
        reached = info.k >= PATIENCE and float(np.trace(info.W)) > 0.99 * trace
        return Status.MAX_ITER if reached else None

    return ask
