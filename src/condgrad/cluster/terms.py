"""Which terms are dealt, and terms that ask the actors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from condgrad._types import Array
from condgrad.backends import tiles
from condgrad.cluster.engine import Engine
from condgrad.cluster.shard import cuttable
from condgrad.errors import ProblemError
from condgrad.estimators import Ascent, Estimator, Full, SagAugmented
from condgrad.maps import Perimeters, RowStorage, Triangles
from condgrad.passes import Fused, Miss
from condgrad.problem import Problem, Term

DEALT = (Full, SagAugmented, Ascent)
"""Estimators that keep rows one by one, and of all of them sums only."""


@dataclass(frozen=True, eq=False)
class DealtTerm(Term):
    """A term whose rows are with actors: what is asked of all rows is asked of them."""

    _transient: ClassVar[tuple[str, ...]] = ("engine",)
    engine: Any = field(default=None, repr=False)

    @property
    def alone(self) -> Term:
        """The term itself, on the CPU."""
        return _given(self)

    def misses(self, W: Array, unit: float) -> list[Miss]:
        found = self.engine.ask("misses", self.name, W, unit)
        return [Miss(*miss) for part in found for miss in part]

    def lengths(self, W: Array) -> float:
        return float(sum(self.engine.ask("lengths", self.name, W)))

    def value(self, W: Array) -> float:
        return float(sum(self.engine.ask("value", self.name, W)))


def large(term: Term) -> bool:
    """Whether there are more rows than entries of W, so that dealing them is of use."""
    return term.map.size > int(np.prod(term.map.shape)) and not isinstance(term.map, RowStorage)


def require_large(problem: Problem) -> None:
    """Refuse a problem without anything to deal, before a cluster is looked for."""
    if not any(large(t) for t in problem.terms):
        raise ProblemError(
            "cluster is given, but no term has more rows than W has entries, so that there is "
            "nothing to deal: leave cluster out"
        )


def dealt(problem: Problem, estimators: Sequence[Estimator], engine: Engine) -> Problem:
    """The problem with its large terms dealt to actors.

    Raises
    ------
    ProblemError
        Where one cannot be dealt.
    """
    pairs = [(t, e) for t, e in zip(problem.terms, estimators, strict=True) if large(t)]
    for term, estimator in pairs:
        _check(_given(term), estimator, engine)
    own = [t for t, _ in pairs]
    engine.begin()
    engine.require([_given(t) for t in own], [e for _, e in pairs])
    terms = [
        DealtTerm(t.map, t.function, t.weight, t.name, engine) if t in own else t
        for t in problem.terms
    ]
    weights = problem.infeasibility_weights
    found = Problem(problem.domain, terms, infeasibility_weights=weights, dtype=problem.dtype)
    found.like = problem.like
    return found


def _given(term: Term) -> Term:
    """A term as it was before its arrays went to a GPU."""
    map, function = term.map.origin or term.map, term.function.origin or term.function
    return Term(map, function, term.weight, term.name)


def _check(term: Term, estimator: Estimator, engine: Engine) -> None:
    """Refuse a term that cannot be dealt."""
    if type(estimator) not in DEALT:
        raise ProblemError(
            f"the method follows the rows of {term.name!r} by {type(estimator).__name__}, which "
            "cannot be dealt to a cluster: use condgrad.spdhg or condgrad.sag_cgal"
        )
    if not cuttable(term.function):
        kind = type(term.function).__name__
        raise ProblemError(
            f"term {term.name!r} has a {kind}, whose rows cannot be dealt to a cluster one by one: "
            "leave cluster out"
        )
    units, what = term.map.size, "rows"
    if engine.gpu:
        fit = type(term.map) in (Triangles, Perimeters) and type(estimator) is not Full
        if not (fit and Fused.serves(term.map, term.function)):
            raise ProblemError(
                f"term {term.name!r} cannot be dealt to GPUs, which are for triangles and "
                "perimeters with one interval for all rows: use gpus_per_shard=0"
            )
        units, what = tiles.count(term.map.shape[0]), "tiles of 64 × 64 pairs"
    if engine.shards > units:
        raise ProblemError(
            f"there are {engine.shards} shards, but term {term.name!r} has only {units} {what}: "
            f"use at most {units} shards"
        )
