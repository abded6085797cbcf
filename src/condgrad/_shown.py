"""Parts of a problem as text."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np

NOT_THERE: Any = object()


def shown(part: Any, *names: str) -> str:
    """A part by its class, those attributes, and those that are called as its arguments.

    Examples
    --------
    >>> class Ring:
    ...     def __init__(self, width, center):
    ...         self.width, self.center, self.shape = width, np.asarray(center), (2,)
    >>> shown(Ring(0.5, [1, 2]), "shape")
    '<Ring: shape (2,), width 0.5, center 2 numbers>'
    """
    given = inspect.signature(type(part)).parameters
    found = {name: getattr(part, name, NOT_THERE) for name in (*names, *given)}
    texts = {name: _text(value) for name, value in found.items() if value is not NOT_THERE}
    words = ", ".join(f"{name} {text}" for name, text in texts.items() if text)
    return f"<{type(part).__name__}{words and f': {words}'}>"


def _text(value: Any) -> str:
    """A value in short; nothing where it says nothing."""
    if isinstance(value, (bool, str)):
        return str(value)
    if isinstance(value, (int, float, np.number)):
        return f"{value:g}"
    if isinstance(value, np.ndarray) and value.size == 1 and value.dtype.kind in "iuf":
        return f"{value.item():g}"
    if isinstance(value, tuple) and len(value) < 8 and all(type(x) is int for x in value):
        return str(value)
    size = getattr(value, "size", None)
    return f"{size} numbers" if isinstance(size, int) and hasattr(value, "dtype") else ""
