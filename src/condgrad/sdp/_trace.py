"""A bound on the trace that the rows of a semidefinite program imply."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.sparse.linalg import LinearOperator, lsqr

from condgrad._floats import EPS, powers_of_two
from condgrad._types import Array
from condgrad.sdp._families import Family, stacked

if TYPE_CHECKING:
    from condgrad.sdp._reduce import Reduced

EXACT = 1e-9
"""Relative miss up to which rows are taken to sum to the identity."""
LOWEST = 1e-2
"""The least eigenvalue of a sum of rows that is worth a bound on the trace."""


class TraceRows(NamedTuple):
    """Multipliers c of the rows with M = Σ c_l A_l ⪰ λ I, so that Tr W ≤ ⟨b, c⟩/λ."""

    c: Array
    total: float
    """At least ⟨b, c⟩, rounding included."""
    lowest: float
    """λ, at most the smallest eigenvalue of M."""
    exact: bool
    """M = I up to rounding and only equalities take part: then Tr W = ⟨b, c⟩."""


def trace_rows(reduced: Reduced) -> tuple[TraceRows | None, Array | None]:
    """Rows that bound the trace, by least squares Σ c_l A_l ≈ I: equalities first, then all.

    The second is d with d_i² = M_ii where M is far from the identity: for D W D it is nearer.
    """
    equal = [f for f in reduced.families if f.equality]
    for families in (equal, reduced.families):
        found = _identity(reduced, families) if families else None
        if found is not None:
            return found
    return None, None


def _identity(
    reduced: Reduced, families: Sequence[Family]
) -> tuple[TraceRows, Array | None] | None:
    """c with M = Σ c_l A_l ⪰ λ I, λ > 0, or None."""
    N, operator = reduced.sdp.layout.side, stacked(families)
    parts = np.split(np.arange(operator.shape[0]), np.cumsum([f.map.size for f in families]))
    eye = np.eye(N)
    c = lsqr(operator.T, eye.reshape(-1), atol=1e-14, btol=1e-14, iter_lim=500)[0]
    for f, p in zip(families, parts, strict=False):
        if not f.equality:
            c[p] = np.maximum(c[p], 0.0)
    M = (operator.T @ c).reshape(N, N)
    right = np.concatenate([f.right for f in families])
    lowest = _surely(reduced, M, c)
    if lowest <= LOWEST:
        c, M, lowest = _lifted(reduced, c, M, right, operator, families)
    rounding = (64 + c.size) * EPS * float(np.abs(c) @ np.abs(right))
    total = float(c @ right) + rounding
    if lowest <= LOWEST:
        return None
    miss = float(np.linalg.norm(M - eye)) / np.sqrt(N)
    exact = miss <= EXACT and all(f.equality for f in families) and rounding < EXACT * total
    whole = np.zeros(reduced.sdp.size)
    for f, p in zip(families, parts, strict=False):
        whole[f.ids] = c[p] * f.factor
    return TraceRows(whole, total, lowest, exact), scale_of(reduced, M)


def _surely(reduced: Reduced, M: Array, c: Array) -> float:
    """At most the smallest eigenvalue of M = Σ c_l A_l, the rounding of the sum included."""
    return reduced.lowest(M) - 8 * reduced.depth * EPS * float(np.abs(c).sum())


def _lifted(
    reduced: Reduced,
    c: Array,
    M: Array,
    right: Array,
    operator: LinearOperator,
    families: Sequence[Family],
) -> tuple[Array, Array, float]:
    """c with more of the rows that are diagonal and ⪰ 0, as much as bounds the trace best.

    X_00 = 1 and X_ii = X_0i bound the trace, but only with a large multiple of the first.
    """
    p = np.concatenate([_diagonal(reduced, f) for f in families])
    P = (operator.T @ p).reshape(M.shape)
    best = (c, M, _surely(reduced, M, c))
    for t in 4.0 ** np.arange(11) if p.any() else ():
        more = c + t * p
        found = _surely(reduced, M + t * P, more)
        if found > LOWEST and (
            best[2] <= LOWEST or more @ right / found < best[0] @ right / best[2]
        ):
            best = (more, M + t * P, found)
    return best


def _diagonal(reduced: Reduced, f: Family) -> Array:
    """1 for every row of a family that is diagonal and ⪰ 0, −1 for = and ⪯ 0, else 0."""
    A, off = reduced.sdp.A[f.ids], reduced.off.astype(np.float64)
    alone = (abs(A) @ off == 0) & (np.diff(A.indptr) > 0)
    low = np.sign(f.factor) * A.min(axis=1).toarray().reshape(-1)
    high = np.sign(f.factor) * A.max(axis=1).toarray().reshape(-1)
    low, high = np.minimum(low, high), np.maximum(low, high)
    down = -1.0 if f.equality else 0.0
    return np.where(alone & (low >= 0), 1.0, np.where(alone & (high <= 0), down, 0.0))


def scale_of(reduced: Reduced, M: Array) -> Array | None:
    """About √M_ii, powers of two, where they differ and nothing stands against a scale."""
    d = np.sqrt(np.abs(np.diagonal(M)))
    plain = not (reduced.sdp.losses or reduced.sdp.low_rank or reduced.pins.shape[1])
    return powers_of_two(d)[reduced.place] if plain and d.max() > 2 * d.min() else None
