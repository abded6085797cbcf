"""How W moves along a direction: to an atom of the oracle; `spectral`, `primal_dual`: others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from condgrad._types import Array, Params
from condgrad.backends.scalars import square
from condgrad.domains import Domain
from condgrad.estimators import Estimator
from condgrad.points.atoms import Atom
from condgrad.points.dense import Dense
from condgrad.problem import Problem, Term
from condgrad.rows import Keeper

Lap = Callable[[str], object]


@dataclass(frozen=True)
class Atoms:
    """Steps to atoms: W ← (1 − η_k) W + η_k s, η_k that of the schedule."""

    def suits(self, problem: Problem, pairs: Iterable[tuple[Estimator, Term]]) -> bool:
        """Whether such steps can be taken."""
        return True

    def begin(self, problem: Problem, rows: Sequence[Keeper]) -> AtomStep:
        """The step of a run."""
        return AtomStep(problem.domain)


ATOMS = Atoms()


@dataclass
class AtomState:
    """State of a step to an atom."""

    last: Atom | None = None
    """The atom before, near which the next one may lie."""


class AtomStep:
    r"""W ← (1 − η_k) W + η_k s, s the oracle's answer to the direction v."""

    proofs = (5, 10)
    """The first iteration to bound the optimum after, and how often per decade of iterations."""
    press = 1.0
    """Weight of the worst row of a family beside the family, when β is adapted."""

    def __init__(self, domain: Domain) -> None:
        self._domain = domain
        self.state: Any = AtomState()

    def over(self, domain: Domain) -> None:
        """Go on over another domain."""
        self._domain = domain

    def ahead(self, W: Dense) -> Dense:
        """The point whose rows the direction is made of."""
        return W

    def finite(self, v: Array) -> bool:
        """Whether a direction that is to be moved along has no NaN and nothing too large."""
        return bool(np.isfinite(square(v)))

    def params(self, p: Params) -> Params:
        """The scalars of an iteration that goes with this step."""
        return p

    def move(
        self, W: Dense, v: Array, own: Sequence[Params], rng: np.random.Generator, lap: Lap
    ) -> int:
        """Move W; return the matrix-vector products spent. `own` has the scalars of every term."""
        near = self._domain.hint(W.array, self.state.last)
        atom = self._domain.lmo(v, effort=own[0].effort, hint=near, rng=rng)
        self.state.last = atom
        lap("oracle")
        W.step(own[0].eta, atom)
        return atom.products
