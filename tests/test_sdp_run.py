"""How semidefinite programs are solved: trace bounds, pinned vectors, ends of runs."""

import sys

import numpy as np
import pytest
import scipy.sparse as sp

import condgrad as cg
from condgrad import functions
from condgrad.evaluation import worst as relative
from condgrad.run.result import Status
from condgrad.sdp import SDP, LowRank
from condgrad.sdp._reduce import Reduced
from condgrad.sdp._run import refuted
from random_sdps import clarabel, positive, random_sdp, symmetric

TIGHT = {"gap": 1e-5, "feasibility": 1e-5, "max_iter": 20_000}
J = np.ones((5, 5))


def cost(n=5, seed=0):
    return symmetric(np.random.default_rng(seed), n)


def unit(i, n=5):
    return np.diag((np.arange(n) == i).astype(float))


# The bound on the trace


def test_a_trace_that_the_rows_fix():
    sdp = SDP(cost())
    for i in range(5):
        sdp.subject_to(unit(i), "==", 1.0 + i)
    found = Reduced(sdp).trace
    assert found.exact
    assert found.c == pytest.approx(np.ones(5))
    s = sdp.solve(**TIGHT)
    assert s.trace_from == "rows"
    assert s.trace_bound == pytest.approx(15.0, rel=1e-9)
    assert np.trace(s.W) == pytest.approx(15.0, rel=1e-6)
    assert s.bound <= clarabel(sdp).value + 1e-7


def test_a_trace_that_inequalities_bound():
    rng = np.random.default_rng(2)
    A, B = positive(rng, 4), positive(rng, 4)
    sdp = SDP(-np.eye(4) + cost(4) / 3).subject_to(A, "<=", 1.0).subject_to(-B, ">=", -2.0)
    best, s = clarabel(sdp), sdp.solve(**TIGHT)
    assert s.trace_from == "rows"
    assert not Reduced(sdp).trace.exact
    largest = clarabel(SDP(np.eye(4), "max").subject_to(A, "<=", 1.0).subject_to(B, "<=", 2.0))
    assert s.trace_bound >= largest.value - 1e-7
    assert s.value == pytest.approx(best.value, rel=1e-4)
    assert s.bound <= best.value + 1e-7
    assert s.y == pytest.approx(best.y, abs=1e-2)
    assert np.linalg.eigvalsh(s.Z)[0] >= -1e-9


def test_a_given_trace_counts_where_it_is_smaller():
    sdp = SDP(-np.eye(3) + cost(3) / 9).subject_to(np.eye(3), "<=", 100.0)
    small, large = sdp.solve(trace_bound=2.0), sdp.solve(trace_bound=1000.0)
    assert (small.trace_from, small.trace_bound) == ("user", 2.0)
    assert small.bound >= -2 * np.linalg.eigvalsh(sdp.cost.reshape(3, 3))[-1] - 10
    assert small.value == pytest.approx(2 * np.linalg.eigvalsh(sdp.cost.reshape(3, 3))[0], rel=1e-3)
    assert small.gap <= 1e-3
    assert large.trace_from == "rows"
    assert large.trace_bound == pytest.approx(100.0)


def test_a_guess_that_is_too_small_grows():
    """The first guess is 10, the trace of the solution 500."""
    n = 20
    sdp = SDP(np.ones((n, n)) / n + np.eye(n)).subject_to(np.eye(n) / n, ">=", 500 / n)
    s = sdp.solve(gap=1e-3, max_iter=3000)
    assert s.trace_from == "guess"
    assert s.trace_bound == 1000
    assert s.status is Status.CONVERGED
    assert s.bound <= 500.001
    assert s.value == pytest.approx(500.0, rel=3e-3)


@pytest.mark.parametrize("sense", ["min", "max"])
def test_a_value_without_bound(sense):
    C = -np.eye(3) if sense == "min" else np.eye(3)
    s = SDP(C, sense).subject_to(np.diag([1.0, -1.0, 0.0]), "==", 0.0).solve(max_iter=300)
    assert s.status is Status.UNBOUNDED
    assert s.bound == s.conditional_bound == (-np.inf if sense == "min" else np.inf)
    assert (1 if sense == "min" else -1) * np.vdot(C, s.ray) < -0.5 * np.trace(s.ray)
    assert np.linalg.eigvalsh(s.ray)[0] >= -1e-12
    assert abs(s.ray[0, 0] - s.ray[1, 1]) <= 1e-12


def test_runs_that_end_early_do_not_claim_to_be_unbounded():
    sdp = random_sdp(8, (3, 2, -2), ("==", ">="))
    for method in (cg.hcgm(beta0="auto"), cg.h_sag_v2(beta0=0.1, batch=0.5)):
        s = sdp.solve(max_iter=5, method=method)
        assert s.status is Status.MAX_ITER


def test_time_limits_the_whole(clock):
    sdp = random_sdp(1)
    assert sdp.solve(max_seconds=0.4, gap=1e-14, feasibility=1e-14).seconds < 2.0
    assert sdp.solve(max_seconds=0.0).status is Status.MAX_SECONDS


# W = 0, and no W at all


@pytest.mark.parametrize("sense", ["min", "max"])
def test_only_zero_is_feasible(sense):
    sdp = SDP(cost(3), sense).subject_to(np.eye(3), "==", 0.0).subject_to(cost(3, 1), "<=", 2.0)
    s, sign = sdp.solve(), 1.0 if sense == "min" else -1.0
    assert s.status is Status.CONVERGED
    assert s.value == s.bound == s.gap == 0
    assert not s.W.any()
    assert np.linalg.eigvalsh(s.Z)[0] >= -1e-12
    assert pytest.approx(s.Z) == sign * (cost(3) - s.y[0] * np.eye(3) - s.y[1] * cost(3, 1))
    assert s.errors.primal == s.errors.gap == 0


def test_only_zero_with_a_loss():
    sdp = SDP(np.eye(2)).subject_to(np.eye(2), "<=", 0.0)
    s = sdp.loss(np.array([[1.0, 0, 0, 0]]), functions.Squared(3.0), 2.0).solve()
    assert s.value == 9.0
    assert 9.0 * (1 - 1e-12) <= s.bound <= 9.0


def test_a_row_of_zero():
    sdp = SDP(cost(3)).subject_to(np.eye(3), "==", 1.0).subject_to(np.zeros((3, 3)), "<=", 0.5)
    sdp.subject_to(LowRank(np.zeros(3)), "==", 0.0)
    s = sdp.solve(gap=1e-6)
    assert s.bound == pytest.approx(np.linalg.eigvalsh(cost(3))[0], abs=1e-5)
    assert np.array_equal(s.y[1:], [0.0, 0.0])


@pytest.mark.parametrize(
    ("A", "sense", "b"),
    [
        (np.zeros((3, 3)), "==", 1e-200),
        (np.zeros((3, 3)), "<=", -1.0),
        (sp.csr_array((3, 3)), ">=", 1.0),
        (LowRank(np.zeros(3)), "==", 1.0),
    ],
)
def test_a_row_of_zero_that_cannot_hold(A, sense, b):
    sdp = SDP(cost(3)).subject_to(np.eye(3), "==", 1.0).subject_to(A, sense, b)
    s = sdp.solve()
    assert s.status is Status.INFEASIBLE
    assert s.value == s.bound == np.inf
    assert s.result is None
    assert "no point satisfies" in str(s)


def test_a_negative_trace_is_refuted():
    s = SDP(cost(3), "max").subject_to(np.eye(3), "==", -1.0).solve()
    assert s.status is Status.INFEASIBLE
    assert s.trace_from == "rows"
    assert s.bound == -np.inf


def test_rows_that_contradict_each_other_are_refuted():
    sdp = SDP(cost()).subject_to(np.eye(5), "==", 1.0).subject_to(unit(0), ">=", 1.5)
    s = sdp.solve(max_iter=2000)
    assert s.status is Status.INFEASIBLE
    assert s.trace_from == "rows"
    assert s.errors.primal > 0.1


def test_equalities_without_any_solution_need_no_run():
    sdp = SDP(cost(3), "max").subject_to(unit(0, 3), "==", 1.0).subject_to(J[:3, :3], "==", 1.0)
    sdp.subject_to(J[:3, :3] + 2 * unit(0, 3), "==", 3.5)
    s = sdp.solve()
    assert s.status is Status.INFEASIBLE
    assert s.result is None
    assert "if Tr W" not in str(s)


def test_no_trace_is_large_enough_for_contradictions():
    sdp = SDP(np.eye(3)).subject_to(unit(0, 3), "==", 1.0).subject_to(unit(0, 3), ">=", 2.0)
    s = sdp.solve(max_iter=300)
    assert s.status is Status.INFEASIBLE
    assert s.trace_from == "guess"
    assert "if Tr W" not in str(s)  # proved for all W


@pytest.mark.parametrize("sense", ["min", "max"])
def test_a_bound_beyond_all_values_refutes(sense):
    """Five iterations prove it, without a run for it."""
    sdp = SDP(cost(3), sense).subject_to(np.eye(3), "==", 1.0).subject_to(np.eye(3), "==", 3.0)
    s = sdp.solve(max_iter=50, trace_bound=4.0)
    assert s.status is Status.INFEASIBLE
    assert abs(s.bound) > 4 * np.abs(np.linalg.eigvalsh(cost(3))).max()


def test_a_floor_proves_nothing_about_the_rows():
    sdp = SDP(np.eye(3)).subject_to(np.eye(3), "==", 1.0).subject_to(cost(3), "==", 0.1)
    reduced = Reduced(sdp)
    assert refuted(reduced, 1.0, None, None, {"max_iter": 50, "floor": 0.5}).lower_bound <= 0
    assert sdp.solve(max_iter=1, floor=0.5).status is not Status.INFEASIBLE


def test_a_trace_known_up_to_rounding_refutes_nothing():
    """Tr W misses 1 by 1e-10 · ⟨E, W⟩ only; with Tr W = 1 the first row could not hold."""
    sdp = SDP(cost()).subject_to(np.eye(5) + 1e-10 * positive(np.random.default_rng(0), 5), "==", 1)
    reduced = Reduced(sdp)
    assert reduced.trace.exact
    found = refuted(reduced, reduced.trace.total, None, None, {"max_iter": 200})
    assert found.lower_bound <= 0


# Vectors on which W vanishes


def pinned(*rows):
    sdp = SDP(cost()).subject_to(np.eye(5), "==", 1.0)
    for A, sense, b in rows:
        sdp.subject_to(A, sense, b)
    return sdp


u = np.array([1.0, -2.0, 0.5, 0.0, 3.0])
PINS = {
    "ones": ([(J, "==", 0.0)], 1),
    "at most 0": ([(np.outer(u, u), "<=", 0.0)], 1),
    "negative": ([(-np.outer(u, u), "==", 0.0)], 1),
    "at least 0": ([(-J, ">=", 0.0)], 1),
    "factors": ([(LowRank(np.linspace(0.1, 1, 5), [2.0]), "==", 0.0)], 1),
    "two": ([(J, "==", 0.0), (unit(2), "<=", 0.0)], 2),
    "twice": ([(J, "==", 0.0), (2 * J, "<=", 0.0)], 1),
    "and another row": ([(J, "==", 0.0), (unit(0), "<=", 0.1)], 1),
}


@pytest.mark.parametrize(("rows", "count"), PINS.values(), ids=PINS.keys())
def test_rows_that_pin_vectors(rows, count):
    sdp = pinned(*rows)
    reduced = Reduced(sdp)
    assert reduced.pins.shape[1] == count
    best, s = clarabel(sdp, 1e-8), sdp.solve(**TIGHT)
    assert s.status is Status.CONVERGED
    assert s.value == pytest.approx(best.value, abs=2e-4)  # the reference has no inner point
    assert s.errors.primal <= 1e-4
    assert np.linalg.eigvalsh(s.Z)[0] == pytest.approx(-s.errors.dual_cone * 3, abs=2e-6)
    adjoint = (sdp.sparse_rows().T @ s.y).reshape(5, 5)
    np.testing.assert_allclose(s.Z, cost() - adjoint, atol=1e-7 * np.abs(s.y).max())
    assert (s.y[sdp.kinds < 0] <= 0).all()
    assert (s.y[sdp.kinds > 0] >= 0).all()


def test_the_bound_of_pinned_vectors_is_that_of_the_complement():
    q = np.linalg.svd(J)[0][:, 1:]
    exact = np.linalg.eigvalsh(q.T @ cost() @ q)[0]
    s = pinned((J, "==", 0.0)).solve(gap=1e-8, feasibility=1e-8)
    assert s.bound <= exact + 1e-12
    assert s.bound == pytest.approx(exact, rel=1e-6)


NOT_PINNED = {
    "indefinite": (np.diag([1.0, -1e-13, 0, 0, 0]), "==", 0.0),
    "rounded": (np.outer([1 / 3] * 5, [1 / 3] * 5) - 1e-18 * np.eye(5), "==", 0.0),
    "not 0": (J, "==", 1e-9),
    "free side": (J, ">=", 0.0),
    "much of it": (np.diag([1.0, 1, 1, 0, 0]), "==", 0.0),
    "nearly singular": (LowRank(np.eye(5)[:, :2], [1.0, 1e-10]), "==", 0.0),
}


@pytest.mark.parametrize("row", NOT_PINNED.values(), ids=NOT_PINNED.keys())
def test_rows_that_pin_nothing_for_certain(row):
    assert Reduced(pinned(row)).pins.shape[1] == 0


def test_a_row_that_is_barely_indefinite():
    """W11 = δ W22 lets W12 = √δ pass: a pinned W11 = 0 would prove a bound that is wrong."""
    delta, C = 9e-13, np.eye(4)
    C[:2, :2] = [[0.0, -0.5], [-0.5, 0.0]]
    C[:2, 2:] = C[2:, :2] = 1e-9
    sdp = SDP(C).subject_to(np.diag([1.0, -delta, 0, 0]), "==", 0.0).subject_to(np.eye(4), "==", 1)
    w = np.sqrt([delta / (1 + delta), 1 / (1 + delta)])
    value = np.vdot(C[:2, :2], np.outer(w, w))
    assert value < -9e-7
    assert sdp.solve(max_iter=500).bound <= value


def test_never_all_vectors_are_pinned():
    sdp = SDP(cost()).subject_to(np.eye(5), "<=", 1.0)
    for i in range(5):
        sdp.subject_to(unit(i), "==", 0.0)
    assert Reduced(sdp).pins.shape[1] == 4
    s = sdp.solve(max_iter=200)
    assert s.value == pytest.approx(0.0, abs=1e-3)
    assert s.bound <= 0


def test_nearly_dependent_pins_are_left_to_the_rows():
    v = u + 1e-7 * np.arange(5)
    reduced = Reduced(pinned((LowRank(u), "==", 0.0), (LowRank(v), "==", 0.0)))
    assert reduced.pins.shape[1] == 1
    assert len(reduced.families) == 2


# Ends


def test_a_callback_that_stops_gets_the_best_point_and_a_bound():
    calls = []

    def stop(info):
        calls.append(info.k)
        return info.k == 30

    sdp = random_sdp(1)
    s = sdp.solve(callbacks=[stop])
    assert s.status is Status.STOPPED
    assert calls[-1] == len(calls) == 30
    assert np.isfinite(s.value)
    assert s.bound <= clarabel(sdp).value + 1e-7


def test_an_interruption_gets_the_best_point_and_a_bound():
    def interrupt(info):
        if info.k == 20:
            raise KeyboardInterrupt

    sdp = random_sdp(1, trace="==")
    s = sdp.solve(callbacks=[interrupt])
    assert s.status is Status.INTERRUPTED
    assert s.result.iterations <= 20
    assert s.bound <= clarabel(sdp).value + 1e-7


def test_an_interruption_while_refuting_ends_the_run():
    times = []

    def interrupt(info):
        times.append(info.k)
        if len(times) == 8:
            raise KeyboardInterrupt

    sdp = SDP(np.eye(3)).subject_to(unit(0, 3), "==", 1.0).subject_to(unit(1, 3), "==", 1.0)
    s = sdp.solve(max_iter=5, callbacks=[interrupt], gap=1e-9, method=cg.hcgm())
    assert s.status is Status.INTERRUPTED
    assert len(times) == 8


def test_a_worse_last_attempt_does_not_count(monkeypatch):
    """Guesses of the trace that grow too far end far from the rows."""
    run, worst = sys.modules["condgrad.sdp._run"], []
    made = run.answer

    def spy(*arguments):
        solution = made(*arguments)
        worst.append(max(1e-2, relative(solution.families)))
        return solution

    monkeypatch.setattr(run, "answer", spy)
    sdp = random_sdp(8, (3, 2, -2), ("==", ">="))
    s = sdp.solve(max_iter=20, method=cg.h_sag_v2(beta0=0.1, batch=0.5))
    assert len(worst) >= 3
    assert max(1e-2, relative(s.families)) == min(worst) < worst[-1]


@pytest.mark.parametrize("method", [None, cg.hcgm(), cg.cgal(), cg.h_sag_v2(beta0=0.3, batch=0.5)])
def test_solve_keeps_the_multipliers_behind_its_bound(method):
    C, n = cost(), 5
    ones = cg.Term(cg.maps.Diagonal(n), functions.Equal(1.0), weight=0.5, name="ones")
    small = cg.Term(cg.maps.Inner(J), functions.AtMost(2.0), weight=2.0, name="small")
    linear = cg.Term(cg.maps.Inner(C), functions.Linear(), name="cost")
    problem = cg.Problem(cg.domains.Spectrahedron(n, n), [linear, ones, small])
    plain, kept = (
        cg.solve(problem, method, max_iter=300, gap=1e-6, duals=duals) for duals in (False, True)
    )
    assert not plain.duals
    assert set(kept.duals) == {"ones", "small"}
    y, x = kept.duals["ones"], kept.duals["small"]
    assert x.min() >= 0
    lowest = np.linalg.eigvalsh(C + 0.5 * np.diag(y) + 2 * x[0] * J)[0]
    bound = n * min(0.0, lowest) - 0.5 * y.sum() - 2 * 2.0 * x[0]
    sdp = SDP(C).subject_to(J, "<=", 2.0)
    for i in range(n):
        sdp.subject_to(unit(i), "==", 1.0)
    assert bound <= kept.lower_bound + 1e-9 <= clarabel(sdp).value + 1e-7


def test_an_interruption_before_the_first_run_ends_with_a_point(monkeypatch):
    """While a bound on the trace is sought nothing has run yet."""

    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("condgrad.sdp._recession._settled", interrupt)
    s = random_sdp(1).solve()
    assert s.status is Status.INTERRUPTED
    assert s.result.iterations == 0
    assert np.isfinite(s.value)


def test_an_interruption_of_a_proof_leaves_the_point_of_the_run(monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("condgrad.sdp._run.certified", interrupt)
    s = random_sdp(1, trace="==").solve()
    assert s.status is Status.INTERRUPTED
    assert s.result.iterations > 0
    assert np.isfinite(s.value)
