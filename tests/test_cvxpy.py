"""CVXPY problems through condgrad, against Clarabel."""

import re
import sys

import cvxpy as cp
import numpy as np
import pytest
from scipy import sparse

import condgrad as cg
import condgrad.cvxpy as door
from condgrad.cvxpy._affine import Coefficients
from condgrad.cvxpy._cone_program import kernel
from condgrad.cvxpy._objective import ShiftedLogistic
from condgrad.cvxpy._recognise import recognise


def symmetric(n, seed=0):
    A = np.random.default_rng(seed).normal(size=(n, n))
    return A + A.T


def reference(problem):
    """Value and dual values by Clarabel."""
    problem.solve(solver=cp.CLARABEL)
    return problem.value, [np.array(c.dual_value) for c in problem.constraints]


def compare(problem, rel=2e-3, duals=None, **options):
    """Solve, and compare the value, the bound and, if asked to, the duals with Clarabel's."""
    value, prices = reference(problem)
    own = {"backend": "condgrad", "gap": 1e-3, "feasibility": 1e-4, "max_iter": 20_000}
    found = door.solve(problem, **{**own, **options})
    assert problem.status == "optimal"
    assert found == problem.value == pytest.approx(value, rel=rel)
    certificate = problem.solver_stats.extra_stats
    side = -1.0 if isinstance(problem.objective, cp.Maximize) else 1.0
    assert side * certificate.bound <= side * value + 1e-6 * abs(value)
    assert certificate.gap <= options.get("gap", 1e-3)
    for c in problem.constraints:
        assert np.max(c.violation()) <= 0.02
    if duals is not None:
        for c, price in zip(problem.constraints, prices, strict=True):
            assert np.shape(c.dual_value) == price.shape
            assert np.abs(c.dual_value - price).max() <= duals * (1 + np.abs(price).max())
    return certificate


# CVXPY's examples


def test_max_cut():
    rng = np.random.default_rng(1)
    weights = np.triu(rng.random((30, 30)) < 0.3, 1) * 1.0
    weights += weights.T
    L = np.diag(weights.sum(axis=0)) - weights
    X = cp.Variable((30, 30), PSD=True)
    problem = cp.Problem(cp.Maximize(cp.trace(L @ X) / 4), [cp.diag(X) == 1])
    certificate = compare(problem, duals=5e-3)
    assert certificate.solution.trace_from == "rows"
    assert problem.solver_stats.solver_name == "CONDGRAD"


def test_minimum_trace_completion():
    rng = np.random.default_rng(0)
    u = rng.normal(size=8)
    M = np.outer(u, u)
    i, j = np.nonzero(np.triu(rng.random((8, 8)) < 0.6))
    X = cp.Variable((8, 8), symmetric=True)
    compare(cp.Problem(cp.Minimize(cp.trace(X)), [X >> 0, X[i, j] == M[i, j]]))
    assert X.value[i, j] == pytest.approx(M[i, j], abs=1e-2)
    assert np.linalg.eigvalsh(X.value)[0] >= -1e-9


def test_k_means():
    rng = np.random.default_rng(0)
    centres = np.repeat([[0, 0], [6, 0], [0, 6]], 3, axis=0)
    points = centres + rng.normal(size=(9, 2))
    D = ((points[:, None] - points[None]) ** 2).sum(axis=-1)
    X = cp.Variable((9, 9), PSD=True)
    rows = [X @ np.ones(9) == 1, cp.trace(X) == 3, X >= 0]
    problem = cp.Problem(cp.Minimize(cp.sum(cp.multiply(D, X)) / 2), rows)
    compare(problem, rel=2e-2, gap=1e-2)
    assert np.array_equal(X.value.argmax(axis=1) // 3, np.repeat([0, 1, 2], 3))


def test_lovasz_theta_of_the_pentagon():
    X = cp.Variable((5, 5), PSD=True)
    edges = [X[i, (i + 1) % 5] == 0 for i in range(5)]
    problem = cp.Problem(cp.Maximize(cp.sum(X)), [cp.trace(X) == 1, *edges])
    certificate = compare(problem, duals=2e-3)
    assert certificate.bound >= np.sqrt(5) - 1e-9
    assert problem.value == pytest.approx(np.sqrt(5), rel=1e-3)


# kinds of problems


def test_two_semidefinite_and_a_non_negative_block():
    A, B = cp.Variable((4, 4), PSD=True), cp.Variable((3, 3), PSD=True)
    x = cp.Variable(4, nonneg=True)
    cost = cp.trace(symmetric(4) @ A) + cp.trace(symmetric(3) @ B) + np.arange(4) @ x
    rows = [
        cp.trace(A) + cp.sum(x) == 3,
        cp.trace(B) <= 1,
        A[0, 1] + B[0, 1] >= 0.2,
        x[0] + A[2, 2] >= 1,
    ]
    compare(cp.Problem(cp.Minimize(cost + 5), rows), duals=1e-2)
    assert min(A.value.shape, B.value.shape, x.value.shape) == (3, 3)


def test_matrix_inequalities_in_both_directions_maximised():
    X = cp.Variable((4, 4), symmetric=True)
    problem = cp.Problem(cp.Maximize(cp.trace(symmetric(4) @ X)), [X >> 0, np.eye(4) >> X])
    compare(problem, duals=1e-2)
    assert recognise(problem).space.blocks == (4, 4)


def test_a_negative_semidefinite_variable_with_a_shift():
    X = cp.Variable((4, 4), symmetric=True)
    problem = cp.Problem(
        cp.Minimize(cp.trace(symmetric(4) @ X)), [cp.trace(X) >= -2, X << np.eye(4)]
    )
    compare(problem, duals=1e-2)
    assert recognise(problem).space.blocks == (4,)


def test_sum_of_squares():
    X = cp.Variable((4, 4), PSD=True)
    problem = cp.Problem(cp.Minimize(cp.sum_squares(X - symmetric(4))), [cp.diag(X) == 1])
    certificate = compare(problem)
    assert certificate.value == pytest.approx(np.square(X.value - symmetric(4)).sum())


def test_smooth_objective_with_duals():
    X, x = cp.Variable((3, 3), PSD=True), cp.Variable(2)
    fit = cp.norm(X - symmetric(3), "fro") ** 2 + cp.sum(cp.logistic(x - 1))
    cost = fit + 2 * cp.sum(cp.huber(x - np.array([3.0, 0.4]), 0.5)) - X[0, 2]
    problem = cp.Problem(cp.Minimize(cost), [x >= 0.25, X[0, 1] == 1, x[0] + X[1, 1] <= 2])
    certificate = compare(problem, duals=2e-2, gap=1e-4)
    assert certificate.value == pytest.approx(cost.value)
    assert np.all(x.value >= 0.25 - 1e-9)


def test_a_concave_objective_is_maximised():
    X = cp.Variable((3, 3), PSD=True)
    weights = np.arange(9.0).reshape(3, 3)
    cost = cp.trace(symmetric(3) @ X) - cp.sum(cp.multiply(weights, cp.square(X))) / 5
    certificate = compare(cp.Problem(cp.Maximize(cost), [cp.trace(X) <= 2]), gap=1e-3)
    assert certificate.bound >= certificate.value - 1e-3 * abs(certificate.value)
    assert np.trace(X.value) <= 2 + 1e-2


def test_parameters_are_read_anew():
    X, level = cp.Variable((3, 3), PSD=True), cp.Parameter(value=1.0)
    problem = cp.Problem(cp.Maximize(X[0, 1]), [cp.diag(X) == level])
    assert door.solve(problem, gap=1e-4) == pytest.approx(1.0, rel=1e-3)
    level.value = 3.0
    assert door.solve(problem, gap=1e-4) == pytest.approx(3.0, rel=1e-3)


def test_a_free_variable_takes_a_trace_bound():
    X, t = cp.Variable((3, 3), PSD=True), cp.Variable()
    problem = cp.Problem(cp.Minimize(t), [cp.trace(X) == 1, t >= cp.trace(symmetric(3) @ X) - 1])
    compare(problem, trace_bound=20.0)
    with pytest.raises(cg.ProblemError, match="no sign and no bounds"):
        recognise(problem)


# the form against the expressions


def str_of(expr):
    return f"{type(expr).__name__}{expr.shape}"


def forms():
    rng = np.random.default_rng(0)
    X, Y = cp.Variable((4, 4), symmetric=True), cp.Variable((2, 3))
    z, v = cp.Variable(), cp.Variable(4)
    R = rng.normal(size=(4, 4))
    column = cp.reshape(v, (4, 1), order="F")
    corner = cp.reshape(z, (1, 1), order="F")
    yield from (X, X.T, X[1, 2], X[1], X[1:3, ::2], X[np.array([0, 2]), np.array([1, 3])])
    yield from (cp.diag(X) - 1, cp.diag(v) + X, cp.trace(X), cp.trace(R @ X), cp.sum(X, axis=0))
    yield from (R[:2] @ X, X @ R[:, :2], X @ R[0], R[0] @ X, v @ R, R[0] @ v, X / 2 + 3, v + z)
    yield from (cp.bmat([[X, column], [column.T, corner]]), cp.hstack([v, z]), z * R, cp.mean(X))
    yield from (cp.vec(Y, order="C"), cp.upper_tri(X), cp.kron(R[:2, :2], X), cp.cumsum(v))
    yield from (cp.multiply(sparse.csr_array(R), X), sparse.csr_array(R) @ v, R[:2, :2] @ Y @ R[:3])


@pytest.mark.parametrize("expr", list(forms()), ids=str_of)
def test_coefficients_are_those_of_the_expression(expr):
    rng = np.random.default_rng(1)
    variables = expr.variables()
    for v in variables:
        v.value = symmetric(4, 2) if v.shape == (4, 4) else rng.normal(size=v.shape)
    A, b, size = Coefficients(variables)(expr)
    x = np.concatenate([np.ravel(v.value, order="F") for v in variables])
    value = expr.value.toarray() if sparse.issparse(expr.value) else expr.value
    np.testing.assert_allclose(A @ x + b, np.ravel(value, order="F"), atol=1e-12)
    assert size is None or np.all(size >= np.abs(b) * (1 - 1e-12))


def test_the_form_is_the_problem_at_any_point():
    X = cp.Variable((3, 3), symmetric=True)
    x = cp.Variable((2, 2), bounds=[-1, np.array([[2, np.inf], [3, 4]])])
    N = cp.Variable((2, 2), NSD=True)
    fit = cp.sum_squares(X[0] - 1) + cp.sum(cp.huber(x, 0.3)) + cp.logistic(N[0, 1] + x[0, 0])
    problem = cp.Problem(
        cp.Minimize(cp.trace(symmetric(3) @ X) + fit + cp.sum(N) + 7),
        [X >> np.eye(3), X[0, :2] + x[1] == N[1], x <= X[:2, :2]],
    )
    form = recognise(problem)
    assert form.space.blocks == (3, -4, 2)
    rng = np.random.default_rng(0)
    blocks = [rng.random((3, 3)), rng.random(4), rng.random((2, 2))]
    u = np.concatenate([(B + B.T).ravel() if B.ndim == 2 else B for B in blocks])
    X.value, x.value = u[:9].reshape(3, 3) + np.eye(3), u[9:13].reshape(2, 2, order="F") - 1
    N.save_value(-u[13:].reshape(2, 2))
    losses = sum(w * h.value(A @ u) for A, h, w in form.losses)
    assert form.cost @ u + losses + form.constant == pytest.approx(problem.objective.value)
    equal, at_most = problem.constraints[1:]
    np.testing.assert_allclose(form.equal.A @ u + form.equal.b, equal.expr.value)
    own = np.ravel(at_most.expr.value, order="F")
    limits = np.ravel(x.value, order="F")[[0, 1, 3]] - [2, 3, 4]
    np.testing.assert_allclose(form.at_most.A @ u + form.at_most.b, [*own, *limits])


def test_equal_rows_are_kept_once_and_share_their_price():
    X = cp.Variable((3, 3), PSD=True)
    problem = cp.Problem(cp.Minimize(cp.trace(symmetric(3) @ X)), [cp.trace(X) == 1, X >= 0])
    form = recognise(problem)
    assert form.at_most.b.size == 6
    shared = form.at_most.spread(np.arange(1.0, 7.0))[problem.constraints[1].id]
    np.testing.assert_allclose(shared.reshape(3, 3), shared.reshape(3, 3).T)
    assert shared.sum() == pytest.approx(21.0)


def test_shifted_logistic_is_the_logistic_of_a_shift():
    rng = np.random.default_rng(0)
    c, z = rng.normal(size=(2, 5))
    h = ShiftedLogistic(c)
    assert h.value(z) == pytest.approx(np.logaddexp(0, z + c).sum())
    slope = h.derivative(z)
    np.testing.assert_allclose(slope, 1 / (1 + np.exp(-z - c)))
    u = h.prox(z, 0.7)
    np.testing.assert_allclose(u + 0.7 * h.derivative(u), z)
    assert h.value(z) + h.conjugate(h.into_dual(slope)) == pytest.approx(slope @ z)


# statuses


def test_infeasible():
    X = cp.Variable((3, 3), PSD=True)
    problem = cp.Problem(cp.Maximize(X[0, 1]), [cp.trace(X) == 1, X[0, 0] >= 2])
    assert door.solve(problem, max_iter=5000) == -np.inf
    assert problem.status == "infeasible"
    assert X.value is None


def test_rows_without_variables():
    X = cp.Variable((3, 3), PSD=True)
    problem = cp.Problem(cp.Minimize(cp.trace(X)), [X[0, 1] - X[1, 0] == 2])
    assert door.solve(problem) == np.inf
    assert problem.status == "infeasible"


def test_unbounded():
    X = cp.Variable((3, 3), PSD=True)
    problem = cp.Problem(cp.Maximize(cp.trace(X)), [X[0, 1] == 2])
    assert door.solve(problem, max_iter=5000) == np.inf
    assert problem.status.startswith("unbounded")


def test_a_limit_leaves_values_and_says_so():
    X = cp.Variable((20, 20), PSD=True)
    problem = cp.Problem(cp.Maximize(cp.trace(symmetric(20) @ X)), [cp.diag(X) == 1])
    door.solve(problem, gap=1e-9, feasibility=1e-9, max_iter=5, backend="condgrad")
    assert problem.status == "user_limit"
    assert problem.solver_stats.extra_stats.bound >= reference(problem)[0]


# the other doors


def test_registered_as_a_solve_method(capsys):
    X = cp.Variable((3, 3), PSD=True)
    problem = cp.Problem(cp.Maximize(X[0, 1]), [cp.diag(X) == 1])
    assert problem.solve(method="CONDGRAD", gap=1e-4, verbose=True) == pytest.approx(1, rel=1e-3)
    assert "optimal" in capsys.readouterr().out


def cone_problems():
    C = symmetric(4)
    X, x, t = cp.Variable((4, 4), PSD=True), cp.Variable(3), cp.Variable()
    pencil = sum(x[i] * symmetric(4, i) for i in range(3)) + 6 * np.eye(4)
    yield cp.Problem(cp.Minimize(np.arange(1, 4) @ x), [x <= 1, x >= -1, pencil >> 0])
    yield cp.Problem(cp.Minimize(t + 2), [t * np.eye(4) - C >> 0])
    yield cp.Problem(cp.Maximize(cp.trace(C @ X)), [cp.diag(X) == 1, X[0, 1] <= 0.1])
    yield cp.Problem(cp.Minimize(cp.lambda_max(pencil) + cp.norm1(x - 1)), [])


@pytest.mark.parametrize(
    "problem", list(cone_problems()), ids=["pencil", "eigenvalue", "cut", "atoms"]
)
def test_as_a_solver_object(problem):
    value, prices = reference(problem)
    problem.solve(solver=door.CONDGRAD, gap=1e-4, feasibility=1e-4, max_iter=20_000)
    assert problem.status == "optimal"
    assert problem.value == pytest.approx(value, rel=1e-2)
    for c, price in zip(problem.constraints, prices, strict=True):
        assert np.abs(c.dual_value - price).max() <= 1e-2 * (1 + np.abs(price).max())


def test_solver_object_finds_contradicting_equations():
    x = cp.Variable(3)
    rows = [cp.sum(x) == 1, cp.sum(x) == 2, cp.diag(x) >> 0]
    problem = cp.Problem(cp.Minimize(x[0]), rows)
    problem.solve(solver=door.CONDGRAD)
    assert problem.status == "infeasible"


def test_kernel():
    rng = np.random.default_rng(0)
    G = rng.normal(size=(3, 6))
    G = np.vstack([G, G[0] + G[1]])
    found = kernel(G, G @ np.ones(6))
    assert found.N.shape == (6, 3)
    np.testing.assert_allclose(G @ found.start, G @ np.ones(6))
    np.testing.assert_allclose(G @ found.N.toarray(), 0, atol=1e-12)
    assert np.abs(found.missed).max() < 1e-12
    assert np.abs(kernel(G, np.array([0.0, 0.0, 0.0, 1.0])).missed).max() > 0.1


# refusals


def refused():
    X, x = cp.Variable((3, 3), PSD=True), cp.Variable(3, nonneg=True)
    S, free = cp.Variable((3, 3)), cp.Variable((3, 3), symmetric=True)
    trace = [cp.trace(X) == 1]
    whole = cp.Variable(2, integer=True)
    yield cp.Minimize(cp.norm1(X)), trace, "contains norm1"
    yield cp.Minimize(cp.lambda_max(X)), trace, "contains lambda_max"
    yield (
        cp.Minimize(cp.square(cp.square(x[0]))),
        trace,
        "power of an expression that is not affine",
    )
    yield cp.Maximize(cp.sum(cp.log(x)) + X[0, 0]), trace, "contains log"
    yield cp.Minimize(cp.square(cp.Variable() - 1) + X[0, 0]), trace, "no sign and no bounds"
    yield cp.Minimize(X[0, 0]), [cp.norm(x) <= 1], "is not affine"
    yield cp.Minimize(X[0, 0]), [cp.SOC(x[0], x[1:])], "is a SOC"
    yield cp.Minimize(cp.sum(S)), [S >> 0], "not declared symmetric"
    yield cp.Minimize(cp.sum(free)), [free >= 0], "no sign and no bounds"
    yield cp.Minimize(cp.sum(whole)), [whole >= 0], "is integer.*mixed-integer solver"
    yield cp.Minimize(cp.trace(cp.Variable((2, 2), diag=True))), [], "is diag.*vector variable"
    yield cp.Minimize(cp.real(cp.Variable(complex=True))), [], "is complex"
    yield cp.Maximize(cp.square(x[0])), trace, "disciplined convex"
    yield cp.Minimize(cp.Parameter(name="level") * X[0, 0]), trace, "parameter level has no value"
    yield cp.Minimize(1), [], "no variables"
    yield cp.Minimize(X[0, 1]), [*trace, X[0, 0] <= np.nan], "nan contains NaN"
    yield cp.Minimize(X[0, 1]), [*trace, X << np.full((3, 3), np.nan)], "contains NaN"
    yield cp.Minimize(X[0, 1]), [*trace, X[0, 0] == np.inf], "inf contains NaN or infinity"
    yield cp.Minimize(cp.sum(cp.logistic(X - np.nan))), trace, "objective contains NaN"


@pytest.mark.parametrize(
    ("objective", "rows", "sentence"),
    list(refused()),
    ids=lambda p: p if isinstance(p, str) else "",
)
def test_refusals(objective, rows, sentence):
    with pytest.raises(cg.ProblemError, match=sentence):
        recognise(cp.Problem(objective, rows))


def test_bad_arguments():
    X = cp.Variable((2, 2), PSD=True)
    problem = cp.Problem(cp.Minimize(X[0, 1]), [cp.diag(X) == 1])
    for solve in (door.solve, lambda p, **o: p.solve(solver=door.CONDGRAD, **o)):
        with pytest.raises(cg.ProblemError, match="eps is no option"):
            solve(problem, eps=1)
    with pytest.raises(cg.ProblemError, match="problem is a int: pass a cvxpy"):
        door.solve(3)
    free = cp.Problem(cp.Minimize(cp.trace(X)), [X >> 0])
    assert abs(door.solve(free, trace_bound=1.0)) < 1e-3
    with pytest.raises(cg.ProblemError, match="backend is 'scs': it must be \"condgrad\" or"):
        door.solve(problem, backend="scs")


def test_without_cvxpy(monkeypatch):
    monkeypatch.setitem(sys.modules, "cvxpy", None)
    monkeypatch.delitem(sys.modules, "condgrad.cvxpy")
    with pytest.raises(ImportError, match=re.escape("install condgrad[cvxpy]")):
        import condgrad.cvxpy  # noqa: F401
