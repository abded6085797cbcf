"""The scalar sequences of a method."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from condgrad._check import positive
from condgrad._types import Array, Params

Sequence = Callable[[int], float]
"""Scalar of an iteration as a function of its number k ≥ 1."""


@dataclass(frozen=True)
class Power:
    """k ↦ c/(k + shift)^exponent.

    Examples
    --------
    >>> Power(2, 1, 1)(3)
    0.5
    """

    c: float
    shift: float
    exponent: float

    def __call__(self, k: int) -> float:
        return float(self.c / (k + self.shift) ** self.exponent)


class Automatic(Power):
    """A power of k in units of its own for every term, which `condgrad.methods.Balance` finds."""


@dataclass(frozen=True)
class Constant:
    """k ↦ c."""

    c: float

    def __call__(self, k: int) -> float:
        return self.c


def values(sequence: Sequence, first: int, count: int) -> Array:
    """The sequence at k = first, …, first + count − 1; powers at once, others one by one.

    Examples
    --------
    >>> values(Power(2, 1, 1), 1, 3)
    array([1.        , 0.66666667, 0.5       ])
    """
    if type(sequence) is Power:
        k = np.arange(first, first + count, dtype=np.float64)
        return sequence.c / (k + sequence.shift) ** sequence.exponent
    return np.array([sequence(k) for k in range(first, first + count)], np.float64)


ZERO = Constant(0.0)

LANCZOS_EFFORT = Power(1.0, 0.0, -0.25)
"""k^(1/4) · ln n Lanczos steps: few early, where the theory allows a coarse oracle [1]_.

.. [1] A. Yurtsever, J. Tropp, O. Fercoq, M. Udell, V. Cevher, "Scalable semidefinite programming",
   SIAM J. Math. Data Sci. 3(1), 2021.
"""


@dataclass(frozen=True)
class Schedule:
    """The sequences η (step), β (smoothing), ρ (momentum) and the effort of the oracle."""

    eta: Sequence
    beta: Sequence
    rho: Sequence = ZERO
    effort: Sequence = LANCZOS_EFFORT

    def trying(self, effort: Any) -> Schedule:
        """Return these sequences with another effort: a number, a function of k, or None."""
        if not (effort is None or callable(effort)):
            effort = positive("effort", effort, ", a function of k or None")
        return replace(self, effort=effort if callable(effort) else Constant(effort))

    def __call__(self, k: int) -> Params:
        before = max(k - 1, 1)
        return Params(
            k,
            self.eta(k),
            self.beta(k),
            self.rho(k),
            self.effort(k),
            self.eta(before),
            self.beta(before),
        )


Beta0 = float | str
"""A positive number, or ``"auto"``."""


def smoothing(beta0: Beta0, shift: float, exponent: float) -> Power:
    """β_k = β0/(k + shift)^exponent, with β0 checked."""
    if isinstance(beta0, str) and beta0 == "auto":
        return Automatic(1.0, shift, exponent)
    return Power(positive("beta0", beta0, ", or 'auto'"), shift, exponent)


def power_of_two(k: int) -> bool:
    """Whether k is 1, 2, 4, 8, …: where SPIDER's doubling epochs begin."""
    return k & (k - 1) == 0


def epoch_length(k: int) -> int:
    """Length of the doubling epoch that iteration k lies in: the largest power of two ≤ k."""
    return 1 << (k.bit_length() - 1)
