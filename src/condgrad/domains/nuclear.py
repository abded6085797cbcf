"""The nuclear-norm ball, whose oracle is a pair of leading singular vectors."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from condgrad._check import sides
from condgrad._floats import below, length, power_of_two
from condgrad._types import Array
from condgrad.domains._base import Ball, Minimum
from condgrad.domains.eigen import top_of_gram, top_singular_pair
from condgrad.domains.projections import NuclearProjector, Projector
from condgrad.points.atoms import Atom, RankOne
from condgrad.points.factored import Factored


class NuclearBall(Ball):
    r"""{W : ‖W‖_* ≤ r}, the sum of the singular values bounded.

    The oracle is −r u vᵀ with u, v the leading singular vectors of the direction.

    Parameters
    ----------
    shape : (int, int)
        Shape of W.
    radius : float
        r > 0.
    """

    finite_only: ClassVar[bool] = True

    def __init__(self, shape: Any, radius: float) -> None:
        super().__init__(sides("shape", shape), radius)

    def lmo(self, v: Array, **options: Any) -> Atom:
        _, left, right, products = top_singular_pair(v, **options)
        return RankOne(-self.radius, left, right, products)

    def projector(self) -> Projector | None:
        """Projector onto the set; None for a derived class, which may mean another."""
        return NuclearProjector(self.radius) if type(self) is NuclearBall else None

    def contains(self, W: Array, tol: float = 1e-8) -> bool:
        most = self.radius * (1 + tol)
        if isinstance(W, Factored):
            return bool(W.decomposed().s.sum() <= most)
        if np.sqrt(min(W.shape)) * length(W) <= most:  # no less than ‖W‖_*
            return True
        return bool(np.linalg.svd(W, compute_uv=False).sum() <= most)

    def minimum(self, v: Array) -> Minimum:
        """−r σ, σ² the largest eigenvalue of VᵀV, which is off by γ_m ‖V‖_F² = γ_m Tr VᵀV."""
        V = np.asarray(v, dtype=np.float64)
        V = V if V.shape[0] >= V.shape[1] else V.T
        unit = power_of_two(V)  # squares must not underflow
        V = V / unit
        gram = V.T @ V
        top, failure = top_of_gram(gram, V.shape[0])
        kind = "exact-singular-value" if failure == 0 else "probabilistic"
        return Minimum(below(self.radius, -unit * top), kind, failure)
