"""Interface of a linear map, and its consequences."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from scipy.sparse.linalg import LinearOperator, eigsh

from condgrad._floats import TINY
from condgrad._shown import shown
from condgrad._types import ALL, Array, Rows
from condgrad.backends import kernels
from condgrad.backends.arrays import HOST, MANY, address, contiguous, host, moved

Kernel = str | Callable[..., None]


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
    kernels: ClassVar[tuple[Kernel, Kernel] | None] = None
    """``sweep(W, start, stop, out)``, which writes the images of a range of rows, and its adjoint
    ``add(G, start, stop, y)``: functions that Numba can compile, or names of kernels. With them
    passes over all rows are fused. G is shaped as W where `covers`, else the cotangent as it is."""
    portable: ClassVar[bool] = False
    """True if rows can be read where W lies on a GPU; a derived class says so anew."""
    like: Array = HOST
    """An array on the device of the map's arrays."""
    origin: LinearMap | None = None
    """The map in the memory of the process that this one is a copy of, if it lies elsewhere."""
    chunk: int = 1 << 18
    """Rows handled at a time in a full pass, so that one over 10⁸ needs no array of 10⁸."""
    covers: ClassVar[bool] = False
    """Whether A*y fills the whole of W, so that `set_to` is cheaper than a sum."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        own = set(vars(cls))  # what follows from these is not that of a base
        if "add_to" in own and "set_to" not in own:
            cls.set_to = LinearMap.set_to  # type: ignore[method-assign]
        if {"rows", "scatter", "add_to"} & own and "norm" not in own:
            cls.norm = LinearMap.norm  # type: ignore[method-assign]

    def __repr__(self) -> str:
        return shown(self, "size", "shape")

    def seen(self, W: Array) -> Array:
        """Array that `kernels` sweep, if that is not W itself; `add_to` takes G back from there."""
        return W

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
    def swept(self) -> tuple[Kernel, Kernel] | None:
        """`kernels`, unless a class derived from theirs has changed rows."""
        kinds = type(self).__mro__
        owner = next(c for c in kinds if {"rows", "scatter", "kernels"} & set(vars(c)))
        return self.kernels if "kernels" in vars(owner) else None

    def pieces(self, start: int, stop: int) -> Array:
        """The ranges that `kernels` sweep for a range of rows, and the first row of each."""
        return np.array([[start, stop, start]], np.int64)

    @property
    def stretch(self) -> int:
        """Rows that lie side by side in memory, the natural unit to draw; 1 where there is none."""
        return 1

    def require_symmetric(self) -> None:
        """Refuse rows that are no symmetric matrices; asked for where the domain is symmetric.

        Only maps that are given a matrix by the user have anything to refuse.
        """
        return None

    def zeros(self, dtype: Any = np.float64) -> Array:
        """The cotangent of y = 0."""
        return np.zeros(self.storage, dtype, like=self.like)

    @property
    def entries(self) -> int:
        """Numbers in a table of the rows."""
        return self.size

    def table(self, dtype: Any = np.float64) -> Array:
        """A number for every row, 0, as passes over them keep it."""
        return np.zeros(self.entries, dtype, like=self.like)

    def listed(self, table: Array) -> Array:
        """The numbers of a table in the order of the rows."""
        return table

    def on(self, like: Array) -> LinearMap:
        """Return this map for arrays that lie where `like` does, with all rows in one chunk."""
        new = moved(self, like)
        new.chunk = self.size
        return new

    def paired(self, G: Array, weight: float, D: Array) -> float:
        """⟨weight · A*y, D⟩ by the cotangent of y."""
        v = np.zeros(D.shape, like=D)
        self.add_to(G, weight, v)
        return float(np.vdot(v, D))

    def adjoint(self, y: Array) -> Array:
        """A*y as a dense array shaped as W."""
        G = self.zeros(y.dtype)
        out = np.zeros(self.shape, y.dtype, like=self.like)
        self.scatter(G, ALL, y)
        self.add_to(G, 1.0, out)
        return out

    def gram(self, W: Array) -> Array:
        """The symmetric part of A*A W for a symmetric W."""
        V = self.adjoint(self.rows(W))
        return (V + V.T) / 2

    def norm(self, symmetric: bool = False) -> float:
        """Operator norm ‖A‖, over symmetric W only where asked for.

        The largest eigenvalue of A*A by ARPACK, to about nine digits.
        """
        if self.origin is not None and self.kernels is not None:
            return self.origin.norm(symmetric)
        size = int(np.prod(self.shape))
        square = symmetric and len(self.shape) == 2 and self.shape[0] == self.shape[1]

        def product(x: Array) -> Array:
            W = np.asarray(x.reshape(self.shape), like=self.like)
            found = self.gram(contiguous(W + W.T) / 2) if square else self.adjoint(self.rows(W))
            return host(found).reshape(-1)

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

    def on(self, like: Array) -> LinearMap:
        """Return this map for arrays that lie where `like` does, with chunks of a GiB at most."""
        new = super().on(like)
        new.chunk = min(self.size, MANY)
        return new

    def scatter(self, G: Array, at: Rows, y: Array) -> None:
        if isinstance(at, slice):
            G[at] += y
        else:
            kernels(G).add_at(G, at, y)


class Covering(LinearMap):
    """A map whose cotangent has an entry for every entry of W, in its order."""

    covers: ClassVar[bool] = True

    def set_to(self, G: Array, weight: float, out: Array) -> None:
        if out.flags.c_contiguous:
            flat = out.reshape(-1)
            if weight != 1 or address(G) != address(flat):  # G may be `out` itself
                np.multiply(G, out.dtype.type(weight), out=flat)
        else:
            out[...] = weight * G.reshape(self.shape)

    def add_to(self, G: Array, weight: float, out: Array) -> None:
        if out.flags.c_contiguous:
            kernels(out).axpy(out.reshape(-1), weight, G)
        else:  # a reshaped copy would swallow the sum
            out += weight * G.reshape(self.shape)
