"""Bounds on sparsest cuts by the second eigenvalue, which come before any run."""

from fractions import Fraction

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp

import condgrad as cg
from condgrad import Status
from condgrad.applications import spectral
from condgrad.applications.graphs import adjacency_matrix
from condgrad.backends import memory
from condgrad.domains import eigen


def best_of_all(A, mu):
    """The least N² w(S, S̄)/(2 μ(S) μ(S̄)) over all cuts, exactly."""
    n, found = len(mu), []
    exact, sizes = [[Fraction(w) for w in row] for row in A.tolist()], [Fraction(x) for x in mu]
    for bits in range(1, 2 ** (n - 1)):
        S = [i for i in range(n) if bits >> i & 1]
        T = [i for i in range(n) if not bits >> i & 1]
        across, one = sum(exact[i][j] for i in S for j in T), sum(sizes[i] for i in S)
        found.append(sum(sizes) ** 2 * across / (2 * one * sum(sizes[j] for j in T)))
    return min(found)


def connected(rng):
    """A small connected graph and weights of its vertices, both of many magnitudes or of one."""
    n = int(rng.integers(2, 8))
    tree = nx.to_numpy_array(nx.random_labeled_tree(n, seed=int(rng.integers(10**9)))) > 0
    edges = np.triu((rng.random((n, n)) < rng.choice([0.1, 0.5, 1.0])) | tree, 1)
    A = np.where(edges, 10.0 ** (rng.choice([0, 1, 10, 60]) * rng.uniform(-1, 1, (n, n))), 0.0)
    return A + A.T, 10.0 ** (rng.choice([0, 1, 12, 40]) * rng.uniform(-1, 1, n))


def eigenvalue(A, mu):
    root = 1 / np.sqrt(mu * (len(mu) / mu.sum()))
    L = np.diag(A.sum(axis=1)) - A
    return len(mu) / 2 * np.linalg.eigvalsh(root[:, None] * L * root)[1]


@pytest.mark.parametrize("how", ["factorisation", "products", "another vector"])
def test_no_cut_is_below_the_bound_which_is_positive(how, monkeypatch):
    rng = np.random.default_rng(0)
    if how == "products":
        monkeypatch.setattr(eigen, "LARGE", 0)
    if how == "another vector":
        wrong = lambda V, q, t: (1.0, np.ones(q.size) / np.sqrt(q.size))  # noqa: E731
        monkeypatch.setattr(spectral, "_second", wrong)
    for _ in range(100):
        A, mu = connected(rng)
        checked, best = adjacency_matrix(A, least=2), best_of_all(A, mu)
        tree, found = spectral.tree_bound(checked, mu), spectral.spectral(checked, mu)
        assert found.bound > 0
        assert Fraction(found.bound) <= best
        assert best * (1 - Fraction(1, 10**12)) <= Fraction(tree) * (checked.nnz // 2)
        assert (found.kind == "probabilistic") == (found.failure > 0)
        if mu.max() < 100 * mu.min() and A.max() < 100 * A[A > 0].min():
            assert found.bound >= 0.9 * eigenvalue(A, mu)


@pytest.mark.parametrize("large", [3000, 0])
@pytest.mark.parametrize(
    "graph",
    [nx.gnp_random_graph(700, 0.02, seed=0), nx.grid_2d_graph(26, 26)],
    ids=["random", "grid"],
)
def test_the_bound_of_a_larger_graph_is_its_eigenvalue(graph, large, monkeypatch):
    monkeypatch.setattr(eigen, "LARGE", large)
    A = nx.to_numpy_array(graph)
    mu = np.random.default_rng(0).uniform(1, 3, len(A))
    bound, kind, failure, vector = spectral.spectral(adjacency_matrix(A), mu)
    second = eigenvalue(A, mu)
    assert (1 - (1e-6 if large else 0.02)) * second <= bound <= second * (1 + 1e-12)
    assert (kind, failure > 0) == (
        ("exact-eigenvalue", False) if large else ("probabilistic", True)
    )
    assert vector.shape == (len(A),)


def test_a_vector_near_the_lowest_only_saves_time():
    rng = np.random.default_rng(0)
    V = rng.standard_normal((60, 60))
    V += V.T
    values, vectors = np.linalg.eigh(V)
    for near in (vectors[:, :1], vectors[:, 3:4], rng.standard_normal((60, 1))):
        low, failure = eigen.lowest_bound(V, near)
        assert failure == 0
        assert low <= values[0]
        assert low == pytest.approx(values[0], abs=1e-5)


@pytest.mark.parametrize("presolve", [True, False])
def test_a_connected_graph_has_a_positive_bound_in_no_time(presolve):
    graph = nx.gnp_random_graph(60, 0.2, seed=0)
    cut = cg.sparsest_cut(graph, max_seconds=0.0, presolve=presolve)
    second = np.sort(nx.laplacian_spectrum(graph))[1]
    assert 0 < cut.bound <= second / 60 * (1 + 1e-12)
    assert cut.bound <= cut.value
    assert cut.status is Status.MAX_SECONDS
    assert cut.gap < 1


def test_a_graph_too_large_for_the_relaxation_has_the_bound_and_a_cut(monkeypatch):
    """W does not fit, the graph does; the status says so, and the note by how much."""
    monkeypatch.setattr(memory, "free_memory", lambda: memory.OTHER + 5e6)
    monkeypatch.setattr("condgrad.applications.presolve.LARGE", 100)  # no matrix of its side
    graph = nx.gnp_random_graph(600, 0.02, seed=0)
    cut = cg.sparsest_cut(graph)
    second = np.sort(nx.laplacian_spectrum(graph))[1] / 600
    assert second * (1 - 1e-8) <= cut.bound <= second * (1 + 1e-12)
    assert cut.bound < cut.value <= min(dict(graph.degree).values()) / 599 * (1 + 1e-12)
    assert cut.status is Status.OUT_OF_MEMORY
    assert "this run needs" in cut.result.note
    assert cg.sparsest_cut(graph, gap=0.999).status is Status.CONVERGED
    with pytest.raises(cg.ProblemError, match="cut a part of the graph"):
        cg.sparsest_cut(graph, presolve=False)


def test_a_graph_too_large_even_for_an_eigenvalue_has_the_bound_of_a_tree(monkeypatch):
    A = adjacency_matrix(nx.to_scipy_sparse_array(nx.path_graph(9), dtype=float))
    monkeypatch.setattr(memory, "free_memory", lambda: memory.OTHER)
    found = spectral.spectral(A, np.ones(9))
    assert found.kind == "exact"
    assert found.bound == pytest.approx(81 / (2 * 4 * 5))
    assert found.bound <= 81 / (2 * 4 * 5)


def test_who_names_a_method_gets_the_relaxation_of_the_whole_graph_by_it():
    graph = nx.les_miserables_graph()
    name = cg.h_sag_v2(beta0=100.0).name
    for method in ("h-sag-v2", cg.h_sag_v2(beta0=100.0, batch=0.05)):
        cut = cg.sparsest_cut(graph, method=method, max_seconds=1)
        assert cut.result.method == name
        assert cut.result.W.shape == (77, 77)
    assert cg.sparsest_cut(sp.csr_array((4, 4)), method="h-sag-v2").value == 0
