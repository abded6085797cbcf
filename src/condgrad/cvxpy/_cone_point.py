"""Points and directions of a cone program: repaired, and checked."""

from __future__ import annotations

from itertools import pairwise

import cvxpy.settings as settings
import numpy as np

from condgrad._types import Array
from condgrad.cvxpy import _cone_exact as exact
from condgrad.cvxpy._cone_program import ConeProgram, Kernel, without_noise
from condgrad.cvxpy._cone_proof import CLEAR, SMALL

REPAIRS = 20
"""Steps of Newton's method."""
LEAST = 1e-9
"""Part of the largest entry of x, or of the least right-hand side, that counts as the size of any
row."""
FAR = 1e5
"""Entries of x, relative to the right-hand sides, from which a matrix may seem semidefinite though
no x makes it so: (x 1; 1 0) misses 1/x only."""
ACTIVE = (1e-2, 1e-3, 1e-4, 1e-6, 1e-9)
"""Parts of the largest number of a slack up to which others may be meant to be 0."""
TIGHT = 1e-12
"""Part of its terms that a sum which has to be 0 may be."""


def violations(program: ConeProgram, x: Array) -> Array:
    """For each number and each matrix of b − A x how far it is outside, and its size."""
    sizes = program.space.split(np.abs(program.b) + abs(program.A) @ np.abs(x))
    found = [np.zeros((0, 2))]
    for block, size in zip(program.slack(x), sizes, strict=True):
        if block.ndim == 1:
            found.append(np.column_stack([np.maximum(-block, 0.0), size]))
        else:
            low = float(np.linalg.eigvalsh(block)[0])
            found.append(np.array([[max(-low, 0.0), size.max()]]))
    return np.concatenate(found)


def meets(program: ConeProgram, x: Array, feasibility: float) -> bool:
    """Whether b − A x is in the cone up to a part of the terms that it is made of, row by row."""
    miss, size = violations(program, x).T
    largest = float(np.abs(x).max(initial=0.0))
    if largest > FAR and any(side > 0 for side in program.space.blocks):
        return False
    least = LEAST * max(program.smallest, largest)
    return bool((miss <= feasibility * np.maximum(size, least)).all())


def repaired(program: ConeProgram, kernel: Kernel, x: Array) -> Array:
    """x moved within G x = h so that what b − A x misses of the cone vanishes, if all goes well.

    Newton's method for the negative eigenvalues.
    """
    if program.b.size * kernel.N.shape[1] > SMALL or not kernel.N.shape[1]:
        return x
    slopes = (program.A @ kernel.N).toarray()
    best, least = x, np.inf
    for _ in range(REPAIRS):
        rows, missing = _negative(program, slopes, x)
        miss = float(np.linalg.norm(missing))
        if miss < least:
            best, least = x, miss
        if not missing.any():
            break
        x = x + kernel.N @ np.linalg.lstsq(rows, missing, rcond=1e-10)[0]
    return best


def _negative(program: ConeProgram, slopes: Array, x: Array) -> tuple[Array, Array]:
    """Negative numbers of b − A x, matrices in their negative eigenspace, and their slopes."""
    rows, numbers = [np.zeros((0, slopes.shape[1]))], [np.zeros(0)]
    for block, (first, last) in zip(program.slack(x), pairwise(program.space.starts), strict=True):
        A = slopes[first:last]
        if block.ndim == 1:
            rows.append(A[block < 0])
            numbers.append(block[block < 0])
            continue
        values, vectors = np.linalg.eigh(block)
        U = vectors[:, values < 0]
        n, q = U.shape
        T = np.tensordot(np.tensordot(U.T, A.reshape(n, n, A.shape[1]), 1), U, ([1], [0]))
        rows.append(T.transpose(0, 2, 1).reshape(q * q, A.shape[1]))
        numbers.append((U.T @ block @ U).ravel())
    return np.vstack(rows), np.concatenate(numbers)


def complementary(program: ConeProgram, kernel: Kernel, x: Array, y: Array, cut: float) -> Array:
    """x moved within G x = h so that (b − A x) y = 0, as at a solution, if all goes well.

    Numbers and eigenvalues of y up to a part `cut` of the largest count as 0.
    """
    if program.b.size * kernel.N.shape[1] > SMALL or not kernel.N.shape[1]:
        return x
    slopes = (program.A @ kernel.N).toarray()
    rows, numbers = [np.zeros((0, slopes.shape[1]))], [np.zeros(0)]
    largest = float(np.abs(y).max(initial=0.0))
    blocks = zip(program.space.split(y), program.slack(x), strict=True)
    for (own, slack), (first, last) in zip(blocks, pairwise(program.space.starts), strict=True):
        A = slopes[first:last]
        if own.ndim == 1:
            rows.append(A[own > cut * largest])
            numbers.append(slack[own > cut * largest])
            continue
        values, vectors = np.linalg.eigh(own)
        U = vectors[:, values > cut * largest]
        T = np.tensordot(U.T, A.reshape(len(U), len(U), A.shape[1]), 1)
        rows.append(T.reshape(U.size, A.shape[1]))
        numbers.append((U.T @ slack).ravel())
    found = np.linalg.lstsq(np.vstack(rows), np.concatenate(numbers), rcond=1e-10)[0]
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
            rows = _vanishing(program, slopes, own, part)
            own = own - np.linalg.lstsq(rows, rows @ own, rcond=1e-10)[0]
        d = without_noise(kernel.N @ own)
        if _falls(program, d):
            if exact.falls(program, d):
                return settings.UNBOUNDED
            found = settings.UNBOUNDED_INACCURATE
    return found


def _vanishing(program: ConeProgram, slopes: Array, w: Array, part: float) -> Array:
    """Rows that are 0 at every direction whose slack lies in the face nearest to that of w."""
    blocks = program.space.split(-slopes @ w)
    near = part * max((float(np.abs(b).max(initial=0.0)) for b in blocks), default=0.0)
    rows = [np.zeros((0, slopes.shape[1]))]
    for block, (first, last) in zip(blocks, pairwise(program.space.starts), strict=True):
        A = slopes[first:last]
        if block.ndim == 1:
            rows.append(A[block <= near])
            continue
        values, vectors = np.linalg.eigh((block + block.T) / 2)
        U = vectors[:, values <= near]
        T = np.tensordot(U.T, A.reshape(len(U), len(U), A.shape[1]), 1)
        rows.append(T.reshape(U.shape[1] * len(U), A.shape[1]))
    return np.vstack(rows)


def _falls(program: ConeProgram, d: Array) -> bool:
    """Whether c'x falls for ever along d, up to rounding."""
    size = np.abs(d)
    steep = float(np.abs(program.c).max(initial=0.0) * size.max(initial=0.0))
    if not float(program.c @ d) < -CLEAR * steep:
        return False
    if (np.abs(program.G @ d) > TIGHT * (abs(program.G) @ size)).any():
        return False
    sizes = program.space.split(abs(program.A) @ size)
    for block, terms in zip(program.space.split(-(program.A @ d)), sizes, strict=True):
        if block.ndim == 1:
            if (block < -TIGHT * terms).any():
                return False
        elif float(np.linalg.eigvalsh(block)[0]) < -TIGHT * float(terms.max()):
            return False
    return True


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
