"""Ratings files in the MovieLens formats, and their numbering as entries of a matrix."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from condgrad.errors import InputError
from condgrad.io._text import data_lines, decode, number, read_bytes, show
from condgrad.io.roles import roles_of

_SEPARATORS = {"\t": "tab", "::": "'::'", ";": "semicolon", ",": "comma"}
_LONGEST_ID = 256


@dataclass(frozen=True, eq=False)
class Ratings:
    """Ratings as they stand in the file: `users[k]` gave `items[k]` the rating `values[k]`."""

    users: NDArray[np.str_]
    items: NDArray[np.str_]
    values: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
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


def read_ratings(path: str | Path, repeats: str = "refuse") -> Ratings:
    """Read `user item rating [timestamp]` lines separated by tabs, commas, semicolons or `::`.

    The first line says which separator it is and may be a header: its rating is a word, and so
    are its other fields. Where a header names user, item and rating (userId, movie_id, score, …)
    the columns may have any order. Fields may be quoted, blank lines are skipped and gzip is
    transparent.

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
    lines = list(data_lines(decode(path, read_bytes(path), line=520)))
    if not lines:
        raise InputError(path, "no ratings in the file")
    first, head = lines[0]
    separator = next((mark for mark in _SEPARATORS if mark in head), None)
    if separator is None:
        reason = "expected 'user item rating' separated by tabs, commas, semicolons or '::'"
        raise InputError(path, reason, first)
    names = [field.strip() for field in _fields(head, separator)]
    told = {role: at[0] for role, at in roles_of(names).items() if len(at) == 1}
    order = tuple(told[r] for r in ("user", "item", "rating")) if len(told) == 3 else (0, 1, 2)
    fields = [names[k] for k in order if k < len(names)]
    if len(fields) == 3 and all(fields) and all(number(field) is None for field in fields):
        del lines[0]
    else:
        order = (0, 1, 2)
    if not lines:
        raise InputError(path, "no ratings after the header", first)
    values: list[float] = []
    stood: dict[tuple[str, str], int] = {}
    count: dict[tuple[str, str], int] = {}
    for line, content in lines:
        row = _fields(content, separator)
        if order != (0, 1, 2) and len(row) > max(order):
            row = [row[k] for k in order]
        user, item, value = _rating(path, line, row, _SEPARATORS[separator])
        place = stood.setdefault((user, item), len(values))
        if place == len(values):
            values.append(value)
        elif repeats == "refuse":
            before = f"before, on line {lines[place][0]}"
            raise InputError(path, f"user {show(user)} rated item {show(item)} {before}", line)
        else:
            count[user, item] = many = count.get((user, item), 1) + 1
            values[place] += (value - values[place]) / many
    users, items = (np.array(names, dtype=np.str_) for names in zip(*stood, strict=True))
    return Ratings(users, items, np.array(values))


def _fields(content: str, separator: str) -> list[str]:
    if '"' in content and len(separator) == 1:
        return next(csv.reader([content], delimiter=separator))
    return content.split(separator)


def _rating(path: str | Path, line: int, row: list[str], separator: str) -> tuple[str, str, float]:
    if len(row) < 3:
        reason = f"expected 3 fields or more separated by {separator}, found {len(row)}"
        raise InputError(path, reason, line)
    user, item, value = row[0].strip(), row[1].strip(), number(row[2])
    for name, field in (("user", user), ("item", item)):
        if not 0 < len(field) <= _LONGEST_ID:
            fault = f"longer than {_LONGEST_ID} characters" if field else "empty"
            raise InputError(path, f"the {name} is {fault}", line)
    if value is None or not math.isfinite(value):
        what = "not a number" if value is None else "not finite"
        raise InputError(path, f"the rating {show(row[2])} is {what}", line)
    return user, item, value


def _positions(names: Iterable[str]) -> dict[str, int]:
    unique = set(names)
    if all(re.fullmatch("[+-]?[0-9]+", name) for name in unique):
        return {name: k for k, name in enumerate(sorted(unique, key=lambda s: (int(s), s)))}
    return {name: k for k, name in enumerate(sorted(unique))}


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
    item_at, user_at = _positions(train.items.tolist()), _positions(train.users.tolist())
    rows = np.array([item_at[name] for name in train.items.tolist()], dtype=np.intp)
    cols = np.array([user_at[name] for name in train.users.tolist()], dtype=np.intp)
    shape = (len(item_at), len(user_at))
    if test is None:
        return IndexedRatings(rows, cols, train.values, None, None, None, shape, 0)
    test_rows = np.array([item_at.get(name, -1) for name in test.items.tolist()], dtype=np.intp)
    test_cols = np.array([user_at.get(name, -1) for name in test.users.tolist()], dtype=np.intp)
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
