"""Common parts of the readers: files as text, and numbers in it."""

from __future__ import annotations

import bz2
import csv
import gzip
import lzma
import math
import os
import re
import zlib
from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

from condgrad.backends import memory
from condgrad.errors import InputError, ProblemError, Sentence

LIMIT = "CONDGRAD_READ_GIB"
"""The environment variable that says how much of a file is read, in GiB."""
DEFAULT = 2.0
"""Limit in GiB if the variable is not set."""
PIECE = 1 << 20
"""Bytes that are read at a time."""
PACKED: dict[str, tuple[re.Pattern[bytes], str, Callable[[BytesIO], Any]]] = {
    ".gz": (re.compile(rb"\x1f\x8b"), "gzip", lambda data: gzip.GzipFile(fileobj=data)),
    ".bz2": (re.compile(rb"BZh[1-9]1AY&SY"), "bzip2", bz2.BZ2File),
    ".xz": (re.compile(rb"\xfd7zXZ\0"), "xz", lzma.LZMAFile),
}
"""Packings by ending of a name: how contents begin, the noun, and the function that unpacks."""


def limit() -> float:
    """Bytes at which readers stop, of a file, of what is unpacked, and of what a header claims."""
    text = os.environ.get(LIMIT, "").strip()
    most = number(text) if text else DEFAULT
    if most is None or not 0 < most < math.inf:
        raise ProblemError(f"{LIMIT} is {text!r}: it must be a positive number of GiB")
    return most * memory.GIB


NOT_READ = {
    **dict.fromkeys((".xlsx", ".xls", ".ods", ".feather", ".arrow"), "CSV or Parquet"),
    **dict.fromkeys((".pkl", ".pickle", ".mat", ".h5", ".hdf5"), "CSV or .npz"),
    **dict.fromkeys(
        (".dot", ".gv", ".gexf", ".graphmlz", ".g6", ".s6"), "GraphML, GML or a list of edges"
    ),
    **dict.fromkeys((".zip", ".tar", ".tgz", ".7z", ".zst"), "a file of its own, or gzip"),
}
"""How names end of files that no reader takes, and as what to save them instead."""


def require(path: str | Path, what: str, claimed: float, line: int | None = None) -> None:
    """Refuse what a file claims if it is beyond the limit."""
    if claimed > limit():
        raise InputError(path, f"too large: {what} takes more than {_beyond()}", line)


def _beyond() -> str:
    return (
        f"{memory.size(limit())}, where reading stops: set the environment variable {LIMIT} to "
        "more GiB if this is right"
    )


def require_memory(path: str | Path, data: bytes, needed: float) -> None:
    """Refuse a file that cannot be taken apart in the free memory."""
    free = memory.free_memory()
    if needed > free:
        raise InputError(
            path,
            f"too large: taking {memory.size(len(data))} apart needs about {memory.size(needed)} "
            f"of memory, but {memory.size(free)} are free: read a part of it",
        )


def read_bytes(path: str | Path) -> bytes:
    """Return the content of a file, unpacked where it is packed; `InputError` if it has none.

    A stream or a packed file that goes on is stopped at the limit.
    """
    end = Path(path).suffix.lower()
    if (instead := NOT_READ.get(end)) is not None:
        raise InputError(path, f"{end} files are not read: save it as {instead}")
    try:
        with Path(path).open("rb") as file:
            data = _until_limit(path, file, "the file")
    except Sentence:
        raise
    except (OSError, ValueError, MemoryError) as exc:
        what = "too large for the free memory" if isinstance(exc, MemoryError) else str(exc)
        raise InputError(path, getattr(exc, "strerror", None) or f"cannot read: {what}") from exc
    for name, (start, kind, unpack) in PACKED.items():
        if start.match(data) or (data and end == name):
            data = _unpacked(path, data, kind, unpack)
            break
    if not data or data.isspace():
        raise InputError(path, "the file is empty")
    return data


def _unpacked(path: str | Path, data: bytes, kind: str, unpack: Callable[[BytesIO], Any]) -> bytes:
    try:
        return _until_limit(path, unpack(BytesIO(data)), "the unpacked file")
    except Sentence:
        raise
    except MemoryError as exc:
        raise InputError(path, "unpacked, it is too large for the free memory") from exc
    except (OSError, EOFError, ValueError, zlib.error, lzma.LZMAError) as exc:
        raise InputError(path, f"damaged {kind} file: {exc}") from exc


def ending(path: str | Path) -> str:
    """How the name of a file ends, in small letters, without that of what packed it.

    Examples
    --------
    >>> ending("Points.CSV.gz"), ending("u.data"), ending("README")
    ('.csv', '.data', '')
    """
    bare = Path(path)
    return (Path(bare.stem) if bare.suffix.lower() in PACKED else bare).suffix.lower()


def _until_limit(path: str | Path, file: Any, what: str) -> bytes:
    found, checked, most = BytesIO(), 0, limit()
    while piece := file.read(PIECE):
        total = found.tell() + len(piece)
        if total > most:
            raise InputError(path, f"too large: {what} goes on beyond {_beyond()}")
        if total > checked + 64 * PIECE:
            checked = total
            if total > memory.free_memory():  # it may have to be moved
                raise MemoryError
        found.write(piece)
    return found.getvalue()


def decode(path: str | Path, data: bytes, line: int = 0, cell: int = 0) -> str:
    """Return UTF-8 `data` as text with newlines as line ends; `InputError` names a bad line.

    `line` and `cell` are how many bytes of memory a reader needs for each of its lines and cells.
    """
    ends = data.count(b"\n") + data.count(b"\r") + 1
    gaps = sum(map(data.count, (b" ", b"\t", b",", b";"))) if cell else 0
    require_memory(path, data, 4 * len(data) + line * ends + cell * (gaps + ends))
    data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as exc:
        bad = data.count(b"\n", 0, exc.start) + 1
        raise InputError(path, "not a text file in UTF-8: save it as such", bad) from exc
    nul = text.find("\0")
    if nul >= 0:
        raise InputError(path, "not a text file (NUL byte)", text.count("\n", 0, nul) + 1)
    return text.removeprefix("\ufeff")


def data_lines(text: str, comments: tuple[str, ...] = ()) -> Iterator[tuple[int, str]]:
    """Yield (number, line) for the lines that are neither blank nor comments, counted from 1."""
    for number, line in enumerate(text.split("\n"), start=1):
        bare = line.strip()
        if bare and not bare.startswith(comments):
            yield number, line


def split(path: str | Path, line: int, content: str, mark: str | None) -> list[str]:
    """The fields of a line, bare; quotation marks keep a separator of one letter in a field."""
    if mark and len(mark) == 1 and '"' in content:
        try:
            return [field.strip() for field in next(csv.reader([content], delimiter=mark))]
        except (csv.Error, StopIteration) as exc:
            raise InputError(path, f"fields that cannot be told apart: {exc}", line) from exc
    return [field.strip() for field in content.split(mark)]


def number(text: str) -> float | None:
    """Return `text` as a float (it may be NaN or infinite), or None if it is not a number.

    Examples
    --------
    >>> number(" 2.5 "), number("1_0"), number("x")
    (2.5, None, None)
    """
    try:
        return None if "_" in text else float(text)
    except ValueError:
        return None


def remedy(text: str) -> str:
    """Remedy for a cell that is not a finite number, if its text shows one; to be put behind.

    Examples
    --------
    >>> remedy("2,5"), remedy("NaN"), remedy("abc")
    (': write a point for the comma', ': fill it in, or leave that line out', '')
    """
    if not text or text.lower() in ("nan", "na", "n/a", "null", "none", "?"):
        return ": fill it in, or leave that line out"
    if re.fullmatch("[+-]?[0-9]+,[0-9]{3}", text):
        return ": write it without a comma, or a point for it"
    return ": write a point for the comma" if re.fullmatch("[+-]?[0-9]*,[0-9]+", text) else ""


def show(text: str) -> str:
    """Return `text` quoted, and shortened where it is long."""
    return repr(text if len(text) <= 30 else text[:27] + "...")


def integer(path: str | Path, line: int, name: str, text: str, least: int, most: float) -> int:
    """Return field `name` as an int in least..most; `InputError` if it is none."""
    if not re.fullmatch("[+-]?[0-9]{1,4000}", text):
        raise InputError(path, f"{name} = {show(text)} is not a whole number", line)
    if not least <= (value := int(text)) <= most:
        span = f"{least} or more" if most == math.inf else f"in {least}..{most}"
        raise InputError(path, f"{name} = {show(text)} is out of range, must be {span}", line)
    return value
