"""Early ends of a run: a bound beyond all values, a trace bound that is reached."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from condgrad import _progress as progress
from condgrad.run.callbacks import Info
from condgrad.run.loop import Run
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


def seen(run: Run | None, reduced: Reduced, last: Mapping[str, float]) -> progress.Seen | None:
    """The numbers of a run as those of the program, to be shown; the bound is for Tr W ≤ τ."""
    if run is None:
        return None
    sense = reduced.sdp.sense
    factor = (-1 if sense == "max" else 1) * reduced.money
    value, bound = (factor * last[name] for name in ("objective", "lower_bound"))
    return progress.Seen("value", value, bound, last["gap"], sense)


class Ends:
    """Ends a run whose bound is beyond every value, or whose guessed trace bound is reached."""

    remembers = ("_most", "_trace", "_since")
    final = True

    def __init__(self) -> None:
        self._most = self._trace = np.inf
        self._since = 0

    def watch(self, most: float, trace: float, k: int) -> None:
        """Look out for a bound above `most` and, a while after iteration k, for Tr W = trace."""
        if trace != self._trace:
            self._since = k + PATIENCE
        self._most, self._trace = most, trace
        progress.part("" if trace == np.inf else f"Tr W ≤ {trace:.3g}")

    def __call__(self, info: Info) -> Status | None:
        if info.trace.last["lower_bound"] > self._most:
            return Status.INFEASIBLE
        if info.k < self._since or self._trace == np.inf:
            return None
        reached = float(np.trace(info.point)) > 0.99 * self._trace
        return Status.MAX_ITER if reached else None
