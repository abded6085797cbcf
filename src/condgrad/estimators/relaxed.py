"""Multipliers of all rows, moved further than their step: the dual half of primal-dual steps."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from condgrad._types import Array, Params
from condgrad.backends.memory import Need
from condgrad.estimators._base import State
from condgrad.estimators.multipliers import SagAugmented, TableState
from condgrad.estimators.sampling import Batch
from condgrad.functions import Linear
from condgrad.maps import RowStorage
from condgrad.points.dense import Dense
from condgrad.problem import Problem, Term


@dataclass
class RelaxedState(TableState):
    """The multipliers, the slopes of the latest pass, and A* of the multipliers."""

    mean: Array = field(kw_only=True)
    """A*y, which is y itself where the map stores rows."""

    @property
    def estimate(self) -> Array:
        return self.mean


@dataclass(frozen=True)
class Relaxed(SagAugmented):
    r"""Multipliers y of all rows, which also enter the direction.

    .. math:: γ ← h'_β(z + βy), \qquad y ← y + θ(γ - y), \qquad v = A^*y

    z are the images of the point that a step looks ahead to, and h_β is the Moreau envelope, of
    smooth functions too. With σ = 1/β this is the dual half of the method of Chambolle and Pock
    [1]_, over-relaxed by θ in (1, 2) [2]_. γ lies in dom h*, y need not.

    References
    ----------
    .. [1] A. Chambolle, T. Pock, "A first-order primal-dual algorithm for convex problems with
       applications to imaging", J. Math. Imaging Vis. 40, 2011.
    .. [2] L. Condat, "A primal-dual splitting method for convex optimization involving
       Lipschitzian, proximable and linear composite terms", J. Optim. Theory Appl. 158, 2013.
    """

    portable: ClassVar[bool] = False
    batch: Batch | str = 1.0

    def init(self, term: Term, problem: Problem) -> RelaxedState:
        s = super().init(term, problem)
        if isinstance(term.function, Linear):  # its only slope
            for at in term.chunks():
                s.y[at] = term.function.into_dual(s.y[at], at)
                term.map.scatter(s.G, at, s.y[at].astype(s.G.dtype, copy=False))
            if s.slopes is not s.G:
                s.slopes[:] = s.y
        mean = s.y if isinstance(term.map, RowStorage) else s.G.copy()
        return RelaxedState(s.G, y=s.y, slopes=s.slopes, stretches=s.stretches, mean=mean)

    def memory(self, term: Term, problem: Problem) -> list[Need]:
        more = 0 if isinstance(term.map, RowStorage) else term.map.storage * problem.dtype.itemsize
        return [*super().memory(term, problem), Need(f"mean gradient of {term.name}", more)]

    def update(self, s: State, term: Term, W: Dense, p: Params, rng: np.random.Generator) -> None:
        super().update(s, term, W, p, rng)
        assert isinstance(s, RelaxedState)
        if s.mean is not s.y:
            s.mean += s.mean.dtype.type(p.theta) * (s.G - s.mean)

    def change(self, s: State, theta: float) -> float:
        """‖γ − y‖² of the latest pass, y as it was before."""
        assert isinstance(s, RelaxedState)
        off = s.y - s.slopes  # (θ − 1)(γ − y before)
        return float(np.vdot(off, off)) / (theta - 1) ** 2

    def steps_by(self, term: Term) -> bool:
        return True

    def over(self, s: State, term: Term, problem: Problem, share: float) -> State:
        assert isinstance(s, RelaxedState)
        new = super().over(s, term, problem, share)
        assert isinstance(new, RelaxedState)
        return replace(new, mean=new.y if s.mean is s.y else share * s.mean)

    def duals(self, s: State, term: Term) -> dict[str, Array]:
        assert isinstance(s, RelaxedState)
        return {"slopes": s.slopes}

    def objection(self, term: Term) -> str | None:
        return None
