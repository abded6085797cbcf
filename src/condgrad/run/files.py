"""Trees of dataclasses, arrays, numbers, strings, lists, dicts and generators in one file.

They come back bit for bit. A file begins with a line that says what it is and with the length of a
JSON text, which follows; then come the arrays, one behind the other, and a checksum of all that.
Classes are found by name among the dataclasses, named tuples and enumerations of this package that
are loaded; nothing else in a file is called, and nothing is unpickled.
"""

from __future__ import annotations

import json
import math
import os
import sys
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from enum import Enum
from itertools import pairwise
from pathlib import Path
from types import FunctionType
from typing import Any

import numpy as np

from condgrad._files import replaced
from condgrad._types import Array
from condgrad.backends.arrays import HOST, address, foreign, host, placed
from condgrad.errors import InputError, ProblemError

MAGIC = b"condgrad checkpoint 2\n"
OURS = "condgrad."
"""Beginning of the modules whose classes are made."""
PLAIN = (type(None), bool, int, float, str)
"""Types that JSON has."""
KINDS = "biufcSU"
"""Kinds of numbers and text that arrays may have."""
GENERATORS = ("PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64")
FAULTS = (
    *(KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError),
    *(RecursionError, AssertionError),
)
"""Errors that a changed text raises."""


@dataclass
class Pack:
    """A tree that is ready to be written, or was read."""

    text: Any = None
    """The tree with arrays by their numbers."""
    arrays: list[Array] = field(default_factory=list)
    """The arrays, in this process."""
    lines: list[Any] = field(default_factory=list)
    """Of each array: type, shape, whether it is to be transposed, whether it was on a GPU."""

    @classmethod
    def of(cls, tree: Any, where: str) -> Pack:
        """Make a tree ready; `where` is its name for people.

        Raises
        ------
        ProblemError
            If the tree has parts of other kinds, or arrays that overlap.
        """
        pack, seen = cls(), dict[int, tuple[str, Any, int]]()
        pack.text = pack._listed(tree, where, seen)
        spans = sorted((*_span(a), name) for name, a, _ in seen.values() if a.size)
        for (_, stop, one), (start, _, other) in pairwise(spans):
            if start < stop:
                raise ProblemError(f"{one} and {other} overlap, which a file cannot hold: copy one")
        return pack

    def tree(self, path: str | os.PathLike[str], like: Array = HOST) -> Any:
        """The tree of a file; arrays that were on a GPU go to that of `like`.

        Raises
        ------
        InputError
            If there is no such tree.
        """
        try:
            arrays = []
            for array, (_, _, turned, there) in zip(self.arrays, self.lines, strict=True):
                array = placed(array, like) if there else array
                arrays.append(array.T if turned else array)
            return _built(self.text, arrays)
        except FAULTS as error:
            raise damaged(path, f"it does not fit together ({error})") from None

    def _listed(self, value: Any, where: str, seen: dict[int, tuple[str, Any, int]]) -> Any:
        """The tree as JSON has it: lists, plain values, and dicts of one word for all else.

        Arrays that were `seen` before have their numbers already.
        """
        kind = type(value)
        if kind in PLAIN:
            return value
        name, ours = _name(kind), kind.__module__.startswith(OURS)
        if kind is list or kind is tuple:
            each = [self._listed(part, f"{where}[{i}]", seen) for i, part in enumerate(value)]
            return each if kind is list else {"tuple": each}
        if kind is np.ndarray or foreign(value):
            return {"array": self._array(value, where, seen)}
        if kind is dict:
            keys = [self._listed(key, where, seen) for key in value]
            parts = [self._listed(part, f"{where}[{key!r}]", seen) for key, part in value.items()]
            return {"dict": [list(pair) for pair in zip(keys, parts, strict=True)]}
        if isinstance(value, np.random.Generator):
            if id(value) in seen:
                raise ProblemError(f"{where} is there twice, which a file cannot hold: copy it")
            seen[id(value)] = where, np.zeros(0), -1
            return {"generator": self._listed(dict(value.bit_generator.state), where, seen)}
        if ours and isinstance(value, Enum):
            return {"enum": [name, value.name]}
        if ours and (is_dataclass(value) or hasattr(value, "_fields")):
            own = {n: self._listed(getattr(value, n), f"{where}.{n}", seen) for n in _names(kind)}
            return {"object": [name, own]}
        if isinstance(value, np.generic) and value.dtype.kind in KINDS:
            return {"number": [value.dtype.str, value.tobytes().hex()]}
        if isinstance(value, np.dtype) and not value.hasobject:
            return {"dtype": value.str}
        if isinstance(value, type) and issubclass(value, np.generic):
            return {"type": np.dtype(value).str}
        if isinstance(value, FunctionType) and _found(_name(value)) is value:
            return {"function": _name(value)}
        raise ProblemError(
            f"{where} is a {kind.__module__}.{kind.__qualname__}, which a file cannot hold: keep "
            "numbers and arrays there"
        )

    def _array(self, array: Any, where: str, seen: dict[int, tuple[str, Any, int]]) -> int:
        """Number of an array."""
        if id(array) not in seen:
            if array.dtype.kind not in KINDS:
                raise ProblemError(f"{where} has dtype {array.dtype}, which a file cannot hold")
            turned = array.ndim > 1 and abs(array.strides[0]) < abs(array.strides[-1])
            kept = np.asarray(host(array.T if turned else array), order="C")
            seen[id(array)] = where, array, len(self.arrays)
            self.arrays.append(kept)
            self.lines.append([array.dtype.str, list(kept.shape), turned, foreign(array)])
        return seen[id(array)][2]


def save(path: str | os.PathLike[str], packs: Sequence[Pack]) -> None:
    """Write trees in the place of a file, which is whole or not there."""
    text = json.dumps([{"tree": pack.text, "arrays": pack.lines} for pack in packs]).encode()
    parts: list[Any] = [MAGIC, len(text).to_bytes(8, "little"), text]
    parts += [a.reshape(-1).view(np.uint8).data for pack in packs for a in pack.arrays]
    check = 0
    with replaced(path) as file:
        for part in parts:
            check = zlib.crc32(part, check)
            file.write(part)
        file.write(check.to_bytes(4, "little"))


def load(path: str | os.PathLike[str]) -> list[Pack]:
    """Read what `save` wrote.

    Raises
    ------
    InputError
        If it is no such file, or is damaged.
    """
    packs: list[Pack] = []
    path = Path(path)
    with path.open("rb") as file:
        whole, head = os.fstat(file.fileno()).st_size, file.read(len(MAGIC) + 8)
        if not head.startswith(MAGIC):
            old = head.startswith(MAGIC[:-3])
            whose = "this condgrad but of an older one" if old else "condgrad"
            raise InputError(path, f"this is no checkpoint of {whose}")
        text = file.read(min(int.from_bytes(head[len(MAGIC) :], "little"), whole))
        check = zlib.crc32(text, zlib.crc32(head))
        try:
            for part in json.loads(text):
                pack = Pack(part["tree"], [], part["arrays"])
                for kind, shape, *_ in pack.lines:
                    dtype, count = np.dtype(kind), math.prod(shape)
                    if dtype.kind not in KINDS or not 0 <= count * dtype.itemsize <= whole:
                        raise ValueError("an array of an impossible size or type")
                    raw = np.empty(count * dtype.itemsize, np.uint8)
                    file.readinto(raw.data)
                    check = zlib.crc32(raw.data, check)
                    pack.arrays.append(raw.view(dtype).reshape(shape))
                packs.append(pack)
        except FAULTS:
            raise damaged(path, "its description cannot be read") from None
        if file.read() != check.to_bytes(4, "little"):
            raise damaged(path, "its checksum is wrong")
    return packs


def damaged(path: str | os.PathLike[str], how: str) -> InputError:
    """The error for a file that is not as it was written."""
    return InputError(Path(path), f"this checkpoint is damaged: {how}")


def _span(array: Any) -> tuple[int, int]:
    """The first byte of an array and the one behind its last."""
    start = stop = address(array)
    for side, stride in zip(array.shape, array.strides, strict=True):
        far = (side - 1) * stride
        start, stop = start + min(far, 0), stop + max(far, 0)
    return start, stop + array.itemsize


def _names(kind: Any) -> list[str]:
    """Fields of a dataclass, or of a named tuple."""
    if not is_dataclass(kind):
        return list(kind._fields)
    return [f.name for f in fields(kind) if f.init]


def _built(text: Any, arrays: Sequence[Array]) -> Any:
    """The tree of a text."""
    if isinstance(text, list):
        return [_built(part, arrays) for part in text]
    if not isinstance(text, dict):
        return text
    ((word, own),) = text.items()
    match word:
        case "array":
            return arrays[own]
        case "dict":
            return {_built(k, arrays): _built(v, arrays) for k, v in own}
        case "generator":
            state = _built(own, arrays)
            if state["bit_generator"] not in GENERATORS:
                raise TypeError(f"{state['bit_generator']} is no generator")
            bits = getattr(np.random, state["bit_generator"])()
            bits.state = state
            return np.random.Generator(bits)
        case "enum":
            return _class(own[0], Enum)[own[1]]
        case "object":
            kind = _class(own[0])
            if set(own[1]) != set(_names(kind)):
                raise TypeError(f"{own[0]} has other fields")
            return kind(**{name: _built(part, arrays) for name, part in own[1].items()})
        case "tuple":
            return tuple(_built(part, arrays) for part in own)
        case "number":
            return np.frombuffer(bytes.fromhex(own[1]), np.dtype(own[0]))[0]
        case "dtype":
            return np.dtype(own)
        case "type":
            return np.dtype(own).type
        case "function" if isinstance(_found(own), FunctionType):
            return _found(own)
    raise TypeError(f"{word} is no kind of value")


def _name(value: Any) -> str:
    """Name of a class or function."""
    return f"{value.__module__}:{value.__qualname__}"


def _found(name: str) -> Any:
    """A class or function of a loaded module of this package, or None."""
    module, _, qualified = name.partition(":")
    found: Any = sys.modules.get(module) if module.startswith(OURS) else None
    for part in qualified.split("."):
        found = getattr(found, part, None)
    return found


def _class(name: str, base: type = object) -> Any:
    """A dataclass, named tuple or enumeration of this package by its name."""
    found = _found(name)
    good = isinstance(found, type) and issubclass(found, base) and _name(found) == name
    if not (good and (base is Enum or is_dataclass(found) or hasattr(found, "_fields"))):
        raise TypeError(f"{name} is no class of this condgrad")
    return found
