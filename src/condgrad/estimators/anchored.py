"""Multipliers that are drawn back to where they began, for primal-dual steps with restarts."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from condgrad._types import Array, Params
from condgrad.backends.memory import Need
from condgrad.estimators._base import State
from condgrad.estimators.relaxed import Relaxed, RelaxedState
from condgrad.functions import Linear
from condgrad.maps import RowStorage
from condgrad.points.dense import Dense
from condgrad.problem import Problem, Term


@dataclass
class AnchoredState(RelaxedState):
    """Multipliers, where they began, and how far the latest pass would move them."""

    anchor: Array = field(kw_only=True)
    """y_0, the multipliers at the beginning of the round."""
    origin: Array = field(kw_only=True)
    """A*y_0; `anchor` itself if the map stores rows."""
    drift: Array = field(kw_only=True)
    """A*(γ − y) of the latest pass."""
    moved: float = 0.0
    """‖γ − y‖² of the latest pass."""


@dataclass(frozen=True)
class Anchored(Relaxed):
    r"""Multipliers y of all rows, each a mean of a reflected step and of where they began.

    .. math:: γ ← h'_β(z + βy), \qquad y ← (1 - ρ)\,(y + θ(γ - y)) + ρ\, y_0, \qquad v = A^*y

    The dual half of `condgrad.methods.anchored.AnchoredStep`, which sets θ = 2, chooses ρ and says
    when y_0 is y. γ lies in dom h*, y need not.
    """

    def init(self, term: Term, problem: Problem) -> AnchoredState:
        s = super().init(term, problem)
        new = AnchoredState(
            s.G,
            y=s.y,
            slopes=s.slopes,
            stretches=s.stretches,
            mean=s.mean,
            anchor=s.y.copy(),
            origin=np.empty(0),
            drift=np.zeros_like(s.mean),
        )
        self.set_anchor(new)
        return new

    def memory(self, term: Term, problem: Problem) -> list[Need]:
        spread = 1 if isinstance(term.map, RowStorage) else 2
        more = 8 * term.map.size + spread * term.map.storage * problem.dtype.itemsize
        return [*super().memory(term, problem), Need(f"first multipliers of {term.name}", more)]

    def set_anchor(self, s: State) -> None:
        """Let the multipliers begin where they are."""
        assert isinstance(s, AnchoredState)
        s.anchor[...] = s.y
        s.origin = s.anchor if s.mean is s.y else s.mean.copy()

    def update(self, s: State, term: Term, W: Dense, p: Params, rng: np.random.Generator) -> None:
        assert isinstance(s, AnchoredState)
        if isinstance(term.function, Linear):  # its only slope
            s.evaluated += term.map.size
            return
        s.drift[...] = s.mean
        super().update(s, term, W, p, rng)
        assert p.theta is not None
        s.moved = self.change(s, p.theta)
        np.subtract(s.G, s.drift, out=s.drift)
        pairs = [(s.y, s.anchor)] if s.mean is s.y else [(s.y, s.anchor), (s.mean, s.origin)]
        for now, first in pairs:
            now *= now.dtype.type(1 - p.rho)
            now += now.dtype.type(p.rho) * first

    def gone(self, s: State) -> float:
        """‖y − y_0‖²."""
        assert isinstance(s, AnchoredState)
        off = s.y - s.anchor
        return float(np.vdot(off, off))

    def over(self, s: State, term: Term, problem: Problem, share: float) -> State:
        new = super().over(s, term, problem, share)
        assert isinstance(new, AnchoredState)
        new = replace(new, anchor=new.y.copy())
        self.set_anchor(new)
        return new
