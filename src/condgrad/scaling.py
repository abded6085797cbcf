"""How hard each constraint family is pressed: the smoothing β_t found without a knob.

β has the unit of images squared over objective, so no fixed number suits two problems. A first
guess comes from one step of the conditional gradient method; while the method runs, each family's
β follows what its violation and what the lag of the steps are worth.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from condgrad._types import Array, Params
from condgrad.certificate import Report
from condgrad.problem import Problem, Term, Violation

FIRST = 0.5
"""The first guess in units of ω‖A(s − W)‖²/gap."""
FACTOR = 1.5
"""By how much β moves at once."""
BAND = 2.0
"""Imbalance up to which β stays."""
FROM = 5
"""Iterations before the first adaptation."""


class Scaling:
    r"""A factor on β for every term, adapted at recorded iterations.

    The first guess makes one step s − W along the oracle's answer cost as much in penalty as it can
    gain in objective:

    .. math:: β_t = \tfrac12\, ω_t ‖A_t (s - W)‖^2 / ⟨∇f(W), W - s⟩

    with a twentieth of the largest |⟨∇f, ·⟩| seen as the least denominator.

    Later the family is judged by its violation against the tolerance for feasibility, and by its
    slack ω|⟨y, z⟩ − h*(y)| against the tolerance for the gap, both relative to the Frank-Wolfe gap
    of the direction in the same unit. A family that is worse by more than `BAND` is pressed harder
    (β divided by `FACTOR`), one that is better by that much less hard; the exponent of `FACTOR` is
    halved whenever a family turns round. All this is free of units.

    Parameters
    ----------
    problem : Problem
        The problem.
    W : array
        The starting point.
    gap, feasibility : float
        The tolerances that matter, brought to a ratio between 2 and 100: the gap follows where the
        constraints are pressed, but not the other way round.
    rows : float, optional
        The tolerance for single rows; default `feasibility`.
    """

    def __init__(
        self, problem: Problem, W: Array, gap: float, feasibility: float, rows: float | None = None
    ) -> None:
        self._rows = max(rows or feasibility, gap / 100)
        feasibility = max(feasibility, gap / 100)  # else nothing but feasibility would count
        self._tolerances = max(gap, 2 * feasibility), feasibility
        self.press = 0.0
        """How much the worst row of a family counts beside the family (`AtomStep.press`)."""
        self._names = [t.name for t in problem.terms]
        W = W.astype(np.float64, copy=False)
        v = np.zeros(problem.domain.shape)
        for t in problem.smooth:
            v += t.gradient(W, 1.0)
        rng = np.random.default_rng(0)
        noise = rng.standard_normal(problem.domain.shape)
        steps = [problem.domain.lmo(d, rng=rng).dense() - W for d in (v, noise)]
        reach = [abs(float(np.vdot(v, W)))] + [abs(float(np.vdot(v, W + s))) for s in steps]
        worth = max(-float(np.vdot(v, steps[0])), 0.05 * max(reach)) or self._other(problem, W)
        self.factors = [
            FIRST * _squares(t, steps) / worth if not t.function.smooth else 1.0
            for t in problem.terms
        ]
        self._before, self._changed = list(self.factors), 0
        self._moves, self._speed = [0] * len(self.factors), [1.0] * len(self.factors)

    @staticmethod
    def _other(problem: Problem, W: Array) -> float:
        """The size of the objective where f is constant or missing."""
        return abs(problem.objective(W)) or 1.0

    def params(self, i: int, p: Params) -> Params:
        """The scalars of an iteration as term i sees them."""
        before = self._before[i] if p.k == self._changed + 1 else self.factors[i]
        return replace(p, beta=self.factors[i] * p.beta, beta_before=before * p.beta_before)

    def adapt(self, k: int, size: float, report: Report, families: Mapping[str, Violation]) -> None:
        """Move the factors; `size` is max(|objective|, |bound|)."""
        if k < FROM or not (np.isfinite(size) and size > 0):
            return
        self._before, self._changed = list(self.factors), k
        gap, feasibility = self._tolerances
        lag = max(report.fw_gap / (gap * size), 1e-3)
        for i, name in enumerate(self._names):
            if name not in report.slack:
                continue
            need = report.slack[name] / (gap * size)
            if name in families:
                off, row = families[name].scaled, families[name].row
                need = max(need, 2 * off / feasibility, self.press * row / self._rows)
            move = -1 if need > BAND * lag else 1 if need < lag / BAND else 0
            if move and move == -self._moves[i]:
                self._speed[i] *= 0.5
            self._moves[i] = move or self._moves[i]
            self.factors[i] *= FACTOR ** (move * self._speed[i])


def _squares(term: Term, steps: list[Array]) -> float:
    """ω‖A s‖², along the first step or, where the family does not see it, a random one."""
    length = term.map.row_norm**2 * max(float(np.vdot(s, s)) for s in steps)
    for s in steps:
        squares = sum(float(np.square(term.map.rows(s, b)).sum()) for b in term.blocks())
        if squares > 1e-16 * length:  # less is rounding: the domain implies the constraint
            return term.weight * squares
    return term.weight * (length or 1.0)
