"""Preparations of a run: its form, where it will be, a first point, random numbers."""

from __future__ import annotations

import gc
from dataclasses import replace
from typing import Any

import numpy as np

from condgrad._check import array_of, as_float64
from condgrad._types import Array
from condgrad.backends import devices, memory, tiles
from condgrad.backends.arrays import MANY, foreign
from condgrad.backends.arrays import placed as sent
from condgrad.cluster import Engine, dealt
from condgrad.domains import Domain
from condgrad.errors import MemoryLimit, ProblemError
from condgrad.maps import LinearMap
from condgrad.methods.protocol import Method
from condgrad.points.factored import Factored, finite
from condgrad.problem import Problem

IMAGES = 5
"""Arrays as long as the rows that are worked on at a time, on a GPU."""


def prepared(
    problem: Problem, method: Method, device: str, engine: Engine | None = None
) -> tuple[Problem, Method, Method]:
    """The problem where it will run, the method, and its form for it.

    A form of the method with less memory is tried if there is too little.

    Raises
    ------
    ProblemError
        If the problem cannot be there: no GPU, parts that need the CPU, or too little memory.
    """
    form = method.on(problem)
    try:
        there = placed(problem, form, device, engine)
    except MemoryLimit:
        gpu = engine.gpu if engine is not None else device != "cpu" and devices.any_gpu()
        less = form.lighter(gpu)
        if less is None:
            raise
        return prepared(problem, less, device, engine)
    form = form.on(there)
    refusal = form.suits(there)
    if refusal is not None:
        raise ProblemError(refusal)
    return there, method, form


def placed(problem: Problem, method: Method, device: str, engine: Engine | None = None) -> Problem:
    """The problem where a run will keep its arrays."""
    devices.check_device(device)
    if engine is not None and device == "cpu":
        return dealt(problem, method, engine)
    if device == "cuda" or (device == "auto" and _worth(problem)):
        try:
            return on_gpu(problem, method, engine)
        except ProblemError:
            if device == "cuda":
                raise
    memory.require_room(method.memory(problem), method.remedy)
    return problem


def on_gpu(problem: Problem, method: Method, engine: Engine | None) -> Problem:
    """The problem with W on a GPU; a part that cannot be there is refused by its name."""
    for t in problem.terms:  # before CuPy is asked for
        for part in (t.map, t.function):
            require_portable(part, f"term {t.name!r} has")
    require_portable(problem.domain, "the domain is")
    if not method.portable(problem):
        name = method.name
        raise ProblemError(f"{name} cannot run on a GPU: leave device out, or use hcgm()")
    side, entries = problem.domain.shape[0], int(np.prod(problem.domain.shape))
    like = devices.on_gpu()
    if devices.free_memory() < 20 * 8 * entries:
        gc.collect()  # runs before this one may still hold some
    remedy = f"{method.remedy}, or use device='cpu' if that has more memory"
    try:
        pairs = [(t, t.map.on(like), t.function.on(like)) for t in problem.terms]
        terms = [replace(t, map=map, function=function) for t, map, function in pairs]
        there = problem.over(problem.domain.on(like), terms, like)
    except MemoryError:
        raise MemoryLimit("the data need more than is free of a GPU's memory", remedy) from None
    free = devices.free_memory()
    if engine is not None:
        return dealt(there, method, engine, free)
    sums = tiles.buffers(side) * sum(t.passes.halves for t in there.terms)
    beside = IMAGES * 8 * min(entries, MANY) + sums
    memory.require_room(method.memory(there) + beside, remedy, free=free, where="a GPU's memory")
    return there


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


def first_point(problem: Problem, start: Any, factors: bool = False) -> Any:
    """Check the starting point; with `factors` it is a `Factored`, of rank 0 by default."""
    if start is None and factors:
        return Factored.zeros(problem.domain.shape, problem.dtype)
    if start is None:
        return problem.domain.center().astype(problem.dtype)
    given = factors and isinstance(start, Factored)
    array: Any = start if given else array_of("start", start)
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
    if not finite(array):
        raise ProblemError("start contains NaN or infinity: replace those entries")
    if factors:
        array = array.decomposed() if given else Factored.of(array)
    else:
        array = sent(array, problem.like)
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
