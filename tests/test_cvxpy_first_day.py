"""What a new user of the CVXPY door trips over: limits, signs, names."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from condgrad import _deadline
from condgrad.errors import ProblemError
from condgrad.sdp import SDP

cp = pytest.importorskip("cvxpy")
door = pytest.importorskip("condgrad.cvxpy")
programs = pytest.importorskip("condgrad.cvxpy._cone_program")
interior = pytest.importorskip("condgrad.cvxpy._interior")

pytestmark = pytest.mark.filterwarnings("ignore:Solution may be")


def nearest(n, norm=lambda E: cp.norm(E, "fro")):
    """The nearest correlation matrix."""
    T = np.random.default_rng(0).standard_normal((n, n))
    X = cp.Variable((n, n), PSD=True)
    return cp.Problem(cp.Minimize(norm(X - T - T.T)), [cp.diag(X) == 1])


@pytest.fixture
def slow(monkeypatch, clock):
    """Reading a cone program takes half a minute."""

    def reading(*arguments, real=programs.cone_blocks):
        clock.now += 30.0
        return real(*arguments)

    monkeypatch.setattr(programs, "cone_blocks", reading)


def test_a_limit_that_is_over_before_the_first_run(slow):
    problem = nearest(6)
    value = door.solve(problem, backend="condgrad", max_seconds=10)
    found = problem.solver_stats.extra_stats
    assert problem.status == "user_limit"
    assert value == problem.value == found.value == pytest.approx(problem.objective.value)
    assert found.bound == -np.inf
    assert not _deadline.is_set()


@pytest.mark.parametrize("goal", [cp.Minimize, cp.Maximize])
def test_a_limit_that_is_over_before_the_first_run_of_the_solver_object(slow, goal):
    x = cp.Variable(9)
    sign = 1 if goal is cp.Minimize else -1
    problem = cp.Problem(goal(sign * cp.norm(x - 1) + 3), [cp.sum(x) == 2])
    problem.solve(solver=door.CONDGRAD, max_seconds=10)
    assert problem.status == "user_limit"
    assert problem.solver_stats.extra_stats.bound == -sign * np.inf
    assert np.isfinite(problem.value)


def test_what_compiling_took_counts(monkeypatch, clock):
    """The limit is one of the whole call."""
    limits = []

    def late(program, cost, tolerance, steps, limit, real=interior.clarabel):
        limits.append(limit)
        return real(program, cost, tolerance, steps, limit)

    def reading(*arguments, real=programs.cone_blocks):
        clock.now += 6.0
        return real(*arguments)

    monkeypatch.setattr("condgrad.cvxpy._interior.clarabel", late)
    monkeypatch.setattr(programs, "cone_blocks", reading)
    problem = nearest(4)
    door.solve(problem, max_seconds=10)
    assert limits[0] < 4.01


def test_long_cones_are_read_at_once(monkeypatch):
    """As many pieces as there are cones, not as the matrix of a cone has numbers."""
    pieces = []

    def vstack(blocks, *more, real=programs.sparse.vstack, **how):
        pieces.append(len(blocks))
        return real(blocks, *more, **how)

    monkeypatch.setattr(programs.sparse, "vstack", vstack)
    d = 40
    lift, blocks, _ = programs.cone_blocks(np.zeros(0, bool), [d], [])
    cone = np.random.default_rng(0).standard_normal(d)
    arrow = cone[0] * np.eye(d)
    arrow[0, 1:] = arrow[1:, 0] = cone[1:]
    np.testing.assert_array_equal((lift @ cone).reshape(d, d), arrow)
    assert blocks == [d]
    assert max(pieces) <= 4


@pytest.mark.parametrize("backend", ["condgrad", "interior-point"])
def test_the_line_at_the_end_has_the_users_sign(capsys, backend):
    X = cp.Variable((3, 3), PSD=True)
    problem = cp.Problem(cp.Maximize(cp.sum(X)), [cp.diag(X) == 1])
    value = door.solve(problem, backend=backend, verbose=True)
    found, line = problem.solver_stats.extra_stats, capsys.readouterr().out
    assert value == pytest.approx(9, rel=1e-2)
    assert found.bound >= 9
    assert str(found) in line
    assert found.value > 0
    assert "-" not in line.split("gap")[0]
    assert "lower" not in line


def test_the_value_at_a_limit_is_the_one_that_is_seen():
    problem = nearest(6)
    door.solve(problem, backend="condgrad", max_iter=3)
    found = problem.solver_stats.extra_stats
    assert problem.status == "user_limit"
    assert found.value == problem.value
    diagonal = np.abs(np.diag(problem.variables()[0].value) - 1)
    assert found.infeasibility >= diagonal.max()


@pytest.mark.parametrize("backend", ["condgrad", "interior-point"])
def test_infeasibility_in_the_users_units(backend):
    x = cp.Variable(2, nonneg=True)
    problem = cp.Problem(cp.Minimize(cp.sum(x)), [1e3 * x[0] >= 1e3, x[1] == 2])
    door.solve(problem, backend=backend)
    found = problem.solver_stats.extra_stats
    assert problem.status == "optimal"
    worst = max(float(np.max(c.violation())) for c in problem.constraints)
    assert found.infeasibility == pytest.approx(worst, rel=0.5, abs=1e-6)


@pytest.mark.parametrize("solver", ["Clarabel", "SCS"])
def test_optimal_is_not_said_without_a_proof(monkeypatch, solver):
    monkeypatch.setattr("condgrad.cvxpy._dual_bound.proved", lambda *_: -np.inf)
    monkeypatch.setattr("condgrad.cvxpy._cone_proof.SMALL", 0)
    monkeypatch.setattr("condgrad.cvxpy._interior.MAX_UNKNOWNS", 0)
    problem = nearest(4 if solver == "Clarabel" else 20)
    truth = problem.solve(solver=cp.CLARABEL)
    with pytest.warns(UserWarning, match=f"optimal_inaccurate.*{solver}"):
        assert door.solve(problem) == pytest.approx(truth, rel=1e-5)
    found = problem.solver_stats.extra_stats
    assert problem.status == "optimal_inaccurate"
    assert found.gap == np.inf
    assert not found.proven


@pytest.mark.filterwarnings("ignore:condgrad.cvxpy. optimal_inaccurate")
def test_optimal_is_not_said_of_numbers_without_end(monkeypatch):
    """X_01 has no least value, and Clarabel may call one of −3·10⁷ solved."""
    monkeypatch.setattr("condgrad.cvxpy._cone_proof.SMALL", 0)
    X = cp.Variable((24, 24), PSD=True)
    problem = cp.Problem(cp.Minimize(X[0, 1]), [X[0, 0] == 1])
    door.solve(problem)
    assert problem.status != "optimal"


def test_clarabel_with_squares_does_not_warn_of_what_the_status_says(monkeypatch):
    def solving(problem, *args, real=cp.Problem.solve, **how):
        warnings.warn("Solution may be inaccurate. Try another solver", stacklevel=1)
        return real(problem, *args, **how)

    monkeypatch.setattr("condgrad.cvxpy._interior.Interior._read", lambda *_: None)
    monkeypatch.setattr(cp.Problem, "solve", solving)
    problem = nearest(3)
    with pytest.warns(UserWarning, match="optimal_inaccurate") as told:
        door.solve(problem)
    assert len(told) == 1
    assert problem.status == "optimal_inaccurate"


def test_clarabel_with_squares_is_not_begun_after_the_limit(monkeypatch, clock):
    def off(*_):
        clock.now += 100.0
        return True

    def solving(*_, **how):
        raise AssertionError

    monkeypatch.setattr("condgrad.cvxpy._solve._off", off)
    monkeypatch.setattr(cp.Problem, "solve", solving)
    problem = nearest(3)
    value = door.solve(problem, max_seconds=10)
    assert problem.status == "user_limit"
    assert problem.solver_stats.extra_stats.value == value == problem.value
    assert problem.solver_stats.extra_stats.bound <= value + 1e-6


def test_an_interrupt_that_scs_heard_ends_the_call(monkeypatch):
    """Else Clarabel would begin anew."""
    scs = pytest.importorskip("scs")

    class Interrupted:
        def __init__(self, data, *_, **how):
            self.sizes = data["A"].shape

        def solve(self):
            rows, columns = self.sizes
            return {"x": np.zeros(columns), "y": np.zeros(rows), "info": {"status": "interrupted"}}

    monkeypatch.setattr(scs, "SCS", Interrupted)
    with pytest.raises(KeyboardInterrupt):
        door.solve(nearest(16))


@pytest.mark.parametrize("option", ["max_seconds", "max_iter"])
def test_limits_below_zero_are_refused(option):
    with pytest.raises(ProblemError, match=f"{option} is -3: it must be a number of at least 0"):
        door.solve(nearest(3), **{option: -3})
    with pytest.raises(ProblemError, match=f"{option} is -3"):
        SDP(np.eye(2)).subject_to(np.eye(2), "==", 1.0).solve(**{option: -3})


def test_a_wrong_method_names_the_call():
    with pytest.raises(ProblemError, match=r"method is 'sag-cgal'.* condgrad\.sag_cgal\(\)"):
        door.solve(nearest(3, cp.sum_squares), method="sag-cgal")


def test_the_solver_has_a_name():
    x = cp.Variable(3, nonneg=True)
    problem = cp.Problem(cp.Minimize(cp.sum(x)), [x[0] == 2])
    assert problem.solve(solver="CONDGRAD") == pytest.approx(2, rel=1e-3)
    assert problem.solver_stats.solver_name == "CONDGRAD"
    assert "CONDGRAD" not in str(cp.Problem(cp.Minimize(x[0])).get_problem_data(None)[1].solver)


def test_the_warning_is_of_the_callers_line(monkeypatch):
    monkeypatch.setattr("condgrad.cvxpy._dual_bound.proved", lambda *_: -np.inf)
    monkeypatch.setattr("condgrad.cvxpy._cone_proof.SMALL", 0)
    with pytest.warns(UserWarning, match="optimal_inaccurate") as told:
        door.solve(nearest(4))
    assert told[0].filename == __file__
