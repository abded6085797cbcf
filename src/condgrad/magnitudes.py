"""Which units a run can compute in, and a point to measure some at; see `Problem`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from condgrad.domains import Domain, NuclearBall
from condgrad.errors import ProblemError
from condgrad.maps import AllEntries
from condgrad.maps.pattern import read_entries
from condgrad.points.factored import Factored

if TYPE_CHECKING:
    from condgrad.problem import Term

RANGE = {"float64": 70, "float32": 15}
"""Largest decimal exponent k: numbers that a run squares must lie between 10⁻ᵏ and 10ᵏ.

Products of squares are then in the range of float64; in float32 the squares are.
"""


def center_of(domain: Domain, terms: Sequence[Term]) -> Any:
    """A point of the domain, as factors of rank 0 where these are enough for all terms."""
    sparse = all(
        read_entries(t.map) is not None
        or (t.function.interval is not None and type(t.map) is AllEntries)
        for t in terms
    )
    if sparse and type(domain) is NuclearBall:
        return Factored.zeros(domain.shape)
    return domain.center()


def check_magnitudes(domain: Domain, terms: Sequence[Term], dtype: str) -> None:
    """Refuse units in which the run would overflow or lose everything to underflow.

    Everything in decimal logarithms, −∞ for 0. In the notation of `Problem`, with an image z = a D,
    the smoothing β is about ωz²/F and the penalty z²/β is F/ω.
    """

    def check(name: str, size: float, power: int = 1) -> None:
        most = power * RANGE[dtype]
        if -math.inf < size and not abs(size) <= most:
            raise ProblemError(
                f"{name} would be about 1e{size:+.0f}, and {dtype} computes between 1e-{most} and "
                f"1e+{most} here: measure W, rows or weights in other units"
            )

    reach, total = log(domain.reach), -math.inf
    check("the size of the domain", reach)
    for t in terms:
        row, name = log(t.map.row_norm), f"term {t.name!r}"
        check(f"the longest row of {name}", row)
        check(f"the largest image of {name}", row + reach)
        data = t.function.data_norm(t.map.size) if t.function.indicator else 0.0
        check(f"the data of {name}", max(0.0, log(data)))
        size = t.function.magnitude(float(t.map.row_norm) * float(domain.reach))
        total = max(total, log(t.weight) + log(size))
    if not math.isfinite(reach):
        return
    check("the size of the objective", total, 2)
    check("the gradient of the objective", total - reach)
    check("the curvature of the objective", total - 2 * reach, 2)
    total = total if math.isfinite(total) else 0.0
    for t in terms:
        image, name = log(t.map.row_norm) + reach, f"term {t.name!r}"
        if t.function.smooth or not math.isfinite(image):
            continue
        weight = log(t.weight)
        if t.function.indicator:
            check(f"the multipliers of {name}", total - weight - image)
        check(f"the squared images of {name}", weight + 2 * image, 2)
        check(f"the smoothing of {name}", weight + 2 * image - total, 2)
        check(f"the penalty of {name}", total - weight, 2)


def log(x: float) -> float:
    """The decimal logarithm, −∞ for 0, ∞ for NaN, which comes of numbers beyond the range."""
    if math.isnan(x):
        return math.inf
    return math.log10(x) if x > 0 else -math.inf
