"""SAG on the rows of one data matrix over the simplex or the l1 ball, many iterations in a call.

An iteration moves one entry of W and a few of G, next to which a turn of the loop in Python is
expensive. Here the iterations between two that the monitor wants to see run in one compiled call.
Rows and steps are those of `table1.ConditionalGradient`, so that both runs agree up to rounding,
which decides ties.

Reference: Négiar, Dresdner, Tsai, El Ghaoui, Locatello, Freund, Pedregosa, ICML 2020.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import cast

import numpy as np
from numpy.random import Generator

from condgrad._types import Array
from condgrad.backends import backend, ops
from condgrad.domains import L1Ball, Simplex
from condgrad.functions import Huber, Linear, Logistic, Squared
from condgrad.maps import DataMatrix
from condgrad.methods.protocol import Given, Known
from condgrad.methods.sampling import batch_size, draw_many
from condgrad.methods.table1 import SAG, ConditionalGradient, TableOneState
from condgrad.problem import Problem
from condgrad.schedules import values

LOSSES = {Linear: "c", Squared: "target", Logistic: "labels", Huber: "target"}
"""The losses in the order of their numbers in the kernel, with the name of their data."""
WORK = 10_000_000
"""Non-zeros handled in one call, a few hundredths of a second: how soon time and keyboard count."""
DRAWN = 1 << 20
"""Rows drawn ahead for one call."""


@dataclass(kw_only=True)
class VectorState(TableOneState):
    """The iterate W = c u, of which a step changes c and one entry of u.

    Both are kept, so that iterates do not depend on how many iterations a call makes.
    """

    u: Array
    """The iterate divided by c."""
    c: Array
    """The factor, an array of one number."""


@dataclass(frozen=True)
class VectorSag(ConditionalGradient):
    """The compiled form of a method with a SAG estimate of one loss."""

    matrix: tuple[Array, Array, Array, bool] = field(kw_only=True, repr=False, compare=False)
    """The rows as `DataMatrix.arrays` has them."""
    loss: tuple[int, Array, float] = field(kw_only=True, repr=False, compare=False)
    """Number of the loss, its data row by row, and δ."""

    def init(
        self, problem: Problem, W: Array, rng: Generator, known: Known, multipliers: Given = None
    ) -> VectorState:
        state = super().init(problem, W, rng, known, multipliers)
        return VectorState(**vars(state), u=W.copy(), c=np.ones(1))

    def step(self, problem: Problem, state: TableOneState, at_most: int = 1) -> VectorState:
        s, (term,), domain = cast(VectorState, state), problem.terms, problem.domain
        (kept,), k, sag = s.terms, s.k, cast(SAG, self.estimator(term))
        size, batch = term.map.size, batch_size(sag.batch, term.map.size)
        if k == 0 and sag.warm_start:
            s.rows[0] += sag.follow(kept, term, s, self.schedule(1))
            count, ids = 1, np.empty((1, 0), np.int64)
        else:
            cost = batch * (1 + self.matrix[2].size // size) + int(np.sqrt(domain.shape[0]))
            count = max(1, min(at_most, WORK // cost, DRAWN // batch))
            ids = draw_many(count, size, batch, sag.replace, s.rng)
        ball, eta = isinstance(domain, L1Ball), values(self.schedule.eta, k + 1, count)
        radius = domain.radius if isinstance(domain, L1Ball) else cast(Simplex, domain).total
        fixed = (*self.loss, ball, radius, term.weight, float(np.finfo(s.W.dtype).max))
        done = np.zeros(1, np.int64)
        point, table = (s.u, s.c, s.W), (kept.G, kept.slopes)
        try:
            ops.vector_sag(*self.matrix, *point, *table, ids, eta, *fixed, done)
        finally:  # the keyboard may have ended the call before
            steps = int(done[0])
            s.rows[0] += ids.shape[1] * steps
            if steps:
                p = self.schedule(k + steps)
                s.k, s.calls, s.eta, s.beta, s.betas = p.k, s.calls + steps, p.eta, p.beta, [p.beta]
        if steps < count:
            s.rows[0] += ids.shape[1]
            raise np.linalg.LinAlgError("the direction is not finite")
        return s


def compiled(method: ConditionalGradient, problem: Problem) -> ConditionalGradient:
    """The compiled form of a method if it has one for a problem, else the method itself.

    Types are compared exactly, since a class derived from one of them can mean something else.
    """
    term, kind = problem.terms[0], type(problem.terms[0].function)
    sag, map, size = method.estimator(term), term.map, term.map.size
    fits = (
        len(problem.terms) == 1
        and (type(method), type(sag), type(map)) == (ConditionalGradient, SAG, DataMatrix)
        and kind in LOSSES
        and type(problem.domain) in (Simplex, L1Ball)
        and backend() == "numba"
        and (size == 1 or batch_size(cast(SAG, sag).batch, size) < size)
    )
    if not fits:
        return method
    data, delta = getattr(term.function, LOSSES[kind]), getattr(term.function, "delta", 0.0)
    target = np.ascontiguousarray(data if np.size(data) == size else np.full(size, data))
    loss = (list(LOSSES).index(kind), target, float(delta))
    return VectorSag(**vars(method), matrix=cast(DataMatrix, map).arrays, loss=loss)
