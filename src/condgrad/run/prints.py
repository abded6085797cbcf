"""Fingerprint of a run: enough to tell that a checkpoint belongs to another problem."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from enum import Enum
from functools import cached_property, partial
from typing import Any

import numpy as np
import scipy.sparse as sp

from condgrad.backends.arrays import foreign, host
from condgrad.run.files import OURS

MARK = ", with the digest "
PLAIN = (bool, int, float, complex, str, bytes, slice, range, np.dtype, Enum, type(None))
Print = dict[str, str]
"""Fingerprint: facts by the name of a part."""


def print_of(value: Any, name: str, seen: set[int] | None = None) -> Print:
    """Fingerprint of a value, part by part: classes, numbers, and digests of arrays.

    Functions count by their names. What an object finds out by itself when it is asked
    (`cached_property`) does not count.
    """
    seen = set() if seen is None else seen
    value = value.item() if isinstance(value, np.generic) else value
    if foreign(value) or isinstance(value, np.ndarray):
        return {name: _digest(host(value))}
    if isinstance(value, PLAIN):
        return {name: repr(value)}
    if id(value) in seen:
        return {}
    seen.add(id(value))
    called = value if hasattr(value, "__qualname__") else type(value)
    found = {name: f"{called.__module__}.{called.__qualname__}"}
    for step, part in _parts(value).items():
        found |= print_of(part, name + step, seen)
    return found


def _parts(value: Any) -> Mapping[str, Any]:
    """The parts of a value by what their names add to its own; none of a stranger's object."""
    if isinstance(value, partial):
        return {".func": value.func, ".args": value.args, ".keywords": value.keywords}
    if isinstance(value, Mapping):
        return {f"[{k!r}]": v for k, v in value.items()}
    if isinstance(value, (set, frozenset)):
        return {"": repr(sorted(map(repr, value)))}
    if isinstance(value, (list, tuple)):
        return {f"[{i}]": v for i, v in enumerate(value)}
    if sp.issparse(value):
        same = sp.csr_array(value)
        numbers = {".data": same.data, ".indptr": same.indptr, ".indices": same.indices}
        return {".shape": repr(same.shape), **numbers}
    kind = type(value)
    if not any(base.__module__.startswith(OURS) for base in kind.__mro__):
        return {}
    own = vars(value).items()
    return {f".{n}": v for n, v in own if not isinstance(getattr(kind, n, None), cached_property)}


def _digest(array: Any) -> str:
    """Type, shape and a digest of the numbers."""
    flat = np.ascontiguousarray(array).reshape(-1)
    data: Any = repr(array.tolist()).encode() if array.dtype.hasobject else flat.view(np.uint8).data
    digest = hashlib.blake2b(data, digest_size=16).hexdigest()
    return f"an array of {array.dtype} and shape {array.shape}{MARK}{digest}"


def difference(here: Mapping[str, str], there: Mapping[str, str]) -> str | None:
    """First difference between two fingerprints, in words."""
    for name in {**there, **here}:
        facts = [str(own.get(name, "missing")) for own in (here, there)]
        if facts[0] != facts[1]:
            new, old = (fact.partition(MARK)[0] for fact in facts)
            same = f"{name} has other numbers"
            return same if new == old else f"{name} is {new} here and was {old}"
    return None
