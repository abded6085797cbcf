"""Points of low rank, and matrices that are only multiplied."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np

from condgrad._types import Array
from condgrad.backends import kernels
from condgrad.backends.arrays import diagonal, foreign


class Products(Protocol):
    """A symmetric, block-diagonal X, known by what it does part by part."""

    def times(self, part: slice, K: Array) -> Array:
        """X K, of one part."""

    def whole(self, part: slice) -> Array:
        """The part as an array."""

    def diagonal(self, at: Array) -> Array:
        """Entries of the diagonal."""


class Matrix:
    """A symmetric, block-diagonal X in an array."""

    def __init__(self, array: Array) -> None:
        self.array = array

    def times(self, part: slice, K: Array) -> Array:
        product: Array = self.array[part, part] @ K
        return product

    def whole(self, part: slice) -> Array:
        return self.array[part, part]

    def diagonal(self, at: Array) -> Array:
        return diagonal(self.array)[at]


class LowRank(NamedTuple):
    """U Uᵀ part by part, entries of the diagonal elsewhere, and an offset."""

    parts: Sequence[slice]
    factors: Sequence[Array]
    at: Array
    """Positions of diagonal entries outside the factors."""
    diagonal: Array
    """Diagonal entries at these positions."""
    offset: Array | None

    def write(self, out: Array) -> None:
        """Write the matrix to an array."""
        if len(self.parts) != 1 or self.at.size:
            out.fill(0)
        for part, U in zip(self.parts, self.factors, strict=True):
            if foreign(out):
                kernels(out).gemm(out[part, part], U, U.T)
            elif out[part, part].flags.c_contiguous:
                np.dot(U, U.T, out=out[part, part])
            else:
                out[part, part] = U @ U.T
        if self.at.size:
            diagonal(out)[self.at] = np.asarray(self.diagonal, like=out)
        if self.offset is not None:
            out += self.offset
