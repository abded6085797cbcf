"""Separable constraints and regularisers, used through their prox."""

from __future__ import annotations

from typing import Any

import numpy as np

from condgrad._check import positive, row_data
from condgrad._types import ALL, Array, Rows, pick
from condgrad.backends import kernels
from condgrad.backends.arrays import contiguous
from condgrad.errors import ProblemError
from condgrad.functions._base import Indicator, Lipschitz, lost, wide
from condgrad.functions.smooth import signs


class Interval(Indicator):
    r"""Indicator of lower_l ≤ z_l ≤ upper_l; either side may be infinite.

    Parameters
    ----------
    lower, upper : float or array
        Bounds, one number for all rows or one per row.

    Examples
    --------
    >>> Interval(1, 5).distance(np.array([0.0, 3.0, 7.0]))  # sqrt(1 + 4)
    2.23606797749979
    """

    portable = True

    def __init__(self, lower: Any, upper: Any) -> None:
        self.lower = row_data("lower", lower, finite=False)
        self.upper = row_data("upper", upper, finite=False)
        self._fix_size(self.lower, self.upper)
        scalars = isinstance(self.lower, float) and isinstance(self.upper, float)
        self._cone = scalars and self.lower in (0.0, -np.inf) and self.upper in (0.0, np.inf)
        if np.any(np.asarray(self.lower) > self.upper):
            raise ProblemError("lower exceeds upper in some row: the interval is empty, swap them")
        if np.any(self.lower == np.inf) or np.any(self.upper == -np.inf):
            raise ProblemError("lower is +inf or upper is -inf in some row: the interval is empty")

    @property
    def interval(self) -> tuple[Array | float, Array | float] | None:
        """(lower, upper), but for a class derived from this one: it may mean something else."""
        plain = type(self) in (Interval, Equal, AtMost, AtLeast)
        return (self.lower, self.upper) if plain else None

    def prox(self, z: Array, beta: float, at: Rows = ALL) -> Array:
        return np.clip(z, pick(self.lower, at), pick(self.upper, at)).astype(z.dtype, copy=False)

    def slope_into(self, z: Array, beta: float, at: Rows, out: Array) -> None:
        """`slope`, written to `out`; in one pass where one number serves all rows."""
        if isinstance(self.lower, float) and isinstance(self.upper, float):
            kernels(z).interval_slope(z, self.lower, self.upper, beta, out)
        else:
            out[:] = self.slope(z, beta, at)

    def into_dual(self, y: Array, at: Rows = ALL) -> Array:
        """No multiplier for a side that is infinite."""
        y = wide(y)
        if isinstance(self.lower, float) and isinstance(self.upper, float):
            y = np.maximum(y, 0.0) if np.isneginf(self.lower) else y
            return np.minimum(y, 0.0) if np.isposinf(self.upper) else y
        low = _chosen(pick(self.lower, at) == -np.inf, 0.0, -np.inf)
        high = _chosen(pick(self.upper, at) == np.inf, 0.0, np.inf)
        return np.clip(y, low, high)

    def data_norm(self, size: int) -> float:
        squares = []
        for side in (self.lower, self.upper):
            finite = np.where(np.isfinite(side), side, 0.0)
            repeats = size if finite.ndim == 0 else 1
            squares.append(repeats * float(np.vdot(finite, finite)))
        return float(np.sqrt(max(squares)))

    def data_size(self, z: Array, at: Rows = ALL) -> Array | float:
        """The larger of |lower_l| and |upper_l|, as far as they are finite."""
        sides = [np.abs(pick(side, at)) for side in (self.lower, self.upper)]
        low, high = (_chosen(np.isfinite(side), side, 0.0) for side in sides)
        return np.maximum(low, high)

    def conjugate(self, y: Array, at: Rows = ALL) -> float:
        r"""Support function Σ upper_l max(y_l, 0) − lower_l max(−y_l, 0)."""
        up, down = self._sums(wide(y), pick(self.lower, at), pick(self.upper, at))
        return up - down

    def conjugate_size(self, y: Array, at: Rows = ALL) -> float:
        y, low, high = wide(y), np.abs(pick(self.lower, at)), np.abs(pick(self.upper, at))
        return sum(self._sums(y, low, high)) + (0.0 if self._cone else lost(y))

    def _sums(self, y: Array, lower: Any, upper: Any) -> tuple[float, float]:
        """Σ upper_l max(y_l, 0) and Σ lower_l max(−y_l, 0), where 0 · ∞ counts as 0."""
        if self._cone:
            high, low = np.any(y > 0) and upper != 0, np.any(y < 0) and lower != 0
            return float(upper) if high else 0.0, float(lower) if low else 0.0
        if np.ndim(lower) == np.ndim(upper) == 0:
            up, down = kernels(y).signed_sums(contiguous(y))
            return float(up * upper if up > 0 else 0.0), float(down * lower if down > 0 else 0.0)
        above, below = np.maximum(y, 0.0), np.maximum(-y, 0.0)
        with np.errstate(invalid="ignore"):
            above, below = above * upper, below * lower
        above[~(y > 0)], below[~(y < 0)] = 0.0, 0.0
        return float(np.sum(above)), float(np.sum(below))


def _chosen(where: Any, yes: Any, no: float) -> Any:
    """`np.where`, but a number for a number: an array of it would lie in the wrong place."""
    return np.where(where, yes, no) if np.ndim(where) else yes if where else no


class Equal(Interval):
    """Indicator of z_l = b_l.

    Parameters
    ----------
    value : float or array
        b, one number for all rows or one per row.
    """

    portable = True

    def __init__(self, value: Any) -> None:
        super().__init__(row_data("value", value), value)


class AtMost(Interval):
    """Indicator of z_l ≤ b_l.

    Parameters
    ----------
    bound : float or array
        b, one number for all rows or one per row.
    """

    portable = True

    def __init__(self, bound: Any = 0.0) -> None:
        super().__init__(-np.inf, row_data("bound", bound))


class AtLeast(Interval):
    """Indicator of z_l ≥ b_l.

    Parameters
    ----------
    bound : float or array
        b, one number for all rows or one per row.
    """

    portable = True

    def __init__(self, bound: Any = 0.0) -> None:
        super().__init__(row_data("bound", bound), np.inf)


class Absolute(Lipschitz):
    r"""h_l(z) = λ |z − b_l|.

    Parameters
    ----------
    target : float or array, default 0
        b, one per row.
    scale : float, default 1
        λ > 0.
    """

    def __init__(self, target: Any = 0.0, scale: float = 1.0) -> None:
        self.target, self.scale = row_data("target", target), positive("scale", scale)
        self._fix_size(self.target)
        self.lipschitz = self.scale

    def value(self, z: Array, at: Rows = ALL) -> float:
        return self.scale * float(np.sum(np.abs(z - pick(self.target, at)), dtype=np.float64))

    def slope(self, z: Array, beta: float, at: Rows = ALL) -> Array:
        r = (z - pick(self.target, at)) / beta
        return np.clip(r, -self.scale, self.scale).astype(z.dtype, copy=False)

    def slope_into(self, z: Array, beta: float, at: Rows, out: Array) -> None:
        """`slope`, written to `out`; in one pass where one number serves all rows."""
        if isinstance(self.target, float):
            kernels(z).absolute_slope(z, self.target, self.scale, beta, out)
        else:
            out[:] = self.slope(z, beta, at)

    def into_dual(self, y: Array, at: Rows = ALL) -> Array:
        return np.clip(wide(y), -self.scale, self.scale)

    def conjugate(self, y: Array, at: Rows = ALL) -> float:
        """Σ b y for |y| ≤ λ."""
        y = wide(y)
        inside = np.all(np.abs(y) <= self.scale)
        return float(np.sum(pick(self.target, at) * y)) if inside else np.inf

    def conjugate_size(self, y: Array, at: Rows = ALL) -> float:
        return float(np.sum(np.abs(pick(self.target, at) * wide(y)))) + lost(wide(y))


class L1(Absolute):
    r"""h(z) = λ ‖z‖₁.

    Parameters
    ----------
    scale : float, default 1
        λ > 0.
    """

    def __init__(self, scale: float = 1.0) -> None:
        super().__init__(0.0, scale)


class Hinge(Lipschitz):
    r"""h_l(z) = max(0, 1 − t_l z), t_l ∈ {−1, 1}.

    Parameters
    ----------
    labels : array
        t, one per row, each −1 or 1.
    """

    lipschitz = 1.0

    def __init__(self, labels: Any) -> None:
        self.labels = signs("labels", labels)
        self._fix_size(self.labels)

    def value(self, z: Array, at: Rows = ALL) -> float:
        return float(np.sum(np.maximum(0.0, 1 - pick(self.labels, at) * z), dtype=np.float64))

    def slope(self, z: Array, beta: float, at: Rows = ALL) -> Array:
        t = pick(self.labels, at)
        return (-t * np.clip((1 - t * z) / beta, 0.0, 1.0)).astype(z.dtype, copy=False)

    def into_dual(self, y: Array, at: Rows = ALL) -> Array:
        t = pick(self.labels, at)
        return t * np.clip(t * wide(y), -1.0, 0.0)

    def conjugate(self, y: Array, at: Rows = ALL) -> float:
        """Σ p, p = t y in [−1, 0]."""
        p = pick(self.labels, at) * wide(y)
        return float(np.sum(p)) if np.all((p >= -1) & (p <= 0)) else np.inf
