"""Which parts of a problem are condgrad's own, and which are a user's."""

from __future__ import annotations

from typing import Any

from condgrad.domains import Domain, Oracle
from condgrad.functions import Function
from condgrad.maps import LinearMap


def ours(part: Any) -> bool:
    """Whether a part and all that it is made of are condgrad's own."""
    if type(part).__module__.partition(".")[0] != "condgrad" or isinstance(part, Oracle):
        return False
    for value in vars(part).values():
        inner = value if isinstance(value, (tuple, list)) else (value,)
        if not all(ours(p) for p in inner if isinstance(p, (LinearMap, Function, Domain))):
            return False
    return True
