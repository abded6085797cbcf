"""Points to be clustered, or their squared distances, from numpy files and numeric tables."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from condgrad.backends import memory
from condgrad.errors import InputError
from condgrad.io._text import (
    data_lines,
    decode,
    ending,
    number,
    read_bytes,
    remedy,
    require,
    show,
    split,
)
from condgrad.io.frames import Frame, is_parquet, name_of, numbers, read_parquet
from condgrad.io.matrices import load_arrays

_MOST_POINTS = 50_000
OTHERS = "leave such columns out by columns= (--columns), which names the others"
NUMBERLIKE = re.compile("[+-]?[0-9.]*,[0-9]+|[+-]?[0-9.,]+ ?[%€$£]")
"""Text that is no name of a point but a number with a comma or a unit."""
ID_NAMES = ("", "id", "index", "name", "names", "unnamed: 0", "key")
"""Names of a first column that has the names of points."""


@dataclass(frozen=True, eq=False, repr=False)
class Features:
    """Squared Euclidean distances (n x n) and, where the file has them, the points (n x d)."""

    distances: NDArray[np.float64]
    points: NDArray[np.float64] | None
    names: tuple[str, ...] | None = None
    """Names of the points: the first column of the file, if that is not a coordinate."""

    def __repr__(self) -> str:
        known = "distances alone" if self.points is None else f"{self.points.shape[1]} coordinates"
        return f"<Features: {len(self.distances)} points, {known}{', names' * bool(self.names)}>"


def read_features(path: str | Path, *, columns: Sequence[str | int] | None = None) -> Features:
    """Read points, or their squared distances, from a NumPy file, a table as text or Parquet.

    Parameters
    ----------
    path : str or Path
        An `.npz` file with the squared distances `C`, or the points as the rows of `X` or as the
        columns of `images`, or one 2-D array whatever its name; an `.npy` file, a Parquet file or a
        table as text (one point a line, cells separated by commas, tabs, semicolons or blanks,
        perhaps a header line, `#` lines skipped) with one row per point. Any of these may be packed
        by gzip, bzip2 or xz.
    columns : sequence of str or int, optional
        The coordinates among the columns of a table, by name or by number from 1. Default: all but
        a first column of text, or one called id, index, name or nothing at all, as pandas writes
        its index: that has the names of the points. Text in others is refused.

    Returns
    -------
    Features
        Distances are computed from the points unless the file has `C`.
    """
    data = read_bytes(path)
    suffix = ending(path)
    distances: NDArray[np.float64] | None = None
    points: NDArray[np.float64] | None
    names: tuple[str, ...] | None = None
    if suffix in (".npz", ".npy") or data.startswith((b"PK\x03\x04", b"PK\x05\x06", b"\x93NUMPY")):
        if columns is not None:
            raise InputError(path, "columns are those of a table, this is a file of NumPy")
        distances, points = _load(path, data)
    elif suffix in (".parquet", ".pq") or is_parquet(data):
        points, names = _frame(path, read_parquet(path, data), columns)
    else:
        points, names = _table(path, decode(path, data, cell=80), columns)
    known = points if distances is None else distances
    n = 0 if known is None else len(known)
    if n < 2:
        raise InputError(path, f"at least 2 points are needed, found {n}")
    if n > _MOST_POINTS:
        raise InputError(path, f"too large: {n} points, at most {_MOST_POINTS} can be read")
    if distances is None:
        what = f"distances of {n} points"
        memory.require_room(4 * 8 * n * n, "cluster a sample of them", what)
        distances = cdist(points, points, "sqeuclidean")
        if not np.isfinite(distances).all():
            raise InputError(path, "the squared distances of the points overflow; rescale them")
    return Features(distances, points, names)


def _load(
    path: str | Path, data: bytes
) -> tuple[NDArray[np.float64] | None, NDArray[np.float64] | None]:
    loaded = load_arrays(path, data)
    if isinstance(loaded, dict):
        return _choose(path, loaded)
    return None, _matrix(path, "the array", loaded)


def _choose(
    path: str | Path, archive: dict[str, NDArray[Any]]
) -> tuple[NDArray[np.float64] | None, NDArray[np.float64] | None]:
    keys = list(archive)
    points = None
    if "X" in keys:
        points = _matrix(path, "X", archive["X"])
    elif "images" in keys:
        points = np.ascontiguousarray(_matrix(path, "images", archive["images"]).T)
    if "C" in keys:
        distances = _distances(path, archive["C"])
        if points is not None and len(points) != len(distances):
            reason = f"C has {len(distances)} rows but there are {len(points)} points"
            raise InputError(path, reason)
        return distances, points
    if points is None:
        tables = [key for key in keys if _is_table(archive[key])]
        if len(tables) != 1:
            reason = f"expected C, X, images or one 2-D array, found: {', '.join(keys) or 'none'}"
            raise InputError(path, reason)
        points = _matrix(path, tables[0], archive[tables[0]])
    return None, points


def _is_table(array: Any) -> bool:
    return isinstance(array, np.ndarray) and array.ndim == 2 and array.dtype.kind in "biuf"


def _matrix(path: str | Path, name: str, array: Any) -> NDArray[np.float64]:
    if not _is_table(array) or array.size == 0:
        kind = f"{array.shape} {array.dtype}" if isinstance(array, np.ndarray) else "other data"
        raise InputError(path, f"{name} is not a 2-D array of real numbers but {kind}")
    require(path, f"{name} as float64", 8 * array.size)
    with np.errstate(all="ignore"):
        matrix = np.ascontiguousarray(array, dtype=np.float64)
    bad = np.argwhere(~np.isfinite(matrix))
    if len(bad):
        row, column = bad[0] + 1
        raise InputError(path, f"{name} is not finite in row {row}, column {column}")
    return matrix


def _distances(path: str | Path, array: Any) -> NDArray[np.float64]:
    matrix = _matrix(path, "C", array)
    if matrix.shape[0] != matrix.shape[1]:
        raise InputError(path, f"C is not square but {matrix.shape[0]} x {matrix.shape[1]}")
    rounding = 1e-9 * np.abs(matrix).max()
    with np.errstate(over="ignore"):
        if (np.abs(matrix - matrix.T) > rounding).any():
            raise InputError(path, "C is not symmetric")
    if (np.abs(np.diag(matrix)) > rounding).any():
        raise InputError(path, "C has a diagonal that is not zero")
    if (matrix < -rounding).any():
        raise InputError(path, "C has a negative entry")
    matrix = np.maximum(matrix / 2 + matrix.T / 2, 0.0)
    np.fill_diagonal(matrix, 0.0)
    return matrix


def _coordinates(
    path: str | Path,
    head: Sequence[str] | None,
    width: int,
    text: Sequence[bool],
    columns: Sequence[str | int] | None,
    line: int | None = None,
) -> tuple[list[int], bool]:
    """Which columns are coordinates, and whether the first has the names of the points.

    `head` has the names of the columns, where there are any; `text` says which are text throughout.
    """
    if columns is not None:
        return [_place(path, head, width, column, line) for column in columns], False
    called = width > 1 and head is not None and head[0].lower() in ID_NAMES
    named = called or (width > 1 and text[0] and not all(text))
    return list(range(int(named), width)), named


def _place(
    path: str | Path, head: Sequence[str] | None, width: int, column: str | int, line: int | None
) -> int:
    known = list(head or ())
    if known.count(str(column)) == 1:
        return known.index(str(column))
    if str(column).isdecimal() and 1 <= int(column) <= width:
        return int(column) - 1
    shown = ", ".join(map(show, known)) or f"1 … {width}"
    raise InputError(path, f"there is no column {show(str(column))}, the columns are {shown}", line)


def _table(
    path: str | Path, text: str, columns: Sequence[str | int] | None
) -> tuple[NDArray[np.float64], tuple[str, ...] | None]:
    lines = list(data_lines(text, ("#",)))
    if not lines:
        raise InputError(path, "no numbers in the file")
    first, start = lines[0]
    mark = next((mark for mark in "\t;," if mark in start), None)
    rows = [(line, split(path, line, content, mark)) for line, content in lines]
    cells = rows[0][1]
    head = cells if any(cells) and all(number(cell) is None for cell in cells) else None
    body = rows[1:] if head is not None else rows
    if not body:
        raise InputError(path, "no numbers after the header", first)
    if mark is not None and _counted(cells, [row for _, row in rows[1:]]):
        reason = f"{show(mark.join(cells))} may be the numbers of columns: remove the line"
        raise InputError(path, f"{reason}, or write 0.0 for 0 if it is a point", first)
    for line, row in rows:
        if len(row) != len(cells):
            raise InputError(path, f"{len(cells)} columns expected, found {len(row)}", line)
    texts = [all(row[k] and number(row[k]) is None for _, row in body) for k in range(len(cells))]
    named_by = [texts[0] and not all(NUMBERLIKE.fullmatch(row[0]) for _, row in body), *texts[1:]]
    chosen, named = _coordinates(path, head, len(cells), named_by, columns, first)
    points = np.empty((len(body), len(chosen)))
    for at, (line, row) in enumerate(body):
        for place, k in enumerate(chosen):
            value = number(row[k])
            if value is None or not math.isfinite(value):
                raise InputError(path, _fault(head, k, row[k], value, texts[k]), line)
            points[at, place] = value
    return points, tuple(row[0] for _, row in body) if named else None


def _counted(first: Sequence[str], rest: Sequence[Sequence[str]]) -> bool:
    """Whether the first line is 0, 1, … as pandas numbers columns.

    Two numbers may be a point, unless all others are written with a point.
    """
    if len(first) < 2 or not rest or list(first) != [str(k) for k in range(len(first))]:
        return False
    return len(first) > 2 or all("." in cell for row in rest for cell in row)


def _fault(head: Sequence[str] | None, k: int, cell: str, value: float | None, text: bool) -> str:
    called = f" ({show(head[k])})" if head is not None and head[k] else ""
    what = "not a number" if value is None else "not finite"
    say = remedy(cell) or (f": {OTHERS}" if text else "")
    return f"column {k + 1}{called}: {show(cell)} is {what}{say}"


def _frame(
    path: str | Path, frame: Frame, columns: Sequence[str | int] | None
) -> tuple[NDArray[np.float64], tuple[str, ...] | None]:
    head = [str(name) for name in frame.names]
    texts = [frame.column(k).dtype.kind not in "biuf" for k in range(len(head))]
    if "__index_level_0__" in head and columns is None:  # the index of pandas
        columns = [name for name in head if not name.startswith("__index_level_")]
    chosen, named = _coordinates(path, head, len(head), texts, columns)
    points = np.empty((frame.shape[0], len(chosen)))
    for place, k in enumerate(chosen):
        say = OTHERS if texts[k] else ""
        points[:, place] = numbers(path, frame.values(k), f"column {show(head[k])}", say)
    names = tuple(name_of(value) for value in frame.values(0)) if named else None
    return points, names
