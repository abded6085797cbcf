"""Stochastic average gradient."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from condgrad._types import Array, Params, Rows
from condgrad.backends.memory import Need
from condgrad.estimators._base import Estimator, Sampled, State, chunks, kept
from condgrad.estimators.sampling import Batch, Sampler, batch_size, check_batch
from condgrad.estimators.tables import (
    DenseTable,
    Kind,
    Table,
    check_table,
    make_table,
    table_memory,
)
from condgrad.points.dense import Dense
from condgrad.problem import Problem, Term


@dataclass
class SagState(Sampled):
    """The table of slopes, and what draws their rows."""

    table: Table = field(kw_only=True)


@dataclass(frozen=True)
class SAG(Estimator):
    r"""Stochastic average gradient: a table of slopes, the drawn rows overwritten.

    .. math:: γ_l ← h'_{β_k,l}(⟨a_l, W_k⟩) \text{ for the drawn rows}, \qquad G = A^*γ

    A row keeps the slope of the β at which it was last drawn.

    Parameters
    ----------
    batch : int or float, default 1
        Rows per iteration, a count or a fraction.
    replace : bool, default False
        Draw with replacement.
    table : {"auto", "dense", "sparse"}
        Store every row, or only those touched with a slope other than 0. ``"auto"`` stores every
        row where that takes at most half of the free memory.
    table_dtype : float64 or float32
        Precision of the table.
    warm_start : bool, default False
        Fill the table by a full pass at the first iteration, instead of starting from 0.
    rescale : bool, default False
        Store β h'_β and divide by the current β, so that old entries follow β. For an indicator
        this is the plain residual z − proj z; old slopes of a Lipschitz function can leave their
        range by the factor β_old/β.

    References
    ----------
    .. [1] G. Négiar et al., "Stochastic Frank-Wolfe for constrained finite-sum minimization",
       ICML 2020.
    .. [2] G. Dresdner et al., AISTATS 2022, Algorithm 1 and Variant 2.
    """

    samples: ClassVar[bool] = True
    by_row: ClassVar[bool] = True
    batch: Batch = 1
    replace: bool = False
    table: Kind = "auto"
    table_dtype: Any = np.float64
    warm_start: bool = False
    rescale: bool = False

    def __post_init__(self) -> None:
        check_batch(self.batch)
        check_table(self.table, self.table_dtype)

    def init(self, term: Term, problem: Problem) -> SagState:
        table = make_table(term.map.size, self.table, self.table_dtype)
        sampler = Sampler(term.map.size, self.replace)
        return SagState(term.map.zeros(problem.dtype), sampler=sampler, table=table)

    def memory(self, term: Term, problem: Problem) -> list[Need]:
        table = table_memory(term.map.size, self.table, self.table_dtype, self.most(term))
        remedy = f"keep a sparse table of {term.name} (table='sparse')"
        if np.dtype(self.table_dtype) == np.float64:
            remedy += " or one in single precision (table_dtype='float32')"
        return [*super().memory(term, problem), Need(f"table of {term.name}", table, remedy)]

    def update(self, s: State, term: Term, W: Dense, p: Params, rng: np.random.Generator) -> None:
        assert isinstance(s, SagState)
        size = term.map.size
        if self.warm_start and p.k == 1:
            drawn: Rows = slice(0, size)
        else:
            drawn = s.sampler.draw(batch_size(self.batch, size), rng)
        for at in chunks(drawn, term):
            y = term.function.slope(W.rows(term.map, at), p.beta, at)
            if self.rescale and not term.function.smooth:
                y *= p.beta
            term.map.scatter(s.G, at, s.table.swap(at, y))
            s.evaluated += y.size
        if self.rescale and not term.function.smooth:
            s.gain = 1 / p.beta

    def duals(self, s: State, term: Term) -> dict[str, Array]:
        assert isinstance(s, SagState)
        if self.rescale or not isinstance(s.table, DenseTable):
            return {}  # the slopes at W serve instead
        return {"slopes": s.table.values}

    def error(self, s: State, term: Term, W: Dense, beta: float) -> float:
        assert isinstance(s, SagState)
        total = 0.0
        for b, y in kept(s.table, term):
            off = term.function.slope(W.rows(term.map, b), beta, b) - s.gain * y
            total += float(np.abs(off).sum(dtype=np.float64))
        return term.weight * total
