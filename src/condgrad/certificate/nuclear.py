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


class Better(NamedTuple):
    """A dual point that may prove more than the one given."""

    points: Sequence[Array]
    """The multipliers of every term."""
    changes: tuple[str, ...]
    """What was changed: ``"clipped"``, ``"scaled"``, both or nothing."""
    lowest: float
    """min ⟨v, s⟩ at the point given, about."""
    level: int | None
    """The level at which singular values were cut off, from which the next search may start."""


class Guess(NamedTuple):
    """Promise of a change of a dual point."""

    value: float
    scale: float
    """t, the factor on all multipliers."""
    level: int = LEVELS
    change: Array | None = None
    """Change of v."""


def serves(problem: Problem) -> bool:
    """Whether dual points of a problem can be improved; a linear function has one only."""
    able = type(problem.domain) is NuclearBall and not foreign(problem.like)
    if not able or min(problem.domain.shape) > LARGE:
        return False
    return not any(isinstance(t.function, Linear) for t in problem.terms)


def improved(
    problem: Problem, vs: Sequence[Array], points: Sequence[Array], level: int | None
) -> Better:
    """A better dual point than `points`, the multipliers of every term, with ω A*y in `vs`.

    The search for a level climbs from the one given, that of an earlier search.
    """
    assert isinstance(problem.domain, NuclearBall)
    terms, radius, v = problem.terms, problem.domain.radius, np.sum(vs, axis=0)
    values, frame = _spectrum(v)
    lowest = -radius * values[0]
    whole, half = (sum(_conjugates(terms, points, t)) for t in (1.0, 0.5))
    bend = max(2 * whole - 4 * half, 0.0)
    best = _guess(terms, points, lowest - (whole - bend), bend)
    free = next((i for i, t in enumerate(terms) if _free(t)), None)
    if free is not None and values[0] > 0:
        term, y, linear = terms[free], points[free], whole - bend
        own = term.weight * term.function.conjugate(y)

        def look(level: int) -> Guess:
            top = (1 - 2.0**-level) * values[0]
            count = int(np.count_nonzero(values > top))
            change = _less(v, frame[:, :count], 1 - top / values[:count])
            new = term.weight * term.function.conjugate(y + change.reshape(-1) / _factor(term))
            rise = -radius * top - (linear - own + new)
            return _guess(terms, points, rise, bend)._replace(level=level, change=change)

        cut = _climbed(look, level or LEVELS // 2)
        best, level = cut if cut.value > best.value else best, cut.level
    known, chosen, changes = lowest - whole, points, tuple[str, ...]()
    for guess in (best, best._replace(scale=1.0)):
        if guess.scale == 1.0 and guess.change is None:
            continue
        moved = [guess.scale * y for y in points]
        if guess.change is not None:
            assert free is not None
            moved[free] += guess.scale * guess.change.reshape(-1) / _factor(terms[free])
        moved = [t.function.into_dual(y) for t, y in zip(terms, moved, strict=True)]
        top = values[0] if guess.change is None else (1 - 2.0**-guess.level) * values[0]
        value = -guess.scale * radius * top - sum(_conjugates(terms, moved, 1.0))
        if value > known:
            known, chosen = value, moved
            names = {"clipped": guess.change is not None, "scaled": guess.scale != 1.0}
            changes = tuple(name for name, changed in names.items() if changed)
    return Better(chosen, changes, lowest, level)


def _conjugates(terms: Sequence[Term], points: Sequence[Array], t: float) -> list[float]:
    """ω h*(ty) of every term."""
    return [
        term.weight * sum(term.function.conjugate(t * y[b], b) for b in term.chunks())
        for term, y in zip(terms, points, strict=True)
    ]


def _guess(terms: Sequence[Term], points: Sequence[Array], rise: float, bend: float) -> Guess:
    """The largest t·rise − t²·bend over the t for which t y is dual feasible."""
    if bend <= 0:
        return Guess(rise - bend, 1.0)
    t = max(rise / (2 * bend), 0.0)
    if t > 1:
        t = min([t, *map(_room, terms, points)])
    return Guess(t * rise - t * t * bend, t)


def _climbed(look: Callable[[int], Guess], level: int) -> Guess:
    """The best guess that climbing from a level leads to, upwards or else downwards."""
    first = look(level)
    for way in (1, -1):
        at, last = level + way, first
        while 1 <= at < LEVELS:
            guess = look(at)
            if guess.value <= last.value:
                break
            last, at = guess, at + way
        if last.value > first.value:
            return last
    return first


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


def _room(term: Term, y: Array) -> float:
    """The largest t of 1, 2 and … for which ty is dual feasible; ∞ if that is all of them."""
    if np.isfinite(term.function.conjugate(1e3 * y)):
        return np.inf
    low, high = 1.0, 1e3
    for _ in range(12):
        middle = np.sqrt(low * high)
        inside = np.isfinite(term.function.conjugate(middle * y))
        low, high = (middle, high) if inside else (low, middle)
    return float(low)


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
