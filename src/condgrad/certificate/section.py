"""How far to move a dual point along a line, on which the bound is a concave function.

`best_step` asks the domain's oracle. On a GPU, where eigenvectors come in blocks, `best_scale`
asks for a few blocks and searches on the subspace that they span.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from condgrad._types import Array
from condgrad.backends.arrays import beyond, foreign, host
from condgrad.domains import Domain, Face, Spectrahedron, eigen
from condgrad.domains.bottom import BLOCK, bottom, drawn
from condgrad.domains.checked import deflate, mean_eigenvalue, symmetric

HALVINGS = {"scale": 6, "shift": 30}
"""Bisections for a factor in [0, 1] and for a shift of any size."""
KEPT = 20
"""Vectors of each t that span a section later."""
LOOKS = 3
"""The most t at which eigenvectors are found."""
ENOUGH = 0.05
"""A section is good enough if it promises at most this part of the gain beyond the best found."""
FRESH = 8
"""Random columns among those near the lowest eigenvectors."""


class Scale(NamedTuple):
    """The scale t that promises most, and columns from which proofs begin."""

    t: float = 1.0
    whole: Array | None = None
    """Columns near the lowest eigenvectors of v + d."""
    scaled: Array | None = None
    """Columns near the lowest eigenvectors of v + t d."""
    lowest: float | None = None
    """About min ⟨v + d, s⟩, or somewhat more; None if eigenvectors were not looked for."""


def best_step(domain: Domain, v: Array, d: Array, c: float, low: float, high: float) -> float:
    """Maximise t ↦ min ⟨v + t d, s⟩ − t c between both ends, a concave function, about.

    The oracle's answers s give its slope ⟨d, s⟩ − c, on which bisection goes. What is found is not
    beyond the maximum, and less than (high − low)/2^`HALVINGS` before it.
    """
    rng = np.random.default_rng(0)

    def rises(t: float) -> bool:
        s = domain.lmo(v + t * d, effort=4.0, rng=rng).dense()
        return float(np.vdot(d, s)) >= c

    if rises(high):
        return high
    for _ in range(HALVINGS["scale" if low == 0 else "shift"]):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if rises(middle) else (low, middle)
    return low


def nearby(domain: Domain, W: Array) -> Array | None:
    """Columns near the lowest eigenvectors of a direction: in the end those are W's range.

    None unless W is one block on a GPU, and so large that all eigenvalues would be slow.
    """
    face, n = domain.face, W.shape[0]
    if not foreign(W) or face is None or face.parts != (slice(0, n),) or n <= eigen.WHOLE_GPU:
        return None
    columns = drawn(n, BLOCK, W)
    return np.hstack([W @ columns[:, FRESH:], columns[:, :FRESH]])


def best_scale(face: Face, v: Array, d: Array, c: float, near: Array) -> Scale:
    """Maximise t ↦ min ⟨v + t d, s⟩ − t c over 0 ≤ t ≤ 1, about.

    The minimum over the whole domain is at most that over its section, the points with their range
    in a subspace, which is a minimum over small matrices. The lowest eigenvectors at the t looked
    at so far span the subspace. The next t is where its section is largest; the best t counts.
    """
    constant, rise = 0.0, -c
    if face.offset is not None:
        constant, rise = float(np.vdot(v, face.offset)), float(np.vdot(d, face.offset)) - c

    def value(lowest: float, t: float) -> float:
        own = lowest if face.equality else min(0.0, lowest)
        return face.trace * own + constant + t * rise

    def look(t: float, near: Array) -> tuple[float, float, Array]:
        V = t * d
        V += v
        V = symmetric(V, spent=True)
        deflate(V, face.basis, mean_eigenvalue(V, face.basis))
        found = bottom(V, near)
        return value(float(found.values[0]), t), t, found.vectors

    seen = [look(1.0, near)]
    P = beyond(face.basis, seen[0][2])
    for _ in range(LOOKS - 1):
        section = Spectrahedron(P.shape[1], face.trace, face.equality)
        base, pull = (host(P.T @ (X @ P)) for X in (v, d))
        t = best_step(section, base, pull, -rise, 0.0, 1.0)
        M, best = base + t * pull, max(found for found, *_ in seen)
        promised = value(float(np.linalg.eigvalsh(0.5 * (M + M.T))[0]), t)
        if t == 1.0 or promised - best <= ENOUGH * max(promised - seen[0][0], 0.0):
            break
        seen.append(look(t, seen[-1][2]))
        P = beyond(face.basis, P[:, :KEPT], seen[-1][2][:, :KEPT])
    _, t, vectors = max(seen, key=lambda found: found[0])
    return Scale(t, seen[0][2], vectors, seen[0][0] + c)
