"""Arrays as blocks of memory: those that share memory are written once and share it again."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from condgrad._types import Array
from condgrad.backends.arrays import address, foreign, host, placed
from condgrad.errors import ProblemError

KINDS = "biufcSU"
"""Kinds of numbers and text that arrays may have."""


class Memory:
    """A stretch of memory, with the arrays that lie in it so that it stays there."""

    def __init__(self, start: int, stop: int, arrays: Sequence[Array]) -> None:
        self.start, self.stop = start, stop
        self.arrays: Any = arrays

    @property
    def nbytes(self) -> int:
        """Length of the memory in bytes."""
        return self.stop - self.start

    @property
    def view(self) -> memoryview:
        """The bytes themselves."""
        if self.nbytes == 0:
            return memoryview(b"")
        return memoryview((ctypes.c_ubyte * self.nbytes).from_address(self.start)).cast("B")

    def copy(self) -> Memory:
        """Copy the bytes to memory that nobody changes."""
        if self.nbytes == 0:
            return self
        same = np.frombuffer(self.view, np.uint8).copy()
        return Memory(same.ctypes.data, same.ctypes.data + same.nbytes, [same])


def window(array: Array) -> tuple[int, int]:
    """The first byte of an array that is not empty, and the one behind its last."""
    start = stop = address(array)
    for side, stride in zip(array.shape, array.strides, strict=True):
        far = (side - 1) * stride
        start, stop = start + min(far, 0), stop + max(far, 0)
    return start, stop + array.itemsize


def written(arrays: Sequence[Any]) -> tuple[list[Any], list[Memory]]:
    """Lines that describe arrays, and the memory that they lie in.

    A line has the block and the place in it, shape, strides and type, whether the array may be
    written to, and whether it lies on a GPU. From there a copy is made, with rows one behind the
    other, or columns if it was so.
    """
    copies = _copies(arrays)
    sorted_ids = sorted(
        (i for i, a in enumerate(copies) if a.size), key=lambda i: window(copies[i])
    )
    blocks: list[Memory] = []
    lines: list[Any] = [None] * len(arrays)
    inside: list[int] = []
    for i in sorted_ids:
        start, stop = window(copies[i])
        if blocks and start < blocks[-1].stop:
            blocks[-1].stop = max(blocks[-1].stop, stop)
            blocks[-1].arrays.append(copies[i])
        else:
            blocks.append(Memory(start, stop, [copies[i]]))
        inside.append(len(blocks) - 1)
    for i, block in zip(sorted_ids, inside, strict=True):
        lines[i] = [block, address(copies[i]) - blocks[block].start]
    for i, (given, a) in enumerate(zip(arrays, copies, strict=True)):
        place = lines[i] or [-1, 0]
        writeable = bool(foreign(given) or given.flags.writeable)
        lines[i] = [*place, list(a.shape), list(a.strides), a.dtype.str, writeable, foreign(given)]
    return lines, blocks


def _copies(arrays: Sequence[Any]) -> list[Array]:
    """Arrays as they are, those of a GPU copied from there; shared memory stays shared."""
    there = [i for i, a in enumerate(arrays) if foreign(a) and a.size]
    there.sort(key=lambda i: (window(arrays[i])[0], -window(arrays[i])[1]))
    found: list[Any] = [host(a) if foreign(a) and not a.size else a for a in arrays]
    whole: tuple[int, int, Any] | None = None
    for i in there:
        a = arrays[i]
        start, stop = window(a)
        if whole is not None and start < whole[1]:
            if stop > whole[1] or not (a.flags.c_contiguous and whole[2].flags.c_contiguous):
                raise ProblemError("arrays on the GPU overlap: a checkpoint cannot hold them")
            flat = whole[2].reshape(-1).view(np.uint8)[start - whole[0] : stop - whole[0]]
            found[i] = flat.view(a.dtype).reshape(a.shape)
            continue
        columns = a.flags.f_contiguous and not a.flags.c_contiguous
        found[i] = np.ascontiguousarray(host(a.T)).T if columns else np.ascontiguousarray(host(a))
        whole = start, stop, found[i]
    return found


class Arrays:
    """The arrays of a file, each made when it is first asked for.

    Parameters
    ----------
    lines : list
        What `written` says of them.
    block : callable
        From the number of a block to its bytes.
    wrong : callable
        From a reason to the error for a damaged file.
    like : array
        Where those go that were on a GPU.
    """

    def __init__(
        self,
        lines: Any,
        block: Callable[[int], Array],
        wrong: Callable[[str], Exception],
        like: Array,
    ) -> None:
        self._lines, self._block, self._wrong, self._like = lines, block, wrong, like
        self._blocks: dict[int, Array] = {}
        self._there: dict[int, Any] = {}
        self._made: dict[int, Any] = {}

    def __getitem__(self, number: int) -> Any:
        if number not in self._made:
            try:
                self._made[number] = self._make(*self._lines[number])
            except (TypeError, ValueError, IndexError, KeyError):
                raise self._wrong("an array does not fit into its block") from None
        return self._made[number]

    def _make(
        self,
        block: int,
        at: int,
        shape: list[int],
        strides: list[int],
        kind: str,
        writeable: bool,
        there: bool,
    ) -> Any:
        dtype = np.dtype(kind)
        if dtype.kind not in KINDS or not all(isinstance(n, int) and n >= 0 for n in shape):
            raise TypeError
        if block < 0:
            if 0 not in shape:
                raise TypeError
            empty = np.empty(shape, dtype)
            return placed(empty, self._like) if there else empty
        if block not in self._blocks:
            self._blocks[block] = self._block(block)
        raw = self._blocks[block]
        array: Array = np.ndarray(tuple(shape), dtype, raw.data, at, tuple(strides))
        if there:
            return self._sent(block, at, array, raw)
        array.flags.writeable = bool(writeable)
        return array

    def _sent(self, block: int, at: int, array: Array, raw: Array) -> Any:
        """An array on the GPU; those in one block share memory there too."""
        if array.nbytes == raw.nbytes:
            columns = array.flags.f_contiguous and not array.flags.c_contiguous
            sent: Any = placed(array.T, self._like).T if columns else placed(array, self._like)
            if array.flags.c_contiguous and block not in self._there:
                self._there[block] = sent
            elif array.flags.c_contiguous:
                sent = self._there[block].reshape(-1).view(array.dtype).reshape(array.shape)
            return sent
        if block not in self._there:  # the array that fills the block was not asked for yet
            self._there[block] = placed(raw.view(array.dtype), self._like)
        flat = self._there[block].reshape(-1).view(array.dtype)
        start = at // array.itemsize
        return flat[start : start + array.size].reshape(array.shape)


def storable(array: Any) -> bool:
    """Whether an array is of numbers or text."""
    return array.dtype.kind in KINDS and not array.dtype.hasobject
