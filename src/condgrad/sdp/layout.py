"""Blocks of a matrix variable, and its numbers one behind the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from condgrad._check import numbers, real_matrix, real_numbers
from condgrad._types import Array
from condgrad.backends import memory
from condgrad.errors import ProblemError
from condgrad.maps.inner import asymmetry

BUILT = 3
"""Matrices in memory while a program is built."""
REMEDY = (
    "solve a smaller program, or one of smaller blocks; for a maximum cut use condgrad.max_cut, "
    "which keeps W as factors"
)

HALF = (
    "is triangular, which people mean in two ways: pass (T + T.T)/2 where ⟨T, W⟩ is meant as it "
    "stands, or T + T.T - np.diag(np.diag(T)) where T is one half of a symmetric matrix"
)


@dataclass(frozen=True, eq=False)
class LowRank:
    """The matrix U diag(s) Uᵀ, given by its factors.

    Parameters
    ----------
    U : array, shape (n, r) or (n,)
        Factors as columns.
    s : array, shape (r,), optional
        Their weights; default 1.
    """

    U: Any
    s: Any = None

    def checked(self, name: str, n: int) -> tuple[Array, Array]:
        """Factors and weights as float64, copied, for a block of side n."""
        U = numbers(f"{name}.U", self.U).copy()
        U = U[:, None] if U.ndim == 1 else U
        if U.ndim != 2 or U.shape[0] != n or U.shape[1] == 0:
            raise ProblemError(f"{name}.U has shape {U.shape}: it must be {n} × r")
        s = np.ones(U.shape[1]) if self.s is None else numbers(f"{name}.s", self.s).copy()
        if s.shape != (U.shape[1],):
            raise ProblemError(
                f"{name}.s has shape {s.shape}: give one number for each column of U"
            )
        return U, s


class Layout:
    """Positions of the numbers of a variable with several blocks.

    A positive semidefinite block of side n has n² numbers, row by row, a non-negative block of
    length n has n: all of them one behind the other are the *flat* form. As one square matrix the
    blocks stand on the diagonal.

    Parameters
    ----------
    blocks : sequence of int
        n for a semidefinite block, −n for a non-negative one.
    """

    def __init__(self, blocks: Sequence[int]) -> None:
        self.blocks = tuple(int(b) for b in blocks)
        lengths = [b * b if b > 0 else -b for b in self.blocks]
        self.starts = np.cumsum([0, *lengths])
        """First number of each block in the flat form."""
        self.corners = np.cumsum([0, *map(abs, self.blocks)])
        """First row of each block in the square matrix."""
        self.size, self.side = int(self.starts[-1]), int(self.corners[-1])

    def positions(self) -> tuple[Array, Array]:
        """Row and column in the square matrix of every number of the flat form."""
        i, j = [], []
        for b, corner in zip(self.blocks, self.corners, strict=False):
            own = corner + np.arange(abs(b))
            i.append(np.repeat(own, b) if b > 0 else own)
            j.append(np.tile(own, b) if b > 0 else own)
        return np.concatenate(i), np.concatenate(j)

    def mirror(self) -> Array:
        """Position of the mirrored number of every number of the flat form."""
        own = self.split(np.arange(self.size))
        return np.concatenate([np.zeros(0, np.int64), *(part.T.reshape(-1) for part in own)])

    def symmetric_parts(self, name: str, rows: Any) -> Any:
        """The rows of a CSR array in flat form, each with the symmetric parts of its blocks."""
        mirrored = rows[:, self.mirror()]
        if not (rows != mirrored).nnz:
            return rows
        i, j = self.positions()
        for l in np.unique((rows != mirrored).nonzero()[0]):
            at = rows.indices[rows.indptr[l] : rows.indptr[l + 1]]
            at = at[rows.data[rows.indptr[l] : rows.indptr[l + 1]] != 0]
            block = np.searchsorted(self.starts, at, side="right")
            parts = (at[block == b] for b in np.unique(block))
            if any(is_half(i[part], j[part]) for part in parts):
                raise ProblemError(f"row {l} of {name} {HALF}")
        return sp.csr_array(0.5 * rows + 0.5 * mirrored)

    def split(self, flat: Array) -> list[Array]:
        """The blocks of a flat vector, matrices and vectors; of several in columns, all at once."""
        parts = zip(np.split(flat, self.starts[1:]), self.blocks, strict=False)
        return [p.reshape(b, b, *p.shape[1:]) if b > 0 else p for p, b in parts]

    def flatten(self, name: str, value: Any) -> tuple[Array, Array]:
        """Positions and values in flat form of a matrix shaped as the variable, checked."""
        given = blocks_of(value)
        if len(given) != len(self.blocks):
            raise ProblemError(
                f"{name} has {len(given)} blocks, but the variable has {len(self.blocks)}: give "
                "one for each, None for zero"
            )
        columns, values = [np.empty(0, np.int64)], [np.empty(0)]
        for i, (one, b) in enumerate(zip(given, self.blocks, strict=True)):
            if one is not None:
                at, x = _entries(name if len(given) == 1 else f"{name}[{i}]", one, b)
                columns.append(self.starts[i] + at)
                values.append(x)
        return np.concatenate(columns), np.concatenate(values)


def blocks_of(value: Any) -> list[Any]:
    """The blocks of what the user gave: a list of arrays has several, nested lists are a matrix."""
    if not isinstance(value, (list, tuple)):
        return [value]
    if value and all(isinstance(row, (list, tuple)) for row in value):
        return [np.array(value)] if len({len(row) for row in value}) == 1 else list(value)
    return list(value)


def layout_of(C: Any) -> Layout:
    """The layout of a cost matrix, or of a list of blocks."""
    given = blocks_of(C)
    if not given:
        raise ProblemError("C is empty: give at least one block")
    return Layout([_block_of(f"C[{i}]" if len(given) > 1 else "C", c) for i, c in enumerate(given)])


def _block_of(name: str, C: Any) -> int:
    if isinstance(C, LowRank):
        U = numbers(f"{name}.U", C.U)
        return int(C.checked(name, len(U) if U.ndim else 1)[0].shape[0])
    shape = C.shape if sp.issparse(C) else numbers(name, C).shape
    if 0 in shape or len(shape) not in (1, 2) or (len(shape) == 2 and shape[0] != shape[1]):
        raise ProblemError(
            f"{name} has shape {shape}: it must be a square matrix for a semidefinite block, or a "
            "vector for a non-negative one"
        )
    return int(shape[0]) if len(shape) == 2 else -int(shape[0])


def _entries(name: str, value: Any, b: int) -> tuple[Array, Array]:
    """Positions and values of the numbers of one block that are not 0."""
    if isinstance(value, LowRank):
        if b < 0:
            raise ProblemError(f"{name} is a LowRank, but its block is a vector: give a vector")
        U, s = value.checked(name, b)
        value = (U * s) @ U.T
        value = (value + value.T) / 2
    shape = (b, b) if b > 0 else (-b,)
    if sp.issparse(value):
        value = sp.coo_array(value)
        value.sum_duplicates()
        value.data = real_numbers(name, value.data)
    else:
        value = real_matrix(name, value) if b > 0 else numbers(name, value)
    if value.shape != shape:
        raise ProblemError(f"{name} has shape {value.shape}: its block of the variable has {shape}")
    if b > 0:
        value = symmetric_part(name, value)
    where = value.coords if sp.issparse(value) else np.nonzero(value)
    x = value.data if sp.issparse(value) else value[where]
    at = where[0].astype(np.int64) * b + where[1] if b > 0 else where[0].astype(np.int64)
    return at, x


def symmetric_part(name: str, A: Any) -> Any:
    """(A + Aᵀ)/2 of a square matrix, dense or in COO form; A where it is that up to rounding."""
    if asymmetry(name, A) is None:
        return A
    i, j = A.coords if sp.issparse(A) else np.nonzero(A)
    if sp.issparse(A):
        i, j = i[A.data != 0], j[A.data != 0]
    if is_half(i, j):
        raise ProblemError(f"{name} {HALF}")
    whole = 0.5 * A + 0.5 * A.T
    return sp.coo_array(whole) if sp.issparse(A) else whole


def is_half(i: Array, j: Array) -> bool:
    """Whether entries at (i, j) may be one triangle that stands for a symmetric matrix.

    One entry alone is taken for what it is: ⟨A, W⟩ is then a multiple of an entry of W.
    """
    return bool(i.size > 1 and (i != j).any() and ((i <= j).all() or (i >= j).all()))


def require_room(layout: Layout, matrices: int) -> None:
    """Refuse blocks of which so many matrices do not fit into the free memory."""
    side = max(layout.blocks, default=0)
    what = f"dense matrices, the largest block {side} × {side}"
    memory.require_room(matrices * 8 * layout.size, REMEDY, what)
