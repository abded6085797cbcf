"""Better clusterings from one at hand: starts, Lloyd's method and moves of single points.

Points may have weights a; `None` stands for 1 each. The value of a clustering is
Σ_S (1/a(S)) Σ_{i,j∈S} a_i a_j C_ij, and everything here works on the squared distances C alone.
"""

from __future__ import annotations

import time

import numpy as np

from condgrad._types import Array
from condgrad.backends.arrays import diagonal, foreign, host, namespace, slabs

LIMIT = 100
"""The most steps of Lloyd's method; Hartigan's finishes what is left."""
MANY = 2000
"""Points from which single ones are moved on a GPU where their distances lie there."""
SLACK = 1e-12
"""A step must lower the value by more than this share: less is rounding."""


def members(labels: Array, k: int, weights: Array | None = None) -> Array:
    """Indicators of the clusters, one per column, times the weights."""
    Z = np.asarray(labels[:, None] == np.arange(k), dtype=np.float64)
    return Z if weights is None else Z * weights[:, None]


def product(C: Array, Z: Array) -> Array:
    """C Z in an array of NumPy, wherever C lies."""
    return host(C @ np.asarray(Z, like=C))


class Denoised:
    """Denoised distances on a GPU, of which few are wanted: a row is computed when it is read.

    Parameters
    ----------
    C : array
        The squared distances.
    W : array
        Rows of weights.
    """

    def __init__(self, C: Array, W: Array) -> None:
        W = np.maximum(W, 0).astype(C.dtype, copy=False)
        diagonal(W)[:] += W.sum(axis=1) == 0
        W /= W.sum(axis=1, keepdims=True)
        self.shape, self._W = W.shape, W
        self._WC = W @ C
        self._own = np.concatenate([(self._WC[s] * W[s]).sum(axis=1) for s in slabs(W)])

    def rows(self, index: Array) -> Array:
        """Some of its rows, in an array of NumPy."""
        at = np.asarray(index, like=self._W)
        far = self._WC[at] @ self._W.T - 0.5 * (self._own[at][:, None] + self._own)
        return host(np.maximum(far, 0))


def _rows(metric: Array | Denoised, index: Array) -> Array:
    """Rows of distances, in an array of NumPy."""
    if isinstance(metric, Denoised):
        return metric.rows(index)
    return host(metric[np.asarray(index, like=metric)])


def _nearest(D: Array) -> Array:
    """The nearest centre of each point; a centre that gets none takes the farthest point left."""
    labels = np.argmin(D, axis=1)
    counts = np.bincount(labels, minlength=D.shape[1])
    for empty in np.nonzero(counts == 0)[0]:
        own = np.where(counts[labels] > 1, D[np.arange(len(D)), labels], -np.inf)
        i = int(np.argmax(own))
        counts[labels[i]] -= 1
        counts[empty] += 1
        labels[i] = empty
    return labels


def seeded(
    C: Array | Denoised, k: int, rng: np.random.Generator, weights: Array | None = None
) -> Array:
    """Greedy k-means++: a centre is the best of a few, drawn by distance to those before.

    Where only copies of the centres are left, a centre is repeated, which `_nearest` mends.
    """
    n, tries = C.shape[0], 2 + int(np.log(k))
    a = np.ones(n) if weights is None else weights
    centres = [int(rng.integers(n))]
    nearest = np.maximum(_rows(C, np.array(centres))[0], 0)
    for _ in range(k - 1):
        odds = (a * nearest).cumsum()
        drawn = np.searchsorted(odds, rng.random(tries) * odds[-1], side="right").clip(max=n - 1)
        reach = np.minimum(nearest, _rows(C, drawn))
        i = int(np.argmin((a * reach).sum(axis=1)))
        centres.append(int(drawn[i]))
        nearest = np.maximum(reach[i], 0)
    if isinstance(C, Denoised):
        return _nearest(np.ascontiguousarray(C.rows(np.array(centres)).T))
    return _nearest(host(C[:, np.asarray(centres, like=C)]))


def lloyd(C: Array, labels: Array, k: int, weights: Array | None = None) -> Array:
    """Send points to the nearest mean, while that lowers the value.

    The squared distance of point i to the mean of S is mean_{j∈S} C_ij − ½ mean_{j,l∈S} C_jl, both
    by weights.
    """
    best, lowest = labels, np.inf
    for _ in range(LIMIT):
        Z = members(labels, k, weights)
        size = Z.sum(axis=0)
        means = product(C, Z) / size
        spread = np.sum(Z * means, axis=0)
        value = float(spread.sum())
        if value >= lowest or lowest - value <= SLACK * abs(value):
            break
        best, lowest = labels, value
        labels = _nearest(means - 0.5 * spread / size)
    return best


def hartigan(
    C: Array, labels: Array, k: int, end: float = np.inf, weights: Array | None = None
) -> Array:
    """Move the single point that lowers the value most, until none does, or the time is up.

    With sums T_S = Σ_{i,j∈S} a_i a_j C_ij and t_iS = Σ_{j∈S} a_j C_ij, point i leaves a cluster of
    T and a(S) behind with (T − 2 a_i t_iS + a_i² C_ii)/(a(S) − a_i) and makes one
    (T + 2 a_i t_iS + a_i² C_ii)/(a(S) + a_i).
    """
    labels, points = labels.copy(), np.arange(len(labels))
    Z = members(labels, k, weights)
    sums, size = product(C, Z), Z.sum(axis=0)
    slack = SLACK * float(np.sum(Z * np.abs(sums), axis=0) @ (1 / size))
    if foreign(C) and labels.size > MANY:
        return _moved(C, labels, np.asarray(sums, like=C), size, slack, weights)
    a = np.ones(len(labels)) if weights is None else weights
    own, counts = a**2 * host(np.diag(C)), np.bincount(labels, minlength=k)
    while True:
        total = np.bincount(labels, a * sums[points, labels], k)
        into, weight = 2 * a[:, None] * sums, a[:, None]
        joined = (total + into + own[:, None]) / (size + weight) - total / size
        here, left = a * sums[points, labels], size[labels] - a
        alone = counts[labels] == 1
        without = (total[labels] - 2 * here + own) / np.where(alone, 1.0, left)
        leaving = np.where(alone, np.inf, without - total[labels] / size[labels])
        change = joined + leaving[:, None]
        change[points, labels] = np.inf
        i, target = divmod(int(np.argmin(change)), k)
        if not change[i, target] < -slack or time.perf_counter() > end:
            return labels
        source = labels[i]
        row = a[i] * host(C[i])
        sums[:, source] -= row
        sums[:, target] += row
        size[source] -= a[i]
        size[target] += a[i]
        counts[source] -= 1
        counts[target] += 1
        labels[i] = target


def _moved(
    C: Array, labels: Array, sums: Array, size: Array, slack: float, weights: Array | None
) -> Array:
    """The moves of `hartigan` on a GPU, from where a few numbers come for each.

    T_S is changed by what a move does to it: summed anew by labels, it would depend on the order in
    which a GPU adds.
    """
    xp, (n, k) = namespace(C), sums.shape
    mine = np.ones(n) if weights is None else weights
    a, counts = np.asarray(mine, like=C), np.bincount(labels, minlength=k)
    own, points = a**2 * diagonal(C), xp.arange(n)
    here = np.asarray(labels, like=C)
    member = (here[:, None] == xp.arange(k)).astype(np.float64)
    total = host((member * (a[:, None] * sums)).sum(axis=0))
    for _ in range(10 * n):
        told = np.asarray(np.stack([total, size, total / size, counts]), like=C)
        T, weight, mean, count = told
        joined = (T + 2 * a[:, None] * sums + own[:, None]) / (weight + a[:, None]) - mean
        inside, left, alone = a * sums[points, here], weight[here] - a, count[here] == 1
        without = (T[here] - 2 * inside + own) / np.where(alone, 1.0, left)
        leaving = np.where(alone, np.inf, without - mean[here])
        change = joined + leaving[:, None]
        change[points, here] = np.inf
        i, target = divmod(int(np.argmin(change)), k)
        source = int(labels[i])
        if not float(change[i, target]) < -slack:
            break
        out, into, by = (float(x) for x in host(xp.stack([*sums[i][[source, target]], own[i]])))
        total[source] += by - 2 * mine[i] * out
        total[target] += by + 2 * mine[i] * into
        row = a[i] * C[i]
        sums[:, source] -= row
        sums[:, target] += row
        size[source] -= mine[i]
        size[target] += mine[i]
        counts[source] -= 1
        counts[target] += 1
        labels[i] = here[i] = target
    return labels
