"""Attacks on the proven bound of semidefinite programs: it must never be on the wrong side."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import condgrad as cg
from condgrad import ProblemError
from condgrad.run.result import Status
from condgrad.sdp import SDP
from condgrad.sdp._dual import Point, certified
from condgrad.sdp._reduce import Reduced
from condgrad.sdp._size import from_rows
from random_sdps import clarabel, positive, random_sdp, symmetric

SENSES = {0: "==", -1: "<=", 1: ">="}
TIGHT = {"gap": 1e-5, "feasibility": 1e-5, "max_iter": 20_000}
METHODS = [
    None,
    cg.sag_cgal(beta0=1.0),
    cg.hcgm(beta0="auto"),
    cg.hcgm(beta0=1e-3),
    cg.cgal(beta0=1.0),
    cg.cgal(beta0=1e-4),
    cg.h_sag_v2(beta0="auto"),
    cg.h_sag_v2(beta0=0.1, batch=0.5),
]


def changed(sdp, scales, redundant=0.0):
    """The same program with its rows scaled, and copies of equalities, some nearly dependent."""
    rows = list(zip(sdp.sparse_rows().toarray(), sdp.kinds, sdp.b, strict=True))
    rows = [(a * s, k, b * s) for (a, k, b), s in zip(rows, scales, strict=True)]
    equal = [(a, b) for a, k, b in rows if k == 0]
    if redundant and len(equal) > 1:
        (a, b), (other, c) = equal[:2]
        rows += [(3 * a, 0, 3 * b), (a + redundant * other, 0, b + redundant * c)]
    made = SDP(sdp.layout.split(sdp.cost), sdp.sense)
    for a, k, b in rows:
        made.subject_to(sdp.layout.split(a), SENSES[k], b)
    return made


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    seed=st.integers(0, 10**6),
    sense=st.sampled_from(["min", "max"]),
    blocks=st.sampled_from([(5,), (3, 2, -2), (1,), (-4,), (6, -1)]),
    senses=st.lists(st.sampled_from(["==", "<=", ">="]), min_size=1, max_size=5),
    trace=st.sampled_from([None, "==", "<="]),
    method=st.sampled_from(METHODS),
    max_iter=st.sampled_from([1, 2, 5, 20, 100]),
    spread=st.sampled_from([0, 8]),
    redundant=st.sampled_from([0.0, 1e-4, 1e-8, 1e-12]),
)
def test_no_bound_is_on_the_wrong_side(
    seed, sense, blocks, senses, trace, method, max_iter, spread, redundant
):
    sdp = random_sdp(seed, blocks, tuple(senses), sense, trace)
    best, sign = clarabel(sdp), 1.0 if sense == "min" else -1.0
    rng = np.random.default_rng(seed)
    hard = changed(sdp, 10.0 ** rng.uniform(-spread, spread, sdp.size), redundant)
    s = hard.solve(gap=1e-6, feasibility=1e-6, max_iter=max_iter, method=method)
    i, j = sdp.layout.positions()
    total = best.W[i == j].sum()
    assert (sign * s.y[hard.kinds < 0] <= 0).all()
    assert (sign * s.y[hard.kinds > 0] >= 0).all()
    assert s.status is not Status.UNBOUNDED
    if s.trace_from == "rows":
        assert total <= s.trace_bound * (1 + 1e-6)
    assert s.status is not Status.INFEASIBLE
    assert sign * s.bound <= sign * best.value + 1e-7 * (1 + abs(best.value))
    if s.status is Status.CONVERGED:
        assert s.gap <= 2e-6


@pytest.mark.parametrize("size", [1e-170, 1e-30, 1e30, 1e150])
def test_the_size_of_the_numbers_does_not_matter(size):
    sdp = random_sdp(2, trace="==")
    best = clarabel(sdp).value
    s = changed(sdp, np.full(sdp.size, size)).solve(**TIGHT)
    assert s.status is Status.CONVERGED
    assert s.value == pytest.approx(best, rel=1e-4, abs=1e-4)
    assert s.bound <= best + 1e-7


def test_any_multipliers_give_a_bound():
    """Dual points of no merit, huge ones among them, never prove too much."""
    rng = np.random.default_rng(0)
    for seed in range(20):
        sdp = random_sdp(seed, (4, -2), ("==", "<=", ">="), trace=("==", "<=")[seed % 2])
        best, reduced = clarabel(sdp).value, Reduced(sdp)
        for size in (0.1, 1.0, 1e4, 1e8, 1e12):
            y = size * rng.standard_normal(sdp.size)
            y = np.where(sdp.kinds == 0, y, sdp.kinds * np.abs(y))
            repair = from_rows(reduced)
            trace = reduced.trace.total / reduced.trace.lowest
            dual = certified(reduced, Point(y), repair, 1.001 * trace)
            assert -np.inf < dual.bound <= best + 1e-7
            assert dual.within <= best + 1e-7


def test_rounding_of_cancelling_multipliers_counts():
    """With y = ±1e12 on two rows that are nearly equal Z is mostly rounding."""
    A, rng = positive(np.random.default_rng(1), 4), np.random.default_rng(2)
    C, E = symmetric(rng, 4), symmetric(rng, 4)
    W = np.eye(4) / 4
    sdp = SDP(C).subject_to(np.eye(4), "==", 1.0).subject_to(A, "==", np.vdot(A, W))
    sdp.subject_to(A + 1e-12 * E, "==", np.vdot(A, W) + 1e-12 * np.vdot(E, W))
    reduced = Reduced(sdp)
    best = clarabel(SDP(C).subject_to(np.eye(4), "==", 1).subject_to(A, "==", np.vdot(A, W)))
    for size in (1e6, 1e9, 1e12):
        y = np.array([0.0, -size, size])
        dual = certified(reduced, Point(y), from_rows(reduced), 1.0)
        assert dual.bound <= best.value + 1e-7 + 3e-12 * size * np.abs(E).sum()
        assert dual.lowest >= -1e-8 * size


def test_factors_give_the_point_back():
    rng = np.random.default_rng(3)
    sdp = SDP([symmetric(rng, 6), rng.standard_normal(3)])
    sdp.subject_to([np.eye(6), np.ones(3)], "==", 2.0)
    s = sdp.solve(gap=1e-6)
    U, x = s.factors()
    assert U.shape[1] == np.linalg.matrix_rank(s.W[0], tol=1e-6 * np.abs(s.W[0]).max())
    assert pytest.approx(s.W[0], abs=1e-5) == U @ U.T
    assert x is s.W[1]


def test_nested_lists_are_a_matrix():
    s = SDP([[0, 1], [1, 0]]).subject_to([[1, 0], [0, 1]], "==", 1).solve()
    assert s.W.shape == (2, 2)
    assert s.bound == pytest.approx(-1, rel=1e-3)


def test_a_lifted_form_bounds_its_own_trace():
    """Lovász theta of C5 with X_00 = 1, X_ii = X_0i, X_ij = 0 on edges: √5, and no guess of Tr."""
    sdp = SDP(np.diag([0.0, 1, 1, 1, 1, 1]), "max").subject_to(np.diag([1.0] + 5 * [0.0]), "==", 1)
    for i in range(1, 6):
        A, B = np.zeros((6, 6)), np.zeros((6, 6))
        A[i, i], A[0, i], A[i, 0] = 1, -0.5, -0.5
        B[i, i % 5 + 1] = B[i % 5 + 1, i] = 1
        sdp.subject_to(A, "==", 0).subject_to(B, "==", 0)
    s = sdp.solve(gap=1e-4, feasibility=1e-4)
    assert s.trace_from == "rows"
    assert s.status is Status.CONVERGED
    assert s.bound >= np.sqrt(5) - 1e-9
    assert s.bound == pytest.approx(np.sqrt(5), rel=2e-4)
    Z = sum(y * a for y, a in zip(s.y, sdp.A.toarray(), strict=True)).reshape(6, 6)
    Z -= np.diag([0.0, 1, 1, 1, 1, 1])
    assert pytest.approx(Z, abs=1e-9) == s.Z
    assert np.linalg.eigvalsh(Z)[0] >= -1e-9


def test_no_bound_while_a_guessed_trace_binds():
    """max Tr W with W_00 = 1 only: unbounded, and nothing is claimed about it."""
    s = SDP(np.eye(2), "max").subject_to(np.diag([1.0, 0.0]), "==", 1).solve(max_iter=500)
    assert s.status is Status.UNBOUNDED
    assert s.bound == np.inf
    assert s.gap == np.inf


def test_a_row_that_bounds_the_objective_is_no_sign_of_unboundedness():
    """The value grows with every raise of the trace bound, but as its root, and ends at 5000."""
    A = np.array([[0.0, 0.5], [0.5, 0.0]])
    sdp = SDP(A, "max").subject_to(np.diag([1.0, 0.0]), "==", 1).subject_to(A, "<=", 5000)
    s = sdp.solve(max_iter=500)
    assert s.status is not Status.UNBOUNDED
    assert s.bound >= 5000 - 1e-6


def test_infeasible_rows_end_a_run_early():
    sdp = SDP(np.eye(2)).subject_to(np.eye(2), "==", 1).subject_to(np.diag([1.0, 0.0]), "==", 2)
    s = sdp.solve()
    assert s.status is Status.INFEASIBLE
    assert s.bound == np.inf
    assert s.result is None or s.result.iterations < 5000
    assert str(s).startswith("no point satisfies the constraints")


def test_the_proviso_of_a_bound_is_printed():
    """Only a trace bound of the user's is one: a guess is no part of a proof."""
    sdp = SDP(np.eye(2)).subject_to(np.array([[0.0, 1.0], [1.0, 0.0]]), "==", 2.0)
    s = sdp.solve(gap=1e-3)
    assert s.trace_from == "guess"
    assert not s.conditional
    assert "if Tr W" not in str(s)
    sdp = SDP(-np.eye(2)).subject_to(np.array([[0.0, 1.0], [1.0, 0.0]]), "==", 2.0)
    given = sdp.solve(gap=1e-3, trace_bound=3.0)
    assert given.conditional
    assert given.bound == pytest.approx(-3.0, rel=2e-3)
    assert f"if Tr W ≤ {given.trace_bound:.4g}" in str(given)


def test_options_that_nobody_reads_are_refused():
    sdp = SDP(np.eye(2)).subject_to(np.eye(2), "==", 1.0)
    with pytest.raises(
        ProblemError, match=r"foo is no option of SDP.solve: use .*trace_bound.*gap"
    ):
        sdp.solve(foo=1)
    for name in ("checkpoint", "resume"):
        with pytest.raises(ProblemError, match=f"{name} is a int: give the path"):
            sdp.solve(**{name: 3})
