"""Smooth losses. All are separable."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import expit, xlog1py, xlogy

from condgrad._check import positive, row_data
from condgrad._types import ALL, Array, Rows, pick
from condgrad.errors import ProblemError
from condgrad.functions._base import Smooth, lost, wide


class Linear(Smooth):
    r"""h_l(z) = c_l z.

    Parameters
    ----------
    c : float or array, default 1
        Coefficient of each row.

    Examples
    --------
    >>> Linear().value(np.array([2.0, 3.0]))
    5.0
    """

    smoothness = 0.0
    portable = True

    def __init__(self, c: Any = 1.0) -> None:
        self.c = row_data("c", c)
        self._fix_size(self.c)

    def value(self, z: Array, at: Rows = ALL) -> float:
        return float(np.sum(pick(self.c, at) * z, dtype=np.float64))

    def derivative(self, z: Array, at: Rows = ALL) -> Array:
        return np.full_like(z, pick(self.c, at))

    def prox(self, z: Array, beta: float, at: Rows = ALL) -> Array:
        return (z - beta * pick(self.c, at)).astype(z.dtype, copy=False)

    def into_dual(self, y: Array, at: Rows = ALL) -> Array:
        """C, the only point of the domain."""
        y = wide(y)
        return np.full_like(y, pick(self.c, at))

    def conjugate(self, y: Array, at: Rows = ALL) -> float:
        """0 at y = c, infinite elsewhere."""
        return 0.0 if np.all(wide(y) == pick(self.c, at)) else np.inf

    def conjugate_size(self, y: Array, at: Rows = ALL) -> float:
        """0, nothing is summed."""
        return 0.0


class Squared(Smooth):
    r"""h_l(z) = (z − b_l)²/2. Note the half: Σ (z − b)² is a term of weight 2.

    Parameters
    ----------
    target : float or array, default 0
        b, one per row.
    """

    smoothness = 1.0

    def __init__(self, target: Any = 0.0) -> None:
        self.target = row_data("target", target)
        self._fix_size(self.target)

    def value(self, z: Array, at: Rows = ALL) -> float:
        return 0.5 * float(np.sum(np.square(z - pick(self.target, at)), dtype=np.float64))

    def derivative(self, z: Array, at: Rows = ALL) -> Array:
        return (z - pick(self.target, at)).astype(z.dtype, copy=False)

    def prox(self, z: Array, beta: float, at: Rows = ALL) -> Array:
        u = (z + beta * pick(self.target, at)) / (1 + beta)
        return u.astype(z.dtype, copy=False)

    def conjugate(self, y: Array, at: Rows = ALL) -> float:
        """Σ y²/2 + b y."""
        y = wide(y)
        return float(np.sum(0.5 * np.square(y) + pick(self.target, at) * y))

    def conjugate_size(self, y: Array, at: Rows = ALL) -> float:
        return quadratic_size(self.target, y, at)


class Logistic(Smooth):
    r"""h_l(z) = log(1 + exp(−t_l z)), t_l ∈ {−1, 1}.

    Parameters
    ----------
    labels : array
        t, one per row, each −1 or 1.
    """

    smoothness = 0.25

    def __init__(self, labels: Any) -> None:
        self.labels = signs("labels", labels)
        self._fix_size(self.labels)

    def value(self, z: Array, at: Rows = ALL) -> float:
        return float(np.sum(np.logaddexp(0.0, -pick(self.labels, at) * z), dtype=np.float64))

    def derivative(self, z: Array, at: Rows = ALL) -> Array:
        t = pick(self.labels, at)
        return (-t * expit(-t * z)).astype(z.dtype, copy=False)

    def prox(self, z: Array, beta: float, at: Rows = ALL) -> Array:
        """Newton on v − tz − βσ(−v) = 0 for v = tu.

        The left side is convex for v < 0 and concave for v > 0, so from v = 0 the steps approach
        the root from one side and cannot cycle.
        """
        t = pick(self.labels, at)
        a = t * z.astype(np.float64)
        v = np.zeros_like(a)
        for _ in range(100):
            s = expit(-v)
            step = (v - a - beta * s) / (1 + beta * s * (1 - s))
            v = v - step
            if np.all(np.abs(step) <= 1e-15 * np.abs(v)):
                break
        return (t * v).astype(z.dtype, copy=False)

    def into_dual(self, y: Array, at: Rows = ALL) -> Array:
        t = pick(self.labels, at)
        return -t * np.clip(-t * wide(y), 0.0, 1.0)

    def conjugate(self, y: Array, at: Rows = ALL) -> float:
        """Σ p log p + (1 − p) log(1 − p), p = −t y in [0, 1]; no term is positive."""
        p = -pick(self.labels, at) * wide(y)
        if not np.all((p >= 0) & (p <= 1)):
            return np.inf
        return float(np.sum(xlogy(p, p) + xlog1py(1 - p, -p)))


class Huber(Smooth):
    r"""h_l(z) = r²/2 where |r| ≤ δ, δ(|r| − δ/2) elsewhere, r = z − b_l.

    Parameters
    ----------
    target : float or array, default 0
        b, one per row.
    delta : float, default 1
        δ > 0.
    """

    smoothness = 1.0

    def __init__(self, target: Any = 0.0, delta: float = 1.0) -> None:
        self.target, self.delta = row_data("target", target), positive("delta", delta)
        self._fix_size(self.target)

    def value(self, z: Array, at: Rows = ALL) -> float:
        r = np.abs(z - pick(self.target, at))
        inner = np.minimum(r, self.delta)
        return float(np.sum(inner * (r - 0.5 * inner), dtype=np.float64))

    def derivative(self, z: Array, at: Rows = ALL) -> Array:
        r = np.clip(z - pick(self.target, at), -self.delta, self.delta)
        return r.astype(z.dtype, copy=False)

    def prox(self, z: Array, beta: float, at: Rows = ALL) -> Array:
        r = z - pick(self.target, at)
        u = z - beta * np.clip(r / (1 + beta), -self.delta, self.delta)
        return u.astype(z.dtype, copy=False)

    def into_dual(self, y: Array, at: Rows = ALL) -> Array:
        return np.clip(wide(y), -self.delta, self.delta)

    def conjugate(self, y: Array, at: Rows = ALL) -> float:
        """Σ y²/2 + b y for |y| ≤ δ."""
        y = wide(y)
        if not np.all(np.abs(y) <= self.delta):
            return np.inf
        return float(np.sum(0.5 * np.square(y) + pick(self.target, at) * y))

    def conjugate_size(self, y: Array, at: Rows = ALL) -> float:
        return quadratic_size(self.target, y, at)


def quadratic_size(target: Array | float, y: Array, at: Rows) -> float:
    """Σ y²/2 + |b y|."""
    y = np.abs(wide(y))
    return float(np.sum(0.5 * np.square(y) + np.abs(pick(target, at)) * y)) + 2 * lost(y)


def signs(name: str, value: Any) -> Array | float:
    """Check labels −1 and 1."""
    labels = row_data(name, value)
    if not np.all(np.abs(labels) == 1):
        raise ProblemError(f"{name} must be -1 or 1: recode them, for example with 2*y - 1")
    return labels
