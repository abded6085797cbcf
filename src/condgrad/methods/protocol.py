"""Protocol of algorithms: constants in a frozen dataclass, and one state that a step changes.

A method answers to `suits`, `init`, `step` and `duals`, and `condgrad.run.loop` runs all of them.
The state is a dataclass of arrays, numbers and a generator: all that an iteration reads or writes
is in it, so that a file of its fields is the run.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar, Self, TypeAlias, cast

import numpy as np
from numpy.random import Generator

from condgrad._types import Array, Ranges
from condgrad.backends import threads
from condgrad.backends.arrays import foreign
from condgrad.backends.scalars import square
from condgrad.certificate.infeasible import Refutation, refutation
from condgrad.certificate.lower_bound import Duals, Report, Slopes, measure, price
from condgrad.errors import ProblemError
from condgrad.evaluation import Evaluation
from condgrad.functions import Linear, Smooth
from condgrad.problem import Problem, Term

Given: TypeAlias = Sequence[Array | None] | None
"""Multipliers y of every term, None for a term or for all if there are none."""


@dataclass(frozen=True)
class Known:
    """Numbers that are known before a run and may steer it; the state keeps them."""

    gap: float = 1e-3
    """Tolerance for the relative gap."""
    feasibility: float = 1e-3
    """Tolerance for the infeasibility of a family of constraints."""
    rows: float = 1e-2
    """Tolerance for the infeasibility of a single row."""
    floor: float = -np.inf
    """A lower bound on the optimum that was proved before the run."""
    below: float = np.nan
    """Objective of the oracle's answer to ∇f, all constraints left out; NaN if not evaluated."""
    above: float = np.nan
    """Objective of the feasible point that was proposed for that answer; NaN if not evaluated."""
    missed: float = 0.0
    """Σ (‖r_t‖/‖a_t‖)² of the rows that the oracle's answer violates."""


@dataclass(kw_only=True)
class State:
    """Memory that every algorithm has; the state of each algorithm has more fields."""

    W: Any
    """The iterate, an array or a `condgrad.points.Factored`."""
    rng: Generator
    """All random numbers of the run come from it."""
    known: Known
    """Numbers that were known before the run."""
    k: int = 0
    """Iterations done."""
    rows: list[int] = field(default_factory=list)
    """Rows evaluated so far, one count for every term."""
    calls: int = 0
    """Calls of the oracle, or projections."""
    products: int = 0
    """Matrix-vector products that the oracle or the projections took."""
    eta: float = np.nan
    """η, the length of the latest step of W; NaN before the first iteration."""
    beta: float = np.nan
    """β of the latest iteration before it is scaled for each term; NaN before the first."""
    betas: list[float] = field(default_factory=list)
    """β of every term at the latest iteration, 1 before the first."""
    report: Report | None = None
    """Measurements that the algorithm made for its own use at the latest iteration, or None."""

    @classmethod
    def begun(
        cls, problem: Problem, W: Any, rng: np.random.Generator, known: Known, **own: Any
    ) -> Self:
        """The state before the first iteration, at a copy of W, with fields of a derived class."""
        count = len(problem.terms)
        own = {"rows": [0] * count, "betas": [1.0] * count, **own}
        return cls(W=W.copy(), rng=rng, known=known, **own)


class Method(ABC):
    """An algorithm: a frozen dataclass of its constants; all that changes is in the state.

    A derived class has `init` and `step`, `duals` if it keeps slopes or multipliers, and `suits` if
    it is not for every problem.
    """

    slug: str
    """Name on the command line."""
    name: str
    """Name in results."""
    proofs: ClassVar[tuple[int, int]] = (5, 10)
    """The first iteration after which to bound the optimum, and how often per decade of them."""
    looks: ClassVar[bool] = False
    """Whether the method is steered by a feasible point proposed before the run (`Known.above`)."""
    factors: ClassVar[bool] = False
    """Whether W is kept as factors."""
    deals: ClassVar[bool] = False
    """Whether rows can be dealt to a cluster."""
    remedy: ClassVar[str] = "solve a smaller problem"
    """The way to take less memory."""

    def suits(self, problem: Problem) -> str | None:
        """A sentence that says why it cannot run on a problem; None if it can."""
        return None

    def on(self, problem: Problem) -> Method:
        """The form in which it runs on a problem that it suits, such as a compiled one."""
        return self

    def portable(self, problem: Problem) -> bool:
        """Whether the state can lie on a GPU."""
        return False

    def lighter(self, gpu: bool) -> Method | None:
        """Form of this method that takes less memory; None if there is no such form."""
        return None

    @abstractmethod
    def init(
        self, problem: Problem, W: Any, rng: Generator, known: Known, multipliers: Given = None
    ) -> State:
        """The state before the first iteration, from multipliers of another method if given."""

    @abstractmethod
    def step(self, problem: Problem, state: Any, at_most: int = 1) -> State:
        """The state after one iteration, or after up to `at_most`; the given one may be changed.

        A step moves W and raises `k`, `calls`, `rows` and `products`. It sets `eta`, `beta` and
        `betas`, of which those of smooth terms are not used, and `report`, to None unless it
        measures. It raises `numpy.linalg.LinAlgError` if the direction is not finite.
        """

    def duals(self, problem: Problem, state: Any) -> dict[str, Duals]:
        """The dual points of the moment by name; the first is the one that the steps follow.

        By default it is that of the slopes at W.
        """
        return {"slopes": [Slopes(beta) for beta in state.betas]}

    def multipliers(self, problem: Problem, state: Any) -> list[Array | None]:
        """Multipliers y of every term, with which another method can go on; None where there are
        none.
        """
        return [None for _ in problem.terms]

    def rebase(self, problem: Problem, state: Any, share: float) -> State:
        """The state with which to go on over another domain, with a share of the multipliers."""
        raise ProblemError(f"{self.name} cannot go on over another domain: start another run")

    def measures(self, problem: Problem) -> bool:
        """Whether β is found as it runs: bounds and every β are recorded without a goal too."""
        return False

    def measure(self, problem: Problem, state: Any, known: Evaluation | None = None) -> Report:
        """Evaluate the iterate, unless that is known, and prove what its dual points prove."""
        return measure(problem, state.W, self.duals(problem, state), known)

    def measured(self, problem: Problem, state: State) -> Report | None:
        """The measure of the iterate, which the state keeps; None if a number is not finite."""
        report = self.measure(problem, state)
        state.report = report if report.evaluation.finite else None
        return state.report

    def price(self, problem: Problem, state: Any, which: str, point: Any) -> float:
        """Σ ω |y_l| |r_l| over the constraints, y the dual point of that name, r what a point
        misses.
        """
        return price(problem, state.W, self.duals(problem, state), which, point)

    def ray(self, problem: Problem, state: Any, keep: bool = False) -> Refutation:
        """Look for a proof that the constraints have no solution."""
        duals = self.duals(problem, state)
        return refutation(problem, state.W, duals, state.betas, keep)

    def evaluate(self, problem: Problem, state: Any, W: Any) -> Evaluation:
        """Objective and violations of a point."""
        return problem.evaluate(W)

    def merit(self, problem: Problem, state: Any, W: Any, evaluation: Evaluation) -> float:
        """The function that the method descends on, by which points are compared without a goal.

        It is the objective plus Σ ω dist²/(2β) over the constraints, or the augmented Lagrangian
        dist²(z + βy)/(2β) − β‖y‖²/2 of those that have multipliers y.
        """
        total = evaluation.objective
        trios = zip(problem.terms, self.multipliers(problem, state), state.betas, strict=True)
        for t, y, beta in trios:
            if t.function.indicator:
                own = penalty(t, evaluation, beta)
                total += own if y is None else t.weight * t.merit(W, y, beta)
        return total

    def with_effort(self, effort: Any) -> Self:
        """Return this method with another effort of the oracle, in Krylov steps per ln n.

        It is a number or a function of k; None asks the oracle for full accuracy at every
        iteration. A method that needs no such effort stays as it is.
        """
        known = getattr(self, "schedule", None)
        return self if known is None else cast(Any, replace)(self, schedule=known.trying(effort))

    def errors(self, problem: Problem, state: Any, W: Array) -> dict[str, float]:
        """ω ‖h'_β(A W) − y‖₁ by term, for estimates y kept row by row, W the point before."""
        return {}

    def row_bytes(self, term: Term, problem: Problem) -> int:
        """Memory for the rows of a term: what is kept of them, and to draw them."""
        return 0

    def memory(self, problem: Problem) -> int:
        """Bytes that a run takes.

        Sixteen arrays shaped as W, in float64, are for the iterate, the best one and the one
        before, the direction, the oracle and the bound, which takes two more for every term. On a
        GPU, which computes bounds in place, they are thirteen, with one for a rounded solution.
        """
        arrays = (13 if foreign(problem.like) else 16) + 2 * len(problem.terms)
        rows = sum(self.row_bytes(t, problem) for t in problem.terms)
        gradients = problem.dtype.itemsize * sum(t.map.storage for t in problem.terms)
        return arrays * 8 * int(np.prod(problem.domain.shape)) + gradients + rows


def penalty(term: Term, evaluation: Evaluation, beta: float) -> float:
    """ω dist²/(2β) of a constraint family."""
    return term.weight * evaluation.families[term.name].l2 ** 2 / (2 * beta)


def passes_over(problem: Problem, rows: Sequence[int]) -> float:
    """Passes over the rows of the composite terms, or of the smooth ones if there are no others."""
    own = problem.composite or problem.smooth
    pairs = [(t, count) for t, count in zip(problem.terms, rows, strict=True) if t in own]
    return sum(count for _, count in pairs) / sum(t.map.size for t, _ in pairs)


def length_of(term: Term) -> float:
    """The length of the rows of a term, 1 if all are 0."""
    return float(term.map.row_norm) or 1.0


def curvature_of(term: Term) -> float:
    """ω L of a term of f, which a gradient can change by along its rows; 0 for one of g."""
    h = term.function
    return term.weight * h.smoothness if isinstance(h, Smooth) else 0.0


def gradient(term: Term, W: Array, G: Array, beta: float, first: bool = True) -> int:
    """G = A* h'_β(A W) over all rows; how many these are. Of a linear term it stays as at first."""
    if first or not isinstance(term.function, Linear):
        term.passes.gradient(W, G, term.chunks(), beta)
    return term.map.size


def direction(problem: Problem, cotangents: Sequence[Array]) -> Array:
    """v = Σ ω A*y of all terms, given their cotangents, in a new array.

    Raises
    ------
    numpy.linalg.LinAlgError
        If a number is NaN, or its square infinite.
    """
    v: Array = np.empty(problem.domain.shape, problem.dtype, like=problem.like)
    pairs = zip(problem.terms, cotangents, strict=True)
    (first, G), *others = sorted(pairs, key=lambda pair: not pair[0].map.covers)
    first.map.set_to(G, first.weight, v)
    for term, G in others:
        term.map.add_to(G, term.weight, v)
    if not (problem.domain.finite_only or np.isfinite(square(v))):
        raise np.linalg.LinAlgError("the direction is not finite")
    return v


def shared(
    term: Term, ranges: Ranges, work: Callable[[Ranges, Array], Any], total: Array
) -> list[Any]:
    """Results of `work(ranges, G)` in threads; all but the first add to a G of their own."""
    parts = threads.share(ranges) if term.passes.parallel else [list(ranges)]
    sums = [total, *(np.zeros_like(total) for _ in parts[1:])]
    pairs = zip(parts, sums, strict=True)
    done = threads.run([partial(work, part, G) for part, G in pairs])
    for G in sums[1:]:
        total += G
    return done
