"""What a point and dual variables are worth: the same rule for every solver."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from condgrad.certificate.lower_bound import bound, part_of, relative_gap
from condgrad.domains import NuclearBall


def certify(
    problem,
    W,
    duals: Mapping | None = None,
    lower_bound: float | None = None,
    repair: bool = True,
) -> dict:
    """Accuracy of W, max(gap, infeasibility), with a bound proved from `duals`.

    `duals` has a y for every term by name, in the order of its rows; a linear term needs none (its
    y is 1). They are put into the domain of the conjugate, so a poor y makes a poor bound and never
    a wrong one. Where `lower_bound` is given, it was proved by condgrad with the same code. A
    solver that asks on its own time may leave out the repairs of docs/certificates.md.
    """
    if lower_bound is None:
        one = np.ones(1)
        parts = [part_of(t, None, (duals or {}).get(t.name, one)) for t in problem.terms]
        if repair:
            lower_bound = bound(problem, parts, "solver").bound.value
        else:
            lowest = problem.domain.minimum(sum(p.v for p in parts)).value
            lower_bound = lowest - sum(p.conjugate for p in parts)
    found = problem.evaluate(W)
    gap = relative_gap(found.objective, lower_bound)
    return {
        "value": float(max(gap, found.worst)),
        "gap": float(gap),
        "infeasibility": float(found.worst),
        "objective": float(found.objective),
        "lower_bound": float(lower_bound),
    }


def into_spectrahedron(W, trace: float, row_sum: float | None = None):
    """W made positive semidefinite with the trace asked for and, on request, W1 = row_sum·1.

    Solvers return points that are slightly outside; condgrad's are inside by construction. What the
    repair does to the other constraints is then measured.
    """
    n = len(W)
    W = 0.5 * (W + W.T)
    if row_sum is not None:
        mean = W.mean(axis=0)
        W = W - mean - mean[:, None] + mean.mean()
        trace -= row_sum
    values, vectors = np.linalg.eigh(W)
    values = np.maximum(values, 0.0)
    values *= trace / max(values.sum(), 1e-300)
    W = (vectors * values) @ vectors.T
    W = 0.5 * (W + W.T)
    return W if row_sum is None else W + row_sum / n


def into_ball(domain: NuclearBall, W):
    """W scaled into the nuclear ball."""
    return W * min(1.0, domain.radius / max(np.linalg.svd(W, compute_uv=False).sum(), 1e-300))


def onto_simplex(x, total: float):
    """The nearest non-negative vector with that sum."""
    ordered = np.sort(x)[::-1]
    shift = (np.cumsum(ordered) - total) / np.arange(1, x.size + 1)
    return np.maximum(x - shift[np.flatnonzero(ordered > shift)[-1]], 0.0)
