"""Meaning of X and y: a matrix with holes, pairs of ids with ratings, or triples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils import column_or_1d
from sklearn.utils.validation import check_array

from condgrad._check import array_of, floats
from condgrad._round import counted
from condgrad._types import Array
from condgrad.applications.ratings import Observed
from condgrad.errors import ProblemError
from condgrad.io.frames import Frame
from condgrad.io.ids import as_ids
from condgrad.io.roles import places_of, roles_of
from condgrad.sklearn._checks import checked, unmasked

LAYOUTS = ("auto", "matrix", "pairs", "triples")
"""Layouts of X."""
SAY = (
    "say which is meant: layout='triples' (user, item, rating), layout='pairs' (user, item) with "
    "the ratings as y, or layout='matrix'"
)


class Places(NamedTuple):
    """Columns of a table; `rating` is None for pairs."""

    user: int
    item: int
    rating: int | None = None


class Table:
    """A frame (of pandas, Polars, Arrow) or an array as columns."""

    def __init__(self, X: Any) -> None:
        self._X: Any = unmasked(X)
        self.names: list[Any] | None = None
        if isinstance(X, type):
            raise ProblemError(f"X is the class {X.__name__}: pass an array or a frame")
        self._frame = Frame(X) if Frame.fits(X) else None
        if self._frame is not None:
            self.names = self._frame.names
        else:
            self._X = array_of("X", self._X) if hasattr(X, "dtype") else _listed(self._X)
        self.shape: tuple[int, ...] = tuple(self._X.shape)

    @property
    def width(self) -> int:
        """Columns; 0 where it is not a table."""
        return self.shape[1] if len(self.shape) == 2 and not sp.issparse(self._X) else 0

    def column(self, k: int) -> Any:
        """A column, as an array where it can be one."""
        if self._frame is not None:
            return self._frame.column(k)
        return self._X[:, k]

    def told(self) -> dict[str, int]:
        """The place of each role that exactly one name tells."""
        found = {} if self.names is None else roles_of(self.names)
        return {role: places[0] for role, places in found.items() if len(places) == 1}


def _listed(X: Any) -> NDArray[Any]:
    """Lists as an array of objects; of numbers where they hold nothing else."""
    try:
        table = np.array(X, dtype=object)
    except Exception as error:  # whatever the class of a user raises
        raise ProblemError(
            f"X is a {type(X).__name__} that cannot be read as a table ({error}): pass an array"
        ) from error
    if table.ndim == 2 and not any(isinstance(x, str) for x in table.reshape(-1)[:1000]):
        try:
            plain = np.array(X)
        except ValueError:
            return table
        return plain if plain.dtype.kind in "iufb" else table
    return table


def layout_of(X: Any, y: Any, layout: str) -> tuple[str, Places | None]:
    """Which layout X and y have, and where the columns of pairs or triples are.

    Raises
    ------
    ProblemError
        Where several are possible, or the one asked for is not.
    """
    if layout == "matrix" or sp.issparse(X):
        if layout in ("pairs", "triples"):
            raise ProblemError(f"layout is {layout!r}, but X is a sparse matrix: use 'matrix'")
        return "matrix", None
    if getattr(getattr(X, "index", None), "nlevels", 1) > 1 and np.size(X) == len(X):
        raise ProblemError("X has users and items in its index: pass X.reset_index()")
    table = Table(X)
    if layout == "pairs":
        return layout, pair_places(table)
    if layout == "triples":
        if y is not None:
            raise ProblemError("y is given, but triples have their ratings in X: leave y out")
        return layout, triple_places(table)
    return _guessed(table, y is not None)


def _guessed(table: Table, rated: bool) -> tuple[str, Places | None]:
    """The layout of X, where there is only one it can have; `rated`: whether there is a y."""
    told, width = table.told(), table.width
    if rated and (width == 2 or told.keys() >= {"user", "item"}):
        return "pairs", pair_places(table)
    if width < 2 and table.names is None:
        return "matrix", None
    if not rated and (len(told) == 3 or (width == 3 and told.keys() & {"user", "rating"})):
        return "triples", triple_places(table)
    if table.names is not None and {"user", "item"} <= roles_of(table.names).keys():
        raise _unclear(table, "names that do not tell user, item and rating apart", rated)
    kinds = [_kind(table.column(k)) for k in range(width)]
    if "text" in kinds and (width <= 4 or not rated):
        if width == 3 and kinds[2] != "text" and not rated:
            return "triples", triple_places(table)
        raise _unclear(table, "text in it", rated)
    if width <= 4 and kinds[:2] == ["whole", "whole"]:
        raise _unclear(table, "whole numbers in the first two, which may be ids or ratings", rated)
    if table.names is not None:
        raise _unclear(table, "names that do not tell user, item and rating", rated)
    return "matrix", None


def _unclear(table: Table, why: str, rated: bool) -> ProblemError:
    y = "there is a y" if rated else "there is no y"
    return ProblemError(f"X has {counted(table.width, 'column')} with {why}, and {y}: {SAY}")


def _kind(column: Any) -> str:
    """Kind of a column: ``"whole"`` numbers without a missing one, ``"other"``s, or ``"text"``."""
    array = np.asarray(column)
    if array.dtype.kind in "iub":
        return "whole"
    if array.dtype.kind not in "fO":
        return "text"
    if array.dtype.kind == "O" and any(isinstance(x, str) for x in array[:1000]):
        return "text"
    try:
        with np.errstate(over="ignore", under="ignore"):
            numbers = array.astype(np.float64, copy=False)
    except (TypeError, ValueError, OverflowError):
        return "other" if array.dtype.kind == "O" and _has_missing(array) else "text"
    return "whole" if np.array_equal(numbers, np.floor(numbers)) else "other"


def _has_missing(array: NDArray[Any]) -> bool:
    return any(type(x).__name__ in ("NAType", "NaTType", "NoneType") for x in array)


def pair_places(table: Table) -> Places:
    """User and item of a table, by their names, or else the only two columns in that order."""
    told = table.told()
    if told.keys() >= {"user", "item"}:
        return Places(told["user"], told["item"])
    if table.width != 2:
        raise ProblemError(f"X has shape {table.shape}: pairs need two columns, user and item")
    swapped = told.get("user") == 1 or told.get("item") == 0
    return Places(1, 0) if swapped else Places(0, 1)


def triple_places(table: Table) -> Places:
    """User, item and rating of a table of three columns or more, by name or else in that order."""
    if table.width < 3:
        raise ProblemError(
            f"X has shape {table.shape}: triples need three columns, user, item and rating"
        )
    places = (0, 1, 2) if table.names is None else places_of(table.names)
    if places is None:
        raise ProblemError(
            f"X has columns {table.names}: name the columns user, item and rating, or give these "
            "three in that order"
        )
    return Places(*places)


def ids_of(X: Any, places: Places) -> tuple[NDArray[Any], NDArray[Any]]:
    """Users and items of a table."""
    table = Table(X)
    if table.width == 2 and places.rating is not None:  # triples without their ratings
        places = pair_places(table)
    if table.width <= max(places.user, places.item):
        raise ProblemError(f"X has shape {table.shape}: give the columns of user and item")
    return as_ids(table.column(places.user)), as_ids(table.column(places.item))


def ratings_of(X: Any, y: Any, places: Places | None = None) -> Array:
    """The ratings, checked: y, or the column of triples."""
    if places is not None and places.rating is not None:
        table = Table(X)
        if table.width <= places.rating:
            raise ProblemError(f"X has shape {table.shape}: the column of ratings is missing")
        return _numbers(table.column(places.rating), "the ratings in X")
    if y is None:
        raise ProblemError("y is missing: pairs of user and item need their ratings")
    options = {"ensure_2d": False, "dtype": np.float64, "input_name": "y"}
    values = checked(column_or_1d, checked(check_array, y, name="y", **options), name="y")
    length = Table(X).shape[0]
    if values.size != length:
        raise ProblemError(f"X and y have inconsistent numbers of samples: {length}, {values.size}")
    return values


def _numbers(column: Any, name: str) -> Array:
    try:
        values = floats(name, column)
    except ProblemError:
        values = None
    if values is None and _has_missing(np.asarray(column, dtype=object)):
        raise ProblemError(f"{name} have missing values: drop those rows")
    if values is None:
        raise ProblemError(f"{name} are not all numbers: give numbers, or name the columns")
    bad = np.flatnonzero(~np.isfinite(values))
    if bad.size:
        raise ProblemError(
            f"{name} contain NaN or infinity, {bad.size} times, first in row {bad[0] + 1}: drop "
            "those rows"
        )
    if not values.size:
        raise ProblemError("X has no ratings")
    return values


def entries_of(X: Any) -> Observed:
    """Entries of a matrix: the stored ones of a sparse matrix, in any case without NaN."""
    if sp.issparse(X):
        coo = X.tocoo()
        rows, cols, values = coo.row, coo.col, coo.data
    else:
        rows, cols = np.nonzero(~np.isnan(X))
        values = X[rows, cols]
    kept = ~np.isnan(values)
    return Observed(rows[kept].astype(np.intp), cols[kept].astype(np.intp), values[kept], X.shape)


def two_columns(X: Any) -> bool:
    """Whether X can be a table of pairs."""
    return not sp.issparse(X) and Table(X).width == 2


def names_of(X: Any, shape: Sequence[int]) -> tuple[Any, Any]:
    """Names of the rows and columns of a matrix."""
    if hasattr(X, "iloc"):
        return list(X.axes[0]), list(X.axes[1])
    return list(range(shape[0])), list(range(shape[1]))
