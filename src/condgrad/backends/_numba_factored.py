"""Compiled kernels of points kept as factors; `_numba` re-exports them.

Rows of the output belong to one thread, so that no sum depends on how many there are.
"""

from __future__ import annotations

from condgrad._types import Array
from condgrad.backends._numba_cache import njit

REORDER = {"reassoc", "contract"}
"""Lets a sum be vectorised; the order of additions is fixed at compile time all the same."""


@njit(cache=True, nogil=True)
def sparse_times(
    indptr: Array, indices: Array, values: Array, K: Array, start: int, stop: int, out: Array
) -> None:
    columns = K.shape[1]
    if columns == 1:
        for i in range(start, stop):
            total = values.dtype.type(0)
            for l in range(indptr[i], indptr[i + 1]):
                total += values[l] * K[indices[l], 0]
            out[i, 0] = total
        return
    for i in range(start, stop):
        row = out[i]
        row[:] = 0
        for l in range(indptr[i], indptr[i + 1]):
            x, other = values[l], K[indices[l]]
            for c in range(columns):
                row[c] += x * other[c]


@njit(cache=True, nogil=True, fastmath=REORDER)
def sparse_dots(
    indptr: Array, indices: Array, A: Array, B: Array, start: int, stop: int, out: Array
) -> None:
    columns = A.shape[1]
    for i in range(start, stop):
        row = A[i]
        for l in range(indptr[i], indptr[i + 1]):
            other, total = B[indices[l]], A.dtype.type(0)
            for c in range(columns):
                total += row[c] * other[c]
            out[l] = total


@njit(cache=True, nogil=True, fastmath=REORDER)
def pair_dots(i: Array, j: Array, A: Array, B: Array, out: Array) -> None:
    columns = A.shape[1]
    for l in range(i.size):
        row, other, total = A[i[l]], B[j[l]], A.dtype.type(0)
        for c in range(columns):
            total += row[c] * other[c]
        out[l] = total
