"""Sections and correlation clusterings against all partitions of small graphs."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import networkx as nx
import numpy as np
import pytest

import condgrad as cg
from condgrad.applications.correlation import correlation_clustering, disagreements
from condgrad.applications.section import section, section_value


def partitions(n: int) -> Iterator[np.ndarray]:
    """All of n vertices, clusters numbered as they appear."""

    def extend(labels: list[int]) -> Iterator[np.ndarray]:
        if len(labels) == n:
            yield np.array(labels)
            return
        for label in range(max(labels, default=-1) + 2):
            yield from extend([*labels, label])

    return extend([])


def graph(n: int, seed: int, whole: bool) -> np.ndarray:
    rng = np.random.default_rng(seed)
    weights = rng.integers(-3, 4, (n, n)).astype(float) if whole else rng.normal(size=(n, n))
    return np.triu(weights, 1) + np.triu(weights, 1).T


@pytest.mark.parametrize(("n", "seed", "whole"), [(3, 0, True), (6, 1, False), (7, 2, True)])
def test_correlation_clustering_is_the_best_partition(n, seed, whole):
    S = graph(n, seed, whole)
    best = min(disagreements(S, labels) for labels in partitions(n))
    found = cg.correlation_clustering(S)
    assert found.value == pytest.approx(best, abs=1e-12)
    assert found.bound <= best * (1 + 1e-12)
    assert disagreements(S, found.labels) == found.value


@pytest.mark.parametrize(
    ("n", "seed", "parts"), [(6, 0, 2), (7, 1, 2), (8, 2, [5, 3]), (6, 3, 3), (7, 4, [3, 2, 2])]
)
def test_sections_are_the_best_partitions(n, seed, parts):
    A = graph(n, seed, seed % 2 == 0)
    sizes = sorted(cg.partitions.part_sizes(parts, n).tolist())
    fitting = (p for p in partitions(n) if sorted(np.bincount(p).tolist()) == sizes)
    best = min(section_value(A, labels) for labels in fitting)
    found = cg.k_section(A, parts)
    assert sorted(map(len, found.parts)) == sizes
    assert found.value == pytest.approx(best, abs=1e-12)
    assert found.bound <= best + 1e-12 * abs(A).sum()


def test_bisections_of_twelve_vertices():
    A = graph(12, 5, True)
    halves = (np.isin(np.arange(12), c) for c in itertools.combinations(range(1, 12), 6))
    best = min(section_value(A, half) for half in halves)
    found = cg.bisection(A)
    assert found.value == best
    assert found.bound <= best


def test_a_correlation_clustering_of_ten_vertices():
    S = graph(10, 6, True)
    every = np.array(list(partitions(10)), dtype=np.int8)
    together = every[:, :, None] == every[:, None]
    best = np.where(together, np.maximum(-S, 0), np.maximum(S, 0)).sum(axis=(1, 2)).min() / 2
    found = cg.correlation_clustering(S)
    assert found.value == best
    assert found.bound <= best


@pytest.mark.parametrize("triangles", [False, True])
def test_partitions_are_feasible_points_of_their_value(triangles):
    A = graph(7, 5, False)
    clustering = correlation_clustering(A, triangles)
    halves = section(A, [4, 3], triangles)
    thirds = section(graph(6, 6, False), 3, triangles)
    for application in (clustering, halves, thirds):
        rounded = application.rounding(application.start)
        problem = application.problem
        assert problem.objective(rounded.W) == pytest.approx(rounded.value, abs=1e-12)
        violations = problem.evaluate(rounded.W).families.values()
        assert max(v.scaled for v in violations) < 1e-12


def test_triangles_are_taken_where_the_relaxation_is_loose():
    odd = -(np.roll(np.eye(5), 1, axis=0) + np.roll(np.eye(5), -1, axis=0))
    loose = cg.k_section(-odd, [3, 2], triangles=False)
    assert cg.k_section(-odd, [3, 2]).bound >= loose.bound


def test_names_and_sizes_of_a_networkx_graph():
    G = nx.relabel_nodes(nx.barbell_graph(4, 0), dict(enumerate("abcdefgh")))
    found = cg.bisection(G)
    assert found.parts == (tuple("abcd"), tuple("efgh"))
    assert found.value == found.bound == 1.0
    assert "value 1, none below 1 exists" in str(found)


@pytest.mark.parametrize(
    ("parts", "words"),
    [(1, "between 2 and"), ([2, 2], "sum to 4"), ([1.5, 4.5], "integers"), (True, "a number of")],
)
def test_parts_that_cannot_be(parts, words):
    with pytest.raises(cg.ProblemError, match=words):
        cg.k_section(np.ones((6, 6)), parts)


def test_a_bisection_has_two_sizes():
    with pytest.raises(cg.ProblemError, match="two"):
        cg.bisection(np.ones((6, 6)), [2, 2, 2])


def test_planted_clusters_are_found_and_proved():
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(3), 8)
    S = np.where(labels[:, None] == labels, 1.0, -1.0)
    for i, j in itertools.islice(rng.permutation(list(itertools.combinations(range(24), 2))), 20):
        S[i, j] = S[j, i] = -S[i, j]
    found = cg.correlation_clustering(S)
    assert found.value == found.bound == 20
