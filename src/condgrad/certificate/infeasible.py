"""Proof that no point of the domain meets the constraints.

For y_t in dom h_t*, over the constraint families alone,

    min_{s in domain} ⟨v, s⟩ − Σ_t ω_t h_t*(y_t) > 0,      v = Σ_t ω_t A_t* y_t,

says that no s is feasible: h_t* is the support function of the set K_t, so A_t s ∈ K_t would give
⟨v, s⟩ = Σ ω_t ⟨y_t, A_t s⟩ ≤ Σ ω_t h_t*(y_t) (Farkas' lemma; Hahn and Banach for general sets). The
objective plays no part, and neither does the length of y, a *ray* along which bounds grow for ever.

If a problem is infeasible the methods run into such a ray: W tends to a point nearest to the
constraints, where the residuals z − proj z are one, and multipliers grow along them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from condgrad._floats import EPS
from condgrad._types import Array
from condgrad.certificate.lower_bound import (
    Bound,
    Duals,
    Part,
    Slopes,
    part_of,
    point_of,
    unrepaired,
)
from condgrad.problem import Problem

KEPT = 1 << 20
"""Rows up to which the multipliers of a proof are handed out unasked."""
CHEAP = 20
"""Rows per entry of W up to which a pass over them costs little beside the rest."""
STUCK = 0.7
"""A violation of which more than this is left after twice the iterations does not fall."""


class Refutation(NamedTuple):
    """Verdict of dual points on the constraints."""

    bound: Bound
    """∞ if they have no solution, else −∞; either can fail."""
    ray: dict[str, Array]
    """The multipliers y of every constraint family behind a proof; empty if they are many."""


@dataclass
class Looks:
    """When the next look is due: where the constraints are missed, and that does not change."""

    k: int = 0
    """The iteration at which the violation was last compared."""
    far: float = 0.0
    """The violation there."""

    def due(self, k: int, far: float) -> bool:
        """Whether to look at iteration k; `far` is the infeasibility in units of its tolerance.

        It must be above 1, and not have fallen since an iteration before k/2.
        """
        if k < max(1, 2 * self.k):
            return False
        stuck = far > max(1.0, STUCK * self.far)
        self.k, self.far = k, far
        return stuck


def refutation(
    problem: Problem, W: Array, duals: dict[str, Duals], betas: Sequence[float], keep: bool = False
) -> Refutation:
    """Try dual points and, if that is cheap, the residuals at W with β of every term.

    With `keep` the multipliers of a proof are handed out, however many they are.
    """
    W = W.astype(np.float64, copy=False)
    at = [i for i, t in enumerate(problem.terms) if t.function.indicator]
    terms = [problem.terms[i] for i in at]
    rows = sum(t.map.size for t in terms)
    if 0 < rows <= CHEAP * W.size:
        duals = {**duals, "residuals": [Slopes(beta) for beta in betas]}
    failure = 0.0
    for name, point in duals.items() if terms else ():
        ys = [point[i] for i in at]
        low = proof(problem, [part_of(t, W, y) for t, y in zip(terms, ys, strict=True)])
        failure += low.failure
        if low.value > 0:
            ray = {}
            if keep or rows <= KEPT:
                ray = {t.name: point_of(t, W, y) for t, y in zip(terms, ys, strict=True)}
            return Refutation(Bound(np.inf, low.kind, failure, f"ray of {name}"), ray)
    return Refutation(Bound(failure=failure), {})


def proof(problem: Problem, parts: Sequence[Part]) -> Bound:
    """min ⟨v, s⟩ − Σ ω h*(y) less the margin of a bound: a proof if it is positive.

    Limits b = A W that a user has computed are rounded, which can make a problem infeasible that
    was meant to have W alone for a solution. So what the rounding of such limits and of a W can be,
    size · ε in each of them, is taken off as well.
    """
    reach = float(problem.domain.reach)
    given = sum(reach * p.sizes.spread + p.sizes.conjugates for p in parts)
    return unrepaired(problem, parts, "", (int(np.prod(problem.domain.shape)) + 8) * EPS * given)
