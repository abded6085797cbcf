"""Kernels of points kept as factors, their twins, and the sparse matrices that use them."""

import numpy as np
import pytest
import scipy.sparse as sp

from condgrad.backends import threads
from condgrad.maps import Entries, Scaled, pattern
from condgrad.maps.pattern import Pattern, read_entries
from conformance.test_backends import REAL, SEED, check_twins


def random_csr(seed, dtype=np.float64):
    rng = np.random.default_rng(seed)
    n, m = rng.integers(1, 30, 2)
    V = sp.random(n, m, density=0.3, random_state=int(seed), format="csr", dtype=np.float64)
    return V.astype(dtype), rng


@REAL
@SEED
@pytest.mark.parametrize("columns", [1, 2, 7])
def test_sparse_times(dtype, seed, columns):
    V, rng = random_csr(seed, dtype)
    n, m = V.shape
    K = rng.standard_normal((m, columns)).astype(dtype)
    out, start = np.full((n, columns), np.nan, dtype), n // 3
    given = (V.indptr, V.indices, V.data, K, start, n, out)
    *_, found = check_twins("sparse_times", dtype, *given[:4], start, n, np.zeros_like(out))
    np.testing.assert_allclose(found[start:], (V @ K)[start:], atol=1e-5)
    assert not found[:start].any()


@REAL
@SEED
def test_sparse_and_pair_dots(dtype, seed):
    V, rng = random_csr(seed, dtype)
    n, m = V.shape
    A, B = (rng.standard_normal((side, 5)).astype(dtype) for side in (n, m))
    *_, found = check_twins(
        "sparse_dots", dtype, V.indptr, V.indices, A, B, 0, n, np.zeros_like(V.data)
    )
    i = np.repeat(np.arange(n), np.diff(V.indptr))
    np.testing.assert_allclose(found, (A @ B.T)[i, V.indices], atol=1e-5)
    *_, pairs = check_twins("pair_dots", dtype, i, V.indices, A, B, np.zeros_like(V.data))
    np.testing.assert_allclose(pairs, found, atol=1e-5)


def test_no_columns_and_no_rows():
    none = np.zeros((4, 0))
    empty = np.zeros(0)
    check_twins("pair_dots", np.float64, np.array([1, 3]), np.array([0, 2]), none, none, np.ones(2))
    ends = np.zeros(5, np.int64)
    check_twins("sparse_times", np.float64, ends, np.zeros(0, np.int32), empty, none, 0, 4, none)


@SEED
@pytest.mark.parametrize("jobs", [1, 3])
def test_a_pattern_of_several_maps(seed, jobs, monkeypatch):
    """Unsorted, an entry read by two maps, rows and columns without entries."""
    monkeypatch.setattr(pattern, "WORTH", 1)
    rng = np.random.default_rng(seed)
    shape = n, m = tuple(rng.integers(1, 12, 2))
    flats = [rng.permutation(n * m)[: rng.integers(1, n * m + 1)] for _ in range(2)]
    maps = [Entries(*np.divmod(flat, m), shape) for flat in flats]
    together, y = Pattern(maps), rng.standard_normal(sum(f.size for f in flats))
    dense, start = np.zeros(shape), 0
    for one in maps:
        one.add_to(y[start : start + one.size], 1.0, dense)
        start += one.size
    V = together.matrix(y)
    K, Q = rng.standard_normal((m, 4)), rng.standard_normal((n, 4))
    with threads.using(jobs):
        np.testing.assert_allclose(V.times(K), dense @ K, atol=1e-12)
        np.testing.assert_allclose(V.transposed(Q), dense.T @ Q, atol=1e-12)
        images = together.by_rows.dots(Q, K)
    np.testing.assert_allclose(V.compressed().toarray(), dense, atol=1e-12)
    expected = np.concatenate([one.rows(Q @ K.T) for one in maps])
    np.testing.assert_allclose(images, expected, atol=1e-12)


def test_threads_change_no_bit(monkeypatch):
    monkeypatch.setattr(pattern, "WORTH", 1)
    rng = np.random.default_rng(0)
    one = Pattern([Entries(*np.divmod(rng.permutation(2000)[:700], 40), (50, 40))])
    V, K = one.matrix(rng.standard_normal(700)), rng.standard_normal((40, 6))
    found = []
    for jobs in (1, 2, 5):
        with threads.using(jobs):
            found.append((V.times(K), V.transposed(V.times(K)), one.by_rows.dots(V.times(K), K)))
    for other in found[1:]:
        for a, b in zip(found[0], other, strict=True):
            np.testing.assert_array_equal(a, b)


def test_what_reads_entries():
    entries = Entries([0, 1], [1, 0], (2, 2))
    assert read_entries(entries) == (entries, 1.0)
    inner, factor = read_entries(Scaled(Scaled(entries, 2.0), [1.0, 3.0]))
    assert inner is entries
    np.testing.assert_array_equal(factor, [2.0, 6.0])

    class Other(Entries):
        pass

    assert read_entries(Other([0], [0], (2, 2))) is None
