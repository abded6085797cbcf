"""Proofs that no W ⪰ 0 meets the rows of a program."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from condgrad._types import Array
from condgrad.methods import Method
from condgrad.run.callbacks import Info
from condgrad.run.result import Result
from condgrad.run.solve import solve
from condgrad.sdp import exact
from condgrad.sdp._dual import Point, Repair, slack
from condgrad.sdp._reduce import Reduced
from condgrad.sdp._watch import SLIGHTLY


def refuted(
    reduced: Reduced,
    trace: float,
    seconds: float | None,
    method: Method | None,
    options: Mapping[str, Any],
) -> Result:
    """Try to prove that no W ⪰ 0 with Tr W ≤ trace meets the rows: with cost 0 a bound above 0."""

    def proved(info: Info) -> bool:
        return bool(info.trace.last["lower_bound"] > 0)

    proved.final = True  # type: ignore[attr-defined]
    rows = reduced.problem(SLIGHTLY * trace, equality=False, cost=False)
    callbacks = [*options.get("callbacks", ()), proved]
    more = {"callbacks": callbacks, "max_seconds": seconds, "gap": None, "floor": None}
    return solve(rows, method, **{**options, **more, "duals": True})


def impossible(reduced: Reduced, y: Array, ray: Repair | None) -> bool:
    """Whether multipliers y, or some near them along a ray, prove that no W ⪰ 0 meets the rows."""
    b, kinds = reduced.sdp.b, reduced.sdp.kinds
    if not y.any():
        return False
    y = np.where(kinds == 0, y, kinds * np.maximum(kinds * y, 0.0))
    if ray is not None and ray.ray:
        lowest = slack(reduced, Point(y), cost=False).lowest
        moved = y - min(0.0, 2 * lowest) / ray.lowest * ray.point.y
        size = float(np.abs(b) @ np.abs(moved))
        above = float(b @ moved) > (b.size + 64) * np.finfo(np.float64).eps * size
        if above and slack(reduced, Point(moved), cost=False).lowest >= 0:
            return True
    found = exact.proved(reduced, y, cost=False)
    return found is not None and found[0] > 0
