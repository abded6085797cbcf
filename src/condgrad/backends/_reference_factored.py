"""The slow, obvious twin of `_numba_factored`."""

from __future__ import annotations

import numpy as np

from condgrad._types import Array

CHUNK = 1 << 18
"""Entries computed at a time."""


def sparse_times(
    indptr: Array, indices: Array, values: Array, K: Array, start: int, stop: int, out: Array
) -> None:
    """Write rows start to stop of V K to `out`, V in CSR."""
    for i in range(start, stop):
        at = slice(indptr[i], indptr[i + 1])
        out[i] = values[at] @ K[indices[at]]


def sparse_dots(
    indptr: Array, indices: Array, A: Array, B: Array, start: int, stop: int, out: Array
) -> None:
    """Write the entries of A Bᵀ on the pattern of a CSR matrix, rows start to stop, to `out`."""
    for i in range(start, stop):
        at = slice(indptr[i], indptr[i + 1])
        out[at] = B[indices[at]] @ A[i]


def pair_dots(i: Array, j: Array, A: Array, B: Array, out: Array) -> None:
    """Write the entries (i_l, j_l) of A Bᵀ to `out`."""
    for start in range(0, i.size, CHUNK):
        at = slice(start, start + CHUNK)
        out[at] = np.sum(A[i[at]] * B[j[at]], axis=1)
