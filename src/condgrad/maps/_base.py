"""What a linear map must offer, and what follows from it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator, eigsh

from condgrad._floats import TINY
from condgrad._types import ALL, Array, Rows, span
from condgrad.backends import ops
from condgrad.errors import ProblemError


class LinearMap(ABC):
    r"""A: W ↦ z, z_l = ⟨a_l, W⟩, known only by what it does.

    The *cotangent* G stands for A*y = Σ_l y_l a_l in the map's own compact storage, a flat array
    of `storage` numbers: the values of a sparsity pattern, an n-vector, an n × n array. A new map
    defines `rows`, `scatter` and `add_to`; `at` is an integer array (repeats allowed) or a slice.
    """

    size: int
    """Number of rows."""
    shape: tuple[int, ...]
    """Shape of W."""
    storage: int
    """Length of the cotangent."""
    row_norm: float
    """An upper bound on max_l ‖a_l‖, up to rounding."""
    covers: ClassVar[bool] = False
    """Whether A*y fills the whole of W, so that `set_to` is cheaper than a sum."""

    @abstractmethod
    def rows(self, W: Array, at: Rows = ALL) -> Array:
        """z_l = ⟨a_l, W⟩ for the rows `at`."""

    @abstractmethod
    def scatter(self, G: Array, at: Rows, y: Array) -> None:
        """G += Σ y_l a_l over the rows `at`, in place, in the map's own storage."""

    @abstractmethod
    def add_to(self, G: Array, weight: float, out: Array) -> None:
        """out += weight · A*y, in place, `out` a dense array shaped as W."""

    def set_to(self, G: Array, weight: float, out: Array) -> None:
        """Set out to weight · A*y, in place."""
        out.fill(0)
        self.add_to(G, weight, out)

    @property
    def depth(self) -> int:
        """Operations that a product y_l a_l passes through at most on its way into A*y.

        Counted are those of a pass over all rows and of `add_to`, but for the factor there. As many
        as there are rows is enough for a map that adds one row after the other.
        """
        return self.size

    def lengths(self, at: Rows = ALL) -> Array | float:
        """‖a_l‖ of the rows `at` up to rounding, or more; one number serves all of them.

        A*y is rounded against Σ|y_l|‖a_l‖. Where an entry of a row is itself a sum, the absolute
        values in that sum count, since they may cancel.
        """
        return self.row_norm

    def spread(self, y: Array, at: Rows = ALL) -> float:
        """Σ |y_l| ‖a_l‖, what A*y is rounded against, and what underflow of its products adds."""
        sizes = self.lengths(at)
        if not (np.any(sizes) and y.any()):
            return 0.0
        lost = y.size * TINY * (self.row_norm + float(np.sqrt(np.prod(self.shape))))
        return float(np.sum(np.abs(y) * sizes)) + lost

    @property
    def block(self) -> int:
        """Rows that lie side by side in memory, the natural unit to draw; 1 where there is none."""
        return 1

    def require_symmetric(self) -> None:
        """Refuse rows that are no symmetric matrices; asked for where the domain is symmetric.

        Only maps that are given a matrix by the user have anything to refuse.
        """
        return None

    def zeros(self, dtype: Any = np.float64) -> Array:
        """The cotangent of y = 0."""
        return np.zeros(self.storage, dtype)

    def adjoint(self, y: Array) -> Array:
        """A*y as a dense array shaped as W."""
        G, out = self.zeros(y.dtype), np.zeros(self.shape, y.dtype)
        self.scatter(G, ALL, y)
        self.add_to(G, 1.0, out)
        return out

    def norm(self, symmetric: bool = False) -> float:
        """Operator norm ‖A‖, over symmetric W only where asked for.

        The largest eigenvalue of A*A by ARPACK, to about nine digits.
        """
        size = int(np.prod(self.shape))
        square = symmetric and len(self.shape) == 2 and self.shape[0] == self.shape[1]

        def product(x: Array) -> Array:
            W = x.reshape(self.shape)
            W = self.adjoint(self.rows(np.ascontiguousarray(W + W.T) / 2 if square else W))
            return ((W + W.T) / 2 if square else W).reshape(-1)

        if size < 3:
            return float(
                np.sqrt(max(np.linalg.eigvals(np.array([*map(product, np.eye(size))])).real))
            )
        start = np.random.default_rng(0).standard_normal(size)
        if not product(start).any():
            return 0.0
        operator = LinearOperator((size, size), matvec=product, dtype=np.float64)
        top = eigsh(operator, k=1, which="LA", v0=start, tol=1e-9, return_eigenvectors=False)
        return float(np.sqrt(max(top[0], 0.0)))


class RowStorage(LinearMap):
    """A map whose cotangent is y itself, one number per row, until `add_to` spreads it.

    No entry of W is read by two rows.
    """

    @property
    def depth(self) -> int:
        """A number of y is not added to another."""
        return 1

    def scatter(self, G: Array, at: Rows, y: Array) -> None:
        if isinstance(at, slice):
            G[at] += y
        else:
            ops.add_at(G, at, y)


class Covering(LinearMap):
    """A map whose cotangent has an entry for every entry of W, in its order."""

    covers: ClassVar[bool] = True

    def set_to(self, G: Array, weight: float, out: Array) -> None:
        if out.flags.c_contiguous:
            flat = out.reshape(-1)
            if weight != 1 or G.ctypes.data != flat.ctypes.data:  # G may be `out` itself
                np.multiply(G, out.dtype.type(weight), out=flat)
        else:
            out[...] = weight * G.reshape(self.shape)

    def add_to(self, G: Array, weight: float, out: Array) -> None:
        if out.flags.c_contiguous:
            ops.axpy(out.reshape(-1), weight, G)
        else:  # a reshaped copy would swallow the sum
            out += weight * G.reshape(self.shape)


def ids_of(at: Rows, size: int) -> Array:
    """The rows `at` as an integer array."""
    return np.arange(*span(at, size)) if isinstance(at, slice) else at


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
