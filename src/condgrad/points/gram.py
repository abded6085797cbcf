"""Positive semidefinite points that are kept as a factor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from condgrad._types import Array


@dataclass(repr=False, eq=False)
class Gram:
    """V Vᵀ, of which only V is kept; ``np.asarray`` makes the whole matrix.

    Parameters
    ----------
    factor : array
        V, n × k.

    Examples
    --------
    >>> import numpy as np
    >>> point = Gram(np.array([[1.0], [-1.0]]))
    >>> point.shape, np.asarray(point).tolist()
    ((2, 2), [[1.0, -1.0], [-1.0, 1.0]])
    """

    factor: Array

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of V Vᵀ."""
        return self.factor.shape[0], self.factor.shape[0]

    @property
    def dtype(self) -> Any:
        """Type of the entries of V."""
        return self.factor.dtype

    def dense(self) -> Array:
        """V Vᵀ as an array, n × n."""
        product: Array = self.factor @ self.factor.T
        return product

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return self.dense() if dtype is None else self.dense().astype(dtype, copy=False)

    def __repr__(self) -> str:
        n, k = self.factor.shape
        return f"<Gram point of {n} × {n}, of {k} columns>"
