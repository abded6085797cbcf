"""What a run needs before it begins: memory, a first point, random numbers."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from condgrad._types import Array
from condgrad.backends import memory
from condgrad.domains import Domain
from condgrad.errors import MemoryLimit, ProblemError
from condgrad.estimators import Estimator
from condgrad.methods.lead import Lead
from condgrad.methods.registry import Method
from condgrad.problem import Problem


def needs(problem: Problem, estimators: Sequence[Estimator]) -> list[memory.Need]:
    """What a run takes of the memory, by parts.

    Sixteen arrays shaped as W, in float64, are for the iterate, the best one and the one before,
    the direction, the oracle and the bound, which takes two more for every term.
    """
    arrays = 16 + 2 * len(problem.terms)
    dense = memory.Need("W, direction and oracle", arrays * 8 * int(np.prod(problem.domain.shape)))
    pairs = zip(estimators, problem.terms, strict=True)
    return [dense, *itertools.chain(*(e.memory(t, problem) for e, t in pairs))]


def leading(problem: Problem, method: Method) -> tuple[Lead | None, list[Estimator]]:
    """The method that runs before this one, if there is memory for it, and who begins."""
    lead = method.first
    if lead is not None:
        first = [lead.method.estimator(t) for t in problem.terms]
        try:
            memory.require(needs(problem, first))
            return lead, first
        except MemoryLimit:
            pass
    own = [method.estimator(t) for t in problem.terms]
    memory.require(needs(problem, own))
    return None, own


def generator(seed: Any) -> np.random.Generator:
    """The random numbers of a run."""
    try:
        return np.random.default_rng(seed)
    except (TypeError, ValueError):
        raise ProblemError(f"seed is {seed!r}: it must be a non-negative integer or None") from None


def first_point(problem: Problem, start: Array | None) -> Array:
    """Check the starting point."""
    if start is None:
        return problem.domain.center().astype(problem.dtype)
    array = np.asarray(start)
    if array.dtype.kind != "f":
        raise ProblemError(
            f"start has dtype {array.dtype}, which would truncate the iterates: pass "
            "start.astype(float)"
        )
    if array.shape != problem.domain.shape:
        raise ProblemError(
            f"start has shape {array.shape}, but points of the domain have {problem.domain.shape}: "
            "reshape it, or leave it out to start from the domain's centre"
        )
    if not np.isfinite(array).all():
        raise ProblemError("start contains NaN or infinity: replace those entries")
    if not problem.domain.contains(array, 1e-6):
        raise ProblemError(
            f"start lies outside the {type(problem.domain).__name__}: scale or project it, or "
            "leave it out to start from the domain's centre"
        )
    return array.astype(problem.dtype)


def fitted(W: Array, domain: Domain) -> Array:
    """W, scaled to the trace of a domain that fixes it."""
    face = domain.face
    if face is None or not face.equality:
        return W
    offset = 0.0 if face.offset is None else face.offset
    total = float(np.trace(W - offset))
    there = total <= 0 or np.isclose(total, face.trace, rtol=1e-9, atol=0)
    return W if there else offset + (face.trace / total) * (W - offset)
