r"""A proven bound of a cone program from a solver's dual point, at any size.

.. math:: \min c^\top x,\; Gx = h,\; b - Ax ∈ K \qquad
          \max -b^\top y - h^\top ν,\; c + A^\top y + G^\top ν = 0,\; y ∈ K^*

Any y in K* and ν without a residual c + A'y + G'ν prove the bound −b'y − h'ν. A solver's point has
a small residual and leaves K* by a little. It is moved to the nearest point without a residual, and
from there towards the interior of K* until it is inside. Rounding leaves a residual of about 1e-16.
Some exact multipliers without any are then within a known distance Δ, and they are in K* if each
block is further than Δ from the boundary, which one Cholesky factorisation a matrix proves.
"""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import lsqr

from condgrad._floats import EPS, SAFE, TINY, length
from condgrad._types import Array
from condgrad.cvxpy._cone_program import ConeProgram
from condgrad.domains.eigen import lowest_bound

MAX_ITERATIONS = 2000
"""Limit on the iterations of one least-squares solve."""
REFINEMENTS = 3
"""Least-squares solves of one system, each for the residual of those before."""
SCALES = 10.0 ** np.arange(-4, 4)
"""Multiples of the unit element, relative to the largest multiplier."""
DEPTHS = 10.0 ** -np.arange(1, 7)
"""Margins of interior points that are looked for, relative to the largest multiplier."""
ROUNDS = 60
"""Most projections onto multipliers with one of these margins."""
ENOUGH = 0.01
"""Part of such a margin that is enough."""
MARGINS = (1e-13, 1e-11, 1e-9)
"""Distances from the boundary of K*, relative to the largest multiplier; the first proof counts."""
MAX_DENSE_SIDE = 4000
"""Side of the largest dense Gram matrix."""
ROUNDED = 1.0001
"""Factor that outweighs the rounding of a sum of up to 10¹¹ non-negative terms."""


class Repaired(NamedTuple):
    """Multipliers after the repair, and the bound that they prove."""

    bound: float
    """Proven lower bound on cost'x over all feasible x; −∞ without a proof."""
    blocks: list[Array]
    nu: Array


class Rows(NamedTuple):
    """Rows of G and A that have a multiplier, one for each two mirrored entries of a matrix."""

    matrix: Any
    right: Array
    weight: Array
    """How often each multiplier stands in its block: 2 off the diagonal of a matrix."""
    place: Array
    """Position of each multiplier in ν and y, stacked."""
    cones: list[tuple[str, Array]]
    """Kind and multipliers of each cone; those of a matrix in a square array."""

    def residual(self, cost: Array, y: Array) -> Array:
        """cost + A'y + G'ν."""
        return np.asarray(cost + self.matrix.T @ y)

    def value(self, y: Array) -> float:
        """−b'y − h'ν."""
        return -float(self.right @ y)

    def margin(self, y: Array) -> float:
        """Distance of the nearest cone's boundary, below 0 outside; −∞ of huge numbers."""
        if not np.abs(y).max(initial=0.0) < SAFE:
            return -np.inf
        least = np.inf
        for kind, own in self.cones:
            if kind == "numbers":
                margin = y[own].min(initial=np.inf)
            elif kind == "second-order":
                margin = y[own[0]] - np.linalg.norm(y[own[1:]])
            else:
                margin = np.linalg.eigvalsh(y[own])[0] if own.size else np.inf
            least = min(least, float(margin))
        return least

    def centre(self) -> Array:
        """The unit element of the cones: ones, heads and identities."""
        e = np.zeros(self.right.size)
        for kind, own in self.cones:
            e[{"numbers": own, "second-order": own[:1]}.get(kind, np.diag(own))] = 1.0
        return e

    def deepened(self, y: Array, margin: float) -> Array:
        """The nearest multipliers with some margin."""
        y = y.copy()
        for kind, own in self.cones:
            if kind == "numbers":
                y[own] = np.maximum(y[own], margin)
            elif kind == "second-order":
                head, tail = y[own[0]] - margin, float(np.linalg.norm(y[own[1:]]))
                if tail > head:
                    scale = max(0.0, (head + tail) / 2)
                    y[own[1:]] *= scale / tail if tail else 0.0
                    y[own[0]] = scale + margin
            elif own.size:
                values, vectors = np.linalg.eigh(y[own])
                y[own] = (vectors * np.maximum(values, margin)) @ vectors.T
        return y

    def solved(self, right: Array) -> Array:
        """The shortest multipliers whose image under A' and G' is the right-hand side."""
        root = np.sqrt(self.weight)
        across = (sparse.diags_array(1 / root) @ self.matrix).T.tocsr()
        y = np.zeros(root.size)
        for _ in range(REFINEMENTS):
            left = right - across @ y
            y += lsqr(across, left, atol=1e-15, btol=1e-15, conlim=0.0, iter_lim=MAX_ITERATIONS)[0]
        return y / root


def repaired_bound(
    program: ConeProgram, cost: Array, blocks: list[Array], nu: Array, deadline: float = np.inf
) -> Repaired:
    """Repair a solver's multipliers, and prove a bound with them.

    Parameters
    ----------
    program : ConeProgram
        The constraints.
    cost : array
        c, or another price of x.
    blocks, nu : list of arrays, array
        Multipliers of the cones, near K*, and of the equations.
    deadline : float
        Reading of `time.perf_counter` after which no better interior point is looked for.
    """
    rows = rows_of(program)
    flat = np.concatenate([nu, *((b + b.T).ravel() / 2 if b.ndim == 2 else b for b in blocks)])
    failed, y = Repaired(-np.inf, blocks, nu), flat[rows.place]
    if not y.size or not np.abs(y).max() < SAFE:
        return failed
    y = y - rows.solved(rows.residual(cost, y))
    outside, size = max(0.0, -rows.margin(y)), float(np.abs(y).max())
    ways = inward(rows, cost, y, deadline) if np.isfinite(outside) else []
    for margin in MARGINS if ways else ():
        need = outside + margin * size
        moved = [y + need / (way.ends * need + way.depth) * way.step for way in ways]
        best = max(moved, key=rows.value)
        bound = proved(rows, cost, best)
        if np.isfinite(bound):
            own = np.zeros(flat.size)
            own[rows.place] = best
            return Repaired(bound, unstacked(program, own[nu.size :]), own[: nu.size])
    return failed


def rows_of(program: ConeProgram) -> Rows:
    """The rows of a program, without those whose multipliers every dual point has at 0."""
    m = program.h.size
    place, weight, count = [np.arange(m)], [np.ones(m)], m
    cones: list[tuple[str, Array]] = []
    blocks = zip(program.kinds, program.space.blocks, program.space.starts, strict=False)
    for kind, side, start in blocks:
        void = program.void[start : start + (side * side if kind == "matrix" else -side)]
        if kind == "matrix":
            kept = np.flatnonzero(~void[:: side + 1])
            i, j = np.tril_indices(kept.size)
            own, often = kept[i] * side + kept[j], 1.0 + (i != j)
            square = np.zeros((kept.size, kept.size), int)
            square[i, j] = square[j, i] = count + np.arange(i.size)
            cones.append((kind, square))
        else:
            own = np.flatnonzero(~void) if kind == "numbers" or not void[0] else np.arange(0)
            often = np.ones(own.size)
            if own.size:
                cones.append((kind, count + np.arange(own.size)))
        place.append(m + start + own)
        weight.append(often)
        count += own.size
    at, often = np.concatenate(place), np.concatenate(weight)
    matrix = sparse.csr_array(sparse.vstack([program.G, program.A], format="csr")[at])
    right = often * np.concatenate([program.h, program.b])[at]
    return Rows(sparse.csr_array(sparse.diags_array(often) @ matrix), right, often, at, cones)


def unstacked(program: ConeProgram, y: Array) -> list[Array]:
    """The blocks of y, with the upper triangles of matrices filled in."""
    blocks = program.space.split(y)
    return [b if b.ndim == 1 else b + np.tril(b, -1).T for b in blocks]


class Way(NamedTuple):
    """A step into the interior of K* that leaves no residual."""

    step: Array
    depth: float
    """Margin that the whole step gains."""
    ends: bool
    """If the step leads to one interior point, not into K* from any point."""


def inward(rows: Rows, cost: Array, y: Array, deadline: float) -> list[Way]:
    """Steps from y into the interior of K*; none if no interior point is found.

    The unit element, projected onto multipliers without a residual, leads inside from any point if
    the feasible set is bounded. Else some of its multiples are added to the smallest point. If all
    of these miss, points without a residual and points with a margin are projected in turns.
    """
    e, size = rows.centre(), float(np.abs(y).max())
    e = e - rows.solved(rows.matrix.T @ e)
    smallest = -rows.solved(cost)
    inner = [smallest + scale * size * e for scale in SCALES]
    ways = [Way(e, rows.margin(e), False)]
    ways += [Way(point - y, rows.margin(point), True) for point in inner]
    ways = [way for way in ways if way.depth > 0]
    for depth in DEPTHS * size if not ways else ():
        near = y
        for _ in range(ROUNDS):
            if time.perf_counter() > deadline:
                return ways
            near = rows.deepened(near, 2 * depth)
            near = near - rows.solved(rows.residual(cost, near))
            margin = rows.margin(near)
            if margin >= ENOUGH * depth:
                return [Way(near - y, margin, True)]
    return ways


def proved(rows: Rows, cost: Array, y: Array) -> float:
    """The bound of exact multipliers near y; −∞ if they cannot be proved to be in K*.

    Float sums of k products are off by k EPS times the sum of their magnitudes at most.
    """
    wide = rows.matrix.astype(np.longdouble).T
    exact = np.asarray(np.abs(cost + wide @ y.astype(np.longdouble)), float)
    size = np.abs(cost) + abs(rows.matrix).T @ np.abs(y)
    eps = float(np.finfo(np.longdouble).eps)
    missing = ROUNDED * (exact + (4 + y.size) * eps * size)
    moves = closing(rows.matrix, missing)
    if moves is None or not all(holds(kind, y[own], moves[own]) for kind, own in rows.cones):
        return -np.inf
    terms = np.abs(rows.right) @ ((8 + y.size) * EPS * np.abs(y) + ROUNDED * moves)
    return rows.value(y) - ROUNDED * float(terms)


def closing(matrix: Any, missing: Array) -> Array | None:
    r"""How far each row's multiplier moves at most to close a residual; None if that is unknown.

    A row with one entry closes its column, whatever the other columns need. Its column out of the
    way, other rows have one entry left, and so on. Columns that remain are closed by all other rows
    N together, which move by ‖missing‖/σ_min(N) at most; they come first, then the columns from the
    last found to the first, since a row disturbs only columns found before its own.
    """
    size, rows = abs(matrix).tocsr(), matrix.shape[0]
    open_ = np.asarray(size.sum(axis=0)).reshape(-1) > 0
    if missing[~open_].any():
        return None
    unused, rounds = np.ones(rows, bool), []
    while open_.any():
        left = sparse.csr_array(size @ sparse.diags_array(open_.astype(float)))
        left.eliminate_zeros()
        single = np.flatnonzero((np.diff(left.indptr) == 1) & unused)
        if not single.size:
            break
        found, entry = left.indices[left.indptr[single]], left.data[left.indptr[single]]
        order = np.lexsort((-entry, found))  # the largest entry of a column first
        column, first = np.unique(found[order], return_index=True)
        chosen = single[order][first]
        rounds.append((chosen, column, entry[order][first]))
        unused[chosen], open_[column] = False, False
    missing, moves = missing.copy(), np.zeros(rows)
    if open_.any():
        step = shortest(sparse.csr_array(matrix)[unused][:, open_], missing[open_])
        if step is None:
            return None
        moves[unused] = step
        missing += ROUNDED * (size.T @ moves)
    for chosen, column, entry in reversed(rounds):
        own = np.zeros(rows)
        own[chosen] = ROUNDED * missing[column] / entry + TINY
        missing += ROUNDED * (size.T @ own)
        moves += own
    return moves if np.isfinite(moves).all() else None


def shortest(N: Any, missing: Array) -> float | None:
    """The most that ‖Δ‖ is for the shortest solution of N'Δ = missing; None without a proof."""
    if not N.shape[1] <= min(N.shape[0], MAX_DENSE_SIDE):
        return None
    gram = (N.T @ N).toarray()
    square, failure = lowest_bound(gram)
    square -= (4 + N.shape[0]) * EPS * float(np.trace(gram))
    if failure or not square > 0:
        return None
    return ROUNDED * length(missing) / float(np.sqrt(square))


def holds(kind: str, y: Array, moves: Array) -> bool:
    """Whether y stays in its cone if each number moves by so much."""
    if kind == "numbers":
        return bool((y >= moves).all())
    if kind == "second-order":
        reach = (1 + (8 + y.size) * EPS) * length(y[1:])
        return bool(y[0] >= ROUNDED * (moves[0] + length(moves[1:])) + reach)
    low, failure = lowest_bound(y) if y.size else (0.0, 0.0)
    return not failure and low >= ROUNDED * length(moves)
