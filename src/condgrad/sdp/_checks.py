"""What a program is refused for before any work."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from condgrad.errors import ProblemError
from condgrad.sdp._model import SDP

SMALLEST = 1e-290
"""Numbers other than 0 must not be smaller, and not larger than its inverse."""


def check(sdp: SDP, trace_bound: float | None, options: Mapping[str, Any]) -> None:
    """Refuse what cannot be solved."""
    if trace_bound is not None and not (np.isfinite(trace_bound) and trace_bound > 0):
        raise ProblemError(f"trace_bound is {trace_bound!r}: it must be positive and finite")
    if sdp.size == 0 and not sdp.losses and trace_bound is None:
        raise ProblemError("the program has no rows: add some with subject_to, or a trace_bound")
    numbers = [sdp.A.data, sdp.cost, sdp.b, *(one.A.data for one in sdp.losses)]
    roots = [(np.abs(U) * np.sqrt(np.abs(s))).reshape(-1) for _, U, s in sdp.low_rank.values()]
    for data, least in ((numbers, SMALLEST), (roots, np.sqrt(SMALLEST))):
        sizes = np.abs(np.concatenate([np.zeros(0), *data]))
        if sizes.max(initial=0.0) > 1 / least or (sizes[sizes > 0] < least).any():
            raise ProblemError(
                f"the program has numbers below {SMALLEST:g} or above {1 / SMALLEST:g}, or factors "
                "of rows whose squares are: choose other units"
            )
    if {"start", "duals"} & set(options) or callable(options.get("callbacks")):
        raise ProblemError("start and duals are no options here, and callbacks must be a list")
