"""Quadratic programs in variables that are 0 or 1 (QUBO), by way of maximum cut."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from condgrad import _progress as progress
from condgrad._check import WHOLE, canonical, numbers, real_matrix
from condgrad._floats import EPS
from condgrad._round import bound_text, toward
from condgrad._types import Array
from condgrad.applications import Constructed, Sense, Unit, closeness
from condgrad.certificate import relative_gap
from condgrad.errors import ProblemError
from condgrad.graphs import GraphCut, max_cut
from condgrad.run.result import Result, Status

SHOWN = 60
"""Number of variables that are printed."""


class QuboGraph(NamedTuple):
    """The graph of a quadratic program, see `qubo_graph`."""

    adjacency: Any
    """Symmetric weights, a CSR matrix of side n + 1; vertex 0 is the added one."""
    rounding: float
    """No cut differs from twice the value of its x by more than this; 0 for integers."""
    whole: bool
    """Whether all entries of Q are integers."""


def qubo_graph(Q: Any, sense: Sense = "max") -> QuboGraph:
    r"""The graph on n + 1 vertices whose cuts have the weight 2 xᵀQx, or −2 xᵀQx for a minimum.

    x_i = 1 says that vertices 0 and i are on different sides. With δ_ij = 1 where i and j are, and
    0 elsewhere, x_i = δ_0i and 2 x_i x_j = δ_0i + δ_0j − δ_ij, so that

    .. math:: 2 x^\top Q x = \sum_i \Bigl(\sum_j (Q_{ij} + Q_{ji})\Bigr) δ_{0i}
              - \sum_{i<j} (Q_{ij} + Q_{ji})\, δ_{ij}

    without a constant [1]_.

    Parameters
    ----------
    Q : array or SciPy sparse matrix
        Square, any entries; it need not be symmetric.
    sense : {"max", "min"}
        Whether cuts of large weight belong to large or to small values.

    References
    ----------
    .. [1] P. L. Hammer, "Some network flow problems solved with pseudo-Boolean programming", Oper.
       Res. 13, 1965.

    Examples
    --------
    >>> qubo_graph([[1, -3], [0, 1]]).adjacency.toarray()
    array([[ 0., -1., -1.],
           [-1.,  0.,  3.],
           [-1.,  3.,  0.]])
    """
    Q = _square(Q)
    if sense not in ("min", "max"):
        raise ProblemError(f"sense is {sense!r}: it must be 'min' or 'max'")
    sign, n = 1 if sense == "max" else -1, Q.shape[0]
    both = sp.csr_array(Q + Q.T)
    # Entries of both triangles are summed as they are: a sum of sums would be rounded twice.
    rows, columns = Q.tocsr(), Q.tocsc()
    first = np.array([math.fsum([*_part(rows, i), *_part(columns, i)]) for i in range(n)])
    inner = both - sp.diags_array(both.diagonal())
    A = sign * sp.block_array([[None, first[None, :]], [first[:, None], -inner]], format="csr")
    A = sp.csr_array(A)
    A.eliminate_zeros()
    total = float(abs(A).sum())
    whole = bool(np.all(Q.data == np.rint(Q.data)) and 4 * float(abs(Q).sum()) < WHOLE)
    return QuboGraph(A, 0.0 if whole else EPS * total, whole)


def cut_of(x: Any) -> Array:
    """The side of each vertex of `qubo_graph` for given x: vertex 0 and all with x_i = 0 are False.

    Examples
    --------
    >>> cut_of([1, 0, 1]).tolist()
    [False, True, False, True]
    """
    return np.r_[False, _chosen("x", x)]


def variables_of(side: Any) -> Array:
    """x for the sides of the vertices of `qubo_graph`, the way back.

    Examples
    --------
    >>> variables_of([True, False, True]).tolist()
    [1, 0]
    """
    side = _chosen("side", side)
    found: Array = (side[1:] != side[0]).astype(np.int64)
    return found


def qubo_value(Q: Any, x: Any, offset: float = 0.0) -> float:
    """xᵀQx + offset for x of zeros and ones, rounded once.

    Examples
    --------
    >>> qubo_value([[1, -3], [0, 1]], [1, 1], offset=0.5)
    -0.5
    """
    Q, chosen = sp.coo_array(_square(Q)), _chosen("x", x)
    if chosen.shape != Q.shape[:1]:
        raise ProblemError(f"x has shape {chosen.shape}: it must hold one entry per row of Q")
    (rows, columns), constant = Q.coords, float(numbers("offset", offset))
    return math.fsum([*Q.data[chosen[rows] & chosen[columns]].tolist(), constant])


@dataclass(frozen=True, eq=False, repr=False)
class Qubo(Constructed):
    """Zeros and ones, and what is proved of them."""

    x: Array
    """The best found, integers 0 and 1."""
    value: float
    """xᵀQx + offset."""
    bound: float
    """No x has a smaller value, or a larger one where that is wanted."""
    gap: float
    """|value − bound| / max(|value|, |bound|); 0 is a proof that no x is better."""
    status: Status
    """Why the run ended: CONVERGED where the gap is at most what was asked for, and RELAXED where
    the relaxation was solved but is not as tight as that."""
    sense: Sense
    """``min`` or ``max``."""
    offset: float
    """Constant that was added to xᵀQx."""
    cut: GraphCut
    """Cut of the graph whose weights are those of 2 xᵀQx, or −2 xᵀQx for a minimum."""

    _application = "qubo"
    unit = Unit(0.5, words="xᵀQx + offset; the run minimises the negative of a cut, twice that")

    @property
    def bound_failure(self) -> float:
        """Probability that the bound does not hold; 0 up to 3000 variables."""
        return self.cut.bound_failure

    @property
    def result(self) -> Result:
        """The run on the relaxation of the graph."""
        return self.cut.result

    def summary(self) -> str:
        """Value, bound and x, as a sentence."""
        beyond = "above" if self.sense == "max" else "below"
        known = f"none {beyond} {bound_text(self.bound, 6, self.sense)} exists"
        ones = np.flatnonzero(self.x)
        members = f"ones at {', '.join(map(str, ones[:SHOWN]))}" if ones.size else "all are 0"
        more = ", …" if ones.size > SHOWN else ""
        many = "one variable" if self.x.size == 1 else f"{self.x.size} variables"
        return (
            f"Quadratic program in {many} 0 or 1: value {self.value:.6g}, {known},"
            f" so {closeness(self.value, self.bound, 'value', self.sense)}; {members}{more}"
        )


def qubo(
    Q: Any,
    *,
    sense: Sense = "min",
    offset: float = 0.0,
    triangles: bool = True,
    gap: float = 1e-3,
    **options: Any,
) -> Qubo:
    r"""The smallest or largest xᵀQx + offset over x in {0, 1}ⁿ, with a proven bound.

    It is a maximum cut of a graph with n + 1 vertices (`qubo_graph`), found and bounded by
    `condgrad.max_cut`. The offset is added at the end and changes nothing but values and the
    relative gap. Where Q has integer entries, values of xᵀQx are integers, and its bound is rounded
    to one.

    Parameters
    ----------
    Q : array or SciPy sparse matrix
        Square; it need not be symmetric, and an upper triangle is as good as the symmetric matrix
        with half of its entries. Linear terms are on the diagonal, since x_i² = x_i.
    sense : {"min", "max"}
        Which is wanted.
    offset : float, default 0
        Added to every value.
    triangles : bool, default True
        Use the relaxation with all triangle inequalities, for up to some hundreds of variables.
    gap : float, default 1e-3
        Relative gap to end at.
    **options
        ``max_seconds``, ``seed``, ``n_jobs``, ``device``, … of `condgrad.max_cut`.

    Examples
    --------
    >>> found = qubo([[1, -3], [0, 1]], offset=0.5)
    >>> found.x.tolist(), found.value, found.bound
    ([1, 1], -0.5, -0.5)
    """
    if not isinstance(offset, (int, float, np.number)):
        raise ProblemError(f"offset is {offset!r}: it must be a finite number")
    graph, offset = qubo_graph(Q, sense), float(numbers("offset", offset))
    sign = 1 if sense == "max" else -1

    def bound_of(cut: float) -> float:
        """The bound that follows from one on cuts."""
        if not math.isfinite(cut):
            return sign * np.inf
        twice = Fraction(cut) + Fraction(graph.rounding)
        most = math.floor(twice / 2) if graph.whole else twice / 2
        return toward(sign * most + Fraction(offset), sign * np.inf)

    def seen(cut: progress.Seen) -> progress.Seen:
        """A cut as a value, to be shown."""
        value, bound = sign * cut.value / 2 + offset, bound_of(cut.bound)
        own = cut.gap if math.isnan(cut.gap) else relative_gap(value, bound)
        what = "value" if cut.what == "cut" else cut.what
        return progress.Seen(what, value, bound, own, sense)

    with progress.shown(options.pop("verbose", False)), progress.changed(seen):
        found = max_cut(graph.adjacency, triangles=triangles, gap=gap, **options)
    x = variables_of(found.side)
    value, bound = qubo_value(Q, x, offset), bound_of(found.bound)
    own = 0.0 if value == bound else relative_gap(value, bound)
    status = found.status
    if status in (Status.CONVERGED, Status.RELAXED):
        status = Status.CONVERGED if own <= gap else Status.RELAXED
    return Qubo(x, value, bound, own, status, sense, offset, found)


def _square(Q: Any) -> Any:
    """Q as a sparse matrix of float64."""
    made = canonical("Q", Q if sp.issparse(Q) else sp.csr_array(real_matrix("Q", Q)))
    if made.shape[0] != made.shape[1]:
        raise ProblemError(f"Q has shape {made.shape}: it must be a square matrix")
    if not 8 * float(np.max(np.abs(made.data), initial=0.0)) * max(made.nnz, 1) < np.inf:
        raise ProblemError("Q has entries whose sum may be infinite: scale it down")
    return made


def _chosen(name: str, x: Any) -> Array:
    """The entries of a vector that are not 0, as booleans."""
    chosen: Array = numbers(name, x) != 0
    if chosen.ndim != 1 or not chosen.size:
        raise ProblemError(f"{name} has shape {chosen.shape}: it must be a vector")
    return chosen


def _part(A: Any, i: int) -> list[float]:
    """The entries of row i of a CSR matrix, or of column i of a CSC one."""
    found: list[float] = A.data[A.indptr[i] : A.indptr[i + 1]].tolist()
    return found
