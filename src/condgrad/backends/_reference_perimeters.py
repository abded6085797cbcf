"""Slow and obvious twins of the kernels of the perimeter map."""

from __future__ import annotations

import numpy as np

from condgrad._types import Array
from condgrad.backends.addresses import perimeter_address


def perimeter_gather(W: Array, ids: Array) -> Array:
    """z_l = W_pq + W_qr + W_pr for the rows in `ids`."""
    p, q, r = perimeter_address(ids)
    return W[q, r] + W[q, p] + W[r, p]


def perimeter_scatter(G: Array, ids: Array, y: Array) -> None:
    """G += Σ y_l a_l, the adjoint of `perimeter_gather`."""
    p, q, r = perimeter_address(ids)
    for i, j in ((q, r), (q, p), (r, p)):
        np.add.at(G, (i, j), y)


def perimeter_sweep(W: Array, start: int, stop: int, out: Array) -> None:
    """`perimeter_gather` of the contiguous range of ids start … stop − 1, written to `out`."""
    out[: stop - start] = perimeter_gather(W, np.arange(start, stop, like=W))


def perimeter_add(G: Array, start: int, stop: int, y: Array) -> None:
    """`perimeter_scatter` of the contiguous range of ids start … stop − 1."""
    perimeter_scatter(G, np.arange(start, stop), y)
