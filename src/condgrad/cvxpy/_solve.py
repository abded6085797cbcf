"""The door: which road a problem takes, solve, write back."""

from __future__ import annotations

import time
import warnings
from typing import Any

import cvxpy as cp
import numpy as np
from cvxpy.problems.problem import SolverStats

from condgrad import _deadline as deadline
from condgrad import _progress as progress
from condgrad._deadline import limited
from condgrad.certificate import relative_gap
from condgrad.cvxpy import _interior as interior
from condgrad.cvxpy import _solvers as solvers
from condgrad.cvxpy._affine import NotTaken
from condgrad.cvxpy._cone_judge import FEASIBILITY, GAP, checked
from condgrad.cvxpy._recognise import Form, check, recognise
from condgrad.cvxpy._write import NAME, Certificate, at_limit, gap_of, row_miss, write
from condgrad.errors import MemoryLimit, ProblemError
from condgrad.run.result import Status
from condgrad.sdp import SDP, Solution

CALLER = 4
"""Frames from `solve` to its caller, the two wrappers of limit and progress between them."""
TRIES = 6
"""Runs with closer tolerances: a constant may make the objective small, and one row may miss more
than all together."""
SPREAD = 0.25
"""Factor on the feasibility of the first run. The worst row missed 1.2 to 2.6 times as much as the
norm of all in max-cut and completion problems of side 60 to 200."""
BACKENDS = ("condgrad", "interior-point")
FASTEST = "fastest"
"""Road to the solvers that CVXPY has installed."""
OWN = ("trace_bound", "method", "device")
"""Options that only condgrad's own methods read: with one of them they are meant."""
SMALL = 45
"""Side of a matrix from which on a program that condgrad reads itself is left to condgrad."""
WORK = float(SMALL * (SMALL + 1) // 2) ** 3
"""Operations of an interior-point step at that side, for all matrices together."""


@limited
@progress.visible
def solve(problem: Any, *, backend: str | None = None, **options: Any) -> float:
    r"""Solve a CVXPY problem, with a proven bound.

    .. math:: \min ⟨C, X⟩ + Σ_l h_l(⟨A_l, X⟩ + a_l) \quad\text{subject to}\quad
              \mathcal{B}(X) = b,\; \mathcal{D}(X) ≤ d,\; X ⪰ 0

    There are two roads. Problems of the form above are read as they were written, without CVXPY's
    compilation, and solved by `condgrad.sdp.SDP`: variables with ``PSD``, ``NSD``, ``symmetric``,
    ``nonneg``, ``nonpos``, ``bounds`` or no attribute; ``==``, ``<=``, ``>=`` and ``>>`` of affine
    expressions; affine objectives plus sums of ``square``, ``sum_squares``, ``huber`` and
    ``logistic`` of affine expressions. This is for large matrices.

    Small problems, and all others that compile to linear, second-order and semidefinite cones
    (norms, ``abs``, ``max``, ``lambda_max``, nuclear norms, free variables, arrays of matrices),
    are compiled by CVXPY and handed to solvers that come with it: Clarabel, or for matrices of side
    16 and more SCS first, whose answer is taken if it can be proved. A point is checked, and its
    multipliers are corrected until they prove a bound, in the cone program that CVXPY compiled.
    Small are problems whose matrices have a side of 45 at most, or several as much work as one.

    Importing ``condgrad.cvxpy`` also makes this ``problem.solve(method="CONDGRAD", ...)``.

    Parameters
    ----------
    problem : cvxpy.Problem
        What to solve. Afterwards its ``value``, ``status`` and ``solver_stats``, the ``value`` of
        every variable and the ``dual_value`` of every constraint are as after ``problem.solve()``;
        ``solver_stats.extra_stats`` is a `condgrad.cvxpy.Certificate` with the proven bound, and
        who found the point.
    backend : str, optional
        ``"condgrad"`` insists on condgrad's own methods (for what it does not read, on the dual of
        the cone program), ``"interior-point"`` on Clarabel, whatever the size. The options
        ``trace_bound``, ``method`` and ``device`` insist on condgrad's methods too.
    **options
        ``gap``, ``feasibility``, ``max_seconds``, ``max_iter``, ``trace_bound``, ``method``,
        ``seed`` and ``device`` of `condgrad.sdp.SDP.solve`, and ``verbose=True`` to see
        it run, as in `condgrad.solve`, and print a line at the end.

    Returns
    -------
    float
        ``problem.value``: infinite where the status is ``infeasible`` or ``unbounded``, with
        ``_inaccurate`` where that is proved under a condition only, such as ``trace_bound``, or not
        at all. The status ``optimal`` means that the gap to a proven bound and the feasibility
        asked for are reached, 1e-3 and 1e-6 by default. With ``optimal_inaccurate``, which comes
        with a warning, the solver says so and no proof was found. With ``user_limit`` a limit came
        first, or nothing could be decided.

    Raises
    ------
    ProblemError
        Where the problem or an option cannot be taken; the sentence says what to change.

    Examples
    --------
    >>> import cvxpy as cp
    >>> X = cp.Variable((2, 2), PSD=True)
    >>> problem = cp.Problem(cp.Maximize(X[0, 1]), [cp.diag(X) == 1])
    >>> round(solve(problem, gap=1e-4), 2), problem.status
    (1.0, 'optimal')
    >>> problem.solver_stats.extra_stats.solved_by
    'Clarabel'

    References
    ----------
    .. [1] S. Diamond, S. Boyd, "CVXPY: A Python-embedded modeling language for convex
       optimization", JMLR 17(83), 2016.
    .. [2] P. Goulart, Y. Chen, "Clarabel: An interior-point solver for conic programs with
       quadratic objectives", 2024.
    .. [3] B. O'Donoghue, "Operator splitting for a homogeneous embedding of the linear
       complementarity problem", SIAM Journal on Optimization 31(3), 2021.
    """
    verbose = options.pop("verbose", False)
    options = checked(options)
    check(problem)
    check_backend(backend)
    value = _solved(problem, options, backend, verbose)
    if problem.status == cp.OPTIMAL_INACCURATE:
        found = problem.solver_stats.extra_stats
        reached = f"gap {found.gap:.2g}, infeasibility {found.infeasibility:.2g}"
        left_open = found.proviso or f"{reached}; the tolerances are not reached"
        warnings.warn(f"condgrad.cvxpy: optimal_inaccurate: {left_open}", stacklevel=CALLER)
    return value


def _solved(problem: Any, options: dict[str, Any], backend: str | None, verbose: bool) -> float:
    """Take the road that the backend, the options and the size ask for."""
    own = backend == "condgrad" or any(options.get(name) is not None for name in OWN)
    if backend == "interior-point" or (not own and solvers.installed() and is_small(problem)):
        try:
            return _compiled(problem, options, backend or FASTEST, verbose)
        except NotTaken:
            if backend == "interior-point":
                raise
    try:
        return _read(problem, options, verbose)
    except NotTaken as refusal:
        try:
            road = FASTEST if solvers.installed() and not own else "condgrad"
            return _compiled(problem, options, road, verbose)
        except (NotTaken, MemoryLimit) as other:
            raise ProblemError(f"{refusal}; as a cone program: {other}") from None


def check_backend(backend: str | None) -> None:
    """Refuse names of roads that there are not."""
    if backend is not None and backend not in BACKENDS:
        names = " or ".join(f'"{name}"' for name in BACKENDS)
        raise ProblemError(f"backend is {backend!r}: it must be {names}, or None for the faster")
    if backend == "interior-point" and not solvers.installed():
        raise ProblemError("backend is 'interior-point', but Clarabel is not installed: install it")


def is_small(problem: Any) -> bool:
    """Whether the matrices of a problem, as it is written, are as small as Clarabel likes them.

    A step of an interior-point method factors a dense matrix of side n(n + 1)/2 for each.
    """
    shapes = [v.shape for v in problem.variables() if v.is_psd() or v.is_nsd()]
    shapes += [c.args[0].shape for c in problem.constraints if isinstance(c, cp.constraints.PSD)]
    matrices = [(int(np.prod(s[:-2])), s[-1]) for s in shapes if len(s) >= 2]
    return sum(count * (n * (n + 1) / 2) ** 3 for count, n in matrices) <= WORK


def _compiled(problem: Any, options: dict[str, Any], road: str, verbose: bool) -> float:
    """The road through CVXPY's cone program, by a solver that is installed or by its dual."""
    from condgrad.cvxpy import _conic as conic

    solver = {FASTEST: conic.FASTEST, "interior-point": conic.INTERIOR}.get(road, conic.CONDGRAD)
    ours = {k: v for k, v in options.items() if k != "trace_bound" and v is not None}
    try:
        data, chain, inverse = problem.get_problem_data(solver, solver_opts=ours)
        raw = chain.solve_via_data(problem, data, False, False, ours)
        found = chain.invert(raw, inverse)
    except ProblemError:
        raise
    except conic.Unsettled:
        return _as_it_is(problem, options, None, verbose)
    except NotImplementedError:
        raise NotTaken(
            "CVXPY cannot compile it, for any solver: leave out cp.real, cp.imag and cp.conj of "
            "real expressions"
        ) from None
    except (cp.error.SolverError, ValueError) as error:  # CVXPY's sentences
        raise NotTaken(" ".join(str(error).split()).rstrip(".")) from None
    problem.unpack(found)
    problem._solver_stats = SolverStats.from_dict(found.attr, NAME)
    off = road != "condgrad" and problem.status == cp.OPTIMAL
    if off and _off(problem, float(options.get("gap", GAP))):
        return _as_it_is(problem, options, problem.solver_stats.extra_stats, verbose)
    if problem.status == cp.settings.USER_LIMIT:
        stats = problem.solver_stats
        stats.extra_stats = at_limit(problem, stats.extra_stats)
    if verbose:
        stats = problem.solver_stats
        by = stats.extra_stats.solved_by
        print(f"condgrad: {problem.status}, {by} on the cone program; {stats.extra_stats}")
    return float("nan") if problem.value is None else float(problem.value)


def _off(problem: Any, gap: float) -> bool:
    """Whether the objective of a point is further from the bound than that of the cone program.

    There variables stand for squares and norms. Where squares are large next to the data, what a
    point misses of its cones is little, but much in the objective.
    """
    found = problem.solver_stats.extra_stats
    unit = max(abs(found.value), found.unit)
    other = found.bound if np.isfinite(found.bound) else found.value
    return bool(relative_gap(float(problem.value), other, unit) > gap)


def _as_it_is(
    problem: Any, options: dict[str, Any], known: Certificate | None, verbose: bool
) -> float:
    """Clarabel on the problem with its squares, where the cone program without them is too hard.

    Nothing is proved of that but by a bound that is `known` from the cone program.
    """
    left = deadline.left()
    if left <= 0 and known is not None:
        problem._status = cp.settings.USER_LIMIT
        problem.solver_stats.extra_stats = at_limit(problem, known)
        return float(problem.value)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Solution may be inaccurate")
            limit = {"time_limit": max(left, 1e-3)} if np.isfinite(left) else {}
            problem.solve(solver=cp.CLARABEL, **limit)
    except cp.error.SolverError:
        return _compiled(problem, options, "condgrad", verbose)
    side = -1.0 if isinstance(problem.objective, cp.Maximize) else 1.0
    value = float("nan") if problem.value is None else float(problem.value)
    bound, unit = (-side * np.inf, 0.0) if known is None else (known.bound, known.unit)
    gap = relative_gap(value, bound, unit)
    proviso = ""
    if not (problem.status == cp.OPTIMAL and gap <= float(options.get("gap", GAP))):
        proviso = f"{problem.status} {interior.HERE}"
        words = (cp.OPTIMAL, cp.INFEASIBLE, cp.UNBOUNDED)
        problem._status += "_inaccurate" if problem.status in words else ""
    own = Certificate(value, bound, gap, None, proviso, interior.SOLVER, unit)
    problem._solver_stats.extra_stats = own
    if verbose:
        print(f"condgrad: {problem.status}, {interior.SOLVER} on the problem as it is; {own}")
    return value


def _read(problem: Any, options: dict[str, Any], verbose: bool) -> float:
    """The road of a problem that is read as it was written."""
    begin = time.perf_counter()
    form = recognise(problem, split=options.get("trace_bound") is not None)
    setup = time.perf_counter() - begin
    solution = None
    if not contradiction(form):
        check_bounded(form, options, problem)
        solution = solved(form, options)
    goal = (float(options.get("gap", GAP)), float(options.get("feasibility", FEASIBILITY)))
    write(problem, form, solution, setup, *goal)
    if verbose:
        print(f"condgrad: {problem.status}; {problem.solver_stats.extra_stats}{_ended(solution)}")
    return float(problem.value)


def _ended(solution: Solution | None) -> str:
    """Why there was no more to do, in words."""
    if solution is None:
        return "; a row without variables is violated"
    advice = solution.advice and f"; {solution.advice}"
    return f"; {solution.status} ({solution.seconds:.2f} s){advice}"


def solved(form: Form, options: dict[str, Any]) -> Solution:
    """The solution of a recognised problem, to the gap of its own objective and row by row."""
    sdp, limit = program(form), options.get("max_seconds")
    gap = asked = options.get("gap", GAP)
    feasibility = options.get("feasibility", FEASIBILITY)
    together = SPREAD * feasibility

    def seen(own: progress.Seen) -> progress.Seen:
        """The numbers of the form as those of the problem, to be shown."""
        ends = own.value + form.constant, own.bound + form.constant
        sense = "max" if form.sign < 0 else "min"
        return own._replace(value=form.sign * ends[0], bound=form.sign * ends[1], sense=sense)

    began = time.perf_counter()
    for _ in range(TRIES):
        left = None if limit is None else max(1e-3, limit - (time.perf_counter() - began))
        with progress.changed(seen):
            tolerances = {"gap": asked, "feasibility": together}
            solution = sdp.solve(**{**options, **tolerances, "max_seconds": left})
        own, missed = gap_of(form, solution), row_miss(form, solution)
        more = gap < own < np.inf or missed > feasibility
        if solution.status is not Status.CONVERGED or not more:
            break
        asked *= min(1.0, 0.5 * gap / own) if own > gap else 1.0
        together *= 0.5 * feasibility / missed if missed > feasibility else 1.0
    return solution


def contradiction(form: Form) -> bool:
    """Whether a row without variables is violated."""
    return bool(np.any(form.equal.constants != 0) or np.any(form.at_most.constants > 0))


def check_bounded(form: Form, options: dict[str, Any], problem: Any) -> None:
    """Refuse a problem that leaves open how large its variables may be."""
    rows = form.equal.b.size + form.at_most.b.size
    if options.get("trace_bound") is None and not (rows or form.losses):
        names = ", ".join(v.name() for v in problem.variables())
        raise NotTaken(
            f"the problem has no constraints besides the cones of its variables ({names}): add "
            "some, such as cp.trace(X) <= 100, or pass trace_bound=100, which no trace of a "
            "solution exceeds"
        )


def program(form: Form) -> SDP:
    """The semidefinite program of a recognised problem."""
    sdp = SDP(form.space.split(form.cost))
    for sense, rows in (("==", form.equal), ("<=", form.at_most)):
        if rows.b.size:
            sdp.subject_to_rows(rows.A, sense, -rows.b)
    for A, function, weight in form.losses:
        sdp.loss(A, function, weight)
    return sdp
