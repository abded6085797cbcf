"""The iterate as a dense array."""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np

from condgrad._types import ALL, Array, Rows
from condgrad.backends import kernels
from condgrad.backends.arrays import foreign, namespace
from condgrad.maps import LinearMap
from condgrad.points.atoms import Atom
from condgrad.points.low_rank import LowRank, Matrix, Products


class Taken(NamedTuple):
    """A step W ← W + η(S − W)."""

    S: LowRank
    eta: float
    D: Array
    """η(S − W), until the next one is written there."""
    number: int
    """Number of the step among all of this process."""
    since: int | None
    """Number of the step right before; None if there was none."""


_NUMBERS = itertools.count()


class Dense:
    """W as an array, moved by convex combinations with atoms.

    Estimators ask a point for images (`rows`) and never for W itself, so that another
    representation of W only has to answer the same question.

    Parameters
    ----------
    array : array
        The starting point; it is copied.
    keep_previous : bool, default False
        Keep W_{k−1} beside W_k, for estimators that compare the two.
    """

    def __init__(self, array: Array, keep_previous: bool = False) -> None:
        self.array = array.copy(order="C")
        self.previous: Dense | None = Dense(array) if keep_previous else None
        self._descended: Array | None = None
        self.whole = True
        """False within a step, which an interruption can leave half made."""

    _transient = ("taken",)
    taken: Taken | None = None
    """The latest change, where that was a step towards a point of low rank."""

    def rows(self, map: LinearMap, at: Rows = ALL) -> Array:
        """Images z = A W of the rows `at`."""
        return map.rows(self.array, at)

    def descended(self, v: Array, step: float, offset: Array | None) -> Products:
        """W − step (v + vᵀ)/2 − offset, good until the next call."""
        room = self._room(v)
        kernels(v).descended(self.array, v, step, offset, room)
        return Matrix(room)

    def _room(self, v: Array) -> Array:
        """An array shaped as a direction, for what is needed for a moment."""
        if self._descended is None:
            self._descended = namespace(v).empty(v.shape)
        return self._descended

    def towards(self, S: LowRank, D: Array, eta: float = 1.0) -> None:
        """W ← W + η(S − W), which is S itself for η = 1; D becomes the step."""
        since = None if self.taken is None else self.taken.number
        S.write(D)
        if eta == 1 and not foreign(D):
            step = self._room(D)
            np.subtract(D, self.array, out=step)
            self.place(D)
            D[...] = step
        else:
            self.stride(D, eta)
        self.taken = Taken(S, eta, D, next(_NUMBERS), since)

    def shift(self, D: Array) -> None:
        """W ← W + D."""
        if self.previous is not None:
            self.previous.array[...] = self.array
        self._leave()
        self.array += D
        self.whole = True

    def stride(self, D: Array, eta: float = 1.0) -> None:
        """W ← W + η(S − W), S given in D, which becomes the step."""
        if self.previous is not None or not foreign(D):
            D -= self.array
            if eta != 1:
                D *= eta
            self.shift(D)
            return
        self._leave()
        kernels(D).stride(self.array, D, eta)
        self.whole = True

    def place(self, S: Array) -> None:
        """W ← S."""
        if self.previous is not None:
            self.previous.array[...] = self.array
        self._leave()
        self.array[...] = S
        self.whole = True

    def step(self, eta: float, atom: Atom) -> None:
        """W ← (1 − η) W + η·atom."""
        if self.previous is not None:
            self.previous.array[...] = self.array
        self._leave()
        atom.blend(self.array, eta)
        self.whole = True

    def _leave(self) -> None:
        """The array is about to change."""
        self.whole, self.taken = False, None
