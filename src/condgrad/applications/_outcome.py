"""Outcome of a run of an application."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from condgrad import _signals
from condgrad._round import apart, bound_text, percent, up
from condgrad._types import Array
from condgrad.certificate import relative_gap
from condgrad.evaluation import missed
from condgrad.methods.sampling import Batch
from condgrad.run.answer import Answer
from condgrad.run.result import Result, Status, Trace

Sense = Literal["min", "max"]
ROUNDING = 1e-11
"""Gaps below this are rounding of sums."""


class Unit(NamedTuple):
    """In what unit an application gives its values, and what the run on its relaxation has."""

    scale: float = 1.0
    """Factor from a value of the relaxation to one of the answer."""
    what: str = "value"
    """Noun of the answer that has the value: ``cut``, ``inertia``."""
    words: str = ""
    """The unit, and that of the run, in words; empty where there is but one."""
    slack: float = 0.0
    """Relative error of a bound by the rounding of `scale`."""


PLAIN = Unit()
"""Unit of the problem itself."""


class Rounded(NamedTuple):
    """A solution of the combinatorial problem behind a relaxation."""

    value: float
    """Value of the answer, in the units of the relaxation's objective."""
    W: Array
    """The answer as a feasible point of the relaxation; in a run it lies on the device of W."""
    answer: Any
    """The partition or the labels."""

    def __repr__(self) -> str:
        side = "×".join(map(str, np.shape(self.W)))
        return f"<Rounded: value {self.value:.6g} in the units of the run; W {side}; answer>"


class Constructed(Answer):
    """An answer that is feasible by its construction, such as a cut, with the `result` of a run."""

    infeasibility = 0.0
    """It meets all constraints."""
    _feasible = True
    _named = "value"

    if TYPE_CHECKING:  # fields of most answers, properties of others

        @property
        def value(self) -> float: ...
        @property
        def result(self) -> Result: ...

    @property
    def objective(self) -> float:
        """Alias of `value`."""
        return self.value

    @property
    def trace(self) -> Trace:
        """Trace of `result`, in its units; a single row if no run was needed."""
        return self.result.trace


def least(bound: float, whole: bool) -> float:
    """Least value that a solution can have: with integer values the bound is rounded up."""
    return float(np.ceil(bound)) if whole and np.isfinite(bound) else bound


def gap_of(value: float, bound: float, whole: bool) -> float:
    """The gap of a solution to a bound on the relaxation, relative to the larger of both."""
    bound = least(bound, whole)
    return 0.0 if value <= bound else relative_gap(value, bound)


@dataclass(frozen=True, eq=False, repr=False)
class Outcome(Answer):
    """Outcome of a run of an application, with the settings that were used."""

    application: str
    preset: str
    slug: str
    beta0: float | str | None
    batch: Batch | str | None
    result: Result
    """The run as it was: it minimises the negative of a maximum."""
    formula: str = ""
    """Formula of total infeasibility for this application."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Further settings of the application."""
    rounded: Rounded | None = None
    """The best solution that rounding found; None where there is no rounding or Ctrl-C ended it."""
    sense: Sense = "min"
    whole: bool = False
    floor_failure: float = 0.0
    floor_kind: str = "given"
    interrupted: bool = False
    """Whether the keyboard ended what comes before or after the run."""
    asked: float | None = None
    """The gap that was asked of a rounded solution."""
    unit: Unit = PLAIN
    """Unit of `value`, `objective` and `bound`; `result` and `rounded` have that of the run."""
    solution: Any = None
    """The `condgrad.sdp.Solution` that the run belongs to, whose numbers are those of the program;
    None where `result` has them."""

    @property
    def status(self) -> Status:
        """Why it ended."""
        status: Status = self.found.status
        if self.interrupted:
            return Status.INTERRUPTED
        if self.asked is None or self.rounded is None or status is not Status.CONVERGED:
            return status
        return status if self.rounded_gap <= self.asked else Status.RELAXED

    @property
    def objective(self) -> float:
        """The value of the best point, in the unit and the sense of the application."""
        return self._turn * self.unit.scale * float(self.found.objective)

    @property
    def bound(self) -> float:
        """Proven: the optimum of the relaxation, and so every solution, is not better."""
        return self._turn * self._scaled(float(self.found.bound))

    @property
    def value(self) -> float:
        """Value of the rounded solution, in the same unit; NaN if there is none."""
        found = np.nan if self.rounded is None else self.rounded.value
        return float(self.sign * self.unit.scale * found)

    @property
    def value_bound(self) -> float:
        """Proven: no solution has a better value than this."""
        return self.sign * self._scaled(self.rounded_bound)

    def _scaled(self, bound: float) -> float:
        """A bound of the run in the unit of the application, rounded to the safe side."""
        if self.unit.scale == 1 or not np.isfinite(bound):
            return bound
        return self.unit.scale * bound - self.unit.slack * abs(self.unit.scale * bound)

    @property
    def gap(self) -> float:
        """Gap of objective and bound; that of a rounded solution is `rounded_gap`."""
        gap, slack = float(self.found.gap), self.unit.slack  # by which the bound was rounded
        if not slack or not gap < 1:
            return gap
        return max(0.0, gap + slack * (1 - gap) * (1 if self.objective > self.bound else -1))

    @property
    def infeasibility(self) -> float:
        """Total infeasibility of the best point, which `formula` explains."""
        return float(self.found.infeasibility)

    @property
    def trace(self) -> Trace:
        """Trace of `result` in the unit of the application; it minimises as the run does."""
        return self.result.trace.scaled(self.unit.scale)

    @property
    def returned(self) -> Trace:
        """Row of `trace` with the numbers of the point returned."""
        return self.result.returned.scaled(self.unit.scale)

    @property
    def found(self) -> Any:
        """`solution` or `result`: the answer whose numbers these are."""
        return self.result if self.solution is None else self.solution

    @property
    def _turn(self) -> int:
        return 1 if self.found.sense == self.sense else -1

    @property
    def message(self) -> str:
        """Why the run ended, and under what condition that is proved."""
        proviso = self._proviso if self.status is Status.INFEASIBLE else ""
        by = _signals.by() if self.status is Status.INTERRUPTED else ""
        note = self.result.note
        return f"{self.status}{proviso}{by}{note and f' ({note})'}"

    @property
    def bound_kind(self) -> str:
        """Kind of proof of the bound, as `Result.bound_kind`; the application knows its floor."""
        kind = self.found.bound_kind
        return f"{self.floor_kind if kind == 'given' else kind}{self._proviso}"

    @property
    def _proviso(self) -> str:
        return f", {self.solution.proviso}" if self.solution and self.solution.proviso else ""

    @property
    def bound_failure(self) -> float:
        """Probability that the bound does not hold."""
        return float(self.found.bound_failure) + self.floor_failure

    @property
    def sign(self) -> int:
        """Sign that turns numbers of the result into those of the application: −1 for a maximum."""
        return -1 if self.sense == "max" else 1

    @property
    def bound_name(self) -> str:
        """Name of the bound."""
        return "upper_bound" if self.sense == "max" else "lower_bound"

    @property
    def rounded_bound(self) -> float:
        """No rounded solution has a value below this, in the units and the sense of the result."""
        return least(self.result.lower_bound, self.whole)

    @property
    def rounded_gap(self) -> float:
        """Distance of the rounded solution from the best possible one, relative to the larger."""
        if self.rounded is None:
            return np.inf
        return gap_of(self.sign * self.value, self.sign * self.value_bound, False)

    @property
    def called(self) -> str:
        """Noun of a rounded solution, such as ``cut`` or ``clustering``."""
        return {"inertia": "clustering", "value": "answer"}.get(self.unit.what, self.unit.what)

    def _missed(self) -> str:
        return missed(self.found.families)

    def _facts(self) -> dict[str, str]:
        if self.rounded is None:
            return super()._facts()
        own = {"solution": f"{self.value:.6g}", "its gap": f"{percent(self.rounded_gap, 2)} %"}
        return own | super()._facts()

    def summary(self) -> str:
        """Objective, bound, gap, infeasibility and what was rounded, as a sentence."""
        text = (
            f"{self.application}, {self.result.method}: objective {self.objective:.6g}, "
            f"{self.bound_name.replace('_', ' ')} {bound_text(self.bound, 6, self.sense)}, "
            f"gap {up(self.gap, 2)}, relative infeasibility {self._missed()}; {self.message}"
        )
        text += self._resumed()
        if self.rounded is None:
            return text
        gap = up(self.rounded_gap, 2)
        return f"{text}; rounded to a solution of value {self.value:.6g}, gap {gap}"

    def to_json(self) -> dict[str, Any]:
        """The run as plain numbers, ready for `json.dump`.

        ``objective``, the bound and ``gap`` are those of the answer: of the rounded solution where
        there is one. Those of the relaxation, in the same unit, are under ``relaxation``, and those
        of the run in its own unit and sense under ``run``.
        """
        r, found = self.result, self.found
        families = {name: v._asdict() for name, v in found.families.items()}
        relaxed = {"objective": self.objective, self.bound_name: self.bound, "gap": self.gap}
        own = relaxed
        if self.rounded is not None:
            numbers = (self.value, self.value_bound, self.rounded_gap)
            own = dict(zip(relaxed, numbers, strict=True))
        return {
            "application": self.application,
            "sense": self.sense,
            "method": self.slug,
            "preset": self.preset,
            "beta0": self.beta0,
            "batch": self.batch,
            "seed": r.seed,
            "device": r.device,
            "status": self.status.name.lower(),
            "message": self.message,
            **({"note": r.note} if r.note else {}),
            "iterations": r.iterations,
            "best_iteration": r.best_iteration,
            "epochs": r.epochs,
            "seconds": found.seconds,
            "profile": found.profile,
            "lmo_calls": r.lmo_calls,
            "matvecs": r.matvecs,
            "rows": sum(r.rows.values()),
            **own,
            "bound_kind": self.bound_kind,
            "bound_failure": self.bound_failure,
            "infeasibility": {"total": self.infeasibility, "families": families},
            **r.metrics,
            "rounded": None
            if self.rounded is None
            else {
                "value": self.value,
                "bound": self.value_bound,
                "gap": self.rounded_gap,
            },
            "unit": self.unit.words,
            "relaxation": relaxed,
            "run": {"objective": r.objective, "lower_bound": r.lower_bound},
            "settings": dict(self.settings),
        }


def closeness(value: float, bound: float, what: str, sense: Sense) -> str:
    """Words for what a bound proves of a solution.

    A share of the value is said of what may be missing if the value is larger than the bound in
    size, and a share of the best possible if the bound is: it lies between both.
    """
    best, lowest = f"this {what} is the best possible", sense == "min"
    if (value <= bound) if lowest else (value >= bound):
        return best
    if not (gap := apart(value, bound)) < 1:
        return f"how far this {what} is from the best possible is not proved"
    if gap < ROUNDING:
        return f"{best} up to rounding"
    if abs(value) < abs(bound):
        return f"this {what} is within {percent(gap, 2)} % of the best possible"
    return f"no {what} is {'lower' if lowest else 'higher'} by more than {percent(gap, 2)} %"
