"""Functions that do not separate over rows: they are always taken in full (setting S1)."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from condgrad._check import positive, row_data
from condgrad._floats import EPS, above, length
from condgrad._types import ALL, Array, Rows
from condgrad.errors import ProblemError
from condgrad.functions._base import Indicator, Lipschitz, lost, wide


class L2Ball(Indicator):
    r"""Indicator of ‖z − c‖₂ ≤ r.

    Parameters
    ----------
    radius : float
        r > 0.
    center : float or array, default 0
        c.
    """

    separable: ClassVar[bool] = False

    def __init__(self, radius: float, center: Any = 0.0) -> None:
        self.radius, self.center = positive("radius", radius), row_data("center", center)
        self._fix_size(self.center)

    def prox(self, z: Array, beta: float, at: Rows = ALL) -> Array:
        r = z - self.center
        norm = float(np.linalg.norm(r))
        return (
            z if norm <= self.radius else (self.center + r * (self.radius / norm)).astype(z.dtype)
        )

    def data_norm(self, size: int) -> float:
        return length(np.broadcast_to(self.center, size)) + self.radius

    def data_size(self, z: Array, at: Rows = ALL) -> float:
        """R, which the distance from the centre must not pass."""
        return self.radius

    def conjugate(self, y: Array, at: Rows = ALL) -> float:
        """⟨c, y⟩ + r‖y‖."""
        y = wide(y)
        return float(np.sum(self.center * y)) + self.radius * length(y)

    def conjugate_size(self, y: Array, at: Rows = ALL) -> float:
        y = wide(y)
        return float(np.sum(np.abs(self.center * y))) + self.radius * length(y) + 2 * lost(y)


class L2Norm(Lipschitz):
    r"""h(z) = λ ‖z − c‖₂.

    Parameters
    ----------
    scale : float, default 1
        λ > 0.
    center : float or array, default 0
        c.
    """

    separable: ClassVar[bool] = False

    def __init__(self, scale: float = 1.0, center: Any = 0.0) -> None:
        self.scale, self.center = positive("scale", scale), row_data("center", center)
        self._fix_size(self.center)
        self.lipschitz = self.scale

    def value(self, z: Array, at: Rows = ALL) -> float:
        return self.scale * float(np.linalg.norm(z - self.center))

    def slope(self, z: Array, beta: float, at: Rows = ALL) -> Array:
        r = z - self.center
        norm = float(np.linalg.norm(r))
        return (r * (self.scale / max(norm, beta * self.scale))).astype(z.dtype, copy=False)

    def into_dual(self, y: Array, at: Rows = ALL) -> Array:
        """Y, shrunk to a length of at most λ; by a few roundings more, so that it surely is."""
        y = wide(y)
        norm = above(length(y), y.size + 4)
        return y if norm <= self.scale else y * ((1 - 8 * EPS) * self.scale / norm)

    def conjugate(self, y: Array, at: Rows = ALL) -> float:
        """⟨c, y⟩ where ‖y‖ ≤ λ; infinite where ‖y‖ > λ whatever its rounding."""
        y = wide(y)
        inside = length(y) <= above(self.scale, y.size + 4)
        return float(np.sum(self.center * y)) if inside else np.inf

    def conjugate_size(self, y: Array, at: Rows = ALL) -> float:
        return float(np.sum(np.abs(self.center * wide(y)))) + lost(wide(y))


class SecondOrder(Indicator):
    r"""Indicator of the second-order cone {(t, x) : ‖x‖₂ ≤ t}; the first image is t."""

    separable: ClassVar[bool] = False

    def prox(self, z: Array, beta: float, at: Rows = ALL) -> Array:
        t, norm = float(z[0]), float(np.linalg.norm(z[1:]))
        if norm <= t:
            return z
        if norm <= -t:
            return np.zeros_like(z)
        out = np.empty_like(z)
        out[0] = 0.5 * (t + norm)
        out[1:] = z[1:] * (0.5 * (t + norm) / norm)
        return out

    def data_size(self, z: Array, at: Rows = ALL) -> float:
        """‖(t, x)‖₂: a cone has no data."""
        return float(np.linalg.norm(z))

    def into_dual(self, y: Array, at: Rows = ALL) -> Array:
        """(s, u) with s lowered to at most −‖u‖, its rounding included."""
        out = wide(y).copy()
        out[0] = min(out[0], -above(length(out[1:]), out.size + 4) if out[1:].any() else 0.0)
        return out

    def conjugate(self, y: Array, at: Rows = ALL) -> float:
        """0 where ‖u‖ ≤ −s, y = (s, u), the polar cone; infinite surely outside of it."""
        y = wide(y)
        s, norm = float(y[0]), length(y[1:])
        return 0.0 if norm <= above(max(-s, 0.0), y.size + 4) and s <= 0 else np.inf

    def conjugate_size(self, y: Array, at: Rows = ALL) -> float:
        """0, nothing is summed."""
        return 0.0


class Simplex(Indicator):
    r"""Indicator of the probability simplex {z ≥ 0, Σ z = total}.

    Parameters
    ----------
    total : float, default 1
        Sum of the entries.
    """

    separable: ClassVar[bool] = False

    def __init__(self, total: float = 1.0) -> None:
        self.total = positive("total", total)

    def prox(self, z: Array, beta: float, at: Rows = ALL) -> Array:
        """Projection by sorting (Held, Wolfe, Crowder 1974)."""
        return project_simplex(z, self.total)

    def data_norm(self, size: int) -> float:
        return self.total

    def data_size(self, z: Array, at: Rows = ALL) -> float:
        """The sum of the entries."""
        return self.total

    def conjugate(self, y: Array, at: Rows = ALL) -> float:
        return self.total * float(np.max(wide(y)))


def project_simplex(z: Array, total: float) -> Array:
    """Euclidean projection onto {u ≥ 0, Σ u = total}."""
    if z.size == 0:
        raise ProblemError("an empty vector has no projection onto the simplex")
    shifted = z.astype(np.float64) - np.max(z)  # else `total` is lost beside large entries
    s = np.sort(shifted)[::-1]
    excess = np.cumsum(s) - total
    count = max(1, int(np.count_nonzero(s * np.arange(1, z.size + 1) > excess)))
    return np.maximum(shifted - excess[count - 1] / count, 0.0).astype(z.dtype, copy=False)
