"""Graphs as matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from condgrad._types import Array
from condgrad.backends import memory
from condgrad.errors import ProblemError
from condgrad.maps.inner import asymmetry

COPIES, VERTEX = 80, 48
"""Bytes for an entry and for a vertex while a matrix is checked."""
PART = "cut a part of the graph"
FAR = 1e120
"""Squares of numbers up to this, and of their inverses, are numbers, with room for sums."""


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
    try:
        given = adjacency if sp.issparse(adjacency) else np.asarray(adjacency)
    except ValueError:
        raise ProblemError(f"{name} has rows of different lengths: it must be a matrix") from None
    if given.dtype.kind not in "biuf":
        raise ProblemError(f"{name} has dtype {given.dtype}: it must hold real numbers")
    if given.ndim != 2 or given.shape[0] != given.shape[1] or given.shape[0] < least:
        raise ProblemError(
            f"{name} has shape {given.shape}: it must be square, with at least {least} vertices"
        )
    count = int(given.nnz if sp.issparse(given) else np.count_nonzero(given))  # type: ignore[union-attr]
    need = memory.Need(f"copies of a graph with {count} entries", COPIES * count, PART)
    memory.require([need, memory.Need("its vertices", VERTEX * given.shape[0], PART)])
    A = sp.csr_array(given).astype(np.float64)
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


def _same(A: Any) -> bool:
    """Whether a sparse matrix equals its transpose to the last bit, seen at a glance."""
    if not A.has_canonical_format:
        return False
    T = sp.csr_array(A.T)
    return all(np.array_equal(getattr(A, x), getattr(T, x)) for x in ("indptr", "indices", "data"))


def check_size(name: str, data: Array) -> None:
    """Refuse numbers whose squares or sums leave the range of float64.

    A factor changes no best cut and no best clustering.
    """
    ends = np.max(data, initial=0.0), -np.min(data, initial=0.0)  # without another array
    largest = float(max(ends))
    if largest and not 1 / FAR < largest < FAR:
        raise ProblemError(
            f"{name} has entries up to {largest:.3g}, beyond {1 / FAR:g} … {FAR:g}: divide it by "
            f"{largest:.1g}"
        )


def laplacian(adjacency: Any, *, signed: bool = False) -> Any:
    """D − A of a checked adjacency matrix, sparse."""
    return laplacian_of(adjacency_matrix(adjacency, signed=signed))


def laplacian_of(A: Any) -> Any:
    """The same of a matrix that was checked before."""
    return sp.csr_array(sp.diags_array(np.asarray(A.sum(axis=1)).reshape(-1)) - A)
