"""Keepers of the rows of a term in a run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from condgrad._types import ALL, Array, Params
from condgrad.backends.arrays import host
from condgrad.estimators import Ascent, DualState, Estimator, State
from condgrad.evaluation import Violation
from condgrad.points.dense import Dense
from condgrad.problem import Problem, Term
from condgrad.rows.parts import Part, part_of


class Keeper:
    """The rows of one term, with what its estimator keeps of them, in this process.

    Tables never leave it: what it answers is of the size of W or smaller, but for `point`.

    Parameters
    ----------
    term : Term
        Whose rows they are.
    estimator : Estimator
        The rule by which they are followed.
    problem : Problem
        The problem.
    """

    here = True
    """True if the tables are in this process."""
    losses = 0
    """Number of times that rows were lost (`together`)."""

    @classmethod
    def serves(cls, term: Term, estimator: Estimator, problem: Problem) -> bool:
        """True if the keeper can keep such rows."""
        return True

    def __init__(self, term: Term, estimator: Estimator, problem: Problem) -> None:
        self.term, self.estimator = term, estimator
        self.state: State = estimator.init(term, problem)

    def update(self, W: Dense, p: Params, rng: np.random.Generator) -> None:
        """The estimator's rule over the rows that it draws; the cotangent kept up to date."""
        self.estimator.update(self.state, self.term, W, p, rng)

    def add_to(self, v: Array) -> None:
        """v += ω A*y of the estimate, in place."""
        self.term.map.add_to(self.state.estimate, self.term.weight * self.state.gain, v)

    def set_to(self, v: Array) -> None:
        """Set v to it, in place."""
        self.term.map.set_to(self.state.estimate, self.term.weight * self.state.gain, v)

    def measure(self, D: Array) -> float:
        """‖A D‖² over the rows in use, as for all rows where only some were drawn."""
        return self.estimator.measure(self.state, self.term, D)

    def change(self, D: Array) -> tuple[float, float]:
        """ω⟨D, A*Δy⟩ and ω²‖Δy‖², Δy the latest change of the multipliers."""
        s, w = self.state, self.term.weight
        assert isinstance(s, DualState)
        return self.term.map.paired(s.changed, w, D), w**2 * s.squares

    def widen(self, columns: float) -> None:
        """Draw more or fewer rows, as suits projections with so many columns."""
        estimator = self.estimator
        assert isinstance(estimator, Ascent)
        estimator.widen(self.state, self.term, columns)

    @property
    def share(self) -> float:
        """The share of all rows that is drawn at an iteration."""
        return 1.0 if self.state.drawer is None else self.state.drawer.share

    @property
    def dual_square(self) -> float:
        """ω²‖y‖² of the multipliers."""
        y = self.state.multipliers
        return 0.0 if y is None else self.term.weight**2 * self.term.passes.square(y)

    @property
    def whole(self) -> bool:
        """Whether every row is drawn at every iteration."""
        return self.state.drawer is None or self.state.drawer.whole

    @property
    def rows(self) -> int:
        """Rows evaluated so far, at either point."""
        return self.state.evaluated

    @property
    def sampling(self) -> float:
        """Seconds spent drawing rows."""
        return 0.0 if self.state.drawer is None else self.state.drawer.seconds

    def leave(self) -> None:
        """Let go of all that another keeper does not take over, before that is made."""
        self.estimator.leave(self.state)

    def adopt(self, other: Keeper) -> None:
        """Take over the multipliers and the count of rows of another keeper, which is not used."""
        self.estimator.adopt(self.state, self.term, other.state.multipliers, other.rows)

    def over(self, problem: Problem, share: float) -> None:
        """Go on over another domain, with a share of the multipliers."""
        self.state = self.estimator.over(self.state, self.term, problem, share)

    def value(self, W: Array) -> float:
        """ω h(A W)."""
        return self.term.value(W)

    def violation(self, W: Array, diameter: float) -> Violation:
        """Violation of a constraint family."""
        return self.term.violation(W, diameter)

    def merit(self, W: Array, beta: float) -> float | None:
        """Share of a family in the augmented Lagrangian; None if there are no multipliers."""
        y = self.state.multipliers
        return None if y is None else self.term.weight * self.term.merit(W, y, beta)

    def error(self, W: Dense, beta: float) -> float:
        """`Estimator.error`."""
        return self.estimator.error(self.state, self.term, W, beta)

    @property
    def points(self) -> dict[str, Array]:
        """The points of dom h* that are kept, by name."""
        return self.estimator.duals(self.state, self.term)

    def pairing(self, which: str, W: Array | None, beta: float) -> Part:
        """A*y, h*(y), ⟨y, z⟩ and Σ|y| at a dual point.

        That is one of `points`, ``"slopes"`` where there is none of that name, and the slopes
        h'_β(A W) where none is kept or ``"residuals"`` are asked for.
        """
        return part_of(self.term, W, self._y(which), beta)

    def point(self, which: str, W: Array, beta: float) -> Array:
        """A copy of such a point, in dom h*."""
        term, y = self.term, self._y(which)
        slopes = term.function.slope(term.map.rows(W), beta, ALL) if y is None else y
        slopes = np.array(host(term.map.listed(slopes)), np.float64)
        inside: Array = (term.function.origin or term.function).into_dual(slopes, ALL)
        return inside

    def price(self, which: str, W: Array, beta: float, point: Array) -> float:
        """ω Σ |y_l| |r_l| of a constraint family at such a y, r its residuals at a point."""
        total, term, y = 0.0, self.term, self._y(which)
        for b in term.chunks():
            total += term.passes.price(W, b, y, beta, point)
        return term.weight * total

    def _y(self, which: str) -> Array | None:
        kept = self.points
        return None if which == "residuals" else kept.get(which, kept.get("slopes"))

    def arrays(self) -> dict[str, Any]:
        """Arrays by name: all that a copy of this keeper needs to go on."""
        return vars(self.state)

    def stow(self) -> None:
        """Fetch all that a checkpoint needs, before it is made."""

    def stowed(self) -> None:
        """Let go of what was fetched, after the checkpoint is made."""

    def revive(self) -> None:
        """Go on where a checkpoint was made, after it is read."""


def together(parts: Sequence[Part], rows: Sequence[Keeper]) -> bool:
    """Whether what keepers have answered since belongs to the same dual point as the parts."""
    return all(p.losses == r.losses for p, r in zip(parts, rows, strict=True))


KEEPERS: list[type[Keeper]] = [Keeper]
"""Types of keepers, the faster first."""


def keeper_of(term: Term, estimator: Estimator, problem: Problem) -> Keeper:
    """The keeper of the rows of a term."""
    able = (keeper for keeper in KEEPERS if keeper.serves(term, estimator, problem))
    return next(able)(term, estimator, problem)
