"""The one door to data: `load` by name, from your folder, the cache, the public source or memory.

A file is looked for in the folder named by the environment variable ``CONDGRAD_DATA``, then in the
cache (``CONDGRAD_CACHE``, else the user's cache folder), then at its public source where that
offers it in a form the readers take. Sets under ``embedded/`` need no file.
"""

from __future__ import annotations

import difflib
import hashlib
import os
import tempfile
import warnings
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from condgrad import _embedded
from condgrad.errors import InputError
from condgrad.io import (
    IndexedRatings,
    index_ratings,
    read_features,
    read_graph,
    read_ratings,
)

__all__ = ["DATASETS", "DataFile", "Dataset", "load", "names", "optimum"]

_FOLDER, _CACHE = "CONDGRAD_DATA", "CONDGRAD_CACHE"
_TIMEOUT = (4.0, 8.0)  # seconds to connect, and between two pieces


@dataclass(frozen=True)
class DataFile:
    """A file: its place in a data folder, its SHA-256, its name in the public archive if any."""

    path: str
    sha256: str
    member: str | None = None


@dataclass(frozen=True)
class Dataset:
    """An entry of `DATASETS`.

    Parameters
    ----------
    name : str
        What `load` takes.
    kind : {"ratings", "graph", "features"}
        `load` gives an `IndexedRatings`, a symmetric sparse adjacency matrix or a `Features`.
    description : str
        One line.
    source : str
        Where the data comes from, and its terms.
    files : tuple of DataFile
        What has to be there; empty for an embedded set.
    url : str, optional
        Public zip archive that holds the files; None where there is none.
    optimum : float, optional
        See `optimum`.
    build : callable, optional
        Makes an embedded set.
    """

    name: str
    kind: str
    description: str
    source: str
    files: tuple[DataFile, ...] = ()
    url: str | None = None
    optimum: float | None = None
    build: Callable[[], Any] | None = field(default=None, repr=False, compare=False)


def load(name: str) -> Any:
    """Return a data set by name, from the first place that has it.

    A folder named by ``CONDGRAD_DATA`` wins; a file there that is not the known one is used with
    a warning. In the cache and in a download such a file is refused.

    Parameters
    ----------
    name : str
        One of `names`.

    Returns
    -------
    IndexedRatings or Features or scipy.sparse.csr_array
        By `Dataset.kind`.

    Raises
    ------
    InputError
        If the name is unknown, the file is nowhere or is not the right one, or an optional
        package is missing; the message says what to do.

    Examples
    --------
    >>> load("embedded/ratings").shape
    (120, 80)
    """
    entry = _entry(name)
    return entry.build() if entry.build else _READERS[entry.kind](*_locate(entry))


def names() -> dict[str, str]:
    """Return every name `load` takes with a one-line description.

    Examples
    --------
    >>> names()["graph/mammalia-primate-association-13"]
    'association of primates: 25 vertices, 181 edges'
    """
    return {name: entry.description for name, entry in DATASETS.items()}


def optimum(name: str) -> float | None:
    """Return the certified optimal value of the experiment's SDP on a data set, or None.

    The SDP is that of `condgrad.applications.sparsest_cut` for a graph, and of
    `condgrad.applications.kmeans` with k = 10 for points.

    Parameters
    ----------
    name : str
        One of `names`.

    Examples
    --------
    >>> round(optimum("graph/insecta-ant-colony1-day37"), 8)
    308.10185185
    >>> optimum("embedded/karate") is None
    True
    """
    return _entry(name).optimum


def _entry(name: str) -> Dataset:
    if name in DATASETS:
        return DATASETS[name]
    near = difflib.get_close_matches(str(name), DATASETS, n=1)
    hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(DATASETS)}"
    raise InputError(str(name), f"not a known data set; {hint}")


def _locate(entry: Dataset) -> list[Path]:
    folder, store = _own_folder(), _cache_folder()
    if folder and (own := _in_folder(entry, folder)):
        return own
    if store and (stored := _in_cache(entry, store)):
        return stored
    if not entry.url:
        raise _missing(entry, "not found")
    return _download(entry, store)


def _own_folder() -> Path | None:
    named = os.environ.get(_FOLDER)
    return Path(named).expanduser() if named else None


def _cache_folder() -> Path | None:
    if named := os.environ.get(_CACHE):
        return Path(named).expanduser()
    pooch = _pooch()
    return Path(pooch.os_cache("condgrad")).expanduser() if pooch else None


def _pooch() -> Any:
    try:
        import pooch
    except ImportError:
        return None
    return pooch


def _in_folder(entry: Dataset, folder: Path) -> list[Path] | None:
    paths = [folder / file.path for file in entry.files]
    absent = [path for path in paths if not path.is_file()]
    if len(absent) == len(paths):
        return None
    if absent:
        beside = next(path for path in paths if path not in absent).name
        raise InputError(absent[0], f"not found beside {beside}: add it, or take {beside} away")
    for file, path in zip(entry.files, paths, strict=True):
        if (digest := _sha256(path)) != file.sha256:
            _warn(entry.name, path, digest)
    return paths


@cache
def _warn(name: str, path: Path, digest: str) -> None:
    text = f"{path} is not the known file of {name} (its SHA-256 is {digest}); it is used as it is"
    warnings.warn(text, stacklevel=5)


def _in_cache(entry: Dataset, store: Path) -> list[Path] | None:
    paths = [store / file.path for file in entry.files]
    for file, path in zip(entry.files, paths, strict=True):
        if path.is_file() and _sha256(path) != file.sha256:
            again = "and load again" if entry.url else f"and use {_FOLDER} for a file of your own"
            raise InputError(path, f"not the known file (its SHA-256 differs): delete it {again}")
    return paths if all(path.is_file() for path in paths) else None


def _sha256(path: Path) -> str:
    try:
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as exc:
        raise InputError(path, exc.strerror or "cannot be read") from exc


def _missing(entry: Dataset, fault: str) -> InputError:
    folder = _own_folder()
    if folder and not folder.is_dir():
        fault += f" ({_FOLDER} names no folder)"
    files = " and ".join(file.path for file in entry.files)
    remedy = f"put {files} into the folder named by the environment variable {_FOLDER}"
    where = (folder or Path()) / entry.files[0].path
    return InputError(where, f"{fault}: {remedy}. Source: {entry.source}")


def _download(entry: Dataset, store: Path | None) -> list[Path]:
    pooch = _pooch()
    if pooch is None or store is None:
        fault = "not found, and a download needs pooch"
        raise _missing(entry, f"{fault}: install condgrad[data], or get {entry.url} yourself")
    logger = pooch.get_logger()
    level = logger.level
    try:
        logger.setLevel("CRITICAL")
        store.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=store, prefix=".download-") as scratch:
            getter = pooch.HTTPDownloader(timeout=_TIMEOUT)
            archive = pooch.retrieve(
                entry.url, known_hash=None, fname="archive.zip", path=scratch, downloader=getter
            )
            return _unpack(entry, Path(archive), Path(scratch), store)
    except InputError:
        raise
    except Exception as exc:  # of requests, urllib3, zipfile, the file system, ...
        text = str(exc)
        why = f"{type(exc).__name__}: {text}" if 0 < len(text) <= 120 else type(exc).__name__
        raise _missing(entry, f"not found, and {entry.url} could not be fetched ({why})") from None
    finally:
        logger.setLevel(level)


def _unpack(entry: Dataset, archive: Path, scratch: Path, store: Path) -> list[Path]:
    with zipfile.ZipFile(archive) as opened:
        contents = [opened.read(file.member or file.path) for file in entry.files]
    for file, content in zip(entry.files, contents, strict=True):
        if hashlib.sha256(content).hexdigest() != file.sha256:
            raise _missing(entry, f"{file.member} in {entry.url} is not the known file (SHA-256)")
    paths = [store / file.path for file in entry.files]
    for path, content in zip(paths, contents, strict=True):
        path.parent.mkdir(parents=True, exist_ok=True)
        (scratch / path.name).write_bytes(content)
        (scratch / path.name).replace(path)
    return paths


def _read_split(train: Path, test: Path) -> IndexedRatings:
    return index_ratings(read_ratings(train), read_ratings(test))


_READERS: dict[str, Callable[..., Any]] = {
    "ratings": _read_split,
    "graph": read_graph,
    "features": read_features,
}


_GROUPLENS = (
    "GroupLens, MovieLens 100k (research use only, no redistribution, no commercial use; cite "
    "Harper & Konstan 2015)"
)
_ASNR = (
    "the network of this name in the Animal Social Network Repository (ASNR; cite Sah et al. 2019) "
    "or the Network Repository, as an edge list: 'n m', then 'u v 1', vertices from 1, no weights"
)
_MIXON = "Mixon, Villar & Ward 2016, repository solevillar/kmeans_sdp, as an .npz file with"
_KARATE = "Zachary's karate club, weighted: 34 vertices, 78 edges"
_HUGO = "characters of Les Misérables, weighted: 77 vertices, 254 edges"
_DIGITS = "the first 100 digits of scikit-learn: 8 x 8 pixels in [0, 1]"
_RATINGS = "synthetic, rank 3 plus noise: 120 items x 80 users, 2592 ratings and 288 for testing"
_UB_BASE = "237254d253b6ad7de84f919d041055428646254f34ed8f562703c899430cd881"
_UB_TEST = "d54a72d05730d5892062734b2bec73e976f9b713d18c828a18b968d6cce442da"


def _graph(name: str, description: str, sha256: str, value: float) -> Dataset:
    files = (DataFile(f"graphs/{name}.edges", sha256),)
    return Dataset(f"graph/{name}", "graph", description, _ASNR, files, optimum=value)


def _points(n: int, what: str, array: str, file: str, sha256: str, value: float) -> Dataset:
    files = (DataFile(f"kmeans-mnist/{file}", sha256),)
    source = f"{_MIXON} {array}"
    return Dataset(f"kmeans/mnist-{n}", "features", what, source, files, optimum=value)


# Optimal values: between the objective of a feasible point and a dual bound, both rigorous up to
# rounding. Sparsest cut: the point is the exact metric of a cut of s vertices and e edges, so the
# value is e n²/(2 s (n − s)); the dual bounds are below it by at most 4e-12, relatively. k-means:
# the optima lie in [17.09667259, 17.09667266] and [77.1908487, 77.1908590]; the values published
# with the data are 17.096672525 and 77.206632951, and the second is too high.
_ALL = (
    Dataset(
        "movielens-100k",
        "ratings",
        "MovieLens 100k, split b: 1675 items x 943 users, 90570 ratings and 9423 for testing",
        _GROUPLENS,
        (
            DataFile("movielens-100k/ub.base", _UB_BASE, "ml-100k/ub.base"),
            DataFile("movielens-100k/ub.test", _UB_TEST, "ml-100k/ub.test"),
        ),
        url="https://files.grouplens.org/datasets/movielens/ml-100k.zip",
    ),
    _graph(
        "mammalia-primate-association-13",
        "association of primates: 25 vertices, 181 edges",
        "a91a51b05a114caab554aa3b3ca58aede16679dbde669ccbfaec251565d9a6fe",
        16 * 25**2 / (2 * 2 * 23),  # 108.69565217
    ),
    _graph(
        "insecta-ant-colony1-day37",
        "contacts of ants: 55 vertices, 1158 edges",
        "97088a6c6a5a935d248ceb49b90599e3a3760fd08a21758645cc6e309c273cab",
        11 * 55**2 / (2 * 1 * 54),  # 308.10185185
    ),
    _graph(
        "insecta-ant-colony4-day10",
        "contacts of ants: 102 vertices, 4036 edges",
        "f26e5a26b86f79fbe694cdd44a5b47957dfa08feed90cecd48f446c3c7ed84f1",
        13 * 102**2 / (2 * 1 * 101),  # 669.56435644
    ),
    _points(
        250,
        "every fourth of the 1000 MNIST digits: 250 points, 10 clusters",
        "C, the squared distances of every fourth point (as in ratschlab/faster-hcgm-composite)",
        "reduced_250.npz",
        "4704b0f964d88758821393cf4e632e31047b3fc5cd69d44570e7f8bed7647b3a",
        17.0966726,
    ),
    _points(
        1000,
        "class probabilities of 1000 MNIST digits, 10 clusters",
        "'images', 10 x 1000, a column for each point, sorted by label",
        "full_1000.npz",
        "660e2d73e24c0d18909d6fc3e5bbbec9be50d18757cdbf00d8a654d7d2764ec0",
        77.19085,
    ),
    Dataset("embedded/karate", "graph", _KARATE, "Zachary 1977", build=_embedded.karate),
    Dataset("embedded/les-miserables", "graph", _HUGO, "networkx", build=_embedded.miserables),
    Dataset("embedded/digits-100", "features", _DIGITS, "scikit-learn", build=_embedded.digits),
    Dataset("embedded/ratings", "ratings", _RATINGS, "synthetic", build=_embedded.ratings),
)

DATASETS: dict[str, Dataset] = {entry.name: entry for entry in _ALL}
"""Every data set by its name."""
