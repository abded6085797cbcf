"""Rows whose numbers differ by many powers of ten: no verdict that is not so."""

import numpy as np
import pytest

from condgrad import ProblemError, Status
from condgrad.sdp import SDP, LowRank

CHUNK = 20
"""Random programs of one test."""


def program(seed):
    """Min −x₀ over x ≥ 0 or its diagonal, x₀ ≤ u from one of two rows; the optimum is −u."""
    rng = np.random.default_rng(seed)
    n, wide = int(rng.integers(2, 5)), 10.0 ** rng.uniform(0, 16)
    u = float(rng.integers(1, 6))
    rows = [np.zeros(n), np.abs(rng.integers(-3, 4, n)).astype(float)]
    rows[0][[0, 1]] = 1.0, wide  # x₀ + M x₁ ≤ u, tight at x₁ = 0
    rows[1][0] = 0.0
    cost = np.zeros(n)
    cost[0] = -1.0
    order, unit = rng.permutation(n), 10.0 ** rng.uniform(-6, 6)
    cost, rows = cost[order], [r[order] for r in rows]
    matrix = rng.random() < 0.5
    shape = np.diag if matrix else lambda v: [v]
    sdp = SDP(shape(cost)).subject_to(shape(unit * rows[0]), "<=", unit * u)
    if rng.random() < 0.5:
        sdp.subject_to(shape(rows[1]), "<=", 1.0)
    return sdp, -u


@pytest.mark.parametrize("chunk", range(0, 50, CHUNK))
def test_wide_rows(chunk):
    for seed in range(chunk, chunk + CHUNK):
        sdp, optimum = program(seed)
        s = sdp.solve(max_iter=200)
        assert s.status not in (Status.UNBOUNDED, Status.INFEASIBLE), seed
        assert s.bound <= optimum * (1 - 1e-14), seed
        if s.status is Status.CONVERGED:
            assert s.value == pytest.approx(optimum, rel=2e-2), seed


@pytest.mark.parametrize("large", [1e6, 1e9, 1e13, 1e15])
def test_a_direction_that_is_nearly_semidefinite(large):
    """W₀₀ + 2W₀₁ + M W₁₁ ≤ 1 bounds W₀₀, though −1e-13 in W₁₁ would undo it."""
    row = np.array([[1.0, 1.0], [1.0, large]])
    s = SDP(np.diag([-1.0, 0.0])).subject_to(row, "<=", 1.0).solve(max_iter=500)
    assert s.status is not Status.UNBOUNDED
    assert s.bound <= -1


def test_factors_whose_squares_are_no_numbers():
    for size in (1e-200, 1e200):
        row = LowRank(size * np.ones((2, 1)))
        with pytest.raises(ProblemError, match="factors of rows whose squares are"):
            SDP(np.eye(2)).subject_to(row, "==", 1.0).solve()


@pytest.mark.parametrize("name", ["gap", "feasibility"])
@pytest.mark.parametrize("bad", [None, "a", -1.0, np.inf])
def test_tolerances_are_positive_numbers(name, bad):
    sdp = SDP(np.eye(2)).subject_to(np.eye(2), "==", 1.0)
    with pytest.raises(ProblemError, match="positive number"):
        sdp.solve(**{name: bad})
