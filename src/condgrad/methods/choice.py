"""Which method runs if none is named."""

from __future__ import annotations

import numpy as np

from condgrad.functions import Linear
from condgrad.methods import factored_apg
from condgrad.methods.apg import apg
from condgrad.methods.pdhg import pdhg
from condgrad.methods.pfw import pfw
from condgrad.methods.protocol import Method
from condgrad.methods.rpdhg import rpdhg
from condgrad.methods.sag_cgal import sag_cgal
from condgrad.methods.spdhg import spdhg
from condgrad.problem import Problem


def choose(problem: Problem, factors: bool = True) -> Method:
    """The method that runs if none is named.

    With `factors` it may keep W as factors, which it does over a nuclear ball if all terms read
    entries.

    Over a set with a projection (simplex, box, balls of the l1, l2 and nuclear norm, products of
    such, and spectrahedra up to a side of 1000) it is `apg` if there is no g and f is not linear.
    With a g it is `rpdhg` if f is linear and projections are by a formula, else `pdhg`, but not
    over spectrahedra. Over a set of which only an oracle is known it is `pfw` if there is no g and
    f is not linear. A linear f alone is left to `sag_cgal`, whose first atoms are optimal.

    Over a spectrahedron it is `spdhg` if inequalities are many, a quarter of the entries of W at
    least. With equations the augmented Lagrangian of `sag_cgal` was about as good on dense programs
    and better on sparse ones; with few inequalities there is little between the two.
    """
    if factors and factored_apg.chosen(problem):
        return factored_apg.FactoredApg()
    projector = problem.domain.projector()
    flat = all(isinstance(t.function, Linear) for t in problem.smooth)
    anchored = projector is not None and projector.exact and flat
    for method in (rpdhg() if anchored else pdhg(), apg()):
        if method.suits(problem) is None:
            return method
    if projector is None and problem.domain.face is None and pfw().suits(problem) is None:
        return pfw()
    loose = sum(t.map.size for t in problem.composite if t.loose)
    many = loose >= np.prod(problem.domain.shape) / 4
    return spdhg() if many and spdhg().suits(problem) is None else sag_cgal()
