"""Domains of matrices whose oracle is an extreme eigenvector or singular vector."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

import numpy as np

from condgrad._types import Array
from condgrad.backends import ops
from condgrad.domains._base import Domain, radius_of
from condgrad.domains.eigen import lowest_eigpair, top_singular_pair
from condgrad.errors import ProblemError
from condgrad.maps._base import dimension, sides
from condgrad.points.atoms import Atom, RankOne, Zero


class BlockSpectrahedron(Domain):
    r"""{W block-diagonal, W ⪰ 0, Tr W ≤ τ} or {…, Tr W = τ}, W kept as one square matrix.

    Only the diagonal blocks of a direction count. Blocks of side 1 make a non-negative vector.

    Parameters
    ----------
    blocks : sequence of int
        Sides of the blocks.
    trace : float
        τ > 0, shared by all blocks.
    equality : bool, default False
        Tr W = τ instead of Tr W ≤ τ.
    """

    symmetric: ClassVar[bool] = True

    def __init__(self, blocks: Sequence[int], trace: float, equality: bool = False) -> None:
        given = blocks if isinstance(blocks, Iterable) else (blocks,)
        self.blocks = tuple(dimension("blocks", b) for b in given)
        if not self.blocks:
            raise ProblemError("blocks is empty: name the side of at least one block")
        side = sum(self.blocks)
        self.shape, self.trace, self.equality = (side, side), radius_of("trace", trace), equality
        # Two different unit vectors give √2 τ; a lone 1 × 1 block is a segment or a point.
        self.diameter = self.trace * (np.sqrt(2) if side > 1 else float(not equality))

    def lmo(
        self,
        v: Array,
        *,
        effort: float | None = None,
        hint: Array | None = None,
        rng: np.random.Generator | None = None,
    ) -> Atom:
        best, at, products, start = None, 0, 0, 0
        whole = len(self.blocks) == 1
        for b in self.blocks:
            part = slice(start, start + b)
            V = np.array(v[part, part], order="C")
            ops.symmetrise(V)
            near = None if hint is None else (hint if whole else hint[part, part])
            pair = lowest_eigpair(V, effort=effort, hint=near, rng=rng)
            products += pair.products
            if best is None or pair.value < best.value:
                best, at = pair, start
            start += b
        assert best is not None
        if best.value >= 0 and not self.equality:
            return Zero(self.shape, products)
        side = 0 if whole else self.shape[0]
        return RankOne(self.trace, best.vector, best.vector, products, at, side)

    def contains(self, W: Array, tol: float = 1e-8) -> bool:
        slack = tol * self.trace
        total = float(np.trace(W))
        if not np.allclose(W, W.T, atol=slack, rtol=0) or total > self.trace + slack:
            return False
        if self.equality and total < self.trace - slack:
            return False
        outside, start = W.copy(), 0
        for b in self.blocks:
            part = slice(start, start + b)
            if np.linalg.eigvalsh(W[part, part])[0] < -slack:
                return False
            outside[part, part] = 0
            start += b
        return bool(np.abs(outside).max() <= slack)

    def center(self) -> Array:
        return np.eye(self.shape[0]) * (
            self.trace / self.shape[0] * (1.0 if self.equality else 0.5)
        )


class Spectrahedron(BlockSpectrahedron):
    r"""{W ⪰ 0, Tr W ≤ τ} or {W ⪰ 0, Tr W = τ}.

    The oracle is τ u uᵀ with u the eigenvector of the smallest eigenvalue of the direction, or 0
    where that eigenvalue is not negative and the trace is free.

    Parameters
    ----------
    n : int
        Side of W.
    trace : float, default 1
        τ > 0.
    equality : bool, default False
        Tr W = τ instead of Tr W ≤ τ.

    Examples
    --------
    >>> float(Spectrahedron(3, trace=2.0).lmo(np.diag([1.0, -3.0, 0.0])).dense()[1, 1])
    2.0
    """

    def __init__(self, n: int, trace: float = 1.0, equality: bool = False) -> None:
        super().__init__([dimension("n", n)], trace, equality)


class NuclearBall(Domain):
    r"""{W : ‖W‖_* ≤ r}, the sum of the singular values bounded.

    The oracle is −r u vᵀ with u, v the leading singular vectors of the direction.

    Parameters
    ----------
    shape : (int, int)
        Shape of W.
    radius : float
        r > 0.
    """

    def __init__(self, shape: Any, radius: float) -> None:
        self.shape, self.radius = sides("shape", shape), radius_of("radius", radius)
        self.diameter = 2 * self.radius

    def lmo(
        self,
        v: Array,
        *,
        effort: float | None = None,
        hint: Array | None = None,
        rng: np.random.Generator | None = None,
    ) -> Atom:
        _, left, right, products = top_singular_pair(v, effort=effort, hint=hint, rng=rng)
        return RankOne(-self.radius, left, right, products)

    def contains(self, W: Array, tol: float = 1e-8) -> bool:
        return bool(np.linalg.svd(W, compute_uv=False).sum() <= self.radius * (1 + tol))

    def center(self) -> Array:
        return np.zeros(self.shape)
