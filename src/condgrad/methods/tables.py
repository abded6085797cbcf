"""Tables with numbers for every row of a term: their precision, their memory, and what is drawn."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from condgrad.backends import tiles
from condgrad.backends.arrays import foreign
from condgrad.errors import ProblemError
from condgrad.maps import RowStorage
from condgrad.methods.sampling import Batch, batch_size, check_batch
from condgrad.problem import Problem, Term

HALVED = "bfloat16"
"""The name of tables in half precision, on a GPU."""
FINE = 10_000_000
"""Rows up to which a table is in float64 by itself: beyond that passes wait for the memory."""


def check_precision(dtype: Any) -> None:
    """Refuse a type of tables that would truncate slopes."""
    try:
        dtype = np.dtype(dtype)
    except TypeError:
        raise ProblemError(f"table_dtype is {dtype!r}: use float64 or float32") from None
    if dtype not in (np.dtype(np.float64), np.dtype(np.float32)):
        raise ProblemError(
            f"table_dtype is {dtype}: use float64 or float32 (an integer type would truncate)"
        )


def check_tables(batch: Batch | str, dtype: Any) -> None:
    """Refuse options of a method that are none."""
    if batch != "auto":
        check_batch(batch)
    if dtype not in ("auto", HALVED):
        check_precision(dtype)


def require_gpu(problem: Problem, dtype: Any) -> None:
    """Refuse tables in half precision on a CPU."""
    gpu = foreign(problem.like) or any(t.passes.halves for t in problem.terms)
    if dtype == HALVED and not gpu:
        raise ProblemError(
            "table_dtype is 'bfloat16', which is for a GPU: use device='cuda', or float32"
        )


def stored(term: Term) -> bool:
    """Whether the cotangent of a term has a number for every row, and is a table itself."""
    return isinstance(term.map, RowStorage)


def precision(term: Term, problem: Problem, dtype: Any = "auto") -> np.dtype[Any]:
    """Precision of the tables of a term: the problem's if the cotangent is one."""
    if stored(term):
        return problem.dtype
    if dtype == "auto":
        fine = term.map.size <= FINE and not term.passes.halves
        return np.dtype(np.float64 if fine else np.float32)
    if dtype == HALVED:
        return tiles.HALF if term.passes.halves else np.dtype(np.float32)
    return np.dtype(dtype)


def rows_now(term: Term, batch: Batch | str, rounds: int, least: int) -> int:
    """Rows to draw at an iteration.

    By "auto" they are all after `rounds` iterations, but at least `least` for an entry of W.
    """
    size = term.map.size
    if not term.function.separable:
        return size
    if batch == "auto":
        return min(size, max(-(-size // rounds), least * int(np.prod(term.map.shape))))
    return batch_size(cast(Batch, batch), size)


def objection(term: Term, batch: Batch | str) -> str | None:
    """A sentence that says why rows of a term cannot be drawn, or None."""
    if term.function.separable and batch != "auto":
        try:
            batch_size(cast(Batch, batch), term.map.size, term.name)
        except ProblemError as error:
            return f"cannot draw its rows: {error}"
    return None


def table_bytes(term: Term, problem: Problem, dtype: Any, numbers: int) -> int:
    """Memory for the tables of a term, with so many numbers for a row beside the cotangent."""
    if term.function.smooth:
        return 0
    rows = 0 if term.function.separable else 5 * 8 * term.map.size
    return numbers * term.map.entries * precision(term, problem, dtype).itemsize + rows
