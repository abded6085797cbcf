"""The theta function against known values and an interior-point solver."""

from __future__ import annotations

import cvxpy as cp
import networkx as nx
import numpy as np
import pytest

import condgrad as cg
from condgrad.applications.theta import feasible


def optimum(G: nx.Graph, plus: bool) -> float:
    n = len(G)
    W = cp.Variable((n, n), PSD=True)
    rows = [cp.trace(W) == 1, *(W[i, j] == 0 for i, j in G.edges)]
    rows += [W >= 0] if plus else []
    return float(cp.Problem(cp.Maximize(cp.sum(W)), rows).solve(solver=cp.CLARABEL))


@pytest.mark.parametrize("plus", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_both_bounds_enclose_the_optimum(seed, plus):
    G = nx.gnp_random_graph(7 + 2 * seed, 0.4, seed=seed)
    known, answer = optimum(G, plus), cg.theta(G, plus=plus)
    assert answer.value <= known * (1 + 1e-6)
    assert answer.bound >= known * (1 - 1e-6)
    assert answer.gap <= 1e-4
    largest = max(map(len, nx.find_cliques(nx.complement(G))))
    assert len(answer.independent_set) <= largest <= answer.independence_bound
    assert not G.subgraph(answer.independent_set).edges


@pytest.mark.parametrize("seed", range(20))
def test_plus_is_not_larger(seed):
    rng = np.random.default_rng(seed)
    G = nx.gnp_random_graph(int(rng.integers(6, 16)), rng.uniform(0.15, 0.8), seed=seed)
    plain, plus = cg.theta(G), cg.theta(G, plus=True)
    assert plus.value <= plain.bound
    assert plus.bound <= plain.bound * (1 + 1e-4)
    if seed % 5 == 0:
        assert plain.bound == pytest.approx(optimum(G, False), rel=1e-3)
        assert plus.bound == pytest.approx(optimum(G, True), rel=1e-3)


@pytest.mark.parametrize(
    ("graph", "value"),
    [
        (nx.petersen_graph(), 4.0),
        (nx.complete_graph(4), 1.0),
        (nx.empty_graph(5), 5.0),
        (nx.cycle_graph(7), 7 * np.cos(np.pi / 7) / (1 + np.cos(np.pi / 7))),
        (nx.complete_bipartite_graph(2, 3), 3.0),
    ],
)
def test_known_values(graph, value):
    answer = cg.theta(graph, gap=1e-5)
    assert answer.value <= value * (1 + 1e-12)
    assert answer.bound >= value * (1 - 1e-12)
    assert answer.gap <= 1e-5


def test_a_repaired_point_meets_every_row():
    G = nx.gnp_random_graph(12, 0.5, seed=1)
    A = nx.to_scipy_sparse_array(G)
    W = np.random.default_rng(0).normal(size=(12, 12))
    for plus in (False, True):
        found = feasible(A, W, plus)
        assert np.linalg.eigvalsh(found.W)[0] >= -1e-15
        assert not found.W[A.nonzero()].any()
        assert found.W.trace() == pytest.approx(1)
        assert found.value <= found.W.sum() <= found.value + 1e-9
        assert not plus or found.W.min() >= 0


def test_the_point_has_the_value_that_is_proved():
    # ϑ = 3 is an integer that iterates only come near to, an independent set has it
    answer = cg.theta(nx.complete_bipartite_graph(2, 3))
    assert answer.W.sum() == pytest.approx(answer.value, rel=1e-12)
    assert answer.W.trace() == pytest.approx(1)
    assert not answer.W[:2, 2:].any()


def test_the_sentence_names_sets_and_cliques():
    text = str(cg.theta(nx.cycle_graph(5)))
    assert "no independent set has more than 2 vertices (found: 2)" in text
    assert "fewer than 3 cliques do not cover the graph" in text
