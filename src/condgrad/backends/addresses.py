"""Addresses of rows without a list: ids taken apart."""

from __future__ import annotations

import numpy as np

from condgrad._types import Array


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
