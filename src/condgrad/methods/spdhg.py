r"""SPDHG: stochastic primal-dual passes over a spectrahedron [1]_, after a lead of SAG-CGAL.

.. math:: y ← h'_{1/σ}(A W + y/σ) \text{ on the drawn rows},\qquad
          W ← \mathrm{proj}\bigl(W - τ(∇f + A^*(y + \tfrac1p Δy))\bigr),
          \qquad σ = sω,\; τ = s/ω

p is the share of the rows that was drawn, in contiguous stretches, each once a round. Rows count by
their length: for a family with rows of length up to a and weight c the multiplier is c y, and its σ
is divided by a². s follows PDLP's rule [2]_ with the lengths of SPDHG's analysis,

.. math:: s ← \min\{\, 0.9\, \bar s,\; (1 + (k+1)^{-0.6})\, s \,\},\qquad
          \bar s = \frac{p\, ω‖ΔW‖^2 + ‖Δy‖^2/ω}{2\,|⟨ΔW, A^*Δy⟩|}

and never falls below √p/‖A‖; no step is taken back.

The first ω is what a violation costs: with S the oracle's answer to ∇f, U the objective of a
feasible point that was proposed for it, and r its violation in units of the rows' lengths,

.. math:: ω = \tfrac45 ‖A‖ (U - ⟨∇f, S⟩)/‖r‖^2,

or, if nothing was proposed, ‖A‖ over the mean of the β that `Balance` would begin with. Later it
follows the distances that both sides have gone, and what is left to go.

Proved: y is dual feasible whatever the steps are, so that bounds hold. With s = √p/‖A‖ for good and
ω fixed, σ τ ‖A‖² ≤ p, which is the condition of [1]_ (Theorem 4.3 there) if f is linear and one of
1/p batches is drawn at random. Here batches come in a random order, each once a round, s is mostly
longer than that, and ω moves: nothing is proved of the iterates then.

References
----------
.. [1] A. Chambolle, M. J. Ehrhardt, P. Richtárik, C.-B. Schönlieb, "Stochastic primal-dual hybrid
   gradient algorithm with arbitrary sampling and imaging applications", SIAM J. Optim. 28(4), 2018.
.. [2] D. Applegate et al., "Practical large-scale linear programming using primal-dual hybrid
   gradient", NeurIPS 2021.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.random import Generator

from condgrad._types import Array
from condgrad.backends import tiles
from condgrad.backends.arrays import foreign
from condgrad.backends.scalars import norm, square
from condgrad.certificate.lower_bound import Report, trivial
from condgrad.domains.bottom import FEW
from condgrad.errors import ProblemError
from condgrad.methods.balance import first_weight, scale
from condgrad.methods.frames import Frame, face_of, frames_of, to_projection
from condgrad.methods.protocol import (
    Given,
    Known,
    State,
    curvature_of,
    direction,
    gradient,
    length_of,
    passes_over,
    shared,
)
from condgrad.methods.register import declare, refusal
from condgrad.methods.sag_cgal import sag_cgal
from condgrad.methods.sampling import Batch, Stretches, rows_of
from condgrad.methods.tables import Drawing, Table, precision, require_gpu
from condgrad.problem import Problem, Term

COLUMN = 0.75
"""Rows for an entry of W and a column of a frame whose pass takes as long as a projection.

Fewer rows at a time would not make an iteration faster, and the passes that are needed grow slowly
with them. On a GPU projections with more than `FEW` columns take as long as many more rows, and
half of all are drawn; iterations with all of them are not fewer.
"""
STILL = 16
"""A way of W of up to so many roundings of its size is no way."""
SMALL = 60
"""Side up to which a projection takes a part apart whole."""
SAFETY = 0.9
"""Factor on the longest step that the latest change allows."""
GROWTH = 0.6
"""A step is longer than the one before by at most 1 + (k + 1)^(−GROWTH)."""
LEAST_RATIO, MOST_RATIO = 0.4, 9.0
"""ω is kept between these times ‖y‖/‖W − W_1‖, the ratio of the distances that both sides have to
go. Both were chosen on 30 graphs."""
FAR, NEAR, LATE_PASSES = 30.0, 2.0, 250.0
"""ω is moved by 1.5 if violation and slack on one side, and the Frank-Wolfe gap of the direction on
the other, differ by more than FAR, or by NEAR after LATE_PASSES passes."""
START_PASSES = 10.0
"""Passes over the rows before ω is held so; it moves after twice as many."""
MEASURE_PASSES = 5.0
"""Least number of passes between two measurements."""
MEASURE_SHARE, MEASURE_SHARE_WHOLE = 0.15, 0.25
"""Least share of all passes until the next measurement. The second one counts if all rows are drawn
at every iteration: passes are cheap beside bounds then."""


@dataclass
class ChangeTable(Table):
    """Multipliers of a term, which the steps follow, and their latest change."""

    changed: Any = None
    """A*Δy of the latest draw, in the precision of y or of W, whichever is less."""


@dataclass(kw_only=True)
class SpdhgState(State):
    """Multipliers, the length of the steps, and the weight between both sides."""

    tables: list[ChangeTable]
    """Multipliers of every term."""
    D: Array
    """The step before."""
    frames: list[Frame]
    """Eigenvectors of the projection before, of every part."""
    origin: Array
    """W_1, in float64."""
    norm: float = 1.0
    """‖A‖, the rows of every family scaled to length 1."""
    bend: float = 0.0
    """Smoothness of f."""
    length: float = 0.0
    """s, the length of both steps."""
    weight: float = 1.0
    """ω, the ratio of the steps."""
    due: float = 3.0
    """Passes after which to measure next."""
    bound: float = -np.inf
    """The best lower bound that was measured."""

    @property
    def share(self) -> float:
        """p, the least of all families."""
        return min(t.stretches.share for t in self.tables)

    @property
    def shortest(self) -> float:
        """√p/‖A‖."""
        return float(np.sqrt(self.share) / self.norm)


@dataclass(frozen=True)
class Spdhg(Drawing):
    """Stochastic primal-dual passes; `batch` and `table_dtype` are those of `spdhg`."""

    looks: ClassVar[bool] = True
    numbers, rounds, least = 1, 10, 64
    batch: Batch | str = "auto"
    table_dtype: Any = "auto"
    slug: str = "spdhg"
    name: str = "SPDHG"

    def suits(self, problem: Problem) -> str | None:
        fits = problem.domain.face is not None and problem.composite
        return super().suits(problem) or (None if fits else refusal(self))

    def takes_all(self, problem: Problem) -> bool:
        """Whether every row is taken at every iteration."""
        return all(self.rows_now(t) == t.map.size for t in problem.composite)

    def init(
        self, problem: Problem, W: Array, rng: Generator, known: Known, multipliers: Given = None
    ) -> SpdhgState:
        require_gpu(problem, self.table_dtype)
        domain, face, terms = problem.domain, face_of(problem), problem.terms
        first = W if multipliers is None else domain.center()
        given = [None] * len(terms) if multipliers is None else multipliers
        tables = [self._table(t, problem, y) for t, y in zip(terms, given, strict=True)]
        own = {"D": np.zeros(domain.shape, like=face.basis), "frames": frames_of(face)}
        own |= {"origin": first.astype(np.float64), "bound": max(known.floor, trivial(problem))}
        s = SpdhgState.begun(problem, W, rng, known, tables=tables, **own)
        norms = [t.map.norm(domain.symmetric) / length_of(t) for t in problem.composite]
        s.norm = float(np.linalg.norm(norms)) or 1.0
        curved = [t for t in terms if curvature_of(t)]
        s.bend = sum(curvature_of(t) * t.map.norm(domain.symmetric) ** 2 for t in curved)
        s.length, s.weight = s.shortest, _first_weight(problem, s, s.origin)
        return s

    def _table(self, term: Term, problem: Problem, y: Array | None) -> ChangeTable:
        G = term.map.zeros(problem.dtype)
        table = ChangeTable(G, self.stretches(term), y)
        if term.function.smooth:
            return table
        dtype = precision(term, problem, self.table_dtype)
        if y is None:
            table.y = term.passes.table(dtype)
        else:
            term.passes.collect(G, y)
        types = np.dtype(np.float32) if dtype == tiles.HALF else dtype, G.dtype
        table.changed = np.zeros_like(G, dtype=min(types, key=lambda dtype: dtype.itemsize))
        return table

    # --- an iteration

    def step(self, problem: Problem, state: SpdhgState, at_most: int = 1) -> SpdhgState:
        s, begins = state, bool(np.isnan(state.eta))
        s.eta, s.beta = 1.0, 1 / (s.length * s.weight)
        s.betas = [(1.0 if t.function.smooth else scale(t)) * s.beta for t in problem.terms]
        found = [self._ascended(t, s, i, begins) for i, t in enumerate(problem.terms)]
        v = direction(problem, [estimate for estimate, _ in found])
        tau = 1 / (s.weight / s.length + s.bend)
        to_projection(face_of(problem), s, v, tau, 1.0, SMALL)
        s.k, s.calls, s.report = s.k + 1, s.calls + 1, None
        self._lengthened(problem, s, [moved for _, moved in found])
        self._weighed(problem, s)
        return s

    def _ascended(self, term: Term, s: SpdhgState, i: int, begins: bool) -> tuple[Array, float]:
        """Move the multipliers of the drawn rows; A*(y + Δy/p), and ‖Δy‖²."""
        table, beta = s.tables[i], s.betas[i]
        y, changed, drawn = table.y, table.changed, table.stretches.draw(s.rng)
        count = rows_of(drawn)
        s.rows[i] += count
        if y is None:
            gradient(term, s.W, table.G, beta, begins)
            return table.G, 0.0
        seen = s.W.astype(changed.dtype, copy=False)

        def work(part: Sequence[slice], G: Array) -> float:
            return term.passes.ascend(seen, G, part, y, beta)

        changed.fill(0)
        moved = sum(shared(term, drawn, work, changed))
        table.G += changed
        term.passes.resum(table.G, y)
        share = count / term.map.size
        return table.G + (changed if share == 1 else changed / table.G.dtype.type(share)), moved

    def _lengthened(self, problem: Problem, s: SpdhgState, moved: list[float]) -> None:
        """Set s for the next iteration."""
        across = squares = 0.0
        for t, table, change in zip(problem.terms, s.tables, moved, strict=True):
            if table.y is not None:
                across += t.map.paired(table.changed, t.weight, s.D)
                squares += t.weight**2 * change * length_of(t) ** 2
        most = s.share * s.weight * square(s.D) + squares / s.weight
        most /= max(2 * abs(across), 1e-300)
        longer = (1 + (s.k + 1) ** -GROWTH) * s.length
        s.length = min(max(SAFETY * most, s.shortest), longer)

    # --- the weight

    def _weighed(self, problem: Problem, s: SpdhgState) -> None:
        """Measure if that is due, and move ω."""
        passes = passes_over(problem, s.rows)
        if passes < s.due:
            return
        share = MEASURE_SHARE_WHOLE if all(t.stretches.whole for t in s.tables) else MEASURE_SHARE
        s.due = max(s.due + MEASURE_PASSES, passes * (1 + share))
        report = self.measured(problem, s)
        if report is None:
            return
        s.bound = max(s.bound, report.bound.value)
        if passes >= 2 * START_PASSES:
            self._balanced(s, report, NEAR if passes >= LATE_PASSES else FAR)
        if passes >= START_PASSES:
            self._held(problem, s)
            self._widened(problem, s)

    def _balanced(self, s: SpdhgState, report: Report, far: float) -> None:
        """Move ω towards the side that has further to go."""
        size = max(abs(report.evaluation.objective), abs(s.bound))
        if not (size > 0 and np.isfinite(size)):
            return
        off = max((f.scaled for f in report.evaluation.families.values()), default=0.0)
        need = max(max(report.slack) / size, off) / max(report.fw_gap / size, 1e-6)
        s.weight *= 1.5 if need > far else 1 / 1.5 if need < 1 / far else 1

    def _held(self, problem: Problem, s: SpdhgState) -> None:
        """Keep ω near the ratio of both distances.

        For the lower end y is that of inequalities alone, if there are some. Multipliers of
        equations are often known up to little long before, or long in directions that cost nothing:
        of W_ii = 1 over W of fixed trace their mean. In max-cut with triangle inequalities they are
        twenty times as long as the others, and kept ω as much too large.
        """
        far = norm(s.W - s.origin)
        if far <= STILL * np.finfo(s.W.dtype).eps * norm(s.W):
            return
        squares, loose = [], []
        for t, table in zip(problem.terms, s.tables, strict=True):
            if table.y is not None:
                squares.append(t.weight**2 * t.passes.square(table.y) * length_of(t) ** 2)
                loose += squares[-1:] if t.loose else []
        least, most = (float(np.sqrt(sum(some))) / far for some in (loose or squares, squares))
        if np.isfinite(most) and most > 0:
            s.weight = min(max(s.weight, LEAST_RATIO * least), MOST_RATIO * most)

    def _widened(self, problem: Problem, s: SpdhgState) -> None:
        """Draw so many rows that a pass takes about as long as a projection."""
        pairs = zip(s.frames, face_of(problem).parts, strict=True)
        sides = [(f.vectors, part.stop - part.start) for f, part in pairs]
        columns = max((n / 3 if K is None else K.shape[1] for K, n in sides), default=0)
        for t, table in zip(problem.terms, s.tables, strict=True):
            size, rows = t.map.size, self.rows_now(t)
            if self.batch != "auto" or rows == size:
                continue
            wanted = max(rows, int(COLUMN * columns * np.prod(t.map.shape)))
            if foreign(t.map.like) and columns > FEW:
                wanted = max(wanted, size // 2)
            if not 0.8 <= wanted / table.stretches.batch <= 1.25:
                table.stretches = Stretches.of(size, t.map.stretch, min(wanted, size))

    # --- for others

    def rebase(self, problem: Problem, state: SpdhgState, share: float) -> SpdhgState:
        s: SpdhgState = super().rebase(problem, state, share)
        s.frames = frames_of(face_of(problem), s.frames)
        s.bound = max(s.known.floor, trivial(problem))
        s.weight = float(np.sqrt(s.weight * _first_weight(problem, s, s.W)))
        return s

    def measures(self, problem: Problem) -> bool:
        return True


def _first_weight(problem: Problem, s: SpdhgState, W: Array) -> float:
    """Cost of a violation, or a guess by β of a step from W."""
    known = s.known
    if known.missed > 0 and known.above > known.below:
        return 0.8 * s.norm * (known.above - known.below) / known.missed
    return first_weight(problem, W, s.norm)


@declare(
    "spdhg",
    "SPDHG",
    estimates="full, multipliers on drawn rows",
    needs="f smooth; g a separable finite sum; W in a spectrahedron",
    reference="Chambolle, Ehrhardt, Richtárik, Schönlieb, SIAM J. Optim. 28(4), 2018; "
    "Applegate et al., NeurIPS 2021, for the step rule",
)
def spdhg(batch: Batch | str = "auto", first: float = 10.0, table_dtype: Any = "auto") -> Spdhg:
    """Stochastic primal-dual passes over a spectrahedron.

    Drawn rows move their multipliers, the change enters the direction 1/p times more, and W goes to
    a projection (`condgrad.methods.spdhg`). One number is kept per row. What is proved, and what is
    not, is said there. The first passes are those of `sag_cgal`, as long as it gains
    (`condgrad.methods.then.Then`): on easy problems they are all that is needed. There are none
    where all rows are taken at every iteration.

    Parameters
    ----------
    batch : int, float or "auto"
        Rows drawn per iteration and composite term: a count, a fraction, or as many as suit a
        projection.
    first : float, default 10
        Passes of `sag_cgal` at the start: fewer where it gains little, more where it gains a lot,
        if that can be judged by feasible points that are proposed; 0 for none.
    table_dtype : float64, float32, "bfloat16" or "auto"
        Precision of the multipliers; ``"bfloat16"`` is for a GPU, where ``"auto"`` takes it if
        float32 does not fit into the memory.
    """
    number = isinstance(first, (int, float, np.number)) and not isinstance(first, bool)
    if not (number and 0 <= first < np.inf):
        raise ProblemError(f"first is {first!r}: it must be a number of passes, at least 0")
    if not first:
        return Spdhg(batch, table_dtype)
    from condgrad.methods.then import Then  # which is derived from `Spdhg`

    how = {"batch": batch, "table_dtype": table_dtype, "passes": first}
    return Then(**how, first=sag_cgal(batch=batch, table_dtype=table_dtype))
