"""Maximum cut."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from condgrad import _deadline as deadline
from condgrad._check import dimension, positive, rows_of
from condgrad._types import Array
from condgrad.applications import large_max_cut
from condgrad.applications._base import Application
from condgrad.applications._outcome import Rounded, Unit
from condgrad.applications.annealing import annealed
from condgrad.applications.graphs import adjacency_matrix, laplacian_of
from condgrad.applications.mixing import mixing
from condgrad.applications.rounding import KEPT, Cut
from condgrad.applications.rounding_max_cut import round_max_cut, unit_diagonal
from condgrad.backends import devices, memory
from condgrad.domains import Spectrahedron
from condgrad.errors import MemoryLimit, ProblemError
from condgrad.functions import AtLeast, AtMost, Equal, Linear
from condgrad.maps import Diagonal, Inner, Perimeters, Triangles
from condgrad.problem import Problem, Term
from condgrad.run import journal

LARGEST = 2.0**53
"""Largest integer up to which float64 counts without rounding."""
LATER, MANY = 3, 1000
"""Cuts by hyperplanes that are improved after the first time, where annealing goes on with them,
and the number of vertices above which none is."""
BOUNDS = 6
"""Bounds for which there must be time before W is dense."""
DENSE = 4 * 8
"""Bytes for an entry of W: the start and its bound."""
WORDS = "w(S, S̄) of a cut; the run on the relaxation minimises the negative of that"
CUT = Unit(what="cut", words=WORDS)
"""Unit of a maximum cut."""


def max_cut(
    adjacency: Any,
    *,
    triangles: bool = False,
    presolve: bool | None = False,
    warm: float | None = None,
    warm_seconds: float = np.inf,
    hyperplanes: int = 100,
    seed: int = 0,
) -> Application:
    r"""The semidefinite relaxation of maximum cut.

    .. math:: \max \tfrac14 ⟨L, W⟩ \quad W ⪰ 0,\; \mathrm{diag}\, W = 1

    The library minimises, so the problem has the cost −L/4, over Tr W = n; an `Outcome` speaks of
    the maximum. A cut is the feasible point xxᵀ, x = ±1, of value w(S, S̄). The points offered to
    the run are the iterates scaled to unit diagonal, so that its gap lies between a feasible point
    and the bound; only an iterate that meets `feasibility` while its scaled form misses the gap
    comes before them, and with ``feasibility=1e-9`` none does. The gap of the cut is another
    number, and the relaxation keeps it from 0.

    With more than 5000 vertices, or where W does not fit into the free memory or its bounds into a
    limit on time around this call, W = VVᵀ stays a factor: a run is then the mixing method alone,
    with a bound that may fail with a probability of 1e-10 each time (`LargeMaxCut`), and cuts are
    improved by simulated annealing.

    With `presolve` as well the vertices that allow it are taken out first, without a change of the
    optimum (`condgrad.applications.elimination`), and what is left gets triangle inequalities near
    its edges by multipliers (`local_triangles`): the bound is better, holds for cuts only, and a
    run ends at the best cut instead of the solution of this relaxation.

    With `triangles` all 4 C(n, 3) triangle inequalities of signs are added [2]_,

    .. math:: W_{ij} + W_{ik} + W_{jk} ≥ -1,\qquad W_{ij} + W_{jk} - W_{ik} ≤ 1,

    which cuts obey. The bound is much better and takes longer, for up to some hundreds of vertices;
    without a K5 minor (planar graphs, for one) it is the optimum [3]_. Only cuts are offered to the
    run then, found by hyperplanes, passes over the vertices and simulated annealing.

    Parameters
    ----------
    adjacency : array or SciPy sparse matrix
        Symmetric weights of any sign, at least 3 vertices; the diagonal is ignored.
    triangles : bool, default False
        Add the triangle inequalities. W is dense then.
    presolve : bool or None, default False
        Make the graph smaller and its relaxation tighter, with W a factor whatever the number of
        vertices; None: only where W stays a factor anyway. Not with `triangles`.
    warm : float, optional
        Start from the point of the mixing method at this relative gap, with the bound it proves as
        `floor`; on graphs it is much faster than any method here. Default: start from the identity.
        Where W stays a factor this and `warm_seconds` have no meaning: the gap and the limits are
        those of the run.
    warm_seconds : float, optional
        Limit on the time of the warm start; one around this call counts too. Ctrl-C ends
        it too, and then a run of the application has no iterations and the status ``INTERRUPTED``.
    hyperplanes : int, default 100
        How many to round with, each time.
    seed : int, default 0
        Of the hyperplanes and the warm start.

    References
    ----------
    .. [1] M. X. Goemans, D. P. Williamson, J. ACM 42(6), 1995.
    .. [2] C. Helmberg, F. Rendl, Math. Program. 82, 1998.
    .. [3] F. Barahona, A. R. Mahjoub, "On the cut polytope", Math. Program. 36, 1986.
    """
    check_room(adjacency)
    A = adjacency_matrix(adjacency, signed=True)
    n, hyperplanes = A.shape[0], dimension("hyperplanes", hyperplanes)
    if not isinstance(seed, (int, np.integer)) or isinstance(seed, bool) or seed < 0:
        raise ProblemError(f"seed is {seed!r}: it must be a non-negative integer")
    if triangles:
        require_tables(n)
        if presolve:
            raise ProblemError(
                "presolve is True, and triangles too: it makes a relaxation with triangle "
                "inequalities near edges of its own; leave one of them out"
            )
    problem = Problem(
        Spectrahedron(n, trace=n, equality=True),
        [
            Term(Inner(-0.25 * laplacian_of(A)), Linear(), name="cost"),
            Term(Diagonal(n), Equal(1.0), name="diagonal"),
            *(triangle_terms(n) if triangles else ()),
        ],
    )
    floor = -large_max_cut.positive_weight(A)
    settings: dict[str, Any] = {"vertices": n, "edges": A.nnz // 2}
    settings |= {"triangles": sum(t.map.size for t in problem.terms[2:])} if triangles else {}
    whole = bool(np.all(A.data == np.rint(A.data)) and float(abs(A).sum()) < LARGEST)
    common: dict[str, Any] = {
        "name": "max-cut",
        "preset": "auto",
        "problem": problem,
        "beta0": {"": "auto"},
        "batch": 1.0,
        "formula": " + ".join(t.name for t in problem.composite),
        "sense": "max",
        "whole": whole,
        "unit": CUT,
    }

    def large() -> bool:
        hurried = not deadline.fits(BOUNDS * deadline.cost(n, deadline.PROOF))
        much = memory.OTHER + DENSE * n * n > memory.free_memory()
        return hurried or n > large_max_cut.FACTORED or much

    if not triangles and (presolve or journal.settled("factored", large)):
        more: dict[str, Any] = {
            "floor": floor,
            "settings": settings,
            "hyperplanes": hyperplanes,
            "seed": int(seed),
            "presolve": presolve is not False,
        }
        return large_max_cut.LargeMaxCut(**common, **more, start=np.empty((0, 0)), adjacency=A)
    cold = Application(
        **common,
        start=np.eye(n),
        settings=settings,
        rounding=_Rounding(A, hyperplanes, int(seed), search=triangles),
        floor=floor,
        feasible=None if triangles else partial(_feasible, problem),
    )
    if warm is None:
        return cold
    mixed = mixing(A, positive("warm", warm), seed, warm_seconds)
    settings = {**cold.settings, "warm_start": f"mixing method, {mixed.sweeps} sweeps"}
    known: dict[str, Any] = {}
    if -mixed.bound > floor:
        known = {"floor": -mixed.bound, "floor_kind": mixed.kind, "floor_failure": mixed.failure}
    known |= {"start": mixed.W, "settings": settings, "interrupted": mixed.interrupted}
    return replace(cold, **known)


class _Rounding:
    """Cuts by hyperplanes, of which there is one before all of them are improved."""

    def __init__(self, A: Any, hyperplanes: int, seed: int, search: bool = False) -> None:
        self._how, self._found = (A, hyperplanes, seed), list[Cut]()
        self._search, self._calls = search, 0
        self._W: Any = None

    def fresh(self) -> _Rounding:
        """Another one, for another run."""
        return _Rounding(*self._how, search=self._search)

    def __call__(self, W: Any) -> Rounded:
        A, hyperplanes, seed = self._how
        self._found, self._W = [], W
        later = self._search and self._calls > 0
        passes, kept = not later or A.shape[0] <= MANY, LATER if later else KEPT
        how = (hyperplanes, seed, self._found, passes, kept)
        cut = round_max_cut(A, np.asarray(W, dtype=np.float64), *how)
        if self._search:
            self._found.append(cut)
            self._calls += 1
            cut = annealed(A, cut, [seed, self._calls])
        return _rounded(cut)

    @property
    def so_far(self) -> Rounded | None:
        """The best cut of the rounding at work, or the last one; else one that takes no time."""
        if self._W is None:
            return None
        A, hyperplanes, seed = self._how
        found = self._found or [round_max_cut(A, self._W, hyperplanes, seed, passes=False)]
        return _rounded(max(found, key=lambda cut: cut.value))


def check_room(adjacency: Any) -> None:
    """Refuse a matrix with too many rows before it is looked at."""
    n = rows_of(adjacency)
    if n > large_max_cut.FACTORED:
        large_max_cut.require_room(n)


def _rounded(cut: Cut) -> Rounded:
    sign = np.where(cut.side, 1.0, -1.0)
    return Rounded(-cut.value, np.outer(sign, sign), cut)


def _feasible(problem: Problem, W: Array, best: Rounded) -> Array:
    """W scaled to unit diagonal, or the best cut where that is better."""
    X = unit_diagonal(W)
    return X if problem.objective(X) < best.value else best.W


def triangle_terms(n: int) -> list[Term]:
    """All triangle inequalities of n signs, 4 C(n, 3) rows, as two families."""
    return [
        Term(Triangles(n, unit=True), AtMost(1.0), name="triangles"),
        Term(Perimeters(n), AtLeast(-1.0), name="perimeters"),
    ]


def require_tables(n: int) -> None:
    """Refuse so many inequalities that their multipliers will not fit, before anything is made.

    Where there is a GPU to solve on it is for `condgrad.solve` to say.
    """
    remedy = "leave triangles out, or cut a part of the graph"
    size = 4 * (n * (n - 1) * (n - 2) // 6) * np.dtype(np.float32).itemsize
    try:
        memory.require_room(size, remedy, "multipliers of all triangle inequalities")
    except MemoryLimit:
        if not devices.any_gpu():
            raise
