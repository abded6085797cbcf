"""A solver object for CVXPY: the dual of its cone program is a semidefinite program."""

from __future__ import annotations

import weakref
from functools import partial
from typing import Any, NamedTuple

import cvxpy as cp
import cvxpy.settings as settings
import numpy as np
from cvxpy.constraints import PSD, SOC, NonNeg, NonPos, Zero
from cvxpy.reductions.solution import Solution as CvxpySolution
from cvxpy.reductions.solution import failure_solution
from cvxpy.reductions.solvers.conic_solvers.conic_solver import ConicSolver
from cvxpy.reductions.solvers.utilities import extract_dual_value, get_dual_values

from condgrad._deadline import within
from condgrad._types import Array
from condgrad.cvxpy._cone_judge import Outcome, checked
from condgrad.cvxpy._cone_point import missed
from condgrad.cvxpy._cone_program import ConeProgram, OtherCones, read
from condgrad.cvxpy._cone_solve import GONE, Run
from condgrad.cvxpy._interior import SOLVER, Interior
from condgrad.cvxpy._recognise import require_room
from condgrad.cvxpy._write import NAME, Certificate, lowered

CLEARLY = 1e-3
"""Part of its terms that an equation that may be rounding may miss, if the user names none."""
UP_TO_ROUNDING = "if what is 0 up to rounding is 0"
"""The proviso of verdicts that are called inaccurate."""


class Side(NamedTuple):
    """How the user's objective follows from that of the cone program, which is minimised."""

    sign: float
    """−1 where the user maximises, NaN where that is unknown."""
    geometric: bool
    """Whether the cone program has the logarithm of the objective."""

    def of(self, value: float) -> float:
        """A value or bound of the cone program as one of the user's problem."""
        return float(np.exp(self.sign * value)) if self.geometric else self.sign * value


COMPILED = 400
"""Bytes for each number of the variables while CVXPY compiles a problem, about."""
Answer = tuple[ConeProgram | None, Outcome, Side]
"""What a run found; there is no program where a row without variables cannot hold, or no time."""


class ConeSolver(ConicSolver):  # type: ignore[misc]
    r"""Solves CVXPY's cone programs through their duals.

    .. math:: \min c^\top x,\; Gx = h,\; b - Ax ∈ K \qquad
              \min (b - Ax_0)^\top y,\; N^\top A^\top y = -N^\top c,\; y ∈ K^*

    K is made of non-negative numbers and semidefinite matrices; second-order cones are written as
    such. With x = x₀ + N w, where N spans the kernel of G, the right problem has a row for every
    entry of w, a block for every cone, and w as its multipliers. The point is repaired until it
    meets its cones, y until it meets its equations, and every status and the bound is checked in
    the left problem. All this is dense algebra: it is for small problems, and best for few
    variables under matrix inequalities. `condgrad.cvxpy.solve` is the better door where it opens.
    The options are the same, a ``trace_bound`` is one of the right problem;
    ``solver_stats.extra_stats`` is a `condgrad.cvxpy.Certificate` in the units of the problem.
    """

    solver = "condgrad"
    """Solver that is asked for a point."""
    SUPPORTED_CONSTRAINTS = [Zero, NonNeg, SOC, PSD]  # noqa: RUF012  # CVXPY reads a list
    MIP_CAPABLE = False
    REQUIRES_CONSTR = False

    def __init__(self) -> None:
        self._asked: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()
        """What CVXPY asked about last, by problem: its data does not say what the user wrote."""

    def name(self) -> str:
        return NAME

    def import_solver(self) -> None:
        """Nothing to import: the package is here."""

    def cite(self, data: Any) -> str:
        return "@misc{condgrad, title = {condgrad}, author = {The condgrad developers}}"

    def can_solve(self, problem_form: Any) -> bool:
        """Whether the cones of a problem are ours; a sentence where they are not.

        CVXPY's compilation, which comes next, would end the process where there is no memory.
        """
        require_room(problem_form._problem, COMPILED)
        self._asked[problem_form._problem] = Side(
            -1.0 if isinstance(problem_form._problem.objective, cp.Maximize) else 1.0,
            bool(getattr(problem_form, "_gp", False)),
        )
        if super().can_solve(problem_form):
            return True
        others = problem_form.cones() - {Zero, NonNeg, NonPos, PSD, SOC}
        names = ", ".join(sorted(cone.__name__ for cone in others)) or "other cones"
        raise OtherCones(
            "CONDGRAD takes linear, second-order and semidefinite constraints, but this problem "
            f"compiles to {names}: use another solver"
        )

    def apply(self, problem: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """CVXPY's data, with the constant of the objective."""
        data, inverse = super().apply(problem)
        data[settings.OFFSET] = inverse[settings.OFFSET]
        return data, inverse

    def solve_via_data(
        self,
        data: dict[str, Any],
        warm_start: bool,
        verbose: bool,
        solver_opts: dict[str, Any],
        solver_cache: Any = None,
    ) -> Answer:
        """Solve the dual; `warm_start` plays no part."""
        options = checked(dict(solver_opts))
        side = Side(float("nan"), False)
        for problem, asked in self._asked.items():
            if problem._solver_cache is solver_cache:
                side = asked
        constant = 0.0 if side.geometric else float(data[settings.OFFSET])
        nothing = np.zeros(0)
        with within(options.get("max_seconds")):
            found = self._solved(data, options, constant)
        if found is None:
            gone = Outcome(settings.INFEASIBLE, nothing, nothing, nothing, -np.inf, np.inf)
            return None, gone, side
        program, outcome = found
        _check_faint(program, outcome, float(options.get("feasibility", CLEARLY)))
        if verbose:
            print(f"condgrad: {outcome.status}, gap {outcome.gap:.2g}")
        return program, outcome, side

    def _solved(
        self, data: dict[str, Any], options: dict[str, Any], constant: float
    ) -> tuple[ConeProgram, Outcome] | None:
        """The program and what is found of it; None where a row without variables is violated."""
        program = read(data, data[ConicSolver.DIMS])
        if program is None:
            return None
        return program, Run(program, options, constant).solve()

    def invert(self, answer: Answer, inverse_data: dict[str, Any]) -> CvxpySolution:
        """Hand x and y to the variables and constraints."""
        program, outcome, side = answer
        attr: dict[str, Any] = {settings.NUM_ITERS: outcome.steps}
        if outcome.seconds is not None:
            attr[settings.SOLVE_TIME] = outcome.seconds
        elif outcome.solution is not None:
            attr[settings.SOLVE_TIME] = outcome.solution.seconds
        if outcome.status not in settings.SOLUTION_PRESENT:
            known = without_point(outcome, side)
            return failure_solution(outcome.status, {**attr, settings.EXTRA_STATS: known})
        assert program is not None
        offset = float(inverse_data[settings.OFFSET])
        value = program.value_unit * float(program.c @ outcome.x) + offset
        bound = lowered(program.value_unit * outcome.bound, offset)
        attr[settings.EXTRA_STATS] = Certificate(
            *(side.of(value), side.of(bound), outcome.gap, outcome.solution, outcome.proviso),
            solved_by=outcome.by,
            unit=program.value_unit * outcome.unit,
            infeasibility=missed(program, outcome.x),
        )
        x = {inverse_data[self.VAR_ID]: program.x_unit * outcome.x}
        y = program.multipliers(outcome.nu, outcome.y)
        constraints = inverse_data[self.EQ_CONSTR] + inverse_data[self.NEQ_CONSTR]
        duals = get_dual_values(y, dual_value, constraints)
        return CvxpySolution(outcome.status, value, x, duals, attr)


def without_point(outcome: Outcome, side: Side) -> Certificate:
    """What is proved where the problem is infeasible or unbounded."""
    status = outcome.status
    found = failure_solution(status).opt_val
    value = float("nan") if found is None else float(found)
    proved = status in (settings.INFEASIBLE, settings.UNBOUNDED)
    bound = value if proved else -np.inf
    proviso = outcome.proviso or (UP_TO_ROUNDING if status in settings.INACCURATE else "")
    ends = side.of(value), side.of(bound)
    return Certificate(*ends, np.inf, outcome.solution, proviso, solved_by=outcome.by)


def _check_faint(program: ConeProgram, outcome: Outcome, feasibility: float) -> None:
    """Refuse an answer that depends on whether some equations are rounding."""
    if program.faint is None or outcome.status in GONE:
        return
    met = program.faint.met(program.x_unit * outcome.x, feasibility)
    if not met or outcome.status not in settings.SOLUTION_PRESENT:
        raise cp.error.SolverError(
            "some equations have coefficients of at most 2e-15 of others of the same variables, "
            "and the answer depends on whether that is rounding: multiply them by a number, or "
            "remove them"
        )


def dual_value(y: Array, offset: int, constraint: Any) -> tuple[Any, int]:
    """The multipliers of one constraint, those of an array of matrices in its shape."""
    value, end = extract_dual_value(y, offset, constraint)
    if isinstance(constraint, PSD) and len(constraint.args[0].shape) > 2:
        value = np.reshape(value, constraint.args[0].shape, order="F")
    return value, end


class Unsettled(Exception):
    """The interior-point solver found nothing in the cone program that could be used."""


class InteriorSolver(ConeSolver):
    """The same cone program by an interior-point solver, whose answer is checked and proved."""

    solver = SOLVER
    quick = False
    """Whether one of first order is asked before."""

    def _solved(
        self, data: dict[str, Any], options: dict[str, Any], constant: float
    ) -> tuple[ConeProgram, Outcome] | None:
        lifted = partial(read, data, data[ConicSolver.DIMS])
        native = lifted(native=True)
        if native is None:
            return None
        found = Interior(native, lifted, options, constant, self.quick).solve()
        if found is None:
            raise Unsettled
        return native, found


class QuickSolver(InteriorSolver):
    """The same, but large matrices by steps of first order, where their answer can be proved."""

    quick = True


CONDGRAD = ConeSolver()
"""For ``problem.solve(solver=condgrad.cvxpy.CONDGRAD)``."""
INTERIOR = InteriorSolver()
"""For ``condgrad.cvxpy.solve(problem, backend="interior-point")``."""
FASTEST = QuickSolver()
"""What `condgrad.cvxpy.solve` hands small programs to."""
