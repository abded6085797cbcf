"""How hard each family of constraints is pressed: β per term, found and moved as a method runs.

β has the unit of images squared over objective, so no fixed number suits two problems. A first
guess comes from one step of the conditional gradient method. Ten times per decade of iterations
every family is judged: by what its violation and its slack are worth, beside the lag of the steps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from condgrad._types import Array
from condgrad.backends.arrays import foreign
from condgrad.certificate.lower_bound import trivial
from condgrad.methods.protocol import Method, length_of, passes_over
from condgrad.problem import Problem, Term

GPU_EFFORT = 20.0
"""Effort of the oracle for a first guess on a GPU, where full accuracy takes long."""


@dataclass
class Pressure:
    """Memory of `Balance`: a factor on β for every family, and the measurements behind it."""

    factors: list[float]
    """β_t is this multiple of the schedule's."""
    moves: list[int]
    """Direction of the latest move of every factor: up (1), down (−1) or none yet (0)."""
    speed: list[float]
    """Power of `Balance.factor` by which each factor moves; halved after a change of direction."""
    due: float
    """The next iteration to measure after, ∞ for never."""
    bound: float
    """The best lower bound that was measured."""
    passes: float = 0.0
    """Passes over the rows at the latest measurement."""
    bound_before: float = -np.inf
    """`bound` at the measurement before."""
    passes_before: float = 0.0
    """`passes` at the measurement before."""


@dataclass(frozen=True)
class Balance:
    r"""A factor on β for every term, moved ten times per decade of iterations.

    The first guess makes one step s − W along the oracle's answer cost as much in penalty as it can
    gain in objective:

    .. math:: β_t = \tfrac12\, ω_t ‖A_t (s - W)‖^2 / ⟨∇f(W), W - s⟩

    with a twentieth of the largest |⟨∇f, ·⟩| seen as the least denominator.

    Later the family is judged by its violation against the tolerance for feasibility, and by its
    slack ω|⟨y, z⟩ − h*(y)| against the tolerance for the gap, both relative to the Frank-Wolfe gap
    of the direction in the same unit. A family that is worse by more than `band` is pressed harder
    (β divided by `factor`), one that is better by that much less hard; the exponent of `factor` is
    halved whenever a family turns round. All this is free of units.

    Parameters
    ----------
    first : float, default 1/2
        The first guess in units of ω‖A(s − W)‖²/gap.
    factor : float, default 1.5
        By how much β moves at once.
    band : float, default 2
        Imbalance up to which β stays.
    start : int, default 5
        The first iteration after which it may move.
    per_decade : int, default 10
        How often it may per decade of iterations; 0: the first guess stays.
    """

    first: float = 0.5
    factor: float = 1.5
    band: float = 2.0
    start: int = 5
    per_decade: int = 10

    def begin(self, problem: Problem, state: Any) -> None:
        """The first guess at W, for a state that has a field `pressure`."""
        factors, size = first_factors(problem, state.W, self.first), len(problem.terms)
        bound = max(state.known.floor, trivial(problem))
        due = self.start if self.per_decade else np.inf
        state.pressure = Pressure(factors, [0] * size, [1.0] * size, due, bound)
        state.betas = list(factors)

    def follow(self, problem: Problem, method: Method, state: Any, press: float) -> None:
        """Measure if that is due, and move the factors; the last act of a step.

        `press` says how much single rows count: 1, or 0 for steps to projections. `Method.measures`
        must be true.
        """
        s, known, k = state.pressure, state.known, state.k
        if s is None or k < s.due:
            return
        s.due = max(k + 1, int(np.ceil(k * 10 ** (1 / self.per_decade))))
        report = method.measured(problem, state)
        if report is None:
            return
        families = report.evaluation.families
        s.bound_before, s.passes_before = s.bound, s.passes
        s.bound = max(s.bound, report.bound.value)
        s.passes = passes_over(problem, state.rows)
        size = max(abs(report.evaluation.objective), abs(s.bound))
        if not (np.isfinite(size) and size > 0):
            return
        rows, feasibility = (max(x, known.gap / 100) for x in (known.rows, known.feasibility))
        gap = max(known.gap, 2 * feasibility)
        lag = max(report.fw_gap / (gap * size), 1e-3)
        for i, t in enumerate(problem.terms):
            if t.function.smooth:
                continue
            need = report.slack[i] / (gap * size)
            if t.name in families:
                off, row = families[t.name].scaled, families[t.name].row
                need = max(need, 2 * off / feasibility, press * row / rows)
            move = -1 if need > self.band * lag else 1 if need < lag / self.band else 0
            if move and move == -s.moves[i]:
                s.speed[i] *= 0.5
            s.moves[i] = move or s.moves[i]
            s.factors[i] *= self.factor ** (move * s.speed[i])

    def rebase(self, problem: Problem, state: Any) -> None:
        """Go on over another domain, β halfway to a first guess there.

        It is the geometric mean of both: if the rows had no solution before, β has become too
        small. Bounds over the domain before do not count.
        """
        if (s := state.pressure) is not None:
            guess = first_factors(problem, state.W, self.first)
            s.factors = [float(np.sqrt(a * b)) for a, b in zip(s.factors, guess, strict=True)]
            s.bound = max(state.known.floor, trivial(problem))


BALANCE = Balance()
"""The rule as it was measured to be good."""


def first_factors(problem: Problem, W: Array, first: float) -> list[float]:
    """A guess of β for every composite term, from one step of the conditional gradient method."""
    W = W.astype(np.float64, copy=False)
    v = np.zeros(problem.domain.shape, like=W)
    for t in problem.smooth:
        v += t.gradient(W, 1.0)
    rng = np.random.default_rng(0)
    if foreign(W):  # numbers come from the CPU: a matrix of rank one
        left, right = (np.asarray(rng.standard_normal(n), like=W) for n in W.shape)
        noise = left[:, None] * right
    else:
        noise = rng.standard_normal(problem.domain.shape)
    effort = GPU_EFFORT if foreign(W) else None
    steps = [problem.domain.lmo(d, effort=effort, rng=rng).dense() - W for d in (v, noise)]
    reach = [abs(float(np.vdot(v, W)))] + [abs(float(np.vdot(v, W + s))) for s in steps]
    worth = max(-float(np.vdot(v, steps[0])), 0.05 * max(reach))
    worth = worth or abs(problem.objective(W)) or 1.0  # if f is constant or missing
    return [1.0 if t.function.smooth else first * _squares(t, steps) / worth for t in problem.terms]


def first_weight(problem: Problem, W: Array, norm: float) -> float:
    """A guess of ω between primal and dual steps: ‖A‖ over the mean of β in units of `scale`."""
    pairs = zip(first_factors(problem, W, 0.5), problem.terms, strict=True)
    return norm / float(np.mean([b / scale(t) for b, t in pairs if not t.function.smooth]))


def scale(term: Term) -> float:
    """ω a², a the length of the rows of a term, in which primal-dual steps count its β."""
    return term.weight * length_of(term) ** 2


def _squares(term: Term, steps: list[Array]) -> float:
    """ω‖A s‖² along the first step, or a random one if the family does not see it."""
    length = term.map.row_norm**2 * max(float(np.vdot(s, s)) for s in steps)
    for s in steps:
        squares = term.lengths(s)
        if squares > 1e-16 * length:  # less is rounding: the domain implies the constraint
            return term.weight * squares
    return term.weight * (length or 1.0)
