"""Interface of a function on images."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np

from condgrad._floats import TINY
from condgrad._shown import shown
from condgrad._types import ALL, Array, Rows
from condgrad.backends.arrays import HOST, floats, moved
from condgrad.errors import ProblemError


def rounding(x: Array) -> float:
    """Relative slack within which x counts as inside a set: 1e-9, 10 ε in float32."""
    return max(1e-9, 10 * float(np.finfo(x.dtype).eps))


def wide(y: Any) -> Array:
    """Y in float64, in which proofs are computed."""
    return floats(y)


def lost(y: Array) -> float:
    """Error by underflow of a product with each number of y, see `condgrad._floats`."""
    return y.size * TINY if y.any() else 0.0


class Function(ABC):
    r"""A convex function of the images z of a term, h(z) = Σ_l h_l(z_l) where it is separable.

    `slope` is what the methods use: the derivative of a smooth function, and the gradient of the
    Moreau envelope of a proximable one. `at` says which rows `z` belongs to, so that per-row data
    follows; it can only be given where the function is separable.
    """

    smooth: ClassVar[bool]
    separable: ClassVar[bool] = True
    indicator: ClassVar[bool] = False
    portable: ClassVar[bool] = False
    """True if the function serves images on a GPU; a derived class says so anew."""
    like: Array = HOST
    """An array on the device of the data."""
    origin: Function | None = None
    """The function in the memory of the process that this one is a copy of, if it is elsewhere."""
    size: int | None = None
    """Number of rows, where per-row data fixes it."""

    def __repr__(self) -> str:
        return shown(self)

    def on(self, like: Array) -> Function:
        """Return this function for images that lie where `like` does."""
        return moved(self, like)

    @abstractmethod
    def value(self, z: Array, at: Rows = ALL) -> float:
        """h(z), summed over the rows given; infinite outside the domain."""

    @abstractmethod
    def prox(self, z: Array, beta: float, at: Rows = ALL) -> Array:
        r"""argmin_u h(u) + ‖u − z‖²/(2β)."""

    @abstractmethod
    def conjugate(self, y: Array, at: Rows = ALL) -> float:
        r"""h*(y) = sup_z ⟨y, z⟩ − h(z), summed over the rows given; infinite outside dom h*.

        A lower bound stands on it: there is no tolerance in what counts as outside, and at a point
        that `into_dual` returns it is finite and right up to the rounding of its own arithmetic,
        one operation for each row and 16 more.
        """

    def conjugate_size(self, y: Array, at: Rows = ALL) -> float:
        """Sum of the absolute values that `conjugate` is summed from: what it is rounded against.

        Override it where they cancel; |h*(y)| is right where all have one sign. A product that can
        underflow counts as `TINY` at least.
        """
        return abs(self.conjugate(y, at)) + lost(wide(y))

    def into_dual(self, y: Array, at: Rows = ALL) -> Array:
        """The point of dom h*, in float64, that y means: y up to rounding where it is a slope.

        A lower bound stands on it: it lies in dom h* as it is, not only up to rounding.
        """
        return wide(y)

    @property
    def interval(self) -> tuple[Array | float, Array | float] | None:
        """(lower, upper) of an indicator of lower ≤ z ≤ upper, row by row; None for all others."""
        return None

    def data_norm(self, size: int) -> float:
        """‖b‖₂ of the finite data of `size` rows, the yardstick of relative infeasibility."""
        return 0.0

    def data_size(self, z: Array, at: Rows = ALL) -> Array | float:
        """|b_l| of each row, the yardstick of its own violation; 0 where there is no data.

        One number, which a violation in the l2 norm is held against, where the function is not
        separable.
        """
        return 0.0

    @abstractmethod
    def slope(self, z: Array, beta: float, at: Rows = ALL) -> Array:
        """Derivative of the function (smooth) or of its Moreau envelope (proximable)."""

    def envelope_slope(self, z: Array, beta: float, at: Rows = ALL) -> Array:
        """Derivative of the Moreau envelope, of smooth functions too; in dom h* up to rounding."""
        return self.slope(z, beta, at)

    @abstractmethod
    def smoothed(self, z: Array, beta: float, at: Rows = ALL) -> float:
        """The function whose gradient is `slope`."""

    def _fix_size(self, *data: Array | float) -> None:
        sizes = {d.size for d in data if isinstance(d, np.ndarray)}
        if len(sizes) > 1:
            raise ProblemError(
                f"{type(self).__name__} got per-row data of different lengths "
                f"{sorted(sizes)}: give one entry per row, or one number for all rows"
            )
        self.size = sizes.pop() if sizes else None


class Smooth(Function):
    """A function with a Lipschitz derivative; `smoothness` is the constant L_f of one row."""

    smooth: ClassVar[bool] = True
    smoothness: float

    @abstractmethod
    def derivative(self, z: Array, at: Rows = ALL) -> Array:
        """h'(z), row by row."""

    def slope(self, z: Array, beta: float, at: Rows = ALL) -> Array:
        """h'(z): a smooth function needs no smoothing, β plays no part."""
        return self.derivative(z, at)

    def envelope_slope(self, z: Array, beta: float, at: Rows = ALL) -> Array:
        """h'(prox_{βh}(z))."""
        return self.derivative(self.prox(z, beta, at), at)

    def smoothed(self, z: Array, beta: float, at: Rows = ALL) -> float:
        """h(z): a smooth function needs no smoothing, β plays no part."""
        return self.value(z, at)


class Proximable(Function):
    r"""A function smoothed through its prox.

    .. math:: h_β(z) = \min_u h(u) + \tfrac{1}{2β}\|u - z\|^2
              = \sup_y ⟨y, z⟩ - h^*(y) - \tfrac{β}{2}\|y\|^2, \qquad
              ∇h_β(z) = (z - \mathrm{prox}_{βh}(z))/β

    `lipschitz` is the constant L_g of one row, or of the whole function if it is not separable. A
    function that is 0 or infinite has none: it is an `Indicator`.

    References
    ----------
    .. [1] Y. Nesterov, "Smooth minimization of non-smooth functions", Math. Program. 103, 2005.
    .. [2] G. Dresdner et al., "Faster one-sample stochastic conditional gradient method for
       composite convex minimization", AISTATS 2022, section 3.1.
    """

    smooth: ClassVar[bool] = False
    lipschitz: float = np.inf

    def slope(self, z: Array, beta: float, at: Rows = ALL) -> Array:
        """(z − prox_{βh}(z))/β; it lies in dom h* up to rounding."""
        return (z - self.prox(z, beta, at)) / z.dtype.type(beta)

    def smoothed(self, z: Array, beta: float, at: Rows = ALL) -> float:
        """Moreau envelope h_β(z); dist²/(2β) for an indicator."""
        u = self.prox(z, beta, at)
        penalty = float(np.sum(np.square(z - u), dtype=np.float64)) / (2 * beta)
        return penalty if self.indicator else self.value(u, at) + penalty

    def residual(self, z: Array, at: Rows = ALL) -> Array:
        """Z − proj(z): how each image misses the set. Meaningful for indicators only."""
        return z - self.prox(z, 1.0, at)

    def distance(self, z: Array, at: Rows = ALL) -> float:
        """Euclidean distance of z from the set of an indicator."""
        return float(np.linalg.norm(self.residual(z, at)))


class Lipschitz(Proximable):
    """A Lipschitz function, given by its slope: (z − prox)/β would cancel where β is small."""

    @abstractmethod
    def slope(self, z: Array, beta: float, at: Rows = ALL) -> Array:
        """prox_{h*/β}(z/β), the point of dom h* nearest in that sense; at most `lipschitz`."""

    def prox(self, z: Array, beta: float, at: Rows = ALL) -> Array:
        """The Moreau identity, prox = z − β·slope."""
        return z - z.dtype.type(beta) * self.slope(z, beta, at)


class Indicator(Proximable):
    """A constraint: 0 on a closed convex set, infinite elsewhere.

    Its prox is the projection, for every β, and its conjugate the support function of the set.
    """

    indicator: ClassVar[bool] = True

    def value(self, z: Array, at: Rows = ALL) -> float:
        """0 where z lies in the set up to rounding, infinite elsewhere."""
        inside = self.distance(z, at) <= rounding(z) * (1 + float(np.linalg.norm(z)))
        return 0.0 if inside else np.inf
