"""Proof that no point of the domain meets the constraints.

For y_t in dom h_t*, over the constraint families alone,

    min_{s in domain} ⟨v, s⟩ − Σ_t ω_t h_t*(y_t) > 0,      v = Σ_t ω_t A_t* y_t,

says that no s is feasible: h_t* is the support function of the set K_t, so A_t s ∈ K_t would give
⟨v, s⟩ = Σ ω_t ⟨y_t, A_t s⟩ ≤ Σ ω_t h_t*(y_t) (Farkas' lemma; Hahn and Banach for general sets). The
objective plays no part, and neither does the length of y, a *ray* along which bounds grow for ever.

Where a problem is infeasible the methods run into such a ray: W tends to a point nearest to the
constraints, where the residuals z − proj z are one, and multipliers grow along them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from typing import NamedTuple

import numpy as np

from condgrad._floats import EPS, length
from condgrad._types import Array
from condgrad.certificate.bound import margin
from condgrad.domains import Minimum
from condgrad.problem import Problem
from condgrad.rows import Keeper, Part, together

KEPT = 1 << 20
"""Rows up to which the multipliers of a proof are handed out unasked."""
CHEAP = 20
"""Rows per entry of W up to which a pass over them costs little beside the rest."""
STUCK = 0.7
"""A violation of which more than this is left after twice the iterations does not fall."""


class Refutation(NamedTuple):
    """A proof of infeasibility, and how it is known (see `Domain.minimum`)."""

    kind: str
    failure: float
    """Probability that it is none."""
    source: str
    """Name of the dual point."""
    ray: dict[str, Array]
    """The multipliers y of every constraint family; empty where they are many."""


class Refuter:
    """Looks for a proof where the constraints are missed and that does not change.

    Parameters
    ----------
    problem : Problem
        The problem.
    keep : bool, default False
        Hand out the multipliers, however many they are.
    """

    def __init__(self, problem: Problem, keep: bool = False) -> None:
        self._problem = problem
        self._at = [i for i, t in enumerate(problem.terms) if t.function.indicator]
        self._terms = [problem.terms[i] for i in self._at]
        self._rows = sum(t.map.size for t in self._terms)
        self._keep = keep or self._rows <= KEPT
        self._k, self._far, self._failure = 0, 0.0, 0.0

    def due(self, k: int, far: float) -> bool:
        """Whether to look at iteration k; `far` is the infeasibility in units of its tolerance.

        Where it is above 1 and has not fallen since an iteration before k/2.
        """
        if not self._at or k < max(1, 2 * self._k):
            return False
        stuck = far > max(1.0, STUCK * self._far)
        self._k, self._far = k, far
        return stuck

    def look(
        self,
        W: Array,
        points: Mapping[str, Sequence[Part]],
        rows: Sequence[Keeper],
        betas: Sequence[float],
    ) -> Refutation | None:
        """Try the dual points of a certificate and, where that is cheap, the residuals at W.

        Parameters
        ----------
        W : array
            The iterate.
        points : mapping
            Parts of every term by the name of the dual point (`Report.points`).
        rows : sequence of Keeper
            Who keeps the rows of every term.
        betas : sequence of float
            β of every term.
        """
        W = W.astype(np.float64, copy=False)
        for source, parts in self._candidates(W, points, rows, betas):
            low = proof(self._problem, parts)
            self._failure += low.failure
            if not low.value > 0:
                continue
            ray: dict[str, Array] = {}
            for i, t in zip(self._at, self._terms, strict=True) if self._keep else ():
                ray[t.name] = rows[i].point(source, W, betas[i])
            if ray and not together(parts, [rows[i] for i in self._at]):
                continue
            return Refutation(low.kind, self._failure, source, ray)
        return None

    def _candidates(
        self,
        W: Array,
        points: Mapping[str, Sequence[Part]],
        rows: Sequence[Keeper],
        betas: Sequence[float],
    ) -> Iterator[tuple[str, list[Part]]]:
        """Names and parts of the dual points, the constraints alone."""
        for source, parts in points.items():
            yield source, [parts[i] for i in self._at]
        if self._rows <= CHEAP * W.size:
            yield "residuals", [rows[i].pairing("residuals", W, betas[i]) for i in self._at]


def proof(problem: Problem, parts: Sequence[Part]) -> Minimum:
    """min ⟨v, s⟩ − Σ ω h*(y) less the margin of `certificate`: a proof where it is positive.

    Limits b = A W that a user has computed are rounded, which can make a problem infeasible that
    was meant to have W alone for a solution. So what the rounding of such limits and of a W can be,
    size · ε in each of them, is taken off as well.
    """
    conjugate = sum(p.conjugate for p in parts)
    v = reduce(np.add, [p.v for p in parts])
    rounding = margin([p.sizes for p in parts], problem.domain.reach, len(problem.terms))
    if not np.isfinite([rounding, conjugate, length(v)]).all():
        return Minimum(-np.inf, "none")
    low = problem.domain.minimum(v)
    rounding += 2 * EPS * (abs(low.value) + abs(conjugate))
    data = [problem.domain.reach * p.sizes.spread + p.sizes.conjugates for p in parts]
    rounding += (v.size + 8) * EPS * sum(data)
    return low._replace(value=low.value - conjugate - rounding)
