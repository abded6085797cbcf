"""A warm start for max-cut: the mixing method, and the bound that its point proves."""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from condgrad._floats import EPS
from condgrad._types import Array
from condgrad.applications.rounding import SLACK
from condgrad.certificate import relative_gap
from condgrad.domains import Minimum, Spectrahedron
from condgrad.errors import from_keyboard

FIRST, MOST = 10, 640
"""The bound is computed after so many sweeps first, then after twice as many each time."""


class Mixed(NamedTuple):
    """A feasible point of the max-cut relaxation and an upper bound on its optimum."""

    W: Array
    value: float
    bound: float
    sweeps: int
    failure: float
    """Probability that the bound does not hold: 0 up to the side where LAPACK proves it."""
    kind: str
    """How the bound is known, as in `Result.bound_kind`."""
    interrupted: bool
    """Whether the keyboard ended it."""


def mixing(A: Any, gap: float, seed: int = 0, max_seconds: float = np.inf) -> Mixed:
    r"""Coordinate ascent on the rows of V, W = VVᵀ, until value and bound are within `gap`.

    ¼⟨L, W⟩ with unit rows v_i is largest in one of them at v_i = −g_i/‖g_i‖, g_i = Σ_j a_ij v_j;
    with more than √(2n) columns this finds the optimum of the relaxation [1]_. There
    A + Diag(y) ⪰ 0 with y_i = ‖g_i‖. Before that any y proves

    .. math:: \max_W \tfrac14 ⟨L, W⟩ ≤ \tfrac14 \sum_i (d_i + y_i)
              - \tfrac{n}{4} λ_{\min}(A + \mathrm{Diag}(y))

    with d = A1, because Tr W = n and diag W = 1.

    Parameters
    ----------
    A : SciPy sparse matrix
        A checked adjacency matrix.
    gap : float
        (bound − value)/bound to end at; it ends after 640 sweeps at the latest.
    seed : int
        Of the first V.
    max_seconds : float
        No sweep begins later than this.

    Notes
    -----
    Ctrl-C ends it as well; at every moment the rows of V have length 1, so that V is a point.

    References
    ----------
    .. [1] P.-W. Wang, W.-C. Chang, J. Z. Kolter, "The mixing method: low-rank coordinate descent
       for semidefinite programming with diagonal constraints", arXiv 1706.00476, 2017.
    """
    n, zero = A.shape[0], SLACK * float(abs(A).sum())
    V = np.random.default_rng(seed).standard_normal((n, int(np.sqrt(2 * n)) + 2))
    V /= np.linalg.norm(V, axis=1)[:, None]
    bounds: list[Minimum] = []
    end = time.perf_counter() + max_seconds
    done, sweeps, interrupted = 0, FIRST, False
    try:
        while True:
            while done < sweeps and time.perf_counter() < end:
                _sweep(A, V)
                done += 1
            bounds.append(_bound(A, V))
            value, bound = _value(A, V), min(b.value for b in bounds)
            near = bound - value <= zero or relative_gap(value, bound) <= gap
            if near or done < sweeps or done == MOST:
                break
            sweeps = 2 * done
    except (KeyboardInterrupt, SystemError) as error:
        if not from_keyboard(error):
            raise
        interrupted = True
    bounds = bounds or [_bound(A, V)]
    best, failure = min(bounds, key=lambda b: b.value), sum(b.failure for b in bounds)
    return Mixed(V @ V.T, _value(A, V), best.value, done, failure, best.kind, interrupted)


def _value(A: Any, V: Array) -> float:
    """¼⟨L, VVᵀ⟩."""
    return (float(A.sum()) - float(np.vdot(V, A @ V))) / 4


def _sweep(A: Any, V: Array) -> None:
    """Set every row of V to its best place in turn."""
    for i, (start, stop) in enumerate(zip(A.indptr[:-1], A.indptr[1:], strict=True)):
        g = A.data[start:stop] @ V[A.indices[start:stop]]
        norm = np.sqrt(g @ g)
        if norm > 0:
            V[i] = g / -norm


def _bound(A: Any, V: Array) -> Minimum:
    """The upper bound that V proves, rounding included, and how it is known.

    Only the diagonal of A + Diag(y) is rounded, once, and a number of Σ(d_i + y_i) passes through
    at most one operation for each number in its row and for each row (`condgrad._floats`).
    """
    n = A.shape[0]
    y = np.linalg.norm(A @ V, axis=1)
    v = (A + sp.diags_array(y)).toarray() / 4
    constant = float(np.sum((np.asarray(A.sum(axis=1)).reshape(-1) + y) / 4))
    low = Spectrahedron(n, trace=n, equality=True).minimum(v)
    longest = int(np.diff(A.indptr).max(initial=0))
    size = (n + longest + 8) * float(abs(A).sum() + y.sum()) / 4 + n * float(np.linalg.norm(v))
    rounding = EPS * (size + 2 * abs(low.value) + 2 * abs(constant))
    return low._replace(value=constant - low.value + rounding)
