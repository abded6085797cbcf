"""Compiled kernels. Only this file and `_numba_triangles` import numba.

Free functions on contiguous arrays; each has a twin of the same name in `_reference`, where the
documentation is. Nothing here checks its input: the maps and tables that call it have.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numba.core import event

from condgrad._types import Array
from condgrad.backends._numba_triangles import (  # noqa: F401
    triangle_add,
    triangle_dual,
    triangle_gather,
    triangle_scatter,
    triangle_sweep,
)

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
def interval_dual(
    z: Array, lower: float, upper: float, beta: float, theta: float, y: Array, slopes: Array
) -> None:
    real = y.dtype.type
    b, t, low, high = real(1 / beta), real(theta), real(lower / beta), real(upper / beta)
    for i in range(z.size):
        x = y[i] + b * z[i]
        g = x - min(max(x, low), high)
        slopes[i] = g
        y[i] += t * (g - y[i])


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
