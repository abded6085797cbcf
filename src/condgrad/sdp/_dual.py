"""What multipliers prove about a semidefinite program."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from condgrad._types import Array
from condgrad.domains._base import EPS
from condgrad.domains.eigen import lowest_bound
from condgrad.sdp._reduce import Reduced

SLIGHTLY = 1 + 1e-6
"""Factor on τ, for the rounding of a τ that comes from the rows."""
PRESSED = 1e-7
"""What Z may miss of ⪰ 0, relative to 1 + ‖C‖₁, where rows pin vectors."""


class Dual(NamedTuple):
    """A point of the dual of the minimisation."""

    y: Array
    Z: Array
    """C − A*y, reordered."""
    bound: float
    lowest: float
    """At most the smallest eigenvalue of Z."""


def _adjoint(reduced: Reduced, y: Array) -> Array:
    """A*y in flat form."""
    sdp = reduced.sdp
    flat: Array = sdp.A.T @ y
    for l, (block, U, s) in sdp.low_rank.items():
        start = sdp.layout.starts[block]
        flat[start : start + U.shape[0] ** 2] += y[l] * ((U * s) @ U.T).reshape(-1)
    return flat


def gradient_of(reduced: Reduced, W: Array) -> Array:
    """∇f in flat form: C, and the slopes of the losses at W."""
    flat = reduced.cost.copy()
    for one in reduced.sdp.losses:
        flat += one.weight * (one.A.T @ one.function.derivative(one.A @ W))
    return flat


def certified(reduced: Reduced, y: Array, trace: float, source: str, gradient: Array) -> Dual:
    r"""A lower bound on the minimisation from multipliers y, y ≤ 0 on rows with ≤.

    With Z = C − A*y every feasible W has ⟨C, W⟩ ≥ b'y + ⟨Z, W⟩ ≥ b'y + τ min(0, λ_min(Z)). Where
    τ comes from rows with M = Σ c_l A_l ⪰ λ I, y + λ_min(Z) c/λ is a dual point with Z ⪰ 0, and
    its b'y is the bound. Rows that pin vectors have b = 0: their multipliers come last and cost
    nothing.
    """
    b, t = reduced.sdp.b, reduced.trace
    Z, lowest = _slack(reduced, y, gradient)
    if t is not None and source == "rows" and (t.exact or lowest < 0):
        y = y + (lowest if t.exact else lowest / t.lowest) * t.c
        Z, lowest = _slack(reduced, y, gradient)
    rounding = (64 + b.size) * EPS * float(np.abs(b) @ np.abs(y))
    reach = trace * (SLIGHTLY if source == "rows" else 1 + 8 * EPS)
    bound = float(b @ y) + reach * min(0.0, lowest) - rounding
    if reduced.pins.shape[1]:
        y = y + _pressure(reduced, Z) * reduced.pressed
        Z = reduced.square(gradient - _adjoint(reduced, y))
        lowest = lowest_bound((Z + Z.T) / 2)[0]
    return Dual(y, Z, bound, lowest)


def _slack(reduced: Reduced, y: Array, gradient: Array) -> tuple[Array, float]:
    """Z = C − A*y, and at most its smallest eigenvalue, the rounding of Z included."""
    Z = reduced.square(gradient - _adjoint(reduced, y))
    size = float(np.linalg.norm(reduced.square(gradient))) + float(reduced.norms @ np.abs(y))
    return Z, reduced.lowest(Z) - 64 * EPS * size


def _pressure(reduced: Reduced, Z: Array) -> float:
    """How far to go along the multipliers of pinning rows, so that Z misses little of ⪰ 0."""
    Q = reduced.pins
    A = -Q.T @ reduced.square(_adjoint(reduced, reduced.pressed)) @ Q
    size = float(np.linalg.norm(Z @ Q))
    allowed = PRESSED * (1 + float(np.abs(reduced.cost).max()))
    return size * (1 + size / allowed) / float(np.linalg.eigvalsh(A)[0])
