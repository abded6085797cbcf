"""Bounds from repaired multipliers, beside dense proofs and fractions; first-order points."""

from __future__ import annotations

import itertools
import warnings
from fractions import Fraction
from operator import mul

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import linprog

cp = pytest.importorskip("cvxpy")
door = pytest.importorskip("condgrad.cvxpy")

from condgrad import ProblemError  # noqa: E402
from condgrad.cvxpy import _interior as interior  # noqa: E402
from condgrad.cvxpy._cone_point import violations, widened  # noqa: E402
from condgrad.cvxpy._cone_program import read  # noqa: E402
from condgrad.cvxpy._cone_proof import _start, corrected, proved  # noqa: E402
from condgrad.cvxpy._conic import INTERIOR  # noqa: E402
from condgrad.cvxpy._dual_bound import closing, holds, repaired_bound  # noqa: E402
from condgrad.cvxpy._solvers import clarabel, scs  # noqa: E402
from condgrad.domains.eigen import factorises  # noqa: E402


def problem(seed, n=4):
    """Norms, squares, eigenvalues and rows together."""
    rng = np.random.default_rng(seed)
    X, x = cp.Variable((n, n), symmetric=True), cp.Variable(n)
    M, A = rng.normal(size=(n, n)), rng.normal(size=(n, n))
    goal = cp.lambda_max(X + M + M.T) + cp.norm(A @ x - 1) + cp.sum_squares(cp.diag(X) - x)
    goal += cp.normNuc(X[:, :2] - M[:, :2]) + cp.sum(cp.abs(x))
    return cp.Problem(
        cp.Minimize(goal), [cp.trace(X) == rng.normal(), x >= -1, X + 9 * np.eye(n) >> 0]
    )


def cones(given):
    data, _, _ = given.get_problem_data(INTERIOR)
    return read(data, data["dims"], native=True)


@pytest.mark.parametrize("ask", [clarabel, scs])
@pytest.mark.parametrize("seed", range(4))
def test_the_bound_is_that_of_the_dense_proof(seed, ask):
    given = problem(seed)
    truth = given.solve(solver=cp.CLARABEL, tol_gap_rel=1e-9, tol_gap_abs=1e-9)
    program = cones(given)
    raw = ask(program, 1e-8, 10_000, np.inf) if ask is scs else ask(program, program.c, 1e-8, 99, 9)
    found = repaired_bound(program, program.c, raw.blocks, raw.nu)
    start = _start(program, raw.blocks, floor=1e-6, nu=raw.nu)
    twin = proved(program, program.c, corrected(program, program.c, start))
    assert program.value_unit * found.bound <= truth + 1e-8 * abs(truth)
    assert found.bound == pytest.approx(twin, rel=1e-4)
    for kind, block in zip(program.kinds, found.blocks, strict=True):
        if kind == "matrix":
            np.testing.assert_array_equal(block, block.T)
            assert np.linalg.eigvalsh(block)[0] >= 0


@pytest.mark.parametrize("much", [1e-6, 1e-3, 0.1, 10.0])
@pytest.mark.parametrize("seed", range(4))
def test_no_multipliers_prove_too_much(seed, much):
    given = problem(seed)
    truth = given.solve(solver=cp.CLARABEL, tol_gap_rel=1e-9, tol_gap_abs=1e-9)
    program, rng = cones(given), np.random.default_rng(seed)
    raw = clarabel(program, program.c, 1e-8, 100, np.inf)
    blocks = [b + much * rng.normal(size=b.shape) for b in raw.blocks]
    nu = raw.nu + much * rng.normal(size=raw.nu.size)
    found = repaired_bound(program, program.c, blocks, nu)
    assert np.isfinite(found.bound)
    assert program.value_unit * found.bound <= truth + 1e-8 * abs(truth)


def linear(rng):
    """min c'x with rows of integers, x within a box, and its optimum in fractions."""
    n, m = 3, 4
    A, b = rng.integers(-4, 5, (m, n)), rng.integers(1, 9, m)
    c, x = rng.integers(-5, 6, n), cp.Variable(n)
    rows, sides = np.vstack([A, np.eye(n, dtype=int), -np.eye(n, dtype=int)]), [*b, *[3] * 2 * n]
    best = None
    for chosen in itertools.combinations(range(len(rows)), n):
        corner = solved_exactly(rows[list(chosen)].tolist(), [sides[i] for i in chosen])
        if corner and all(sum(map(mul, r, corner)) <= s for r, s in zip(rows, sides, strict=True)):
            value = sum(map(mul, c.tolist(), corner))
            best = value if best is None else min(best, value)
    return cp.Problem(cp.Minimize(c @ x), [A @ x <= b, x <= 3, x >= -3]), best


def solved_exactly(A, b):
    """The solution of a square system in fractions; None if there is not one alone."""
    M = [[Fraction(int(v)) for v in row] + [Fraction(int(s))] for row, s in zip(A, b, strict=True)]
    for k in range(len(M)):
        pivot = next((i for i in range(k, len(M)) if M[i][k]), None)
        if pivot is None:
            return None
        M[k], M[pivot] = M[pivot], M[k]
        M[k] = [v / M[k][k] for v in M[k]]
        for i in range(len(M)):
            if i != k:
                M[i] = [v - M[i][k] * w for v, w in zip(M[i], M[k], strict=True)]
    return [row[-1] for row in M]


@pytest.mark.parametrize("seed", range(20))
def test_no_bound_is_above_an_optimum_in_fractions(seed):
    given, best = linear(np.random.default_rng(seed))
    program = cones(given)
    raw = clarabel(program, program.c, 1e-10, 99, np.inf)
    found = repaired_bound(program, program.c, raw.blocks, raw.nu)
    assert Fraction(program.value_unit) * Fraction(found.bound) <= best
    assert program.value_unit * found.bound == pytest.approx(float(best), rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("seed", range(10))
def test_rows_can_move_to_close_any_residual(seed):
    """Corners of all residuals: moves within the limits close them."""
    rng = np.random.default_rng(seed)
    chain = np.eye(6) + np.diag(rng.integers(-3, 4, 5), 1)
    core = rng.integers(-3, 4, (4, 3))
    rows = np.block([[chain, np.zeros((6, 3))], [rng.integers(-2, 3, (4, 6)), core]])
    rows = rows[rng.permutation(10)][:, rng.permutation(9)]
    missing = rng.random(9)
    moves = closing(sparse.csr_array(rows), missing)
    if np.linalg.matrix_rank(core) < 3:
        assert moves is None
        return
    for _ in range(40):
        target = missing * rng.choice([-1, 1], 9)
        limits = list(zip(-moves, moves, strict=True))
        assert linprog(np.zeros(10), A_eq=rows.T, b_eq=target, bounds=limits).status == 0


@pytest.mark.parametrize("off", [0.0, 2.0**-51])
def test_rows_that_depend_on_each_other_close_nothing(off):
    """N d = 0 for d = (1, −1, −1), and c'd = off: without end if that is not 0, however small."""
    N, c, x = (
        np.array([[1, 1, 0], [1, 0, 1], [0, 1, -1]]),
        np.array([off - 2, -2, 0]),
        cp.Variable(3),
    )
    program = cones(cp.Problem(cp.Minimize(c @ x), [N @ x <= 1]))
    assert repaired_bound(program, program.c, [np.ones(3)], np.zeros(0)).bound == -np.inf


def test_a_column_without_rows_cannot_be_closed():
    rows = sparse.csr_array(np.array([[1.0, 0.0]]))
    assert closing(rows, np.array([1e-16, 1e-16])) is None
    np.testing.assert_allclose(closing(rows, np.array([1e-16, 0.0])), [1e-16], rtol=1e-3)


def test_large_models_are_proved():
    """A nearest correlation matrix of side 80, and a completion by the nuclear norm."""
    rng = np.random.default_rng(0)
    T = rng.uniform(-1, 1, (80, 80))
    X = cp.Variable((80, 80), PSD=True)
    nearest = cp.Problem(cp.Minimize(cp.norm(X - (T + T.T) / 2, "fro")), [cp.diag(X) == 1])
    M, seen = rng.normal(size=(60, 3)) @ rng.normal(size=(3, 50)), rng.random((60, 50)) < 0.5
    Y = cp.Variable((60, 50))
    i, j = np.nonzero(seen)
    completion = cp.Problem(cp.Minimize(cp.normNuc(Y)), [Y[i, j] == M[seen]])
    for given in (nearest, completion):
        value = door.solve(given)
        found = given.solver_stats.extra_stats
        assert given.status == "optimal"
        assert found.proven
        assert abs(value - found.bound) <= 1e-3 * abs(value)
        assert max(float(np.max(c.violation())) for c in given.constraints) <= 1e-5


def test_a_cone_that_is_not_active_has_multipliers_of_zero():
    rng = np.random.default_rng(1)
    M = rng.normal(size=(20, 20))
    X, z = cp.Variable((20, 20), PSD=True), cp.Variable(3)
    cost = cp.trace((M + M.T) / 2 @ X) - 0.3 * cp.sum(cp.abs(X))
    given = cp.Problem(cp.Maximize(cost), [cp.trace(X) == 1, cp.norm(z) <= 5])
    truth = given.solve(solver=cp.CLARABEL)
    assert door.solve(given) == pytest.approx(truth, rel=1e-5)
    assert given.status == "optimal"
    assert given.solver_stats.extra_stats.proven


@pytest.mark.parametrize("scale", [1.0, 1e3, 5e4])
def test_rows_are_kept_beside_larger_numbers(scale):
    """A trace of 50,000 does not excuse what a row of numbers up to 10 misses."""
    rng, n = np.random.default_rng(0), 20
    X, z = cp.Variable((n, n), PSD=True), cp.Variable(40)
    M, K = rng.normal(size=(n, n)), rng.normal(size=(60, 40))
    right = K @ rng.normal(size=40) + rng.random(60)
    rows = [cp.trace(X) == scale, K @ z <= right, z >= -3]
    given = cp.Problem(cp.Minimize(cp.lambda_max(M + M.T + X) + cp.norm1(z)), rows)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        door.solve(given)
    if given.status == "optimal":
        terms = np.abs(right) + np.abs(K) @ np.abs(z.value)
        assert (np.maximum(K @ z.value - right, 0) <= 2e-6 * terms).all()


def test_bounds_of_models_far_from_their_multipliers():
    """The dual has an interior that the first points do not show."""
    rng, n = np.random.default_rng(0), 46
    M = rng.normal(size=(n, n))
    X, z = cp.Variable((n, n), PSD=True), cp.Variable(10)
    goal = cp.lambda_max(M + M.T + X) + cp.norm1(z)
    given = cp.Problem(cp.Minimize(goal), [cp.trace(X) == 100, cp.sum(z) == 1])
    door.solve(given)
    found = given.solver_stats.extra_stats
    assert given.status == "optimal"
    assert found.proven


def test_extreme_numbers_prove_nothing_wrong():
    tiny = np.array([1e-200, 1e-170, 0.0])
    assert not holds("second-order", tiny, np.zeros(3))
    assert not holds("matrix", 1e-200 * np.eye(2), np.full((2, 2), 1e-170))
    program = cones(problem(0))
    raw = clarabel(program, program.c, 1e-8, 99, np.inf)
    for size in (1e160, 1e300, np.inf, np.nan):
        blocks = [size * b for b in raw.blocks]
        assert repaired_bound(program, program.c, blocks, raw.nu).bound == -np.inf


def test_rows_of_large_matrices_are_kept_to_a_millionth():
    rng = np.random.default_rng(0)
    W = np.triu(rng.random((120, 120)) < 0.1, 1) * 1.0
    W = W + W.T
    X = cp.Variable((120, 120), PSD=True)
    given = cp.Problem(cp.Maximize(cp.trace((np.diag(W.sum(0)) - W) @ X) / 4), [cp.diag(X) == 1])
    door.solve(given)
    assert given.status == "optimal"
    assert given.solver_stats.extra_stats.gap <= 1e-3
    assert np.abs(np.diag(X.value) - 1).max() <= 1e-6


@pytest.mark.parametrize("backend", [None, "interior-point"])
@pytest.mark.parametrize("seed", range(6))
def test_rows_that_contradict_each_other_by_little_are_not_optimal(seed, backend):
    """x₀ ≥ 2 and x₀ ≤ 2 − 3.3e-6: their multipliers grow without limit, a gap next to them is 0."""
    rng = np.random.default_rng(seed)
    unit = float(rng.choice([100.0, 300.0, 1000.0, 30000.0]))
    x, cost = cp.Variable(3), rng.integers(-6, 7, 3)
    rows = [-unit * x[0] <= -2 * unit, -unit * x[0] >= -2 * unit + 1e-2, cp.abs(x) <= 5]
    given = cp.Problem(cp.Minimize(cost @ x), rows)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        door.solve(given, backend=backend)
    found = given.solver_stats.extra_stats
    assert given.status != "optimal"
    assert given.status not in ("unbounded", "unbounded_inaccurate")
    if np.isfinite(found.bound):
        ends = abs(found.value), abs(found.bound)
        assert found.gap == pytest.approx(abs(found.value - found.bound) / max(ends))


def test_first_order_answers_as_the_interior_point_solver_does():
    program = cones(problem(0))
    one, other = scs(program, 1e-9, 10_000, np.inf), clarabel(program, program.c, 1e-10, 99, np.inf)
    assert program.c @ one.x == pytest.approx(program.c @ other.x, rel=1e-6)
    for a, b in zip(one.blocks, other.blocks, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-4)


def test_entries_that_only_widen_cones_grow():
    program = cones(problem(1))
    rng = np.random.default_rng(0)
    x = clarabel(program, program.c, 1e-8, 99, np.inf).x + 1e-4 * rng.normal(size=program.c.size)
    before, after = (violations(program, p)[:, 0] for p in (x, widened(program, x)))
    assert before.max() > 1e-5
    assert (after <= before + 1e-15).all()
    assert (after < before).sum() > 2


@pytest.mark.parametrize("goal", ["robust", "correlation"])
def test_matrices_of_some_side_are_solved_by_steps_of_first_order(goal, monkeypatch):
    rng, n = np.random.default_rng(0), 16
    M = rng.normal(size=(n, n))
    if goal == "robust":
        S = cp.Variable((n, n))
        given = cp.Problem(
            cp.Minimize(cp.normNuc(np.outer(M[0], M[1]) - S) + cp.norm1(cp.vec(S, "F")) / 4)
        )
    else:
        X = cp.Variable((n, n), PSD=True)
        given = cp.Problem(cp.Minimize(cp.norm(X - M, "fro")), [cp.diag(X) == 1])
    truth = given.solve(solver=cp.CLARABEL)
    for options, by in (
        ({}, "SCS"),
        ({"gap": 1e-7}, "Clarabel"),
        ({"backend": "interior-point"}, "Clarabel"),
    ):
        assert door.solve(given, **options) == pytest.approx(truth, rel=1e-4)
        found = given.solver_stats.extra_stats
        assert (given.status, found.solved_by, found.proven) == ("optimal", by, True)
        assert found.bound <= truth + 1e-7 * abs(truth)
    monkeypatch.setattr(interior, "scs", lambda *_: None)  # not there, or without an answer
    assert door.solve(given) == pytest.approx(truth, rel=1e-4)
    assert given.solver_stats.extra_stats.solved_by == "Clarabel"


def test_multipliers_that_have_to_be_zero_are_so_exactly():
    """A square far from its limit: the multipliers of all that CVXPY writes for it are 0."""
    x, y = cp.Variable(3, nonneg=True), cp.Variable(3)
    A = np.array([[0.1, 0.3, -0.5], [-0.2, -0.3, -0.3], [-0.6, 0.4, 1.3]])
    rows = [cp.sum(cp.huber(A @ y - 1, 0.5)) <= 40, cp.norm(y) <= 1, x[0] ** 2 <= 0.3]
    given = cp.Problem(cp.Minimize(cp.maximum(x[1] - x[0], cp.norm(A @ y + 1))), rows)
    truth = given.solve(solver=cp.CLARABEL)
    assert door.solve(given) == pytest.approx(truth, rel=1e-6)
    assert given.status == "optimal"
    assert given.solver_stats.extra_stats.proven


def test_a_value_that_rounding_lifts_off_zero_is_optimal():
    x, z = cp.Variable(4, nonpos=True), cp.Variable(4)
    rows = [cp.SOC(x[0] + 3, x), z >= -3]
    given = cp.Problem(cp.Minimize(0.3 * cp.norm(x, 2)), rows)
    assert door.solve(given) == pytest.approx(0, abs=1e-8)
    assert given.status == "optimal"


def test_what_cvxpy_cannot_compile_is_refused_with_a_sentence():
    X = cp.Variable((2, 2))
    given = cp.Problem(cp.Minimize(cp.norm(X - 1, "fro")), [cp.real(cp.trace(X)) <= 1])
    with pytest.raises(ProblemError, match=r"leave out cp\.real"):
        door.solve(given)


@pytest.mark.parametrize("n", [3, 250])
def test_cholesky_of_what_is_not_finite(n):
    assert factorises(np.eye(n))
    for bad in (np.nan, np.inf):
        for i, j in ((0, 0), (n - 1, 1)):
            B = np.eye(n)
            B[i, j] = B[j, i] = bad
            assert not factorises(B)
