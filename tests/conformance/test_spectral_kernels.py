"""Kernels of the spectral oracles: Lanczos, its small eigenproblem, the symmetric part."""

import numpy as np
import pytest
import scipy.linalg

from condgrad.backends import _reference as reference

numba_kernels = pytest.importorskip("condgrad.backends._numba", exc_type=ImportError)
BOTH = pytest.mark.parametrize("ops", [reference, numba_kernels], ids=["reference", "numba"])
REAL = pytest.mark.parametrize("dtype", [np.float64, np.float32])
SEED = pytest.mark.parametrize("seed", range(5))


def lanczos(ops, V, gram, start, steps, eps, enough=0.0, fixed=None):
    known = 0 if fixed is None else fixed.shape[1]
    Q = np.empty((known + steps, start.size), V.dtype)
    if known:
        Q[:known] = fixed.T
    return ops.lanczos(V, gram, start, Q, known, eps, enough)


@BOTH
@REAL
@pytest.mark.parametrize("n", [1, 2, 31, 32, 33, 70])
def test_symmetric_part(ops, dtype, n):
    v = np.random.default_rng(n).standard_normal((n, n)).astype(dtype)
    out = np.full((n, n), np.nan, dtype)
    ops.symmetric_part(v, out)
    assert (out == (v + v.T) / 2).all()


@BOTH
@REAL
@pytest.mark.parametrize("n", [1, 33, 70])
def test_descended(ops, dtype, n):
    v, W, offset = np.random.default_rng(n).standard_normal((3, n, n)).astype(dtype)
    out = np.full((n, n), np.nan, dtype)
    for own in (None, offset):
        ops.descended(W, v, 0.3, own, out)
        wanted = W - 0.15 * (v + v.T) - (0 if own is None else own)
        np.testing.assert_allclose(out, wanted, atol=1e-5 if dtype == np.float32 else 1e-14)


TRIDIAGONAL = {
    "random": lambda m, rng: (rng.standard_normal(m), rng.random(m - 1)),
    "positive": lambda m, rng: (5 + rng.random(m), rng.random(m - 1)),
    "falling off": lambda m, rng: (rng.standard_normal(m), 10.0 ** -np.arange(m - 1.0)),
    "lowest near 0": lambda m, rng: (2 * np.ones(m), np.ones(m - 1)),
    "diagonal": lambda m, rng: (np.arange(m, dtype=float) - 3, np.zeros(m - 1)),
    "huge": lambda m, rng: (1e12 * rng.standard_normal(m), 1e12 * rng.random(m - 1)),
    "tiny": lambda m, rng: (1e-12 * rng.standard_normal(m), 1e-12 * rng.random(m - 1)),
    "zero": lambda m, rng: (np.zeros(m), np.zeros(m - 1)),
}


@BOTH
@SEED
@pytest.mark.parametrize("m", [1, 2, 7, 60])
@pytest.mark.parametrize("kind", TRIDIAGONAL)
def test_tridiagonal_lowest(ops, seed, m, kind):
    diagonal, off = TRIDIAGONAL[kind](m, np.random.default_rng(seed))
    T = np.diag(diagonal) + np.diag(off, 1) + np.diag(off, -1)
    size = np.abs(T).sum(axis=1).max()
    exact = scipy.linalg.eigvalsh_tridiagonal(diagonal, off)[0]
    value, s = ops.tridiagonal_lowest(diagonal, off, 1e-15)
    assert abs(value - exact) <= 1e-14 * m * size
    assert np.linalg.norm(s) == pytest.approx(1)
    assert np.linalg.norm(T @ s - value * s) <= 1e-12 * size
    rough, _ = ops.tridiagonal_lowest(diagonal, off, 1e-4)
    assert abs(rough - exact) <= 1e-4 * abs(exact) + 1e-14 * m * size


def symmetric(n, seed=0):
    A = np.random.default_rng(seed).standard_normal((n, n))
    return (A + A.T) / 2


N = 50
LAPLACIAN = N * np.eye(N) - np.ones((N, N))
SPECTRA = {
    "random": symmetric(N),
    "degenerate": np.diag(np.repeat([-2.0, 1.0, 5.0], [20, 20, 10])),
    "two close": np.diag(np.r_[-1.0, -1.0 + 1e-9, np.linspace(0, 3, N - 2)]),
    "zero": np.zeros((N, N)),
    "identity": -3.5 * np.eye(N),
    "rank one": -np.ones((N, N)),
    "large Laplacian": 1e7 * LAPLACIAN + symmetric(N),
    "large negative Laplacian": -1e7 * LAPLACIAN + symmetric(N),
    "tiny": 1e-12 * symmetric(N),
    "huge": 1e12 * symmetric(N),
    "one": np.array([[-2.0]]),
}


@BOTH
@REAL
@pytest.mark.parametrize("V", SPECTRA.values(), ids=SPECTRA.keys())
@pytest.mark.parametrize("extra", [0, 1000])
def test_lanczos_finds_the_lowest_pair(ops, dtype, V, extra):
    n, eps = len(V), float(np.finfo(dtype).eps)
    short = np.ascontiguousarray(V, dtype)
    start = np.random.default_rng(1).standard_normal(n).astype(dtype)
    x, value, residual, scale, products = lanczos(ops, short, False, start, n + extra, eps)
    exact = np.linalg.eigvalsh(short.astype(float))
    size = np.abs(exact).max()
    tol = 200 * eps * size
    assert x.dtype == dtype
    assert np.linalg.norm(x) == pytest.approx(1, abs=1e-5)
    assert abs(value - exact[0]) <= tol
    assert residual == pytest.approx(np.linalg.norm(short @ x.astype(float) - value * x), abs=tol)
    assert value >= exact[0] - tol
    assert scale <= 3 * size + tol
    assert 2 <= products <= n + 1


@BOTH
@pytest.mark.parametrize("sign", [1, -1])
def test_lanczos_sees_a_small_matrix_beside_a_large_one(ops, sign):
    # What the trace equality makes: c (n I − 11ᵀ) + S. Along 1 the large part vanishes.
    S = symmetric(N, 3)
    V = sign * 1e7 * LAPLACIAN + S
    start = np.random.default_rng(1).standard_normal(N)
    x, value, *_ = lanczos(ops, V, False, start, N, 2.2e-16)
    exact = np.linalg.eigvalsh(V)[0]
    assert abs(value - exact) <= 1e-5
    if sign > 0:
        assert abs(x.sum()) / np.sqrt(N) == pytest.approx(1, abs=1e-6)
        assert value == pytest.approx(S.sum() / N, abs=1e-3)


@BOTH
@REAL
@pytest.mark.parametrize("shape", [(60, 20), (20, 60), (30, 30), (5, 1)])
@pytest.mark.parametrize("kind", ["random", "low rank", "degenerate", "zero"])
def test_lanczos_on_the_gram_matrix(ops, dtype, shape, kind):
    rng, least = np.random.default_rng(0), min(shape)
    V = rng.standard_normal(shape)
    if kind == "low rank":
        V = np.outer(V[:, 0], V[0])
    elif kind == "degenerate":
        V = np.linalg.qr(rng.standard_normal((max(shape), least)))[0].reshape(max(shape), least)
        V = V if shape[0] >= shape[1] else V.T
    elif kind == "zero":
        V = 0 * V
    V = np.ascontiguousarray(V, dtype)
    start = rng.standard_normal(shape[1]).astype(dtype)
    eps = float(np.finfo(dtype).eps)
    x, value, residual, *_ = lanczos(ops, V, True, start, shape[1], eps)
    top = np.linalg.svd(V.astype(float), compute_uv=False)[0]
    tol = 500 * eps * (top**2 + 1e-30)
    assert abs(value + top**2) <= tol
    assert residual <= max(20 * tol, 1e-5 * top**2)
    assert np.linalg.norm(V @ x) == pytest.approx(top, rel=1e-4)


@BOTH
@pytest.mark.parametrize("which", [0, 1, N - 1])
def test_lanczos_from_an_eigenvector_stops_there(ops, which):
    V = SPECTRA["random"]
    values, vectors = np.linalg.eigh(V)
    start = np.ascontiguousarray(3 * vectors[:, which])
    x, value, residual, _, products = lanczos(ops, V, False, start, 1, 2.2e-16)
    assert value == pytest.approx(values[which])
    assert abs(x @ vectors[:, which]) == pytest.approx(1)
    assert residual <= 1e-12 * np.abs(values).max()
    assert products == 2
    again = lanczos(ops, V, False, start, N, 2.2e-16)
    assert np.isfinite(again[0]).all()
    assert again[1] <= value + 1e-12
    assert again[2] <= 1e-10 * np.abs(values).max()


@SEED
def test_lanczos_twins_agree_before_convergence(seed):
    start = np.random.default_rng(seed).standard_normal(N)
    for steps in (1, 2, 7):
        args = symmetric(N, seed), False, start, steps, 2.2e-16
        a, b = lanczos(reference, *args), lanczos(numba_kernels, *args)
        assert a[1:] == pytest.approx(b[1:], rel=1e-8)
        assert abs(a[0] @ b[0]) == pytest.approx(1)
    V = np.diag(np.r_[-50.0, np.linspace(1, 2, 99)])  # found within a few steps
    args = V, False, np.random.default_rng(seed).standard_normal(100), 100, 2.2e-16, 0.01
    a, b = lanczos(reference, *args), lanczos(numba_kernels, *args)
    assert a[4] == b[4] == 8
    assert a[1:4] == pytest.approx(b[1:4], rel=1e-6, abs=1e-9)
    assert a[2] <= 0.01 * abs(a[1])
    for x, value, residual, *_ in (a, b):  # read off the projection, no product spent
        assert value == pytest.approx(x @ V @ x, rel=1e-9)
        assert residual == pytest.approx(np.linalg.norm(V @ x - value * x), rel=1e-3, abs=1e-9)
    short = symmetric(N, seed).astype(np.float32)  # the matrix decides the precision
    assert lanczos(reference, short, False, start, 5, 1e-7)[0].dtype == np.float32


def test_lanczos_stops_as_soon_as_it_may():
    V = np.random.default_rng(0).standard_normal((300, 200))
    V += 30 * np.outer(V[:, 0], V[0])  # found within a few steps
    args = V, True, np.random.default_rng(1).standard_normal(200), 30, 2.2e-16, 0.1
    a, b = lanczos(reference, *args), lanczos(numba_kernels, *args)
    assert a[4] == b[4] == 4
    assert a[1:4] == pytest.approx(b[1:4], rel=1e-6, abs=1e-6 * abs(a[1]))


@BOTH
@REAL
@pytest.mark.parametrize("enough", [0.0, 1e-3])
def test_lanczos_beside_fixed_vectors(ops, dtype, enough):
    n, rng = 60, np.random.default_rng(4)
    Q = np.linalg.qr(rng.standard_normal((n, 2)))[0]
    V = symmetric(n, 4) - 50 * Q @ Q.T  # without the projection they would win
    P = np.eye(n) - Q @ Q.T
    exact = np.linalg.eigvalsh(P @ V @ P)[0]
    eps, start = float(np.finfo(dtype).eps), rng.standard_normal(n).astype(dtype)
    short = V.astype(dtype)
    x, value, residual, *_ = lanczos(ops, short, False, start, n - 2, eps, enough, Q)
    assert np.abs(Q.T @ x).max() <= 50 * eps
    assert value == pytest.approx(exact, rel=max(enough, 1e-4 if dtype == np.float32 else 1e-12))
    miss = P @ V @ x - value * x
    assert residual == pytest.approx(np.linalg.norm(miss), abs=2e-3 * abs(exact))
