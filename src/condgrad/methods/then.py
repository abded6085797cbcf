"""Two methods in a row: the second goes on from the point and the multipliers of the first."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.random import Generator

from condgrad._floats import TINY
from condgrad._types import Array
from condgrad.certificate.lower_bound import Duals
from condgrad.methods.protocol import Given, Known, Method, State, passes_over
from condgrad.methods.sag_cgal import SagCgal, SagCgalState
from condgrad.methods.spdhg import Spdhg
from condgrad.problem import Problem


@dataclass(frozen=True)
class Then(Spdhg):
    r"""SAG-CGAL while it gains, then SPDHG, which is slower at first.

    With l_0 ≤ u known before (`Known.below`, `Known.above`) and l the best bound after t passes
    over the rows, u − l is a share of u − l_0. SAG-CGAL has `passes` passes, but only half of them
    if the share is above `half` then. Afterwards it goes on as long as the share is at most rate^t,
    or has fallen like that since the measurement before. If u is not known, `passes` is all that
    counts. SPDHG is alone if it takes all rows at every iteration.

    Parameters
    ----------
    first : SagCgal
        Whose W and multipliers SPDHG takes over.
    passes, half, rate : float, default 10, 0.8 and 0.85
        See above.
    """

    numbers = 2
    first: SagCgal = field(kw_only=True)
    passes: float = 10.0
    half: float = 0.8
    rate: float = 0.85

    def over(self, problem: Problem, state: SagCgalState) -> bool:
        """Whether the first method makes way."""
        known, s = state.known, state.pressure
        assert s is not None
        if np.isnan(known.above) or s.passes < self.passes / 2:
            return passes_over(problem, state.rows) >= self.passes
        whole = max(known.above - known.below, TINY)
        share, t = (known.above - s.bound) / whole, s.passes
        if t < self.passes:
            return not share <= self.half
        recent = (known.above - s.bound_before) / whole * self.rate ** (t - s.passes_before)
        return not share <= max(self.rate**t, recent)

    def alone(self) -> Spdhg:
        """SPDHG without the first method."""
        return Spdhg(self.batch, self.table_dtype)

    def on(self, problem: Problem) -> Method:
        return self.alone() if self.takes_all(problem) else self

    def lighter(self, gpu: bool) -> Method:
        return self.alone()

    def init(
        self, problem: Problem, W: Array, rng: Generator, known: Known, multipliers: Given = None
    ) -> Any:
        return self.first.init(problem, W, rng, known, multipliers)

    def step(self, problem: Problem, state: Any, at_most: int = 1) -> Any:
        if isinstance(state, SagCgalState) and self.over(problem, state):
            given, pressure = self.first.multipliers(problem, state), state.pressure
            now = super().init(problem, state.W, state.rng, state.known, given)
            bound = max(now.bound, -np.inf if pressure is None else pressure.bound)
            counts = {name: getattr(state, name) for name in ("k", "rows", "calls", "products")}
            state = replace(now, bound=bound, **counts)
        return self._now(state).step(problem, state)

    def _now(self, state: State) -> SagCgal | Spdhg:
        return self.first if isinstance(state, SagCgalState) else self.alone()

    def duals(self, problem: Problem, state: Any) -> dict[str, Duals]:
        return self._now(state).duals(problem, state)

    def rebase(self, problem: Problem, state: Any, share: float) -> Any:
        return self._now(state).rebase(problem, state, share)
