"""Graphs as matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from condgrad._check import array_of, as_float64
from condgrad._types import Array
from condgrad.backends import memory
from condgrad.errors import ProblemError
from condgrad.maps.inner import asymmetry

COPIES, VERTEX = 80, 48
"""Bytes for an entry and for a vertex while a matrix is checked."""
PART = "cut a part of the graph"
FAR = 1e65
"""A problem of numbers up to this, and not all below its inverse, is in the range of a run."""


def adjacency_matrix(
    adjacency: Any, *, name: str = "adjacency", signed: bool = False, least: int = 3
) -> Any:
    """Check an adjacency matrix; return it in float64 CSR, without the diagonal and zeros.

    Parameters
    ----------
    adjacency : array or SciPy sparse matrix
        Symmetric up to rounding; an edge whose two entries differ has their mean.
    name : str
        What errors call it.
    signed : bool
        Whether weights may be negative.
    least : int
        The fewest vertices.
    """
    given = adjacency if sp.issparse(adjacency) else array_of(name, adjacency)
    if given.dtype.kind not in "biuf":
        raise ProblemError(f"{name} has dtype {given.dtype}: it must hold real numbers")
    if given.ndim != 2 or given.shape[0] != given.shape[1] or given.shape[0] < least:
        edges = given.ndim == 2 and given.shape[1] in (2, 3)
        say = "; a list of edges goes into a frame with columns source and target" if edges else ""
        few = f"{least} vert{'ex' if least == 1 else 'ices'}"
        raise ProblemError(
            f"{name} has shape {given.shape}: it must be square, with at least {few}{say}"
        )
    count = int(given.nnz if sp.issparse(given) else np.count_nonzero(given))  # type: ignore[union-attr]
    n, what = given.shape[0], f"copies of a graph with {count} entries"
    memory.require_room(COPIES * count + VERTEX * n, PART, what)
    numbers = as_float64(name, given)
    A = sp.csr_array(numbers).copy() if sp.issparse(numbers) else _sparse(numbers)
    if not np.isfinite(A.data).all():
        raise ProblemError(f"{name} has an infinite weight or NaN: remove or replace it")
    check_size(name, A.data)
    if not signed and (A.data < 0).any():
        raise ProblemError(f"{name} has a negative weight: weights must be >= 0")
    same = _same(A)
    if not same and (objection := asymmetry(name, A)):
        raise ProblemError(objection)
    if not same or A.diagonal().any():
        A = sp.csr_array(A - sp.diags_array(A.diagonal()))
    if not same and (A != A.T).nnz:  # everything below must mean the same matrix
        A = sp.csr_array(0.5 * A + 0.5 * A.T)
    A.eliminate_zeros()
    return A


def _sparse(given: Array) -> Any:
    """The numbers of a dense matrix other than 0, as SciPy finds them, only faster."""
    there = given != 0
    at, starts = np.flatnonzero(there), np.zeros(given.shape[0] + 1, np.int32)
    np.cumsum(np.count_nonzero(there, axis=1), out=starts[1:])
    data = given.reshape(-1)[at].astype(np.float64)
    columns = at - np.repeat(given.shape[1] * np.arange(starts.size - 1), np.diff(starts))
    A = sp.csr_array((data, columns.astype(np.int32), starts), shape=given.shape)
    A.has_canonical_format = True
    return A


def _same(A: Any) -> bool:
    """Whether a sparse matrix equals its transpose to the last bit, seen at a glance."""
    if not A.has_canonical_format:
        return False
    T = sp.csr_array(A.T)
    return all(np.array_equal(getattr(A, x), getattr(T, x)) for x in ("indptr", "indices", "data"))


def check_size(name: str, data: Array, far: float = FAR) -> None:
    """Refuse numbers whose squares or sums leave the range of float64.

    A factor changes no best cut, no best clustering and no fit.
    """
    ends = np.max(data, initial=0.0), -np.min(data, initial=0.0)  # without another array
    largest = float(max(ends))
    if largest and not 1 / far < largest < far:
        raise ProblemError(
            f"{name} has entries up to {largest:.3g}, beyond {1 / far:g} … {far:g}: divide it by "
            f"{largest:.1g}"
        )


def laplacian_of(A: Any) -> Any:
    """D − A of a checked adjacency matrix, sparse."""
    return sp.csr_array(sp.diags_array(np.asarray(A.sum(axis=1)).reshape(-1)) - A)
