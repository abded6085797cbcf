"""Uniform sparsest cut."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from condgrad._floats import EPS
from condgrad._types import Array
from condgrad.applications._base import (
    PUBLISHED_EFFORT,
    Application,
    check_preset,
    require_room,
    top_rank_one,
)
from condgrad.applications._outcome import Rounded, Unit
from condgrad.applications.graphs import adjacency_matrix, laplacian_of
from condgrad.applications.rounding import cut_matrix, round_cut, sizes_of
from condgrad.applications.rounding_device import DeviceGraph, DeviceRounder, Seen
from condgrad.applications.spectral import floor_of
from condgrad.backends.arrays import floats, foreign
from condgrad.domains import PinnedSpectrahedron, Spectrahedron
from condgrad.errors import ProblemError
from condgrad.functions import AtMost, Equal, Linear
from condgrad.maps import Inner, Triangles
from condgrad.problem import Problem, Term


def sparsest_cut(adjacency: Any, preset: str = "auto", vertex_weights: Any = None) -> Application:
    r"""The semidefinite relaxation of uniform sparsest cut.

    .. math:: \min ⟨L, W⟩ \quad W ⪰ 0,\; \mathrm{Tr}\, W ≤ n,
              \; n\,\mathrm{Tr}\,W - 1^\top W 1 = n^2/2, \; W_{ij} + W_{jk} - W_{ik} - W_{jj} ≤ 0

    Neither the objective nor the constraints see W1, so with preset ``auto`` W1 = 0 is asked of the
    domain, where the equality says Tr W = n/2 and only the triangles remain as constraints.

    A cut (S, S̄) is a feasible point of value n² w(S, S̄)/(2|S||S̄|). Total infeasibility is
    |equality| + √(2 Σ violation²), as in the paper's figures.

    With weights μ of the vertices, scaled to sum to n, |S| is their sum over S. Then
    :math:`W_{ij} = \sqrt{μ_i μ_j} ⟨x_i, x_j⟩`, so that W√μ = 0 is asked of the domain, and cost and
    triangles are those of :math:`W_{ij}/\sqrt{μ_i μ_j}`.

    Parameters
    ----------
    adjacency : array or SciPy sparse matrix
        Symmetric, non-negative weights, at least 3 vertices; the diagonal is ignored.
    preset : {"auto", "paper", "published"}
        ``auto``: the reduced form above, with β0 and batch found by the library. ``paper``: weight
        1 on every constraint of the text, which states the triangle inequality for all ordered
        i, j, k and so each of our rows twice: weight 2 on those. ``published``: weight n on the
        equality, 1 on the triangles, and a fixed oracle effort.
    vertex_weights : array, optional
        Positive weights of the vertices, for preset ``auto``; default: 1.

    References
    ----------
    .. [1] S. Arora, S. Rao, U. Vazirani, J. ACM 56(2), 2009.
    .. [2] G. Dresdner et al., AISTATS 2022, section 5.3.
    """
    check_preset(preset)
    A = adjacency_matrix(adjacency)
    L, n = laplacian_of(A), A.shape[0]
    require_room((n, n), 3, "cut a part of the graph")
    if preset == "auto":
        found = sparsest_cut_of(A, vertex_weights)
        known = floor_of(A, sizes_of(vertex_weights, n))
        return replace(found, start=found.problem.domain.center(), **known)
    if vertex_weights is not None:
        raise ProblemError(f"preset {preset} has no vertex_weights: use preset auto")
    spread = n * np.eye(n) - np.ones((n, n))
    problem = Problem(
        Spectrahedron(n, trace=n),
        [
            Term(Inner(L), Linear(), name="cost"),
            Term(
                Inner(spread),
                Equal(n * n / 2),
                weight=n if preset == "published" else 1.0,
                name="spread",
            ),
            Term(
                Triangles(n),
                AtMost(0.0),
                weight=1.0 if preset == "published" else 2.0,
                name="triangles",
            ),
        ],
        infeasibility_weights={"spread": 1.0, "triangles": np.sqrt(2)},
    )
    return Application(
        name="sparsest-cut",
        preset=preset,
        problem=problem,
        start=top_rank_one(L.toarray(), n),
        beta0={"": 100.0, "h-1sfw": 0.01, "h-spider-fw": 10.0, "most-fw-plus": 10.0},
        batch=0.05,
        effort=PUBLISHED_EFFORT if preset == "published" else None,
        formula="spread + √2 · triangles",
        settings={"vertices": n},
        rounding=Rounding(A, None),
        floor=0.0,  # L is positive semidefinite: weights are not negative
        unit=unit_of(np.ones(n)),
    )


def sparsest_cut_of(A: Any, vertex_weights: Any) -> Application:
    """The form of preset ``auto``, for a checked adjacency matrix.

    Nothing of the size of W is made before it runs.
    """
    L, n = laplacian_of(A), A.shape[0]
    mu, weights = np.ones(n), vertex_weights
    cost, triangles = Inner(L, _symmetric=True), Triangles(n)
    if weights is not None:
        weights = sizes_of(weights, n)
        mu = weights = weights * (n / weights.sum())
        triangles, root = Triangles(n, mu), sp.diags_array(1 / np.sqrt(mu))
        scaled = sp.csr_array(root @ L @ root)  # every entry in six operations
        cost = Inner(scaled, _symmetric=True, _rounded=6)
    domain = PinnedSpectrahedron(np.sqrt(mu), trace=n / 2, equality=True)
    problem = Problem(
        domain,
        [
            Term(cost, Linear(), name="cost"),
            Term(triangles, AtMost(0.0), name="triangles"),
        ],
        infeasibility_weights={"triangles": np.sqrt(2)},
    )
    return Application(
        name="sparsest-cut",
        preset="auto",
        problem=problem,
        start=None,
        beta0={"": "auto"},
        batch=0.05,
        formula="√2 · triangles",
        settings={"vertices": n},
        rounding=Rounding(A, weights),
        finer=10.0,  # the relaxation is often tight
        floor=0.0,  # L is positive semidefinite: weights are not negative
        unit=unit_of(np.ones(n) if vertex_weights is None else np.asarray(vertex_weights)),
    )


def unit_of(weights: Array) -> Unit:
    """The value of a cut, for a graph whose vertices have these weights.

    The factor and the product are rounded, and so are sums of weights.
    """
    words = "w(S, S̄)/(|S||S̄|) of a cut; the run on the relaxation has n²/2 times that"
    n = weights.size
    return Unit(2 / float(weights.sum()) ** 2, "cut", words, (8 * n + 32) * EPS)


class Rounding:
    """Rounds W where it lies; on a GPU it answers with the best cut so far.

    Parameters
    ----------
    A : SciPy sparse array
        A checked adjacency matrix.
    weights : array or None
        Of the vertices.
    """

    anywhere = True
    remembers = ("_seen", "_best")

    def __init__(self, A: Any, weights: Any) -> None:
        self._graph = A, weights
        self._sent: list[DeviceGraph] = []  # one for all of `fresh`
        self._seen = Seen()
        self._best: Rounded | None = None

    def fresh(self) -> Rounding:
        """One for another run."""
        new = Rounding(*self._graph)
        new._sent = self._sent
        return new

    def sent(self, like: Array) -> DeviceGraph:
        """The graph on a GPU."""
        if not self._sent:
            self._sent.append(DeviceGraph(*self._graph, like))
        return self._sent[0]

    def __call__(self, W: Any) -> Rounded:
        adjacency, weights = self._graph
        if foreign(W):
            cut = DeviceRounder(self.sent(W), self._seen)(floats(W))
            if self._best is None or cut.value < self._best.value:  # its matrix is large
                self._best = Rounded(cut.value, cut_matrix(cut.side, weights, W), cut)
            return self._best
        cut = round_cut(adjacency, np.asarray(W, dtype=np.float64), vertex_weights=weights)
        return Rounded(cut.value, cut_matrix(cut.side, weights), cut)
