"""Products of matrices on a GPU, straight by cuBLAS: CuPy's own way there takes longer."""

from __future__ import annotations

import importlib
from functools import cache
from typing import Any

import cupy as cp
import numpy as np

from condgrad._types import Array
from condgrad.backends.arrays import address

WIDE = np.dtype(np.float64)
NEITHER = (2, 0)
"""The `layout` of other arrays."""


@cache
def cublas() -> Any:
    """The cuBLAS that CuPy calls."""
    return importlib.import_module("cupy_backends.cuda.libs.cublas")


@cache
def scalar(value: float) -> tuple[Array, int]:
    """A number in the memory of the process, and where it lies."""
    kept = np.array(value)
    return kept, address(kept)


def layout(x: Array) -> tuple[int, int]:
    """Whether x lies transposed, 1, or not, 0, and how far its rows or columns are apart."""
    (rows, columns), (down, along) = x.shape, x.strides
    if x.dtype != WIDE:
        return NEITHER
    if along == 8 and (rows == 1 or down >= 8 * columns):
        return 0, max(down // 8, columns)
    if down == 8 and (columns == 1 or along >= 8 * rows):
        return 1, max(along // 8, rows)
    return NEITHER


def gemm(out: Array, a: Array, b: Array, alpha: float = 1.0, beta: float = 0.0) -> None:
    """`_reference_segments.gemm`."""
    left, right, place = layout(a), layout(b), layout(out)
    (m, n), k = out.shape, a.shape[1]
    if NEITHER in (left, right) or place[0] or 0 in (m, n, k):
        out[...] = alpha * (a @ b) + (beta * out if beta else 0.0)
        return
    handle, factors = cp.cuda.device.get_cublas_handle(), (scalar(alpha)[1], scalar(beta)[1])
    first, second = (address(b), right[1]), (address(a), left[1])
    how = (right[0], left[0], n, m, k)  # cuBLAS has columns one behind the other: outᵀ = bᵀaᵀ
    own = cublas().dgemm
    own(handle, *how, factors[0], *first, *second, factors[1], address(out), place[1])
