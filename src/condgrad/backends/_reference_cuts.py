"""The plain twins of the kernels of maximum cut; `_reference` re-exports them."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from condgrad._types import Array


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
