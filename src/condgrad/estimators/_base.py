"""Interface of an estimator, and the exact gradient."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from condgrad._types import Array, Params, Rows
from condgrad.backends.arrays import foreign
from condgrad.backends.memory import Need
from condgrad.errors import ProblemError
from condgrad.estimators.sampling import Sampler, Stretches, batch_size
from condgrad.estimators.tables import DenseTable, Table
from condgrad.functions import Linear
from condgrad.points.dense import Dense
from condgrad.problem import CHUNK, Problem, Term


@dataclass
class State:
    """State of an estimator for one term."""

    G: Array
    """Cotangent: the estimate of A*y, up to `gain`."""
    gain: float = 1.0
    """Factor on G."""
    evaluated: int = 0
    """Rows evaluated so far, at either point."""
    settled: bool = False
    """Whether G is what it will always be."""

    @property
    def estimate(self) -> Array:
        """Estimate that enters the direction, up to `gain`."""
        return self.G

    @property
    def drawer(self) -> Sampler | Stretches | None:
        """Sampler of rows, or None."""
        return None

    @property
    def multipliers(self) -> Array | None:
        """One for every row, if they are kept."""
        return None


@dataclass
class Sampled(State):
    """State of an estimator that draws single rows."""

    sampler: Sampler = field(kw_only=True)

    @property
    def drawer(self) -> Sampler:
        return self.sampler


class Estimator(ABC):
    """A rule that follows the gradient of one term."""

    needs_previous: ClassVar[bool] = False
    """True if the estimator evaluates rows at W_{k−1} too."""
    samples: ClassVar[bool] = False
    """True if the estimator draws rows, which needs a separable function."""
    needs_rho: ClassVar[bool] = False
    """True if the estimator stands still with a schedule that has ρ = 0."""
    portable: ClassVar[bool] = False
    """True if the tables can lie on a GPU; a derived class says so anew."""
    by_row: ClassVar[bool] = False
    """True if the estimator keeps a slope for every row, so that `error` is known."""

    def init(self, term: Term, problem: Problem) -> State:
        """State before the first iteration: the estimate is 0."""
        G = term.map.zeros(problem.dtype)
        if not self.samples:
            return State(G)
        return Sampled(G, sampler=Sampler(term.map.size, getattr(self, "replace", False)))

    def memory(self, term: Term, problem: Problem) -> list[Need]:
        """Memory by parts: the state, and what an iteration allocates beside it."""
        real, rows = problem.dtype.itemsize, min(term.map.size, CHUNK)
        needs = [Need(f"gradient of {term.name}", term.map.storage * real)]
        if self.samples:
            marks = term.map.size // 8 if not getattr(self, "replace", False) else 0
            rows = max(rows, self.most(term))
            if 2 * rows > term.map.size > rows:
                marks = 8 * term.map.size  # a shuffle of all ids
            needs.append(Need(f"drawing rows of {term.name}", marks))
        advice = f"draw fewer rows of {term.name} at a time" if rows > CHUNK else ""
        return [*needs, Need(f"drawn rows of {term.name}", 6 * 8 * rows, advice)]

    def most(self, term: Term) -> int:
        """The most rows drawn at once."""
        return batch_size(self.batch, term.map.size) if hasattr(self, "batch") else term.map.size

    @abstractmethod
    def update(self, s: State, term: Term, W: Dense, p: Params, rng: np.random.Generator) -> None:
        """Bring the estimate to iteration p.k, in place."""

    def steps_by(self, term: Term) -> bool:
        """Whether spectral steps may rest on its estimate of this term."""
        return False

    def whole(self, term: Term) -> bool:
        """Whether every row of this term is taken at every iteration."""
        return False

    def adopt(self, s: State, term: Term, y: Array | None, evaluated: int) -> None:
        """Begin with the multipliers of another estimator, and its count of rows."""
        s.evaluated = evaluated

    def leave(self, s: State) -> None:
        """Let go of the memory that does not belong to multipliers: they are all that goes on."""
        return None

    def measure(self, s: State, term: Term, D: Array) -> float:
        """‖A D‖² over the rows in use, as for all rows where only some were drawn."""
        return term.passes.squares(D, [slice(0, term.map.size)], None)

    def over(self, s: State, term: Term, problem: Problem, share: float) -> State:
        """The state with which to go on over another domain, with a share of its multipliers."""
        return s

    def error(self, s: State, term: Term, W: Dense, beta: float) -> float:
        """ω ‖h'_β(A W) − y‖_1 of the slopes y it keeps; NaN where it keeps none (`by_row`)."""
        return float("nan")

    def duals(self, s: State, term: Term) -> dict[str, Array]:
        """Points of dom h* that it keeps row by row, by name; their gain is 1."""
        return {}

    def halved(self) -> Estimator:
        """Return this estimator with tables in half precision, if their precision is left open."""
        return self

    def refused(self) -> str | None:
        """A sentence that says why it cannot be on the CPU, or None."""
        return None

    def objection(self, term: Term) -> str | None:
        """A sentence that says why this estimator cannot serve the term, or None."""
        if self.samples and not term.function.separable:
            return (
                f"samples the rows of term {term.name!r}, but {type(term.function).__name__} is "
                "not separable: take the term in full with "
                f"method.override({{{term.name!r}: Full()}})"
            )
        if self.samples and hasattr(self, "batch"):
            try:
                batch_size(self.batch, term.map.size, term.name)
            except ProblemError as error:
                return f"cannot draw its rows: {error}"
        return None


@dataclass(frozen=True)
class Full(Estimator):
    """The exact gradient, by a pass over all rows: y_l = h'_{β_k}(z_l)."""

    portable: ClassVar[bool] = True
    by_row: ClassVar[bool] = True

    def update(self, s: State, term: Term, W: Dense, p: Params, rng: np.random.Generator) -> None:
        if s.settled:
            s.evaluated += term.map.size
            return
        full_pass(s, term, W, p.beta)
        s.settled = foreign(s.G) and isinstance(term.function, Linear) and not term.map.covers

    def steps_by(self, term: Term) -> bool:
        return term.function.smooth

    def whole(self, term: Term) -> bool:
        return True

    def error(self, s: State, term: Term, W: Dense, beta: float) -> float:
        return 0.0


def chunks(at: Rows, term: Term) -> list[Rows]:
    """Drawn rows as they are; a slice of all rows in chunks that fit the cache."""
    return list(term.chunks()) if isinstance(at, slice) else [at]


def kept(table: Table, term: Term) -> Iterator[tuple[slice, Array]]:
    """The entries of a table chunk by chunk, without an array of all rows."""
    if isinstance(table, DenseTable):
        yield from ((b, table.values[b]) for b in term.chunks())
        return
    order = np.argsort(table._keys)
    keys, values = table._keys[order], table._values[order]
    for b in term.chunks():
        some, y = slice(*np.searchsorted(keys, (b.start, b.stop))), np.zeros(b.stop - b.start)
        y[keys[some] - b.start] = values[some]
        yield b, y


def full_pass(s: State, term: Term, W: Dense, beta: float) -> None:
    """G = A* h'_β(A W) over all rows."""
    term.passes.gradient(W.array, s.G, term.chunks(), beta)
    s.evaluated += term.map.size
