"""Plain twins of kernels that exist for a GPU only, such as `_cupy_segments`."""

from __future__ import annotations

import numpy as np

from condgrad._types import Array


def segment_sums(
    starts: Array, first: int, count: int, lanes: int, data: Array, base: int
) -> Array:
    """Σ data[e − base] over each of the segments first … first + count − 1."""
    at, owner = _listed(starts, first, count)
    sums: Array = np.bincount(owner, weights=data[at - base], minlength=count)
    return sums


def product_sums(
    starts: Array,
    first: int,
    count: int,
    lanes: int,
    data: Array,
    indices: Array,
    x: Array,
    low: int,
    high: int,
) -> Array:
    """Σ data[e] x[indices[e] − low] over each of the segments, where low ≤ indices[e] < high."""
    at, owner = _listed(starts, first, count)
    inside = (indices[at] >= low) & (indices[at] < high)
    at, owner = at[inside], owner[inside]
    weights = data[at] * x[indices[at] - low]
    sums: Array = np.bincount(owner, weights=weights, minlength=count)
    return sums


def _listed(starts: Array, first: int, count: int) -> tuple[Array, Array]:
    """The places of all numbers of some segments, and to which of these each belongs."""
    ends = starts[first : first + count + 1]
    return np.arange(ends[0], ends[-1]), np.repeat(np.arange(count), np.diff(ends))


def dots(*pairs: tuple[Array, Array]) -> list[float]:
    """⟨x, y⟩ of each pair."""
    return [float(np.sum(np.multiply(x, y, dtype=np.float64))) for x, y in pairs]


def symmetrise(V: Array) -> None:
    """V ← V/2 + Vᵀ/2."""
    V[:] = 0.5 * V + 0.5 * V.T


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
