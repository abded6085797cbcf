"""min ⟨C, W⟩ over W ⪰ 0, W1 = 1, Tr W = k and W ≥ 0, C the squared distances of the points."""

from __future__ import annotations

import numpy as np
from benchmark_utils.base import CertifiedObjective
from benchmark_utils.judge import into_spectrahedron
from scipy.spatial.distance import cdist

from condgrad.applications import kmeans


class Objective(CertifiedObjective):
    name = "k-means"

    @staticmethod
    def application(distances, k):
        return kmeans(distances, k)

    @staticmethod
    def tiny(n):
        points = np.random.default_rng(n).normal(size=(n, 2))
        return {"distances": cdist(points, points, "sqeuclidean"), "k": 3}

    def into_domain(self, W):
        return into_spectrahedron(W, self.data["k"], 1.0)
