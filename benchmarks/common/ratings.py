"""Ratings for matrix completion."""

from __future__ import annotations

import numpy as np


def ratings(shape, seed: int = 0, seen: float = 0.2) -> dict:
    """A rank-5 matrix of ratings from 1 to 5 with noise, a share of it seen."""
    rng = np.random.default_rng(seed)
    left, right = (rng.normal(size=(side, 5)) for side in shape)
    values = np.clip(np.rint(3 + 0.6 * left @ right.T + 0.3 * rng.normal(size=shape)), 1, 5)
    rows, cols = np.nonzero(rng.random(shape) < seen)
    return {"rows": rows, "cols": cols, "values": values[rows, cols], "shape": tuple(shape)}
