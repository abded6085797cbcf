"""The cone door where rows are said twice, or in other units: X >= const over a matrix, copies."""

from __future__ import annotations

import numpy as np
import pytest

pytestmark = pytest.mark.slow

cp = pytest.importorskip("cvxpy")
door = pytest.importorskip("condgrad.cvxpy")

CHUNK = 10
"""Random cases of one test."""
LIMIT = {"solver": door.CONDGRAD, "max_iter": 5000}


def check(problem, best):
    """An optimum within the gap, and a bound that it does not pass."""
    certificate = problem.solver_stats.extra_stats
    side = -1.0 if isinstance(problem.objective, cp.Maximize) else 1.0
    size = 1 + abs(best)
    assert problem.status == "optimal"
    assert problem.value == pytest.approx(best, abs=5e-3 * size)
    assert side * certificate.bound <= side * best + 1e-6 * size
    assert max(np.max(c.violation()) for c in problem.constraints) <= 5e-3 * size


def check_multipliers(problem, X):
    """Multipliers whose Lagrangian has no slope at X, with the signs of their constraints.

    That of a semidefinite variable is what is left over, a matrix that is ⪰ 0.
    """
    rest = problem.objective.args[0]
    rest = -rest if isinstance(problem.objective, cp.Maximize) else rest
    for c in problem.constraints:
        value = c.dual_value
        if isinstance(c, cp.constraints.Inequality):
            assert np.min(value) >= -1e-9 * (1 + np.max(np.abs(value)))
            assert float(np.sum(value * np.abs(c.expr.value))) <= 2e-2 * (1 + abs(problem.value))
        rest = rest + cp.sum(cp.multiply(value, c.expr))
    slope = rest.grad[X].toarray().reshape(X.shape, order="F")
    slope = (slope + slope.T) / 2
    low = float(np.linalg.eigvalsh(slope)[0])
    assert low >= -1e-3 * (1 + np.abs(slope).max())


def test_a_theta_number_with_non_negative_entries():
    X = cp.Variable((5, 5), PSD=True)
    rows = [cp.trace(X) == 1, X >= 0, *(X[i, (i + 1) % 5] == 0 for i in range(5))]
    problem = cp.Problem(cp.Maximize(cp.sum(X)), rows)
    problem.solve(**LIMIT)
    check(problem, 5**0.5)
    check_multipliers(problem, X)


@pytest.mark.parametrize("first", range(0, 20, CHUNK))
def test_matrices_with_bounds_on_all_entries(first):
    for seed in range(first, first + CHUNK):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(2, 6))
        X, C = cp.Variable((n, n), PSD=True), rng.normal(size=(n, n))
        rows = [[cp.diag(X) == 1], [cp.trace(X) == 1], [cp.trace(X) <= 2, X[0, 0] >= 0.5]][seed % 3]
        rows += [[X >= -0.1], [X >= 0], [X >= -0.2, X <= 1]][seed // 3 % 3]
        goal = (cp.Minimize, cp.Maximize)[seed % 2](cp.trace((C + C.T) @ X))
        problem = cp.Problem(goal, rows)
        best = problem.solve(solver="CLARABEL")
        problem.solve(**LIMIT)
        check(problem, best)
        check_multipliers(problem, X)


def doubled(rng, rows):
    """Rows A x <= b, some said again: as they are, in other units, or with a larger b."""
    A, b = rows
    again = rng.integers(0, len(b), int(rng.integers(1, 2 * len(b))))
    unit = rng.choice([1.0, 1.0, 3.0, 0.1, 1e-4], again.size)
    wider = rng.choice([0.0, 0.0, 1.0, 1e-9], again.size)
    order = rng.permutation(len(b) + again.size)
    A = np.vstack([A, unit[:, None] * A[again]])[order]
    return A, np.append(b, unit * (b[again] + wider))[order]


@pytest.mark.parametrize("first", range(0, 20, CHUNK))
def test_rows_said_again_in_any_units(first):
    for seed in range(first, first + CHUNK):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(2, 5))
        X, C = cp.Variable((n, n), PSD=True), rng.normal(size=(n, n))
        A = rng.normal(size=(int(rng.integers(1, 5)), n * n))
        A, b = doubled(rng, (A, A @ np.eye(n).ravel() / n + rng.uniform(0, 0.1, len(A))))
        rows = [cp.trace(X) == 1, A @ cp.vec(X, order="C") <= b]
        problem = cp.Problem(cp.Minimize(cp.trace((C + C.T) @ X)), rows)
        best = problem.solve(solver="CLARABEL")
        problem.solve(**LIMIT)
        check(problem, best)
        check_multipliers(problem, X)


@pytest.mark.parametrize("first", range(0, 20, CHUNK))
def test_linear_programs_with_rows_said_again(first):
    for seed in range(first, first + CHUNK):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(1, 5))
        x, c, low = cp.Variable(n), rng.normal(size=n), rng.normal(size=n)
        A, b = doubled(rng, (np.vstack([np.eye(n), -np.eye(n)]), np.append(low + 2, -low)))
        problem = cp.Problem(cp.Minimize(c @ x), [A @ x <= b])
        problem.solve(**LIMIT)
        check(problem, float(np.minimum(c * low, c * (low + 2)).sum()))
        y = problem.constraints[0].dual_value
        assert np.abs(c + A.T @ y).max() <= 1e-6
        assert (y >= -1e-9).all()
        assert y @ (b - A @ x.value) <= 5e-3 * (1 + abs(problem.value))


@pytest.mark.parametrize("rows", [[], [0, 1]])
def test_a_matrix_that_its_equations_leave_no_choice(rows):
    X = cp.Variable((2, 2), PSD=True)
    said = [cp.sum(X, axis=1) == 1, cp.trace(X) <= 2, X >= 0, X[1, 0] == 0]
    problem = cp.Problem(cp.Maximize(X[0, 0] + 2 * X[1, 1]), said + [said[i] for i in rows])
    problem.solve(**LIMIT)
    check(problem, 3.0)
