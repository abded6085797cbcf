"""CVXPY's cone program: read in our order, scaled, and its equations solved."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import cvxpy as cp
import cvxpy.settings as settings
import numpy as np
from cvxpy.constraints import PSD
from scipy import linalg, sparse

from condgrad._floats import EPS, powers_of_two
from condgrad._types import Array
from condgrad.cvxpy._rows import Space

NOISE = 8 * EPS
"""Part of the largest entry of a column, or of the right-hand sides, that may be rounding."""
UNITS = EPS / 64
"""Part of a column below which a row is not rounding: it has another unit."""


class OtherCones(cp.error.SolverError):  # type: ignore[misc]
    """A problem that compiles to cones which are not taken."""


class Faint(NamedTuple):
    """Equations G x = h of CVXPY's that may be rounding next to others in their columns."""

    G: Any
    h: Array

    def met(self, x: Array, share: float) -> bool:
        """Whether x meets them up to a share of their terms."""
        miss = np.abs(self.G @ x - self.h)
        return bool((miss <= share * (np.abs(self.h) + abs(self.G) @ np.abs(x))).all())


@dataclass(frozen=True, eq=False)
class ConeProgram:
    r"""min c'x subject to G x = h, b − A x ∈ K, scaled by powers of two.

    K is made of non-negative numbers first, then of semidefinite matrices, row by row. Every row of
    G, every non-negative row of A and every matrix of A has entries up to about 1, and so has c;
    the median of the right-hand sides is about 1, so that a part of 1 does not depend on the user's
    units. The powers of two make it the same program, number by number.
    """

    c: Array
    G: Any
    h: Array
    A: Any
    b: Array
    space: Space
    lift: Any
    """Rows of A are this matrix times those of CVXPY's after the equations, scaled."""
    row_unit: Array
    """Rows of A are scaled by these."""
    equations: Array
    """Numbers of those of CVXPY's equations that are in G."""
    equation_unit: Array
    """Factors of CVXPY's equations in G; 0 for those that are not in G."""
    x_unit: float
    """CVXPY's x is this multiple of ours."""
    cost_unit: float
    """CVXPY's c is this multiple of ours."""
    faint: Faint | None = None
    """Equations that were left out as rounding."""
    second_order: int = 0
    """Blocks after the numbers that are second-order cones, where they are not matrices."""

    @property
    def kinds(self) -> tuple[str, ...]:
        """Of the blocks: ``numbers``, ``second-order`` or ``matrix``."""
        vectors = sum(side < 0 for side in self.space.blocks)
        words = ["numbers"] * (vectors - self.second_order) + ["second-order"] * self.second_order
        return (*words, *["matrix"] * (len(self.space.blocks) - vectors))

    @property
    def numbers(self) -> int:
        """How many non-negative numbers there are, which come first."""
        first = self.kinds[:1] == ("numbers",)
        return int(self.space.starts[1]) if first else 0

    @property
    def value_unit(self) -> float:
        """CVXPY's c'x is this multiple of ours."""
        return self.cost_unit * self.x_unit

    @cached_property
    def smallest(self) -> float:
        """The least right-hand side other than 0, at most 1: what may matter of x."""
        sizes = np.abs(np.concatenate([self.b, self.h]))
        return float(sizes[sizes > 0].min(initial=1.0))

    @cached_property
    def distinct(self) -> Array:
        """Which entries of x have a column in A, G and c unlike those before it."""
        columns = sparse.csc_array(sparse.vstack([self.A, self.G, self.c[None, :]]))
        columns.sort_indices()
        seen, first = set(), np.zeros(self.c.size, bool)
        for j, (start, end) in enumerate(pairwise(columns.indptr)):
            key = (columns.indices[start:end].tobytes(), columns.data[start:end].tobytes())
            first[j] = key not in seen
            seen.add(key)
        return first

    @cached_property
    def inside(self) -> Array:
        """Which rows lead into their cones: numbers, heads of second-order cones, diagonals."""
        found = np.zeros(self.b.size, bool)
        for kind, side, start in zip(
            self.kinds, self.space.blocks, self.space.starts, strict=False
        ):
            if kind == "matrix":
                found[start : start + side * side : side + 1] = True
            else:
                found[start : start - side if kind == "numbers" else start + 1] = True
        return found

    @cached_property
    def void(self) -> Array:
        """Which numbers of y, and rows of matrices by their diagonals, have to be 0.

        An entry of x without price and equations that only widens cones leaves them no choice: then
        no y is inside of its cone, and none near it proves much.
        """
        inside, A = self.inside, sparse.csc_array(self.A)
        free = (self.c == 0) & (np.diff(sparse.csc_array(self.G).indptr) == 0)
        found = np.zeros(self.b.size, bool)
        for j in np.flatnonzero(free):
            own = slice(A.indptr[j], A.indptr[j + 1])
            rows, numbers = A.indices[own], A.data[own]
            if rows.size and inside[rows].all() and (np.sign(numbers) == np.sign(numbers[0])).all():
                found[rows] = True
        return found

    def slack(self, x: Array) -> list[Array]:
        """b − A x, block by block."""
        return self.space.split(self.b - self.A @ x)

    def multipliers(self, nu: Array, y: Array) -> Array:
        """Those of the equations and of the rows, as CVXPY has them."""
        rows, whole = self.lift.T @ (self.row_unit * y), self.equation_unit.copy()
        whole[self.equations] *= nu
        return self.cost_unit * np.concatenate([whole, rows])


def read(data: dict[str, Any], dims: Any, native: bool = False) -> ConeProgram | None:
    """The program of CVXPY's data, None where a row without variables cannot hold.

    Second-order cones become matrices, or stay what they are if `native`.
    """
    check_cones(dims)
    stacked, right = sparse.csr_array(data[settings.A]), np.asarray(data[settings.B], float)
    stacked.eliminate_zeros()
    G, h, A, b = stacked[: dims.zero], right[: dims.zero], stacked[dims.zero :], right[dims.zero :]
    if not np.isfinite(b[dims.nonneg :]).all():
        raise cp.error.SolverError("a cone has infinite entries: replace them by numbers")
    if not np.isfinite(h).all() or np.isneginf(b).any():
        return None
    least = NOISE * float(np.abs(right[np.isfinite(right)]).max(initial=0.0))
    first, last = dims.zero, dims.zero + dims.nonneg
    faint, empty = _faint(stacked, first, last), np.diff(stacked[:last].indptr) == 0
    holds = np.concatenate([np.abs(h) <= least, b[: dims.nonneg] >= -least])
    if (empty & ~holds).any():
        return None
    said = ~(faint & holds)
    left_out = np.flatnonzero(~said & ~empty)
    equations, said = np.flatnonzero(said[:first]), said[first:] & np.isfinite(b[: dims.nonneg])
    G, h = G[equations], h[equations]
    shapes = [c.args[0].shape for c in data[settings.PARAM_PROB].constr_map.get(PSD, [])]
    lift, blocks, second = cone_blocks(said, dims.soc, shapes, native)
    space = Space(blocks, [])
    A, b = lift @ A, lift @ np.where(np.isfinite(b), b, 0.0)
    A, b = sparse.csr_array(space.symmetric(A.T).T), space.symmetric(b[None, :]).toarray()[0]
    row_unit, own = _row_units(A, space, second), 1 / powers_of_two(_largest(G))
    equation_unit = np.zeros(dims.zero)
    equation_unit[equations] = own
    rights = np.abs(np.concatenate([row_unit * b, own * h]))
    x_unit = powers_of_two(np.median(rights[rights > 0]) if rights.any() else 0.0)
    c = np.asarray(data[settings.C], float)
    cost_unit = powers_of_two(np.abs(c).max(initial=0.0))
    return ConeProgram(
        c=c / cost_unit,
        G=sparse.csr_array(sparse.diags_array(own) @ G),
        h=own * h / x_unit,
        A=sparse.csr_array(sparse.diags_array(row_unit) @ A),
        b=row_unit * b / x_unit,
        space=space,
        lift=lift,
        row_unit=row_unit,
        equations=equations,
        equation_unit=equation_unit,
        x_unit=float(x_unit),
        cost_unit=float(cost_unit),
        faint=Faint(stacked[left_out], right[left_out]) if left_out.size else None,
        second_order=second,
    )


def check_cones(dims: Any) -> None:
    """Refuse cones that CVXPY did not foresee when it asked whether we take the problem."""
    for name, word in {"exp": "exponential", "p3d": "power", "pnd": "power"}.items():
        if getattr(dims, name, None):
            raise OtherCones(
                f"the problem compiles to {word} cones, which CONDGRAD cannot take: use another "
                "solver, or write the problem with linear and matrix inequalities"
            )


def cone_blocks(
    said: Array, soc: Sequence[int], shapes: Sequence[tuple[int, ...]], native: bool = False
) -> tuple[Any, list[int], int]:
    r"""From CVXPY's rows to ours: a sparse matrix, and the blocks of what it makes.

    The last number is how many of them are second-order cones, which there are if `native`.

    Of the non-negative rows those with `said` stay. A second-order cone ‖x‖ ≤ t is two numbers, a
    matrix of side 2 or an arrow,

    .. math:: t ± x ≥ 0, \qquad \begin{pmatrix} t + x_1 & x_2 \\ x_2 & t - x_1 \end{pmatrix} ⪰ 0,
              \qquad \begin{pmatrix} t & x^\top \\ x & tI \end{pmatrix} ⪰ 0.

    CVXPY lays out an array of matrices, of shape (…, n, n), with its first index the fastest.
    """
    matrices: list[Any] = []
    arrows: list[Any] = []
    sides: list[int] = []
    cones: list[int] = []
    start, size = said.size, said.size + sum(soc) + sum(int(np.prod(s)) for s in shapes)
    unit = sparse.eye_array(size, format="csr")
    lines = [unit[np.flatnonzero(said)]]
    for d in soc:
        if d <= 2:
            t, x = unit[[start]], unit[start + 1 : start + d]
            lines += [t + x, t - x] if d == 2 else [t]
        elif native:
            cones.append(d)
            arrows.append(unit[start : start + d])
        else:
            sides.append(2 if d == 3 else d)
            matrices.append(_second_order(unit[start : start + d]))
        start += d
    for shape in shapes:
        count = int(np.prod(shape))
        rows = np.arange(start, start + count).reshape(shape, order="F").ravel()
        matrices.append(unit[rows])
        sides += [shape[-1]] * (count // shape[-1] ** 2)
        start += count
    lift = sparse.csr_array(sparse.vstack([*lines, *arrows, *matrices], format="csr"))
    numbers = sum(line.shape[0] for line in lines)
    return lift, [s for s in (-numbers, *(-d for d in cones), *sides) if s], len(cones)


def _second_order(cone: Any) -> Any:
    """The numbers of the matrix of one cone, row by row, from its rows t, x."""
    d = cone.shape[0]
    if d == 3:
        t, x = cone[[0]], cone[1:]
        return sparse.vstack([t + x[[0]], x[[1]], x[[1]], t - x[[0]]])
    i = np.arange(d)
    place = np.concatenate([i * d + i, i[1:], i[1:] * d])
    source = np.concatenate([np.zeros(d, int), i[1:], i[1:]])
    arrow = sparse.csr_array((np.ones(place.size), (place, source)), shape=(d * d, d))
    return arrow @ cone


def _largest(A: Any) -> Array:
    """The largest magnitude in each row."""
    if not A.shape[0] or not A.nnz:
        return np.zeros(A.shape[0])
    return np.asarray(abs(A).max(axis=1).toarray(), float).reshape(-1)


def _faint(A: Any, equations: int, rows: int) -> Array:
    """Which of the first rows are empty, or equations that may be rounding next to their columns.

    CVXPY leaves such of the imaginary parts of equations that have none.
    """
    columns = _largest(sparse.csr_array(A.T))
    unit = sparse.diags_array(1 / np.where(columns > 0, columns, 1.0))
    share = _largest(sparse.csr_array(A[:rows] @ unit))
    small = (share <= NOISE) & (share >= UNITS) & (np.arange(rows) < equations)
    return small | (share == 0)


def _row_units(A: Any, space: Space, second: int) -> Array:
    """One unit for each non-negative row, one for each other cone."""
    largest = _largest(A)
    numbers = sum(side < 0 for side in space.blocks) - second
    for k, (first, last) in enumerate(pairwise(space.starts)):
        if k >= numbers:
            largest[first:last] = largest[first:last].max()
    return np.asarray(1 / powers_of_two(largest))


def without_noise(vector: Array, others: Array | float = 0.0) -> Array:
    """A vector without the numbers that are rounding next to the largest, or to other numbers."""
    largest = max(float(np.abs(v).max(initial=0.0)) for v in (vector, np.asarray(others)))
    return np.where(np.abs(vector) > 1e-13 * largest, vector, 0.0)


class Kernel(NamedTuple):
    """x = start + N w solves G x = h for every w, up to rounding."""

    start: Array
    N: Any
    missed: Array
    """h − G start, which is not rounding where the equations contradict each other."""
    entry: Array
    move: Array
    """Column factors of rounding: N_ij may be off by entry_i move_j."""
    reach: float
    """Factor of rounding of `start`: start_i may be off by entry_i reach."""


def kernel(G: Array, h: Array) -> Kernel:
    """All solutions of G x = h, by a QR decomposition with pivots.

    It says which entries of x follow from the others. What rounding does to R is about ε times the
    norms of the columns of G, which the inverse of its triangle spreads: entries of N below that
    are 0.
    """
    m, n = G.shape
    if m == 0 or n == 0:
        eye = sparse.eye_array(n, format="csr")
        return Kernel(np.zeros(n), eye, h, np.zeros(n), np.zeros(n), 0.0)
    columns = powers_of_two(np.abs(G).max(axis=0))
    Q, R, order = linalg.qr(G / columns, mode="economic", pivoting=True)
    rounding = 64 * max(m, n) * EPS
    pivots = np.abs(np.diag(R))
    rank = int(np.sum(pivots > rounding * pivots[0]))
    triangle, rest = R[:rank, :rank], R[:rank, rank:]
    right = linalg.solve_triangular(triangle, np.column_stack([rest, Q.T[:rank] @ h]))
    slopes, point = -right[:, :-1], right[:, -1]
    inverse = rounding * np.abs(linalg.solve_triangular(triangle, np.eye(rank))).sum(axis=1)
    norm = float(np.linalg.norm(triangle))
    move = np.linalg.norm(rest, axis=0) + norm * np.abs(slopes).max(axis=0, initial=0.0)
    slopes = np.where(np.abs(slopes) > inverse[:, None] * move, slopes, 0.0)
    N = sparse.vstack([sparse.csr_array(slopes), sparse.eye_array(n - rank)], format="csr")
    own, free = sparse.diags_array(1 / columns), columns[order[rank:]]
    start, entry = np.zeros(n), np.zeros(n)
    start[order[:rank]], entry[order[:rank]] = point, inverse
    start, entry = start / columns, entry / columns
    N = sparse.csr_array(own @ N[np.argsort(order)] @ sparse.diags_array(free))
    reach = float(np.linalg.norm(h)) + norm * float(np.abs(point).max(initial=0.0))
    return Kernel(start, N, h - G @ start, entry, free * move, reach)
