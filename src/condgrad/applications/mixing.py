"""The mixing method for max-cut, and the bound that its point proves."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from condgrad import _deadline as deadline
from condgrad import _progress as progress
from condgrad._floats import EPS
from condgrad._types import Array
from condgrad.applications.local_triangles import LocalTriangles
from condgrad.applications.rounding import SLACK
from condgrad.backends import memory, ops
from condgrad.certificate import relative_gap
from condgrad.domains import Minimum, Spectrahedron
from condgrad.domains.eigen import lowest_bound
from condgrad.errors import from_keyboard
from condgrad.points import Gram
from condgrad.run import journal
from condgrad.run.result import Status
from condgrad.run.saved import memory_of, remind

FIRST, MOST = 10, 640
"""The bound is computed after so many sweeps first, then after twice as many each time."""
RANK, STALLED = 64, 0.1
"""First number of columns of W kept as a factor. It doubles if the sweeps since the last bound
have raised the value by less than the part `STALLED` of what is missing."""
EARLY = 0.2
"""After k sweeps a bound need not be closer than EARLY/k."""
SETTLE = 0.75
"""Multipliers stay after this part of the sweeps to the next bound, so that V can follow."""
UNKNOWN = Minimum(np.inf, "none", 0.0)
"""Bound if Ctrl-C left no time for one."""
ASIDE = 1e-2
"""Length of what new columns add to a row."""


class Mixed(NamedTuple):
    """A feasible point of the max-cut relaxation and an upper bound on its optimum."""

    W: Any
    """VVᵀ, an array or, where it is to stay a factor, a `Gram`."""
    value: float
    bound: float
    sweeps: int
    failure: float
    """Probability that the bound does not hold: 0 where LAPACK has proved it."""
    kind: str
    """Kind of proof of the bound, as in `Result.bound_kind`."""
    interrupted: bool
    """Whether the keyboard ended it."""
    solved: bool = False
    """True if it ended because value and bound are as close as was asked for."""


Watch = Callable[[int, Array, float, Minimum], bool]
"""Sees sweeps, V, value and the best bound; True ends the sweeps."""


def mixing(
    A: Any,
    gap: float,
    seed: int = 0,
    max_seconds: float = np.inf,
    *,
    factored: bool = False,
    most: float = MOST,
    watch: Watch | None = None,
    local: LocalTriangles | None = None,
    shift: float = 0.0,
) -> Mixed:
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
        (bound − value)/bound to end at.
    seed : int
        Of the first V.
    max_seconds : float
        No sweep begins later than this.
    factored : bool
        Whether VVᵀ is never made: V then has few columns at first, which costs tightness and no
        truth, the bound is that of `_sparse_bound`, and W is a `Gram`. Time is kept for a last
        bound.
    most : float
        It ends after so many sweeps at the latest.
    watch : callable, optional
        Called whenever there is a bound, with sweeps, V, value and the best bound so far; where it
        answers True this is the end.
    local : LocalTriangles, optional
        Triangle inequalities by multipliers, which take a step before each sweep but the first 20;
        only where W stays a factor. The value is then that of VVᵀ with them, and it ends when that
        has changed by less than the gap as well since the last bound.
    shift : float
        Gaps are those of value and bound with this added.

    Notes
    -----
    Ctrl-C ends it as well; at every moment the rows of V have length 1, so that V is a point.

    References
    ----------
    .. [1] P.-W. Wang, W.-C. Chang, J. Z. Kolter, "The mixing method: low-rank coordinate descent
       for semidefinite programming with diagonal constraints", arXiv 1706.00476, 2017.
    """
    own = getattr(watch, "__self__", None)
    name = "mixing" if local is None else "mixing with triangles"
    page = journal.page(name, (A, gap, seed, factored))
    if page.result is not None:
        found, seen_by = page.result
        remind(own, seen_by)
        mixed: Mixed = found
        return mixed
    n, zero = A.shape[0], SLACK * float(abs(A).sum())
    rng, full = np.random.default_rng(seed), int(np.sqrt(2 * n)) + 2
    V = rng.standard_normal((n, min(full, RANK) if factored else full))
    V /= np.linalg.norm(V, axis=1)[:, None]
    bounds: list[Minimum] = []
    known: float | None = None  # the value of V
    end, last, before = time.perf_counter() + max_seconds, 0.0, -np.inf
    done, seen, sweeps, interrupted = 0, -1, min(2 * FIRST if factored else FIRST, most), False
    near = False
    if page.known is not None:
        V, rng, bounds, done, seen, sweeps, before, multipliers, seen_by = page.known
        remind(own, seen_by)
        if local is not None:
            local.state = multipliers

    def proved() -> Minimum:
        """A bound as close as V can make use of after so many sweeps; ∞ if there is no time."""
        if factored:
            return _sparse_bound(A, V, max(gap, EARLY / max(done, 1)), local)
        in_time = deadline.fits(deadline.cost(n, deadline.PROOF))
        return _bound(A, V) if in_time else Minimum(np.inf, "none", 0.0)

    def state() -> tuple[Any, ...]:
        """State that a checkpoint keeps between two sweeps."""
        multipliers = None if local is None else local.state
        return V, rng, bounds, done, seen, sweeps, before, multipliers, memory_of(own)

    try:
        while True:
            while done < sweeps and time.perf_counter() < end - last and not deadline.over():
                known = None
                progress.doing(f"mixing method, {done} sweeps")
                if local is not None and 2 * FIRST <= done < SETTLE * sweeps:
                    local.step(V)
                _sweep(A if local is None else local.matrix, V)
                done += 1
                page.keep(state)
            if done < sweeps:
                page.leave(Status.MAX_SECONDS)
            began = time.perf_counter()
            if done > seen:  # the clock may have left no time for a sweep
                progress.doing(f"mixing method, the bound after {done} sweeps")
                bounds.append(proved())
                seen = done
            value = known = _value(A, V, local)
            best = min(bounds, key=lambda b: b.value)
            off = relative_gap(value + shift, best.value + shift)
            near = best.value - value <= zero or off <= gap
            if local is not None:
                near &= abs(value - before) <= max(gap * abs(best.value + shift), zero)
            ended = watch is not None and watch(done, V, value, best)
            if near or ended or done < sweeps or done >= most:
                break
            last = time.perf_counter() - began if factored else last
            if factored and local is None:
                columns, stalled = min(full, 2 * V.shape[1]), STALLED * (best.value - value)
                room = memory.free_memory() > 3 * 8 * n * columns
                if value - before < stalled and columns > V.shape[1] and room:
                    V, known = _wider(V, columns, rng), None
            sweeps, before = min(2 * done, most), value
    except (KeyboardInterrupt, SystemError) as error:
        if not from_keyboard(error):
            raise
        interrupted = True
    try:
        bounds = bounds or [proved()]
    except (KeyboardInterrupt, SystemError) as error:
        if not from_keyboard(error):
            raise
        interrupted = True
    best = min(bounds or [UNKNOWN], key=lambda b: b.value)
    W = Gram(V) if factored else V @ V.T
    failure = sum(b.failure for b in bounds)
    value = _value(A, V, local) if known is None else known
    mixed = Mixed(W, value, best.value, done, failure, best.kind, interrupted, near)
    if interrupted:
        page.leave(Status.INTERRUPTED)
    elif done >= sweeps:
        page.end(lambda: (mixed, memory_of(own)))
    return mixed


def _value(A: Any, V: Array, local: LocalTriangles | None = None) -> float:
    """¼⟨L, VVᵀ⟩, with what multipliers make of the weights."""
    if local is not None:
        return _value(local.matrix, V) + local.constant
    return (float(A.sum()) - float(np.vdot(V, A @ V))) / 4


def _sweep(A: Any, V: Array) -> None:
    """Set every row of V to its best place in turn."""
    ops.mixing_sweep(A.indptr, A.indices, A.data, V)


def _wider(V: Array, columns: int, rng: np.random.Generator) -> Array:
    """V with more columns, in which its rows have a little, so that sweeps can make use of them."""
    more = rng.standard_normal((V.shape[0], columns - V.shape[1]))
    V = np.hstack([V, ASIDE / np.sqrt(more.shape[1]) * more])
    V /= np.linalg.norm(V, axis=1)[:, None]
    return V


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


def _sparse_bound(A: Any, V: Array, gap: float, local: LocalTriangles | None = None) -> Minimum:
    r"""An upper bound that V proves, by products with A alone, rounding included.

    With any s > 0 and μ ≤ λ_min(S(A + Diag(y))S), S = Diag(s), A + Diag(y) ⪰ μS⁻², and so

    .. math:: \max_W \tfrac14 ⟨L, W⟩ ≤ \tfrac14 \sum_i (d_i + y_i - μ / s_i^2).

    s_i² = 1/y_i makes S(A + Diag(y))S of the same size everywhere, though some vertices have many
    neighbours and most have few, so that few products tell its eigenvalue; where y_i is small
    against the mean, a hundredth of that takes its place. y and s are what they are as computed. A
    number of S(A + Diag(y))S is rounded twice, the same way on both sides of the diagonal.
    """
    if local is not None:
        found = _sparse_bound(local.matrix, V, gap)
        total = found.value + local.constant
        more = local.slack + EPS * (abs(found.value) + abs(local.constant))
        return found._replace(value=total + more)
    n = A.shape[0]
    y = np.linalg.norm(A @ V, axis=1)
    s = 1 / np.sqrt(np.maximum(y, float(y.mean()) / 100 or 1.0))
    M = sp.coo_array(A + sp.diags_array(y))
    M.data *= s[M.coords[0]] * s[M.coords[1]]
    M = sp.csr_array(M)
    low, failure = lowest_bound(M, steps=int(min(max(12 / np.sqrt(gap or EPS), 100), 2000)))
    low -= 4 * EPS * float(abs(M).sum(axis=1).max())
    scaled, degrees = 1 / s**2, np.asarray(A.sum(axis=1)).reshape(-1)
    bound = float(np.sum((degrees + y - low * scaled) / 4))
    longest = int(np.diff(A.indptr).max(initial=0))
    size = float(abs(A).sum() + y.sum() + abs(low) * scaled.sum()) / 4
    bound += EPS * (n + longest + 12) * size
    return Minimum(bound, "probabilistic" if failure else "exact-eigenvalue", failure)
