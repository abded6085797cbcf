"""Compiled kernels equal their plain twins; the package lives without numba."""

import inspect
import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest
import scipy.sparse as sp

from condgrad.backends import _reference as reference

numba_kernels = pytest.importorskip("condgrad.backends._numba", exc_type=ImportError)
BOTH = pytest.mark.parametrize("ops", [reference, numba_kernels], ids=["reference", "numba"])
REAL = pytest.mark.parametrize("dtype", [np.float64, np.float32])
SEED = pytest.mark.parametrize("seed", range(5))
NAMES = {
    *("fresh", "forget", "take", "add_at", "table_swap", "hash_swap", "hash_grow"),
    *("axpy", "axpy_at", "interval_slope", "absolute_slope", "gram_product"),
    *("triangle_gather", "triangle_scatter", "triangle_sweep", "triangle_add"),
    *("interval_dual", "triangle_dual"),
    *("csr_gather", "csr_scatter", "dense_gather", "dense_scatter", "row_gather"),
    *("rank_one_step", "symmetrise", "lanczos"),
}


def kernels(module):
    found = {
        name
        for name, f in vars(module).items()
        if callable(f)
        and not name.startswith("_")
        and getattr(f, "__module__", "") in (module.__name__, f"{module.__name__}_triangles")
    }
    return found - {"compile_seconds", "triangle_address"}


def same(a, b, dtype):
    tol = 1e-11 if dtype == np.float64 else 2e-4
    if isinstance(a, tuple):
        for x, y in zip(a, b, strict=True):
            same(x, y, dtype)
    elif a is not None or b is not None:
        assert np.asarray(a).dtype.kind == np.asarray(b).dtype.kind
        if isinstance(a, np.ndarray):
            assert a.dtype == b.dtype
        assert np.shape(a) == np.shape(b)
        assert np.allclose(a, b, rtol=tol, atol=tol)


def check_twins(name, dtype, *arguments):
    """Run both twins on copies; compare results and everything written in place."""
    outcomes = []
    for module in (reference, numba_kernels):
        mine = [a.copy() if isinstance(a, np.ndarray) else a for a in arguments]
        outcomes.append(
            (getattr(module, name)(*mine), *(a for a in mine if isinstance(a, np.ndarray)))
        )
    same(*outcomes, dtype)
    return outcomes[0]


def test_both_modules_offer_the_contract():
    assert kernels(reference) == kernels(numba_kernels) == NAMES
    for name in NAMES:
        ours, theirs = getattr(reference, name), getattr(numba_kernels, name).py_func
        assert list(inspect.signature(ours).parameters) == list(
            inspect.signature(theirs).parameters
        )


@SEED
@pytest.mark.parametrize("narrow", [np.int32, np.int64])
def test_fresh_and_forget(seed, narrow):
    rng = np.random.default_rng(seed)
    size = int(rng.integers(10, 500))
    seen, out, count = np.zeros(size // 64 + 1, np.uint64), np.full(8, -1), 0
    drawn = []
    for _ in range(3):
        ids = rng.integers(0, size, 6).astype(narrow)
        drawn = list(dict.fromkeys(drawn + ids.tolist()))
        count, _, seen, out = check_twins("fresh", np.float64, ids, seen, out, count)
        assert count == min(len(drawn), out.size)
        assert out[:count].tolist() == drawn[:count]
        if count == out.size:
            break
    marked = [i for i in range(size) if seen[i >> 6] >> np.uint64(i & 63) & np.uint64(1)]
    assert marked == sorted(out[:count].tolist())
    _, _, seen = check_twins("forget", np.float64, out[:count], seen)
    assert not seen.any()


@REAL
@SEED
def test_take_and_add_at(dtype, seed):
    rng = np.random.default_rng(seed)
    x, index = rng.standard_normal(20).astype(dtype), rng.integers(0, 20, 50)
    y = rng.standard_normal(50).astype(dtype)
    assert np.array_equal(check_twins("take", dtype, x, index)[0], x[index])
    check_twins("take", dtype, np.arange(20), index)
    total = check_twins("add_at", dtype, x, index, y)[1]
    assert total == pytest.approx(x + np.bincount(index, y, 20), abs=1e-4)
    check_twins("add_at", dtype, x, index[:0], y[:0])


@REAL
@SEED
@pytest.mark.parametrize("stored", [np.float64, np.float32])
def test_table_swap(dtype, stored, seed):
    rng = np.random.default_rng(seed)
    table, ids = rng.standard_normal(9).astype(stored), rng.integers(0, 9, 40)
    new = rng.standard_normal(40).astype(dtype)
    delta, after, *_ = check_twins("table_swap", dtype, table, ids, new)
    assert delta.dtype == dtype
    assert after - table == pytest.approx(np.bincount(ids, delta, 9), abs=1e-5)
    last = {int(i): v for i, v in zip(ids, new, strict=True)}
    assert all(after[i] == stored(v) for i, v in last.items())


@REAL
@SEED
@pytest.mark.parametrize("stored", [np.float64, np.float32])
def test_hash_swap_and_grow(dtype, stored, seed):
    rng = np.random.default_rng(seed)
    keys, values, dense = np.full(64, -1), np.zeros(64, stored), {}
    ids = rng.integers(0, 10**15, 25)[rng.integers(0, 25, 60)]
    new = rng.standard_normal(60).astype(dtype) * (rng.random(60) < 0.7)
    (delta, inserted), keys, values, *_ = check_twins("hash_swap", dtype, keys, values, ids, new)
    for i, v, d in zip(ids.tolist(), new, delta, strict=True):
        assert d == pytest.approx(stored(v) - dense.get(i, 0), abs=1e-6)
        dense[i] = stored(v)
    assert inserted == (keys >= 0).sum() == len(set(keys.tolist())) - 1
    assert {k for k, v in dense.items() if v} <= set(keys.tolist()) <= {-1, *dense}
    more, held, *_ = check_twins("hash_grow", dtype, keys, values, 256)[0]
    assert more.size == held.size == 256
    assert held.dtype == stored
    assert {int(k): v for k, v in zip(more, held, strict=True) if k >= 0} == {
        int(k): v for k, v in zip(keys, values, strict=True) if k >= 0
    }


@REAL
@pytest.mark.parametrize("n", [3, 4, 5, 8, 13, 50])  # 50: 49 · (1/49) < 1 in floating point
def test_triangles(dtype, n):
    rng, size = np.random.default_rng(n), n * (n - 1) * (n - 2) // 2
    W, G = rng.standard_normal((2, n, n)).astype(dtype)
    for ids in (np.arange(size), rng.integers(0, size, 700), np.array([], np.int64)):
        check_twins("triangle_gather", dtype, W, ids)
        y = rng.standard_normal(ids.size).astype(dtype)
        y[::3] = 0
        check_twins("triangle_scatter", dtype, G, ids, y)
    for start, stop in (
        (0, size),
        (0, 0),
        (size, size),
        *np.sort(rng.integers(0, size + 1, (20, 2))),
    ):
        check_twins("triangle_sweep", dtype, W, int(start), int(stop))
        y = rng.standard_normal(int(stop - start)).astype(dtype)
        check_twins("triangle_add", dtype, G, int(start), int(stop), y)


def test_triangle_ids_beyond_32_bits():
    n = 3000
    size = n * (n - 1) * (n - 2) // 2
    W = np.random.default_rng(0).standard_normal((n, n))
    ids = np.r_[size - 1, np.random.default_rng(1).integers(2**32, size, 2000)]
    check_twins("triangle_gather", np.float64, W, ids)
    # Ids next to the borders of a group, where a division by multiplication may slip.
    pairs = (n - 1) * (n - 2) // 2
    edges = (np.arange(1, n) * pairs)[:, None] + np.array([-1, 0, 1])
    check_twins("triangle_gather", np.float64, W, edges.reshape(-1))
    check_twins("triangle_sweep", np.float64, W, size - 5000, size)


@REAL
@SEED
def test_rows_of_a_matrix(dtype, seed):
    rng = np.random.default_rng(seed)
    X = np.where(rng.random((12, 7)) < 0.4, rng.standard_normal((12, 7)), 0.0)
    X[3] = 0
    A = sp.csr_array(X)
    parts = A.indptr.astype(np.int64), A.indices.astype(np.int64), A.data
    x, G = rng.standard_normal((2, 7)).astype(dtype)
    for ids in (rng.integers(0, 12, 30), np.array([3, 3]), np.array([], np.int64)):
        y = rng.standard_normal(ids.size).astype(dtype)
        z = check_twins("csr_gather", dtype, *parts, x, ids)[0]
        assert z == pytest.approx(X[ids] @ x, abs=1e-5)
        assert z.dtype == dtype
        check_twins("dense_gather", dtype, X, x, ids)
        expected = pytest.approx(G + y @ X[ids], abs=1e-4)
        assert check_twins("csr_scatter", dtype, G, *parts, ids, y)[1] == expected
        assert check_twins("dense_scatter", dtype, G, X, ids, y)[1] == expected
        check_twins("row_gather", dtype, X.astype(dtype), ids)


@REAL
@pytest.mark.parametrize("shape", [(1, 1), (5, 5), (3, 8), (70, 33)])
def test_rank_one_step(dtype, shape):
    rng = np.random.default_rng(2)
    W, u, v = (
        rng.standard_normal(shape),
        rng.standard_normal(shape[0]),
        rng.standard_normal(shape[1]),
    )
    W, u, v = W.astype(dtype), u.astype(dtype), v.astype(dtype)
    out = check_twins("rank_one_step", dtype, W, 0.75, -2.0, u, v)[1]
    assert out == pytest.approx(0.75 * W - 2 * np.outer(u, v), abs=1e-5)
    check_twins("rank_one_step", dtype, W, 0.0, 1.0, u, v)


@REAL
@pytest.mark.parametrize("n", [1, 2, 31, 32, 33, 64, 75])
def test_symmetrise(dtype, n):
    V = np.random.default_rng(n).standard_normal((n, n)).astype(dtype)
    out = check_twins("symmetrise", dtype, V)[1]
    assert out == pytest.approx((V + V.T) / 2, abs=1e-6)
    assert np.array_equal(out, out.T)


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
    x, value, residual, scale, products = ops.lanczos(short, False, start, n + extra, eps)
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
    x, value, *_ = ops.lanczos(V, False, start, N, 2.2e-16)
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
    x, value, residual, *_ = ops.lanczos(V, True, start, shape[1], eps)
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
    x, value, residual, _, products = ops.lanczos(V, False, start, 1, 2.2e-16)
    assert value == pytest.approx(values[which])
    assert abs(x @ vectors[:, which]) == pytest.approx(1)
    assert residual <= 1e-12 * np.abs(values).max()
    assert products == 2
    again = ops.lanczos(V, False, start, N, 2.2e-16)
    assert np.isfinite(again[0]).all()
    assert again[1] <= value + 1e-12
    assert again[2] <= 1e-10 * np.abs(values).max()


@SEED
def test_lanczos_twins_agree_before_convergence(seed):
    start = np.random.default_rng(seed).standard_normal(N)
    for steps in (1, 2, 7):
        args = symmetric(N, seed), False, start, steps, 2.2e-16
        a, b = reference.lanczos(*args), numba_kernels.lanczos(*args)
        assert a[1:] == pytest.approx(b[1:], rel=1e-8)
        assert abs(a[0] @ b[0]) == pytest.approx(1)
    V = np.diag(np.r_[-50.0, np.linspace(1, 2, 99)])  # found within a few steps
    args = V, False, np.random.default_rng(seed).standard_normal(100), 100, 2.2e-16, 0.01
    a, b = reference.lanczos(*args), numba_kernels.lanczos(*args)
    assert a[4] == b[4] == 8
    assert a[1:4] == pytest.approx(b[1:4], rel=1e-6, abs=1e-9)
    assert a[2] <= 0.01 * abs(a[1])
    for x, value, residual, *_ in (a, b):  # read off the projection, no product spent
        assert value == pytest.approx(x @ V @ x, rel=1e-9)
        assert residual == pytest.approx(np.linalg.norm(V @ x - value * x), rel=1e-3, abs=1e-9)
    short = symmetric(N, seed).astype(np.float32)  # the matrix decides the precision
    assert reference.lanczos(short, False, start, 5, 1e-7)[0].dtype == np.float32


SOLVE = """
import sys
import numpy as np
{before}
import condgrad
from condgrad import domains, functions, maps
from condgrad.backends import backend
heavy = {{"numba", "pandas", "matplotlib", "networkx"}} & {{k for k, m in sys.modules.items() if m}}
assert not heavy, heavy
problem = condgrad.Problem(domains.Spectrahedron(5, trace=1.0, equality=True), [
    condgrad.Term(maps.Inner(np.diag([3.0, 1, 2, 5, 4])), functions.Linear()),
    condgrad.Term(maps.Triangles(5), functions.AtMost(0.0)),
])
result = condgrad.solve(problem, condgrad.h_sag_v2(beta0=1.0, batch=7), max_iter=300)
assert np.isfinite(result.objective), result
assert 0.9 < result.objective < 3.0, result.objective
assert backend() == "{backend}", backend()
assert ("numba" in sys.modules and sys.modules["numba"] is not None) == (backend() == "numba")
print("done")
"""


@pytest.mark.parametrize(
    ("before", "choice", "expected"),
    [
        ("", None, "numba"),
        ("", "reference", "reference"),
        ("", "numba", "numba"),
        ("sys.modules['numba'] = None", None, "reference"),
    ],
    ids=["auto", "reference", "numba", "no numba"],
)
def test_import_is_light_and_every_backend_solves(before, choice, expected):
    env = {k: v for k, v in os.environ.items() if k != "CONDGRAD_BACKEND"}
    env |= {"CONDGRAD_BACKEND": choice} if choice else {}
    code = textwrap.dedent(SOLVE).format(before=before, backend=expected)
    run = subprocess.run([sys.executable, "-W", "error", "-c", code], env=env, capture_output=True)
    assert run.stdout.decode().strip() == "done", run.stderr.decode()


def test_an_unknown_backend_is_refused(monkeypatch):
    from condgrad.backends import backend

    monkeypatch.setenv("CONDGRAD_BACKEND", "fortran")
    with pytest.raises(ImportError, match="CONDGRAD_BACKEND is 'fortran'"):
        backend()
