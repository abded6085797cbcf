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

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import scipy.linalg

from condgrad._types import Array
from condgrad.backends.arrays import foreign
from condgrad.domains import NuclearBall
from condgrad.functions import Linear
from condgrad.maps import AllEntries, Scaled
from condgrad.problem import Problem, Term
from condgrad.rows import Part, part_of

LARGE = 2000
"""The largest side of a matrix whose singular values are all computed."""
LEVELS = 16
"""Level j cuts singular values off at (1 − 2^(−j)) σ_max; the last leaves them as they are."""


class Guess(NamedTuple):
    """Promise of a change of a dual point."""

    value: float
    scale: float
    """t, the factor on all multipliers."""
    level: int = LEVELS
    change: Array | None = None
    """Change of v."""


class Clipping:
    """Looks for better dual points, and remembers which level was best.

    Parameters
    ----------
    problem : Problem
        One over a nuclear ball.
    """

    @classmethod
    def of(cls, problem: Problem) -> Clipping | None:
        """Clipping for a problem, or None; a linear function has one dual point only."""
        able = type(problem.domain) is NuclearBall and not foreign(problem.like)
        if not able or min(problem.domain.shape) > LARGE:
            return None
        return None if any(isinstance(t.function, Linear) for t in problem.terms) else cls(problem)

    def __init__(self, problem: Problem) -> None:
        assert isinstance(problem.domain, NuclearBall)
        self._terms, self._radius = problem.terms, problem.domain.radius
        free = [i for i, t in enumerate(problem.terms) if _free(t)]
        self._free = free[0] if free else None
        self._level = LEVELS // 2

    def improved(
        self, parts: Sequence[Part], points: Sequence[Array]
    ) -> tuple[Sequence[Part], Sequence[Array], str, float]:
        """A better dual point, in parts and as it is; what changed; min ⟨v, s⟩ at the given one.

        `points` are the multipliers of every term; the last number is about right.
        """
        v = np.sum([p.v for p in parts], axis=0)
        values, frame = _spectrum(v)
        low = -self._radius * values[0]
        whole, half = (sum(self._conjugates(points, t)) for t in (1.0, 0.5))
        bend = max(2 * whole - 4 * half, 0.0)
        best = self._guess(low - (whole - bend), bend, points)
        if self._free is not None and values[0] > 0:
            best = self._search(best, v, values, frame, points, bend, whole - bend)
        known, chosen, new = low - whole, Guess(low - whole, 1.0), points
        for guess in (best, best._replace(scale=1.0)):
            if guess.scale == 1.0 and guess.change is None:
                continue
            moved = self._moved(guess, points)
            top = values[0] if guess.change is None else (1 - 2.0**-guess.level) * values[0]
            value = -guess.scale * self._radius * top - sum(self._conjugates(moved, 1.0))
            if value > known:
                known, chosen, new = value, guess, moved
        names = ["clipped"] if chosen.change is not None else []
        names += ["scaled"] if chosen.scale != 1.0 else []
        if names:
            parts = [part_of(t, None, y, 1.0) for t, y in zip(self._terms, new, strict=True)]
        return parts, new, ", ".join(names), low

    def _moved(self, guess: Guess, points: Sequence[Array]) -> list[Array]:
        """The multipliers of a guess."""
        new = [guess.scale * y for y in points]
        if guess.change is not None:
            assert self._free is not None
            term = self._terms[self._free]
            new[self._free] += guess.scale * guess.change.reshape(-1) / _factor(term)
        return [t.function.into_dual(y) for t, y in zip(self._terms, new, strict=True)]

    def _conjugates(self, points: Sequence[Array], t: float) -> list[float]:
        """ω h*(ty) of every term."""
        return [
            term.weight * sum(term.function.conjugate(t * y[b], b) for b in term.chunks())
            for term, y in zip(self._terms, points, strict=True)
        ]

    def _guess(
        self, rise: float, bend: float, points: Sequence[Array], level: int = LEVELS
    ) -> Guess:
        """The largest t·rise − t²·bend over the t for which t y is dual feasible."""
        if bend <= 0:
            return Guess(rise - bend, 1.0, level)
        t = max(rise / (2 * bend), 0.0)
        if t > 1:
            t = min([t, *map(_room, self._terms, points)])
        return Guess(t * rise - t * t * bend, t, level)

    def _search(
        self,
        best: Guess,
        v: Array,
        values: Array,
        frame: Array,
        points: Sequence[Array],
        bend: float,
        linear: float,
    ) -> Guess:
        """Climb from the level that was best before."""
        assert self._free is not None
        term, y = self._terms[self._free], points[self._free]
        own = term.weight * term.function.conjugate(y)

        def look(level: int) -> Guess:
            top = (1 - 2.0**-level) * values[0]
            count = int(np.count_nonzero(values > top))
            change = _cut(v, frame[:, :count], 1 - top / values[:count])
            new = term.weight * term.function.conjugate(y + change.reshape(-1) / _factor(term))
            rise = -self._radius * top - (linear - own + new)
            return self._guess(rise, bend, points, level)._replace(change=change)

        first = look(self._level)
        for way in (1, -1):
            level, last = self._level + way, first
            while 1 <= level < LEVELS:
                guess = look(level)
                if guess.value <= last.value:
                    break
                last, level = guess, level + way
            if last.value > first.value:
                first = last
                break
        self._level = first.level
        return first if first.value > best.value else best


def _free(term: Term) -> bool:
    """True if the term reads every entry, between two finite ends."""
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
    """The largest t of 1, 2 and … for which ty is dual feasible; ∞ where that is all of them."""
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


def _cut(v: Array, frame: Array, shares: Array) -> Array:
    """−Σ share_i σ_i u_i v_iᵀ."""
    if v.shape[0] < v.shape[1]:
        return _cut(v.T, frame, shares).T
    change: Array = ((v @ frame) * -shares) @ frame.T
    return change
