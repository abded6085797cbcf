"""Clusters, heat maps and cuts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from condgrad._adjacency import drawn_graph
from condgrad._types import Array
from condgrad.applications.answers import names_of
from condgrad.applications.planes import principal_plane
from condgrad.errors import ProblemError
from condgrad.plot._base import COLOURS, new_figure, save

SIDES, CUT_EDGE = tuple(COLOURS[i] for i in (4, 1, 2, 5)), COLOURS[3]
DRAWN = 500
"""Largest graph drawn with vertices and edges."""
NAMED, SOME = 60, 30
"""Largest graph whose vertices are all named, and largest side that is named in others."""
FONT, INCHES = 7.5, 5.0
"""Size of names in points, and of what is drawn of a graph in inches."""
PIXELS = 1000
"""Rows of a heat map; of a larger matrix evenly spaced rows are shown."""
NEGATIVE = 1e-2
"""Entries of a matrix below this share of the largest are no negative ones, but hardly missed."""
BINS = 300
"""Rows of the picture of an adjacency matrix; each pixel counts its entries."""
LISTED = 20
"""Most clusters in a legend."""


def heat_map(
    W: Any,
    labels: Any = None,
    path: str | Path | None = None,
    *,
    title: str = "",
    figure: Any = None,
) -> Any:
    """Draw a matrix in colours, rows and columns sorted by label, with lines between the labels.

    Parameters
    ----------
    W : array
        The matrix, square where there are labels.
    labels : array, optional
        Cluster of each row, or the side of a cut.
    path, title, figure
        As for `convergence`.

    Returns
    -------
    Figure
    """
    W = np.asarray(W)
    if W.ndim != 2 or not W.size:
        raise ProblemError(f"W has shape {W.shape}: a heat map needs a matrix")
    if labels is None:
        rows, columns = _spaced(np.arange(W.shape[0])), _spaced(np.arange(W.shape[1]))
    else:
        labels = _labels(labels, W.shape[0])
        if W.shape[0] != W.shape[1]:
            raise ProblemError(f"W has shape {W.shape}: with labels it must be square")
        rows = columns = _spaced(np.argsort(labels, kind="stable"))
    shown = np.asarray(W[np.ix_(rows, columns)], dtype=np.float64)
    fig = figure or new_figure(5.8, 5.0)
    ax = fig.subplots()
    top = float(np.max(np.abs(shown), initial=0.0, where=np.isfinite(shown))) or 1.0
    negative = bool((shown < -NEGATIVE * top).any())
    colours = {"cmap": "RdBu_r", "vmin": -top} if negative else {"cmap": "viridis", "vmin": 0.0}
    image = ax.imshow(shown, vmax=top, interpolation="nearest", **colours)
    _colour_bar(fig, ax, image)
    if labels is not None:
        _boundaries(ax, labels[rows], "black" if negative else "white")
    ax.set_xticks([])
    ax.set_yticks([])
    part = f", {rows.size} of {W.shape[0]} rows" if rows.size < W.shape[0] else ""
    ax.set_xlabel(("sorted by label" if labels is not None else "columns") + part)
    return save(fig, path, title)


def clusters(
    X: Any,
    labels: Any,
    path: str | Path | None = None,
    *,
    title: str = "",
    figure: Any = None,
) -> Any:
    """Draw points in the plane of their two principal components, coloured by cluster.

    Parameters
    ----------
    X : array
        The n points, one a row.
    labels : array
        Cluster of each point.
    path, title, figure
        As for `convergence`.

    Returns
    -------
    Figure
    """
    plane = principal_plane(X)
    labels = _labels(labels, plane.shape[0])
    fig = figure or new_figure(6.4, 5.0)
    ax = fig.subplots()
    found = np.unique(labels)
    colours = _colours(found.size)
    for i, label in enumerate(found):
        own = plane[labels == label]
        text = f"{label} ({len(own)})" if found.size <= LISTED else None
        ax.scatter(*own.T, color=colours[i], marker="osD^vP*X<>"[i % 10], s=22, label=text,
                   edgecolors="white", linewidths=0.3)  # fmt: skip
    ax.set_xlabel("first principal component")
    ax.set_ylabel("second principal component")
    ax.grid(True, alpha=0.25)
    if found.size <= LISTED:
        ax.legend(title="cluster (size)", loc="upper left", bbox_to_anchor=(1, 1), fontsize="small")
    return save(fig, path, title)


def cut(
    adjacency: Any,
    side: Any,
    path: str | Path | None = None,
    *,
    names: Sequence[str] | Array | None = None,
    title: str = "",
    figure: Any = None,
) -> Any:
    """Draw a cut or a partition on its graph: its parts, and the edges across in another colour.

    Of more than 500 vertices the adjacency matrix is drawn instead, sorted by part: the edges
    across are those outside of the blocks.

    Parameters
    ----------
    adjacency : networkx.Graph, array, SciPy sparse matrix, frame or NamedGraph
        The graph, as for `condgrad.sparsest_cut`.
    side : array, GraphCut or Partition
        True for the vertices of one side, or the part of each vertex, in the order of the graph;
        or what a call has returned.
    names : sequence of str, optional
        Names of the vertices; default: those of the graph, or their numbers from 0. Of
        more than 60 vertices the smallest part is named, if there are at most 30 in it. Names that
        would lie on others are left out.
    path, title, figure
        As for `convergence`.

    Returns
    -------
    Figure
    """
    A, called = drawn_graph(adjacency)
    n = A.shape[0]
    names = next((own for own in (names, called, names_of(side)) if own is not None), None)
    side = _groups(side, n)
    if names is not None and len(names) != n:
        raise ProblemError(f"names has {len(names)} entries: give one for each of {n} vertices")
    fig = figure or new_figure(6.4, 6.0)
    ax = fig.subplots()
    if n > DRAWN:
        _sorted_adjacency(fig, ax, A, side)
    else:
        chosen = [str(i) for i in range(n)] if names is None else [str(name) for name in names]
        fewer = side == np.argsort(np.bincount(side), kind="stable")[0]
        shown = np.full(n, n <= NAMED) | (fewer & (fewer.sum() <= SOME))
        named = [name if show else "" for name, show in zip(chosen, shown, strict=True)]
        _graph(ax, A, side, named, fewer)
    return save(fig, path, title)


def _graph(ax: Any, A: Any, side: Array, names: Sequence[str], first: Array) -> None:
    """Vertices and edges, those across on top; short names on the vertices, others above them.

    Where names would lie on each other, those of the vertices in `first` stay, then those of the
    vertices with most edges.
    """
    from matplotlib.collections import LineCollection
    from matplotlib.patheffects import Normal, Stroke

    edges = sp.coo_array(sp.triu(A, k=1))
    u, v = edges.coords
    u, v, weight = (part[edges.data != 0] for part in (u, v, np.abs(edges.data)))
    at, across = layout(A), side[u] != side[v]
    crowd = 400 / max(weight.size, 1)
    heaviest, same = weight.max(initial=1e-300), weight.size > 0 and not np.ptp(weight)
    thick = np.ones(weight.size) if same else 0.5 + 1.5 * weight / heaviest
    width = thick * np.clip(crowd**0.5, 0.2, 1.0)
    faint, clear = np.clip(crowd, 0.1, 0.6), np.clip(2 * crowd, 0.2, 0.9)
    for kind, colour, alpha in ((~across, "0.45", faint), (across, CUT_EDGE, clear)):
        if not kind.any():
            continue
        label = f"edges across ({kind.sum()})" if colour == CUT_EDGE else None
        lines: Any = np.stack([at[u[kind]], at[v[kind]]], axis=1)
        ax.add_collection(
            LineCollection(lines, colors=colour, linewidths=width[kind], alpha=alpha, label=label)
        )
    inside = all(names) and max(map(len, names)) <= 3
    size = 230 if inside else max(12, min(9000 / side.size, 90))
    parts = int(side.max()) + 1
    colours = SIDES if parts <= len(SIDES) else _colours(max(parts, len(COLOURS) + 1))
    for part in range(max(parts, 2)):
        own, text = at[side == part], _vertices(int((side == part).sum()))
        ax.scatter(*own.T, s=size, color=colours[part], marker="osD^vPX<>"[part % 9],
                   edgecolors="0.2", linewidths=0.5, zorder=3,
                   label=text if parts <= LISTED else None)  # fmt: skip
    how: dict[str, Any] = {"ha": "center", "fontsize": FONT, "zorder": 4, "parse_math": False}
    short = [name if inside else _short(name) for name in names]
    degree = np.bincount(np.concatenate([u, v]), minlength=side.size)
    order = np.lexsort((-degree, ~first))
    for i in order if inside else fitting(short, at, order):
        if inside:
            ax.text(*at[i], short[i], va="center", **how)
        else:
            above = {"xytext": (0, 0.5 * size**0.5 + 1), "textcoords": "offset points"}
            text = ax.annotate(short[i], at[i], va="bottom", **above, **how)
            text.set_path_effects([Stroke(linewidth=2, foreground="white"), Normal()])
    ax.margins(0.06)
    ax.set_aspect("equal", adjustable="datalim")
    ax.set_axis_off()
    legend = ax.legend(loc="upper center", bbox_to_anchor=(0.5, 0), ncols=3, fontsize="small",
                       markerscale=0.65 if inside else 1.0)  # fmt: skip
    for handle in legend.legend_handles:
        handle.set_alpha(1)
        handle.set_linewidth(1.2)


def fitting(names: Sequence[str], at: Array, order: Array) -> list[int]:
    """Which names can stand above their places without lying on each other.

    A letter is taken to be 0.6 of its height wide, and the picture `INCHES` on its longer side.

    Parameters
    ----------
    names : sequence of str
        Names; those that are empty are left out.
    at : array
        Their places, a row each.
    order : array
        Who comes first.
    """
    points = 72 * INCHES * at / max(float(np.ptp(at, axis=0).max(initial=0.0)), 1e-300)
    half = np.array([0.3 * FONT * len(name) for name in names])
    kept: list[int] = []
    for i in order.tolist():
        apart = np.abs(points[kept] - points[i])
        clear = (apart[:, 0] >= half[kept] + half[i]) | (apart[:, 1] >= 1.1 * FONT)
        if names[i] and clear.all():
            kept.append(i)
    return kept


def _vertices(count: int) -> str:
    return "1 vertex" if count == 1 else f"{count} vertices"


def _sorted_adjacency(fig: Any, ax: Any, A: Any, side: Array) -> None:
    """How many edges there are between groups of vertices, sorted by side."""
    from matplotlib.colors import PowerNorm
    from matplotlib.ticker import MaxNLocator

    n = side.size
    place = np.argsort(np.argsort(side, kind="stable"), kind="stable")
    edges = sp.coo_array(A)
    u, v = (place[end[edges.data != 0]] for end in edges.coords)
    bins = min(n, BINS)
    counts = np.histogram2d(u, v, bins=bins, range=[[0, n], [0, n]])[0]
    norm = PowerNorm(0.5, 0, max(1.0, counts.max()))
    image = ax.imshow(counts, cmap="Blues", norm=norm, interpolation="nearest")
    _boundaries(ax, side[np.argsort(side, kind="stable")], "black", bins / n)
    ax.set_xticks([])
    ax.set_yticks([])
    sizes = np.bincount(side).tolist()
    of = f"side ({sizes[0]} and {n - sizes[0]})" if len(sizes) < 3 else f"part, {len(sizes)} parts"
    ax.set_xlabel(f"{n} vertices sorted by {of}")
    label, ticks = "entries of the adjacency matrix per pixel", MaxNLocator(5, integer=True)
    _colour_bar(fig, ax, image, label=label, ticks=ticks)


def layout(A: Any) -> Array:
    """Places of the vertices: springs where networkx is installed, else eigenvectors.

    The second and third eigenvector of the Laplacian, K. M. Hall, Management Science 17(3), 1970.
    """
    A = abs(sp.csr_array(A).astype(np.float64))
    n = A.shape[0]
    try:
        import networkx as nx
    except ImportError:
        L = np.diag(np.asarray(A.sum(axis=1)).reshape(-1)) - A.toarray()
        at = np.zeros((n, 2))
        at[:, : min(2, n - 1)] = scipy.linalg.eigh(L)[1][:, 1:3]
        return at
    places = nx.spring_layout(nx.from_scipy_sparse_array(A), seed=0, iterations=100)
    return np.array([places[i] for i in range(n)])


def _labels(labels: Any, n: int, name: str = "labels") -> Array:
    """Labels, checked."""
    labels = np.asarray(labels)
    if labels.shape != (n,):
        raise ProblemError(f"{name} has shape {labels.shape}: give one for each of the {n} rows")
    return labels


def _groups(side: Any, n: int) -> Array:
    """The part of each vertex as a number from 0, of an array or of an answer."""
    given = getattr(side, "side", None)
    given = getattr(side, "labels", side) if given is None else given
    labels = _labels(given, n, "side")
    if labels.dtype == np.bool_:
        return labels.astype(np.int64)
    return np.unique(labels, return_inverse=True)[1].reshape(-1)


def _short(name: str) -> str:
    """A name that fits above a vertex, more or less."""
    return name if len(name) <= 18 else f"{name[:17]}…"


def _spaced(order: Array) -> Array:
    """At most `PIXELS` of the entries, evenly spaced."""
    if order.size <= PIXELS:
        return order
    return order[np.linspace(0, order.size - 1, PIXELS).round().astype(np.int64)]


def _boundaries(ax: Any, ordered: Array, colour: str, scale: float = 1.0) -> None:
    """Lines between rows of different labels."""
    for end in np.nonzero(ordered[1:] != ordered[:-1])[0]:
        for line in (ax.axhline, ax.axvline):
            line((end + 1) * scale - 0.5, color=colour, lw=0.8)


def _colour_bar(fig: Any, ax: Any, image: Any, **options: Any) -> None:
    """Draw the scale of colours, right beside the picture."""
    fig.colorbar(image, cax=ax.inset_axes([1.03, 0.05, 0.04, 0.9]), **options)


def _colours(count: int) -> Any:
    """A colour for each cluster."""
    import matplotlib as mpl

    if count <= len(COLOURS):
        return COLOURS
    return mpl.colormaps["viridis"](np.linspace(0.0, 0.95, count))
