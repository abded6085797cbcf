"""Uniform sparsest cut."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from condgrad.applications._base import (
    PUBLISHED_EFFORT,
    Application,
    check_preset,
    top_rank_one,
)
from condgrad.domains import Spectrahedron
from condgrad.errors import ProblemError
from condgrad.functions import AtMost, Equal, Linear
from condgrad.maps import Inner, Triangles
from condgrad.maps.inner import asymmetry
from condgrad.problem import Problem, Term


def sparsest_cut(adjacency: Any, preset: str = "paper") -> Application:
    r"""The semidefinite relaxation of uniform sparsest cut.

    .. math:: \min ⟨L, W⟩ \quad W ⪰ 0,\; \mathrm{Tr}\, W ≤ n,
              \; n\,\mathrm{Tr}\,W - 1^\top W 1 = n^2/2, \; W_{ij} + W_{jk} - W_{ik} - W_{jj} ≤ 0

    A cut (S, S̄) is a feasible point of value n² w(S, S̄)/(2|S||S̄|). Total infeasibility is
    |equality| + √(2 Σ violation²), as in the paper's figures.

    Parameters
    ----------
    adjacency : array or SciPy sparse matrix
        Symmetric, non-negative weights, at least 3 vertices; the diagonal is ignored.
    preset : {"paper", "published"}
        ``paper``: weight 1 on every constraint of the text, which states the triangle inequality
        for all ordered i, j, k and so each of our rows twice: weight 2 on those. ``published``:
        weight n on the equality, 1 on the triangles, and a fixed oracle effort.

    References
    ----------
    .. [1] S. Arora, S. Rao, U. Vazirani, J. ACM 56(2), 2009.
    .. [2] G. Dresdner et al., AISTATS 2022, section 5.3.
    """
    check_preset(preset)
    L = laplacian(adjacency)
    n = L.shape[0]
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
    )


def laplacian(adjacency: Any) -> Any:
    """D − A of a checked adjacency matrix, sparse."""
    A = sp.csr_array(adjacency).astype(np.float64)
    if A.shape[0] != A.shape[1] or A.shape[0] < 3:
        raise ProblemError(
            f"adjacency has shape {A.shape}: it must be square, with at least 3 vertices"
        )
    if not np.isfinite(A.data).all() or (A.data < 0).any():
        raise ProblemError("adjacency has a negative or infinite weight: weights must be >= 0")
    if objection := asymmetry("adjacency", A):
        raise ProblemError(objection)
    A = sp.csr_array(A - sp.diags_array(A.diagonal()))
    return sp.csr_array(sp.diags_array(np.asarray(A.sum(axis=1)).reshape(-1)) - A)
