"""From a matrix on a GPU to a cut: the same sweeps and steps as in `rounding`, many at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from condgrad._types import Array
from condgrad.applications.rounding import KEPT, SLACK, Cut, graph_of, sizes_of, smaller_side
from condgrad.backends import kernels
from condgrad.backends.arrays import beyond, diagonal, eigenpairs, host, namespace

AT_ONCE = 256
"""Rows and distances that are tried at a time; the next ones follow at the next call."""
OFFERED = 40
"""Best orders whose cuts are looked at."""
VECTORS, MORE = 5, 10
"""Leading eigenvectors that are swept, and the vectors beside them that they are found with."""


class DeviceRounder:
    """Rounds matrices on a GPU to cuts of one graph.

    Vertices are ordered by leading eigenvectors of W, its rows and distances, as `round_cut` does,
    but by 256 rows at a call, others at the next; the best ten distinct cuts are improved by the
    same steps. A cut that was improved once is not improved again.

    Parameters
    ----------
    adjacency : array or SciPy sparse matrix
        The graph.
    vertex_weights : array, optional
        μ > 0 of every vertex; default: 1.
    like : array
        An array on the GPU.
    """

    def __init__(self, adjacency: Any, vertex_weights: Any, like: Array) -> None:
        A = sp.csr_array(adjacency, dtype=np.float64)
        A.setdiag(0)
        A.eliminate_zeros()
        self._graph, self._weights = graph_of(adjacency, vertex_weights), vertex_weights
        self._sizes = sizes_of(vertex_weights, A.shape[0])
        starts, ends = A.indptr.astype(np.int32), A.indices.astype(np.int32)
        self._edges = [np.asarray(x, like=like) for x in (starts, ends, A.data)]
        self._A = np.asarray(A.toarray(), like=like)
        self._mu = np.asarray(self._sizes, like=like)
        components = sp.csgraph.connected_components(A, directed=False)[1]
        self._components = np.asarray(components.astype(np.float64)[None], like=like)
        self._degrees = self._A.sum(axis=1)
        self._total = float(A.sum())
        self._improved: dict[bytes, Cut] = {}
        self._next = 0

    def __call__(self, W: Array) -> Cut:
        """The best cut."""
        W = 0.5 * (W + W.T)
        if self._weights is None:
            mean = W.mean(axis=0)
            W = W - mean - mean[:, None] + mean.mean()
        else:
            root = np.sqrt(self._mu)
            W = W / root / root[:, None]
        own, n = diagonal(W), W.shape[0]
        some = (self._next + np.arange(min(n, AT_ONCE))) % n
        self._next = (self._next + AT_ONCE) % n
        rows = W[np.asarray(some, like=W)]
        distances = own[None] - 2 * rows  # up to a number for each order
        scores = np.concatenate([self._leading(W), -rows, distances, self._components])
        found = self._sweep(scores)
        best = sorted(found, key=found.__getitem__)[:KEPT]
        return min((self._step(key) for key in best), key=lambda cut: cut.value)

    def _leading(self, W: Array) -> Array:
        """Leading eigenvectors as rows, by two steps of subspace iteration."""
        n = W.shape[0]
        start = np.random.default_rng(0).standard_normal((n, min(n, VECTORS + MORE)))
        none, P = np.empty((n, 0), like=W), np.asarray(start, like=W)
        for _ in range(2):
            P = beyond(none, W @ P)
        vectors = P @ eigenpairs(P.T @ (W @ P))[1]
        return vectors[:, ::-1][:, :VECTORS].T

    def _sweep(self, scores: Array) -> dict[bytes, float]:
        """The best prefixes of the orders given by the rows of `scores`, with their values."""
        xp, (orders, n) = namespace(scores), scores.shape
        order = xp.argsort(scores, axis=1)
        place = xp.empty((orders, n), np.int32)
        lines = xp.arange(orders)[:, None]
        place[lines, order] = xp.arange(n, dtype=np.int32)[None]
        earlier = kernels(scores).earlier(place, *self._edges)
        gains = (self._degrees - 2 * earlier)[lines, order]
        size = xp.cumsum(self._mu[order], axis=1)
        total = self._mu.sum()
        rest = total - size[:, :-1]
        values = xp.cumsum(gains, axis=1)[:, :-1] * (total * total / 2) / (size[:, :-1] * rest)
        at = xp.argmin(values, axis=1)
        lowest = values[lines[:, 0], at]
        chosen = xp.argsort(lowest)[:OFFERED]
        sides = host(place[chosen] <= at[chosen][:, None])
        pairs = zip(sides, host(lowest[chosen]), strict=True)
        return {smaller_side(side).tobytes(): float(value) for side, value in pairs}

    def _step(self, key: bytes) -> Cut:
        """A cut improved, and its value summed over the edges across."""
        if key not in self._improved:
            side = self._improve(np.frombuffer(key, bool))
            self._improved[key] = self._graph.cut(side)
        return self._improved[key]

    def _improve(self, side: Array) -> Array:
        """`improved` on the GPU: a few numbers come to the CPU for every step."""
        xp, A, mu = namespace(self._A), self._A, self._mu
        n, least, all_ = side.size, float(self._sizes.min()), float(self._sizes.sum())
        sign = np.asarray(np.where(side, 1.0, -1.0), like=A)
        for _ in range(10 * n):  # where sizes differ much, rounding can lead in circles
            pull = A @ sign
            cut, more, ours = (self._total - sign @ pull) / 4, mu @ sign, (n + sign.sum()) / 2
            pull *= sign  # what the cut gains if the vertex changes sides
            size, signed = (all_ + more) / 2, sign * mu
            left = xp.maximum(size - signed, least)  # with the vertex on the other side
            right = xp.maximum(all_ - size + signed, least)
            values = (cut + pull) / (left * right)
            lone = xp.where(sign > 0, ours, n - ours) < 1.5
            values = xp.where(lone, np.inf, values)
            i = xp.argmin(values)
            told = host(xp.stack([i.astype(np.float64), values[i], cut, size]))
            at, value, here, own = (float(x) for x in told)
            limit = here / (own * (all_ - own)) - SLACK * self._total / all_
            if value < limit:
                sign[int(at)] *= -1
                continue
            value, i, j = self._swap(sign, pull, here, own, all_ - own)
            if value >= limit:
                break
            sign[i], sign[j] = -1.0, 1.0
        return host(sign) > 0

    def _swap(
        self, sign: Array, own: Array, cut: float, size: float, rest: float
    ) -> tuple[float, int, int]:
        """The pair, one of each side, whose exchange gives the lowest value."""
        xp, mu, least = namespace(self._A), self._mu, float(self._sizes.min())
        ours = sign > 0
        shift = mu[:, None] - mu
        values = cut + own[:, None] + own + 2 * self._A
        values /= xp.maximum(size - shift, least) * xp.maximum(rest + shift, least)
        values = xp.where(ours[:, None] & ~ours, values, np.inf)
        at = int(xp.argmin(values))
        i, j = divmod(at, sign.size)
        return float(values[i, j]), i, j
