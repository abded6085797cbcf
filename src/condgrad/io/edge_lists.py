"""Lists of edges as text: with or without a line of sizes or of names, by any separator."""

from __future__ import annotations

import ast
import math
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from condgrad.errors import InputError
from condgrad.io._text import data_lines, integer, number, show, split
from condgrad.io.edges import NO_WEIGHT, USUAL, Asked, Edges, NamedGraph, Names, check_order
from condgrad.io.matrices import from_array
from condgrad.io.roles import WHOLE, in_order

ENDS = (
    (
        *("source", "src", "from", "fromnode", "u", "i", "start", "tail"),
        *("node1", "vertex1", "id1"),
    ),
    (
        *("target", "tgt", "dst", "dest", "destination", "to", "tonode", "v", "j", "end", "head"),
        *("node2", "vertex2", "id2"),
    ),
)
"""Names of the columns of the two ends, without ``id``, ``_`` and the like."""
WEIGHTS = (USUAL, "weights", "w")
"""Names of the column of weights."""
MARKS = ("\t", ";", ",")
"""Separators, one before those that may stand in its fields: 2,5 may be a number."""
COMMA = re.compile(r"\S\s+[+-]?[0-9]+,[0-9]+\s*$")
"""The end of a line of blanks with a decimal comma."""
LONGEST = 10_000
"""Letters of a dictionary at the end of a line."""
PLAIN = "format='edges' (--format edges)"
SIZES = f"if it is an edge pass {PLAIN}"
LONGEST_NAME = 256


class Row(NamedTuple):
    """A line: its number, its fields, and the dictionary that networkx puts behind them."""

    line: int
    fields: list[str]
    attributes: Mapping[Any, Any] | None = None


def read_list(path: str | Path, text: str, asked: Asked, form: str | None = None) -> NamedGraph:
    """Read a list of edges.

    Parameters
    ----------
    path, text : str
        The file and its content.
    asked : Asked
        What to do with weights, repeats, loops.
    form : {"edges", "rudy"}, optional
        Without a line of sizes, or with one; None: as it looks.
    """
    rows = list(_rows(path, text, asked.delimiter))
    if not rows:
        raise InputError(path, "expected lines 'u v' or 'u v w', the file has none")
    first = rows[0]
    sizes = len(first.fields) == 2 and all(map(WHOLE.fullmatch, first.fields))
    if form == "rudy":
        return _rudy(path, rows, asked)
    if form is None and sizes and _sized(path, rows):
        try:
            return _rudy(path, rows, asked)
        except InputError as error:
            if all(len(row.fields) == 3 for row in rows[1:]):
                raise
            first_line = show(" ".join(first.fields))
            hint = f"if {first_line} is an edge, not sizes 'n m', pass {PLAIN}"
            raise InputError(path, f"{error.reason}; {hint}", error.line) from None
    if form is None and _square(rows):
        return _square_table(path, rows, asked)
    if form is None and (names := _matrix_names(rows)) is not None:
        body = [Row(line, fields[1:]) for line, fields, _ in rows[1:]]
        return _square_table(path, body, asked)._replace(names=names)
    if form is None and _counted(rows):
        reason = f"{show(' '.join(first.fields))} may be the numbers of columns: remove the line"
        raise InputError(path, f"{reason}, or {SIZES}", first.line)
    return _named(path, rows, asked)


def _rows(path: str | Path, text: str, delimiter: str | None) -> Iterator[Row]:
    mark = delimiter
    for line, content in data_lines(text, ("#", "%", "//")):
        attributes = None
        if content.rstrip().endswith("}") and (at := content.find("{")) > 0:
            attributes = _dictionary(path, line, content[at:].strip())
            content = content[:at].rstrip()
            content = content[:-1] if content.endswith((*MARKS, delimiter or ",")) else content
        if mark is None:
            mark = next((m for m in MARKS if m in content), " ")
            if mark == "," and content.count(",") == 1 and COMMA.search(content):
                _refuse_comma(path, line, content)
        fields = _fields(path, line, content, mark, delimiter is not None)
        if mark == " ":  # a remark behind an edge
            fields = fields[
                : next((k for k, f in enumerate(fields) if k > 1 and f[0] == "#"), None)
            ]
        yield Row(line, fields, attributes)


def _refuse_comma(path: str | Path, line: int, content: str) -> None:
    """Refuse a comma that stands in a number or between two fields."""
    reason = f"the comma in {show(content.strip())} may be in a number: write a point for it"
    remedy = "or pass delimiter=',' (--delimiter ,) if it separates"
    raise InputError(path, f"{reason}, {remedy}", line)


def _fields(path: str | Path, line: int, content: str, mark: str, told: bool) -> list[str]:
    """The fields of a line; one without the separator of the first may have another."""
    if mark.isspace() and mark != "\t":
        return content.split() if told else content.replace(",", " ").split()
    if mark not in content and not told:
        return content.replace(",", " ").split()
    return split(path, line, content, mark)


def _dictionary(path: str | Path, line: int, text: str) -> Mapping[Any, Any]:
    """Attributes of an edge as `networkx.write_edgelist` wrote them."""
    plain = re.sub(r"np\.(?:float|int|str_|bool)[0-9_]*\(([^()]*)\)", r"\1", text[:LONGEST])
    found: Any = None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = ast.literal_eval(plain)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        pass
    if not isinstance(found, dict):
        wanted = "expected a dictionary of attributes such as {'weight': 2.0}"
        raise InputError(path, f"{wanted}, found {show(text)}", line)
    return found


def _sized(path: str | Path, rows: Sequence[Row]) -> bool:
    """Whether the first line, two whole numbers, says how many vertices and edges there are.

    It does where the others fit, or most of them do. Where all could be vertices of that graph,
    only not so many, the file may be cut off or may have no such line: it is refused.
    """
    n, m = (int(field) for field in rows[0].fields)
    rest = rows[1:]
    if not rest or n < 0 or m < 0 or all(len(row.fields) == 3 for row in rest):
        return True
    ends = [field for row in rest for field in row.fields[:2]]
    inside = sum(1 for end in ends if WHOLE.fullmatch(end) and 0 <= int(end) <= n)
    if inside == len(ends) and len(rest) != m:
        reason = f"as sizes 'n m' it says {show(str(m))[1:-1]} edges, found {len(rest)}"
        raise InputError(path, f"{reason}; {SIZES}", rows[0].line)
    return len(rest) == m and (inside == len(ends) or (n >= 3 and 2 * inside >= len(ends)))


def _rudy(path: str | Path, rows: Sequence[Row], asked: Asked) -> NamedGraph:
    """A line `n m`, then m lines `u v [w]`, vertices from 1: Gset, rudy and Biq Mac."""
    top, sizes, _ = rows[0]
    if len(sizes) != 2:
        reason = f"expected sizes 'n m' (vertices, edges) first, found {len(sizes)} fields"
        raise InputError(path, reason, top)
    n, m = (integer(path, top, k, s, 0, math.inf) for k, s in zip("nm", sizes, strict=True))
    check_order(path, n, top)
    edges, rest = Edges(path, asked), rows[1:]
    for line, fields, attributes in rest:
        if len(fields) not in (2, 3):
            reason = f"expected 'u v' or 'u v w', found {len(fields)} fields"
            raise InputError(path, reason, line)
        if "0" in fields[:2]:
            reason = "after sizes 'n m' vertices are numbered from 1, found 0"
            raise InputError(path, reason, line)
        u, v = (integer(path, line, k, s, 1, n) for k, s in zip("uv", fields, strict=False))
        weight = fields[2] if len(fields) == 3 else edges.weight_of(attributes or {})
        edges.add(u - 1, v - 1, weight, line)
    if len(rest) != m:
        reason = f"{show(str(m))[1:-1]} edges expected, found {len(rest)}"
        raise InputError(path, reason, top)
    return edges.graph(n)


def _square(rows: Sequence[Row]) -> bool:
    """Whether the lines are those of a matrix."""
    n = len(rows)
    return n > 3 and all(
        len(r.fields) == n and all(number(f) is not None for f in r.fields) for r in rows
    )


def _matrix_names(rows: Sequence[Row]) -> tuple[str, ...] | None:
    """The names of a matrix whose rows are called as its columns, or None."""
    names = tuple(rows[0].fields[1:])
    if len(names) < 3 or len(rows) != len(names) + 1 or len(set(names)) < len(names):
        return None
    same = all(row.fields[:1] == [name] for row, name in zip(rows[1:], names, strict=True))
    return names if same and all(len(row.fields) == len(rows) for row in rows) else None


def _counted(rows: Sequence[Row]) -> bool:
    """Whether the first line is 0, 1, … as pandas numbers columns, and not like the other lines.

    It is not where they have names, or weights with a point and no vertex 0.
    """
    first, rest = rows[0].fields, [row.fields for row in rows[1:] if len(row.fields) > 1]
    if not rest or first not in (["0", "1"], ["0", "1", "2"]):
        return False
    ends = [field for fields in rest for field in fields[:2]]
    pointed = len(first) == 3 and all("." in fields[-1] for fields in rest) and "0" not in ends
    return pointed or not any(map(WHOLE.fullmatch, ends))


def _square_table(path: str | Path, rows: Sequence[Row], asked: Asked) -> NamedGraph:
    table = [[number(field) for field in row.fields] for row in rows]
    for row, numbers in zip(rows, table, strict=True):
        if None in numbers:
            reason = f"{show(row.fields[numbers.index(None)])} in a matrix is not a number"
            raise InputError(path, reason, row.line)
    return from_array(path, np.array(table, dtype=np.float64), asked)


class Columns(NamedTuple):
    """Columns of a list; `weight` is None if all edges count 1."""

    ends: tuple[int, int]
    weight: int | None


def _named(path: str | Path, rows: Sequence[Row], asked: Asked) -> NamedGraph:
    """Edges of vertices with names, or with numbers as they stand."""
    head = rows[0].fields if _is_header(rows) else None
    body = rows[1:] if head is not None else rows
    if not body:
        raise InputError(path, "no edges after the names of the columns", rows[0].line)
    if head is not None:
        columns = columns_of(path, head, asked, rows[0].line)
    else:
        weight = asked.weight
        told = isinstance(weight, int) or (isinstance(weight, str) and weight.isdecimal())
        columns = Columns((0, 1), int(weight or 0) - 1 if told else 2 if weight == USUAL else None)
    kind = next((k for k, name in enumerate(head or ()) if bare(name) == "type"), None)
    edges, names = Edges(path, asked), Names()
    guessed = head is None and asked.weight == USUAL
    for line, fields, attributes in body:
        if head is not None and len(fields) != len(head):
            reason = f"{len(head)} columns expected, found {len(fields)}"
            raise InputError(path, reason, line)
        if len(fields) <= max(columns.ends) or (guessed and len(fields) > 3):
            raise _unclear(path, line, fields)
        if attributes is not None and len(fields) != 2:
            reason = f"expected 'u v' before the dictionary, found {len(fields)} fields"
            raise InputError(path, f"{reason}: names with blanks need another delimiter", line)
        if kind is not None and fields[kind].lower() == "directed":
            asked.no_directions(path, f"the type is {show(fields[kind])}", line)
        u, v = (_vertex(path, line, fields[k]) for k in columns.ends)
        weight = None
        if attributes is not None:
            weight = edges.weight_of(attributes)
        elif columns.weight is not None and len(fields) > columns.weight:
            weight = fields[columns.weight] or None
        edges.add(names(u), names(v), weight, line, (u, v))
    return numbered(edges, names)


def _vertex(path: str | Path, line: int, name: str) -> str:
    """The name of a vertex, checked; 3.0 is 3."""
    if not 0 < len(name) <= LONGEST_NAME:
        fault = f"longer than {LONGEST_NAME} characters" if name else "empty"
        raise InputError(path, f"the name of a vertex is {fault}", line)
    if re.fullmatch("[+-]?[0-9]*[.][0-9]*", name) and name.strip("+-."):
        whole, _, rest = name.partition(".")
        if rest.strip("0") or not whole.strip("+-"):
            reason = f"the vertex {show(name)} is a fraction: expected a name or a whole number"
            raise InputError(path, reason, line)
        return whole
    return name


def _unclear(path: str | Path, line: int, fields: Sequence[str]) -> InputError:
    reason = f"expected 'u v' or 'u v w', found {len(fields)} field{'s' * (len(fields) != 1)}"
    if len(fields) > 3:
        reason += (
            ": say which column is the weight, as weight=3 (--weight 3), or count edges by "
            "weight=None (--unweighted); in a METIS file pass format='metis' (--format metis)"
        )
    if len(fields) == 1:
        reason += f", {show(fields[0])}: tell another separator by delimiter= (--delimiter)"
    return InputError(path, reason, line)


def numbered(edges: Edges, names: Names, plain: bool = True) -> NamedGraph:
    """The graph of vertices with names, whole numbers in their order.

    With `plain` the names 1 … n are none.
    """
    known = list(names.at)
    graph = edges.graph(len(known), known)
    if not all(map(WHOLE.fullmatch, known)):
        return graph
    order = in_order(known)
    plain = plain and all(known[k] == str(i) for i, k in enumerate(order, start=1))
    sorted_names = None if plain else tuple(known[k] for k in order)
    return NamedGraph(graph.adjacency[order][:, order], sorted_names)


def _is_header(rows: Sequence[Row]) -> bool:
    """Whether the first line names the columns."""
    head, rest = rows[0].fields, [row.fields for row in rows[1:1001]]
    if len(head) < 2 or rows[0].attributes is not None or not any(head):
        return False
    if any(field and number(field) is not None for field in head):
        return False
    if all(any(bare(field) in side for field in head) for side in ENDS) or not all(head):
        return True
    if not rest or any(len(fields) != len(head) for fields in rest):
        return False
    whole = all(WHOLE.fullmatch(field) for fields in rest for field in fields[:2])
    rated = len(head) > 2 and all(number(fields[2]) is not None for fields in rest)
    return whole or rated


def bare(name: Any) -> str:
    """The name of a column without what varies.

    Examples
    --------
    >>> bare("Source_ID"), bare("node 1"), bare("id1")
    ('source', 'node1', 'id1')
    """
    short = re.sub("[^a-z0-9]", "", str(name).lower())
    return short.removesuffix("id") or short


def columns_of(
    path: str | Path, head: Sequence[Any], asked: Asked, line: int | None = None
) -> Columns:
    """Which columns are the two ends of an edge and its weight."""
    names = [bare(name) for name in head]
    sides = [[k for k, name in enumerate(names) if name in side] for side in ENDS]
    rest = [k for k, name in enumerate(head) if str(name).strip()]
    if all(len(side) == 1 for side in sides):
        ends = sides[0][0], sides[1][0]
    elif len(rest) >= 2:
        ends = rest[0], rest[1]
    else:
        raise InputError(path, "expected two columns for the ends of edges", line)
    others = [k for k in rest if k not in ends]
    shown = ", ".join(show(str(head[k])) for k in others)
    if asked.weight is None:
        return Columns(ends, None)
    same = [k for k in others if str(head[k]) == str(asked.weight)]
    if asked.weight == USUAL:
        same = same or [k for k in others if names[k] in WEIGHTS]
    if len(same) == 1:
        return Columns(ends, same[0])
    if asked.weight != USUAL:
        reason = f"weight is {asked.weight!r}, but the other columns are {shown or 'none'}"
        raise InputError(path, f"{reason}: name one of them, or count edges by weight=None", line)
    if any(names[k] not in NO_WEIGHT for k in others):
        reason = f"columns {shown} beside the ends: say which is the weight by weight= (--weight)"
        raise InputError(path, f"{reason}, or count edges by weight=None (--unweighted)", line)
    return Columns(ends, None)
