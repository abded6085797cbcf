"""Extreme points in the structure that the oracle gives them, which makes steps cheap."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from condgrad._types import Array
from condgrad.backends import kernels
from condgrad.backends.arrays import HOST


class Atom(ABC):
    """Answer of a linear minimisation oracle: a point of the domain, and its cost."""

    shape: tuple[int, ...]
    products: int = 0
    """Matrix-vector products that the oracle spent on the atom."""
    like: Array = HOST
    """An array on the device of the atom."""

    @abstractmethod
    def blend(self, W: Array, eta: float) -> None:
        """W ← (1 − η) W + η·atom, in place."""

    def dense(self, dtype: type = np.float64) -> Array:
        """The atom as an array."""
        W: Array = np.zeros(self.shape, dtype, like=self.like)
        self.blend(W, 1.0)
        return W


@dataclass(eq=False)
class RankOne(Atom):
    """scale · u vᵀ, optionally as the block of a larger zero matrix that starts at `offset`."""

    scale: float
    u: Array
    v: Array
    products: int = 0
    offset: int = 0
    side: int = 0

    def __post_init__(self) -> None:
        self.shape = (self.side, self.side) if self.side else (self.u.size, self.v.size)
        self.like = self.u

    def blend(self, W: Array, eta: float) -> None:
        if self.side:
            W *= 1 - eta
            part = slice(self.offset, self.offset + self.u.size)
            W[part, part] += eta * self.scale * np.outer(self.u, self.v)
        else:
            kernels(W).rank_one_step(W, 1 - eta, eta * self.scale, self.u, self.v)


@dataclass(eq=False)
class Coordinate(Atom):
    """`value` at one position of a vector, 0 elsewhere."""

    index: int
    value: float
    shape: tuple[int, ...]

    def blend(self, W: Array, eta: float) -> None:
        W *= 1 - eta
        W[self.index] += eta * self.value


@dataclass(eq=False)
class Full(Atom):
    """An atom without structure, an array."""

    array: Array

    def __post_init__(self) -> None:
        self.shape = self.array.shape

    def blend(self, W: Array, eta: float) -> None:
        W *= 1 - eta
        W += eta * self.array


@dataclass(eq=False)
class Blocks(Atom):
    """Atoms of the factors of a product, one behind the other in one vector."""

    parts: Sequence[Atom]

    def __post_init__(self) -> None:
        self.shape = (sum(int(np.prod(a.shape)) for a in self.parts),)
        self.products = sum(a.products for a in self.parts)

    def blend(self, W: Array, eta: float) -> None:
        ends = np.cumsum([int(np.prod(a.shape)) for a in self.parts])
        for a, own in zip(self.parts, np.split(W, ends[:-1]), strict=True):
            a.blend(own.reshape(a.shape), eta)


@dataclass(eq=False)
class Moved(Atom):
    """An atom plus a fixed point."""

    atom: Atom
    offset: Array

    def __post_init__(self) -> None:
        self.shape, self.products = self.atom.shape, self.atom.products
        self.like = self.offset

    def blend(self, W: Array, eta: float) -> None:
        self.atom.blend(W, eta)
        if W.flags.c_contiguous:
            kernels(W).axpy(W.reshape(-1), eta, self.offset.reshape(-1))
        else:
            W += eta * self.offset
