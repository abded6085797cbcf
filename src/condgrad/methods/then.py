"""Two methods in a row: the second goes on from the point and the multipliers of the first."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.random import Generator

from condgrad._floats import TINY
from condgrad._types import Array
from condgrad.certificate.lower_bound import Duals
from condgrad.methods.protocol import Given, Known, Method, State, passes_over
from condgrad.methods.sag_cgal import SagCgal, SagCgalState
from condgrad.methods.tables import Tabled
from condgrad.problem import Problem, Term

if TYPE_CHECKING:
    from condgrad.methods.spdhg import Spdhg


@dataclass(frozen=True)
class Then(Method):
    r"""SAG-CGAL while it gains, then SPDHG, which is slower at first.

    With l_0 ≤ u known before (`Known.below`, `Known.above`) and l the best bound after t passes
    over the rows, u − l is a share of u − l_0. SAG-CGAL has `passes` passes, but only half of them
    if the share is above `half` then. Afterwards it goes on as long as the share is at most rate^t,
    or has fallen like that since the measurement before. If u is not known, `passes` is all that
    counts.

    Parameters
    ----------
    first : SagCgal
        Whose W and multipliers the other one takes over.
    second : Spdhg
        The method that follows; it is alone if it takes all rows at every iteration.
    passes, half, rate : float, default 10, 0.8 and 0.85
        See above.
    """

    looks: ClassVar[bool] = True
    deals: ClassVar[bool] = True
    remedy: ClassVar[str] = Tabled.remedy
    first: SagCgal
    second: Spdhg
    passes: float = 10.0
    half: float = 0.8
    rate: float = 0.85
    slug: str = "spdhg"
    name: str = "SPDHG"

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

    def _now(self, state: State) -> SagCgal | Spdhg:
        return self.second if state.stage else self.first

    def suits(self, problem: Problem) -> str | None:
        return self.second.suits(problem)

    def on(self, problem: Problem) -> Method:
        return self.second if self.second.takes_all(problem) else self

    def portable(self, problem: Problem) -> bool:
        return True

    def lighter(self, gpu: bool) -> Method:
        return self.second

    def init(
        self, problem: Problem, W: Array, rng: Generator, known: Known, multipliers: Given = None
    ) -> State:
        return self.first.init(problem, W, rng, known, multipliers)

    def step(self, problem: Problem, state: Any, at_most: int = 1) -> State:
        if not state.stage and self.over(problem, state):
            given = self.first.multipliers(problem, state)
            now = self.second.init(problem, state.W, state.rng, state.known, given)
            bound = max(now.bound, state.pressure.bound)
            counts = {name: getattr(state, name) for name in ("k", "rows", "calls", "products")}
            state = replace(now, stage=1, bound=bound, **counts)
        return self._now(state).step(problem, state, at_most)

    def duals(self, problem: Problem, state: Any) -> dict[str, Duals]:
        return self._now(state).duals(problem, state)

    def multipliers(self, problem: Problem, state: Any) -> list[Array | None]:
        return self._now(state).multipliers(problem, state)

    def rebase(self, problem: Problem, state: Any, share: float) -> State:
        return self._now(state).rebase(problem, state, share)

    def measures(self, problem: Problem) -> bool:
        return True

    def errors(self, problem: Problem, state: Any, W: Array) -> dict[str, float]:
        return self._now(state).errors(problem, state, W)

    def row_bytes(self, term: Term, problem: Problem) -> int:
        return self.first.row_bytes(term, problem)
