"""Proofs in rational arithmetic, for small programs whose dual has no interior.

Where no multipliers make Z ≻ 0, rounding decides whether a computed Z is ⪰ 0. Numbers in float64
are rational, so for a small program Z can be summed exactly and taken apart exactly; what is left
is to guess the rational multipliers near computed ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from condgrad._types import Array
from condgrad.sdp._reduce import Reduced

NUMBERS = 5000
"""The most numbers that the rows may have."""
SIDE = 16
"""The largest connected part of Z that is taken apart exactly."""
DENOMINATORS = (1, 12, 720, 10**5)
"""Multipliers are tried with denominators up to these."""

Entries = dict[tuple[int, int], Fraction]


def proved(reduced: Reduced, y: Array, cost: bool = True) -> tuple[float, Array] | None:
    """A bound for all W from multipliers near y, rounded down, and the multipliers.

    Parameters
    ----------
    reduced : Reduced
        The program; one with losses or rows of low rank is too large for this.
    y : array
        Multipliers of the minimisation; those of a wrong sign are taken as 0.
    cost : bool, default True
        Whether ⟨C, W⟩ counts. Without it a bound above 0 proves that no W meets the rows.
    """
    sdp = reduced.sdp
    if sdp.losses or sdp.low_rank or sdp.A.nnz > NUMBERS or not np.isfinite(y).all():
        return None
    y = np.where(sdp.kinds == 0, y, sdp.kinds * np.maximum(sdp.kinds * y, 0.0))
    b = [Fraction(x) for x in sdp.b.tolist()]
    best: tuple[float, Array] | None = None
    for candidate in _candidates(y):
        value = sum((p * q for p, q in zip(b, candidate, strict=True)), Fraction(0))
        low = rounded_down(value)
        if (best is None or low > best[0]) and _semidefinite(_slack(reduced, candidate, cost)):
            best = low, np.array([float(q) for q in candidate])
    return best


def _candidates(y: Array) -> Iterator[list[Fraction]]:
    """Rational vectors near y: as it is, and rounded, in its own unit and in units of its size."""
    yield [Fraction(x) for x in y.tolist()]
    largest = float(np.abs(y).max(initial=0.0))
    if largest == 0:
        return
    for unit in {Fraction(1), Fraction(largest)}:
        for most in DENOMINATORS:
            yield [unit * (Fraction(x) / unit).limit_denominator(most) for x in y.tolist()]


def _slack(reduced: Reduced, y: list[Fraction], cost: bool) -> Entries:
    """C − A*y, the entries (i, j) with i ≤ j that are not 0; off the diagonal, both halves."""
    Z: Entries = {}
    if cost:
        used = np.flatnonzero(reduced.cost)
        _add(Z, reduced, used, reduced.cost[used], Fraction(1))
    A = reduced.sdp.A
    for l, factor in enumerate(y):
        if factor:
            part = slice(A.indptr[l], A.indptr[l + 1])
            _add(Z, reduced, A.indices[part], A.data[part], -factor)
    return {at: x for at, x in Z.items() if x}


def _add(Z: Entries, reduced: Reduced, at: Array, values: Array, factor: Fraction) -> None:
    i, j = reduced.positions
    for p, x in zip(at.tolist(), values.tolist(), strict=True):
        key = (min(int(i[p]), int(j[p])), max(int(i[p]), int(j[p])))
        share = factor * Fraction(x) * (1 if i[p] == j[p] else Fraction(1, 2))
        Z[key] = Z.get(key, Fraction(0)) + share


def _semidefinite(Z: Entries) -> bool:
    """Whether Z ⪰ 0, part by connected part; False also where a part is too large to tell."""
    if any(x < 0 for (i, j), x in Z.items() if i == j):
        return False
    if not Z:
        return True
    used = sorted({i for at in Z for i in at})
    place = {i: k for k, i in enumerate(used)}
    rows, columns = zip(*((place[i], place[j]) for i, j in Z), strict=True)
    shape = (len(used), len(used))
    graph = sp.coo_array((np.ones(len(Z)), (rows, columns)), shape=shape)
    count, label = connected_components(graph, directed=False)
    parts: list[list[int]] = [[] for _ in range(count)]
    for i, part in zip(used, label, strict=True):
        parts[part].append(i)
    return all(len(p) <= SIDE and is_semidefinite(_square(Z, p)) for p in parts)


def _square(Z: Entries, part: list[int]) -> list[list[Fraction]]:
    return [[Z.get((min(i, j), max(i, j)), Fraction(0)) for j in part] for i in part]


def is_semidefinite(rows: list[list[Fraction]]) -> bool:
    """Whether a symmetric matrix is ⪰ 0, by Schur complements."""
    while rows:
        first, rest = rows[0], rows[1:]
        if first[0] < 0 or (first[0] == 0 and any(first)):
            return False
        rows = [
            [
                a - row[0] * b / first[0] if row[0] else a
                for a, b in zip(row[1:], first[1:], strict=True)
            ]
            for row in rest
        ]
    return True


def rounded_down(value: Fraction) -> float:
    """The largest float that is not above."""
    try:
        number = float(value)
    except OverflowError:
        return -np.inf if value < 0 else float(np.finfo(np.float64).max)
    return number if Fraction(number) <= value else float(np.nextafter(number, -np.inf))
