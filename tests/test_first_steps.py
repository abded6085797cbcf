"""What somebody tries first: odd graphs, flags, file names, and what is said of them."""

from dataclasses import replace

import networkx as nx
import numpy as np
import pandas as pd
import pytest

import condgrad as cg
from condgrad import plot
from condgrad.applications import clustering_value
from condgrad.applications import max_cut as application
from condgrad.applications.kmeans import forest_floor
from condgrad.errors import ProblemError
from condgrad.io import read_graph
from condgrad.record import Record
from condgrad.sklearn import SDPKMeans, certify

TRIANGLE = [("a", "b"), ("b", "c"), ("c", "a")]
RING = np.roll(np.eye(5), 1, axis=0) + np.roll(np.eye(5), -1, axis=0)


def with_attribute(**values):
    graph = nx.Graph(TRIANGLE)
    for name, value in values.items():
        nx.set_edge_attributes(graph, dict(zip(graph.edges, value, strict=True)), name)
    return graph


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: cg.max_cut(with_attribute(sign=[1, -1, 1])), "pass weight='sign', or weight=None"),
        (lambda: cg.max_cut(with_attribute(weight=[1, None, 1])), "has the weight None: set it"),
        (lambda: cg.max_cut([(0, 1), (1, 2)]), "looks like a list of edges: pass networkx.Graph"),
        (lambda: cg.max_cut([[0, 1], [1, 2]]), "looks like a list of edges"),
        (lambda: cg.max_cut(pd.DataFrame([(0, 1), (1, 2)])), "looks like a list of edges"),
        (lambda: cg.max_cut(TRIANGLE), "looks like a list of edges"),
        (lambda: cg.max_cut({"a": ["b"]}), "graph is a dict: give a networkx.Graph"),
        (lambda: cg.max_cut(None), "graph is a NoneType"),
        (
            lambda: cg.sparsest_cut(pd.DataFrame([("a", "b"), ("b", "a"), ("b", "c")])),
            r"repeats='sum' adds the weights.*give it to condgrad.io.graph_from_edges",
        ),
        (lambda: cg.bisection(nx.path_graph(1)), "graph has one vertex: a partition"),
        (lambda: cg.bisection(RING, parts=2), "parts is no option of bisection"),
        (lambda: cg.theta(RING, plus="yes"), "plus is 'yes': it must be True or False"),
        (lambda: cg.max_cut(RING, triangles="all"), "triangles is 'all'"),
        (lambda: cg.sparsest_cut(RING, presolve=2), "presolve is 2"),
        (lambda: cg.k_section(RING, triangles="no"), "it must be True or False or None"),
        (lambda: certify(np.eye(3), [0, 0, 1], gap=2), "gap is 2: it must be a number between"),
        (lambda: SDPKMeans(2, tight="no").fit(np.eye(3)), "tight is 'no'"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_a_remedy(call, words):
    with pytest.raises(ProblemError, match=words) as caught:
        call()
    assert "--" not in str(caught.value)  # an option of the command is none here


def test_an_attribute_that_is_one_everywhere_or_one_of_many_is_no_weight():
    assert cg.max_cut(with_attribute(count=[1, 1, 1])).value == 2
    assert cg.max_cut(with_attribute(length=[3, 4, 5], year=[1, 2, 3])).value == 2
    assert cg.max_cut(with_attribute(length=[3, 4, 5]), weight="length").value == 9


def test_two_vertices_from_a_frame_or_a_file(tmp_path):
    frame = pd.DataFrame({"source": ["a"], "target": ["b"], "weight": [3.0]})
    assert cg.sparsest_cut(frame).value == cg.max_cut(frame).value == 3
    assert cg.theta(frame).independence_bound == 1
    (tmp_path / "g.txt").write_text("a b 3\n")
    assert read_graph(tmp_path / "g.txt").shape == (2, 2)


def test_loops_of_a_frame_are_ignored_as_those_of_other_graphs():
    frame = pd.DataFrame([*TRIANGLE, ("a", "a")], columns=["source", "target"])
    assert cg.max_cut(frame).value == cg.max_cut(nx.Graph([*TRIANGLE, ("a", "a")])).value == 2


def test_a_matrix_with_names_may_have_its_columns_in_another_order():
    A = pd.DataFrame(RING, index=list("abcde"), columns=list("abcde"))
    A.loc["a", "b"] = A.loc["b", "a"] = 4
    found = cg.max_cut(A[list("cabed")])
    assert found.value == cg.max_cut(A).value
    assert {name for side in found.partition for name in side} == set("abcde")


def test_runs_are_saved_under_the_name_that_was_given(tmp_path):
    record = Record.of(cg.max_cut(nx.path_graph(2)))
    with pytest.raises(ProblemError, match=r"end it in \.npz"):
        record.save(tmp_path / "run.pkl")
    record.save(tmp_path / "run")
    assert [path.name for path in tmp_path.iterdir()] == ["run.npz"]


def test_a_missing_folder_is_named_as_it_was_given(tmp_path):
    with pytest.raises(ProblemError, match="no such folder") as caught:
        plot.profile({"oracle": 1.0}, tmp_path / "none" / "a.png")
    assert ".part" not in str(caught.value)


def test_small_answers_in_words():
    assert "in one variable 0 or 1" in str(cg.qubo([[1.0]]))
    assert "all are 0" in str(cg.qubo([[1.0]]))
    assert "all vertices are on one side" in str(cg.max_cut(np.zeros((5, 5))))
    run = application(RING).run(gap=1e-2)
    assert len(repr(run.rounded)) < 100


def test_a_bound_of_nothing_is_called_so():
    rng = np.random.default_rng(0)
    found = certify(rng.normal(size=(12, 2)), np.arange(12) % 4, max_iter=1)
    found = replace(found, bound=0.0, gap=1.0)
    assert "proved, nothing of how good this clustering is" in str(found)
    assert cg.applications.closeness(1.0, 0.0, "cut", "min").endswith("is not proved")
    near = cg.applications.closeness(1.0, 1.0 - 2e-12, "partition", "min")
    assert "up to rounding" in near


def partitions(n):
    """All partitions of n points, as labels in the order of their first points."""
    found = [[0]]
    for _ in range(n - 1):
        found = [[*labels, j] for labels in found for j in range(max(labels) + 2)]
    return [np.array(labels) for labels in found]


@pytest.mark.parametrize("seed", range(6))
def test_forests_bound_clusterings_into_many_clusters(seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(7, 1 + seed % 3)).round(seed % 2)  # some points twice
    C = np.square(X[:, None] - X).sum(axis=2)
    best = np.full(8, np.inf)
    for labels in partitions(7):
        k = labels.max() + 1
        best[k] = min(best[k], clustering_value(C, labels))
    floors = np.array([forest_floor(C, k) for k in range(1, 8)])
    assert (floors <= best[1:]).all()
    np.testing.assert_allclose(floors[5:], best[6:], rtol=1e-12)  # a pair, or nothing


def test_nearly_as_many_clusters_as_points_are_proved_at_once():
    X = np.random.default_rng(1).normal(size=(40, 3))
    model = SDPKMeans(39, random_state=0).fit(X)
    assert model.optimality_gap_ <= 1e-9
    assert model.certificate_.bound_kind == "exact"
    assert model.n_iter_ <= 10
