"""Messages: points to the actors, by the step that led there where that is smaller, and
cotangents back, by half where W is symmetric.
"""

from __future__ import annotations

import copy
from typing import Any, NamedTuple

import numpy as np

from condgrad._types import Array
from condgrad.backends import kernels
from condgrad.backends.arrays import HOST, host, placed
from condgrad.points.dense import Dense
from condgrad.points.low_rank import LowRank

INLINE = 80_000
"""Bytes of a message that goes with every call; Ray itself stores arguments above 100 kB."""


class Point(NamedTuple):
    """W as it is sent: an array, or a step towards a point of low rank."""

    shape: tuple[int, ...]
    own: np.dtype
    """Type of the entries of W at the driver."""
    dtype: np.dtype
    """Type of the entries of W at the actors."""
    number: int | None = None
    """Number of the step which led to W, by which actors know what they have."""
    array: Array | None = None
    S: LowRank | None = None
    eta: float = 1.0
    since: int | None = None
    """The step before, from which this one is made; None: from anywhere."""

    @property
    def nbytes(self) -> int:
        if self.array is not None:
            return self.array.nbytes
        return 0 if self.S is None else _bytes(self.S)


def _bytes(S: LowRank) -> int:
    return sum(U.nbytes for U in S.factors) + S.diagonal.nbytes


def _there(S: LowRank, like: Array) -> LowRank:
    """Return the point with its arrays where `like` lies."""

    def there(x: Array) -> Array:
        return placed(host(x), like)

    return S._replace(
        factors=[there(U) for U in S.factors], at=there(S.at), diagonal=host(S.diagonal)
    )


def sendable(W: Dense, dtype: Any, held: int | None) -> Point:
    """W for actors that look at it in some precision and have it after some step."""
    array, taken, point = W.array, W.taken, Point(W.array.shape, W.array.dtype, np.dtype(dtype))
    if taken is not None:
        point = point._replace(number=taken.number)
        if held == taken.number:
            return point
        since = taken.since if taken.since == held else None
        small = 2 * _bytes(taken.S) <= array.size * point.dtype.itemsize
        if small and taken.S.offset is None and (taken.eta == 1 or since is not None):
            return point._replace(S=_there(taken.S, HOST), eta=taken.eta, since=since)
    exact = point.dtype == point.own
    sent = host(array).astype(dtype, copy=False)
    return point._replace(array=sent, number=point.number if exact else None)


class Follower:
    """The point that an actor has: it makes the steps that the driver has made.

    Parameters
    ----------
    like : array
        Where its arrays are.
    """

    def __init__(self, like: Array) -> None:
        self._like = like
        self._point: Dense | None = None
        self._number: int | None = None
        self.D: Array | None = None
        """The latest step, where it was made from the point before."""

    def reach(self, W: Point) -> Dense:
        """A point that was sent, in the precision in which it is looked at."""
        if self._point is None or self._number is None or self._number != W.number:
            self.D = None
            self._point, self._number = self._next(W), W.number
        found = copy.copy(self._point)
        found.array = found.array.astype(W.dtype, copy=False)
        return found

    def _next(self, W: Point) -> Dense:
        own, S, before, self._number = self._point, W.S, self._number, None
        if W.array is not None:
            return Dense(placed(W.array, self._like))
        if S is None or (W.since is not None and before != W.since):
            raise RuntimeError(f"W after step {W.number} cannot be made of what is here")
        S = _there(S, self._like)
        D: Array = np.empty(W.shape, like=self._like)
        if W.since is not None and own is not None:
            own.towards(S, D, W.eta)
            self.D = D
            return own
        S.write(D)
        return Dense(D.astype(W.own, copy=False))


def size_of(value: Any) -> int:
    """Bytes of an array, or of a point; of all else, which is small, none."""
    return int(getattr(value, "nbytes", 0))


class Reply(NamedTuple):
    """Form of a cotangent on its way back."""

    dtype: np.dtype | None
    """Precision of the cotangent on its way; None keeps its own."""
    half: bool
    """True if the upper triangle of G + Gᵀ is enough."""
    change: bool
    """True if actors send the change of the cotangent instead of the whole."""

    def packed(self, G: Array, shape: tuple[int, ...]) -> Array:
        """A cotangent as it is sent, which may be G itself."""
        found = G
        if self.half:
            found = np.empty(shape[0] * (shape[0] + 1) // 2, G.dtype, like=G)
            kernels(G).folded(G.reshape(shape), found)
        sent: Array = host(found)
        return sent if self.dtype is None else sent.astype(self.dtype, copy=False)

    def unpacked(self, found: Array, out: Array, shape: tuple[int, ...]) -> None:
        """Write to `out` what was received, or a sum of such."""
        there = placed(found, out)
        if self.half:
            kernels(out).unfolded(there, out.reshape(shape))
        else:
            out[...] = there
