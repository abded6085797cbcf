"""Adjacency matrices from MatrixMarket and NumPy files, and arrays of edges."""

from __future__ import annotations

import re
import warnings
import zipfile
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.io import mminfo

from condgrad.errors import InputError
from condgrad.io._text import data_lines, integer, number, require, show
from condgrad.io.edges import NEGATIVE, Asked, Edges, NamedGraph, check_order

Lines = Iterator[tuple[int, str]]
Entry = tuple[int, int, float, int | None]
"""Row, column (from 0), number and line."""


def load_arrays(path: str | Path, data: bytes) -> NDArray[Any] | dict[str, NDArray[Any]]:
    """The array of an `.npy` file, or those of an `.npz` file by name."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if data.startswith(b"PK"):
                with zipfile.ZipFile(BytesIO(data)) as archive:
                    unpacked = sum(member.file_size for member in archive.infolist())
                require(path, "the unpacked file", unpacked)
            loaded = np.load(BytesIO(data), allow_pickle=False)
            if isinstance(loaded, np.ndarray):
                return loaded
            with loaded:
                return {name: np.asarray(loaded[name]) for name in loaded.files}
    except InputError:
        raise
    except Exception as exc:  # zip, zlib, header and memory errors of many types
        detail = str(exc).partition("allow_pickle")[0].split(". ")[0].rstrip(" :,") or "damaged"
        if "pickle" in str(exc):
            detail = "neither .npy nor .npz, or it holds Python objects instead of numbers"
        raise InputError(path, f"not a numpy file that can be read: {detail}") from exc


def read_numpy(path: str | Path, data: bytes, asked: Asked) -> NamedGraph:
    """A square array as adjacency matrix, one of 2 or 3 columns as edges, or a SciPy matrix."""
    loaded = load_arrays(path, data)
    if isinstance(loaded, dict):
        if {"format", "shape", "data"} <= loaded.keys():
            return _scipy_matrix(path, loaded, asked)
        tables = [name for name, array in loaded.items() if array.ndim == 2]
        if len(tables) != 1:
            found = ", ".join(loaded) or "none"
            raise InputError(path, f"expected one 2-D array or a SciPy matrix, found: {found}")
        loaded = loaded[tables[0]]
    if loaded.ndim != 2 or loaded.dtype.kind not in "biuf":
        kind = f"{loaded.shape} {loaded.dtype}"
        raise InputError(path, f"expected a 2-D array of real numbers, found {kind}")
    return from_array(path, loaded, asked)


def from_array(path: str | Path, array: NDArray[Any], asked: Asked) -> NamedGraph:
    """A graph of a 2-D array: square, or with a row for each edge."""
    rows, columns = array.shape
    if rows == columns:
        check_order(path, rows)
        return from_sparse(path, sp.csr_array(array.astype(np.float64)), asked)
    if columns not in (2, 3):
        reason = f"expected a square array, or 2 or 3 columns u, v, w, found {rows} x {columns}"
        raise InputError(path, reason)
    ends = array[:, :2]
    with np.errstate(all="ignore"):
        whole = ends.astype(np.int64)
    if not (np.isfinite(ends).all() and np.array_equal(whole, ends)):
        raise InputError(path, "expected whole numbers in the first two columns, the vertices")
    known, at = np.unique(whole, return_inverse=True)
    at = at.reshape(-1, 2)
    weights = [None] * rows if columns == 2 else array[:, 2].tolist()
    edges = Edges(path, asked)
    for places, names, weight in zip(at.tolist(), whole.tolist(), weights, strict=True):
        edges.add(places[0], places[1], weight, None, names)
    plain = np.array_equal(known, np.arange(1, known.size + 1))
    return edges.graph(known.size, None if plain else [str(name) for name in known.tolist()])


def from_sparse(path: str | Path, A: Any, asked: Asked) -> NamedGraph:
    """The graph of a square sparse matrix that is symmetric, or has only one triangle."""
    A.sum_duplicates()
    A.eliminate_zeros()
    if asked.weight is None:
        A.data[:] = 1.0
    coo = A.tocoo()
    _refuse_first(path, coo, ~np.isfinite(coo.data), "the weight {w} is not finite")
    if not asked.signed:
        _refuse_first(path, coo, coo.data < 0, f"negative weight {{w:g}}{NEGATIVE}")
    loops = coo.row == coo.col
    if loops.any():
        if asked.loops == "refuse":
            remedy = "no cut has it, leave such out by loops='drop' (--drop-loops)"
            _refuse_first(path, coo, loops, f"self-loop; {remedy}")
        A = sp.csr_array(A - sp.diags_array(A.diagonal()))
        A.eliminate_zeros()
    T = sp.csr_array(A.T)
    if (A != T).nnz == 0:
        return NamedGraph(A, None)
    both = sp.csr_array((A != 0).multiply(T != 0))
    if not (sp.triu(A).nnz == 0 or sp.tril(A).nnz == 0):
        asked.no_directions(path, "the matrix is neither symmetric nor strictly triangular")
        twice = A.multiply(both).tocoo()
        if asked.repeats in ("auto", "refuse"):
            say = "repeats='sum' (--repeats sum) adds the weights, 'once' takes it as said twice"
            _refuse_first(path, twice, twice.data != 0, f"it stands both ways: {say}")
        if asked.repeats == "once":
            differ = sp.csr_array((A - T).multiply(both)).tocoo()
            say = "its weights differ by {w:g}, repeats='once' needs equal ones"
            _refuse_first(path, differ, differ.data != 0, say)
            return NamedGraph(sp.csr_array(A + T - A.multiply(both)), None)
    return NamedGraph(sp.csr_array(A + T), None)


def _refuse_first(path: str | Path, coo: Any, bad: NDArray[np.bool_], fault: str) -> None:
    """Refuse the first entry that is bad, by its place."""
    at = np.flatnonzero(bad)
    if at.size:
        k = at[0]
        place = f"edge {coo.row[k] + 1} - {coo.col[k] + 1}"
        raise InputError(path, f"{place}: {fault.format(w=float(coo.data[k]))}")


def _scipy_matrix(path: str | Path, parts: dict[str, Any], asked: Asked) -> NamedGraph:
    """Graph that `scipy.sparse.save_npz` wrote."""
    try:
        form, shape = parts["format"].item(), tuple(int(x) for x in parts["shape"])
        form = form.decode() if isinstance(form, bytes) else str(form)
        if parts["data"].dtype.kind not in "biuf" or len(shape) != 2:
            raise ValueError(f"{parts['data'].dtype} numbers, {len(shape)} dimensions")
        require(path, "the matrix", 8 * max(shape))
        if form == "coo":
            at = parts["row"], parts["col"]
            matrix: Any = sp.coo_array((parts["data"], at), shape=shape)
        elif form in ("csr", "csc"):
            kind = sp.csr_array if form == "csr" else sp.csc_array
            matrix = kind((parts["data"], parts["indices"], parts["indptr"]), shape=shape)
            matrix.check_format(full_check=True)
        else:
            raise ValueError(f"format {form!r}, not csr, csc or coo")
        matrix = matrix.tocoo()
        matrix.sum_duplicates()
    except InputError:
        raise
    except Exception as exc:  # SciPy's checks raise ValueError, IndexError, TypeError, ...
        raise InputError(path, f"not a SciPy matrix that can be read: {exc}") from exc
    if shape[0] != shape[1]:
        raise InputError(path, f"an adjacency matrix is square, found {shape[0]} x {shape[1]}")
    check_order(path, shape[0])
    return from_sparse(path, sp.csr_array(matrix.astype(np.float64)), asked)


def _matrix(path: str | Path, n: int, entries: Iterator[Entry], asked: Asked) -> NamedGraph:
    """The graph of a matrix that is symmetric, or has only one triangle."""
    found: dict[tuple[int, int], tuple[float, int | None]] = {}
    for i, j, value, line in entries:
        if value:
            found[i, j] = value, line
    upper = {at: value for at, (value, _) in found.items() if at[0] < at[1]}
    lower = {(j, i): value for (i, j), (value, _) in found.items() if i > j}
    mirrored = bool(upper and lower)
    if mirrored and upper != lower and not _both_nan(upper, lower):
        asked.no_directions(path, "the matrix is neither symmetric nor strictly triangular")
        mirrored = False
    edges = Edges(path, asked)
    for (i, j), (value, line) in found.items():
        if not (mirrored and i > j):
            edges.add(i, j, value, line)
    return edges.graph(n)


def _both_nan(upper: dict[Any, float], lower: dict[Any, float]) -> bool:
    """Whether two triangles differ only by NaN, which is refused later by its place."""
    return upper.keys() == lower.keys() and all(
        w == lower[at] or (w != w and lower[at] != lower[at]) for at, w in upper.items()
    )


def read_matrix_market(path: str | Path, text: str, asked: Asked) -> NamedGraph:
    """A MatrixMarket matrix."""
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
    check_order(path, n, top)
    if form == "array":
        m, lines = None, _dense(path, lines, n, top, symmetry)
    return _matrix(path, n, _coordinates(path, lines, n, m, top, field, symmetry), asked)


def _coordinates(
    path: str | Path, lines: Lines, n: int, m: int | None, top: int, field: str, symmetry: str
) -> Iterator[Entry]:
    width = 2 if field == "pattern" else 3
    stood: dict[tuple[int, int], int] = {}
    for line, content in lines:
        fields = content.split()
        if len(fields) != width:
            wanted = "u v w"[: 2 * width - 1]
            raise InputError(path, f"expected {wanted!r}, found {len(fields)} fields", line)
        i, j = (integer(path, line, k, s, 1, n) - 1 for k, s in zip("uv", fields, strict=False))
        value = number(fields[2]) if width == 3 else 1.0
        if value is None:
            raise InputError(path, f"the weight {show(fields[2])} is not a number", line)
        key = (i, j) if i < j or symmetry == "general" else (j, i)
        if stood.setdefault(key, line) != line:
            reason = f"the entry {i + 1} {j + 1} stood before on line {stood[key]}"
            raise InputError(path, reason, line)
        yield i, j, value, line
    if m is not None and len(stood) != m:
        raise InputError(path, f"{show(str(m))[1:-1]} entries expected, found {len(stood)}", top)


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
