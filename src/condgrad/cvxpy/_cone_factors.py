"""Multipliers of one cone as squares, so that they are in it whatever rounding does.

Each kind knows the multipliers y that it stands for, the map Δ ↦ M(Δ) for which y + M(Δ) stays in
the cone where ‖Δ‖ ≤ 1/2, and what becomes of it there.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import sparse

from condgrad._floats import EPS
from condgrad._types import Array
from condgrad.cvxpy._cone_program import ConeProgram

ROOT = float(np.sqrt(2.0))


@dataclass(frozen=True, eq=False)
class Numbers:
    """Non-negative numbers: y = F, M(Δ) = F Δ."""

    F: Array

    @property
    def count(self) -> int:
        """How many numbers Δ has."""
        return self.F.size

    def flat(self, kind: Any = np.float64) -> Array:
        """y, computed in floats of some kind."""
        return self.F.astype(kind, copy=False)

    def sizes(self) -> Array:
        """The sum of the magnitudes of which each number of y is the sum."""
        return np.abs(self.F)

    def fractions(self) -> list[Fraction]:
        """y exactly."""
        return [Fraction(v) for v in self.F.tolist()]

    def image(self, A: Any) -> tuple[Array, Array]:
        """The matrix of Δ ↦ A'M(Δ), and for each row the size of the sums that its entries are."""
        return (sparse.diags_array(self.F) @ A).T.toarray(), np.zeros(A.shape[1])

    def moved(self, own: Array) -> Numbers:
        """y + M(Δ), the nearest in the cone."""
        return Numbers(np.maximum(self.F * (1 + own), 0.0))

    def reach(self, b: Array) -> tuple[float, float]:
        """The most that b'M(Δ) is for ‖Δ‖ = 1, and the size of its terms."""
        size = float(np.linalg.norm(self.F) * np.linalg.norm(b))
        return float(np.linalg.norm(self.F * b)), size


@dataclass(frozen=True, eq=False)
class SecondOrder:
    r"""A second-order cone ‖y₁‖ ≤ y₀: the square of w in its Jordan algebra.

    .. math:: y = (w^\top w,\; 2 w_0 w_1), \qquad
              M(Δ) = 2 (w^\top Δ) w - (w_0^2 - ‖w_1‖^2) (Δ_0, -Δ_1)

    M is the quadratic representation of w, which maps the cone into itself, and y = M(1, 0): so
    y + M(Δ) is in the cone where (1 + Δ₀, Δ₁) is [1]_.

    References
    ----------
    .. [1] F. Alizadeh, D. Goldfarb, "Second-order cone programming", Mathematical Programming 95,
       2003, section 4.
    """

    w: Array

    @classmethod
    def root(cls, y: Array, floor: float = 0.0, cut: float = 0.0) -> SecondOrder:
        """The root of y, its two eigenvalues y₀ ± ‖y₁‖ 0 up to `cut`, and `floor` more."""
        length = float(np.linalg.norm(y[1:]))
        high, low = (
            np.sqrt(max(v, 0.0) * (v > cut) + floor) for v in (y[0] + length, y[0] - length)
        )
        unit = y[1:] / length if length else np.zeros(y.size - 1)
        return cls(np.append((high + low) / 2, (high - low) / 2 * unit))

    @property
    def count(self) -> int:
        return self.w.size

    def flat(self, kind: Any = np.float64) -> Array:
        w = self.w.astype(kind, copy=False)
        return np.append(w @ w, 2 * w[0] * w[1:])

    def sizes(self) -> Array:
        return np.abs(self.flat())

    def fractions(self) -> list[Fraction]:
        w = [Fraction(v) for v in self.w.tolist()]
        return [sum((v * v for v in w), Fraction(0)), *(2 * w[0] * v for v in w[1:])]

    def _applied(self, columns: Array) -> Array:
        """M of every column."""
        w, turned = self.w, -columns
        turned[0] = columns[0]
        det = float(w[0] ** 2 - w[1:] @ w[1:])
        return 2 * np.multiply.outer(w, w @ columns) - det * turned

    def image(self, A: Any) -> tuple[Array, Array]:
        A = A.toarray()
        size = 3 * np.linalg.norm(A, axis=0) * float(self.w @ self.w)
        return self._applied(A).T, size  # M is symmetric

    def moved(self, own: Array) -> SecondOrder:
        return SecondOrder.root(self.flat() + self._applied(own))

    def reach(self, b: Array) -> tuple[float, float]:
        size = 3 * float(np.linalg.norm(b)) * float(self.w @ self.w)
        return float(np.linalg.norm(self._applied(b))), size


@dataclass(frozen=True, eq=False)
class Matrix:
    """A semidefinite matrix: y = L Lᵀ, M(Δ) = L Δ Lᵀ."""

    L: Array

    @property
    def count(self) -> int:
        return int(self.L.shape[1]) ** 2

    def flat(self, kind: Any = np.float64) -> Array:
        L = self.L.astype(kind, copy=False)
        return np.asarray(L @ L.T).ravel()

    def sizes(self) -> Array:
        return (np.abs(self.L) @ np.abs(self.L).T).ravel()

    def fractions(self) -> list[Fraction]:
        L = [[Fraction(v) for v in row] for row in self.L.tolist()]
        zero = Fraction(0)
        return [sum((a * b for a, b in zip(p, q, strict=True)), zero) for p in L for q in L]

    def image(self, A: Any) -> tuple[Array, Array]:
        n, q = self.L.shape
        T = A.toarray().reshape(n, n, A.shape[1])
        own = np.tensordot(np.tensordot(self.L.T, T, 1), self.L, ([1], [0]))
        lengths = np.linalg.norm(self.L, axis=1)
        size = abs(A).T @ np.multiply.outer(lengths, lengths).ravel()
        return own.transpose(1, 0, 2).reshape(A.shape[1], q * q), size

    def moved(self, own: Array) -> Matrix:
        q = self.L.shape[1]
        D = own.reshape(q, q)
        values, vectors = np.linalg.eigh(np.eye(q) + (D + D.T) / 2)
        return Matrix((self.L @ vectors) * np.sqrt(np.maximum(values, 0.0)))

    def reach(self, b: Array) -> tuple[float, float]:
        size = float(np.linalg.norm(self.L)) ** 2 * float(np.linalg.norm(b))
        return float(np.linalg.norm(self.L.T @ b @ self.L)), size


Factor = Numbers | SecondOrder | Matrix


def factors(
    program: ConeProgram, blocks: list[Array], floor: float = 0.0, cut: float = 0.0
) -> list[Factor]:
    """Factors of blocks near the dual cone.

    Numbers and eigenvalues up to a part `cut` of the largest are left out, a part `floor` is added
    to the others.
    """
    largest = max((float(np.abs(b).max(initial=0.0)) for b in blocks), default=0.0) or 1.0
    cut, floor = cut * largest, floor * largest
    found: list[Factor] = []
    parts = zip(program.kinds, blocks, program.space.split(program.void), strict=True)
    for kind, block, void in parts:
        if kind == "numbers":
            own = np.where(block > cut, block, 0.0)
            found.append(Numbers(np.where(void, 0.0, np.maximum(own, 0.0) + floor)))
        elif kind == "second-order":
            root = SecondOrder.root(block, floor, cut)
            found.append(SecondOrder(0.0 * root.w) if void[0] else root)
        else:
            values, vectors = np.linalg.eigh(_kept(block, np.diag(void)))
            kept = (values > cut) | (floor > 0)
            L = vectors[:, kept] * np.sqrt(np.maximum(values[kept], 0.0) + floor)
            L = np.where(np.abs(L) > 64 * EPS * np.sqrt(largest), L, 0.0)
            L[np.diag(void)] = 0.0
            found.append(Matrix(L))
    return found


def _kept(block: Array, void: Array) -> Array:
    """The symmetric part of a matrix, without some rows and columns."""
    return np.where(void[:, None] | void[None, :], 0.0, (block + block.T) / 2)


def images(program: ConeProgram, own: list[Factor]) -> tuple[Array, Array]:
    """The matrix of (δ, Δ) ↦ G'δ + A'M(Δ), and for each row the size of what it is a sum of."""
    parts, size = [program.G.T.toarray()], np.zeros(program.c.size)
    for F, (first, last) in zip(own, pairwise(program.space.starts), strict=True):
        part, terms = F.image(program.A[first:last])
        parts.append(part)
        size += terms
    return np.hstack(parts), size
