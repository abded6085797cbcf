"""Methods that take all rows at every iteration, for small and smooth problems: declarations."""

from __future__ import annotations

import numpy as np

from condgrad.errors import ProblemError
from condgrad.estimators import Anchored, Full, Relaxed
from condgrad.methods.anchored import Anchoring
from condgrad.methods.pairwise import PAIRWISE
from condgrad.methods.projected import ACCELERATED, RATIO, Relaxation
from condgrad.methods.registry import Method, declare
from condgrad.schedules import Constant, Schedule, smoothing


@declare(
    "pdhg",
    "PDHG",
    estimates="multipliers of all rows",
    needs="a g; f and g with a prox; a domain with a projection, not a spectrahedron",
    iterations="not proved",
    cost="not proved",
    exponent=float("nan"),
    reference="Chambolle, Pock, J. Math. Imaging Vis. 40, 2011; Condat, JOTA 158, 2013, for the "
    "relaxation",
)
def pdhg(relax: float = 1.7) -> Method:
    """Over-relaxed primal-dual steps over a domain with a projection.

    All rows move their multipliers at every iteration, those of f too, and W goes to a projection
    (`condgrad.methods.projected.RelaxedStep`, which says what is proved). Projections onto nuclear
    balls are partial singular value decompositions, each begun where the last one ended.

    Parameters
    ----------
    relax : float, default 1.7
        How far both sides go, in units of their steps; between 1 and 2.
    """
    number = isinstance(relax, (int, float, np.number)) and not isinstance(relax, bool)
    if not (number and 1 < relax < 2):
        raise ProblemError(f"relax is {relax!r}: it must lie between 1 and 2")
    schedule = Schedule(Constant(1.0), smoothing("auto", 0, 0))
    step = Relaxation(float(relax))
    own = Relaxed()
    return Method(own, own, schedule, step=step, control=RATIO)


@declare(
    "rpdhg",
    "R-PDHG",
    estimates="multipliers of all rows",
    needs="a g; f and g with a prox; a domain with a projection, not a spectrahedron",
    iterations="not proved",
    cost="not proved",
    exponent=float("nan"),
    reference="Lu, Yang, arXiv:2407.16144, 2024",
)
def rpdhg() -> Method:
    """Primal-dual steps with an anchor and restarts.

    As `pdhg`, but both sides are drawn back to where a round began, and rounds end where the
    residual has fallen (`condgrad.methods.anchored.AnchoredStep`, which says what is proved). Made
    for linear f, where steps of `pdhg` circle around the optimum.
    """
    schedule, own = Schedule(Constant(1.0), smoothing("auto", 0, 0)), Anchored()
    return Method(own, own, schedule, step=Anchoring(), control=RATIO)


@declare(
    "apg",
    "APG",
    estimates="full, –",
    needs="f smooth and not linear; g = 0; a domain with a projection",
    iterations="ε⁻¹ᐟ²",
    cost="ε⁻¹ᐟ² d n",
    exponent=2.0,
    reference="Beck, Teboulle, SIAM J. Imaging Sci. 2(1), 2009; O'Donoghue, Candès, Found. Comput. "
    "Math. 15, 2015, for restarts",
)
def apg() -> Method:
    """Accelerated projected gradients with restarts, for g = 0.

    W goes to the projection of an extrapolated point (`condgrad.methods.projected.AcceleratedStep`,
    which says what is proved).
    """
    schedule = Schedule(Constant(1.0), smoothing("auto", 0, 0))
    return Method(Full(), Full(), schedule, step=ACCELERATED)


@declare(
    "pfw",
    "PFW",
    estimates="full, –",
    needs="f smooth and not linear; g = 0",
    iterations="ε⁻¹",
    cost="ε⁻¹ d n",
    exponent=1.0,
    reference="Lacoste-Julien, Jaggi, NeurIPS 2015",
)
def pfw() -> Method:
    """Pairwise Frank-Wolfe with line search, for g = 0.

    Needs no more than the oracle of a set: mass moves from one of the atoms that W is mixed from to
    another (`condgrad.methods.pairwise.PairwiseStep`, which says what is proved).
    """
    schedule = Schedule(Constant(1.0), smoothing("auto", 0, 0))
    return Method(Full(), Full(), schedule, step=PAIRWISE)
