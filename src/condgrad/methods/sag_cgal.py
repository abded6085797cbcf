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

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.random import Generator

from condgrad._types import Array
from condgrad.backends.scalars import products
from condgrad.certificate.lower_bound import Duals, Slopes
from condgrad.functions import Smooth
from condgrad.methods.balance import BALANCE, Balance, Pressure
from condgrad.methods.frames import Frame, face_of, frames_of, to_projection
from condgrad.methods.protocol import Given, Known, State, direction, gradient
from condgrad.methods.register import declare
from condgrad.methods.sampling import Batch, rows_of
from condgrad.methods.table1 import SAMPLED_G
from condgrad.methods.tables import Drawing, SlopeTable, require_gpu
from condgrad.problem import Problem, Term
from condgrad.schedules import Automatic, Beta0, Power, Schedule, smoothing

CUBE_ROOT = Power(1.0, 1.0, 1 / 3)
"""(k + 1)^(−1/3)."""
SMALL = 100
"""Side up to which spectral steps take a part apart whole."""
SHARE = 10.0
"""η_k of spectral steps is SHARE/(k + SHARE), but 1 if every row is drawn."""
THETA = 0.5
"""θ of spectral steps."""
SAFETY, SAFETY_WHOLE = 4.0, 2.0
"""Factors on the measured curvature, the second one if every row is drawn."""
RECENT = 0.9
"""Weight of the curvature that was measured before, from one iteration to the next."""
SLOW = 0.02
"""How fast the measured curvature falls."""


@dataclass(kw_only=True)
class SagCgalState(State):
    """Tables, how hard families are pressed, and what spectral steps remember."""

    tables: list[SlopeTable]
    """Slopes and multipliers of every term."""
    pressure: Pressure | None = None
    """Memory of `Balance`, if β0 is found."""
    D: Any = None
    """The step before; None if steps go to atoms, which need nothing of what follows."""
    frames: list[Frame] = field(default_factory=list)
    """Eigenvectors of the projection before, of every part."""
    squares: list[float] = field(default_factory=list)
    """Σ ‖A_t D‖² over the latest steps D, older ones counting less, for every term."""
    ratios: list[float] = field(default_factory=list)
    """`squares` over `length`, rising at once and falling slowly."""
    length: float = 0.0
    """Σ ‖D‖² with the same weights."""


@dataclass(frozen=True)
class SagCgal(Drawing):
    """SAG on the augmented Lagrangian; the other options are those of `sag_cgal`.

    Parameters
    ----------
    schedule : Schedule
        η, β and the effort of the oracle, for steps to atoms.
    balance : Balance
        How β is found and moved.
    """

    numbers, rounds, least = 2, 5, 20
    schedule: Schedule
    batch: Batch | str = "auto"
    spectral: bool = True
    rate: Callable[[int], float] = CUBE_ROOT
    table_dtype: Any = "auto"
    balance: Balance = BALANCE
    slug: str = "sag-cgal"
    name: str = "SAG-CGAL"

    def init(
        self, problem: Problem, W: Array, rng: Generator, known: Known, multipliers: Given = None
    ) -> SagCgalState:
        require_gpu(problem, self.table_dtype)
        tables, face = [self._table(t, problem) for t in problem.terms], problem.domain.face
        s = SagCgalState.begun(problem, W, rng, known, tables=tables)
        if self.measures(problem):
            self.balance.begin(problem, s)
            if self.spectral and face is not None:
                s.D, s.frames = np.zeros(problem.domain.shape, like=face.basis), frames_of(face)
                s.squares, s.ratios = [0.0 for _ in tables], [0.0 for _ in tables]
        return s

    def _table(self, term: Term, problem: Problem) -> SlopeTable:
        stretches = self.stretches(term)
        if term.function.smooth:
            return SlopeTable(term.map.zeros(problem.dtype), stretches)
        return SlopeTable.of(term, problem, self.table_dtype, stretches=stretches)

    def step(self, problem: Problem, state: SagCgalState, at_most: int = 1) -> SagCgalState:
        s, p, atoms = state, self.schedule(state.k + 1), state.D is None
        if atoms:
            s.eta, s.beta, theta = p.eta, p.beta, min(1.0, self.rate(p.k))
        else:
            whole = all(t.stretches.whole for t in s.tables)
            s.eta, s.beta, theta = 1.0 if whole else SHARE / (p.k + SHARE), 1.0, THETA
        factors = s.pressure.factors if s.pressure else [1.0] * len(s.tables)
        s.betas = [factor * s.beta for factor in factors]
        drawn = [self._renewed(t, s, i, theta) for i, t in enumerate(problem.terms)]
        v = direction(problem, [t.G for t in s.tables])
        if not atoms and p.k > 1:
            self._spectral(problem, s, v, drawn)
        else:
            atom = problem.domain.lmo(v, effort=p.effort, hint=s.W, rng=s.rng)
            if atoms:
                atom.blend(s.W, p.eta)
            else:
                np.subtract(atom.dense(), s.W, out=s.D)
                s.W += s.D
            s.products += atom.products
        s.k, s.calls, s.report = p.k, s.calls + 1, None
        self.balance.follow(problem, self, s, press=1.0 if atoms else 0.0)
        return s

    def _renewed(self, term: Term, s: SagCgalState, i: int, theta: float) -> list[slice]:
        """Bring the tables of a term up to date; the rows that this took."""
        table, beta = s.tables[i], s.betas[i]
        drawn: list[slice] = table.stretches.draw(s.rng)
        if table.y is None:
            gradient(term, s.W, table.G, beta, s.k == 0)
        else:
            table.renew(term, s.W, drawn, beta, theta)
        s.rows[i] += rows_of(drawn)
        return drawn

    def _spectral(
        self, problem: Problem, s: SagCgalState, v: Array, drawn: list[list[slice]]
    ) -> None:
        """W ← (1 − η) W + η S, with L along the step before, over the rows in use."""
        face, (length, size) = face_of(problem), products((s.D, s.D), (v, v))
        s.length, L = RECENT * s.length + length, 0.0
        safety = SAFETY_WHOLE if all(t.stretches.whole for t in s.tables) else SAFETY
        for i, (term, table) in enumerate(zip(problem.terms, s.tables, strict=True)):
            h = term.function
            bend = h.smoothness if isinstance(h, Smooth) else 1 / s.betas[i]
            if bend == 0:
                continue
            slopes = table.followed if h.indicator else None
            squares = term.passes.squares(s.D, drawn[i], slopes)
            s.squares[i] = RECENT * s.squares[i] + term.map.size / rows_of(drawn[i]) * squares
            now, was = s.squares[i] / max(s.length, 1e-300), s.ratios[i]
            s.ratios[i] = max(now, was + SLOW * (now - was))
            L += safety * term.weight * s.ratios[i] * bend
        L = max(s.eta * L, 1e-9 * float(np.sqrt(size)) / face.trace) or 1.0
        to_projection(face, s, v, 1 / L, s.eta, SMALL)

    def duals(self, problem: Problem, state: SagCgalState) -> dict[str, Duals]:
        found = super().duals(problem, state)
        if problem.composite:
            pairs = zip(state.tables, state.betas, strict=True)
            found["multipliers"] = [Slopes(b) if t.y is None else t.y for t, b in pairs]
        return found

    def rebase(self, problem: Problem, state: SagCgalState, share: float) -> SagCgalState:
        s: SagCgalState = super().rebase(problem, state, share)
        if s.D is not None:
            s.frames = frames_of(face_of(problem), s.frames)
        self.balance.rebase(problem, s)
        return s

    def measures(self, problem: Problem) -> bool:
        return isinstance(self.schedule.beta, Automatic) and bool(problem.composite)


@declare(
    "sag-cgal",
    "SAG-CGAL",
    estimates="full, SAG with multipliers",
    needs=SAMPLED_G,
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
        float32 for triangles on a GPU. Bounds are summed from them in float64. ``"bfloat16"`` is
        for a GPU, and of triangles only; other tables are in float32 there.
    """
    schedule = Schedule(Power(2, 1, 1), smoothing(beta0, 1, 1 / 3))
    return SagCgal(schedule, batch, spectral, rate, table_dtype)
