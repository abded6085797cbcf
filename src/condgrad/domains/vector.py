"""Domains of vectors, and the door for a user's own oracle."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, ClassVar

import numpy as np

from condgrad._check import array_of, dimension, positive, row_data
from condgrad._floats import above, below, length
from condgrad._types import Array
from condgrad.domains._base import Ball, Domain, Minimum
from condgrad.errors import ProblemError
from condgrad.functions.group import project_simplex
from condgrad.points.atoms import Atom, Coordinate, Full


class Simplex(Domain):
    r"""{w ≥ 0, Σ w = τ}.

    Parameters
    ----------
    d : int
        Length of w.
    total : float, default 1
        τ > 0.

    Examples
    --------
    >>> Simplex(3).lmo(np.array([2.0, -1.0, 0.0])).dense()
    array([0., 1., 0.])
    """

    proof: ClassVar[str] = "exact"

    def __init__(self, d: int, total: float = 1.0) -> None:
        self.shape, self.total = (dimension("d", d),), positive("total", total)
        self.diameter = self.total * np.sqrt(2) * (d > 1)

    def lmo(self, v: Array, **_: Any) -> Atom:
        return Coordinate(int(np.argmin(v)), self.total, self.shape)

    def _nearest(self, X: Array) -> Array:
        return project_simplex(X, self.total)

    def contains(self, W: Array, tol: float = 1e-8) -> bool:
        slack = tol * self.total
        return bool(W.min() >= -slack and abs(W.sum() - self.total) <= slack)

    def center(self) -> Array:
        return np.full(self.shape, self.total / self.shape[0])

    @property
    def reach(self) -> float:
        return self.total

    def minimum(self, v: Array) -> Minimum:
        """τ min v."""
        return Minimum(below(self.total, float(np.min(v))), self.proof)


class L1Ball(Ball):
    r"""{w : ‖w‖₁ ≤ r}.

    Parameters
    ----------
    d : int
        Length of w.
    radius : float, default 1
        r > 0.
    """

    proof: ClassVar[str] = "exact"

    def __init__(self, d: int, radius: float = 1.0) -> None:
        super().__init__((dimension("d", d),), radius)

    def lmo(self, v: Array, **_: Any) -> Atom:
        i = int(np.argmax(np.abs(v)))
        return Coordinate(i, -self.radius if v[i] > 0 else self.radius, self.shape)

    def _nearest(self, X: Array) -> Array:
        """The nearest point: sizes that are too large go to the simplex."""
        sizes = np.abs(X)
        if sizes.sum(dtype=np.float64) <= self.radius:
            return X.copy()
        return np.copysign(project_simplex(sizes, self.radius), X)

    def contains(self, W: Array, tol: float = 1e-8) -> bool:
        return bool(np.abs(W).sum() <= self.radius * (1 + tol))

    def minimum(self, v: Array) -> Minimum:
        """−r max |v|."""
        return Minimum(below(self.radius, -float(np.abs(v).max())), self.proof)


class L2Ball(Ball):
    r"""{w : ‖w‖₂ ≤ r}; for matrices the Frobenius ball.

    Parameters
    ----------
    shape : int or tuple of int
        Shape of w.
    radius : float, default 1
        r > 0.
    """

    proof: ClassVar[str] = "exact"

    def __init__(self, shape: Any, radius: float = 1.0) -> None:
        super().__init__(any_shape(shape), radius)

    def lmo(self, v: Array, **_: Any) -> Atom:
        norm = length(v)
        return Full(v * (-self.radius / norm) if norm > 0 else np.zeros_like(v))

    def _nearest(self, X: Array) -> Array:
        norm = length(X)
        return X.copy() if norm <= self.radius else X * X.dtype.type(self.radius / norm)

    def contains(self, W: Array, tol: float = 1e-8) -> bool:
        return bool(np.linalg.norm(W) <= self.radius * (1 + tol))

    def minimum(self, v: Array) -> Minimum:
        """−r ‖v‖."""
        v = np.asarray(v, np.float64)
        norm = above(length(v), v.size + 4)
        return Minimum(below(self.radius, -norm), self.proof)


class Box(Domain):
    r"""{w : lower ≤ w ≤ upper}, entry by entry.

    Parameters
    ----------
    lower, upper : float or array
        Finite bounds, a number for all entries or one per entry.
    shape : int or tuple of int, optional
        Shape of w; needed where both bounds are numbers.
    """

    proof: ClassVar[str] = "exact"

    def __init__(self, lower: Any, upper: Any, shape: Any = None) -> None:
        low, high = _bounds("lower", lower), _bounds("upper", upper)
        if shape is None and low.ndim == high.ndim == 0:
            raise ProblemError("shape is missing: give it where both bounds are numbers")
        try:
            self.shape = any_shape(np.broadcast_shapes(low.shape, high.shape) or shape)
            if shape is not None:
                self.shape = any_shape(shape)
            self.lower = np.broadcast_to(low, self.shape).copy()
            self.upper = np.broadcast_to(high, self.shape).copy()
        except ValueError:
            raise ProblemError(
                f"lower {low.shape}, upper {high.shape} and shape {shape} do not fit together"
            ) from None
        if np.any(self.lower > self.upper):
            raise ProblemError("lower exceeds upper in some entry: the box is empty, swap them")
        self.diameter = length(self.upper - self.lower)

    def lmo(self, v: Array, **_: Any) -> Atom:
        s = np.where(v > 0, self.lower, self.upper)
        return Full(s.astype(v.dtype, copy=False) if v.dtype.kind == "f" else s)

    def _nearest(self, X: Array) -> Array:
        return np.clip(X, self.lower, self.upper).astype(X.dtype, copy=False)

    def contains(self, W: Array, tol: float = 1e-8) -> bool:
        slack = tol * max(float(np.abs(self.lower).max()), float(np.abs(self.upper).max()))
        return bool(np.all(self.lower - slack <= W) and np.all(self.upper + slack >= W))

    def center(self) -> Array:
        return 0.5 * (self.lower + self.upper)

    @property
    def reach(self) -> float:
        return length(np.maximum(np.abs(self.lower), np.abs(self.upper)))


class LinfBall(Box):
    r"""{w : |w_i| ≤ r}.

    Parameters
    ----------
    shape : int or tuple of int
        Shape of w.
    radius : float, default 1
        r > 0.
    """

    def __init__(self, shape: Any, radius: float = 1.0) -> None:
        self.radius = positive("radius", radius)
        super().__init__(-self.radius, self.radius, shape)

    _nearest = Box._nearest


class Oracle(Domain):
    """A domain known only by the user's own function.

    Parameters
    ----------
    lmo : callable
        Takes a direction v and returns a point s of the set with ⟨v, s⟩ smallest: a new array
        shaped as v, or an atom of `condgrad.points` such as ``RankOne(scale, u, w)``. It must not
        change v. It is called once here, to see what it returns.
    shape : int or tuple of int
        Shape of the points.
    diameter : float
        max ‖u − v‖ over the set, or an upper bound.
    contains : callable, optional
        Membership test ``contains(W, tol) -> bool``; without it every point counts as inside.

    Notes
    -----
    Bounds believe the function and are of the kind ``oracle``; a subclass of `Domain` with
    ``proof = "exact"`` says that it is a formula. Runs begin in the middle of two opposite answers.

    Examples
    --------
    >>> domain = Oracle(lambda v: -np.sign(v), shape=3, diameter=2 * np.sqrt(3))
    >>> domain.support(np.array([1.0, -2.0, 3.0]))
    6.0
    """

    def __init__(
        self,
        lmo: Callable[[Array], Any],
        shape: Any,
        diameter: float,
        contains: Callable[[Array, float], bool] | None = None,
    ) -> None:
        if not callable(lmo):
            raise ProblemError("lmo is not callable: pass a function that maps v to a minimiser")
        if contains is not None and not callable(contains):
            raise ProblemError(
                "contains is not callable: pass a function of (W, tol), or leave it out"
            )
        self._oracle, self._contains = lmo, contains
        self.shape, self.diameter = any_shape(shape), positive("diameter", diameter)
        if not np.isfinite(self.lmo(np.ones(self.shape)).dense()).all():
            raise ProblemError("lmo returned NaN or infinity: it must return a finite array")

    def lmo(self, v: Array, **_: Any) -> Any:
        return self._oracle(v)  # made an atom by `Domain`

    def contains(self, W: Array, tol: float = 1e-8) -> bool:
        return self._contains is None or bool(self._contains(W, tol))

    def center(self) -> Array:
        """Midpoint of two opposite answers of the oracle."""
        v = np.ones(self.shape)
        return 0.5 * (self.lmo(v).dense() + self.lmo(-v).dense())


def any_shape(shape: Any) -> tuple[int, ...]:
    """Check a shape; an integer is the length of a vector."""
    sides = tuple(shape) if isinstance(shape, Iterable) else (shape,)
    if not sides:
        raise ProblemError("shape is empty: name at least one side")
    return tuple(dimension("shape", s) for s in sides)


def _bounds(name: str, value: Any) -> Array:
    """Check the bounds of a box, an array of any shape."""
    data = array_of(name, value)
    return np.reshape(row_data(name, data.reshape(-1)), data.shape)
