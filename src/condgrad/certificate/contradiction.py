"""Whether a bound and a point refute each other.

A bound stands on the problem's parts: maps with their adjoints, functions with their conjugates,
the oracle. Where they belong together, every point W of the domain and every dual point y obey

    min_s ⟨v, s⟩ − Σ_t ω_t h_t*(y_t) ≤ ⟨v, W⟩ − Σ_t ω_t h_t*(y_t) ≤ f(W) + Σ_t ω_t ⟨y_t, r_t⟩,

r_t = z_t − proj z_t for a constraint and 0 for other terms: the first by the definition of the
minimum, the second by ⟨A*y, W⟩ = ⟨y, A W⟩ and Fenchel's inequality at z_t − r_t. So a point that
violates its constraints may lie below the bound, but not by more than ⟨y, r⟩, the violation at its
price; a feasible one not at all. Where that fails some part is wrong, and so is the bound.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

import numpy as np

from condgrad._floats import EPS, length
from condgrad._ours import ours
from condgrad._types import Array
from condgrad.backends.arrays import foreign
from condgrad.certificate.bound import Bound
from condgrad.certificate.section import nearby, served
from condgrad.problem import Problem
from condgrad.rows import Keeper, Part, together

SLACK = 1e-9
"""Rounding error that is allowed, relative to the numbers that are compared."""
GIVEN = 1e-6
"""Rounding error that is allowed for a floor, for which the worth of a violation is not known."""


class Suspicion:
    """Looks at points that lie below a bound and tells whether that can be.

    Parameters
    ----------
    problem : Problem
        The problem.
    """

    def __init__(self, problem: Problem) -> None:
        self._problem, self._k = problem, 0

    def due(self, k: int, final: bool) -> bool:
        """Whether to look at iteration k: each time the iterations have doubled, and at the end."""
        if not final and k < 2 * self._k:
            return False
        self._k = max(k, 1)
        return True

    def _slack(self, dtype: np.dtype) -> float:
        """Rounding error of the numbers compared, relative to their sizes."""
        entries = int(np.prod(self._problem.domain.shape))
        count = entries + sum(t.map.size for t in self._problem.terms)
        return float(max(SLACK, np.sqrt(entries) * _inside(dtype), count * EPS))

    def disagree(self, W: Array, parts: Sequence[Part], fw_gap: float) -> bool:
        """Whether the parts cannot be, seen at an iterate and its slopes, feasible or not.

        That is ⟨A*y, W⟩ ≠ ⟨y, A W⟩ for a term, ⟨y, z⟩ > h(z) + h*(y) for one that is no constraint,
        or min ⟨v, s⟩ > ⟨v, W⟩.
        """
        slack, reach = self._slack(W.dtype), float(self._problem.domain.reach)
        W, whole = W.astype(np.float64, copy=False), 0.0
        for t, p in zip(self._problem.terms, parts, strict=True):
            size = reach * p.sizes.spread
            if abs(float(np.vdot(p.v, W)) - p.product) > slack * size:
                return True
            size += p.sizes.conjugates + abs(p.value)
            if not t.function.indicator and p.product - p.value - p.conjugate > slack * size:
                return True
            whole += size
        return fw_gap < -slack * whole

    def one_sided(self, W: Array, rows: Sequence[Keeper], betas: Sequence[float]) -> bool:
        """Whether ⟨A*y, x⟩ ≠ ⟨y, A x⟩ for a user's map, y its slopes at W and x a random point.

        An iterate can have entries of 0, where `disagree` sees nothing.
        """
        slack, rng = self._slack(W.dtype), np.random.default_rng(0)
        for r, beta in zip(rows, betas, strict=True):
            map = r.term.map
            if ours(map):
                continue
            x = rng.standard_normal(self._problem.domain.shape)
            y = r.point("slopes", W, beta)
            off = float(np.vdot(map.adjoint(y), x)) - float(np.vdot(y, map.rows(x)))
            if abs(off) > slack * length(x) * map.spread(y):
                return True
        return False

    def confirmed(
        self,
        point: Array,
        W: Array,
        rows: Sequence[Keeper],
        betas: Sequence[float],
        bound: Bound,
    ) -> bool:
        """Whether a point of the domain lies below what the dual points at hand allow.

        Parameters
        ----------
        point : array
            The point, of the domain up to rounding (else it refutes nothing).
        W, rows, betas
            The iterate, who keeps the rows of every term, and its β.
        bound : Bound
            The bound that is in doubt; one that was given or that is Σ ω inf h has no dual point.
        """
        domain, terms = self._problem.domain, self._problem.terms
        slack, tolerance = self._slack(point.dtype), _inside(point.dtype)
        point, W = (a.astype(np.float64, copy=False) for a in (point, W))
        if not domain.contains(point, tolerance):
            return False
        objective = self._problem.objective(point)
        if bound.source == "values":  # whatever W is
            return bound.value > objective + slack * (abs(objective) + abs(bound.value))
        if bound.source == "given":
            size = abs(objective) + abs(bound.value) + 1e6 * self._problem.unit
            met = all(v.max == 0 for v in self._problem.violations(point).values())
            return met and bound.value > objective + max(slack, GIVEN) * size
        near: dict[str, Any] = {"near": nearby(W)} if served(domain, W) else {}
        kept = any("multipliers" in r.points for r in rows)
        for source in ("slopes", "multipliers") if kept else ("slopes",):
            parts = [r.pairing(source, W, b) for r, b in zip(rows, betas, strict=True)]
            own = foreign(W) and len(parts) > 1  # the sum is nobody else's
            known: dict[str, Any] = {"spent": True} if own and domain.face is not None else {}
            low = domain.minimum(reduce(np.add, [p.v for p in parts]), **known, **near).value
            value = low - sum(p.conjugate for p in parts)
            size = abs(objective) + abs(low) + sum(p.sizes.conjugates for p in parts)
            size += domain.reach * sum(p.sizes.spread for p in parts)
            trios = zip(terms, rows, betas, strict=True)
            price = sum(r.price(source, W, b, point) for t, r, b in trios if t.function.indicator)
            if value > objective + price + slack * size and together(parts, rows):
                return True
        return False


def _inside(dtype: np.dtype) -> float:
    """How far from the domain, relative to its size, rounding may have moved an iterate."""
    return 1e3 * float(np.finfo(dtype).eps)
