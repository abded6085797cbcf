"""What differs between the packages that arrays come from."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import scipy.linalg

from condgrad._types import Array


def namespace(array: Any) -> Any:
    """The package with the functions for arrays of a type: NumPy for its own."""
    return np if isinstance(array, np.ndarray) else sys.modules[home(array)]


def home(array: Any) -> str:
    """The name of the package that an array comes from."""
    return type(array).__module__.partition(".")[0]


def orthonormal(X: Array) -> Array:
    """Orthonormal columns that span those of X and more, by QR."""
    if isinstance(X, np.ndarray):
        Q: Array = scipy.linalg.qr(X, mode="economic", check_finite=False)[0]
        return Q
    return namespace(X).linalg.qr(X)[0]


def eigenpairs(X: Array) -> tuple[Array, Array]:
    """Eigenvalues of a symmetric X in rising order, and vectors."""
    if isinstance(X, np.ndarray):
        values, vectors = scipy.linalg.eigh(X, driver="evd", check_finite=False)
        return values, vectors
    return namespace(X).linalg.eigh(X)
