"""The best cut of a cycle."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from condgrad._types import Array
from condgrad.applications.rounding import Cut


def cut_of_cycle(adjacency: Any, weights: Array) -> Cut | None:
    r"""The sparsest cut of a block that is a cycle or a single edge; None for any other.

    A cut of a cycle with both sides connected is an arc: two edges, n(n − 1)/2 cuts. All are looked
    at. Weights of vertices are summed, never subtracted, and divided by their sum, so that nothing
    underflows: values are off by (4n + 8) roundings.

    Parameters
    ----------
    adjacency : sparse array
        Of a biconnected graph; numbers other than 0 are edges.
    weights : array
        μ > 0 of every vertex.
    """
    A, n = sp.csr_array(adjacency), len(weights)
    if A.nnz != 2 * (n if n > 2 else 1):
        return None
    order = sp.csgraph.depth_first_order(A, 0, directed=False, return_predecessors=False)
    mu = np.asarray(weights, np.float64)[order]
    mu /= mu.sum()
    w = np.array([A[i, j] for i, j in zip(order, np.roll(order, -1), strict=True)])
    if n == 2:
        w[1] = 0.0  # the edge counts once
    before, after = np.cumsum(mu), np.append(np.cumsum(mu[::-1])[::-1], 0.0)
    best, start, stop = np.inf, 0, 0
    for i in range(n - 1):  # the arc of i + 1, …, j, all j
        arc, rest = np.cumsum(mu[i + 1 :]), before[i] + after[i + 2 :]
        values = (w[i] + w[i + 1 :]) / (arc * rest)
        j = int(values.argmin())
        if values[j] < best:
            best, start, stop = float(values[j]), i + 1, i + 2 + j
    side = np.zeros(n, bool)
    side[order[start:stop]] = True
    return Cut(side, best / 2)
