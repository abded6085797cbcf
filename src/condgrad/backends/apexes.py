"""Which apexes a pass over triangle rows on a GPU takes, and how they are dealt to blocks."""

from __future__ import annotations

import zlib
from functools import cache

import numpy as np

from condgrad._types import Array
from condgrad.backends import tiles

ASIDE = 4
"""Apexes that a block could work on in the time that it takes to begin and to end."""
LONGEST = 512
"""The most apexes of a block."""


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
    if table != tiles.HALF:
        return np.uint32(0)
    return np.uint32(zlib.crc32(np.asarray(ends).tobytes(), zlib.crc32(np.float64(beta).tobytes())))
