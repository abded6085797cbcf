"""k-means clustering."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from condgrad._check import rows_of
from condgrad._floats import EPS
from condgrad._types import Array
from condgrad.applications._base import (
    PUBLISHED_EFFORT,
    Application,
    check_preset,
    require_room,
    top_rank_one,
)
from condgrad.applications._outcome import Rounded, Unit
from condgrad.applications.clustering import (
    Clustering,
    best_start,
    clustering_matrix,
    denoised,
    rounded_clusters,
    squared_distances,
    weights_of_points,
)
from condgrad.applications.lloyd import Denoised
from condgrad.backends.arrays import HOST, floats, foreign, host
from condgrad.domains import PinnedSpectrahedron, Spectrahedron
from condgrad.errors import ProblemError
from condgrad.functions import AtLeast, AtMost, Equal, Linear
from condgrad.maps import AllEntries, Inner, RowSums, Triangles
from condgrad.problem import Problem, Term

FIRST = 5
"""Starts of each kind where a GPU rounds for the first time; later one from the denoised points."""
NEARBY = 2000
"""Points up to which distances between denoised ones come to the CPU."""
INERTIA = Unit(0.5, "inertia", "inertia; the run on the relaxation has twice that")
"""⟨C, W⟩ of a clustering is twice its inertia."""
LARGE = 2000
"""Points from which a single entry may be further below 0, as entries are small: what is asked for
is a clustering and a bound, which do not depend on it."""
PAPER_BETA0: dict[str, float | str] = {
    "": 10.0,
    "h-sag-v2": 7.0,
    "h-1sfw": 0.05,
    "h-spider-fw": 6.0,
    "most-fw-plus": 6.0,
}


def kmeans(
    distances: Any, k: int, preset: str = "auto", tight: bool = False, weights: Any = None
) -> Application:
    r"""The semidefinite relaxation of k-means.

    .. math:: \min ⟨C, W⟩ \quad W ⪰ 0,\; \mathrm{Tr}\, W = k,\; W1 = 1,\; W ≥ 0

    Total infeasibility is ‖W1 − 1‖₂/√n + ‖min(W, 0)‖_F.

    Parameters
    ----------
    distances : array
        C, the n × n squared Euclidean distances. Negative entries are refused, but for rounding.
    k : int
        Number of clusters, 1 ≤ k ≤ n.
    preset : {"auto", "paper", "published"}
        ``auto``: W1 = 1 is asked of the domain, W = 11ᵀ/n + W' with W'1 = 0, so that only W ≥ 0
        remains as a constraint, and β0 is found by the library. ``paper``: weight 1 on every row.
        ``published``: weight n on the non-negativity and a fixed oracle effort.
    tight : bool, default False
        With preset ``auto``, ask for W_ij + W_jk ≤ W_jj + W_ik for all triples as well, which lifts
        the bound where clusters overlap [3]_. W_ij ≤ W_ii need not be asked for: the sum of these
        over k, with W1 = 1, is (n − 2)(W_ij − W_jj) ≤ W_jj − W_ii, and the same with i and j
        exchanged.
    weights : array, optional
        With preset ``auto``, positive weights a of the points: what is minimised is
        Σ_S Σ_{i∈S} a_i ‖x_i − mean of S by weight‖². The cost is √(a_i a_j) C_ij then, W√a = √a is
        asked of the domain, and the inequalities of triples are those of W_ij/√(a_i a_j).

    References
    ----------
    .. [1] J. Peng, Y. Wei, "Approximating k-means-type clustering via semidefinite programming",
       SIAM J. Optim. 18(1), 2007.
    .. [2] G. Dresdner et al., AISTATS 2022, section 5.2.
    .. [3] V. Piccialli, A. M. Sudoso, A. Wiegele, "SOS-SDP: an exact solver for minimum
       sum-of-squares clustering", INFORMS J. Comput. 34(4), 2022.
    """
    check_preset(preset)
    for what, asked in (("tight form", tight), ("weights", weights is not None)):
        if asked and preset != "auto":
            raise ProblemError(f"preset {preset} has no {what}: use preset auto")
    n = rows_of(distances)
    require_room((n, n), 3, "cluster a sample of the points")
    checked = squared_distances(distances)
    C, n = Inner(checked, _symmetric=True), checked.shape[0]
    a = weights_of_points(weights, n)
    if isinstance(k, bool) or not isinstance(k, (int, np.integer)) or not 1 <= k <= n:
        raise ProblemError(f"k is {k!r}: it must be an integer between 1 and the {n} points")
    rounding = _Rounding(C, int(k), a)
    floor = n * (1 + EPS) * min(float(checked.min()), 0.0)  # W ≥ 0, and its entries sum to n
    if a is not None:  # √(a_i a_j) W_ij sum to Σ a
        floor *= 2 * float(a.sum()) / n
    if a is not None and k == 1:
        raise ProblemError("k is 1: with weights there is but one W, and clustering_value has it")
    if preset == "auto" and k > 1:
        if a is None and 2 * k >= n > k:
            floor = max(floor, forest_floor(checked, int(k)))
        return _reduced(C, int(k), rounding, floor, tight, a)
    problem = Problem(
        Spectrahedron(n, trace=k, equality=True),
        [
            Term(C, Linear(), name="cost"),
            Term(RowSums(n), Equal(1.0), name="row sums"),
            Term(
                AllEntries(n),
                AtLeast(0.0),
                weight=n if preset == "published" else 1.0,
                name="non-negativity",
            ),
        ],
        infeasibility_weights={"row sums": 1 / np.sqrt(n), "non-negativity": 1.0},
    )
    return Application(
        name="kmeans",
        preset=preset,
        problem=problem,
        start=top_rank_one(checked, k),
        beta0={"": "auto"} if preset == "auto" else dict(PAPER_BETA0),
        batch=0.05,
        effort=PUBLISHED_EFFORT if preset == "published" else None,
        formula="row sums/√n + non-negativity",
        settings={"points": n, "clusters": int(k)},
        rounding=rounding,
        floor=floor,
        unit=INERTIA,
    )


def forest_floor(C: Array, k: int) -> float:
    r"""A lower bound on the relaxation: the n − k lightest edges of a minimum spanning tree.

    The entries W_ij, i < j, sum to (n − k)/2. Within a set T of points those of 2W sum to at most
    |T| − 1: with t = Tr W_TT, and W ⪯ I since W is non-negative with row sums 1, 1ᵀW_TT 1 is at
    most |T| min(1, t) ≤ |T| − 1 + t. So 2W lies in the convex hull of the forests with n − k edges
    [1]_, and Σ_{i<j} C_ij 2W_ij is not below the lightest such forest; what is left of ⟨C, W⟩ is
    Σ C_ii W_ii ≥ k min C_ii, which is 0 but for rounding. It is tight where clusters are pairs, and
    weak where they are large.

    References
    ----------
    .. [1] J. Edmonds, "Matroids and the greedy algorithm", Math. Programming 1, 1971.

    Examples
    --------
    >>> C = np.square(np.subtract.outer([0.0, 1.0, 5.0, 7.0], [0.0, 1.0, 5.0, 7.0]))
    >>> round(forest_floor(C, 2), 9)  # twice the inertia of the pairs {0, 1} and {5, 7}
    5.0
    """
    n = C.shape[0]
    near, outside, edges = C[0].astype(np.float64), np.ones(n, bool), np.zeros(n - 1)
    outside[0] = False
    for i in range(n - 1):  # Prim
        at = int(np.argmin(np.where(outside, near, np.inf)))
        edges[i], outside[at] = near[at], False
        np.minimum(near, C[at], out=near)
    least = k * min(float(C.diagonal().min()), 0.0)  # distances of 0 that rounding made negative
    total = math.fsum([least, *np.sort(edges)[: n - k]])
    return total - 4 * EPS * (abs(total) + abs(least))


def _reduced(
    C: Inner, k: int, rounding: Any, floor: float, tight: bool, weights: Array | None
) -> Application:
    """The form of preset ``auto``."""
    n = C.shape[0]
    root = np.ones(n)
    if weights is not None:
        root = np.sqrt(weights)
        cost = C.matrix(HOST) * root * root[:, None]
        C = Inner(cost, _symmetric=True, _rounded=4)  # every entry in four operations
    domain = PinnedSpectrahedron(root, trace=k, values=1.0, equality=True)
    terms = [
        Term(C, Linear(), name="cost"),
        Term(AllEntries(n), AtLeast(0.0), name="non-negativity"),
    ]
    if tight and n > 2:
        terms.append(Term(Triangles(n, weights), AtMost(0.0), name="triangles"))
    problem = Problem(domain, terms)
    return Application(
        name="kmeans",
        preset="auto",
        problem=problem,
        start=domain.center(),
        beta0={"": "auto"},
        batch=0.05,
        formula=" + ".join(term.name for term in terms[1:]),
        settings={"points": n, "clusters": k, "tight": tight, "weights": weights is not None},
        rounding=rounding,
        floor=floor,
        rows=0.1 if n > LARGE else None,
        unit=INERTIA,
    )


class _Rounding:
    """Rounds W where it lies: on a GPU from several starts at first and from a few more later.

    There it answers with the best so far.
    """

    anywhere = True
    remembers = ("_rng", "_finished", "_there", "_best")

    def __init__(self, distances: Inner, k: int, weights: Array | None) -> None:
        self._distances, self._k, self._rng = distances, k, np.random.default_rng(0)
        self._weights = weights
        self._finished: dict[bytes, Clustering] = {}
        self._there: Array | None = None
        self._best: Rounded | None = None

    def fresh(self) -> _Rounding:
        """One for another run."""
        return _Rounding(self._distances, self._k, self._weights)

    def __call__(self, W: Any) -> Rounded:
        if not foreign(W):
            C = self._distances.matrix(HOST)
            how = (self._k, 0, self._weights)
            found = rounded_clusters(C, np.asarray(W, dtype=np.float64), *how)
            W = clustering_matrix(found.labels, weights=self._weights)
            return Rounded(found.value, W, found)
        first = self._there is None
        if self._there is None:
            self._there = self._distances.matrix(W)
        C, near = self._there, self._near(W)
        given = C if isinstance(near, Denoised) else self._distances.matrix(HOST)
        metrics = [*[near] * FIRST, *[given] * FIRST] if first else [near]
        found = best_start(C, metrics, self._k, self._rng, self._finished, self._weights)
        if self._best is None or found.value < self._best.value:  # the matrix is large
            made = clustering_matrix(found.labels, W, self._weights)
            self._best = Rounded(found.value, made, found)
        return self._best

    def _near(self, W: Array) -> Array | Denoised:
        """Denoised distances: as rows are read, or all of them at once, on the CPU."""
        assert self._there is not None
        if self._weights is not None:
            W = W * np.asarray(np.sqrt(self._weights), like=W)
        if self._there.shape[0] > NEARBY:
            return Denoised(self._there, W)
        return host(denoised(self._there, floats(W)))
