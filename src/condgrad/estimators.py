"""Estimators of a term's gradient: the parts that methods are composed of.

Every term is differentiable after smoothing, with slopes y_l = h'_l(z_l) or y_l = h'_{β,l}(z_l),
and its gradient is ω A*y. An estimator keeps an estimate of A*y in the map's cotangent storage. It
does not care whether the term is a loss or a constraint.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from condgrad._types import ALL, Array, Params, Rows
from condgrad.errors import ProblemError
from condgrad.functions._base import Proximable
from condgrad.points.dense import Dense
from condgrad.problem import Problem, Term
from condgrad.sampling import Batch, Sampler, batch_size, check_batch
from condgrad.schedules import epoch_length, power_of_two
from condgrad.tables import DenseTable, Kind, Table, check_table, make_table


@dataclass
class State:
    """What an estimator remembers of one term."""

    G: Array
    """Cotangent: the estimate of A*y, up to `gain`."""
    gain: float = 1.0
    """Factor on G."""
    rows: int = 0
    """Rows evaluated so far, at either point."""
    sampler: Sampler | None = None
    table: Table | None = None
    y: Array | None = None
    """Multipliers (Augmented)."""
    reach: float = 0.0
    """D_W ‖A‖ (Augmented)."""


class Estimator(ABC):
    """A rule that follows the gradient of one term."""

    needs_previous: ClassVar[bool] = False
    """Whether it evaluates rows at W_{k−1} too."""
    samples: ClassVar[bool] = False
    """Whether it draws rows, which needs a separable function."""
    needs_rho: ClassVar[bool] = False
    """Whether it stands still with a schedule that has ρ = 0."""
    by_row: ClassVar[bool] = False
    """Whether it keeps a slope for every row, so that `error` is known."""

    def init(self, term: Term, problem: Problem) -> State:
        """State before the first iteration: the estimate is 0."""
        sampler = Sampler(term.map.size, getattr(self, "replace", False)) if self.samples else None
        return State(term.map.zeros(problem.dtype), sampler=sampler)

    @abstractmethod
    def update(self, s: State, term: Term, W: Dense, p: Params, rng: np.random.Generator) -> None:
        """Bring the estimate to iteration p.k, in place."""

    def error(self, s: State, term: Term, W: Dense, beta: float) -> float:
        """ω ‖h'_β(A W) − y‖_1 of the slopes y it keeps; NaN where it keeps none (`by_row`)."""
        return float("nan")

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

    by_row: ClassVar[bool] = True

    def update(self, s: State, term: Term, W: Dense, p: Params, rng: np.random.Generator) -> None:
        full_pass(s, term, W, p.beta)

    def error(self, s: State, term: Term, W: Dense, beta: float) -> float:
        return 0.0


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

    def init(self, term: Term, problem: Problem) -> State:
        s = super().init(term, problem)
        s.table = make_table(term.map.size, self.table, self.table_dtype)
        return s

    def update(self, s: State, term: Term, W: Dense, p: Params, rng: np.random.Generator) -> None:
        assert s.sampler is not None
        assert s.table is not None
        size = term.map.size
        if self.warm_start and p.k == 1:
            drawn: Rows = slice(0, size)
        else:
            drawn = s.sampler.draw(batch_size(self.batch, size), rng)
        for at in blocks(drawn, term):
            y = term.function.slope(W.rows(term.map, at), p.beta, at)
            if self.rescale and not term.function.smooth:
                y *= p.beta
            term.map.scatter(s.G, at, s.table.swap(at, y))
            s.rows += y.size
        if self.rescale and not term.function.smooth:
            s.gain = 1 / p.beta

    def error(self, s: State, term: Term, W: Dense, beta: float) -> float:
        assert s.table is not None
        total = 0.0
        for b, y in kept(s.table, term):
            off = term.function.slope(W.rows(term.map, b), beta, b) - s.gain * y
            total += float(np.abs(off).sum(dtype=np.float64))
        return term.weight * total


class Recursive(Estimator):
    r"""G ← keep·G + now·ĝ_k(W_k) − before·ĝ_k(W_{k−1}), one batch for both points.

    ĝ_k is the unbiased batch estimate, the drawn rows scaled by size/batch. Momentum, STORM and
    SPIDER are three rows of coefficients.
    """

    samples: ClassVar[bool] = True

    @abstractmethod
    def coefficients(self, p: Params) -> tuple[float, float, float]:
        """(keep, now, before)."""

    @abstractmethod
    def rows_now(self, p: Params, term: Term) -> int:
        """Rows to draw at this iteration."""

    def restarts(self, p: Params) -> bool:
        """Whether this iteration takes the full gradient instead."""
        return False

    def update(self, s: State, term: Term, W: Dense, p: Params, rng: np.random.Generator) -> None:
        if self.restarts(p):
            full_pass(s, term, W, p.beta)
            return
        assert s.sampler is not None
        keep, now, before = self.coefficients(p)
        batch = self.rows_now(p, term)
        scale = term.map.size / batch
        s.G *= keep
        for at in blocks(s.sampler.draw(batch, rng), term):
            y = (now * scale) * term.function.slope(W.rows(term.map, at), p.beta, at)
            s.rows += y.size
            if before and p.k > 1 and W.previous is not None:
                z = W.previous.rows(term.map, at)
                y -= (before * scale) * term.function.slope(z, p.beta_before, at)
                s.rows += y.size
            term.map.scatter(s.G, at, y.astype(s.G.dtype, copy=False))


@dataclass(frozen=True)
class Batched(Recursive):
    """A recursion with ρ and a batch that stays the same."""

    needs_rho: ClassVar[bool] = True
    batch: Batch = 1
    replace: bool = False

    def __post_init__(self) -> None:
        check_batch(self.batch)

    def rows_now(self, p: Params, term: Term) -> int:
        return batch_size(self.batch, term.map.size)


@dataclass(frozen=True)
class Momentum(Batched):
    r"""d_k = (1 − ρ_k) d_{k−1} + ρ_k ĝ_k(W_k), d_0 = 0.

    Parameters
    ----------
    batch : int or float, default 1
        Rows per iteration, a count or a fraction.
    replace : bool, default False
        Draw with replacement.

    References
    ----------
    .. [1] A. Mokhtari, H. Hassani, A. Karbasi, "Stochastic conditional gradient methods",
       JMLR 21, 2020.
    """

    def coefficients(self, p: Params) -> tuple[float, float, float]:
        return 1 - p.rho, p.rho, 0.0


@dataclass(frozen=True)
class Storm(Batched):
    r"""d_k = ĝ_k(W_k) + (1 − ρ_k)(d_{k−1} − ĝ_k(W_{k−1})), the same rows at both points.

    The earlier point is evaluated with its own β_{k−1}.

    Parameters
    ----------
    batch : int or float, default 1
        Rows per iteration, a count or a fraction.
    replace : bool, default False
        Draw with replacement.

    References
    ----------
    .. [1] A. Cutkosky, F. Orabona, "Momentum-based variance reduction in non-convex SGD",
       NeurIPS 2019.
    """

    needs_previous: ClassVar[bool] = True

    def coefficients(self, p: Params) -> tuple[float, float, float]:
        return 1 - p.rho, 1.0, 1 - p.rho


@dataclass(frozen=True)
class Spider(Recursive):
    r"""v_k = v_{k−1} + ĝ_k(W_k) − ĝ_k(W_{k−1}), with a full gradient at every restart.

    With the defaults restarts fall where k is a power of two and the epoch that starts at 2^t
    draws min(2^t, size) rows at each of its iterations.

    Parameters
    ----------
    restart : callable
        k ↦ whether iteration k takes the full gradient.
    batch_at : callable
        k ↦ rows to draw at iteration k.
    replace : bool, default False
        Draw with replacement.

    References
    ----------
    .. [1] C. Fang et al., "SPIDER: near-optimal non-convex optimization via stochastic
       path-integrated differential estimator", NeurIPS 2018.
    """

    needs_previous: ClassVar[bool] = True
    restart: Callable[[int], bool] = power_of_two
    batch_at: Callable[[int], int] = epoch_length
    replace: bool = False

    def coefficients(self, p: Params) -> tuple[float, float, float]:
        return 1.0, 1.0, 1.0

    def rows_now(self, p: Params, term: Term) -> int:
        return min(self.batch_at(p.k), term.map.size)

    def restarts(self, p: Params) -> bool:
        return self.restart(p.k)


@dataclass(frozen=True)
class Augmented(Estimator):
    r"""The exact gradient of the augmented Lagrangian, with CGAL's multipliers y.

    .. math:: γ = h'_{β_k}(z + β_k y), \qquad y ← y + σ r,
              \qquad r = z - \mathrm{prox}_{β_k h}(z + β_k y)

    The dual step of iteration k − 1 is taken at the start of iteration k, where z = A W_k is known,
    with σ = min(step, 4 η_{k−1}² D_W² ‖A‖² / (β_k ‖r‖²)); it is skipped where ‖y‖ would pass
    `bound`. Each family has its own σ; its multiplier in the problem's Lagrangian is ω y.

    Parameters
    ----------
    step : float
        Largest dual step; CGAL takes 1/β0.
    bound : float, default inf
        Bound on ‖y‖.

    References
    ----------
    .. [1] A. Yurtsever, O. Fercoq, V. Cevher, "A conditional-gradient-based augmented Lagrangian
       framework", ICML 2019.
    """

    step: float
    bound: float = float("inf")

    def __post_init__(self) -> None:
        for name, value in (("step", self.step), ("bound", self.bound)):
            number = isinstance(value, (int, float, np.number)) and not isinstance(value, bool)
            if not (number and value >= 0):
                raise ProblemError(f"{name} is {value!r}: it must be a number of at least 0")

    def init(self, term: Term, problem: Problem) -> State:
        s = super().init(term, problem)
        s.y = np.zeros(term.map.size, problem.dtype)
        s.reach = problem.domain.diameter * term.map.norm(problem.domain.symmetric)
        return s

    def update(self, s: State, term: Term, W: Dense, p: Params, rng: np.random.Generator) -> None:
        assert s.y is not None
        assert isinstance(term.function, Proximable)
        z = W.rows(term.map, ALL)
        if p.k > 1:
            r = z - term.function.prox(z + p.beta * s.y, p.beta)
            squared = float(np.vdot(r, r))
            limit = 4 * (p.eta_before * s.reach) ** 2 / p.beta
            sigma = min(self.step, limit / squared) if squared > 0 else self.step
            y = s.y + sigma * r
            if float(np.linalg.norm(y)) <= self.bound:
                s.y = y.astype(s.y.dtype, copy=False)
        s.G.fill(0)
        term.map.scatter(s.G, ALL, term.function.slope(z + p.beta * s.y, p.beta))
        s.rows += term.map.size

    def objection(self, term: Term) -> str | None:
        if term.function.smooth:
            return f"keeps multipliers for term {term.name!r}, which is smooth: use Full() there"
        return None


def blocks(at: Rows, term: Term) -> list[Rows]:
    """Drawn rows as they are; a slice of all rows in blocks that fit the cache."""
    return list(term.blocks()) if isinstance(at, slice) else [at]


def kept(table: Table, term: Term) -> Iterator[tuple[slice, Array]]:
    """The entries of a table block by block, without an array of all rows."""
    if isinstance(table, DenseTable):
        yield from ((b, table.values[b]) for b in term.blocks())
        return
    order = np.argsort(table._keys)
    keys, values = table._keys[order], table._values[order]
    for b in term.blocks():
        some, y = slice(*np.searchsorted(keys, (b.start, b.stop))), np.zeros(b.stop - b.start)
        y[keys[some] - b.start] = values[some]
        yield b, y


def full_pass(s: State, term: Term, W: Dense, beta: float) -> None:
    """G = A* h'_β(A W) over all rows."""
    term.map.begin(s.G)
    for b in term.blocks():
        term.map.put(s.G, b, W.rows(term.map, b), term.function, beta)
    s.rows += term.map.size
