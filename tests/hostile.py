"""Arrays that no one should pass but someone will, and what a door may do with them.

`KINDS` makes of a plain float64 array another thing: the same numbers in another form, for which
the answer is that of the plain array or a refusal, or other numbers, for which the answer is finite
or a refusal. A refusal is the package's own error; nothing warns.
"""

from __future__ import annotations

import array
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

from condgrad.errors import InputError, ProblemError

pd: Any
try:
    import pandas as pd
except ImportError:
    pd = None


class Broken:
    """Says that it is an array, and then is none."""

    def __array__(self, *args, **options):
        raise RuntimeError("not today")


class Liar:
    """Has a length that its items do not keep."""

    def __len__(self):
        return 10**9

    def __getitem__(self, k):
        raise KeyError(k)


def poked(A, value, dtype=float):
    """A with one entry, and the mirrored one, replaced."""
    A = np.array(A, dtype=dtype)
    if A.ndim == 2 and min(A.shape) > 1:
        A[0, 1] = A[1, 0] = value
    elif A.size:
        A.reshape(-1)[-1] = value
    return A


def spread(A):
    """The same numbers, not one behind the other."""
    out = np.zeros(tuple(2 * side for side in A.shape))
    view = out[tuple(slice(None, None, 2) for _ in A.shape)]
    view[...] = A
    return view


def backwards(A):
    """The same numbers behind negative strides."""
    back = tuple(slice(None, None, -1) for _ in A.shape)
    return np.ascontiguousarray(A[back])[back]


def frozen(A):
    A = np.array(A)
    A.flags.writeable = False
    return A


def unaligned(A):
    raw = np.zeros(A.nbytes + 1, np.uint8)[1:].view(np.float64).reshape(A.shape)
    raw[...] = A
    return raw


def repeated(A):
    """Sparse, with every entry as two halves."""
    coo = sp.coo_array(A)
    twice = [np.concatenate([x, x]) for x in coo.coords]
    return sp.coo_array((np.concatenate([coo.data, coo.data]) / 2, tuple(twice)), shape=A.shape)


def small(A):
    """As float16 sees it."""
    return A.astype(np.float16).astype(np.float64)


SAME: dict[str, Callable[[Any], Any]] = {
    "plain": np.array,
    "list": lambda A: A.tolist(),
    "tuple": lambda A: tuple(map(tuple, A.tolist())) if A.ndim == 2 else tuple(A.tolist()),
    "Fortran order": np.asfortranarray,
    "read-only": frozen,
    "not contiguous": spread,
    "negative strides": backwards,
    "unaligned": unaligned,
    "float16": lambda A: A.astype(np.float16),
    "float32": lambda A: A.astype(np.float32),
    "big-endian": lambda A: A.astype(">f8"),
    "big-endian float32": lambda A: A.astype(">f4"),
    "longdouble": lambda A: A.astype(np.longdouble),
    "complex without imaginary part": lambda A: A.astype(complex),
    "object": lambda A: A.astype(object),
    "masked, nothing hidden": lambda A: np.ma.masked_array(A),
    "np.matrix": lambda A: np.matrix(A) if A.ndim == 2 else A,
    "memoryview": lambda A: memoryview(np.ascontiguousarray(A)),
    "csr": sp.csr_array,
    "csc": sp.csc_array,
    "coo": sp.coo_array,
    "dia": lambda A: sp.dia_array(A) if A.ndim == 2 else sp.coo_array(A),
    "lil": lambda A: sp.lil_array(A) if A.ndim == 2 else sp.coo_array(A),
    "dok": sp.dok_array,
    "bsr": lambda A: sp.bsr_array(A) if A.ndim == 2 else sp.coo_array(A),
    "csr_matrix": lambda A: sp.csr_matrix(A) if A.ndim == 2 else sp.coo_array(A),
    "sparse, repeated entries": repeated,
    "sparse, big-endian": lambda A: sp.csr_array(A).astype(">f8"),
    "sparse, longdouble": lambda A: sp.csr_array(A).astype(np.longdouble),
}
"""The same numbers in another form."""

OTHER: dict[str, Callable[[Any], Any]] = {
    "1e308": lambda A: A * 1e308,
    "1e300": lambda A: A * 1e300,
    "1e160": lambda A: A * 1e160,
    "1e-160": lambda A: A * 1e-160,
    "1e-320": lambda A: A * 1e-320,
    "1e308 in one place": lambda A: poked(A, 1e308),
    "1e-320 in one place": lambda A: poked(A, 1e-320),
    "nan": lambda A: poked(A, np.nan),
    "inf": lambda A: poked(A, np.inf),
    "-inf": lambda A: poked(A, -np.inf),
    "all nan": lambda A: np.full(A.shape, np.nan),
    "float16 with inf": lambda A: poked(A, np.inf, np.float16),
    "longdouble beyond float64": lambda A: poked(A, np.longdouble("1e400"), np.longdouble),
    "longdouble below float64": lambda A: poked(A, np.longdouble("1e-400"), np.longdouble),
    "zeros": lambda A: np.zeros(A.shape),
    "negative": lambda A: -A,
    "complex": lambda A: A + 1j,
    "object with None": lambda A: poked(A, None, object),
    "object with text": lambda A: poked(A, "two", object),
    "object with huge integers": lambda A: poked(A, 10**400, object),
    "object with lists": lambda A: poked(A, [1, 2], object),
    "masked": lambda A: np.ma.masked_array(A, poked(np.zeros(A.shape), 1) == 1),
    "all masked": lambda A: np.ma.masked_all(A.shape),
    "bool": lambda A: A > 0.5,
    "uint8": lambda A: np.abs(A * 100).astype(np.uint8),
    "int64 min": lambda A: poked(np.zeros(A.shape), np.iinfo(np.int64).min, np.int64),
    "uint64 max": lambda A: poked(np.zeros(A.shape), np.iinfo(np.uint64).max, np.uint64),
    "text": lambda A: A.astype(str),
    "bytes": lambda A: A.astype("S"),
    "text that is none": lambda A: np.full(A.shape, "many"),
    "datetime64": lambda A: (A * 100).astype(np.int64).astype("datetime64[s]"),
    "timedelta64": lambda A: (A * 100).astype(np.int64).astype("timedelta64[s]"),
    "records": lambda A: np.zeros(A.shape, [("x", float), ("y", int)]),
    "void": lambda A: np.zeros(A.shape, "V8"),
    "0-d": lambda A: np.array(1.0),
    "empty": lambda A: np.empty(0),
    "empty matrix": lambda A: np.empty((0, 0)),
    "no columns": lambda A: np.empty((len(A), 0)),
    "3-d": lambda A: np.zeros((2, 2, 2)),
    "one entry": lambda A: np.ones((1,) * A.ndim),
    "another shape": lambda A: A.reshape(-1)[:-1],
    "transposed": lambda A: np.ascontiguousarray(A[:-1].T),
    "ragged": lambda A: [[1.0, 2.0], [3.0]],
    "nested too deep": lambda A: [[[[[1.0]]]]],
    "None": lambda A: None,
    "a number": lambda A: 3.5,
    "nan itself": lambda A: float("nan"),
    "a string": lambda A: "karate_club",
    "bytes object": lambda A: b"\x00\x01",
    "a dict": lambda A: {"a": 1},
    "a set": lambda A: {1.0, 2.0},
    "a generator": lambda A: (x for x in A),
    "a function": lambda A: np.sin,
    "a class": lambda A: np.ndarray,
    "array.array": lambda A: array.array("d", A.reshape(-1)),
    "broken __array__": lambda A: Broken(),
    "lying __len__": lambda A: Liar(),
    "sparse nan": lambda A: sp.csr_array(poked(A, np.nan)),
    "sparse inf": lambda A: sp.csr_array(poked(A, np.inf)),
    "sparse 1e308": lambda A: sp.csr_array(A) * 1e308,
    "sparse complex": lambda A: sp.csr_array(A + 1j),
    "sparse bool": lambda A: sp.csr_array(A > 0.5),
    "sparse uint8": lambda A: sp.csr_array(np.abs(A * 100).astype(np.uint8)),
    "sparse, nothing in it": lambda A: sp.csr_array(np.zeros(A.shape)),
    "sparse vector": lambda A: sp.coo_array(np.ones(3)),
}
"""Other numbers, or none."""


def frame(A):
    return pd.DataFrame(A) if A.ndim == 2 else pd.Series(A)


def missing(A):
    return frame(poked(A, np.nan))


def nullable(A):
    made = frame(np.round(A * 10)).astype("Int64")
    if A.ndim == 2:
        made.iloc[0, 1] = pd.NA
    else:
        made.iloc[0] = pd.NA
    return made


def texts(A):
    return frame(A).astype(str)


if pd is not None:
    SAME["DataFrame"] = frame
    SAME["DataFrame of objects"] = lambda A: frame(A).astype(object)
    SAME["DataFrame of Float64"] = lambda A: frame(A).astype("Float64")
    OTHER["DataFrame with NaN"] = missing
    OTHER["DataFrame with NA"] = nullable
    OTHER["DataFrame of text"] = texts
    OTHER["DataFrame of categories"] = lambda A: frame(A).astype("category")
    OTHER["DataFrame of dates"] = lambda A: frame(A * 1e18).astype("datetime64[ns]")
    OTHER["empty DataFrame"] = lambda A: pd.DataFrame()
    OTHER["sparse DataFrame"] = lambda A: frame(A).astype(pd.SparseDtype(float, 0.0))

KINDS = {**SAME, **OTHER}
NEVER = frozenset(
    {
        *("masked", "all masked", "complex", "sparse complex", "datetime64", "timedelta64"),
        *("records", "void", "object with lists", "text that is none", "ragged", "a dict"),
        *("a generator", "a function", "a class", "broken __array__", "lying __len__"),
        *("object with huge integers", "DataFrame of dates", "uint64 max"),
    }
)
"""Kinds that no door for numbers may answer: whatever it answers, it has guessed."""


def numbers_in(found: Any) -> list[np.ndarray]:
    """The numbers of an answer."""
    if isinstance(found, dict):
        found = list(found.values())
    if isinstance(found, (list, tuple)):
        return [x for part in found for x in numbers_in(part)]
    return [np.asarray(found, dtype=np.float64)]


def verdict(
    door: Callable[[Any], Any], plain: np.ndarray, kind: str, may: frozenset[str] = frozenset()
) -> str:
    """What a door does with an array: ``refused``, ``same``, ``answered`` or what is wrong.

    `may` are kinds out of `NEVER` that this door may answer.
    """
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            given = KINDS[kind](np.array(plain))
    except (ValueError, TypeError, NotImplementedError, OverflowError):
        return "cannot be made"
    before = given.copy() if isinstance(given, np.ndarray) else None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found = numbers_in(door(given))
    except (ProblemError, InputError) as error:
        return "refused" if str(error).strip() else "BAD: refused without a word"
    except (Exception, Warning) as error:
        return f"BAD: {type(error).__module__}.{type(error).__name__}: {error}"[:300]
    if before is not None and given.dtype.kind != "V" and before.tobytes() != given.tobytes():
        return "BAD: the array was changed"
    if kind in NEVER - may:
        return "BAD: answered"
    if kind not in SAME:
        good = all(not np.isnan(x).any() for x in found)
        return "answered" if good else "BAD: an answer with NaN"
    base = small(plain) if kind == "float16" else np.array(plain)
    base = plain.astype(np.float32).astype(float) if "float32" in kind else base
    try:
        wanted = numbers_in(door(base))
    except ProblemError:  # where sparse is meant
        wanted = numbers_in(door(sp.csr_array(base)))
    close = len(wanted) == len(found) and all(
        x.shape == y.shape and np.allclose(x, y, rtol=1e-6, atol=1e-9, equal_nan=True)
        for x, y in zip(found, wanted, strict=True)
    )
    return "same" if close else "BAD: another answer than for the plain array"
