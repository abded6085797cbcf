"""Points to be clustered, or their squared distances, from numpy files and numeric tables."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from condgrad.backends import memory
from condgrad.errors import InputError
from condgrad.io._text import data_lines, decode, ending, number, read_bytes, require, show
from condgrad.io.matrices import load_arrays

_MOST_POINTS = 50_000


@dataclass(frozen=True, eq=False)
class Features:
    """Squared Euclidean distances (n x n) and, where the file has them, the points (n x d)."""

    distances: NDArray[np.float64]
    points: NDArray[np.float64] | None


def read_features(path: str | Path) -> Features:
    """Read points, or their squared distances, from `.npz`, `.npy`, `.csv`, `.tsv` or `.txt`.

    Parameters
    ----------
    path : str or Path
        An `.npz` file with the squared distances `C`, or the points as the rows of `X` or as the
        columns of `images`, or one 2-D array whatever its name; an `.npy` file or a numeric table
        (one point a line, cells separated by commas, tabs, semicolons or blanks, perhaps a header
        line, `#` lines skipped) with one row per point. Any of these may be gzipped.

    Returns
    -------
    Features
        Distances are computed from the points unless the file has `C`.
    """
    data = read_bytes(path)
    suffix = ending(path)
    distances: NDArray[np.float64] | None = None
    points: NDArray[np.float64] | None
    if suffix in (".npz", ".npy") or data.startswith((b"PK\x03\x04", b"PK\x05\x06", b"\x93NUMPY")):
        distances, points = _load(path, data)
    else:
        points = _table(path, decode(path, data, cell=50))
    known = points if distances is None else distances
    n = 0 if known is None else len(known)
    if n < 2:
        raise InputError(path, f"at least 2 points are needed, found {n}")
    if n > _MOST_POINTS:
        raise InputError(path, f"too large: {n} points, at most {_MOST_POINTS} can be read")
    if distances is None:
        need = memory.Need(f"distances of {n} points", 4 * 8 * n * n, "cluster a sample of them")
        memory.require([need])
        distances = cdist(points, points, "sqeuclidean")
        if not np.isfinite(distances).all():
            raise InputError(path, "the squared distances of the points overflow; rescale them")
    return Features(distances, points)


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


def _cells(line: str, mark: str | None) -> list[str]:
    return [cell.strip() for cell in line.split(mark)]


def _table(path: str | Path, text: str) -> NDArray[np.float64]:
    lines = list(data_lines(text, ("#",)))
    if not lines:
        raise InputError(path, "no numbers in the file")
    first, head = lines[0]
    mark = next((mark for mark in "\t;," if mark in head), None)
    cells = _cells(head, mark)
    if any(cells) and all(number(cell) is None for cell in cells):
        del lines[0]
    if not lines:
        raise InputError(path, "no numbers after the header", first)
    rows = []
    for line, content in lines:
        row = _cells(content, mark)
        if len(row) != len(cells):
            raise InputError(path, f"{len(cells)} columns expected, found {len(row)}", line)
        values = [number(cell) for cell in row]
        for column, value in enumerate(values):
            if value is None or not math.isfinite(value):
                what = "not a number" if value is None else "not finite"
                raise InputError(path, f"column {column + 1}: {show(row[column])} is {what}", line)
        rows.append(values)
    return np.array(rows, dtype=np.float64)
