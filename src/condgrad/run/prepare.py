"""Preparations of a run: memory, a first point, random numbers."""

from __future__ import annotations

import gc
import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from condgrad import _deadline as deadline
from condgrad._check import array_of, as_float64
from condgrad._types import Array
from condgrad.backends import devices, memory, tiles
from condgrad.backends.arrays import MANY, foreign
from condgrad.backends.arrays import placed as sent
from condgrad.cluster import Engine, dealt, large
from condgrad.domains import Domain
from condgrad.errors import MemoryLimit, ProblemError
from condgrad.estimators import Estimator
from condgrad.maps import LinearMap
from condgrad.methods.lead import Lead
from condgrad.methods.registry import Method
from condgrad.problem import Problem, Term

IMAGES = 5
"""Arrays as long as the rows that are worked on at a time, on a GPU."""
SMALLER = "solve a smaller problem, or use device='cpu' if that has more memory"


def needs(
    problem: Problem,
    estimators: Sequence[Estimator],
    here: Callable[[Term], bool] = lambda t: True,
) -> list[memory.Need]:
    """Memory that a run takes, by parts; `here` says whose rows are in this process.

    Sixteen arrays shaped as W, in float64, are for the iterate, the best one and the one before,
    the direction, the oracle and the bound, which takes two more for every term. On a GPU, where
    bounds are computed in place, they are thirteen, with one for a rounded solution.
    """
    there = foreign(problem.like)
    arrays, remedy = (13 if there else 16) + 2 * len(problem.terms), SMALLER if there else ""
    size = arrays * 8 * int(np.prod(problem.domain.shape))
    dense = memory.Need("W, direction and oracle", size, remedy)
    pairs = zip(estimators, problem.terms, strict=True)
    return [dense, *itertools.chain(*(e.memory(t, problem) for e, t in pairs if here(t)))]


def leading(
    problem: Problem, method: Method, device: str, engine: Engine | None = None
) -> tuple[Lead | None, list[Estimator], Problem]:
    """The method that runs before this one, if there is memory for it, who begins, and where.

    On a GPU tables that are too large in float32 are in bfloat16, if that is left to be chosen.
    """
    lead = method.first
    if lead is not None:
        first = [lead.method.estimator(t) for t in problem.terms]
        try:
            return lead, first, placed(problem, first, device, engine)
        except MemoryLimit:
            pass
    own = [method.estimator(t) for t in problem.terms]
    try:
        return None, own, placed(problem, own, device, engine)
    except MemoryLimit as error:
        halves = [e.halved() for e in own]
        gpu = device != "cpu" if engine is None else engine.gpu
        if not gpu or halves == own:
            raise
        try:
            return None, halves, placed(problem, halves, device, engine)
        except ProblemError:
            raise error from None


def placed(
    problem: Problem, estimators: Sequence[Estimator], device: str, engine: Engine | None = None
) -> Problem:
    """The problem where a run will keep its arrays.

    Raises
    ------
    ProblemError
        Where it cannot be there: no GPU, parts that need the CPU, or too little memory.
    """
    devices.check_device(device)
    if engine is not None:
        return _dealt(problem, estimators, device, engine)
    there, free = problem, 0.0
    try:
        if device == "cuda" or (device == "auto" and _worth(problem)):
            check_portable(problem)  # before anybody is sent for CuPy
            for t, e in zip(problem.terms, estimators, strict=True):
                require_portable(e, f"the method follows the rows of {t.name!r} by")
            like = devices.on_gpu()
            free = _free(problem)  # before its data are there
            there = moved(problem, like)
    except ProblemError:
        if device == "cuda":
            raise
        there = problem
    if there is problem:
        return _here(problem, estimators)
    side, entries = problem.domain.shape[0], int(np.prod(problem.domain.shape))
    extra = [
        memory.Need("images of entries", IMAGES * 8 * min(entries, MANY)),
        *(memory.Need(f"rows of {t.name} as given", t.map.load) for t in problem.terms),
        *(memory.Need("sums", tiles.buffers(side)) for t in there.terms if t.passes.halves),
    ]
    parts = [*needs(there, estimators), *extra]
    try:
        memory.require(parts, free, "a GPU's memory")
    except ProblemError:
        if device == "cuda":
            raise
        return _here(problem, estimators)
    return there


def _dealt(
    problem: Problem, estimators: Sequence[Estimator], device: str, engine: Engine
) -> Problem:
    """The problem with its large terms at actors, and the rest here, on the CPU or a GPU."""
    there, free, where = problem, None, "memory"
    if device == "cuda":
        check_portable(problem)
        like, where = devices.on_gpu(), "a GPU's memory"
        free, there = _free(problem), moved(problem, like)
    memory.require(needs(there, estimators, here=lambda t: not large(t)), free, where)
    return dealt(there, estimators, engine)


def _free(problem: Problem) -> float:
    """Bytes that a run can have on the GPU."""
    if devices.free_memory() < 20 * 8 * float(np.prod(problem.domain.shape)):
        gc.collect()  # runs before this one may still hold some
    return devices.free_memory()


def _here(problem: Problem, estimators: Sequence[Estimator]) -> Problem:
    """The problem itself, where it is for the CPU."""
    for e in estimators:
        if (objection := e.refused()) is not None:
            raise ProblemError(objection)
    memory.require(needs(problem, estimators))
    return problem


def moved(problem: Problem, like: Array) -> Problem:
    """Return the problem for W where `like` lies, on a GPU.

    Raises
    ------
    ProblemError
        Where some part cannot be there: it names that part.
    """
    check_portable(problem)
    pairs = [(t, t.map.on(like), t.function.on(like)) for t in problem.terms]
    terms = [replace(t, map=map, function=function) for t, map, function in pairs]
    domain, weights = problem.domain.on(like), problem.infeasibility_weights
    there = Problem(domain, terms, infeasibility_weights=weights, dtype=problem.dtype)
    there.like = like
    return there


def check_portable(problem: Problem) -> None:
    """Refuse a problem with a part that cannot be on a GPU."""
    for t in problem.terms:
        for part in (t.map, t.function):
            require_portable(part, f"term {t.name!r} has")
    require_portable(problem.domain, "the domain is")


def require_portable(part: Any, what: str) -> None:
    """Refuse a part that cannot be on a GPU, or is made of such."""
    if "portable" not in vars(type(part)):
        name = type(part).__name__
        article = "an" if name[0] in "AEIO" else "a"
        raise ProblemError(f"{what} {article} {name}, which cannot be on a GPU: use device='cpu'")
    for value in vars(part).values():
        inner = value if isinstance(value, tuple) else (value,)
        for one in inner:
            if isinstance(one, LinearMap):
                require_portable(one, what)


def _worth(problem: Problem) -> bool:
    """Whether a GPU would gain on the CPU."""
    face = problem.domain.face
    sides = [] if face is None else [part.stop - part.start for part in face.parts]
    many = sum(t.map.size for t in problem.terms) >= devices.WORTH
    return many or max(sides, default=0) >= devices.WIDE


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
    array = array_of("start", start)
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
    if array.dtype not in (np.float64, np.float32):
        array = as_float64("start", array)
    if not np.isfinite(array).all():
        raise ProblemError("start contains NaN or infinity: replace those entries")
    array = sent(array, problem.like)
    if array.ndim == 2 and problem.domain.symmetric:  # eigenvalues will be asked for
        deadline.require(deadline.cost(array.shape[0], 4 * deadline.CHOLESKY))
    if not problem.domain.contains(array, 1e-6):
        raise ProblemError(
            f"start lies outside the {type(problem.domain).__name__}: scale or project it, or "
            "leave it out to start from the domain's centre"
        )
    return array.astype(problem.dtype, copy=not foreign(array))


def fitted(W: Array, domain: Domain) -> Array:
    """W, scaled to the trace of a domain that fixes it."""
    face = domain.face
    if face is None or not face.equality:
        return W
    offset = 0.0 if face.offset is None else face.offset
    total = float(np.trace(W - offset))
    there = total <= 0 or np.isclose(total, face.trace, rtol=1e-9, atol=0)
    return W if there else offset + (face.trace / total) * (W - offset)
