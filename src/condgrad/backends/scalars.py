"""Numbers that are read off arrays, with few copies from a GPU."""

from __future__ import annotations

import numpy as np

from condgrad._types import Array
from condgrad.backends import kernels
from condgrad.backends.arrays import foreign


def products(*pairs: tuple[Array, Array]) -> list[float]:
    """⟨x, y⟩ of each pair of arrays; from a GPU in one copy, summed in float64."""
    if not foreign(pairs[0][0]):
        return [float(np.vdot(x, y)) for x, y in pairs]
    found: list[float] = kernels(pairs[0][0]).dots(*pairs)
    return found


def square(x: Array) -> float:
    """⟨x, x⟩."""
    return products((x, x))[0]


def norm(x: Array) -> float:
    """‖x‖₂, the root of a sum of squares."""
    if not foreign(x):
        return float(np.linalg.norm(x))
    return float(np.sqrt(square(x)))
