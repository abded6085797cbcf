r"""Vertices that can be taken out of a graph without changing what its maximum cut is.

With signs s of the sides a cut has the weight Σ_{i<j} w_ij (1 − s_i s_j)/2. A vertex with the
weights w_1, …, w_d to its neighbours adds ½Σ_j w_j + ½|Σ_j w_j s_j| to that once it is on its
better side, and this is again the weight of a cut, with other edges, in two cases:

* One edge weighs as much as all others together, |w_1| ≥ Σ_{j>1} |w_j|, as one does where d ≤ 2.
  Then the vertex is opposite to neighbour 1 for w_1 > 0, and on its side otherwise: all cuts gain
  Σ_j w_j, or nothing, and for every other edge there is one from neighbour 1 to neighbour j of
  weight −w_j, or w_j.
* d = 3. An even function of three signs is a constant and a combination of their three products
  (star and triangle): with σ_j the sign of w_j, edges between neighbours i and j, k the third one,
  of weight σ_i σ_j (|w_k| − |w_i| − |w_j|)/2, and max(0, Σ_j w_j) for all cuts.

So the optimum of what is left and a constant are the optimum of the graph, for weights of any sign,
and a cut of what is left is one of the graph when vertices return in reverse order, each to its
better side [1]_.

References
----------
.. [1] M. E. Fisher, "Transformations of Ising models", Phys. Rev. 113, 1959; J.-H. Lange, B.
   Andres, P. Swoboda, "Combinatorial persistency criteria for multicut and max-cut", CVPR 2019.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from condgrad._floats import EPS
from condgrad._types import Array
from condgrad.applications.rounding import Cut
from condgrad.applications.rounding_max_cut import _cut
from condgrad.backends import ops

MOST = 16
"""A vertex with more neighbours stays."""


class Reduction(NamedTuple):
    """A graph, and what is left of it."""

    whole: Any
    """The graph, a CSR matrix."""
    adjacency: Any
    """Remaining graph, with at least one vertex."""
    kept: Array
    """Vertices of the remaining graph, in the graph."""
    constant: float
    """Weight to add to a cut of the remaining graph if vertices are put back as they should be."""
    slack: float
    """Rounding by which a cut of the graph can be heavier; 0 if nothing was rounded."""
    steps: tuple[Array, Array, Array, Array]
    """Steps of the elimination, for `lift_signs`."""

    @property
    def shift(self) -> float:
        """Add this to a bound on the remaining graph to get one on the graph, but for rounding."""
        return self.constant + self.slack

    def lifted(self, cut: Cut) -> Cut:
        """The cut of the graph that belongs to one of what is left, or a better one."""
        sign = np.ones(self.whole.shape[0])
        sign[self.kept] = np.where(cut.side, 1.0, -1.0)
        ops.lift_signs(*self.steps, sign)
        return _cut(self.whole, sign > 0)


def reduced(A: Any) -> Reduction:
    """Take out what can be taken out of a graph.

    Parameters
    ----------
    A : SciPy sparse matrix
        A checked adjacency matrix, weights of any sign.

    Examples
    --------
    >>> path = sp.csr_array(np.diag(np.ones(3), 1) + np.diag(np.ones(3), -1))
    >>> found = reduced(path)
    >>> found.adjacency.shape, found.constant
    ((1, 1), 3.0)
    """
    found = ops.eliminate(A.indptr, A.indices, A.data, MOST)
    kept = np.delete(np.arange(A.shape[0]), found.order)
    place = np.empty(A.shape[0], np.int64)
    place[kept] = np.arange(kept.size)
    u, v = place[found.ends]
    rest = sp.coo_array((found.left, (u, v)), shape=(kept.size, kept.size))
    constant = math.fsum(found.constants)
    rounded = abs(math.fsum([*found.constants, -constant]))
    slack = (1 + EPS * 8 * (A.shape[0] + A.nnz)) * (found.lost + rounded)
    steps = (found.order, found.starts, found.near, found.weights)
    return Reduction(A, sp.csr_array(rest + rest.T), kept, constant, slack, steps)
