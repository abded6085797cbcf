"""What the doors for CVXPY say of points that miss their cones, and of infinite limits."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest

from condgrad import ProblemError
from condgrad.run.result import Status
from condgrad.sdp import SDP

cp = pytest.importorskip("cvxpy")
door = pytest.importorskip("condgrad.cvxpy")

from condgrad.cvxpy._recognise import recognise  # noqa: E402
from condgrad.cvxpy._write import blocks_of  # noqa: E402


@pytest.mark.parametrize("scale", [1.0, 1e-12])
def test_conic_door_meets_its_cones(scale):
    """Value and bound agree early here, while the multipliers are far off."""
    x = cp.Variable(2)
    rows = [scale * (x[0] + x[1]) == scale, x >= 0, x <= 5]
    problem = cp.Problem(cp.Minimize(x[0] - x[1]), rows)
    assert problem.solve(solver=door.CONDGRAD) == pytest.approx(-1, abs=1e-2)
    assert problem.status == "optimal"
    assert max(np.max(row.violation()) for row in rows) <= 1e-2


@pytest.mark.parametrize("status", ["CONVERGED", "INFEASIBLE", "UNBOUNDED"])
@pytest.mark.parametrize("seed", range(5))
def test_conic_door_believes_no_run(monkeypatch, status, seed):
    """Runs that return nonsense and call it an answer: nothing untrue is said of the problem."""
    solve, rng = SDP.solve, np.random.default_rng(seed)

    def lies(sdp, **options):
        solution = solve(sdp, **{**options, "max_iter": 1})
        W = [rng.random(b.shape) if b.ndim == 1 else 9 * b for b in blocks_of(solution.W)]
        y = rng.normal(size=solution.y.size)
        return replace(solution, W=W, y=y, status=Status[status], value=1.0, bound=1.0)

    monkeypatch.setattr(SDP, "solve", lies)
    x = cp.Variable(2)
    rows = [x[0] + x[1] == 1, x >= 0, x <= 5, cp.bmat([[2, x[0]], [x[0], 2]]) >> 0]
    problem = cp.Problem(cp.Minimize(x[0] - x[1]), rows)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        problem.solve(solver=door.CONDGRAD, max_iter=2000)
    assert problem.status in ("optimal", "user_limit")
    assert problem.solver_stats.extra_stats.bound <= -1 + 1e-9
    if problem.status == "optimal":
        assert problem.value == pytest.approx(-1, abs=1e-2)


def test_infinite_limits_say_nothing():
    x = cp.Variable(2)
    rows = [x >= np.array([-np.inf, 0]), cp.sum(x) >= 1, x <= 5]
    problem = cp.Problem(cp.Minimize(x @ np.array([1.0, 2.0])), rows)
    assert door.solve(problem) == pytest.approx(1, abs=1e-2)
    assert problem.status == "optimal"


# the direct door


@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e9])
def test_rows_without_variables_are_judged_by_their_terms(scale):
    """0.1 + 0.2 ≤ 0.3 is rounding in any unit, 1 ≤ 0 is not."""
    x = cp.Variable(nonneg=True)
    tenths = [scale * cp.Constant(t) for t in (0.1, 0.2, 0.3)]
    noise = (x + tenths[0]) + tenths[1] - x - tenths[2]
    for row in (noise <= 0, noise == 0):
        problem = cp.Problem(cp.Minimize(x), [row, x >= 1, x <= 2])
        assert door.solve(problem) == pytest.approx(1, abs=1e-2)
        assert problem.status == "optimal"
    for row in (x - x + tenths[0] <= 0, x - x == tenths[1]):
        problem = cp.Problem(cp.Minimize(x), [row, x >= 1, x <= 2])
        assert door.solve(problem) == np.inf
        assert problem.status == "infeasible"


def test_nothing_is_optimal_without_a_bound(monkeypatch):
    solve = SDP.solve

    def unproved(sdp, **options):
        return replace(solve(sdp, **options), status=Status.CONVERGED, bound=-np.inf)

    monkeypatch.setattr(SDP, "solve", unproved)
    X = cp.Variable((2, 2), PSD=True)
    problem = cp.Problem(cp.Minimize(X[0, 1]), [cp.diag(X) == 1])
    door.solve(problem, backend="condgrad")
    assert problem.status == "user_limit"
    certificate = problem.solver_stats.extra_stats
    assert certificate.bound == -np.inf
    assert certificate.gap == np.inf


@pytest.mark.parametrize(
    "name", ["MAX_ITER", "INACCURATE", "STOPPED", "OUT_OF_MEMORY", "UNDECIDED"]
)
def test_every_other_status_is_a_limit(monkeypatch, name):
    if name not in Status.__members__:
        pytest.skip(f"this version has no status {name}")
    solve = SDP.solve
    monkeypatch.setattr(
        SDP, "solve", lambda sdp, **o: replace(solve(sdp, **o), status=Status[name])
    )
    X = cp.Variable((2, 2), PSD=True)
    problem = cp.Problem(cp.Minimize(X[0, 1]), [cp.diag(X) == 1])
    door.solve(problem, backend="condgrad")
    assert problem.status == "user_limit"


def zero_sized():
    x, nothing = cp.Variable(3, nonneg=True), cp.Variable((2, 0))
    rows = [cp.sum(x) == 1, nothing >= 0, x[:0] <= 5]
    return cp.Problem(cp.Minimize(x[0] + 2 * x[1] + 3 * x[2] + cp.sum(nothing)), rows), 1.0


def zero_quadratic():
    x = cp.Variable(3, nonneg=True)
    return cp.Problem(cp.Minimize(cp.quad_form(x, np.zeros((3, 3))) + x[0]), [cp.sum(x) == 1]), 0.0


def first_power():
    x = cp.Variable(2, pos=True)
    return cp.Problem(cp.Maximize(cp.sum(cp.power(x, 1))), [x[0] + 2 * x[1] <= 1]), 1.0


def equations_only():
    x = cp.Variable(2, nonneg=True)
    return cp.Problem(cp.Minimize(x[0]), [x[0] + x[1] == 3, x[0] - x[1] == 1]), 2.0


@pytest.mark.parametrize("case", [zero_sized, zero_quadratic, first_power, equations_only])
def test_corners_of_cvxpy(case):
    problem, value = case()
    assert door.solve(problem) == pytest.approx(value, abs=1e-2)
    assert problem.status == "optimal"
    for constraint in problem.constraints:
        assert np.shape(constraint.dual_value) == constraint.shape
    assert all(v.value.shape == v.shape for v in problem.variables())


def affine_by_chance():
    x, s = cp.Variable(3, nonneg=True), cp.Variable(nonneg=True)
    yield cp.geo_mean(x, [1, 0, 0]), "geomean that happens to be affine"
    yield cp.perspective(cp.sum(x), s), "perspective that happens to be affine"
    yield cp.real(1j * (x[0] * 1j)), "has complex values"


@pytest.mark.parametrize(("goal", "sentence"), list(affine_by_chance()))
def test_what_is_affine_by_chance_is_refused(goal, sentence):
    variables = goal.variables()
    rows = [cp.sum(v) <= 1 for v in variables]
    with pytest.raises(ProblemError, match=sentence):
        recognise(cp.Problem(cp.Maximize(goal), rows))


def test_a_jacobian_that_is_wrong_is_not_used(monkeypatch):
    """CVXPY's gradients of affine atoms are checked, and replaced by differences."""
    x = cp.Variable(3, nonneg=True)
    goal = cp.cumsum(x) @ np.ones(3)
    monkeypatch.setattr(cp.cumsum, "_grad", lambda self, values: [np.eye(3)])
    assert door.solve(cp.Problem(cp.Minimize(goal), [cp.sum(x) == 1])) == pytest.approx(1, abs=1e-2)
