"""Max-cut with vertices taken out and triangle inequalities near edges: nothing is lost."""

from __future__ import annotations

import json
from fractions import Fraction
from itertools import combinations, product

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp

import condgrad
from condgrad import ProblemError, Status
from condgrad.applications import elimination, local_triangles, max_cut, max_cut_value
from condgrad.applications.elimination import reduced
from condgrad.applications.local_triangles import LocalTriangles
from condgrad.applications.mixing import _sparse_bound, mixing
from condgrad.applications.rounding import Cut
from condgrad.points import Gram
from test_large_max_cut import sparse
from test_max_cut import largest

KINDS = ("ones", "integers", "normal", "heavy tails", "tiny and huge")


def drawn(kind, seed, most=11):
    """A random graph, some of whose parallel edges cancel."""
    rng = np.random.default_rng([seed, KINDS.index(kind)])
    n = int(rng.integers(1, most))
    m = int(rng.integers(0, n * n + 2))
    u, v = rng.integers(n, size=(2, m))
    weight = {
        "ones": np.ones(m),
        "integers": rng.integers(-3, 4, m).astype(float),
        "normal": rng.standard_normal(m),
        "heavy tails": rng.exponential(size=m) ** 4 * rng.choice([-1, 1], m),
        "tiny and huge": rng.choice([-1, 1], m) * 10.0 ** rng.integers(-18, 18, m),
    }[kind]
    A = sp.coo_array((weight, (u, v)), shape=(n, n))
    A = sp.csr_array(A + A.T)
    A.setdiag(0)
    A.eliminate_zeros()
    return A


def exact(A):
    """The weight of the largest cut, as a fraction."""
    n, upper = A.shape[0], sp.coo_array(sp.triu(A, 1))
    edges = [
        (int(u), int(v), Fraction(w))
        for u, v, w in zip(*upper.coords, upper.data.tolist(), strict=True)
    ]
    sides = product([False, True], repeat=n - 1)
    return max(
        sum((w for u, v, w in edges if side[u] != side[v]), Fraction(0))
        for side in ((False, *rest) for rest in sides)
    )


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_lost_but_rounding(kind):
    left = 0
    for seed in range(40):
        A = drawn(kind, seed, 10)
        found, best = reduced(A), exact(A)
        lost = best - exact(found.adjacency) - Fraction(found.constant)
        assert abs(lost) <= Fraction(found.slack), seed
        if kind in ("ones", "integers"):
            assert found.slack == 0
        left += found.kept.size > 1
    assert left > 2 or kind in KINDS[3:]  # there was something to prove; one edge rules in those


@pytest.mark.parametrize("kind", KINDS[:4])
def test_cuts_return_to_the_graph(kind):
    for seed in range(60):
        A, rng = drawn(kind, seed), np.random.default_rng(seed)
        found, slack = reduced(A), 1e-12 * float(abs(A).sum())
        R = found.adjacency
        for _ in range(5):
            side = rng.random(R.shape[0]) < 0.5
            value = max_cut_value(R, side) if R.shape[0] > 2 else _value(R, side)
            cut = found.lifted(Cut(side, value))
            assert cut.value >= value + found.constant - slack
            same = cut.side[found.kept] == side
            assert same.all() or not same.any()


def _value(A, side):
    return float(A.toarray()[side][:, ~side].sum())


def test_graphs_of_which_nothing_is_left():
    for graph in (
        nx.random_labeled_tree(50, seed=1),
        nx.cycle_graph(9),
        nx.complete_graph(4),
        nx.ladder_graph(20),
        nx.empty_graph(5),
    ):
        found = reduced(sp.csr_array(nx.to_scipy_sparse_array(graph, dtype=float)))
        assert (found.adjacency.shape, found.slack) == ((1, 1), 0)
        cut = condgrad.max_cut(graph, presolve=True)
        assert cut.value == cut.bound == found.constant
        assert (cut.status, cut.result.iterations, cut.gap) == (Status.CONVERGED, 0, 0)


def test_an_edge_that_rules_a_vertex_with_many_neighbours():
    A = np.zeros((9, 9))
    A[0, 1:] = [10, 1, -2, 1, 1, -1, 1, 2]
    for i, j in combinations(range(1, 9), 2):
        A[i, j] = 3 if (i + j) % 2 else -2
    A = sp.csr_array(A + A.T)
    order = reduced(A).steps[0]
    assert order[0] == 0
    A[0, 1] = A[1, 0] = 8
    assert 0 not in reduced(A).steps[0][:1]


def test_many_neighbours_stay(monkeypatch):
    monkeypatch.setattr(elimination, "MOST", 2)
    assert (
        reduced(sp.csr_array(nx.to_scipy_sparse_array(nx.complete_graph(4)) * 1.0)).kept.size == 4
    )


@pytest.mark.parametrize("kind", KINDS)
def test_answers_of_many_small_graphs(kind):
    for seed in range(40):
        A = drawn(kind, seed, 12)
        best = largest(A.toarray()) if A.shape[0] > 1 else 0.0
        cut = condgrad.max_cut(A, presolve=True, gap=1e-3, max_seconds=None)
        slack = 1e-12 * float(abs(A).sum())
        assert cut.value <= best + slack
        assert cut.bound >= best - slack
        assert cut.value == pytest.approx(_value(A, cut.side), abs=slack)
        assert cut.value >= best - 0.1 * abs(best) - slack


@pytest.mark.parametrize("signs", [False, True])
@pytest.mark.parametrize("whole", [False, True])
def test_any_multipliers_prove_a_bound(signs, whole):
    for seed in range(25):
        rng = np.random.default_rng(seed)
        A = sparse(9, 24, seed, signs, whole)
        local = LocalTriangles(A)
        V = rng.standard_normal((9, 3))
        V /= np.linalg.norm(V, axis=1)[:, None]
        for _ in range(int(rng.integers(1, 4))):
            local.multipliers[:] = rng.exponential(size=local.multipliers.shape) * 10.0 ** (
                rng.integers(-3, 2)
            )
            local.step(V)
        assert _sparse_bound(A, V, 1e-3, local).value >= largest(A.toarray())


@pytest.mark.parametrize("signs", [False, True])
def test_bounds_with_triangles_of_many_small_graphs(signs):
    tighter = 0
    for seed in range(20):
        A = sparse(10, 28, seed, signs, whole=False)
        found = mixing(A, 1e-4, seed, factored=True, most=80, local=LocalTriangles(A))
        plain = mixing(A, 1e-4, seed, factored=True, most=80)
        assert found.bound >= largest(A.toarray())
        tighter += found.bound < plain.bound
    assert tighter > 5


def test_multipliers_change_the_weights_by_their_inequalities():
    A = sparse(12, 30, 2, signs=True, whole=False)
    local, rng = LocalTriangles(A), np.random.default_rng(0)
    V = rng.standard_normal((12, 4))
    V /= np.linalg.norm(V, axis=1)[:, None]
    for _ in range(3):
        local.step(V)
    u, v = local.ends
    assert local.multipliers.max() > 0
    for side in rng.random((20, 12)) < 0.5:
        x = (side[u] != side[v]) * 1.0
        a, b, c = x[local.triangles].T
        left = np.c_[a + b + c - 2, a - b - c, b - a - c, c - a - b]
        assert left.max() <= 0  # cuts obey them
        changed = max_cut_value(local.matrix, side) + local.constant
        expected = max_cut_value(A, side) - np.vdot(local.multipliers, left)
        assert changed == pytest.approx(expected)


def test_triangles_are_those_of_edges_and_pairs_at_vertices_with_few_neighbours(monkeypatch):
    monkeypatch.setattr(local_triangles, "FEW", 4)
    graph = nx.gnm_random_graph(40, 90, seed=3)
    A = sp.csr_array(nx.to_scipy_sparse_array(graph, dtype=float))
    local = LocalTriangles(A)
    near = nx.Graph()
    for vertex in graph:
        if graph.degree[vertex] <= 4:
            near.add_edges_from(graph.edges(vertex))
            near.add_edges_from(combinations(graph[vertex], 2))
    u, v = local.ends
    found = {frozenset(np.r_[u[t], v[t]].tolist()) for t in local.triangles}
    expected = {frozenset(c) for c in nx.enumerate_all_cliques(near) if len(c) == 3}
    assert found == expected
    assert len(local.triangles) == len(expected)
    assert len(LocalTriangles(A, len(expected) - 1).triangles) == 0
    assert (local.matrix != A).nnz == 0


def test_a_last_vertex_without_edges():
    A = sp.block_diag([np.ones((4, 4)) - np.eye(4), np.zeros((1, 1))], format="csr")
    local, V = LocalTriangles(A), np.random.default_rng(0).standard_normal((5, 3))
    V /= np.linalg.norm(V, axis=1)[:, None]
    for _ in range(3):
        local.step(V)
        assert local.matrix.shape == (5, 5)
    assert _sparse_bound(A, V, 1e-3, local).value >= 4


def test_a_dense_graph_has_no_such_triangles():
    A = sp.csr_array(np.ones((30, 30)) - np.eye(30))
    assert len(LocalTriangles(A).triangles) == 0
    cut = condgrad.max_cut(A, presolve=True, gap=1e-2)
    assert (cut.value, cut.bound) == (225, 225)


def test_it_is_tighter_than_the_relaxation():
    graph = nx.random_regular_graph(3, 400, seed=1)
    plain = condgrad.max_cut(graph, gap=1e-3)
    tight = condgrad.max_cut(graph, gap=1e-3, presolve=True)
    assert tight.gap < 0.6 * plain.gap
    assert tight.bound < plain.bound
    assert tight.value >= plain.value
    assert tight.status is tight.result.status is Status.RELAXED


def test_planar_graphs_are_solved_nearly():
    """All triangle inequalities would give the optimum; those near edges leave little."""
    grid = nx.grid_2d_graph(12, 12)
    rng = np.random.default_rng(0)
    for edge in grid.edges:
        grid.edges[edge]["weight"] = int(rng.choice([-1, 1]))
    cut = condgrad.max_cut(grid, presolve=True)
    assert cut.gap < 0.03
    assert condgrad.max_cut(grid).gap > 0.06


def test_what_it_says_of_itself():
    A = sparse(300, 600, 1)
    run = max_cut(A, presolve=True).run(gap=1e-3)
    cut = run.rounded.answer
    assert isinstance(run.result.W, Gram)
    assert run.result.W.factor.shape == (300, 1)
    sign = np.where(cut.side, 1.0, -1.0)
    np.testing.assert_array_equal(run.result.W.dense(), np.outer(sign, sign))
    assert run.objective == run.value == cut.value == max_cut_value(A, cut.side)
    assert run.settings["vertices"] == 300 > run.settings["vertices left"]
    assert run.settings["triangles"] > 0
    assert run.result.gap == pytest.approx(1 - cut.value / run.bound)
    bounds = run.result.trace["lower_bound"]
    assert bounds[-1] == run.result.lower_bound == max(bounds)
    assert run.bound_failure < 1e-8


def test_the_default_is_by_size(monkeypatch):
    A = sparse(60, 100, 0)
    assert condgrad.max_cut(A).result.method != "mixing method"
    monkeypatch.setattr(condgrad.applications.large_max_cut, "FACTORED", 10)
    assert condgrad.max_cut(A).result.W.factor.shape == (60, 1)
    assert condgrad.max_cut(A, presolve=False).result.W.factor.shape[1] > 1
    assert not max_cut(A).presolve


def test_triangles_are_another_relaxation():
    with pytest.raises(ProblemError, match="presolve is True, and triangles too"):
        condgrad.max_cut(nx.karate_club_graph(), triangles=True, presolve=True)


def test_no_memory_for_triangles(monkeypatch):
    A = sparse(100, 200, 0)
    assert local_triangles.room(A) > 1000
    with monkeypatch.context() as little:
        little.setattr("condgrad.backends.memory.free_memory", lambda: 6e7)
        assert local_triangles.room(A) == 0
    monkeypatch.setattr(local_triangles, "room", lambda A: 0)
    run = max_cut(A, presolve=True).run(gap=1e-3)
    assert run.settings["triangles"] == 0
    assert 0 < run.value <= run.bound < np.inf


def test_no_time_for_triangles(monkeypatch):
    monkeypatch.setattr("condgrad._deadline.fits", lambda seconds: seconds <= 0)
    assert local_triangles.room(sparse(100, 200, 0)) == 0


def test_ends_before_the_gap_where_the_cut_is_near():
    A = sparse(300, 600, 1)
    run = max_cut(A, presolve=True).run(gap=0.1)
    assert (run.status, run.result.iterations) == (Status.CONVERGED, 20)


def test_a_shift_counts_in_the_gap():
    A = sparse(60, 200, 0)
    assert mixing(A, 1e-5, factored=True).sweeps > mixing(A, 1e-5, factored=True, shift=1e5).sweeps


def test_command(run, tmp_path):
    how = ("solve", "max-cut", "les_miserables", "--gap", 1e-2, "--json", "-", "--quiet")
    found = {}
    for option in ("--presolve", "--whole"):
        code, out, _ = run(*how, option)
        assert code == 0
        found[option] = json.loads(out)
    assert found["--presolve"]["settings"]["vertices left"] < 77
    assert "vertices left" not in found["--whole"]["settings"]
    values = [data["rounded"]["value"] for data in found.values()]
    assert max(values) <= min(data["rounded"]["bound"] for data in found.values())
