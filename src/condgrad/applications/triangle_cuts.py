"""Max-cut with triangle inequalities: their rows, and cuts as good as the bound deserves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from condgrad.applications.annealing import Search
from condgrad.applications.rounding import Cut
from condgrad.applications.rounding_max_cut import _cut, _improve
from condgrad.backends import backend, devices, memory
from condgrad.errors import MemoryLimit
from condgrad.functions import AtLeast, AtMost
from condgrad.maps import Perimeters, Triangles
from condgrad.problem import Term

SWEEPS = (100, 400, 2000)
"""Of simulated annealing, each time a cut is looked for; where they are not compiled only the first
two."""


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


def annealed(A: Any, cut: Cut, seed: int | Sequence[int]) -> Cut:
    """The best cut that simulated annealing finds from this one, improved by passes at the end.

    Parameters
    ----------
    A : SciPy sparse matrix
        A checked adjacency matrix, weights of any sign.
    cut : Cut
        Where to begin.
    seed : int or sequence of int
        Of the annealing.
    """
    search = Search(A, seed)
    search.descend(np.where(cut.side, 1.0, -1.0))
    for sweeps in SWEEPS[:2] if backend() == "reference" else SWEEPS:
        search.anneal(sweeps)
    sign = _improve(A, np.where(search.best.side, 1.0, -1.0))
    return max((cut, search.best, _cut(A, sign > 0)), key=lambda found: found.value)
