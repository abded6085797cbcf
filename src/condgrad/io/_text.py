"""What the readers share: files as text, and numbers in it."""

from __future__ import annotations

import gzip
import math
import re
import zlib
from collections.abc import Iterator
from pathlib import Path

from condgrad.errors import InputError


def read_bytes(path: str | Path) -> bytes:
    """Return the content of a file, gunzipped if it is gzip; `InputError` if it has none."""
    try:
        data = Path(path).read_bytes()
    except (OSError, ValueError, MemoryError) as exc:
        raise InputError(path, getattr(exc, "strerror", None) or f"cannot read: {exc}") from exc
    if data[:2] == b"\x1f\x8b" or (data and str(path).endswith(".gz")):
        try:
            data = gzip.decompress(data)
        except (OSError, EOFError, ValueError, MemoryError, zlib.error) as exc:
            raise InputError(path, f"damaged gzip file: {exc}") from exc
    if not data.strip():
        raise InputError(path, "the file is empty")
    return data


def decode(path: str | Path, data: bytes) -> str:
    """Return UTF-8 `data` as text with newlines as line ends; `InputError` names a bad line."""
    data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as exc:
        line = data.count(b"\n", 0, exc.start) + 1
        raise InputError(path, "not a text file in UTF-8", line) from exc
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
