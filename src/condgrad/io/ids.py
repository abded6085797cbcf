"""Ids of users and items, and their positions."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from itertools import repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray

from condgrad.errors import ProblemError
from condgrad.io.frames import missing
from condgrad.io.roles import in_order

WIDE = 1 << 20
"""Whole numbers as ids are looked up in an array if their range is at most eight times the number
of ids, and this many more."""


def as_ids(column: Any) -> NDArray[Any]:
    """A column of ids as an array: of whole numbers or floats, else of Python's objects."""
    if isinstance(column, np.ndarray) or hasattr(column, "to_numpy"):
        array = column if isinstance(column, np.ndarray) else column.to_numpy()
        if array.dtype.kind == "f" or (array.dtype.kind in "iu" and _fits(array)):
            return array if array.dtype.kind == "f" else array.astype(np.int64, copy=False)
        column = array.tolist()
    if isinstance(column, str) or not hasattr(column, "__len__"):
        column = [column]
    out = np.empty(len(column), dtype=object)
    out[:] = column if isinstance(column, list) else list(column)
    return out


def _fits(array: NDArray[Any]) -> bool:
    """Whether whole numbers can be signed."""
    return array.dtype != np.uint64 or not array.size or int(array.max()) < 1 << 63


class Ids:
    """Names of users or items and their positions.

    Repeated names are one, and all are sorted where they can be, whole numbers as text like
    numbers, unless they come `ordered`, as those of the rows of a matrix. There a repeated name
    means its first row.
    """

    def __init__(self, kind: str, names: Any, ordered: bool = False) -> None:
        self.kind, self._numbers = kind, None
        self._dictionary: dict[Any, int] | None = None
        names = as_ids(names)
        if names.dtype.kind in "iuf" and not ordered:
            if names.dtype.kind == "f" and np.isnan(names).any():
                raise _no_id(kind)
            self._numbers = np.unique(names)
            self.names = self._numbers.tolist()
            self._table = _table(self._numbers)
            return
        listed = names.tolist()
        try:
            unique = list(dict.fromkeys(listed))
        except TypeError:
            raise _unhashable(kind) from None
        if any(map(missing, unique)):
            raise _no_id(kind)
        if not ordered and all(type(name) is str for name in unique):
            unique = [unique[k] for k in in_order(unique)]
        elif not ordered:
            with contextlib.suppress(TypeError):  # ids of several types stay as they came
                unique.sort()
        self.names = listed if ordered else unique

    @property
    def array(self) -> NDArray[Any]:
        """The names as an array, of objects where they are not all of one plain type."""
        plain = any(all(type(name) is kind for name in self.names) for kind in (int, float, str))
        out = np.array(self.names) if plain else np.empty(len(self.names), dtype=object)
        out[:] = self.names
        return out

    @property
    def _at(self) -> dict[Any, int]:
        if self._dictionary is None:
            self._dictionary = {name: k for k, name in reversed(list(enumerate(self.names)))}
        return self._dictionary

    def positions(self, names: Any) -> NDArray[np.intp]:
        """Position of each name, −1 for those that are not known."""
        given = as_ids(names)
        known = self._numbers
        if given.dtype.kind == "f" and np.isnan(given).any():
            raise _no_id(self.kind)
        if known is not None and known.dtype.kind == given.dtype.kind:
            return self._of_numbers(known, given)
        listed = given.tolist()
        try:
            found = np.fromiter(map(self._at.get, listed, repeat(-1)), np.intp, len(listed))
        except TypeError:
            raise _unhashable(self.kind) from None
        if any(missing(listed[k]) for k in np.nonzero(found < 0)[0]):
            raise _no_id(self.kind)
        if found.size and found.max() < 0:
            self._refuse_other_kind(listed)
        return found

    def _of_numbers(self, known: NDArray[Any], given: NDArray[Any]) -> NDArray[np.intp]:
        if self._table is not None:
            first, last = known[0], known[-1]
            inside = (given >= first) & (given <= last)
            if inside.all():
                return self._table[given - first]
            return np.where(inside, self._table[np.where(inside, given - first, 0)], -1)
        at = np.minimum(np.searchsorted(known, given), known.size - 1)
        return np.where(known[at] == given, at, -1)

    def _refuse_other_kind(self, listed: Sequence[Any]) -> None:
        texts = {isinstance(name, str) for name in self.names}
        if texts.isdisjoint(isinstance(name, str) for name in listed):
            given, known = (("text", "numbers"), ("numbers", "text"))[texts == {True}]
            raise ProblemError(
                f"the {self.kind}s are {given}, but fit got {known}: give them as in fit"
            )


def _table(numbers: NDArray[Any]) -> NDArray[np.intp] | None:
    """The position of every whole number between the ids, −1 where there is none."""
    if numbers.dtype.kind == "f" or not numbers.size:
        return None
    span = int(numbers[-1]) - int(numbers[0]) + 1
    if span > 8 * numbers.size + WIDE:
        return None
    table = np.full(span, -1, dtype=np.intp)
    table[numbers - numbers[0]] = np.arange(numbers.size)
    return table


def _no_id(kind: str) -> ProblemError:
    return ProblemError(
        f"there is None or NaN for a {kind}: give an id, any other one for a new {kind}, or drop "
        "those ratings"
    )


def _unhashable(kind: str) -> ProblemError:
    return ProblemError(f"X has a list, a dictionary or the like for a {kind}: give a name")


def broadcast(users: Any, items: Any) -> tuple[NDArray[Any], NDArray[Any]]:
    """Ids of users and items as arrays of one length."""
    both = []
    for ids in (users, items):
        if getattr(ids, "ndim", 1) > 1:
            raise ProblemError("predict got a table and items: give ids of users, or X alone")
        both.append(as_ids(ids.reshape(1) if getattr(ids, "ndim", 1) == 0 else ids))
    length = max(ids.size for ids in both)
    if not {ids.size for ids in both} <= {1, length}:
        raise ProblemError(
            f"predict got {both[0].size} users and {both[1].size} items: give one item per user"
        )
    first, second = (np.repeat(ids, length) if ids.size == 1 else ids for ids in both)
    return first, second
