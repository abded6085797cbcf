"""Compiled kernels of the spectral oracles; `_numba` re-exports them."""

from __future__ import annotations

import numpy as np

from condgrad._types import Array
from condgrad.backends._numba_cache import njit


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
