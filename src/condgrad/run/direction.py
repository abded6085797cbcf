"""The direction of a step: the sum of what the keepers of all terms estimate."""

from __future__ import annotations

from collections.abc import Sequence

from condgrad._types import Array
from condgrad.estimators import Full
from condgrad.rows import Keeper


def direction(rows: Sequence[Keeper], out: Array) -> Array:
    """v = Σ_t ω_t A_t* y_t, written to `out`."""
    first, *others = sorted(rows, key=lambda r: not r.term.map.covers)
    first.set_to(out)
    for r in others:
        r.add_to(out)
    return out


def lend(rows: Sequence[Keeper], v: Array) -> None:
    """Let the first term that covers W write its gradient straight to the direction.

    Only where it is taken in full, which writes all of it anew at every iteration.
    """
    for r in rows:
        if r.term.map.covers:
            if isinstance(r.estimator, Full):
                r.state.G = v.reshape(-1)
            return
