"""Graphs in formats with attributes: GML, JSON (node-link) and GraphML."""

from __future__ import annotations

import html
import json
import re
import warnings
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import ParseError, fromstring

from condgrad.errors import InputError
from condgrad.io._text import require_memory, show
from condgrad.io.edges import Asked, Edges, NamedGraph

TOKEN = re.compile(
    r'[ \t\r]+|#[^\n]*|(?P<line>\n)|(?P<text>"[^"]*")|(?P<mark>[\[\]])|(?P<word>[^\s\[\]"]+)'
)
DEEPEST = 50
"""Greatest depth of lists in GML."""
Part = tuple[str, Any, int]
"""A key of GML, its value (a list for one in brackets) and its line."""


def import_networkx(path: str | Path) -> Any:
    """The package networkx; `InputError` names what needs it."""
    try:
        import networkx
    except ImportError as exc:
        raise InputError(path, "this needs networkx: install condgrad[graphs]") from exc
    return networkx


def read_gml(path: str | Path, text: str, asked: Asked) -> NamedGraph:
    """GML, as networkx, igraph and Gephi write it; the label of a node is its name."""
    graphs = [(part, line) for key, part, line in _gml(path, text) if key == "graph"]
    if len(graphs) != 1 or not isinstance(graphs[0][0], list):
        raise InputError(path, f"expected one 'graph [ … ]', found {len(graphs)}")
    parts, top = graphs[0]
    flags = {key: value for key, value, _ in parts if not isinstance(value, list)}
    if str(flags.get("directed", 0)) == "1":
        asked.no_directions(path, "the graph is directed", top)
    place: dict[str, int] = {}
    names: list[str] = []
    for key, value, line in parts:
        if key == "node":
            node = _flat(path, value, line, "node", "id")
            if node["id"] in place:
                raise InputError(path, f"node {show(node['id'])} stands twice", line)
            place[node["id"]] = len(place)
            names.append(html.unescape(node.get("label", node["id"])))
    edges = Edges(path, asked, "sum" if str(flags.get("multigraph", 0)) == "1" else "refuse")
    for key, value, line in parts:
        if key == "edge":
            edge = _flat(path, value, line, "edge", "source", "target")
            ends = edge["source"], edge["target"]
            for end in ends:
                if end not in place:
                    raise InputError(path, f"an edge ends at {show(end)}, which is no node", line)
            i, j = place[ends[0]], place[ends[1]]
            edges.add(i, j, edges.weight_of(edge), line, (names[i], names[j]))
    return edges.graph(len(names), names)


def _flat(path: str | Path, value: Any, line: int, kind: str, *needed: str) -> dict[str, str]:
    """The plain attributes of a node or an edge."""
    if not isinstance(value, list):
        raise InputError(path, f"expected '{kind} [ … ]', found {show(str(value))}", line)
    found = {key: part for key, part, _ in value if isinstance(part, str)}
    for name in needed:
        if name not in found:
            raise InputError(path, f"the {kind} has no {name!r}", line)
    return found


def _gml(path: str | Path, text: str) -> list[Part]:
    """The file as keys with values, those in brackets as lists."""
    stack: list[tuple[list[Part], int]] = [([], 0)]
    key, line = None, 1
    for kind, token, line in _tokens(path, text):
        if kind == "mark" and token == "]":
            if key is not None or len(stack) == 1:
                raise InputError(path, "expected a key or a value, found ']'", line)
            stack.pop()
        elif key is None:
            if kind != "word" or not re.fullmatch("[A-Za-z_][A-Za-z0-9_.]*", token):
                raise InputError(path, f"expected a key, found {show(token)}", line)
            key = token
        elif token == "[" and kind == "mark":
            if len(stack) > DEEPEST:
                raise InputError(path, f"brackets lie more than {DEEPEST} deep", line)
            inner: list[Part] = []
            stack[-1][0].append((key, inner, line))
            stack.append((inner, line))
            key = None
        else:
            stack[-1][0].append((key, token[1:-1] if kind == "text" else token, line))
            key = None
    if key is not None:
        raise InputError(path, f"{show(key)} has no value, the file ends", line)
    if len(stack) > 1:
        raise InputError(path, "a bracket [ is not closed", stack[-1][1])
    return stack[0][0]


def _tokens(path: str | Path, text: str) -> Iterator[tuple[str, str, int]]:
    at, line = 0, 1
    while at < len(text):
        found = TOKEN.match(text, at)
        if found is None:
            raise InputError(path, "a quotation mark is not closed", line)
        if found.lastgroup not in (None, "line"):
            yield str(found.lastgroup), found.group(), line
        line += found.group().count("\n")
        at = found.end()


def read_json(path: str | Path, text: str, asked: Asked) -> NamedGraph:
    """JSON with `nodes` and `edges` (or `links`), as `networkx.node_link_data` gives it."""
    try:
        given = json.loads(text)
    except json.JSONDecodeError as exc:
        raise InputError(path, f"not JSON: {exc.msg}", exc.lineno) from exc
    except (ValueError, RecursionError, MemoryError) as exc:
        raise InputError(path, f"not JSON that can be read: {exc}") from exc
    wanted = "expected 'nodes' and 'edges' (or 'links'), as networkx.node_link_data gives them"
    if not isinstance(given, dict):
        raise InputError(path, f"{wanted}, found a {type(given).__name__}")
    nodes, links = given.get("nodes"), given.get("edges", given.get("links"))
    if not isinstance(nodes, list) or not isinstance(links, list):
        raise InputError(path, f"{wanted}, found {show(', '.join(given)) if given else 'nothing'}")
    if given.get("directed") is True:
        asked.no_directions(path, "the graph is directed")
    place: dict[str, int] = {}
    for k, node in enumerate(nodes, 1):
        name = _key(node.get("id", node.get("name")) if isinstance(node, dict) else node)
        if name is None or name in place:
            fault = "has no id" if name is None else "stands twice"
            raise InputError(path, f"node number {k} {fault}: {show(str(node))}")
        place[name] = len(place)
    edges = Edges(path, asked, "sum" if given.get("multigraph") is True else "refuse")
    for k, link in enumerate(links, 1):
        ends = [_key(link.get(s)) for s in ("source", "target")] if isinstance(link, dict) else []
        if len(ends) != 2 or None in ends:
            reason = f"edge number {k} has no source and target: {show(str(link))}"
            raise InputError(path, reason)
        for end in ends:
            if end not in place:
                raise InputError(
                    path, f"edge number {k} ends at {show(str(end))}, which is no node"
                )
        i, j = (place[str(end)] for end in ends)
        edges.add(i, j, edges.weight_of(link), None, tuple(ends))
    return edges.graph(len(place), list(place))


def _key(value: Any) -> str | None:
    """The name of a node; lists are the tuples of networkx."""
    if value is None or isinstance(value, dict):
        return None
    return str(value)


def read_graphml(path: str | Path, data: bytes) -> Any:
    """The networkx graph of a GraphML file."""
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
