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
from condgrad.applications.lloyd import Denoised, hartigan, lloyd, members, product, seeded
from condgrad.backends.arrays import diagonal
from condgrad.errors import ProblemError
from condgrad.maps.inner import asymmetry

STARTS = 10
"""Random starts from the denoised points, and as many from the points themselves."""
NEGATIVE = 1e-10
"""Distances this far below 0, relative to the largest, are rounding."""
DENOISING = 2.5
"""Cost of denoised distances, in products of matrices."""
SHARE = 0.25
"""The part of the time left that a rounding may take."""


class Clustering(NamedTuple):
    """A partition of the points, and its value Σ_S (1/|S|) Σ_{i,j∈S} C_ij."""

    labels: Array
    """Cluster of each point, 0 … k − 1 in the order of their first points."""
    value: float


def clustering_matrix(
    labels: Array, like: Array | None = None, weights: Array | None = None
) -> Array:
    r"""The point of the relaxation that stands for a clustering.

    .. math:: W = \sum_S \frac{1}{|S|} 1_S 1_S^\top

    It is a projection with W1 = 1, W ≥ 0 and Tr W = k, and ⟨C, W⟩ is `clustering_value`. With
    weights a of the points W_ij = √(a_i a_j)/a(S) for i and j in S, W√a = √a, and that value is
    Σ_ij √(a_i a_j) C_ij W_ij.

    Parameters
    ----------
    labels : array
        Cluster of each point; any values that can be compared.
    like : array, optional
        It is made where this array lies; default: an array of NumPy.
    weights : array, optional
        Positive weights of the points; default: 1.

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
    Z = members(*canonical(labels))
    total = Z.sum(axis=0)
    if weights is not None:
        Z, total = Z * np.sqrt(weights)[:, None], Z.T @ weights
    if like is not None:
        Z, total = np.asarray(Z, like=like), np.asarray(total, like=like)
    W: Array = Z / total @ Z.T
    return W


def clustering_value(distances: Any, labels: Array, weights: Array | None = None) -> float:
    r"""The objective of the relaxation at a clustering.

    .. math:: \sum_S \frac{1}{|S|} \sum_{i,j ∈ S} C_{ij}

    For squared Euclidean distances this is twice Σ_i ‖x_i − mean of its cluster‖². With weights a
    it is Σ_S (1/a(S)) Σ_{i,j∈S} a_i a_j C_ij, twice Σ_i a_i ‖x_i − mean of its cluster by weight‖².

    Parameters
    ----------
    distances : array
        C, n × n.
    labels : array
        Cluster of each point.
    weights : array, optional
        Positive weights of the points; default: 1.

    Examples
    --------
    >>> clustering_value(np.square(np.subtract.outer([0.0, 1.0, 5.0], [0.0, 1.0, 5.0])), [0, 0, 1])
    1.0
    """
    C = squared_distances(distances)
    labels, k = canonical(labels)
    if labels.size != C.shape[0]:
        raise ProblemError(f"labels names {labels.size} points but distances has {C.shape[0]}")
    return _value(C, labels, k, weights_of_points(weights, labels.size))


def round_clusters(
    distances: Any, W: Array, k: int, seed: int = 0, weights: Array | None = None
) -> Clustering:
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
    weights : array, optional
        Positive weights of the points, W being a solution of the relaxation for these; default: 1.

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
    return rounded_clusters(C, W, k, seed, weights_of_points(weights, n))


def weights_of_points(weights: Any, n: int) -> Array | None:
    """Check weights of points, None where all are the same."""
    if weights is None:
        return None
    a = numbers("weights", weights)
    if a.shape != (n,) or not (a > 0).all():
        raise ProblemError(f"weights must be {n} positive numbers, one for each point")
    return a


def rounded_clusters(
    C: Array, W: Array, k: int, seed: int = 0, weights: Array | None = None
) -> Clustering:
    """`round_clusters` of arguments that were checked before."""
    rng, n = np.random.default_rng(seed), len(C)
    given: list[Array | Denoised] = [C] * STARTS
    if deadline.fits(deadline.cost(n, DENOISING / SHARE)):
        near = denoised(C, W if weights is None else W * np.sqrt(weights))
        given = [*[near] * STARTS, *given]
    return best_start(C, given, k, rng, weights=weights)


def best_start(
    C: Array,
    metrics: Sequence[Array | Denoised],
    k: int,
    rng: np.random.Generator,
    finished: dict[bytes, Clustering] | None = None,
    weights: Array | None = None,
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
        labels = lloyd(C, seeded(metric, k, rng, weights), k, weights)
        key = canonical(labels)[0].astype(np.int32).tobytes()
        if key not in finished:
            labels = hartigan(C, labels, k, end, weights)
            finished[key] = Clustering(labels, _value(C, labels, k, weights))
        found = finished[key]
        if best is None or found.value < best.value:
            best = found
    assert best is not None
    return Clustering(canonical(best.labels)[0], best.value)


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


def canonical(labels: Any) -> tuple[Array, int]:
    """Labels 0 … k − 1 in the order of first appearance, and k."""
    labels = np.asarray(labels)
    if labels.ndim != 1 or labels.size == 0:
        raise ProblemError(f"labels has shape {labels.shape}: it must hold one label per point")
    _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[inverse], first.size


def _value(C: Array, labels: Array, k: int, weights: Array | None = None) -> float:
    Z = members(labels, k, weights)
    return float(np.sum(Z * product(C, Z), axis=0) @ (1 / Z.sum(axis=0)))


def denoised(C: Array, W: Array) -> Array:
    """Squared distances of the points Σ_j W_ij x_j."""
    W = np.maximum(W, 0)
    diagonal(W)[:] += W.sum(axis=1) == 0
    W /= W.sum(axis=1, keepdims=True)
    B = -0.5 * W @ C @ W.T
    own = np.diag(B)
    return np.maximum(own[:, None] + own - B - B.T, 0)
