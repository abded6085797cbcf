"""Multipliers that ascend along the rows drawn, for primal-dual steps."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar

import numpy as np

from condgrad._types import Array, Params
from condgrad.backends import threads, tiles
from condgrad.backends.arrays import foreign
from condgrad.domains.bottom import FEW
from condgrad.estimators._base import State
from condgrad.estimators.multipliers import SagAugmented
from condgrad.estimators.sampling import Stretches
from condgrad.points.dense import Dense
from condgrad.problem import Problem, Term


@dataclass
class DualState(State):
    """A multiplier for every row, and what draws rows."""

    y: Array = field(kw_only=True)
    stretches: Stretches = field(kw_only=True)
    changed: Array = field(kw_only=True)
    """A*Δy of the latest draw, in the precision of y or of W, whichever is less."""
    squares: float = 0.0
    """Σ Δy² of the latest draw."""
    share: float = 1.0
    """Share of all rows in the latest draw."""

    @property
    def estimate(self) -> Array:
        """A*(y + Δy/p)."""
        more = self.changed if self.share == 1 else self.changed / self.G.dtype.type(self.share)
        return self.G + more

    @property
    def drawer(self) -> Stretches:
        return self.stretches

    @property
    def multipliers(self) -> Array:
        return self.y


@dataclass(frozen=True)
class Ascent(SagAugmented):
    r"""Multipliers moved on the drawn rows, their change entering 1/p times more.

    .. math:: y_l ← h'_{β,l}(z_l + β y_l) \text{ for the drawn rows}, \qquad
              v = A^*\!\left(y + \tfrac1p Δy\right)

    p is the share of the rows that was drawn. With σ = 1/β this is the dual step of SPDHG, and with
    p = 1 that of the method of Chambolle and Pock, whose extrapolation is then of y.

    Parameters
    ----------
    batch : int, float or "auto"
        Rows per iteration: a count, a fraction, or a tenth of them, but at least 64 per entry of W,
        and more where projections of high rank cost more than that (`widen`).
    table_dtype : float64, float32, "bfloat16" or "auto"
        Precision of the multipliers, as for `SagAugmented`.

    References
    ----------
    .. [1] A. Chambolle, M. J. Ehrhardt, P. Richtárik, C.-B. Schönlieb, "Stochastic primal-dual
       hybrid gradient algorithm with arbitrary sampling and imaging applications", SIAM J. Optim.
       28(4), 2018.
    """

    portable: ClassVar[bool] = True
    rounds: ClassVar[int] = 10
    least: ClassVar[int] = 64
    kept: ClassVar[int] = 1

    def init(self, term: Term, problem: Problem) -> DualState:  # type: ignore[override]
        G, y = term.map.zeros(problem.dtype), term.map.table(self._dtype(term, problem))
        stretches = Stretches(term.map.size, term.map.stretch, self.rows_now(term))
        types = np.dtype(np.float32) if y.dtype == tiles.HALF else y.dtype, G.dtype
        changed = G.astype(min(types, key=lambda dtype: dtype.itemsize))
        return DualState(G, y=y, stretches=stretches, changed=changed)

    def update(self, s: State, term: Term, W: Dense, p: Params, rng: np.random.Generator) -> None:
        assert isinstance(s, DualState)
        drawn = s.stretches.draw(rng)
        parts = threads.share(drawn) if term.passes.parallel else [drawn]
        sums = [s.changed, *(np.zeros_like(s.changed) for _ in parts[1:])]
        s.changed.fill(0)
        pairs, ascend = zip(sums, parts, strict=True), term.passes.ascend
        seen = W.array.astype(s.changed.dtype, copy=False)
        works = [partial(ascend, seen, G, part, s.y, p.beta) for G, part in pairs]
        s.squares = sum(threads.run(works))
        for G in sums[1:]:
            s.changed += G
        s.G += s.changed
        count = sum(at.stop - at.start for at in drawn)
        s.share, s.evaluated = count / term.map.size, s.evaluated + count

    def widen(self, s: State, term: Term, columns: float) -> None:
        """Draw enough rows that a pass takes about as long as a projection with so many columns.

        A projection takes about as long as 0.75 rows per column and entry of W. Fewer rows at a
        time would not make it faster, and the passes that are needed grow slowly with them. On a
        GPU projections with more than `FEW` columns take as long as many more rows, and half of
        all are drawn; iterations with all of them are not fewer.
        """
        assert isinstance(s, DualState)
        least = self.rows_now(term)
        if self.batch != "auto" or least == term.map.size:
            return
        wanted = max(least, int(0.75 * columns * np.prod(term.map.shape)))
        if foreign(term.map.like) and columns > FEW:
            wanted = max(wanted, term.map.size // 2)
        if not 0.8 <= wanted / s.stretches.batch <= 1.25:
            spent = s.stretches.seconds
            s.stretches = Stretches(term.map.size, term.map.stretch, min(wanted, term.map.size))
            s.stretches.seconds = spent

    def adopt(self, s: State, term: Term, y: Array | None, evaluated: int) -> None:
        assert isinstance(s, DualState)
        super().adopt(s, term, y, evaluated)
        if y is not None:
            s.y = y
            term.passes.collect(s.G, y)

    def over(self, s: State, term: Term, problem: Problem, share: float) -> State:
        assert isinstance(s, DualState)
        if s.y.dtype == tiles.HALF:  # rounding again: A*y is another
            tiles.scale(s.y, share)
            s.G.fill(0)
            term.passes.collect(s.G, s.y)
            return s
        s.y *= s.y.dtype.type(share)
        s.G *= s.G.dtype.type(share)
        return s

    def duals(self, s: State, term: Term) -> dict[str, Array]:
        assert isinstance(s, DualState)
        return {"slopes": s.y}
