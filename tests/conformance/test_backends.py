"""Compiled kernels equal their plain twins; the package lives without numba."""

import inspect
import os
import sys
import textwrap

import numpy as np
import pytest
import scipy.sparse as sp

import processes
from condgrad.backends import _reference as reference
from condgrad.backends.contract import CONTRACT

numba_kernels = pytest.importorskip("condgrad.backends._numba", exc_type=ImportError)
BOTH = pytest.mark.parametrize("ops", [reference, numba_kernels], ids=["reference", "numba"])
REAL = pytest.mark.parametrize("dtype", [np.float64, np.float32])
SEED = pytest.mark.parametrize("seed", range(5))
WARNINGS = ("-W", "error", "-W", "ignore::ImportWarning")
"""NumPy warns so of switches in the environment that its build does not know."""
OWN = {m: [m.__name__, f"{m.__name__}_fused"] for m in (reference, numba_kernels)}


def kernels(module):
    found = {
        name
        for name, f in vars(module).items()
        if callable(f) and not name.startswith("_") and getattr(f, "__module__", "") in OWN[module]
    }
    return found - {"compile_seconds", "Eliminated", "Family"}


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


def check_twins(name, dtype, *arguments, modules=(reference, numba_kernels)):
    """Run both twins on copies; compare results and everything written in place."""
    outcomes = []
    for module in modules:
        mine = [a.copy() if isinstance(a, np.ndarray) else a for a in arguments]
        outcomes.append(
            (getattr(module, name)(*mine), *(a for a in mine if isinstance(a, np.ndarray)))
        )
    same(*outcomes, dtype)
    return outcomes[0]


def drivers(module):
    """The passes over triangle rows."""
    return module.fused(module.triangle_sweep, module.triangle_add)


def check_passes(name, dtype, *arguments):
    return check_twins(
        name, dtype, *arguments, modules=(drivers(reference), drivers(numba_kernels))
    )


def test_both_modules_offer_the_contract():
    assert kernels(reference) == kernels(numba_kernels) == set(CONTRACT)
    pairs = [(getattr(reference, n), getattr(numba_kernels, n)) for n in CONTRACT]
    pairs += zip(drivers(reference), drivers(numba_kernels), strict=True)
    for ours, theirs in pairs:
        plain = getattr(theirs, "py_func", theirs)
        assert (
            inspect.signature(ours).parameters.keys() == inspect.signature(plain).parameters.keys()
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
    product = check_twins("dot_at", dtype, x, index, y.astype(np.float64))[0]
    assert product == pytest.approx(float(x[index] @ y), abs=1e-4)
    check_twins("signed_sums", dtype, y)
    check_twins("masked_squares", dtype, y, np.where(y > 0.5, y, 0))


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
        start, stop = int(start), int(stop)
        check_twins("triangle_sweep", dtype, W, start, stop, np.zeros(stop - start, dtype))
        y = rng.standard_normal(stop - start).astype(dtype)
        check_twins("triangle_add", dtype, G, start, stop, y)
        ends = np.array([[start, stop], [0, size // 3]])
        some = rng.standard_normal(size).astype(dtype) * (rng.random(size) < 0.4)
        check_passes("squares", dtype, W, some.astype(dtype), ends)
        for low, high in ((-np.inf, 0.0), (0.0, np.inf), (-0.3, 0.2)):
            check_passes("miss", dtype, W, start, stop, low, high)
            check_passes("merit", dtype, W, some.astype(dtype), start, stop, low, high, 0.7)
            all_y, G64 = rng.standard_normal(size).astype(dtype), G.astype(np.float64)
            for images in (True, False):
                check_passes("pair", dtype, W, images, G64, all_y, start, stop, low, high)


@REAL
@pytest.mark.parametrize("n", [3, 4, 5, 13])
def test_perimeters(dtype, n):
    rng, size = np.random.default_rng(n), n * (n - 1) * (n - 2) // 6
    W, G = rng.standard_normal((2, n, n)).astype(dtype)
    for ids in (np.arange(size), rng.integers(0, size, 100), np.array([], np.int64)):
        check_twins("perimeter_gather", dtype, W, ids)
        y = rng.standard_normal(ids.size).astype(dtype)
        y[::3] = 0
        check_twins("perimeter_scatter", dtype, G, ids, y)
    pieces = ((0, size), (0, 0), (size, size), *np.sort(rng.integers(0, size + 1, (20, 2))))
    for start, stop in pieces:
        start, stop = int(start), int(stop)
        check_twins("perimeter_sweep", dtype, W, start, stop, np.zeros(stop - start, dtype))
        y = rng.standard_normal(stop - start).astype(dtype)
        check_twins("perimeter_add", dtype, G, start, stop, y)


def test_perimeter_ids_beyond_32_bits():
    n = 3000
    W = np.random.default_rng(0).standard_normal((n, n))
    q = np.arange(3, n)
    edges = (q * (q - 1) * (q - 2) // 6)[:, None] + np.array([-1, 0, 1])
    some = np.random.default_rng(1).integers(2**32, n * (n - 1) * (n - 2) // 6, 2000)
    check_twins("perimeter_gather", np.float64, W, np.r_[edges.reshape(-1), some])


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
    check_twins("triangle_sweep", np.float64, W, size - 5000, size, np.zeros(5000))


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
    done = processes.run(sys.executable, *WARNINGS, "-c", code, env=env)
    assert done.stdout.strip() == "done", done.stderr


def test_an_unknown_backend_is_refused(monkeypatch):
    from condgrad.backends import backend

    monkeypatch.setenv("CONDGRAD_BACKEND", "fortran")
    with pytest.raises(ImportError, match="CONDGRAD_BACKEND is 'fortran'"):
        backend()


@SEED
@pytest.mark.parametrize("narrow", [np.int32, np.int64])
def test_sweeps_over_a_graph(seed, narrow):
    rng = np.random.default_rng(seed)
    A = np.triu(rng.normal(size=(20, 20)) * (rng.random((20, 20)) < 0.3), 1)
    A[:, 7] = A[7] = 0
    A = sp.csr_array(A + A.T)
    graph = A.indptr.astype(narrow), A.indices.astype(narrow), A.data
    V = rng.standard_normal((20, 4))
    *_, swept = check_twins("mixing_sweep", np.float64, *graph, V)
    np.testing.assert_array_equal(swept[7], V[7])
    np.testing.assert_allclose(np.delete(np.linalg.norm(swept, axis=1), 7), 1)
    assert np.vdot(swept, A @ swept) < 0
    sign = rng.choice([-1.0, 1.0], 20)
    gain, least = sign * (A @ sign), -0.3 * rng.exponential(size=20)
    flipped, *_, after, gains, _ = check_twins("flip_sweep", np.float64, *graph, sign, gain, least)
    assert flipped == np.count_nonzero(after != sign)
    np.testing.assert_allclose(gains, after * (A @ after), atol=1e-12)


@SEED
@pytest.mark.parametrize("narrow", [np.int32, np.int64])
@pytest.mark.parametrize("whole", [True, False])
def test_graphs_made_smaller_and_tighter(seed, narrow, whole):
    rng = np.random.default_rng(seed)
    weights = rng.integers(-2, 3, (40, 40)) if whole else rng.normal(size=(40, 40)) ** 3
    A = np.triu(weights * (rng.random((40, 40)) < 0.02 * (seed + 3)), 1).astype(float)
    A = sp.csr_array(A + A.T)
    graph = A.indptr.astype(narrow), A.indices.astype(narrow), A.data
    found, *_ = check_twins("eliminate", np.float64, *graph, 6)
    other = numba_kernels.eliminate(*graph, 6)
    for one, two in zip(found, other, strict=True):  # the same operations in the same order
        np.testing.assert_array_equal(one, two)
    assert 0 < found.order.size < 40
    check_twins("lift_signs", np.float64, *found[:4], rng.choice([-1.0, 1.0], 40))
    U = sp.csr_array(sp.triu(abs(A), 1))
    edges = rng.permutation(U.nnz).astype(np.int32)
    heads = U.indptr.astype(narrow), U.indices.astype(narrow), edges
    triangles = [module.list_triangles(*heads, 1000) for module in (reference, numba_kernels)]
    for found in triangles:
        np.testing.assert_array_equal(*(np.unique(t, axis=0) for t in triangles))
        assert found.shape == triangles[0].shape
        assert found.dtype == np.int32
    for module in (reference, numba_kernels):
        assert module.list_triangles(*heads, len(found) - 1).shape == (0, 3)
    size = (len(found), 4)
    how = (rng.random(U.nnz), rng.random(size) * (rng.random(size) < 0.5), rng.random(U.nnz) + 0.1)
    check_twins("triangle_multipliers", np.float64, found, *how, 0.3, U.data, np.ones(U.nnz))


@SEED
def test_ridge_rows(seed):
    rng = np.random.default_rng(seed)
    rows, cols, k = 7, 5, int(rng.integers(0, 5))
    seen = sp.random_array((rows, cols), density=0.5, rng=rng, format="csr")
    X, roots = rng.standard_normal((cols, k + 1)), rng.standard_normal((cols, k + 1, k + 1))
    M = roots @ roots.transpose(0, 2, 1) + X[:, :, None] * X[:, None, :]
    out, moments = np.full((rows, k + 1), 9.0), np.full((rows, k + 1, k + 1), 9.0)
    how = (rng.uniform(0.5, 2, k + 1), 0.7, 1, rows - 1, out, moments)
    data = (seen.indptr, seen.indices, rng.standard_normal(seen.nnz))
    error, *_, out, moments = check_twins("ridge_rows", np.float64, *data, X, M, *how)
    assert (out[[0, -1]] == 9).all()
    sure = check_twins("ridge_rows", np.float64, *data, X, X[:, :, None] * X[:, None, :], *how)
    assert sure[0] >= 0
    assert error >= 0
