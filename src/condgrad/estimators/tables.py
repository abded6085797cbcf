"""Tables of slopes, one entry per row of a term."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from condgrad._types import Array, Rows, ids_of
from condgrad.backends import ops
from condgrad.backends.memory import free_memory
from condgrad.errors import ProblemError

Kind = Literal["auto", "dense", "sparse"]


class DenseTable:
    """One number per row, in float64 or float32.

    Parameters
    ----------
    size : int
        Rows of the term.
    dtype : float64 or float32
        Storage type.
    """

    def __init__(self, size: int, dtype: Any = np.float64) -> None:
        self.size = size
        self.values = np.zeros(size, dtype)

    def swap(self, at: Rows, new: Array) -> Array:
        """Store `new` in the rows `at` and return by how much each changed; repeats are safe."""
        if isinstance(at, slice):
            old = self.values[at].astype(new.dtype)
            self.values[at] = new
            return self.values[at].astype(new.dtype) - old
        delta: Array = ops.table_swap(self.values, at, new)
        return delta

    def dense(self) -> Array:
        """All entries."""
        return self.values

    @property
    def nbytes(self) -> int:
        """Memory of the table."""
        return self.values.nbytes


class SparseTable:
    """Only the rows that ever had a slope other than 0, in a hash table that grows as needed.

    A slot is a row's number and its slope, 8 bytes in float32 (12 where there are more than 2³¹
    rows), and at least half of the slots stay empty.

    Parameters
    ----------
    size : int
        Rows of the term.
    dtype : float64 or float32
        Storage type.
    """

    def __init__(self, size: int, dtype: Any = np.float64) -> None:
        self.size = size
        self.count = 0
        self._keys = np.full(1024, -1, key_type(size))
        self._values = np.zeros(1024, dtype)

    def swap(self, at: Rows, new: Array) -> Array:
        """Store `new` in the rows `at` and return by how much each changed; repeats are safe."""
        capacity = self._keys.size
        while 2 * (self.count + min(new.size, int(np.count_nonzero(new)))) > capacity:
            capacity *= 2
        if capacity > self._keys.size:
            slot = self._keys.itemsize + self._values.itemsize
            if capacity * slot > free_memory():
                raise MemoryError(f"the table has {self.count} rows and cannot grow")
            self._keys, self._values = ops.hash_grow(self._keys, self._values, capacity)
        delta: Array
        delta, inserted = ops.hash_swap(self._keys, self._values, ids_of(at, self.size), new)
        self.count += int(inserted)
        return delta

    def dense(self) -> Array:
        """All entries."""
        out, used = np.zeros(self.size, self._values.dtype), self._keys >= 0
        out[self._keys[used]] = self._values[used]
        return out

    @property
    def nbytes(self) -> int:
        """Memory of the table."""
        return self._keys.nbytes + self._values.nbytes


Table = DenseTable | SparseTable


def key_type(size: int) -> Any:
    """The type of a row's number."""
    return np.int32 if size < 2**31 else np.int64


def table_memory(size: int, kind: Kind, dtype: Any, batch: int) -> int:
    """Bytes of a table; of a sparse one, of which nobody knows how far it will grow, at the start.

    A batch with no slope 0 makes it grow to four slots a row and be copied once.
    """
    real = np.dtype(dtype).itemsize
    if kind_of(size, kind, dtype) == "dense":
        return size * real
    return 6 * min(batch, size) * (real + np.dtype(key_type(size)).itemsize)


def make_table(size: int, kind: Kind = "auto", dtype: Any = np.float64) -> Table:
    """A table for `size` rows; ``"auto"`` is dense where it takes at most half the free memory."""
    check_table(kind, dtype)
    dense = kind_of(size, kind, dtype) == "dense"
    return DenseTable(size, dtype) if dense else SparseTable(size, dtype)


def kind_of(size: int, kind: Kind, dtype: Any) -> Kind:
    """Kind of table that ``"auto"`` means now."""
    if kind != "auto":
        return kind
    return "dense" if size * np.dtype(dtype).itemsize <= 0.5 * free_memory() else "sparse"


def check_table(kind: str, dtype: Any) -> None:
    """Refuse an unknown kind or a type that would truncate slopes."""
    if kind not in ("auto", "dense", "sparse"):
        raise ProblemError(f"table is {kind!r}: use 'auto', 'dense' or 'sparse'")
    try:
        dtype = np.dtype(dtype)
    except TypeError:
        raise ProblemError(f"table_dtype is {dtype!r}: use float64 or float32") from None
    if dtype not in (np.dtype(np.float64), np.dtype(np.float32)):
        raise ProblemError(
            f"table_dtype is {dtype}: use float64 or float32 (an integer type would truncate)"
        )
