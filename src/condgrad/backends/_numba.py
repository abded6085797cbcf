"""Compiled kernels. The only file that imports numba.

Free functions on contiguous arrays; each has a twin of the same name in `_reference`, where the
documentation is. Nothing here checks its input: the maps and tables that call it have.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numba.core import event

from condgrad._types import Array

REORDER = {"reassoc", "contract"}
"""Lets a sum be vectorised; the order of additions is fixed at compile time all the same."""

_compiling = event.TimingListener()
event.register("numba:compiler_lock", _compiling)  # held to compile and to load from the cache


def compile_seconds() -> float:
    """Seconds spent compiling in this process so far."""
    return float(_compiling.duration) if _compiling.done else 0.0


@njit(cache=True)
def fresh(ids: Array, seen: Array, out: Array, count: int) -> int:
    for i in ids:
        word, bit = i >> 6, np.uint64(1) << np.uint64(i & 63)
        if seen[word] & bit == 0:
            seen[word] |= bit
            out[count] = i
            count += 1
            if count == out.size:
                break
    return count


@njit(cache=True)
def forget(ids: Array, seen: Array) -> None:
    for i in ids:
        seen[i >> 6] = 0


@njit(cache=True)
def take(x: Array, index: Array) -> Array:
    out = np.empty(index.size, x.dtype)
    for i in range(index.size):
        out[i] = x[index[i]]
    return out


@njit(cache=True)
def add_at(x: Array, index: Array, y: Array) -> None:
    for i in range(index.size):
        x[index[i]] += y[i]


@njit(cache=True)
def axpy(out: Array, weight: float, y: Array) -> None:
    w = y.dtype.type(weight)
    for i in range(y.size):
        out[i] += w * y[i]


@njit(cache=True)
def axpy_at(out: Array, index: Array, weight: float, y: Array) -> None:
    w = y.dtype.type(weight)
    for i in range(y.size):
        out[index[i]] += w * y[i]


@njit(cache=True)
def interval_slope(z: Array, lower: float, upper: float, beta: float, out: Array) -> None:
    low, high, b = z.dtype.type(lower), z.dtype.type(upper), z.dtype.type(beta)
    for i in range(z.size):
        x = z[i]
        out[i] = (x - (low if x < low else high if x > high else x)) / b


@njit(cache=True)
def absolute_slope(z: Array, target: float, scale: float, beta: float, out: Array) -> None:
    t, s, b = z.dtype.type(target), z.dtype.type(scale), z.dtype.type(beta)
    for i in range(z.size):
        r = (z[i] - t) / b
        out[i] = -s if r < -s else s if r > s else r


@njit(cache=True)
def table_swap(table: Array, ids: Array, new: Array) -> Array:
    delta = np.empty(new.size, new.dtype)
    for i in range(ids.size):
        old = table[ids[i]]
        table[ids[i]] = new[i]
        delta[i] = table[ids[i]]
        delta[i] -= old
    return delta


@njit(cache=True)
def _slot(keys: Array, i: int) -> int:
    mask = keys.size - 1
    h = np.uint64(i) * np.uint64(0x9E3779B97F4A7C15)
    j = np.int64(h >> np.uint64(20)) & mask
    while keys[j] != i and keys[j] != -1:
        j = (j + 1) & mask
    return j


@njit(cache=True)
def hash_swap(keys: Array, values: Array, ids: Array, new: Array) -> tuple[Array, int]:
    delta = np.empty(new.size, new.dtype)
    inserted = 0
    for i in range(ids.size):
        j = _slot(keys, ids[i])
        if keys[j] == -1:
            if new[i] == 0:
                delta[i] = 0
                continue
            keys[j] = ids[i]
            values[j] = 0
            inserted += 1
        old = values[j]
        values[j] = new[i]
        delta[i] = values[j]
        delta[i] -= old
    return delta, inserted


@njit(cache=True)
def hash_grow(keys: Array, values: Array, capacity: int) -> tuple[Array, Array]:
    new_keys = np.full(capacity, -1, np.int64)
    new_values = np.zeros(capacity, values.dtype)
    for i in range(keys.size):
        if keys[i] != -1:
            j = _slot(new_keys, keys[i])
            new_keys[j] = keys[i]
            new_values[j] = values[i]
    return new_keys, new_values


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


@njit(cache=True)
def csr_gather(indptr: Array, indices: Array, data: Array, x: Array, ids: Array) -> Array:
    out = np.empty(ids.size, x.dtype)
    for i in range(ids.size):
        total = 0.0
        for j in range(indptr[ids[i]], indptr[ids[i] + 1]):
            total += data[j] * x[indices[j]]
        out[i] = total
    return out


@njit(cache=True)
def csr_scatter(G: Array, indptr: Array, indices: Array, data: Array, ids: Array, y: Array) -> None:
    for i in range(ids.size):
        if y[i] != 0:
            for j in range(indptr[ids[i]], indptr[ids[i] + 1]):
                G[indices[j]] += data[j] * y[i]


@njit(cache=True, fastmath=REORDER)
def dense_gather(X: Array, x: Array, ids: Array) -> Array:
    out = np.empty(ids.size, x.dtype)
    for i in range(ids.size):
        row = X[ids[i]]
        total = 0.0
        for j in range(x.size):
            total += row[j] * x[j]
        out[i] = total
    return out


@njit(cache=True)
def dense_scatter(G: Array, X: Array, ids: Array, y: Array) -> None:
    for i in range(ids.size):
        row = X[ids[i]]
        for j in range(G.size):
            G[j] += row[j] * y[i]


@njit(cache=True, fastmath=REORDER)
def row_gather(W: Array, ids: Array) -> Array:
    out = np.empty(ids.size, W.dtype)
    for i in range(ids.size):
        total = 0.0
        for j in range(W.shape[1]):
            total += W[ids[i], j]
        out[i] = total
    return out


@njit(cache=True)
def rank_one_step(W: Array, keep: float, c: float, u: Array, v: Array) -> None:
    k, s = W.dtype.type(keep), W.dtype.type(c)
    for i in range(W.shape[0]):
        a = s * u[i]
        row = W[i]
        for j in range(v.size):
            row[j] = k * row[j] + a * v[j]


@njit(cache=True)
def symmetrise(V: Array) -> None:
    n = V.shape[0]
    tile = 32
    for I in range(0, n, tile):
        for J in range(I, n, tile):
            for i in range(I, min(I + tile, n)):
                for j in range(max(J, i + 1), min(J + tile, n)):
                    mean = 0.5 * (V[i, j] + V[j, i])
                    V[i, j] = mean
                    V[j, i] = mean


@njit(cache=True)
def gram_product(V: Array, x: Array) -> Array:
    r = np.zeros(x.size, V.dtype)
    for i in range(0, V.shape[0], 64):  # a block is still in the cache when it is needed again
        block = V[i : i + 64]
        r += np.dot(np.dot(block, x), block)
    return r


@njit(cache=True)
def lanczos(
    V: Array, gram: bool, start: Array, steps: int, eps: float, enough: float = 0.0
) -> tuple[Array, float, float, float, int]:
    n = start.size
    steps = min(steps, n)
    Q = np.empty((steps, n), V.dtype)
    T = np.zeros((steps, steps))
    q = (start / np.sqrt(np.dot(start, start))).astype(V.dtype)
    before, scale, m, b = 0.0, 0.0, steps, 0.0
    look = 4 if V.size >= 16_000 else 8
    for j in range(steps):
        Q[j] = q
        r = -gram_product(V, q) if gram else np.dot(V, q)
        a = np.dot(q, r)
        basis = Q[: j + 1]
        r = r - np.dot(np.dot(basis, r), basis)
        r = r - np.dot(np.dot(basis, r), basis)
        b = np.sqrt(np.dot(r, r))
        T[j, j] = a
        scale = max(scale, abs(a) + b + before)
        if b <= 10.0 * eps * np.sqrt(n) * scale or j + 1 == steps:
            m = j + 1
            break
        if enough > 0 and j + 1 == look:
            ritz, S = np.linalg.eigh(np.ascontiguousarray(T[: j + 1, : j + 1]))
            if b * abs(S[j, 0]) <= enough * abs(ritz[0]):
                m = j + 1
                break
            look += 1 if V.size >= 1000 * look**2 else look
        T[j, j + 1] = b
        T[j + 1, j] = b
        before = b
        q = (r / b).astype(V.dtype)
    ritz, S = np.linalg.eigh(np.ascontiguousarray(T[:m, :m]))
    x = np.dot(np.ascontiguousarray(S[:, 0]).astype(V.dtype), Q[:m])
    x = (x / np.sqrt(np.dot(x, x))).astype(V.dtype)
    if enough > 0:  # the projection knows value and residual well enough for a rough answer
        return x, ritz[0], b * abs(S[m - 1, 0]), scale, m
    r = -gram_product(V, x) if gram else np.dot(V, x)
    value = np.dot(x, r)
    r = (r - value * x).astype(V.dtype)
    return x, value, np.sqrt(np.dot(r, r)), scale, m + 1
