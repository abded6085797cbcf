"""Weighted undirected graphs from files of many formats, networkx and frames of edges."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from condgrad._check import ROUNDED, rounded
from condgrad.errors import InputError, ProblemError
from condgrad.io._text import decode, ending, read_bytes, show
from condgrad.io.edge_lists import columns_of, numbered, read_list
from condgrad.io.edges import (
    NO_WEIGHT,
    USUAL,
    Asked,
    Edges,
    NamedGraph,
    Names,
    say_weights,
)
from condgrad.io.frames import Frame, missing, name_of, read_parquet
from condgrad.io.graph_attributes import (
    import_networkx,
    read_gml,
    read_graphml,
    read_json,
)
from condgrad.io.graph_texts import read_dimacs, read_metis, read_pajek
from condgrad.io.matrices import read_matrix_market, read_numpy

__all__ = [
    "FORMATS",
    "NamedGraph",
    "check_weights",
    "graph_from_edges",
    "graph_from_networkx",
    "import_networkx",
    "read_graph",
    "read_named_graph",
]
_BUILT_IN = (
    *("karate_club", "les_miserables", "florentine_families", "davis_southern_women"),
    *("petersen", "dodecahedral", "icosahedral", "frucht", "tutte", "bull", "chvatal", "cubical"),
    *("desargues", "diamond", "heawood", "hoffman_singleton", "house", "house_x", "octahedral"),
    *("krackhardt_kite", "moebius_kantor", "pappus", "sedgewick_maze", "tetrahedral"),
    *("truncated_cube", "truncated_tetrahedron"),
)
ENDINGS = {
    "mtx": (".mtx", ".mm"),
    "graphml": (".graphml", ".xml"),
    "gml": (".gml",),
    "pajek": (".net", ".paj"),
    "metis": (".graph", ".metis"),
    "dimacs": (".dimacs", ".col", ".clq", ".gr"),
    "json": (".json",),
    "numpy": (".npy", ".npz"),
    "parquet": (".parquet", ".pq"),
    "rudy": (".mc", ".rudy"),
    "edges": (),
}
"""The formats, and how names of files end that say so; all others are told by their content."""
FORMATS = tuple(ENDINGS)
STARTS = {
    "parquet": rb"PAR1",
    "numpy": rb"\x93NUMPY|PK\x03\x04|PK\x05\x06",
    "mtx": rb"(?i)\s*%%matrixmarket",
    "graphml": rb"(?i)\s*<(\?xml|graphml)",
    "json": rb"\s*\{",
    "pajek": rb"(?i)(\s*%[^\n\r]*[\n\r])*\s*\*(vertices|network)\b",
    "gml": rb"(?i)(\s*(#|creator|version|comment)[^\n\r]*[\n\r])*\s*graph\s*\[",
    "dimacs": rb"(\s*c([ \t][^\n\r]*)?[\n\r])*\s*p[ \t]+[a-z]+[ \t]+[0-9]+[ \t]+[0-9]+",
}
"""Beginnings of contents by format."""
NAMED = ("graphml", "gml", "json", "parquet", "edges")
"""Formats in which attributes have names."""
READERS: dict[str, Callable[[str | Path, str, Asked], NamedGraph]] = {
    "mtx": read_matrix_market,
    "gml": read_gml,
    "pajek": read_pajek,
    "metis": read_metis,
    "dimacs": read_dimacs,
    "json": read_json,
}
"""Readers of formats whose text is enough."""


def read_graph(source: str | Path, **options: Any) -> sp.csr_array:
    """Read a graph as a symmetric adjacency matrix with zero diagonal.

    Parameters
    ----------
    source : str or Path
        A file, or, where none has that name, the name of a networkx graph such as `karate_club`.
    **options
        As for `read_named_graph`.

    Returns
    -------
    scipy.sparse.csr_array
        float64; edges of weight zero are left out.

    Examples
    --------
    >>> read_graph("karate_club").shape
    (34, 34)
    """
    return read_named_graph(source, **options).adjacency


def read_named_graph(
    source: str | Path,
    *,
    signed: bool = False,
    format: str | None = None,
    weight: str | int | None = USUAL,
    delimiter: str | None = None,
    repeats: str = "auto",
    undirected: bool = False,
    loops: str = "refuse",
) -> NamedGraph:
    """Read a graph with the names of its vertices.

    Files may be packed by gzip, bzip2 or xz. A list of edges has a line `u v` or `u v w` for each,
    separated by blanks, commas, tabs or semicolons. It may begin with a line of sizes `n m`
    (Gset, rudy, Biq Mac): then vertices are numbered from 1, and every one of them is there. Or it
    may begin with names of columns (`source,target,weight`). Else vertices are those named, whole
    numbers in their order, other names as they come. Behind `u v` there may be the dictionary that
    `networkx.write_edgelist` writes. Lines that begin with `#`, `%` or `//` are skipped,
    and what follows a `#` behind an edge in a list by blanks.

    Parameters
    ----------
    source : str or Path
        A file, or, where none has that name, the name of a networkx graph such as `karate_club`.
    signed : bool, default False
        Whether weights may be negative.
    format : str, optional
        `edges` (a list without a line of sizes), `rudy` (with one), `mtx`, `graphml`, `gml`,
        `json` (node-link), `pajek`, `metis`, `dimacs`, `numpy` (a matrix, edges as rows, or what
        `scipy.sparse.save_npz` wrote), `parquet` (a frame of edges). Default: by the end of the
        name, or else by the content.
    weight : str, int or None, default "weight"
        Attribute or column (in a list without names its number, from 1) that has the weight; None:
        every edge counts 1. One that no edge has is refused; where some edges have it the others
        count 1, with an `InputWarning`.
    delimiter : str, optional
        What separates the fields of a list of edges. Default: as in the first line.
    repeats : {"auto", "refuse", "sum", "once"}
        What an edge that stands again means, in the same or the other direction: weights are
        summed, or it is said twice, with the same weight. ``"auto"``: summed in GraphML and in
        files that declare a multigraph, refused in others.
    undirected : bool, default False
        Drop directions. Two arcs to and fro are then an edge that stands again.
    loops : {"refuse", "drop"}
        What to do with edges from a vertex to itself, which no cut has.

    Examples
    --------
    >>> read_named_graph("florentine_families").names[:2]
    ('Acciaiuoli', 'Medici')
    """
    asked = Asked(
        signed=signed,
        weight=weight,
        repeats=repeats,
        undirected=undirected,
        loops=loops,
        delimiter=delimiter,
    )
    if format is not None and format not in FORMATS:
        raise ProblemError(f"format is {format!r}: choose one of {', '.join(FORMATS)}")
    if Path(source).name == str(source) and not os.path.lexists(source):
        return _named(_built_in(str(source)), source, asked)
    data = read_bytes(source)
    form = format or _format(source, data)
    if form is not None and form not in NAMED and weight not in (USUAL, None):
        reason = f"weight is {weight!r}, but {form} has no names of weights: leave it out"
        raise InputError(source, reason)
    if form == "numpy":
        return read_numpy(source, data, asked)
    if form == "parquet":
        return _edges(read_parquet(source, data), source, asked)
    if form == "graphml":
        return _named(read_graphml(source, data), source, asked)
    text = decode(source, data, line=300, cell=450 if form in ("metis", "pajek") else 200)
    if form in READERS:
        return READERS[form](source, text, asked)
    return read_list(source, text, asked, form)


def _format(source: str | Path, data: bytes) -> str | None:
    """The format that the name of a file tells, or its content; None: a list of edges."""
    end = ending(source)
    for form, ends in ENDINGS.items():
        if end in ends:
            return form
    start = data.removeprefix(b"\xef\xbb\xbf")[: 1 << 16]
    return next((form for form, begins in STARTS.items() if re.match(begins, start)), None)


def _named(graph: Any, path: str | Path, asked: Asked) -> NamedGraph:
    names = tuple(graph)
    known = all(isinstance(name, str) for name in names)
    return NamedGraph(_of_networkx(graph, path, asked), names if known else None)


def graph_from_networkx(
    graph: Any,
    path: str | Path = "<networkx graph>",
    *,
    signed: bool = False,
    weight: str | None = USUAL,
) -> sp.csr_array:
    """Return the adjacency matrix of an undirected networkx graph, nodes in its own order.

    Parameters
    ----------
    graph : networkx.Graph
        Parallel edges are summed.
    path : str or Path, optional
        Name used in errors.
    signed : bool, default False
        Whether weights may be negative.
    weight : str or None, default "weight"
        Edge attribute that has the weight, as for `read_named_graph`.

    Returns
    -------
    scipy.sparse.csr_array
        As `read_graph` gives it.
    """
    return _of_networkx(graph, path, Asked(signed=signed, weight=weight))


def _of_networkx(graph: Any, path: str | Path, asked: Asked) -> sp.csr_array:
    if graph.is_directed():
        asked.no_directions(path, "the graph is directed")
    place = {node: k for k, node in enumerate(graph)}
    edges = Edges(path, asked, "sum")
    for u, v, attributes in graph.edges(data=True):
        edges.add(place[u], place[v], edges.weight_of(attributes), None, (u, v))
    return edges.graph(len(place)).adjacency


def graph_from_edges(
    frame: Any,
    path: str | Path = "<frame of edges>",
    *,
    signed: bool = False,
    weight: str | None = USUAL,
    repeats: str = "refuse",
    loops: str = "refuse",
) -> NamedGraph:
    """Return the graph of a frame with a row for each edge.

    Parameters
    ----------
    frame : pandas.DataFrame, polars.DataFrame or pyarrow.Table
        The columns of the two ends are called source and target, from and to, u and v or the like,
        or else are the first two.
    path : str or Path, optional
        Name used in errors.
    signed, weight, repeats, loops
        As for `read_named_graph`; `weight` is the name of a column.

    Returns
    -------
    NamedGraph
        Vertices that are whole numbers in their order, others as they come; their names are the
        values of the frame.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"from": ["a", "b", "c"], "to": ["b", "c", "a"], "weight": [1, 2, 3]})
    >>> graph_from_edges(frame).names
    ('a', 'b', 'c')
    """
    if not Frame.fits(frame):
        raise ProblemError(
            f"frame is a {type(frame).__name__}: pass a frame of pandas, Polars or Arrow"
        )
    asked = Asked(signed=signed, weight=weight, repeats=repeats, loops=loops)
    called: dict[str, Any] = {}
    adjacency, names = _edges(Frame(frame), path, asked, called)
    return NamedGraph(adjacency, tuple(called[name] for name in names or ()))


def check_weights(graph: Any, weight: str | None) -> None:
    """Refuse an attribute that no edge of a networkx graph has; warn where some have none."""
    if weight is not None:
        listed = list(graph.edges(data=True))
        bare = [(u, v) for u, v, data in listed if weight not in data]
        for u, v, data in listed:
            if weight in data and missing(data[weight]):
                reason = f"the edge {u} - {v} has the weight {data[weight]}: set it, or remove it"
                raise InputError("graph", reason)
            if rounded(data.get(weight)):
                reason = f"the edge {u} - {v} has the weight {show(str(data[weight]))}, {ROUNDED}"
                raise InputError("graph", reason)
        if weight == USUAL and len(bare) == len(listed):
            _no_other(listed)
        first = f"{bare[0][0]} - {bare[0][1]}" if bare else ""
        count = graph.number_of_edges()
        say_weights("graph", weight, count - len(bare), len(bare), first)


def _no_other(edges: list[Any]) -> None:
    """Refuse edges whose only number is not called a weight, and is not 1 throughout."""
    found: dict[str, set[float]] = {}
    for _, _, data in edges:
        for name, value in data.items():
            if isinstance(value, (int, float, np.number)) and name not in NO_WEIGHT:
                found.setdefault(name, set()).add(float(value))
    if len(found) == 1 and (name := next(iter(found))) and found[name] != {1.0}:
        reason = f"no edge has a {USUAL!r}, but a {name!r}: pass weight={name!r}"
        raise InputError("graph", f"{reason}, or weight=None to count edges")


def _edges(
    frame: Frame, path: str | Path, asked: Asked, called: dict[str, Any] | None = None
) -> NamedGraph:
    """The graph of a frame; `called` gets what stands there for each name."""
    columns = columns_of(path, frame.names, asked)
    ends = [frame.values(k) for k in columns.ends]
    weights: list[Any] = [None] * frame.shape[0]
    if columns.weight is not None:
        weights = frame.column(columns.weight).tolist()
    edges, names = Edges(path, asked), Names()
    for row, (u, v, weight) in enumerate(zip(*ends, weights, strict=True), 1):
        if u is None or v is None:
            raise InputError(path, f"an end of the edge in row {row} is missing")
        pair = name_of(u), name_of(v)
        if called is not None:
            called |= {pair[0]: u, pair[1]: v}
        edges.add(names(pair[0]), names(pair[1]), None if missing(weight) else weight, None, pair)
    return numbered(edges, names, plain=called is None)


def _built_in(name: str) -> Any:
    known = name.removesuffix("_graph")
    if known not in _BUILT_IN:
        names = ", ".join(_BUILT_IN[:5])
        raise InputError(name, f"neither a file nor a known graph (such as {names})")
    return getattr(import_networkx(name), known + "_graph")()
