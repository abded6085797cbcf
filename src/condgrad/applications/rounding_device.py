"""From a matrix on a GPU to a cut: the same sweeps and steps as in `rounding`, many at once."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp

from condgrad._types import Array
from condgrad.applications.rounding import KEPT, SLACK, Cut, checked_graph
from condgrad.backends import kernels
from condgrad.backends.arrays import diagonal, host, namespace
from condgrad.domains.bottom import drawn
from condgrad.domains.eigen import lowest_eigpair
from condgrad.methods.frames import ritz_pairs

AT_ONCE = 256
"""Rows and distances that are tried at a time; the next ones follow at the next call."""
OFFERED = 40
"""Best orders whose cuts are looked at."""
VECTORS, MORE = 5, 10
"""Leading eigenvectors that are swept, and the vectors beside them that they are found with."""
ACCURATE = 20.0
"""Effort of the oracle for an eigenvector."""


class DeviceGraph:
    """A graph on a GPU.

    Parameters
    ----------
    A : SciPy sparse array
        A checked adjacency matrix.
    vertex_weights : array, optional
        μ > 0 of every vertex; default: 1.
    like : array
        An array on the GPU.
    """

    def __init__(self, A: Any, vertex_weights: Any, like: Array) -> None:
        n = A.shape[0]
        self.graph, self.weights = checked_graph(A, vertex_weights), vertex_weights
        self.sizes, self.sum = self.graph.sizes, float(self.graph.sizes.sum())
        starts, ends = A.indptr.astype(np.int32), A.indices.astype(np.int32)
        self.edges = [np.asarray(x, like=like) for x in (starts, ends, A.data)]
        self.A = np.zeros((n, n), like=like)
        flat = np.repeat(n * np.arange(n), np.diff(A.indptr)) + A.indices
        self.A.reshape(-1)[np.asarray(flat, like=like)] = self.edges[-1]
        self.mu = np.asarray(self.sizes, like=like)
        components = sp.csgraph.connected_components(A, directed=False)[1]
        self.components = np.asarray(components.astype(np.float64)[None], like=like)
        self.degrees = self.A.sum(axis=1)
        self.total = float(A.sum())


@dataclass
class Seen:
    """Memory of a `DeviceRounder`."""

    improved: dict[bytes, Cut] = field(default_factory=dict)
    """The improved cut of every cut that was improved."""
    next: int = 0
    """The first row of W to try next."""
    near: Array | None = None
    """Vectors near the leading eigenvectors, as rows."""


class DeviceRounder:
    """Rounds matrices on a GPU to cuts of one graph.

    Vertices are ordered by leading eigenvectors of W, its rows and distances, as `round_cut` does,
    but by 256 rows at a call, others at the next; the best ten distinct cuts are improved by the
    same steps. A cut that was improved once is not improved again.

    Parameters
    ----------
    graph : DeviceGraph
        The graph.
    seen : Seen, optional
        What the calls before remember.
    """

    def __init__(self, graph: DeviceGraph, seen: Seen | None = None) -> None:
        self._own, self.seen = graph, seen or Seen()

    def __call__(self, W: Array) -> Cut:
        """The best cut.

        Orders do not change where a number is added to all entries of a row: W is not centred.
        """
        n, mu = W.shape[0], self._own.mu
        some = (self.seen.next + np.arange(min(n, AT_ONCE))) % n
        self.seen.next = (self.seen.next + AT_ONCE) % n
        at, leading = np.asarray(some, like=W), self._leading(W)
        rows, own = W[at], diagonal(W)
        if self._own.weights is None:
            distances = own - 2 * rows
            rows = W.mean(axis=0) - rows
        else:
            root = np.sqrt(mu)
            rows /= root
            rows /= root[at][:, None]
            distances = own / mu - 2 * rows
            np.negative(rows, out=rows)
            leading = leading / root
        scores = np.concatenate([leading, rows, distances, self._own.components])
        found = self._sweep(scores)
        best = sorted(found, key=found.__getitem__)[:KEPT]
        return min((self._step(key) for key in best), key=lambda cut: cut.value)

    def by_eigenvector(self) -> Cut:
        """The best cut of the spectral relaxation: L scaled by μ, and its second eigenvector."""
        own = self._own
        root = np.sqrt(own.mu)
        V = own.A / -root
        V /= root[:, None]
        diagonal(V)[:] += own.degrees / own.mu
        v = lowest_eigpair(V, effort=ACCURATE, fixed=(root / np.sqrt(own.sum))[:, None]).vector
        return self(np.outer(v, v))

    def _leading(self, W: Array) -> Array:
        """Leading eigenvectors as rows, by two steps of subspace iteration.

        It begins with those of the call before and random columns.
        """
        n, width = W.shape[0], min(W.shape[0], VECTORS + MORE)
        B = np.empty((2 * width, n), like=W)
        Y, Z = B[:width], B[width:]
        Z[:] = drawn(n, width, W).T
        if self.seen.near is not None:
            Z[: len(self.seen.near)] = self.seen.near
        Z.dot(W).dot(W, out=Y)
        Y.dot(W, out=Z)
        M = host(B.dot(B.T))
        mix = ritz_pairs(M[:width, :width], M[:width, width:])[1]
        if not mix.size:  # W is 0
            return Y[:VECTORS]
        self.seen.near = np.asarray(np.ascontiguousarray(mix[:, :VECTORS].T), like=W).dot(Y)
        return self.seen.near

    def _sweep(self, scores: Array) -> dict[bytes, float]:
        """The best prefixes of the orders given by the rows of `scores`, with their values."""
        own, at_hand = self._own, kernels(scores)
        order = namespace(scores).argsort(scores, axis=1)
        place = at_hand.places(order)
        earlier = at_hand.earlier(place, *own.edges)
        found = host(at_hand.prefixes(order, earlier, own.degrees, own.mu, own.sum))
        chosen = np.argsort(found[0], kind="stable")[:OFFERED]
        lowest, last = found[:, chosen]
        some = place[np.asarray(chosen, like=place)]
        sides = host(some <= np.asarray(last.astype(np.int32)[:, None], like=place))
        size = 2 * np.count_nonzero(sides, axis=1)
        other = (size > sides.shape[1]) | ((size == sides.shape[1]) & ~sides[:, 0])
        sides[other] = ~sides[other]  # `smaller_side` of all of them
        return {side.tobytes(): float(value) for side, value in zip(sides, lowest, strict=True)}

    def _step(self, key: bytes) -> Cut:
        """A cut improved, and its value summed over the edges across."""
        if key not in self.seen.improved:
            side = self._improve(np.frombuffer(key, bool))
            self.seen.improved[key] = self._own.graph.cut(side)
        return self.seen.improved[key]

    def _improve(self, side: Array) -> Array:
        """`improved` on the GPU: a few numbers come to the CPU for every step."""
        A, mu, whole = self._own.A, self._own.mu, self._own.total
        xp, n, least, all_ = namespace(A), side.size, float(self._own.sizes.min()), self._own.sum
        sign = np.asarray(np.where(side, 1.0, -1.0), like=A)
        for _ in range(10 * n):  # where sizes differ much, rounding can lead in circles
            pull = A @ sign
            cut, more, ours = (whole - sign @ pull) / 4, mu @ sign, (n + sign.sum()) / 2
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
            limit = here / (own * (all_ - own)) - SLACK * whole / all_
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
        A, mu, least = self._own.A, self._own.mu, float(self._own.sizes.min())
        xp = namespace(A)
        ours = sign > 0
        shift = mu[:, None] - mu
        values = cut + own[:, None] + own + 2 * A
        values /= xp.maximum(size - shift, least) * xp.maximum(rest + shift, least)
        values = xp.where(ours[:, None] & ~ours, values, np.inf)
        at = int(xp.argmin(values))
        i, j = divmod(at, sign.size)
        return float(values[i, j]), i, j
