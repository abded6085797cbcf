"""Semidefinite programs in the SDPA sparse format, the format of SDPLIB: `.dat-s` files.

The format is described by Borchers, *SDPLIB 1.2, a library of semidefinite programming test
problems*, Optimization Methods and Software 11 (1999), and in the user's manual of SDPA.
"""

from __future__ import annotations

import gzip
import math
import operator
import re
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np

from condgrad._check import floats
from condgrad._files import replaced
from condgrad._types import Array
from condgrad.errors import InputError, ProblemError
from condgrad.io._text import decode, read_bytes, show

Lines = Iterator[tuple[int, str]]
_MOST = 10**8
_GAPS = " \t,(){}"
_TOKEN = re.compile(rf"[^{_GAPS}]+")
_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eEdD][+-]?[0-9]+)?")
_LEADING = re.compile(rf"[{_GAPS}]*({_NUMBER.pattern})(?![\w.+-])")
_REMARK = re.compile(r"\W*(?:\Z|[^\W\d])")
_PLAIN = bytes.maketrans(b"\t,(){}Dd", b"      ee")
_ENTRY = np.dtype("i8,i8,i8,i8,f8")


@dataclass(frozen=True, eq=False)
class Sdpa:
    """min Σ c_i x_i over Σ F_i x_i − F_0 ⪰ 0, and its dual max ⟨F_0, Y⟩ over ⟨F_i, Y⟩ = c_i, Y ⪰ 0.

    Entry k says that F_`matrix[k]` has `value[k]` in its block `block[k]` at (`row[k]`, `col[k]`)
    and at the mirrored place; what has no entry is zero.

    Parameters
    ----------
    c : ndarray of float64, (m,)
        Costs of the primal, right-hand sides of the dual.
    blocks : tuple of int
        Sides of the diagonal blocks, negative where the block is itself diagonal.
    matrix, block, row, col : ndarray of int64
        0..m, then block, row and column counted from 0, with row <= col.
    value : ndarray of float64
        Finite.
    comment : str, optional
        Lines of text at the head of the file, without their marks.
    """

    c: Array
    blocks: tuple[int, ...]
    matrix: Array
    block: Array
    row: Array
    col: Array
    value: Array
    comment: str = ""


def read_sdpa(path: str | Path) -> Sdpa:
    """Read a semidefinite program in the SDPA sparse format, gzipped or not.

    The file has comment lines that begin with `"` or `*`, a line with m, one with the number of
    blocks and one with their sizes (each may end in a remark that does not begin with a number),
    then the m numbers of c, over one line or several, and a line `matrix block i j value` for each
    entry, counted from 1 but for the matrix F_0. Commas, parentheses and braces count as blanks,
    and exponents may be Fortran's (`1.0D+00`). An entry below the diagonal is mirrored, a zero is
    left out.

    Nothing is guessed: an entry that stands twice, be it in both triangles, is refused, because
    other readers add the two, keep the last or keep the first.

    Parameters
    ----------
    path : str or Path
        The file.

    Returns
    -------
    Sdpa
        Entries in the order of the file.
    """
    stream = StringIO(decode(path, read_bytes(path), line=230))
    lines = enumerate(stream, start=1)
    filled = ((line, content) for line, content in lines if content.strip(_GAPS + "\n"))
    comment, m, blocks = _head(path, filled)
    c, line, tail = _costs(path, filled, m)
    table = _entries(path, stream.read(), line, m, blocks)
    table = table[table[:, 4] != 0]
    if not len(table):
        raise InputError(path, "no entry other than zero after c; is the file truncated?")
    if tail == 5 < m and table[:, 0].max() < m:
        reason = f"F_{m} has no entry, and this last line of c looks like one: is m too large? "
        raise InputError(path, reason + "If not, put c on one line", line)
    matrix, block, i, j = table[:, :4].astype(np.int64).T.copy()
    ends = np.minimum(i, j) - 1, np.maximum(i, j) - 1
    return Sdpa(c, blocks, matrix, block - 1, *ends, table[:, 4].copy(), comment)


def write_sdpa(path: str | Path, data: Sdpa) -> None:
    """Write a semidefinite program in the SDPA sparse format, gzipped where the name ends in `.gz`.

    Floats are written with the fewest digits that read back as the same float. A file that stood
    at `path` is replaced only when the new one is complete.

    Parameters
    ----------
    path : str or Path
        The file.
    data : Sdpa
        The program.
    """
    if not isinstance(data, Sdpa):
        remedy = "pass sdp.to_sdpa()" if hasattr(data, "to_sdpa") else "pass an Sdpa"
        raise ProblemError(f"data is a {type(data).__name__}: {remedy}")
    text = _format(data)
    try:
        content = text.encode()
    except UnicodeEncodeError as exc:
        raise ProblemError(f"comment cannot be written in UTF-8: {exc.reason}") from exc
    if str(path).endswith(".gz"):
        content = gzip.compress(content, compresslevel=6, mtime=0)
    try:
        with replaced(path) as file:
            file.write(content)
    except (OSError, ValueError) as exc:
        reason = getattr(exc, "strerror", None) or exc
        raise ProblemError(f"path = {str(path)!r} cannot be written: {reason}") from exc


def _head(path: str | Path, filled: Lines) -> tuple[str, int, tuple[int, ...]]:
    remarks: list[str] = []
    line, content = _next(path, filled, "m, the number of constraints")
    while (bare := content.strip("\n").lstrip(" \t")).startswith(("*", '"')):
        remarks.append(bare.removesuffix('"' if bare[0] == '"' else "")[1:].removeprefix(" "))
        line, content = _next(path, filled, "m, the number of constraints")
    m = _sizes(path, line, content, "m, the number of constraints", 1)[0]
    if m < 1:
        raise InputError(path, f"m = {m}: at least 1 constraint is needed", line)
    line, content = _next(path, filled, "the number of blocks")
    count = _sizes(path, line, content, "the number of blocks", 1)[0]
    if count < 1:
        raise InputError(path, f"{count} blocks: at least 1 is needed", line)
    line, content = _next(path, filled, "the sizes of the blocks")
    blocks = tuple(_sizes(path, line, content, f"the sizes of {count} blocks", count))
    if fault := _blocks_fault(blocks):
        raise InputError(path, fault, line)
    return "\n".join(remarks), m, blocks


def _next(path: str | Path, filled: Lines, wanted: str) -> tuple[int, str]:
    for line, content in filled:
        return line, content
    raise InputError(path, f"truncated: the file ends before {wanted}")


def _sizes(path: str | Path, line: int, content: str, wanted: str, count: int) -> list[int]:
    """Return the `count` whole numbers that a line begins with; a remark may follow."""
    found: list[int] = []
    end = 0
    for _ in range(count):
        match = _LEADING.match(content, end)
        value = _float(match[1]) if match else math.nan
        if match is None or not value.is_integer():
            reason = f"{show(content[end:].strip())} is not a whole number; expected {wanted}"
            raise InputError(path, reason, line)
        if abs(value) > _MOST:
            raise InputError(path, f"{show(match[1])} is too large, at most {_MOST}", line)
        found.append(int(value))
        end = match.end()
    if not _REMARK.match(content, end):
        rest = show(content[end:].strip())
        raise InputError(path, f"one more number after {wanted}: {rest}", line)
    return found


def _blocks_fault(blocks: tuple[int, ...]) -> str | None:
    if 0 in blocks:
        return f"block {blocks.index(0) + 1} has size 0"
    total = sum(map(abs, blocks))
    return f"too large: the sides add up to {total}, at most {_MOST}" if total > _MOST else None


def _float(text: str) -> float:
    return float(text.replace("D", "e").replace("d", "e"))


def _finite(path: str | Path, line: int, text: str) -> float:
    value = _float(text) if _NUMBER.fullmatch(text) else math.nan
    if not math.isfinite(value):
        raise InputError(path, f"{show(text)} is not a finite number", line)
    return value


def _costs(path: str | Path, filled: Lines, m: int) -> tuple[Array, int, int]:
    """Return c, the line on which it ends, and how many of its numbers stand there."""
    found: list[float] = []
    line = tail = 0
    while len(found) < m:
        line, content = _next(path, filled, f"number {len(found) + 1} of the {m} of c")
        tokens = _TOKEN.findall(content.strip("\n"))
        found += [_finite(path, line, token) for token in tokens]
        tail = len(tokens)
    if len(found) > m:
        reason = f"c ends with number m = {m}, but this line goes on to number {len(found)}"
        raise InputError(path, reason, line)
    return np.array(found), line, tail


def _entries(path: str | Path, text: str, above: int, m: int, blocks: tuple[int, ...]) -> Array:
    """Return the entries as rows (matrix, block, i, j, value), counted as in the file."""

    def line(row: int) -> int:
        lines = enumerate(text.split("\n"), start=above + 1)
        return [number for number, content in lines if content.strip(_GAPS)][row]

    table, refusal = _at_once(text), None
    if table is None:
        table, refusal = _line_by_line(path, text, above)
    if found := _first_fault(table, m, blocks, lambda row: f"line {line(row)}"):
        raise InputError(path, found[1], line(found[0]))
    if refusal:
        raise refusal
    return table


def _at_once(text: str) -> Array | None:
    plain = text.encode().translate(_PLAIN)
    if plain.translate(None, b"0123456789+-.eE \n"):
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # of no data, and of 1.5 read as 1 by older numpy
            read = np.loadtxt(plain.decode().split("\n"), _ENTRY, comments=None, ndmin=1)
    except (ValueError, Warning):
        return None
    table = np.column_stack([read[name] for name in _ENTRY.names or ()])
    return table if np.isfinite(table).all() else None


def _line_by_line(path: str | Path, text: str, above: int) -> tuple[Array, InputError | None]:
    """Return the entries above the first line that cannot be read, and what is wrong with that."""
    rows: list[list[float]] = []
    refusal = None
    try:
        for line, content in enumerate(text.split("\n"), start=above + 1):
            tokens = _TOKEN.findall(content)
            if tokens and len(tokens) != 5:
                reason = f"expected 'matrix block i j value', found {show(content.strip())}"
                raise InputError(path, reason, line)
            if tokens:
                rows.append([_finite(path, line, token) for token in tokens])
    except InputError as error:
        refusal = error
    return np.array(rows).reshape(-1, 5), refusal


def _first_fault(
    table: Array, m: int, blocks: tuple[int, ...], name: Callable[[int], str]
) -> tuple[int, str] | None:
    """Return the first row that is out of place, not finite or given before, and what is wrong."""
    matrix, block, i, j, value = table.T
    wild = _outside(block, 1, len(blocks))
    size = np.array(blocks)[np.where(wild, 1, block).astype(np.int64) - 1]
    side = np.abs(size)
    spots = np.stack([matrix, block, np.minimum(i, j), np.maximum(i, j)])
    order, again = np.lexsort(spots), np.zeros(len(table), bool)
    again[order[1:]] = (np.diff(spots[:, order]) == 0).all(axis=0)
    having = ", block {1:.0f} having size {size}"
    twice = "given twice, first on {first}; one triangle is enough"
    faults = (
        (_outside(matrix, 0, m), "matrix {0:.15g} is not a whole number in 0..{m}"),
        (wild, "block {1:.15g} is not a whole number in 1..{count}"),
        (_outside(i, 1, side), "row {2:.15g} is not a whole number in 1..{side}" + having),
        (_outside(j, 1, side), "column {3:.15g} is not a whole number in 1..{side}" + having),
        (
            (size < 0) & (i != j),
            "entry {2:.0f}, {3:.0f} is off the diagonal of block {1:.0f} of size {size}",
        ),
        (~np.isfinite(value), "value {4} is not finite"),
        (again, "matrix {0:.0f} block {1:.0f} entry {2:.0f}, {3:.0f} " + twice),
    )
    bad = np.flatnonzero(np.any([mask for mask, _ in faults], axis=0))
    if not bad.size:
        return None
    row = int(bad[0])
    text = next(text for mask, text in faults if mask[row])
    first = name(int(np.argmax((spots == spots[:, [row]]).all(axis=0))))
    words = {"m": m, "count": len(blocks), "side": side[row], "size": size[row], "first": first}
    return row, text.format(*table[row].tolist(), **words)


def _outside(index: Array, least: int, most: Any) -> Array:
    """Say which indices are no whole numbers from least to most."""
    return ~((index >= least) & (index <= most) & (index == np.floor(index)))


def _format(data: Sdpa) -> str:
    c, blocks, table = _checked(data)
    head = [f"* {text}" for text in re.split("\r\n|\r|\n", data.comment)] if data.comment else []
    head += [str(len(c)), str(len(blocks)), " ".join(map(str, blocks))]
    head += [" ".join(map(repr, c.tolist()))]
    columns = [*table[:, :4].astype(np.int64).T.tolist(), table[:, 4].tolist()]
    entries = (f"{f} {b} {i} {j} {v!r}" for f, b, i, j, v in zip(*columns, strict=True))
    return "\n".join([*head, *entries, ""])


def _checked(data: Sdpa) -> tuple[Array, tuple[int, ...], Array]:
    """Return c, the blocks and the entries counted from 1, if a reader would take them."""
    fields = ("c", "matrix", "block", "row", "col", "value")
    c, *columns = (floats(f"data.{name}", getattr(data, name)) for name in fields)
    try:
        blocks = tuple(operator.index(size) for size in data.blocks)
    except (TypeError, ValueError) as exc:
        raise ProblemError(f"data must hold whole block sizes: {exc}") from exc
    if c.ndim != 1 or not 1 <= len(c) <= _MOST or not np.isfinite(c).all():
        raise ProblemError(f"c must be 1 to {_MOST} finite numbers, shape {c.shape}")
    if not blocks:
        raise ProblemError("blocks is empty: at least 1 block is needed")
    if fault := _blocks_fault(blocks):
        raise ProblemError(f"blocks: {fault}")
    if any(column.ndim != 1 or len(column) != len(columns[0]) for column in columns):
        raise ProblemError("matrix, block, row, col and value must be 1-D and equally long")
    table = np.column_stack(columns) + np.array([0, 1, 1, 1, 0])
    if found := _first_fault(table, len(c), blocks, lambda row: f"entry {row}"):
        raise ProblemError(f"entry {found[0]} of data, its indices counted from 1: {found[1]}")
    if not table[:, 4].any():
        raise ProblemError("value holds no entry other than zero")
    if "\0" in data.comment:
        raise ProblemError("comment holds a NUL character: remove it")
    return c, blocks, table
