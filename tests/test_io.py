from __future__ import annotations

import gzip
import io
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from condgrad.errors import InputError
from condgrad.io import (
    Ratings,
    graph_from_networkx,
    index_ratings,
    read_features,
    read_graph,
    read_ratings,
)

DATA = os.environ.get("CONDGRAD_DATA")
needs_data = pytest.mark.skipif(DATA is None, reason="CONDGRAD_DATA is not set")
READERS = [read_graph, read_ratings, read_features]
MM = "%%MatrixMarket matrix "
PATH3 = np.array([[0, 2, 0], [2, 0, 1], [0, 1, 0]], dtype=float)  # 1 -2- 2 -1- 3


def put(folder: Path, name: str, content: str | bytes) -> Path:
    data = content.encode() if isinstance(content, str) else content
    path = folder / name
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return path


def refused(read: Callable[[Path], object], path: Path, line: int | None, word: str) -> None:
    with pytest.raises(InputError) as caught:
        read(path)
    error = caught.value
    assert error.line == line
    assert word in error.reason
    assert str(error).startswith(f"{path}:{line}: " if line else f"{path}: ")
    assert "\n" not in str(error)


def npz(**arrays: object) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


def npy(array: object, pickled: bool = False) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, np.asarray(array), allow_pickle=pickled)
    return buffer.getvalue()


def graphml(edges: str, kind: str = "undirected", weight: str = "double") -> str:
    nodes = "".join(f'<node id="n{k}"/>' for k in (1, 2, 3))
    return (
        '<?xml version="1.0"?>\n<graphml xmlns="http://graphml.graphdrawing.org/xmlns">\n'
        f'<key id="w" for="edge" attr.name="weight" attr.type="{weight}"/>\n'
        f'<graph edgedefault="{kind}">{nodes}\n{edges}</graph></graphml>\n'
    )


def edge(u: int, v: int, w: object = None) -> str:
    data = "" if w is None else f'<data key="w">{w}</data>'
    return f'<edge source="n{u}" target="n{v}">{data}</edge>\n'


# ---------------------------------------------------------------- what every reader refuses


@pytest.mark.parametrize("read", READERS)
def test_missing_directory_empty_and_unreadable(read, tmp_path, monkeypatch):
    refused(read, tmp_path / "none.txt", None, "No such file")
    refused(read, tmp_path, None, "directory")
    refused(read, put(tmp_path, "a.txt", ""), None, "empty")
    refused(read, put(tmp_path, "b.txt", " \n\n"), None, "empty")
    refused(read, put(tmp_path, "c.txt.gz", ""), None, "empty")
    refused(read, tmp_path / "nul\0byte", None, "cannot read")

    def denied(path):
        raise PermissionError(13, "Permission denied")

    path = put(tmp_path, "d.txt", "3 0\n")
    monkeypatch.setattr(Path, "read_bytes", denied)
    refused(read, path, None, "Permission denied")


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root reads anything")
@pytest.mark.parametrize("read", READERS)
def test_no_permission(read, tmp_path):
    path = put(tmp_path, "d.txt", "3 0\n")
    path.chmod(0)
    refused(read, path, None, "Permission denied")


@pytest.mark.parametrize("read", READERS)
def test_binary_encoding_and_damaged_gzip(read, tmp_path):
    refused(read, put(tmp_path, "a.txt", b"3 1\n1 2\n\xff\xfe 3\n"), 3, "UTF-8")
    refused(read, put(tmp_path, "b.txt", b"3 1\r\n\0\r\n"), 2, "NUL")
    refused(read, put(tmp_path, "c.txt", "3 1\n1 2\n".encode("utf-16")), 1, "UTF-8")
    whole = gzip.compress(b"3 1\n1 2\n" * 50)
    path = tmp_path / "d.txt.gz"
    for data in (whole[:-9], whole[:5], b"3 1\n1 2\n", whole[:12] + b"\xff" * 9 + whole[21:]):
        path.write_bytes(data)
        refused(read, path, None, "gzip")


# ---------------------------------------------------------------- graphs


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.edges", "3 2\n1 2 2\n2 3 1\n"),
        ("a.txt", "# c\n\n3, 2\n% c\n  \n2,1,2\n3\t2"),
        ("a.edges", "\ufeff3 2\r\n1 2 2.0\r\n2 3\r\n"),
        ("a.edges", "3 2\r1 2 2.0\r2 3\r"),
        ("a.edges", "3 3 \n1 2 2e0\n2 3 1\n1 3 0\n"),
        ("a.edges.gz", "3 2\n1 2 2\n2 3 1\n"),
        ("a.mtx", MM + "coordinate real symmetric\n% c\n3 3 2\n2 1 2\n3 2 1\n"),
        ("a.mtx.gz", MM + "coordinate integer symmetric\n3 3 3\n2 1 2\n3 2 1\n1 1 0\n"),
        ("a.mtx", MM + "coordinate real general\n3 3 4\n2 1 2\n3 2 1\n1 2 2\n2 3 1\n"),
        ("a.mtx", MM + "coordinate real general\n3 3 2\n1 2 2\n2 3 1\n"),
        ("a.mtx", MM + "coordinate real general\n3 3 3\n2 1 2\n3 2 1\n1 3 0\n"),
        ("a.mtx", MM + "array real symmetric\n3 3\n0\n2\n0\n0\n1\n0\n"),
        ("a.mtx", MM + "array integer general\n3 3\n0\n2\n0\n2\n0\n1\n0\n1\n0\n"),
        ("named-otherwise", MM + "coordinate real symmetric\n3 3 2\n2 1 2\n3 2 1\n"),
        ("a.graphml", graphml(edge(1, 2, 2) + edge(2, 3))),
        ("a.graphml.gz", graphml(edge(1, 2, 2) + edge(2, 3))),
        ("a.xml", graphml(edge(1, 2, 0.5) + edge(2, 3) + edge(2, 1, 1.5))),
        ("named-otherwise", graphml(edge(1, 2, 2) + edge(2, 3) + edge(1, 3, 0))),
        ("a.graphml", graphml(edge(1, 2, "2") + edge(2, 3), weight="string")),
    ],
)
def test_good_graphs(name, content, tmp_path):
    matrix = read_graph(put(tmp_path, name, content))
    assert matrix.format == "csr"
    assert matrix.dtype == np.float64
    assert matrix.nnz == 4
    np.testing.assert_array_equal(matrix.toarray(), PATH3)
    assert read_graph(str(tmp_path / name)).nnz == 4


def test_pattern_matrix_and_graph_without_edges(tmp_path):
    path = put(tmp_path, "a.mtx", MM + "coordinate pattern symmetric\n3 3 2\n2 1\n3 2\n")
    np.testing.assert_array_equal(read_graph(path).toarray(), PATH3 > 0)
    empty = read_graph(put(tmp_path, "b.edges", "4 0\n"))
    assert (empty.shape, empty.nnz) == ((4, 4), 0)


@pytest.mark.parametrize(
    ("content", "line", "word"),
    [
        ("# only a comment\n", None, "header"),
        ("\n1 2 3\n", 2, "header"),
        ("3\n1 2\n", 1, "header"),
        ("n m\n1 2\n", 1, "not a whole number"),
        ("3 1.0\n1 2\n", 1, "not a whole number"),
        ("-3 1\n1 2\n", 1, "out of range"),
        ("3 -1\n1 2\n", 1, "out of range"),
        ("2 1\n1 2\n", 1, "at least 3 vertices"),
        (f"{10**15} 1\n1 2\n", 1, "too large"),
        (f"{'9' * 3999} 1\n1 2\n", 1, "too large"),
        (f"{'9' * 5000} 1\n1 2\n", 1, "not a whole number"),
        (f"3 {'9' * 3999}\n1 2\n", 1, "found 1"),
        ("# c\n3 3\n1 2\n2 3\n", 2, "found 2"),
        ("3 1\n1 2\n2 3\n", 1, "found 2"),
        ("3 1\n\n# c\n0 2\n", 4, "out of range"),
        ("3 1\n1 4\n", 2, "1..3"),
        (f"3 1\n1 {10**30}\n", 2, "out of range"),
        ("3 1\n1 x\n", 2, "'x'"),
        ("3 1\n1 1_0\n", 2, "not a whole number"),
        ("3 1\n1 2 w\n", 2, "not a number"),
        ("3 1\n1 2 1_0\n", 2, "not a number"),
        ("3 1\n1 2 nan\n", 2, "not finite"),
        ("3 1\n1 2 -inf\n", 2, "not finite"),
        ("3 1\n1 2 1e999\n", 2, "not finite"),
        ("3 1\n1 2 -0.5\n", 2, "negative"),
        ("3 1\n2 2\n", 2, "self-loop"),
        ("3 1\n2 2 0\n", 2, "self-loop"),
        ("3 2\n1 2\n\n1 2\n", 4, "line 2"),
        ("3 2\n% c\n1 2\n2 1\n", 4, "line 3"),
        ("3 1\n1 2 1 1\n", 2, "4 fields"),
        ("3 1\n1\n", 2, "1 fields"),
    ],
)
def test_bad_edge_lists(content, line, word, tmp_path):
    refused(read_graph, put(tmp_path, "a.edges", content), line, word)
    refused(read_graph, put(tmp_path, "a.edges.gz", content), line, word)


COORD = MM + "coordinate "


@pytest.mark.parametrize(
    ("content", "line", "word"),
    [
        ("3 2\n1 2\n", 1, "MatrixMarket"),
        (MM + "coordinate\n", 1, "MatrixMarket"),
        (COORD + "real general\n", 2, "MatrixMarket"),
        (COORD + "real general\n3 3 -1\n", 2, "MatrixMarket"),
        (COORD + "complex general\n3 3 1\n1 2 1 0\n", 1, "complex"),
        (COORD + "real skew-symmetric\n3 3 1\n2 1 1\n", 1, "skew"),
        (COORD + "complex hermitian\n3 3 1\n2 1 1 0\n", 1, "hermitian"),
        (COORD + "real general\n% c\n3 4 1\n1 2 1\n", 3, "square"),
        (COORD + "real general\n2 2 1\n1 2 1\n", 2, "at least 3"),
        (COORD + "real general\n99999999 99999999 1\n1 2 1\n", 2, "too large"),
        (COORD + "real general\n3 3 999999999999\n1 2 1\n", 2, "found 1"),
        (COORD + "real general\n3 3 1\n1 2 1\n2 3 1\n", 2, "found 2"),
        (COORD + "real general\n3 3 1\n1 4 1\n", 3, "out of range"),
        (COORD + "real general\n3 3 1\n1 2 x\n", 3, "not a number"),
        (COORD + "real general\n3 3 1\n1 2\n", 3, "2 fields"),
        (COORD + "pattern general\n3 3 1\n1 2 1\n", 3, "3 fields"),
        (COORD + "real symmetric\n3 3 1\n2 1 nan\n", 3, "not finite"),
        (COORD + "real symmetric\n3 3 1\n2 1 -1\n", 3, "negative"),
        (COORD + "real symmetric\n3 3 1\n2 2 1\n", 3, "self-loop"),
        (COORD + "real symmetric\n3 3 2\n2 1 1\n1 2 1\n", 4, "line 3"),
        (COORD + "real general\n3 3 2\n2 1 1\n2 1 1\n", 4, "line 3"),
        (COORD + "real general\n3 3 2\n1 2 1\n3 2 1\n", None, "neither symmetric"),
        (COORD + "real general\n3 3 2\n1 2 1\n2 1 3\n", None, "neither symmetric"),
        (MM + "array real general\n3 3\n0\n1\n2\n", 2, "truncated"),
        (MM + "array real general\n9000 9000\n0\n1\n2\n", 2, "truncated"),
        (MM + "array real symmetric\n3 3\n0\n1\n2\n0\n-1\n0\n", 7, "negative"),
        (MM + "array real symmetric\n3 3\n1\n1\n2\n0\n1\n0\n", 3, "self-loop"),
        (MM + "array real symmetric\n3 3\n0\n1\nx\n0\n1\n0\n", 5, "not a number"),
        (MM + "array real symmetric\n3 3\n0\n1\n2\n0\n1\n0\n0\n", 9, "more numbers"),
        (MM + "array real general\n3 3\n0 1 2\n", 3, "fields"),
    ],
)
def test_bad_matrix_market(content, line, word, tmp_path):
    refused(read_graph, put(tmp_path, "a.mtx", content), line, word)


@pytest.mark.parametrize(
    ("content", "line", "word"),
    [
        (graphml(edge(1, 2), kind="directed"), None, "directed"),
        (graphml(edge(1, 2, -1)), None, "negative"),
        (graphml(edge(1, 2, "nan")), None, "not finite"),
        (graphml(edge(1, 2, "heavy"), weight="string"), None, "'heavy'"),
        (graphml(edge(1, 2, "9" * 400), weight="int"), None, "not a finite number"),
        (graphml(edge(1, 2, 1e308) + edge(1, 2, 1e308)), None, "not finite"),
        (graphml(edge(2, 2)), None, "self-loop"),
        (graphml("").replace('<node id="n3"/>', ""), None, "at least 3"),
        (graphml('<edge source="n1"/>'), None, "an edge ends at no node"),
        (graphml(edge(1, 4)), None, "an edge ends at no node: 'n4'"),
        ("<graphml></graphml>", None, "GraphML"),
        (graphml(edge(1, 2, "x")), None, "GraphML"),
        (graphml(edge(1, 2))[:-20], 5, "GraphML"),
        ("3 1\n1 2\n", 1, "GraphML"),
    ],
)
def test_bad_graphml(content, line, word, tmp_path):
    refused(read_graph, put(tmp_path, "a.graphml", content), line, word)


@pytest.mark.parametrize(
    ("name", "n", "edges"),
    [
        ("karate_club", 34, 78),
        ("karate_club_graph", 34, 78),
        ("les_miserables", 77, 254),
        ("florentine_families_graph", 15, 20),
        ("davis_southern_women", 32, 89),
        ("petersen", 10, 15),
        ("tutte_graph", 46, 69),
    ],
)
def test_built_in_graphs(name, n, edges, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    matrix = read_graph(name)
    assert matrix.shape == (n, n)
    assert matrix.nnz == 2 * edges
    graph = getattr(nx, name.removesuffix("_graph") + "_graph")()
    np.testing.assert_array_equal(matrix.toarray(), nx.to_numpy_array(graph))


def test_names_that_are_not_graphs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("no_such", "missing.edges", "path_graph", "Graph", "", "a\0b", "x" * 5000):
        refused(read_graph, name, None, "neither a file nor a known graph (such as karate_club")
    refused(read_graph, "./karate_club", None, "No such file")
    put(tmp_path, "karate_club", "3 1\n1 2\n")
    assert read_graph("karate_club").shape == (3, 3)


def test_without_networkx(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "networkx", None)
    refused(read_graph, "karate_club", None, "install condgrad[graphs]")
    refused(read_graph, put(tmp_path, "a.graphml", graphml("")), None, "install condgrad[graphs]")
    assert read_graph(put(tmp_path, "a.edges", "3 1\n1 2\n")).nnz == 2


def test_graph_from_networkx():
    graph = nx.MultiGraph()
    graph.add_nodes_from("cab")
    graph.add_edge("a", "c", weight=1.5)
    graph.add_edge("c", "a")
    expected = np.zeros((3, 3))
    expected[0, 1] = expected[1, 0] = 2.5
    np.testing.assert_array_equal(graph_from_networkx(graph).toarray(), expected)
    graph.add_edge("a", "b", weight=None)
    with pytest.raises(InputError, match="edge a - b: the weight 'None'"):
        graph_from_networkx(graph)
    with pytest.raises(InputError, match="mine: the graph is directed"):
        graph_from_networkx(nx.DiGraph([(0, 1), (1, 2)]), "mine")


# ---------------------------------------------------------------- ratings


@pytest.mark.parametrize(
    "content",
    [
        "1\t10\t3\t88\n2\t10\t4.5\t89\n",
        "1\t10\t3\n\n2\t10\t4.5",
        "userId,movieId,rating,timestamp\n1,10,3.0,88\n2,10,4.5,89\n",
        "\ufeffuser,item,rating\r\n1, 10 ,3.0\r\n2,10,4.5\r\n",
        "1,10,3.0\n2,10,4.5\n",
        "1::10::3::88\n2::10::4.5::89\n",
    ],
)
@pytest.mark.parametrize("name", ["r.data", "r.csv.gz"])
def test_good_ratings(name, content, tmp_path):
    ratings = read_ratings(put(tmp_path, name, content))
    assert ratings.users.tolist() == ["1", "2"]
    assert ratings.items.tolist() == ["10", "10"]
    assert ratings.values.tolist() == [3.0, 4.5]
    assert ratings.values.dtype == np.float64
    assert ratings.users.dtype.kind == ratings.items.dtype.kind == "U"


@pytest.mark.parametrize(
    ("content", "line", "word"),
    [
        ("1 2 3\n", 1, "separated by"),
        ("user,item,rating\n", 1, "no ratings"),
        ("1\t2\n", 1, "found 2"),
        ("1\t2\t3\n\n1\t3\n", 3, "found 2"),
        ("1\t2\t3\n1,3,4\n", 2, "separated by tab, found 1"),
        ("1\t2\tx\n", 1, "'x' is not a number"),
        ("1\t2\t3\n1\t3\tx\n", 2, "'x' is not a number"),
        ("u,i,r\nu,i,r\n", 2, "not a number"),
        ("1,2,3\n1,3,\n", 2, "not a number"),
        ("1,2,3\n1,3,1_0\n", 2, "not a number"),
        ("1,2,3\n1,3,nan\n", 2, "not finite"),
        ("1,2,3\n1,3,inf\n", 2, "not finite"),
        (f"1,2,3\n1,3,{'9' * 400}\n", 2, "not finite"),
        ("1,2,3\n ,3,4\n", 2, "user is empty"),
        ("1,2,3\n1,,4\n", 2, "item is empty"),
        (f"1,2,3\n1,{'i' * 300},4\n", 2, "item is longer"),
        ("u,i,r\n1,2,3\n\n1,2,4\n", 4, "line 2"),
    ],
)
def test_bad_ratings(content, line, word, tmp_path):
    refused(read_ratings, put(tmp_path, "r.csv", content), line, word)


def make(*rows: tuple[str, str, float]) -> Ratings:
    users, items, values = zip(*rows, strict=True)
    return Ratings(np.array(users), np.array(items), np.array(values))


def test_index_ratings():
    train = make(("10", "b", 1.0), ("9", "a", 2.0), ("10", "a", 3.0))
    test = make(("9", "b", 4.0), ("9", "c", 5.0), ("11", "a", 6.0))
    got = index_ratings(train, test)
    assert got.shape == (2, 2)
    assert got.rows.tolist() == [1, 0, 0]
    assert got.cols.tolist() == [1, 0, 1]  # numeric order: 9 before 10
    assert got.values.tolist() == [1.0, 2.0, 3.0]
    assert (got.test_rows.tolist(), got.test_cols.tolist()) == ([1], [0])
    assert got.test_values.tolist() == [4.0]
    assert got.dropped == 2
    alone = index_ratings(train, None)
    assert alone.test_rows is alone.test_cols is alone.test_values is None
    assert alone.dropped == 0
    mixed = index_ratings(make(("10", "1", 1.0), ("9", "1", 1.0), ("x", "1", 1.0)))
    assert mixed.cols.tolist() == [0, 1, 2]  # lexicographic: "10" before "9"


def test_ratings_speed(tmp_path):
    lines = "".join(f"{k % 1000}\t{k // 1000}\t{k % 5 + 1}\t881250949\n" for k in range(100_000))
    path = put(tmp_path, "u.data", lines)
    start = time.perf_counter()
    assert read_ratings(path).values.size == 100_000
    assert time.perf_counter() - start < 5  # about 0.3 s alone; loose for loaded machines


# ---------------------------------------------------------------- features

POINTS = np.array([[0.0, 0.0], [3.0, 4.0], [1.0, 0.0]])
SQUARED = np.array([[0.0, 25.0, 1.0], [25.0, 0.0, 20.0], [1.0, 20.0, 0.0]])


@pytest.mark.parametrize(
    ("name", "content", "has_points"),
    [
        ("a.npz", npz(C=SQUARED), False),
        ("a.npz", npz(C=SQUARED, X=POINTS, labels=np.arange(3)), True),
        ("a.npz", npz(C=SQUARED, images=POINTS.T.astype(np.uint8)), True),
        ("a.npz", npz(X=POINTS, images=np.ones((9, 9)), other=np.ones((2, 2))), True),
        ("a.npz", npz(images=POINTS.T.astype(np.float32), labels=np.arange(3)), True),
        ("a.npz", npz(anything=POINTS.astype(int), k=np.int64(3)), True),
        ("a.npz", npz(C=SQUARED + np.diag([0, 1e-12, 0]) + np.diag([1e-13, 0], 1)), False),
        ("a.npy", npy(POINTS), True),
        ("a.npy", npy(np.asfortranarray(POINTS)), True),
        ("a.npy.gz", npy(POINTS), True),
        ("named-otherwise", npz(X=POINTS), True),
        ("a.csv", "x,y\n0,0\n3,4\n1,0\n", True),
        ("a.csv.gz", "0,0\n3,4\n1,0\n", True),
        ("a.csv", "\ufeffx;y\r\n0;0\r\n\r\n3;4\r\n1;0", True),
        ("a.tsv", "first one\tsecond\n0\t0\n3\t4\n1\t0\n", True),
        ("a.txt", "# saved\n0 0\n 3e0   4.0\n1 0\n", True),
    ],
)
def test_good_features(name, content, has_points, tmp_path):
    features = read_features(put(tmp_path, name, content))
    assert features.distances.dtype == np.float64
    np.testing.assert_allclose(features.distances, SQUARED, atol=1e-9)
    np.testing.assert_array_equal(features.distances, features.distances.T)
    assert not np.diag(features.distances).any()
    if has_points:
        assert features.points.dtype == np.float64
        np.testing.assert_array_equal(features.points, POINTS)
    else:
        assert features.points is None


def test_one_column(tmp_path):
    features = read_features(put(tmp_path, "a.csv", "x\n1\n4\n"))
    assert features.points.tolist() == [[1.0], [4.0]]
    assert features.distances.tolist() == [[0.0, 9.0], [9.0, 0.0]]


@pytest.mark.parametrize(
    ("content", "line", "word"),
    [
        ("# c\n", None, "no numbers"),
        ("x,y\n", 1, "no numbers"),
        ("x,y\n1,2\n", None, "at least 2 points"),
        ("1,2\n\n3\n", 3, "2 columns expected, found 1"),
        ("1,2\n3,4,5\n", 2, "2 columns expected, found 3"),
        ("x,y,z\n1,2\n", 2, "3 columns expected"),
        ("1,x\n1,2\n", 1, "column 2: 'x' is not a number"),
        ("x,y\n1,2\n3,\n", 3, "column 2: '' is not a number"),
        ("1 2\n3 four\n", 2, "column 2: 'four'"),
        ("1;2\n1_0;3\n", 2, "column 1: '1_0'"),
        ("1\t2\n3\tnan\n", 2, "column 2: 'nan' is not finite"),
        ("1,2\n1e999,2\n", 2, "column 1: '1e999' is not finite"),
        ("1e200,2\n-1e200,2\n", None, "overflow"),
    ],
)
def test_bad_tables(content, line, word, tmp_path):
    refused(read_features, put(tmp_path, "a.csv", content), line, word)


def bent(row: int, column: int, value: float) -> np.ndarray:
    matrix = SQUARED.copy()
    matrix[row, column] = value
    return matrix


LIES = npy(POINTS).replace(b"(3, 2), }            ", b"(300000000, 30000), }")
assert npy(POINTS) != LIES


@pytest.mark.parametrize(
    ("name", "content", "word"),
    [
        ("a.npz", npz(), "none"),
        ("a.npz", npz(a=np.ones(3), b=np.ones((2, 2, 2))), "found: a, b"),
        ("a.npz", npz(a=np.ones((3, 2)), b=np.ones((3, 2))), "found: a, b"),
        ("a.npz", npz(a=np.array([["x", "y"]])), "found: a"),
        ("a.npz", npz(X=np.ones(3)), "X is not a 2-D array"),
        ("a.npz", npz(X=np.ones((3, 2)) * 1j), "complex"),
        ("a.npz", npz(X=np.ones((0, 2))), "X is not"),
        ("a.npz", npz(X=np.ones((1, 2))), "at least 2 points"),
        ("a.npz", npz(images=np.ones((4, 4, 5))), "images is not a 2-D array"),
        ("a.npz", npz(X=np.array([[1.0, 2.0], [3.0, np.nan]])), "row 2, column 2"),
        ("a.npz", npz(X=np.array([[1.0, -np.inf], [3.0, 4.0]])), "row 1, column 2"),
        ("a.npz", npz(X=np.zeros((50_001, 1), dtype=np.int8)), "too large"),
        ("a.npz", npz(C=np.ones(4)), "C is not a 2-D array"),
        ("a.npz", npz(C=np.ones((2, 3))), "not square"),
        ("a.npz", npz(C=bent(0, 1, 24.0)), "not symmetric"),
        ("a.npz", npz(C=bent(1, 1, 1.0)), "diagonal"),
        ("a.npz", npz(C=-SQUARED), "negative"),
        ("a.npz", npz(C=bent(0, 1, np.nan)), "not finite"),
        ("a.npz", npz(C=SQUARED, X=np.ones((4, 2))), "4 points"),
        ("a.npz", npz(X=np.array([[1, "a"], [2, None]], dtype=object)), "numpy file"),
        ("a.npy", npy(np.array([[1, None]], dtype=object), pickled=True), "numpy file"),
        ("a.npy", npy(np.ones(5)), "not a 2-D array"),
        ("a.npy", npy(POINTS)[:-8], "numpy file"),
        ("a.npy", npy(POINTS)[:20], "numpy file"),
        ("a.npy", LIES, "numpy file"),
        ("a.npy", "1,2\n3,4\n", "numpy file"),
        ("a.npz", npz(X=POINTS)[:-30], "numpy file"),
        ("a.npz", "garbage", "numpy file"),
    ],
)
def test_bad_numpy_files(name, content, word, tmp_path):
    refused(read_features, put(tmp_path, name, content), None, word)


# ---------------------------------------------------------------- random files

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
]
SUFFIXES = ["", ".txt", ".edges", ".mtx", ".graphml", ".csv", ".npz", ".npy", ".mtx.gz"]
PIECES = [b"", b"\n", b"\0", b"\xff", b"nan", b"-1", b"9" * 30, b",", b"\t", b"::", b"<", b"0"]


@st.composite
def mutated(draw):
    data = bytearray(draw(st.sampled_from(SEEDS)))
    for _ in range(draw(st.integers(1, 3))):
        start = draw(st.integers(0, len(data)))
        end = min(len(data), start + draw(st.integers(0, 4)))
        data[start:end] = draw(st.sampled_from(PIECES) | st.binary(max_size=4))
    return bytes(data[: draw(st.integers(0, len(data)) | st.just(len(data)))])


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


# ---------------------------------------------------------------- the real files


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
    refused(read_graph, Path(str(DATA)) / "gset" / "G11.txt", 3, "negative weight -1")
