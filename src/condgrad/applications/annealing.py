"""Cuts of large weight of graphs with many vertices."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from condgrad._types import Array
from condgrad.applications.rounding import SLACK, Cut
from condgrad.applications.rounding_max_cut import _cut, _improve
from condgrad.backends import backend, ops

LENGTHS = (100, 2000)
"""Sweeps of simulated annealing, one run after the other from the best cut so far."""
LONG = 20_000
"""Sweeps of a last run, on what is left of a graph, if there is time for it."""
HOT = 0.4
"""First temperature of that run, in units of the mean over vertices of the root of Σ_j a_ij²."""
AT_ONCE = 16
"""Hyperplanes at a time."""
SWEEPS = (100, 400, 2000)
"""Of simulated annealing, each time a cut is looked for; where they are not compiled only the first
two."""


class Search:
    """The best cut found of a graph, which is there at every moment.

    Parameters
    ----------
    A : SciPy sparse matrix
        A checked adjacency matrix, weights of any sign.
    seed : int or sequence of int
        Of all randomness.

    Notes
    -----
    The first cut is that of a spanning forest: every edge of it of positive weight is cut and no
    other edge of it. Where the graph has a cut with all positive edges and no negative one, as
    bipartite graphs have, this is it.

    Examples
    --------
    >>> path = sp.csr_array(np.diag(np.ones(3), 1) + np.diag(np.ones(3), -1))
    >>> Search(path).best.value
    3.0
    """

    remembers = ("best", "_sign", "_rng")

    def __init__(self, A: Any, seed: int | Sequence[int] = 0) -> None:
        more = [seed] if isinstance(seed, (int, np.integer)) else seed
        self._A, self._rng = A, np.random.default_rng([1, *more])
        self._zero = SLACK * float(abs(A).sum())
        self._sign = _forest_signs(A)
        self.best: Cut = _cut(A, self._sign > 0)
        self.descend(self._sign)

    def hyperplanes(self, V: Array, count: int, end: float = np.inf) -> None:
        """Try the best of so many random hyperplanes that divide the rows of V, or until `end`."""
        best, least = None, np.inf
        for start in range(0, count, AT_ONCE):
            if best is not None and time.perf_counter() > end:
                break
            normals = self._rng.standard_normal((V.shape[1], min(AT_ONCE, count - start)))
            signs = np.where(V @ normals >= 0, 1.0, -1.0)
            inside = np.einsum("ij,ij->j", signs, self._A @ signs)
            at = int(np.argmin(inside))
            if inside[at] < least:
                best, least = signs[:, at].copy(), float(inside[at])
        if best is not None:
            self.descend(best)

    def descend(self, sign: Array) -> None:
        """Let vertices change sides while the cut gains by one of them; keep what is better.

        It is the number of sweeps that is limited, for gains are rounded.
        """
        sign = sign.copy()
        gain, least = sign * (self._A @ sign), np.full(sign.size, self._zero)
        for _ in range(1000):
            if not self._sweep(sign, gain, least):
                break
        cut = _cut(self._A, sign > 0)
        if cut.value > self.best.value:
            self.best, self._sign = cut, sign

    def anneal(self, sweeps: int, end: float = np.inf) -> bool:
        """Simulated annealing from the best cut [1]_; False where the clock ended it.

        In a sweep a vertex changes sides where the cut gains more than −T·e, e exponentially
        distributed, so with the probability min(1, exp(gain/T)); T falls to 0 from `HOT`, faster
        where the sweeps would take longer than until `end`.

        References
        ----------
        .. [1] S. Kirkpatrick, C. D. Gelatt, M. P. Vecchi, "Optimization by simulated annealing",
           Science 220, 1983.
        """
        A, sign = self._A, self._sign.copy()
        rows = np.add.reduceat(np.append(A.data**2, 0.0), A.indptr[:-1])
        hot = HOT * float(np.sqrt(np.where(np.diff(A.indptr) > 0, rows, 0.0)).mean())
        gain, done, began = sign * (A @ sign), 0, time.perf_counter()
        while done < sweeps and (now := time.perf_counter()) < end:
            temperature = hot * (1 - max(done / sweeps, (now - began) / (end - began)))
            self._sweep(sign, gain, -temperature * self._rng.standard_exponential(sign.size))
            done += 1
        self.descend(sign)
        return done == sweeps

    def _sweep(self, sign: Array, gain: Array, least: Array) -> int:
        A = self._A
        return int(ops.flip_sweep(A.indptr, A.indices, A.data, sign, gain, least))


def _forest_signs(A: Any) -> Array:
    """±1 for each vertex: along a spanning forest ends of positive edges differ, others do not."""
    n = A.shape[0]
    roots = np.unique(sp.csgraph.connected_components(A, directed=False)[1], return_index=True)[1]
    to_roots = sp.coo_array((np.ones(roots.size), (np.zeros(roots.size, int), roots)), shape=(1, n))
    tree = sp.block_array([[None, to_roots], [to_roots.T, abs(A)]], format="csr")
    order, before = sp.csgraph.breadth_first_order(tree, 0, directed=False)
    sign = np.ones(n)
    order = order[before[order] > 0]  # without the vertex that was added, and the roots
    vertices, parents = order - 1, before[order] - 1
    for vertex, parent, weight in zip(vertices, parents, A[vertices, parents], strict=True):
        sign[vertex] = -sign[parent] if weight > 0 else sign[parent]
    return sign


def annealed(A: Any, cut: Cut, seed: int | Sequence[int]) -> Cut:
    """The best cut that simulated annealing finds from this one, improved by passes at the end.

    Parameters
    ----------
    A : SciPy sparse matrix
        A checked adjacency matrix, weights of any sign.
    cut : Cut
        Where to begin.
    seed : int or sequence of int
        Of the annealing.
    """
    search = Search(A, seed)
    search.descend(np.where(cut.side, 1.0, -1.0))
    for sweeps in SWEEPS[:2] if backend() == "reference" else SWEEPS:
        search.anneal(sweeps)
    sign = _improve(A, np.where(search.best.side, 1.0, -1.0))
    return max((cut, search.best, _cut(A, sign > 0)), key=lambda found: found.value)
