"""`njit` with a cache that may fail: it costs the time to compile and one warning, never the run.

Numba keeps compiled code in files beside the source, or in the user's cache folder where that
cannot be written, or where ``NUMBA_CACHE_DIR`` says. It takes the files as they are: one that is
cut short, a full disk, or no folder that can be written would end the run. Here every file has a
checksum and names what it holds, so that a damaged one, or one that two processes wrote at a time,
is compiled again and replaced. Code in the package's own folder is read also where that folder
cannot be written, as in an image that was built by another user.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import warnings
from collections.abc import Callable
from functools import cache as once
from pathlib import Path
from typing import Any

import numba
from numba.core.caching import FunctionCache, IndexDataCacheFile, NullCache

from condgrad._signals import whole

LENGTH = 32
"""Bytes of a checksum."""
_warned = False


def warn(reason: str) -> None:
    """Warn of the first fault in a process; those that follow are of the same kind."""
    global _warned
    if not _warned:
        _warned = True
        warnings.warn(
            f"compiled kernels cannot be kept ({reason}): they are compiled again where needed, "
            "which takes seconds; NUMBA_CACHE_DIR can name another folder for them",
            stacklevel=2,
        )


@once
def kernels_stamp() -> str:
    """A digest of all files of kernels: code of one is inlined into that of others."""
    digest = hashlib.blake2b(digest_size=LENGTH)
    for file in sorted(Path(__file__).parent.glob("_numba*.py")):
        digest.update(file.read_bytes())
    return digest.hexdigest()


class Files(IndexDataCacheFile):  # type: ignore[misc]
    """The files of one kernel: an index of what was compiled and the code, each with a checksum."""

    beside: Files | None = None
    """Files in a folder that can only be read, for what is not found here."""

    def save(self, key: Any, data: Any) -> None:
        super().save(key, (key, data))

    def load(self, key: Any) -> Any:
        found = super().load(key)
        if found is not None and found[0] == key:
            return found[1]
        return None if self.beside is None else self.beside.load(key)

    def _load_index(self) -> dict[Any, str]:
        found = self._read(self._index_path)
        if found is None or found[:2] != (self._version, self._source_stamp):
            return {}
        overloads: dict[Any, str] = found[2]
        return overloads

    def _save_index(self, overloads: dict[Any, str]) -> None:
        self._write(self._index_path, (self._version, self._source_stamp, overloads))

    def _load_data(self, name: str) -> Any:
        return self._read(self._data_path(name))

    def _save_data(self, name: str, data: Any) -> None:
        self._write(self._data_path(name), data)

    def _read(self, path: str) -> Any:
        """Read a file; None if there is none, or if it is damaged."""
        try:
            data = Path(path).read_bytes()
        except FileNotFoundError:
            return None
        if hashlib.blake2b(data[LENGTH:], digest_size=LENGTH).digest() != data[:LENGTH]:
            warn(f"{path} is damaged")
            return None
        return pickle.loads(data[LENGTH:])

    def _write(self, path: str, content: Any) -> None:
        data = self._dump(content)
        with self._open_for_write(path) as file:
            file.write(hashlib.blake2b(data, digest_size=LENGTH).digest())
            file.write(data)


class Kept(FunctionCache):  # type: ignore[misc]
    """The cache of one kernel; what goes wrong with it is a warning."""

    def __init__(self, py_func: Any) -> None:
        super().__init__(py_func)
        self._cache_file = self._files(self._cache_path)
        shipped = os.path.join(os.path.dirname(py_func.__code__.co_filename), "__pycache__")
        if os.path.realpath(shipped) != os.path.realpath(self._cache_path):
            self._cache_file.beside = self._files(shipped)

    def _files(self, folder: str) -> Files:
        stamp = self._impl.locator.get_source_stamp(), kernels_stamp()
        return Files(folder, f"{self._impl.filename_base}-checked", stamp)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        try:
            return super().load_overload(sig, target_context)
        except Exception as error:  # of the file system, of pickle, of LLVM, ...
            warn(f"{self._cache_path} cannot be read: {error}")
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        try:
            super().save_overload(sig, data)
        except Exception as error:
            warn(f"{self._cache_path} cannot be written: {error}")


class Nowhere(NullCache):  # type: ignore[misc]
    """Stands for a cache where there is no folder for one."""

    def __init__(self, reason: str) -> None:
        self._reason = reason

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        warn(self._reason)


def njit(*, cache: bool = False, **options: Any) -> Callable[[Any], Any]:
    """As `numba.njit`, with a cache that may fail, and never interrupted while it compiles."""

    def compiled(function: Any) -> Any:
        found = numba.njit(**options)(function)
        if hasattr(found, "_compile_for_args"):  # what compiles, or reads compiled code
            found._compile_for_args = whole(found._compile_for_args)
        if cache and hasattr(found, "_cache"):  # not where NUMBA_DISABLE_JIT is set
            try:
                found._cache = Kept(function)
            except Exception as error:  # no folder can be written, or Numba has changed
                found._cache = Nowhere(str(error))
        return found

    return compiled
