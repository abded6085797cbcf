"""Points in a plane."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg

from condgrad._check import numbers
from condgrad._types import Array
from condgrad.errors import ProblemError


def principal_plane(X: Any) -> Array:
    """The points in the coordinates of their two principal components, by the SVD U Σ Vᵀ of X − x̄.

    Of points on a line the second coordinate is 0. The sign is such that the entry of largest size
    in each column is positive.

    Examples
    --------
    >>> principal_plane([[0.0, 3.0], [0.0, 1.0], [0.0, -4.0]])[:, 0]
    array([-3., -1.,  4.])
    """
    X = numbers("X", X)
    if X.ndim != 2 or not X.size:
        raise ProblemError(f"X has shape {X.shape}: give points, one a row")
    U, sizes, _ = scipy.linalg.svd(X - X.mean(axis=0), full_matrices=False)
    plane = np.zeros((X.shape[0], 2))
    kept = min(2, sizes.size)
    plane[:, :kept] = (U * sizes)[:, :kept]
    largest = plane[np.argmax(np.abs(plane), axis=0), [0, 1]]
    return plane * np.where(largest < 0, -1.0, 1.0)
