"""What `solver_stats.extra_stats` holds after any solve, how it is printed, and who else solves."""

from __future__ import annotations

import re

import numpy as np
import pytest

import condgrad as cg
from condgrad.sdp import SDP

cp = pytest.importorskip("cvxpy")
door = pytest.importorskip("condgrad.cvxpy")

pytestmark = pytest.mark.filterwarnings(
    "ignore:Solution may be", r"ignore:\s*The problem is either infeasible"
)
NUMBERS = ("value", "bound", "gap")


def direct(problem, **options):
    return door.solve(problem, backend="condgrad", **options)


def fast(problem, **options):
    return door.solve(problem, **options)


def cone(problem, **options):
    return problem.solve(solver=door.CONDGRAD, max_iter=2000, **options)


DOORS = pytest.mark.parametrize("solve", [direct, cone, fast])
GOALS = pytest.mark.parametrize("goal", [cp.Minimize, cp.Maximize])


@DOORS
@GOALS
@pytest.mark.parametrize("rows", [lambda x: [cp.sum(x) == -1], lambda x: [0 * x[0] == 1, x <= 1]])
def test_a_certificate_where_nothing_is_feasible(solve, goal, rows):
    x = cp.Variable(3, nonneg=True)
    problem = cp.Problem(goal(x @ np.array([1.0, 2.0, 3.0])), rows(x))
    value = solve(problem)
    certificate = problem.solver_stats.extra_stats
    worst = np.inf if goal is cp.Minimize else -np.inf
    assert problem.status == "infeasible"
    assert value == certificate.value == certificate.bound == worst
    assert certificate.gap == np.inf
    assert certificate.proviso == ""


@DOORS
@GOALS
def test_a_certificate_where_nothing_is_bounded(solve, goal):
    x, sign = cp.Variable(2, nonneg=True), 1.0 if goal is cp.Maximize else -1.0
    problem = cp.Problem(goal(sign * cp.sum(x)), [x[0] - x[1] == 1])
    value = solve(problem)
    certificate = problem.solver_stats.extra_stats
    assert problem.status == "unbounded"
    assert value == certificate.value == certificate.bound == sign * np.inf
    assert certificate.gap == np.inf
    assert certificate.proviso == ""


def test_a_verdict_up_to_rounding_says_so_and_bounds_nothing():
    x = cp.Variable(2)
    rows = [cp.sum(x) == 1, x[0] + (1 + 1e-14) * x[1] == 2]
    problem = cp.Problem(cp.Minimize(x[0]), rows)
    cone(problem)
    certificate = problem.solver_stats.extra_stats
    assert problem.status == "infeasible_inaccurate"
    assert certificate.value == np.inf
    assert certificate.bound == -np.inf
    assert certificate.proviso == "if what is 0 up to rounding is 0"


def test_neither_infeasible_nor_unbounded_alone(monkeypatch):
    monkeypatch.setattr(door._cone_solve.Run, "_feasible", lambda run, x, k: ("user_limit", x))
    x = cp.Variable()
    problem = cp.Problem(cp.Maximize(x), [x >= 1])
    cone(problem)
    certificate = problem.solver_stats.extra_stats
    assert problem.status == "infeasible_or_unbounded"
    assert np.isnan(certificate.value)
    assert certificate.bound == np.inf


def test_a_verdict_under_a_trace_bound_names_it():
    X = cp.Variable((2, 2), PSD=True)
    problem = cp.Problem(cp.Maximize(cp.trace(X)), [X[0, 0] == 10])
    door.solve(problem, trace_bound=5)
    certificate = problem.solver_stats.extra_stats
    assert problem.status == "infeasible_inaccurate"
    assert certificate.bound == -np.inf
    assert certificate.proviso == certificate.solution.proviso == "if Tr W ≤ 5"
    assert str(certificate.solution).startswith("no point satisfies the constraints, which is")
    assert ", if Tr W ≤ 5 (" in str(certificate.solution)


@pytest.mark.parametrize("options", [{}, {"gap": 1e-5}, {"max_iter": 3}])
def test_value_bound_and_gap_belong_together(options):
    """Squares are variables in the cone program: its value is not quite that of the problem."""
    A, x = np.random.default_rng(0).normal(size=(20, 3)), cp.Variable(3)
    problem = cp.Problem(cp.Minimize(cp.sum_squares(A @ x - 1)), [x >= 0, x <= 1])
    problem.solve(solver=door.CONDGRAD, **options)
    value, bound, gap = (getattr(problem.solver_stats.extra_stats, n) for n in NUMBERS)
    assert gap == pytest.approx(abs(value - bound) / max(abs(value), abs(bound)), rel=1e-6)
    best = problem.solve(solver=cp.CLARABEL)
    assert bound <= best + 1e-6


@DOORS
def test_statistics_are_printed_in_short(solve):
    X = cp.Variable((20, 20), PSD=True)
    problem = cp.Problem(cp.Minimize(X[0, 1]), [cp.diag(X) == 1])
    solve(problem)
    text = str(problem.solver_stats)
    assert len(text) < 400
    bound = float(re.search(r"bound (\S+);", text)[1])
    proved = problem.solver_stats.extra_stats.bound
    assert proved - 1e-6 < bound <= proved  # the digits shown are proved


def test_a_certificate_prints_who_solved_it_and_a_gap_only_of_a_point():
    found = door.Certificate(1.0, 0.9, 0.1234567, None)
    assert repr(found) == "<Certificate: value 1, bound 0.9; gap 0.12; solved by condgrad>"
    nothing = door.Certificate(np.inf, np.inf, np.inf, None, solved_by="Clarabel")
    assert repr(nothing) == "<Certificate: value inf, bound inf; solved by Clarabel>"


def test_solutions_and_cuts_are_printed_in_short():
    solution = SDP(np.eye(20)).subject_to(np.eye(20), "==", 1.0).solve()
    assert len(repr(solution)) < 300
    assert repr(solution).startswith("<Solution: value 1, lower bound 0.99")
    cut = cg.max_cut(np.ones((30, 30)) - np.eye(30), max_seconds=None)
    assert len(repr(cut)) < 300
    assert "225" in repr(cut)


# who else takes a problem


def refused(problem, sentence):
    with pytest.raises(cg.ProblemError, match=sentence):
        door.solve(problem)


def test_what_is_not_read_takes_the_road_of_cones():
    x, Z = cp.Variable(2, nonneg=True), cp.Variable((2, 2), hermitian=True)
    problems = [
        cp.Problem(cp.Minimize(cp.norm(x)), [cp.sum(x) == 1]),
        cp.Problem(cp.Minimize(cp.sum(x)), [cp.SOC(x[0], x[1:]), x[1] == 1]),
        cp.Problem(cp.Maximize(cp.sum(x)), [cp.norm(x) <= 1]),
        cp.Problem(cp.Minimize(cp.sum_squares(cp.abs(x))), [x >= 1]),
        cp.Problem(cp.Minimize(cp.real(cp.trace(Z))), [Z >> np.eye(2)]),
    ]
    for problem in problems:
        value = door.solve(problem)
        assert problem.status == "optimal"
        assert problem.solver_stats.extra_stats.solved_by == "Clarabel"
        assert door.solve(problem, backend="condgrad") == pytest.approx(value, abs=1e-2)
        assert problem.status == "optimal"
        assert problem.solver_stats.extra_stats.solved_by == "condgrad"


def test_what_no_road_takes_is_refused():
    x, Z = cp.Variable(2, nonneg=True), cp.Variable((2, 2), hermitian=True)
    for problem in (
        cp.Problem(cp.Minimize(cp.exp(x[0])), [x >= 1]),
        cp.Problem(cp.Minimize(cp.sum(x)), [cp.exp(x) <= 3]),
    ):
        refused(problem, "compiles to ExpCone: use another solver")
    refused(cp.Problem(cp.Minimize(cp.sqrt(x[0])), [Z >> 0]), r"disciplined convex")
    problem = cp.Problem(cp.Minimize(cp.norm(x) + cp.Variable(boolean=True)))
    refused(problem, "or use a mixed-integer solver")


@pytest.mark.parametrize("solve", [door.solve, cone])
def test_tolerances_are_positive_numbers_or_left_out(solve):
    X = cp.Variable((2, 2), PSD=True)
    problem = cp.Problem(cp.Maximize(X[0, 1]), [cp.diag(X) == 1])
    solve(problem, gap=None)
    assert problem.status == "optimal"
    for bad in ("a", -1.0):
        with pytest.raises(cg.ProblemError, match=r"gap is .*: it must be a positive number"):
            solve(problem, gap=bad)
