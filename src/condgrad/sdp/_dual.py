"""Proofs by multipliers about a semidefinite program, for all W ⪰ 0 or for a bounded trace."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from condgrad._floats import EPS, TINY
from condgrad._types import Array
from condgrad.sdp._reduce import Reduced

PRESSED = 1e-7
"""Distance of Z from ⪰ 0 that is allowed, relative to 1 + ‖C‖₁, if rows pin vectors."""
NARROW = 6
"""Halvings in search of the least repair of a dual point."""
LARGE = 500
"""Side up to which repairs are halved: each halving takes all eigenvalues."""


class Point(NamedTuple):
    """A point of the dual of the minimisation: y ≤ 0 on rows with ≤, y ≥ 0 on rows with ≥."""

    y: Array
    u: tuple[Array, ...] = ()
    """Slopes of the losses, in dom h*."""


class Slack(NamedTuple):
    """Z of a point."""

    Z: Array
    """C + Σ ω A*u − A*y, reordered."""
    lowest: float
    """At most the smallest eigenvalue of the exact Z, off the pinned vectors."""


class Repair(NamedTuple):
    """A dual point with Z ≻ 0, or a ray of multipliers y with −A*y ≻ 0.

    Mixed with a point whose Z is nearly ⪰ 0, or added to it, it gives one with Z ⪰ 0, whose bound
    holds for all W.
    """

    point: Point
    ray: bool
    lowest: float
    """At most the smallest eigenvalue of its Z, positive."""
    exact: bool = False
    """A ray of equalities with −A*y = I up to rounding: it may be followed either way."""


class Dual(NamedTuple):
    """A dual point and what it proves of the minimisation."""

    point: Point
    Z: Array
    """Z of the point, reordered."""
    bound: float
    """No feasible W has a lower value; −∞ where Z ⪰ 0 is not certain."""
    within: float
    """No feasible W with Tr W ≤ τ has a lower value."""
    lowest: float
    """At most the smallest eigenvalue of Z."""


def slopes_at(reduced: Reduced, W: Array) -> tuple[Array, ...]:
    """Slopes of the losses at W (flat), in dom h*."""
    pairs = ((one.function, one.A @ W) for one in reduced.sdp.losses)
    return tuple(h.into_dual(h.derivative(z)) for h, z in pairs)


def slack(reduced: Reduced, point: Point, cost: bool = True) -> Slack:
    r"""Z of a point, and a number below its smallest eigenvalue.

    Every entry of Z is a sum of at most d products, d = `Reduced.depth`, each with at most four
    roundings (the weight, the product, the mirrored half, the sum), so that it is off by at most
    d·4u/(1 − 4du) times the sum of their absolute values; u = ε/2 is the unit roundoff. The
    Frobenius norm of those bounds, with 4dε for the factor, is what the eigenvalue may be off by.
    The scale of the domain consists of powers of two and costs nothing. Without `cost` Z is −A*y.
    """
    sdp = reduced.sdp
    flat = reduced.cost.copy() if cost else np.zeros(sdp.layout.size)
    size = np.abs(flat)
    for one, u in zip(sdp.losses, point.u, strict=False):
        flat += one.weight * (one.A.T @ u)
        size += one.weight * (abs(one.A).T @ np.abs(u))
    flat -= sdp.A.T @ point.y
    size += reduced.absolute.T @ np.abs(point.y)
    for l, (block, U, s) in sdp.low_rank.items():
        at = slice(sdp.layout.starts[block], sdp.layout.starts[block] + U.shape[0] ** 2)
        flat[at] -= point.y[l] * ((U * s) @ U.T).reshape(-1)
        size[at] += abs(point.y[l]) * ((np.abs(U) * np.abs(s)) @ np.abs(U.T)).reshape(-1)
    Z, error = reduced.square(flat), float(np.linalg.norm(reduced.square(size)))
    products = (flat, point.y, *point.u)  # none can underflow where all of these are 0
    underflow = reduced.depth * Z.shape[0] * TINY if any(p.any() for p in products) else 0.0
    return Slack(Z, reduced.lowest(Z) - 4 * reduced.depth * EPS * error - underflow)


def worth(reduced: Reduced, point: Point) -> float:
    """b'y − Σ ω h*(u), rounded down: the bound where Z ⪰ 0."""
    b, y = reduced.sdp.b, point.y
    total, size, count = float(b @ y), float(np.abs(b) @ np.abs(y)), b.size
    for one, u in zip(reduced.sdp.losses, point.u, strict=False):
        total -= one.weight * one.function.conjugate(u)
        size += one.weight * one.function.conjugate_size(u)
        count += u.size
    size += count * TINY if size else 0.0
    return total - (count + 64) * EPS * size if np.isfinite(total) else -np.inf


def moved(point: Point, repair: Repair, t: float) -> Point:
    """Along a ray, or towards a point: t = 1 is the point itself."""
    if repair.ray:
        return Point(point.y + t * repair.point.y, point.u)
    u = tuple((1 - t) * a + t * b for a, b in zip(point.u, repair.point.u, strict=True))
    return Point((1 - t) * point.y + t * repair.point.y, u)


def repaired(reduced: Reduced, point: Point, repair: Repair | None) -> tuple[Point, Slack]:
    """The point with Z ⪰ 0 that is nearest along a repair, or the point as it is."""
    plain = slack(reduced, point)
    if repair is None or (plain.lowest >= 0 and not repair.exact):
        return point, plain
    least = -plain.lowest / repair.lowest
    if not repair.ray:
        least = -plain.lowest / (repair.lowest - plain.lowest)
    excess = 1e-12 * abs(least) + EPS * float(np.linalg.norm(plain.Z)) / repair.lowest
    for _ in range(24):  # what rounding takes is made up for
        t = least + excess
        there = moved(point, repair, t if repair.ray else min(t, 1.0))
        found = slack(reduced, there)
        if found.lowest >= 0:
            return _nearest(reduced, point, repair, (t, there, found))
        excess *= 8
        if t > 1 and not repair.ray:
            break
    return point, plain


def _nearest(
    reduced: Reduced, point: Point, repair: Repair, best: tuple[float, Point, Slack]
) -> tuple[Point, Slack]:
    """Halve the way while Z ⪰ 0: the first estimate is careful where Z ⪰ 0 nearly everywhere."""
    low, high = 0.0, best[0]
    costly = repair.exact or reduced.sdp.layout.side > LARGE
    for _ in range(0 if costly else NARROW):
        t = (low + high) / 2
        there = moved(point, repair, t)
        found = slack(reduced, there)
        if found.lowest >= 0:
            high, best = t, (t, there, found)
        else:
            low = t
    return best[1], best[2]


def certified(reduced: Reduced, point: Point, repair: Repair | None, trace: float) -> Dual:
    r"""Proof of a dual point: for all W, if it can be repaired, and for Tr W ≤ trace.

    Every feasible W has f(W) ≥ b'y − Σ ω h*(u) + ⟨Z, W⟩ by weak duality, and ⟨Z, W⟩ ≥ 0 where
    Z ⪰ 0, else ⟨Z, W⟩ ≥ τ λ_min(Z). Rows that pin vectors have b = 0: their multipliers come last
    and cost nothing.
    """
    plain = slack(reduced, point)
    within = worth(reduced, point)
    within += (1 + 8 * EPS) * trace * min(0.0, plain.lowest) - 8 * EPS * abs(within)
    there, found = repaired(reduced, point, repair)
    bound = worth(reduced, there) if found.lowest >= 0 else -np.inf
    if bound == -np.inf:
        there, found = point, plain
    Z, lowest, y = found.Z, found.lowest, there.y
    if reduced.pins.shape[1]:
        y = y + _pressure(reduced, Z) * reduced.pressed
        Z = slack(reduced, Point(y, there.u)).Z
        lowest = reduced.eigenvalue((Z + Z.T) / 2)
    return Dual(Point(y, there.u), Z, bound, max(within, bound), lowest)


def _pressure(reduced: Reduced, Z: Array) -> float:
    """How far to go along the multipliers of pinning rows, so that Z misses little of ⪰ 0."""
    Q = reduced.pins
    A = Q.T @ slack(reduced, Point(reduced.pressed), cost=False).Z @ Q
    size = float(np.linalg.norm(Z @ Q))
    allowed = PRESSED * (1 + float(np.abs(reduced.cost).max()))
    return size * (1 + size / allowed) / float(np.linalg.eigvalsh(A)[0])
