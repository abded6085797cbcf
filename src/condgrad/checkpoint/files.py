"""The file of a checkpoint: blocks of bytes and a description of them, each with a checksum.

A file begins with a head of 64 bytes: what it is, the version of the format, where the description
is, how long, its checksum, and that of the head. Blocks follow at multiples of 64 bytes, and the
description, a JSON text, comes last. Nothing in it is ever called or unpickled.
"""

from __future__ import annotations

import json
import os
import struct
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import numpy as np

from condgrad._files import replaced
from condgrad._types import Array
from condgrad.backends.memory import free_memory, size
from condgrad.errors import InputError

MAGIC = b"condgrad checkpoint\n"
FORMAT = 1
"""Format of the file; another one is refused."""
HEAD = struct.Struct("<20s I Q Q I")
"""Head of a file: magic, format, place and length of the description, and its checksum."""
ALIGN = 64
PIECE = 1 << 22
"""Bytes that are handled at a time."""
SAMPLE, SAMPLES = 1 << 12, 32
"""Bytes of a sample, and number of samples, which decide whether a block is compressed."""
PAYS = 3.0
"""Factor by which the samples must shrink for the block to be compressed."""
MOST = 1040
"""No block shrinks by a larger factor."""


class Block(Protocol):
    """Bytes that are to be written."""

    @property
    def view(self) -> memoryview:
        """The bytes themselves, not a copy."""


def write(path: str | os.PathLike[str], text: Any, blocks: Sequence[Block]) -> int:
    """Write a description and blocks in the place of a file; return the bytes of it."""
    with replaced(path) as file:
        file.write(bytes(ALIGN))
        places = [_put(file, block.view) for block in blocks]
        raw = json.dumps({**text, "blocks": places}, allow_nan=False).encode()
        at = _pad(file)
        file.write(raw)
        head = HEAD.pack(MAGIC, FORMAT, at, len(raw), zlib.crc32(raw))
        file.seek(0)
        file.write(head + struct.pack("<I", zlib.crc32(head)))
        return at + len(raw)


def _pad(file: BinaryIO) -> int:
    """Go on to the next multiple of `ALIGN`."""
    at = file.tell()
    file.write(bytes(-at % ALIGN))
    return at + -at % ALIGN


def _put(file: BinaryIO, view: memoryview) -> list[int]:
    """Write a block: where it is, its bytes there and in memory, and two checksums.

    The first is that of the bytes in the file. Equal lengths mean that it is not compressed.
    """
    at, check, stored = _pad(file), 0, 0
    for piece in _packed(view) if _shrinks(view) else _pieces(view):
        check = zlib.crc32(piece, check)
        stored += len(piece)
        file.write(piece)
    return [at, stored, view.nbytes, check]


def _pieces(view: memoryview) -> Iterator[memoryview]:
    return (view[i : i + PIECE] for i in range(0, view.nbytes, PIECE))


def _packed(view: memoryview) -> Iterator[bytes]:
    packer = zlib.compressobj(1)
    for piece in _pieces(view):
        yield packer.compress(piece)
    yield packer.flush()


def _shrinks(view: memoryview) -> bool:
    """Whether samples of a block say that compression pays: many are almost all zeros."""
    if view.nbytes < SAMPLE:
        return False
    starts = np.linspace(0, view.nbytes - SAMPLE, SAMPLES).astype(np.int64)
    samples = b"".join(view[i : i + SAMPLE] for i in starts.tolist())
    return len(samples) > PAYS * len(zlib.compress(samples, 1))


class Reader:
    """A checkpoint that is read: its description at once, blocks when asked for.

    Raises
    ------
    InputError
        Where the file is none, is of another format or is damaged, and where a block does not fit
        into the memory.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._length = self.path.stat().st_size
        with self.path.open("rb") as file:
            head = file.read(ALIGN)
            if not head.startswith(MAGIC):
                raise InputError(self.path, "this is no checkpoint of condgrad")
            if len(head) < ALIGN:
                raise self.damaged("it ends early")
            _, version, at, length, check = HEAD.unpack_from(head)
            if zlib.crc32(head[: HEAD.size]) != struct.unpack_from("<I", head, HEAD.size)[0]:
                raise self.damaged("the checksum of its head is wrong")
            if version != FORMAT:
                raise InputError(
                    self.path,
                    f"this checkpoint has format {version}, and this condgrad reads {FORMAT}",
                )
            if any(head[HEAD.size + 4 :]):
                raise self.damaged("its head has more than it should")
            self._inside(at, length)
            if at + length != self._length:
                raise self.damaged("its length is not the one it had")
            file.seek(at)
            raw = file.read(length)
        if zlib.crc32(raw) != check:
            raise self.damaged("the checksum of its description is wrong")
        try:
            self.text = json.loads(raw)
            self._blocks = [tuple(int(x) for x in place) for place in self.text["blocks"]]
        except (ValueError, TypeError, KeyError, RecursionError):
            raise self.damaged("its description cannot be read") from None

    def damaged(self, how: str) -> InputError:
        """The error for a file that is not as it was written."""
        return InputError(self.path, f"this checkpoint is damaged: {how}")

    def _inside(self, at: int, length: int) -> None:
        if at < 0 or length < 0 or at + length > self._length:
            raise self.damaged("it ends early")

    def block(self, number: int) -> Array:
        """The bytes of a block."""
        if not 0 <= number < len(self._blocks) or len(self._blocks[number]) != 4:
            raise self.damaged("a block is missing")
        at, stored, length, check = self._blocks[number]
        self._inside(at, stored)
        if length < 0 or length > MOST * (stored + ALIGN):
            raise self.damaged("a block has an impossible size")
        if length > free_memory():
            raise InputError(
                self.path,
                f"this checkpoint has a table of {size(length)}, but {size(free_memory())} of "
                "memory are free",
            )
        out, done, found = np.empty(length, np.uint8), 0, 0
        view = out.data
        unpacker = None if stored == length else zlib.decompressobj()
        with self.path.open("rb") as file:
            file.seek(at)
            for piece in _read(file, stored):
                found = zlib.crc32(piece, found)
                for part in _unpacked(unpacker, piece, self):
                    if done + len(part) > length:
                        raise self.damaged("a block is longer than it was")
                    view[done : done + len(part)] = part
                    done += len(part)
        if found != check:
            raise self.damaged("the checksum of a block is wrong")
        if done != length:
            raise self.damaged("a block is shorter than it was")
        return out

    def check(self) -> None:
        """Compare all checksums, and keep nothing."""
        for number in range(len(self._blocks)):
            self.block(number)


def _read(file: BinaryIO, length: int) -> Iterator[bytes]:
    while length > 0:
        piece = file.read(min(length, PIECE))
        if not piece:
            return
        length -= len(piece)
        yield piece


def _unpacked(unpacker: Any, piece: bytes, reader: Reader) -> Iterable[bytes]:
    """A piece as it was before it was compressed, a bounded part of it at a time."""
    if unpacker is None:
        yield piece
        return
    try:
        while piece:
            yield unpacker.decompress(piece, PIECE)
            piece = unpacker.unconsumed_tail
    except zlib.error:
        raise reader.damaged("a block cannot be unpacked") from None
