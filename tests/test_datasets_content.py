from __future__ import annotations

import hashlib

import numpy as np
import pytest
import scipy.sparse as sp

from condgrad import _embedded
from condgrad.datasets import DATASETS, load, names

SIZES = {
    "graph/mammalia-primate-association-13": (25, 181),
    "graph/insecta-ant-colony1-day37": (55, 1158),
    "graph/insecta-ant-colony4-day10": (102, 4036),
}


# embedded


@pytest.mark.parametrize(
    ("name", "n", "edges"), [("embedded/karate", 34, 78), ("embedded/les-miserables", 77, 254)]
)
def test_embedded_graphs(name, n, edges):
    A = load(name)
    assert isinstance(A, sp.csr_array)
    assert (A.shape, A.nnz) == ((n, n), 2 * edges)
    assert abs(A - A.T).max() == 0
    assert abs(A - load(name)).max() == 0


def test_embedded_digits():
    found = load("embedded/digits-100")
    assert found.points.shape == (100, 64)
    assert (found.points.min(), found.points.max()) == (0.0, 1.0)
    square = ((found.points[:, None, :] - found.points[None, :, :]) ** 2).sum(axis=2)
    np.testing.assert_allclose(found.distances, square, atol=1e-12)
    np.testing.assert_array_equal(found.distances, load("embedded/digits-100").distances)


def test_embedded_ratings():
    found, again = load("embedded/ratings"), load("embedded/ratings")
    assert (found.shape, found.dropped) == ((120, 80), 0)
    assert (found.values.size, found.test_values.size) == (2592, 288)
    for part in ("rows", "cols", "values", "test_rows", "test_cols", "test_values"):
        np.testing.assert_array_equal(getattr(found, part), getattr(again, part))
    train = set(zip(found.rows.tolist(), found.cols.tolist(), strict=True))
    test = set(zip(found.test_rows.tolist(), found.test_cols.tolist(), strict=True))
    assert (len(train), len(test), len(train & test)) == (2592, 288, 0)


def test_embedded_ratings_have_rank_three_and_noise():
    found, truth = load("embedded/ratings"), _embedded.planted()
    assert np.linalg.matrix_rank(truth) == 3
    assert set(np.unique(truth)) == {1, 2, 3, 4, 5}
    every = np.r_[found.values, found.test_values]
    at = (np.r_[found.rows, found.test_rows], np.r_[found.cols, found.test_cols])
    np.testing.assert_array_equal(np.rint(every), truth[at])
    assert (every.min(), every.max()) == (1.0, 5.0)
    assert 0.05 < np.std(every - truth[at]) < 0.1


# the real files


@pytest.mark.parametrize("name", [name for name in names() if not name.startswith("embedded/")])
def test_real_files_are_the_known_ones(data, name):
    for file in DATASETS[name].files:
        if not (data / file.path).exists():
            pytest.skip(f"{file.path} is not in CONDGRAD_DATA")
        assert hashlib.sha256((data / file.path).read_bytes()).hexdigest() == file.sha256
    found = load(name)
    if name == "movielens-100k":
        assert found.shape == (1675, 943)
        assert (found.values.size, found.test_values.size, found.dropped) == (90570, 9423, 7)
    elif name in SIZES:
        assert (found.shape[0], found.nnz // 2) == SIZES[name]
    else:
        n = int(name.rpartition("-")[2])
        assert found.distances.shape == (n, n)
        assert found.points.shape == (n, 10)
