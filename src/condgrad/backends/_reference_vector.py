"""The slow, obvious twin of `_numba_vector`."""

from __future__ import annotations

import numpy as np
from scipy.special import expit

from condgrad._types import Array


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
