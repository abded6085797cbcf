"""Correlation clustering for scikit-learn."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import validate_data

from condgrad._deadline import within
from condgrad.applications.graphs import adjacency_matrix
from condgrad.partitions import correlation_clustering
from condgrad.run.journal import fresh_seed
from condgrad.sklearn._checks import checked, pass_on, say_early


class CorrelationClustering(
    ClusterMixin,  # type: ignore[misc]  # scikit-learn has no types
    BaseEstimator,  # type: ignore[misc]
):
    r"""Clusters of a signed similarity matrix, as many as fit it best, with a proven bound.

    .. math:: \min \sum_{s_{ij} > 0 \text{ apart}} s_{ij} + \sum_{s_{ij} < 0 \text{ together}}
              |s_{ij}|

    over pairs i < j and all partitions [1]_. The semidefinite relaxation is solved, with the
    triangle inequalities where it is not tight without them, and rounded;
    `condgrad.correlation_clustering` is the same for graphs. Some hundreds of points.

    Parameters
    ----------
    gap : float, default 0.01
        The run ends once the clustering is proved to be within this of the best one, relatively.
    triangles : bool, optional
        Ask for the triangle inequalities; default: where they are needed.
    max_seconds : float, default 60
        The most seconds, all in all; None: no limit.
    random_state : int, RandomState instance or None, default None
        Seed of the solver.
    n_jobs : int, optional
        Threads, as for `condgrad.solve`.
    device : {"cpu", "cuda", "auto"}
        Where the relaxation is solved, as for `condgrad.solve`.
    verbose : bool or int, default 0
        Show the run, as `condgrad.solve` does.

    Attributes
    ----------
    labels_ : array of shape (n,)
        Cluster of each point, numbered by their first points.
    n_clusters_ : int
        How many there are.
    disagreements_ : float
        What the clustering costs, by the formula above.
    lower_bound_ : float
        No clustering costs less.
    optimality_gap_ : float
        (disagreements_ − lower_bound_)/disagreements_, 0 where both are 0.
    certificate_ : condgrad.partitions.Partition
        The same with how it is known; print it.
    n_features_in_ : int
        n.

    References
    ----------
    .. [1] N. Bansal, A. Blum, S. Chawla, "Correlation clustering", Machine Learning 56, 2004.

    Examples
    --------
    >>> like = [[0, 1, 1, -1], [1, 0, -1, -1], [1, -1, 0, -1], [-1, -1, -1, 0]]
    >>> model = CorrelationClustering(random_state=0).fit(like)
    >>> model.disagreements_, model.lower_bound_, model.n_clusters_
    (1.0, 1.0, 2)
    """

    def __init__(
        self,
        *,
        gap: float = 1e-2,
        triangles: bool | None = None,
        max_seconds: float | None = 60.0,
        random_state: Any = None,
        n_jobs: int | None = None,
        device: str = "cpu",
        verbose: bool | int = 0,
    ) -> None:
        self.gap = gap
        self.triangles = triangles
        self.max_seconds = max_seconds
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.device = device
        self.verbose = verbose

    def fit(self, X: Any, y: Any = None) -> CorrelationClustering:
        """Cluster; `y` is ignored.

        Parameters
        ----------
        X : array-like or SciPy sparse matrix of shape (n, n)
            Similarities, symmetric, of any sign; 0 for pairs that do not matter. The diagonal is
            ignored.
        y : ignored
        """
        with within(self.max_seconds):
            check = partial(validate_data, self)
            S = checked(check, X, dtype=np.float64, accept_sparse="csr", ensure_min_samples=2)
            S = adjacency_matrix(S, name="X", signed=True, least=2)
            random = check_random_state(self.random_state)
            self.certificate_ = found = correlation_clustering(
                S,
                triangles=self.triangles,
                gap=self.gap,
                max_seconds=self.max_seconds,
                seed=fresh_seed(lambda: int(random.randint(np.iinfo(np.int32).max))),
                n_jobs=self.n_jobs,
                device=self.device,
                verbose=self.verbose,
            )
        self.labels_ = found.labels
        self.n_clusters_ = len(found.parts)
        self.disagreements_ = found.value
        self.lower_bound_ = found.bound
        self.optimality_gap_ = found.gap
        pass_on(found.result)
        say_early(self, found.status, found.gap, self.gap)
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = True
        tags.input_tags.sparse = True
        return tags
