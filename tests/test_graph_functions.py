from __future__ import annotations

import itertools
import sys
from fractions import Fraction

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp

import condgrad
import processes
from condgrad import ProblemError, Status, applications, graphs, max_cut, sparsest_cut
from condgrad.errors import InputWarning
from condgrad.io import read_graph, read_named_graph

pytestmark = pytest.mark.usefixtures("clock")  # the 60 seconds allowed are as long everywhere
BOTH = pytest.mark.parametrize("cut_of", [sparsest_cut, max_cut])


def sparsity(A, side):
    A = np.asarray(A)
    return A[side][:, ~side].sum() / (side.sum() * (~side).sum())


def sides(n):
    for bits in itertools.product((False, True), repeat=n - 1):
        if any(bits):
            yield np.array((False, *bits))


def weighted(n, seed):
    rng = np.random.default_rng(seed)
    A = np.triu(rng.random((n, n)) * (rng.random((n, n)) < 0.6), 1)
    A[np.arange(n - 1), np.arange(1, n)] += 0.1  # connected
    return A + A.T


def test_karate_club_is_certified():
    cut = sparsest_cut(nx.karate_club_graph(), max_seconds=None)
    assert cut.status is Status.CONVERGED
    assert set(cut.partition[0]) == {4, 5, 6, 10, 16}
    assert cut.value == pytest.approx(11 / (5 * 29))
    assert cut.bound <= cut.value * (1 + 1e-9)
    assert cut.gap == pytest.approx((cut.value - cut.bound) / cut.value)
    assert cut.gap <= 0.01
    plain = sparsest_cut(nx.karate_club_graph(), max_seconds=None, weight=None)
    assert plain.value == pytest.approx(4 / (5 * 29))


@pytest.mark.parametrize(("n", "seed"), [(3, 0), (6, 1), (9, 2), (11, 3)])
def test_sparsest_cut_by_brute_force(n, seed):
    A = weighted(n, seed)
    best = min(sparsity(A, side) for side in sides(n))
    cut = sparsest_cut(A)
    assert cut.bound <= best * (1 + 1e-9)
    assert cut.value == pytest.approx(best)
    assert cut.value == pytest.approx(sparsity(A, cut.side))
    assert cut.gap <= 1e-2
    assert cut.result is not None
    assert cut.bound == pytest.approx(cut.result.lower_bound * 2 / n**2)


@pytest.mark.parametrize(("n", "seed"), [(4, 0), (10, 1)])
def test_max_cut_by_brute_force(n, seed):
    A = weighted(n, seed) - 0.3 * (1 - np.eye(n))
    best = max(A[side][:, ~side].sum() for side in [np.zeros(n, bool), *sides(n)])
    cut = max_cut(A)
    assert cut.value == pytest.approx(A[cut.side][:, ~cut.side].sum())
    assert cut.value <= best + 1e-9
    assert best <= cut.bound + 1e-9
    assert cut.gap == pytest.approx((cut.bound - cut.value) / cut.bound)
    assert (cut.gap == 1) == (best == 0)  # rounding keeps the bound above 0


@BOTH
def test_every_kind_of_graph_gives_the_same(cut_of):
    graph = nx.les_miserables_graph().subgraph(
        ["Valjean", "Javert", "Cosette", "Marius", "Fantine"]
    )
    graph = nx.Graph(graph)  # keeps an order
    graph.add_edge("Javert", "Javert", weight=7)  # a loop, which no cut sees
    A = nx.to_scipy_sparse_array(graph)
    cuts = [cut_of(g) for g in (graph, A, sp.coo_matrix(A), A.toarray(), A.toarray().tolist())]
    names = list(graph)
    for cut in cuts:
        assert (cut.value, cut.bound, cut.gap) == (cuts[0].value, cuts[0].bound, cuts[0].gap)
        assert cut.side.tolist() == cuts[0].side.tolist()
    for part, numbers in zip(cuts[0].partition, cuts[1].partition, strict=True):
        assert list(part) == [names[i] for i in numbers]
    assert sorted(sum(cuts[0].partition, ())) == sorted(names)
    assert len(cuts[0].partition[0]) == cuts[0].side.sum() <= 2


def test_weight_attribute():
    graph = nx.Graph()
    graph.add_edge("a", "b", cost=5)
    graph.add_edge("b", "c")  # 1 where it is missing
    with pytest.warns(InputWarning, match="1 of 2 edges have no 'cost', the first is b - c"):
        assert max_cut(graph, weight="cost").value == 6
    assert max_cut(graph, weight=None).value == 2
    with pytest.raises(ProblemError, match="weight is 'price', but no edge has it"):
        max_cut(graph, weight="price")
    multi = nx.MultiGraph([("a", "b"), ("a", "b"), ("b", "c")])
    assert max_cut(multi).value == 3


def test_networkx_agrees():
    graph = nx.petersen_graph()
    cut = max_cut(graph)
    assert nx.cut_size(graph, *cut.partition) == cut.value == cut.bound == 12


def test_disconnected_graphs_have_sparsest_cut_zero():
    for graph in (nx.disjoint_union(nx.path_graph(3), nx.complete_graph(5)), nx.empty_graph(4)):
        cut = sparsest_cut(graph)
        assert (cut.value, cut.bound, cut.gap, cut.result.iterations) == (0, 0, 0, 0)
        assert cut.status is Status.CONVERGED
        assert 0 < len(cut.partition[0]) <= len(graph) / 2
        assert nx.cut_size(graph, *cut.partition) == 0


@pytest.mark.parametrize(
    ("A", "value", "first"),
    [
        ([[0, 3], [3, 0]], 3, (0,)),
        ([[9, -3], [-3, 9]], 0, ()),
        (np.zeros((4, 4)), 0, ()),
        (-np.ones((4, 4)), 0, ()),
    ],
)
def test_max_cut_of_almost_nothing(A, value, first):
    cut = max_cut(A)
    assert (cut.value, cut.bound, cut.gap, cut.partition[0]) == (value, value, 0, first)


def test_bound_on_all_weights_is_not_below_their_sum():
    A = np.zeros((4, 4))
    A[[0, 0, 0], [1, 2, 3]] = 1e8, 1.0, 0.1  # a star, all of whose edges can be cut
    cut = max_cut(A + A.T)
    exact = sum(map(Fraction, A[0].tolist()))
    assert Fraction(cut.bound) >= exact
    assert cut.gap < 1e-14
    assert "the best possible" in str(cut)


def test_weights_that_differ_by_direction_are_not_whole():
    A = np.zeros((3, 3))
    A[0, 1], A[1, 0], A[1, 2], A[2, 1] = 1e11, 1e11 + 1, 1, 1  # symmetric up to rounding
    cut = max_cut(A)
    assert cut.value == 1e11 + 1.5
    assert cut.bound >= cut.value


def test_chance_of_a_random_bound_is_said(monkeypatch):
    monkeypatch.setattr("condgrad.domains.eigen.LARGE", 10)
    A = weighted(30, 0) - 0.3 * (1 - np.eye(30))
    cut = max_cut(A, gap=1e-2)
    assert 0 < cut.bound_failure < 1e-7
    assert "exists (wrong with probability " in str(cut)
    assert max_cut(A[:8, :8], gap=1e-2).bound_failure == 0


def test_bounds_of_two_vertices_are_rounded_down():
    """The bounds in both units: of the cut, and of the run, which has (a + b)²/2 times that."""
    for seed in range(50):
        w, a, b = np.random.default_rng(seed).random(3).tolist()
        cut = sparsest_cut(np.array([[0, w], [w, 0]]), vertex_weight=[a, b])
        best = Fraction(w) / (Fraction(a) * Fraction(b))
        assert Fraction(cut.bound) <= best
        assert Fraction(cut.result.lower_bound) <= best * (Fraction(a) + Fraction(b)) ** 2 / 2
        assert cut.value == float(best)
        assert cut.gap < 1e-15


def test_two_vertices_have_one_sparsest_cut():
    cut = sparsest_cut(nx.path_graph(["x", "y"]))
    assert (cut.value, cut.bound, cut.gap, cut.partition) == (1, 1, 0, (("x",), ("y",)))


def test_time_limit_is_kept_and_said(clock):
    A = read_graph("les_miserables")
    cut = sparsest_cut(A, max_seconds=0.01, presolve=False)
    assert cut.result.seconds < 0.02
    assert cut.status is Status.MAX_SECONDS
    assert 0 < cut.gap <= 1
    assert max_cut(A, max_seconds=0).gap < 1  # the cut of a start without any sweep


def test_only_a_limit_that_was_set_ends_a_cut():
    graph = 0.1 * nx.to_numpy_array(nx.gnp_random_graph(30, 0.3, seed=4))
    cut = max_cut(graph, triangles=True, gap=1e-7, max_seconds=300)
    assert cut.status is Status.RELAXED  # after more than 3000 passes
    assert max_cut(graph, triangles=True, gap=1e-7, max_seconds=None).status is Status.MAX_EPOCHS


def test_words():
    assert str(max_cut(nx.cycle_graph(5))).startswith(
        "Maximum cut: value 4, none above 4 exists, so this cut is the best possible; "
        "2 of 5 vertices: "
    )
    text = str(sparsest_cut(nx.barbell_graph(4, 0)))
    assert text.startswith("Sparsest cut: value 0.0625, none below 0.06")
    assert text.endswith("4 of 8 vertices: 0, 1, 2, 3")


@BOTH
def test_same_seed_same_cut(cut_of):
    A = weighted(15, 4)
    one, two = cut_of(A, seed=3), cut_of(A, seed=3)
    assert (one.value, one.bound, one.gap) == (two.value, two.bound, two.gap)


@BOTH
@pytest.mark.parametrize(
    ("graph", "word"),
    [
        (nx.DiGraph([(0, 1), (1, 2)]), "graph is directed: pass graph.to_undirected"),
        (nx.Graph(), "graph has no vertices"),
        (np.zeros((2, 3)), "square"),
        (np.zeros(3), "square"),
        (np.triu(np.ones((4, 4))), "graph is not symmetric"),
        (np.full((3, 3), np.nan), "infinite weight or NaN"),
        ([[0, 1], [1]], "rows of different lengths"),
        (np.ones((3, 3)) * 1j, "real numbers"),
        (None, "graph is a NoneType: give"),
        ("karate_club", "read_graph"),
        (nx.Graph([(0, 1, {"weight": "heavy"})]), "'weight' is not a number"),
        (nx.Graph([(0, 1, {"weight": None})]), "weight"),
    ],
)
def test_bad_graphs(cut_of, graph, word):
    with pytest.raises(ProblemError, match=word):
        cut_of(graph)


@pytest.mark.parametrize("graph", [nx.empty_graph(1), np.zeros((1, 1))])
def test_one_vertex(graph):
    """One side of a maximum cut may be empty, of a sparsest cut not."""
    cut = max_cut(graph)
    assert (cut.partition, cut.value, cut.bound, cut.gap) == (((), (0,)), 0, 0, 0)
    assert cut.result.iterations == 0
    with pytest.raises(ProblemError, match="at least 2"):
        sparsest_cut(graph)


@BOTH
@pytest.mark.parametrize("graph", [nx.path_graph(2), nx.empty_graph(3), nx.complete_graph(3)])
def test_tiny_graphs(cut_of, graph):
    cut = cut_of(graph)
    assert cut.gap < 1e-12
    assert "the best possible" in str(cut)
    assert cut.result.lower_bound <= cut.result.objective
    assert len(cut.trace)


@BOTH
@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"gap": 0}, "gap is 0"),
        ({"max_seconds": -1}, "max_seconds is -1"),
        ({"max_seconds": "long"}, "max_seconds is 'long'"),
        ({"seed": -1}, "seed is -1"),
        ({"n_jobs": 0}, "n_jobs is 0"),
    ],
)
def test_bad_options(cut_of, options, word):
    with pytest.raises(ProblemError, match=word):
        cut_of(np.ones((5, 5)), **options)


@BOTH
def test_frames_and_named_graphs(cut_of, tmp_path):
    pandas = pytest.importorskip("pandas")
    graph = nx.florentine_families_graph()
    nx.set_edge_attributes(graph, 2, "weight")
    wanted = cut_of(graph)
    path = tmp_path / "graph.gml"
    nx.write_gml(graph, path)
    matrix = nx.to_pandas_adjacency(graph)
    edges = nx.to_pandas_edgelist(graph)
    for given in (matrix, edges, edges.astype("category"), read_named_graph(path)):
        cut = cut_of(given)
        assert cut.value == wanted.value
        assert set(map(frozenset, cut.partition)) == set(map(frozenset, wanted.partition))
    numbers = pandas.DataFrame({"u": [7, 5, 3], "v": [5, 3, 9]})
    assert sorted(sum(cut_of(numbers).partition, ())) == [3, 5, 7, 9]
    with pytest.raises(ProblemError, match=r"stood before.*graph_from_edges"):
        cut_of(pandas.concat([edges, edges]))


def test_sparsest_cut_refuses_negative_weights():
    graph = nx.path_graph(4)
    nx.set_edge_attributes(graph, {(0, 1): 1, (1, 2): -1, (2, 3): 1}, "weight")
    for given in (graph, nx.to_numpy_array(graph)):
        with pytest.raises(ProblemError, match="negative weight"):
            sparsest_cut(given)
    assert max_cut(graph).value == 2


def test_where_the_functions_are():
    assert condgrad.max_cut is graphs.max_cut is not applications.max_cut
    assert condgrad.sparsest_cut is graphs.sparsest_cut is not applications.sparsest_cut
    assert {"max_cut", "sparsest_cut"} <= set(dir(condgrad))


def test_networkx_is_not_imported_for_matrices():
    code = (
        "import sys, numpy as np, condgrad\n"
        "cut = condgrad.max_cut(np.ones((3, 3)))\n"
        "print(cut.value, 'networkx' in sys.modules)"
    )
    done = processes.run(sys.executable, "-c", code)
    assert done.stdout.split() == ["2.0", "False"], done.stderr
