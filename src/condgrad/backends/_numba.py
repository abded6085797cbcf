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
from condgrad.backends._numba_fused import fused  # noqa: F401
from condgrad.backends._reference import TINY, Eliminated

REORDER = {"reassoc", "contract"}
"""Lets a sum be vectorised; the order of additions is fixed at compile time all the same."""
LARGEST = {"nnan", "nsz"}
"""Lets a maximum be vectorised; G is known to be finite where one is taken."""
SMALLEST = 1e-10
"""W is written out before its factor c falls below this, well within the range of float32."""


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


@njit(cache=True, nogil=True)
def symmetric_part(v: Array, out: Array) -> None:
    n = v.shape[0]
    tile = 32
    half = v.dtype.type(0.5)
    for I in range(0, n, tile):
        for J in range(I, n, tile):
            for i in range(I, min(I + tile, n)):
                for j in range(max(J, i), min(J + tile, n)):
                    mean = half * (v[i, j] + v[j, i])
                    out[i, j] = mean
                    out[j, i] = mean


def descended(W: Array, v: Array, step: float, offset: Array | None, out: Array) -> None:
    symmetric_part(v, out)
    out *= -step
    out += W
    if offset is not None:
        out -= offset


@njit(cache=True, nogil=True)
def gram_product(V: Array, x: Array) -> Array:
    if V.nbytes <= 8 << 20:  # it stays in the last cache as a whole
        return np.dot(np.dot(V, x), V)
    r = np.zeros(x.size, V.dtype)
    for i in range(0, V.shape[0], 64):  # a chunk is still in the cache when it is needed again
        chunk = V[i : i + 64]
        r += np.dot(np.dot(chunk, x), chunk)
    return r


@njit(cache=True, nogil=True)
def _definite(diagonal: Array, off: Array, shift: float) -> bool:
    pivot = diagonal[0] - shift
    for i in range(1, diagonal.size):
        if pivot <= 0:
            return False
        pivot = diagonal[i] - shift - off[i - 1] * off[i - 1] / pivot
    return pivot > 0


@njit(cache=True, nogil=True)
def tridiagonal_lowest(diagonal: Array, off: Array, accuracy: float) -> tuple[float, Array]:
    m = diagonal.size
    low, high, size = diagonal[0], diagonal[0], 0.0
    for i in range(m):
        beside = (abs(off[i - 1]) if i > 0 else 0.0) + (abs(off[i]) if i + 1 < m else 0.0)
        low, high = min(low, diagonal[i] - beside), min(high, diagonal[i])
        size = max(size, abs(diagonal[i]) + beside)
    low -= 1e-16 * size
    while high - low > max(accuracy * max(abs(low), abs(high)), 1e-16 * size):
        middle = 0.5 * (low + high)
        if middle in (low, high):
            break
        if _definite(diagonal, off, middle):
            low = middle
        else:
            high = middle
    # Inverse iteration; the shift lies below all eigenvalues, so no pivoting is needed.
    pivots, s = np.empty(m), np.empty(m)
    for i in range(m):
        pivots[i] = diagonal[i] - low - (off[i - 1] * off[i - 1] / pivots[i - 1] if i > 0 else 0.0)
        pivots[i] = max(pivots[i], 1e-16 * size + 1e-150)
        s[i] = 1.0 if i % 2 == 0 else -1.0
    for _ in range(3):
        for i in range(1, m):
            s[i] -= off[i - 1] / pivots[i - 1] * s[i - 1]
        s[m - 1] /= pivots[m - 1]
        for i in range(m - 2, -1, -1):
            s[i] = (s[i] - off[i] * s[i + 1]) / pivots[i]
        s /= np.sqrt(np.dot(s, s))
    return 0.5 * (low + high), s


@njit(cache=True, nogil=True)
def hidden(diagonal: Array, off: Array, at: float) -> float:
    before, now, total, left = 0.0, 1.0, 1.0, 0.0
    for i in range(diagonal.size):
        before, now = now, ((at - diagonal[i]) * now - left * before) / off[i]
        left = off[i]
        total += now * now
        if not total < 1e100:
            return 0.0
    return 1.0 / total


@njit(cache=True, nogil=True)
def lanczos(
    V: Array,
    gram: bool,
    start: Array,
    Q: Array,
    fixed: int,
    eps: float,
    enough: float = 0.0,
    seen: float = 0.0,
    beyond: float = 0.0,
) -> tuple[Array, float, float, float, int]:
    n = start.size
    steps = min(Q.shape[0], n) - fixed
    diagonal, off = np.empty(steps), np.empty(steps)
    r, part, along = start.astype(V.dtype), np.empty(n, V.dtype), np.empty(Q.shape[0], V.dtype)
    before, scale, m, found, lower = 0.0, 0.0, steps, 0, 0.0
    look = 4 if V.size >= 16_000 else 8
    for _ in range(2 if fixed > 0 else 0):
        np.dot(Q[:fixed], r, along[:fixed])
        np.dot(along[:fixed], Q[:fixed], part)
        r -= part
    r /= np.sqrt(np.dot(r, r))
    for j in range(steps):
        q, count = Q[fixed + j], fixed + j + 1
        q[:] = r
        if gram:
            r[:] = -gram_product(V, q)
        else:
            np.dot(V, q, r)
        a = np.dot(q, r)
        diagonal[j] = a
        for _ in range(2):  # once is not enough beside a large part that should cancel
            np.dot(Q[:count], r, along[:count])
            np.dot(along[:count], Q[:count], part)
            r -= part
        b = np.sqrt(np.dot(r, r))
        scale = max(scale, abs(a) + b + before)
        off[j] = b
        m = j + 1
        if b <= 10.0 * eps * np.sqrt(n) * scale:
            break
        if enough > 0 and m == look:
            value, s = tridiagonal_lowest(diagonal[:m], off[:j], 1e-4)
            if found > 0 and value < lower:
                found = 0
            if found == 0 and b * abs(s[j]) <= enough * abs(value):
                found, lower = m, value - beyond * abs(value)
            if found > 0 and (seen <= 0 or hidden(diagonal[:m], off[:m], lower) < seen):
                break
            look += 1 if V.size >= 1000 * look**2 else look
        before = b
        r /= b
    spent = m
    if found > 0 and tridiagonal_lowest(diagonal[:m], off[: m - 1], 1e-4)[0] >= lower:
        m = found
    value, s = tridiagonal_lowest(diagonal[:m], off[: m - 1], 1e-15)
    x = np.dot(s.astype(V.dtype), Q[fixed : fixed + m])
    x /= np.sqrt(np.dot(x, x))
    if enough > 0:  # the projection knows value and residual well enough for a rough answer
        return x, value, off[m - 1] * abs(s[m - 1]), scale, spent
    r[:] = -gram_product(V, x) if gram else np.dot(V, x)
    value = np.dot(x, r)
    for _ in range(2 if fixed > 0 else 0):
        np.dot(Q[:fixed], r, along[:fixed])
        np.dot(along[:fixed], Q[:fixed], part)
        r -= part
    r -= V.dtype.type(value) * x
    return x, value, np.sqrt(np.dot(r, r)), scale, spent + 1


# Points kept as factors. Rows of the output belong to one thread, so that no sum depends on how
# many there are.


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


# Max-cut made smaller or tighter. A graph that changes is a list of half-edges for each vertex:
# half-edge h goes to to[h] and its twin is h ^ 1. A step takes at least as many edges out as it
# puts in, so that their room is enough.


@njit(cache=True, nogil=True)
def _plus(a: float, b: float, lost: Array) -> float:
    s = a + b
    c = s - a
    lost[0] += abs((a - (s - c)) + (b - c))
    return s


@njit(cache=True, nogil=True)
def _unlink(h: int, head: Array, to: Array, after: Array, before: Array, degree: Array) -> None:
    u, p, q = to[h ^ 1], before[h], after[h]
    degree[u] -= 1
    if p >= 0:
        after[p] = q
    else:
        head[u] = q
    if q >= 0:
        before[q] = p


@njit(cache=True, nogil=True)
def _link(h: int, head: Array, to: Array, after: Array, before: Array, degree: Array) -> None:
    u = to[h ^ 1]
    degree[u] += 1
    before[h], after[h] = -1, head[u]
    if head[u] >= 0:
        before[head[u]] = h
    head[u] = h


@njit(cache=True, nogil=True)
def _grown(x: Array, size: int) -> Array:
    more = np.empty(2 * size, x.dtype)
    more[: x.size] = x
    return more


@njit(cache=True, nogil=True)
def eliminate(indptr: Array, indices: Array, data: Array, most: int) -> Eliminated:
    n, m = indptr.size - 1, indices.size // 2
    head, degree = np.full(n, -1), np.zeros(n, np.int64)
    to, after, before = (
        np.empty(2 * m, np.int64),
        np.empty(2 * m, np.int64),
        np.empty(2 * m, np.int64),
    )
    weight, free, spare = np.empty(m), np.empty(m, np.int64), 0
    e = 0
    for u in range(n):
        for a in range(indptr[u], indptr[u + 1]):
            if indices[a] > u:
                to[2 * e], to[2 * e + 1], weight[e] = indices[a], u, data[a]
                _link(2 * e, head, to, after, before, degree)
                _link(2 * e + 1, head, to, after, before, degree)
                e += 1
    first, second = np.arange(n), np.empty(n, np.int64)
    at_first, at_second, in_first, in_second = 0, 0, n, 0
    waits, later = np.ones(n, np.bool_), np.zeros(n, np.bool_)
    gone, lost = np.zeros(n, np.bool_), np.zeros(1)
    order, starts, constants = np.empty(n, np.int64), np.zeros(n + 1, np.int64), np.empty(n)
    near, weights = np.empty(4 * n + 4, np.int64), np.empty(4 * n + 4)
    at, w, done = np.empty(most + 3, np.int64), np.empty(most + 3), 0
    while in_first + in_second > 0 and done < n - 1:
        early = in_first > 0
        if early:
            u = first[at_first]
            at_first, in_first = (at_first + 1) % n, in_first - 1
            waits[u] = False
        else:
            u = second[at_second]
            at_second, in_second = (at_second + 1) % n, in_second - 1
            later[u] = False
        d = degree[u]
        if gone[u] or d > (most if early else 3):
            continue
        h = head[u]
        for j in range(d):  # by index
            v, x, i = to[h], weight[h >> 1], j
            while i > 0 and at[i - 1] > v:
                at[i], w[i] = at[i - 1], w[i - 1]
                i -= 1
            at[i], w[i] = v, x
            h = after[h]
        top = 0
        for j in range(1, d):
            if abs(w[j]) > abs(w[top]):
                top = j
        so_far, rest = lost[0], 0.0
        for j in range(d):
            if j != top:
                rest = _plus(rest, abs(w[j]), lost)
        ruled = d == 0 or abs(w[top]) >= rest
        if not ruled and (early or d != 3):
            lost[0] = so_far
            if d == 3 and not later[u]:
                later[u] = True
                second[(at_second + in_second) % n] = u
                in_second += 1
            continue
        gone[u] = True
        while head[u] >= 0:
            h = head[u]
            _unlink(h, head, to, after, before, degree)
            _unlink(h ^ 1, head, to, after, before, degree)
            free[spare] = h >> 1
            spare += 1
        total = 0.0
        if not ruled or (d > 0 and w[top] > 0):
            for j in range(d):
                total = _plus(total, w[j], lost)
        begin = starts[done]
        if begin + d > near.size:
            near, weights = _grown(near, begin + d), _grown(weights, begin + d)
        near[begin : begin + d], weights[begin : begin + d] = at[:d], w[:d]
        order[done], starts[done + 1] = u, begin + d
        constants[done] = total if ruled else max(0.0, total)
        done += 1
        for k in range(max(d - 1, 0) if ruled else 3):
            if ruled:
                j = k if k < top else k + 1
                a, b, s = at[top], at[j], -w[j] if w[top] > 0 else w[j]
            else:
                i, j = max(k - 1, 0), min(k + 1, 2)
                s = _plus(_plus(abs(w[3 - i - j]), -abs(w[i]), lost), -abs(w[j]), lost)
                if abs(s) < 4 * TINY:
                    lost[0] += TINY
                a, b, s = at[i], at[j], s / 2 if (w[i] > 0) == (w[j] > 0) else -s / 2
            if degree[a] > degree[b]:
                a, b = b, a
            h = head[a]
            while h >= 0 and to[h] != b:
                h = after[h]
            if h >= 0:
                s = _plus(weight[h >> 1], s, lost)
                weight[h >> 1] = s
                if s == 0:
                    _unlink(h, head, to, after, before, degree)
                    _unlink(h ^ 1, head, to, after, before, degree)
                    free[spare] = h >> 1
                    spare += 1
            elif s != 0:
                spare -= 1
                e = free[spare]
                to[2 * e], to[2 * e + 1], weight[e] = b, a, s
                _link(2 * e, head, to, after, before, degree)
                _link(2 * e + 1, head, to, after, before, degree)
        for j in range(d):
            if not waits[at[j]]:
                waits[at[j]] = True
                first[(at_first + in_first) % n] = at[j]
                in_first += 1
    kept = 0
    for u in range(n):
        kept += degree[u]
    ends, left, kept = np.empty((2, kept // 2), np.int64), np.empty(kept // 2), 0
    for u in range(n):
        row, values, count = np.empty(degree[u], np.int64), np.empty(degree[u]), 0
        h = head[u]
        while h >= 0:
            if to[h] > u:
                row[count], values[count] = to[h], weight[h >> 1]
                count += 1
            h = after[h]
        for j in np.argsort(row[:count]):
            ends[0, kept], ends[1, kept], left[kept] = u, row[j], values[j]
            kept += 1
    end = starts[done]
    return Eliminated(order[:done], starts[: done + 1], near[:end], weights[:end], constants[:done],
                      ends, left, lost[0])  # fmt: skip


@njit(cache=True, nogil=True)
def lift_signs(order: Array, starts: Array, near: Array, weights: Array, sign: Array) -> None:
    for k in range(order.size - 1, -1, -1):
        total = 0.0
        for e in range(starts[k], starts[k + 1]):
            total += weights[e] * sign[near[e]]
        sign[order[k]] = -1.0 if total > 0 else 1.0


@njit(cache=True, nogil=True)
def list_triangles(indptr: Array, indices: Array, edges: Array, most: int) -> Array:
    n = indptr.size - 1
    number, count = np.full(n, -1, edges.dtype), 0
    found = np.empty((0, 3), edges.dtype)
    for filling in (False, True):
        if filling:
            found, count = np.empty((count, 3), edges.dtype), 0
        for i in range(n):
            for a in range(indptr[i], indptr[i + 1]):
                number[indices[a]] = edges[a]
            for a in range(indptr[i], indptr[i + 1]):
                j = indices[a]
                for b in range(indptr[j], indptr[j + 1]):
                    if number[indices[b]] >= 0:
                        if filling:
                            found[count, 0], found[count, 1] = edges[a], number[indices[b]]
                            found[count, 2] = edges[b]
                        count += 1
            for a in range(indptr[i], indptr[i + 1]):
                number[indices[a]] = -1
            if count > most:
                return found
    return found


@njit(cache=True, nogil=True)
def triangle_multipliers(
    triangles: Array,
    x: Array,
    multipliers: Array,
    cost: Array,
    rate: float,
    weights: Array,
    cover: Array,
) -> None:
    cover[:] = 0
    for t in range(triangles.shape[0]):
        e, f, g = triangles[t]
        a, b, c = x[e], x[f], x[g]
        step = rate / (cost[e] + cost[f] + cost[g])
        p = max(0.0, multipliers[t, 0] + step * (a + b + c - 2))
        q = max(0.0, multipliers[t, 1] + step * (a - b - c))
        r = max(0.0, multipliers[t, 2] + step * (b - a - c))
        s = max(0.0, multipliers[t, 3] + step * (c - a - b))
        multipliers[t, 0], multipliers[t, 1] = p, q
        multipliers[t, 2], multipliers[t, 3] = r, s
        many = (p > 0) + (q > 0) + (r > 0) + (s > 0)
        if many:
            weights[e] -= p + q - r - s
            weights[f] -= p - q + r - s
            weights[g] -= p - q - r + s
            cover[e] += many
            cover[f] += many
            cover[g] += many


@njit(cache=True, nogil=True, fastmath=REORDER)
def _inverse(A: Array, out: Array) -> None:
    """The inverse of a positive definite matrix, of which the lower half is read and lost."""
    n = A.shape[0]
    for c in range(n):
        pivot = A[c, c]
        for t in range(c):
            pivot -= A[c, t] * A[c, t]
        pivot = np.sqrt(pivot)
        A[c, c] = pivot
        for r in range(c + 1, n):
            s = A[r, c]
            for t in range(c):
                s -= A[r, t] * A[c, t]
            A[r, c] = s / pivot
    for c in range(n):  # the inverse of the Cholesky factor takes its place
        A[c, c] = 1 / A[c, c]
        for r in range(c + 1, n):
            s = 0.0
            for t in range(c, r):
                s -= A[r, t] * A[t, c]
            A[r, c] = s / A[r, r]
    for r in range(n):
        for c in range(r + 1):
            s = 0.0
            for t in range(r, n):
                s += A[t, r] * A[t, c]
            out[r, c] = s
            out[c, r] = s


@njit(cache=True, nogil=True, fastmath=REORDER)
def ridge_rows(
    indptr: Array,
    indices: Array,
    values: Array,
    X: Array,
    M: Array,
    ridge: Array,
    noise: float,
    start: int,
    stop: int,
    out: Array,
    moments: Array,
) -> float:
    n = X.shape[1]
    k = n - 1
    A, B, b, total = np.empty((n, n)), np.empty((n, n)), np.empty(n), 0.0
    for i in range(start, stop):
        A[:] = 0
        b[:] = 0
        for e in range(indptr[i], indptr[i + 1]):
            x, m, y = X[indices[e]], M[indices[e]], values[e]
            for r in range(k):
                b[r] += y * x[r] - m[r, k]
                A[k, r] += x[r]
                for t in range(r + 1):
                    A[r, t] += m[r, t]
            A[k, k] += 1
            b[k] += y - x[k]
            total += y * y - 2 * y * x[k] + m[k, k]
        for r in range(n):
            for t in range(r + 1):
                B[r, t] = A[r, t] / noise
            B[r, r] += ridge[r]
        _inverse(B, moments[i])
        for r in range(n):
            s = 0.0
            for t in range(n):
                s += moments[i, r, t] * b[t]
            out[i, r] = s / noise
        for r in range(n):
            for t in range(n):
                moments[i, r, t] += out[i, r] * out[i, t]
            total -= 2 * out[i, r] * b[r]
            for t in range(r):
                total += 2 * A[r, t] * moments[i, r, t]
            total += A[r, r] * moments[i, r, r]
    return total


# Many iterations of SAG Frank-Wolfe on the rows of a data matrix in one call. Two things make an
# iteration cost about what its rows cost. W is kept as c·w, so that a step is a product of scalars
# and one entry. And the oracle does not read all of G: every chunk of coordinates has an upper
# bound of its scores and the coordinate that last reached it; a chunk is read again only where its
# bound is the largest of all and that coordinate has fallen below it. Dense rows change all of G,
# so there every chunk is read.


@njit(cache=True)
def _slope(loss: int, z: float, data: float, delta: float) -> float:
    if loss == 0:
        return data
    if loss == 1:
        return z - data
    if loss == 2:
        return -data / (1.0 + np.exp(data * z))
    return min(max(z - data, -delta), delta)


@njit(cache=True, inline="always")
def _score(g: float, ball: bool) -> float:
    return abs(g) if ball else -g


@njit(cache=True, fastmath=LARGEST)
def _largest(x: Array) -> float:
    top = x[0]
    for i in range(1, x.size):
        top = max(top, x[i])
    return top


@njit(cache=True, fastmath=LARGEST)
def _best(G: Array, ball: bool) -> float:
    top = _score(G[0], ball)
    for i in range(1, G.size):
        top = max(top, _score(G[i], ball))
    return top


@njit(cache=True)
def _look(G: Array, ball: bool, b: int, shift: int, bound: Array, leader: Array) -> None:
    """Bound and leader of chunk b, read again."""
    start = b << shift
    part = G[start : start + (1 << shift)]
    bound[b] = _best(part, ball)
    i = 0
    while _score(part[i], ball) != bound[b]:
        i += 1
    leader[b] = start + i


@njit(cache=True)
def _oracle(G: Array, ball: bool, shift: int, bound: Array, leader: Array) -> int:
    """The first coordinate of the largest score."""
    while True:
        top, b = _largest(bound), 0
        while bound[b] != top:
            b += 1
        if _score(G[leader[b]], ball) == top:
            return leader[b]
        _look(G, ball, b, shift, bound, leader)


@njit(cache=True, fastmath=REORDER)
def _finite(G: Array, weight: float, most: float) -> bool:
    total = 0.0
    for i in range(G.size):
        total += (weight * G[i]) ** 2
    return total <= most


@njit(cache=True, fastmath=REORDER)
def _dot(row: Array, w: Array) -> float:
    total = 0.0
    for j in range(w.size):
        total += row[j] * w[j]
    return total


@njit(cache=True)
def _add(G: Array, row: Array, change: float) -> None:
    for j in range(G.size):
        G[j] += row[j] * change


@njit(cache=True)
def _write_out(u: Array, c: float, w: Array) -> None:
    for i in range(w.size):
        w[i] = c * u[i] if c != 0 else 0.0


@njit(cache=True)
def vector_sag(
    indptr: Array,
    indices: Array,
    data: Array,
    dense: bool,
    u: Array,
    scale: Array,
    w: Array,
    G: Array,
    table: Array,
    ids: Array,
    eta: Array,
    loss: int,
    target: Array,
    delta: float,
    ball: bool,
    radius: float,
    weight: float,
    most: float,
    done: Array,
) -> None:
    d, shift = w.size, 5
    while (1 << (2 * shift)) < d:
        shift += 1
    large = np.sqrt(most / d) / weight
    bad = False
    for j in range(d):
        bad |= not abs(G[j]) <= large
    if bad and not _finite(G, weight, most):
        return
    chunks = ((d - 1) >> shift) + 1
    bound, leader = np.empty(chunks, G.dtype), np.empty(chunks, np.int64)
    for b in range(chunks):
        _look(G, ball, b, shift, bound, leader)
    c = scale[0]
    for k in range(eta.size):
        for i in ids[k]:
            low, high = indptr[i], indptr[i + 1]
            z = 0.0
            if dense:
                z = _dot(data[low:high], u)
            else:
                for j in range(low, high):
                    z += data[j] * u[indices[j]]
            old = float(table[i])
            table[i] = w.dtype.type(_slope(loss, c * z, target[i], delta))
            change = w.dtype.type(float(table[i]) - old)
            if change == 0:
                continue
            if dense:
                _add(G, data[low:high], change)
                continue
            for j in range(low, high):
                at = indices[j]
                g = G[at] + G.dtype.type(data[j] * change)
                G[at] = g
                bad |= not abs(g) <= large
                score = _score(g, ball)
                b = at >> shift
                if score > bound[b] or (score == bound[b] and at < leader[b]):
                    bound[b] = score
                    leader[b] = at
        if (bad or dense) and not _finite(G, weight, most):
            break
        if dense:
            for b in range(chunks):
                _look(G, ball, b, shift, bound, leader)
        at = _oracle(G, ball, shift, bound, leader)
        c *= 1.0 - eta[k]
        if abs(c) < SMALLEST:
            _write_out(u, c, u)
            c = 1.0
        u[at] += eta[k] * (-radius if ball and G[at] > 0 else radius) / c
        done[0] = k + 1
    scale[0] = c
    _write_out(u, c, w)
