"""Objects as a description of lists, words and numbers, and back.

What belongs to the problem, the method or the caller is *given*: it is not stored but named by the
way to it, and taken from what is given when the description is read. All else is stored by value:
numbers, containers, arrays, random generators and objects of this package by their attributes.
Things that are shared stay shared. Reading makes objects of the package's own classes without
calling anything; what is neither given nor of these kinds is refused when it is to be written.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from condgrad.backends.arrays import foreign
from condgrad.checkpoint.arrays import Arrays, Memory, storable, written
from condgrad.errors import ProblemError

PACKAGE = "condgrad."
GENERATORS = ("PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64")
SPARSE = ("csr", "csc", "coo", "bsr", "dia")
PLAIN = (bool, int, str, type(None))
WORDS = (
    *("float", "way", "same", "array", "number", "enum", "dtype", "dtype type", "type", "slice"),
    *("range", "tuple", "function", "bytes", "list", "set", "dict", "generator", "sparse"),
    "object",
)
"""With which a description of something may begin."""
Step = str | int | list[Any]
"""One step of the way to something: an attribute, a place in a sequence, or a key in a list."""


def attributes(value: Any) -> dict[str, Any]:
    """Attributes of an object without caches and those its class calls transient.

    A field of a dataclass is a cache if its metadata say so.
    """
    caches = [f.name for f in fields(value) if f.metadata.get("cache")] if _plain(value) else []
    left_out = (*getattr(type(value), "_transient", ()), *caches)
    found = {n: v for n, v in getattr(value, "__dict__", {}).items() if n not in left_out}
    for kind in type(value).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if hasattr(value, name) and name not in (*left_out, "__dict__", "__weakref__"):
                found[name] = getattr(value, name)
    return found


def _plain(value: Any) -> bool:
    """Whether a value is an instance of a dataclass."""
    return is_dataclass(value) and not isinstance(value, type)


def inside(value: Any) -> bool:
    """True for an object of a class of this package, or of one derived from such a class."""
    return any(kind.__module__.startswith(PACKAGE) for kind in type(value).__mro__)


def steps(value: Any) -> Iterator[tuple[Step, Any]]:
    """The parts of something, each with the step to it."""
    if isinstance(value, (list, tuple)):
        yield from enumerate(value)
    elif isinstance(value, Mapping):
        yield from (([k], v) for k, v in value.items() if isinstance(k, PLAIN))
    elif inside(value):
        yield from attributes(value).items()


def ours(value: Any) -> bool:
    """True for an object of a class of this package."""
    return type(value).__module__.startswith(PACKAGE)


class Given:
    """Objects that the caller gives when a description is read.

    Parameters
    ----------
    roots : mapping
        By name what is given, with all that can be reached from it.
    opaque : mapping
        … and what is given without what can be reached from it, such as callbacks.
    """

    def __init__(self, roots: Mapping[str, Any], opaque: Mapping[str, Any]) -> None:
        self.roots = {**opaque, **roots}
        self._ways: dict[int, list[Step]] = {}
        for name, value in opaque.items():
            self._ways[id(value)] = [name]
        for name, value in roots.items():
            self._enter(value, [name])

    def _enter(self, value: Any, way: list[Step]) -> None:
        if isinstance(value, (*PLAIN, float, np.generic, np.dtype, Enum, slice, range)):
            return
        if id(value) in self._ways or isinstance(value, type):
            return
        self._ways[id(value)] = way
        for step, part in steps(value):
            self._enter(part, [*way, step])

    def way(self, value: Any) -> list[Step] | None:
        """The way to something that is given."""
        return self._ways.get(id(value))

    def at(self, way: Any) -> Any:
        """Object at the end of a way."""
        value: Any = self
        for i, step in enumerate(way):
            if i == 0:
                value = self.roots[step]
            elif isinstance(step, list):
                value = value[step[0]]
            elif isinstance(step, int):
                value = value[step]
            else:
                value = _attribute(value, step)
        return value


def _attribute(value: Any, name: str) -> Any:
    """An attribute that is there, or would be if anybody had asked for it."""
    if name in attributes(value):
        return attributes(value)[name]
    if isinstance(getattr(type(value), name, None), cached_property):
        return getattr(value, name)
    raise KeyError(name)


class Writer:
    """Makes the description of objects."""

    def __init__(self, given: Given) -> None:
        self._given = given
        self._numbers: dict[int, int] = {}
        self._alive: list[Any] = []
        self._arrays: list[Any] = []

    def value(self, value: Any, where: str) -> Any:
        """Description of a value; `where` is its name for people."""
        kind = type(value)
        if kind in PLAIN:
            return value
        if kind is float:
            return value if np.isfinite(value) else ["float", repr(value)]
        way = self._given.way(value)
        if way is not None:
            return ["way", way]
        if isinstance(value, np.ndarray) or foreign(value):
            return self._array(value, where)
        if id(value) in self._numbers:
            return ["same", self._numbers[id(value)]]
        small = self._small(value, where)
        return small if small is not None else self._shared(value, where)

    def _small(self, value: Any, where: str) -> Any:
        """Things of which nobody knows whether two are the same."""
        kind = type(value)
        if isinstance(value, np.generic) and value.dtype.kind in "biufc":
            return ["number", value.dtype.str, value.tobytes().hex()]
        if isinstance(value, Enum) and ours(value):
            return ["enum", _class_name(kind), value.name]
        if isinstance(value, np.dtype) and not value.hasobject:
            return ["dtype", value.str]
        if isinstance(value, type):
            if value.__module__ == "numpy" and issubclass(value, np.generic):
                return ["dtype type", np.dtype(value).str]
            return ["type", _class_name(value)] if value.__module__.startswith(PACKAGE) else None
        if kind is slice:
            parts = (value.start, value.stop, value.step)
            return ["slice", *(self.value(p, where) for p in parts)]
        if kind is range:
            return ["range", value.start, value.stop, value.step]
        if isinstance(value, tuple) and (kind is tuple or ours(value)):
            name = None if kind is tuple else _class_name(kind)
            items = [self.value(v, f"{where}[{i}]") for i, v in enumerate(value)]
            return ["tuple", name, items]
        if isinstance(value, types.FunctionType) and _function(value):
            return ["function", value.__module__, value.__qualname__]
        return ["bytes", value.hex()] if kind is bytes else None

    def _shared(self, value: Any, where: str) -> Any:
        """Things that are the same wherever they are met again."""
        kind, number = type(value), len(self._numbers)
        self._numbers[id(value)] = number
        self._alive.append(value)
        if kind in (list, set):
            items = sorted(value) if kind is set else value
            parts = [self.value(v, f"{where}[{i}]") for i, v in enumerate(items)]
            return [kind.__name__, number, parts]
        if kind is dict:
            pairs = [
                (self.value(k, where), self.value(v, f"{where}[{k!r}]")) for k, v in value.items()
            ]
            return ["dict", number, pairs]
        if kind is np.random.Generator and type(value.bit_generator).__name__ in GENERATORS:
            state = self.value(dict(value.bit_generator.state), where)
            return ["generator", number, state]
        if sp.issparse(value) and value.format in SPARSE:
            return self._sparse(value, number, where)
        if ours(value) and not isinstance(value, (types.FunctionType, types.MethodType)):
            own = {n: self.value(v, f"{where}.{n}") for n, v in attributes(value).items()}
            return ["object", number, _class_name(kind), own]
        raise ProblemError(
            f"{where} is a {kind.__module__}.{kind.__qualname__}, which a checkpoint cannot hold"
        )

    def _array(self, array: Any, where: str) -> Any:
        if id(array) in self._numbers:
            return ["array", self._numbers[id(array)]]
        if type(array) is not np.ndarray and not foreign(array):
            raise ProblemError(
                f"{where} is a {type(array).__name__}, which a checkpoint cannot hold"
            )
        if not storable(array):
            raise ProblemError(f"{where} has dtype {array.dtype}, which a checkpoint cannot hold")
        self._arrays.append(array)
        self._numbers[id(array)] = len(self._arrays) - 1
        return ["array", len(self._arrays) - 1]

    def _sparse(self, value: Any, number: int, where: str) -> Any:
        second = {"coo": ("coords",), "dia": ("offsets",)}.get(value.format, ("indices", "indptr"))
        names: tuple[str, ...] = ("data", *second)
        parts = [self.value(getattr(value, n), f"{where}.{n}") for n in names]
        kind = type(value).__name__
        return ["sparse", number, kind, list(value.shape), dict(zip(names, parts, strict=True))]

    def blocks(self) -> tuple[list[Any], list[Memory]]:
        """Lines and memory of all arrays met."""
        return written(self._arrays)


class Maker:
    """Makes objects of a description.

    Raises
    ------
    KeyError, TypeError, ValueError, IndexError, AttributeError
        Where the description is none, or what is given is not what was given.
    """

    def __init__(self, given: Given, arrays: Arrays) -> None:
        self._given, self._stored = given, arrays
        self._known: dict[int, Any] = {}

    def value(self, text: Any) -> Any:
        """Value of a description."""
        if isinstance(text, (*PLAIN, float)):
            return text
        kind, *rest = text
        if kind not in WORDS:
            raise TypeError
        return getattr(self, "_" + kind.replace(" ", "_"))(*rest)

    def _float(self, text: str) -> float:
        return {"nan": float("nan"), "inf": float("inf"), "-inf": -float("inf")}[text]

    def _way(self, way: Any) -> Any:
        return self._given.at(way)

    def _same(self, number: int) -> Any:
        return self._known[number]

    def _array(self, number: int) -> Any:
        return self._stored[number]

    def _number(self, kind: str, raw: str) -> Any:
        dtype = np.dtype(kind)
        if dtype.kind not in "biufc":
            raise TypeError
        return np.frombuffer(bytes.fromhex(raw), dtype)[0]

    def _enum(self, name: str, member: str) -> Any:
        return _class(name, Enum)[member]  # type: ignore[index]

    def _dtype(self, kind: str) -> Any:
        return np.dtype(kind)

    def _dtype_type(self, kind: str) -> Any:
        return np.dtype(kind).type

    def _type(self, name: str) -> Any:
        return _class(name, object)

    def _slice(self, *parts: Any) -> slice:
        return slice(*(self.value(p) for p in parts))

    def _range(self, start: int, stop: int, step: int) -> range:
        return range(start, stop, step)

    def _tuple(self, name: str | None, items: Any) -> Any:
        kind = tuple if name is None else _class(name, tuple)
        return tuple.__new__(kind, [self.value(v) for v in items])

    def _function(self, module: str, name: str) -> Any:
        found = _found(module, name)
        if not isinstance(found, types.FunctionType) or not module.startswith(PACKAGE):
            raise TypeError
        return found

    def _bytes(self, raw: str) -> bytes:
        return bytes.fromhex(raw)

    def _list(self, number: int, items: Any) -> list[Any]:
        made: list[Any] = []
        self._known[number] = made
        made.extend(self.value(v) for v in items)
        return made

    def _set(self, number: int, items: Any) -> set[Any]:
        made: set[Any] = set()
        self._known[number] = made
        made.update(self.value(v) for v in items)
        return made

    def _dict(self, number: int, pairs: Any) -> dict[Any, Any]:
        made: dict[Any, Any] = {}
        self._known[number] = made
        for key, value in pairs:
            made[self.value(key)] = self.value(value)
        return made

    def _generator(self, number: int, state: Any) -> np.random.Generator:
        state = self.value(state)
        if state["bit_generator"] not in GENERATORS:
            raise TypeError
        bits = getattr(np.random, state["bit_generator"])()
        bits.state = state
        made = self._known[number] = np.random.Generator(bits)
        return made

    def _sparse(self, number: int, kind: str, shape: Any, parts: Any) -> Any:
        style = kind.rpartition("_")[0]
        if style not in SPARSE or not all(isinstance(n, int) and n >= 0 for n in shape):
            raise TypeError
        own = {name: self.value(v) for name, v in parts.items()}
        if style == "coo":
            given: Any = (own["data"], own["coords"])
        elif style == "dia":
            given = (own["data"], own["offsets"])
        else:
            given = (own["data"], own["indices"], own["indptr"])
        made = getattr(sp, kind)(given, shape=tuple(shape))
        if style in ("csr", "csc"):
            made.check_format(full_check=True)
        self._known[number] = made
        return made

    def _object(self, number: int, name: str, parts: Any) -> Any:
        made: Any = object.__new__(_class(name, object))
        self._known[number] = made
        for key, value in parts.items():
            if not key.isidentifier():
                raise TypeError
            object.__setattr__(made, key, self.value(value))
        return made


def _class_name(kind: type) -> str:
    return f"{kind.__module__}:{kind.__qualname__}"


def _found(module: str, name: str) -> Any:
    """Object of that name in a module that is loaded."""
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return found


def _function(value: Any) -> bool:
    """Whether a function has a name in a module of this package."""
    return value.__module__.startswith(PACKAGE) and (
        _found(value.__module__, value.__qualname__) is value
    )


def _class(name: str, base: type) -> type:
    """A class of this package by its name."""
    module, _, qualified = name.partition(":")
    found = _found(module, qualified)
    fits = isinstance(found, type) and issubclass(found, base) and _class_name(found) == name
    if not fits or not module.startswith(PACKAGE):
        raise TypeError(f"{name} is no class of this condgrad")
    kind: type = found
    return kind
