"""Graphs in the text formats METIS, DIMACS and Pajek."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from condgrad.errors import InputError
from condgrad.io._text import data_lines, integer, number, show
from condgrad.io.edges import Asked, Edges, NamedGraph, check_order
from condgrad.io.matrices import from_array

Lines = Iterator[tuple[int, str]]


def read_metis(path: str | Path, text: str, asked: Asked) -> NamedGraph:
    """METIS: sizes `n m [fmt [ncon]]`, then a line for each vertex with its neighbours, from 1.

    Every edge stands at both ends; weights of vertices are left out.
    """
    lines = [
        (k, line)
        for k, line in enumerate(text.removesuffix("\n").split("\n"), 1)
        if not line.lstrip().startswith("%")
    ]
    while lines and not lines[0][1].strip():
        del lines[0]
    top, head = lines[0] if lines else (1, "")
    sizes = head.split()
    if not 2 <= len(sizes) <= 4:
        reason = f"expected sizes 'n m [fmt [ncon]]' of METIS, found {show(head)}"
        raise InputError(path, reason, top)
    n, m = (integer(path, top, k, s, 0, math.inf) for k, s in zip("nm", sizes, strict=False))
    code = sizes[2] if len(sizes) > 2 else "0"
    if not re.fullmatch("[01]{1,3}", code):
        reason = f"fmt = {show(code)}: expected up to three digits 0 or 1"
        raise InputError(path, reason, top)
    sized, weighted_vertices, weighted = (digit == "1" for digit in code.zfill(3))
    several = integer(path, top, "ncon", sizes[3], 1, 1000) if len(sizes) > 3 else 1
    skipped = int(sized) + (several if weighted_vertices else 0)
    check_order(path, n, top)
    body = lines[1 : n + 1]
    if len(body) < n or any(line.strip() for _, line in lines[n + 1 :]):
        rest = sum(1 for _, line in lines[1:] if line.strip())
        raise InputError(path, f"expected a line for each of {n} vertices, found {rest}", top)
    edges = Edges(path, asked)
    mirrored: dict[tuple[int, int], tuple[int, float | None]] = {}
    for i, (line, content) in enumerate(body):
        fields, step = content.split()[skipped:], 2 if weighted else 1
        if len(fields) % step:
            raise InputError(path, "expected pairs of neighbour and weight, one is cut off", line)
        for at in range(0, len(fields), step):
            j = integer(path, line, "neighbour", fields[at], 1, n) - 1
            weight = fields[at + 1] if weighted else None
            if i <= j:
                edges.add(i, j, weight, line)
            mirrored[i, j] = line, None if weight is None else number(weight)
    for (i, j), (line, found) in mirrored.items():
        if (j, i) not in mirrored or mirrored[j, i][1] != found:
            reason = f"vertex {j + 1} is a neighbour of {i + 1}, but not with the same weight"
            raise InputError(path, f"{reason} the other way round", line)
    if len(edges) != m and asked.loops == "refuse":
        raise InputError(path, f"{show(str(m))[1:-1]} edges expected, found {len(edges)}", top)
    return edges.graph(n)


def read_dimacs(path: str | Path, text: str, asked: Asked) -> NamedGraph:
    """DIMACS: `p edge n m`, then `e u v [w]`; `a u v w` are arcs. `p tw n m`, then `u v`."""
    edges: Edges | None = None
    n = m = top = count = 0
    for line, content in data_lines(text, ("#",)):
        fields = content.split()
        kind = fields[0]
        if kind == "c":
            continue
        if kind == "p":
            if edges is not None or len(fields) != 4:
                reason = f"expected one line 'p edge n m', found {show(content)}"
                raise InputError(path, reason, line)
            n, m = (
                integer(path, line, k, s, 0, math.inf)
                for k, s in zip("nm", fields[2:4], strict=True)
            )
            check_order(path, n, line)
            edges, top = Edges(path, asked), line
            continue
        if edges is None:
            raise InputError(path, f"expected 'p edge n m' first, found {show(content)}", line)
        if kind in ("n", "v", "d", "x"):  # weights and places of vertices
            continue
        if kind == "a":
            asked.no_directions(path, "'a' is an arc", line)
        ends = fields[1:] if kind in ("e", "a") else fields
        if kind not in ("e", "a") and not kind.isdecimal():
            raise InputError(path, f"expected 'e u v' or 'e u v w', found {show(content)}", line)
        if len(ends) not in (2, 3):
            raise InputError(path, f"expected 'e u v' or 'e u v w', found {show(content)}", line)
        u, v = (integer(path, line, k, s, 1, n) for k, s in zip("uv", ends, strict=False))
        edges.add(u - 1, v - 1, ends[2] if len(ends) == 3 else None, line)
        count += 1
    if edges is None:
        raise InputError(path, "expected 'p edge n m', the file has no such line")
    if count not in (m, 2 * m) and len(edges) != m:
        raise InputError(path, f"{show(str(m))[1:-1]} edges expected, found {count}", top)
    return edges.graph(n)


def _words(path: str | Path, line: int, content: str) -> list[str]:
    """The words of a line, those in quotation marks as one."""
    if content.count('"') % 2:
        raise InputError(path, "a quotation mark is missing", line)
    found = re.findall(r'"([^"]*)"|(\S+)', content)
    return [quoted or plain for quoted, plain in found]


def read_pajek(path: str | Path, text: str, asked: Asked) -> NamedGraph:
    """Pajek: `*Vertices n` with names, then `*Edges`, `*Arcs`, `*Edgeslist`, or `*Matrix`."""
    section, n, top = "", -1, 0
    names: dict[int, str] = {}
    edges = Edges(path, asked)
    table: list[list[float]] = []
    for line, content in data_lines(text, ("%",)):
        words = _words(path, line, content)
        if content.lstrip().startswith("*"):
            section = words[0].lower()
            if section == "*vertices":
                if n >= 0:
                    raise InputError(path, "expected one network, *Vertices stands again", line)
                given = words[1] if len(words) > 1 else ""
                n, top = integer(path, line, "n", given, 0, math.inf), line
                check_order(path, n, line)
            elif section in ("*arcs", "*arcslist"):
                asked.no_directions(path, f"{words[0]} are directed", line)
            elif section not in ("*edges", "*edgeslist", "*matrix", "*network"):
                reason = f"expected *Vertices, *Edges, *Arcs or *Matrix, found {show(words[0])}"
                raise InputError(path, reason, line)
            continue
        if n < 0:
            raise InputError(path, f"expected '*Vertices n' first, found {show(content)}", line)
        if section == "*vertices":
            k = integer(path, line, "vertex", words[0], 1, n)
            if k in names:
                raise InputError(path, f"vertex {k} stands twice", line)
            names[k] = words[1] if len(words) > 1 else words[0]
        elif section == "*matrix":
            table.append(_numbers(path, line, words, n))
        elif section in ("*edgeslist", "*arcslist"):
            first, *rest = (integer(path, line, "vertex", w, 1, n) - 1 for w in words)
            for other in rest:
                edges.add(first, other, None, line)
        elif section in ("*edges", "*arcs"):
            if len(words) < 2:
                raise InputError(path, "expected 'u v' or 'u v w', found 1 field", line)
            u, v = (integer(path, line, k, s, 1, n) for k, s in zip("uv", words, strict=False))
            weight = words[2] if len(words) > 2 and number(words[2]) is not None else None
            edges.add(u - 1, v - 1, weight, line)
    if n < 0:
        raise InputError(path, "expected '*Vertices n', the file has no such line")
    known = [names.get(k, str(k)) for k in range(1, n + 1)] if names else None
    if not table:
        return edges.graph(n, known, top)
    if len(edges) or len(table) != n:
        raise InputError(path, f"expected a *Matrix of {n} rows alone, found {len(table)}", top)
    return from_array(path, np.array(table), asked)._replace(names=tuple(known) if known else None)


def _numbers(path: str | Path, line: int, words: Sequence[str], n: int) -> list[float]:
    if len(words) != n:
        raise InputError(path, f"expected {n} numbers of a row, found {len(words)}", line)
    found = []
    for word in words:
        value = number(word)
        if value is None:
            raise InputError(path, f"{show(word)} is not a number", line)
        found.append(value)
    return found
