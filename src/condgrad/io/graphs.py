"""Weighted undirected graphs from edge lists, MatrixMarket, GraphML and networkx."""

from __future__ import annotations

import math
import os
import re
import warnings
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree.ElementTree import ParseError, fromstring

import numpy as np
import scipy.sparse as sp
from scipy.io import mminfo

from condgrad.errors import InputError
from condgrad.io._text import (
    data_lines,
    decode,
    integer,
    number,
    read_bytes,
    require,
    require_memory,
    show,
)

Edges = dict[tuple[int, int], float]
Lines = Iterator[tuple[int, str]]
PER_VERTEX = 32
"""Bytes of a sparse matrix and what it is made of for each vertex, with or without edges."""
_BUILT_IN = (
    *("karate_club", "les_miserables", "florentine_families", "davis_southern_women"),
    *("petersen", "dodecahedral", "icosahedral", "frucht", "tutte", "bull", "chvatal", "cubical"),
    *("desargues", "diamond", "heawood", "hoffman_singleton", "house", "house_x", "octahedral"),
    *("krackhardt_kite", "moebius_kantor", "pappus", "sedgewick_maze", "tetrahedral"),
    *("truncated_cube", "truncated_tetrahedron"),
)


class NamedGraph(NamedTuple):
    """An adjacency matrix, and the names of the vertices where the source has names."""

    adjacency: sp.csr_array
    names: tuple[str, ...] | None


def read_graph(source: str | Path, *, signed: bool = False) -> sp.csr_array:
    """Read a graph as a symmetric adjacency matrix with zero diagonal.

    Parameters
    ----------
    source : str or Path
        A MatrixMarket file (`.mtx`), a GraphML file (`.graphml`, `.xml`), an edge list (a line
        `n m`, then m lines `u v` or `u v w`, vertices from 1, as in the Gset collection), each also
        gzipped; or, where no such file exists, the name of a networkx graph such as `karate_club`.
    signed : bool, default False
        Whether weights may be negative.

    Returns
    -------
    scipy.sparse.csr_array
        float64; edges of weight zero are left out.

    Examples
    --------
    >>> read_graph("karate_club").shape
    (34, 34)
    """
    return read_named_graph(source, signed=signed).adjacency


def read_named_graph(source: str | Path, *, signed: bool = False) -> NamedGraph:
    """Read a graph as `read_graph` does, with the vertices' names of GraphML and networkx.

    Examples
    --------
    >>> read_named_graph("florentine_families").names[:2]
    ('Acciaiuoli', 'Medici')
    """
    if Path(source).name == str(source) and not os.path.lexists(source):
        return _named(_built_in(str(source)), source, signed)
    data = read_bytes(source)
    suffix = Path(str(source).removesuffix(".gz")).suffix.lower()
    start = data.removeprefix(b"\xef\xbb\xbf").lstrip()[:14].lower()
    if suffix == ".mtx" or start == b"%%matrixmarket":
        return NamedGraph(_matrix_market(source, decode(source, data, line=400), signed), None)
    if suffix in (".graphml", ".xml") or start.startswith((b"<?xml", b"<graphml")):
        return _named(_graphml(source, data), source, signed)
    return NamedGraph(_edge_list(source, decode(source, data, line=400), signed), None)


def _named(graph: Any, path: str | Path, signed: bool) -> NamedGraph:
    names = tuple(graph)
    known = all(isinstance(name, str) for name in names)
    return NamedGraph(graph_from_networkx(graph, path, signed=signed), names if known else None)


def graph_from_networkx(
    graph: Any, path: str | Path = "<networkx graph>", *, signed: bool = False
) -> sp.csr_array:
    """Return the adjacency matrix of an undirected networkx graph, nodes in its own order.

    Parameters
    ----------
    graph : networkx.Graph
        The edge attribute `weight` counts where present, else 1; parallel edges are summed.
    path : str or Path, optional
        Name used in errors.
    signed : bool, default False
        Whether weights may be negative.

    Returns
    -------
    scipy.sparse.csr_array
        As `read_graph` gives it.
    """
    if graph.is_directed():
        raise InputError(path, "the graph is directed; an undirected one is needed")
    place = {node: k for k, node in enumerate(graph)}
    edges: Edges = {}
    for u, v, given in graph.edges(data="weight", default=1):
        i, j = sorted((place[u], place[v]))
        try:
            weight = float(given)
            fault = _fault(u, weight, loop=i == j, signed=signed)
        except (TypeError, ValueError, OverflowError):
            weight, fault = 0.0, f"the weight {show(str(given))} is not a finite number"
        edges[i, j] = edges.get((i, j), 0.0) + weight
        if fault or not math.isfinite(edges[i, j]):
            raise InputError(path, f"edge {u} - {v}: {fault or 'the summed weight is not finite'}")
    return _adjacency(path, len(place), edges)


def _fault(vertex: object, weight: float, *, loop: bool, signed: bool) -> str | None:
    if loop:
        return f"self-loop at vertex {vertex}"
    if not math.isfinite(weight):
        return f"the weight {weight} is not finite"
    return f"negative weight {weight:g}" if weight < 0 and not signed else None


def _check_order(path: str | Path, n: int, line: int | None = None) -> None:
    if n < 3:
        found = f"the header 'n m' says {n}" if line else f"found {n}"
        raise InputError(path, f"a cut needs at least 3 vertices, {found}", line)
    require(path, f"a graph of {show(str(n))[1:-1]} vertices", PER_VERTEX * n, line)


def _adjacency(path: str | Path, n: int, edges: Edges) -> sp.csr_array:
    _check_order(path, n)
    kept = np.array([edge for edge, w in edges.items() if w], dtype=np.intp).reshape(-1, 2)
    weights = np.array([w for w in edges.values() if w], dtype=np.float64)
    half = sp.coo_array((weights, (kept[:, 0], kept[:, 1])), shape=(n, n))
    return sp.csr_array(half + half.T)


def import_networkx(path: str | Path) -> Any:
    """The package networkx; `InputError` names what needs it."""
    try:
        import networkx
    except ImportError as exc:
        raise InputError(path, "this needs networkx: install condgrad[graphs]") from exc
    return networkx


def _built_in(name: str) -> Any:
    known = name.removesuffix("_graph")
    if known not in _BUILT_IN:
        names = ", ".join(_BUILT_IN[:5])
        raise InputError(name, f"neither a file nor a known graph (such as {names})")
    return getattr(import_networkx(name), known + "_graph")()


def _graphml(path: str | Path, data: bytes) -> Any:
    networkx = import_networkx(path)
    if (at := data.find(b"<!ENTITY")) >= 0:  # a few lines of them stand for gigabytes
        reason = "not a GraphML graph: it declares entities, which GraphML does not need"
        raise InputError(path, reason, data.count(b"\n", 0, at) + 1)
    require_memory(path, data, 35 * len(data))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            graph = networkx.read_graphml(BytesIO(data))
        declared = {e.get("id") for e in fromstring(data).iter() if e.tag.endswith("node")}
    except Exception as exc:  # networkx lets KeyError, AttributeError, ... escape
        line = exc.position[0] if isinstance(exc, ParseError) else None
        raise InputError(path, f"not a GraphML graph: {exc}", line) from exc
    for node in graph:
        if node not in declared:
            raise InputError(path, f"not a GraphML graph: an edge ends at no node: {show(node)}")
    return graph


def _edge_list(path: str | Path, text: str, signed: bool) -> sp.csr_array:
    lines = data_lines(text, ("#", "%"))
    top, header = next(lines, (None, ""))
    sizes = header.replace(",", " ").split()
    if top is None or len(sizes) != 2:
        raise InputError(path, "the header 'n m' (vertices, edges) is missing", top)
    n, m = (integer(path, top, k, s, 0, math.inf) for k, s in zip("nm", sizes, strict=True))
    rest = list(lines)
    try:
        _check_order(path, n, top)
        return _adjacency(path, n, _entries(path, iter(rest), n, m, top, signed=signed))
    except InputError as error:
        if len(rest) == m and n >= 3:
            raise
        hint = "is the first line, 'n m' (vertices, edges), missing?"
        raise InputError(path, f"{error.reason}; {hint}", error.line) from None


def _entries(
    path: str | Path,
    lines: Lines,
    n: int,
    m: int | None,
    top: int,
    kind: str = "",
    *,
    signed: bool,
) -> Edges:
    widths = {"pattern": (2,), "": (2, 3)}.get(kind.partition(" ")[0], (3,))
    edges: Edges = {}
    stood: dict[tuple[int, int], int] = {}
    for line, content in lines:
        fields = content.replace(",", " ").split()
        if len(fields) not in widths:
            wanted = " or ".join(f"{'u v w'[: 2 * width - 1]!r}" for width in widths)
            raise InputError(path, f"expected {wanted}, found {len(fields)} fields", line)
        u, v = (integer(path, line, k, s, 1, n) for k, s in zip("uv", fields, strict=False))
        weight = number(fields[2]) if len(fields) == 3 else 1.0
        if weight is None:
            raise InputError(path, f"the weight {show(fields[2])} is not a number", line)
        loop = u == v and (weight != 0 or not kind)
        if fault := _fault(u, weight, loop=loop, signed=signed):
            raise InputError(path, fault, line)
        key = (u - 1, v - 1) if u < v or kind.endswith("general") else (v - 1, u - 1)
        if stood.setdefault(key, line) != line:
            raise InputError(path, f"the edge {u} {v} stood before on line {stood[key]}", line)
        edges[key] = weight
    if m is not None and len(edges) != m:
        raise InputError(path, f"{show(str(m))[1:-1]} edges expected, found {len(edges)}", top)
    return edges


def _matrix_market(path: str | Path, text: str, signed: bool) -> sp.csr_array:
    try:
        n, cols, m, form, field, symmetry = mminfo(BytesIO(text.encode()))
    except Exception as exc:  # scipy raises ValueError, OverflowError, ...; it may name the line
        named = re.match(r"Line (\d+): ", str(exc))
        line = int(named[1]) if named else None
        raise InputError(path, f"not a MatrixMarket matrix: {exc}", line) from exc
    if field == "complex" or symmetry not in ("general", "symmetric"):
        raise InputError(path, f"a {field} {symmetry} matrix is not an adjacency matrix", 1)
    lines = data_lines(text, ("%",))
    top = next(lines)[0]
    if n != cols:
        raise InputError(path, f"an adjacency matrix is square, found {n} x {cols}", top)
    _check_order(path, n, top)
    if form == "array":
        m, lines = None, _dense(path, lines, n, top, symmetry)
    found = _entries(path, lines, n, m, top, f"{field} {symmetry}", signed=signed)
    upper = {(i, j): w for (i, j), w in found.items() if i < j and w}
    lower = {(j, i): w for (i, j), w in found.items() if i > j and w}
    if upper and lower and upper != lower:
        raise InputError(path, "the matrix is neither symmetric nor strictly triangular")
    return _adjacency(path, n, upper or lower)


def _dense(path: str | Path, lines: Lines, n: int, top: int, symmetry: str) -> Lines:
    # Not scipy's mmread: on some malformed arrays it crashes the interpreter.
    lower = symmetry == "symmetric"
    at = ((i, j) for j in range(1, n + 1) for i in range(j if lower else 1, n + 1))
    for line, content in lines:
        spot = next(at, None)
        if spot is None:
            raise InputError(path, f"more numbers than a {symmetry} {n} x {n} matrix has", line)
        if number(content) != 0:
            yield line, f"{spot[0]} {spot[1]} {content}"
    if next(at, None):
        raise InputError(path, f"truncated: a {symmetry} {n} x {n} matrix has more numbers", top)
