r"""Triangle inequalities near the edges of a large graph, by multipliers.

Of x_ij = (1 − s_i s_j)/2, which says that i and j are on different sides, every cut has

.. math:: x_{ij} + x_{ik} + x_{jk} ≤ 2, \qquad x_{ij} ≤ x_{ik} + x_{jk}.

With a multiplier λ ≥ 0 for each, and whatever they are,

.. math:: \max_{\mathrm{cuts}} w^\top x ≤ b^\top λ + \max_{\mathrm{cuts}} (w - B^\top λ)^\top x,

where the inequalities are Bx ≤ b, and the relaxation of the right side needs no other rows than
diag W = 1: only its weights are others. At vertices with few neighbours the relaxation allows most
of what no cut has. So the triangles here are those of the edges at such vertices and of all pairs
of neighbours of one of them; pairs without an edge enter with weight 0.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from condgrad import _deadline as deadline
from condgrad._floats import EPS
from condgrad._types import Array
from condgrad.backends import memory, ops

FEW = 8
"""Pairs of neighbours are added at vertices with at most so many."""
RATE, DECAY = 6.0, 0.1
"""The step of the multipliers is RATE/(1 + DECAY k), in units of what an edge can bear."""
AFRESH = 10
"""Steps after which the step sizes of the edges are computed anew."""
EACH = 3 * 4 + 4 * 8
"""Bytes for a triangle: its edges and its multipliers."""
BESIDE, PRICE = 300, 2e-6
"""Bytes and seconds, about, for two neighbours of a vertex until the triangles are found."""


class LocalTriangles:
    """Multipliers of triangle inequalities, and the graph that they leave.

    Parameters
    ----------
    A : SciPy sparse matrix
        A checked adjacency matrix, weights of any sign.
    most : int, optional
        Where there are more triangles none is taken.
    """

    def __init__(self, A: Any, most: int = 2**31) -> None:
        n = A.shape[0]
        pattern = sp.csr_array((np.ones(A.indices.size), A.indices, A.indptr), shape=A.shape)
        few = np.diff(A.indptr) <= FEW
        around = pattern[np.flatnonzero(few)]
        pairs = sp.csr_array(around.T @ around)
        pairs.data[:] = 1
        upper = sp.coo_array(sp.triu(pattern + 2 * pairs, 1))  # 1 for an edge, 2 for a pair, or 3
        u, v = (side.astype(np.int64) for side in upper.coords)
        self.ends, count = (u, v), np.arange(u.size)
        both = sp.coo_array((np.r_[count, count] + 1, (np.r_[u, v], np.r_[v, u])), shape=(n, n))
        self._number = sp.csr_array(both)  # of edges and pairs, from 1
        own = sp.coo_array(sp.triu(A, 1))
        self._weights = np.zeros(u.size)
        self._weights[self._number[own.coords] - 1] = own.data
        self.triangles = _triangles(u, v, (upper.data > 1) | few[u] | few[v], n, most)
        self._longest = int(np.bincount(self.triangles.reshape(-1), minlength=1).max(initial=0))
        self.multipliers = np.zeros((len(self.triangles), 4))
        self._cover, self._give = np.zeros(u.size), np.ones(u.size)
        self._steps, self._matrix = 0, A

    @property
    def matrix(self) -> Any:
        """The weights w − Bᵀλ, as a CSR matrix without zeros."""
        return self._matrix

    @property
    def constant(self) -> float:
        """About bᵀλ."""
        return 2 * float(self.multipliers[:, 0].sum())

    @property
    def state(self) -> tuple[Any, ...]:
        """State that a checkpoint keeps."""
        A = self._matrix
        matrix = A.data, A.indices, A.indptr
        return self.multipliers, self._cover, self._give, self._steps, matrix

    @state.setter
    def state(self, kept: tuple[Any, ...]) -> None:
        self.multipliers, self._cover, self._give, self._steps, matrix = kept
        self._matrix = sp.csr_array(matrix, shape=self._matrix.shape)

    def step(self, V: Array) -> None:
        """Raise the multipliers of what VVᵀ violates and lower the others.

        A weight of an edge ij that changes by δ moves x_ij by about δ(1/y_i + 1/y_j), y_i being the
        length of Σ_j a_ij v_j. A triangle gets a share of that in which all multipliers on its
        edges can move at once.
        """
        u, v = self.ends
        if self._steps % AFRESH == 0:
            y = np.linalg.norm(self._matrix @ V, axis=1)
            y = np.maximum(y, float(y.mean()) / 100 or 1.0)
            self._give = 1 / y[u] + 1 / y[v]
        x = np.empty(u.size)
        ops.pair_dots(u, v, V, V, x)
        x = (1 - x) / 2
        if self._steps == 0:
            self._move(x, 0.0)
            above = _violated(self.triangles, x)
            self._cover = np.bincount(self.triangles[above].reshape(-1), minlength=u.size) + 0.0
        self._move(x, RATE / (1 + DECAY * self._steps))
        self._steps += 1

    def _move(self, x: Array, rate: float) -> None:
        cost, weights = self._give * np.maximum(self._cover, 1.0), self._weights.copy()
        how = (self.triangles, x, self.multipliers, cost, rate, weights)
        ops.triangle_multipliers(*how, self._cover)
        number = self._number
        own = (weights[number.data - 1], number.indices, number.indptr)
        found = sp.csr_array(own, shape=number.shape, copy=True)
        found.eliminate_zeros()
        self._matrix = found

    @property
    def slack(self) -> float:
        """Rounding error of `constant` below bᵀλ, and of `matrix` below w − Bᵀλ.

        An entry of the latter is a sum of at most four multipliers for each triangle.
        """
        total, most = float(self.multipliers.sum()), 4 * self._longest + 2
        sums = most * (float(np.abs(self._weights).sum()) + 3 * total)
        return EPS * (sums + 2 * (self.multipliers.shape[0] + 2) * total)


def room(A: Any) -> int:
    """Triangles of a graph for which there is memory, 0 where there is no time to find them."""
    degrees = np.diff(A.indptr).astype(np.float64)
    beside = float((degrees[degrees <= FEW] ** 2).sum()) + A.nnz
    free = memory.free_memory() - memory.OTHER - BESIDE * beside
    return int(max(0.0, free) / (2 * EACH)) if deadline.fits(PRICE * beside) else 0


def _violated(triangles: Array, x: Array) -> Array:
    """Which triangles have an inequality that x does not obey."""
    sides = np.sort(x[triangles], axis=1)
    found: Array = (sides.sum(axis=1) > 2) | (sides[:, 2] > sides[:, 0] + sides[:, 1])
    return found


def _triangles(u: Array, v: Array, chosen: Array, n: int, most: int) -> Array:
    """The triangles of the edges that are chosen, three numbers of edges each.

    Every edge is directed to the end with more neighbours, so that no vertex has many heads.
    """
    number = np.flatnonzero(chosen)
    u, v = u[number], v[number]
    degrees = np.bincount(np.r_[u, v], minlength=n)
    swap = (degrees[u] > degrees[v]) | ((degrees[u] == degrees[v]) & (u > v))
    tail, head = np.where(swap, v, u), np.where(swap, u, v)
    order = np.lexsort((head, tail))
    indptr = np.r_[0, np.cumsum(np.bincount(tail, minlength=n))]
    found: Array = ops.list_triangles(indptr, head[order], number[order].astype(np.int32), most)
    return found
