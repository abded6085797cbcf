"""Kernels for arrays of CuPy: what a run over a spectrahedron needs of `contract.CONTRACT`.

Most are the twins of the compiled ones: NumPy's functions serve CuPy's arrays. Passes over triangle
rows are CUDA. None of them adds atomically, so that the same numbers give the same bits.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from condgrad._types import Array
from condgrad.backends import _cupy_triangles as own
from condgrad.backends import tiles
from condgrad.backends._cupy_triangles import triangle_price, triangle_square  # noqa: F401
from condgrad.backends._reference import (  # noqa: F401
    axpy,
    dot_at,
    gram_product,
    interval_ascend,
    interval_dual,
    interval_slope,
    lanczos,
    rank_one_step,
    row_gather,
    signed_sums,
    symmetric_part,
    take,
    triangle_gather,
    triangle_sweep,
)
from condgrad.backends.contract import Drivers


def compile_seconds() -> float:
    """Seconds spent compiling kernels in this process so far."""
    return own.spent


def axpy_at(out: Array, index: Array, weight: float, y: Array) -> None:
    """out[index] += weight·y, an index being there once."""
    out[index] += y.dtype.type(weight) * y


def add_at(x: Array, index: Array, y: Array) -> None:
    """x[index] += y, an index being there once."""
    x[index] += y


def masked_squares(z: Array, slopes: Array) -> float:
    """Σ z² over the rows with a slope other than 0."""
    return float(np.square(np.where(slopes != 0, z, 0), dtype=np.float64).sum())


def triangle_add(G: Array, start: int, stop: int, y: Array) -> None:
    """G += Σ y_l a_l over a range of rows, by way of a table."""
    n = G.shape[0]
    size = n * (n - 1) * (n - 2) // 2
    table = tiles.filled(n, start, y[: stop - start], np.float64)
    own.pair(G, False, G, table, 0, size, -np.inf, np.inf)


def fused(sweep: Any, add: Any) -> Drivers:
    """The passes over the rows of a family, which are triangles."""
    if (sweep, add) != ("triangle_sweep", "triangle_add"):
        raise TypeError(f"there are no passes on a GPU over the rows of {sweep} and {add}")
    return own.DRIVERS
