"""A method that runs before another, and for how long."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from condgrad._floats import TINY
from condgrad._types import Array
from condgrad.backends.arrays import foreign, host
from condgrad.methods.control import GUESS, BalanceState
from condgrad.problem import Problem

if TYPE_CHECKING:
    from condgrad.methods.registry import Method

Propose = Callable[[Array], Array | None]


class Look(NamedTuple):
    """Objectives of two points that are known before a run."""

    point: Array
    """Answer of the oracle to ∇f, without the constraints."""
    below: float
    """Objective of `point`."""
    above: float
    """Objective of the feasible point that is proposed for `point`."""


def asked(propose: Propose, W: Array) -> Array | None:
    """A point for W, which is an array of NumPy for all but those who take any (`anywhere`)."""
    return propose(W if getattr(propose, "anywhere", False) else host(W))


def look(problem: Problem, propose: Propose | None, W: Array) -> Look | None:
    """A point below and one above, the gradient taken at W; None where nothing is proposed."""
    if propose is None:
        return None
    v = np.zeros(problem.domain.shape, like=problem.like)
    for t in problem.smooth:
        v += t.gradient(W, 1.0)
    effort = GUESS if foreign(v) else None
    S = problem.domain.lmo(v, effort=effort, rng=np.random.default_rng(0)).dense()
    del v  # arrays of its size may be few
    point = asked(propose, S.astype(problem.dtype, copy=not foreign(S)))
    return None if point is None else Look(S, problem.objective(S), problem.objective(point))


@dataclass(frozen=True)
class Lead:
    r"""A method that runs before another while it gains.

    With l_0 ≤ u from `look` and l the best bound after t passes over the rows, u − l is a share of
    u − l_0. The method has `passes` passes, but only half of them where the share is above `half`
    then, and afterwards it goes on as long as the share is at most rate^t, or has fallen like that
    since the measurement before. Where nothing is proposed, and u is not known, `passes` is all
    that counts.

    Parameters
    ----------
    method : Method
        Whose W and multipliers the other one takes over.
    passes, half, rate : float, default 10, 0.8 and 0.85
        See above.
    """

    method: Method
    passes: float = 10.0
    half: float = 0.8
    rate: float = 0.85

    def over(self, passes: float, control: BalanceState, seen: Look | None) -> bool:
        """True if the lead is over after so many passes, by what its control has measured."""
        if seen is None or control.passes < self.passes / 2:
            return passes >= self.passes
        whole = max(seen.above - seen.below, TINY)
        share, t = (seen.above - control.bound) / whole, control.passes
        if t < self.passes:
            return not share <= self.half
        bound, then = control.earlier
        recent = (seen.above - bound) / whole * self.rate ** (t - then)
        return not share <= max(self.rate**t, recent)
