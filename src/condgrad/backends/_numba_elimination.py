"""Compiled kernels that make max-cut smaller or tighter; `_numba` re-exports them.

A graph that changes is a list of half-edges for each vertex: half-edge h goes to ``to[h]`` and its
twin is h ^ 1. A step takes at least as many edges out as it puts in, so that their room is enough.
"""

from __future__ import annotations

import numpy as np

from condgrad._types import Array
from condgrad.backends._numba_cache import njit
from condgrad.backends._reference_elimination import TINY, Eliminated


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
