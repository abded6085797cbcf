"""From the matrix to a clustering."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from condgrad import _deadline as deadline
from condgrad._check import numbers
from condgrad._types import Array
from condgrad.applications.graphs import check_size
from condgrad.backends.arrays import diagonal, foreign, host, namespace, slabs
from condgrad.errors import ProblemError
from condgrad.maps.inner import asymmetry

STARTS = 10
"""Random starts from the denoised points, and as many from the points themselves."""
LIMIT = 100
"""The most steps of Lloyd's method; Hartigan's finishes what is left."""
MANY = 2000
"""Points from which single ones are moved on a GPU where their distances lie there."""
NEGATIVE = 1e-10
"""Distances this far below 0, relative to the largest, are rounding."""
DENOISING = 2.5
"""What denoised distances take, in products of matrices."""
SHARE = 0.25
"""The part of the time left that a rounding may take."""
SLACK = 1e-12
"""A step must lower the value by more than this share: less is rounding."""


class Clustering(NamedTuple):
    """A partition of the points, and its value Σ_S (1/|S|) Σ_{i,j∈S} C_ij."""

    labels: Array
    """Cluster of each point, 0 … k − 1 in the order of their first points."""
    value: float


def clustering_matrix(labels: Array, like: Array | None = None) -> Array:
    r"""The point of the relaxation that stands for a clustering.

    .. math:: W = \sum_S \frac{1}{|S|} 1_S 1_S^\top

    It is a projection with W1 = 1, W ≥ 0 and Tr W = k, and ⟨C, W⟩ is `clustering_value`.

    Parameters
    ----------
    labels : array
        Cluster of each point; any values that can be compared.
    like : array, optional
        It is made where this array lies; default: an array of NumPy.

    References
    ----------
    .. [1] J. Peng, Y. Wei, SIAM J. Optim. 18(1), 2007.

    Examples
    --------
    >>> clustering_matrix(np.array([0, 1, 1]))
    array([[1. , 0. , 0. ],
           [0. , 0.5, 0.5],
           [0. , 0.5, 0.5]])
    """
    Z = _members(*_canonical(labels))
    if like is not None:
        Z = np.asarray(Z, like=like)
    W: Array = Z / Z.sum(axis=0) @ Z.T
    return W


def clustering_value(distances: Any, labels: Array) -> float:
    r"""The objective of the relaxation at a clustering.

    .. math:: \sum_S \frac{1}{|S|} \sum_{i,j ∈ S} C_{ij}

    For squared Euclidean distances this is twice Σ_i ‖x_i − mean of its cluster‖².

    Parameters
    ----------
    distances : array
        C, n × n.
    labels : array
        Cluster of each point.

    Examples
    --------
    >>> clustering_value(np.square(np.subtract.outer([0.0, 1.0, 5.0], [0.0, 1.0, 5.0])), [0, 0, 1])
    1.0
    """
    C = squared_distances(distances)
    labels, k = _canonical(labels)
    if labels.size != C.shape[0]:
        raise ProblemError(f"labels names {labels.size} points but distances has {C.shape[0]}")
    return _value(C, labels, k)


def round_clusters(distances: Any, W: Array, k: int, seed: int = 0) -> Clustering:
    r"""The best clustering read off W.

    The solution of the relaxation is a denoiser [1]_: with rows of W as weights, the points
    :math:`\hat x_i = \sum_j W_{ij} x_j` gather around the centres. Where W1 = 1, their squared
    distances follow from C alone,

    .. math:: ‖\hat x_i - \hat x_j‖^2 = B_{ii} + B_{jj} - 2 B_{ij}, \qquad B = -\tfrac12 W C W^\top

    (rows of W are clipped to W ≥ 0 and rescaled to sum 1 first). Ten starts are greedy k-means++
    [2]_ on them, ten more the same on the true distances, for the case that W is poor. From each,
    Lloyd's method and then moves of single points [3]_ lower the value; the lowest wins.

    Parameters
    ----------
    distances : array
        C, the n × n squared Euclidean distances.
    W : array
        Solution of the relaxation; it may be inaccurate.
    k : int
        Number of clusters, 1 ≤ k ≤ n; none of them is empty.
    seed : int, default 0
        Seed of the random starts; the same seed gives the same clustering.

    References
    ----------
    .. [1] D. G. Mixon, S. Villar, R. Ward, "Clustering subgaussian mixtures by semidefinite
       programming", Information and Inference 6(4), 2017 (arXiv:1602.06612).
    .. [2] D. Arthur, S. Vassilvitskii, "k-means++: the advantages of careful seeding", SODA 2007.
    .. [3] J. A. Hartigan, "Clustering Algorithms", Wiley, 1975.

    Examples
    --------
    >>> C = np.square(np.subtract.outer([0.0, 9.0, 1.0, 8.0], [0.0, 9.0, 1.0, 8.0]))
    >>> found = round_clusters(C, np.full((4, 4), 0.25), 2)
    >>> found.labels.tolist(), found.value
    ([0, 1, 0, 1], 2.0)
    """
    C, W = squared_distances(distances), numbers("W", W)
    n = C.shape[0]
    if W.shape != C.shape:
        raise ProblemError(f"W has shape {W.shape}: there are {n} points")
    if isinstance(k, bool) or not isinstance(k, (int, np.integer)) or not 1 <= k <= n:
        raise ProblemError(f"k is {k!r}: it must be an integer between 1 and the {n} points")
    return rounded_clusters(C, W, k, seed)


def rounded_clusters(C: Array, W: Array, k: int, seed: int = 0) -> Clustering:
    """`round_clusters` of arguments that were checked before."""
    rng, n = np.random.default_rng(seed), len(C)
    given: list[Array | Denoised] = [C] * STARTS
    if deadline.fits(deadline.cost(n, DENOISING / SHARE)):
        given = [*[denoised(C, W)] * STARTS, *given]
    return best_start(C, given, k, rng)


def best_start(
    C: Array,
    metrics: Sequence[Array | Denoised],
    k: int,
    rng: np.random.Generator,
    finished: dict[bytes, Clustering] | None = None,
) -> Clustering:
    """The best clustering of those from a random start each, by given distances.

    These and C may lie on a GPU. What Lloyd's method came to before is not finished again: it is
    looked up in `finished`, and added to it. Where time is short it does with fewer of them.
    """
    best: Clustering | None = None
    end = deadline.share(SHARE)
    finished = {} if finished is None else finished
    for metric in metrics:
        if best is not None and time.perf_counter() > end:
            break
        labels = _lloyd(C, _seeded(metric, k, rng), k)
        key = _canonical(labels)[0].astype(np.int32).tobytes()
        if key not in finished:
            labels = _hartigan(C, labels, k, end)
            finished[key] = Clustering(labels, _value(C, labels, k))
        found = finished[key]
        if best is None or found.value < best.value:
            best = found
    assert best is not None
    return Clustering(_canonical(best.labels)[0], best.value)


def squared_distances(distances: Any) -> Array:
    """Check squared distances: symmetric and not negative, each up to rounding."""
    if sp.issparse(distances):
        raise ProblemError("distances is sparse: pass distances.toarray(), zeros are distances too")
    C = numbers("distances", distances)
    if not C.size:
        raise ProblemError("distances is empty: there must be a point")
    check_size("distances", C)
    if objection := asymmetry("distances", C):
        raise ProblemError(objection)
    if (lowest := float(C.min())) < -NEGATIVE * float(C.max()):
        raise ProblemError(
            f"distances has a negative entry, {lowest:.3g}: squared distances are at least 0; pass "
            "distances, not similarities (C - C.min() moves the value of every clustering by the "
            "same amount)"
        )
    return C


def _canonical(labels: Any) -> tuple[Array, int]:
    """Labels 0 … k − 1 in the order of first appearance, and k."""
    labels = np.asarray(labels)
    if labels.ndim != 1 or labels.size == 0:
        raise ProblemError(f"labels has shape {labels.shape}: it must hold one label per point")
    _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[inverse], first.size


def _members(labels: Array, k: int) -> Array:
    """Indicators of the clusters, one per column."""
    return np.asarray(labels[:, None] == np.arange(k), dtype=np.float64)


def _value(C: Array, labels: Array, k: int) -> float:
    Z = _members(labels, k)
    return float(np.sum(Z * _product(C, Z), axis=0) @ (1 / Z.sum(axis=0)))


def _product(C: Array, Z: Array) -> Array:
    """C Z in an array of NumPy, wherever C lies."""
    return host(C @ np.asarray(Z, like=C))


def denoised(C: Array, W: Array) -> Array:
    """Squared distances of the points Σ_j W_ij x_j."""
    W = np.maximum(W, 0)
    diagonal(W)[:] += W.sum(axis=1) == 0
    W /= W.sum(axis=1, keepdims=True)
    B = -0.5 * W @ C @ W.T
    own = np.diag(B)
    return np.maximum(own[:, None] + own - B - B.T, 0)


class Denoised:
    """The same distances on a GPU, of which few are wanted: a row is computed when it is read.

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


def _seeded(C: Array | Denoised, k: int, rng: np.random.Generator) -> Array:
    """Greedy k-means++: a centre is the best of a few, drawn by distance to those before.

    Where only copies of the centres are left, a centre is repeated, which `_nearest` mends.
    """
    n, tries = C.shape[0], 2 + int(np.log(k))
    centres = [int(rng.integers(n))]
    nearest = np.maximum(_rows(C, np.array(centres))[0], 0)
    for _ in range(k - 1):
        odds = nearest.cumsum()
        drawn = np.searchsorted(odds, rng.random(tries) * odds[-1], side="right").clip(max=n - 1)
        reach = np.minimum(nearest, _rows(C, drawn))
        i = int(np.argmin(reach.sum(axis=1)))
        centres.append(int(drawn[i]))
        nearest = np.maximum(reach[i], 0)
    if isinstance(C, Denoised):
        return _nearest(np.ascontiguousarray(C.rows(np.array(centres)).T))
    return _nearest(host(C[:, np.asarray(centres, like=C)]))


def _lloyd(C: Array, labels: Array, k: int) -> Array:
    """Send points to the nearest mean, while that lowers the value.

    The squared distance of point i to the mean of S is mean_{j∈S} C_ij − ½ mean_{j,l∈S} C_jl.
    """
    best, lowest = labels, np.inf
    for _ in range(LIMIT):
        Z = _members(labels, k)
        size = Z.sum(axis=0)
        means = _product(C, Z) / size
        spread = np.sum(Z * means, axis=0)
        value = float(spread.sum())
        if value >= lowest or lowest - value <= SLACK * abs(value):
            break
        best, lowest = labels, value
        labels = _nearest(means - 0.5 * spread / size)
    return best


def _hartigan(C: Array, labels: Array, k: int, end: float = np.inf) -> Array:
    """Move the single point that lowers the value most, until none does, or the time is up.

    With sums T_S = Σ_{i,j∈S} C_ij and t_iS = Σ_{j∈S} C_ij, point i leaves a cluster of T and |S|
    behind with (T − 2 t_iS + C_ii)/(|S| − 1) and makes one (T + 2 t_iS + C_ii)/(|S| + 1).
    """
    labels, points = labels.copy(), np.arange(len(labels))
    Z = _members(labels, k)
    sums, size = _product(C, Z), Z.sum(axis=0)
    slack = SLACK * float(np.sum(Z * np.abs(sums), axis=0) @ (1 / size))
    if foreign(C) and labels.size > MANY:
        return _moved(C, labels, np.asarray(sums, like=C), size, slack)
    own = host(np.diag(C))
    while True:
        total = np.bincount(labels, sums[points, labels], k)
        joined = (total + 2 * sums + own[:, None]) / (size + 1) - total / size
        here, left = sums[points, labels], size[labels] - 1
        without = (total[labels] - 2 * here + own) / np.maximum(left, 1)
        leaving = np.where(left > 0, without - total[labels] / size[labels], np.inf)
        change = joined + leaving[:, None]
        change[points, labels] = np.inf
        i, target = divmod(int(np.argmin(change)), k)
        if not change[i, target] < -slack or time.perf_counter() > end:
            return labels
        source = labels[i]
        row = host(C[i])
        sums[:, source] -= row
        sums[:, target] += row
        size[source] -= 1
        size[target] += 1
        labels[i] = target


def _moved(C: Array, labels: Array, sums: Array, size: Array, slack: float) -> Array:
    """The moves of `_hartigan` on a GPU, from where a few numbers come for each.

    T_S is changed by what a move does to it: summed anew by labels, it would depend on the order in
    which a GPU adds.
    """
    xp, (n, k) = namespace(C), sums.shape
    own, points = diagonal(C).copy(), xp.arange(n)
    here = np.asarray(labels, like=C)
    member = (here[:, None] == xp.arange(k)).astype(np.float64)
    total = host((member * sums).sum(axis=0))
    for _ in range(10 * n):
        told = np.asarray(np.stack([total, size, total / size]), like=C)
        T, count, mean = told
        joined = (T + 2 * sums + own[:, None]) / (count + 1) - mean
        inside, left = sums[points, here], count[here] - 1
        without = (T[here] - 2 * inside + own) / np.maximum(left, 1)
        leaving = np.where(left > 0, without - mean[here], np.inf)
        change = joined + leaving[:, None]
        change[points, here] = np.inf
        i, target = divmod(int(np.argmin(change)), k)
        source = int(labels[i])
        if not float(change[i, target]) < -slack:
            break
        out, into, alone = (float(x) for x in host(xp.stack([*sums[i][[source, target]], own[i]])))
        total[source] += alone - 2 * out
        total[target] += alone + 2 * into
        row = C[i]
        sums[:, source] -= row
        sums[:, target] += row
        size[source] -= 1
        size[target] += 1
        labels[i] = here[i] = target
    return labels
