"""Control: how hard each constraint family is pressed, found by the method as it runs.

β has the unit of images squared over objective, so no fixed number suits two problems. A first
guess comes from one step of the conditional gradient method; while the method runs, each family's
β follows what its violation and what the lag of the steps are worth. This is a part of a method
(`Method.control`), and its time is the method's. Whoever watches the run may read what it measures.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from condgrad._types import Array, Params
from condgrad.backends.arrays import foreign
from condgrad.certificate import Certificate, Report
from condgrad.evaluation import Evaluation
from condgrad.methods.steps import AtomStep
from condgrad.problem import Problem, Term
from condgrad.rows import Keeper

GUESS = 20.0
"""Effort of the oracle on a GPU, where full accuracy takes long."""


class Measured(NamedTuple):
    """Measurements of control at an iteration."""

    evaluation: Evaluation
    report: Report


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

    def begin(
        self,
        problem: Problem,
        W: Array,
        tolerances: tuple[float, float, float],
        certificate: Certificate,
        step: AtomStep,
        propose: Callable[[Array], Array | None] | None = None,
    ) -> Balancing:
        """The control of a run from W; tolerances for the gap, families and single rows.

        They are brought to a ratio between 2 and 100: the gap follows where the constraints are
        pressed, but not the other way round. `AtomStep.press` is how much the worst row of a family
        counts beside the family; points that are proposed play no part here.
        """
        return Balancing(self, problem, W, tolerances, certificate, step.press)


BALANCE = Balance()
"""The rule as it was measured to be good."""


@dataclass
class BalanceState:
    """State of control, for every term."""

    factors: list[float]
    """β_t is this multiple of the schedule's."""
    before: list[float]
    """Factors before the latest move."""
    moves: list[int]
    """Direction of the latest move of each factor: up (1), down (−1) or none yet (0)."""
    speed: list[float]
    """Power of `Balance.factor` by which each factor moves; halved after a change of direction."""
    changed: int = 0
    """Iteration of the latest move."""
    due: float = 0
    """The next iteration to measure after, ∞ for never."""
    bound: float = -np.inf
    """Best measured lower bound."""
    passes: float = 0.0
    """Passes over the rows at the latest measurement."""
    earlier: tuple[float, float] = (-np.inf, 0.0)
    """`bound` and `passes` at the measurement before."""


class Balancing:
    """`Balance` in a run."""

    def __init__(
        self,
        rule: Balance,
        problem: Problem,
        W: Array,
        tolerances: tuple[float, float, float],
        certificate: Certificate,
        press: float,
    ) -> None:
        self.aim(tolerances)
        self._rule, self._problem = rule, problem
        self._certificate, self._press = certificate, press
        factors = first_factors(problem, W, rule.first)
        size = len(factors)
        self.state = BalanceState(factors, list(factors), [0] * size, [1.0] * size)
        self.state.due = rule.start if rule.per_decade else np.inf
        self.state.bound = certificate.best.value

    def aim(self, tolerances: tuple[float, float, float]) -> None:
        """Go on with other tolerances. Where all move by one factor, hardly anything changes."""
        gap, feasibility, rows = tolerances
        self._rows = max(rows, gap / 100)
        feasibility = max(feasibility, gap / 100)  # else nothing but feasibility would count
        self._tolerances = max(gap, 2 * feasibility), feasibility

    def over(self, problem: Problem, W: Array, k: int, certificate: Certificate) -> None:
        """Go on over another domain after iteration k; bounds on the one before do not count.

        β is the geometric mean of what it was and a first guess for this domain: where the rows had
        no solution on the other, it has become too small.
        """
        self._problem, self._certificate = problem, certificate
        s, guess = self.state, first_factors(problem, W, self._rule.first)
        s.before, s.changed, s.bound = list(s.factors), k, certificate.best.value
        s.factors = [float(np.sqrt(a * b)) for a, b in zip(s.factors, guess, strict=True)]

    def params(self, i: int, p: Params) -> Params:
        """The scalars of an iteration as term i sees them."""
        s = self.state
        before = s.before[i] if p.k == s.changed + 1 else s.factors[i]
        return replace(p, beta=s.factors[i] * p.beta, beta_before=before * p.beta_before)

    def betas(self, p: Params) -> list[float]:
        """β of every term."""
        return [factor * p.beta for factor in self.state.factors]

    def after(self, p: Params, W: Array, rows: Sequence[Keeper]) -> Measured | None:
        """Measure and move the factors where that is due after an iteration."""
        s, rule = self.state, self._rule
        if p.k < s.due:
            return None
        s.due = max(p.k + 1, int(np.ceil(p.k * 10 ** (1 / rule.per_decade))))
        evaluation = self._problem.evaluate(W, rows)
        if not evaluation.finite:
            return None
        report = self._certificate.evaluate(W, rows, self.betas(p))
        s.earlier = s.bound, s.passes
        s.bound, s.passes = max(s.bound, report.bound.value), passes_over(rows)
        self._move(p.k, max(abs(evaluation.objective), abs(s.bound)), evaluation, report)
        return Measured(evaluation, report)

    def _move(self, k: int, size: float, evaluation: Evaluation, report: Report) -> None:
        """Move the factors; `size` is max(|objective|, |bound|)."""
        if not (np.isfinite(size) and size > 0):
            return
        s, rule, families = self.state, self._rule, evaluation.families
        s.before, s.changed = list(s.factors), k
        gap, feasibility = self._tolerances
        lag = max(report.fw_gap / (gap * size), 1e-3)
        for i, t in enumerate(self._problem.terms):
            if t.name not in report.slack:
                continue
            need = report.slack[t.name] / (gap * size)
            if t.name in families:
                off, row = families[t.name].scaled, families[t.name].row
                need = max(need, 2 * off / feasibility, self._press * row / self._rows)
            move = -1 if need > rule.band * lag else 1 if need < lag / rule.band else 0
            if move and move == -s.moves[i]:
                s.speed[i] *= 0.5
            s.moves[i] = move or s.moves[i]
            s.factors[i] *= rule.factor ** (move * s.speed[i])


def passes_over(rows: Sequence[Keeper]) -> float:
    """Passes over the rows of the composite terms so far."""
    own = [r for r in rows if not r.term.function.smooth]
    return sum(r.rows for r in own) / sum(r.term.map.size for r in own)


def first_factors(problem: Problem, W: Array, first: float) -> list[float]:
    """A guess of β for every composite term, from one step of the conditional gradient method."""
    W = W.astype(np.float64, copy=False)
    v = np.zeros(problem.domain.shape, like=W)
    for t in problem.smooth:
        v += t.gradient(W, 1.0)
    rng = np.random.default_rng(0)
    if foreign(W):  # where numbers come from the CPU, a matrix of rank one
        left, right = (np.asarray(rng.standard_normal(n), like=W) for n in W.shape)
        noise = left[:, None] * right
    else:
        noise = rng.standard_normal(problem.domain.shape)
    effort = GUESS if foreign(W) else None
    steps = [problem.domain.lmo(d, effort=effort, rng=rng).dense() - W for d in (v, noise)]
    reach = [abs(float(np.vdot(v, W)))] + [abs(float(np.vdot(v, W + s))) for s in steps]
    worth = max(-float(np.vdot(v, steps[0])), 0.05 * max(reach))
    worth = worth or abs(problem.objective(W)) or 1.0  # where f is constant or missing
    return [
        first * _squares(t, steps) / worth if not t.function.smooth else 1.0 for t in problem.terms
    ]


def _squares(term: Term, steps: list[Array]) -> float:
    """ω‖A s‖², along the first step or, where the family does not see it, a random one."""
    length = term.map.row_norm**2 * max(float(np.vdot(s, s)) for s in steps)
    for s in steps:
        squares = term.lengths(s)
        if squares > 1e-16 * length:  # less is rounding: the domain implies the constraint
            return term.weight * squares
    return term.weight * (length or 1.0)
