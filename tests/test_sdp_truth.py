"""Semidefinite programs whose truth is known exactly: no bound and no status may contradict it."""

from fractions import Fraction

import numpy as np
import pytest

import known_sdps
from condgrad import io
from condgrad.run.result import Status
from condgrad.sdp import SDP
from condgrad.sdp._reduce import Reduced
from condgrad.sdp.exact import _semidefinite, proved

pytestmark = pytest.mark.slow

EACH = 25
"""Programs of a kind in one test."""
CASES = range(0, 50, EACH)


def check_optimum(known, s):
    sign = 1.0 if known.sdp.sense == "min" else -1.0
    assert s.status not in (Status.INFEASIBLE, Status.UNBOUNDED)
    assert sign * s.bound <= sign * known.value  # exactly: both are numbers of float64
    if s.status is Status.CONVERGED:
        assert s.gap <= 1e-3
        assert np.isfinite(s.bound)
        assert abs(s.bound - known.value) <= 2e-2 * max(abs(known.value), s.unit)


@pytest.mark.parametrize("first", CASES)
def test_programs_with_an_optimum(first):
    """Many have no interior, on one side or both, and redundant rows."""
    converged = 0
    for seed in range(first, first + EACH):
        known = known_sdps.optimum(seed)
        s = known.sdp.solve(max_iter=60)
        check_optimum(known, s)
        converged += s.status is Status.CONVERGED
    assert converged >= EACH // 3


@pytest.mark.parametrize("first", CASES)
def test_optima_far_from_the_first_guess_of_the_trace(first):
    for seed in range(first, first + EACH):
        known = known_sdps.optimum(seed, 1e4)
        check_optimum(known, known.sdp.solve(max_iter=20))


@pytest.mark.parametrize("first", CASES)
def test_programs_through_a_file(first, tmp_path):
    """In SDPA form every inequality has a slack, so that fewer rows bound the trace."""
    for seed in range(first, first + EACH):
        known = known_sdps.optimum(seed)
        io.write_sdpa(tmp_path / "it.dat-s", known.sdp.to_sdpa())
        file = SDP.from_sdpa(io.read_sdpa(tmp_path / "it.dat-s"))
        value = known.value if known.sdp.sense == "max" else -known.value
        check_optimum(known_sdps.Known(file, "optimum", value), file.solve(max_iter=20))


@pytest.mark.parametrize("first", CASES)
def test_infeasible_programs(first):
    proofs = 0
    for seed in range(first, first + EACH):
        s = known_sdps.infeasible(seed).sdp.solve(max_iter=60)
        assert s.status not in (Status.CONVERGED, Status.UNBOUNDED)
        proofs += s.status is Status.INFEASIBLE
    assert proofs >= 0.6 * EACH


@pytest.mark.parametrize("first", CASES)
def test_unbounded_programs(first):
    proofs = 0
    for seed in range(first, first + EACH):
        known = known_sdps.unbounded(seed)
        s = known.sdp.solve(max_iter=60)
        assert s.status not in (Status.CONVERGED, Status.INFEASIBLE)
        assert np.isinf(s.bound)
        if s.status is Status.UNBOUNDED:
            check_ray(known.sdp, s)
            proofs += 1
    assert proofs >= 0.4 * EACH


def check_ray(sdp, s):
    """W + tD is as feasible as W, and its value improves."""
    parts = s.ray if isinstance(s.ray, list) else [s.ray]
    D = np.concatenate([np.ravel(p) for p in parts])
    sign = 1.0 if sdp.sense == "min" else -1.0
    assert sign * sdp.cost @ D < -1e-7 * np.linalg.norm(sdp.cost) * np.linalg.norm(D)
    z, size = sdp.A @ D, 1e-12 * np.linalg.norm(D) * np.linalg.norm(sdp.A.toarray(), axis=1)
    assert (np.where(sdp.kinds == 0, np.abs(z), -sdp.kinds * z) <= size).all()
    for p in parts:
        assert (np.linalg.eigvalsh(p)[0] if p.ndim == 2 else p.min()) >= -1e-12


def scaled(known, cost, rows, point):
    """The program with W in other units, its costs and rows multiplied: exact powers of two."""
    sdp = known.sdp
    made = SDP(sdp.layout.split(cost / point * sdp.cost), sdp.sense)
    for a, kind, b, f in zip(sdp.A.toarray(), sdp.kinds, sdp.b, rows, strict=True):
        sense = {0: "==", -1: "<=", 1: ">="}[int(kind)]
        made.subject_to(sdp.layout.split(f / point * a), sense, f * b)
    return known_sdps.Known(made, "optimum", cost * known.value)


@pytest.mark.parametrize("first", CASES)
def test_magnitudes(first):
    """Costs, rows and W in units between 1e-60 and 1e60."""
    for seed in range(first, first + EACH):
        known, rng = known_sdps.optimum(seed), np.random.default_rng(seed)
        cost, point = np.exp2(rng.integers(-200, 200, 2))
        hard = scaled(known, cost, np.exp2(rng.integers(-200, 200, known.sdp.size)), point)
        check_optimum(hard, hard.sdp.solve(max_iter=20))


# Rational arithmetic


def test_multipliers_near_rational_ones_prove_a_bound():
    """Min y1 − y2 with y1 = y2: no multiplier but 1 proves anything."""
    reduced = Reduced(SDP([np.array([1.0, -1.0])]).subject_to([np.array([1.0, -1.0])], "==", 0.0))
    assert proved(reduced, np.array([1 + 1e-7]))[0] == 0.0
    assert proved(reduced, np.array([0.4])) is None


def test_a_semidefinite_matrix_is_taken_apart_exactly():
    """Z = 11ᵀ − εI is not ⪰ 0, however small ε; 11ᵀ is."""
    J = np.ones((4, 4))
    for shift, semidefinite in ((0.0, True), (2.0**-60, False)):
        sdp = SDP(J).subject_to(np.eye(4), "==", 1.0)
        found = proved(Reduced(sdp), np.array([shift]))
        assert found[0] == 0.0  # y = 0 is among those tried
        assert found[1][0] == 0.0
        assert (
            _semidefinite(
                {
                    (i, j): Fraction(J[i, j]) - Fraction(shift) * (i == j)
                    for i in range(4)
                    for j in range(i, 4)
                }
            )
            is semidefinite
        )


def test_a_trillionth_decides():
    """X ⪰ 0 with X_00 = 0, X_01 = δ is infeasible; with X_00 = δ it is not."""
    A = np.array([[0.0, 0.5], [0.5, 0.0]])
    for corner in (0.0, 1e-12):
        sdp = SDP(np.eye(2)).subject_to(np.diag([1.0, 0.0]), "==", corner).subject_to(A, "==", 1e-6)
        s = sdp.solve(max_iter=200)
        assert s.status is not Status.UNBOUNDED
        if corner:
            assert s.status is not Status.INFEASIBLE
            assert s.bound <= 1.0 + 1e-12
        else:
            assert s.status is not Status.CONVERGED


@pytest.mark.parametrize("b", [-1.0, -1e-100])
def test_a_diagonal_that_cannot_be_negative_is_seen_at_once(b):
    for A in (np.diag([1.0, 0, 0]), np.ones((3, 3)), np.diag([2.0, 0, 3.0])):
        s = SDP(np.eye(3)).subject_to(A, "==", b).solve()
        assert s.status is Status.INFEASIBLE
        assert s.result is None
        s = SDP(np.eye(3)).subject_to(-A, ">=", -b).solve()
        assert s.status is Status.INFEASIBLE


def test_a_row_with_numbers_off_a_diagonal_of_zeros_is_not_semidefinite():
    A = np.zeros((3, 3))
    A[1, 2] = A[2, 1] = -1.0
    sdp = SDP([np.ones(2), np.eye(3)]).subject_to([-np.ones(2), A], "==", 3.0)
    solution = sdp.solve(max_iter=2000)
    assert solution.status is Status.CONVERGED
    assert solution.bound <= 3.0 <= 1.01 * solution.value


def test_no_row_is_wrongly_called_semidefinite():
    called = 0
    for seed in range(300):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(2, 5))
        A = rng.integers(-1, 2, (n, n)) * (rng.random((n, n)) < rng.uniform(0.1, 0.9))
        A = rng.choice([np.outer(A[0], A[0]), A + A.T, np.diag(np.diagonal(A))]).astype(float)
        x = rng.integers(-1, 2, 2).astype(float)
        sdp = SDP([np.zeros(2), np.eye(n)]).subject_to([x, A], "==", 1.0)
        values = np.concatenate([x, np.linalg.eigvalsh(A)])
        if Reduced(sdp).semidefinite(0):
            called += 1
            assert values.any()
            assert (values >= -1e-9).all() or (values <= 1e-9).all()
    assert called > 30


def test_no_row_that_holds_somewhere_is_refuted_at_sight():
    for seed in range(500):
        rng = np.random.default_rng(seed)
        k, n = (int(v) for v in rng.integers(1, 5, 2))
        U = rng.integers(-2, 3, (n, n))
        x, X = rng.integers(0, 2, k), U @ U.T
        a = rng.choice([-1, 0, 1], p=[0.8, 0.1, 0.1], size=k)
        A = rng.integers(-1, 2, (n, n)) * (rng.random((n, n)) < 0.3)
        A += A.T
        sdp = SDP([np.ones(k), np.eye(n)])
        sdp.subject_to([a * 1.0, A * 1.0], "==", float(a @ x + np.vdot(A, X)))
        assert not Reduced(sdp).refuted


@pytest.mark.parametrize("sense", ["min", "max"])
@pytest.mark.parametrize(
    ("cost", "right", "status"),
    [
        ((-1.0, 2.0, 3.0), 1.0, Status.UNBOUNDED),
        ((1.0, 2.0, 3.0), 1.0, Status.CONVERGED),
        ((1.0, 2.0, 3.0), -1.0, Status.INFEASIBLE),
        ((-1.0, 2.0, 3.0), -1.0, Status.INFEASIBLE),
    ],
)
@pytest.mark.parametrize("diagonal", [True, False])
def test_the_slack_is_that_of_the_multipliers_whatever_the_status(
    cost, right, status, diagonal, sense
):
    sign = 1 if sense == "min" else -1
    C, A = sign * np.array(cost), np.array([0.0, 1.0, 1.0])
    if not diagonal:
        C, A = np.diag(C), np.diag(A)
    s = SDP([C], sense).subject_to([A], "==", right).solve()
    assert s.status is status
    np.testing.assert_allclose(s.Z, sign * (C - s.y[0] * A), atol=1e-9)
