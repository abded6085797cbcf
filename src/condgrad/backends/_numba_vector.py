"""Compiled: many iterations of SAG Frank-Wolfe on the rows of a data matrix in one call.

The slow, obvious twin is in `_reference_vector`, where the documentation is. Two things make an
iteration cost about what its rows cost. W is kept as c·w, so that a step is a product of scalars
and one entry. And the oracle does not read all of G: every chunk of coordinates has an upper bound
of its scores and the coordinate that last reached it; a chunk is read again only where its bound is
the largest of all and that coordinate has fallen below it. Dense rows change all of G, so there
every chunk is read.
"""

from __future__ import annotations

import numpy as np

from condgrad._types import Array
from condgrad.backends._numba_cache import njit

REORDER = {"reassoc", "contract"}
"""Lets a sum be vectorised; the order of additions is fixed at compile time all the same."""
LARGEST = {"nnan", "nsz"}
"""Lets a maximum be vectorised; G is known to be finite where one is taken."""
TINY = 1e-10
"""W is written out before its factor c falls below this, well within the range of float32."""


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
        if abs(c) < TINY:
            _write_out(u, c, u)
            c = 1.0
        u[at] += eta[k] * (-radius if ball and G[at] > 0 else radius) / c
        done[0] = k + 1
    scale[0] = c
    _write_out(u, c, w)
