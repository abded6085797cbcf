"""Eigenvalues and singular values that let go of the interpreter's lock while they are computed.

SciPy's own functions keep it for as long as LAPACK takes, seconds for a side of 1500, minutes for
5000: until then no other thread runs, and none can answer a signal. The same routines are called
here through their addresses, with the same work space, so that every bit is that of SciPy.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

import numpy as np
import scipy.linalg

from condgrad._types import Array

SMALL = 200
"""Up to this side SciPy answers at once."""
LETTER = {np.dtype(np.float64): "d", np.dtype(np.float32): "s"}
"""How names of routines begin, by the type of the numbers."""


@cache
def routine(name: str) -> Any:
    """A routine of the LAPACK that SciPy has, or None where that has another interface."""
    from scipy.linalg import cython_lapack

    capsule = getattr(cython_lapack, "__pyx_capi__", {}).get(name)
    if capsule is None:
        return None
    api = ctypes.pythonapi
    api.PyCapsule_GetName.restype, api.PyCapsule_GetName.argtypes = (
        ctypes.c_char_p,
        [ctypes.py_object],
    )
    api.PyCapsule_GetPointer.restype, api.PyCapsule_GetPointer.argtypes = (
        ctypes.c_void_p,
        [ctypes.py_object, ctypes.c_char_p],
    )
    signature = api.PyCapsule_GetName(capsule)
    parts = signature.partition(b"(")[2].rstrip(b")").split(b", ")
    if not parts[-1].startswith(b"int *"):  # integers of 64 bits
        return None
    call = ctypes.CFUNCTYPE(None, *([ctypes.c_void_p] * len(parts)))
    return call(api.PyCapsule_GetPointer(capsule, signature))


def eigh(V: Array, *, subset: tuple[int, int] | None = None, driver: str = "evr") -> Any:
    """Eigenvalues and vectors of a symmetric V, as `scipy.linalg.eigh` without checks.

    Parameters
    ----------
    V : array
        Its lower triangle is read.
    subset : (int, int), optional
        The first and the last of the eigenvalues wanted, from 0; default: all.
    driver : {"evr", "evd"}
        The routine; ``evd`` knows no subset.

    Examples
    --------
    >>> eigh(np.diag([2.0, 1.0]))[0]
    array([1., 2.])
    """
    call = _ours(V, f"sy{driver}")
    if call is None:
        how: Any = {"driver": driver, "check_finite": False}
        return scipy.linalg.eigh(V, subset_by_index=subset, **how)
    return _by_evr(call, V, True, subset) if driver == "evr" else _by_evd(call, V)


def eigvalsh(V: Array) -> Array:
    """All eigenvalues of a symmetric V, as `scipy.linalg.eigvalsh` without checks."""
    call = _ours(V, "syevr")
    if call is None:
        return np.asarray(scipy.linalg.eigvalsh(V, check_finite=False))
    values: Array = _by_evr(call, V, False, None)[0]
    return values


def svd(X: Array) -> tuple[Array, Array, Array]:
    """U, s, Vᵀ with min(n, m) columns, as `scipy.linalg.svd` with ``full_matrices=False``."""
    call = _ours(X, "gesdd")
    if call is None:
        U, s, VT = scipy.linalg.svd(X, full_matrices=False, check_finite=False)
        return U, s, VT
    n, m = X.shape
    few = min(n, m)
    A = np.array(X, order="F")
    s, work = np.empty(few, A.dtype), np.empty(1, A.dtype)
    U, VT = np.empty((n, few), A.dtype, order="F"), np.empty((few, m), A.dtype, order="F")
    whole = np.empty(8 * few, np.int32)

    def go(work: Array, size: int) -> int:
        return _call(call, b"S", n, m, A, n, s, U, n, VT, few, work, size, whole)

    _done(go(work, -1), "gesdd")
    size = _size(work)
    _done(go(np.empty(size, A.dtype), size), "gesdd")
    return U, s, VT


def factorises(B: Array) -> bool:
    """Whether Cholesky's method succeeds on a symmetric B, of float64 and written over.

    It may run to its end on what is not finite, which the diagonal of the factor shows.
    """
    call = _ours(B, "potrf")
    if call is None or not B.flags.c_contiguous:
        factor, info = scipy.linalg.lapack.dpotrf(B.T, clean=False, overwrite_a=True)
        return bool(info == 0 and np.isfinite(factor.diagonal()).all())
    done = _call(call, b"U", B.shape[0], B, B.shape[0]) == 0
    return bool(done and np.isfinite(B.diagonal()).all())


def _ours(X: Array, name: str) -> Any:
    """The routine for an array that is worth it."""
    letter = LETTER.get(X.dtype)
    if letter is None or X.ndim != 2 or min(X.shape) <= SMALL:
        return None
    return routine(f"{letter}{name}")


def _by_evr(call: Any, V: Array, vectors: bool, subset: tuple[int, int] | None) -> Any:
    n, A = V.shape[0], np.array(V, order="F")
    first, last = (0, n - 1) if subset is None else (int(subset[0]), int(subset[1]))
    if not 0 <= first <= last < n:
        raise ValueError(f"subset is {subset}: it must lie between 0 and {n - 1}")
    count = last - first + 1
    values, found = np.empty(n, A.dtype), np.zeros(1, np.int32)
    Z = np.empty((n, count) if vectors else (1, 1), A.dtype, order="F")
    support = np.empty(2 * n, np.int32)
    job, which = b"V" if vectors else b"N", b"A" if subset is None else b"I"
    low, high, none = (np.full(1, x, A.dtype) for x in (0.0, 1.0, 0.0))

    def go(job: bytes, which: bytes, work: Array, size: int, whole: Array, sizes: int) -> int:
        return _call(
            *(call, job, which, b"L", n, A, n, low, high, first + 1, last + 1, none, found),
            *(values, Z, Z.shape[0], support, work, size, whole, sizes),
        )

    work, whole = np.empty(1, A.dtype), np.empty(1, np.int32)
    _done(go(b"N", b"A", work, -1, whole, -1), "syevr")
    size, sizes = _size(work), int(whole[0])
    info = go(job, which, np.empty(size, A.dtype), size, np.empty(sizes, np.int32), sizes)
    _done(info, "syevr")
    return values[: int(found[0])] if subset else values, Z[:, : int(found[0])]


def _by_evd(call: Any, V: Array) -> tuple[Array, Array]:
    n, A = V.shape[0], np.array(V, order="F")
    values = np.empty(n, A.dtype)

    def go(work: Array, size: int, whole: Array, sizes: int) -> int:
        return _call(call, b"V", b"L", n, A, n, values, work, size, whole, sizes)

    work, whole = np.empty(1, A.dtype), np.empty(1, np.int32)
    _done(go(work, -1, whole, -1), "syevd")
    size, sizes = _size(work), int(whole[0])
    _done(go(np.empty(size, A.dtype), size, np.empty(sizes, np.int32), sizes), "syevd")
    return values, A


def _call(function: Any, *arguments: Any) -> int:
    """Call a routine; every argument is passed by its address, and the last is INFO."""
    info = ctypes.c_int(0)
    kept: list[Any] = []
    for x in (*arguments, info):
        if isinstance(x, np.ndarray):
            kept.append(x.ctypes.data_as(ctypes.c_void_p))
        elif isinstance(x, bytes):
            kept.append(ctypes.cast(ctypes.c_char_p(x), ctypes.c_void_p))
        else:
            whole = x if isinstance(x, ctypes.c_int) else ctypes.c_int(x)
            kept.append(ctypes.cast(ctypes.pointer(whole), ctypes.c_void_p))
    function(*kept)
    return info.value


def _size(work: Array) -> int:
    """The work space that a routine asks for, as SciPy reads it."""
    size = float(work[0])
    if work.dtype == np.float32:
        size = float(np.nextafter(np.float32(size), np.float32(np.inf)))
    return int(size)


def _done(info: int, name: str) -> None:
    if info:
        raise np.linalg.LinAlgError(f"{name} failed with {info}")
