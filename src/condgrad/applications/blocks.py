"""Biconnected blocks of a graph, each with what hangs on its vertices, and the cuts of cycles."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from condgrad._types import Array
from condgrad.applications.rounding import Cut

DENSE = 20
"""Edges are left out before blocks are looked for where there are more for each vertex."""


class Block(NamedTuple):
    """A block with at least two vertices."""

    vertices: Array
    """Vertices of the block, in the order of the graph."""
    weights: Array
    """Weight of every vertex of the block: its own and that of all vertices that hang on it."""


def blocks_of(adjacency: Any, weights: Array) -> list[Block]:
    r"""The blocks of a connected graph, largest first.

    Of all cuts (S, S̄) with the least w(S, S̄)/(μ(S) μ(S̄)) there is one with both sides connected:
    were S̄ = T₁ ∪ T₂ without an edge between, w(S, S̄) = w(T₁, T̄₁) + w(T₂, T̄₂) while
    μ(S) μ(S̄) ≤ μ(T₁) μ(T̄₁) + μ(T₂) μ(T̄₂), so that one of the two is no worse. The edges across such
    a cut are a bond, which lies in one block, and whatever hangs on a vertex of the block is on its
    side. So the best cut of the graph is the best of the cuts of its blocks, with these weights,
    which are sums of positive numbers: each is off by n roundings at most.

    Parameters
    ----------
    adjacency : sparse array
        Symmetric; numbers other than 0 are edges.
    weights : array
        μ > 0 of every vertex.

    References
    ----------
    .. [1] J. Hopcroft, R. Tarjan, "Algorithm 447: efficient algorithms for graph manipulation",
       Commun. ACM 16(6), 1973.
    """
    hung = np.array(weights, np.float64)  # with all that hangs below
    parts: list[tuple[int, list[int], Array]] = []
    at: dict[int, list[int]] = {}
    for root, others in _components(sp.csr_array(adjacency)):  # the farthest from vertex 0 first
        parts.append((root, others, hung[others]))
        at.setdefault(root, []).append(len(parts) - 1)
        hung[root] += hung[others].sum()
    above, found = np.zeros(hung.size), []  # what hangs on a vertex on the side of vertex 0
    for root in sorted(at, key=lambda root: -max(at[root])):  # the nearest first
        beside = _others([float(parts[i][2].sum()) for i in at[root]])
        for i, rest in zip(at[root], beside, strict=True):
            _, others, below = parts[i]
            own = np.concatenate([[weights[root] + above[root] + rest], below])
            above[others] = _others(own)[1:]
            order = np.argsort([root, *others])
            found.append(Block(np.array([root, *others])[order], own[order]))
    return sorted(found, key=lambda block: -block.vertices.size)


def _others(numbers: Any) -> Array:
    """For each of some positive numbers the sum of the others, without a difference."""
    x = np.asarray(numbers, np.float64)
    before = np.concatenate([[0.0], np.cumsum(x)[:-1]])
    after = np.concatenate([np.cumsum(x[::-1])[::-1][1:], [0.0]])
    return np.asarray(before + after)


def extended(adjacency: Any, block: Block, side: Array) -> Array:
    """The cut of the graph in which every vertex is on the side of the one that it hangs on.

    That is the one of the block it is still connected with when the edges of the block are gone.
    """
    A, inside = sp.coo_array(adjacency), np.zeros(adjacency.shape[0], bool)
    inside[block.vertices] = True
    u, v = A.coords
    outside = ~(inside[u] & inside[v])
    rest = sp.coo_array((np.ones(outside.sum()), (u[outside], v[outside])), shape=A.shape)
    label = sp.csgraph.connected_components(rest, directed=False)[1]
    first = np.zeros(label.max() + 1, bool)
    first[label[block.vertices]] = side
    return first[label]


def sparser(A: Any) -> Any:
    """A graph with the same vertices in every block, and at most two edges for each vertex.

    A forest of breadth-first search, and another one in the edges that are left: without any one
    vertex the two together are connected wherever all edges are [1]_.

    References
    ----------
    .. [1] J. Cheriyan, M.-Y. Kao, R. Thurimella, "Scan-first search and sparse certificates: an
       improved parallel algorithm for k-vertex connectivity", SIAM J. Comput. 22(1), 1993.
    """
    n, found = A.shape[0], sp.csr_array(A.shape)
    rest = sp.csr_array((np.ones(A.indices.size), A.indices, A.indptr), shape=A.shape)
    for last in (False, True):
        count, label = sp.csgraph.connected_components(rest, connection="strong")  # both ways
        before = np.full(n, -1)
        for root in np.unique(label, return_index=True)[1][np.bincount(label, minlength=count) > 1]:
            order, parent = sp.csgraph.breadth_first_order(rest, root)
            before[order[1:]] = parent[order[1:]]
        at = np.nonzero(before >= 0)[0]
        forest = sp.csr_array((np.ones(at.size), (at, before[at])), shape=A.shape)
        forest = forest + forest.T
        found = found + forest
        if not last:
            rest = sp.csr_array(rest - forest)
            rest.eliminate_zeros()
    return sp.csr_array(found)


def _components(A: Any) -> Iterator[tuple[int, list[int]]]:
    """The biconnected components, by depth-first search without recursion.

    The vertex of each that is nearest to vertex 0, and the others.
    """
    A = sparser(A) if A.indices.size > DENSE * A.shape[0] else A
    n, starts, ends = A.shape[0], A.indptr.tolist(), A.indices.tolist()
    depth, low, parent, seen = [-1] * n, [0] * n, [-1] * n, starts[:-1]
    stack, trail = [0], [0]
    depth[0] = 0
    while stack:
        u = stack[-1]
        if seen[u] < starts[u + 1]:
            v = ends[seen[u]]
            seen[u] += 1
            if depth[v] < 0:
                parent[v], depth[v], low[v] = u, depth[u] + 1, depth[u] + 1
                stack.append(v)
                trail.append(v)
            elif v != parent[u]:
                low[u] = min(low[u], depth[v])
            continue
        stack.pop()
        if (p := parent[u]) < 0:
            continue
        low[p] = min(low[p], low[u])
        if low[u] >= depth[p]:  # nothing below u reaches above p
            at = trail.index(u, depth[u])
            yield p, trail[at:]
            del trail[at:]


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
