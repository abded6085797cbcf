"""Checks of arguments at the door: what is wrong, and what to do."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import scipy.sparse as sp

from condgrad._types import Array
from condgrad.errors import ProblemError

WHOLE = 2**53
"""Largest integer up to which float64 has all of them."""
ROUNDED = "an integer that float64 would round: divide it, or pass a float"
"""Fault of `rounded` numbers, and what to do."""


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
    """Check a real sparse matrix; return it in CSR and float64 with repeated entries summed.

    The input is untouched, but the result may share its memory.
    """
    if value.ndim != 2 or 0 in value.shape:
        raise ProblemError(f"{name} has shape {value.shape}: it must be a non-empty matrix")
    if value.dtype.kind not in "biuf":
        raise ProblemError(f"{name} has dtype {value.dtype}: it must hold real numbers")
    csr = sp.csr_array(as_float64(name, value))
    if not csr.has_canonical_format:
        csr = csr.copy()
        csr.sum_duplicates()
    real_numbers(name, csr.data)
    return csr


def array_of(name: str, value: Any) -> Array:
    """Check that something is a dense array without holes, of whatever type, and return it."""
    if sp.issparse(value):
        raise ProblemError(f"{name} is a SciPy sparse matrix: pass {name}.toarray()")
    if isinstance(value, np.ma.MaskedArray):
        if np.ma.getmaskarray(value).any():
            raise ProblemError(f"{name} has masked entries: give them values with .filled(...)")
        value = value.data
    try:
        return np.asarray(value)
    except ValueError:
        raise ProblemError(f"{name} has rows of different lengths: it must be an array") from None
    except Exception as error:  # whatever the class of a user raises
        raise ProblemError(
            f"{name} is a {type(value).__name__} that cannot be read as an array "
            f"({type(error).__name__}: {error}): pass a NumPy array"
        ) from error


def rows_of(value: Any) -> int:
    """How many rows something has that may be an array, 0 where it does not say."""
    shape = getattr(value, "shape", ())
    return int(shape[0]) if isinstance(shape, tuple) and shape else 0


def numbers(name: str, value: Any) -> Array:
    """Check dense data of any shape and return it as float64."""
    return real_numbers(name, array_of(name, value))


def real_numbers(name: str, data: Array) -> Array:
    """Check that numbers are real and finite, and return them as float64."""
    if data.dtype.kind not in "biuf":
        raise ProblemError(f"{name} has dtype {data.dtype}: it must hold real numbers")
    data = as_float64(name, data)
    if not np.isfinite(data).all():
        raise ProblemError(f"{name} contains NaN or infinity: remove or replace those entries")
    return data


def rounded(x: Any) -> bool:
    """Whether something is an integer that float64 does not have.

    Examples
    --------
    >>> rounded(2**53), rounded(2**53 + 1), rounded(2**60), rounded(0.1)
    (False, True, False, False)
    """
    excess = int(x).bit_length() - 53 if isinstance(x, (int, np.integer)) else 0
    return excess > 0 and int(x) % (1 << excess) != 0


def floats(name: str, value: Any) -> Array:
    """Check dense data of any shape, which need not be finite, and return it as float64."""
    data = array_of(name, value)
    try:
        if data.dtype.kind not in "biufO":
            raise TypeError
        return as_float64(name, data)
    except ProblemError:
        raise
    except (TypeError, ValueError, OverflowError):
        raise ProblemError(
            f"{name} is not numeric ({data.dtype}): pass a number or an array of numbers"
        ) from None


def as_float64(name: str, data: Any) -> Any:
    """Numbers, dense or sparse, as float64: those beyond its range as infinity or 0.

    Integers that it does not have are refused.
    """
    with np.errstate(over="ignore", under="ignore"):
        found = data.astype(np.float64, copy=False)
    if data.dtype.kind in "iuO":
        given = data.tocoo().data if sp.issparse(data) else data
        large = given if given.dtype.kind == "O" else given[(given > WHOLE) | (given < -WHOLE)]
        wrong = next((x for x in large.reshape(-1).tolist() if rounded(x)), None)
        if wrong is not None:
            raise ProblemError(f"{name} has {wrong}, {ROUNDED}")
    return found


def precision(name: str, value: Any) -> np.dtype[Any]:
    """Check a type of numbers, float64 or float32."""
    try:
        dtype = np.dtype(value)
    except TypeError:
        raise ProblemError(f"{name} is {value!r}: use float64 or float32") from None
    if dtype not in (np.dtype(np.float64), np.dtype(np.float32)):
        raise ProblemError(
            f"{name} is {dtype}: use float64 or float32 (an integer type would truncate)"
        )
    return dtype


def positive(name: str, value: Any, others: str = "") -> float:
    """Check a positive finite number: a scale, a radius, a trace bound; name what else may be."""
    try:
        number = float("nan" if isinstance(value, (bool, str)) or np.ndim(value) else value)
    except (TypeError, ValueError):
        number = np.nan
    if not (np.isfinite(number) and number > 0):
        raise ProblemError(f"{name} is {value!r}: it must be a positive number{others}")
    return number


def flag(name: str, value: Any, *, optional: bool = False) -> Any:
    """True or False (or None, where that is an answer), not what merely counts as such."""
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    if value is None and optional:
        return None
    more = " or None" if optional else ""
    raise ProblemError(f"{name} is {value!r}: it must be True or False{more}")


def row_data(name: str, value: Any, *, finite: bool = True) -> Array | float:
    """Check one piece of per-row data: a number for all rows, or one number a row."""
    data = floats(name, value)
    if data.ndim > 1:
        raise ProblemError(
            f"{name} has shape {data.shape}: pass a number or a one-dimensional array, one entry "
            "per row of the term"
        )
    if np.isnan(data).any() or (finite and np.isinf(data).any()):
        raise ProblemError(f"{name} contains NaN or infinity: remove or replace those entries")
    return data.copy() if data.ndim else float(data)
