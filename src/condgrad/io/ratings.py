"""Ratings files in the MovieLens formats, and their numbering as entries of a matrix."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from condgrad._round import counted
from condgrad.errors import InputError
from condgrad.io._text import data_lines, decode, ending, number, read_bytes, remedy, show, split
from condgrad.io.frames import Frame, is_parquet, name_of, numbers, read_parquet
from condgrad.io.ids import Ids
from condgrad.io.roles import WHOLE, places_of, role_of

_SEPARATORS = {"\t": "tab", "::": "'::'", ";": "semicolon", ",": "comma", " ": "blank"}
Row = tuple[int, str, str, float]
"""Line or row, user, item and rating."""
_LONGEST_ID = 256
COUNTED = 10
"""A first column of four with 0, 1, … up to this number is no user, but what pandas writes."""


@dataclass(frozen=True, eq=False, repr=False)
class Ratings:
    """Ratings as they stand in the file: `users[k]` gave `items[k]` the rating `values[k]`."""

    users: NDArray[np.str_]
    items: NDArray[np.str_]
    values: NDArray[np.float64]

    def __repr__(self) -> str:
        users, items = np.unique(self.users).size, np.unique(self.items).size
        return (
            f"<Ratings: {self.values.size} of {counted(items, 'item')} by {counted(users, 'user')}>"
        )


@dataclass(frozen=True, eq=False, repr=False)
class IndexedRatings:
    """Ratings as entries of an items x users matrix; `dropped` test ratings had no place in it."""

    rows: NDArray[np.intp]
    cols: NDArray[np.intp]
    values: NDArray[np.float64]
    test_rows: NDArray[np.intp] | None
    test_cols: NDArray[np.intp] | None
    test_values: NDArray[np.float64] | None
    shape: tuple[int, int]
    dropped: int

    def __repr__(self) -> str:
        items, users = self.shape
        held = 0 if self.test_values is None else self.test_values.size
        count = f"{counted(self.values.size, 'rating')} and {held} held out"
        return f"<IndexedRatings: {count} of {counted(items, 'item')} by {counted(users, 'user')}>"


def read_ratings(path: str | Path, repeats: str = "refuse") -> Ratings:
    """Read `user item rating [timestamp]` from a table as text or Parquet.

    Fields are separated by tabs, `::`, semicolons, commas or blanks, as the first line says, which
    may be a header: all its fields are words. Where a header names user, item and rating (userId,
    movie_id, score, …) the columns may have any order, and others are left out. Fields may be
    quoted, blank lines are skipped, and the file may be packed by gzip, bzip2 or xz.

    Parameters
    ----------
    path : str or Path
        The file.
    repeats : {"refuse", "mean"}
        What to do with a user's second rating of an item: refuse the file, or take the mean.

    Returns
    -------
    Ratings
        In the order of the file.
    """
    data = read_bytes(path)
    if ending(path) in (".parquet", ".pq") or is_parquet(data):
        return _gathered(path, _of_frame(path, read_parquet(path, data)), repeats, "row")
    return _gathered(path, _of_text(path, decode(path, data, line=520)), repeats, "line")


def _of_text(path: str | Path, text: str) -> Iterator[Row]:
    lines = data_lines(text)
    first, head = next(lines, (None, ""))
    separator = next((mark for mark in _SEPARATORS if mark in head), None)
    if first is None or separator is None:
        reason = "expected 'user item rating' separated by tabs, commas, semicolons, blanks or '::'"
        raise InputError(path, f"{reason}, found {show(head)}", first)
    mark = None if separator == " " else separator
    names = split(path, first, head, mark)
    order, top = (0, 1, 2), first
    header = sum(map(bool, names)) >= 3 and all(number(name) is None for name in names)
    if header:
        order = _places(path, names, first)
        first, head = next(lines, (None, ""))
        if first is None:
            raise InputError(path, "no ratings after the header", top)
    elif len(names) > 2 and (not names[0] or role_of(names[0])):
        reason = f"expected lines 'user item rating', found a column for {show(names[1])}"
        raise InputError(path, f"{reason}: write a line for each rating, as pandas.melt does", top)
    numbered = not header and names == [str(k) for k in range(len(names))]
    counted, k = not header and len(names) > 3, 0
    for k, (line, content) in enumerate(chain([(first, head)], lines)):
        fields = split(path, line, content, mark)
        counted = counted and fields[0] == str(k)
        if numbered and line != top and len(fields) > 2:
            if "." in fields[2] or not all(map(WHOLE.fullmatch, fields[:2])):
                reason = f"{show(separator.join(names))} may be the numbers of columns: remove it"
                raise InputError(path, f"{reason}, or write 2.0 for 2 if it is a rating", top)
            numbered = False
        if len(fields) <= max(order):
            reason = f"expected {max(order) + 1} fields or more separated by "
            raise InputError(path, f"{reason}{_SEPARATORS[separator]}, found {len(fields)}", line)
        user, item, rating = (fields[k] for k in order)
        value = number(rating)
        if value is None or not math.isfinite(value):
            what = "not a number" if value is None else "not finite"
            raise InputError(path, f"the rating {show(rating)} is {what}{remedy(rating)}", line)
        yield line, user, item, value
    if counted and k >= COUNTED:
        reason = f"the first column counts the lines, 0 … {k}: leave it out"
        raise InputError(path, f"{reason}, expected 'user item rating'", top)


def _places(path: str | Path, names: list[Any], line: int | None) -> tuple[int, int, int]:
    """Columns of a table that has names."""
    places = places_of(names) if len(names) >= 3 else None
    if places is None:
        shown = ", ".join(show(str(name)) for name in names)
        reason = f"expected columns user, item and rating, found {shown}: call three of them so"
        raise InputError(path, reason, line)
    return places


def _of_frame(path: str | Path, frame: Frame) -> Iterator[Row]:
    user, item, rating = _places(path, frame.names, None)
    values = numbers(path, frame.values(rating), "the rating")
    sides = [frame.values(k) for k in (user, item)]
    for row, (*ids, value) in enumerate(zip(*sides, values.tolist(), strict=True), 1):
        names = ["" if name is None else name_of(name) for name in ids]
        yield row, names[0], names[1], value


def _gathered(path: str | Path, rows: Iterator[Row], repeats: str, unit: str) -> Ratings:
    """Ratings checked one by one, each user's of an item once."""
    values: list[float] = []
    places: list[int] = []
    stood: dict[tuple[str, str], int] = {}
    count: dict[tuple[str, str], int] = {}
    for at, user, item, value in rows:
        line = at if unit == "line" else None
        where = "" if unit == "line" else f" in row {at}"
        for name, field in (("user", user), ("item", item)):
            if not 0 < len(field) <= _LONGEST_ID:
                fault = f"longer than {_LONGEST_ID} characters" if field else "empty"
                raise InputError(path, f"the {name} is {fault}{where}", line)
        place = stood.setdefault((user, item), len(values))
        if place == len(values):
            values.append(value)
            places.append(at)
        elif repeats == "refuse":
            before = f"before, on {unit} {places[place]}"
            reason = f"user {show(user)} rated item {show(item)} {before}{where and ', and'}{where}"
            raise InputError(path, f"{reason}; repeats='mean' (no --plain) takes their mean", line)
        else:
            count[user, item] = many = count.get((user, item), 1) + 1
            values[place] += (value - values[place]) / many
    if not values:
        raise InputError(path, "no ratings in the file")
    users, items = (np.array(names, dtype=np.str_) for names in zip(*stood, strict=True))
    return Ratings(users, items, np.array(values))


def index_ratings(train: Ratings, test: Ratings | None = None) -> IndexedRatings:
    """Number the items (rows) and users (columns) that have a training rating.

    Ids are put in numeric order if all are integers, else in lexicographic order. Test ratings
    of an item or by a user without a training rating are dropped and counted.

    Parameters
    ----------
    train : Ratings
        The ratings that define rows and columns.
    test : Ratings, optional
        Ratings held out.

    Returns
    -------
    IndexedRatings
        With `test_rows`, `test_cols` and `test_values` None where there is no `test`.

    Examples
    --------
    >>> train = Ratings(np.array(["10", "9"]), np.array(["a", "b"]), np.array([3.0, 4.0]))
    >>> indexed = index_ratings(train)
    >>> indexed.rows.tolist(), indexed.cols.tolist(), indexed.shape
    ([0, 1], [1, 0], (2, 2))
    """
    items, users = Ids("item", train.items), Ids("user", train.users)
    rows, cols = items.positions(train.items), users.positions(train.users)
    shape = (len(items.names), len(users.names))
    if test is None:
        return IndexedRatings(rows, cols, train.values, None, None, None, shape, 0)
    test_rows, test_cols = items.positions(test.items), users.positions(test.users)
    kept = (test_rows >= 0) & (test_cols >= 0)
    return IndexedRatings(
        rows=rows,
        cols=cols,
        values=train.values,
        test_rows=test_rows[kept],
        test_cols=test_cols[kept],
        test_values=test.values[kept],
        shape=shape,
        dropped=int(np.count_nonzero(~kept)),
    )
