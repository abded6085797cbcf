"""Shifts of multipliers along the identity, where equality rows combine to it."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from scipy.sparse.linalg import LinearOperator, lsqr

from condgrad._types import Array
from condgrad.problem import Term
from condgrad.rows import Sizes, sizes_of

CARRIES = 0.5
"""A combination of equality rows counts as the identity where it misses less than this of it."""


class Shift(NamedTuple):
    """A direction c in which the multipliers y of a family may be moved freely."""

    v: Array
    """ω A*c."""
    conjugate: float
    """ω h*(c)."""
    sizes: Sizes


def equality(term: Term) -> bool:
    """Whether h* is linear: any multipliers will do."""
    ends = term.function.interval
    return ends is not None and bool(np.array_equal(*ends))


def shift_of(term: Term) -> Shift | None:
    """The shift of an equality family along the identity, where it has one."""
    like, map, function = term.map.like, term.map, term.function
    if map.origin is not None and function.origin is not None:
        term = replace(term, map=map.origin, function=function.origin)
    found = _identity(term)
    if found is None:
        return None
    V, c = found
    w, h = term.weight, term.function
    sizes = sizes_of(term, term.map.spread(c), h.conjugate_size(c), [slice(0, c.size)])
    return Shift(np.asarray(w * V, like=like), w * h.conjugate(c), sizes)


def _identity(term: Term) -> tuple[Array, Array] | None:
    """A*c ≈ I by least squares, and c; None where it misses too much."""
    shape, size = term.map.shape, term.map.size
    eye = np.eye(shape[0])

    def symmetric(y: Array) -> Array:
        V = term.map.adjoint(np.asarray(y, np.float64).reshape(-1))
        return (0.5 * (V + V.T)).reshape(-1)

    def rows(x: Array) -> Array:
        V = np.asarray(x, np.float64).reshape(shape)
        return term.map.rows(np.ascontiguousarray(0.5 * (V + V.T)))

    operator = LinearOperator((eye.size, size), matvec=symmetric, rmatvec=rows, dtype=np.float64)
    c = lsqr(operator, eye.reshape(-1), atol=1e-12, btol=1e-12, iter_lim=100)[0]
    V = symmetric(c).reshape(shape)
    if np.linalg.norm(V - eye) > CARRIES * np.linalg.norm(eye):
        return None
    return V, c
