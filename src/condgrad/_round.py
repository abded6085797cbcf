"""Proven numbers as text that is still true: bounds rounded to the safe side, gaps up.

The text is that of ``f"{x:.6g}"`` but for the direction of the rounding, which is exact: a float is
a decimal fraction, and that fraction is what is rounded.
"""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction

MOST = 16
"""The most digits that are shown."""
EXACT = Context(prec=800, rounding=ROUND_CEILING)
"""Enough digits for every float64 (767 at most)."""


def down(x: float, digits: int) -> str:
    """The largest number of so many digits that is not above x, as text.

    Examples
    --------
    >>> down(0.0758499, 3), down(-2.0001, 2), down(1e-9 / 3, 2)
    ('0.0758', '-2.1', '3.3e-10')
    """
    return _text(_fraction(x), digits, ROUND_FLOOR)


def up(x: float, digits: int) -> str:
    """The smallest number of so many digits that is not below x, as text.

    Examples
    --------
    >>> up(0.01043, 2), up(123456, 3), up(float("inf"), 3)
    ('0.011', '1.24e+05', 'inf')
    """
    return _text(_fraction(x), digits, ROUND_CEILING)


def counted(number: int, word: str) -> str:
    """A number of things, one or more.

    Examples
    --------
    >>> counted(1, "part"), counted(0, "part"), counted(2, "part")
    ('1 part', '0 parts', '2 parts')
    """
    return f"{number} {word}{'s' * (number != 1)}"


def apart(value: float, bound: float) -> Fraction | float:
    """|value − bound| / max(|value|, |bound|) of finite numbers, not rounded; else infinite.

    Examples
    --------
    >>> apart(-740.0, -760.0), apart(0.0, 0.0)
    (Fraction(1, 38), Fraction(0, 1))
    """
    if not (math.isfinite(value) and math.isfinite(bound)):
        return math.inf
    first, second = Fraction(value), Fraction(bound)
    return abs(first - second) / (max(abs(first), abs(second)) or 1)


def toward(x: Fraction, end: float) -> float:
    """The float64 nearest to x, or the next one towards `end` if that is not as far as x.

    Examples
    --------
    >>> toward(Fraction(1, 10), 1.0) > Fraction(1, 10) > toward(Fraction(1, 10), 0.0)
    True
    """
    near = float(x)
    short = near < x if end > x else near > x
    return math.nextafter(near, end) if short else near


def percent(gap: Fraction | float, digits: int) -> str:
    """100 times a proven gap, rounded up.

    Examples
    --------
    >>> f"not lower by more than {percent(0.01043, 2)} %", percent(1.0, 2)
    ('not lower by more than 1.1 %', '100')
    """
    return _text(EXACT.scaleb(_fraction(gap), 2), digits, ROUND_CEILING, 3)


def bound_text(x: float, digits: int, sense: str) -> str:
    """A bound on the optimum: a lower one of a minimum rounded down, an upper one of a maximum up.

    Examples
    --------
    >>> bound_text(2 / 3, 2, "min"), bound_text(2 / 3, 2, "max")
    ('0.66', '0.67')
    """
    return up(x, digits) if sense == "max" else down(x, digits)


def digits_for(value: float, bound: float, sense: str, least: int) -> int:
    """Digits at which a value and its bound do not look much further apart than they are.

    Examples
    --------
    >>> digits_for(5.927, 5.924, "max", 6), digits_for(-4.0, -4.0 - 3e-14, "min", 6)
    (6, 15)
    """
    if not (math.isfinite(value) and math.isfinite(bound)):
        return least
    for digits in range(least, MOST):
        apart = float(f"{value:.{digits}g}") - float(bound_text(bound, digits, sense))
        if abs(apart) <= 2 * abs(value - bound):
            return digits
    return MOST


def _fraction(x: Fraction | float) -> Decimal:
    """The number itself, also of a NumPy type; a quotient that is not decimal is rounded up."""
    if isinstance(x, Fraction):
        return EXACT.divide(Decimal(x.numerator), Decimal(x.denominator))
    return Decimal(x if isinstance(x, int) else float(x))


def _text(x: Decimal, digits: int, rounding: str, places: int = 0) -> str:
    if not math.isfinite(x):
        return str(float(x))
    rounded = Context(prec=digits, rounding=rounding).plus(x)
    if not rounded:
        return "0"
    rounded, exponent = rounded.normalize(EXACT), rounded.adjusted()
    if -5 < exponent < max(digits, places):
        return f"{rounded:f}"
    return f"{EXACT.scaleb(rounded, -exponent):f}e{exponent:+03d}"
