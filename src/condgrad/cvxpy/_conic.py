"""A solver object for CVXPY: the dual of its cone program is a semidefinite program."""

from __future__ import annotations

from typing import Any, NamedTuple

import cvxpy as cp
import cvxpy.settings as settings
import numpy as np
from cvxpy.constraints import PSD, NonNeg, Zero
from cvxpy.reductions.solution import Solution as CvxpySolution
from cvxpy.reductions.solution import failure_solution
from cvxpy.reductions.solvers.conic_solvers.conic_solver import ConicSolver
from cvxpy.reductions.solvers.utilities import extract_dual_value, get_dual_values
from scipy import linalg, sparse

from condgrad._types import Array
from condgrad.cvxpy._rows import Space
from condgrad.cvxpy._solve import checked
from condgrad.cvxpy._write import NAME, blocks_of, status_of
from condgrad.result import Status
from condgrad.sdp import SDP, Solution

TURNED = {
    settings.INFEASIBLE: settings.UNBOUNDED,
    settings.UNBOUNDED: settings.INFEASIBLE,
    settings.INFEASIBLE_INACCURATE: settings.UNBOUNDED_INACCURATE,
    settings.UNBOUNDED_INACCURATE: settings.INFEASIBLE_INACCURATE,
}
"""What a verdict on the dual says of the cone program itself."""
TIGHTER = (1.0, 0.1, 0.01)
"""Factors on the tolerances, while the multipliers miss them."""
ZERO = 1e-10
"""Relative size up to which a pivot, an entry or a residual of the equations counts as 0."""


class Answer(NamedTuple):
    """What a run found."""

    status: str
    x: Array
    y: Array
    value: float
    solution: Solution | None


class ConeSolver(ConicSolver):  # type: ignore[misc]
    r"""Solves CVXPY's cone programs through their duals.

    .. math:: \min c^\top x,\; Gx = h,\; b - Ax ∈ K \qquad
              \min (b - Ax_0)^\top y,\; N^\top A^\top y = -N^\top c,\; y ∈ K^*

    K is made of non-negative numbers and semidefinite matrices. With x = x₀ + N w, where N spans
    the kernel of G, the right problem has a row for every entry of w, a block for every cone, and
    w as its multipliers. The equations are solved by dense algebra: this is for small problems, and
    best for few variables under matrix inequalities. `condgrad.cvxpy.solve` is the better door
    where it opens. The options are the same; ``solver_stats.extra_stats`` is the
    `condgrad.sdp.Solution` of the right problem.
    """

    SUPPORTED_CONSTRAINTS = [Zero, NonNeg, PSD]  # noqa: RUF012  # CVXPY reads a list
    MIP_CAPABLE = False
    REQUIRES_CONSTR = True

    def name(self) -> str:
        return NAME

    def import_solver(self) -> None:
        """Nothing to import: the package is here."""

    def cite(self, data: Any) -> str:
        return "@misc{condgrad, title = {condgrad}, author = {The condgrad developers}}"

    def solve_via_data(
        self,
        data: dict[str, Any],
        warm_start: bool,
        verbose: bool,
        solver_opts: dict[str, Any],
        solver_cache: Any = None,
    ) -> Answer:
        """Solve the dual; `warm_start` and the cache play no part."""
        options = checked(dict(solver_opts))
        dims, c, b = data[ConicSolver.DIMS], data[settings.C], data[settings.B]
        stacked = sparse.csr_array(data[settings.A])
        G, A = stacked[: dims.zero].toarray(), stacked[dims.zero :]
        start, N = kernel(G, b[: dims.zero])
        if start is None:
            return Answer(settings.INFEASIBLE, c, b, np.inf, None)
        if not N.shape[1]:
            raise cp.error.SolverError("the equations leave one point only: nothing to optimise")
        space = Space([s for s in (-dims.nonneg, *dims.psd) if s], [])
        cost = space.symmetric((b[dims.zero :] - A @ start)[None, :]).toarray()[0]
        sdp = SDP(space.split(cost))
        sdp.subject_to_rows(space.symmetric(N.T @ A.T), "==", -(N.T @ c))
        solution, accurate = solved(sdp, options)
        if verbose:
            print(f"condgrad, on the dual: {solution}")
        x = start + N @ solution.y
        y = np.concatenate([np.ravel(block) for block in blocks_of(solution.W)])
        prices = np.linalg.lstsq(G.T, -c - A.T @ y)[0]
        status = TURNED.get(status_of(solution), status_of(solution))
        if status == settings.OPTIMAL and not accurate:
            status = settings.OPTIMAL_INACCURATE
        return Answer(status, x, np.concatenate([prices, y]), float(c @ x), solution)

    def invert(self, answer: Answer, inverse_data: dict[str, Any]) -> CvxpySolution:
        """Hand x and y to the variables and constraints."""
        attr: dict[str, Any] = {settings.EXTRA_STATS: answer.solution}
        if answer.solution is not None:
            attr[settings.SOLVE_TIME] = answer.solution.seconds
        if answer.status not in settings.SOLUTION_PRESENT:
            return failure_solution(answer.status, attr)
        constraints = inverse_data[self.EQ_CONSTR] + inverse_data[self.NEQ_CONSTR]
        duals = get_dual_values(answer.y, extract_dual_value, constraints)
        value = answer.value + inverse_data[settings.OFFSET]
        x = {inverse_data[self.VAR_ID]: answer.x}
        return CvxpySolution(answer.status, value, x, duals, attr)


def solved(sdp: SDP, options: dict[str, Any]) -> tuple[Solution, bool]:
    """A solution, and whether its multipliers meet the tolerances too.

    The bound may stand on a repaired multiple of them, so that value and bound can agree while x,
    which they are, is far outside of its cones. Then the run is repeated with less tolerance.
    """
    tolerances = {name: float(options.get(name, 1e-3)) for name in ("gap", "feasibility")}
    left = options.get("max_seconds")
    for factor in TIGHTER:
        own = {name: factor * value for name, value in tolerances.items()}
        solution = sdp.solve(**{**options, **own, "max_seconds": left})
        errors = solution.errors
        accurate = errors.dual_cone <= tolerances["feasibility"] and (
            abs(errors.gap) <= tolerances["gap"]
        )
        left = None if left is None else left - solution.seconds
        if accurate or solution.status is not Status.CONVERGED or (left is not None and left <= 0):
            break
    return solution, accurate


def kernel(G: Array, h: Array) -> tuple[Array | None, Any]:
    """A point with G x = h, or None, and a sparse basis N of the kernel of G.

    The QR decomposition with pivots says which entries of x follow from the others.
    """
    m, n = G.shape
    if m == 0:
        return np.zeros(n), sparse.eye_array(n, format="csr")
    Q, R, order = linalg.qr(G, mode="economic", pivoting=True)
    pivots = np.abs(np.diag(R))
    rank = int(np.sum(pivots > ZERO * pivots[0]))
    right = np.column_stack([R[:rank, rank:], Q.T[:rank] @ h])
    right = linalg.solve_triangular(R[:rank, :rank], right)
    point = np.zeros(n)
    point[order[:rank]] = right[:, -1]
    size = np.linalg.norm(h) + np.linalg.norm(G) * np.linalg.norm(point)
    if np.linalg.norm(G @ point - h) > 1e-8 * size:
        return None, sparse.csr_array((n, 0))
    slopes = np.where(np.abs(right[:, :-1]) > ZERO, -right[:, :-1], 0.0)
    N = sparse.vstack([sparse.csr_array(slopes), sparse.eye_array(n - rank)], format="csr")
    return point, sparse.csr_array(N[np.argsort(order)])


CONDGRAD = ConeSolver()
"""For ``problem.solve(solver=condgrad.cvxpy.CONDGRAD)``."""
