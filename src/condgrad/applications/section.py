"""Bisection and k-section: parts of given sizes, few edges between them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from condgrad import _deadline as deadline
from condgrad._check import array_of
from condgrad._floats import EPS
from condgrad._types import Array
from condgrad.applications._base import Application, require_room
from condgrad.applications._outcome import Rounded, Unit
from condgrad.applications.correlation import LARGEST, SLACK, Labels
from condgrad.applications.graphs import adjacency_matrix, laplacian_of
from condgrad.backends.arrays import host
from condgrad.domains import Domain, PinnedSpectrahedron, Spectrahedron
from condgrad.errors import ProblemError
from condgrad.functions import AtLeast, AtMost, Equal, Linear
from condgrad.maps import AllEntries, Diagonal, Inner, Triangles
from condgrad.problem import Problem, Term

STARTS = 10
"""Directions that parts are read off."""
MANY = 300
"""Vertices up to which whole passes of exchanges are tried."""


def part_sizes(parts: Any, n: int) -> Array:
    """The sizes of the parts, largest first: as equal as possible where their number is given."""
    if isinstance(parts, (int, np.integer)) and not isinstance(parts, bool):
        if not 2 <= parts <= n:
            raise ProblemError(f"parts is {parts}: it must lie between 2 and the {n} vertices")
        return np.sort(np.full(parts, n // parts) + (np.arange(parts) < n % parts))[::-1]
    sizes = array_of("parts", parts)
    if sizes.ndim != 1 or sizes.dtype.kind not in "iu" or sizes.size < 2 or (sizes < 1).any():
        raise ProblemError(
            "parts must be a number of parts, or their sizes as at least two positive integers"
        )
    if sizes.sum() != n:
        raise ProblemError(f"parts sum to {sizes.sum()}, but the graph has {n} vertices")
    return np.sort(sizes.astype(np.int64))[::-1]


def section(adjacency: Any, parts: int | Sequence[int] = 2, triangles: bool = False) -> Application:
    r"""The semidefinite relaxation of graph bisection and k-section.

    .. math:: \min \tfrac12 ⟨L, W⟩ \quad W ⪰ 0,\; W_{ii} = 1 - \tfrac1k,
              \; ⟨11^\top, W⟩ = \sum_p m_p^2 - \tfrac{n^2}{k},\; W_{ij} ≥ -\tfrac1k

    A partition into k parts of sizes m_p is the point with W_ij = 1 − 1/k where i and j are
    together and −1/k elsewhere; its value is the weight of the edges between parts. With equal
    sizes W1 = 0 is asked of the domain, and the sum needs no row.

    Parameters
    ----------
    adjacency : array or SciPy sparse matrix
        Symmetric, weights of any sign; the diagonal is ignored.
    parts : int or sequence of int, default 2
        Number of parts, as equal in size as possible, or their sizes.
    triangles : bool, default False
        Ask for W_ij + W_jk − W_ik ≤ W_jj as well.

    References
    ----------
    .. [1] A. Frieze, M. Jerrum, "Improved approximation algorithms for MAX k-CUT and MAX
       BISECTION", Algorithmica 18, 1997.
    .. [2] S. E. Karisch, F. Rendl, "Semidefinite programming and graph equipartition", Fields
       Institute Communications 18, 1998.
    """
    A = adjacency_matrix(adjacency, signed=True, least=2)
    return section_of(A, part_sizes(parts, A.shape[0]), triangles)


def section_of(A: Any, sizes: Array, triangles: bool) -> Application:
    """`section` of a checked matrix and sizes."""
    n, k = A.shape[0], sizes.size
    require_room((n, n), 4, "take a part of the graph")
    own = 1 - 1 / k
    domain: Domain = Spectrahedron(n, trace=n * own, equality=True)
    # a number of the diagonal is a sum of up to n
    cost = Inner(laplacian_of(A) / 2, _symmetric=True, _rounded=n)
    terms = [Term(cost, Linear(), name="cost")]
    if sizes[0] == sizes[-1] and n > 2:
        domain = PinnedSpectrahedron(np.ones(n), trace=n * own, equality=True)
    else:
        total = float((sizes**2).sum()) - n * n / k
        terms.append(Term(Inner(np.ones((n, n)), _symmetric=True), Equal(total), name="sizes"))
    terms.append(Term(Diagonal(n), Equal(own), name="diagonal"))
    if k > 2:  # of two parts it follows from W ⪰ 0 and the diagonal
        terms.append(Term(AllEntries(n), AtLeast(-1 / k), name="entries"))
    if triangles and n > 2:
        terms.append(Term(Triangles(n), AtMost(0.0), name="triangles"))
    whole = bool(np.all(A.data == np.rint(A.data)) and float(abs(A).sum()) < LARGEST)
    return Application(
        name="section",
        preset="auto",
        problem=Problem(domain, terms),
        start=domain.center(),
        beta0={"": "auto"},
        batch=0.05,
        formula=" + ".join(term.name for term in terms[1:]),
        settings={"vertices": n, "sizes": [int(m) for m in sizes], "triangles": triangles},
        rounding=_Rounding(A, sizes),
        floor=math.fsum(A.data[A.data < 0]) / 2 * (1 + EPS),  # every edge of negative weight
        whole=whole,
        finer=10.0,
        unit=Unit(what="partition"),
    )


class _Rounding:
    """From W to parts of given sizes."""

    def __init__(self, A: Any, sizes: Array) -> None:
        self._A, self._sizes = A, sizes

    def __call__(self, W: Any) -> Rounded:
        found = round_section(self._A, np.asarray(host(W), dtype=np.float64), self._sizes)
        together = (found.labels[:, None] == found.labels).astype(np.float64)
        return Rounded(found.value, together - 1 / self._sizes.size, found)


def section_value(A: Any, labels: Array) -> float:
    """The weight of the edges between parts."""
    edges, labels = sp.coo_array(A), np.asarray(labels)
    return float(edges.data[labels[edges.coords[0]] != labels[edges.coords[1]]].sum() / 2)


def round_section(A: Any, W: Array, sizes: Array) -> Labels:
    """The best partition with these sizes read off W.

    With W = VVᵀ a random vertex and those farthest from it serve as centres of the parts; pairs of
    a vertex and a part are taken in the order of ⟨v_i, v_c⟩ while there is room. Then the exchange
    of two vertices that gains most is made until none gains; in small graphs by whole passes, in
    which exchanges may lose for a while [1]_.

    Parameters
    ----------
    A : SciPy sparse array
        A checked adjacency matrix.
    W : array
        Solution of the relaxation; it may be inaccurate.
    sizes : array of int
        Sizes of the parts.

    References
    ----------
    .. [1] B. W. Kernighan, S. Lin, "An efficient heuristic procedure for partitioning graphs", Bell
       System Technical Journal 49(2), 1970.
    """
    n, rng, dense = A.shape[0], np.random.default_rng(0), A.toarray()
    found = []
    for _ in range(STARTS):
        centres = [int(rng.integers(n))]
        while len(centres) < sizes.size:  # far from those before
            far = W[:, centres].max(axis=1)
            far[centres] = np.inf
            centres.append(int(np.argmin(far)))
        labels = _exchanged(dense, _filled(W[:, centres], sizes))
        found.append(Labels(labels, section_value(A, labels)))
        if deadline.over():
            break
    return min(found, key=lambda one: one.value)


def _filled(affinity: Array, sizes: Array) -> Array:
    """Labels by affinity, largest first, while there is room in a part."""
    n, k = affinity.shape
    labels, room = np.full(n, -1), sizes.copy()
    for at in np.argsort(-affinity, axis=None, kind="stable"):
        i, part = divmod(int(at), k)
        if labels[i] < 0 and room[part]:
            labels[i] = part
            room[part] -= 1
    return labels


def _exchanged(A: Array, labels: Array) -> Array:
    """Passes of exchanges until one gains nothing; a pass ends at its best point."""
    n, least = A.shape[0], SLACK * float(np.abs(A).sum())
    longest = n // 2 if n <= MANY else 1
    while not deadline.over():
        trial, free, total, best, kept = labels.copy(), np.ones(n, bool), 0.0, least, labels
        for _ in range(longest):
            gain, i, j = _best_exchange(A, trial, free)
            if not np.isfinite(gain) or (longest == 1 and gain <= least):
                break
            trial[i], trial[j] = trial[j], trial[i]
            free[i] = free[j] = False
            total += gain
            if total > best:
                best, kept = total, trial.copy()
        if kept is labels:
            break
        labels = kept
    return labels


def _best_exchange(A: Array, labels: Array, free: Array) -> tuple[float, int, int]:
    """Gain of the best exchange of two free vertices of different parts, and these vertices."""
    members = (labels[:, None] == np.arange(labels.max() + 1)).astype(np.float64)
    inside = A @ members
    own = inside[np.arange(labels.size), labels]
    other = inside[:, labels]  # of i with the part of j
    gain = other + other.T - own[:, None] - own - 2 * A
    gain[(labels[:, None] == labels) | ~free[:, None] | ~free] = -np.inf
    i, j = np.unravel_index(np.argmax(gain), gain.shape)
    return float(gain[i, j]), int(i), int(j)
