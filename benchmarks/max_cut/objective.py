"""min −¼⟨L, W⟩ over W ⪰ 0, diag W = 1: the relaxation of maximum cut by Goemans and Williamson."""

from __future__ import annotations

import numpy as np
from benchmark_utils.base import CertifiedObjective
from benchmark_utils.graphs import planted
from benchmark_utils.judge import into_spectrahedron

from condgrad import Problem, Term
from condgrad.applications import Application
from condgrad.applications.graphs import adjacency_matrix, laplacian_of
from condgrad.domains import Spectrahedron
from condgrad.functions import Equal, Linear
from condgrad.maps import Diagonal, Inner


class Objective(CertifiedObjective):
    name = "Maximum cut"

    @staticmethod
    def application(adjacency):
        n, L = len(adjacency), laplacian_of(adjacency_matrix(adjacency))
        terms = [
            Term(Inner(-0.25 * L), Linear(), name="cost"),
            Term(Diagonal(n), Equal(1.0), name="diagonal"),
        ]
        return Application(
            name="max-cut",
            preset="auto",
            problem=Problem(Spectrahedron(n, trace=n, equality=True), terms),
            start=np.eye(n),
            beta0={"": "auto"},
            batch=1.0,
            floor=-0.5 * float(adjacency.sum()),  # all edges together
        )

    @staticmethod
    def tiny(n):
        return {"adjacency": planted(n)}

    def into_domain(self, W):
        return into_spectrahedron(W, len(W))
