r"""SAG-CGAL: a slope and a multiplier for every row, and steps to low-rank points.

.. math:: γ_l ← h'_{β,l}(z_l + β y_l), \qquad y_l ← y_l + θ (γ_l - y_l)
          \text{ for the drawn rows}, \qquad v = Σ ω A^*γ

With θ = β_k/β0 the second step is CGAL's y + σ(z − prox_{βh}(z + βy)) with σ = 1/β0. Rows are drawn
in contiguous stretches (`maps.LinearMap.stretch`: the rows of one apex, a row of W), each once a
round. A function that is not separable is taken whole.

Over a spectrahedron, if β0 is found, W ← (1 − η_k) W + η_k S with S the minimiser of
⟨v, S⟩ + (η_k L/2)‖S − W‖² there: the projection of X = W − v/(η_k L), of low rank where the
solutions have low rank, a block of atoms instead of one (`frames`) [3]_, [4]_. The first step goes
to an atom, all the way. L is measured: Σ_t ω_t c_t ‖A_t D‖²/‖D‖², D the step before, c_t = 1/β_t or
the smoothness of a term of f, over the drawn rows with a slope other than 0, as a mean over the
latest steps that rises at once and falls slowly, times a safety. β_t is found by `Balance`, and θ
is 1/2. Elsewhere W goes to atoms, η_k = 2/(k + 1) and β_k = β0 (k + 1)^(−1/3).

Proved: every γ and y is a point of the dual problem, so that bounds hold whatever the method does.
If every row is drawn every time η is 1. For equalities that is the linearised method of multipliers
with penalty ρ = ω/(2β), y ← y + ρ(AW − b) and then W ← proj(W − (∇f + A*(y + ρ(AW − b)))/L), which
converges for L ≥ ρ‖A‖² if f is linear and β stays [5]_; a measured L may be less, and β moves. With
inequalities, and elsewhere, no rate is proved. If the estimates lag by a round of stretches, η_k
falls and the safety is larger; those constants were chosen on nine graphs (docs/certificates.md).

References
----------
.. [1] G. Dresdner et al., AISTATS 2022, Variant 2, for the table of slopes.
.. [2] A. Yurtsever, O. Fercoq, V. Cevher, ICML 2019, for the multipliers.
.. [3] Z. Allen-Zhu, E. Hazan, W. Hu, Y. Li, "Linear convergence of a Frank-Wolfe type algorithm
   over trace-norm balls", NeurIPS 2017.
.. [4] L. Ding, Y. Fei, Q. Xu, C. Yang, "Spectral Frank-Wolfe algorithm", ICML 2020.
.. [5] J. Yang, X. Yuan, "Linearized augmented Lagrangian and alternating direction methods for
   nuclear norm minimization", Math. Comp. 82, 2013.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from condgrad._types import Array
from condgrad.backends.scalars import products
from condgrad.certificate.lower_bound import Duals, Slopes
from condgrad.functions import Smooth
from condgrad.methods.balance import BALANCE, Balance, Pressure
from condgrad.methods.frames import Frame, Projection, frames_of
from condgrad.methods.protocol import (
    Known,
    Method,
    State,
    direction,
    gradient,
    require_finite,
    shared,
)
from condgrad.methods.register import declare
from condgrad.methods.sampling import Batch, Stretches, rows_of
from condgrad.methods.table1 import SAMPLED_G
from condgrad.methods.tables import (
    HALVED,
    check_tables,
    objection,
    precision,
    require_gpu,
    rows_now,
    stored,
    table_bytes,
)
from condgrad.problem import Problem, Term
from condgrad.schedules import Automatic, Beta0, Power, Schedule, smoothing

ROUNDS, LEAST = 5, 20
"""A fifth of the rows are drawn by ``batch="auto"``, but at least twenty for an entry of W."""
CUBE_ROOT = Power(1.0, 1.0, 1 / 3)
"""(k + 1)^(−1/3)."""
PROJECTION = Projection()
"""How spectral steps project."""


@dataclass
class Table:
    """What is kept of one term."""

    G: Array
    """Cotangent of the slopes, which it is itself if the map stores rows; or of a smooth term."""
    y: Array | None = None
    """The multipliers; None of a smooth term."""
    slopes: Array | None = None
    """γ, if G is not γ."""
    stretches: Stretches | None = None
    """What draws rows."""

    @property
    def gamma(self) -> Array:
        """γ."""
        return self.G if self.slopes is None else self.slopes


@dataclass
class Curvature:
    """What spectral steps measure of L."""

    squares: list[float]
    """Σ ‖A_t D‖² over the latest steps D, older ones counting less, for every term."""
    ratios: list[float]
    """`squares` over `length`, rising at once and falling slowly."""
    length: float = 0.0
    """Σ ‖D‖² with the same weights."""


@dataclass(kw_only=True)
class SagCgalState(State):
    """Tables, the step before, and how hard families are pressed."""

    tables: list[Table]
    """What is kept of every term."""
    pressure: Pressure | None = None
    """What `Balance` remembers, if β0 is found."""
    D: Array | None = None
    """The step before; None if steps go to atoms."""
    frames: list[Frame] = field(default_factory=list)
    """Eigenvectors of the projection before, of every part."""
    curvature: Curvature | None = None
    """What spectral steps measure of L."""


@dataclass(frozen=True)
class SagCgal(Method):
    """SAG on the augmented Lagrangian.

    Parameters
    ----------
    schedule : Schedule
        η, β and the effort of the oracle, for steps to atoms.
    batch : int, float or "auto"
        Rows per iteration and composite term: a count, a fraction, or as by `LEAST` and `ROUNDS`.
    spectral : bool, default True
        Steps to projections, if β0 is found and the domain is a spectrahedron.
    rate : callable
        k ↦ θ_k in [0, 1], for steps to atoms.
    table_dtype : float64, float32, "bfloat16" or "auto"
        Precision of the two numbers kept per row; ``"auto"``: float64 for up to 10⁷ rows, but
        float32 for triangles on a GPU. Bounds are summed from them in float64. ``"bfloat16"`` is
        for a GPU, and of triangles only; other tables are in float32 there.
    share, theta : float, default 10 and 1/2
        η_k = share/(k + share) of spectral steps, 1 where every row is drawn; and their θ.
    safety, safety_whole : float, default 4 and 2
        Factor on the measured curvature, and where every row is drawn.
    recent, slow : float, default 0.9 and 0.02
        Weight of the curvature from one iteration to the next, and how fast it falls.
    projection : Projection
        How projections are made.
    balance : Balance
        How β is found and moved.
    """

    deals: ClassVar[bool] = True
    schedule: Schedule
    batch: Batch | str = "auto"
    spectral: bool = True
    rate: Callable[[int], float] = CUBE_ROOT
    table_dtype: Any = "auto"
    share: float = 10.0
    theta: float = 0.5
    safety: float = 4.0
    safety_whole: float = 2.0
    recent: float = 0.9
    slow: float = 0.02
    projection: Projection = PROJECTION
    balance: Balance = BALANCE
    slug: str = "sag-cgal"
    name: str = "SAG-CGAL"

    def __post_init__(self) -> None:
        check_tables(self.batch, self.table_dtype)

    def suits(self, problem: Problem) -> str | None:
        found = [objection(t, self.batch) for t in problem.composite]
        return next((f"{self.name} {why}" for why in found if why), None)

    def portable(self, problem: Problem) -> bool:
        return True

    def lighter(self, gpu: bool) -> Method | None:
        if not (gpu and self.table_dtype == "auto"):
            return None
        return replace(self, table_dtype=HALVED)

    def init(
        self,
        problem: Problem,
        W: Array,
        rng: np.random.Generator,
        known: Known,
        multipliers: Sequence[Array | None] | None = None,
    ) -> SagCgalState:
        require_gpu(problem, self.table_dtype)
        tables = [self._table(t, problem) for t in problem.terms]
        s = SagCgalState(W=W.copy(), rng=rng, known=known, tables=tables)
        s.rows, s.betas = [0] * len(tables), [1.0] * len(tables)
        if self.measures(problem):
            s.pressure = self.balance.init(problem, W, known)
            s.betas, face = list(s.pressure.factors), problem.domain.face
            if self.spectral and face is not None:
                s.D, s.frames = np.zeros(problem.domain.shape, like=face.basis), frames_of(face)
                s.curvature = Curvature([0.0] * len(tables), [0.0] * len(tables))
        return s

    def _table(self, term: Term, problem: Problem) -> Table:
        G = term.map.zeros(problem.dtype)
        if term.function.smooth:
            return Table(G)
        dtype, make = precision(term, problem, self.table_dtype), term.passes.table
        batch = rows_now(term, self.batch, ROUNDS, LEAST)
        stretches = Stretches.of(term.map.size, term.map.stretch, batch)
        return Table(G, make(dtype), None if stored(term) else make(dtype), stretches)

    def step(self, problem: Problem, state: SagCgalState, at_most: int = 1) -> SagCgalState:
        s, p = state, self.schedule(state.k + 1)
        whole = all(t.stretches is None or t.stretches.whole for t in s.tables)
        s.eta, s.beta, theta = p.eta, p.beta, min(1.0, self.rate(p.k))
        if s.D is not None:
            s.eta = 1.0 if whole else self.share / (p.k + self.share)
            s.beta, theta = 1.0, self.theta
        factors = s.pressure.factors if s.pressure else [1.0] * len(s.tables)
        s.betas = [factor * s.beta for factor in factors]
        drawn = [self._renewed(t, s, i, theta) for i, t in enumerate(problem.terms)]
        v = direction(problem, [t.G for t in s.tables])
        if s.D is None or not self.projection.sees(_face(problem), s.frames):
            require_finite(problem, v)
        if s.D is None or p.k == 1:
            atom = problem.domain.lmo(v, effort=p.effort, hint=s.W, rng=s.rng)
            if s.D is None:
                atom.blend(s.W, p.eta)
            else:
                np.subtract(atom.dense(), s.W, out=s.D)
                s.W += s.D
            s.products += atom.products
        else:
            self._to_projection(problem, s, v, drawn, whole)
        s.k, s.calls, s.report = p.k, s.calls + 1, None
        if s.pressure is not None and self.balance.due(s.pressure, p.k):
            report = self.measure(problem, s)
            if report.evaluation.finite:
                s.report, press = report, 1.0 if s.D is None else 0.0
                self.balance.moved(problem, s.pressure, s, report, press)
        return s

    def _renewed(self, term: Term, s: SagCgalState, i: int, theta: float) -> list[slice]:
        """Bring the tables of a term up to date; the rows that this took."""
        table, beta, drawn = s.tables[i], s.betas[i], [slice(0, term.map.size)]
        if table.y is None:
            gradient(term, s.W, table.G, beta, s.k + 1)
        else:
            assert table.stretches is not None
            drawn = table.stretches.draw(s.rng)
            y, slopes = table.y, table.gamma

            def work(part: Sequence[slice], G: Array) -> None:
                term.passes.renew(s.W, G, part, y, slopes, beta, theta)

            shared(term, drawn, work, table.G)
        s.rows[i] += rows_of(drawn)
        return drawn

    def _to_projection(
        self, problem: Problem, s: SagCgalState, v: Array, drawn: list[list[slice]], whole: bool
    ) -> None:
        """W ← (1 − η) W + η S."""
        assert s.D is not None
        face, (length, size) = _face(problem), products((s.D, s.D), (v, v))
        L = self._lipschitz(problem, s, drawn, length, whole)
        L = max(s.eta * L, 1e-9 * float(np.sqrt(size)) / face.trace) or 1.0
        s.D, spent = self.projection.move(face, s.W, v, 1 / L, s.eta, s.frames, s.D)
        s.products += spent

    def _lipschitz(
        self,
        problem: Problem,
        s: SagCgalState,
        drawn: list[list[slice]],
        length: float,
        whole: bool,
    ) -> float:
        """L along the step before, which has ‖D‖² = `length`, over the rows in use."""
        c, total = s.curvature, 0.0
        assert c is not None
        assert s.D is not None
        c.length = self.recent * c.length + length
        safety = self.safety_whole if whole else self.safety
        for i, (term, table) in enumerate(zip(problem.terms, s.tables, strict=True)):
            h = term.function
            bend = h.smoothness if isinstance(h, Smooth) else 1 / s.betas[i]
            if bend == 0:
                continue
            slopes = table.gamma if h.indicator else None
            squares = term.passes.squares(s.D, drawn[i], slopes)
            c.squares[i] = self.recent * c.squares[i] + term.map.size / rows_of(drawn[i]) * squares
            now, was = c.squares[i] / max(c.length, 1e-300), c.ratios[i]
            c.ratios[i] = max(now, was + self.slow * (now - was))
            total += safety * term.weight * c.ratios[i] * bend
        return total

    def duals(self, problem: Problem, state: SagCgalState) -> dict[str, Duals]:
        pairs = list(zip(state.tables, state.betas, strict=True))
        slopes = [Slopes(b) if t.y is None else t.gamma for t, b in pairs]
        if not problem.composite:
            return {"slopes": slopes}
        return {
            "slopes": slopes,
            "multipliers": [Slopes(b) if t.y is None else t.y for t, b in pairs],
        }

    def multipliers(self, problem: Problem, state: SagCgalState) -> list[Array | None]:
        return [t.y for t in state.tables]

    def rebase(self, problem: Problem, state: SagCgalState, share: float) -> SagCgalState:
        s = state
        for term, t in zip(problem.terms, s.tables, strict=True):
            if t.y is not None:
                term.passes.scale(t.gamma, t.G, share)
                term.passes.scale(t.y, np.zeros_like(t.G), share)
        if s.D is not None:
            s.frames = frames_of(_face(problem), s.frames)
        if s.pressure is not None:
            self.balance.rebased(problem, s.W, s.pressure, s.known)
        return s

    def measures(self, problem: Problem) -> bool:
        return isinstance(self.schedule.beta, Automatic) and bool(problem.composite)

    def errors(self, problem: Problem, state: SagCgalState, W: Array) -> dict[str, float]:
        return {t.name: 0.0 for t in problem.smooth}

    def row_bytes(self, term: Term, problem: Problem) -> int:
        numbers = 1 if stored(term) else 2
        return table_bytes(term, problem, self.table_dtype, numbers)


def _face(problem: Problem) -> Any:
    """Face of a spectrahedron."""
    return problem.domain.face


@declare(
    "sag-cgal",
    "SAG-CGAL",
    estimates="full, SAG with multipliers",
    needs=SAMPLED_G,
    iterations="not proved",
    cost="not proved",
    exponent=float("nan"),
    reference="condgrad, 2026: the tables of H-SAG-CGM/v2 with the multipliers of CGAL",
)
def sag_cgal(
    beta0: Beta0 = "auto",
    batch: Batch | str = "auto",
    spectral: bool = True,
    rate: Callable[[int], float] = CUBE_ROOT,
    table_dtype: Any = "auto",
) -> SagCgal:
    """SAG on the augmented Lagrangian: v2's table of slopes and CGAL's multipliers, row by row.

    η_k = 2/(k + 1), β_k = β0 (k + 1)^(−1/3), multipliers y += (k + 1)^(−1/3) (slope − y); with
    spectral steps (the default, where they apply) η_k = 10/(k + 10), or 1 where every row is drawn
    at every iteration, β_k = β0, y += (slope − y)/2, and the option ``rate`` and the effort of
    the oracle play no part.

    Proved: every slope and multiplier is a point of the dual problem, so the lower bound of a
    result holds whatever the method does. With a full batch it is CGAL with the dual step taken
    after the direction, without CGAL's cap on the step and bound on the multipliers. Not proved: a
    rate of convergence. What was observed is in docs/certificates.md.

    Parameters
    ----------
    beta0 : float or "auto"
        β0 > 0, or found per term and adapted, see `condgrad.methods.balance.Balance`.
    batch : int, float or "auto"
        Rows drawn per iteration and composite term: a count, a fraction, or a fifth of them but at
        least twenty per entry of W.
    spectral : bool, default True
        With β0 found, and W in a spectrahedron, move W to a low-rank point instead of an atom
        (`condgrad.methods.sag_cgal`): fewer passes, some more work in the oracle.
    rate : callable
        k ↦ the factor on slope − y, in [0, 1].
    table_dtype : float64, float32, "bfloat16" or "auto"
        Precision of the two numbers kept per row; ``"auto"``: float64 for up to 10⁷ rows, but
        float32 for triangles on a GPU; ``"bfloat16"`` is for a GPU.
    """
    schedule = Schedule(Power(2, 1, 1), smoothing(beta0, 1, 1 / 3))
    return SagCgal(schedule, batch, spectral, rate, table_dtype)
