"""Estimators that keep multipliers."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar, cast

import numpy as np

from condgrad._types import ALL, Array, Params
from condgrad.backends import threads, tiles
from condgrad.backends.arrays import foreign
from condgrad.backends.memory import Need
from condgrad.errors import ProblemError
from condgrad.estimators._base import Estimator, State
from condgrad.estimators.sampling import Batch, Stretches, batch_size, check_batch
from condgrad.estimators.tables import check_table
from condgrad.functions import Proximable
from condgrad.maps import RowStorage
from condgrad.points.dense import Dense
from condgrad.problem import Problem, Term
from condgrad.schedules import Power, Sequence

HALVED = "bfloat16"
"""The name of tables in half precision, on a GPU."""
CUBE_ROOT = Power(1.0, 1.0, 1 / 3)
"""(k + 1)^(−1/3)."""
FINE = 10_000_000
"""Rows up to which a table is in float64 by itself: beyond that passes wait for the memory."""


@dataclass
class AugmentedState(State):
    """CGAL's multipliers."""

    y: Array = field(kw_only=True)
    slopes: Array = field(kw_only=True)
    """γ of the latest iteration, 0 before the first."""
    reach: float = field(kw_only=True)
    """D_W ‖A‖."""

    @property
    def multipliers(self) -> Array:
        return self.y


@dataclass
class TableState(State):
    """A slope and a multiplier for every row, and what draws rows."""

    y: Array = field(kw_only=True)
    slopes: Array = field(kw_only=True)
    stretches: Stretches = field(kw_only=True)
    drawn: list[slice] = field(default_factory=list)
    """The stretches of the latest draw."""
    _spare: list[Array] = field(default_factory=list)

    @property
    def drawer(self) -> Stretches:
        return self.stretches

    @property
    def multipliers(self) -> Array:
        return self.y

    def spare(self, number: int) -> list[Array]:
        """Cotangents of 0 for other threads to sum into, the same arrays at every call."""
        while len(self._spare) < number:
            self._spare.append(np.empty_like(self.G))
        for G in self._spare[:number]:
            G.fill(0)
        return self._spare[:number]


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

    def init(self, term: Term, problem: Problem) -> AugmentedState:
        G, y = term.map.zeros(problem.dtype), np.zeros(term.map.size, problem.dtype)
        return AugmentedState(G, y=y, slopes=np.zeros_like(y), reach=_reach(term, problem))

    def over(self, s: State, term: Term, problem: Problem, share: float) -> State:
        assert isinstance(s, AugmentedState)
        y, slopes, G = share * s.y, share * s.slopes, share * s.G
        return replace(s, y=y, slopes=slopes, G=G, reach=_reach(term, problem))

    def memory(self, term: Term, problem: Problem) -> list[Need]:
        rows = 7 * term.map.size * problem.dtype.itemsize
        remedy = "use sag_cgal(batch=1.0), which works in stretches"
        return [*super().memory(term, problem), Need(f"rows of {term.name}", rows, remedy)]

    def update(self, s: State, term: Term, W: Dense, p: Params, rng: np.random.Generator) -> None:
        assert isinstance(s, AugmentedState)
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
        s.slopes = term.function.slope(z + p.beta * s.y, p.beta)
        s.G.fill(0)
        term.map.scatter(s.G, ALL, s.slopes)
        s.evaluated += term.map.size

    def duals(self, s: State, term: Term) -> dict[str, Array]:
        assert isinstance(s, AugmentedState)
        if not s.evaluated:
            return {"multipliers": s.y}
        return {"slopes": s.slopes, "multipliers": s.y}

    def objection(self, term: Term) -> str | None:
        if term.function.smooth:
            return f"keeps multipliers for term {term.name!r}, which is smooth: use Full() there"
        return None


@dataclass(frozen=True)
class SagAugmented(Estimator):
    r"""SAG on the rows of the augmented Lagrangian, with a multiplier y_l for every row.

    .. math:: γ_l ← h'_{β_k,l}(z_l + β_k y_l), \qquad y_l ← y_l + θ_k (γ_l - y_l)
              \text{ for the drawn rows}, \qquad G = A^*γ

    With θ_k = β_k/β0 the second step is CGAL's y + σ(z − prox_{βh}(z + βy)) with σ = 1/β0. Both γ
    and y stay in dom h*, so both are points of the dual problem. Rows are drawn in contiguous
    stretches (`maps.LinearMap.stretch`: the rows of one apex, a row of W), each once a round.
    A function that is not separable, or a term that is cheap beside W, is taken whole.

    Parameters
    ----------
    batch : int, float or "auto"
        Rows per iteration: a count, a fraction, or a fifth of them but at least twenty per entry
        of W.
    rate : callable
        k ↦ θ_k in [0, 1].
    table_dtype : float64, float32, "bfloat16" or "auto"
        Precision of the two numbers kept per row; ``"auto"``: float64 for up to 10⁷ rows, but
        for triangles on a GPU. Bounds are summed from them in float64. ``"bfloat16"`` is for a GPU,
        and of triangles only; other tables are in float32 there.

    References
    ----------
    .. [1] G. Dresdner et al., AISTATS 2022, Variant 2, for the table of slopes.
    .. [2] A. Yurtsever, O. Fercoq, V. Cevher, ICML 2019, for the multipliers.
    """

    portable: ClassVar[bool] = True
    rounds: ClassVar[int] = 5
    """Iterations in which every row is drawn once, if ``batch="auto"`` and `least` is met."""
    least: ClassVar[int] = 20
    """Least number of drawn rows per entry of W, if ``batch="auto"``."""
    kept: ClassVar[int] = 2
    """Numbers kept per row."""
    batch: Batch | str = "auto"
    rate: Sequence = CUBE_ROOT
    table_dtype: Any = "auto"

    def __post_init__(self) -> None:
        if self.batch != "auto":
            check_batch(cast(Batch, self.batch))
        if not (isinstance(self.table_dtype, str) and self.table_dtype in ("auto", HALVED)):
            check_table("dense", self.table_dtype)

    def init(self, term: Term, problem: Problem) -> TableState:
        G, size, dtype = term.map.zeros(problem.dtype), term.map.size, self._dtype(term, problem)
        slopes = G if isinstance(term.map, RowStorage) else term.map.table(dtype)
        stretches = Stretches(size, term.map.stretch, self.rows_now(term))
        return TableState(G, y=term.map.table(dtype), slopes=slopes, stretches=stretches)

    def _dtype(self, term: Term, problem: Problem) -> np.dtype:
        """Precision of the table."""
        if isinstance(term.map, RowStorage):
            return problem.dtype
        if isinstance(self.table_dtype, str) and self.table_dtype == "auto":
            tiled = foreign(problem.like) and term.map.kernels is not None
            fine = term.map.size <= FINE and not tiled
            return np.dtype(np.float64 if fine else np.float32)
        if self._halved:
            return tiles.HALF if term.passes.halves else np.dtype(np.float32)
        return np.dtype(self.table_dtype)

    @property
    def _halved(self) -> bool:
        return isinstance(self.table_dtype, str) and self.table_dtype == HALVED

    def halved(self) -> Estimator:
        auto = isinstance(self.table_dtype, str) and self.table_dtype == "auto"
        return replace(self, table_dtype=HALVED) if auto else self

    def refused(self) -> str | None:
        if not self._halved:
            return None
        return "table_dtype is 'bfloat16', which is for a GPU: use device='cuda', or float32"

    def memory(self, term: Term, problem: Problem) -> list[Need]:
        numbers = 1 if isinstance(term.map, RowStorage) else self.kept
        dtype = self._dtype(term, problem)
        table = numbers * term.map.entries * dtype.itemsize
        remedy = "from Python use h_sag_v2(table='sparse'), which keeps what was ever missed"
        if dtype == np.float64 and not isinstance(term.map, RowStorage):
            remedy = "keep the table in single precision (table_dtype='float32')"
        elif isinstance(term.map, RowStorage):
            remedy = "solve in single precision (problem.astype('float32'))"
        needs = [Need(f"multipliers of {term.name}", table, remedy)]
        if not term.function.separable:
            needs.append(Need(f"rows of {term.name}", 5 * 8 * term.map.size))
        return [*super().memory(term, problem), *needs]

    def rows_now(self, term: Term) -> int:
        """Rows to draw at each iteration."""
        size = term.map.size
        if not term.function.separable:
            return size
        if self.batch == "auto":
            return min(
                size, max(-(-size // self.rounds), self.least * int(np.prod(term.map.shape)))
            )
        return batch_size(cast(Batch, self.batch), size)

    def update(self, s: State, term: Term, W: Dense, p: Params, rng: np.random.Generator) -> None:
        assert isinstance(s, TableState)
        theta = min(1.0, self.rate(p.k)) if p.theta is None else p.theta
        drawn = s.drawn = s.stretches.draw(rng)
        parts = threads.share(drawn) if term.passes.parallel else [drawn]
        own, rest = [s.G, *s.spare(len(parts) - 1)], (s.y, s.slopes, p.beta, theta)
        pairs = zip(own, parts, strict=True)
        threads.run([partial(term.passes.renew, W.array, G, part, *rest) for G, part in pairs])
        for G in own[1:]:
            s.G += G
        s.evaluated += sum(at.stop - at.start for at in drawn)

    def steps_by(self, term: Term) -> bool:
        return not term.function.smooth

    def whole(self, term: Term) -> bool:
        return self.rows_now(term) == term.map.size

    def leave(self, s: State) -> None:
        assert isinstance(s, TableState)
        s.slopes = np.empty(0, s.slopes.dtype, like=s.slopes)  # a view would keep the memory

    def measure(self, s: State, term: Term, D: Array) -> float:
        """Of a constraint family the rows with a slope other than 0 count."""
        assert isinstance(s, TableState)
        drawn = s.drawn or [slice(0, term.map.size)]
        share = term.map.size / sum(at.stop - at.start for at in drawn)
        return share * term.passes.squares(D, drawn, s.slopes if term.function.indicator else None)

    def over(self, s: State, term: Term, problem: Problem, share: float) -> State:
        assert isinstance(s, TableState)
        if s.y.dtype == tiles.HALF:  # rounding again: A*γ is another
            for table in (s.y, s.slopes):
                tiles.scale(table, share)
            s.G.fill(0)
            term.passes.collect(s.G, s.slopes)
            return s
        G = share * s.G
        return replace(s, G=G, y=share * s.y, slopes=G if s.slopes is s.G else share * s.slopes)

    def duals(self, s: State, term: Term) -> dict[str, Array]:
        assert isinstance(s, TableState)
        return {"slopes": s.slopes, "multipliers": s.y}

    def objection(self, term: Term) -> str | None:
        if term.function.smooth:
            return f"keeps multipliers for term {term.name!r}, which is smooth: use Full() there"
        if term.function.separable and self.batch != "auto":
            try:
                batch_size(cast(Batch, self.batch), term.map.size, term.name)
            except ProblemError as error:
                return f"cannot draw its rows: {error}"
        return None


def _reach(term: Term, problem: Problem) -> float:
    """D_W ‖A‖."""
    return float(problem.domain.diameter * term.map.norm(problem.domain.symmetric))
