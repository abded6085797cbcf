from __future__ import annotations

import itertools
import json
from functools import partial

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp

from condgrad import ProblemError, Status, report, solve
from condgrad.applications import (
    closeness,
    max_cut,
    max_cut_value,
    round_max_cut,
    unit_diagonal,
)
from condgrad.applications.mixing import mixing
from condgrad.io import read_graph, read_named_graph
from files import check_refused, edge, graphml, needs_data, put
from general import GENERAL

# Weights of either sign, the format of the Gset collection, trailing blanks included.
GSET = "6 8 \n1 2 1\n1 3 -1\n2 3 1\n2 4 1\n3 5 -1\n4 5 1\n4 6 -1\n5 6 1\n"


def signed(n, seed, whole=False):
    rng = np.random.default_rng(seed)
    A = np.triu(rng.normal(size=(n, n)) * (rng.random((n, n)) < 0.7), 1)
    A = np.rint(3 * A) if whole else A
    return A + A.T


def adjacency(graph):
    return nx.to_scipy_sparse_array(graph, dtype=float)


def largest(A):
    """The maximum over all cuts."""
    A, n = np.asarray(A), len(A)
    signs = np.array([(1, *s) for s in itertools.product((1, -1), repeat=n - 1)])
    return float((A.sum() - np.einsum("ki,ij,kj->k", signs, A, signs)).max() / 4)


@pytest.mark.parametrize("warm", [None, 1e-3])
@pytest.mark.parametrize(("n", "seed", "whole"), [(3, 0, False), (8, 1, False), (12, 2, True)])
def test_bound_optimum_and_cut_are_in_order(n, seed, whole, warm):
    A = signed(n, seed, whole)
    best = largest(A)
    run = max_cut(A, warm=warm).run(gap=1e-3, max_iter=3000)
    data = run.to_json()
    assert data["status"] in ("converged", "relaxed")
    assert best <= data["upper_bound"] + 1e-9
    assert data["rounded"]["value"] <= best + 1e-9
    assert data["rounded"]["value"] == pytest.approx(max_cut_value(A, run.rounded.answer.side))
    own = data if data["status"] == "converged" else data["relaxation"]
    assert own["gap"] <= 1e-3
    relaxed = data["relaxation"]["upper_bound"]
    bound = np.floor(relaxed) if whole else relaxed
    assert data["upper_bound"] == data["rounded"]["bound"] == pytest.approx(bound, abs=1e-12)
    expected = (bound - data["rounded"]["value"]) / bound
    assert data["rounded"]["gap"] == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize(("warm", "feasibility"), [(None, 1e-9), (1e-3, 1e-3)])
def test_the_point_is_feasible(warm, feasibility):
    application = max_cut(signed(12, 2), warm=warm)
    run = application.run(gap=1e-3, feasibility=feasibility, max_iter=3000)
    assert run.result.status is Status.CONVERGED
    np.testing.assert_allclose(np.diag(run.result.W), 1, atol=1e-12)
    assert np.linalg.eigvalsh(run.result.W)[0] > -1e-12
    assert -run.result.objective <= -run.result.lower_bound


@pytest.mark.parametrize(
    ("graph", "relaxation", "cut"),
    [
        (nx.cycle_graph(5), 25 / 8 + 5 * np.sqrt(5) / 8, 4),
        (nx.petersen_graph(), 12.5, 12),
        (nx.complete_graph(6), 9, 9),
        (nx.complete_bipartite_graph(4, 5), 20, 20),
    ],
)
def test_known_graphs(graph, relaxation, cut):
    application = max_cut(adjacency(graph))
    found = solve(application.problem, gap=1e-4, start=application.start, max_iter=3000)
    assert -found.objective == pytest.approx(relaxation, rel=2e-4)
    assert relaxation - 1e-7 <= -found.lower_bound <= relaxation * (1 + 2e-4)
    data = application.run(gap=1e-4, max_iter=3000).to_json()
    assert (data["rounded"]["value"], data["rounded"]["gap"]) == (cut, 0)


def test_karate_club():
    A = adjacency(nx.karate_club_graph())
    warm, cold = (max_cut(A, warm=w).run(gap=1e-3).to_json() for w in (1e-3, None))
    for data in (warm, cold):
        assert data["status"] == "relaxed"
        assert data["rounded"]["value"] == 179
        assert 183.6 < data["relaxation"]["upper_bound"] < 183.9
        assert data["upper_bound"] == data["rounded"]["bound"] == 183
    assert warm["iterations"] <= cold["iterations"]


@pytest.mark.parametrize("slug", [s for s in GENERAL if s not in ("sag-fw", "cgal")])
def test_every_method_bounds_it(slug):
    A = signed(7, 3)
    run = max_cut(A).run(slug, gap=1e-3, max_iter=60)
    assert -run.result.lower_bound >= largest(A) - 1e-9
    assert run.rounded.answer.value <= largest(A) + 1e-9


def test_cuts_are_feasible_points():
    A = signed(6, 4)
    problem = max_cut(A).problem
    for signs in itertools.product((1.0, -1.0), repeat=6):
        found = problem.evaluate(np.outer(signs, signs))
        assert found.infeasibility == 0
        assert -found.objective == pytest.approx(max_cut_value(A, np.array(signs) > 0))


def test_unit_diagonal():
    V = np.random.default_rng(0).normal(size=(6, 3))
    V[2] = 0
    X = unit_diagonal(V @ V.T)
    np.testing.assert_array_equal(np.diag(X), np.ones(6))
    assert np.linalg.eigvalsh(X)[0] > -1e-12
    np.testing.assert_array_equal(X[2], np.eye(6)[2])


def test_rounding_reads_the_cut_off_its_matrix():
    A = signed(40, 5)
    sign = np.where(np.random.default_rng(1).random(40) < 0.4, 1.0, -1.0)
    cut = round_max_cut(A, np.outer(sign, sign))
    assert cut.value >= max_cut_value(A, sign > 0)
    flipped = [max_cut_value(A, cut.side ^ (np.arange(40) == i)) for i in range(40)]
    assert cut.value >= max(flipped) - 1e-9  # no single move betters it
    again = round_max_cut(A, np.outer(sign, sign))
    np.testing.assert_array_equal(again.side, cut.side)
    assert cut.side.sum() <= 20


def test_rounding_keeps_the_promise_of_hyperplanes():
    A = adjacency(nx.gnp_random_graph(40, 0.3, seed=1))
    mixed = mixing(A, 1e-4)
    cut = round_max_cut(A, mixed.W, hyperplanes=20)
    assert 0.878 * mixed.bound < cut.value <= mixed.bound


def test_negative_weights_are_left_uncut():
    run = max_cut(-np.ones((5, 5))).run(gap=1e-3, max_iter=50)
    assert run.rounded.answer.value == 0
    assert not run.rounded.answer.side.any()
    assert run.rounded_gap == 0


@pytest.mark.parametrize("seed", [0, 1])
def test_mixing_point_and_bound(seed):
    A = sp.csr_array(signed(30, seed))
    mixed = mixing(A, 1e-6, seed)
    np.testing.assert_allclose(np.diag(mixed.W), 1)
    L = np.diag(A.sum(axis=1)) - A.toarray()
    assert mixed.value == pytest.approx(0.25 * np.vdot(L, mixed.W))
    assert 0 <= mixed.bound - mixed.value <= 1e-6 * mixed.bound
    rough = mixing(A, 0.1, seed)
    assert (rough.sweeps, rough.bound >= mixed.value) == (10, True)
    early = mixing(A, 1e-6, seed, max_seconds=0)
    assert (early.sweeps, early.bound > mixed.bound) == (0, True)


def test_chance_of_the_first_bound_is_kept(monkeypatch):
    monkeypatch.setattr("condgrad.domains.eigen.LARGE", 10)
    run = max_cut(signed(60, 6), warm=1e-2).run(gap=1e-2, max_iter=1)
    assert run.floor_failure > 0
    assert run.bound_kind == "probabilistic"
    assert run.to_json()["bound_failure"] == run.bound_failure >= run.floor_failure
    assert report.promise(run, "cut").startswith("With probability 1 - ")
    assert "wrong with probability" in dict(report.summary(run))["upper bound"]


def test_small_integers_beside_large_ones_are_no_rounding():
    A = np.zeros((4, 4))
    A[0, 1] = A[1, 0] = 1
    A[2, 3] = A[3, 2] = -1e14
    application = max_cut(A)
    assert application.whole
    assert not max_cut(A / 3).whole


def test_words_for_a_gap():
    assert closeness(3.0, 3.0, "cut", "max") == "this cut is the best possible"
    rounded = np.nextafter(3.0, 0.0)
    assert closeness(3.0, rounded, "cut", "min") == "this cut is the best possible up to rounding"
    near = "this cut is within 1e-06 % of the best possible"
    assert closeness(1 - 0.999e-8, 1.0, "cut", "max") == near
    assert closeness(2.0, 1.0, "cut", "min") == "no cut is lower by more than 50 %"


def test_how_the_first_bound_is_known():
    application = max_cut(signed(20, 6), warm=1e-6)
    run = application.run(gap=1e-3, max_iter=0)
    assert run.result.bound_kind == "given"
    assert run.bound_kind == run.to_json()["bound_kind"] == "exact-eigenvalue"
    assert "(exact-eigenvalue)" in dict(report.summary(run))["upper bound"]
    assert application.run(gap=1e-3, max_iter=0, floor=-1e6).floor_kind == "given"
    assert max_cut(signed(20, 6)).floor_kind == "exact"


def test_warm_start_is_on_record():
    A = signed(20, 6)
    application = max_cut(A, warm=1e-3, seed=3)
    assert application.settings["warm_start"].startswith("mixing method, ")
    assert application.problem.domain.contains(application.start, 1e-9)
    positive = A[A > 0].sum() / 2
    assert -positive < application.floor
    assert max_cut(A).floor == pytest.approx(-positive)


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"warm": 0}, "warm is 0"),
        ({"seed": -1}, "seed is -1"),
        ({"seed": None}, "seed is None"),
        ({"hyperplanes": 0}, "hyperplanes is 0"),
    ],
)
def test_bad_options(options, word):
    with pytest.raises(ProblemError, match=word):
        max_cut(np.ones((4, 4)), **options)


def test_a_graph_too_large_is_refused_before_it_fills_the_memory(monkeypatch):
    monkeypatch.setattr("condgrad.backends.memory.free_memory", lambda: 2.0**27)
    with pytest.raises(ProblemError, match="174 MiB of memory for V, the graph"):
        max_cut(sp.csr_array((50_000, 50_000))).run(gap=0.1)


def test_bad_shapes():
    with pytest.raises(ProblemError, match="W has shape"):
        round_max_cut(np.ones((4, 4)), np.eye(3))
    with pytest.raises(ProblemError, match="side has shape"):
        max_cut_value(np.ones((4, 4)), np.ones(3, bool))
    with pytest.raises(ProblemError, match="different lengths"):
        max_cut([[0, 1], [1]])


def test_gset_format(tmp_path):
    path = put(tmp_path, "G.txt", GSET)
    A = read_graph(path, signed=True).toarray()
    assert (A[0, 1], A[0, 2], A[5, 4]) == (1, -1, 1)
    assert (A.sum(), np.count_nonzero(A)) == (4, 16)
    check_refused(read_graph, path, 3, "negative weight -1")
    matrix = put(
        tmp_path, "a.mtx", "%%MatrixMarket matrix array real symmetric\n3 3\n0\n1\n-2\n0\n-1\n0\n"
    )
    assert read_graph(matrix, signed=True).toarray()[2].tolist() == [-2, -1, 0]


def test_names_of_vertices(tmp_path):
    path = put(tmp_path, "a.graphml", graphml(edge(1, 2, -1) + edge(2, 3, 2)))
    found = read_named_graph(path, signed=True)
    assert found.names == ("n1", "n2", "n3")
    assert found.adjacency[0, 1] == -1
    assert read_named_graph("florentine_families").names[1] == "Medici"
    assert read_named_graph("karate_club").names is None  # numbers are no names
    assert read_named_graph(put(tmp_path, "G.txt", GSET), signed=True).names is None


@pytest.fixture
def run(run):
    """`condgrad solve max-cut` in this process."""
    return partial(run, "solve", "max-cut")


def test_command_prints_bound_value_and_cut(run):
    code, out, _ = run("petersen")
    assert code == 0
    for words in ("upper bound", "12.5", "value 12", "mixing method", "is the best possible"):
        assert words in out
    assert "lower bound" not in out
    code, out, _ = run("florentine_families", "--cold", "--gap", 1e-2)
    assert (code, "Medici" in out, "counted from 1" in out) == (0, True, False)
    assert "mixing" not in out


@pytest.mark.parametrize("start", ["--warm", "--cold"])
def test_command_writes_json(run, tmp_path, start):
    path = put(tmp_path, "G.txt", GSET)
    code, out, _ = run(path, start, "--json", "-", "--quiet", "--hyperplanes", 10)
    data = json.loads(out)
    A = read_graph(path, signed=True).toarray()
    assert (code, data["application"], data["sense"]) == (0, "max-cut", "max")
    assert "lower_bound" not in data
    assert data["objective"] <= data["upper_bound"] + 1e-9
    assert data["objective"] == data["rounded"]["value"] == data["cut"]["value"] == largest(A) == 4
    assert data["rounded"]["gap"] == 0
    side = np.isin(np.arange(1, 7), data["cut"]["vertices"])
    assert max_cut_value(A, side) == 4
    assert data["settings"]["edges"] == 8


def test_command_names_and_files(run, tmp_path):
    picture, saved, out = (tmp_path / name for name in ("a.png", "a.npz", "a.json"))
    args = ("les_miserables", "--cold", "--iterations", 20, "--quiet")
    assert run(*args, "--plot", picture, "--save", saved, "--json", out)[:2] == (0, "")
    cut = json.loads(out.read_text())["cut"]
    names = read_named_graph("les_miserables").names
    assert cut["names"] == [names[i - 1] for i in cut["vertices"]]
    assert picture.read_bytes().startswith(b"\x89PNG")
    with np.load(saved) as arrays:
        assert arrays["W"].shape == (77, 77)


def test_command_refuses_bad_input(run):
    for args, word in (
        (("petersen", "--gap", 0), "--gap is 0"),
        (("petersen", "--seconds", -1), "--seconds"),
        (("petersen", "--seed", -1), "seed is -1"),
        (("petersen", "--hyperplanes", 0), "hyperplanes is 0"),
        (("nothing_here",), "neither a file"),
    ):
        code, out, err = run(*args)
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert word in err


@needs_data
def test_a_real_graph_of_the_gset_collection(data):
    A = read_graph(data / "gset" / "G11.txt", signed=True)
    run = max_cut(A, warm=2e-3).run(gap=2e-3)
    assert run.result.status is Status.CONVERGED
    bound = -run.result.lower_bound
    assert (
        629.16 <= bound <= 629.17 * 1.002
    )  # known: the optimum lies between 629.1595 and 629.1698
    assert 540 <= run.rounded.answer.value <= 564  # the best known cut
