"""Compiled kernels of the triangle map; `_numba` re-exports them."""

from __future__ import annotations

import numpy as np

from condgrad._types import Array
from condgrad.backends._numba_cache import njit


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


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True)
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


@njit(cache=True, inline="always")
def _place(i: int, pairs: int, width: int) -> tuple[int, int, int]:
    q = i // pairs
    row = (i - q * pairs) // width
    return q, row, i - q * pairs - row * width


@njit(cache=True, inline="always")
def _run(n: int, q: int, row: int, c: int, width: int, mirror: int) -> tuple[int, int, int]:
    # The rows from here on that share p and q: p, their first r counted without q, their number.
    head = n - 2 - row
    p = row if c < head else mirror - row
    r = p + 1 + (c if c < head else c - head)
    return p + (p >= q), r, head - c if c < head else width - c


@njit(cache=True, inline="always")
def _advance(q: int, row: int, c: int, pairs: int, width: int) -> tuple[int, int, int]:
    if c < width:
        return q, row, c
    if (row + 1) * width < pairs:
        return q, row + 1, 0
    return q + 1, 0, 0


# The vertex q is left out of a run, so that there are two loops, before q and after it. Offsets are
# unsigned, which spares a test for negative indices in the loops and lets them vectorise.


@njit(cache=True, nogil=True)
def triangle_sweep(W: Array, start: int, stop: int, out: Array) -> None:
    n = W.shape[0]
    pairs, width, mirror = _fold(n)
    w, i = W.reshape(-1), start
    q, row, c = _place(start, pairs, width)
    while i < stop:
        p, r, length = _run(n, q, row, c, width, mirror)
        length = min(length, stop - i)
        before = max(0, min(q - r, length))
        base = W[q, p] - W[q, q]
        at, wq, wp = np.uint64(i - start), np.uint64(q * n + r), np.uint64(p * n + r)
        for s in range(np.uint64(before)):
            out[at + s] = base + w[wq + s] - w[wp + s]
        skip = np.uint64(before + 1)
        at, wq, wp = at + np.uint64(before), wq + skip, wp + skip
        for s in range(np.uint64(length - before)):
            out[at + s] = base + w[wq + s] - w[wp + s]
        i += length
        q, row, c = _advance(q, row, c + length, pairs, width)


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def triangle_add(G: Array, start: int, stop: int, y: Array) -> None:
    n = G.shape[0]
    pairs, width, mirror = _fold(n)
    g, i = G.reshape(-1), start
    q, row, c = _place(start, pairs, width)
    while i < stop:
        p, r, length = _run(n, q, row, c, width, mirror)
        length = min(length, stop - i)
        before = max(0, min(q - r, length))
        total = 0.0
        at, gq, gp = np.uint64(i - start), np.uint64(q * n + r), np.uint64(p * n + r)
        for s in range(np.uint64(before)):
            v = y[at + s]
            total += v
            g[gq + s] += v
            g[gp + s] -= v
        skip = np.uint64(before + 1)
        at, gq, gp = at + np.uint64(before), gq + skip, gp + skip
        for s in range(np.uint64(length - before)):
            v = y[at + s]
            total += v
            g[gq + s] += v
            g[gp + s] -= v
        G[q, p] += total
        G[q, q] -= total
        i += length
        q, row, c = _advance(q, row, c + length, pairs, width)
