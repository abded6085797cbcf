"""k-means with a proof of how far the clustering is from the best possible one."""

from __future__ import annotations

import time
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    ClusterMixin,
    TransformerMixin,
)
from sklearn.utils import check_array
from sklearn.utils.validation import check_is_fitted, validate_data

from condgrad import _progress as progress
from condgrad._deadline import limited, within
from condgrad._types import Array
from condgrad.applications import Rounded, clustering_matrix, clustering_value
from condgrad.sklearn._certification import Certification
from condgrad.sklearn._checks import checked, partition, pass_on, say_early
from condgrad.sklearn._kmeans import (
    Points,
    centres,
    certified,
    count_of,
    ends_of,
    points_of,
    rounded,
    run_for,
    weights_given,
)

BETTER = 1e-9
"""A clustering is better where its inertia is lower by more than this share: rounding is less."""


@limited
def certify(
    X: Any,
    labels: Any,
    *,
    sample_weight: Any = None,
    gap: float = 1e-2,
    max_iter: int | None = None,
    max_seconds: float | None = None,
    random_state: Any = 0,
    device: str = "cpu",
    tight: bool = False,
    verbose: bool | int = False,
) -> Certification:
    r"""Prove how far a clustering, whoever found it, is from the best one with as many clusters.

    .. math:: \min_{S_1, …, S_k} \sum_j \sum_{i ∈ S_j} ‖x_i - \bar x_{S_j}‖^2
              \;≥\; \tfrac12 \min \{⟨C, W⟩ : W ⪰ 0,\, W ≥ 0,\, W1 = 1,\, \mathrm{Tr}\, W = k\}

    with C the squared distances [1]_. The bound holds for every partition into at most k clusters,
    k the number of different labels, because splitting a cluster never raises the inertia. The run
    ends once the clustering is proved to be within `gap`, or once the relaxation is solved to a
    tenth of it. Where the gap is not proved, a better clustering is looked for in the relaxation:
    `better` has its labels. What is missing then is due to the labels as far as that one is lower,
    and for the rest to the relaxation, which can be below the best clustering.

    Parameters
    ----------
    X : array-like of shape (n, d)
        The points, dense.
    labels : array-like of shape (n,)
        The cluster of each point: integers, strings, anything that can be compared. −1 is refused,
        because clusterers use it for points that they leave out.
    sample_weight : array-like of shape (n,), optional
        Weights of the points, not negative: the inertia is Σ_i w_i ‖x_i − mean of its cluster‖²,
        the means by weight too. Points of weight 0 do not count. Default: 1.
    gap : float, default 0.01
        The relative gap to prove.
    max_iter : int, optional
        The most iterations. Default: 10,000, or no limit if `max_seconds` is given.
    max_seconds : float, optional
        The most seconds, all in all, as in `condgrad.solve`.
    random_state : int, RandomState instance or None, default 0
        Seed of the solver.
    device : {"cpu", "cuda", "auto"}
        Where the relaxation is solved, as for `condgrad.solve`.
    tight : bool, default False
        Add the inequalities W_ij + W_jk ≤ W_jj + W_ik of all triples to the relaxation: a better
        bound where clusters overlap, in many times the time; some hundreds of points.
    verbose : bool or int, default False
        Show inertia, bound and gap while it runs, as for `condgrad.solve`.

    Raises
    ------
    ProblemError
        Where the labels are no partition of X, or n × n matrices do not fit into the memory.

    References
    ----------
    .. [1] J. Peng, Y. Wei, "Approximating k-means-type clustering via semidefinite programming",
       SIAM J. Optim. 18(1), 2007.

    Examples
    --------
    >>> found = certify([[0.0], [1.0], [9.0], [10.0]], ["a", "a", "b", "b"])
    >>> found.inertia, found.gap < 0.01
    (1.0, True)
    """
    since = time.perf_counter()
    ends = ends_of(gap, max_iter, max_seconds, random_state, device, tight)
    X = checked(check_array, X, dtype=np.float64)
    labels = partition(labels, len(X))
    k = int(labels.max()) + 1
    points = points_of(X, sample_weight)
    own_labels, a = labels[points.used], points.weights
    with progress.shown(verbose, max_iter=ends.max_iter, max_seconds=max_seconds):
        value = clustering_value(points.C, own_labels, a)
        own = Rounded(value, clustering_matrix(own_labels, weights=a), own_labels)
        _, result = run_for(points, k, lambda W: own, ends)
        proof = certified(points, labels, k, own, result, ends.gap, since)
        if result is None or proof.gap <= ends.gap:
            return proof
        progress.doing("looking for a better clustering")
        found = rounded(points, k, ends.seed, result.W)
        if found.value < own.value * (1 - BETTER):
            lower = 0.5 * points.unit * found.value
            better = _labelled(X, points, found.answer, centres(points, found.answer, k))
            proof = replace(proof, better=better, better_inertia=lower)
    return replace(proof, seconds=time.perf_counter() - since)


class SDPKMeans(
    ClassNamePrefixFeaturesOutMixin,  # type: ignore[misc]  # scikit-learn has no types
    TransformerMixin,  # type: ignore[misc]
    ClusterMixin,  # type: ignore[misc]
    BaseEstimator,  # type: ignore[misc]
):
    r"""k-means by its semidefinite relaxation, with a proven bound on the best clustering.

    The relaxation of Peng and Wei [1]_ is solved, clusterings are read off its iterates as by
    Mixon, Villar and Ward [2]_ and improved by the methods of Lloyd and Hartigan; the best one is
    kept. The bound holds for every partition into at most `n_clusters` clusters; `certify` has the
    formula. Time and memory grow with n²: some thousands of points, no more.

    Parameters
    ----------
    n_clusters : int, default 8
        k, between 1 and the number of points.
    gap : float, default 0.01
        The run ends once the clustering is proved to be within this of the best one, relatively,
        or once the relaxation is solved to a tenth of it.
    max_iter : int, optional
        The most iterations. Default: 10,000, or no limit if `max_seconds` is given.
    max_seconds : float, optional
        The most seconds, all in all, as in `condgrad.solve`.
    random_state : int, RandomState instance or None, default None
        Seed of the solver and of the starts of the rounding.
    device : {"cpu", "cuda", "auto"}
        Where the relaxation is solved, as for `condgrad.solve`.
    tight : bool, default False
        Add the inequalities W_ij + W_jk ≤ W_jj + W_ik of all triples to the relaxation: a better
        bound where clusters overlap, in many times the time; some hundreds of points.
    verbose : bool or int, default 0
        Show inertia, bound and gap of the fit while it runs, as for `condgrad.solve`.

    Attributes
    ----------
    labels_ : array of shape (n,)
        Cluster of each point, numbered by their first points; none is empty.
    cluster_centers_ : array of shape (n_clusters, d)
        Their means.
    inertia_ : float
        Σ_i ‖x_i − its centre‖², as of ``sklearn.cluster.KMeans``.
    lower_bound_ : float
        No partition of X into at most `n_clusters` clusters has a smaller inertia.
    optimality_gap_ : float
        (inertia_ − lower_bound_)/inertia_, 0 where the inertia is 0.
    certificate_ : Certification
        The same with how it is known; print it.
    result_ : Result or None
        The run on the relaxation, whose objective is twice the inertia; None where the best
        inertia is known: one cluster, or no more different points than clusters.
    n_iter_ : int
        Its iterations.
    n_features_in_ : int
        d.

    References
    ----------
    .. [1] J. Peng, Y. Wei, "Approximating k-means-type clustering via semidefinite programming",
       SIAM J. Optim. 18(1), 2007.
    .. [2] D. G. Mixon, S. Villar, R. Ward, "Clustering subgaussian mixtures by semidefinite
       programming", Information and Inference 6(4), 2017 (arXiv:1602.06612).

    Examples
    --------
    >>> model = SDPKMeans(2, random_state=0).fit([[0.0], [9.0], [1.0], [10.0]])
    >>> model.labels_.tolist(), model.inertia_, model.optimality_gap_ < 0.01
    ([0, 1, 0, 1], 1.0, True)
    """

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        gap: float = 1e-2,
        max_iter: int | None = None,
        max_seconds: float | None = None,
        random_state: Any = None,
        device: str = "cpu",
        tight: bool = False,
        verbose: bool | int = 0,
    ) -> None:
        self.n_clusters = n_clusters
        self.gap = gap
        self.max_iter = max_iter
        self.max_seconds = max_seconds
        self.random_state = random_state
        self.device = device
        self.tight = tight
        self.verbose = verbose

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> SDPKMeans:
        """Cluster the points; `y` is ignored.

        Parameters
        ----------
        X : array-like of shape (n, d)
            The points, dense.
        y : ignored
        sample_weight : array-like of shape (n,), optional
            Weights of the points, not negative: centres are means by weight, and the inertia is
            Σ_i w_i ‖x_i − its centre‖². Points of weight 0 get the label of the nearest centre.
            Default: 1.
        """
        bar = {"max_iter": self.max_iter, "max_seconds": self.max_seconds}
        with within(self.max_seconds), progress.shown(self.verbose, **bar):
            return self._fit(X, sample_weight)

    def _fit(self, X: Any, sample_weight: Any) -> SDPKMeans:
        since = time.perf_counter()
        X = checked(partial(validate_data, self), X, dtype=np.float64)
        count_of(self.n_clusters, len(X))
        how = (self.max_iter, self.max_seconds, self.random_state, self.device, self.tight)
        ends = ends_of(self.gap, *how)
        points = points_of(X, sample_weight)
        k = count_of(self.n_clusters, len(points.X))
        progress.doing("first clustering")
        best, self.result_ = run_for(points, k, partial(rounded, points, k, ends.seed), ends)
        self.cluster_centers_ = centres(points, best.answer, k)
        self.labels_ = _labelled(X, points, best.answer, self.cluster_centers_)
        self.certificate_ = certified(points, self.labels_, k, best, self.result_, ends.gap, since)
        self.inertia_ = self.certificate_.inertia
        self.lower_bound_ = self.certificate_.lower_bound
        self.optimality_gap_ = self.certificate_.gap
        self.n_iter_ = 0 if self.result_ is None else self.result_.iterations
        self._n_features_out = k
        pass_on(self.result_)
        say_early(self, self.certificate_.status, self.optimality_gap_, ends.gap)
        return self

    def predict(self, X: Any) -> Array:
        """The nearest centre of each point."""
        return np.argmin(self._to_centres(X), axis=1)

    def transform(self, X: Any) -> Array:
        """The distance of each point to each centre, n × n_clusters."""
        return self._to_centres(X)

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Minus the sum, by weight, of the squared distances to the nearest centres.

        `y` is ignored.
        """
        squares = self._to_centres(X).min(axis=1) ** 2
        if sample_weight is not None:
            squares *= weights_given(sample_weight, squares.size)
        return -float(np.sum(squares))

    def _to_centres(self, X: Any) -> Array:
        check_is_fitted(self)
        X = checked(partial(validate_data, self), X, dtype=np.float64, reset=False)
        return np.asarray(cdist(X, self.cluster_centers_))


def _labelled(X: Array, points: Points, labels: Array, centres: Array) -> Array:
    """Labels of all points that were given; those of weight 0 have that of the nearest centre."""
    if points.weights is None or len(labels) == len(X):
        return labels
    every = np.argmin(cdist(X, centres), axis=1)
    every[points.used] = labels
    return np.asarray(every, dtype=labels.dtype)
