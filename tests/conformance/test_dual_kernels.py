"""The kernels that renew slopes and multipliers: twins, and the definition written out."""

from itertools import pairwise

import numpy as np
import pytest

from condgrad.backends import _reference as reference

numba_kernels = pytest.importorskip("condgrad.backends._numba", exc_type=ImportError)
INF = np.inf
BOUNDS = [(-0.7, 0.4), (0.3, 0.3), (-INF, 0.2), (-0.1, INF), (-INF, INF), (-INF, -1.5), (2.0, INF)]
BOTH = pytest.mark.parametrize("ops", [reference, numba_kernels], ids=["reference", "numba"])
BOUND = pytest.mark.parametrize("bounds", BOUNDS, ids=str)
TABLE = pytest.mark.parametrize("stored", [np.float64, np.float32], ids=["table64", "table32"])
WORK = pytest.mark.parametrize("dtype", [np.float64, np.float32], ids=["W64", "W32"])


def definition(z, y, lower, upper, beta, theta):
    """γ = h'_β(z + βy) of lower ≤ z ≤ upper, then y + θ(γ − y), row by row in float64."""
    slopes, after = np.empty(z.size), np.empty(z.size)
    for l in range(z.size):
        x = float(z[l]) + beta * float(y[l])
        nearest = lower if x < lower else upper if x > upper else x
        slopes[l] = (x - nearest) / beta
        after[l] = float(y[l]) + theta * (slopes[l] - float(y[l]))
    return slopes, after


def drivers(ops):
    """The passes over triangle rows."""
    return ops.fused(ops.triangle_sweep, ops.triangle_add)


def tolerance(*dtypes):
    return 1e-12 if set(dtypes) == {np.float64} else 3e-5


def close(a, b, tol):
    a, b = np.asarray(a, float), np.asarray(b, float)
    assert np.abs(a - b).max(initial=0.0) <= tol * (1 + np.abs(b).max(initial=0.0))


@BOTH
@BOUND
@TABLE
@WORK
@pytest.mark.parametrize("seed", range(3))
def test_interval_dual(ops, bounds, stored, dtype, seed):
    rng = np.random.default_rng(seed)
    beta, theta = [(0.3, 0.25), (4.0, 1.0), (1e-2, 0.0)][seed]
    z = np.r_[rng.standard_normal(60), [b for b in bounds if np.isfinite(b)]].astype(dtype)
    y = (3 * rng.standard_normal(z.size)).astype(stored)
    slopes = np.full(z.size, 9.0, stored)  # what was there before does not matter
    expected, after = definition(z, y, *bounds, beta, theta)
    kept = z.copy()
    assert ops.interval_dual(z, *bounds, beta, theta, y, slopes) is None
    assert (y.dtype, slopes.dtype) == (stored, stored)
    assert np.array_equal(z, kept)
    tol = tolerance(stored, dtype)
    close(slopes, expected, tol)
    close(y, after, tol)
    if bounds[0] == -INF:
        assert slopes.min() >= 0
    if bounds[1] == INF:
        assert slopes.max() <= 0


@BOTH
@BOUND
@TABLE
@WORK
@pytest.mark.parametrize("seed", range(2))
def test_interval_ascend(ops, bounds, stored, dtype, seed):
    rng = np.random.default_rng(seed)
    beta = [0.3, 4.0][seed]
    z = np.r_[rng.standard_normal(60), [b for b in bounds if np.isfinite(b)]].astype(dtype)
    before, G = (3 * rng.standard_normal((2, z.size))).astype(stored)
    y, sums = before.copy(), G.astype(dtype)
    expected, _ = definition(z, y, *bounds, beta, 1.0)
    squares = ops.interval_ascend(z, *bounds, beta, y, sums)
    tol = tolerance(stored, dtype)
    close(y, expected, tol)
    close(sums, G + expected - before, tol)
    close(squares, np.square(expected - before).sum(), tol)
    assert (y.dtype, sums.dtype) == (stored, dtype)
    assert bounds[0] > -INF or y.min() >= 0
    assert bounds[1] < INF or y.max() <= 0


@BOTH
def test_interval_dual_does_not_hide_nan(ops):
    y, slopes = np.zeros(3), np.zeros(3)
    ops.interval_dual(np.array([0.0, np.nan, 2.0]), -1.0, 1.0, 0.5, 0.5, y, slopes)
    assert np.isnan(slopes).tolist() == np.isnan(y).tolist() == [False, True, False]


@BOTH
def test_interval_dual_of_nothing(ops):
    none, y = np.empty(0), np.ones(3)
    ops.interval_dual(none, 0.0, 1.0, 1.0, 1.0, y[:0], y[3:])
    assert y.tolist() == [1.0, 1.0, 1.0]


def state(n, stored, dtype, seed):
    """A symmetric W, a cotangent with a history of its own, and tables."""
    rng, size = np.random.default_rng(seed), n * (n - 1) * (n - 2) // 2
    W = rng.standard_normal((n, n))
    return (
        (W + W.T).astype(dtype),
        rng.standard_normal((n, n)).astype(dtype),
        (2 * rng.standard_normal(size)).astype(stored),
        rng.standard_normal(size).astype(stored),
    )


def ranges(n):
    """Everything, nothing, one row, whole apexes, and ranges that cut through them."""
    size, pairs = n * (n - 1) * (n - 2) // 2, (n - 1) * (n - 2) // 2
    yield from ((0, size), (0, 0), (size, size), (size - 1, size), (pairs, 2 * pairs))
    yield from ((pairs - 1, pairs + 1), (pairs // 2, 2 * pairs + pairs // 2))
    rng = np.random.default_rng(n)
    for start, stop in np.sort(rng.integers(0, size + 1, (6, 2))):
        yield int(start), int(stop)


@BOTH
@TABLE
@WORK
@pytest.mark.parametrize("n", range(3, 10))
def test_triangle_dual(ops, stored, dtype, n):
    for i, (start, stop) in enumerate(ranges(n)):
        bounds, beta, theta = BOUNDS[i % len(BOUNDS)], (0.4, 3.0)[i % 2], (0.3, 1.0, 0.0)[i % 3]
        W, G, y, slopes = state(n, stored, dtype, 10 * n + i)
        before = [a.copy() for a in (W, G, y, slopes)]
        p, q, r = reference.triangle_address(n, np.arange(start, stop))
        z = (W.astype(float)[p, q] + W[q, r]) - W[p, r] - W[q, q]
        expected, after = definition(z, y[start:stop], *bounds, beta, theta)
        drivers(ops).dual(W, G, y, slopes, np.array([[start, stop]]), *bounds, beta, theta)
        assert [a.dtype for a in (W, G, y, slopes)] == [a.dtype for a in before]
        tol, rows = tolerance(stored, dtype), slice(start, stop)
        close(slopes[rows], expected, tol)
        close(y[rows], after, tol)
        assert np.array_equal(W, before[0])
        for now, then in ((y, before[2]), (slopes, before[3])):
            assert np.array_equal(now[:start], then[:start])
            assert np.array_equal(now[stop:], then[stop:])
        change = np.zeros((n, n))
        for l, d in enumerate(expected - before[3][rows]):
            change[q[l], p[l]] += d
            change[q[l], r[l]] += d
            change[p[l], r[l]] -= d
            change[q[l], q[l]] -= d
        close(G, before[1] + change, 4 * tol)


@TABLE
@WORK
@pytest.mark.parametrize("n", range(3, 10))
def test_triangle_dual_twins(stored, dtype, n):
    for i, (start, stop) in enumerate(ranges(n)):
        outcomes = []
        for module in (reference, numba_kernels):
            arrays = state(n, stored, dtype, n + i)
            drivers(module).dual(
                *arrays, np.array([[start, stop]]), *BOUNDS[i % len(BOUNDS)], 0.7, 0.4
            )
            outcomes.append(arrays)
        for a, b in zip(*outcomes, strict=True):
            assert a.dtype == b.dtype
            close(a, b, 4 * tolerance(stored, dtype))


@BOTH
def test_a_pass_in_pieces_is_the_whole_pass(ops):
    n, cuts = 7, [0, 1, 14, 15, 44, 76, 105]
    whole, pieces = (state(n, np.float64, np.float64, 0) for _ in range(2))
    drivers(ops).dual(*whole, np.array([[0, 105]]), -INF, 0.1, 0.5, 0.3)
    drivers(ops).dual(*pieces, np.array(list(pairwise(cuts))), -INF, 0.1, 0.5, 0.3)
    for a, b in zip(whole, pieces, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-13, atol=1e-13)
