"""From the matrix to a cut."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from condgrad._types import Array
from condgrad.applications.sparsest_cut import laplacian


class Cut(NamedTuple):
    """A partition of the vertices, and its value n² w(S, S̄)/(2|S||S̄|)."""

    side: Array
    """True for the vertices of S, the smaller side."""
    value: float


def cut_value(adjacency: Any, side: Array) -> float:
    """n² w(S, S̄)/(2|S||S̄|), the objective of the relaxation at the cut.

    Examples
    --------
    >>> cut_value(np.ones((4, 4)) - np.eye(4), np.array([True, False, False, False]))
    8.0
    """
    x, n = side.astype(np.float64), side.size
    weight = float(x @ (laplacian(adjacency) @ x))
    return float(n * n * weight / (2 * side.sum() * (n - side.sum())))


def sweep_cut(adjacency: Any, W: Array, vectors: int = 5) -> Cut:
    """The best threshold cut along the leading eigenvectors of the centred W.

    Vertices are ordered by each eigenvector in turn and all n − 1 prefixes are tried.

    Parameters
    ----------
    adjacency : array or SciPy sparse matrix
        The graph.
    W : array
        Solution of the relaxation.
    vectors : int, default 5
        How many eigenvectors to sweep.
    """
    L, n = laplacian(adjacency), W.shape[0]
    H = np.eye(n) - 1 / n
    _, basis = np.linalg.eigh(H @ W @ H)
    best: Cut | None = None
    for x in basis.T[::-1][:vectors]:
        order = np.argsort(x)
        prefix = np.tril(np.ones((n - 1, n)))[:, np.argsort(order)]
        size = np.arange(1, n)
        values = n * n * np.einsum("ij,ij->i", prefix, (L @ prefix.T).T) / (2 * size * (n - size))
        i = int(np.argmin(values))
        if best is None or values[i] < best.value:
            side = prefix[i].astype(bool)
            best = Cut(side if 2 * (i + 1) <= n else ~side, float(values[i]))
    assert best is not None
    return best
