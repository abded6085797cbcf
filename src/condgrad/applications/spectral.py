"""Second eigenvalue and eigenvector of a connected graph: a bound on its cuts, and a first cut."""

from __future__ import annotations

import time
import warnings
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from condgrad import _deadline as deadline
from condgrad._floats import EPS, below, power_of_two
from condgrad._types import Array
from condgrad.applications.graphs import COPIES, laplacian_of
from condgrad.applications.rounding import SHARE
from condgrad.backends import memory
from condgrad.domains.eigen import lowest_bound
from condgrad.errors import MemoryLimit
from condgrad.run.journal import settled

DENSE = 500
"""Vertices up to which LAPACK finds the eigenvector, and LOBPCG beyond."""
WIDTH, ITERATIONS, RESIDUAL = 4, 200, 1e-7
"""Columns of LOBPCG, its iterations at most, and its residual relative to the largest entry."""
FEWEST, MOST = 100, 4000
"""Products for a bound by products alone."""
VERTEX = 400
"""Bytes for a vertex while LOBPCG runs."""


class Spectral(NamedTuple):
    """A proven bound on all cuts of a graph, and the vector behind it."""

    bound: float
    """No cut has a lower value, in the unit of `rounding.Cut`; it is positive."""
    kind: str
    """Kind of proof, as in `domains.Minimum`."""
    failure: float
    """Probability that the bound does not hold."""
    vector: Array
    """About the second eigenvector of the Laplacian scaled by the weights of the vertices."""


def spectral(A: Any, weights: Array) -> Spectral:
    r"""A proven bound on the cuts of a connected graph by its second eigenvalue.

    Let μ be the weights of the vertices, N their sum, M their diagonal matrix and m > 0 any number.
    The matrix :math:`V = m M^{-1/2} L M^{-1/2}` has the eigenvector √μ with the eigenvalue 0. For
    f = 1_S, less its mean, fᵀLf = w(S, S̄) and fᵀMf = μ(S) μ(S̄)/N, so that

    .. math:: \frac{N^2 w(S, \bar S)}{2 μ(S) μ(\bar S)} ≥ \frac{N}{2m} \, λ_2(V),

    and :math:`λ_2(V) ≥ λ_{min}(V + t q q^\top)`, q = √μ/‖√μ‖, whatever the number t is. What is
    proved is a bound on the latter, by a Cholesky factorisation or by products (`lowest_bound`).

    Rounding. An entry of V is off by d + 8 roundings, d the numbers in a row, and |V| ⪯ 2 diag V,
    as L and D + A are semidefinite: so V is off by EPS (d + 8) 2 max V_ii at most. Every entry of q
    is off by 4 roundings, so that (qᵀx)² ≤ EPS for a unit x orthogonal to √μ; the sum in a dense
    matrix is off by EPS (4t + 2 max V_ii).

    If weights are far apart that can be more than the eigenvalue. A heaviest spanning tree gives
    another bound, in which every operation has a small relative error: a cut of the graph has at
    least the value that it has in the tree, and the best cut of a tree is that of an edge. For that
    edge no other one across its cut is heavier, so this bound is at least the best value divided by
    the number of edges.

    Parameters
    ----------
    A : SciPy sparse array
        A checked adjacency matrix of a connected graph with at least 2 vertices.
    weights : array
        μ > 0 of every vertex.
    """
    n = weights.size
    least = tree_bound(A, weights)
    try:
        memory.require_room(COPIES * A.nnz + VERTEX * n, "take a smaller graph", "an eigenvalue")
    except MemoryLimit:
        return Spectral(least, "exact", 0.0, np.arange(n, dtype=np.float64))
    share = weights / (float(weights.sum()) / n)
    L, root = sp.coo_array(laplacian_of(A)), 1 / np.sqrt(share)
    i, j = L.coords
    V = sp.csr_array((L.data * (root[i] * root[j]), (i, j)), shape=(n, n))
    q = np.sqrt(share) / np.sqrt(n)
    diagonal = V.diagonal()
    top, t = float(diagonal.max()), float(diagonal.sum()) / (n - 1)
    with deadline.within(SHARE * deadline.left()):
        value, vector = _second(V, q, t)
        steps = int(min(max(10 * np.sqrt(500 * top / max(value, EPS * top)), FEWEST), MOST))
        low, failure = lowest_bound(V, vector[:, None], steps=steps, beside=(t, q))
    longest = int(np.diff(V.indptr).max())
    low -= EPS * (2 * (longest + 10) * top + 5 * t)
    low = below(n / 2, low) * (1 - (n + 8) * EPS)
    if not low > least:
        return Spectral(least, "exact", 0.0, vector)
    return Spectral(low, "probabilistic" if failure else "exact-eigenvalue", failure, vector)


def floor_of(A: Any, weights: Array) -> dict[str, Any]:
    """The floor of an application to a graph, by name; none if the graph is not connected."""
    if sp.csgraph.connected_components(A, directed=False)[0] > 1:
        return {}
    own = settled("bound", lambda: tuple(spectral(A, weights)[:3]), (A, weights))
    return dict(zip(("floor", "floor_kind", "floor_failure"), own, strict=True))


def tree_bound(A: Any, weights: Array) -> float:
    """The least value of a cut in a heaviest spanning tree of a connected graph, rounded down.

    The tree is rooted where no branch has more than half of all weights. So the weights above an
    edge, their sum less that below, are a difference that does not cancel.
    """
    n, total, root = weights.size, float(weights.sum()), 0
    tree = sp.coo_array(sp.csgraph.minimum_spanning_tree(-A))
    for _ in range(2):
        order, parents = sp.csgraph.breadth_first_order(tree, root, directed=False)
        upward, above, branch = order[::-1].tolist(), parents.tolist(), weights.tolist()
        for vertex in upward[:-1]:
            branch[above[vertex]] += branch[vertex]
        root = next(vertex for vertex in upward if branch[vertex] >= total / 2)
    u, v = tree.coords
    part = np.array(branch)[np.where(parents[u] == v, u, v)] / total
    rest = 1 - part + (2 * n + 8) * EPS
    return float((-tree.data / (2 * part * rest)).min()) * (1 - (4 * n + 16) * EPS)


def _second(V: Any, q: Array, t: float) -> tuple[float, Array]:
    """About the smallest eigenvalue of V + t q qᵀ, and a unit vector that belongs to it."""
    n, unit = q.size, power_of_two(V.data)
    V = V / unit
    if n <= DENSE:
        dense = V.toarray() + t / unit * (q[:, None] * q)
        values, vectors = scipy.linalg.eigh(dense, subset_by_index=(0, 0), check_finite=False)
        return unit * float(values[0]), vectors[:, 0]
    from scipy.sparse.linalg import lobpcg

    start = np.random.default_rng(0).standard_normal((n, WIDTH))
    began = time.perf_counter()
    V @ start
    each = 4 * (time.perf_counter() - began)
    most = int(min(ITERATIONS, max(1.0, SHARE * max(deadline.room(), 0.0) / max(each, 1e-9))))
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # that it has not converged
        with suppress(np.linalg.LinAlgError, ValueError):
            how: Any = {"Y": (q / np.linalg.norm(q))[:, None], "tol": RESIDUAL, "maxiter": most}
            values, X = lobpcg(V, start, M=sp.diags_array(1 / V.diagonal()), largest=False, **how)
            if np.isfinite(X).all() and np.linalg.norm(X[:, 0]) > 0:
                return unit * float(values[0]), X[:, 0] / np.linalg.norm(X[:, 0])
    return 0.0, start[:, 0] / np.linalg.norm(start[:, 0])
