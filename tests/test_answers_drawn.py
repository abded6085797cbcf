"""What the calls return is drawn, recorded and reported as it is."""

import networkx as nx
import numpy as np
import pytest

import condgrad as cg
from condgrad import plot
from condgrad.applications.answers import names_of, outcome_of
from condgrad.errors import ProblemError
from condgrad.html import page
from condgrad.record import Record
from condgrad.sdp import SDP
from condgrad.sklearn import certify


def named():
    """Two triangles with a bridge, under names, not sorted."""
    graph = nx.Graph()
    graph.add_edges_from([("c", "b"), ("b", "a"), ("a", "c"), ("c", "x"), ("x", "y"), ("y", "z")])
    graph.add_edge("x", "z")
    return graph


def answers():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(9, 2)) + np.repeat([[0, 0], [9, 0], [0, 9]], 3, axis=0)
    labels = np.repeat([0, 1, 2], 3)
    ring = nx.cycle_graph(5)
    Q = rng.integers(-4, 5, size=(6, 6))
    C = np.diag([2.0, 1.0, 3.0])
    return {
        "sparsest": lambda: cg.sparsest_cut(nx.cycle_graph(7)),
        "known": lambda: cg.sparsest_cut(named()),
        "weighted": lambda: cg.sparsest_cut(ring, vertex_weight=[1, 2, 3, 4, 5], presolve=False),
        "max": lambda: cg.max_cut(nx.petersen_graph()),
        "two": lambda: cg.max_cut(nx.path_graph(2)),
        "section": lambda: cg.k_section(named(), 3),
        "theta": lambda: cg.theta(ring),
        "qubo": lambda: cg.qubo(Q, offset=100.5),
        "largest": lambda: cg.qubo(Q, sense="max", offset=-3.0),
        "certified": lambda: certify(X, labels),
        "one cluster": lambda: certify(X, np.zeros(9)),
        "program": lambda: SDP(C).subject_to(np.eye(3), "==", 1.0).solve(),
    }


@pytest.mark.parametrize("name", answers())
def test_every_answer_has_a_record_a_page_and_pictures_with_its_own_numbers(name, tmp_path):
    found = answers()[name]()
    record = Record.of(found)
    bound = record.facts[record.facts["bound_name"]]
    assert record.facts["objective"] == pytest.approx(found.objective, rel=1e-12)
    assert bound == pytest.approx(found.bound, rel=1e-9)
    assert record.facts["gap"] == pytest.approx(found.gap, abs=1e-9)
    assert record.facts["status"] == found.status.name.lower()
    worse = bound - found.bound if found.sense == "min" else found.bound - bound
    assert worse <= 4e-16 * abs(found.bound)
    record.save(tmp_path / "run.npz")
    assert Record.load(tmp_path / "run.npz").facts["answer"] == str(found).splitlines()
    text = page(record)
    assert str(found.status).split(":")[0][:20] in text
    plot.convergence(found)
    plot.profile(found)
    plot.sheet(found)


def test_values_of_a_run_with_an_offset_are_those_of_the_answer():
    found = cg.qubo([[1, -3, 2], [0, 1, -4], [0, 0, 2]], offset=100.5, gap=1e-6)
    run = outcome_of(found)
    assert (run.value, run.value_bound) == (found.value, found.bound)
    assert run.trace["lower_bound"].max() <= found.value
    assert run.trace["objective"][-1] == pytest.approx(found.value, rel=1e-2)


def test_cuts_are_drawn_on_the_graph_with_the_names_it_has():
    graph = named()
    found = cg.sparsest_cut(graph)
    assert names_of(found) == tuple(graph)
    for side in (found, found.side):
        ax = plot.cut(graph, side).axes[0]
        assert {text.get_text() for text in ax.texts} == set(graph)
    record = Record.of(found, adjacency=graph)
    assert record.arrays["names"].tolist() == list(graph)
    assert plot.pictures(record)[0].name == "cut"
    numbers = plot.cut(nx.to_numpy_array(graph), found.side).axes[0]
    assert {text.get_text() for text in numbers.texts} == set("012345")


def test_three_parts_have_three_colours():
    graph = named()
    found = cg.k_section(graph, 3)
    ax = plot.cut(graph, found).axes[0]
    points = [c for c in ax.collections if c.get_offsets().size and len(c.get_facecolors())]
    assert [len(c.get_offsets()) for c in points] == [2, 2, 2]
    assert len({tuple(c.get_facecolors()[0]) for c in points}) == 3
    record = Record.of(found, adjacency=graph)
    assert plot.pictures(record)[0].name == "partition"
    assert record.adjacency.nnz == 2 * graph.number_of_edges()


def test_what_is_no_answer_is_refused():
    with pytest.raises(ProblemError, match="run is a dict: give what a call returned"):
        Record.of({})
    record = Record.of(cg.max_cut(nx.path_graph(2)))
    with pytest.raises(ProblemError, match="leave out adjacency"):
        plot.sheet(record, adjacency=np.eye(2))


def test_pictures_show_themselves_in_notebooks():
    figure = plot.cut(named(), [0, 0, 0, 1, 1, 1])
    assert figure._repr_png_()[:8] == b"\x89PNG\r\n\x1a\n"
