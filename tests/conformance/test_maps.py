"""Every map is linear, agrees with its adjoint, and reads any rows in any order."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from condgrad import domains, maps
from condgrad.errors import ProblemError
from condgrad.maps import (
    AllEntries,
    DataMatrix,
    Diagonal,
    Entries,
    Inner,
    Left,
    LinearMap,
    LowRankStack,
    Perimeters,
    Restricted,
    Right,
    RowSums,
    Sandwich,
    Scaled,
    SparseStack,
    Stack,
    Trace,
    Triangles,
)
from condgrad.points import Factored

RNG = np.random.default_rng(7)


def sparse(shape, density=0.4, symmetric=False):
    A = np.where(RNG.random(shape) < density, RNG.standard_normal(shape), 0.0)
    return sp.csr_array(A + A.T if symmetric else A)


SYMMETRIC = [sparse((4, 4), symmetric=True) for _ in range(5)]
FLAT = sp.csr_array(np.array([A.toarray().reshape(-1) for A in SYMMETRIC]))
X = RNG.standard_normal((6, 3))
PATTERN = sp.coo_array(([5.0, 0.0, 2.0], ([2, 0, 1], [0, 3, 1])), shape=(3, 4))
PRODUCT = domains.Product([domains.Simplex(3), domains.Spectrahedron(4), domains.Simplex(3)])

MAPS = {
    "AllEntries square": AllEntries(4),
    "AllEntries wide": AllEntries((3, 5)),
    "Entries": Entries([2, 0, 1], [0, 3, 1], (3, 4)),
    "Entries tall": Entries(np.array([4, 0], np.int32), np.array([1, 0], np.uint8), (5, 2)),
    "Entries square": Entries([2, 0], [0, 3], (4, 4)),
    "Entries mirrored": Entries([2, 0, 0], [0, 3, 2], (4, 4)),
    "Entries diagonal": Entries([1, 0], [1, 3], 4),
    "Entries.of": Entries.of(PATTERN),
    "Diagonal": Diagonal(4),
    "Inner dense": Inner(RNG.standard_normal((3, 4))),
    "Inner square": Inner(RNG.standard_normal((4, 4))),
    "AllEntries of a vector": AllEntries((5,)),
    "Inner symmetric": Inner(SYMMETRIC[0].toarray()),
    "Inner sparse": Inner(sparse((4, 4))),
    "Inner sparse wide": Inner(sparse((3, 6))),
    "Inner vector": Inner([1, -2, 4]),
    "Trace": Trace(5),
    "RowSums": RowSums(4),
    "RowSums wide": RowSums((3, 5)),
    "RowSums tall": RowSums((5, 2)),
    **{f"Triangles {n}": Triangles(n) for n in range(3, 9)},
    **{f"Triangles unit {n}": Triangles(n, unit=True) for n in (3, 4, 6)},
    **{f"Perimeters {n}": Perimeters(n) for n in (3, 4, 6)},
    "SparseStack": SparseStack(SYMMETRIC),
    "SparseStack dense": SparseStack([A.toarray() for A in SYMMETRIC]),
    "SparseStack flat": SparseStack(FLAT, n=4),
    "SparseStack wide": SparseStack([sparse((2, 3)), RNG.standard_normal((2, 3))]),
    "SparseStack flat wide": SparseStack(sparse((4, 6)), n=(2, 3)),
    "SparseStack askew": SparseStack([sparse((3, 3)), sparse((3, 3))]),
    "LowRankStack": LowRankStack(RNG.standard_normal((4, 5)), [2, 1, 2], [1, -2.0, 0, 3, 0.5]),
    "LowRankStack ones": LowRankStack(np.eye(4), [1, 1, 1, 1]),
    "DataMatrix": DataMatrix(X),
    "DataMatrix csr": DataMatrix(sparse((7, 4))),
    "DataMatrix of matrices": DataMatrix(RNG.standard_normal((4, 2, 3))),
    "DataMatrix csr wide": DataMatrix(sparse((4, 6)), shape=(2, 3)),
    "Left": Left(RNG.standard_normal((3, 4)), columns=2),
    "Left csr": Left(sparse((3, 4)), columns=4),
    "Right": Right(RNG.standard_normal((4, 3)), rows=2),
    "Right csr": Right(sparse((4, 2)), rows=4),
    "Sandwich": Sandwich(RNG.standard_normal((2, 3)), RNG.standard_normal((4, 3))),
    "Sandwich csr": Sandwich(sparse((5, 4)), sparse((4, 2))),
    "Sandwich mixed": Sandwich(sparse((2, 4)), RNG.standard_normal((4, 4))),
    "Triangles weighted": Triangles(4, [1.0, 5.0, 0.3, 2.0]),
    "Stack": Stack([RowSums(4), Trace(4), Diagonal(4), Triangles(4)]),
    "Stack nested": Stack([Stack([Trace(4), AllEntries(4)]), Entries([1], [2], 4)]),
    "Stack vectors": Stack([DataMatrix(X), Inner([1.0, 0.0, -1.0]), DataMatrix(sp.csr_array(X))]),
    "Scaled": Scaled(AllEntries((2, 3)), -2.5),
    "Scaled rows": Scaled(Triangles(5), RNG.standard_normal(30)),
    "Scaled stack": Scaled(Stack([RowSums(4), Trace(4)]), [1, 2, 3, 4, 0]),
    "Restricted vector": Restricted(DataMatrix(X), PRODUCT, 2),
    "Restricted matrix": Restricted(Triangles(4), PRODUCT, 1),
    "Restricted entries": Restricted(Entries([1], [2], 4), PRODUCT, 1),
    "Restricted sparse": Restricted(Inner(SYMMETRIC[1]), PRODUCT, 1),
}
over = pytest.mark.parametrize("A", MAPS.values(), ids=MAPS.keys())
seeds = given(seed=st.integers(0, 10**6))


def matrix_of(A, symmetric=False):
    """A as an explicit matrix, from its values on an orthonormal basis of all (symmetric) W."""
    basis = list(np.eye(int(np.prod(A.shape))).reshape(-1, *A.shape))
    if symmetric:
        n = A.shape[0]
        basis = [basis[i * n + j] + basis[j * n + i] for i in range(n) for j in range(i + 1)]
        basis = [E / np.linalg.norm(E) for E in basis]
    return np.array([A.rows(E) for E in basis]).T


def cases(A, rng):
    """Ids with repeats, no ids, and slices of every kind."""
    low, high = np.sort(rng.integers(0, A.size + 1, 2))
    yield rng.integers(0, A.size, rng.integers(1, 2 * A.size + 2))
    yield np.array([], np.int64)
    yield from (slice(None), slice(0, A.size), slice(low, high), slice(low, low))
    yield from (slice(int(low), None), slice(None, int(high)))


def test_every_public_map_is_tested():
    assert {type(A).__name__ for A in MAPS.values()} == set(maps.__all__) - {"LinearMap"}


@over
@settings(max_examples=10)
@seeds
def test_adjoint(A, seed):
    rng = np.random.default_rng(seed)
    W, y = rng.standard_normal(A.shape), rng.standard_normal(A.size)
    if isinstance(A, Triangles):
        W = W + W.T
    z, V = A.rows(W), A.adjoint(y)
    assert z.shape == (A.size,)
    assert V.shape == A.shape
    assert z @ y == pytest.approx(np.vdot(W, V), rel=1e-10, abs=1e-10)


@over
@settings(max_examples=10)
@seeds
def test_linear(A, seed):
    rng = np.random.default_rng(seed)
    V, W, (a, b) = rng.standard_normal(A.shape), rng.standard_normal(A.shape), rng.normal(size=2)
    assert A.rows(a * V + b * W) == pytest.approx(a * A.rows(V) + b * A.rows(W), abs=1e-10)
    assert not A.rows(np.zeros(A.shape)).any()


@over
@settings(max_examples=10)
@seeds
def test_some_rows_are_rows_of_all(A, seed):
    rng = np.random.default_rng(seed)
    W = rng.standard_normal(A.shape)
    everything, before = A.rows(W), W.copy()
    for at in cases(A, rng):
        z = A.rows(W, at)
        assert z.shape == everything[at].shape
        assert z == pytest.approx(everything[at], rel=1e-12, abs=1e-12)
    assert np.array_equal(W, before)


@over
@settings(max_examples=10)
@seeds
def test_scatter_adds_every_row_named(A, seed):
    rng = np.random.default_rng(seed)
    M = matrix_of(A)
    for at in cases(A, rng):
        ids = np.arange(A.size)[at]
        y = rng.standard_normal(ids.size)
        G = A.zeros()
        A.scatter(G, slice(None), np.ones(A.size))
        A.scatter(G, at, y)
        by_ids = A.zeros()
        A.scatter(by_ids, ids, y)
        A.scatter(by_ids, np.arange(A.size), np.ones(A.size))
        assert G.shape == (A.storage,)
        assert by_ids == pytest.approx(G, abs=1e-10)
        out = np.zeros(A.shape)
        A.add_to(G, 1.0, out)
        expected = M.T @ (np.bincount(ids, y, A.size) + 1)
        assert out.reshape(-1) == pytest.approx(expected, abs=1e-10)


@over
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_add_to_accumulates_with_its_weight(A, dtype):
    rng = np.random.default_rng(3)
    y, start = rng.standard_normal(A.size).astype(dtype), rng.standard_normal(A.shape).astype(dtype)
    G, out = A.zeros(dtype), start.copy()
    A.scatter(G, slice(None), y)
    kept = G.copy()
    for _ in range(2):
        A.add_to(G, -1.5, out)
    assert out.dtype == G.dtype == dtype
    assert np.array_equal(G, kept)
    expected = start.reshape(-1) - 3 * (matrix_of(A).T @ y)
    assert out.reshape(-1) == pytest.approx(expected, abs=1e-10 if dtype == np.float64 else 1e-4)


@over
def test_out_in_column_order_is_written(A):
    if len(A.shape) == 2:
        y, out = np.arange(1.0, A.size + 1), np.zeros(A.shape, order="F")
        G = A.zeros()
        A.scatter(G, slice(None), y)
        A.add_to(G, 1.0, out)
        assert out == pytest.approx(A.adjoint(y))


@over
def test_w_in_column_order_is_read(A):
    if len(A.shape) == 2:
        W = np.random.default_rng(1).standard_normal(A.shape)
        for at in (slice(None), slice(0, A.size), np.arange(A.size)):
            assert A.rows(np.asfortranarray(W), at) == pytest.approx(A.rows(W, at))


@over
def test_norms(A):
    M = matrix_of(A)
    largest = np.linalg.norm(M, axis=1).max()
    assert largest <= A.row_norm * (1 + 1e-12) <= 3 * largest
    assert A.norm() == pytest.approx(np.linalg.norm(M, 2), rel=1e-4)


@over
def test_norm_over_symmetric_matrices(A):
    B = A.map if isinstance(A, Restricted) else A
    square = len(B.shape) == 2 and B.shape[0] == B.shape[1]
    expected = np.linalg.norm(matrix_of(B, symmetric=square), 2)
    assert A.norm(symmetric=True) == pytest.approx(expected, rel=1e-4)


def test_norm_of_nothing_is_zero():
    assert Scaled(Trace(3), 0.0).norm() == 0
    assert SparseStack([np.zeros((2, 2))]).norm() == 0
    assert Inner(sp.csr_array((3, 3))).norm() == 0


@over
def test_single_precision_stays_single(A):
    W = np.random.default_rng(5).standard_normal(A.shape)
    ids = np.array([A.size - 1, 0, 0])
    for at in (slice(None), slice(0, A.size), ids):
        z = A.rows(W.astype(np.float32), at)
        assert z.dtype == np.float32
        assert z == pytest.approx(A.rows(W, at), abs=1e-5)
    assert A.adjoint(np.ones(A.size, np.float32)).dtype == np.float32


@pytest.mark.parametrize("n", range(3, 9))
def test_triangles_name_every_triple_once(n):
    A, W = Triangles(n), np.random.default_rng(n).standard_normal((n, n))
    W = W + W.T
    p, q, r = A.triples(np.arange(A.size))
    wanted = {(a, b, c) for a in range(n) for c in range(a + 1, n) for b in range(n)}
    wanted = {t for t in wanted if len(set(t)) == 3}
    assert A.size == len(wanted) == n * (n - 1) * (n - 2) // 2
    assert set(zip(p.tolist(), q.tolist(), r.tolist(), strict=True)) == wanted
    values = W[p, q] + W[q, r] - W[p, r] - W[q, q]
    assert A.rows(W) == pytest.approx(values)
    assert A.rows(W, np.arange(A.size)) == pytest.approx(values)


@pytest.mark.parametrize("n", range(3, 9))
def test_perimeters_name_every_triple_once(n):
    A, W = Perimeters(n), np.random.default_rng(n).standard_normal((n, n))
    W = W + W.T
    p, q, r = A.triples(np.arange(A.size))
    wanted = {(a, c, b) for c in range(n) for b in range(c) for a in range(b)}
    assert A.size == len(wanted)
    assert set(zip(p.tolist(), q.tolist(), r.tolist(), strict=True)) == wanted
    assert A.rows(W) == pytest.approx(W[p, q] + W[q, r] + W[p, r])


def test_triangles_of_a_unit_diagonal_leave_it_out():
    W = np.random.default_rng(0).standard_normal((6, 6))
    W = W + W.T
    A, B = Triangles(6, unit=True), Triangles(6)
    q = A.triples(np.arange(A.size))[1]
    assert A.rows(W) == pytest.approx(B.rows(W) + np.diag(W)[q])
    assert not np.diag(A.adjoint(np.ones(A.size))).any()
    with pytest.raises(ProblemError, match="weights are given beside unit"):
        Triangles(6, np.ones(6), unit=True)


@pytest.mark.parametrize("n", [150, 2001])
def test_triangles_of_a_large_graph(n):
    A = Triangles(n)
    ids = np.unique(np.r_[0, A.size - 1, np.random.default_rng(0).integers(0, A.size, 5000)])
    p, q, r = A.triples(ids)
    assert np.all((p >= 0) & (p < r) & (r < n) & (q >= 0) & (q < n) & (q != p) & (q != r))
    assert np.unique((p * n + q) * n + r).size == ids.size
    W = np.random.default_rng(1).standard_normal((n, n)).astype(np.float32)
    W = W + W.T
    assert A.rows(W, ids) == pytest.approx(W[p, q] + W[q, r] - W[p, r] - W[q, q], abs=1e-5)
    last = slice(A.size - 3 * n, A.size)
    assert A.rows(W, last) == pytest.approx(A.rows(W, np.arange(last.start, last.stop)), abs=1e-5)


def test_sparse_forms_agree():
    W = RNG.standard_normal((4, 4))
    z = [np.vdot(A.toarray(), W) for A in SYMMETRIC]
    for name in ("SparseStack", "SparseStack dense", "SparseStack flat"):
        assert MAPS[name].rows(W) == pytest.approx(np.array(z))
    W = RNG.standard_normal((3, 4))
    csr = PATTERN.tocsr()
    assert MAPS["Entries.of"].rows(W) == pytest.approx(
        W[np.repeat(range(3), np.diff(csr.indptr)), csr.indices]
    )


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
@pytest.mark.parametrize(("p", "q"), [(9, 2), (2, 9)])  # (A W) B is cheaper, then A (W B)
def test_products_are_products(kind, p, q):
    rng = np.random.default_rng(p)
    A, B, W = (rng.standard_normal(shape) for shape in ((p, 4), (5, q), (4, 5)))
    for map, Z in (
        (Left(kind(A), 5), A @ W),
        (Right(kind(B), 4), W @ B),
        (Sandwich(kind(A), kind(B)), A @ W @ B),
    ):
        assert map.rows(W) == pytest.approx(Z.ravel())
        assert map.stretch == Z.shape[1]
        assert map.chunk % map.stretch == 0
        factors = Factored.of(W)
        ids = rng.integers(0, map.size, 20)
        assert map.rows(factors) == pytest.approx(Z.ravel())
        assert map.rows(factors, ids) == pytest.approx(Z.ravel()[ids])
        assert map.rows(factors, slice(3, 7)) == pytest.approx(Z.ravel()[3:7])


def test_drawn_rows_of_a_large_product_take_little_memory(monkeypatch):
    monkeypatch.setattr("condgrad.maps.products.AT_ONCE", 60)  # pieces of ten rows
    A, B = RNG.standard_normal((7, 3)), RNG.standard_normal((6, 5))
    W, ids = RNG.standard_normal((3, 6)), RNG.integers(0, 35, 43)
    assert Sandwich(A, B).rows(W, ids) == pytest.approx((A @ W @ B).ravel()[ids])


def test_low_rank_rows_are_their_products():
    rng = np.random.default_rng(0)
    U, s, W = rng.standard_normal((4, 5)), rng.standard_normal(5), rng.standard_normal((4, 4))
    A, parts = LowRankStack(U, [2, 1, 2], s), [slice(0, 2), slice(2, 3), slice(3, 5)]
    dense = [(U[:, p] * s[p]) @ U[:, p].T for p in parts]
    assert A.rows(W) == pytest.approx([np.vdot(D, W) for D in dense])
    assert A.norms == pytest.approx([np.linalg.norm(D) for D in dense])
    some = A.chosen(np.array([2, 0]))
    assert some.rows(W) == pytest.approx([np.vdot(dense[l], W) for l in (2, 0)])
    twice = LowRankStack(np.ones((3, 2)), [2], [1.0, -1.0])
    assert twice.norms[0] < 1e-15
    assert LowRankStack(1e-90 * np.eye(2), [2]).norms[0] == pytest.approx(np.sqrt(2) * 1e-180)


@pytest.mark.parametrize("make", [Inner, DataMatrix, lambda C: SparseStack(C, n=2)])
def test_repeated_entries_are_summed_in_a_copy(make):
    indices, data = np.array([2, 1, 2, 1]), np.array([1.0, 2, 3, 2])
    C = sp.csr_array((data, indices, np.array([0, 4])), shape=(1, 4))
    A = make(C)
    assert np.array_equal(C.indices, [2, 1, 2, 1])
    assert np.array_equal(C.data, [1, 2, 3, 2])
    W = np.array([5.0, 1.0, 10.0, 0.0]).reshape(A.shape)
    assert A.rows(W) == pytest.approx([44.0])


def test_data_is_copied():
    C, c, U = np.ones((2, 2)), np.ones(4), np.ones((2, 2))
    many = Inner(C), Scaled(AllEntries(2), c), LowRankStack(U, [1, 1], c[:2])
    before = [A.rows(np.ones(A.shape)) for A in many]
    for a in (C, c, U):
        a[:] = 7
    assert all(
        np.array_equal(A.rows(np.ones(A.shape)), z) for A, z in zip(many, before, strict=True)
    )


@pytest.mark.parametrize("n", [3, 4, 5, 8])
def test_norm_of_the_triangles_is_the_closed_form(n):
    assert Triangles(n).norm(symmetric=True) == pytest.approx(np.sqrt(n * (n - 1) / 2))
    assert LinearMap.norm(Triangles(n), True) == pytest.approx(np.sqrt(n * (n - 1) / 2))


@pytest.mark.parametrize("n", [3, 4, 9])
def test_the_gram_of_triangles_without_rows(n):
    """A formula, against A*A row by row, with weights of vertices and without."""
    rng = np.random.default_rng(n)
    W = rng.standard_normal((n, n))
    W = W + W.T
    for A in (maps.Triangles(n), maps.Triangles(n, 10.0 ** rng.uniform(-1, 1, n))):
        plain = maps.LinearMap.gram(A, W)
        np.testing.assert_allclose(A.gram(W), plain, atol=1e-12 * np.abs(plain).max())
        M = matrix_of(A)
        lengths = [np.linalg.norm((r.reshape(n, n) + r.reshape(n, n).T) / 2) for r in M]
        assert A.norm(True) >= max(lengths) * (1 - 1e-9)
        assert A.norm(True) <= np.linalg.norm(M, 2) * (1 + 1e-9)
