"""PFW: pairwise Frank-Wolfe with line search, for g = 0, if a domain has only an oracle."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from condgrad._types import Array
from condgrad.methods.apg import SmoothState, curvature, curved, gradient_at
from condgrad.methods.protocol import Known, Method
from condgrad.methods.register import declare, refusal
from condgrad.problem import Problem
from condgrad.schedules import LANCZOS_EFFORT

MOST = 500
"""Largest number of kept atoms."""
ENTRIES = 1 << 24
"""Largest number of entries of all kept atoms together, if they are more than ten."""


@dataclass(kw_only=True)
class PfwState(SmoothState):
    """The iterate, and the points that it is mixed from, the start among them."""

    atoms: Array
    """a_i, a row each."""
    weights: Array
    """α_i, positive numbers of sum 1."""


@dataclass(frozen=True)
class Pfw(Method):
    r"""Mass moves from the worst of the atoms that W is mixed from to the oracle's answer.

    .. math:: W = \sum_i α_i a_i, \qquad d = s - a_j, \quad j = \arg\max_i ⟨v, a_i⟩, \qquad
              W ← W + γ d, \quad
              γ = \min\Bigl\{α_j,\; \frac{-⟨v, d⟩}{\sum_t ω_t L_t ‖A_t d‖^2}\Bigr\}

    γ is an exact line search if f is quadratic, and else a step that surely lowers f. If there are
    too many atoms, the two of least weight become one, their mean.

    Proved: if f is strongly convex over a polytope, and all atoms are kept, the gap falls linearly
    [1]_.

    References
    ----------
    .. [1] S. Lacoste-Julien, M. Jaggi, "On the global linear convergence of Frank-Wolfe
       optimization variants", NeurIPS 2015.
    """

    slug: str = "pfw"
    name: str = "PFW"

    def suits(self, problem: Problem) -> str | None:
        return None if curved(problem) else refusal(self)

    def init(
        self, problem: Problem, W: Array, rng: Any, known: Known, multipliers: object = None
    ) -> PfwState:
        gradients = [t.map.zeros(problem.dtype) for t in problem.terms]
        own = {"atoms": W.reshape(1, -1).copy(), "weights": np.ones(1)}
        return PfwState.begun(problem, W, rng, known, gradients=gradients, **own)

    def step(self, problem: Problem, state: PfwState, at_most: int = 1) -> PfwState:
        s, v = state, gradient_at(problem, state, state.W)
        atom = problem.domain.lmo(v, effort=LANCZOS_EFFORT(s.k + 1), hint=s.W, rng=s.rng)
        new = atom.dense(v.dtype.type).reshape(-1)
        worst = int(np.argmax(s.atoms @ v.reshape(-1)))
        D = (new - s.atoms[worst]).reshape(v.shape)
        down, bend = -float(np.vdot(v, D)), curvature(problem, D)
        if down > 0:
            step = min(float(s.weights[worst]), down / bend if bend > 0 else np.inf)
            s.W += v.dtype.type(step) * D
            _mix(s, new, worst, step)
        s.k, s.calls, s.products = s.k + 1, s.calls + 1, s.products + atom.products
        s.eta = s.beta = 1.0
        return s

    def rebase(self, problem: Problem, state: PfwState, share: float) -> PfwState:
        state.atoms, state.weights = state.W.reshape(1, -1).copy(), np.ones(1)
        return state


def _mix(s: PfwState, new: Array, worst: int, step: float) -> None:
    """Move mass from a kept atom to one that may be new."""
    same = np.flatnonzero((s.atoms == new).all(axis=1))
    s.weights[worst] -= step
    if same.size:
        s.weights[same[0]] += step
    else:
        s.atoms, s.weights = np.vstack([s.atoms, new]), np.append(s.weights, step)
    left = s.weights > 0
    if not left.all():
        s.atoms, s.weights = s.atoms[left], s.weights[left]
    if s.weights.size > max(10, min(MOST, ENTRIES // new.size)):
        i, j = np.argpartition(s.weights, 1)[:2]
        both = s.weights[i] + s.weights[j]
        share = s.atoms.dtype.type(s.weights[j] / both)
        s.atoms[i] += share * (s.atoms[j] - s.atoms[i])
        s.weights[i] = both
        s.atoms, s.weights = np.delete(s.atoms, j, axis=0), np.delete(s.weights, j)


@declare(
    "pfw",
    "PFW",
    estimates="full, –",
    needs="f smooth and not linear; g = 0",
    iterations="ε⁻¹",
    cost="ε⁻¹ d n",
    exponent=1.0,
    reference="Lacoste-Julien, Jaggi, NeurIPS 2015",
)
def pfw() -> Pfw:
    """Pairwise Frank-Wolfe with line search, for g = 0.

    The method needs no more than the oracle of a set. Mass moves from one of the atoms that W is
    mixed from to another. `condgrad.methods.pfw.Pfw` says what is proved.
    """
    return Pfw()
