"""Which method runs where none is named."""

from __future__ import annotations

import numpy as np

from condgrad.functions import Linear
from condgrad.methods.declarations import sag_cgal, spdhg
from condgrad.methods.registry import Method
from condgrad.methods.whole import apg, pdhg, pfw, rpdhg
from condgrad.problem import Problem


def suited(problem: Problem) -> Method:
    """The method that runs where none is named.

    Over a set with a projection (simplex, box, balls of the l1, l2 and nuclear norm, products of
    such, and spectrahedra up to a side of 1000) it is `apg` where there is no g and f is not
    linear. With a g it is `rpdhg` where f is linear and projections are by a formula, else `pdhg`,
    but not over spectrahedra. Over a set of which only an oracle is known it is `pfw` where there
    is no g and f is not linear. A linear f alone is left to `sag_cgal`, whose first atoms are
    optimal.

    Over a spectrahedron `spdhg` where inequalities are many, a quarter of the entries of W at
    least. With equations the augmented Lagrangian of `sag_cgal` was about as good on dense programs
    and better on sparse ones; with few inequalities there is little between the two.
    """
    projector = problem.domain.projector()
    flat = all(isinstance(t.function, Linear) for t in problem.smooth)
    anchored = projector is not None and projector.exact and flat
    for method in (rpdhg() if anchored else pdhg(), apg()):
        if method.suits(problem):
            return method
    if projector is None and problem.domain.face is None:
        method = pfw()
        if method.suits(problem):
            return method
    method = spdhg()
    many = (
        sum(t.map.size for t in problem.composite if t.loose) >= np.prod(problem.domain.shape) / 4
    )
    return method if many and method.suits(problem) else sag_cgal()
