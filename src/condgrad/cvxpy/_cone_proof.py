"""Bounds and refutations that multipliers prove of a cone program."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import cvxpy.settings as settings
import numpy as np
from scipy import linalg

from condgrad import _deadline
from condgrad._floats import EPS, powers_of_two
from condgrad._types import Array
from condgrad.cvxpy._cone_exact import exact_bound
from condgrad.cvxpy._cone_factors import Factor, factors, images
from condgrad.cvxpy._cone_program import ConeProgram, without_noise
from condgrad.cvxpy._dual_bound import repaired_bound

FLOORS = (1e-9, 1e-7, 1e-5, 1e-3)
"""Numbers to add to multipliers, relative to the largest, so that they can be corrected."""
CUTS = (1e-12, 1e-6, 1e-4, 1e-2)
"""Parts of the largest multiplier below which multipliers are set to 0 before a correction."""
TRIM = 1e-6
"""Part of the largest number of some multipliers up to which others may be meant to be 0."""
STEPS = 12
"""Corrections of one start."""
SMALL = 4_000_000
"""The most numbers that a correction may take."""
HOPELESS = 0.05
"""A correction of which no more than this part can be taken is given up."""
INDEPENDENT = 1e-6
"""Part of the largest pivot that all others are where equations are solved without pivoting."""
WIDE = np.longdouble
TRIANGLE = 4.0
"""Time of a QR decomposition, in products of matrices with as many operations."""
CLEAR = 1e-9
"""Part of its terms that a sum which must not be 0 has to be."""


class Multipliers(NamedTuple):
    """y in the dual cone, by its factors, and ν."""

    factors: list[Factor]
    nu: Array

    def flat(self, kind: Any = np.float64) -> Array:
        """y, all blocks, computed in floats of some kind."""
        return np.concatenate([np.zeros(0, kind), *(F.flat(kind) for F in self.factors)])

    def sizes(self) -> Array:
        """The sum of the magnitudes of which each number of y is the sum."""
        return np.concatenate([np.zeros(0), *(F.sizes() for F in self.factors)])


class Dual(NamedTuple):
    """Multipliers, corrected, and what they say."""

    bound: float
    """Proven; −∞ where nothing is."""
    value: float
    """−b'y − h'ν, less a margin, where cost + A'y + G'ν is rounding, else −∞."""
    point: Multipliers


def too_large(program: ConeProgram) -> bool:
    """Whether a program is left without the proofs that take dense matrices of all its rows."""
    return bool((program.b.size + program.h.size) * program.c.size > SMALL)


def dual_of(
    program: ConeProgram,
    cost: Array,
    blocks: Sequence[Array],
    enough: float = np.inf,
    deadline: float = np.inf,
    nu: Array | None = None,
) -> Dual:
    """The best that corrections of some multipliers prove of min cost'x.

    The search ends with a bound of `enough`, or when the clock `time.perf_counter` says so. Where
    no ν is given the best one for the multipliers is found.
    """
    best = repaired_dual(program, cost, blocks, enough, deadline, nu)
    if best.bound >= enough or too_large(program):
        return best
    zero = [np.zeros_like(b) for b in blocks] if not cost.any() else None
    own = None if nu is None else _trimmed([nu])[0]
    groups: list[Iterable[Multipliers]] = [
        () if zero is None else (_start(program, zero),),
        (_start(program, blocks, floor=floor, nu=nu) for floor in FLOORS),
        (_start(program, blocks, cut=cut, nu=nu) for cut in CUTS),
        (_start(program, _trimmed(b), nu=own) for b in [blocks]),
    ]
    for starts in groups:
        last = -np.inf
        for start in starts:
            found = _said(program, cost, corrected(program, cost, start))
            better = max(best, found, key=lambda d: max(d.bound, d.value))
            best = better._replace(bound=max(best.bound, found.bound))
            if best.bound >= enough or time.perf_counter() > deadline:
                return best
            if found.bound < last:  # the further ones are worse
                break
            last = found.bound
    unproved = best.bound <= 0 < best.value if not cost.any() else best.bound < best.value
    if unproved and np.isfinite(best.value):
        exact = exact_bound(program, cost, best.point)
        best = best._replace(bound=max(best.bound, exact))
    return best


def repaired_dual(
    program: ConeProgram,
    cost: Array,
    blocks: Sequence[Array],
    enough: float = np.inf,
    deadline: float = np.inf,
    nu: Array | None = None,
) -> Dual:
    """The bound that a solver's multipliers prove by `repaired_bound`, at any size.

    The signature is that of `dual_of`; `enough` plays no part.
    """
    if nu is None or not cost.any():
        return Dual(-np.inf, -np.inf, _start(program, blocks, nu=nu))
    found = repaired_bound(program, cost, list(blocks), nu, deadline)
    return Dual(found.bound, found.bound, _start(program, found.blocks, nu=found.nu))


def _trimmed(blocks: Sequence[Array]) -> list[Array]:
    """Blocks with the numbers that are small next to the largest replaced by 0.

    Of an optimum of 0, say, the multipliers are 0 themselves.
    """
    largest = max((float(np.abs(b).max(initial=0.0)) for b in blocks), default=0.0)
    return [np.where(np.abs(b) > TRIM * largest, b, 0.0) for b in blocks]


def _said(program: ConeProgram, cost: Array, point: Multipliers) -> Dual:
    """The bound of multipliers as they are."""
    r, off = residual(program, cost, point)
    terms = np.concatenate([program.b * point.flat(), program.h * point.nu])
    value = -float(terms.sum()) - CLEAR * float(np.abs(terms).sum())
    bound = proved(program, cost, point)
    return Dual(bound, value if (np.abs(r) <= off).all() else -np.inf, point)


def refuted(program: ConeProgram, blocks: Sequence[Array], deadline: float = np.inf) -> str | None:
    """Whether multipliers, corrected, say that no x is feasible: with cost 0 a bound above 0.

    The word is ``infeasible_inaccurate`` where that holds up to rounding only.
    """
    if too_large(program):
        return None
    point = _start(program, blocks)
    rest = program.A.T @ point.flat()
    if program.h.size:
        point = point._replace(nu=np.linalg.lstsq(program.G.T.toarray(), -rest)[0])
        rest = rest + program.G.T @ point.nu
    size = float(np.linalg.norm(abs(program.A).T @ point.flat()) + np.linalg.norm(point.nu))
    falls = float(program.b @ point.flat() + program.h @ point.nu) < 0
    if not falls or float(np.linalg.norm(rest)) > 0.1 * size:
        return None  # too far for a correction
    tiny = float(np.finfo(np.float64).tiny)
    dual = dual_of(program, np.zeros_like(program.c), blocks, tiny, deadline)
    if dual.bound > 0:
        return settings.INFEASIBLE
    return settings.INFEASIBLE_INACCURATE if dual.value > 0 else None


def _start(
    program: ConeProgram,
    blocks: Sequence[Array],
    floor: float = 0.0,
    cut: float = 0.0,
    nu: Array | None = None,
) -> Multipliers:
    """Factors of blocks near the dual cone, as `factors` makes them; ν = 0 where none is given."""
    nu = np.zeros(program.h.size) if nu is None else nu
    return Multipliers(factors(program, list(blocks), floor, cut), nu)


def residual(program: ConeProgram, cost: Array, point: Multipliers) -> tuple[Array, Array]:
    """cost + A'y + G'ν, and what it is off by rounding at most."""
    A, G = program.A, program.G
    r = cost + A.T @ point.flat() + G.T @ point.nu
    size = np.abs(cost) + abs(A).T @ point.sizes() + abs(G).T @ np.abs(point.nu)
    return r, _rounding(program) * size


def _sharp(program: ConeProgram, cost: Array, point: Multipliers) -> Array:
    """Upper bound on |cost + A'y + G'ν|, computed in the longest floats there are."""
    A, G = (M.astype(WIDE).T for M in (program.A, program.G))
    nu = point.nu.astype(WIDE)
    r = np.asarray(np.abs(cost + A @ point.flat(WIDE) + G @ nu), np.float64)
    size = np.abs(cost) + abs(program.A).T @ point.sizes() + abs(program.G).T @ np.abs(point.nu)
    return np.asarray((1 + 4 * EPS) * (r + _rounding(program, float(np.finfo(WIDE).eps)) * size))


def _rounding(program: ConeProgram, eps: float = EPS) -> float:
    """Relative error of a sum of products over all rows, y = L Lᵀ computed before."""
    return 2 * (8 + program.b.size + program.h.size) * eps


def corrected(program: ConeProgram, cost: Array, point: Multipliers) -> Multipliers:
    r"""Multipliers with cost + A'y + G'ν = 0 up to rounding, still in the cone, if all goes well.

    y = L Lᵀ becomes L(I + Δ)Lᵀ with the least ‖Δ‖, of which as much is taken as keeps I + Δ ≻ 0.
    """
    m = program.h.size
    if m and not point.nu.any():
        rest = cost + program.A.T @ point.flat()
        point = point._replace(nu=np.linalg.lstsq(program.G.T.toarray(), -rest)[0])
    for _ in range(STEPS):
        point = point._replace(nu=without_noise(point.nu, point.flat()))
        r, off = residual(program, cost, point)
        if (np.abs(r) <= off).all() or not _in_time(program, point):
            break
        B, _ = images(program, point.factors)
        unit = 1 / powers_of_two(np.abs(B).max(axis=1, initial=0.0))
        found = _shortest(unit[:, None] * B, -unit * r)
        far = float(np.linalg.norm(found[m:]))
        share = min(1.0, 0.9 / far) if far else 1.0
        if share < HOPELESS:
            break
        point = _moved(point, share * found)
    return point


def _in_time(program: ConeProgram, point: Multipliers) -> bool:
    """Whether there is time for a QR decomposition of `images`, which cannot be stopped."""
    rows = program.c.size
    columns = program.h.size + sum(F.count for F in point.factors)
    side = float(rows * rows * max(rows, columns)) ** (1 / 3)
    return _deadline.fits(_deadline.cost(side, TRIANGLE))


def _shortest(B: Array, right: Array) -> Array:
    """The shortest solution of B Δ = right, equations that follow from others left out."""
    rows, columns = B.shape
    if 0 < rows <= columns:
        R = linalg.qr(B.T, mode="r")[0][:rows]
        pivots = np.abs(np.diag(R))
        if pivots.min() > INDEPENDENT * pivots.max():  # B Bᵀ = Rᵀ R can be solved with
            own = linalg.solve_triangular(R, right, trans="T")
            return np.asarray(B.T @ linalg.solve_triangular(R, own))
    Q, R, order = linalg.qr(B.T, mode="economic", pivoting=True)
    pivots = np.abs(np.diag(R))
    rank = int(np.sum(pivots > 1e-13 * pivots.max(initial=0.0)))
    own = linalg.solve_triangular(R[:rank, :rank], right[order[:rank]], trans="T")
    return np.asarray(Q[:, :rank] @ own)


def _moved(point: Multipliers, found: Array) -> Multipliers:
    """y + M(Δ) for every block, and ν + δ."""
    start, own = point.nu.size, []
    for F in point.factors:
        own.append(F.moved(found[start : start + F.count]))
        start += F.count
    return Multipliers(own, point.nu + found[: point.nu.size])


def proved(program: ConeProgram, cost: Array, point: Multipliers) -> float:
    r"""A number that cost'x is not below for any x with G x = h, b − A x ∈ K; −∞ where none is.

    With r = cost + A'y + G'ν = 0 and y in the dual cone it is −b'y − h'ν. Here r is only small. But
    (δ, Δ) ↦ G'δ + A*(L Δ Lᵀ) takes the value −r at some (δ, Δ) of length ‖r‖/σ at most, where σ > 0
    is its least singular value. If that is below 1, then L(I + Δ)Lᵀ and ν + δ are multipliers with
    r = 0, and their bound differs by ‖r‖/σ times (‖h‖ + ‖LᵀbL‖) at most. Where an entry of r is 0
    for want of terms, only columns that leave it so are used; an entry of x whose column is a copy
    of another's has the same r. To r is added what rounding may hide of it, from σ is taken what
    rounding may have added.
    """
    worst = _sharp(program, cost, point)
    b, h, sizes = program.b, program.h, point.sizes()
    value = -float(b @ point.flat()) - float(h @ point.nu)
    value -= _rounding(program) * float(np.abs(b) @ sizes + np.abs(h) @ np.abs(point.nu))
    open_ = worst > 0
    if not open_.any():
        return value
    if not _in_time(program, point):
        return -np.inf
    B, size = images(program, point.factors)
    B = B[np.ix_(open_ & program.distinct, ~B[~open_].any(axis=0))]
    if B.shape[1] < B.shape[0]:
        return -np.inf
    unit = 1 / powers_of_two(np.abs(B).max(axis=1, initial=0.0))
    worst = worst[open_ & program.distinct]
    size = unit * size[open_ & program.distinct]
    B = unit[:, None] * B
    R = linalg.qr(B.T, mode="r")[0][: len(B)]
    lowest = float(np.linalg.svd(R, compute_uv=False)[-1])
    lowest -= 16 * max(B.shape) * EPS * float(np.linalg.norm(size) + np.linalg.norm(B))
    step = 1.0001 * float(np.linalg.norm(unit * worst))
    if not lowest > 2 * step:
        return -np.inf
    reach = float(np.linalg.norm(h))
    for F, block in zip(point.factors, program.space.split(b), strict=True):
        image, terms = F.reach(block)
        reach += image + _rounding(program) * terms
    return value - 1.0001 * reach * step / lowest
