"""min ⟨L, W⟩ over W ⪰ 0, W1 = 0, Tr W = n/2 and all n(n−1)(n−2)/2 triangle inequalities."""

from __future__ import annotations

from benchmark_utils.base import CertifiedObjective
from benchmark_utils.graphs import geometric
from benchmark_utils.judge import into_spectrahedron

from condgrad.applications import sparsest_cut


class Objective(CertifiedObjective):
    name = "Sparsest cut"

    @staticmethod
    def application(adjacency):
        return sparsest_cut(adjacency)

    @staticmethod
    def tiny(n):
        return {"adjacency": geometric(n)}

    def into_domain(self, W):
        return into_spectrahedron(W, len(W) / 2, 0.0)
