"""Domains of symmetric matrices, whose oracle is an extreme eigenvector."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

import numpy as np
import scipy.linalg

from condgrad._check import dimension, numbers, positive
from condgrad._floats import EPS, below, length
from condgrad._types import Array
from condgrad.backends.arrays import (
    SMALL,
    contiguous,
    diagonal,
    factor_of,
    foreign,
    host,
    namespace,
    slabs,
)
from condgrad.domains._base import Domain, Face, Minimum
from condgrad.domains.checked import deflate, mean_eigenvalue, symmetric
from condgrad.domains.eigen import Pair, lowest_bound, lowest_eigpair
from condgrad.errors import ProblemError
from condgrad.points.atoms import Atom, Moved, RankOne

NONE = np.empty(0, np.int64)


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
    portable = True

    def __init__(self, blocks: Sequence[int], trace: float, equality: bool = False) -> None:
        given = blocks if isinstance(blocks, Iterable) else (blocks,)
        self.blocks = tuple(dimension("blocks", b) for b in given)
        if not self.blocks:
            raise ProblemError("blocks is empty: name the side of at least one block")
        side = sum(self.blocks)
        self.shape, self.trace, self.equality = (side, side), positive("trace", trace), equality
        # Two different unit vectors give √2 τ; a lone 1 × 1 block is a segment or a point.
        self.diameter = self.trace * (np.sqrt(2) if side > 1 else float(not equality))
        starts = np.cumsum([0, *self.blocks])
        several = [(s, b) for s, b in zip(starts, self.blocks, strict=False) if b > 1]
        parts = tuple(slice(int(s), int(s) + b) for s, b in several)
        singles = starts[:-1][np.array(self.blocks) == 1]
        if side == 1:
            parts, singles = (slice(0, 1),), NONE
        self.face: Face = Face(self.trace, equality, parts, singles, np.zeros((side, 0)), None)

    def lmo(self, v: Array, *, hint: Array | None = None, **options: Any) -> Atom:
        best, at, products = None, 0, 0
        whole, singles = self._whole, self.face.diagonal
        for part in self.face.parts:
            V = v if whole else contiguous(v[part, part])
            near = None if hint is None else (hint if whole else hint[part, part])
            pair = lowest_eigpair(V, hint=near, **options)
            products += pair.products
            if best is None or pair.value < best.value:
                best, at = pair, part.start
        if singles.size:
            entries = diagonal(v)[singles]
            i = int(np.argmin(entries))
            if best is None or entries[i] < best.value:
                one = namespace(v).ones(1, v.dtype)
                best, at = Pair(float(entries[i]), one, 0), int(singles[i])
        assert best is not None
        scale = 0.0 if best.value >= 0 and not self.equality else self.trace
        side = 0 if whole else self.shape[0]
        return RankOne(scale, best.vector, best.vector, products, at, side)

    @property
    def _whole(self) -> bool:
        return len(self.blocks) == 1

    @property
    def reach(self) -> float:
        """‖W‖_F ≤ Tr W."""
        return self.trace

    def minimum(self, v: Array, near: Array | None = None, spent: bool = False) -> Minimum:
        """τ λ_min of the symmetric part of v, of which every entry is rounded once.

        `near`, where W is one block on a GPU, are columns near the lowest eigenvectors; there v is
        written to where it is `spent`.
        """
        values, failure = host(diagonal(v)[self.face.diagonal]).tolist(), 0.0
        for part in self.face.parts:
            V = symmetric(v if self._whole else v[part, part], spent and self._whole)
            V = host(V) if V.shape[0] <= SMALL and not self._whole else V
            size = length(V)
            value, chance = lowest_bound(V, near, spent=True)
            values.append(value - EPS * size)
            failure += chance
        lowest = min(values) if self.equality else min(0.0, *values)
        kind = "exact-eigenvalue" if failure == 0 else "probabilistic"
        return Minimum(below(self.trace, lowest), kind, failure)

    def contains(self, W: Array, tol: float = 1e-8) -> bool:
        slack = tol * self.trace
        if not (_even(W, slack) and _trace_fits(W, self.face, slack)):
            return False
        outside, singles = W.copy(), self.face.diagonal
        for part in self.face.parts:
            if not _semidefinite(W[part, part], slack):
                return False
            outside[part, part] = 0
        if singles.size and W[singles, singles].min() < -slack:
            return False
        outside[singles, singles] = 0
        return bool(np.abs(outside).max() <= slack)

    def center(self) -> Array:
        return namespace(self.like).eye(self.shape[0]) * (
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

    portable = True

    def __init__(self, n: int, trace: float = 1.0, equality: bool = False) -> None:
        super().__init__([dimension("n", n)], trace, equality)


class PinnedSpectrahedron(Domain):
    r"""{W ⪰ 0, W q_i = μ_i q_i, Tr W = τ}, or Tr W ≤ τ: a spectrahedron with known eigenpairs.

    .. math:: W = \sum_i μ_i q_i q_i^\top + W', \qquad W' ⪰ 0,\; W' q_i = 0,
              \; \mathrm{Tr}\, W' = τ - \sum_i μ_i

    The equalities hold at every point, so they need no multipliers. With q = 1 and μ = 0 it serves
    problems that do not see W1 (graph Laplacians); with μ = 1 it makes the rows sum to 1. The
    oracle is that of a spectrahedron on the complement of the q_i, which are projected out of the
    direction.

    Parameters
    ----------
    vectors : array
        The q_i as columns, n × r with r < n, or one vector of length n; linearly independent. They
        are made orthonormal in that order, which needs equal μ_i where they are not orthogonal, up
        to a cosine of 1e-10.
    trace : float
        τ > Σ μ_i.
    values : float or array, default 0
        The μ_i ≥ 0.
    equality : bool, default False
        Tr W = τ instead of Tr W ≤ τ.

    Examples
    --------
    >>> domain = PinnedSpectrahedron(np.ones(3), trace=2.0, values=1.0, equality=True)
    >>> domain.center().sum(axis=1)
    array([1., 1., 1.])
    """

    symmetric: ClassVar[bool] = True
    portable = True

    def __init__(
        self, vectors: Any, trace: float, values: Any = 0.0, equality: bool = False
    ) -> None:
        given = numbers("vectors", vectors)
        Q = given[:, None] if given.ndim == 1 else given
        if Q.ndim != 2 or not 0 < Q.shape[1] < Q.shape[0]:
            raise ProblemError(
                f"vectors has shape {given.shape}: give fewer columns than rows, at least one"
            )
        n, r = Q.shape
        mu = numbers("values", values)
        mu = np.full(r, mu) if mu.ndim == 0 else mu
        if mu.shape != (r,) or (mu < 0).any():
            raise ProblemError(f"values must be one number or {r} of them, none negative")
        unit = Q / np.array([length(q) or 1.0 for q in Q.T])
        basis, triangle = np.linalg.qr(unit)
        if np.abs(np.diag(triangle)).min() < 1e-10:
            raise ProblemError("vectors are linearly dependent: leave out the redundant ones")
        coupled = np.abs(np.tril(unit.T @ unit, -1)) > 1e-10
        if np.any(coupled & (mu[:, None] != mu[None, :])):
            raise ProblemError(
                "vectors with different values are not orthogonal: eigenvectors of a symmetric "
                "matrix must be"
            )
        rest = positive("trace", trace) - float(mu.sum())
        if rest <= 0:
            raise ProblemError(f"trace is {trace:g}, but the values sum to {mu.sum():g}: raise it")
        self.shape, self.trace, self.equality, self.values = (n, n), float(trace), equality, mu
        self._tilt, self._error = _basis_errors(unit, basis, triangle)
        offset = _product(basis * mu, basis) if mu.any() else None
        self.face: Face = Face(rest, equality, (slice(0, n),), NONE, basis, offset)
        several = n - r > 1
        self.diameter = rest * (np.sqrt(2) if several else float(not equality))

    def lmo(self, v: Array, **options: Any) -> Atom:
        pair = lowest_eigpair(v, fixed=self.face.basis, **options)
        u, scale = pair.vector, self.face.trace
        if pair.value >= 0 and not self.equality:
            scale = 0.0
        atom = RankOne(scale, u, u, pair.products)
        return atom if self.face.offset is None else Moved(atom, self.face.offset)

    @property
    def reach(self) -> float:
        """‖W‖_F ≤ Tr W."""
        return self.trace

    def minimum(self, v: Array, near: Array | None = None, spent: bool = False) -> Minimum:
        r"""⟨V, offset⟩ + (τ − Σμ) λ, λ the smallest eigenvalue of V on the complement of the q_i.

        With ‖V‖ = ‖V‖_F and ε = `EPS`: for a unit x with qᵢᵀx = 0 the basis B as computed has
        ‖Bᵀx‖ ≤ `_tilt`, so xᵀVx differs from xᵀ(I − BBᵀ)V(I − BBᵀ)x by little more than twice that
        times ‖V‖. The latter matrix is off by at most 4√r(γ_n + 2γ_r)‖V‖ + 8u‖V‖, for with
        ‖|B|‖₂ ≤ √r each of the products with B and Bᵀ is off by √r γ‖V‖, γ = γ_n or γ_r, and so are
        those made of them. On B it gets its mean eigenvalue, which is no smaller than λ, times BBᵀ,
        off by rγ_{r+2} of that. Products with `offset` are summed row by row, so that 2n operations
        count; offset itself is off by 2 max μ · `_error` and (r + 2)u Σμ, τ − Σμ by r u τ.

        `near`, on a GPU, are columns near the lowest eigenvectors; there v is written to where it
        is `spent`.
        """
        (n, r), V = self.face.basis.shape, symmetric(v, spent)
        size = length(V)
        mean = mean_eigenvalue(V, self.face.basis)
        inside, products = self._with_offset(V)
        deflate(V, self.face.basis, mean)
        value, failure = lowest_bound(symmetric(V, True), near, spent=True)
        value -= EPS * (4 * (n + r + 10) * (1 + np.sqrt(r)) * size + r * (r + 4) * abs(mean))
        value -= 2.1 * self._tilt * (size + abs(mean))
        if not self.equality:
            value = min(0.0, value)
        total = self.face.trace * value
        total -= (r + 4) * EPS * self.trace * abs(value)
        if self.face.offset is not None:
            mu = self.values
            total += inside
            total -= EPS * ((2 * n + 10) * products + 4 * abs(total))
            total -= ((r + 4) * EPS * float(mu.sum()) + 2.1 * self._error * float(mu.max())) * size
        kind = "probabilistic" if failure else "exact-eigenvalue"
        return Minimum(below(1.0, float(total)), kind, failure)

    def _with_offset(self, V: Array) -> tuple[float, float]:
        """⟨V, offset⟩, and the absolute values that are summed."""
        if self.face.offset is None:
            return 0.0, 0.0
        rows, sizes = np.empty(V.shape[0], like=V), np.empty(V.shape[0], like=V)
        for s in slabs(V):
            products = V[s] * self.face.offset[s]
            rows[s], sizes[s] = products.sum(axis=1), np.abs(products).sum(axis=1)
        return float(rows.sum()), float(sizes.sum())

    def contains(self, W: Array, tol: float = 1e-8) -> bool:
        slack = tol * self.trace
        inner = W if self.face.offset is None else W - self.face.offset
        if not (_even(W, slack) and _trace_fits(inner, self.face, slack)):
            return False
        pinned = np.abs(inner @ self.face.basis).max() <= slack
        return bool(pinned and _semidefinite(inner, slack))

    def center(self) -> Array:
        n, r = self.face.basis.shape
        share = self.face.trace / (n - r) * (1.0 if self.equality else 0.5)
        W = _product(self.face.basis, self.face.basis)
        W *= -1.0
        diagonal(W)[:] += 1.0
        W *= share
        if self.face.offset is not None:
            W += self.face.offset
        return W


def _product(X: Array, Y: Array) -> Array:
    """X Yᵀ; of single columns, for which BLAS takes long, without it."""
    product: Array = X * Y[:, 0] if X.shape[1] == 1 else X @ Y.T
    return product


def _even(W: Array, slack: float) -> bool:
    """Whether W is its own transpose up to slack."""
    with np.errstate(invalid="ignore"):
        D = W - W.T
    np.abs(D, out=D)
    return bool(D.max() <= slack)


def _trace_fits(W: Array, face: Face, slack: float) -> bool:
    """Whether the trace of W is that of a face, or below it if it may be, up to slack."""
    over = float(np.trace(W)) - face.trace
    return abs(over) <= slack if face.equality else over <= slack


def _semidefinite(W: Array, slack: float) -> bool:
    """Whether no eigenvalue of a symmetric W lies below −slack."""
    if foreign(W) or W.shape[0] > SMALL:  # a factorisation costs a small part of the eigenvalues
        X = W.astype(np.float64, order="C")
        diagonal(X)[:] += slack
        if factor_of(X) is not None:
            return True
    return bool(namespace(W).linalg.eigvalsh(W)[0] >= -slack)


def _basis_errors(unit: Array, basis: Array, triangle: Array) -> tuple[float, float]:
    r"""How far a computed orthonormal basis B of the span of given columns A is from a true one.

    B = A M + E for M = T⁻¹, whatever T is, so that a unit x orthogonal to the columns has
    ‖Bᵀx‖ ≤ ‖E‖ =: δ, the first number returned. Let BᵀB = I + F, φ = ‖F‖. The true basis A M C, C
    the inverse of the Cholesky factor of (A M)ᵀ(A M) = I + F', ‖F'‖ ≤ φ + 2δ up to products of the
    two, is within δ + ‖F'‖ of B, the second number (norms of Frobenius). E and F are computed, with
    as many roundings as their sums have terms. Scaling the columns to length 1 rounds every entry
    once.
    """
    n, r = basis.shape
    M = scipy.linalg.solve_triangular(triangle, np.eye(r), check_finite=False)
    sizes = length(np.abs(unit) @ np.abs(M)) + length(basis)
    delta = length(basis - unit @ M) + (r + 4) * EPS * sizes
    phi = length(basis.T @ basis - np.eye(r)) + (n + 4) * EPS * length(
        np.abs(basis.T) @ np.abs(basis)
    )
    return delta, 1.1 * (phi + 3 * delta)
