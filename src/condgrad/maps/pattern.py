"""Sparse matrices on the entries that maps read, by rows and by columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp

from condgrad._types import Array
from condgrad.backends import ops, threads
from condgrad.maps._base import LinearMap
from condgrad.maps.calculus import Scaled
from condgrad.maps.entries import Entries

WORTH = 20_000
"""Entries a thread must get before it is worth waking."""


def read_entries(map: LinearMap) -> tuple[Entries, Array | float] | None:
    """The entries that a map reads and the factors c on them; None where it reads something else.

    Types are compared exactly, since a class derived from one of them can mean something else.
    """
    if type(map) is Entries:
        return map, 1.0
    if type(map) is Scaled:
        inner = read_entries(map.map)
        return None if inner is None else (inner[0], map.factor * inner[1])
    return None


class Order:
    """The entries one row behind the other; that of the transpose goes by columns.

    Parameters
    ----------
    indptr, indices : array
        As of a CSR matrix.
    places : array or None
        Where the entries stand among those of the pattern; None: in this order.
    """

    def __init__(self, indptr: Array, indices: Array, places: Array | None) -> None:
        self.indptr, self.indices, self.places = indptr, indices, places

    def sorted(self, values: Array) -> Array:
        """Values of the pattern in this order."""
        return values if self.places is None else values[self.places]

    def times(self, values: Array, K: Array) -> Array:
        """V K for the matrix V with values in this order."""
        out, K = np.empty((self.indptr.size - 1, K.shape[1]), K.dtype), np.ascontiguousarray(K)
        values = values.astype(K.dtype, copy=False)
        self._each(ops.sparse_times, (self.indptr, self.indices, values, K), out)
        return out

    def dots(self, A: Array, B: Array) -> Array:
        """Entries of A Bᵀ on the pattern, as the pattern has them."""
        out = np.empty(self.indices.size, A.dtype)
        self._each(ops.sparse_dots, (self.indptr, self.indices, A, B), out)
        if self.places is None:
            return out
        found = np.empty_like(out)
        found[self.places] = out
        return found

    def _each(self, kernel: Callable[..., None], given: tuple[Array, ...], out: Array) -> None:
        """Run a kernel over all rows, as many entries to each thread."""
        size, rows = self.indices.size, self.indptr.size - 1
        parts = max(1, min(threads.count(), size // WORTH))
        ends = np.searchsorted(self.indptr, np.linspace(0, size, parts + 1)[1:-1])
        cuts = [0, *(int(e) for e in np.minimum(ends, rows)), rows]
        threads.run([partial(kernel, *given, *pair, out) for pair in pairwise(cuts)])


class Pattern:
    """The entries that some maps read, one map behind the other.

    Parameters
    ----------
    maps : sequence of Entries
        Maps of one and the same W. An entry may be read by several of them.
    shape : (int, int), optional
        That of W; default: what the first map says.
    """

    def __init__(self, maps: Sequence[Entries], shape: Sequence[int] | None = None) -> None:
        sides = maps[0].shape if shape is None else shape
        self.shape: tuple[int, int] = (sides[0], sides[1])
        self.size, self.repeats = sum(m.size for m in maps), max(1, len(maps))
        narrow = np.int32 if max(*self.shape, self.size) < 2**31 else np.int64
        i: Any = np.empty(self.size, narrow)
        j: Any = np.empty(self.size, narrow)
        start = 0
        for m in maps:
            for first in range(0, m.size, m.chunk):
                rows, cols = m.positions(slice(first, first + m.chunk))
                at = slice(start + first, start + first + rows.size)
                i[at], j[at] = rows, cols
            start += m.size
        places = None
        if not np.all(i[:-1] <= i[1:]):
            places = np.argsort(i, kind="stable").astype(narrow)
            j = j[places]
        indptr = np.concatenate([[0], np.cumsum(np.bincount(i, minlength=self.shape[0]))])
        del i
        self.by_rows = Order(indptr.astype(np.int64), j, places)
        ids = np.arange(self.size, dtype=narrow)
        columns = sp.csr_matrix((ids, j, indptr.astype(narrow)), self.shape, copy=False).tocsc()
        ids = columns.data if places is None else places[columns.data]
        self.by_columns = Order(columns.indptr.astype(np.int64), columns.indices, ids)

    def matrix(self, values: Array) -> SparseMatrix:
        """The sparse matrix with these values; those of an entry that is read twice add up."""
        return SparseMatrix(self, values)


class SparseMatrix:
    """A matrix with values on a pattern, known by its products."""

    def __init__(self, pattern: Pattern, values: Array) -> None:
        self.shape, self._pattern, self.values = pattern.shape, pattern, values
        self.repeats = pattern.repeats
        """How many values can have one place: no map reads an entry twice."""
        self._rows = pattern.by_rows.sorted(values)
        self._columns = pattern.by_columns.sorted(values)

    def times(self, K: Array) -> Array:
        """V K."""
        return self._pattern.by_rows.times(self._rows, K)

    def transposed(self, Q: Array) -> Array:
        """Vᵀ Q."""
        return self._pattern.by_columns.times(self._columns, Q)

    def compressed(self) -> sp.csr_matrix:
        """Return the matrix as one of SciPy, a number for each place."""
        order, repeated = self._pattern.by_rows, self.repeats > 1
        parts = self._rows, order.indices, order.indptr
        matrix = sp.csr_matrix(parts, self.shape, copy=repeated)
        if repeated:
            matrix.sum_duplicates()
        return matrix
