"""The door: recognise, solve, write back."""

from __future__ import annotations

import time
from typing import Any

import cvxpy as cp
import numpy as np

from condgrad._deadline import limited
from condgrad._progress import visible
from condgrad.cvxpy._affine import NotTaken
from condgrad.cvxpy._recognise import Form, recognise
from condgrad.cvxpy._write import gap_of, write
from condgrad.errors import ProblemError
from condgrad.run.limits import Goal
from condgrad.run.result import Status
from condgrad.sdp import SDP, Solution

OPTIONS = (
    *("gap", "feasibility", "max_seconds", "max_iter"),
    *("trace_bound", "method", "seed", "device"),
)
"""What `solve` hands to `condgrad.sdp.SDP.solve`."""
GAP = 1e-3
"""The gap where the user names none."""
TRIES = 6
"""Runs with a closer gap, where a constant in the objective makes it small."""


@limited
@visible
def solve(problem: Any, **options: Any) -> float:
    r"""Solve a CVXPY problem with semidefinite variables, without CVXPY's compilation.

    .. math:: \min ⟨C, X⟩ + Σ_l h_l(⟨A_l, X⟩ + a_l) \quad\text{subject to}\quad
              \mathcal{B}(X) = b,\; \mathcal{D}(X) ≤ d,\; X ⪰ 0

    Taken are variables with ``PSD``, ``NSD``, ``symmetric``, ``nonneg``, ``nonpos``, ``bounds`` or
    no attribute; ``==``, ``<=``, ``>=`` and ``>>`` of affine expressions; and affine objectives
    plus sums of ``square``, ``sum_squares``, ``huber`` and ``logistic`` of affine expressions, to
    minimise, or their negatives to maximise. A variable X with ``X >> 0`` or ``x >= b`` among the
    constraints is one block; ``>>`` of anything else gets a slack block; where a trace bound is
    given, a variable without sign and bounds is a difference of two non-negative ones. Everything
    else is refused with a sentence.

    Importing ``condgrad.cvxpy`` also makes this ``problem.solve(method="CONDGRAD", ...)``.

    Parameters
    ----------
    problem : cvxpy.Problem
        What to solve. Afterwards its ``value``, ``status`` and ``solver_stats``, the ``value`` of
        every variable and the ``dual_value`` of every constraint are as after ``problem.solve()``;
        ``solver_stats.extra_stats`` is a `condgrad.cvxpy.Certificate` with the proven bound.
    **options
        ``gap``, ``feasibility``, ``max_seconds``, ``max_iter``, ``trace_bound``, ``method``,
        ``seed`` and ``device`` of `condgrad.sdp.SDP.solve`, and ``verbose=True`` to see
        it run, as in `condgrad.solve`, and print a line at the end.

    Returns
    -------
    float
        ``problem.value``: infinite where the status is ``infeasible`` or ``unbounded``, with
        ``_inaccurate`` where that is proved under a condition only, such as ``trace_bound``. The
        status ``optimal`` means that the gap to a proven bound and the feasibility asked for are
        reached, ``user_limit`` that a limit came first, or that nothing could be decided.

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

    References
    ----------
    .. [1] S. Diamond, S. Boyd, "CVXPY: A Python-embedded modeling language for convex
       optimization", JMLR 17(83), 2016.
    """
    verbose = options.pop("verbose", False)
    options = checked(options)
    begin = time.perf_counter()
    try:
        form = recognise(problem, split=options.get("trace_bound") is not None)
    except NotTaken as refusal:
        raise ProblemError(f"{refusal}, or use {elsewhere(problem)}") from None
    setup = time.perf_counter() - begin
    solution = None
    if not contradiction(form):
        check_bounded(form, options)
        solution = solved(form, options)
    write(problem, form, solution, setup, float(options.get("gap", GAP)))
    if verbose:
        print(f"condgrad: {problem.status}; {solution or 'a row without variables is violated'}")
    return float(problem.value)


def solved(form: Form, options: dict[str, Any]) -> Solution:
    """The solution of a recognised problem, to the gap that its objective has with its constant."""
    sdp, limit = program(form), options.get("max_seconds")
    gap = asked = options.get("gap", GAP)
    began = time.perf_counter()
    for _ in range(TRIES):
        left = None if limit is None else max(1e-3, limit - (time.perf_counter() - began))
        solution = sdp.solve(**{**options, "gap": asked, "max_seconds": left})
        own = gap_of(form, solution)
        if solution.status is not Status.CONVERGED or not gap < own < np.inf:
            break
        asked *= 0.5 * gap / own
    return solution


def elsewhere(problem: Any) -> str:
    """Who takes a problem that is refused here."""
    from condgrad.cvxpy._conic import CONDGRAD

    try:
        from cvxpy.problems.problem_form import ProblemForm

        taken = problem.is_dcp() and CONDGRAD.can_solve(ProblemForm(problem))
    except (ImportError, cp.error.SolverError):
        taken = False
    door = "problem.solve(solver=condgrad.cvxpy.CONDGRAD), which is for small problems"
    return door if taken else "another solver"


def checked(options: dict[str, Any]) -> dict[str, Any]:
    """Refuse options that nobody reads, and tolerances that are no numbers."""
    for name in options:
        if name not in OPTIONS:
            raise ProblemError(
                f"{name} is no option of condgrad.cvxpy: use {', '.join(OPTIONS)} or verbose"
            )
    Goal(options.get("gap"), options.get("feasibility"))
    default = {name for name in ("gap", "feasibility") if options.get(name) is None}
    return {name: value for name, value in options.items() if name not in default}


def contradiction(form: Form) -> bool:
    """Whether a row without variables is violated."""
    return bool(np.any(form.equal.constants != 0) or np.any(form.at_most.constants > 0))


def check_bounded(form: Form, options: dict[str, Any]) -> None:
    """Refuse a problem that leaves open how large its variables may be."""
    rows = form.equal.b.size + form.at_most.b.size
    if options.get("trace_bound") is None and not (rows or form.losses):
        raise ProblemError(
            "the problem has no constraints besides the cones of its variables: add some, or pass "
            "trace_bound, which no trace of a solution exceeds"
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
