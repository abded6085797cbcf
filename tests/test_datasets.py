from __future__ import annotations

import builtins
import hashlib
import shutil
import warnings
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pooch
import pytest

from condgrad import datasets
from condgrad.datasets import DATASETS, load, names
from condgrad.errors import InputError
from files import npz

GRAPH = "graph/insecta-ant-colony1-day37"
GRAPH_FILE = "graphs/insecta-ant-colony1-day37.edges"
TRIANGLE = b"3 3\n1 2 1\n1 3 1\n2 3 1\n"
PATH = b"3 2\n1 2 1\n2 3 1\n"
TRAIN = b"1\t1\t5\t0\n1\t2\t3\t0\n2\t1\t4\t0\n"
TEST = b"2\t2\t1\t0\n2\t9\t1\t0\n"
FILES = ("movielens-100k/ub.base", "movielens-100k/ub.test")
SIZES = {
    "graph/mammalia-primate-association-13": (25, 181),
    "graph/insecta-ant-colony1-day37": (55, 1158),
    "graph/insecta-ant-colony4-day10": (102, 4036),
}


def put(path: Path, content: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def known(monkeypatch, name: str, *contents: bytes) -> None:
    """Make `contents` the known files of a data set."""
    files = tuple(
        replace(file, sha256=hashlib.sha256(content).hexdigest())
        for file, content in zip(DATASETS[name].files, contents, strict=True)
    )
    monkeypatch.setitem(DATASETS, name, replace(DATASETS[name], files=files))


def without(monkeypatch, *packages: str) -> None:
    """Make the import of `packages` fail."""
    real = builtins.__import__

    def importing(name, *args, **kwargs):
        if name.partition(".")[0] in packages:
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", importing)


@pytest.fixture(autouse=True)
def network(monkeypatch):
    """No test reaches the network: what it asks for is listed, and refused."""
    asked = []

    def refuse(self, url, output_file, pooch, check_only=False):
        asked.append((url, self.kwargs["timeout"]))
        raise ConnectionError("no route; " + 50 * "a long story ")

    monkeypatch.setattr(pooch.HTTPDownloader, "__call__", refuse)
    return asked


@pytest.fixture(autouse=True)
def warn_afresh():
    datasets._warn.cache_clear()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    path = tmp_path / "own"
    path.mkdir()
    monkeypatch.setenv("CONDGRAD_DATA", str(path))
    return path


@pytest.fixture
def store(tmp_path, monkeypatch):
    path = tmp_path / "cache"
    monkeypatch.setenv("CONDGRAD_CACHE", str(path))
    return path


@pytest.fixture
def alone(monkeypatch, store):
    """No folder, an empty cache."""
    monkeypatch.delenv("CONDGRAD_DATA", raising=False)


def serve(monkeypatch, archive: Path) -> list[str]:
    """Have pooch get `archive` whatever it asks for; its requests are listed."""
    asked: list[str] = []

    def copy(self, url, output_file, pooch, check_only=False):
        asked.append(url)
        target = getattr(output_file, "name", output_file)
        shutil.copyfile(archive, target)

    monkeypatch.setattr(pooch.HTTPDownloader, "__call__", copy)
    return asked


def movielens_zip(tmp_path: Path, train: bytes = TRAIN, test: bytes | None = TEST) -> Path:
    path = tmp_path / "made.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("ml-100k/README", "terms")
        archive.writestr("ml-100k/ub.base", train)
        if test is not None:
            archive.writestr("ml-100k/ub.test", test)
    return path


# the folder


def test_folder_wins_over_the_cache(monkeypatch, folder, store, network):
    known(monkeypatch, GRAPH, TRIANGLE)
    put(folder / GRAPH_FILE, TRIANGLE)
    put(store / GRAPH_FILE, b"not even a graph")
    assert load(GRAPH).nnz == 6
    assert not network


def test_folder_with_another_file_warns_once_and_wins(monkeypatch, folder, store):
    known(monkeypatch, GRAPH, TRIANGLE)
    path = put(folder / GRAPH_FILE, PATH)
    put(store / GRAPH_FILE, TRIANGLE)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert load(GRAPH).nnz == 4
        assert load(GRAPH).nnz == 4
    assert len(caught) == 1
    assert str(path) in str(caught[0].message)
    assert caught[0].filename == __file__


def test_folder_without_the_file_leaves_it_to_the_cache(monkeypatch, folder, store):
    known(monkeypatch, GRAPH, TRIANGLE)
    put(store / GRAPH_FILE, TRIANGLE)
    assert load(GRAPH).nnz == 6


def test_folder_is_not_mixed_with_the_cache(monkeypatch, folder, store):
    known(monkeypatch, "movielens-100k", TRAIN, TEST)
    put(folder / FILES[0], TRAIN)
    put(store / FILES[0], TRAIN)
    put(store / FILES[1], TEST)
    with pytest.raises(InputError, match=r"not found beside ub\.base") as caught:
        load("movielens-100k")
    assert caught.value.path == folder / FILES[1]


def test_folder_with_ratings_and_points(monkeypatch, folder, store):
    known(monkeypatch, "movielens-100k", TRAIN, TEST)
    put(folder / FILES[0], TRAIN)
    put(folder / FILES[1], TEST)
    ratings = load("movielens-100k")
    assert (ratings.shape, ratings.values.size, ratings.test_values.size) == ((2, 2), 3, 1)
    assert ratings.dropped == 1

    content = npz(images=np.eye(3))
    known(monkeypatch, "kmeans/mnist-1000", content)
    put(folder / "kmeans-mnist/full_1000.npz", content)
    np.testing.assert_allclose(load("kmeans/mnist-1000").distances, 2 - 2 * np.eye(3))


def test_unreadable_content_is_the_readers_error(monkeypatch, folder, store):
    known(monkeypatch, GRAPH, b"3 1\n1 x 1\n")
    path = put(folder / GRAPH_FILE, b"3 1\n1 x 1\n")
    with pytest.raises(InputError, match="not a whole number") as caught:
        load(GRAPH)
    assert (caught.value.path, caught.value.line) == (path, 2)


# the cache


def test_cache_hit_asks_nobody(monkeypatch, alone, store, network):
    known(monkeypatch, "movielens-100k", TRAIN, TEST)
    put(store / FILES[0], TRAIN)
    put(store / FILES[1], TEST)
    assert load("movielens-100k").shape == (2, 2)
    assert not network


def test_cache_is_the_users_unless_named(monkeypatch, alone, tmp_path):
    monkeypatch.delenv("CONDGRAD_CACHE")
    monkeypatch.setattr(pooch, "os_cache", lambda project: tmp_path / project)
    known(monkeypatch, GRAPH, TRIANGLE)
    put(tmp_path / "condgrad" / GRAPH_FILE, TRIANGLE)
    assert load(GRAPH).nnz == 6


@pytest.mark.parametrize(
    ("name", "file", "remedy"),
    [
        ("movielens-100k", FILES[1], "delete it and load again"),
        (GRAPH, GRAPH_FILE, "delete it and use CONDGRAD_DATA"),
    ],
)
def test_wrong_file_in_the_cache_is_refused(alone, store, network, name, file, remedy):
    path = put(store / file, TRIANGLE)
    with pytest.raises(InputError, match=f"SHA-256 differs.*{remedy}") as caught:
        load(name)
    assert caught.value.path == path
    assert not network


# nowhere


@pytest.mark.parametrize(
    ("name", "file", "source"),
    [
        *(
            (name, f"graphs/{name[6:]}.edges", "ASNR.* or the Network Repository")
            for name in names()
            if name.startswith("graph/")
        ),
        ("kmeans/mnist-250", "kmeans-mnist/reduced_250.npz", "solevillar/kmeans_sdp"),
        ("kmeans/mnist-1000", "kmeans-mnist/full_1000.npz", "solevillar/kmeans_sdp"),
    ],
)
def test_missing_file_says_where_to_put_it_and_where_from(
    folder, store, network, name, file, source
):
    with pytest.raises(
        InputError, match=f"not found: put {file} into .* CONDGRAD_DATA.*{source}"
    ) as caught:
        load(name)
    assert caught.value.path == folder / file
    assert "\n" not in str(caught.value)
    assert not network
    assert not store.exists()


def test_missing_folder_is_said(monkeypatch, alone, tmp_path):
    monkeypatch.setenv("CONDGRAD_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(InputError, match="CONDGRAD_DATA names no folder"):
        load(GRAPH)


# the public source


def test_download(monkeypatch, alone, store, tmp_path, capfd, caplog):
    known(monkeypatch, "movielens-100k", TRAIN, TEST)
    asked = serve(monkeypatch, movielens_zip(tmp_path))
    logger = pooch.get_logger()  # stands outside the tree of loggers
    level = logger.level
    logger.addHandler(caplog.handler)
    try:
        assert load("movielens-100k").shape == (2, 2)
        assert load("movielens-100k").dropped == 1
    finally:
        logger.removeHandler(caplog.handler)
    assert asked == ["https://files.grouplens.org/datasets/movielens/ml-100k.zip"]
    assert sorted(path.relative_to(store).as_posix() for path in store.rglob("*.*")) == [*FILES]
    assert (store / FILES[0]).read_bytes() == TRAIN
    assert capfd.readouterr() == ("", "")
    assert not caplog.records
    assert logger.level == level


def test_half_a_cache_is_completed(monkeypatch, alone, store, tmp_path):
    known(monkeypatch, "movielens-100k", TRAIN, TEST)
    put(store / FILES[0], TRAIN)
    asked = serve(monkeypatch, movielens_zip(tmp_path))
    assert load("movielens-100k").shape == (2, 2)
    assert len(asked) == 1


@pytest.mark.parametrize(
    ("made", "word"),
    [
        ({"train": TRAIN + b"3\t1\t1\t0\n"}, r"ml-100k/ub\.base in https.* is not the known file"),
        ({"test": TRAIN}, r"ml-100k/ub\.test in https.* is not the known file"),
        ({"test": None}, r"could not be fetched \(KeyError"),
    ],
)
def test_wrong_download_is_refused_and_not_kept(monkeypatch, alone, store, tmp_path, made, word):
    known(monkeypatch, "movielens-100k", TRAIN, TEST)
    serve(monkeypatch, movielens_zip(tmp_path, **made))
    with pytest.raises(InputError, match=f"{word}.*put movielens-100k/ub.base and .*GroupLens"):
        load("movielens-100k")
    assert not list(store.iterdir())


def test_download_that_is_no_archive(monkeypatch, alone, store, tmp_path):
    serve(monkeypatch, put(tmp_path / "made.zip", b"<html>please log in</html>"))
    with pytest.raises(InputError, match=r"could not be fetched \(BadZipFile"):
        load("movielens-100k")
    assert not list(store.iterdir())


def test_offline(alone, store, network, capfd):
    with pytest.raises(InputError, match=r"could not be fetched \(ConnectionError\)") as caught:
        load("movielens-100k")
    error = caught.value
    assert error.__cause__ is None
    assert error.__suppress_context__
    assert "put movielens-100k/ub.base and movielens-100k/ub.test into" in error.reason
    assert "CONDGRAD_DATA" in error.reason
    assert "GroupLens" in error.reason
    assert len(network) == 1
    assert max(network[0][1]) < 10
    assert capfd.readouterr() == ("", "")


def test_cache_that_cannot_be_written(monkeypatch, alone, tmp_path, network):
    monkeypatch.setenv("CONDGRAD_CACHE", str(put(tmp_path / "file", b"")))
    with pytest.raises(InputError, match="could not be fetched"):
        load("movielens-100k")


# optional packages


def test_without_pooch(monkeypatch, alone):
    without(monkeypatch, "pooch")
    with pytest.raises(InputError, match=r"needs pooch: install condgrad\[data\].*ml-100k.zip"):
        load("movielens-100k")
    monkeypatch.delenv("CONDGRAD_CACHE")
    with pytest.raises(InputError, match=r"needs pooch: install condgrad\[data\]"):
        load("movielens-100k")
    with pytest.raises(InputError, match="not found: put graphs/"):
        load(GRAPH)


def test_folder_needs_no_pooch(monkeypatch, folder):
    without(monkeypatch, "pooch")
    known(monkeypatch, GRAPH, TRIANGLE)
    put(folder / GRAPH_FILE, TRIANGLE)
    assert load(GRAPH).nnz == 6


@pytest.mark.parametrize(
    ("name", "package", "remedy"),
    [
        ("embedded/les-miserables", "networkx", "networkx: install condgrad[graphs]"),
        ("embedded/digits-100", "sklearn", "scikit-learn: install condgrad[data]"),
    ],
)
def test_embedded_without_its_package(monkeypatch, name, package, remedy):
    without(monkeypatch, package)
    with pytest.raises(InputError) as caught:
        load(name)
    assert str(caught.value) == f"{name}: this needs {remedy}"
