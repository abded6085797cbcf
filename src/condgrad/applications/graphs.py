"""Graphs as matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from condgrad.errors import ProblemError
from condgrad.maps.inner import asymmetry


def laplacian(adjacency: Any) -> Any:
    """D − A of a checked adjacency matrix, sparse."""
    A = sp.csr_array(adjacency).astype(np.float64)
    if A.shape[0] != A.shape[1] or A.shape[0] < 3:
        raise ProblemError(
            f"adjacency has shape {A.shape}: it must be square, with at least 3 vertices"
        )
    if not np.isfinite(A.data).all() or (A.data < 0).any():
        raise ProblemError("adjacency has a negative or infinite weight: weights must be >= 0")
    if objection := asymmetry("adjacency", A):
        raise ProblemError(objection)
    A = sp.csr_array(A - sp.diags_array(A.diagonal()))
    return sp.csr_array(sp.diags_array(np.asarray(A.sum(axis=1)).reshape(-1)) - A)
