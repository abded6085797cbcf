"""The theta function of a graph."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from condgrad._floats import EPS
from condgrad._types import Array
from condgrad.applications._base import Application, require_room
from condgrad.applications._outcome import Unit
from condgrad.applications.graphs import adjacency_matrix
from condgrad.backends.arrays import host
from condgrad.domains import Spectrahedron
from condgrad.domains.eigen import lowest_bound
from condgrad.functions import AtLeast, Equal, Linear
from condgrad.maps import AllEntries, Entries, Inner
from condgrad.problem import Problem, Term

UNIT = Unit(what="theta")
STARTS = 50
"""Number of vertices from which an independent set is grown."""


def theta(adjacency: Any, plus: bool = False) -> Application:
    r"""The semidefinite program of the theta function of Lovász, and θ⁺ with non-negative entries.

    .. math:: ϑ(G) = \max ⟨11^\top, W⟩ \quad W ⪰ 0,\; \mathrm{Tr}\, W = 1,
              \; W_{ij} = 0 \text{ for every edge } ij

    θ⁺ asks for W ≥ 0 as well. With α(G) for the largest independent set and χ̄(G) for the least
    number of cliques that cover the vertices, α(G) ≤ θ⁺(G) ≤ ϑ(G) ≤ χ̄(G).

    Parameters
    ----------
    adjacency : array or SciPy sparse matrix
        Symmetric; what is not 0 is an edge, the diagonal is ignored.
    plus : bool, default False
        Ask for W ≥ 0.

    References
    ----------
    .. [1] L. Lovász, "On the Shannon capacity of a graph", IEEE Trans. Inform. Theory 25(1), 1979.
    .. [2] A. Schrijver, "A comparison of the Delsarte and Lovász bounds", IEEE Trans. Inform.
       Theory 25(4), 1979: what is θ⁺ here.
    """
    return theta_of(adjacency_matrix(adjacency, signed=True, least=1), plus)


def theta_of(A: Any, plus: bool) -> Application:
    """`theta` of a checked adjacency matrix."""
    n = A.shape[0]
    require_room((n, n), 3, "take a part of the graph")
    terms = [Term(Inner(np.full((n, n), -1.0), _symmetric=True), Linear(), name="cost")]
    i, j = A.nonzero()
    upper = i < j
    if upper.any():
        terms.append(Term(Entries(i[upper], j[upper], (n, n)), Equal(0.0), name="edges"))
    if plus and n > 1:
        terms.append(Term(AllEntries(n), AtLeast(0.0), name="non-negativity"))
    domain = Spectrahedron(n, trace=1.0, equality=True)
    return Application(
        name="theta",
        preset="auto",
        problem=Problem(domain, terms),
        start=domain.center(),
        beta0={"": "auto"},
        batch=1.0,
        formula=" + ".join(term.name for term in terms[1:]) or "nothing",
        settings={"vertices": n, "edges": int(upper.sum()), "plus": plus},
        sense="max",
        floor=-float(n),  # ⟨11ᵀ, W⟩ ≤ n Tr W
        unit=UNIT,
    )


class Feasible(NamedTuple):
    """A point that meets all rows, and what it proves."""

    W: Array
    value: float
    """The theta function is not below this number."""
    failure: float
    """Probability that it is."""


def feasible(A: Any, W: Array, plus: bool) -> Feasible:
    """The point of the program nearest at hand: rows met, then the eigenvalues lifted.

    Entries of edges, and negative ones for θ⁺, become 0. Adding s to the diagonal, where −s is a
    proven bound on the lowest eigenvalue, makes it positive semidefinite; it is scaled to trace 1
    at the end.
    """
    X = host(W).astype(np.float64)
    X = 0.5 * (X + X.T)
    X[A.nonzero()] = 0.0
    if plus:
        np.maximum(X, 0.0, out=X)
    n, (low, failure) = X.shape[0], lowest_bound(X)
    total, trace = math.fsum(X.reshape(-1)), math.fsum(np.diag(X))
    lift = max(0.0, -low) * (1 + EPS)
    if not trace + n * lift > 0:
        return none(n)
    above = total + n * lift - 4 * EPS * (abs(total) + n * lift)
    below = (trace + n * lift) * (1 + 4 * EPS) + 4 * EPS * abs(trace)
    X[np.diag_indices(n)] += lift
    return Feasible(X / (trace + n * lift), above / below * (1 - 4 * EPS), failure)


def none(n: int) -> Feasible:
    """The point I/n, which meets every row."""
    return Feasible(np.eye(n) / n, 1.0 - 4 * EPS, 0.0)


def of_set(members: Array) -> Feasible:
    """The point 11ᵀ/|S| on the vertices of an independent set S, of value |S|."""
    W = np.outer(members, members) / members.sum()
    return Feasible(W, float(members.sum()), 0.0)


def independent_set(A: Any, W: Array) -> Array:
    """A large independent set, grown greedily in the order that W suggests, True for its vertices.

    From each of the vertices with the largest W_ii, the next one is always that with the largest
    W_ij, j being the first, among those that are still free. A vertex that keeps only one member
    out then takes its place where a second one fits in as well.
    """
    n, neighbours = A.shape[0], A.toarray() != 0
    best = np.zeros(n, bool)
    for first in np.argsort(-np.diag(W), kind="stable")[:STARTS]:
        order = np.argsort(-W[first], kind="stable")
        members = np.zeros(n, bool)
        members[first] = True
        _grow(neighbours, order, members)
        while _exchange(neighbours, order, members):
            pass
        if members.sum() > best.sum():
            best = members
    return best


def _grow(neighbours: Array, order: Array, members: Array) -> None:
    """Add free vertices in the order given."""
    free = ~(neighbours[members].any(axis=0) | members)
    for i in order:
        if free[i]:
            members[i] = True
            free &= ~neighbours[i]
            free[i] = False


def _exchange(neighbours: Array, order: Array, members: Array) -> bool:
    """Give up one member for two others, if that can be done."""
    tight = neighbours[:, members].sum(axis=1)
    for i in np.flatnonzero(members):
        others = np.flatnonzero(~members & (tight == 1) & neighbours[i])
        apart = np.argwhere(~neighbours[np.ix_(others, others)] & ~np.eye(others.size, dtype=bool))
        if apart.size:
            members[i] = False
            members[others[apart[0]]] = True
            _grow(neighbours, order, members)
            return True
    return False
