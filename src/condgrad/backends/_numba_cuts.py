"""Compiled kernels of maximum cut; `_numba` re-exports them."""

from __future__ import annotations

import numpy as np

from condgrad._types import Array
from condgrad.backends._numba_cache import njit


@njit(cache=True, nogil=True)
def mixing_sweep(indptr: Array, indices: Array, data: Array, V: Array) -> None:
    n, k = V.shape
    g = np.empty(k, V.dtype)
    for i in range(n):
        for c in range(k):
            g[c] = 0
        for e in range(indptr[i], indptr[i + 1]):
            j, a = indices[e], data[e]
            for c in range(k):
                g[c] += a * V[j, c]
        square = 0.0
        for c in range(k):
            square += g[c] * g[c]
        if square > 1e-290:
            factor = -1 / np.sqrt(square)
            for c in range(k):
                V[i, c] = factor * g[c]


@njit(cache=True, nogil=True)
def flip_sweep(
    indptr: Array, indices: Array, data: Array, sign: Array, gain: Array, least: Array
) -> int:
    flipped = 0
    for i in range(sign.size):
        if gain[i] > least[i]:
            flipped += 1
            sign[i] = -sign[i]
            gain[i] = -gain[i]
            twice = 2 * sign[i]
            for e in range(indptr[i], indptr[i + 1]):
                j = indices[e]
                gain[j] += twice * data[e] * sign[j]
    return flipped
