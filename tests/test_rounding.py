from __future__ import annotations

import itertools

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
from scipy.spatial.distance import cdist

from condgrad import ProblemError
from condgrad.applications import (
    clustering_matrix,
    clustering_value,
    cut_matrix,
    cut_value,
    kmeans,
    round_clusters,
    round_cut,
    sparsest_cut,
    sweep_cut,
)
from condgrad.applications.clustering import denoised
from condgrad.applications.rounding import _improve, _sweep, _unpack, graph_of
from condgrad.maps import Triangles


def weighted_graph(n, seed):
    rng = np.random.default_rng(seed)
    upper = np.triu(rng.exponential(size=(n, n)) * (rng.random((n, n)) < 0.6), 1)
    return upper + upper.T


def gram(n, seed):
    X = np.random.default_rng(seed).normal(size=(n, 4))
    return X @ X.T


def plain_value(A, side):
    """The definition, entry by entry."""
    n, ours = len(side), [i for i in range(len(side)) if side[i]]
    theirs = [i for i in range(n) if not side[i]]
    return n * n * sum(A[i, j] for i in ours for j in theirs) / (2 * len(ours) * len(theirs))


def all_sides(n):
    """Every cut once: vertex 0 stays in S̄."""
    return [np.array((0, *bits), bool) for bits in itertools.product((0, 1), repeat=n - 1)][1:]


def check_cut(A, cut):
    assert cut.value == pytest.approx(plain_value(A, cut.side), rel=1e-12, abs=1e-12)
    assert 1 <= cut.side.sum() <= len(A) / 2
    assert cut.side.dtype == bool


@pytest.mark.parametrize("n", [3, 6, 9])
@pytest.mark.parametrize("seed", range(3))
def test_cut_of_the_exact_matrix_is_the_best_cut(n, seed):
    A = weighted_graph(n, seed)
    best = min(all_sides(n), key=lambda side: plain_value(A, side))
    cut = round_cut(A, cut_matrix(best))
    check_cut(A, cut)
    assert cut.value == pytest.approx(plain_value(A, best), abs=1e-12)


def neighbours(side):
    """All cuts one move or one swap away."""
    for i, j in itertools.combinations_with_replacement(range(side.size), 2):
        near = side.copy()
        near[[i, j]] ^= True
        if (i == j or side[i] != side[j]) and 0 < near.sum() < side.size:
            yield near


@pytest.mark.parametrize("seed", range(6))
def test_no_move_and_no_swap_improves_the_cut(seed):
    A, start = weighted_graph(20, seed), np.random.default_rng(seed).random(20) < 0.5
    side = _improve(sp.csr_array(A), np.ones(len(A)), start)
    value = plain_value(A, side)
    assert value < plain_value(A, start)
    assert value <= min(plain_value(A, near) for near in neighbours(side)) * (1 + 1e-9)


@pytest.mark.parametrize("seed", range(20))
def test_every_order_is_swept(seed, monkeypatch):
    monkeypatch.setattr("condgrad.applications.rounding._improve", lambda A, sizes, side, end: side)
    ring = nx.to_numpy_array(nx.cycle_graph(9), np.random.default_rng(seed).permutation(9))
    A, W, H = ring * (1 + weighted_graph(9, seed)), gram(9, seed), np.eye(9) - 1 / 9
    X = H @ W @ H
    distances = np.diag(W)[:, None] + np.diag(W) - 2 * W
    orders = np.argsort(np.vstack([np.linalg.eigh(X)[1][:, -1], -X, distances, np.arange(9)]))
    prefixes = [np.isin(np.arange(9), order[:size]) for order in orders for size in range(1, 9)]
    cut = round_cut(A, W, vectors=1)
    check_cut(A, cut)
    assert cut.value == pytest.approx(min(plain_value(A, side) for side in prefixes))


def test_more_than_one_cut_is_improved(monkeypatch):
    ring = nx.to_numpy_array(nx.cycle_graph(40), np.random.default_rng(0).permutation(40))
    graphs = [(ring, gram(40, seed)) for seed in range(5)]
    many = [round_cut(A, W).value for A, W in graphs]
    monkeypatch.setattr("condgrad.applications.rounding.KEPT", 1)
    one = [round_cut(A, W).value for A, W in graphs]
    assert all(a <= b for a, b in zip(many, one, strict=True))
    assert sum(many) < sum(one)


def test_improvement_mends_a_poor_cut():
    A = nx.to_numpy_array(nx.barbell_graph(10, 0))
    halves = np.arange(20) < 10
    mixed = halves.copy()
    mixed[[3, 15, 16]] ^= True
    cut = round_cut(A, cut_matrix(mixed))
    assert cut.value == pytest.approx(400 / (2 * 10 * 10))
    np.testing.assert_array_equal(cut.side, halves)
    assert sweep_cut(A, cut_matrix(mixed), 1).value > 10 * cut.value


def test_sweep_tries_every_prefix():
    A, scores = weighted_graph(12, 5), np.random.default_rng(5).normal(size=(7, 12))
    scores[3] = np.round(scores[3])  # ties
    for score in scores:
        (key, value), *rest = _sweep(graph_of(A), [score]).items()
        order = np.argsort(score, kind="stable")
        prefixes = [np.isin(np.arange(12), order[:size]) for size in range(1, 12)]
        assert value == pytest.approx(min(plain_value(A, side) for side in prefixes))
        assert value == pytest.approx(plain_value(A, _unpack(key)))
        assert not rest


def test_sweep_takes_the_best_eigenvector():
    A, W = weighted_graph(15, 2), gram(15, 2)
    H = np.eye(15) - 1 / 15
    basis = np.linalg.eigh(H @ W @ H)[1].T[::-1]
    for vectors in (1, 4, 40):
        values = [
            plain_value(A, np.isin(np.arange(15), np.argsort(x)[:size]))
            for x in basis[:vectors]
            for size in range(1, 15)
        ]
        cut = sweep_cut(A, W, vectors)
        check_cut(A, cut)
        assert cut.value <= min(values) + 1e-9
        if vectors < 15:  # with more, the basis of the null space is not determined
            assert cut.value == pytest.approx(min(values))


@pytest.mark.parametrize("n", [3, 7, 8])
def test_complete_graphs(n):
    A = np.ones((n, n))
    for W in (np.zeros((n, n)), np.eye(n), gram(n, 1)):
        cut = round_cut(A, W)
        check_cut(A, cut)
        assert cut.value == pytest.approx(n * n / 2)


def test_graph_in_parts_has_cut_zero():
    """Two rings: from a poor W no other order and no chain of better moves leads to the parts."""
    A = 0.1 * nx.to_numpy_array(nx.disjoint_union(nx.cycle_graph(40), nx.cycle_graph(60)))
    at = np.random.default_rng(0).permutation(100)
    A = sp.coo_array(A[at][:, at])
    u, v = (np.flatnonzero(at == i)[0] for i in (0, 50))
    ends = np.append(A.row, [u, v]), np.append(A.col, [v, u])
    A = sp.coo_array((np.append(A.data, [0.0, 0.0]), ends), (100, 100))  # a stored 0 is no edge
    for W in (gram(100, 0), np.zeros((100, 100)), cut_matrix(np.arange(100) == 4)):
        cut = round_cut(A, W)
        assert cut.value == 0.0
        assert sorted(at[cut.side]) == list(range(40))
    assert round_cut(np.zeros((5, 5)), np.eye(5)).value == 0.0


def test_rounding_does_not_depend_on_names_or_repetition():
    A, W = weighted_graph(25, 8), gram(25, 8)
    cut = round_cut(A, W)
    assert round_cut(A, W).side.tolist() == cut.side.tolist()
    assert round_cut(sp.csr_array(A), W.astype(np.float32)).value == pytest.approx(cut.value)
    at = np.random.default_rng(1).permutation(25)
    moved = round_cut(A[at][:, at], W[at][:, at])
    assert moved.value == pytest.approx(cut.value)
    assert plain_value(A, cut.side) == pytest.approx(7 * plain_value(A / 7, cut.side))
    assert round_cut(1e9 * A, W).value == pytest.approx(1e9 * cut.value)
    shift = np.arange(25.0)
    far = W + shift + shift[:, None]  # centring removes it
    assert round_cut(A, far).value == pytest.approx(cut.value)


@pytest.mark.parametrize("preset", ["paper", "published"])
def test_cut_matrix_is_feasible(preset):
    A = weighted_graph(7, 4)
    L = np.diag(A.sum(axis=1)) - A
    problem = sparsest_cut(A, preset).problem
    for side in all_sides(7):
        W = cut_matrix(side)
        assert np.vdot(L, W) == pytest.approx(plain_value(A, side))
        assert cut_value(A, side) == pytest.approx(plain_value(A, side))
        np.testing.assert_allclose(W.sum(axis=0), 0, atol=1e-12)
        assert np.trace(W) == pytest.approx(3.5)
        assert Triangles(7).rows(W).max() <= 1e-12
        assert problem.domain.contains(W, 1e-9)
        assert problem.evaluate(W).infeasibility == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize(
    ("call", "word"),
    [
        (lambda: cut_matrix(np.zeros(4)), "side"),
        (lambda: cut_matrix(np.ones((2, 2))), "side has shape"),
        (lambda: cut_value(np.ones((4, 4)), np.ones(4, bool)), "side"),
        (lambda: cut_value(np.ones((4, 4)), np.arange(3) < 1), "side has shape"),
        (lambda: round_cut(np.ones((4, 4)), np.eye(3)), "W has shape"),
        (lambda: round_cut(np.ones((4, 4)), np.full((4, 4), np.nan)), "W contains NaN"),
        (lambda: sweep_cut(np.ones((4, 4)), np.eye(4), 0), "vectors"),
        (lambda: clustering_matrix(np.eye(2)), "labels has shape"),
        (lambda: clustering_value(np.eye(3), np.zeros(2)), "labels"),
        (lambda: clustering_value(np.ones((2, 3)), np.zeros(2)), "distances has shape"),
        (lambda: clustering_value(np.triu(np.ones((2, 2))), np.zeros(2)), "symmetric"),
        (lambda: round_clusters(np.eye(3), np.eye(4), 2), "W has shape"),
        (lambda: round_clusters(np.eye(3), np.eye(3), 0), "k is 0"),
        (lambda: round_clusters(np.eye(3), np.eye(3), 4), "k is 4"),
        (lambda: round_clusters(np.eye(3), np.eye(3), True), "k is True"),
    ],
)
def test_bad_input_is_refused(call, word):
    with pytest.raises(ProblemError, match=word):
        call()


def squared(points):
    return cdist(points, points, "sqeuclidean")


def inertia(points, labels):
    groups = [points[labels == c] for c in np.unique(labels)]
    return sum(np.square(group - group.mean(axis=0)).sum() for group in groups)


def partitions(n, k):
    """Every way to make k clusters of n points once."""
    for labels in itertools.product(range(k), repeat=n):
        seen = list(dict.fromkeys(labels))
        if seen == list(range(k)):
            yield np.array(labels)


def check_clusters(points, found, k):
    assert found.value == pytest.approx(2 * inertia(points, found.labels), abs=1e-12)
    assert list(dict.fromkeys(found.labels.tolist())) == list(range(k))  # none empty, in order


@pytest.mark.parametrize(("n", "k"), [(8, 2), (8, 3), (7, 5)])
@pytest.mark.parametrize("seed", range(2))
def test_small_clusterings_are_the_best(n, k, seed):
    points = np.random.default_rng(seed).normal(size=(n, 2))
    C = squared(points)
    best = min(partitions(n, k), key=lambda labels: inertia(points, labels))
    for W in (clustering_matrix(best), np.eye(n), np.full((n, n), 1 / n), np.zeros((n, n))):
        found = round_clusters(C, W, k)
        check_clusters(points, found, k)
        assert found.value == pytest.approx(2 * inertia(points, best))
        np.testing.assert_array_equal(found.labels, best)
        assert clustering_value(C, found.labels) == pytest.approx(found.value)


def blobs(n, k, spread, seed=0):
    rng = np.random.default_rng(seed)
    labels = np.arange(n) % k
    return 10 * rng.normal(size=(k, 5))[labels] + spread * rng.normal(size=(n, 5)), labels


def test_blobs_are_found_under_any_name():
    points, labels = blobs(60, 6, 0.5)
    C, at = squared(points), np.random.default_rng(3).permutation(60)
    W = clustering_matrix(labels)
    found = round_clusters(C, W, 6)
    np.testing.assert_array_equal(found.labels, labels)
    moved = round_clusters(C[at][:, at], W[at][:, at], 6, seed=5)
    assert moved.value == pytest.approx(found.value)
    np.testing.assert_array_equal(
        moved.labels[:, None] == moved.labels, labels[at][:, None] == labels[at]
    )


def test_a_good_matrix_beats_the_points_alone():
    """Forty clusters that overlap: starts from the points alone miss what W shows, even noisy."""
    points, labels = blobs(400, 40, 2.0, seed=1)
    C, rng = squared(points), np.random.default_rng(2)
    noisy = clustering_matrix(np.where(rng.random(400) < 0.1, rng.integers(0, 40, 400), labels))
    led, plain = (
        [round_clusters(C, W, 40, s).value for s in range(3)] for W in (noisy, np.eye(400))
    )
    assert max(led) < 0.995 * min(plain)
    assert max(led) < 2 * inertia(points, labels)


def test_denoised_distances_are_those_of_the_averaged_points():
    points, _ = blobs(12, 3, 1.0)
    W = np.random.default_rng(0).normal(size=(12, 12))
    W[4] = -1.0  # nothing left after clipping: the point stays
    weights = np.maximum(W, 0)
    weights[4, 4] = 1.0
    averaged = weights / weights.sum(axis=1, keepdims=True) @ points
    np.testing.assert_allclose(denoised(squared(points), W), squared(averaged), atol=1e-10)


def test_no_single_move_improves_the_clustering():
    points = np.random.default_rng(7).normal(size=(40, 3))
    found = round_clusters(squared(points), np.eye(40), 5)
    check_clusters(points, found, 5)
    sizes = np.bincount(found.labels)
    for i, target in itertools.product(range(40), range(5)):
        if sizes[found.labels[i]] > 1:
            moved = found.labels.copy()
            moved[i] = target
            assert 2 * inertia(points, moved) >= found.value * (1 - 1e-9)


def test_distances_of_no_points_still_give_k_clusters():
    """With a diagonal above 0 it would pay to leave a cluster empty."""
    assert round_clusters(np.eye(3), np.eye(3), 3).labels.tolist() == [0, 1, 2]
    for seed in range(20):
        C = np.random.default_rng(seed).exponential(size=(9, 9))
        C = C + C.T - 2 * np.diag(np.diag(C))
        found = round_clusters(C, np.eye(9), 3)
        assert np.unique(found.labels).size == 3
        assert found.value == pytest.approx(np.vdot(C, clustering_matrix(found.labels)))


def test_same_seed_same_clusters():
    points = np.random.default_rng(9).normal(size=(50, 2))
    C, W = squared(points), gram(50, 9)
    first, again = (round_clusters(C, W, 7, seed=4) for _ in range(2))
    np.testing.assert_array_equal(first.labels, again.labels)
    assert first.value == again.value


def test_one_cluster_and_a_cluster_each():
    points = np.random.default_rng(1).normal(size=(6, 2))
    C = squared(points)
    one, each = (round_clusters(C, np.eye(6), k) for k in (1, 6))
    assert one.labels.tolist() == [0] * 6
    assert one.value == pytest.approx(C.sum() / 6)
    assert each.labels.tolist() == list(range(6))
    assert each.value == 0.0
    assert round_clusters(np.zeros((1, 1)), np.ones((1, 1)), 1).labels.tolist() == [0]


@pytest.mark.parametrize("k", [2, 3, 5, 12])
def test_copies_of_a_point_still_give_k_clusters(k):
    points = np.repeat(np.array([[0.0, 0.0], [3.0, 0.0], [0.0, 5.0]]), 4, axis=0)
    C = squared(points)
    for W in (np.eye(12), np.full((12, 12), 1 / 12)):
        found = round_clusters(C, W, k)
        check_clusters(points, found, k)
        if k >= 3:
            assert found.value == 0.0
    same = round_clusters(np.zeros((12, 12)), np.eye(12), k)
    assert np.unique(same.labels).size == k
    assert same.value == 0.0


@pytest.mark.parametrize("labels", [[0, 0, 1, 2, 1, 0], list("abcaba"), [5] * 6, list(range(6))])
def test_clustering_matrix_is_feasible(labels):
    labels = np.array(labels)
    points, k = np.random.default_rng(0).normal(size=(6, 2)), np.unique(labels).size
    C, W = squared(points), clustering_matrix(labels)
    np.testing.assert_allclose(W.sum(axis=1), 1)
    assert W.min() >= 0
    assert np.trace(W) == pytest.approx(k)
    assert np.linalg.eigvalsh(W).min() >= -1e-12
    assert np.vdot(C, W) == pytest.approx(2 * inertia(points, labels), abs=1e-12)
    assert clustering_value(C, labels) == pytest.approx(np.vdot(C, W), abs=1e-12)
    problem = kmeans(C, k).problem
    assert problem.domain.contains(W, 1e-9)
    assert problem.evaluate(W).infeasibility == pytest.approx(0, abs=1e-12)


def test_mnist_clusters_are_near_the_relaxation(data):
    with np.load(data / "kmeans-mnist" / "reduced_250.npz") as file:
        C, labels, optimum = file["C"], file["labels"], float(file["opt_lower"])
        points = file["images"].T
    rng = np.random.default_rng(0)
    noisy = np.where(rng.random(250) < 0.2, rng.integers(1, 11, 250), labels)
    found = round_clusters(C, clustering_matrix(noisy), 10)
    assert found.value == pytest.approx(2 * inertia(points, found.labels), rel=1e-6)
    assert optimum <= found.value <= 1.012 * optimum


@pytest.mark.parametrize("graph", ["mammalia-primate-association-13", "insecta-ant-colony1-day37"])
def test_best_cuts_of_the_paper_are_found_from_a_poor_matrix(data, graph):
    lines = np.loadtxt(data / "graphs" / f"{graph}.edges", skiprows=1)
    u, v = lines[:, :2].astype(int).T - 1
    n = int(max(u.max(), v.max())) + 1
    A = sp.csr_array((np.ones(u.size), (u, v)), shape=(n, n))
    best = {25: 16 * 25**2 / (2 * 2 * 23), 55: 11 * 55**2 / (2 * 1 * 54)}[n]
    assert round_cut(A + A.T, gram(n, 0)).value == pytest.approx(best)
