"""Rows of a semidefinite program in the form in which they are solved."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.sparse.linalg import LinearOperator

from condgrad._types import Array
from condgrad.maps import LowRankStack, SparseStack, Stack
from condgrad.sdp._model import SDP


class Family(NamedTuple):
    """Rows of one kind, scaled to lengths near 1, those with ≥ turned round."""

    map: SparseStack | LowRankStack
    ids: Array
    """Numbers of the rows in the program."""
    factor: Array
    """Factors of the rows: powers of two, negative if a row was turned round."""
    right: Array
    """Right-hand sides after that."""
    equality: bool


def stacked(families: Sequence[Family]) -> LinearOperator:
    """The rows of some families as one operator on W, flattened."""
    whole = Stack([f.map for f in families])

    def rows(x: Array) -> Array:
        return whole.rows(np.ascontiguousarray(x, np.float64).reshape(whole.shape))

    def adjoint(y: Array) -> Array:
        return whole.adjoint(np.asarray(y, np.float64).reshape(-1)).reshape(-1)

    shape = (whole.size, int(np.prod(whole.shape)))
    return LinearOperator(shape, matvec=rows, rmatvec=adjoint, dtype=np.float64)


def images(sdp: SDP, flat: Array) -> Array:
    """⟨A_l, W⟩ of every row, W in flat form."""
    z: Array = sdp.A @ flat
    for l, (block, U, s) in sdp.low_rank.items():
        z[l] += np.einsum("ij,ij->j", U, sdp.layout.split(flat)[block] @ U) @ s
    return z


def terms(sdp: SDP, flat: Array) -> Array:
    """Σ |A_l,ij W_ij| of every row, what its image is summed from."""
    sizes: Array = abs(sdp.A) @ np.abs(flat)
    for l, (block, U, s) in sdp.low_rank.items():
        W, own = np.abs(sdp.layout.split(flat)[block]), np.abs(U)
        sizes[l] += np.einsum("ij,ij->j", own, W @ own) @ np.abs(s)
    return sizes


def holds(sdp: SDP, z: Array) -> Array:
    """Which rows images meet, without tolerance."""
    b, kinds = sdp.b, sdp.kinds
    return np.where(kinds == 0, z == b, np.where(kinds < 0, z <= b, z >= b))
