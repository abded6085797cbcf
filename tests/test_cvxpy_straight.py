"""Proofs by one symmetric system, beside those by dense QR, and points of first-order steps."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

cp = pytest.importorskip("cvxpy")
door = pytest.importorskip("condgrad.cvxpy")

from condgrad import ProblemError  # noqa: E402
from condgrad.backends import lapack  # noqa: E402
from condgrad.cvxpy import _interior as interior  # noqa: E402
from condgrad.cvxpy._cone_factors import Matrix, Numbers, SecondOrder  # noqa: E402
from condgrad.cvxpy._cone_point import violations, widened  # noqa: E402
from condgrad.cvxpy._cone_program import read  # noqa: E402
from condgrad.cvxpy._cone_proof import _start, corrected, proved, slightly  # noqa: E402
from condgrad.cvxpy._cone_straight import _system, straight  # noqa: E402
from condgrad.cvxpy._conic import INTERIOR  # noqa: E402
from condgrad.cvxpy._solvers import clarabel, scs  # noqa: E402


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


@pytest.mark.parametrize("seed", range(4))
def test_the_bound_is_that_of_the_dense_proof(seed):
    given = problem(seed)
    truth = given.solve(solver=cp.CLARABEL, tol_gap_rel=1e-9, tol_gap_abs=1e-9)
    program = cones(given)
    raw = clarabel(program, program.c, 1e-8, 100, np.inf)
    start = _start(program, raw.blocks, floor=1e-6, nu=raw.nu)
    found = straight(program, program.c, start.factors, start.nu)
    twin = proved(program, program.c, corrected(program, program.c, start))
    assert found is not None
    assert program.value_unit * found.bound <= truth + 1e-8 * abs(truth)
    assert found.bound == pytest.approx(twin, rel=1e-4)


@pytest.mark.parametrize("much", [1e-6, 1e-3, 0.1])
@pytest.mark.parametrize("seed", range(4))
def test_no_multipliers_prove_too_much(seed, much):
    given = problem(seed)
    truth = given.solve(solver=cp.CLARABEL, tol_gap_rel=1e-9, tol_gap_abs=1e-9)
    program, rng = cones(given), np.random.default_rng(seed)
    raw = clarabel(program, program.c, 1e-8, 100, np.inf)
    blocks = [b + much * np.abs(rng.normal(size=b.shape)) for b in raw.blocks]
    blocks = [b if b.ndim == 1 else b @ b.T for b in blocks]
    dual = slightly(program, program.c, blocks, nu=raw.nu + much * rng.normal(size=raw.nu.size))
    assert program.value_unit * dual.bound <= truth + 1e-8 * abs(truth)


@pytest.mark.parametrize("off", [0.0, 1e-3, -1e-3])
def test_entries_of_a_matrix_that_are_zero_but_can_move(off):
    """x₀ has no price, so that y₀₁ must be 0: it is so at first, and stays so by the system."""
    x = cp.Variable(2)
    rows = cp.bmat([[x[1] + 2, x[0] + x[1]], [x[0] + x[1], 1.0]]) >> 0
    program = cones(cp.Problem(cp.Minimize(x[1]), [rows]))
    F = Matrix(np.diag(np.sqrt([(1 + off) * np.abs(program.c).max(), 1e-4])))
    assert F.sizes()[1] == 0
    assert len(_system(program, program.c, [F], np.zeros(0)).rows) == 2
    found = straight(program, program.c, [F], np.zeros(0))
    assert program.value_unit * found.bound == pytest.approx(-2, abs=1e-3)
    assert program.value_unit * found.bound <= -2
    assert abs(found.factors[0].flat()[1]) < 1e-12


@pytest.mark.parametrize("kind", [Numbers, SecondOrder, Matrix])
def test_inner_products_of_moves(kind):
    rng = np.random.default_rng(0)
    shape = (3, 3) if kind is Matrix else (4,)
    F = kind(np.abs(rng.normal(size=4)) if kind is Numbers else rng.normal(size=shape))
    A = rng.normal(size=(F.flat().size, 5))
    if kind is Matrix:
        A = A.reshape(3, 3, 5)
        A = (A + A.transpose(1, 0, 2)).reshape(9, 5)
    A[:, 2] = 0.0
    out, terms = np.ones((5, 5)), np.zeros(5)
    F.add_gram(sparse.csr_array(A), out, terms)
    B = F.image(sparse.csr_array(A))[0]
    np.testing.assert_allclose(out, 1 + B @ B.T, atol=1e-12)
    z = rng.normal(size=5)
    np.testing.assert_allclose(F.pulled(A @ z), B.T @ z, atol=1e-12)


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
    assert lapack.factorises(np.eye(n))
    for bad in (np.nan, np.inf):
        for i, j in ((0, 0), (n - 1, 1)):
            B = np.eye(n)
            B[i, j] = B[j, i] = bad
            assert not lapack.factorises(B)
