"""The slow, obvious twin of every compiled kernel: plain NumPy and, where order matters, Python.

Used where numba is not installed, and by the tests that hold the compiled kernels to it.
"""

from __future__ import annotations

import numpy as np

from condgrad._types import Array
from condgrad.backends._reference_cuts import flip_sweep, mixing_sweep  # noqa: F401
from condgrad.backends._reference_elimination import (  # noqa: F401
    eliminate,
    lift_signs,
    list_triangles,
    triangle_multipliers,
)
from condgrad.backends._reference_factored import (  # noqa: F401
    pair_dots,
    sparse_dots,
    sparse_times,
)
from condgrad.backends._reference_fused import fused  # noqa: F401
from condgrad.backends._reference_perimeters import (  # noqa: F401
    perimeter_add,
    perimeter_gather,
    perimeter_scatter,
    perimeter_sweep,
)
from condgrad.backends._reference_ratings import ridge_rows  # noqa: F401
from condgrad.backends._reference_vector import vector_sag  # noqa: F401
from condgrad.backends.addresses import triangle_address


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


def _slot(keys: Array, i: int) -> int:
    """Slot of key i, or the empty slot for it: open addressing, linear probing."""
    mask = keys.size - 1
    j = (((i * 0x9E3779B97F4A7C15) % 2**64) >> 20) & mask
    while keys[j] not in (i, -1):
        j = (j + 1) & mask
    return int(j)


def hash_swap(keys: Array, values: Array, ids: Array, new: Array) -> tuple[Array, int]:
    """`table_swap` for a hash table; absent keys count as 0 and a 0 is not stored for them."""
    delta, inserted = np.zeros_like(new), 0
    for i, row in enumerate(ids):
        j = _slot(keys, int(row))
        if keys[j] == -1:
            if new[i] == 0:
                continue
            keys[j], values[j], inserted = row, 0, inserted + 1
        old = values[j]
        values[j] = new[i]
        delta[i] = new.dtype.type(values[j]) - new.dtype.type(old)
    return delta, inserted


def hash_grow(keys: Array, values: Array, capacity: int) -> tuple[Array, Array]:
    """Copy a hash table into a larger one; `capacity` is a power of two."""
    new_keys, new_values = np.full(capacity, -1, keys.dtype), np.zeros(capacity, values.dtype)
    for key, value in zip(keys[keys != -1], values[keys != -1], strict=True):
        j = _slot(new_keys, int(key))
        new_keys[j], new_values[j] = key, value
    return new_keys, new_values


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
