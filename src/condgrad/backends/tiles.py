"""How a table of triangle rows lies on a GPU.

The pairs (p, r), p < r, fill the upper half of a matrix, which is cut into tiles of 64 × 64. A
table is [tile][apex q][4096]: what one block of threads reads of a tile and an apex lies together.
Within it thread t of 256 has rows 4(t // 16) … + 3 and columns 4(t % 16) … + 3 of the tile, and
its numbers are in four groups of four, one for each row: entry (i, k) of a tile is at
1024 (i mod 4) + 64 (i // 4) + k. Places without a row, p ≥ r, beyond n, or q one of the two, are 0.
Tables of perimeter rows lie in the same way, q being the largest: two thirds of them are 0.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from condgrad._types import Array
from condgrad.backends.addresses import perimeter_address, triangle_address
from condgrad.backends.arrays import host

SIDE = 64
"""Side of a tile."""
CHUNK = 1 << 22
"""Rows whose places are computed at a time."""
BUFFER = 1 << 30
"""Bytes for sums over the rows and columns of tiles, at most."""
HALF = np.dtype(np.uint16)
"""The type of a table in bfloat16, the upper halves of numbers of float32: NumPy has no other."""


def across(n: int) -> int:
    """Tiles side by side."""
    return -(-n // SIDE)


def count(n: int) -> int:
    """Tiles of the upper half."""
    return across(n) * (across(n) + 1) // 2


def entries(n: int, share: tuple[int, int] | None = None) -> int:
    """Numbers in a table, or in one that has only so many tiles from a first one on."""
    return (count(n) if share is None else share[1]) * n * SIDE * SIDE


def dealt(n: int, shards: int, shard: int) -> tuple[int, int]:
    """The first tile of one of several shards, and how many it has."""
    first, last = (count(n) * i // shards for i in (shard, shard + 1))
    return first, last - first


def buffers(n: int) -> int:
    """Bytes that a pass takes for its sums, W and G."""
    pairs = 8 * SIDE * SIDE * (count(n) + 4096)
    return min(BUFFER, 8 * 128 * n * count(n)) + pairs + 4 * 8 * n * n


def places(n: int, ids: Array, perimeters: bool = False) -> Array:
    """Places of the rows `ids` in a table."""
    p, q, r = perimeter_address(ids) if perimeters else triangle_address(n, ids)
    a, b = p // SIDE, r // SIDE
    tile = a * across(n) - a * (a - 1) // 2 + b - a
    i, k = p % SIDE, r % SIDE
    found: Array = (tile * n + q) * SIDE * SIDE + i % 4 * 1024 + i // 4 * SIDE + k
    return found


def listed(
    n: int,
    table: Array,
    size: int,
    perimeters: bool = False,
    share: tuple[int, int] | None = None,
) -> Array:
    """The numbers of a table in the order of the rows, in an array of NumPy.

    Rows in other tiles than those of the `share` are 0.
    """
    values, first = host(table), 0 if share is None else share[0]
    out = np.zeros(size, np.float32 if table.dtype == HALF else table.dtype)
    for start in range(0, size, CHUNK):
        stop = min(start + CHUNK, size)
        at = places(n, np.arange(start, stop), perimeters) - first * n * SIDE * SIDE
        here = (at >= 0) & (at < values.size)
        out[start:stop][here] = widened(values[at[here]])
    return out


def widened(values: Array) -> Array:
    """Numbers of a table in bfloat16 in float32; others as they are."""
    if values.dtype != HALF:
        return values
    wide: Array = (values.astype(np.uint32) << 16).view(np.float32)
    return wide


def narrowed(values: Array) -> Array:
    """The nearest numbers of bfloat16, as a table holds them."""
    bits = values.astype(np.float32).view(np.uint32)
    near: Array = ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(HALF)
    return near


def scale(table: Array, factor: float) -> None:
    """Multiply a table in bfloat16 by a number, in place."""
    for start in range(0, table.size, CHUNK):
        at = slice(start, start + CHUNK)
        table[at] = narrowed(widened(table[at]) * np.float32(factor))


def filled(n: int, start: int, y: Array, dtype: Any = None, perimeters: bool = False) -> Array:
    """A table with given numbers in the rows from `start` on, where these lie."""
    table = np.zeros(entries(n), dtype or y.dtype, like=y)
    table[places(n, np.arange(start, start + y.size, like=y), perimeters)] = y
    return table
