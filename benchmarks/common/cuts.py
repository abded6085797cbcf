"""The sparsest-cut relaxation as a linear matrix inequality, in two forms.

Objective and constraints depend on distances only, so the last vertex is put at the origin: X is
the Gram matrix of the others, of side n − 1, with an interior and with sparse rows. Everything but
n Tr X − 1'X1 = n²/2 is homogeneous and the objective non-negative, so ≥ will do.
"""

from __future__ import annotations

import numpy as np
from benchmark_utils.lmi import Lmi, Triangle
from scipy import sparse as sp

from condgrad.maps import Triangles


def parts(adjacency, ids):
    """Cost, spread and the triangle rows `ids`, each acting on the scaled triangle of X."""
    n = len(adjacency)
    L = np.diag(adjacency.sum(axis=1)) - adjacency
    triangle = Triangle(n - 1)
    spread = triangle.vec(n * np.eye(n - 1) - np.ones((n - 1, n - 1)))
    p, q, r = Triangles(n).triples(ids)
    i = np.concatenate([p, q, p, q])
    j = np.concatenate([q, r, r, q])
    value = np.repeat([np.sqrt(0.5), np.sqrt(0.5), -np.sqrt(0.5), -1.0], ids.size)
    row = np.tile(np.arange(ids.size), 4)
    kept = (i < n - 1) & (j < n - 1)
    at = triangle.at[i[kept], j[kept]]
    rows = sp.csc_array((value[kept], (row[kept], at)), shape=(ids.size, triangle.size))
    return triangle, triangle.vec(L[:-1, :-1]), spread, rows


def by_entries(adjacency) -> Lmi:
    """All triangle rows, with the entries of X as variables."""
    n = len(adjacency)
    triangle, cost, spread, rows = parts(adjacency, np.arange(Triangles(n).size))
    G = sp.csc_array(sp.vstack([rows, -sp.csr_array(spread[None, :])]))
    h = np.zeros(G.shape[0])
    h[-1] = -(n**2) / 2
    return Lmi(
        cost, G, h, sp.eye_array(triangle.size, format="csc"), np.zeros(triangle.size), n - 1
    )


def by_multipliers(adjacency, ids) -> Lmi:
    """Some triangle rows, with one variable for the spread and one for each row; X is the dual."""
    n = len(adjacency)
    _, cost, spread, rows = parts(adjacency, ids)
    q = np.zeros(1 + ids.size)
    q[0] = -(n**2) / 2
    M = sp.csc_array(sp.hstack([-sp.csc_array(spread[:, None]), rows.T]))
    G = -sp.eye_array(q.size, format="csc")
    return Lmi(q, G, np.zeros(q.size), M, cost, n - 1)


def gram(X):
    """W of all n vertices."""
    W = np.zeros((len(X) + 1, len(X) + 1))
    W[:-1, :-1] = X
    return W


class AllTriangles:
    """For a `ConicSolver`: the whole program at once."""

    def model(self, data):
        return by_entries(data.adjacency)

    def read(self, answer):
        W = gram(Triangle(len(self.data.adjacency) - 1).mat(answer.x))
        return W, {"triangles": answer.y[:-1]}
