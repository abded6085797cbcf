"""Files that are whole or not there: written beside under another name, then renamed."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

MARK = ".condgrad-"
"""Beginning of the names of files that are not whole yet; a process that is killed leaves one."""
AT_WORK: set[Path] = set()
"""Unfinished files of this process."""


@contextlib.contextmanager
def replaced(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """A file open for writing bytes that takes the place of `path` once it is whole.

    It lies in the same folder under a name of its own, so that several processes may write one
    path at once, and is renamed when the block ends and the disk has it all. When the block
    raises it is removed, and what was at `path` stays. A link is followed. What is no regular
    file (``/dev/stdout``, a pipe) is written to as it is.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp(), "answer.txt")
    >>> with replaced(path) as file:
    ...     _ = file.write(b"42")
    >>> path.read_text()
    '42'
    """
    target, mode = _target(path)
    if mode is not None and not stat.S_ISREG(mode):
        with target.open("wb") as file:
            yield file
        return
    part = target.with_name(f"{MARK}{secrets.token_hex(8)}.part")
    AT_WORK.add(part)
    try:
        with part.open("xb") as file:
            _hold(file)
            yield file
            file.flush()
            if mode is not None:
                part.chmod(stat.S_IMODE(mode))
            os.fsync(file.fileno())
        os.replace(part, target)
    except BaseException:
        with contextlib.suppress(OSError):
            part.unlink()
        raise
    finally:
        AT_WORK.discard(part)
    _settle(target.parent)


def writable(path: str | os.PathLike[str]) -> None:
    """Raise an `OSError` where a file of that name cannot be written, and leave all as it is."""
    target, mode = _target(path)
    if mode is None or stat.S_ISREG(mode):
        part = target.with_name(f"{MARK}{secrets.token_hex(8)}.part")
        with part.open("xb"):
            part.unlink()


def abandon() -> None:
    """Remove what is not whole, before the process ends at once."""
    for part in list(AT_WORK):
        with contextlib.suppress(OSError):
            part.unlink()


def _target(path: str | os.PathLike[str]) -> tuple[Path, int | None]:
    """The file behind a path, which can be written, and its mode if it is there."""
    target = Path(os.path.realpath(path))
    there, faults = target.exists(), {errno.ELOOP: target.is_symlink()}
    faults |= {errno.EISDIR: target.is_dir(), errno.ENOENT: not target.parent.is_dir()}
    faults[errno.EACCES] = there and not os.access(target, os.W_OK)
    for code, found in faults.items():
        if found:
            words = "there is no such folder" if code == errno.ENOENT else os.strerror(code)
            raise OSError(code, words, os.fspath(path))
    return target, target.stat().st_mode if there else None


def _settle(folder: Path) -> None:
    """Have the disk know the new name too, where the system can."""
    with contextlib.suppress(OSError, AttributeError):
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _hold(file: BinaryIO) -> bool:
    """Take hold of a file for as long as it is open; False where another process has it."""
    try:
        import fcntl
    except ImportError:  # not on every system
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def sweep(folder: str | os.PathLike[str]) -> None:
    """Remove what processes that were killed have left half written in a folder."""
    with contextlib.suppress(OSError):
        for part in Path(folder).glob(f"{MARK}*.part"):
            with contextlib.suppress(OSError), part.open("rb") as file:
                if part.stat().st_size and _hold(file):  # an empty one may have just begun
                    part.unlink()
