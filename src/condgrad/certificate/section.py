"""How far to scale a dual point on a GPU, where eigenvectors come in blocks."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.linalg

from condgrad._types import Array
from condgrad.backends.arrays import beyond, diagonal, foreign, host
from condgrad.domains import Domain, Face
from condgrad.domains import eigen as sides
from condgrad.domains.bottom import BLOCK, bottom, drawn
from condgrad.domains.checked import deflate, symmetric

HALVES = 8
"""Bisections on a section."""
KEPT = 20
"""Vectors of each t that span a section later."""
LOOKS = 3
"""The most t at which eigenvectors are found."""
ENOUGH = 0.05
"""A section is good enough where it promises at most this part of the gain beyond what is found."""
FRESH = 8
"""Random columns beside those of W to begin with."""


class Scale(NamedTuple):
    """The scale t that promises most, and the lowest eigenvectors at t = 1 and there."""

    t: float
    whole: Array
    scaled: Array
    lowest: float
    """About min ⟨v + d, s⟩, or somewhat more."""


def served(domain: Domain, like: Array) -> bool:
    """Whether W is one block on a GPU, and so large that all eigenvectors would be slow."""
    face, n = domain.face, domain.shape[0]
    return (
        foreign(like) and face is not None and face.parts == (slice(0, n),) and n > sides.WHOLE_GPU
    )


def nearby(W: Array) -> Array:
    """Columns near the lowest eigenvectors of a direction: in the end those are W's range."""
    columns = drawn(W.shape[0], BLOCK, W)
    return np.hstack([W @ columns[:, FRESH:], columns[:, :FRESH]])


def best_scale(face: Face, v: Array, d: Array, c: float, near: Array) -> Scale:
    """Maximise t ↦ min ⟨v + t d, s⟩ − t c over 0 ≤ t ≤ 1, which is concave.

    The minimum over the whole domain is at most that over the points with their range in a
    subspace, its section, which is an eigenvalue of a small matrix. The subspace is spanned by the
    lowest eigenvectors at the t looked at so far, the next t is where its section is largest, and
    the best of those counts.
    """
    constant, rise = 0.0, -c
    if face.offset is not None:
        constant, rise = float(np.vdot(v, face.offset)), float(np.vdot(d, face.offset)) - c

    def lowest(value: float, t: float) -> float:
        own = value if face.equality else min(0.0, value)
        return face.trace * own + constant + t * rise

    means = [_mean(x, face.basis) for x in (v, d)]
    whole = bottom(_inner(v, d, 1.0, means, face.basis), near)
    seen = [(lowest(whole.values[0], 1.0), 1.0, whole.vectors)]
    P = whole.vectors
    for _ in range(LOOKS - 1):
        small = _small((v, d), means, P, face.basis)
        t, promised = _highest(small, face, rise, lowest)
        best = max(seen, key=lambda found: found[0])
        if t == 1.0 or promised - best[0] <= ENOUGH * max(promised - seen[0][0], 0.0):
            break
        found = bottom(_inner(v, d, t, means, face.basis), seen[-1][2])
        seen.append((lowest(found.values[0], t), t, found.vectors))
        P = beyond(np.empty((P.shape[0], 0), like=P), P[:, :KEPT], found.vectors[:, :KEPT])
    _, t, vectors = max(seen, key=lambda found: found[0])
    return Scale(t, whole.vectors, vectors, seen[0][0] + c)


def _mean(v: Array, basis: Array) -> float:
    """The mean eigenvalue of the symmetric part of v off the pinned vectors, if there are any."""
    n, r = basis.shape
    if r == 0:
        return 0.0
    return (float(diagonal(v).sum()) - float(np.vdot(basis, v @ basis))) / (n - r)


def _inner(v: Array, d: Array, t: float, means: list[float], basis: Array) -> Array:
    """The symmetric part of v + t d without the pinned vectors, which get its mean eigenvalue."""
    V = t * d
    V += v
    V = symmetric(V, spent=True)
    deflate(V, basis, means[0] + t * means[1])
    return V


def _small(pair: tuple[Array, Array], means: list[float], P: Array, basis: Array) -> list[Array]:
    """PᵀXP for both X, without the pinned vectors as by `_inner`, in arrays of NumPy."""
    inner, pinned = P, np.zeros((P.shape[1], P.shape[1]))
    if basis.shape[1]:
        along = basis.T @ P
        inner, pinned = P - basis @ along, host(along.T @ along)
    T = host(np.stack([inner.T @ (X @ inner) for X in pair]))
    return [0.5 * (X + X.T) + mean * pinned for X, mean in zip(T, means, strict=True)]


def _highest(small: list[Array], face: Face, rise: float, lowest: object) -> tuple[float, float]:
    """Maximiser of a section, by bisection on its slope, and the value there."""
    low, high = 0.0, 1.0
    assert callable(lowest)

    def at(t: float) -> tuple[float, float]:
        X = small[0] + t * small[1]
        values, U = scipy.linalg.eigh(X, subset_by_index=[0, 0], check_finite=False)
        down = face.trace * float(U[:, 0] @ small[1] @ U[:, 0])
        free = not face.equality and values[0] >= 0
        return lowest(float(values[0]), t), (0.0 if free else down) + rise

    value, slope = at(high)
    if slope >= 0:
        return high, value
    top = (value, high)
    for _ in range(HALVES):
        middle = 0.5 * (low + high)
        value, slope = at(middle)
        top = max(top, (value, middle))
        low, high = (middle, high) if slope >= 0 else (low, middle)
    return top[1], top[0]
