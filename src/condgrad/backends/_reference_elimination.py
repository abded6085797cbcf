"""The plain twins of kernels that make max-cut smaller or tighter; `_reference` re-exports them."""

from __future__ import annotations

from collections import deque
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from condgrad._types import Array

TINY = float(np.finfo(np.float64).tiny)


class Eliminated(NamedTuple):
    """Result of `eliminate`."""

    order: Array
    """Vertices in the order in which they went."""
    starts: Array
    """Beginnings of the neighbours of each vertex in `near`, and the end of the last."""
    near: Array
    """Neighbours that a vertex had when it went, by index."""
    weights: Array
    """Weights of the edges to the neighbours."""
    constants: Array
    """Constant that each step adds to all cuts."""
    ends: Array
    """Edges that are left: two rows of vertices, the smaller one first."""
    left: Array
    """Weights of the edges that are left."""
    lost: float
    """No cut has become lighter by rounding by more than this, constants as they are, but for the
    rounding of this number itself."""


def eliminate(indptr: Array, indices: Array, data: Array, most: int) -> Eliminated:
    """Take vertices out of a symmetric CSR graph for as long as the maximum cut stays known.

    `condgrad.applications.elimination` has the formulas. A vertex with at most `most` neighbours
    goes where one edge weighs as much as its others together, else one with three neighbours; one
    vertex at least is left.
    """
    n, lost = indptr.size - 1, 0.0
    near: list[dict[int, float]] = [
        dict(zip(indices[a:b].tolist(), data[a:b].tolist(), strict=True))
        for a, b in pairwise(indptr)
    ]
    first, second = deque(range(n)), deque[int]()
    waits, later, gone = [True] * n, [False] * n, [False] * n
    order: list[int] = []
    starts, others, weights, constants = [0], list[int](), list[float](), list[float]()

    def plus(a: float, b: float) -> float:
        """a + b, and what rounding takes of it is lost."""
        nonlocal lost
        s = a + b
        c = s - a
        lost += abs((a - (s - c)) + (b - c))
        return s

    def join(u: int, v: int, weight: float) -> None:
        s = plus(near[u][v], weight) if v in near[u] else weight
        if s == 0:
            near[u].pop(v, None)
            near[v].pop(u, None)
        else:
            near[u][v] = near[v][u] = s

    while (first or second) and len(order) < n - 1:
        early = bool(first)
        u = first.popleft() if early else second.popleft()
        (waits if early else later)[u] = False
        if gone[u] or len(near[u]) > (most if early else 3):
            continue
        at = sorted(near[u])
        w = [near[u][v] for v in at]
        sizes = [abs(a) for a in w]
        top = int(np.argmax(sizes)) if at else 0
        before, rest = lost, 0.0
        for j, size in enumerate(sizes):
            rest = plus(rest, size) if j != top else rest
        ruled = not at or sizes[top] >= rest
        if not ruled and (early or len(at) != 3):
            lost = before
            if len(at) == 3 and not later[u]:
                later[u] = True
                second.append(u)
            continue
        gone[u] = True
        for v in at:
            del near[v][u]
        near[u] = {}
        total = 0.0
        for a in w if not ruled or (at and w[top] > 0) else ():
            total = plus(total, a)
        order.append(u)
        others += at
        weights += w
        starts.append(len(others))
        constants.append(max(0.0, total))
        if ruled:
            constants[-1] = total
            for j, v in enumerate(at):
                if j != top:
                    join(at[top], v, -w[j] if w[top] > 0 else w[j])
        else:
            for i, j in ((0, 1), (0, 2), (1, 2)):
                size = plus(plus(sizes[3 - i - j], -sizes[i]), -sizes[j])
                lost += TINY if abs(size) < 4 * TINY else 0.0
                join(at[i], at[j], size / 2 if (w[i] > 0) == (w[j] > 0) else -size / 2)
        for v in at:
            if not waits[v]:
                waits[v] = True
                first.append(v)
    left = [(u, v, near[u][v]) for u in range(n) for v in sorted(near[u]) if u < v]
    ends = np.array([edge[:2] for edge in left], np.int64).reshape(-1, 2).T.copy()
    return Eliminated(
        np.array(order, np.int64),
        np.array(starts, np.int64),
        np.array(others, np.int64),
        np.array(weights, np.float64),
        np.array(constants, np.float64),
        ends,
        np.array([weight for *_, weight in left], np.float64),
        lost,
    )


def lift_signs(order: Array, starts: Array, near: Array, weights: Array, sign: Array) -> None:
    """Give the vertices that were taken out the best sides, the last one first."""
    for k in range(order.size - 1, -1, -1):
        at = slice(starts[k], starts[k + 1])
        sign[order[k]] = -1.0 if weights[at] @ sign[near[at]] > 0 else 1.0


def list_triangles(indptr: Array, indices: Array, edges: Array, most: int) -> Array:
    """The edges of all triangles of a graph whose edges each have one direction, without cycles.

    Row i of a CSR matrix has the heads of the edges from i, in order, and `edges` their numbers.
    Where there are more than `most` triangles the answer has none.
    """
    number = {
        (i, int(indices[e])): int(edges[e])
        for i in range(indptr.size - 1)
        for e in range(indptr[i], indptr[i + 1])
    }
    found = [
        (number[i, int(indices[a])], number[i, int(indices[b])], number[pair])
        for i in range(indptr.size - 1)
        for a in range(indptr[i], indptr[i + 1])
        for b in range(indptr[i], indptr[i + 1])
        if (pair := (int(indices[a]), int(indices[b]))) in number
    ]
    return np.array(found if len(found) <= most else [], edges.dtype).reshape(-1, 3)


def triangle_multipliers(
    triangles: Array,
    x: Array,
    multipliers: Array,
    cost: Array,
    rate: float,
    weights: Array,
    cover: Array,
) -> None:
    """A step of the multipliers of triangle inequalities, λ ← max(0, λ + step · violation).

    The four of a triangle are x₀ + x₁ + x₂ ≤ 2 and x_i ≤ x_j + x_k for its edges; the step is
    `rate` over the costs of the edges. From `weights` the inequalities times λ are subtracted,
    `cover` counts the multipliers on each edge that are not 0.
    """
    cover[:] = 0
    signs = np.array([[1, 1, 1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1]])
    for t, edges in enumerate(triangles):
        step = rate / cost[edges].sum()
        for q, at in enumerate(signs):
            value = max(0.0, multipliers[t, q] + step * (at @ x[edges] - (2 if q == 0 else 0)))
            multipliers[t, q] = value
            if value > 0:
                weights[edges] -= at * value
                cover[edges] += 1
