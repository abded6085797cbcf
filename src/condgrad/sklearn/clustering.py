"""k-means with a proof of how far the clustering is from the best possible one."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.spatial.distance import cdist
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    ClusterMixin,
    TransformerMixin,
)
from sklearn.utils import check_array, check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from condgrad import _progress as progress
from condgrad._check import flag
from condgrad._deadline import OutOfTime, limited, within
from condgrad._floats import EPS
from condgrad._types import Array
from condgrad.applications import (
    Rounded,
    Rounder,
    clustering_matrix,
    clustering_value,
    kmeans,
    round_clusters,
)
from condgrad.backends import memory
from condgrad.backends.devices import check_device
from condgrad.errors import ProblemError
from condgrad.run.callbacks import Info
from condgrad.run.journal import fresh_seed
from condgrad.run.limits import Limits
from condgrad.run.result import Result, Status
from condgrad.run.saved import told
from condgrad.run.solve import solve
from condgrad.sklearn._certification import Certification
from condgrad.sklearn._checks import checked, partition
from condgrad.sklearn._interrupt import pass_on

ARRAYS = 32
"""Matrices of n × n that a run holds at once, with the distances and the rounding."""
SMALLEST = 1e-70
"""The least spread of the points whose distances to the fourth power are numbers, and 1/most."""
BETTER = 1e-9
"""A clustering is better where its inertia is lower by more than this share: rounding is less."""
FINER = 10
"""The relaxation counts as solved where iterate and bound are within a tenth of the gap, and the
iterate is feasible to a tenth of that."""


@limited
def certify(
    X: Any,
    labels: Any,
    *,
    gap: float = 1e-2,
    max_iter: int | None = 10_000,
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
    gap : float, default 0.01
        The relative gap to prove.
    max_iter : int, default 10,000
        The most iterations.
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
    ends = _ends(gap, max_iter, max_seconds, random_state, device, tight)
    X = checked(check_array, X, dtype=np.float64)
    labels = partition(labels, len(X))
    k = int(labels.max()) + 1
    with progress.shown(verbose, max_iter=max_iter, max_seconds=max_seconds):
        C = _distances(X)
        own = Rounded(clustering_value(C, labels), clustering_matrix(labels), labels)
        _, result = _run(X, C, k, lambda W: own, ends)
        proof = _certified(X, k, own, result, ends.gap, since)
        if result is None or proof.gap <= ends.gap:
            return proof
        progress.doing("looking for a better clustering")
        with suppress(OutOfTime):
            found = _rounded(C, k, ends.seed, result.W)
            if found.value < own.value * (1 - BETTER):
                lower = 0.5 * found.value
                proof = replace(proof, better=found.answer, better_inertia=lower)
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
    max_iter : int, default 10,000
        The most iterations.
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
        max_iter: int | None = 10_000,
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

    def fit(self, X: Any, y: Any = None) -> SDPKMeans:
        """Cluster the points; `y` is ignored."""
        bar = {"max_iter": self.max_iter, "max_seconds": self.max_seconds}
        with within(self.max_seconds), progress.shown(self.verbose, **bar):
            return self._fit(X)

    def _fit(self, X: Any) -> SDPKMeans:
        since = time.perf_counter()
        X = checked(partial(validate_data, self), X, dtype=np.float64)
        k = _count(self.n_clusters, len(X))
        how = (self.max_iter, self.max_seconds, self.random_state, self.device, self.tight)
        ends = _ends(self.gap, *how)
        C = _distances(X)
        progress.doing("first clustering")
        best, self.result_ = _run(X, C, k, partial(_rounded, C, k, ends.seed), ends)
        self.labels_ = best.answer
        self.cluster_centers_ = _centres(X, self.labels_, k)
        self.certificate_ = _certified(X, k, best, self.result_, ends.gap, since)
        self.inertia_ = self.certificate_.inertia
        self.lower_bound_ = self.certificate_.lower_bound
        self.optimality_gap_ = self.certificate_.gap
        self.n_iter_ = 0 if self.result_ is None else self.result_.iterations
        self._n_features_out = k
        pass_on(self.result_)
        return self

    def predict(self, X: Any) -> Array:
        """The nearest centre of each point."""
        return np.argmin(self._to_centres(X), axis=1)

    def transform(self, X: Any) -> Array:
        """The distance of each point to each centre, n × n_clusters."""
        return self._to_centres(X)

    def score(self, X: Any, y: Any = None) -> float:
        """Minus the sum of the squared distances to the nearest centres; `y` is ignored."""
        return -float(np.sum(self._to_centres(X).min(axis=1) ** 2))

    def _to_centres(self, X: Any) -> Array:
        check_is_fitted(self)
        X = checked(partial(validate_data, self), X, dtype=np.float64, reset=False)
        return np.asarray(cdist(X, self.cluster_centers_))


class _Ends(NamedTuple):
    """When a run ends, and its seed."""

    gap: float
    max_iter: int | None
    max_seconds: float | None
    seed: int
    device: str
    tight: bool


def _run(
    X: Array, C: Array, k: int, rounding: Callable[[Array], Rounded], ends: _Ends
) -> tuple[Rounded, Result | None]:
    """The best clustering offered by `rounding`, and the run that bounds it if one is needed."""
    rounder = Rounder(rounding)
    rounder(np.eye(len(C)))  # W = I: the points themselves
    first = rounder.best
    assert first is not None
    if k == 1 or len(np.unique(X, axis=0)) <= k:  # one partition only; no inertia at best
        return first, None

    def seen(last: Mapping[str, float]) -> progress.Seen | None:
        assert rounder.best is not None
        return application.seen(rounder.best.value, last["lower_bound"])

    def proved(info: Info) -> Status | None:
        best = rounder.best
        assert best is not None
        near = best.value - info.trace.last["lower_bound"] <= ends.gap * best.value
        return Status.CONVERGED if near else None

    application = kmeans(C, k, tight=ends.tight)
    with progress.answers(seen), told(gap=ends.gap):
        result = solve(
            application.problem,
            start=application.start,
            max_iter=ends.max_iter,
            max_seconds=ends.max_seconds,
            gap=ends.gap / FINER,
            feasibility=min(1e-3, 0.1 * ends.gap / FINER),
            propose=rounder,
            callbacks=[proved],
            floor=application.floor,
            seed=ends.seed,
            device=ends.device,
        )
    with suppress(OutOfTime):  # the best so far counts
        rounder(result.W)
    assert rounder.best is not None
    return rounder.best, result


def _certified(
    X: Array, k: int, best: Rounded, result: Result | None, target: float, since: float
) -> Certification:
    """From ⟨C, W⟩ to inertia, which is half of it.

    Computed distances are off by less than (d + 4)ε, relatively, and so is ⟨C, W⟩ for W ≥ 0; of a
    clustering its two sums add 2nε at most. Means far from 0 would round more.
    """
    inertia, (n, d) = 0.5 * best.value, X.shape
    bound, kind, failure, status = 0.0, "exact", 0.0, Status.CONVERGED
    if result is not None:
        status = result.status
        if result.lower_bound > 0:
            bound = 0.5 * result.lower_bound * (1 - (d + 4) * EPS)
            kind, failure = result.bound_kind, result.bound_failure
            kind = "exact" if kind == "given" else kind  # `forest_floor`
    elif k == 1:
        bound = inertia * (1 - (d + 2 * n + 8) * EPS)
    gap = max(0.0, inertia - bound) / inertia if inertia > 0 else 0.0
    if status is Status.CONVERGED and gap > target:
        status = Status.RELAXED
    seconds = time.perf_counter() - since
    return Certification(
        inertia, bound, gap, k, target, kind, failure, status, seconds, result, best.answer
    )


def _rounded(C: Array, k: int, seed: int, W: Array) -> Rounded:
    found = round_clusters(C, W, k, seed)
    return Rounded(found.value, clustering_matrix(found.labels), found.labels)


def _centres(X: Array, labels: Array, k: int) -> Array:
    return np.stack([X[labels == j].mean(axis=0) for j in range(k)])


def _distances(X: Array) -> Array:
    """Squared distances, where what follows has room and stays within the numbers."""
    n = len(X)
    need = memory.Need(f"matrices of {n} × {n}", ARRAYS * 8 * n * n, "cluster a sample of X")
    memory.require([need])
    with np.errstate(over="ignore"):
        spread = float(np.ptp(X, axis=0).max())
    if spread and not SMALLEST < spread < 1 / SMALLEST:
        raise ProblemError(f"a column of X spreads over {spread:.1e}, too far from 1: rescale X")
    return np.asarray(cdist(X, X, "sqeuclidean"))


def _count(k: Any, n: int) -> int:
    if isinstance(k, bool) or not isinstance(k, (int, np.integer)) or not 1 <= k <= n:
        raise ProblemError(
            f"n_clusters is {k!r}: it must be an integer of at least 1 and at most n_samples={n}"
        )
    return int(k)


def _ends(
    gap: Any, max_iter: Any, max_seconds: Any, random_state: Any, device: Any, tight: Any
) -> _Ends:
    number = isinstance(gap, (int, float, np.number)) and not isinstance(gap, bool)
    if not (number and 0 < gap < 1):
        raise ProblemError(f"gap is {gap!r}: it must be a number between 0 and 1, such as 0.01")
    Limits(max_iter, None, max_seconds, None)  # refuses what is no limit, also without a run
    random = check_random_state(random_state)
    seed = fresh_seed(lambda: int(random.randint(np.iinfo(np.int32).max)))
    check_device(device)
    return _Ends(float(gap), max_iter, max_seconds, seed, device, flag("tight", tight))
