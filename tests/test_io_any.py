from __future__ import annotations

import gzip
import os
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from condgrad.errors import InputError
from condgrad.io import (
    index_ratings,
    read_features,
    read_graph,
    read_ratings,
)
from files import (
    DATA,
    MM,
    POINTS,
    SQUARED,
    check_refused,
    edge,
    graphml,
    needs_data,
    npy,
    npz,
    put,
)

READERS = [read_graph, read_ratings, read_features]


@pytest.mark.parametrize("read", READERS)
def test_missing_directory_empty_and_unreadable(read, tmp_path, monkeypatch):
    check_refused(read, tmp_path / "none.txt", None, "No such file")
    check_refused(read, tmp_path, None, "directory")
    check_refused(read, put(tmp_path, "a.txt", ""), None, "empty")
    check_refused(read, put(tmp_path, "b.txt", " \n\n"), None, "empty")
    check_refused(read, put(tmp_path, "c.txt.gz", ""), None, "empty")
    check_refused(read, tmp_path / "nul\0byte", None, "cannot read")

    def denied(path, mode):
        raise PermissionError(13, "Permission denied")

    path = put(tmp_path, "d.txt", "3 0\n")
    monkeypatch.setattr(Path, "open", denied)
    check_refused(read, path, None, "Permission denied")


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root reads anything")
@pytest.mark.parametrize("read", READERS)
def test_no_permission(read, tmp_path):
    path = put(tmp_path, "d.txt", "3 0\n")
    path.chmod(0)
    check_refused(read, path, None, "Permission denied")


@pytest.mark.parametrize("read", READERS)
def test_binary_encoding_and_damaged_gzip(read, tmp_path):
    check_refused(read, put(tmp_path, "a.txt", b"3 1\n1 2\n\xff\xfe 3\n"), 3, "UTF-8")
    check_refused(read, put(tmp_path, "b.txt", b"3 1\r\n\0\r\n"), 2, "NUL")
    check_refused(read, put(tmp_path, "c.txt", "3 1\n1 2\n".encode("utf-16")[:-1]), 1, "UTF-8")
    whole = gzip.compress(b"3 1\n1 2\n" * 50)
    path = tmp_path / "d.txt.gz"
    for data in (whole[:-9], whole[:5], b"3 1\n1 2\n", whole[:12] + b"\xff" * 9 + whole[21:]):
        path.write_bytes(data)
        check_refused(read, path, None, "gzip")


@pytest.mark.parametrize(
    ("read", "text"),
    [
        (read_graph, "source\ttarget\nä\tb\nb\tc\n"),
        (read_ratings, "user,item,rating\nJosé,b,3\nc,d,4\n"),
        (read_features, "x;y\n1;2\n3;4\n"),
        (read_graph, graphml(edge(1, 2)).replace('"?>', '" encoding="utf-16"?>', 1)),
    ],
)
def test_unicode_as_windows_means_it(read, text, tmp_path):
    name = "a.xml" if "xml" in text else "a.txt"
    plain = vars(read(put(tmp_path, name, text.replace(' encoding="utf-16"', ""))))
    for kind in ("utf-16", "utf-8-sig") if "xml" in text else ("utf-8-sig",):
        text = text.replace("utf-16", kind.removesuffix("-sig"))
        found = vars(read(put(tmp_path, name, text.encode(kind))))
        assert str(found) == str(plain)


few = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))


@st.composite
def edge_sets(draw):
    n = draw(st.integers(3, 12))
    pairs = st.tuples(st.integers(1, n), st.integers(1, n)).filter(lambda p: p[0] != p[1])
    ends = draw(st.lists(pairs, unique_by=lambda p: (min(p), max(p)), max_size=20))
    weights = st.floats(0, 1e300)
    return n, [(u, v, draw(weights)) for u, v in ends]


@few
@given(edge_sets(), st.sampled_from([" ", "\t", ", "]), st.sampled_from(["a.edges", "a.gz"]))
def test_edge_list_round_trip(graph, gap, name):
    n, edges = graph
    rows = [f"{n}{gap}{len(edges)}", *(f"{u}{gap}{v}{gap}{w!r}" for u, v, w in edges)]
    expected = np.zeros((n, n))
    for u, v, w in edges:
        expected[u - 1, v - 1] = expected[v - 1, u - 1] = w
    with tempfile.TemporaryDirectory() as folder:
        matrix = read_graph(put(Path(folder), name, "\n".join(rows)))
    np.testing.assert_array_equal(matrix.toarray(), expected)
    assert matrix.nnz == np.count_nonzero(expected)


ids = st.text("abz019-é", min_size=1, max_size=5)


@few
@given(
    st.lists(st.tuples(ids, ids, st.floats(-1e9, 1e9)), min_size=1, unique_by=lambda r: r[:2]),
    st.sampled_from(["\t", ",", "::"]),
    st.booleans(),
)
def test_ratings_round_trip(rows, mark, header):
    lines = [mark.join((u, i, repr(r), "0")) for u, i, r in rows]
    if header:
        lines.insert(0, mark.join(("user", "item", "rating", "time")))
    with tempfile.TemporaryDirectory() as folder:
        got = read_ratings(put(Path(folder), "r", "\n".join(lines) + "\n"))
    assert list(zip(got.users, got.items, got.values, strict=True)) == rows
    indexed = index_ratings(got, got)
    assert indexed.dropped == 0
    assert len(set(zip(indexed.rows, indexed.cols, strict=True))) == len(rows)
    assert indexed.rows.max() < indexed.shape[0]
    assert indexed.cols.max() < indexed.shape[1]


SEEDS = [
    b"3 2\n1 2 2\n2 3 1\n",
    b"1\t10\t3\t88\n2\t10\t4.5\t89\n",
    b"user,item,rating\n1,10,3\n2,10,4.5\n",
    b"x;y\n0;0\n3;4\n1;0\n",
    (MM + "coordinate real general\n3 3 2\n2 1 2\n3 2 1\n").encode(),
    (MM + "array real symmetric\n3 3\n0\n2\n0\n0\n1\n0\n").encode(),
    graphml(edge(1, 2, 2) + edge(2, 3)).encode(),
    npz(X=POINTS, labels=np.arange(3)),
    npz(C=SQUARED),
    npy(POINTS),
    gzip.compress(b"3 2\n1 2 2\n2 3 1\n"),
    b"a b {'weight': 2}\nb c {'weight': 1}\n",
    b"source,target,weight\na,b,2\nb,c,1\n",
    b'graph [\nnode [ id 1 label "a" ] node [ id 2 ] node [ id 3 ]\nedge [ source 1 target 2 ] ]',
    b'*Vertices 3\n1 "a"\n*Edges\n1 2 2\n2 3 1\n',
    b"p edge 3 2\ne 1 2\ne 2 3\n",
    b"3 2 1\n2 2\n1 2 3 1\n2 1\n",
    b'{"nodes": [{"id": 1}, {"id": 2}, {"id": 3}], "links": [{"source": 1, "target": 2}]}',
]
SUFFIXES = [
    *("", ".txt", ".edges", ".mtx", ".graphml", ".csv", ".npz", ".npy", ".mtx.gz", ".gml"),
    *(".graph", ".net", ".col", ".json", ".parquet", ".mc", ".csv.xz", ".csv.bz2"),
]
PIECES = [b"", b"\n", b"\0", b"\xff", b"nan", b"-1", b"9" * 30, b",", b"\t", b"::", b"<", b"0"]


@st.composite
def mutated(draw):
    data = bytearray(draw(st.sampled_from(SEEDS)))
    for _ in range(draw(st.integers(1, 3))):
        start = draw(st.integers(0, len(data)))
        end = min(len(data), start + draw(st.integers(0, 4)))
        data[start:end] = draw(st.sampled_from(PIECES) | st.binary(max_size=4))
    return bytes(data[: draw(st.integers(0, len(data)) | st.just(len(data)))])


@pytest.mark.filterwarnings("ignore::condgrad.errors.InputWarning")
@pytest.mark.parametrize("read", READERS)
@settings(few, max_examples=250)
@given(
    data=mutated() | st.binary(max_size=60) | st.sampled_from(SEEDS),
    suffix=st.sampled_from(SUFFIXES),
)
def test_any_bytes_parse_or_are_refused(read, data: bytes, suffix: str):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"file{suffix}"
        path.write_bytes(data)
        message = None
        try:
            read(path)
        except InputError as error:
            message = str(error)
    assert message is None or (message.startswith(str(path)) and "\n" not in message)


@needs_data
def test_real_ratings():
    folder = Path(str(DATA)) / "movielens-100k"
    got = index_ratings(read_ratings(folder / "ub.base"), read_ratings(folder / "ub.test"))
    assert got.shape == (1675, 943)
    assert (got.values.size, got.test_values.size, got.dropped) == (90570, 9423, 7)


@needs_data
@pytest.mark.parametrize(("name", "n"), [("reduced_250.npz", 250), ("full_1000.npz", 1000)])
def test_real_features(name, n):
    features = read_features(Path(str(DATA)) / "kmeans-mnist" / name)
    assert features.distances.shape == (n, n)
    assert features.points.shape == (n, 10)
    with np.load(Path(str(DATA)) / "kmeans-mnist" / name) as stored:
        if "C" in stored:
            np.testing.assert_array_equal(features.distances, stored["C"])


@needs_data
@pytest.mark.parametrize(
    ("name", "n", "edges"),
    [
        ("graphs/mammalia-primate-association-13.edges", 25, 181),
        ("graphs/insecta-ant-colony1-day37.edges", 55, 1158),
        ("graphs/insecta-ant-colony4-day10.edges", 102, 4036),
        ("graphs/weighted/insecta-ant-colony1-day37.edges", 55, 1158),
        ("gset/G1.txt", 800, 19176),
    ],
)
def test_real_graphs(name, n, edges):
    matrix = read_graph(Path(str(DATA)) / name)
    assert (matrix.shape, matrix.nnz) == ((n, n), 2 * edges)


@needs_data
def test_real_graph_with_negative_weights():
    check_refused(read_graph, Path(str(DATA)) / "gset" / "G11.txt", 3, "negative weight -1")
