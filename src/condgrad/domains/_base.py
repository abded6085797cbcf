"""What a domain must offer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np

from condgrad._types import Array
from condgrad.errors import ProblemError
from condgrad.points.atoms import Atom


class Domain(ABC):
    """A compact convex set, known by its linear minimisation oracle."""

    shape: tuple[int, ...]
    diameter: float
    """max ‖u − v‖ over the set, Frobenius norm for matrices."""
    symmetric: ClassVar[bool] = False
    """Whether all points are symmetric matrices; then only the symmetric part of v counts."""

    @abstractmethod
    def lmo(
        self,
        v: Array,
        *,
        effort: float | None = None,
        hint: Array | None = None,
        rng: np.random.Generator | None = None,
    ) -> Atom:
        """An atom s with ⟨v, s⟩ = min over the set.

        Parameters
        ----------
        v : array
            The direction, shaped as the points.
        effort : float, optional
            Krylov steps in units of ln n, for oracles that iterate. Default: to full accuracy.
        hint : array, optional
            The current iterate; spectral oracles start from it.
        rng : Generator, optional
            Source of randomness of an oracle that iterates.
        """

    @abstractmethod
    def contains(self, W: Array, tol: float = 1e-8) -> bool:
        """Whether W lies in the set up to `tol`, relative to the size of the set."""

    @abstractmethod
    def center(self) -> Array:
        """A point of the set to start from when the user names none."""

    def support(self, v: Array) -> float:
        """max ⟨v, s⟩ over the set."""
        v = np.asarray(v, dtype=np.float64)
        return float(np.vdot(v, self.lmo(-v).dense()))


def radius_of(name: str, value: Any) -> float:
    """Check a radius, a trace bound or another size of a set."""
    try:
        number = float("nan" if isinstance(value, (bool, str)) else value)
    except (TypeError, ValueError):
        raise ProblemError(f"{name} is {value!r}: it must be a positive number") from None
    if not (np.isfinite(number) and number > 0):
        raise ProblemError(f"{name} is {value!r}: it must be a positive finite number")
    return number
