"""Numbers as text that is still proved: bounds rounded down, gaps up."""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal


def down(x: float, digits: int) -> str:
    """The largest number of so many digits that is not above x."""
    return _text(x, digits, ROUND_FLOOR)


def up(x: float, digits: int) -> str:
    """The smallest number of so many digits that is not below x."""
    return _text(x, digits, ROUND_CEILING)


def _text(x: float, digits: int, rounding: str) -> str:
    if not math.isfinite(x):
        return str(x)
    return f"{float(Context(prec=digits, rounding=rounding).plus(Decimal(x))):.{digits}g}"
