"""Fingerprint of a run: enough to tell that a checkpoint belongs to another problem."""

from __future__ import annotations

import hashlib
import types
from collections.abc import Mapping
from enum import Enum
from functools import cached_property, partial
from typing import Any

import numpy as np
import scipy.sparse as sp

from condgrad.backends.arrays import foreign, host
from condgrad.run.files import OURS

PIECE = 1 << 24
MARK = ", with the digest "
Print = dict[str, str]
"""Fingerprint: facts by the name of a part."""


def print_of(value: Any, name: str) -> Print:
    """Fingerprint of a value, part by part: classes, numbers, and digests of arrays.

    Functions count by their names. What an object finds out by itself when it is asked
    (`cached_property`) does not count.
    """
    found: Print = {}
    _enter(value, name, found, set())
    return found


def _enter(value: Any, name: str, found: Print, seen: set[int]) -> None:
    fact = _fact(value)
    if fact is not None:
        found[name] = fact
        return
    if id(value) in seen:
        return
    seen.add(id(value))
    found[name] = f"{type(value).__module__}.{type(value).__qualname__}"
    parts: Mapping[str, Any] = {}
    if isinstance(value, partial):
        parts = {"func": value.func, "args": value.args, **value.keywords}
    elif isinstance(value, Mapping):
        parts = {f"[{k!r}]": v for k, v in value.items()}
    elif isinstance(value, (list, tuple)):
        parts = {f"[{i}]": v for i, v in enumerate(value)}
    elif isinstance(value, (set, frozenset)):
        parts = {"": repr(sorted(map(repr, value)))}
    elif any(kind.__module__.startswith(OURS) for kind in type(value).__mro__):
        kind, own, lazy = type(value), vars(value).items(), cached_property
        parts = {f".{n}": v for n, v in own if not isinstance(getattr(kind, n, None), lazy)}
    for step, part in parts.items():
        _enter(part, name + step, found, seen)


def _fact(value: Any) -> str | None:
    """Fact that stands for all of a value; None if it has parts."""
    if foreign(value) or isinstance(value, np.ndarray):
        return _digest(host(value))
    if sp.issparse(value):
        same = sp.csr_array(value)
        digests = [_digest(part) for part in (same.data, same.indptr, same.indices)]
        return f"a sparse matrix of shape {same.shape}{MARK}{' '.join(digests)}"
    if isinstance(value, (np.dtype, Enum)):
        return value.str if isinstance(value, np.dtype) else str(value.name)
    if isinstance(value, (type, types.FunctionType, types.MethodType)):
        return f"{value.__module__}.{value.__qualname__}"
    plain = (bool, int, float, complex, str, bytes, slice, range, np.generic, type(None))
    if isinstance(value, plain):
        return repr(value.item() if isinstance(value, np.generic) else value)
    return None


def _digest(array: Any) -> str:
    """Type, shape and a digest of the numbers."""
    digest = hashlib.blake2b(digest_size=16)
    if array.dtype.hasobject:
        digest.update(repr(array.tolist()).encode())
    else:
        flat = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        for i in range(0, flat.size, PIECE):
            digest.update(flat[i : i + PIECE].data)
    return f"an array of {array.dtype} and shape {array.shape}{MARK}{digest.hexdigest()}"


def difference(here: Mapping[str, str], there: Mapping[str, str]) -> str | None:
    """First difference between two fingerprints, in words."""
    for name in {**there, **here}:
        new, old = here.get(name), there.get(name)
        if new == old:
            continue
        if old is None or new is None:
            return f"{name} is {'not there any more' if new is None else 'new'}"
        old = str(old)  # whatever a file may say
        if MARK not in new + old and len(new) + len(old) < 100:
            return f"{name} is {new} here and was {old}"
        (new, *_), (old, *_) = new.split(MARK), old.split(MARK)
        return f"{name} has other numbers" if new == old else f"{name} is {new} here and was {old}"
    return None
