"""Compiled kernels of the perimeter map; `_numba` re-exports them."""

from __future__ import annotations

from typing import Any

import numpy as np

from condgrad._types import Array
from condgrad.backends._numba_cache import njit


@njit(cache=True, inline="always")
def _below(i: int) -> tuple[Any, Any, Any]:
    # The triple p < r < q of a row; roots are off by one at most, either way.
    q = np.int64(np.cbrt(6.0 * i)) + 1
    q += np.int64(q * (q - 1) * (q + 1) // 6 <= i) - np.int64(q * (q - 1) * (q - 2) // 6 > i)
    rest = i - q * (q - 1) * (q - 2) // 6
    r = np.int64(np.sqrt(2.0 * rest))
    r += np.int64(r * (r + 1) // 2 <= rest) - np.int64(r * (r - 1) // 2 > rest)
    return rest - r * (r - 1) // 2, q, r


@njit(cache=True, nogil=True)
def perimeter_gather(W: Array, ids: Array) -> Array:
    out = np.empty(ids.size, W.dtype)
    for i in range(ids.size):
        p, q, r = _below(ids[i])
        out[i] = W[q, r] + W[q, p] + W[r, p]
    return out


@njit(cache=True, nogil=True)
def perimeter_scatter(G: Array, ids: Array, y: Array) -> None:
    for i in range(ids.size):
        v = y[i]
        if v != 0:
            p, q, r = _below(ids[i])
            G[q, r] += v
            G[q, p] += v
            G[r, p] += v


# Rows that share q and r lie side by side. Offsets are unsigned, which spares a test for negative
# indices in the loops and lets them vectorise.


@njit(cache=True, nogil=True)
def perimeter_sweep(W: Array, start: int, stop: int, out: Array) -> None:
    if start >= stop:
        return
    n, w, i = W.shape[0], W.reshape(-1), start
    p, q, r = _below(start)
    while i < stop:
        length = min(r - p, stop - i)
        base = W[q, r]
        at, wq, wr = np.uint64(i - start), np.uint64(q * n + p), np.uint64(r * n + p)
        for s in range(np.uint64(length)):
            out[at + s] = base + w[wq + s] + w[wr + s]
        i, p, r = i + length, 0, r + 1
        if r == q:
            q, r = q + 1, 1


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def perimeter_add(G: Array, start: int, stop: int, y: Array) -> None:
    if start >= stop:
        return
    n, g, i = G.shape[0], G.reshape(-1), start
    p, q, r = _below(start)
    while i < stop:
        length, total = min(r - p, stop - i), 0.0
        at, gq, gr = np.uint64(i - start), np.uint64(q * n + p), np.uint64(r * n + p)
        for s in range(np.uint64(length)):
            v = y[at + s]
            total += v
            g[gq + s] += v
            g[gr + s] += v
        G[q, r] += total
        i, p, r = i + length, 0, r + 1
        if r == q:
            q, r = q + 1, 1
