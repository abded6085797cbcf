"""The compiled SAG Frank-Wolfe iterations equal their plain twin."""

import numpy as np
import pytest
import scipy.sparse as sp

from condgrad.backends import _reference as reference
from condgrad.maps import DataMatrix

compiled = pytest.importorskip("condgrad.backends._numba", exc_type=ImportError)
REAL = pytest.mark.parametrize("dtype", [np.float64, np.float32])
BALL = pytest.mark.parametrize("ball", [True, False], ids=["ball", "simplex"])
MOST = {np.float64: 1e308, np.float32: 1e38}


def data(rng, n, d, dense):
    X = sp.random_array((n, d), density=min(1.0, 6 / d), rng=rng, data_sampler=rng.standard_normal)
    return DataMatrix(X.toarray() if dense else X.tocsr()).arrays


def both(arrays, w, G, table, ids, eta, *rest):
    """Run both twins on copies; return (w, G, table, done) of each."""
    out = []
    for module in (reference, compiled):
        mine = w.copy(), G.copy(), table.copy(), np.zeros(1, np.int64)
        point = w.copy(), np.ones(1)
        module.vector_sag(*arrays, *point, *mine[:3], ids, eta, *rest, mine[3])
        assert np.array_equal((point[1] * point[0]).astype(w.dtype), mine[0])
        out.append(mine)
    return out


@REAL
@BALL
@pytest.mark.parametrize("dense", [True, False], ids=["dense", "csr"])
@pytest.mark.parametrize("loss", range(4))
@pytest.mark.parametrize(("d", "batch"), [(1, 1), (7, 3), (33, 1), (700, 2), (5000, 1)])
def test_twins(d, batch, loss, dense, ball, dtype):
    rng = np.random.default_rng(d + batch)
    n, K = 40, 150 if d < 5000 else 40
    arrays, target = data(rng, n, d, dense), np.where(rng.random(n) < 0.5, -1.0, 1.0)
    w = np.full(d, 2 / d).astype(dtype)
    ids, eta = rng.integers(0, n, (K, batch)), 2 / (np.arange(K) + 2)
    table, G = np.zeros(n, np.float32 if loss == 3 else np.float64), np.zeros(d, dtype)
    slow, fast = both(arrays, w, G, table, ids, eta, loss, target, 0.3, ball, 2.0, 0.1, MOST[dtype])
    assert slow[3] == fast[3] == K
    if dtype == np.float32:  # scores can tie to rounding, and then the paths part
        assert fast[0].dtype == fast[1].dtype == dtype
        assert np.abs(fast[0]).sum() <= 2 * (1 + 1e-5)
        return
    tol = 1e-10 if table.dtype == np.float64 else 1e-5
    for a, b in zip(slow, fast, strict=True):
        assert a.dtype == b.dtype
        assert np.allclose(a, b, rtol=tol, atol=tol)


@BALL
def test_steps_that_shrink_w_to_nothing(ball):
    """η = 1 makes the factor of w zero, η = 0.9 lets it fall below any range within a call."""
    rng = np.random.default_rng(0)
    arrays, K = data(rng, 30, 20, False), 900
    eta = np.where(np.arange(K) % 300 == 0, 1.0, 0.9)
    rest = (1, rng.standard_normal(30), 0.0, ball, 1.5, 1.0, 1e308)
    args = (np.full(20, 0.05), np.zeros(20), np.zeros(30), rng.integers(0, 30, (K, 1)), eta)
    for a, b in zip(*both(arrays, *args, *rest), strict=True):
        assert np.allclose(a, b, rtol=1e-10, atol=1e-12)


@BALL
def test_ties_go_to_the_first_coordinate(ball):
    d = 300  # several chunks, all scores equal all the time
    arrays = DataMatrix(np.ones((4, d))).arrays
    args = (np.zeros(d), np.zeros(d), np.zeros(4), np.arange(8).reshape(-1, 1) % 4, np.ones(8))
    slow, fast = both(arrays, *args, 1, np.full(4, 5.0), 0.0, ball, 1.0, 1.0, 1e308)
    assert np.array_equal(slow[0], fast[0])
    assert np.flatnonzero(fast[0]).tolist() == [0]


@BALL
def test_the_oracle_follows_scores_that_fall(ball):
    """A leader that loses its value, again and again, in one chunk and in many."""
    rng, d, n = np.random.default_rng(1), 200, 200
    arrays = DataMatrix(sp.csr_array(np.eye(n))).arrays
    ids, eta = rng.integers(0, n, (3000, 1)), np.full(3000, 0.5)
    rest = (1, rng.standard_normal(n), 0.0, ball, 3.0, 1.0, 1e308)
    args = (np.zeros(d), rng.standard_normal(d), np.zeros(n), ids, eta)
    for a, b in zip(*both(arrays, *args, *rest), strict=True):
        assert np.allclose(a, b, rtol=1e-10, atol=1e-12)


@BALL
@pytest.mark.parametrize("poison", [np.nan, np.inf, -np.inf, 1e200])
def test_ends_before_the_first_step_that_is_not_finite(ball, poison):
    arrays = DataMatrix(sp.csr_array(np.eye(5))).arrays
    target = np.array([1.0, 2, 3, poison, 5])
    ids, eta = np.array([[0], [1], [3], [2]]), np.full(4, 0.5)
    args = (np.full(5, 0.2), np.zeros(5), np.zeros(5), ids, eta)
    slow, fast = both(arrays, *args, 1, target, 0.0, ball, 1.0, 1.0, 1e308)
    assert slow[3] == fast[3] == 2
    assert np.allclose(slow[0], fast[0])
    assert np.isfinite(fast[0]).all()
    G = np.array([0.0, poison, 0, 0, 0])
    slow, fast = both(arrays, args[0], G, *args[2:], 1, np.ones(5), 0.0, ball, 1.0, 1.0, 1e308)
    assert slow[3] == fast[3] == 0
    assert np.array_equal(fast[0], args[0])


def test_large_numbers_that_are_still_finite_go_on():
    arrays = DataMatrix(sp.csr_array(np.eye(4))).arrays
    args = (np.zeros(4), np.zeros(4), np.zeros(4), np.array([[0], [1]]), np.full(2, 0.5))
    slow, fast = both(arrays, *args, 1, np.full(4, 6e153), 0.0, True, 1.0, 1.0, 1e308)
    assert slow[3] == fast[3] == 2
    assert np.array_equal(slow[0], fast[0])


@pytest.mark.parametrize("size", [5, 64, 300])
def test_fresh_rows(size):
    ids = np.random.default_rng(size).integers(0, size, (50, 9)).astype(np.int32)
    for batch in (1, 3, 8):  # of 5 ids there are no 8
        outcomes = []
        for module in (reference, compiled):
            seen, out = np.zeros(size // 64 + 1, np.uint64), np.full((50, batch), -1)
            outcomes.append((bool(module.fresh_rows(ids, seen, out)), out))
            assert not seen.any()
        assert outcomes[0][0] == outcomes[1][0] == all(len(set(r)) >= batch for r in ids.tolist())
        assert np.array_equal(outcomes[0][1], outcomes[1][1])
        first = list(dict.fromkeys(ids[0].tolist()))[:batch]
        assert outcomes[1][1][0, : len(first)].tolist() == first
