"""Multipliers of a cone program corrected in rational arithmetic."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from condgrad._types import Array
from condgrad.sdp.exact import is_semidefinite, rounded_down

if TYPE_CHECKING:
    from condgrad.cvxpy._cone_program import ConeProgram
    from condgrad.cvxpy._cone_proof import Multipliers

WORK = 100_000
"""The most operations on fractions."""
ZERO = Fraction(0)


def exact_bound(program: ConeProgram, cost: Array, point: Multipliers) -> float:
    """A number that cost'x is not below for any feasible x, −∞ where this proves none.

    Floating-point numbers are fractions, so cost + A'y + G'ν = 0 can be solved exactly near
    multipliers that miss it by rounding: for ν, the positive numbers of y and second-order cones,
    matrices as they are. Equations that follow from others are no obstacle here.
    """
    y, numbers = point.flat(), program.numbers
    ends = [int(e) for e in program.space.starts[: program.second_order + bool(numbers) + 1]]
    at = np.flatnonzero(y[: ends[-1]])
    M = sparse.vstack([program.G, program.A[at]]).T.toarray()
    side = max((abs(b) for b in program.space.blocks), default=0)
    if M.size * min(M.shape, default=0) > WORK or program.A.nnz * side > WORK:
        return -np.inf
    flat, nu = _flat(point), _fractions(point.nu)
    images = _product(sparse.vstack([program.A, program.G]).T, flat + nu)
    change = _solved(M, [-c - v for c, v in zip(_fractions(cost), images, strict=True)])
    if change is None:
        return -np.inf
    nu = [v + shift for v, shift in zip(nu, change[: len(nu)], strict=True)]
    for i, shift in zip(at, change[len(nu) :], strict=True):
        flat[i] += shift
    if any(v < 0 for v in flat[:numbers]):
        return -np.inf
    for first, last in pairwise(ends[bool(numbers) :]):
        head, rest = flat[first], flat[first + 1 : last]
        if head < 0 or head * head < sum((v * v for v in rest), ZERO):
            return -np.inf
    return rounded_down(-_dot(program.h, nu) - _dot(program.b, flat))


def inconsistent(G: Any, h: Array) -> bool:
    """Whether no x solves G x = h, exactly."""
    G = G.toarray()
    if G.size * min(G.shape, default=0) > WORK:
        return False
    return _solved(G, _fractions(h)) is None


def falls(program: ConeProgram, d: Array) -> bool:
    """Whether there is an exact d near the given one with G d = 0, −A d ∈ K and c'd < 0.

    What is rounding in G d and A d is made 0; d in short fractions is tried as well.
    """
    images = program.A @ d
    terms = abs(program.A) @ np.abs(d)
    zero = np.flatnonzero(np.abs(images) <= 1e-11 * terms)
    M = sparse.vstack([program.G, program.A[zero]]).toarray()
    side = max((b for b in program.space.blocks if b > 0), default=0)
    if M.size * min(M.shape, default=0) > WORK or max(program.A.nnz, side**3) > WORK:
        return False
    unit = float(np.abs(d).max())
    short = [v.limit_denominator(1000) for v in _fractions(d / unit)]
    near = all(abs(float(a) - v / unit) < 1e-9 for a, v in zip(short, d, strict=True))
    starts = [*([short] if near else []), _fractions(d)]
    return any(_falls_from(program, M, start) for start in starts)


def _falls_from(program: ConeProgram, M: Array, d: list[Fraction]) -> bool:
    change = _solved(M, [-v for v in _product(sparse.csr_array(M), d)])
    if change is None:
        return False
    d = [a + b for a, b in zip(d, change, strict=True)]
    if not _dot(program.c, d) < 0:
        return False
    images = _product(program.A, d)
    for side, (first, last) in zip(
        program.space.blocks, pairwise(program.space.starts), strict=True
    ):
        own = [-v for v in images[first:last]]
        if side < 0:
            if any(v < 0 for v in own):
                return False
        elif not is_semidefinite([own[i * side : (i + 1) * side] for i in range(side)]):
            return False
    return True


def _product(A: Any, x: list[Fraction]) -> list[Fraction]:
    out, entries = [ZERO] * A.shape[0], sparse.coo_array(A)
    for i, j, a in zip(*entries.coords, entries.data, strict=True):
        out[i] += Fraction(float(a)) * x[j]
    return out


def _fractions(numbers: Array) -> list[Fraction]:
    return [Fraction(v) for v in numbers.tolist()]


def _dot(numbers: Array, x: list[Fraction]) -> Fraction:
    return sum((a * b for a, b in zip(_fractions(numbers), x, strict=True)), ZERO)


def _flat(point: Multipliers) -> list[Fraction]:
    """y, all blocks."""
    return [v for F in point.factors for v in F.fractions()]


def _solved(M: Array, right: list[Fraction]) -> list[Fraction] | None:
    """A solution of M δ = right, by elimination; None where there is none."""
    rows = [[*_fractions(row), b] for row, b in zip(M, right, strict=True)]
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
