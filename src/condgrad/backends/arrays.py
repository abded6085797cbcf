"""Differences between the packages that arrays come from.

NumPy's functions serve the arrays of other packages that have `__array_function__`, such as CuPy;
what makes an array is told where by ``like=``. The rest is here.
"""

from __future__ import annotations

import copy
import sys
from contextlib import nullcontext
from typing import Any, TypeVar

import numpy as np
import scipy.linalg

from condgrad._types import Array

HOST: Any = None
"""NumPy, as the place of arrays that are made ``like=`` it; of an array `help` shows the manual."""
SMALL = 150
"""Up to this side LAPACK takes a matrix apart faster than a GPU does, copies included."""

MANY = 1 << 27
"""Rows of a chunk on a GPU, where the cotangent is y itself."""
SLAB = 1 << 28
"""Bytes of the rows of a matrix that are worked on at a time, where another matrix of its size
would be too much."""

Part = TypeVar("Part")


def namespace(array: Any) -> Any:
    """The package with the functions for arrays of a type: NumPy for its own."""
    return np if array is HOST or isinstance(array, np.ndarray) else sys.modules[home(array)]


def home(array: Any) -> str:
    """The name of the package that an array comes from."""
    return type(array).__module__.partition(".")[0]


def foreign(array: Any) -> bool:
    """True for an array of CuPy."""
    return not isinstance(array, np.ndarray) and home(array) == "cupy"


def host(array: Any) -> Array:
    """Copy an array of CuPy to NumPy; return an array of NumPy as it is."""
    found: Array = array.get() if foreign(array) else array
    return found


def moved(part: Part, like: Array) -> Part:
    """A copy of a map, function or domain whose arrays lie where `like` does.

    It keeps the part that it was made of as `origin`.
    """
    new = copy.copy(part)
    for name, value in vars(part).items():
        if isinstance(value, np.ndarray):
            setattr(new, name, placed(value, like))
    for name, value in (("like", like), ("origin", part)):
        setattr(new, name, value)
    return new


def placed(array: Array, like: Array) -> Array:
    """An array of NumPy where `like` lies.

    A large one goes there in pieces: CuPy sends what it is given through a buffer of that size.
    """
    step = SLAB // array.itemsize
    if not foreign(like) or array.size <= step or not array.flags.c_contiguous:
        return np.asarray(array, like=like)
    there: Array = np.empty(array.shape, array.dtype, like=like)
    flat, given = there.reshape(-1), array.reshape(-1)
    for i in range(0, array.size, step):
        flat[i : i + step] = np.asarray(given[i : i + step], like=like)
    return there


def floats(x: Any) -> Array:
    """X in float64, where it lies."""
    return x.astype(np.float64, copy=False) if foreign(x) else np.asarray(x, np.float64)


def contiguous(array: Any) -> Array:
    """Return the array, or a copy with its rows one behind the other."""
    found: Array = namespace(array).ascontiguousarray(array)
    return found


def diagonal(X: Array) -> Array:
    """The diagonal of a square array, to be read and written."""
    if isinstance(X, np.ndarray):
        entries: Array = np.einsum("ii->i", X)
        return entries
    return X.reshape(-1)[:: X.shape[0] + 1]  # contiguous wherever it is asked for


def slabs(X: Array) -> list[slice]:
    """All rows of a matrix, some at a time."""
    n, width = X.shape
    rows = max(1, SLAB // (8 * width))
    return [slice(i, min(i + rows, n)) for i in range(0, n, rows)]


def address(array: Any) -> int:
    """Address at which an array begins."""
    return int(array.data.ptr) if foreign(array) else int(array.ctypes.data)


def beyond(Q: Array, *spans: Array) -> Array:
    """Orthonormal columns that span given ones off those of an orthonormal Q, and maybe more."""
    columns = np.hstack([Q, *spans])
    if isinstance(Q, np.ndarray):
        P: Array = scipy.linalg.qr(columns, mode="economic", check_finite=False)[0]
    else:
        P = namespace(Q).linalg.qr(columns)[0]
    return P[:, Q.shape[1] :]  # off Q even where the spans are rounding


def factor_of(X: Array) -> Array | None:
    """L with X = LLᵀ up to rounding; None where a pivot of a symmetric X is not positive."""
    cupyx = sys.modules.get("cupyx")
    try:
        with nullcontext() if cupyx is None else cupyx.errstate(linalg="raise"):
            L: Array = namespace(X).linalg.cholesky(X)
    except np.linalg.LinAlgError:
        return None
    return L


def eigenpairs(X: Array) -> tuple[Array, Array]:
    """Eigenvalues of a symmetric X in rising order, in an array of NumPy, and vectors like X."""
    if isinstance(X, np.ndarray) or X.shape[0] <= SMALL:
        values, vectors = scipy.linalg.eigh(host(X), driver="evd", check_finite=False)
        return values, np.asarray(vectors, like=X)
    values, vectors = namespace(X).linalg.eigh(X)
    return host(values), vectors
