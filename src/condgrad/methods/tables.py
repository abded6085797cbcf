"""Tables of numbers for every row of a term, of which methods draw stretches."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Self, cast

import numpy as np

from condgrad import _check
from condgrad._types import Array, Ranges
from condgrad.backends import tiles
from condgrad.backends.arrays import foreign
from condgrad.certificate.lower_bound import Duals, Slopes
from condgrad.errors import ProblemError
from condgrad.methods.protocol import Method, shared
from condgrad.methods.sampling import Batch, Stretches, batch_size, check_batch
from condgrad.passes import Stored
from condgrad.problem import Problem, Term

HALVED = "bfloat16"
"""The name of tables in half precision, on a GPU."""
FINE = 10_000_000
"""Rows up to which a table is in float64 by itself: beyond that passes wait for the memory."""


def require_gpu(problem: Problem, dtype: Any) -> None:
    """Refuse tables in half precision on a CPU."""
    gpu = foreign(problem.like) or any(t.passes.halves for t in problem.terms)
    if dtype == HALVED and not gpu:
        raise ProblemError(
            "table_dtype is 'bfloat16', which is for a GPU: use device='cuda', or float32"
        )


def stored(term: Term) -> bool:
    """Whether the cotangent of a term has a number for every row, and is a table itself."""
    return isinstance(term.passes, Stored)


def precision(term: Term, problem: Problem, dtype: Any = "auto") -> np.dtype[Any]:
    """Precision of the tables of a term: the problem's if the cotangent is one."""
    if stored(term):
        return problem.dtype
    if dtype == "auto":
        fine = term.map.size <= FINE and not term.passes.halves
        return np.dtype(np.float64 if fine else np.float32)
    if dtype == HALVED:
        return tiles.HALF if term.passes.halves else np.dtype(np.float32)
    return np.dtype(dtype)


def objection(term: Term, batch: Batch | str) -> str | None:
    """A sentence that says why rows of a term cannot be drawn, or None."""
    size = term.map.size
    if term.function.separable and isinstance(batch, (int, np.integer)) and batch > size > 1:
        return (
            f"cannot draw its rows: batch is {batch}, but term {term.name!r} has only {size} "
            f"rows: use at most {size}, or a fraction between 0 and 1"
        )
    return None


def table_bytes(term: Term, problem: Problem, numbers: int, dtype: Any = "auto") -> int:
    """Memory for so many numbers for a row, and for a function that takes all rows at once."""
    rows = 0 if term.function.separable else 5 * 8 * term.map.size
    return numbers * term.map.entries * precision(term, problem, dtype).itemsize + rows


@dataclass
class Table:
    """Multipliers of one term, and the stretches that are drawn of it."""

    G: Any
    """Cotangent of the dual point that the steps follow, or of slopes if there are no others."""
    stretches: Any = None
    """The `Stretches` of rows to draw from; None for a method that takes all rows."""
    y: Any = None
    """The multipliers; None if the slopes at W serve."""

    @property
    def followed(self) -> Any:
        """The dual point that the steps follow."""
        return self.y


@dataclass
class SlopeTable(Table):
    """Multipliers of a term, and the slopes that the steps follow."""

    slopes: Any = None
    """γ; None if G is γ, as of a map that stores rows."""

    @classmethod
    def of(cls, term: Term, problem: Problem, dtype: Any = "auto", **own: Any) -> Self:
        """With y = 0 and γ = 0."""
        make = partial(term.passes.table, precision(term, problem, dtype))
        tables = {"y": make(), "slopes": None if stored(term) else make()}
        return cls(term.map.zeros(problem.dtype), **tables, **own)

    @property
    def followed(self) -> Any:
        """γ."""
        return self.G if self.slopes is None else self.slopes

    def renew(self, term: Term, W: Array, drawn: Ranges, beta: float, theta: float) -> None:
        """γ ← h'_β(A W + βy) and y ← y + θ(γ − y) on drawn rows in place, and G with them."""
        y, slopes = self.y, self.followed

        def work(ranges: Ranges, G: Array) -> None:
            term.passes.renew(W, G, ranges, y, slopes, beta, theta)

        shared(term, drawn, work, self.G)


class Tabled(Method):
    """A method with multipliers of terms in a list `tables` of its state."""

    numbers: ClassVar[int]
    """Numbers that are kept for every row."""

    def duals(self, problem: Problem, state: Any) -> dict[str, Duals]:
        pairs = zip(state.tables, state.betas, strict=True)
        return {"slopes": [Slopes(b) if t.y is None else t.followed for t, b in pairs]}

    def multipliers(self, problem: Problem, state: Any) -> list[Any]:
        return [t.y for t in state.tables]

    def rebase(self, problem: Problem, state: Any, share: float) -> Any:
        for term, t in zip(problem.terms, state.tables, strict=True):
            if t.y is not None:
                term.passes.scale(t.followed, t.G, share)
                if t.followed is not t.y:
                    term.passes.scale(t.y, np.zeros_like(t.G), share)
        return state


class Drawing(Tabled):
    """A method that draws rows of g; a derived class has the options `batch` and `table_dtype`."""

    deals: ClassVar[bool] = True
    remedy: ClassVar[str] = (
        "keep the tables in single precision (table_dtype='float32'), or solve a smaller problem"
    )
    rounds: ClassVar[int]
    """``batch="auto"`` takes so many iterations for all rows."""
    least: ClassVar[int]
    """``batch="auto"`` draws at least so many rows for an entry of W."""
    batch: Batch | str
    table_dtype: Any

    def __post_init__(self) -> None:
        if self.batch != "auto":
            check_batch(self.batch)
        if self.table_dtype not in ("auto", HALVED):
            _check.precision("table_dtype", self.table_dtype)

    def suits(self, problem: Problem) -> str | None:
        found = (objection(t, self.batch) for t in problem.composite)
        return next((f"{self.name} {why}" for why in found if why), None)

    def portable(self, problem: Problem) -> bool:
        return True

    def lighter(self, gpu: bool) -> Method | None:
        may = gpu and self.table_dtype == "auto"
        return cast(Any, replace)(self, table_dtype=HALVED) if may else None

    def row_bytes(self, term: Term, problem: Problem) -> int:
        own = not term.function.smooth
        return table_bytes(term, problem, self.numbers, self.table_dtype) if own else 0

    def rows_now(self, term: Term) -> int:
        """Rows to draw at an iteration."""
        size = term.map.size
        if term.function.smooth or not term.function.separable:
            return size
        if self.batch == "auto":
            entries = int(np.prod(term.map.shape))
            return min(size, max(-(-size // self.rounds), self.least * entries))
        return batch_size(cast(Batch, self.batch), size)

    def stretches(self, term: Term) -> Stretches:
        """The stretches to draw the rows of a term from."""
        return Stretches.of(term.map.size, term.map.stretch, self.rows_now(term))

    def errors(self, problem: Problem, state: Any, W: Any) -> dict[str, float]:
        return {t.name: 0.0 for t in problem.smooth}
