"""The options that every door for CVXPY takes."""

from __future__ import annotations

from typing import Any

from condgrad.errors import ProblemError
from condgrad.run.limits import Goal, Limits

OPTIONS = (
    *("gap", "feasibility", "max_seconds", "max_iter"),
    *("trace_bound", "method", "seed", "device"),
)
"""Options that are handed to `condgrad.sdp.SDP.solve`."""
GAP = 1e-3
"""The gap where the user names none."""
FEASIBILITY = 1e-6
"""The feasibility where the user names none: solvers of CVXPY's keep rows as closely."""


def checked(options: dict[str, Any]) -> dict[str, Any]:
    """Refuse options that nobody reads, and tolerances and limits that are no numbers."""
    for name in options:
        if name not in OPTIONS:
            raise ProblemError(
                f"{name} is no option of condgrad.cvxpy: use {', '.join(OPTIONS)} or verbose, and "
                "for condgrad.cvxpy.solve backend"
            )
    Goal(options.get("gap"), options.get("feasibility"))
    Limits(options.get("max_iter"), None, options.get("max_seconds"), None)
    default = {name for name in ("gap", "feasibility") if options.get(name) is None}
    return {name: value for name, value in options.items() if name not in default}
