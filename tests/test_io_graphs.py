from __future__ import annotations

import re
import sys

import networkx as nx
import numpy as np
import pytest

from condgrad.errors import InputError, InputWarning
from condgrad.io import (
    graph_from_networkx,
    read_graph,
    read_named_graph,
)
from files import (
    MM,
    PATH3,
    check_refused,
    edge,
    graphml,
    put,
)


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
@pytest.mark.filterwarnings("ignore::condgrad.errors.InputWarning")
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
        ("# only a comment\n", None, "expected lines 'u v'"),
        ("3\n1 2\n", 1, "found 1 field"),
        ("3 1.5\n1 2\n", 1, "'1.5' is a fraction"),
        ("-3 1\n1 2\n", 1, "out of range"),
        ("3 -1\n1 2\n", 1, "out of range"),
        ("1 0\n", 1, "at least 2 vertices"),
        (f"{10**15} 1\n1 2\n", 1, "too large"),
        (f"{'9' * 3999} 1\n1 2\n", 1, "too large"),
        (f"{'9' * 5000} 1\n1 2\n", 1, "longer than 256"),
        (f"3 {'9' * 3999}\n1 2\n", 1, "found 1"),
        ("# c\n3 3\n1 2\n2 3\n", 2, "found 2"),
        ("3 1\n1 2\n2 3\n", 1, "found 2"),
        ("3 1\n\n# c\n0 2\n", 4, "numbered from 1, found 0"),
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
        ("a|b|1\nb|c|1\n", 1, "found 1 field, 'a|b|1': tell another separator"),
        ("u;v;w\na;b;1,5\nb;c;2\n", 2, "'1,5' is not a number: write a point for the comma"),
        ("a b -1\nb c 2\n", 1, "negative weight -1: a sparsest cut has none, for a maximum cut"),
        ("Source,Target,Type\na,b,Undirected\nb,c,Directed\n", 3, "type is 'Directed'; a cut has"),
        (",a,b,c\na,0,1,0\nb,1,0,x\nc,0,x,0\n", 3, "'x' in a matrix is not a number"),
    ],
)
def test_bad_edge_lists(content, line, word, tmp_path):
    check_refused(read_graph, put(tmp_path, "a.edges", content), line, word)
    check_refused(read_graph, put(tmp_path, "a.edges.gz", content), line, word)


def test_a_matrix_with_names_and_remarks_behind_edges(tmp_path):
    matrix = ",a,b,c\na,0,2,0\nb,2,0,1\nc,0,1,0\n"
    remarks = "// two edges\na b 2 # heavy\nb c 1 #light\n"
    for text in (matrix, remarks):
        found = read_named_graph(put(tmp_path, "a.csv", text))
        assert found.names == ("a", "b", "c")
        np.testing.assert_array_equal(found.adjacency.toarray(), PATH3)


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
        (COORD + "real general\n1 1 0\n", 2, "at least 2"),
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
    check_refused(read_graph, put(tmp_path, "a.mtx", content), line, word)


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
        (re.sub('<node id="n[23]"/>', "", graphml("")), None, "at least 2"),
        (graphml('<edge source="n1"/>'), None, "an edge ends at no node"),
        (graphml(edge(1, 4)), None, "an edge ends at no node: 'n4'"),
        ("<graphml></graphml>", None, "GraphML"),
        (graphml(edge(1, 2, "x")), None, "GraphML"),
        (graphml(edge(1, 2))[:-20], 5, "GraphML"),
        ("3 1\n1 2\n", 1, "GraphML"),
    ],
)
def test_bad_graphml(content, line, word, tmp_path):
    check_refused(read_graph, put(tmp_path, "a.graphml", content), line, word)


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
        check_refused(
            read_graph, name, None, "neither a file nor a known graph (such as karate_club"
        )
    check_refused(read_graph, "./karate_club", None, "No such file")
    put(tmp_path, "karate_club", "3 1\n1 2\n")
    assert read_graph("karate_club").shape == (3, 3)


def test_without_networkx(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "networkx", None)
    check_refused(read_graph, "karate_club", None, "install condgrad[graphs]")
    check_refused(
        read_graph, put(tmp_path, "a.graphml", graphml("")), None, "install condgrad[graphs]"
    )
    assert read_graph(put(tmp_path, "a.edges", "3 1\n1 2\n")).nnz == 2


def test_graph_from_networkx():
    graph = nx.MultiGraph()
    graph.add_nodes_from("cab")
    graph.add_edge("a", "c", weight=1.5)
    graph.add_edge("c", "a")
    expected = np.zeros((3, 3))
    expected[0, 1] = expected[1, 0] = 2.5
    with pytest.warns(InputWarning, match="1 of 2 edges have no 'weight', the first is c - a"):
        np.testing.assert_array_equal(graph_from_networkx(graph).toarray(), expected)
    graph.add_edge("a", "b", weight=None)
    with pytest.raises(InputError, match="edge a - b: the weight 'None'"):
        graph_from_networkx(graph)
    with pytest.raises(InputError, match="mine: the graph is directed"):
        graph_from_networkx(nx.DiGraph([(0, 1), (1, 2)]), "mine")
