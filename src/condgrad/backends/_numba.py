"""Compiled kernels. Only the files `_numba*` import numba.

Free functions on contiguous arrays; each has a twin of the same name in `_reference`, where the
documentation is. Nothing here checks its input: the maps and tables that call it have.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba.core import event

from condgrad import _progress as progress
from condgrad._types import Array
from condgrad.backends._numba_cache import njit
from condgrad.backends._numba_cuts import flip_sweep, mixing_sweep  # noqa: F401
from condgrad.backends._numba_elimination import (  # noqa: F401
    eliminate,
    lift_signs,
    list_triangles,
    triangle_multipliers,
)
from condgrad.backends._numba_factored import (  # noqa: F401
    pair_dots,
    sparse_dots,
    sparse_times,
)
from condgrad.backends._numba_fused import fused  # noqa: F401
from condgrad.backends._numba_perimeters import (  # noqa: F401
    perimeter_add,
    perimeter_gather,
    perimeter_scatter,
    perimeter_sweep,
)
from condgrad.backends._numba_ratings import ridge_rows  # noqa: F401
from condgrad.backends._numba_spectral import (  # noqa: F401
    descended,
    gram_product,
    hidden,
    lanczos,
    symmetric_part,
    tridiagonal_lowest,
)
from condgrad.backends._numba_triangles import (  # noqa: F401
    triangle_add,
    triangle_gather,
    triangle_scatter,
    triangle_sweep,
)
from condgrad.backends._numba_vector import vector_sag  # noqa: F401

REORDER = {"reassoc", "contract"}
"""Lets a sum be vectorised; the order of additions is fixed at compile time all the same."""


class _Compiling(event.TimingListener):  # type: ignore[misc]  # numba has no types
    """Measures how long compiling takes, and says that it is being done."""

    def on_start(self, event: Any) -> None:
        """The lock is taken."""
        progress.doing("loading kernels, compiled once for this machine", at_once=False)
        super().on_start(event)


_compiling = _Compiling()
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
def fresh_rows(ids: Array, seen: Array, out: Array) -> bool:
    for k in range(ids.shape[0]):
        count = fresh(ids[k], seen, out[k], 0)
        forget(out[k, :count], seen)
        if count < out.shape[1]:
            return False
    return True


@njit(cache=True)
def take(x: Array, index: Array) -> Array:
    out = np.empty(index.size, x.dtype)
    for i in range(index.size):
        out[i] = x[index[i]]
    return out


@njit(cache=True, nogil=True, fastmath=REORDER)
def dot_at(x: Array, index: Array, y: Array) -> float:
    total = 0.0
    for i in range(index.size):
        total += x[index[i]] * y[i]
    return total


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


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True, fastmath=REORDER)
def interval_ascend(z: Array, lower: float, upper: float, beta: float, y: Array, G: Array) -> float:
    real, total = y.dtype.type, 0.0
    b, low, high = real(1 / beta), real(lower / beta), real(upper / beta)
    for i in range(z.size):
        x = y[i] + b * z[i]
        g = x - min(max(x, low), high)
        change = g - y[i]
        G[i] += change
        y[i] = g
        total += np.float64(change) * np.float64(change)
    return total


@njit(cache=True, nogil=True, fastmath=REORDER)
def signed_sums(y: Array) -> tuple[float, float]:
    above, below = 0.0, 0.0
    for i in range(y.size):
        v = np.float64(y[i])
        above += max(v, 0.0)
        below += max(-v, 0.0)
    return above, below


@njit(cache=True, nogil=True, fastmath=REORDER)
def masked_squares(z: Array, slopes: Array) -> float:
    total = 0.0
    for i in range(z.size):
        total += z[i] * z[i] * (slopes[i] != 0)
    return total


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
    new_keys = np.full(capacity, -1, keys.dtype)
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


@njit(cache=True, nogil=True)
def rank_one_step(W: Array, keep: float, c: float, u: Array, v: Array) -> None:
    k, s = W.dtype.type(keep), W.dtype.type(c)
    for i in range(W.shape[0]):
        a = s * u[i]
        row = W[i]
        for j in range(v.size):
            row[j] = k * row[j] + a * v[j]
