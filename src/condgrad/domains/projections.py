"""Nearest points of domains, for steps to projections."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np
import scipy.linalg

from condgrad._types import Array
from condgrad.functions.group import project_simplex

if TYPE_CHECKING:
    from condgrad.domains._base import Face

GUARD = 10
"""Vectors kept beyond the rank, or an eighth of the rank if that is more."""
SMALL = 150
"""Side of a matrix up to which all its singular values are computed."""
WIDE = 0.4
"""Share of the side; if more vectors are needed, all singular values are computed."""

Frame: TypeAlias = Any
"""Arrays with which a search begins at the end of the one before; None if there are none."""


class Projector(Protocol):
    """Finds nearest points."""

    @property
    def exact(self) -> bool:
        """Whether a formula finds them, up to rounding."""

    def project(self, X: Array, frame: Frame = None) -> tuple[Array, Frame, int]:
        """The point of the set nearest to X, a new array, the next frame, and products taken."""


@dataclass(frozen=True)
class Formula:
    """Nearest points by a formula, without a frame.

    Parameters
    ----------
    nearest : callable
        X ↦ the nearest point, a new array.
    """

    nearest: Callable[[Array], Array]
    exact = True

    def project(self, X: Array, frame: Frame = None) -> tuple[Array, Frame, int]:
        return self.nearest(X), None, 0


@dataclass(frozen=True)
class NuclearProjector:
    r"""The nearest matrix of nuclear norm at most r, singular values projected onto the simplex.

    .. math:: X = \sum_i σ_i u_i v_i^\top ↦ \sum_i d_i u_i v_i^\top, \qquad
              d = \arg\min\{‖d - σ‖ : d ≥ 0,\; 1^\top d ≤ r\}

    Only the singular values that stay positive are needed. They are found in the span of Xᵀ(XK).
    The frame K holds the right vectors of the call before and some more. If all values stay, K
    grows.

    Parameters
    ----------
    radius : float
        r > 0.
    """

    radius: float
    exact = False

    def project(self, X: Array, frame: Frame = None) -> tuple[Array, Frame, int]:
        if X.shape[0] < X.shape[1]:
            S, frame, products = self.project(X.T, frame)
            return np.ascontiguousarray(S.T), frame, products
        n, products, K = X.shape[1], 0, frame
        while True:
            if n <= SMALL or (K is not None and K.shape[1] > WIDE * n):
                left, values, right = scipy.linalg.svd(X, full_matrices=False, check_finite=False)
                values, right, whole = values.astype(np.float64), right.T, True
            else:
                fresh = K is None
                K = _drawn(n, GUARD, X) if K is None else K
                left, values, right = _within(X, K, 3 if fresh else 1)
                products += (6 if fresh else 2) * K.shape[1]
                whole = False
            d = np.maximum(values, 0.0)
            if d.sum() > self.radius:
                d = project_simplex(values, self.radius)
            rank = int(np.count_nonzero(d))
            kept = right[:, : rank + max(GUARD, rank // 8)]
            if whole or rank < right.shape[1]:
                break
            K = np.hstack([kept, _drawn(n, kept.shape[1], X)])
        d = d[:rank].astype(X.dtype)
        return (left[:, :rank] * d) @ right[:, :rank].T, np.ascontiguousarray(kept), products


@dataclass(frozen=True)
class FaceProjector:
    r"""The nearest point of a spectrahedron, eigenvalues projected onto the simplex.

    .. math:: X = \sum_i λ_i u_i u_i^\top ↦ \sum_i d_i u_i u_i^\top, \qquad
              d = \arg\min\{‖d - λ‖ : d ≥ 0,\; 1^\top d ≤ τ \text{ or } = τ\}

    for the symmetric part of X. Several blocks have their eigenvalues projected together. If
    vectors are pinned, it is done on their complement, of which the frame is a basis.

    Parameters
    ----------
    face : Face
        The spectrahedron.
    """

    face: Face
    exact = False

    def project(self, X: Array, frame: Frame = None) -> tuple[Array, Frame, int]:
        face, rest, pinned = self.face, frame, self.face.basis.shape[1]
        if pinned and rest is None:
            rest = np.ascontiguousarray(scipy.linalg.qr(face.basis)[0][:, pinned:])
        V = np.asarray(0.5 * (X + X.T), np.float64)
        if face.offset is not None:
            V -= face.offset
        whole = [V[part, part] for part in face.parts]
        if rest is not None:
            whole = [rest.T @ T @ rest for T in whole]
        pairs = [scipy.linalg.eigh(T, driver="evd", check_finite=False) for T in whole]
        found = shares(face, [values for values, _ in pairs], np.diag(V)[face.diagonal])
        S = np.zeros_like(V)
        for part, (_, vectors), d in zip(face.parts, pairs, found, strict=False):
            kept = d > 0
            U = vectors[:, kept] if rest is None else rest @ vectors[:, kept]
            S[part, part] = (U * d[kept]) @ U.T
        S[face.diagonal, face.diagonal] = found[-1]
        if face.offset is not None:
            S += face.offset
        return np.asarray(0.5 * (S + S.T), X.dtype), rest, sum(len(T) for T in whole)


@dataclass(frozen=True)
class ProductProjector:
    """The nearest point of a product, block by block; its frame is a list of theirs.

    Parameters
    ----------
    parts : sequence of Projector
        Those of the factors.
    shapes : sequence of tuple
        Shapes of their points.
    """

    parts: Sequence[Projector]
    shapes: Sequence[tuple[int, ...]]

    @property
    def exact(self) -> bool:
        return all(p.exact for p in self.parts)

    def project(self, X: Array, frame: Frame = None) -> tuple[Array, Frame, int]:
        frames = [None] * len(self.parts) if frame is None else frame
        found, after, start, products = [], [], 0, 0
        for part, shape, own in zip(self.parts, self.shapes, frames, strict=True):
            stop = start + int(np.prod(shape))
            S, own, spent = part.project(X[start:stop].reshape(shape), own)
            found.append(S.reshape(-1))
            after.append(own)
            start, products = stop, products + spent
        return np.concatenate(found), after, products


def shares(face: Face, values: Sequence[Array], free: Array) -> list[Array]:
    """The eigenvalues of the point of a face nearest to a matrix by part, then its free diagonal.

    They are those of the parts of the matrix and its free diagonal, projected onto the simplex.
    """
    joined = np.concatenate([*values, free])
    d: Array = np.maximum(joined, 0.0)
    if face.equality or d.sum() > face.trace:
        d = project_simplex(joined, face.trace)
    return np.split(d, np.cumsum([len(own) for own in values]))


def _within(X: Array, K: Array, rounds: int) -> tuple[Array, Array, Array]:
    """Singular triples of QQᵀX, Q an orthonormal basis of the span of X(XᵀX)^(rounds − 1) K."""
    for _ in range(rounds):
        Q, _ = scipy.linalg.qr(X @ K, mode="economic", check_finite=False)
        K, R = scipy.linalg.qr(X.T @ Q, mode="economic", check_finite=False)
    right, values, left = scipy.linalg.svd(R, check_finite=False)
    return Q @ left.T, values.astype(np.float64), K @ right


def _drawn(n: int, columns: int, like: Array) -> Array:
    """Random columns of length about 1, the same at every call."""
    drawn = np.random.default_rng(columns).standard_normal((n, min(columns, n)))
    return (drawn / np.sqrt(n)).astype(like.dtype)
