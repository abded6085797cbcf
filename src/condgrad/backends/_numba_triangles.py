"""Compiled kernels of the triangle map; `_numba` re-exports them."""

from __future__ import annotations

import numpy as np
from numba import njit

from condgrad._types import Array


@njit(cache=True, inline="always")
def _fold(n: int) -> tuple[int, int, int]:
    others = n - 1
    even = others % 2 == 0
    width = others - 1 if even else others
    return others * (others - 1) // 2, width, others - 1 if even else others - 2


@njit(cache=True, inline="always")
def _divide(a: int, b: int, inverse: float) -> tuple[int, int]:
    # The product is off by one at most, either way; mended without branches.
    q = np.int64(a * inverse)
    rest = a - q * b
    up, down = np.int64(rest >= b), np.int64(rest < 0)
    return q + up - down, rest + b * (down - up)


@njit(cache=True, inline="always")
def _triple(
    i: int, n: int, pairs: int, width: int, mirror: int, by_pairs: float, by_width: float
) -> tuple[int, int, int]:
    q, rest = _divide(i, pairs, by_pairs)
    row, c = _divide(rest, width, by_width)
    r = c + row + 1
    over = np.int64(r > n - 2)
    p = row + over * (mirror - 2 * row)
    r += over * (p - (n - 2))
    return p + np.int64(p >= q), q, r + np.int64(r >= q)


@njit(cache=True)
def triangle_gather(W: Array, ids: Array) -> Array:
    n = W.shape[0]
    pairs, width, mirror = _fold(n)
    by_pairs, by_width = 1.0 / pairs, 1.0 / width
    w = W.reshape(-1)
    out = np.empty(ids.size, W.dtype)
    # Addresses first, a chunk at a time: that loop vectorises, the one that loads does not.
    # They are unsigned, which spares a test for negative indices.
    chunk = 256
    qp, qr = np.empty(chunk, np.uint64), np.empty(chunk, np.uint64)
    pr, qq = np.empty(chunk, np.uint64), np.empty(chunk, np.uint64)
    for start in range(0, ids.size, chunk):
        length = min(chunk, ids.size - start)
        for j in range(length):
            p, q, r = _triple(ids[start + j], n, pairs, width, mirror, by_pairs, by_width)
            qp[j], qr[j], pr[j], qq[j] = q * n + p, q * n + r, p * n + r, q * n + q
        for j in range(length):
            out[start + j] = w[qp[j]] + w[qr[j]] - w[pr[j]] - w[qq[j]]
    return out


@njit(cache=True)
def triangle_scatter(G: Array, ids: Array, y: Array) -> None:
    n = G.shape[0]
    pairs, width, mirror = _fold(n)
    by_pairs, by_width = 1.0 / pairs, 1.0 / width
    g = G.reshape(-1)
    for i in range(ids.size):
        v = y[i]
        if v != 0:
            p, q, r = _triple(ids[i], n, pairs, width, mirror, by_pairs, by_width)
            row = np.uint64(q * n)
            g[row + np.uint64(p)] += v
            g[row + np.uint64(r)] += v
            g[np.uint64(p * n + r)] -= v
            g[row + np.uint64(q)] -= v


@njit(cache=True)
def _run(i: int, n: int, pairs: int, width: int, mirror: int) -> tuple[int, int, int, int]:
    # The ids from i on that share p and q: their first r, counted without q, and their number.
    q = i // pairs
    row = (i - q * pairs) // width
    c = i - q * pairs - row * width
    head = n - 2 - row
    p = row if c < head else mirror - row
    r = p + 1 + (c if c < head else c - head)
    return p + (p >= q), q, r, head - c if c < head else width - c


@njit(cache=True)
def triangle_sweep(W: Array, start: int, stop: int) -> Array:
    n = W.shape[0]
    pairs, width, mirror = _fold(n)
    out = np.empty(stop - start, W.dtype)
    i = start
    while i < stop:
        p, q, r, length = _run(i, n, pairs, width, mirror)
        length = min(length, stop - i)
        base, row_p, row_q = W[q, p] - W[q, q], W[p], W[q]
        at = i - start - r
        split = max(r, min(q, r + length))  # the vertex q is left out: two plain loops vectorise
        for s in range(r, split):
            out[at + s] = base + row_q[s] - row_p[s]
        for s in range(split, r + length):
            out[at + s] = base + row_q[s + 1] - row_p[s + 1]
        i += length
    return out


@njit(cache=True)
def triangle_add(G: Array, start: int, stop: int, y: Array) -> None:
    n = G.shape[0]
    pairs, width, mirror = _fold(n)
    i = start
    while i < stop:
        p, q, r, length = _run(i, n, pairs, width, mirror)
        length = min(length, stop - i)
        total, row_p, row_q = 0.0, G[p], G[q]
        at = i - start - r
        split = max(r, min(q, r + length))
        for s in range(r, split):
            v = y[at + s]
            total += v
            row_q[s] += v
            row_p[s] -= v
        for s in range(split, r + length):
            v = y[at + s]
            total += v
            row_q[s + 1] += v
            row_p[s + 1] -= v
        G[q, p] += total
        G[q, q] -= total
        i += length


@njit(cache=True, fastmath={"reassoc", "contract"})
def triangle_dual(
    W: Array,
    G: Array,
    y: Array,
    slopes: Array,
    start: int,
    stop: int,
    lower: float,
    upper: float,
    beta: float,
    theta: float,
) -> None:
    n = W.shape[0]
    pairs, width, mirror = _fold(n)
    real = y.dtype.type
    b, t, low, high = real(1 / beta), real(theta), real(lower / beta), real(upper / beta)
    i = start
    while i < stop:
        p, q, r, length = _run(i, n, pairs, width, mirror)
        length = min(length, stop - i)
        base, wp, wq, gp, gq = W[q, p] - W[q, q], W[p], W[q], G[p], G[q]
        total, at = 0.0, i - r
        split = max(r, min(q, r + length))  # as in `triangle_sweep`
        for s in range(r, split):
            old = y[at + s]
            x = old + b * real(base + wq[s] - wp[s])
            g = x - min(max(x, low), high)
            d = g - slopes[at + s]
            slopes[at + s] = g
            y[at + s] = old + t * (g - old)
            total += d
            gq[s] += d
            gp[s] -= d
        for s in range(split, r + length):
            old = y[at + s]
            x = old + b * real(base + wq[s + 1] - wp[s + 1])
            g = x - min(max(x, low), high)
            d = g - slopes[at + s]
            slopes[at + s] = g
            y[at + s] = old + t * (g - old)
            total += d
            gq[s + 1] += d
            gp[s + 1] -= d
        G[q, p] += total
        G[q, q] -= total
        i += length
