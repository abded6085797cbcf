"""Graphs by name for the benchmarks: the files of the experiments, the karate club, generators."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
from scipy.sparse.csgraph import connected_components

FILES = (
    "mammalia-primate-association-13",
    "insecta-ant-colony1-day37",
    "insecta-ant-colony4-day10",
)
"""The graphs of the paper, in the folder `graphs` of the data, and with weights in `weighted`."""
SIZES = (80, 150, 200, 300)
NAMES = (
    "karate_club",
    *FILES,
    *(f"weighted/{name}" for name in FILES),
    *(f"{kind}{n}" for n in SIZES for kind in ("rand", "geo")),
)


def planted(n: int) -> np.ndarray:
    """Adjacency of four planted groups: an edge with chance 0.3 within a group, 0.1 between."""
    rng = np.random.default_rng(n)
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


def write_edges(path: Path, adjacency: np.ndarray) -> None:
    """Write an edge list: a line `n m`, then `u v w`, vertices from 1."""
    u, v = np.nonzero(np.triu(adjacency, 1))
    lines = [f"{len(adjacency)} {u.size}"]
    lines += [f"{i + 1} {j + 1} {adjacency[i, j]:.17g}" for i, j in zip(u, v, strict=True)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def read_edges(path: Path) -> np.ndarray:
    """Read what `write_edges` writes; for processes that are to stay small."""
    lines = [line.split() for line in path.read_text(encoding="utf-8").split("\n") if line.strip()]
    n = int(lines[0][0])
    adjacency = np.zeros((n, n))
    for u, v, w in lines[1:]:
        adjacency[int(u) - 1, int(v) - 1] = adjacency[int(v) - 1, int(u) - 1] = float(w)
    return adjacency


def graph_file(name: str, folder: Path) -> Path:
    """The edge-list file of a graph; a generated one is written to `folder`.

    Parameters
    ----------
    name : str
        One of `NAMES`, or `rand` or `geo` with another number of vertices.
    folder : Path
        Where generated graphs go.

    Returns
    -------
    Path
        The file; those of `FILES` are expected under the environment variable CONDGRAD_DATA.
    """
    if name.removeprefix("weighted/") in FILES:
        root = os.environ.get("CONDGRAD_DATA")
        if not root:
            raise SystemExit(f"{name}: set CONDGRAD_DATA to the folder that holds `graphs`")
        return Path(root) / "graphs" / f"{name}.edges"
    path = folder / f"{name}.edges"
    if name == "karate_club":
        import networkx as nx

        write_edges(path, nx.to_numpy_array(nx.karate_club_graph()))
    elif name.startswith("rand"):
        write_edges(path, planted(int(name.removeprefix("rand"))))
    elif name.startswith("geo"):
        write_edges(path, geometric(int(name.removeprefix("geo"))))
    else:
        raise SystemExit(f"no graph {name!r}: choose from {', '.join(NAMES)}")
    return path
