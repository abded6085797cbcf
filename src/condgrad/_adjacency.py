"""A graph as somebody has it, as a matrix and names."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from numbers import Number
from typing import Any

import numpy as np

from condgrad._types import Array
from condgrad.applications.graphs import adjacency_matrix
from condgrad.applications.rounding import sizes_of
from condgrad.errors import InputError, ProblemError
from condgrad.io.edges import NamedGraph
from condgrad.io.frames import Frame
from condgrad.io.graphs import check_weights, graph_from_edges


def weights_of(graph: Any, weight: str | None, *, signed: bool) -> tuple[Any, tuple[Any, ...]]:
    """The adjacency matrix of a graph and the names of its vertices."""
    if _is_networkx(graph):
        return _networkx_weights(sys.modules["networkx"], graph, weight, signed)
    if isinstance(graph, (str, os.PathLike)):
        raise ProblemError(
            "graph is a name or a path: pass condgrad.io.read_graph(graph), or "
            "condgrad.io.read_named_graph(graph) to have its vertices by name"
        )
    names: Any = None
    if isinstance(graph, NamedGraph):
        graph, names = graph
    elif Frame.fits(graph) and (rows := _named_matrix(graph)):
        own = graph if rows == Frame(graph).names else graph[rows]
        graph, names = own.to_numpy(), rows
        if names == list(range(len(names))):
            _no_edges(graph)
    elif Frame.fits(graph):
        with _said_of_graph():
            options: dict[str, Any] = {"signed": signed, "weight": weight, "loops": "drop"}
            graph, names = graph_from_edges(graph, "graph", **options)
    elif not hasattr(graph, "dtype"):
        _no_edges(graph)
    A = adjacency_matrix(graph, name="graph", signed=signed, least=1 if signed else 2)
    return A, tuple(range(A.shape[0]) if names is None else names)


def _named_matrix(frame: Any) -> list[Any]:
    """The names of the rows where the columns have the same, in any order; else nothing."""
    rows, columns = list(getattr(frame, "index", ())), Frame(frame).names
    same = len(rows) == len(columns) and (rows == columns or set(rows) == set(columns))
    return rows if same and (rows == columns or len(set(rows)) == len(rows)) else []


def _no_edges(graph: Any) -> None:
    """Refuse what is no matrix, or a list of edges that could be taken for one of side 2 or 3."""
    how = "pass networkx.Graph(edges), or a frame with columns source and target"
    if graph is None or isinstance(graph, (Mapping, set, frozenset, Number)):
        raise ProblemError(
            f"graph is a {type(graph).__name__}: give a networkx.Graph, a symmetric matrix or a "
            "frame of edges"
        )
    if not isinstance(graph, (list, tuple, np.ndarray)):
        return
    rows = list(graph)
    short = all(isinstance(row, (list, tuple, np.ndarray)) and len(row) in (2, 3) for row in rows)
    if not rows or not short:
        return
    try:
        A = np.asarray(rows, dtype=np.float64)
        square = A.shape[0] == A.shape[1]
        if square and (A == A.T).all() and ((A < 0) | (np.rint(A) != A)).any():
            return  # no numbers of vertices
    except (TypeError, ValueError):
        square = False
    if not square or np.diag(A).any() or (A != A.T).any():
        raise ProblemError(
            f"graph looks like a list of edges: {how}; a matrix has zeros on its "
            "diagonal and is symmetric"
        )


def drawn_graph(graph: Any) -> tuple[Any, tuple[Any, ...] | None]:
    """The matrix of a graph that is drawn, weights of any sign, and names where it has any."""
    weight: str | None = "weight"
    if _is_networkx(graph) and not any("weight" in data for _, _, data in graph.edges(data=True)):
        weight = None
    if hasattr(graph, "dtype") or isinstance(graph, list):
        return adjacency_matrix(graph, signed=True, least=1), None
    A, names = weights_of(graph, weight, signed=True)
    return A, None if names == tuple(range(len(names))) else names


def _is_networkx(graph: Any) -> bool:
    networkx = sys.modules.get("networkx")  # whoever has such a graph has imported it
    return networkx is not None and isinstance(graph, networkx.Graph)


@contextmanager
def _said_of_graph() -> Iterator[None]:
    """Raise a fault that a reader finds as a fault of an argument."""
    try:
        yield
    except InputError as error:
        reason = re.sub(r" \(--[^)]*\)", "", error.reason)  # options of the command
        if "repeats=" in reason:
            reason += "; give it to condgrad.io.graph_from_edges, and pass what that returns"
        raise ProblemError(f"graph: {reason}") from None


def _networkx_weights(
    networkx: Any, graph: Any, weight: str | None, signed: bool
) -> tuple[Any, tuple[Any, ...]]:
    if graph.is_directed():
        raise ProblemError("graph is directed: pass graph.to_undirected(), which drops directions")
    least = 1 if signed else 2  # a maximum cut may have an empty side
    if len(graph) < least:
        raise ProblemError(
            f"graph has {'one vertex' if len(graph) else 'no vertices'}: a cut needs at least "
            f"{'2' if least == 2 else 'one'}"
        )
    with _said_of_graph():
        check_weights(graph, weight)
    try:
        A = networkx.to_scipy_sparse_array(graph, weight=weight, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ProblemError(
            f"graph has an edge whose {weight!r} is not a number ({error}): set it, or pass "
            "weight=None to count edges"
        ) from None
    return adjacency_matrix(A, name="graph", signed=signed, least=least), tuple(graph)


def sizes_by(graph: Any, vertex_weight: Any, n: int) -> Array:
    """The weights of the vertices."""
    if isinstance(vertex_weight, Mapping):
        if not hasattr(graph, "nodes"):
            raise ProblemError("vertex_weight is a mapping, but graph is a matrix: pass numbers")
        missing = [v for v in graph.nodes if v not in vertex_weight]
        if missing:
            raise ProblemError(f"vertex_weight has no vertex {missing[0]!r}: give every one")
        vertex_weight = [vertex_weight[v] for v in graph.nodes]
    elif isinstance(vertex_weight, str):
        if not hasattr(graph, "nodes"):
            raise ProblemError("vertex_weight is a name, but graph has no attributes: pass numbers")
        missing = [v for v, data in graph.nodes(data=True) if vertex_weight not in data]
        if missing:
            raise ProblemError(
                f"vertex {missing[0]!r} of the graph has no {vertex_weight!r}: set it"
            )
        vertex_weight = [data[vertex_weight] for _, data in graph.nodes(data=True)]
    return sizes_of(vertex_weight, n, "vertex_weight")
