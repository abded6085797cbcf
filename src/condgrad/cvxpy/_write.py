"""Values, statuses and statistics, written back into the CVXPY objects."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import cvxpy as cp
import cvxpy.settings as settings
import numpy as np
from cvxpy.problems.problem import SolverStats
from cvxpy.reductions.solution import Solution as CvxpySolution
from cvxpy.reductions.solution import failure_solution

from condgrad._round import bound_text
from condgrad._types import Array
from condgrad.certificate import relative_gap
from condgrad.cvxpy._recognise import Form
from condgrad.sdp import Solution

NAME = "CONDGRAD"


@dataclass(frozen=True, eq=False)
class Certificate:
    """Value, proven bound and gap of a solution: ``problem.solver_stats.extra_stats``."""

    value: float
    """The objective at the point returned; NaN where the problem is infeasible or unbounded, and it
    is not known which. For ``solver=CONDGRAD`` it is the objective of the cone program, in which
    variables of CVXPY's stand for norms, squares and the like, while ``problem.value`` has those
    anew: the two differ by what the point leaves open in its cones, or misses of them. `gap` is
    that of this value."""
    bound: float
    """Proven: no feasible point has a smaller objective (a larger one where the problem maximises),
    see `proviso`. −∞ (∞ where the problem maximises) where nothing is proved, ∞ (−∞) where the
    problem is infeasible."""
    gap: float
    """|value − bound| relative to the larger, or to a small part of the terms of both, of a
    geometric program that of the logarithms; ∞ without a bound or a point. Where Clarabel or SCS
    found the point it is relative to 1e-6 of the largest number of the cone program's x times the
    highest price, if that is more: an optimum that is small next to this is known less closely."""
    solution: Solution | None
    """The last run: its status, errors and trace bound, and its blocks. For ``solver=CONDGRAD`` it
    is a run on the scaled dual of the cone program, and None where no run was needed."""
    proviso: str = ""
    """Condition under which the bound or the verdict holds, in words, or the part that is not
    proved; empty if nothing is left open."""
    solved_by: str = "condgrad"
    """Solver that found the point: condgrad, or one that CVXPY has installed."""
    unit: float = 0.0
    """Least unit of `gap`, of a geometric program in logarithms."""
    infeasibility: float = float("nan")
    """Violation of the constraints by the point, in their own units. It is ‖A W − b‖ of a problem
    that was read as it was written, else the largest miss of one cone or equation of the cone
    program, at a limit of one constraint. NaN without a point."""

    @property
    def proven(self) -> bool:
        """Whether the bound is a number that is proved, or a verdict is, without conditions."""
        return (
            not self.proviso
            and not np.isnan(self.value)
            and (bool(np.isfinite(self.bound)) or self.bound == self.value)
        )

    def __repr__(self) -> str:
        proviso = f", {self.proviso}" if self.proviso else ""
        sense = "max" if self.bound > self.value else "min"
        ends = f"value {self.value:.8g}, bound {bound_text(self.bound, 8, sense)}{proviso}"
        verdict = self.bound == self.value and not np.isfinite(self.value)
        gap = "" if verdict else f"; gap {self.gap:.2g}"
        if not np.isnan(self.infeasibility):
            gap += f", infeasibility {self.infeasibility:.2g}"
        return f"<Certificate: {ends}{gap}; solved by {self.solved_by}>"


def write(
    problem: Any,
    form: Form,
    solution: Solution | None,
    setup: float,
    gap: float,
    feasibility: float,
) -> None:
    """Put values, dual values, status and statistics into the CVXPY objects.

    Parameters
    ----------
    problem : cvxpy.Problem
        The problem.
    form : Form
        What was recognised of it.
    solution : Solution, optional
        Of the program; None: there is no feasible point.
    setup : float
        Seconds it took to recognise the problem.
    gap, feasibility : float
        The tolerances asked for; each row has to keep the second one.
    """
    status = settings.INFEASIBLE if solution is None else status_of(solution)
    own = np.inf if solution is None else gap_of(form, solution)
    good = solution and own <= gap and row_miss(form, solution) <= feasibility
    if status == settings.OPTIMAL and not good:
        status = settings.OPTIMAL_INACCURATE
    attr: dict[str, Any] = {settings.SETUP_TIME: setup}
    if solution is not None:
        attr[settings.SOLVE_TIME] = solution.seconds
    if solution is None or status in settings.INF_OR_UNB:
        found = failure_solution(status, attr)
        found.opt_val *= form.sign
    else:
        found = CvxpySolution(status, None, _values(problem, form, solution), {}, attr)
        found.dual_vars = _duals(form, solution)
    problem.unpack(found)
    found.opt_val = problem.value
    value, proviso = float(problem.value), "" if solution is None else solution.proviso
    bound, missed = value, float("nan")
    if solution is not None and status in settings.SOLUTION_PRESENT:
        missed = solution.infeasibility
        bound = form.sign * lowered(solution.bound, form.constant)
    else:
        own = float("inf")
    unit = 0.0 if solution is None else solution.unit
    attr[settings.EXTRA_STATS] = Certificate(
        value, bound, own, solution, proviso, unit=unit, infeasibility=missed
    )
    problem._solver_stats = SolverStats.from_dict(attr, NAME)


def at_limit(problem: Any, found: Certificate) -> Certificate:
    """The same for the objective that the user sees, where a limit came first.

    Then what stands for norms and squares in the cone program may be far from them.
    """
    value = float(problem.value)
    misses = [float(np.max(c.violation(), initial=0.0)) for c in problem.constraints]
    return replace(
        found,
        value=value,
        gap=relative_gap(value, found.bound, found.unit),
        infeasibility=max([*misses, *(_outside(v) for v in problem.variables())], default=0.0),
    )


def _outside(variable: Any) -> float:
    """How far the value of a variable is from its attributes."""
    return float(np.linalg.norm(variable.value - variable.project(variable.value)))


def gap_of(form: Form, solution: Solution) -> float:
    """The gap with the constant of the objective."""
    ends = solution.value + form.constant, solution.bound + form.constant
    return relative_gap(*ends, solution.unit)


def row_miss(form: Form, solution: Solution) -> float:
    """The most that a row misses, relative to its right-hand side, or to the least if that is 0."""
    sides = np.abs(np.concatenate([form.equal.b, form.at_most.b]))
    unit = np.maximum(sides, sides[sides > 0].min(initial=np.inf if sides.any() else 1.0))
    u = np.concatenate([np.ravel(b) for b in blocks_of(solution.W)])
    equal = np.abs(form.equal.A @ u + form.equal.b)
    at_most = np.maximum(form.at_most.A @ u + form.at_most.b, 0.0)
    return float((np.concatenate([equal, at_most]) / unit).max(initial=0.0))


def lowered(bound: float, constant: float) -> float:
    """A lower bound with a constant added, rounded down."""
    total = bound + constant
    return float(np.nextafter(total, -np.inf)) if constant and np.isfinite(total) else total


def status_of(solution: Solution) -> str:
    """The word CVXPY has for a status.

    A verdict that holds under a condition only is ``infeasible_inaccurate`` or
    ``unbounded_inaccurate``; without a bound nothing is optimal.
    """
    proved, name = not solution.proviso, solution.status.name
    words = {
        "CONVERGED": settings.OPTIMAL if np.isfinite(solution.bound) else settings.USER_LIMIT,
        "INFEASIBLE": settings.INFEASIBLE if proved else settings.INFEASIBLE_INACCURATE,
        "UNBOUNDED": settings.UNBOUNDED if proved else settings.UNBOUNDED_INACCURATE,
    }
    if name == "NONFINITE":
        raise cp.error.SolverError(f"condgrad: {solution.status}")
    return words.get(name, settings.USER_LIMIT)


def blocks_of(given: Any) -> list[Array]:
    """W or Z of a solution as a list."""
    return given if isinstance(given, list) else [given]


def _values(problem: Any, form: Form, solution: Solution) -> dict[int, Array]:
    """The value of every variable, by id."""
    u = np.concatenate([np.ravel(b) for b in blocks_of(solution.W)])
    x = form.space.values(u)
    shapes = {v.id: v.shape for v in problem.variables()}
    pieces = np.split(x, np.cumsum([p.offset.size for p in form.parts.values()])[:-1])
    found = dict(zip(form.parts, pieces, strict=True))
    nothing = np.zeros(0)  # for a variable without entries
    return {id: found.get(id, nothing).reshape(shape, order="F") for id, shape in shapes.items()}


def _duals(form: Form, solution: Solution) -> dict[int, Array]:
    """The dual value of every constraint, by id, in CVXPY's signs.

    CVXPY's Lagrangian is f + λ'(lhs − rhs) − ⟨Λ, X⟩ for the minimisation, so that λ = −y and Λ = Z.
    """
    m = form.equal.b.size
    y, Z = solution.y, blocks_of(solution.Z)
    rows = form.equal.spread(-y[:m]) | form.at_most.spread(-y[m:])
    flat = rows | {id: np.ravel(Z[block], order="F") for id, block in form.owners.items()}
    nothing = np.zeros(0)  # for a constraint without rows
    return {id: flat.get(id, nothing).reshape(s, order="F") for id, s in form.shapes.items()}
