"""Addresses of triangle rows: ids taken apart without a list, and how their table lies on a GPU.

The pairs (p, r), p < r, fill the upper half of a matrix, which is cut into tiles of 64 × 64. A
table is [tile][apex q][4096]: what one block of threads reads of a tile and an apex lies together.
Within it thread t of 256 has rows 4(t // 16) … + 3 and columns 4(t % 16) … + 3 of the tile, and
its numbers are in four groups of four, one for each row: entry (i, k) of a tile is at
1024 (i mod 4) + 64 (i // 4) + k. Places without a row, p ≥ r, beyond n, or q one of the two, are 0.
Tables of perimeter rows lie in the same way, q being the largest: two thirds of them are 0.
A pass takes some apexes, which are dealt to blocks.
"""

from __future__ import annotations

import zlib
from functools import cache
from typing import Any

import numpy as np

from condgrad._types import Array
from condgrad.backends.arrays import host

SIDE = 64
"""Side of a tile."""
CHUNK = 1 << 22
"""Rows whose places are computed at a time."""
BUFFER = 1 << 30
"""Bytes for sums over the rows and columns of tiles, at most."""
HALF = np.dtype(np.uint16)
"""The type of a table in bfloat16, the upper halves of numbers of float32: NumPy has no other."""
ASIDE = 4
"""Apexes that a block could work on in the time that it takes to begin and to end."""
LONGEST = 512
"""The most apexes of a block."""


def triangle_address(n: int, ids: Array) -> tuple[Array, Array, Array]:
    """The triples (p, q, r), p < r, of given row ids.

    Rows are grouped by apex q. Within a group the pairs p < r of the other n − 1 vertices fill a
    rectangle: rectangle row ρ holds the pairs (ρ, ·) and then the pairs (mirror − ρ, ·), which
    together have the same length for every ρ. Two divisions therefore find a row, and both
    parts are contiguous in r.
    """
    others = n - 1
    width, mirror = (others - 1, others - 1) if others % 2 == 0 else (others, others - 2)
    q, rest = np.divmod(ids, others * (others - 1) // 2)
    p, c = np.divmod(rest, width)
    r = p + 1 + c
    over = r >= others
    p = np.where(over, mirror - p, p)
    r = np.where(over, p + r - (others - 1), r)
    return p + (p >= q), q, r + (r >= q)


def perimeter_address(ids: Array) -> tuple[Array, Array, Array]:
    """The triples p < r < q of given row ids, id = C(q, 3) + C(r, 2) + p."""
    ids = np.asarray(ids, np.int64, like=ids)
    q = np.cbrt(6.0 * ids).astype(np.int64) + 1  # off by one at most, either way
    q = q + (q * (q - 1) * (q + 1) // 6 <= ids) - (q * (q - 1) * (q - 2) // 6 > ids)
    rest = ids - q * (q - 1) * (q - 2) // 6
    r = np.sqrt(2.0 * rest).astype(np.int64)
    r = r + (r * (r + 1) // 2 <= rest) - (r * (r - 1) // 2 > rest)
    return rest - r * (r - 1) // 2, q, r


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


@cache
def split(blocks: int, count: int, slots: int) -> tuple[int, int]:
    """Parts that so many apexes are cut into, and how many each has, for `blocks` tiles.

    Blocks run `slots` at a time, so that few of them are left for the end.
    """
    parts = np.arange(-(-count // LONGEST), count + 1)
    per = -(-count // parts)
    rounds = -(-blocks * -(-count // per) // slots)
    best = int(np.argmin(rounds * (per + ASIDE)))
    return -(-count // int(per[best])), int(per[best])


def apexes_of(n: int, ends: Array, perimeters: bool = False) -> Array:
    """The apexes whose rows ranges hold, of perimeters those whose first row they hold."""
    if perimeters:
        apexes = np.arange(2, n, dtype=np.int64)
        first = apexes * (apexes - 1) * (apexes - 2) // 6
        begun = [apexes[(start <= first) & (first < stop)] for start, stop in ends]
        return np.concatenate(begun).astype(np.int32)
    pairs = (n - 1) * (n - 2) // 2
    if (np.asarray(ends) % pairs).any():
        raise ValueError("ranges of triangle rows on a GPU are whole apexes")
    ranges = [np.arange(start // pairs, stop // pairs, dtype=np.int32) for start, stop in ends]
    return np.concatenate(ranges)


def salt(beta: float, ends: Array, table: np.dtype) -> np.uint32:
    """A number for a pass, by which tables in bfloat16 are rounded.

    β mostly differs from that of other passes, and so do the rows that are drawn.
    """
    if table != HALF:
        return np.uint32(0)
    return np.uint32(zlib.crc32(np.asarray(ends).tobytes(), zlib.crc32(np.float64(beta).tobytes())))
