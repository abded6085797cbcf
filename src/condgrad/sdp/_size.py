"""About how large the solutions of a program are, and what its rows say of that."""

from __future__ import annotations

import numpy as np
from scipy.sparse.linalg import lsqr

from condgrad._types import Array
from condgrad.functions import Squared
from condgrad.maps import SparseStack
from condgrad.sdp._dual import Point, Repair, slack
from condgrad.sdp._families import Family, stacked
from condgrad.sdp._reduce import Reduced

GROWTH = 10.0
"""Factor on a guessed trace bound: on the first estimate, and where it binds."""


def from_rows(reduced: Reduced) -> Repair | None:
    """The ray of multipliers that bounds the trace, where the rows have one."""
    t = reduced.trace
    if t is None:
        return None
    ray = Point(-t.c)
    lowest = slack(reduced, ray, cost=False).lowest
    return Repair(ray, True, lowest, t.exact) if lowest > 0 else None


def trace_of(reduced: Reduced, given: float | None, least: float) -> tuple[float, str, bool]:
    """The bound on the trace, where it comes from, and whether the rows fix the trace to it."""
    found = reduced.trace
    if found is not None and (given is None or found.total / found.lowest <= given):
        exact = found.exact and not reduced.sdp.losses  # their bound is that of the domain
        return found.total if exact else (1 + 1e-9) * found.total / found.lowest, "rows", exact
    if given is not None:
        return float(given), "user", False
    return GROWTH * max(least, 1e-6), "guess", False


def least_squares(reduced: Reduced) -> tuple[float, Array]:
    """About the least ‖W‖_F (at most Tr W) that the equalities and squared losses allow.

    The second is what the equalities are missed by, scaled so that A* of it is 0.
    """
    families, y = [f for f in reduced.families if f.equality], np.zeros(reduced.sdp.size)
    norm = 0.0
    if families:
        A, right = stacked(families), np.concatenate([f.right for f in families])
        x = lsqr(A, right, atol=1e-14, btol=1e-14, iter_lim=200)[0]
        ids, factor = (np.concatenate([getattr(f, n) for f in families]) for n in ("ids", "factor"))
        y[ids] = factor * (right - A @ x)
        norm = float(np.linalg.norm(x))
    for one in reduced.sdp.losses:
        if isinstance(one.function, Squared) and one.A.nnz:
            stack = SparseStack(reduced.moved(one.A), reduced.sdp.layout.side)
            right = np.broadcast_to(one.function.target, stack.size)
            loss = Family(stack, np.arange(stack.size), np.ones(stack.size), right, True)
            x = lsqr(stacked([loss]), right, atol=1e-8, btol=1e-8, iter_lim=200)[0]
            norm = max(norm, float(np.linalg.norm(x)))
    return norm or 1.0, y
