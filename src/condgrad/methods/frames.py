"""Projections onto spectrahedra, each begun with the eigenvectors of the one before.

Leading eigenpairs come part by part from Rayleigh-Ritz on the span of K and XK, K the vectors of
the projection before. Up to a side of `small` a part is taken apart whole. So it is if K has more
than n/4 columns, but for up to `AGAIN` projections afterwards in which it has at most n/2: there K
is corrected by a Davidson step, its residual divided by differences of eigenvalues in the basis of
the latest decomposition.

On a GPU a large part begins with a block of vectors. If these are few, all products of columns come
to the CPU in one copy (`ritz`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg.lapack import dpotrf, dtrtri

from condgrad._floats import TINY
from condgrad._types import Array
from condgrad.backends import kernels
from condgrad.backends.arrays import beyond, diagonal, eigenpairs, foreign, host, namespace
from condgrad.domains import Face
from condgrad.domains.bottom import FEW, bottom
from condgrad.domains.checked import deflate
from condgrad.domains.projections import shares
from condgrad.problem import Problem

AGAIN = 8
"""Later projections that a decomposition serves."""
GUARD = 6
"""Vectors kept beyond the rank, or a quarter of the rank if that is more."""
BLOCKS = 600
"""Side from which the first projection on a GPU begins with a block, not with all eigenvectors."""
SHORT = 1e-9
"""Squared length, of columns of about length 1, that is taken for rounding."""
PIVOT = 1e-2
"""Columns of length 1 are independent where none is nearer than this to those before it."""


@dataclass
class Frame:
    """Memory of a projection for one part."""

    vectors: Array | None = None
    """K; None if the next projection takes the part apart whole."""
    basis: Array | None = None
    """All eigenvectors of the latest decomposition off the pinned ones, if it serves later."""
    values: Array | None = None
    """Their eigenvalues in falling order, in an array of NumPy."""
    uses: int = 0
    """Later projections that the decomposition has served."""


class Spectrum(NamedTuple):
    """Leading eigenpairs of a part of a matrix."""

    values: Array
    """The eigenvalues in falling order, in an array of NumPy: there are few of them."""
    vectors: Array
    """The eigenvectors as columns."""
    products: int
    """Vectors that the part was multiplied by."""
    beginning: int = 0
    """Columns of a block that was found from nothing; if more are used there may be more."""


def to_projection(face: Face, s: Any, v: Array, tau: float, eta: float, small: int) -> None:
    """W ← W + η(S − W) in place, S the projection of W − τv, by the `frames` of a state s.

    The step is in `D` afterwards, whose memory is used; products are counted.
    """
    X = np.empty(v.shape, like=v)
    kernels(v).descended(s.W, v, tau, face.offset, X)
    s.products += project(face, X, s.frames, s.D, small)
    if eta == 1:
        s.D, S = np.subtract(s.D, s.W, out=X), s.D
        s.W[...] = S
    else:
        s.D -= s.W
        s.D *= eta
        s.W += s.D


def project(face: Face, X: Array, frames: list[Frame], out: Array, small: int) -> int:
    """Write the point nearest to X to `out`; the products with X that it took."""
    trios = [(p, face.basis[p], f) for p, f in zip(face.parts, frames, strict=True)]
    free = host(diagonal(X)[face.diagonal])
    found = [_spectrum(X[p, p], Q, f, small) for p, Q, f in trios]
    values = shares(face, [f.values for f in found], free)
    pairs = zip(found, values, strict=False)
    if any(0 < f.beginning < np.count_nonzero(d) for f, d in pairs):
        found = [_spectrum(X[p, p], Q, f, small, whole=True) for p, Q, f in trios]
        values = shares(face, [f.values for f in found], free)
    if len(face.parts) != 1 or face.diagonal.size:
        out.fill(0)
    for (part, Q, frame), own, d in zip(trios, found, values, strict=False):
        U = _kept(Q, frame, d, own.vectors)
        np.matmul(U, U.T, out=out[part, part])
    if face.diagonal.size:
        diagonal(out)[face.diagonal] = np.asarray(values[-1], like=out)
    if face.offset is not None:
        out += face.offset
    return sum(f.products for f in found)


def _spectrum(X: Array, Q: Array, frame: Frame, small: int, whole: bool = False) -> Spectrum:
    """Leading eigenpairs in falling order, off the pinned vectors, and products."""
    n, K, products, beginning = Q.shape[0], frame.vectors, 0, 0
    if foreign(Q) and n > small and not whole:
        if K is None and n > BLOCKS:
            K, frame.basis = bottom(-X).vectors, None
            K, beginning = K - Q @ (Q.T @ K), K.shape[1]
        if K is not None and frame.basis is None and K.shape[1] <= FEW:
            return Spectrum(*ritz(X, K, Q), beginning)
    if n <= small or K is None or whole:
        P, T = None, -X
        deflate(T, Q)
        T *= -1
    else:
        if frame.basis is not None:
            P, products = beyond(Q, _corrected(X @ K, K, frame)), 2 * K.shape[1]
        else:
            P, products = beyond(Q, K, _residual(X @ K, K, Q)), 3 * K.shape[1]
        T = P.T @ (X @ P)
    values, vectors = eigenpairs(T)
    free = n - Q.shape[1]  # the pinned come last
    values, vectors = values[::-1][:free], vectors[:, ::-1][:, :free]
    if P is None and n > small:
        frame.basis, frame.values, frame.uses = vectors, values, 0
    return Spectrum(values, vectors if P is None else P @ vectors, products)


def face_of(problem: Problem) -> Face:
    """Face of the spectrahedron that a problem is over."""
    face = problem.domain.face
    assert face is not None
    return face


def frames_of(face: Face, known: list[Frame] | None = None) -> list[Frame]:
    """Frames for a face: those known, if they are of its parts, or new ones."""
    sides = [part.stop - part.start for part in face.parts]
    if known is not None and len(known) == len(sides):
        pairs = zip(known, sides, strict=True)
        if all(f.vectors is None or len(f.vectors) == n for f, n in pairs):
            return known
    return [Frame() for _ in sides]


def _kept(Q: Array, frame: Frame, d: Array, vectors: Array) -> Array:
    """U with UUᵀ the projection; its vectors and some more serve the next one."""
    n, rank = Q.shape[0], int(np.count_nonzero(d))
    K = vectors[:, : rank + max(GUARD, rank // 4)]
    K = K - Q @ (Q.T @ K) if Q.shape[1] and not foreign(Q) else K.copy(order="K")
    U: Array = K[:, :rank] * np.asarray(np.sqrt(d[:rank]), like=K)
    frame.vectors = K
    if K.shape[1] <= n // 4:
        frame.basis, frame.values = None, None
    elif frame.basis is not None and frame.uses < AGAIN and rank < K.shape[1] <= n // 2:
        frame.uses += 1
    else:
        frame.vectors = None
    return U


def _residual(Y: Array, K: Array, Q: Array) -> Array:
    """Columns Y = XK off those of K and Q, of length 1."""
    xp = namespace(K)
    if Q.shape[1]:
        Y -= Q @ (Q.T @ Y)
    Y -= K @ (K.T @ Y)
    Y /= xp.maximum(xp.linalg.norm(Y, axis=0), 1e-300)
    return Y


def _corrected(Y: Array, K: Array, frame: Frame) -> Array:
    """K nearer to eigenvectors of X, Y = XK, by those of a matrix that was near X.

    With V, λ the latter beyond the columns of K and θ the Rayleigh quotients of these, a column is
    changed by V (Vᵀ(XK − Kθ) / (θ − λ)): to first order that makes it an eigenvector.
    """
    assert frame.basis is not None
    xp, columns = namespace(K), K.shape[1]
    T = K.T @ Y
    V, values = frame.basis[:, columns:], np.asarray(frame.values, like=K)
    apart = xp.diagonal(T) - values[columns:, None]
    least = 1e-3 * (values[0] - values[-1]) or 1.0  # where all are the same
    return K + V @ ((V.T @ (Y - K @ T)) / xp.maximum(apart, least))


def ritz(X: Array, K: Array, Q: Array) -> tuple[Array, Array, int]:
    """Rayleigh-Ritz on the span of K and XK, K off Q: values that fall, vectors off Q, products.

    With R the columns of XK off K and Q, their products with R, K, XR and XK are all that comes to
    the CPU. Columns are kept as rows, which are joined and multiplied in less time.
    """
    count, off = 2 * K.shape[1], np.concatenate([K.T, Q.T])
    Y = off[: K.shape[1]].dot(X)
    R = Y - Y.dot(off.T).dot(off)
    B = np.concatenate([R, off])
    M = host(B.dot(np.concatenate([B, R.dot(X), Y]).T))
    values, mix = ritz_pairs(M[:count, :count], M[:count, len(M) :])
    mix = np.concatenate([mix, -M[count:, :count] @ mix])
    return values, np.asarray(mix.T, like=B).dot(B).T, count


def ritz_pairs(squares: Array, T: Array) -> tuple[Array, Array]:
    """Ritz values that fall, and what makes their vectors of columns C, by CᵀC and CᵀXC.

    Combinations whose squared length is below `SHORT` are left out.
    """
    scale = 1 / np.sqrt(np.maximum(np.diagonal(squares), TINY))
    S = scale[:, None] * squares * scale
    L, failed = dpotrf(S, lower=1, clean=1)
    if not failed and np.diagonal(L).min() > PIVOT:
        P = scale[:, None] * dtrtri(L, lower=1)[0].T
    else:
        lengths, V = np.linalg.eigh(S)
        used = lengths > SHORT * lengths[-1]
        P = scale[:, None] * V[:, used] / np.sqrt(lengths[used])
    T = P.T @ T @ P
    values, U = np.linalg.eigh(0.5 * (T + T.T))
    return values[::-1], P @ U[:, ::-1]
