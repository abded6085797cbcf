"""Problems that read entries over a nuclear ball: the loop of `solve` with W kept as factors.

All terms are separable and read entries, so that the gradient is sparse: no array of the shape of W
is made anywhere. Constraints and regularisers have multipliers. An interval on all entries has some
for a table of entries, which changes from one round of steps to the next (`methods.rounds`), and is
measured on all entries, a block of them at a time, or on drawn ones (`rows.everywhere`). Any other
term that reads all entries is not for this loop: such a problem goes the way of dense arrays.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from condgrad._types import Array, Params
from condgrad.backends import memory, threads
from condgrad.certificate import Bound
from condgrad.certificate.factored import FactoredCertificate
from condgrad.domains import Domain, NuclearBall
from condgrad.domains.eigen import LARGE
from condgrad.domains.singular import STEPS
from condgrad.errors import ProblemError
from condgrad.evaluation import Evaluation
from condgrad.methods.factored import RULE, FactoredStep
from condgrad.methods.registry import Method
from condgrad.methods.rounds import Rounds
from condgrad.points import factored as points
from condgrad.points.factored import Factored, Held
from condgrad.problem import Problem
from condgrad.rows.everywhere import Seen, exact, sampled
from condgrad.rows.observed import Observed, ObservedTerm, everywhere, observable, tabled
from condgrad.run import journal
from condgrad.run.asked import Asked, Options
from condgrad.run.callbacks import Watch
from condgrad.run.limits import Goal, Limits
from condgrad.run.loop import TOWARDS, Run
from condgrad.run.monitor import Monitor
from condgrad.run.prepare import generator
from condgrad.run.proofs import Proofs
from condgrad.run.result import KEEP, Result
from condgrad.run.state import RunState
from condgrad.testing import check_parts

NAME = "accelerated projected gradient"
"""Name of the method in `Result.method`."""
BETA = 3.0
"""The curvature of losses by that of what is smoothed."""
COLUMNS = 60
"""Columns of the factors that memory is asked for beforehand; a frame that grows asks again."""


def applies(problem: Problem) -> bool:
    """Whether a run can keep W as factors."""
    return type(problem.domain) is NuclearBall and tabled(problem)


def chosen(problem: Problem) -> bool:
    """Whether a run keeps W as factors unless something else is asked for.

    Where there is more than losses, in matrices that would not be handed out as arrays.
    """
    large = np.prod(problem.domain.shape, dtype=float) > points.SHOWN
    return applies(problem) and (observable(problem) or bool(large))


def suits(problem: Problem, options: Options) -> bool:
    """Whether a run without a named method keeps W as factors.

    Not on a GPU, and not where points are proposed, or errors of estimates or multipliers of
    constraints are asked for.
    """
    watch = options.watch
    plain = options.device != "cuda" and watch.propose is None and not watch.errors
    return plain and chosen(problem) and not (watch.duals and problem.composite)


def needs(problem: Problem) -> list[memory.Need]:
    """Memory that such a run takes, by parts."""
    n, m = problem.domain.shape
    size, item = sum(t.map.size for t in problem.terms if not everywhere(t)), problem.dtype.itemsize
    few = "leave out users and items with few ratings, or take a sample"
    columns = min(COLUMNS, n, m)
    small = min(n, m)
    proof = 5 * 8 * small**2 if small <= LARGE else 8 * STEPS * small
    if any(everywhere(t) for t in problem.terms):  # as many more in a table, and while it changes
        size *= 3
    return [
        memory.Need("ratings by rows and by columns", size * (24 + 9 * item), few),
        memory.Need("factors", 14 * (n + m) * columns * item, few),
        memory.Need("the bound", size * 4 * 8 + proof, few),
    ]


class FactoredProofs(Proofs):
    """The certificate of such a run."""

    _certificate: Any

    def certify(self, W: Any, betas: Sequence[float], known: Any = None) -> Any:
        report = self._certificate.evaluate(W, self._rows, betas)
        self.bound = self._certificate.best
        if np.isnan(report.fw_gap):
            self._withdraw()
            return None
        return report

    def contradicted(
        self,
        k: int,
        point: Any,
        evaluation: Evaluation,
        W: Any,
        betas: Sequence[float],
        end: bool,
    ) -> bool:
        bound, value = self.bound.value, evaluation.objective
        size = max(abs(bound), abs(value), self._problem.unit)
        if self._certificate is None or not np.isfinite(bound) or bound <= value + 1e-9 * size:
            return False
        drawn = any(everywhere(t) and not exact(t) for t in self._problem.terms)
        if drawn or any(v.l2 > 0 for v in evaluation.families.values()):
            return False
        if not self._certificate.refuted(point, self.bound):
            return False
        self._withdraw()
        return True

    def refute(self, k: int, W: Any, betas: Any, evaluation: Evaluation, report: Any) -> bool:
        if not self._refuter.due(k, self.goal.far(evaluation)):
            return False
        found: Bound = self._certificate.ray(W)
        if found.value > 0:
            self.bound = Bound(np.inf, found.kind, found.failure, found.source)
        return found.value > 0


class FactoredRun(Run):
    """A run whose W is kept as factors; all that a `Run` offers."""

    _transient = (*Run._transient, "_observed")

    def __init__(self, problem: Problem, method: None, options: Options) -> None:
        self.prepare(problem, method, options)
        self._begin()

    def prepare(self, problem: Problem, method: Method | None, options: Options) -> None:
        self.asked = self.problem = problem
        self.first, self.estimators, self._options = None, [], options
        self._threads, self._control = threads.Calm(options.n_jobs), None
        memory.require(needs(problem))
        check_parts(problem, options.watch.certify)
        with self._threads():
            self._observed = Observed(problem)

    def _begin(self) -> None:
        problem, options = self.problem, self._options
        with self._threads():
            rows: list[Any] = [ObservedTerm(self._observed, i) for i in range(len(problem.terms))]
            W: Any = Held(first_point(problem, options.start))
            rng = generator(options.seed)
            radius = _radius(problem.domain)
            how = (self._observed, radius, W.array, rng, RULE, _first_beta(self._observed, radius))
            self._mover, self._rounds = FactoredStep(*how), Rounds()
            self.state = RunState(W, np.zeros(0), rows, self._mover.state, None, rng)
            self._show()
            self._watch_it()

    @property
    def name(self) -> str:
        """Name of the method in `Result.method`."""
        return NAME

    def _watch_it(self, clock: Any = None) -> None:
        """Begin to watch the run over its problem."""
        watch, problem, self._judge = self._options.watch, self.problem, None
        if watch.certify:
            self._judge = FactoredCertificate(problem, self._mover.observed, watch.floor)
            self._tell(self._judge)
        parts = (problem, self.state, None, self._judge, self._options.goal, watch, clock)
        self._monitor = Monitor(*parts, proofs=FactoredProofs)

    def _show(self, seen: Mapping[int, Seen] | None = None) -> None:
        """Tell those who will ask what the entries of W are, and what was seen of all."""
        W, entries, observed = self.state.W.array, self._mover.state.entries, self._mover.observed
        for i, rows in enumerate(self.state.terms):
            known = None if seen is None or i not in seen else seen[i].misses
            rows.know(W, entries, observed, self._mover.state.y, known)  # type: ignore[attr-defined]
        judge = getattr(self, "_judge", None)
        if judge is not None:
            self._tell(judge)

    def _tell(self, judge: FactoredCertificate) -> None:
        mover = self._mover
        judge.observed, judge.about = mover.observed, (mover.state.y, mover.state.beta)
        judge.entries = (self.state.W.array, mover.state.entries)

    def _iterate(self) -> bool:
        """One step after the other, until the monitor has a status."""
        s, monitor, mover = self.state, self._monitor, self._mover
        for k in itertools.count(s.k + 1):
            W, products = mover.move(s.W.array, monitor.clock.lap)  # type: ignore[arg-type]
            beta = mover.state.beta
            s.W.array, s.k, s.params = W, k, Params(k, 1.0, beta, 0.0, 0.0, 1.0, beta)  # type: ignore[assignment]
            s.lmo_calls, s.matvecs = s.lmo_calls + 1, s.matvecs + products
            for rows, part in zip(s.terms, mover.observed.parts, strict=True):
                rows.rows += part.stop - part.start  # type: ignore[misc]
            self._show(self._renewed(W, k))
            if monitor.after():
                return False
        return False

    def _renewed(self, W: Factored, k: int) -> dict[int, Seen] | None:
        """Begin another round with other entries, where one is over; what was seen of them."""
        mover, rounds = self._mover, self._rounds
        if mover.state.y is None or not rounds.over(k):
            return None
        how = (self.problem, mover.observed, mover.state.y, W, self.state.rng)
        observed, y, seen = rounds.renewed(*how)
        mover.read(observed, y, W)
        self._monitor.clock.lap("rows")
        return seen

    def result(self, factors: bool = False) -> Result:
        """As of any run; where an interval was measured on drawn entries, others say more."""
        found = super().result(factors)
        terms = [t for t in self.problem.terms if everywhere(t) and not exact(t)]
        if not terms or not isinstance(found.W, Factored):
            return found
        rng = np.random.default_rng([0, 0])
        seen = {t.name: sampled(t, found.W, rng) for t in terms}
        words = "; ".join(f"{name} was measured {said}" for name, said in seen.items())
        note = "; ".join(text for text in (found.note, words) if text)
        return replace(found, sampled=seen, note=note)

    def move(self, domain: Domain) -> FactoredRun:
        """Go on over a ball of another radius, which must contain W."""
        if type(domain) is not NuclearBall or domain.shape != self.problem.domain.shape:
            raise ProblemError(
                f"domain is a {type(domain).__name__}: the run is over a NuclearBall of shape "
                f"{self.problem.domain.shape}"
            )
        if self._monitor.status in KEEP:
            raise ProblemError(f"the run cannot go on ({self._monitor.status}): start another")
        _require_inside(self.state.W.array, domain, "domain does not contain the W of the run")
        weights, dtype = self.problem.infeasibility_weights, self.problem.dtype
        terms = self.problem.terms
        self.problem = Problem(domain, terms, infeasibility_weights=weights, dtype=dtype)
        self._mover.radius = domain.radius
        with self._threads():
            self._watch_it(self._monitor.clock)
        return self


def fit(
    problem: Problem,
    start: Factored | Array | None = None,
    *,
    gap: float | None = None,
    feasibility: float | None = None,
    max_iter: int | None = None,
    max_seconds: float | None = None,
    certify: bool = True,
    floor: float | None = None,
    callbacks: Sequence[Any] = (),
    seed: int | None = 0,
    n_jobs: int | None = None,
) -> Result:
    """Minimise over a nuclear ball a sum of terms that read entries, W kept as factors.

    Parameters
    ----------
    problem : Problem
        Over a `NuclearBall`, all terms separable and on `Entries`, scaled or not, but for intervals
        with one lower and one upper end on `AllEntries`.
    start : Factored or array, optional
        A point of the ball, such as the W of a result; default: 0.
    gap, feasibility, max_iter, max_seconds, certify, floor, callbacks, seed, n_jobs
        As of `condgrad.solve`.

    Returns
    -------
    Result
        Its W is a `Factored` with singular values s, whatever its size.

    Raises
    ------
    ProblemError
        Where the problem is not of this kind, or does not fit into the free memory.
    """
    if not isinstance(problem, Problem) or not applies(problem):
        raise ProblemError(
            "problem is not over a NuclearBall with separable terms on Entries alone, but for "
            "intervals on AllEntries: use condgrad.solve, which keeps W as an array"
        )
    watch, goal = Watch(callbacks=callbacks, certify=certify, floor=floor), Goal(gap, feasibility)
    watch.require(goal)
    if seed is None:
        seed = journal.fresh_seed()
    if goal.wanted and max_iter is max_seconds is None:
        max_iter = TOWARDS
    limits = Limits(max_iter, None, max_seconds, None)
    run = Asked(FactoredRun, problem, None, Options(start, goal, watch, seed, n_jobs))
    return journal.solved(run, limits, factors=True)


def first_point(problem: Problem, start: Any) -> Factored:
    """Check the starting point."""
    shape, dtype = problem.domain.shape, problem.dtype
    if start is None:
        return Factored.zeros(shape, dtype)
    if not isinstance(start, Factored):
        start = np.asarray(start)
        if start.dtype.kind != "f":
            raise ProblemError(
                f"start has dtype {start.dtype}, which would truncate the iterates: pass "
                "start.astype(float)"
            )
    if start.shape != shape:
        raise ProblemError(
            f"start has shape {start.shape}, but points of the domain have {shape}: reshape it, or "
            "leave it out to start from 0"
        )
    finite = start.finite if isinstance(start, Factored) else bool(np.isfinite(start).all())
    if not finite:
        raise ProblemError("start contains NaN or infinity: replace those entries")
    W = start.decomposed() if isinstance(start, Factored) else Factored.of(start)
    what = "start lies outside the NuclearBall: scale or project it, or leave it out"
    _require_inside(W, problem.domain, what)
    return W.astype(dtype)


def _require_inside(W: Any, domain: Domain, what: str) -> None:
    if float(np.sum(W.s)) > _radius(domain) * (1 + 1e-6):
        raise ProblemError(what)


def _first_beta(observed: Observed, radius: float) -> float:
    """β by the curvature of the losses, or by their slopes where there is none."""
    weight = max((t.weight for t in observed.terms if not t.function.smooth), default=1.0)
    curvature = observed.curvature
    if not curvature:
        slopes, _ = observed.gradient(np.zeros(observed.size, observed.dtype))
        curvature = float(np.linalg.norm(slopes)) / radius or 1.0
    return BETA * weight / curvature


def _radius(domain: Domain) -> float:
    assert isinstance(domain, NuclearBall)
    return domain.radius
