"""What is written back into the CVXPY objects."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import cvxpy as cp
import cvxpy.settings as settings
import numpy as np
from cvxpy.problems.problem import SolverStats
from cvxpy.reductions.solution import Solution as CvxpySolution
from cvxpy.reductions.solution import failure_solution

from condgrad._types import Array
from condgrad.cvxpy._recognise import Form
from condgrad.sdp import Solution

NAME = "CONDGRAD"


@dataclass(frozen=True, eq=False)
class Certificate:
    """What is proved of a solution; ``problem.solver_stats.extra_stats`` after a solve."""

    value: float
    """The objective at the point returned, as in ``problem.value``."""
    bound: float
    """No feasible point has a smaller objective (a larger one where the problem maximises); where
    ``solution.trace_from`` is ``"guess"`` or ``"user"``, none within that trace bound."""
    solution: Solution
    """The run itself: its status, errors and trace bound, and its blocks."""

    @property
    def gap(self) -> float:
        """|value − bound| relative to the larger, the objective's constant left out."""
        return self.solution.gap


def write(problem: Any, form: Form, solution: Solution | None, setup: float = 0.0) -> None:
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
    """
    status = settings.INFEASIBLE if solution is None else status_of(solution)
    attr: dict[str, Any] = {settings.SETUP_TIME: setup}
    if solution is None or status in settings.INF_OR_UNB:
        found = failure_solution(status, attr)
        found.opt_val *= form.sign
    else:
        attr[settings.SOLVE_TIME] = solution.seconds
        found = CvxpySolution(status, None, _values(problem, form, solution), {}, attr)
        found.dual_vars = _duals(form, solution)
    problem.unpack(found)
    if solution is not None and status in settings.SOLUTION_PRESENT:
        bound = form.sign * (solution.bound + form.constant)
        attr[settings.EXTRA_STATS] = Certificate(float(problem.value), bound, solution)
        found.opt_val = problem.value
    problem._solver_stats = SolverStats.from_dict(attr, NAME)


def status_of(solution: Solution) -> str:
    """The word CVXPY has for a status.

    A verdict that stands on a guessed trace bound is ``infeasible_inaccurate`` or
    ``unbounded_inaccurate``.
    """
    proved = solution.trace_from != "guess"
    words = {
        "CONVERGED": settings.OPTIMAL,
        "INFEASIBLE": settings.INFEASIBLE if proved else settings.INFEASIBLE_INACCURATE,
        "UNBOUNDED": settings.UNBOUNDED if proved else settings.UNBOUNDED_INACCURATE,
    }
    name = solution.status.name
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
    pairs = zip(form.parts, pieces, strict=True)
    return {id: piece.reshape(shapes[id], order="F") for id, piece in pairs}


def _duals(form: Form, solution: Solution) -> dict[int, Array]:
    """The dual value of every constraint, by id, in CVXPY's signs.

    CVXPY's Lagrangian is f + λ'(lhs − rhs) − ⟨Λ, X⟩ for the minimisation, so that λ = −y and Λ = Z.
    """
    m = form.equal.b.size
    y, Z = solution.y, blocks_of(solution.Z)
    rows = form.equal.spread(-y[:m]) | form.at_most.spread(-y[m:])
    flat = rows | {id: np.ravel(Z[block], order="F") for id, block in form.owners.items()}
    return {id: d.reshape(form.shapes[id], order="F") for id, d in flat.items()}
