"""The commands for partitions and theta functions, which call the functions of Python."""

import json

import networkx as nx
import pytest

import condgrad as cg
from condgrad.record import Record
from files import put

EDGES = "c b\nb a\na c\nc x\nx y\ny z\nx z\n"
SIGNED = "a b 1\nb c 1\na c -1\nc d -2\n"


def told(run, *args):
    code, out, err = run("solve", *args, "--quiet", "--json", "-")
    assert (code, err) == (0, "")
    return json.loads(out)


@pytest.mark.parametrize(
    "args", [("bisection",), ("bisection", "--sizes", "3,3"), ("k-section", "-k", 2)]
)
def test_parts(run, tmp_path, args):
    command, *rest = args
    saved = tmp_path / "run.npz"
    found = told(run, command, put(tmp_path, "g.txt", EDGES), *rest, "--save", saved)
    assert [sorted(part) for part in found["parts"]] == [list("abc"), list("xyz")]
    assert (found["objective"], found["lower_bound"], found["gap"]) == (1, 1, 0)
    record = Record.load(saved)
    assert sorted(record.arrays["names"]) == list("abcxyz")
    assert record.adjacency.nnz == 14


def test_parts_of_other_sizes_and_their_picture(run, tmp_path):
    path, picture = put(tmp_path, "g.txt", EDGES), tmp_path / "a.svg"
    code, out, _ = run("solve", "k-section", path, "-k", "1,2,3", "--plot", picture)
    assert code == 0
    assert "into 3 parts" in out
    assert "edges across" in picture.read_text()


def test_signed_graphs(run, tmp_path):
    found = told(run, "correlation-clustering", put(tmp_path, "g.txt", SIGNED))
    graph = nx.Graph()
    graph.add_weighted_edges_from([("a", "b", 1), ("b", "c", 1), ("a", "c", -1), ("c", "d", -2)])
    assert found["objective"] == cg.correlation_clustering(graph).value == 1
    assert found["lower_bound"] <= 1


def test_theta(run):
    found = told(run, "theta", "petersen")
    assert 4 - 1e-9 <= found["objective"] <= 4 <= found["upper_bound"] <= 4.001
    assert len(found["independent_set"]) == 4
    assert told(run, "theta", "petersen", "--plus")["upper_bound"] <= 4.001


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("bisection", "karate_club", "--sizes", "3,x"), "--sizes is '3,x'"),
        (("k-section", "karate_club", "-k", "40"), "parts is 40"),
    ],
)
def test_bad_input(run, args, words):
    code, _, err = run("solve", *args)
    assert code == 2
    assert words in err
