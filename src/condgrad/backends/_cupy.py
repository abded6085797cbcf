"""Kernels for arrays of CuPy: what a run over a spectrahedron needs of `contract.CONTRACT`.

Most are the twins of the compiled ones: NumPy's functions serve CuPy's arrays. Passes over triangle
rows are CUDA. None of them adds atomically, so that the same numbers give the same bits.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from condgrad._types import Array
from condgrad.backends import _cupy_triangles as own
from condgrad.backends import tiles
from condgrad.backends._cupy_entries import (  # noqa: F401
    axpy,
    axpy_at,
    descended,
    dots,
    interval_ascend,
    symmetric_part,
    symmetrise,
)
from condgrad.backends._cupy_segments import (  # noqa: F401
    earlier,
    places,
    prefixes,
    product_sums,
    segment_sums,
)
from condgrad.backends._cupy_triangles import triangle_price, triangle_square  # noqa: F401
from condgrad.backends._reference import (  # noqa: F401
    gram_product,
    interval_dual,
    interval_slope,
    perimeter_gather,
    perimeter_sweep,
    rank_one_step,
    row_gather,
    signed_sums,
    take,
    triangle_gather,
    triangle_sweep,
    tridiagonal_lowest,
)
from condgrad.backends.arrays import host, namespace
from condgrad.backends.contract import Drivers


def compile_seconds() -> float:
    """Seconds spent compiling kernels in this process so far."""
    return own.spent


def add_at(x: Array, index: Array, y: Array) -> None:
    """x[index] += y, an index being there once."""
    x[index] += y


def dot_at(x: Array, index: Array, y: Array) -> float:
    """⟨x[index], y⟩."""
    return dots((x[index].astype(y.dtype, copy=False), y))[0]


def masked_squares(z: Array, slopes: Array) -> float:
    """Σ z² over the rows with a slope other than 0."""
    return float(np.square(np.where(slopes != 0, z, 0), dtype=np.float64).sum())


def lanczos(
    V: Array,
    gram: bool,
    start: Array,
    Q: Array,
    fixed: int,
    eps: float,
    enough: float,
    seen: float = 0.0,
    beyond: float = 0.0,
) -> tuple[Array, float, float, float, int]:
    """`_reference.lanczos` without a look at the numbers before all steps are made.

    So it takes as many steps as Q has room for, whatever `enough` and `seen` are, but for a
    breakdown, behind which steps do not count.
    """
    n, steps, xp = start.size, min(Q.shape[0], start.size) - fixed, namespace(V)
    H, twice = xp.zeros((2, steps)), enough <= 0

    def project(r: Array, basis: Array) -> Array:
        return r - (basis @ r) @ basis if basis.shape[0] else r

    r = project(project(start.astype(V.dtype), Q[:fixed]), Q[:fixed])
    r = r / xp.sqrt(r @ r)
    for j in range(steps):
        basis = Q[: fixed + j + 1]
        basis[-1] = r
        r = -gram_product(V, r) if gram else V @ r
        h = basis @ r
        H[0, j] = h[-1]
        r = r - h @ basis
        r = project(r, basis) if twice else r
        length = xp.sqrt(r @ r)
        H[1, j] = length
        r = r / length
    diagonal, beside = host(H)
    scale = np.maximum.accumulate(np.abs(diagonal) + beside + np.append(0, beside[:-1]))
    broken = np.flatnonzero(~(beside > 10 * eps * np.sqrt(n) * scale))
    done = int(broken[0]) + 1 if broken.size else steps
    value, s = tridiagonal_lowest(diagonal[:done], beside[: done - 1], 1e-15)
    x = np.asarray(s.astype(V.dtype), like=V) @ Q[fixed : fixed + done]
    x = x / np.sqrt(x @ x)
    if enough > 0:
        residual = float(beside[done - 1] * abs(s[-1]))
        return x, float(value), residual, float(scale[done - 1]), done
    r = -gram_product(V, x) if gram else V @ x
    value = float(x @ r)
    off = project(r, Q[:fixed]) - value * x
    return x, value, float(np.sqrt(off @ off)), float(scale[done - 1]), done + 1


def triangle_add(G: Array, start: int, stop: int, y: Array) -> None:
    """G += Σ y_l a_l over a range of rows, by way of a table."""
    n = G.shape[0]
    size = n * (n - 1) * (n - 2) // 2
    table = tiles.filled(n, start, y[: stop - start], np.float64)
    own.DRIVERS["triangle_sweep"].pair(G, False, G, table, 0, size, -np.inf, np.inf)


def perimeter_add(G: Array, start: int, stop: int, y: Array) -> None:
    """G += Σ y_l a_l over a range of perimeter rows, by way of a table."""
    n = G.shape[0]
    size = n * (n - 1) * (n - 2) // 6
    table = tiles.filled(n, start, y[: stop - start], np.float64, perimeters=True)
    own.DRIVERS["perimeter_sweep"].pair(G, False, G, table, 0, size, -np.inf, np.inf)


def fused(sweep: Any, add: Any, share: tuple[int, int] | None = None) -> Drivers:
    """The passes over the rows of a family, which are triangles or perimeters.

    With `share`, the first tile and how many, tables have only these tiles.
    """
    if (sweep, add) not in (
        ("triangle_sweep", "triangle_add"),
        ("perimeter_sweep", "perimeter_add"),
    ):
        raise TypeError(f"there are no passes on a GPU over the rows of {sweep} and {add}")
    return own.DRIVERS[sweep] if share is None else own.shared(sweep, share)
