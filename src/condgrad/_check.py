"""Checks of arguments at the door: what is wrong, and what to do."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import scipy.sparse as sp

from condgrad._types import Array
from condgrad.errors import ProblemError


def dimension(name: str, value: Any, least: int = 1) -> int:
    """Check a side of a matrix or vector."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
        raise ProblemError(f"{name} is {value!r}: it must be an integer of at least {least}")
    return int(value)


def sides(name: str, shape: Any) -> tuple[int, int]:
    """Check a matrix shape; one integer stands for a square."""
    if isinstance(shape, (int, np.integer)):
        shape = (shape, shape)
    pair = tuple(shape) if isinstance(shape, Iterable) else ()
    if len(pair) != 2:
        raise ProblemError(
            f"{name} is {shape!r}: it must be (rows, columns) or the side of a square"
        )
    return dimension(f"{name}[0]", pair[0]), dimension(f"{name}[1]", pair[1])


def real_matrix(name: str, value: Any) -> Array:
    """Check a dense real matrix and return it as contiguous float64."""
    data = numbers(name, value)
    if data.ndim != 2 or 0 in data.shape:
        raise ProblemError(f"{name} has shape {data.shape}: it must be a non-empty matrix")
    return np.ascontiguousarray(data)


def canonical(name: str, value: Any) -> Any:
    """Check a sparse matrix; return it in CSR with repeated entries summed, the input untouched."""
    csr = sp.csr_array(value)
    if csr.ndim != 2 or 0 in csr.shape:
        raise ProblemError(f"{name} has shape {csr.shape}: it must be a non-empty matrix")
    if not csr.has_canonical_format:
        csr = csr.copy()
        csr.sum_duplicates()
    return csr


def numbers(name: str, value: Any) -> Array:
    """Check dense data of any shape and return it as float64."""
    try:
        data = np.asarray(value)
    except ValueError:
        raise ProblemError(f"{name} has rows of different lengths: it must be an array") from None
    return real_numbers(name, data)


def real_numbers(name: str, data: Array) -> Array:
    """Check that numbers are real and finite, and return them as float64."""
    if data.dtype.kind not in "biuf":
        raise ProblemError(f"{name} has dtype {data.dtype}: it must hold real numbers")
    data = data.astype(np.float64, copy=False)
    if not np.isfinite(data).all():
        raise ProblemError(f"{name} contains NaN or infinity: remove or replace those entries")
    return data


def positive(name: str, value: Any) -> float:
    """Check a positive finite number: a scale, a radius, a trace bound."""
    try:
        number = float("nan" if isinstance(value, (bool, str)) or np.ndim(value) else value)
    except (TypeError, ValueError):
        number = np.nan
    if not (np.isfinite(number) and number > 0):
        raise ProblemError(f"{name} is {value!r}: it must be a positive number")
    return number


def row_data(name: str, value: Any, *, finite: bool = True) -> Array | float:
    """Check one piece of per-row data: a number for all rows, or one number a row."""
    try:
        data = np.asarray(value)
        if data.dtype.kind in "cSU":
            raise TypeError
        data = data.astype(np.float64)
    except (TypeError, ValueError):
        raise ProblemError(f"{name} is not numeric: pass a number or one number per row") from None
    if data.ndim > 1:
        raise ProblemError(
            f"{name} has shape {data.shape}: pass a number or a one-dimensional array, one entry "
            "per row of the term"
        )
    if np.isnan(data).any() or (finite and np.isinf(data).any()):
        raise ProblemError(f"{name} contains NaN or infinity: remove or replace those entries")
    return data.copy() if data.ndim else float(data)
