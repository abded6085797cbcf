"""From the matrix to a cut."""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from condgrad import _deadline as deadline
from condgrad._check import dimension, numbers
from condgrad._types import Array
from condgrad.applications.graphs import adjacency_matrix
from condgrad.errors import ProblemError

AT_ONCE = 16
"""Orders that are swept at a time."""
KEPT = 10
"""Number of distinct cuts of the sweep that are improved."""
LEAST, MOST = 1e-50, 1e50
"""Weights of vertices, whose squares are multiplied."""
SHARE = 0.25
"""The part of the time left that a rounding may take."""
SLACK = 1e-12
"""A step must lower the cut by more than this share of the total weight: less is rounding."""


Swap = Callable[[Array, Array, float, float, float], tuple[float, int, int]]


class Cut(NamedTuple):
    """A partition of the vertices and its value.

    That is n² w(S, S̄)/(2|S||S̄|) for sparsest cut, w(S, S̄) for max-cut. With weights μ of the
    vertices |S| stands for their sum over S, and n for that over all of them.
    """

    side: Array
    """True for the vertices of S, the smaller side (of two halves, the one of vertex 0)."""
    value: float


class Graph(NamedTuple):
    """Each edge once, by its ends and its weight; the sizes of the vertices."""

    n: int
    u: Array
    v: Array
    weight: Array
    sizes: Array

    def adjacency(self) -> Any:
        """The sparse symmetric matrix."""
        A = sp.csr_array((self.weight, (self.u, self.v)), shape=(self.n, self.n))
        return sp.csr_array(A + A.T)

    def cut(self, side: Array) -> Cut:
        """The cut with its value, summed over the edges across: exactly 0 where there are none."""
        size, rest = self.sizes[side].sum(), self.sizes[~side].sum()
        across = self.weight[side[self.u] != side[self.v]].sum()
        return Cut(smaller_side(side), float((size + rest) ** 2 * across / (2 * size * rest)))


def cut_value(adjacency: Any, side: Array, vertex_weights: Any = None) -> float:
    """n² w(S, S̄)/(2|S||S̄|), the objective of the relaxation at the cut; see `Cut`.

    Examples
    --------
    >>> cut_value(np.ones((4, 4)) - np.eye(4), np.array([True, False, False, False]))
    8.0
    """
    graph = graph_of(adjacency, vertex_weights)
    return graph.cut(_two_sides(side, graph.n)).value


def cut_matrix(side: Array, vertex_weights: Any = None, like: Array | None = None) -> Array:
    r"""The point of the relaxation that stands for a cut.

    .. math:: W = \frac{n^2}{2|S||\bar S|}\, x x^\top, \qquad x = 1_S - \frac{|S|}{n} 1

    With weights μ the entries of x are multiplied by their square roots, and |S| and n are sums.

    W1 = 0 and Tr W = n/2, so n Tr W − 1ᵀW1 = n²/2. The squared distances W_ii + W_jj − 2W_ij are a
    multiple of the cut metric, so every triangle inequality holds, and ⟨L, W⟩ is `cut_value`.

    Parameters
    ----------
    side : array of bool
        True for the vertices of S; neither side may be empty.
    vertex_weights : array, optional
        μ > 0 of every vertex; default: 1.
    like : array, optional
        It is made where this array lies; default: an array of NumPy.

    References
    ----------
    .. [1] S. Arora, S. Rao, U. Vazirani, J. ACM 56(2), 2009.
    """
    x = _two_sides(side).astype(np.float64)
    mu = sizes_of(vertex_weights, x.size)
    n, size = mu.sum(), float(x @ mu)
    x = np.sqrt(mu) * (x - size / n)
    if like is not None:
        x = np.asarray(x, like=like)
    W: Array = n * n / (2 * size * (n - size)) * np.outer(x, x)
    return W


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
    A = adjacency_matrix(adjacency)
    return sweep_orders(A, None, _leading(_centred(W, A.shape[0]), vectors))


def round_cut(adjacency: Any, W: Array, vectors: int = 5, vertex_weights: Any = None) -> Cut:
    r"""The best cut read off W by sweeping and local improvement.

    Vertices are ordered by each leading eigenvector of the centred W, by each of its rows, and by
    the distance :math:`W_{ii} + W_{jj} - 2 W_{ij}` from each vertex i, in turn; all n − 1 prefixes
    of each order are tried. The best ten distinct cuts are then improved: the vertex whose change
    of side, or else the pair whose exchange, lowers the value most is moved until none does. The
    value is 0 for a graph that is not connected: its components are one more order.

    Parameters
    ----------
    adjacency : array or SciPy sparse matrix
        The graph.
    W : array
        Solution of the relaxation; it may be inaccurate.
    vectors : int, default 5
        How many eigenvectors to sweep.
    vertex_weights : array, optional
        μ > 0 of every vertex; default: 1.

    Notes
    -----
    If each vertex is a point x_i with Gram matrix W and the squared distances obey the triangle
    inequality, thresholds of the distance to a set give a cut O(√log n) times the optimum [1]_;
    single vertices are the sets tried here, and nothing is promised for them. The step is that of
    Kernighan and Lin [2]_ without its look-ahead.

    References
    ----------
    .. [1] S. Arora, S. Rao, U. Vazirani, J. ACM 56(2), 2009.
    .. [2] B. W. Kernighan, S. Lin, "An efficient heuristic procedure for partitioning graphs",
       Bell Syst. Tech. J. 49(2), 1970.

    Examples
    --------
    >>> path = np.diag(np.ones(5), 1) + np.diag(np.ones(5), -1)
    >>> cut = round_cut(path, cut_matrix(np.array([True, False, False, False, False, False])))
    >>> cut.side.tolist(), cut.value
    ([True, True, True, False, False, False], 2.0)
    """
    graph = graph_of(adjacency, vertex_weights)
    root = np.sqrt(graph.sizes)
    W = _centred(W, graph.n) if vertex_weights is None else W / root / root[:, None]
    A = graph.adjacency()
    diagonal = np.diag(W)
    distances = diagonal[:, None] + diagonal - 2 * W
    components = sp.csgraph.connected_components(A, directed=False)[1]
    found: dict[bytes, float] = {}
    end, leading = deadline.share(SHARE), np.zeros((0, graph.n))
    if deadline.fits(deadline.cost(graph.n, deadline.VALUES / SHARE)):
        leading = _leading(W, vectors)
    for scores in (leading, -W, distances):
        found |= _sweep(graph, scores, end)
    found |= _sweep(graph, components[None])
    best = heapq.nsmallest(KEPT, found, key=found.__getitem__)
    cuts: list[Cut] = []
    for key in best:
        if not cuts or time.perf_counter() < end:
            cuts.append(graph.cut(_improve(A, graph.sizes, _unpack(key), end)))
    return min(cuts, key=lambda cut: cut.value)


def sweep_orders(A: Any, weights: Any, scores: Array) -> Cut:
    """The best prefix of the orders given by rows of `scores`, for a checked adjacency matrix."""
    graph = checked_graph(A, weights)
    found = _sweep(graph, scores)
    return graph.cut(_unpack(min(found, key=found.__getitem__)))


def graph_of(adjacency: Any, vertex_weights: Any = None) -> Graph:
    """A graph made ready for the values of many cuts."""
    return checked_graph(adjacency_matrix(adjacency), vertex_weights)


def checked_graph(A: Any, vertex_weights: Any) -> Graph:
    """Graph of a checked adjacency matrix."""
    upper = sp.coo_array(sp.triu(A, 1))
    (u, v), n = upper.coords, upper.shape[0]
    return Graph(n, u, v, upper.data, sizes_of(vertex_weights, n))


def sizes_of(vertex_weights: Any, n: int, name: str = "vertex_weights") -> Array:
    """Checked weights of the vertices, 1 each without any."""
    if vertex_weights is None:
        return np.ones(n)
    sizes = numbers(name, vertex_weights)
    if sizes.shape != (n,) or not (sizes > 0).all():
        raise ProblemError(
            f"{name} must be {n} positive numbers, one for each vertex: got shape "
            f"{sizes.shape}" + ("" if sizes.shape != (n,) else f" with {sizes.min():g} in it")
        )
    if not ((sizes > LEAST) & (sizes < MOST)).all():
        raise ProblemError(f"{name} must lie between {LEAST:g} and {MOST:g}: choose another unit")
    return sizes


def _two_sides(side: Array, n: int | None = None) -> Array:
    side = np.asarray(side)
    if side.ndim != 1 or side.size != (n or side.size):
        raise ProblemError(f"side has shape {side.shape}: it must hold one entry per vertex")
    side = side.astype(bool)
    if side.all() or not side.any():
        raise ProblemError(
            "side puts all vertices together: a cut has two sides that are not empty"
        )
    return side


def _centred(W: Array, n: int) -> Array:
    """HWH, H = I − 11ᵀ/n."""
    W = numbers("W", W)
    if W.shape != (n, n):
        raise ProblemError(f"W has shape {W.shape}: the graph has {n} vertices")
    W = (W + W.T) / 2
    mean = W.mean(axis=0)
    return np.asarray(W - mean - mean[:, None] + mean.mean())


def _leading(W: Array, vectors: int) -> Array:
    """The leading eigenvectors, one per row."""
    n = W.shape[0]
    last = n - min(dimension("vectors", vectors), n)
    _, basis = scipy.linalg.eigh(W, subset_by_index=(last, n - 1), check_finite=False)
    return np.asarray(basis.T[::-1])


def smaller_side(side: Array) -> Array:
    """The side with fewer vertices; of two halves, the one of vertex 0."""
    size = 2 * side.sum()
    return side if size < side.size or (size == side.size and side[0]) else ~side


def _unpack(key: bytes) -> Array:
    return np.frombuffer(key, dtype=bool)


def _sweep(graph: Graph, scores: Array, end: float = np.inf) -> dict[bytes, float]:
    """The best prefix of the order given by each row of `scores`, with its value, up to `end`.

    The vertex at place s of an order joins S with w(s, V) − 2 w(s, earlier vertices) added to the
    cut, and an edge is counted by the later of its ends: O(edges + n log n) an order.
    """
    n, u, v, weight, sizes = graph
    degree, total = np.bincount(u, weight, n) + np.bincount(v, weight, n), sizes.sum()
    found: dict[bytes, float] = {}
    for start in range(0, len(scores), AT_ONCE):
        if time.perf_counter() > end:
            break
        order = np.argsort(scores[start : start + AT_ONCE], axis=1, kind="stable")
        rows = np.arange(len(order))[:, None]
        place = np.empty_like(order)
        np.put_along_axis(place, order, np.arange(n)[None], axis=1)
        later = n * rows + np.maximum(place[:, u], place[:, v])
        weights = np.broadcast_to(weight, later.shape).ravel()
        earlier = np.bincount(later.ravel(), weights, order.size).reshape(order.shape)
        size = np.cumsum(sizes[order], axis=1)[:, :-1]
        rest = np.cumsum(sizes[order[:, ::-1]], axis=1)[:, -2::-1]
        scale = total * total / (2 * size * rest)
        values = scale * np.cumsum(degree[order] - 2 * earlier, axis=1)[:, :-1]
        best = np.argmin(values, axis=1)[:, None]
        for side, value in zip(place <= best, values[rows, best][:, 0], strict=True):
            found.setdefault(smaller_side(side).tobytes(), float(value))
    return found


def improved(A: Any, sizes: Array, side: Array, swap: Swap, end: float = np.inf) -> Array:
    """Move the best vertex, or else swap the best pair, until the value falls no more.

    … or the time is up, by `time.perf_counter`.
    """
    n, total, least = float(sizes.sum()), float(A.sum()), float(sizes.min())
    sign = np.where(side, 1.0, -1.0)
    for _ in range(10 * side.size):  # where sizes differ much, rounding can lead in circles
        pull = A @ sign
        cut = (total - sign @ pull) / 4
        pull *= sign  # what the cut gains if the vertex changes sides
        ours, theirs = np.nonzero(sign > 0)[0], np.nonzero(sign < 0)[0]
        size, rest = float(sizes[ours].sum()), float(sizes[theirs].sum())
        limit = cut / (size * rest) - SLACK * total / n
        left = np.maximum(size - sign * sizes, least)  # with the vertex on the other side
        right = np.maximum(rest + sign * sizes, least)
        lone = np.where(sign > 0, ours.size, theirs.size) == 1
        values = np.where(lone, np.inf, (cut + pull) / np.where(lone, 1.0, left * right))
        i = int(np.argmin(values))
        if values[i] < limit:
            sign[i] *= -1
            continue
        if time.perf_counter() > end:
            break
        value, i, j = swap(sign, pull, cut, size, rest)
        if value >= limit:
            break
        sign[i], sign[j] = -1.0, 1.0
    return np.asarray(sign > 0)


def _improve(A: Any, sizes: Array, side: Array, end: float = np.inf) -> Array:
    return improved(A, sizes, side, partial(_best_swap, A, sizes), end)


def _best_swap(
    A: Any, sizes: Array, sign: Array, pull: Array, cut: float, size: float, rest: float
) -> tuple[float, int, int]:
    """The pair, one of each side, whose exchange gives the lowest value (up to a factor)."""
    ours, theirs, least = np.nonzero(sign > 0)[0], np.nonzero(sign < 0)[0], float(sizes.min())
    gains = pull[ours, None] + pull[theirs] + 2 * A[ours][:, theirs].toarray()
    left = np.maximum(size - sizes[ours, None] + sizes[theirs], least)
    right = np.maximum(rest - sizes[theirs] + sizes[ours, None], least)
    values = (cut + gains) / (left * right)
    i, j = divmod(int(np.argmin(values)), theirs.size)
    return float(values[i, j]), int(ours[i]), int(theirs[j])
