"""Better dual points over a nuclear ball, where the bound is −r σ_max(v) − Σ_t ω_t h_t*(y_t).

Two changes of a dual point are tried, and the best counts; both are guesses, which are proved
afterwards as any dual point is.

* Singular values of v above a level are cut off, and the change is put on the multipliers of a term
  that reads every entry between two finite ends, whose multipliers are free. σ_max falls to the
  level, and the term's conjugate pays for it.
* All multipliers are scaled by one t ≥ 0. h*(ty) is taken to be a quadratic function of t, which it
  is for squares, Huber's function, absolute values and intervals. For others, logistic ones as an
  example, that can promise what is not there: h* itself says which of the points is best.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import scipy.linalg

from condgrad._types import Array
from condgrad.backends.arrays import foreign
from condgrad.domains import NuclearBall
from condgrad.functions import Linear
from condgrad.maps import AllEntries, Scaled
from condgrad.problem import Problem, Term

LARGE = 2000
"""The largest side of a matrix whose singular values are all computed."""
LEVELS = 16
"""Level j cuts singular values off at (1 − 2^(−j)) σ_max; the last leaves them as they are."""
FAR = 1e3
"""Multipliers without an end stay dual feasible if they are scaled by this."""


class Better(NamedTuple):
    """A dual point that may prove more than the one given."""

    points: Sequence[Array]
    """The multipliers of every term."""
    changes: tuple[str, ...]
    """Changes of the point: ``"clipped"``, ``"scaled"``, both or none."""
    lowest: float
    """min ⟨v, s⟩ at the point given, about."""


class Guess(NamedTuple):
    """Promise of a change of a dual point."""

    value: float
    """The bound that is promised."""
    scale: float
    """t, the factor on all multipliers."""
    top: float
    """σ_max of v before it is scaled."""
    change: Array | None = None
    """Change of the multipliers of the free term by clipping."""


def serves(problem: Problem) -> bool:
    """Whether dual points of a problem can be improved; a linear function has one only."""
    able = type(problem.domain) is NuclearBall and not foreign(problem.like)
    if not able or min(problem.domain.shape) > LARGE:
        return False
    return not any(isinstance(t.function, Linear) for t in problem.terms)


def improved(problem: Problem, v: Array, points: Sequence[Array]) -> Better:
    """A better dual point than `points`, the multipliers of every term; v = Σ ω A*y."""
    assert isinstance(problem.domain, NuclearBall)
    terms, radius = problem.terms, problem.domain.radius
    values, frame = _spectrum(v)
    whole, half = (_conjugate(terms, points, t) for t in (1.0, 0.5))
    bend = max(2 * whole - 4 * half, 0.0)  # Σ ω h*(ty) ≈ t (whole − bend) + t² bend
    linear = whole - bend

    def guess(top: float, linear: float, change: Array | None = None) -> Guess:
        """The t that promises most, and beyond 1 only if no multiplier has an end."""
        rise, t = -radius * top - linear, 1.0
        if bend > 0:
            t = max(rise / (2 * bend), 0.0)
            t = t if t <= 1 or np.isfinite(_conjugate(terms, points, FAR)) else 1.0
        return Guess(t * rise - t * t * bend, t, top, change)

    best = guess(values[0], linear)
    free = next((i for i, t in enumerate(terms) if _free(t)), None)
    if free is not None and values[0] > 0:
        term, y = terms[free], points[free]
        own = term.weight * term.function.conjugate(y)

        def clipped(level: int) -> Guess:
            top = (1 - 2.0**-level) * values[0]
            count = int(np.count_nonzero(values > top))
            less = _less(v, frame[:, :count], 1 - top / values[:count])
            change = less.reshape(-1) / _factor(term)
            paid = term.weight * term.function.conjugate(y + change)
            return guess(top, linear - own + paid, change)

        best = max(best, _climbed(clipped), key=lambda guess: guess.value)
    lowest = -radius * values[0]
    found, known = Better(points, (), lowest), lowest - whole
    for t in dict.fromkeys((best.scale, 1.0)):
        if t == 1.0 and best.change is None:
            continue
        moved = [t * y for y in points]
        if free is not None and best.change is not None:
            moved[free] += t * best.change
        moved = [term.function.into_dual(y) for term, y in zip(terms, moved, strict=True)]
        value = -t * radius * best.top - _conjugate(terms, moved, 1.0)
        if value > known:
            names = {"clipped": best.change is not None, "scaled": t != 1.0}
            changes = tuple(name for name, is_so in names.items() if is_so)
            found, known = Better(moved, changes, lowest), value
    return found


def _climbed(look: Callable[[int], Guess]) -> Guess:
    """The best guess that climbing from the middle level leads to, upwards and downwards."""
    best = look(LEVELS // 2)
    for way in (1, -1):
        level = LEVELS // 2 + way
        while 1 <= level < LEVELS and (found := look(level)).value > best.value:
            best, level = found, level + way
    return best


def _conjugate(terms: Sequence[Term], points: Sequence[Array], t: float) -> float:
    """Σ ω h*(ty) over the terms."""
    pairs = zip(terms, points, strict=True)
    return sum(
        term.weight * sum(term.function.conjugate(t * y[b], b) for b in term.chunks())
        for term, y in pairs
    )


def _free(term: Term) -> bool:
    """Whether the term reads every entry, between two finite ends."""
    map, ends = term.map, term.function.interval
    inner = map.map if type(map) is Scaled else map
    if type(inner) is not AllEntries or ends is None or not np.all(_factor(term)):
        return False
    return bool(np.isfinite(ends[0]).all() and np.isfinite(ends[1]).all())


def _factor(term: Term) -> Array | float:
    """Factor of a multiplier in its entry of v."""
    map = term.map
    return term.weight * map.factor if isinstance(map, Scaled) else term.weight


def _spectrum(v: Array) -> tuple[Array, Array]:
    """Singular values in falling order, and vectors of the shorter side."""
    V = v if v.shape[0] >= v.shape[1] else v.T
    squares, vectors = scipy.linalg.eigh(V.T @ V, check_finite=False)
    return np.sqrt(np.maximum(squares[::-1], 0.0)), vectors[:, ::-1]


def _less(v: Array, frame: Array, shares: Array) -> Array:
    """−Σ share_i σ_i u_i v_iᵀ."""
    if v.shape[0] < v.shape[1]:
        return _less(v.T, frame, shares).T
    change: Array = ((v @ frame) * -shares) @ frame.T
    return change
