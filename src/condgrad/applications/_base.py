"""Base of the applications: a problem together with the settings of its experiment."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from condgrad import _deadline as deadline
from condgrad import _progress as progress
from condgrad._types import Array
from condgrad.applications._outcome import PLAIN, Outcome, Rounded, Sense, Unit, gap_of, least
from condgrad.applications._rounder import Rounder
from condgrad.backends import devices, memory
from condgrad.errors import MemoryLimit, ProblemError, from_keyboard
from condgrad.methods import METHODS, Method, check, choose
from condgrad.methods.factored_apg import FactoredApg
from condgrad.methods.sampling import Batch
from condgrad.problem import Problem
from condgrad.run.callbacks import Info
from condgrad.run.journal import journaled, settled
from condgrad.run.limits import Goal
from condgrad.run.result import Status
from condgrad.run.solve import solve, start

PRESETS = ("auto", "paper", "published")
"""`auto`: what this library would do, with a certificate and nothing to tune. `paper`: the settings
in the text of the H-SAG-CGM paper, each of its constraints with weight 1.
`published`: the weights and the oracle effort of its published baseline curves."""

PUBLISHED_EFFORT = 2 * np.sqrt(10)
"""⌈2√10 ln n⌉ Lanczos steps. Ours start from the iterate, stop early or go on by their residual and
give way to LAPACK up to n = 40: the oracle is at least as accurate as the published one."""


FACTORS = FactoredApg.slug
"""Name in the place of a method if W is kept as factors."""
BESIDE = 8
"""Matrices in the memory of the process beside a run on a GPU."""


@dataclass(frozen=True, repr=False)
class Application:
    """A problem with the settings of its experiment.

    Parameters
    ----------
    name : str
        Name on the command line.
    preset : str
        Whose settings these are, one of `PRESETS`.
    problem : Problem
        The problem.
    start : array or Factored, optional
        W_1; default: the centre of the domain.
    beta0 : mapping
        β0 by method, a number or ``"auto"``; the key ``""`` serves the methods that are not named.
    batch : int or float
        Rows per iteration.
    effort : float, optional
        Krylov steps per ln n of the oracle; default: the method's own schedule.
    metrics : mapping
        Functions of W that belong to the application, such as errors on test data.
    formula : str
        Total infeasibility in terms of the families, for people.
    settings : mapping
        Sizes and further settings, for the record.
    rounding : callable, optional
        From W to a solution of the combinatorial problem behind the relaxation.
    floor : float, optional
        The objective is never lower, which whoever builds the application has proved; default: no
        such number is known.
    floor_failure : float
        Probability that `floor` does not hold.
    floor_kind : str
        How `floor` is known, as in `Result.bound_kind`.
    feasible : callable, optional
        From W and the best rounded solution to the feasible point that is offered to the run;
        default: the rounded one.
    sense : {"min", "max"}
        ``max`` where the problem minimises the negative of what is wanted: reports turn it round.
    whole : bool
        Whether rounded solutions have integer values, so that a bound on them can be rounded.
    finer : float
        The relaxation is solved to the gap asked for and a feasibility of 10⁻³, both divided by
        this, unless what is rounded reaches the gap before.
    rows : float, optional
        Tolerance for single rows of the relaxation, where a gap and no such tolerance is asked for;
        default: that of `condgrad.solve`.
    interrupted : bool
        Whether the keyboard ended the search for `start`: then a run has no iterations.
    unit : Unit
        In what unit values are given; default: that of the problem.
    """

    name: str
    preset: str
    problem: Problem
    start: Any
    beta0: Mapping[str, float | str]
    batch: Batch
    effort: float | None = None
    metrics: Mapping[str, Callable[[Array], float]] = field(default_factory=dict)
    formula: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)
    rounding: Callable[[Array], Rounded] | None = None
    floor: float | None = None
    floor_failure: float = 0.0
    floor_kind: str = "exact"
    feasible: Callable[[Array, Rounded], Array] | None = None
    sense: Sense = "min"
    whole: bool = False
    finer: float = 1.0
    rows: float | None = None
    interrupted: bool = False
    unit: Unit = PLAIN

    def __repr__(self) -> str:
        sizes = ", ".join(f"{name} {value}" for name, value in self.settings.items())
        return f"<{type(self).__name__}: {self.name}, preset {self.preset}; {sizes}>"

    def seen(self, value: float, bound: float) -> progress.Seen:
        """A value and a bound of a run as those of the answer, to be shown."""
        gap, low = gap_of(value, bound, self.whole), least(bound, self.whole)
        scale = (-1 if self.sense == "max" else 1) * self.unit.scale
        return progress.Seen(self.unit.what, scale * value, scale * low, gap, self.sense)

    def astype(self, dtype: Any) -> Application:
        """Return this application in another precision, float64 or float32."""
        return replace(self, problem=self.problem.astype(dtype))

    def default(self, beta0: float | str | None) -> str:
        """The method that runs where none is named; where β0 is given, one that has it."""
        found = beta0 is None and set(self.beta0.values()) == {"auto"}
        return choose(self.problem).slug if found else "sag-cgal"

    def method(
        self, slug: str | Method, beta0: float | str | None = None, batch: Batch | None = None
    ) -> tuple[Method, float | str | None, Batch | str | None]:
        """The method of that name with this application's settings, and the β0 and batch in use.

        A `Method` is used as it is.
        """
        if isinstance(slug, Method):
            if beta0 is not None or batch is not None:
                raise ProblemError("method has its own beta0 and batch: leave them out")
            return slug, None, None
        if not isinstance(slug, str):
            raise ProblemError(
                f"method is a {type(slug).__name__}: give its name, such as 'spdhg', or a Method"
            )
        slug = slug.replace("_", "-")
        if slug not in METHODS:
            raise ProblemError(f"method is {slug!r}: choose one of {', '.join(METHODS)}")
        entry = METHODS[slug]
        options: dict[str, Any] = {}
        if entry.smoothed:
            options["beta0"] = self.beta0.get(slug, self.beta0[""]) if beta0 is None else beta0
        elif beta0 is not None:
            raise ProblemError(f"{entry.name} has no beta0: leave it out, or choose another method")
        if slug == "cgal" and isinstance(options["beta0"], str):
            raise ProblemError(
                "CGAL needs a number for beta0 (--beta0), which preset auto has not: give one, or "
                "use sag-cgal with batch 1.0, its automatic form"
            )
        if entry.batched and not (batch is None and entry.options["batch"] == "auto"):
            options["batch"] = self.batch if batch is None else batch
        method = entry(**options)
        if self.effort is not None:
            method = method.with_effort(self.effort)
        return method, options.get("beta0"), options.get("batch")

    def ready(
        self, slug: str | Method, beta0: float | str | None = None, batch: Batch | None = None
    ) -> tuple[str, Batch | str | None]:
        """Refuse a method that cannot solve this; its name and the batch in use otherwise."""
        if slug == FACTORS:
            if batch is not None:
                raise ProblemError("batch: a run that keeps W as factors has none, leave it out")
            return FactoredApg.name, None
        built, _, used = self.method(slug, beta0, batch)
        check(self.problem, built)
        return built.name, used

    @journaled
    @deadline.limited
    def run(
        self,
        slug: str | Method | None = None,
        beta0: float | str | None = None,
        batch: Batch | None = None,
        **limits: Any,
    ) -> Outcome:
        """Solve with the method of that name, or a `Method`; `limits` go to `condgrad.solve`.

        ``checkpoint``, ``every`` and ``resume`` are as there.

        Where a gap is asked for, rounded solutions are offered to the run as points, and it ends
        once the best of them is within the gap. Ctrl-C ends the run, and a second time its last
        certificate or the rounding, each with what there is.
        """
        slug = slug or self.default(beta0)
        name, used_beta0, used_batch = FactoredApg.name, None, None
        method: Method | None = None
        if slug == FACTORS:
            self.ready(slug, beta0, batch)
        else:
            method, used_beta0, used_batch = self.method(slug, beta0, batch)
            name = method.name
        rounder = None if self.rounding is None else Rounder(self.rounding, self.feasible)
        floor_kind = "given" if "floor" in limits else self.floor_kind
        asked = limits.get("gap") if rounder is not None else None
        if asked is not None:
            Goal(asked)

            def enough(info: Info) -> Status | None:
                assert rounder is not None
                return Status.CONVERGED if rounder.gap(info, self.whole) <= asked else None

            limits["callbacks"] = [*limits.get("callbacks", ()), enough]
            limits["gap"] = asked / self.finer
            if self.finer > 1 and limits.get("feasibility") is None:
                limits["feasibility"] = 1e-3 / self.finer
            if self.rows is not None and limits.get("row_feasibility") is None:
                limits["row_feasibility"] = self.rows

        interrupted = self.interrupted
        verbose = limits.pop("verbose", False)
        bar = {name: limits.get(name) for name in ("max_iter", "max_epochs", "max_seconds")}
        with progress.shown(verbose, **bar), progress.answers(self._measure(rounder)):
            if interrupted:
                how = {"start": self.start, "floor": self.floor, "metrics": self.metrics}
                with deadline.within(0.0):  # nor is a proof begun
                    run = start(self.problem, seed=limits.get("seed", 0), **how)
                    result = replace(run.result(), status=Status.INTERRUPTED, method=name)
            else:
                how = {"propose": rounder, "floor": self.floor, "metrics": self.metrics, **limits}
                settled("gap", lambda: True, asked)  # that of the run may be another one
                result = solve(self.problem, method, start=self.start, **how)
            try:
                if rounder is not None and not rounder.made(result):
                    progress.doing("rounding")
                    rounder.end(result.W)
            except (KeyboardInterrupt, SystemError) as error:
                if not from_keyboard(error):
                    raise
                interrupted = True
        return Outcome(
            self.name,
            self.preset,
            name_of(slug),
            used_beta0,
            used_batch,
            result,
            self.formula,
            self.settings,
            None if rounder is None else rounder.result,
            self.sense,
            self.whole,
            self.floor_failure,
            floor_kind,
            interrupted,
            asked,
            self.unit,
        )

    def _measure(self, rounder: Rounder | None) -> progress.Measure:
        """Measure to be shown of a run: the best solution, or the point before there is one."""

        def measure(last: Mapping[str, float]) -> progress.Seen | None:
            if rounder is None:
                return None
            if rounder.best is not None:
                return self.seen(rounder.best.value, last["lower_bound"])
            point = self.seen(last["objective"], last["lower_bound"])
            return point._replace(what="relaxation", gap=math.nan)

        return measure


def name_of(method: str | Method) -> str:
    """The name of a method on the command line."""
    if isinstance(method, str):
        return method.replace("_", "-")
    return next((e.slug for e in METHODS.values() if e.name == method.name), method.name)


def require_room(shape: tuple[int, int], terms: int, remedy: str) -> None:
    """Refuse a dense W that will not fit before anything of its size is made.

    It counts what `solve` counts for W; that also adds the tables of the method. Where there is a
    GPU to solve on, what is given to it and comes back from it is enough.
    """
    rows, columns = shape
    what = f"W, direction and oracle, dense matrices of {rows} × {columns}"
    try:
        memory.require_room((16 + 2 * terms) * 8 * rows * columns, remedy, what)
    except MemoryLimit:
        if not devices.any_gpu():
            raise
        what = f"data and results, dense matrices of {rows} × {columns}"
        memory.require_room(BESIDE * 8 * rows * columns, remedy, what)


def check_preset(preset: str) -> None:
    """Refuse an unknown preset."""
    if preset not in PRESETS:
        raise ProblemError(f"preset is {preset!r}: choose one of {', '.join(PRESETS)}")


def top_rank_one(C: Array, trace: float) -> Array:
    """trace · v vᵀ with v the leading eigenvector of C, the experiments' starting point."""
    v = np.linalg.eigh(C)[1][:, -1]
    return trace * np.outer(v, v)
