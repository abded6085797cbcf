"""Points and directions of a cone program: repaired, and checked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import cvxpy.settings as settings
import numpy as np
from scipy import linalg, sparse

from condgrad._types import Array
from condgrad.cvxpy import _cone_exact as exact
from condgrad.cvxpy._cone_program import ConeProgram, Kernel, without_noise
from condgrad.cvxpy._cone_proof import CLEAR, SMALL

REPAIRS = 20
"""Steps of Newton's method."""
LEAST = 1e-3
"""Part of the largest entry of x that counts as the size of any row."""
FAR = 1e5
"""Entries of x, relative to the right-hand sides, from which a matrix may seem semidefinite though
no x makes it so: (x 1; 1 0) misses 1/x only."""
ACTIVE = (1e-2, 1e-3, 1e-4, 1e-6, 1e-9)
"""Parts of the largest number of a slack up to which others may be meant to be 0."""
TINY = float(np.finfo(np.float64).tiny)
TIGHT = 1e-12
"""Part of its terms that a sum which has to be 0 may be."""


def violations(program: ConeProgram, x: Array) -> Array:
    """For each number and each matrix of b − A x how far it is outside, and its size."""
    sizes = np.abs(program.b) + abs(program.A) @ np.abs(x)
    return _outside(program, program.b - program.A @ x, sizes)


def _outside(program: ConeProgram, slack: Array, terms: Array) -> Array:
    """For each number and each matrix of a slack how far it is outside, and its size."""
    found = [np.zeros((0, 2))]
    blocks = map(program.space.split, (slack, terms))
    for kind, block, size in zip(program.kinds, *blocks, strict=True):
        if kind == "numbers":
            found.append(np.column_stack([np.maximum(-block, 0.0), size]))
        elif kind == "second-order":
            low = float(block[0] - np.linalg.norm(block[1:]))
            found.append(np.array([[max(-low, 0.0), size.max()]]))
        else:
            low = float(np.linalg.eigvalsh(block)[0])
            found.append(np.array([[max(-low, 0.0), size.max()]]))
    return np.concatenate(found)


def missed(program: ConeProgram, x: Array) -> float:
    """The largest miss of a cone or an equation, in the units of CVXPY's program."""
    numbers, others = program.numbers, program.space.starts[bool(program.numbers) : -1]
    units = np.concatenate([program.row_unit[:numbers], program.row_unit[others]])
    cones = violations(program, x)[:, 0] / units
    rows = np.abs(program.G @ x - program.h) / program.equation_unit[program.equations]
    return program.x_unit * float(np.concatenate([cones, rows]).max(initial=0.0))


def meets(program: ConeProgram, x: Array, feasibility: float) -> bool:
    """Whether b − A x is in the cone up to a part of the terms that it is made of, row by row.

    The least right-hand side and a part of the largest entry of x count as such.
    """
    miss, size = violations(program, x).T
    largest = float(np.abs(x).max(initial=0.0))
    if largest > FAR and set(program.kinds) - {"numbers"}:
        return False
    least = max(program.smallest, LEAST * largest)
    return bool((miss <= feasibility * np.maximum(size, least)).all())


def widened(program: ConeProgram, x: Array) -> Array:
    """x with the entries grown that only widen cones, by what these miss.

    CVXPY makes such entries for norms, eigenvalues and the like, which they stand above.
    """
    A, inside = sparse.csc_array(program.A), program.inside
    signs = sparse.csc_array((np.sign(A.data), A.indices, A.indptr), A.shape).sum(axis=0)
    count = np.diff(A.indptr)
    own = (count > 0) & (np.abs(signs) == count) & (abs(A).T @ ~inside == 0)
    own &= np.diff(sparse.csc_array(program.G).indptr) == 0
    missed = np.zeros(program.b.size)
    starts = zip(program.kinds, program.space.blocks, program.space.starts, strict=False)
    for (kind, side, start), block in zip(starts, program.slack(x), strict=True):
        if kind == "numbers":
            missed[start : start - side] = np.maximum(-block, 0.0)
        elif kind == "second-order":
            missed[start] = max(float(np.linalg.norm(block[1:]) - block[0]), 0.0)
        else:
            missed[start : start + side * side : side + 1] = max(-np.linalg.eigvalsh(block)[0], 0.0)
    grown = np.zeros(x.size)
    for j in np.flatnonzero(own):
        at = slice(A.indptr[j], A.indptr[j + 1])
        needed = missed[A.indices[at]] / np.abs(A.data[at])
        grown[j] = -np.sign(A.data[at][0]) * 1.001 * float(needed.max())
    return np.asarray(x + grown)


def repaired(
    program: ConeProgram, kernel: Kernel, x: Array, feasibility: float | None = None
) -> Array:
    """x moved within G x = h so that what b − A x misses of the cone vanishes, if all goes well.

    Newton's method for the negative eigenvalues, until nothing is missing up to `feasibility`.
    """
    if program.b.size * kernel.N.shape[1] > SMALL or not kernel.N.shape[1]:
        return x
    slopes = (program.A @ kernel.N).toarray()
    best, least = x, np.inf
    for _ in range(REPAIRS):
        slack = program.slack(x)
        rows, missing = _on_face(program, slopes, slack, lambda v: v < 0, slack, both=True)
        miss = float(np.linalg.norm(missing))
        if miss < least:
            best, least = x, miss
        if not missing.any():
            break
        if feasibility is not None and meets(program, x, feasibility):
            return x
        x = x + kernel.N @ linalg.lstsq(rows, missing, cond=1e-10, lapack_driver="gelsy")[0]
    return best


def _on_face(
    program: ConeProgram,
    slopes: Array,
    blocks: Sequence[Array],
    kept: Callable[[Array], Array],
    slack: Sequence[Array],
    both: bool = False,
) -> tuple[Array, Array]:
    """Slopes and slack where the numbers of blocks, or their eigenvalues, are such as are kept.

    Of matrices from the left, or from `both` sides; of second-order cones the lesser eigenvalue.
    """
    rows, numbers = [np.zeros((0, slopes.shape[1]))], [np.zeros(0)]
    parts = zip(program.kinds, blocks, program.space.split(slopes), slack, strict=True)
    for kind, own, T, S in parts:
        if kind == "numbers":
            T, S = T[kept(own)], S[kept(own)]
        elif kind == "second-order":
            across = np.append(1.0, -own[1:] / max(float(np.linalg.norm(own[1:])), TINY))
            low = kept(np.array([across @ own]))
            T, S = (across @ T)[None, :][low], np.array([across @ S])[low]
        else:
            values, vectors = np.linalg.eigh(own)
            U = vectors[:, kept(values)]
            T, S = np.tensordot(U.T, T, 1), U.T @ S
            if both:
                T, S = np.tensordot(T, U, ([1], [0])).transpose(0, 2, 1), S @ U
        rows.append(T.reshape(S.size, slopes.shape[1]))
        numbers.append(S.ravel())
    return np.vstack(rows), np.concatenate(numbers)


def complementary(program: ConeProgram, kernel: Kernel, x: Array, y: Array, cut: float) -> Array:
    """x moved within G x = h so that (b − A x) y = 0, as at a solution, if all goes well.

    Numbers and eigenvalues of y up to a part `cut` of the largest count as 0.
    """
    if program.b.size * kernel.N.shape[1] > SMALL or not kernel.N.shape[1]:
        return x
    slopes = (program.A @ kernel.N).toarray()
    least, blocks = cut * float(np.abs(y).max(initial=0.0)), program.space.split(y)
    system = _on_face(program, slopes, blocks, lambda v: v > least, program.slack(x))
    found = np.linalg.lstsq(*system, rcond=1e-10)[0]
    return repaired(program, kernel, x + kernel.N @ found)


def descends(program: ConeProgram, kernel: Kernel, w: Array) -> str | None:
    """Whether near N w there is d with G d = 0, −A d ∈ K and c'd < 0.

    Numbers of −A d near 0, and its eigenvalues near 0 with all their vectors, are made 0 by least
    squares; then everything has to hold up to rounding, and c'd has to be clear of it. The word is
    ``unbounded_inaccurate`` where it does not hold exactly too.
    """
    if program.b.size * kernel.N.shape[1] > SMALL or not w.any():
        return None
    slopes = (program.A @ kernel.N).toarray()
    w, found = w / np.abs(w).max(), None
    for part in ACTIVE:
        own = w
        for _ in range(3):
            slack = program.space.split(-slopes @ own)
            near = part * max((float(np.abs(b).max(initial=0.0)) for b in slack), default=0.0)
            blocks = [(b + b.T) / 2 for b in slack]
            rows, _ = _on_face(program, slopes, blocks, partial(np.greater_equal, near), slack)
            own = own - np.linalg.lstsq(rows, rows @ own, rcond=1e-10)[0]
        d = without_noise(kernel.N @ own)
        if _falls(program, d):
            if exact.falls(program, d):
                return settings.UNBOUNDED
            found = settings.UNBOUNDED_INACCURATE
    return found


def _falls(program: ConeProgram, d: Array) -> bool:
    """Whether c'x falls for ever along d, up to rounding."""
    size = np.abs(d)
    steep = float(np.abs(program.c).max(initial=0.0) * size.max(initial=0.0))
    if not float(program.c @ d) < -CLEAR * steep:
        return False
    if (np.abs(program.G @ d) > TIGHT * (abs(program.G) @ size)).any():
        return False
    miss, terms = _outside(program, -(program.A @ d), abs(program.A) @ size).T
    return bool((miss <= TIGHT * terms).all())


def contradict(program: ConeProgram, nu: Array) -> str | None:
    """Whether G'ν = 0 and h'ν ≠ 0, up to rounding, say that no x solves the equations.

    The word is ``infeasible_inaccurate`` where the equations with ν ≠ 0 have an exact solution.
    """
    G, h, nu = program.G, program.h, without_noise(nu)
    zero = np.abs(G.T @ nu) <= TIGHT * (abs(G).T @ np.abs(nu))
    large = np.abs(h).max(initial=0.0) * np.abs(nu).max(initial=0.0)
    if not (zero.all() and abs(h @ nu) > CLEAR * large):
        return None
    used = np.flatnonzero(nu)
    proved = exact.inconsistent(G[used], h[used])
    return settings.INFEASIBLE if proved else settings.INFEASIBLE_INACCURATE
