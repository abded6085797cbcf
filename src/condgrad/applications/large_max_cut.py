"""Maximum cut of graphs whose relaxation has too many entries to be written down."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from condgrad import _progress as progress
from condgrad._deadline import left, limited, room, within
from condgrad._floats import EPS
from condgrad._types import Array, Params
from condgrad.applications import local_triangles
from condgrad.applications._base import Application
from condgrad.applications._outcome import Outcome, Rounded, gap_of
from condgrad.applications.annealing import AT_ONCE, LENGTHS, LONG, Search
from condgrad.applications.elimination import Reduction, reduced
from condgrad.applications.graphs import PART
from condgrad.applications.mixing import RANK, Mixed, mixing
from condgrad.applications.rounding import Cut
from condgrad.backends import memory
from condgrad.backends.devices import check_device
from condgrad.certificate import relative_gap
from condgrad.domains import Minimum
from condgrad.domains.chebyshev import COLUMNS
from condgrad.errors import ProblemError, from_keyboard
from condgrad.evaluation import Evaluation, Violation
from condgrad.methods import Method
from condgrad.points import Gram
from condgrad.run import journal
from condgrad.run.callbacks import Info, check_callbacks
from condgrad.run.journal import journaled
from condgrad.run.limits import Clock, Counts, Goal, Limits
from condgrad.run.result import Result, Status, Trace

FACTORED = 5000
"""With more vertices W stays a factor."""
SHARE = 0.7
"""The part of a limit on time that sweeps and bounds may take; the rest is for the cut."""
KNOWN = ("gap", "feasibility", "row_feasibility", "max_iter", "max_epochs", "max_seconds", "seed")
OTHERS = ("callbacks", "n_jobs", "device")
"""Options of a run."""
FINE = 1e-3
"""Largest gap to which the remaining graph is solved: its looseness decides."""


@dataclass(frozen=True, kw_only=True, repr=False)
class LargeMaxCut(Application):
    """Maximum cut by the mixing method alone: W = VVᵀ is a `Gram`, and A is only multiplied.

    `problem` describes the relaxation; `condgrad.solve` of it would need W as an array.

    With `presolve` vertices are taken out first without changing the optimum (`elimination`), and
    what is left is solved with triangle inequalities near its edges (`local_triangles`). The bound
    is then one on cuts, which other points of the relaxation pass, and W is that of the best cut.
    """

    adjacency: Any
    hyperplanes: int = 100
    seed: int = 0
    presolve: bool = False

    def default(self, beta0: float | str | None) -> str:
        """The one method there is."""
        return "mixing"

    def ready(
        self, slug: str | Method, beta0: float | str | None = None, batch: Any = None
    ) -> tuple[str, Any]:
        """Refuse a method: there is none to choose."""
        if slug != "mixing" or beta0 is not None or batch is not None:
            n = self.adjacency.shape[0]
            raise ProblemError(
                f"the graph has {n} vertices, too many for a dense W, and is cut by the mixing "
                "method: leave method, beta0 and batch out"
            )
        return "mixing method", None

    @journaled
    @limited
    def run(
        self,
        slug: str | Method | None = None,
        beta0: float | str | None = None,
        batch: Any = None,
        **limits: Any,
    ) -> Outcome:
        """Sweeps until the relaxation is solved to the gap, then cuts; a sweep is an epoch.

        Of `max_seconds` seven tenths are for the sweeps and their bounds. Ctrl-C ends the sweeps,
        and then the cut is that of hyperplanes; a second time it ends that search as well.
        """
        verbose = limits.pop("verbose", False)
        self.ready(slug or "mixing", beta0, batch)
        if unknown := set(limits) - {*KNOWN, *OTHERS}:
            raise ProblemError(
                f"{', '.join(sorted(unknown))}: where W is too large to be dense a run has the "
                f"options {', '.join((*KNOWN, *OTHERS))} only"
            )
        check_device(device := limits.get("device", "cpu"))
        if device == "cuda":
            raise ProblemError(
                "device is 'cuda': a graph whose W is too large to be dense is cut on the CPU, "
                "leave device out"
            )
        callbacks = limits.get("callbacks", ())
        check_callbacks(callbacks)
        gap = limits.get("gap")
        Goal(gap)
        names = ("max_iter", "max_epochs", "max_seconds", "max_lmo")
        iterations, epochs, seconds, lmo = (limits.get(name) for name in names)
        most = Limits(iterations, epochs, seconds, lmo)
        seed = limits.get("seed", self.seed)
        run = _Run(self, gap, most, seed, callbacks)
        bar = {"max_iter": iterations, "max_epochs": epochs, "max_seconds": seconds}
        with progress.shown(verbose, **bar), progress.answers(run.seen):
            return run.outcome()


class _Run:
    """One run: what was seen of it so far."""

    remembers = ("clock", "trace", "stopped", "search")

    def __init__(
        self,
        application: LargeMaxCut,
        gap: float | None,
        limits: Limits,
        seed: int,
        callbacks: Sequence[Any],
    ) -> None:
        self.application, self.gap, self.limits, self.seed = application, gap, limits, seed
        self.callbacks, self.clock, self.trace = callbacks, Clock(), Trace()
        self.stopped: Status | None = None
        self.search: Search | None = None
        self.reduction: Reduction | None = None
        self.facts: dict[str, Any] = {}
        self._lifted: tuple[Cut, Cut] | None = None

    def outcome(self) -> Outcome:
        """Sweep, round and say what came of it."""
        app, limits = self.application, self.limits
        A = app.adjacency
        require_room(A.shape[0], A.nnz)
        if app.presolve:
            progress.doing("taking out vertices")
            self.reduction = reduced(A)
            A = self.reduction.adjacency
            self.facts["vertices left"] = A.shape[0]
        self.search = Search(A, self.seed)
        self.clock.lap("proposal")
        mixed: Mixed | None = None
        if A.nnz and not self._near(self._floor(None)[0]):
            seconds = SHARE * max(0.0, min(limits.seconds, left()))
            local = self._triangles(A) if app.presolve else None
            with within(seconds):
                mixed = mixing(
                    A,
                    min(self.gap or 0.0, FINE if app.presolve else np.inf),
                    self.seed,
                    seconds,
                    factored=True,
                    most=min(limits.iterations, np.floor(limits.epochs)),
                    watch=self._watch,
                    local=local,
                    shift=0.0 if self.reduction is None else self.reduction.shift,
                )
            self.clock.lap("loop")
        interrupted = mixed is not None and mixed.interrupted
        end = time.perf_counter() + min(limits.seconds, left())
        late = self._round(mixed, interrupted, end)
        self.clock.lap("proposal")
        return self._ended(mixed, interrupted or late)

    def _triangles(self, A: Any) -> local_triangles.LocalTriangles | None:
        """The triangle inequalities to add, if there are any."""
        progress.doing("looking for triangles")
        most = journal.settled("triangles", lambda: local_triangles.room(A))
        local = local_triangles.LocalTriangles(A, most) if most else None
        self.facts["triangles"] = 0 if local is None else len(local.triangles)
        return local if self.facts["triangles"] else None

    def _floor(self, mixed: Mixed | None) -> tuple[float, str, float]:
        """The best bound on the relaxation, how it is known, and how likely it is wrong."""
        floor = float(self.application.floor or 0.0)
        if self.reduction is not None:
            floor = max(floor, self._below(positive_weight(self.reduction.adjacency)))
        if mixed is not None and (low := self._below(mixed.bound)) > floor:
            return low, mixed.kind, mixed.failure
        return floor, "exact", 0.0

    def _below(self, bound: float) -> float:
        """Lower bound on negative cuts, given an upper bound on cuts of the remaining graph."""
        if self.reduction is None:
            return -bound
        total = bound + self.reduction.shift
        return -total - EPS * (abs(total) + abs(self.reduction.constant))

    @property
    def nothing_left(self) -> bool:
        """Whether the whole graph was taken out, so that its best cut is known but for rounding."""
        return self.reduction is not None and self.reduction.adjacency.nnz == 0

    @property
    def best(self) -> Cut:
        """The best cut of the graph so far."""
        assert self.search is not None
        found = self.search.best
        if self.reduction is None:
            return found
        if self._lifted is None or self._lifted[0] is not found:
            self._lifted = found, self.reduction.lifted(found)
        return self._lifted[1]

    def _ended(self, mixed: Mixed | None, interrupted: bool) -> Outcome:
        """The answer with the best cut so far."""
        floor, kind, failure = self._floor(mixed)
        cut = self.best
        W: Any = Gram(np.where(cut.side, 1.0, -1.0)[:, None])
        rounded = Rounded(-cut.value, W, cut)
        point, value, sweeps = W, cut.value, 0 if mixed is None else mixed.sweeps
        if mixed is not None:
            self.facts["columns"] = mixed.W.factor.shape[1]
        if mixed is not None and self.reduction is None and mixed.value >= value:
            point, value = mixed.W, mixed.value
        off = relative_gap(-value, floor)
        solved = self.gap is not None and min(off, self._gap(rounded, floor)) <= self.gap
        status = Status.CONVERGED if solved else self.stopped or self._limit(sweeps)
        done = mixed.solved if mixed is not None else self.nothing_left
        if self.reduction is not None and done and not solved:
            status = Status.RELAXED
        status = Status.INTERRUPTED if interrupted else status
        self._append(sweeps, value, floor, off, point)
        app = self.application
        result = Result(
            point, status, -value, _missed(point), _families(point), sweeps, sweeps, float(sweeps),
            self.clock.seconds, 0, 0, {"diagonal": sweeps * app.adjacency.shape[0]}, self.trace,
            "mixing method", self.seed, lower_bound=floor, gap=off, bound_kind=kind,
            bound_failure=failure, profile=dict(self.clock.parts),
        )  # fmt: skip
        settings = {**app.settings, "columns": point.factor.shape[1], **self.facts}
        return Outcome(
            app.name, app.preset, "mixing", None, None, result, app.formula, settings, rounded,
            app.sense, app.whole, 0.0, kind, interrupted, self.gap, app.unit,
        )  # fmt: skip

    def _near(self, floor: float) -> bool:
        """Whether the first cut is as good as was asked for."""
        cut = self.best
        first = Rounded(-cut.value, np.empty((0, 0)), cut)
        return self._gap(first, floor) <= (self.gap or 0.0)

    def _gap(self, rounded: Rounded, floor: float) -> float:
        return gap_of(rounded.value, floor, self.application.whole)

    def _limit(self, sweeps: int) -> Status:
        """The limit that ended the sweeps, where nothing else did."""
        found = self.limits.reached((sweeps, sweeps, 0))
        return found or Status.MAX_SECONDS

    def _watch(self, sweeps: int, V: Array, value: float, bound: Minimum) -> bool:
        """Write a row of the trace and ask the callbacks."""
        self.clock.lap("loop")
        floor = max(self._below(bound.value), float(self.application.floor or -np.inf))
        point: Any = Gram(V)
        if self.reduction is not None:
            assert self.search is not None
            end = time.perf_counter() + room()
            self.search.hyperplanes(V, AT_ONCE, end)
            self.search.anneal(LENGTHS[0], end)
            point, value = Gram(np.where(self.best.side, 1.0, -1.0)[:, None]), self.best.value
        self._append(sweeps, value, floor, relative_gap(-value, floor), point)
        nothing = Params(sweeps, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
        app = self.application
        info = Info(sweeps, nothing, point, self.clock.seconds, float(sweeps), 0, self.trace,
                    app.problem)  # fmt: skip
        info.__dict__["evaluation"] = Evaluation(-value, _families(point), _missed(point))
        progress.look(self)
        for callback in self.callbacks:
            answer = callback(info)
            if answer is not None and answer is not False:
                self.stopped = answer if isinstance(answer, Status) else Status.STOPPED
        self.clock.lap("metrics", counts=False)
        return self.stopped is not None or self._near(floor)

    @property
    def counts(self) -> Counts:
        """Sweeps, which are epochs, and oracle calls."""
        k = int(self.trace["k"][-1])
        return k, float(k), 0

    def seen(self, last: Mapping[str, float]) -> progress.Seen | None:
        """The best cut as it is shown while the run goes on."""
        if self.search is None:
            return None
        return self.application.seen(-self.best.value, last["lower_bound"])

    def _append(self, sweeps: int, value: float, floor: float, off: float, point: Any) -> None:
        row = {"k": sweeps, "seconds": self.clock.seconds, "epochs": sweeps, "lmo_calls": 0}
        row |= {"matvecs": 0, "rows": sweeps * self.application.adjacency.shape[0]}
        row |= {"objective": -value, "infeasibility": _missed(point), "lower_bound": floor}
        self.trace.append({**row, "gap": off})

    def _round(self, mixed: Mixed | None, interrupted: bool, end: float) -> bool:
        """Look for better cuts; whether the keyboard ended the search."""
        search, floor = self.search, self._floor(mixed)[0]
        assert search is not None
        try:
            if mixed is not None:
                later = time.perf_counter() + 0.5 * room()
                progress.doing("cuts by hyperplanes")
                search.hyperplanes(mixed.W.factor, self.application.hyperplanes, later)
                lengths = LENGTHS if self.reduction is None else (*LENGTHS, LONG)
                for length in () if interrupted else lengths:
                    progress.doing(f"simulated annealing, {length} sweeps")
                    if self._near(floor) or not search.anneal(length, end):
                        break
        except (KeyboardInterrupt, SystemError) as error:
            if not from_keyboard(error):
                raise
            return True
        return False


def positive_weight(A: Any) -> float:
    """Weight of all edges of positive weight, not rounded below it, which no cut exceeds."""
    return math.fsum(A.data[A.data > 0]) / 2 * (1 + EPS)


def require_room(vertices: int, entries: int = 0) -> None:
    """Refuse a graph for whose factors there is no memory."""
    need = 8 * vertices * (3 * RANK + 4 * COLUMNS + 4 * AT_ONCE) + 60 * entries
    memory.require_room(need, PART, "V, the graph and products of it")


def _families(point: Gram) -> dict[str, Violation]:
    """Distance of the diagonal from 1, which is rounding."""
    miss = np.einsum("ij,ij->i", point.factor, point.factor) - 1
    far, top = float(np.linalg.norm(miss)), float(np.abs(miss).max())
    size = float(np.sqrt(miss.size))
    return {"diagonal": Violation(far, top, far / (1 + size), far / (2 * size), top)}


def _missed(point: Gram) -> float:
    return _families(point)["diagonal"].l2
