"""The plain twins of `_cupy_graphs`, kernels that only a GPU has."""

from __future__ import annotations

import numpy as np

from condgrad._types import Array


def places(order: Array) -> Array:
    """For each order of the vertices, a row, the place of every vertex."""
    place = np.empty(order.shape, np.int32)
    np.put_along_axis(place, order, np.arange(order.shape[1], dtype=np.int32)[None], axis=1)
    return place


def earlier(place: Array, starts: Array, ends: Array, weight: Array) -> Array:
    """For each order of the vertices, a row of places, the weight between each and those before."""
    n = starts.size - 1
    vertex = np.repeat(np.arange(n), np.diff(starts))
    found = [np.bincount(vertex, weight * (p[ends] < p[vertex]), n) for p in place]
    return np.array(found)


def prefixes(order: Array, earlier: Array, degree: Array, mu: Array, total: float) -> Array:
    """For each order the lowest value of a prefix S as a cut, and below these S's last place."""
    gains = np.take_along_axis(degree - 2 * earlier, order, axis=1)
    size = np.cumsum(mu[order], axis=1)[:, :-1]
    values = np.cumsum(gains, axis=1)[:, :-1] * (total * total / 2) / (size * (total - size))
    at = np.argmin(values, axis=1)
    return np.stack([np.take_along_axis(values, at[:, None], axis=1)[:, 0], at.astype(np.float64)])
