"""Graphs in the formats that people have, written by networkx where it can."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
from scipy.io import mmwrite

from condgrad.errors import InputError, InputWarning, ProblemError
from condgrad.io import graph_from_edges, read_graph, read_named_graph
from files import check_refused, put

GRAPH = nx.Graph()
GRAPH.add_weighted_edges_from(
    [("ann", "bob", 2.0), ("ann", "cy", 4.0), ("ann", "dee", 1.0), ("bob", "cy", 1.5)]
)
GRAPH.add_edge("cy", "dee", weight=3.0)
MATRIX = nx.to_numpy_array(GRAPH)
ROWS = [(u, v, w["weight"]) for u, v, w in GRAPH.edges(data=True)]
PLACE = {name: k for k, name in enumerate(GRAPH, 1)}
NUMBERED = [(PLACE[u], PLACE[v], w) for u, v, w in ROWS]


def written(write, *args, **options) -> bytes:
    """What a function writes into a file."""
    file = io.BytesIO()
    write(*args, file, **options)
    return file.getvalue()


def lines(rows, mark=" ", *first) -> str:
    return "\n".join([*first, *(mark.join(map(str, row)) for row in rows)]) + "\n"


def frame():
    return pytest.importorskip("pandas").DataFrame(ROWS, columns=["from", "to", "weight"])


def parquet(table) -> bytes:
    pytest.importorskip("pyarrow")
    return table.to_parquet()


def metis(code: str = "001") -> str:
    at = [[f"{j + 1} {w:g}" for j, w in enumerate(row) if w] for row in MATRIX]
    return f"% a remark\n4 5 {code}\n" + "\n".join(" ".join(row) for row in at) + "\n"


def pajek(section: str = "*Edges", names: bool = True) -> str:
    called = [f'{k} "{name}" 0.1 0.2' for name, k in PLACE.items()] if names else []
    return "\n".join(["*Vertices 4", *called, section]) + "\n" + lines(NUMBERED)


NAMED = {
    "a.edgelist": lambda: written(nx.write_edgelist, GRAPH),
    "commas.edgelist": lambda: written(nx.write_edgelist, GRAPH, delimiter=","),
    "a.txt": lambda: written(nx.write_weighted_edgelist, GRAPH),
    "gml.txt": lambda: written(nx.write_gml, GRAPH),
    "a.gml": lambda: written(nx.write_gml, GRAPH),
    "a.graphml": lambda: written(nx.write_graphml, GRAPH),
    "a.net": lambda: written(nx.write_pajek, GRAPH),
    "pajek.txt": lambda: pajek(),
    "a.json": lambda: json.dumps(nx.node_link_data(GRAPH, edges="edges")),
    "json.txt": lambda: json.dumps(nx.node_link_data(GRAPH, edges="links"), indent=1),
    "a.csv": lambda: frame().to_csv(index=False),
    "index.csv": lambda: frame().to_csv(),
    "bare.csv": lambda: lines(ROWS, ","),
    "quoted.csv": lambda: lines(((f'"{u}"', f'"{v}"', w) for u, v, w in ROWS), ";"),
    "a.tsv": lambda: lines(ROWS, "\t", "node_1\tnode_2\tweight"),
    "order.csv": lambda: lines(((w, u, v) for u, v, w in ROWS), ",", "weight,source,target"),
    "a.parquet": lambda: parquet(frame()),
    "categories.pq": lambda: parquet(frame().astype({"from": "category", "to": "category"})),
    "numpy2.edgelist": lambda: lines((u, v, f"{{'weight': np.float64({w})}}") for u, v, w in ROWS),
}
PLAIN = {
    "a.mc": lambda: lines(NUMBERED, " ", "4 5"),
    "bare.edges": lambda: lines(NUMBERED),
    "header.csv": lambda: lines(NUMBERED, ",", "Source,Target,Weight"),
    "a.mtx": lambda: written(lambda file: mmwrite(file, sp.coo_array(MATRIX))),
    "a.npy": lambda: written(lambda file: np.save(file, MATRIX)),
    "edges.npy": lambda: written(lambda file: np.save(file, np.array(NUMBERED))),
    "a.npz": lambda: written(lambda file: np.savez(file, A=MATRIX)),
    "scipy.npz": lambda: written(lambda file: sp.save_npz(file, sp.csr_array(MATRIX))),
    "coo.npz": lambda: written(lambda file: sp.save_npz(file, sp.coo_array(MATRIX))),
    "matrix.csv": lambda: lines(MATRIX.tolist(), ","),
    "a.graph": lambda: metis(),
    "a.dimacs": lambda: lines((("e", *row) for row in NUMBERED), " ", "c x", "p edge 4 5"),
    "dimacs": lambda: lines((("e", *row) for row in NUMBERED), " ", "p col 4 5"),
    "a.gr": lambda: lines(NUMBERED, " ", "p tw 4 5"),
    "bare.net": lambda: pajek(names=False),
    "matrix.net": lambda: "*Vertices 4\n*Matrix\n" + lines(MATRIX.tolist()),
}


@pytest.mark.parametrize("name", [*NAMED, *PLAIN])
def test_every_format(name, tmp_path):
    path = put(tmp_path, name, (NAMED | PLAIN)[name]())
    adjacency, names = read_named_graph(path)
    np.testing.assert_array_equal(adjacency.toarray(), MATRIX)
    assert names == (tuple(GRAPH) if name in NAMED else None)


@pytest.mark.parametrize(("end", "pack"), [("gz", gzip), ("bz2", bz2), ("xz", lzma)])
@pytest.mark.parametrize("name", ["a.gml", "a.parquet", "a.npy", "bare.csv"])
def test_packed(name, end, pack, tmp_path):
    content = (NAMED | PLAIN)[name]()
    packed = pack.compress(content if isinstance(content, bytes) else content.encode())
    for path in (tmp_path / f"{name}.{end}", tmp_path / "without-an-end"):
        path.write_bytes(packed)
        np.testing.assert_array_equal(read_graph(path).toarray(), MATRIX)
    (tmp_path / f"bad.{end}").write_bytes(packed[:-9])
    check_refused(read_graph, tmp_path / f"bad.{end}", None, "damaged")


def test_numbers_that_do_not_begin_at_1_are_names_in_their_order(tmp_path):
    path = put(tmp_path, "a.txt", "# from SNAP\n0\t10\n10\t2\n2\t0\n")
    assert read_named_graph(path).names == ("0", "2", "10")
    assert read_named_graph(put(tmp_path, "b.txt", "1 2\n2 3\n3 1\n")).names is None
    frames = pytest.importorskip("pandas").DataFrame({"u": [9, 7], "v": [7, 8], "w": [1, 2.5]})
    found = graph_from_edges(frames)
    assert found.names == (7, 8, 9)
    assert found.adjacency[0].toarray().tolist() == [0, 2.5, 1]
    with pytest.raises(ProblemError, match="frame is a list"):
        graph_from_edges([1, 2])


@pytest.mark.parametrize(
    ("content", "options", "total"),
    [
        ("a b 1 9\nb c 2 9\n", {"weight": 3}, 3),
        ("a b 1 9\nb c 2 9\n", {"weight": "4"}, 18),
        ("a b 1 9\nb c 2 9\n", {"weight": None}, 2),
        ("u,v,cost\na,b,3\nb,c,4\n", {"weight": "cost"}, 7),
        ("u,v,cost\na,b,3\nb,c,4\n", {"weight": None}, 2),
        ("a b {'cost': 3}\nb c {'cost': 4, 'x': 'y, z'}\n", {"weight": "cost"}, 7),
        ("a b 1\nb a 1\nb c 1\n", {"repeats": "once"}, 2),
        ("a b 1\nb a 1\nb c 1\n", {"repeats": "sum"}, 3),
        ("a a 1\na b 1\nb c 1\n", {"loops": "drop"}, 2),
        ("a|b c|2\nb c|d|3\n", {"delimiter": "|"}, 5),
        ("5 4\n4 3\n3 2\n2 1\n1 5\n", {}, 4),
        ("5 4\n4 3\n3 2\n2 1\n1 5\n", {"format": "edges"}, 5),
        ("*Vertices 3\n*Arcs\n1 2 5\n2 3 1\n", {"undirected": True}, 6),
        ("*Vertices 3\n*Arcslist\n1 2 3\n2 1\n", {"undirected": True, "repeats": "once"}, 2),
        ('{"directed": true, "nodes": [1, 2, 3], "edges": []}', {"undirected": True}, 0),
        ("p sp 3 2\na 1 2 5\na 2 3 1\n", {"undirected": True}, 6),
        ("0,1,0,0\n3,0,0,0\n0,0,0,1\n0,0,1,0\n", {"undirected": True, "repeats": "sum"}, 6),
    ],
)
def test_options(content, options, total, tmp_path):
    assert read_graph(put(tmp_path, "a", content), **options).sum() / 2 == total


def test_weights_that_some_edges_lack(tmp_path):
    path = put(tmp_path, "a.csv", "u,v,weight\na,b,5\nb,c,\nc,d,\n")
    with pytest.warns(InputWarning, match="2 of 3 edges have no 'weight', the first is b - c on"):
        assert read_graph(path).sum() / 2 == 7
    path = put(tmp_path, "b.json", JSON % '{"source": 1, "target": 2, "value": 7}')
    with pytest.warns(InputWarning, match="no edge has a 'weight', all count 1; weight='value'"):
        assert read_graph(path).sum() / 2 == 1
    assert read_graph(path, weight="value").sum() / 2 == 7
    assert read_graph(path, weight=None).sum() / 2 == 1


JSON = '{"nodes": [{"id": 1}, {"id": 2}, {"id": 3}], "links": [%s]}'
GML = "graph [\nnode [ id 1 ]\nnode [ id 2 ]\nnode [ id 3 ]\n%s ]\n"


@pytest.mark.parametrize(
    ("name", "content", "line", "word"),
    [
        ("a.txt", "a b c d\n", 1, "found 4 fields: say which column is the weight"),
        ("a.txt", "b c 1\na b x\n", 2, "the weight 'x' is not a number; weight=None"),
        ("a.txt", "a b {'weight': x}\n", 1, "expected a dictionary"),
        ("a.txt", "New York Rome {}\n", 1, "names with blanks need another delimiter"),
        ("a.txt", "a b\nb a\n", 2, "stood before on line 1: repeats='sum' (--repeats sum)"),
        ("a.txt", "a a\n", 1, "self-loop at vertex a; no cut has it"),
        ("a.txt", "0.5 1.5\n2.5 1\n", 1, "'0.5' is a fraction"),
        ("a.txt", "9 7\n1 2\n2 3\n", 1, "it says 7 edges, found 2; if it is an edge pass"),
        ("a.txt", "10 2\n2 0\n0 10\n", 2, "numbered from 1, found 0; if '10 2' is an edge"),
        ("a.dot", "graph { a -- b }", None, ".dot files are not read: save it as GraphML"),
        ("a.csv", "a,b,1\nb,c\n,d,1\n", 3, "the name of a vertex is empty"),
        ("a.csv", "u,v,cost\na,b,1\n", 1, "columns 'cost' beside the ends: say which"),
        ("a.csv", "u,v\na,b,1\n", 2, "2 columns expected, found 3"),
        ("a.csv", "u,v,weight\n", 1, "no edges after the names"),
        ("a.net", "1 2\n", 1, "expected '*Vertices n' first, found '1 2'"),
        ("a.net", "*Vertices 3\n*Arcs\n1 2\n", 2, "--undirected"),
        ("a.net", "*Vertices 3\n*Edges\n1 4\n", 3, "out of range"),
        ("a.net", '*Vertices 3\n1 "a\n', 2, "quotation mark"),
        ("a.net", "*Vertices 3\n*Matrix\n0 1\n", 3, "expected 3 numbers of a row, found 2"),
        ("a.net", "*Vertices 3\n*Partition x\n", 2, "expected *Vertices, *Edges"),
        ("a.graph", "4\n", 1, "expected sizes 'n m"),
        ("a.graph", "3 1\n2\n1\n", 1, "expected a line for each of 3 vertices"),
        ("a.graph", "3 2\n2\n1\n\n", 1, "2 edges expected, found 1"),
        ("a.graph", "3 1\n2\n\n\n", 2, "vertex 2 is a neighbour of 1, but not"),
        ("a.graph", "3 1 7\n2\n1\n\n", 1, "fmt = '7'"),
        ("a.graph", "3 1 1\n2 5\n1\n\n", 3, "pairs of neighbour and weight"),
        ("a.col", "e 1 2\n", 1, "expected 'p edge n m' first, found 'e 1 2'"),
        ("a.col", "p edge 3 2\ne 1 2\n", 1, "2 edges expected, found 1"),
        ("a.col", "p edge 3 1\nq 1 2\n", 2, "expected 'e u v' or 'e u v w', found 'q 1 2'"),
        ("a.col", "p edge 3 1\na 1 2 1\n", 2, "--undirected"),
        ("a.gml", GML % "edge [ source 1 ]", 5, "the edge has no 'target'"),
        ("a.gml", GML % "edge [ source 1 target 7 ]", 5, "ends at '7', which is no node"),
        ("a.gml", GML % 'edge [ source 1 target 2 weight "x" ]', 5, "'x' is not a number"),
        ("a.gml", "graph [\n directed 1 ]", 1, "directed"),
        ("a.gml", "graph [\n node [ id 1\n", 2, "not closed"),
        ("a.gml", "graph [\n node ]\n", 2, "found ']'"),
        ("a.gml", 'graph [\n name "x\n', 2, "quotation mark"),
        ("a.json", "{\n,}", 2, "not JSON"),
        ("a.json", "[1]", None, "found a list"),
        ("a.json", '{"nodes": [], "adjacency": []}', None, "found 'nodes, adjacency'"),
        ("a.json", JSON % '{"source": 1}', None, "edge number 1 has no source and target"),
        ("a.json", JSON % '{"source": 1, "target": 9}', None, "ends at '9', which is no node"),
        ("a.json", '{"nodes": [1, 1], "edges": []}', None, "node number 2 stands twice"),
        ("a.json", '{"directed": true, "nodes": [], "edges": []}', None, "--undirected"),
        ("a.npy", written(lambda f: np.save(f, np.ones((3, 4)))), None, "found 3 x 4"),
        ("a.npy", written(lambda f: np.save(f, np.ones(4))), None, "2-D array"),
        ("a.npy", written(lambda f: np.save(f, np.eye(4, k=1) + 2 * np.eye(4, k=-1))), None, "nei"),
        ("a.npz", written(lambda f: np.savez(f, a=MATRIX, b=MATRIX)), None, "found: a, b"),
        ("a.parquet", "1 2\n", None, "not a Parquet table"),
    ],
)
def test_what_was_expected_and_what_was_found(name, content, line, word, tmp_path):
    if name == "a.parquet":
        pytest.importorskip("pyarrow")
    check_refused(read_graph, put(tmp_path, name, content), line, word)


@pytest.mark.parametrize("options", [{}, {"undirected": True, "repeats": "sum"}])
@pytest.mark.parametrize("kind", ["symmetric", "upper", "arcs", "loop", "negative", "nan"])
def test_arrays_are_read_as_their_edges_one_by_one(kind, options, tmp_path):
    """The same matrix as MatrixMarket, whose entries are taken one after the other."""
    A = {
        "symmetric": MATRIX,
        "upper": np.triu(MATRIX),
        "arcs": np.triu(MATRIX) + np.tril(MATRIX)[::-1, ::-1] * (1 - np.eye(4)),
        "loop": MATRIX + np.diag([0, 0, 1, 0]),
        "negative": MATRIX * np.where(np.eye(4, k=3) + np.eye(4, k=-3), -1, 1),
        "nan": MATRIX * np.where(np.eye(4, k=3) + np.eye(4, k=-3), np.nan, 1),
    }[kind]
    at = np.nonzero(A)
    head = "%%MatrixMarket matrix coordinate real general"
    entries = lines(
        ((i + 1, j + 1, A[i, j]) for i, j in zip(*at, strict=True)), " ", head, f"4 4 {at[0].size}"
    )
    found = []
    for name, content in (
        ("a.mtx", entries),
        ("a.npy", written(lambda file: np.save(file, A))),
        ("a.npz", written(lambda file: sp.save_npz(file, sp.csc_array(A)))),
    ):
        try:
            found.append(read_graph(put(tmp_path, name, content), **options).toarray().tolist())
        except InputError as error:
            found.append(error.reason.split(": ")[-1].split(";")[0].split(" at ")[0])
    assert found[0] == found[1] == found[2]


def test_options_that_cannot_be(tmp_path):
    path = put(tmp_path, "a.txt", "a b\nb c\n")
    for options, word in (
        ({"format": "dot"}, "format is 'dot': choose one of mtx, graphml"),
        ({"repeats": "never"}, "repeats is 'never'"),
        ({"loops": "keep"}, "loops is 'keep'"),
        ({"delimiter": ""}, "delimiter is empty"),
        ({"weight": 1.5}, "weight is 1.5"),
    ):
        with pytest.raises(ProblemError, match=word):
            read_graph(path, **options)
    for options, word in (
        ({"weight": "cost"}, "weight is 'cost', but no edge has it"),
        ({"format": "rudy"}, "u = 'b' is not a whole number|n = 'a' is not a whole number"),
        ({"format": "metis", "weight": "cost"}, "metis has no names of weights"),
    ):
        with pytest.raises(InputError, match=word):
            read_graph(path, **options)


def test_the_command_reads_them_and_prints_names(run, tmp_path):
    path = put(tmp_path, "a.csv", lines(ROWS, ";", "source;target;cost"))
    code, out, err = run("solve", "max-cut", path, "--weight", "cost")
    assert code == 0, err
    assert "ann" in out or "cy" in out
    code, _, err = run("solve", "max-cut", path)
    assert code == 2
    assert f"{path}:1: columns 'cost' beside the ends" in err
    code, _, err = run("solve", "max-cut", path, "--weight", "cost", "--unweighted")
    assert (code, "choose one" in err) == (2, True)
    arcs = put(tmp_path, "a.net", pajek("*Arcs"))
    options = ("--undirected", "--unweighted", "--repeats", "once", "--drop-loops", "--gap", 0.1)
    code, out, err = run("solve", "sparsest-cut", arcs, *options, "--format", "pajek")
    assert code == 0, err


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("A;B;2,5\nB;C;1,5\nA;C;3,5\n", "'2,5' is not a number"),
        ("A\tB\t2,5\nB\tC\t1,5\nA\tC\t3,5\n", "'2,5' is not a number"),
        ("A B 2,5\nB C 1,5\nA C 3,5\n", "may be in a number"),
        ("0,1,2\na,b,1.5\nb,c,2.5\nc,a,1.0\n", "may be the numbers of columns"),
        ("0,1,2\n7,8,1.0\n8,9,2.0\n9,7,1.0\n", "may be the numbers of columns"),
    ],
)
def test_decimal_commas_and_numbers_of_columns_are_no_vertices(tmp_path, text, reason):
    path = tmp_path / "list.csv"
    path.write_text(text)
    with pytest.raises(InputError, match=reason):
        read_named_graph(path)


@pytest.mark.parametrize("text", ["0 1 2\n1 2 1\n2 3 1\n", "0 1 2\n1 2 1.5\n2 0 1.0\n"])
def test_a_first_edge_from_0_to_1_is_one(tmp_path, text):
    path = tmp_path / "list.txt"
    path.write_text(text)
    graph = read_named_graph(path)
    assert graph.names[:2] == ("0", "1")
    assert graph.adjacency[0, 1] == 2
