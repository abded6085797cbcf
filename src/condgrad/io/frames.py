"""Tables of columns with names: frames of pandas, Polars and Arrow, and Parquet files."""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from condgrad.errors import InputError
from condgrad.io._text import remedy, require, require_memory


class Frame:
    """A frame of pandas, Polars or Arrow as columns."""

    def __init__(self, frame: Any) -> None:
        self._frame = frame
        names = frame.columns if hasattr(frame, "iloc") else getattr(frame, "column_names", None)
        self.names: list[Any] = list(frame.columns if names is None else names)
        self.shape: tuple[int, int] = tuple(frame.shape)

    @staticmethod
    def fits(value: Any) -> bool:
        """Whether something is a frame."""
        if isinstance(value, type):
            return False
        return any(hasattr(value, name) for name in ("iloc", "column_names", "get_columns")) and (
            len(getattr(value, "shape", ())) == 2
        )

    def column(self, k: int) -> NDArray[Any]:
        """A column as an array: of objects where it is not of one plain type."""
        if hasattr(self._frame, "iloc"):
            return np.asarray(self._frame.iloc[:, k].to_numpy())
        if hasattr(self._frame, "column_names"):
            return np.asarray(self._frame.column(k).to_numpy())
        return np.asarray(self._frame.get_columns()[k].to_numpy())

    def values(self, k: int) -> list[Any]:
        """A column as a list, with None for what is missing."""
        return [None if missing(x) else x for x in self.column(k).tolist()]


def missing(value: Any) -> bool:
    """Whether a cell is None, NaN or the NA of pandas, whose comparisons have no truth value."""
    try:
        return value is None or bool(value != value)
    except (TypeError, ValueError):
        return type(value).__name__ in ("NAType", "NaTType")


def name_of(value: Any) -> str:
    """A cell as the name of something: 3.0 is 3, as where a missing cell made floats of numbers.

    Examples
    --------
    >>> name_of(3.0), name_of("a "), name_of(7)
    ('3', 'a', '7')
    """
    if isinstance(value, float) and value.is_integer() and abs(value) < 1 << 53:
        return str(int(value))
    return str(value).strip()


def is_parquet(data: bytes) -> bool:
    """Whether a content is Parquet."""
    return data.startswith(b"PAR1")


def read_parquet(path: str | Path, data: bytes) -> Frame:
    """The table of a Parquet file; what pandas wrote of its index is a column too."""
    try:
        import pyarrow as pa  # type: ignore[import-untyped]
        import pyarrow.parquet as pq  # type: ignore[import-untyped]
    except ImportError as exc:
        raise InputError(path, "Parquet needs pyarrow: install condgrad[frame]") from exc
    try:
        file = pq.ParquetFile(BytesIO(data))
        rows, columns = file.metadata.num_rows, file.metadata.num_columns
        require(path, f"a table of {rows} x {columns}", 8.0 * rows * columns)
        require_memory(path, data, 200.0 * rows * columns)
        table = file.read()
        table.validate(full=True)
        plain = [_decoded(pa, table.column(k)) for k in range(table.num_columns)]
        frame = Frame(pa.table(plain, names=table.column_names))
        frame.column(0)
    except InputError:
        raise
    except Exception as exc:  # pyarrow raises ArrowInvalid, OSError, KeyError, ...
        raise InputError(path, f"not a Parquet table that can be read: {exc}") from exc
    return frame


def _decoded(pa: Any, column: Any) -> Any:
    """A column without its dictionary, as categories have one."""
    kind = column.type
    return column.cast(kind.value_type) if pa.types.is_dictionary(kind) else column


def numbers(
    path: str | Path, values: Sequence[Any], what: str, say: str = ""
) -> NDArray[np.float64]:
    """A column as finite numbers; `InputError` names the row of the first that is none.

    `say` is what to do about one that is text.
    """
    found = np.empty(len(values))
    for k, value in enumerate(values):
        fault = "missing" if missing(value) else None
        try:
            found[k] = 0.0 if fault else float(value)
        except (TypeError, ValueError, OverflowError):
            fault = f"{str(value)[:30]!r}, not a number"
        if fault is None and not np.isfinite(found[k]):
            fault = f"{value}, not finite"
        if fault is not None:
            do = remedy("" if missing(value) else str(value)) or (f": {say}" if say else "")
            raise InputError(path, f"{what} is {fault} in row {k + 1}{do}")
    return found
