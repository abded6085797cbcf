"""How far to move a dual point along a line, on which the bound is a concave function.

`best_step` asks the domain's oracle. On a GPU, where eigenvectors come in blocks, `best_scale`
asks for a few blocks and searches on the subspace that they span.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import scipy.linalg

from condgrad._types import Array
from condgrad.backends.arrays import beyond, diagonal, foreign, host
from condgrad.domains import Domain, Face
from condgrad.domains import eigen as sides
from condgrad.domains.bottom import BLOCK, bottom, drawn
from condgrad.domains.checked import deflate, symmetric

HALVINGS = {"scale": 6, "shift": 30, "section": 8}
"""Bisections for a factor in [0, 1], for a shift of any size, and for a factor on a section."""
KEPT = 20
"""Vectors of each t that span a section later."""
LOOKS = 3
"""The most t at which eigenvectors are found."""
ENOUGH = 0.05
"""A section is good enough where it promises at most this part of the gain beyond what is found."""
FRESH = 8
"""Random columns beside those of W to begin with."""


def highest(slope: Callable[[float], float], low: float, high: float, halvings: int) -> float:
    """A maximiser of a concave function between two numbers, by bisection on its slope.

    It is not beyond the maximum, and less than (high − low)/2^halvings before it.
    """
    if slope(high) >= 0:
        return high
    for _ in range(halvings):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if slope(middle) >= 0 else (low, middle)
    return low


def best_step(domain: Domain, v: Array, d: Array, c: float, low: float, high: float) -> float:
    """Maximise t ↦ min ⟨v + t d, s⟩ − t c between both ends; its slope is ⟨d, s⟩ − c."""
    rng = np.random.default_rng(0)

    def slope(t: float) -> float:
        s = domain.lmo(v + t * d, effort=4.0, rng=rng).dense()
        return float(np.vdot(d, s)) - c

    return highest(slope, low, high, HALVINGS["scale" if low == 0 else "shift"])


class Scale(NamedTuple):
    """The scale t that promises most, and what was seen on the way to it."""

    t: float
    whole: Array | None
    """The lowest eigenvectors of v + d."""
    scaled: Array | None
    """The lowest eigenvectors of v + t d."""
    lowest: float | None
    """About min ⟨v + d, s⟩, or somewhat more; None if eigenvectors were not looked for."""


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


def _highest(
    small: list[Array], face: Face, rise: float, lowest: Callable[[float, float], float]
) -> tuple[float, float]:
    """Maximiser of a section, and the value there."""

    def bottom_of(t: float) -> tuple[float, Array]:
        X = small[0] + t * small[1]
        values, U = scipy.linalg.eigh(X, subset_by_index=[0, 0], check_finite=False)
        return float(values[0]), U[:, 0]

    def slope(t: float) -> float:
        value, u = bottom_of(t)
        free = not face.equality and value >= 0
        return (0.0 if free else face.trace * float(u @ small[1] @ u)) + rise

    t = highest(slope, 0.0, 1.0, HALVINGS["section"])
    return t, lowest(bottom_of(t)[0], t)
