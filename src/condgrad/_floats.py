"""Rounding of sums, and how a proof counts it.

Each operation of float64 gives fl(x ∘ y) = (x ∘ y)(1 + δ) with |δ| ≤ u = 2⁻⁵³. A number that passes
through at most k operations on its way into a sum therefore enters it with a factor of at most
1 ± γ_k, γ_k = k u/(1 − k u), in whatever order the sum is taken, and

    |fl(Σ x_i) − Σ x_i| ≤ γ_k Σ |x_i|                                                 (Higham, §3.1)

A product (not a sum) can also underflow; then it is off by at most u · `TINY`, as if its absolute
value had been `TINY`. So a margin is found by counting operations and adding up absolute values:

    margin = EPS Σ_i k_i S_i,      S_i = Σ |x_i|,      EPS = 2u.

The first-order error is half of that. The other half pays for 1/(1 − k u), for the rounding of
the S_i, which are sums of numbers of one sign or norms, and for that of the margin itself: while
every count is at most 10¹⁴ these are off by less than a fiftieth. Overflow makes a margin infinite
or NaN, and there is no bound.

References
----------
.. [1] N. J. Higham, "Accuracy and stability of numerical algorithms", SIAM, 2nd ed., 2002.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from condgrad._types import Array

EPS = float(np.finfo(np.float64).eps)
"""2u."""
TINY = float(np.finfo(np.float64).tiny)
"""The smallest number that is as precise as the others."""
SAFE = 1e140
"""Between 1/SAFE and SAFE the squares of 10¹⁰ numbers can be summed."""


def power_of_two(x: Array) -> float:
    """The power of 2 next to max |x|, to divide by without rounding; 1 for zeros, NaN, infinity."""
    top = max(float(x.max()), -float(x.min()), 0.0) if x.size else 0.0
    if not 0 < top < np.inf:
        return 1.0
    return math.ldexp(1.0, min(max(math.frexp(top)[1], -1020), 1020))


def powers_of_two(sizes: Any) -> Any:
    """The power of 2 nearest to each size in ratio, 1 for 0."""
    sizes = np.asarray(sizes, float)
    return np.exp2(np.round(np.log2(np.where(sizes > 0, sizes, 1.0))))


def length(x: Array) -> float:
    """‖x‖₂ without overflow or underflow of squares, off by at most γ_{size + 4} of itself."""
    with np.errstate(over="ignore", under="ignore"):
        plain = float(np.linalg.norm(x))
        if 1 / SAFE < plain < SAFE and x.dtype == np.float64:
            return plain
        x = x.astype(np.float64, copy=False)
        unit = power_of_two(x)
        return unit * float(np.linalg.norm(x / unit))


def lengths(X: Array) -> Array:
    """Length of each row of a matrix, as `length`."""
    with np.errstate(over="ignore", under="ignore"):
        norms: Array = np.linalg.norm(X, axis=1)
        for i in np.flatnonzero(~((norms > 1 / SAFE) & (norms < SAFE))):
            norms[i] = length(X[i])
    return norms


def above(value: float, count: int) -> float:
    """At least the number, 0 or more, that `count` operations made `value` of."""
    return value * (1 + (count + 2) * EPS) + TINY * EPS if value else 0.0


def below(factor: float, value: float) -> float:
    """At most factor · value, both off by an operation or two."""
    product = factor * value
    return product - 8 * EPS * abs(product) - TINY if factor and value else 0.0
