"""Steps from one atom to another, where a domain has no more than an oracle and f is smooth."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from condgrad._types import Array, Params
from condgrad.backends.arrays import foreign
from condgrad.domains import Domain
from condgrad.estimators import Estimator
from condgrad.methods.projected import bent, curvature
from condgrad.methods.steps import AtomState, AtomStep, Lap
from condgrad.points.dense import Dense
from condgrad.problem import Problem, Term
from condgrad.rows import Keeper

MOST = 500
"""Largest number of atoms that are kept."""
ENTRIES = 1 << 24
"""Largest number of entries that all kept atoms have together, beyond ten atoms."""


@dataclass(frozen=True)
class Pairwise:
    """Pairwise Frank-Wolfe steps where there is no g."""

    def suits(self, problem: Problem, pairs: Iterable[tuple[Estimator, Term]]) -> bool:
        """Whether all terms are smooth and some are not linear, and all rows are taken."""
        able = not problem.composite and not foreign(problem.like)
        return able and any(bent(t) for t in problem.terms) and all(e.whole(t) for e, t in pairs)

    def begin(self, problem: Problem, rows: Sequence[Keeper]) -> AtomStep:
        """The step of a run."""
        return PairwiseStep(problem, rows)


@dataclass
class PairwiseState(AtomState):
    """The points that W is mixed from, the first point of the run among them."""

    atoms: Array | None = None
    """A row each."""
    weights: Array | None = None
    """Positive, of sum 1."""


class PairwiseStep(AtomStep):
    r"""Mass moves from the worst of the atoms that W is mixed from to the oracle's answer.

    .. math:: W = \sum_i α_i a_i, \qquad d = s - a_j, \quad j = \arg\max_i ⟨v, a_i⟩, \qquad
              W ← W + γ d, \quad
              γ = \min\Bigl\{α_j,\; \frac{-⟨v, d⟩}{\sum_t ω_t L_t ‖A_t d‖^2}\Bigr\}

    γ is an exact line search where f is quadratic, and else a step that surely lowers f. Where
    there are too many atoms the two of least weight become one, their mean.

    Proved: with a strongly convex f over a polytope, and all atoms kept, the gap falls linearly
    [1]_.

    References
    ----------
    .. [1] S. Lacoste-Julien, M. Jaggi, "On the global linear convergence of Frank-Wolfe
       optimization variants", NeurIPS 2015.
    """

    def __init__(self, problem: Problem, rows: Sequence[Keeper]) -> None:
        super().__init__(problem.domain)
        self._rows = rows
        self._most = max(10, min(MOST, ENTRIES // int(np.prod(problem.domain.shape))))
        self.state = PairwiseState()

    def over(self, domain: Domain) -> None:
        super().over(domain)
        self.state.atoms = self.state.weights = None

    def move(
        self, W: Dense, v: Array, own: Sequence[Params], rng: np.random.Generator, lap: Lap
    ) -> int:
        s = self.state
        if s.atoms is None:
            s.atoms, s.weights = W.array.reshape(1, -1).copy(), np.ones(1)
        near = self._domain.hint(W.array, s.last)
        atom = s.last = self._domain.lmo(v, effort=own[0].effort, hint=near, rng=rng)
        lap("oracle")
        new, flat = atom.dense(v.dtype.type).reshape(-1), v.reshape(-1)
        worst = int(np.argmax(s.atoms @ flat))
        D = (new - s.atoms[worst]).reshape(v.shape)
        down, bend = -float(np.vdot(v, D)), curvature(self._rows, D)
        if down <= 0:
            return atom.products
        step = min(float(s.weights[worst]), down / bend if bend > 0 else np.inf)
        W.shift(v.dtype.type(step) * D)
        self._mix(new, worst, step)
        return atom.products

    def _mix(self, new: Array, worst: int, step: float) -> None:
        """Move mass from an atom that is kept to one that may be new."""
        s = self.state
        same = np.flatnonzero((s.atoms == new).all(axis=1))
        s.weights[worst] -= step
        if same.size:
            s.weights[same[0]] += step
        else:
            s.atoms, s.weights = np.vstack([s.atoms, new]), np.append(s.weights, step)
        left = s.weights > 0
        if not left.all():
            s.atoms, s.weights = s.atoms[left], s.weights[left]
        if s.weights.size > self._most:
            i, j = np.argpartition(s.weights, 1)[:2]
            both = s.weights[i] + s.weights[j]
            share = s.atoms.dtype.type(s.weights[j] / both)
            s.atoms[i] += share * (s.atoms[j] - s.atoms[i])
            s.weights[i] = both
            s.atoms, s.weights = np.delete(s.atoms, j, axis=0), np.delete(s.weights, j)


PAIRWISE = Pairwise()
