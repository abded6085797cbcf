"""Correlation clustering: a signed graph, any number of clusters."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from condgrad._types import Array
from condgrad.applications._base import Application, require_room
from condgrad.applications._outcome import Rounded, Unit
from condgrad.applications.clustering import canonical
from condgrad.applications.graphs import adjacency_matrix
from condgrad.backends.arrays import host
from condgrad.domains import Spectrahedron
from condgrad.functions import AtLeast, AtMost, Equal, Linear
from condgrad.maps import AllEntries, Diagonal, Inner, Triangles
from condgrad.problem import Problem, Term

STARTS = 20
"""Random orders of pivots."""
LARGEST = 2.0**50
"""Integers whose sums stay below this are summed exactly."""
SLACK = 1e-12
"""A move must gain more than this share of all weights: less is rounding."""


class Labels(NamedTuple):
    """A partition of the vertices, and what it costs."""

    labels: Array
    """Cluster of each vertex, 0 … k − 1 in the order of their first vertices."""
    value: float


def correlation_clustering(similarity: Any, triangles: bool = True) -> Application:
    r"""The semidefinite relaxation of correlation clustering.

    .. math:: \min \sum_{s_{ij}>0} s_{ij} (1 - W_{ij}) + \sum_{s_{ij}<0} |s_{ij}| W_{ij}
              \quad W ⪰ 0,\; W_{ii} = 1,\; W ≥ 0,\; W_{ij} + W_{jk} - W_{ik} ≤ 1

    over pairs i < j. A clustering is the point with W_ij = 1 where i and j are together and 0
    elsewhere. Its value is the weight of all disagreements: positive pairs that are apart and
    negative ones together.

    Parameters
    ----------
    similarity : array or SciPy sparse matrix
        s, symmetric, of any sign; 0 for pairs that do not matter. The diagonal is ignored.
    triangles : bool, default True
        Ask for the triangle inequalities.

    References
    ----------
    .. [1] N. Bansal, A. Blum, S. Chawla, "Correlation clustering", Machine Learning 56, 2004.
    .. [2] M. Charikar, V. Guruswami, A. Wirth, "Clustering with qualitative information", J.
       Comput. System Sci. 71(3), 2005.
    """
    S = adjacency_matrix(similarity, name="similarity", signed=True, least=2)
    return correlation_clustering_of(S, triangles)


def correlation_clustering_of(S: Any, triangles: bool) -> Application:
    """`correlation_clustering` of a checked matrix."""
    n = S.shape[0]
    require_room((n, n), 4, "cluster a part of the graph")
    positive = math.fsum(S.data[S.data > 0]) / 2
    cost = sp.csr_array(sp.diags_array(np.full(n, positive / n)) - S / 2)
    terms = [
        # the diagonal is rounded: a sum and a quotient
        Term(Inner(cost, _symmetric=True, _rounded=4), Linear(), name="cost"),
        Term(Diagonal(n), Equal(1.0), name="diagonal"),
        Term(AllEntries(n), AtLeast(0.0), name="non-negativity"),
    ]
    if triangles and n > 2:  # W_qq = 1 stands for the 1 on the right
        terms.append(Term(Triangles(n), AtMost(0.0), name="triangles"))
    whole = bool(np.all(S.data == np.rint(S.data)) and float(abs(S).sum()) < LARGEST)
    return Application(
        name="correlation-clustering",
        preset="auto",
        problem=Problem(Spectrahedron(n, trace=float(n), equality=True), terms),
        start=np.eye(n),
        beta0={"": "auto"},
        batch=0.05,
        formula=" + ".join(term.name for term in terms[1:]),
        settings={"vertices": n, "pairs": S.nnz // 2, "triangles": triangles},
        rounding=_Rounding(S),
        floor=0.0,  # entries of a feasible W lie between 0 and 1
        whole=whole,
        finer=10.0,
        unit=Unit(what="clustering"),
    )


class _Rounding:
    """From W to clusters."""

    def __init__(self, S: Any) -> None:
        self._S = S

    def __call__(self, W: Any) -> Rounded:
        found = round_correlation(self._S, np.asarray(host(W), dtype=np.float64))
        together = found.labels[:, None] == found.labels
        return Rounded(found.value, together.astype(np.float64), found)


def disagreements(S: Any, labels: Array) -> float:
    """The weight of positive pairs that are apart and of negative ones that are together."""
    labels = np.asarray(labels)
    pairs = sp.coo_array(S)
    together = labels[pairs.coords[0]] == labels[pairs.coords[1]]
    wrong = np.where(together, np.minimum(pairs.data, 0.0), np.maximum(pairs.data, 0.0))
    return math.fsum(np.abs(wrong)) / 2


def round_correlation(S: Any, W: Array) -> Labels:
    """The best clustering read off W.

    Vertices are taken in random order; each that is still free gathers the free ones with
    W_ij > 1/2, for the first order, and a threshold between 0.3 and 0.7 that is drawn for the
    others [1]_. Each clustering, and those of one cluster and of n, are bettered by the move of a
    vertex, to another cluster or one of its own, or the union of two clusters that gains most,
    until none does.

    Parameters
    ----------
    S : SciPy sparse array
        A checked similarity matrix.
    W : array
        Solution of the relaxation; it may be inaccurate.

    References
    ----------
    .. [1] N. Ailon, M. Charikar, A. Newman, "Aggregating inconsistent information: ranking and
       clustering", J. ACM 55(5), 2008.
    """
    n, rng, dense = S.shape[0], np.random.default_rng(0), S.toarray()
    starts = [np.zeros(n, np.int64), np.arange(n)]
    for start in range(STARTS):
        threshold = rng.uniform(0.3, 0.7) if start else 0.5
        labels = np.full(n, -1)
        for i in rng.permutation(n):
            if labels[i] < 0:
                labels[(labels < 0) & (W[i] > threshold)] = i
                labels[i] = i
        starts.append(labels)
    distinct = {canonical(labels)[0].tobytes(): labels for labels in starts}
    found = [_bettered(dense, labels) for labels in distinct.values()]
    options = [Labels(labels, disagreements(S, labels)) for labels in found]
    return min(options, key=lambda one: one.value)


def _bettered(S: Array, labels: Array) -> Array:
    """Moves of vertices and unions of clusters, the best first, until none gains."""
    n, least = S.shape[0], SLACK * float(np.abs(S).sum())
    labels = canonical(labels)[0]
    every = np.arange(n)
    while True:
        members = np.zeros((n, labels.max() + 2))  # the last cluster is empty
        members[every, labels] = 1.0
        inside = S @ members
        while True:  # S has no diagonal, so inside[i, own] is what i has with the others
            gain = inside - inside[every, labels][:, None]
            i, to = np.unravel_index(np.argmax(gain), gain.shape)
            if gain[i, to] <= least:
                break
            inside[:, labels[i]] -= S[:, i]
            inside[:, to] += S[:, i]
            labels[i] = to
            if to == inside.shape[1] - 1:
                inside = np.hstack([inside, np.zeros((n, 1))])
        labels = canonical(labels)[0]
        members = np.zeros((n, labels.max() + 1))
        members[every, labels] = 1.0
        between = members.T @ S @ members
        np.fill_diagonal(between, 0.0)
        a, b = np.unravel_index(np.argmax(between), between.shape)
        if between[a, b] <= least:
            return labels
        labels = canonical(np.where(labels == b, a, labels))[0]
