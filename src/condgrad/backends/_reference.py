"""The slow, obvious twin of every compiled kernel: plain NumPy and, where order matters, Python.

Used where numba is not installed, and by the tests that hold the compiled kernels to it.
"""

from __future__ import annotations

from collections import deque
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from scipy.special import expit

from condgrad._types import Array
from condgrad.backends._reference_fused import fused  # noqa: F401
from condgrad.backends.tiles import perimeter_address, triangle_address

TINY = float(np.finfo(np.float64).tiny)
PAIRS = 1 << 18
"""Entries of a product of factors that are computed at a time."""


def fresh(ids: Array, seen: Array, out: Array, count: int) -> int:
    """Append to `out` the ids whose bit in `seen` is not set yet, setting it; stop when full."""
    _, first = np.unique(ids, return_index=True)
    ids = ids[np.sort(first)].astype(np.int64)
    bit = np.uint64(1) << (ids & 63).astype(np.uint64)
    ids = ids[(seen[ids >> 6] & bit) == 0][: out.size - count]
    np.bitwise_or.at(seen, ids >> 6, np.uint64(1) << (ids & 63).astype(np.uint64))
    out[count : count + ids.size] = ids
    return count + int(ids.size)


def forget(ids: Array, seen: Array) -> None:
    """Clear the words of `seen` that hold the bits of `ids`."""
    seen[ids >> 6] = 0


def fresh_rows(ids: Array, seen: Array, out: Array) -> bool:
    """`fresh` from each row of `ids` to that of `out`, none seen before; False where one is short.

    The rows behind a short one are left as they are.
    """
    for some, kept in zip(ids, out, strict=True):
        count = fresh(some, seen, kept, 0)
        forget(kept[:count], seen)
        if count < kept.size:
            return False
    return True


def take(x: Array, index: Array) -> Array:
    """x[index]."""
    return x[index]


def dot_at(x: Array, index: Array, y: Array) -> float:
    """⟨x[index], y⟩."""
    return float(x[index].astype(np.float64) @ y)


def add_at(x: Array, index: Array, y: Array) -> None:
    """x[index] += y, a repeated index counted every time."""
    np.add.at(x, index, y)


def axpy(out: Array, weight: float, y: Array) -> None:
    """Add weight·y to `out`, both flat."""
    out += y.dtype.type(weight) * y


def axpy_at(out: Array, index: Array, weight: float, y: Array) -> None:
    """out[index] += weight·y, a repeated index counted every time."""
    np.add.at(out, index, y.dtype.type(weight) * y)


def interval_slope(z: Array, lower: float, upper: float, beta: float, out: Array) -> None:
    """Write (z − clip(z, lower, upper))/β to `out`."""
    out[:] = (z - np.clip(z, lower, upper)) / z.dtype.type(beta)


def signed_sums(y: Array) -> tuple[float, float]:
    """Σ max(y, 0) and Σ max(−y, 0)."""
    y = y.astype(np.float64)
    return float(np.maximum(y, 0.0).sum()), float(np.maximum(-y, 0.0).sum())


def masked_squares(z: Array, slopes: Array) -> float:
    """Σ z² over the rows with a slope other than 0."""
    return float(np.square(z[slopes != 0], dtype=np.float64).sum())


def absolute_slope(z: Array, target: float, scale: float, beta: float, out: Array) -> None:
    """Write clip((z − target)/β, −scale, scale) to `out`."""
    out[:] = np.clip((z - target) / beta, -scale, scale)


def table_swap(table: Array, ids: Array, new: Array) -> Array:
    """Write ``table[ids[i]] = new[i]`` one after the other; return what each write changed."""
    delta = np.empty_like(new)
    for i, row in enumerate(ids):
        old = table[row]
        table[row] = new[i]
        delta[i] = new.dtype.type(table[row]) - new.dtype.type(old)
    return delta


def triangle_gather(W: Array, ids: Array) -> Array:
    """z_l = W_pq + W_qr − W_pr − W_qq for the rows in `ids`."""
    p, q, r = triangle_address(W.shape[0], ids)
    return W[q, p] + W[q, r] - W[p, r] - W[q, q]


def triangle_scatter(G: Array, ids: Array, y: Array) -> None:
    """G += Σ y_l a_l, the adjoint of `triangle_gather`."""
    p, q, r = triangle_address(G.shape[0], ids)
    for sign, i, j in ((1, q, p), (1, q, r), (-1, p, r), (-1, q, q)):
        np.add.at(G, (i, j), sign * y)


def triangle_sweep(W: Array, start: int, stop: int, out: Array) -> None:
    """`triangle_gather` of the contiguous range of ids start … stop − 1, written to `out`."""
    out[: stop - start] = triangle_gather(W, np.arange(start, stop, like=W))


def triangle_add(G: Array, start: int, stop: int, y: Array) -> None:
    """`triangle_scatter` of the contiguous range of ids start … stop − 1."""
    triangle_scatter(G, np.arange(start, stop), y)


def interval_dual(
    z: Array, lower: float, upper: float, beta: float, theta: float, y: Array, slopes: Array
) -> None:
    """γ = x − clip(x, lower/β, upper/β) with x = y + z/β; then y += θ(γ − y), both in place."""
    x = y + z / beta
    slopes[:] = x - np.clip(x, lower / beta, upper / beta)
    y += theta * (slopes - y)


def interval_ascend(z: Array, lower: float, upper: float, beta: float, y: Array, G: Array) -> float:
    """y⁺ = x − clip(x, lower/β, upper/β) with x = y + z/β; G += y⁺ − y, y = y⁺; Σ (y⁺ − y)²."""
    x = y + z / beta
    new = (x - np.clip(x, lower / beta, upper / beta)).astype(y.dtype, copy=False)
    change = new - y
    G += change
    y[:] = new
    return float(np.square(change, dtype=np.float64).sum())


def _csr_positions(indptr: Array, ids: Array) -> tuple[Array, Array]:
    """Positions in `data` of the drawn rows, and which drawn row each belongs to."""
    length = indptr[ids + 1] - indptr[ids]
    owner = np.repeat(np.arange(ids.size), length)
    offset = np.arange(owner.size) - np.repeat(np.cumsum(length) - length, length)
    return indptr[ids][owner] + offset, owner


def csr_gather(indptr: Array, indices: Array, data: Array, x: Array, ids: Array) -> Array:
    """z_l = ⟨row l of the CSR matrix, x⟩ for the rows in `ids`."""
    at, owner = _csr_positions(indptr, ids)
    z: Array = np.bincount(owner, weights=data[at] * x[indices[at]], minlength=ids.size)
    return z.astype(x.dtype)


def csr_scatter(G: Array, indptr: Array, indices: Array, data: Array, ids: Array, y: Array) -> None:
    """G += Σ y_l (row l of the CSR matrix)."""
    at, owner = _csr_positions(indptr, ids)
    np.add.at(G, indices[at], data[at] * y[owner])


def dense_gather(X: Array, x: Array, ids: Array) -> Array:
    """z_l = ⟨X_l, x⟩ for the rows in `ids`."""
    return np.asarray(X[ids] @ x, dtype=x.dtype)


def dense_scatter(G: Array, X: Array, ids: Array, y: Array) -> None:
    """G += Σ y_l X_l."""
    G += y @ X[ids]


def row_gather(W: Array, ids: Array) -> Array:
    """z_i = Σ_j W_ij for the rows in `ids`."""
    return np.asarray(W[ids].sum(axis=1), dtype=W.dtype)


def rank_one_step(W: Array, keep: float, c: float, u: Array, v: Array) -> None:
    """W ← keep·W + c·u vᵀ in place."""
    W *= W.dtype.type(keep)
    W += np.outer(W.dtype.type(c) * u, v)


def gram_product(V: Array, x: Array) -> Array:
    """VᵀV x."""
    return np.asarray(V.T @ (V @ x))


def symmetric_part(v: Array, out: Array) -> None:
    """(v + vᵀ)/2, written to `out`."""
    out[:] = 0.5 * (v + v.T)


def descended(W: Array, v: Array, step: float, offset: Array | None, out: Array) -> None:
    """W − step (v + vᵀ)/2 − offset, written to `out`."""
    symmetric_part(v, out)
    out *= -step
    out += W
    if offset is not None:
        out -= offset


def tridiagonal_lowest(diagonal: Array, off: Array, accuracy: float) -> tuple[float, Array]:
    """Smallest eigenvalue, to a relative accuracy, and unit eigenvector of a tridiagonal matrix.

    `off` holds the entries beside the diagonal, none negative.
    """
    values, vectors = np.linalg.eigh(np.diag(diagonal) + np.diag(off, 1) + np.diag(off, -1))
    return float(values[0]), vectors[:, 0]


def hidden(diagonal: Array, off: Array, at: float) -> float:
    r"""The most that a start of Lanczos can hold of an eigenvector whose eigenvalue is `at`.

    `diagonal` and `off` are those of m steps, the last of `off` the length of what came next. The
    polynomials p_0 = 1, off_i p_{i+1} = (x − diagonal_i) p_i − off_{i−1} p_{i−1} are orthonormal
    under the weights that the unit start puts on the eigenvalues. If c² of it lies along one with
    eigenvalue x, then c² Σ_{i≤m} p_i(x)² ≤ 1 (the Christoffel function), for the polynomial
    Σ p_i(x) p_i has the mean square Σ p_i(x)², and c² (Σ p_i(x)²)² is a part of that.
    """
    p = [0.0, 1.0]
    left = 0.0
    for a, b in zip(diagonal, off, strict=True):
        p.append(((at - a) * p[-1] - left * p[-2]) / b)
        left = b
        if not sum(x * x for x in p) < 1e100:
            return 0.0
    return float(1 / sum(x * x for x in p))


def lanczos(
    V: Array,
    gram: bool,
    start: Array,
    Q: Array,
    fixed: int,
    eps: float,
    enough: float = 0.0,
    seen: float = 0.0,
    beyond: float = 0.0,
) -> tuple[Array, float, float, float, int]:
    """Lowest Ritz pair of the symmetric V, or of −VᵀV where `gram` is set.

    Q is room for the basis, whose length bounds the number of steps. Its first `fixed` rows are
    orthonormal; they are projected out of start and products, so the pair is that of V on their
    complement. Full re-orthogonalisation, two passes a step; breakdown is judged relative to the
    size of the matrix seen so far. Where `enough` is positive it looks after 4, 5, 6, … steps (a
    small matrix 8, 16, 32, …) whether the residual is at most that part of the eigenvalue, and
    stops. Where `seen` is positive it goes on, with the pair it has, until an eigenvalue that is
    lower by the part `beyond` would have less than `seen` of the unit start, squared, along its
    eigenvector (`hidden`); one that comes to light takes the place of the pair.

    Returns the unit vector x, its Rayleigh quotient, the residual ‖Mx − ⟨x, Mx⟩x‖ (both from the
    projected matrix where `enough` is positive, which spares a product), an estimate of ‖M‖ and the
    number of products with M.
    """
    basis = Q[:fixed]

    def project(r: Array) -> Array:
        for _ in range(2 if basis.shape[0] else 0):
            r = r - (basis @ r) @ basis
        return r

    def product(x: Array) -> Array:
        return -gram_product(V, x) if gram else V @ x

    r = project(start.astype(V.dtype))
    b, scale, look = float(np.linalg.norm(r)), 0.0, 4 if V.size >= 16_000 else 8
    found, lower = 0, 0.0
    diagonal: list[float] = []
    off: list[float] = []
    for j in range(min(Q.shape[0], start.size) - fixed):
        q = Q[fixed + j] = r / b
        basis = Q[: fixed + j + 1]
        r = product(q)
        diagonal.append(float(q @ r))
        r = project(r)
        b = float(np.linalg.norm(r))
        scale = max(scale, abs(diagonal[-1]) + b + (off[-1] if off else 0.0))
        off.append(b)
        if b <= 10 * eps * np.sqrt(start.size) * scale:
            break
        if enough > 0 and j + 1 == look:
            value, s = tridiagonal_lowest(np.array(diagonal), np.array(off[:j]), 1e-4)
            if found and value < lower:
                found = 0
            if not found and b * abs(s[-1]) <= enough * abs(value):
                found, lower = j + 1, value - beyond * abs(value)
            if found and (seen <= 0 or hidden(np.array(diagonal), np.array(off), lower) < seen):
                break
            look += 1 if V.size >= 1000 * look**2 else look
    spent = m = len(diagonal)
    if found and tridiagonal_lowest(np.array(diagonal), np.array(off[: m - 1]), 1e-4)[0] >= lower:
        m = found
    value, s = tridiagonal_lowest(np.array(diagonal[:m]), np.array(off[: m - 1]), 1e-15)
    x = np.asarray(s.astype(V.dtype), like=V) @ Q[fixed : fixed + m]
    x = x / np.linalg.norm(x)
    if enough > 0:
        return x, value, float(off[m - 1] * abs(s[-1])), scale, spent
    basis, r = Q[:fixed], product(x)
    value = float(x @ r)
    residual = project(r) - value * x
    return x, value, float(np.linalg.norm(residual)), scale, spent + 1


def perimeter_gather(W: Array, ids: Array) -> Array:
    """z_l = W_pq + W_qr + W_pr for the rows in `ids`."""
    p, q, r = perimeter_address(ids)
    return W[q, r] + W[q, p] + W[r, p]


def perimeter_scatter(G: Array, ids: Array, y: Array) -> None:
    """G += Σ y_l a_l, the adjoint of `perimeter_gather`."""
    p, q, r = perimeter_address(ids)
    for i, j in ((q, r), (q, p), (r, p)):
        np.add.at(G, (i, j), y)


def perimeter_sweep(W: Array, start: int, stop: int, out: Array) -> None:
    """`perimeter_gather` of the contiguous range of ids start … stop − 1, written to `out`."""
    out[: stop - start] = perimeter_gather(W, np.arange(start, stop, like=W))


def perimeter_add(G: Array, start: int, stop: int, y: Array) -> None:
    """`perimeter_scatter` of the contiguous range of ids start … stop − 1."""
    perimeter_scatter(G, np.arange(start, stop), y)


def sparse_times(
    indptr: Array, indices: Array, values: Array, K: Array, start: int, stop: int, out: Array
) -> None:
    """Write rows start to stop of V K to `out`, V in CSR."""
    for i in range(start, stop):
        at = slice(indptr[i], indptr[i + 1])
        out[i] = values[at] @ K[indices[at]]


def sparse_dots(
    indptr: Array, indices: Array, A: Array, B: Array, start: int, stop: int, out: Array
) -> None:
    """Write the entries of A Bᵀ on the pattern of a CSR matrix, rows start to stop, to `out`."""
    for i in range(start, stop):
        at = slice(indptr[i], indptr[i + 1])
        out[at] = B[indices[at]] @ A[i]


def pair_dots(i: Array, j: Array, A: Array, B: Array, out: Array) -> None:
    """Write the entries (i_l, j_l) of A Bᵀ to `out`."""
    for start in range(0, i.size, PAIRS):
        at = slice(start, start + PAIRS)
        out[at] = np.sum(A[i[at]] * B[j[at]], axis=1)


def mixing_sweep(indptr: Array, indices: Array, data: Array, V: Array) -> None:
    """Set every row of V in turn to −g/‖g‖, g = Σ_j a_ij v_j of a CSR matrix, where that is not 0.

    So ⟨A, VVᵀ⟩ becomes as small as one row of unit length can make it. A row stays where ‖g‖² is
    too small to be precise: its length would not be 1.
    """
    for i, (start, stop) in enumerate(pairwise(indptr)):
        g = data[start:stop] @ V[indices[start:stop]]
        square = g @ g
        if square > 1e-290:
            V[i] = g / -np.sqrt(square)


def flip_sweep(
    indptr: Array, indices: Array, data: Array, sign: Array, gain: Array, least: Array
) -> int:
    """Let every vertex in turn change sides if the cut gains more than `least`; say how many did.

    `gain` is sign · (A sign), of a CSR matrix without diagonal, and is kept so.
    """
    flipped = 0
    for i in range(sign.size):
        if gain[i] > least[i]:
            flipped += 1
            sign[i], gain[i] = -sign[i], -gain[i]
            row = slice(indptr[i], indptr[i + 1])
            near = indices[row]
            gain[near] += 2 * sign[i] * data[row] * sign[near]
    return flipped


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


def ridge_rows(
    indptr: Array,
    indices: Array,
    values: Array,
    X: Array,
    M: Array,
    ridge: Array,
    noise: float,
    start: int,
    stop: int,
    out: Array,
    moments: Array,
) -> float:
    """Factors and bias of the rows start to stop of a ratings matrix, given those of the columns.

    The ratings y of row i, in CSR, are y = p'q + b + c + noise: (p, b) belongs to the row and is
    unknown, (q, c) to the column, known by its mean, a row of `X`, and its second moments, of `M`.
    With the precisions `ridge` of (p, b) and the variance `noise` the posterior of (p, b) is
    normal. Its mean goes to `out` and its second moments to `moments`; returned is the expected
    Σ (y − p'q − b − c)² of all these rows.
    """
    k, total = X.shape[1] - 1, 0.0
    for i in range(start, stop):
        at = slice(indptr[i], indptr[i + 1])
        x, m, y = X[indices[at]], M[indices[at]], values[at]
        partner = m.copy()  # second moments of (q, 1)
        partner[:, k, :k] = partner[:, :k, k] = x[:, :k]
        partner[:, k, k] = 1
        A = partner.sum(axis=0)
        b = np.append(y @ x[:, :k] - m[:, :k, k].sum(axis=0), np.sum(y - x[:, k]))
        covariance = np.linalg.inv(A / noise + np.diag(ridge))
        out[i] = covariance @ b / noise
        moments[i] = covariance + np.outer(out[i], out[i])
        total += np.sum(y**2 - 2 * y * x[:, k] + m[:, k, k])
        total += -2 * float(out[i] @ b) + float(np.sum(A * moments[i]))
    return total


def _slope(loss: int, z: float, b: float, delta: float) -> float:
    if loss == 0:
        return b
    if loss == 1:
        return z - b
    if loss == 2:
        return float(-b * expit(-b * z))
    return min(max(z - b, -delta), delta)


def vector_sag(
    indptr: Array,
    indices: Array,
    data: Array,
    dense: bool,
    u: Array,
    scale: Array,
    w: Array,
    G: Array,
    table: Array,
    ids: Array,
    eta: Array,
    loss: int,
    target: Array,
    delta: float,
    ball: bool,
    radius: float,
    weight: float,
    most: float,
    done: Array,
) -> None:
    r"""SAG Frank-Wolfe on ω Σ_l h_l(⟨x_l, w⟩): iteration k for the rows ``ids[k]`` and η_k.

    .. math:: γ_l ← h'_l(⟨x_l, w⟩) \text{ for the rows of } k, \quad G = X^⊤γ, \quad
              i = \arg\max |G_i| \text{ or } \arg\min G_i, \quad
              w ← (1 - η_k) w ± η_k r e_i

    `w`, `G` and the `table` γ change in place; w = c u, of which u and ``scale[0]`` = c are what
    the next call goes on from. It ends before the step of the first k at which
    ω²‖G‖² exceeds `most` or is NaN; ``done[0]`` is the number of steps made so far.

    Parameters
    ----------
    indptr, indices, data : array
        X in CSR; where it is `dense`, ``indices`` plays no part.
    ids : integer array, one row per iteration
        Rows to draw, repeats allowed.
    loss : int
        h' = b, z − b, −b/(1 + exp(bz)) or z − b clipped to ±δ for 0, 1, 2, 3, b the `target`.
    ball : bool
        Whether the domain is the l1 ball of that `radius`, or the simplex of that total.
    """
    real = w.dtype.type
    w[...] = scale[0] * u
    for k, rows in enumerate(ids):
        before = w.astype(np.float64)
        for i in rows:
            part = slice(indptr[i], indptr[i + 1])
            columns = slice(None) if dense else indices[part]
            z, old = float(data[part] @ before[columns]), float(table[i])
            table[i] = real(_slope(loss, z, target[i], delta))
            G[columns] += (data[part] * real(float(table[i]) - old)).astype(w.dtype)
        with np.errstate(over="ignore", invalid="ignore"):
            if not np.sum((weight * G.astype(np.float64)) ** 2) <= most:
                break
        at = int(np.argmax(np.abs(G))) if ball else int(np.argmin(G))
        w *= real(1 - eta[k])
        w[at] += real(eta[k] * (-radius if ball and G[at] > 0 else radius))
        done[0] = k + 1
    u[...], scale[0] = w, 1.0
