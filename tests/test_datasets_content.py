from __future__ import annotations

import hashlib
from dataclasses import FrozenInstanceError
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from condgrad import _embedded
from condgrad.datasets import DATASETS, DataFile, load, names, optimum
from condgrad.errors import InputError
from condgrad.io import read_graph

SIZES = {
    "graph/mammalia-primate-association-13": (25, 181),
    "graph/insecta-ant-colony1-day37": (55, 1158),
    "graph/insecta-ant-colony4-day10": (102, 4036),
}


# the table


def test_names_are_all_entries_with_one_line():
    assert list(names()) == list(DATASETS)
    assert len(names()) == 10
    for name, entry in DATASETS.items():
        assert entry.name == name
        assert entry.kind in ("ratings", "graph", "features")
        assert names()[name] == entry.description != ""
        assert "\n" not in entry.description
        assert entry.source
        assert (entry.build is None) == bool(entry.files)
        for file in entry.files:
            assert len(file.sha256) == 64
            assert not Path(file.path).is_absolute()


def test_entries_are_frozen():
    with pytest.raises(FrozenInstanceError):
        DATASETS["movielens-100k"].kind = "graph"
    with pytest.raises(FrozenInstanceError):
        DataFile("a", "b").path = "c"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("graph/mammalia-primate-association-13", 108.69565217),
        ("graph/insecta-ant-colony1-day37", 308.10185185),
        ("graph/insecta-ant-colony4-day10", 669.56435644),
        ("kmeans/mnist-250", 17.0966726),
        ("kmeans/mnist-1000", 77.19085),
    ],
)
def test_optimum(name, value):
    assert optimum(name) == pytest.approx(value, rel=1e-10)


def test_no_optimum_elsewhere():
    assert [name for name in names() if optimum(name) is None] == [
        "movielens-100k",
        *(name for name in names() if name.startswith("embedded/")),
    ]


@pytest.mark.parametrize("ask", [load, optimum])
def test_unknown_name(ask):
    with pytest.raises(InputError, match="not a known data set; did you mean movielens-100k"):
        ask("movielens100k")
    with pytest.raises(InputError, match=r"known are movielens-100k, graph/.*, embedded/ratings"):
        ask("?")


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


def test_the_karate_club_is_that_of_networkx():
    assert abs(load("embedded/karate") - read_graph("karate_club")).max() == 0


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
