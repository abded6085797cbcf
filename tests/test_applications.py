from __future__ import annotations

import itertools

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp

from condgrad import METHODS, ProblemError, spdhg
from condgrad.applications import (
    PRESETS,
    cut_matrix,
    cut_value,
    kmeans,
    matrix_completion,
    sparsest_cut,
    sweep_cut,
)

GRAPH = nx.to_scipy_sparse_array(nx.gnp_random_graph(9, 0.5, seed=3), dtype=float)


def all_cuts(adjacency):
    n = adjacency.shape[0]
    for members in itertools.chain.from_iterable(
        itertools.combinations(range(n), size) for size in range(1, n // 2 + 1)
    ):
        side = np.zeros(n, bool)
        side[list(members)] = True
        yield side


def metric(side):
    """The point of the relaxation that stands for a cut: W = c x x', x = ±1."""
    x, n = np.where(side, 1.0, -1.0), side.size
    return n * n / 2 / (n * n - x.sum() ** 2) * np.outer(x, x)


@pytest.mark.parametrize("preset", PRESETS)
def test_every_cut_is_feasible_and_has_its_value(preset):
    problem = sparsest_cut(GRAPH, preset).problem
    for side in all_cuts(GRAPH):
        W = cut_matrix(side) if preset == "auto" else metric(side)
        assert problem.domain.contains(W, 1e-9) or np.trace(W) > 9  # only Tr W <= n may fail
        found = problem.evaluate(W)
        assert found.objective == pytest.approx(cut_value(GRAPH, side))
        assert found.infeasibility == pytest.approx(0, abs=1e-9)


def test_cut_value_by_hand():
    side = np.zeros(9, bool)
    side[:4] = True
    dense = GRAPH.toarray()
    expected = 81 * dense[:4, 4:].sum() / (2 * 4 * 5)
    assert cut_value(GRAPH, side) == pytest.approx(expected)


def test_sweep_of_a_cut_metric_finds_the_cut():
    best = min(cut_value(GRAPH, side) for side in all_cuts(GRAPH))
    for side in all_cuts(GRAPH):
        found = sweep_cut(GRAPH, metric(side), vectors=1)
        assert best - 1e-9 <= found.value <= cut_value(GRAPH, side) + 1e-9
        assert found.value == pytest.approx(cut_value(GRAPH, found.side))
        assert found.side.sum() <= 4


def test_relaxation_of_two_cliques_is_the_cut():
    graph = nx.to_scipy_sparse_array(nx.barbell_graph(8, 0), dtype=float)
    application = sparsest_cut(graph, "published")
    result = application.run("h-sag-v2", beta0=1.0, max_epochs=400).result
    best = min(cut_value(graph, s) for s in (np.arange(16) < 8,))
    assert result.objective == pytest.approx(best, rel=0.02)
    assert result.infeasibility < 0.1
    assert sweep_cut(graph, result.W).value == pytest.approx(best)


def test_sparsest_cut_settings():
    paper, published = sparsest_cut(GRAPH, "paper"), sparsest_cut(GRAPH, "published")
    weights = {t.name: t.weight for t in published.problem.terms}
    assert weights == {"cost": 1.0, "spread": 9.0, "triangles": 1.0}
    weights = {t.name: t.weight for t in paper.problem.terms}
    assert weights == {"cost": 1.0, "spread": 1.0, "triangles": 2.0}
    for slug, beta0 in {"h-sag-v2": 100, "shcgm": 100, "h-1sfw": 0.01, "h-spider-fw": 10}.items():
        assert paper.method(slug)[1] == beta0
    effort = published.method("h-sag-v2")[0].schedule(17).effort
    assert effort == pytest.approx(2 * np.sqrt(10))
    top = np.linalg.eigh(sp.csgraph.laplacian(GRAPH).toarray())[1][:, -1]
    np.testing.assert_allclose(paper.start, 9 * np.outer(top, top), atol=1e-9)


@pytest.mark.parametrize(
    ("adjacency", "word"),
    [
        (np.ones((2, 2)), "3 vertices"),
        (np.ones((3, 4)), "square"),
        (-np.ones((4, 4)), "negative"),
        (np.triu(np.ones((4, 4))), "symmetric"),
        (np.full((4, 4), np.inf), "infinite"),
    ],
)
def test_bad_graphs(adjacency, word):
    with pytest.raises(ProblemError, match=word):
        sparsest_cut(adjacency)


def test_kmeans_partition_is_feasible_and_has_its_value():
    points = np.array([[0.0], [1.0], [10.0], [12.0], [11.0]])
    labels = np.array([0, 0, 1, 1, 1])
    C = np.square(points - points.T)
    W = sum(np.outer(labels == c, labels == c) / np.sum(labels == c) for c in (0, 1))
    application = kmeans(C, 2, "published")
    found = application.problem.evaluate(W)
    inertia = sum(np.square(points[labels == c] - points[labels == c].mean()).sum() for c in (0, 1))
    assert application.problem.domain.contains(W, 1e-9)
    assert found.objective == pytest.approx(2 * inertia)
    assert found.infeasibility == pytest.approx(0, abs=1e-12)
    result = application.run("cgal", beta0=0.01, max_iter=5000).result
    assert result.objective == pytest.approx(2 * inertia, rel=0.03)
    assert result.infeasibility < 1e-3
    assert application.problem.domain.equality
    assert {slug: application.method(slug)[1] for slug in ("h-sag-v2", "shcgm", "h-1sfw")} == {
        "h-sag-v2": 7,
        "shcgm": 10,
        "h-1sfw": 0.05,
    }


def test_matrix_completion_recovers_low_rank():
    rng = np.random.default_rng(0)
    truth = 3 + 0.5 * np.outer(rng.normal(size=30), rng.normal(size=20))
    mask = rng.random((30, 20)) < 0.7
    rows, cols = np.nonzero(mask)
    test = tuple(np.nonzero(~mask))
    radius = float(np.linalg.svd(truth, compute_uv=False).sum())
    application = matrix_completion(
        *(rows, cols, truth[mask], truth.shape),
        radius=radius,
        bounds=(0.0, 6.0),
        test=(*test, truth[~mask]),
    )
    result = application.run("h-sag-v1", beta0=1.0, batch=200, max_iter=3000).result
    expected = np.sqrt(np.mean((result.W - truth)[mask] ** 2))
    assert result.metrics["train_rmse"] == pytest.approx(expected)
    assert result.metrics["train_rmse"] < 0.1
    assert result.metrics["test_rmse"] < 0.25
    assert result.objective == pytest.approx(np.sum((result.W - truth)[mask] ** 2))


def test_unknown_method_and_preset():
    application = sparsest_cut(GRAPH)
    with pytest.raises(ProblemError, match="choose one of"):
        application.method("newton")
    with pytest.raises(ProblemError, match="preset"):
        sparsest_cut(GRAPH, "mine")
    assert set(METHODS) >= {"hcgm", "cgal"}


def test_a_method_is_given_by_its_name_or_as_it_is():
    app = sparsest_cut(np.ones((4, 4)) - np.eye(4))
    run = app.run(spdhg(), gap=1e-3)
    assert (run.slug, run.value, run.beta0) == ("spdhg", 1.0, None)
    with pytest.raises(ProblemError, match="leave them out"):
        app.run(spdhg(), beta0=1.0, gap=1e-3)
    with pytest.raises(ProblemError, match="method is a int: give its name"):
        app.run(3, gap=1e-3)
