r"""A bound from multipliers that are nearly right, by one symmetric system.

The moves (δ, Δ) ↦ G'δ + A'M(Δ) of `_cone_factors` stay the same while Δ grows, so that what is
missing of cost + A'y + G'ν = 0 is solved for once, and the same system says how far a solution is
from an exact one. Its matrix B Bᵀ is as large as x is long, however many numbers the cones have,
and the parts of equations and numbers are sparse.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
from scipy import linalg, sparse

from condgrad import _deadline
from condgrad._floats import EPS, powers_of_two
from condgrad._types import Array
from condgrad.backends import lapack
from condgrad.cvxpy._cone_factors import Factor
from condgrad.cvxpy._cone_program import ConeProgram

LARGEST = 4000
"""The longest x."""
NUMBERS = 30_000_000
"""The most numbers of the dense parts."""
REFINED = 6
"""How often the system is solved, for what is left."""
FAR = 0.4
"""The longest Δ of a block; beyond 1/2 the cone might end."""
MOVES = 6
"""How often the moves are made."""
LONGEST = 0.9
"""Length to which Δ of a block is cut."""
HOPELESS = 0.05
"""Share of Δ; if a cut leaves no more than this share, the moves end."""
SHORTER = 0.8
"""Factor by which Δ must shrink from one move to the next, else the moves end."""
SHIFT = 4.0
"""What is taken from the diagonal of the system, in the rounding that it may have."""
PRODUCTS = 1.0
"""Time of a factorisation and the products, in products of matrices of that side."""


class System(NamedTuple):
    """D B Bᵀ D factored, for entries of x unlike the others, with a diagonal of about 1."""

    rows: Array
    """Which entries of x."""
    equations: Array
    """Which equations may move."""
    unit: Array
    """D."""
    triangle: Array
    """Cholesky's factor of D B Bᵀ D, a little less on its diagonal, upper."""
    least: float
    """Proven: no singular value of D B is smaller."""


def affordable(program: ConeProgram) -> bool:
    """Whether the system is small enough."""
    p = program.c.size
    dense = sum(abs(s) ** (2 if s > 0 else 1) for s in program.space.blocks[program.numbers > 0 :])
    side = max(float(p), float(p * p * dense) ** (1 / 3))
    fits = _deadline.fits(_deadline.cost(side, PRODUCTS))
    return bool(0 < p <= LARGEST and p * dense <= NUMBERS and fits)


class Proof(NamedTuple):
    """What multipliers prove, and what became of them."""

    bound: float
    factors: list[Factor]
    nu: Array


def straight(program: ConeProgram, cost: Array, factors: list[Factor], nu: Array) -> Proof | None:
    r"""A proven bound; None where the multipliers are too far off.

    With y = M(e + Δ) in the cone, r = cost + A'y + G'ν and σ² ≤ λ_min(D B Bᵀ D) there are δ and Δ'
    with ‖(δ, Δ')‖ ≤ ‖D r‖/σ that make r = 0. Where ‖Δ‖ + ‖Δ'‖ ≤ 1/2 in every block y + M(Δ') is in
    the cone, and the bound −b'y − h'ν differs by that length times (‖h‖ + ‖M b‖) at most. Where Δ
    is longer, a part of it is taken and the moves are made anew.
    """
    before = np.inf
    for _ in range(MOVES):
        found = _system(program, cost, factors, nu)
        if found is None:
            return None
        moves, own = _solved(program, cost, factors, nu, found)
        far = max((float(np.linalg.norm(d)) for d in moves), default=0.0)
        if far <= FAR:
            return _proved(program, cost, factors, moves, own, found)
        share = min(1.0, LONGEST / far)
        if not share > HOPELESS or far > SHORTER * before:
            return None
        before = far
        factors = [F.moved(share * d) for F, d in zip(factors, moves, strict=True)]
        nu = nu + share * (own - nu)
    return None


def _solved(
    program: ConeProgram,
    cost: Array,
    factors: list[Factor],
    nu: Array,
    found: System,
) -> tuple[list[Array], Array]:
    """The least Δ of every block, and ν, for which cost + A'y + G'ν is rounding."""
    moves = [np.zeros(F.count) for F in factors]
    for _ in range(REFINED):
        r, off = _residual(program, cost, factors, moves, nu)
        if (np.abs(r) <= off)[found.rows].all() or not np.isfinite(r).all():
            break
        z = np.zeros(program.c.size)
        own = linalg.cho_solve(
            (found.triangle, False), found.unit * r[found.rows], check_finite=False
        )
        z[found.rows] = -found.unit * own
        nu = nu + np.where(found.equations, program.G @ z, 0.0)
        images = program.A @ z
        for k, (F, (first, last)) in enumerate(_parts(program, factors)):
            moves[k] = moves[k] + F.pulled(images[first:last])
    return moves, nu


def _proved(
    program: ConeProgram,
    cost: Array,
    factors: list[Factor],
    moves: list[Array],
    nu: Array,
    found: System,
) -> Proof | None:
    """The bound of M(e + Δ) and ν."""
    r, off = _residual(program, cost, factors, moves, nu, np.longdouble)
    worst = (1 + 4 * EPS) * (np.abs(r) + off)
    closed = np.ones(worst.size, bool)
    closed[found.rows] = False
    if not np.isfinite(worst).all() or worst[closed & program.distinct].any():
        return None
    step = 1.0001 * float(np.linalg.norm(found.unit * worst[found.rows]))
    if not found.least * (0.5 - FAR) > step:
        return None
    b, h, reach = program.b, program.h, float(np.linalg.norm(program.h))
    for F, block in zip(factors, program.space.split(b), strict=True):
        image, terms = F.reach(block)
        reach += image + _rounding(program) * terms
    y, sizes = _multipliers(factors, moves)
    value = -float(h @ nu) - float(b @ y)
    terms = float(np.abs(h) @ np.abs(nu)) + float(np.abs(b) @ sizes)
    bound = value - _rounding(program) * terms - 1.0001 * reach * step / found.least
    return Proof(bound, [F.moved(d) for F, d in zip(factors, moves, strict=True)], nu)


def _parts(program: ConeProgram, factors: list[Factor]) -> list[tuple[Factor, tuple[int, int]]]:
    """Every block with where its numbers are."""
    ends = [int(e) for e in program.space.starts]
    return list(zip(factors, pairwise(ends), strict=False))


def _rounding(program: ConeProgram, eps: float = EPS) -> float:
    """Relative error of a sum of products over all rows, y computed before."""
    side = max((abs(b) for b in program.space.blocks), default=0)
    return 2 * (16 + program.b.size + program.h.size + 2 * side) * eps


def _multipliers(
    factors: list[Factor], moves: list[Array], kind: type = np.float64
) -> tuple[Array, Array]:
    """M(e + Δ), and the sums of the magnitudes of its terms."""
    y = [F.pushed(d, kind) for F, d in zip(factors, moves, strict=True)]
    sizes = [F.pushed_sizes(d) for F, d in zip(factors, moves, strict=True)]
    return np.concatenate([np.zeros(0, kind), *y]), np.concatenate([np.zeros(0), *sizes])


def _residual(
    program: ConeProgram,
    cost: Array,
    factors: list[Factor],
    moves: list[Array],
    nu: Array,
    kind: type = np.float64,
) -> tuple[Array, Array]:
    """cost + A'y + G'ν in floats of some kind, and what it is off by rounding at most."""
    y, sizes = _multipliers(factors, moves, kind)
    A, G = (M.astype(kind).T for M in (program.A, program.G))
    r = np.asarray(cost + A @ y + G @ nu.astype(kind), np.float64)
    size = np.abs(cost) + abs(program.A).T @ sizes + abs(program.G).T @ np.abs(nu)
    return r, _rounding(program, float(np.finfo(kind).eps)) * size


def _system(program: ConeProgram, cost: Array, factors: list[Factor], nu: Array) -> System | None:
    r"""B Bᵀ factored, None where a singular value may be too small.

    Where an entry of r is 0 for want of terms, whatever Δ is, equations that would change that stay
    as they are.
    As a product M = D B Bᵀ D is off by γ ‖D B‖², and where Cholesky's method runs to its end on
    M − sI in floats, λ_min(M) ≥ s − γ Tr M [1]_. So a few times these roundings are tried as s: it
    is little for the corrections, which are refined, and enough for the proof. B itself is off by
    the rounding of its entries.

    References
    ----------
    .. [1] S. M. Rump, "Verification of positive definiteness", BIT 46, 2006.
    """
    sizes = np.concatenate([np.zeros(0), *(F.pushed_sizes(np.ones(F.count)) for F in factors)])
    size = np.abs(cost) + abs(program.A).T @ sizes + abs(program.G).T @ np.abs(nu)
    rows = np.flatnonzero((size > 0) & program.distinct)
    equations = np.asarray(abs(program.G) @ (size == 0) == 0).reshape(-1)
    G = sparse.csr_array(program.G)[np.flatnonzero(equations)][:, rows]
    M, terms, columns = (G.T @ G).toarray("C"), np.zeros(rows.size), G.shape[0]
    products = int(np.diff(sparse.csc_array(G).indptr).max(initial=0))
    A = sparse.csr_array(program.A)[:, rows]
    for F, (first, last) in _parts(program, factors):
        products += 1 + F.add_gram(A[first:last], M, terms)
        columns += F.count
    diagonal = np.diag(M).copy()
    if not (diagonal > 0).all() or not np.isfinite(diagonal).all():
        return None
    unit = 1 / powers_of_two(np.sqrt(diagonal))
    M *= unit[:, None]
    M *= unit
    trace, n = float(np.trace(M)), rows.size
    rounding = EPS * (n / 2 + 4 + products / 2 + 4) * trace
    np.einsum("ii->i", M)[...] -= SHIFT * rounding
    norm = float(np.sqrt(trace))
    off = 16 * max(n, columns) * EPS * (float(np.linalg.norm(unit * terms)) + norm)
    least = float(np.sqrt((SHIFT - 1) * rounding)) * (1 - 4 * EPS) - off
    if not least > 0 or not lapack.factorises(M):
        return None
    return System(rows, equations, unit, M.T, least)
