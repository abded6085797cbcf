"""Graphs for the benchmarks."""

from __future__ import annotations

import numpy as np
from scipy.sparse.csgraph import connected_components


def karate() -> np.ndarray:
    """Adjacency of Zachary's karate club, weighted."""
    import networkx as nx

    return nx.to_numpy_array(nx.karate_club_graph())


def planted(n: int, seed: int | None = None) -> np.ndarray:
    """Adjacency of four planted groups: an edge with chance 0.3 within a group, 0.1 between."""
    rng = np.random.default_rng(n if seed is None else seed)
    group = rng.integers(0, 4, n)
    chance = np.where(group[:, None] == group[None, :], 0.3, 0.1)
    upper = np.triu(rng.random((n, n)) < chance, 1)
    return (upper | upper.T).astype(float)


def geometric(n: int) -> np.ndarray:
    """Adjacency of points in the unit square, joined where they are near; connected.

    The radius 0.25 √(60/n · log n/log 60) keeps the graphs of all sizes about as close to falling
    apart; the seed is n, raised by 1000 until the graph is connected.
    """
    radius, seed = 0.25 * np.sqrt(60 / n * np.log(n) / np.log(60)), n
    while True:
        points = np.random.default_rng(seed).random((n, 2))
        near = np.linalg.norm(points[:, None] - points[None, :], axis=2) < radius
        np.fill_diagonal(near, False)
        if connected_components(near, directed=False)[0] == 1:
            return near.astype(float)
        seed += 1000


def named(name: str) -> np.ndarray:
    """`karate`, or `geo` or `rand` with the number of vertices; `rand300-2` has the seed 2."""
    if name == "karate":
        return karate()
    if name.startswith("geo"):
        return geometric(int(name.removeprefix("geo")))
    return planted(*map(int, name.removeprefix("rand").split("-")))
