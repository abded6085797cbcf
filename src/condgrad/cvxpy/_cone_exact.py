"""Multipliers of a cone program corrected in rational arithmetic."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse

from condgrad._types import Array

if TYPE_CHECKING:
    from condgrad.cvxpy._cone_program import ConeProgram
    from condgrad.cvxpy._cone_proof import Multipliers

WORK = 100_000
"""The most operations on fractions."""
ZERO = Fraction(0)


def exact_bound(program: ConeProgram, cost: Array, point: Multipliers) -> float:
    """A number that cost'x is not below for any feasible x, −∞ where this proves none.

    Floating-point numbers are fractions, so cost + A'y + G'ν = 0 can be solved exactly near
    multipliers that miss it by rounding: for ν and the positive entries of y, matrices as they are.
    Equations that follow from others are no obstacle here.
    """
    y, start = point.flat(), program.space.starts
    numbers = start[1] if program.space.blocks and program.space.blocks[0] < 0 else 0
    at = np.flatnonzero(y[:numbers] > 0)
    M = sparse.vstack([program.G, program.A[at]]).T.toarray()
    side = max((abs(b) for b in program.space.blocks), default=0)
    if M.size * min(M.shape, default=0) > WORK or program.A.nnz * side > WORK:
        return -np.inf
    flat = _flat(point)
    r = [Fraction(float(c)) for c in cost]
    for matrix, values in ((program.A, flat), (program.G, [Fraction(float(v)) for v in point.nu])):
        entries = sparse.coo_array(matrix)
        for i, j, a in zip(*entries.coords, entries.data, strict=True):
            r[j] += Fraction(float(a)) * values[i]
    change = _solved(M, [-v for v in r])
    if change is None:
        return -np.inf
    m = program.h.size
    total = ZERO
    for i, nu in enumerate(point.nu):
        total -= Fraction(float(program.h[i])) * (Fraction(float(nu)) + change[i])
    for i, shift in zip(at, change[m:], strict=True):
        flat[i] += shift
        if flat[i] < 0:
            return -np.inf
    total -= sum((Fraction(float(b)) * v for b, v in zip(program.b, flat, strict=True)), ZERO)
    bound = float(total)
    return bound if Fraction(bound) <= total else float(np.nextafter(bound, -np.inf))


def _flat(point: Multipliers) -> list[Fraction]:
    """y, all blocks, of matrices L Lᵀ."""
    flat: list[Fraction] = []
    for F in point.factors:
        if F.ndim == 1:
            flat += [Fraction(float(v)) for v in F]
            continue
        L = [[Fraction(float(v)) for v in row] for row in F]
        flat += [sum((a * b for a, b in zip(p, q, strict=True)), ZERO) for p in L for q in L]
    return flat


def _solved(M: Array, right: list[Fraction]) -> list[Fraction] | None:
    """A solution of M δ = right, by elimination; None where there is none."""
    rows = [[*(Fraction(float(v)) for v in row), b] for row, b in zip(M, right, strict=True)]
    found = [ZERO] * M.shape[1]
    pivots: list[tuple[list[Fraction], int]] = []
    for row in rows:
        for pivot, j in pivots:
            if row[j]:
                share = row[j]
                row[:] = [a - share * b if b else a for a, b in zip(row, pivot, strict=True)]
        j = max(range(M.shape[1]), key=lambda k: abs(row[k]), default=-1)
        if j < 0 or not row[j]:
            if row[-1]:
                return None
            continue
        unit = row[j]
        row[:] = [a / unit if a else a for a in row]
        pivots.append((row, j))
    for row, j in reversed(pivots):
        rest = sum((a * v for a, v in zip(row[:-1], found, strict=True) if a and v), ZERO)
        found[j] = row[-1] - rest
    return found
