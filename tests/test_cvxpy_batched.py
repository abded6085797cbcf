"""The cone door reads arrays of matrices and second-order cones in the right order and scale."""

from __future__ import annotations

import numpy as np
import pytest

cp = pytest.importorskip("cvxpy")
door = pytest.importorskip("condgrad.cvxpy")

from condgrad.cvxpy._cone_program import read  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:The problem", "ignore:Solution may be")
TIGHT = {"solver": cp.CLARABEL, "tol_gap_abs": 1e-12, "tol_gap_rel": 1e-12, "tol_feas": 1e-12}
CHUNK = 10
"""Random cases of one test."""


def compiled(problem):
    """The scaled cone program of a problem, and how its variables lie in x."""
    data, _, _ = problem.get_problem_data(door.CONDGRAD)
    program = read(data, data["dims"])
    return program, data["param_prob"].var_id_to_col


def at(program, columns, values):
    """x of the scaled program for values of the variables, by id."""
    x = np.zeros(program.c.size)
    for id, value in values.items():
        x[columns[id] : columns[id] + value.size] = value.ravel(order="F")
    return x / program.x_unit


@pytest.mark.parametrize("first", range(0, 50, CHUNK))
def test_blocks_are_the_matrices_of_an_array(first):
    """b − A x has the symmetric parts of the matrices, one after the other, at any x."""
    for seed in range(first, first + CHUNK):
        rng = np.random.default_rng(seed)
        shape = (*rng.integers(1, 4, rng.integers(0, 3)), *2 * [int(rng.integers(1, 4))])
        X, scale = cp.Variable(shape), 10.0 ** rng.uniform(-3, 3)
        factor, shift = rng.normal(size=shape), rng.normal(size=shape)
        matrices = cp.multiply(scale * factor, X) + shift
        problem = cp.Problem(cp.Minimize(cp.sum(X)), [matrices >> 0, cp.sum(X) >= -1])
        program, columns = compiled(problem)
        value = rng.normal(size=shape)
        own = (scale * factor * value + shift).reshape(-1, *shape[-2:])
        found = program.slack(at(program, columns, {X.id: value}))
        assert program.space.blocks == (-1, *[shape[-1]] * len(own))
        start = 1
        for block, matrix in zip(found[1:], own, strict=True):
            unit = program.row_unit[start] / program.x_unit
            expected = (matrix + matrix.T) / 2 * unit
            np.testing.assert_allclose(block, expected, atol=1e-12 * np.abs(expected).max())
            start += block.size


def random_problem(rng):
    """A bounded problem over (b, n, n) cones, and the size of its solution."""
    count, n, scale = *rng.integers(1, 4, 2), 10.0 ** rng.uniform(-3, 3)
    if rng.random() < 0.5:
        C = rng.normal(size=(count, n, n))
        X = cp.Variable((count, n, n))
        rows = [X >> 0, *(cp.trace(X[i]) == scale for i in range(count))]
        rows += [X[i] == X[i].T for i in range(count)] if n > 1 else []
        return cp.Problem(cp.Minimize(cp.sum(cp.multiply(C, X))), rows), scale
    k = int(rng.integers(1, 3))
    F = rng.normal(size=(k, count, n, n))
    F += F.transpose(0, 1, 3, 2)
    x = cp.Variable(k)
    shift = 3 * scale * np.broadcast_to(np.eye(n), (count, n, n))
    rows = [sum(x[i] * F[i] for i in range(k)) + shift >> 0, x <= 5 * scale, x >= -5 * scale]
    return cp.Problem(cp.Maximize(rng.normal(size=k) @ x), rows), scale


@pytest.mark.parametrize("first", range(0, 50, CHUNK))
def test_batched_and_scaled_problems(first):
    """Values, bounds, violations and multipliers beside Clarabel's."""
    optimal = 0
    for seed in range(first, first + CHUNK):
        problem, scale = random_problem(np.random.default_rng(seed))
        problem.solve(**TIGHT)
        truth, prices = problem.value, [c.dual_value for c in problem.constraints]
        problem.solve(solver=door.CONDGRAD, gap=1e-2, max_iter=3000)
        certificate = problem.solver_stats.extra_stats
        side = -1.0 if isinstance(problem.objective, cp.Maximize) else 1.0
        assert side * certificate.bound <= side * truth + 1e-6 * abs(truth) + 1e-9 * scale
        assert problem.status in ("optimal", "user_limit")
        if problem.status == "optimal":
            optimal += 1
            assert problem.value == pytest.approx(truth, rel=2e-2, abs=1e-4 * scale)
            assert certificate.gap <= 1e-2
            assert max(np.max(c.violation()) for c in problem.constraints) <= 2e-2 * scale
        for constraint, price in zip(problem.constraints, prices, strict=True):
            assert np.shape(constraint.dual_value) == np.shape(price)
    assert optimal >= 0.8 * CHUNK


def numbers(price):
    """A dual value, or a list of some, as one vector."""
    parts = price if isinstance(price, list) else [price]
    return np.concatenate([np.ravel(part) for part in parts])


def test_second_order_cones_of_every_size():
    """One, two, three and more entries: a number, two numbers, a matrix of side 2, an arrow."""
    for n in range(4):
        t, x = cp.Variable(), cp.Variable(n) if n else None
        rows = [cp.SOC(t, x if n else np.zeros(0)), t <= 2]
        rows = rows if n else [t >= 0, t <= 2]
        goal = cp.sum(x) if n else t
        problem = cp.Problem(cp.Maximize(goal - 0.5 * t), rows)
        problem.solve(**TIGHT)
        truth, prices = problem.value, [c.dual_value for c in problem.constraints]
        problem.solve(solver=door.CONDGRAD, gap=1e-4, max_iter=5000)
        assert problem.status == "optimal"
        assert problem.value == pytest.approx(truth, rel=1e-3)
        for constraint, price in zip(problem.constraints, prices, strict=True):
            np.testing.assert_allclose(numbers(constraint.dual_value), numbers(price), atol=2e-2)


def test_complex_moduli_need_cones_that_were_not_announced():
    """CVXPY asks about |z| as if it were linear, and hands over second-order cones."""
    z = cp.Variable(2, complex=True)
    problem = cp.Problem(cp.Maximize(cp.sum(cp.real(z) + cp.imag(z))), [cp.abs(z) <= 2])
    problem.solve(solver=door.CONDGRAD, max_iter=5000)
    assert problem.status == "optimal"
    assert problem.value == pytest.approx(4 * np.sqrt(2), rel=2e-3)
