"""Result of a run."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np

from condgrad._files import replaced
from condgrad._round import counted, digits_for, down, up
from condgrad._types import Array
from condgrad.errors import InputError, ProblemError, cause
from condgrad.evaluation import Violation, missed, worst, worst_row
from condgrad.run.answer import Answer

PARTS = ("method", "certificate", "proposal", "metrics", "compiling")
"""The parts of `Result.profile`."""


class Status(Enum):
    """Why a run ended, as a sentence. Only the first is a proof of near-optimality."""

    CONVERGED = "the gap to the proven bound and the infeasibility are below their tolerances"
    RELAXED = (
        "the relaxation is solved, but what was rounded from it is farther from the bound than was "
        "asked for"
    )
    MAX_ITER = "the limit on iterations was reached"
    MAX_EPOCHS = "the limit on epochs was reached"
    MAX_SECONDS = "the limit on time was reached"
    MAX_LMO = "the limit on oracle calls was reached"
    INFEASIBLE = "no point satisfies the constraints, which is proved"
    UNBOUNDED = (
        "the value improves for ever along a direction in which all rows hold up to rounding, from "
        "a point that meets them to the tolerance"
    )
    UNDECIDED = "nothing bounds the trace, and no bound that holds for all W was found"
    INACCURATE = "the run converged by its own measure, but not in the units of the program"
    CONTRADICTION = (
        "the problem's parts contradict each other: an adjoint, a conjugate, an oracle or a floor "
        "is wrong, since a bound lies above the value of a feasible point; there is no bound"
    )
    STOPPED = "a callback stopped the run"
    PAUSED = "the run was left before anything ended it"
    INTERRUPTED = "the run was interrupted"
    OUT_OF_MEMORY = "there was no memory to go on; the best point so far is returned"
    LOST = (
        "shards of the cluster were lost and could not be brought back; the best point is returned"
    )
    NONFINITE = "a number became infinite or NaN; the best point before that is returned"

    def __str__(self) -> str:
        return self.value

    @classmethod
    def limits(cls) -> tuple[Status, ...]:
        """The limits that a user can set."""
        return cls.MAX_ITER, cls.MAX_EPOCHS, cls.MAX_SECONDS, cls.MAX_LMO


GOES_ON = (*Status.limits(), Status.STOPPED, Status.PAUSED)
"""Ends after which a run can be advanced."""
KEEP = (Status.INTERRUPTED, Status.NONFINITE, Status.OUT_OF_MEMORY, Status.LOST)
"""Ends of a run that say more than that a bound was taken back."""


@dataclass(repr=False, eq=False)
class Trace:
    """Columns of numbers, one row per recorded iteration.

    Row ``k`` shows the iterate after iteration k, row 0 the start. The column ``seconds`` is of the
    method: the clock stands while metrics are evaluated. Counts are ``epochs``, ``epochs.NAME`` per
    term, ``lmo_calls``, ``matvecs`` and ``rows``. Values are ``objective``, ``smoothed`` (F_β) and
    ``infeasibility``; every constraint family has ``NAME.l2``, ``.max``, ``.relative``, ``.scaled``
    and ``.row``. The best bound so far is ``lower_bound``, and ``gap`` is that of this iterate to
    it. Scalars are ``eta`` and ``beta``, with ``NAME.beta`` if it is automatic. The user's own
    metrics follow.

    With ``solve(..., errors=True)`` every term that SAG or Full follows has ``NAME.error``. It is
    ω ‖h'_{β_k}(A W_k) − y_k‖_1 of the slopes y_k that iteration k used, at W_k, the point before
    its step. Lemmas 4.2 and 4.3 of the H-SAG-CGM paper are about it; `theory.estimator_error`
    bounds its mean. It is NaN at k = 0 and in the last row of a run that was broken off.

    Examples
    --------
    >>> trace = Trace()
    >>> trace.append({"k": 1, "objective": 2.0})
    >>> trace["objective"]
    array([2.])
    """

    _columns: dict[str, list[float]] = field(default_factory=dict)

    def append(self, row: Mapping[str, float]) -> None:
        """Add one row; every row has the same columns."""
        for name, value in row.items():
            self._columns.setdefault(name, []).append(float(value))

    def copy(self) -> Trace:
        """The rows so far, in a trace of their own."""
        return Trace({name: list(values) for name, values in self._columns.items()})

    def amend(self, row: Mapping[str, float]) -> None:
        """Replace entries of the latest row."""
        for name, value in row.items():
            self._columns[name][-1] = float(value)

    def scaled(self, factor: float) -> Trace:
        """The trace of the same run with its objective, and what has its unit, times a factor."""
        if factor == 1:
            return self
        money, columns = ("objective", "smoothed", "lower_bound"), self._columns.items()
        return Trace({n: [factor * x for x in c] if n in money else c for n, c in columns})

    def replace(self, column: str, value: float) -> None:
        """Set a column to one number."""
        if column in self._columns:
            self._columns[column] = [float(value)] * len(self)

    def __getitem__(self, column: str) -> Array:
        if column not in self._columns:
            raise KeyError(f"no column {column!r}: there are {', '.join(self._columns)}")
        return np.array(self._columns[column][: len(self)])

    def __repr__(self) -> str:
        return f"<Trace of {len(self)} rows: {', '.join(self._columns)}>"

    def __len__(self) -> int:
        return min(map(len, self._columns.values()), default=0)  # Ctrl-C can cut a row short

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    @property
    def columns(self) -> list[str]:
        """Names of the columns."""
        return list(self._columns)

    @property
    def last(self) -> dict[str, float]:
        """The latest row."""
        at = len(self) - 1
        return {name: values[at] for name, values in self._columns.items()}

    @property
    def missed(self) -> Array:
        """The relative infeasibility that `feasibility` is compared with, of the worst family.

        If a trace has no families it is the column ``infeasibility``.
        """
        families = [self[name] for name in self._relative]
        return np.max(families, axis=0) if families else self["infeasibility"]

    @property
    def missed_name(self) -> str:
        """Name of the numbers of `missed`."""
        return "relative infeasibility of the worst family" if self._relative else "infeasibility"

    @property
    def _relative(self) -> list[str]:
        return [name for name in self._columns if name.endswith((".relative", ".scaled"))]

    def to_frame(self) -> Any:
        """The trace as a pandas ``DataFrame``."""
        import pandas as pd  # an extra, imported on request only

        return pd.DataFrame({name: self[name] for name in self})

    def save(self, path: str | Path) -> None:
        """Write to a ``.csv``, ``.json`` or ``.npz`` file."""
        path, text = _checked(path), io.StringIO(newline="")
        columns: dict[str, Any] = {name: self[name].tolist() for name in self}
        if path.suffix == ".csv":
            csv.writer(text).writerows([columns, *zip(*columns.values(), strict=True)])
        elif path.suffix == ".json":
            json.dump(columns, text)
        with replaced(path) as file:
            file.write(text.getvalue().encode())
            if path.suffix == ".npz":
                np.savez_compressed(file, **columns)

    @classmethod
    def load(cls, path: str | Path) -> Trace:
        """Read what `save` wrote.

        Raises
        ------
        InputError
            If the file holds something else.
        """
        path = _checked(path)
        try:
            match path.suffix:
                case ".csv":
                    text = io.StringIO(path.read_text(encoding="utf-8"), newline="")
                    names, *rows = csv.reader(text)
                    by_column = zip(*rows, strict=True) if rows else [()] * len(names)
                    columns: Any = dict(zip(names, by_column, strict=True))
                case ".json":
                    columns = json.loads(path.read_text(encoding="utf-8"))
                case _:
                    with np.load(path) as data:
                        columns = dict(data)
            return cls.of(columns)
        except FileNotFoundError:
            raise
        except Exception as error:  # zip, zlib, header, text and number errors of many types
            raise InputError(path, f"this is no saved run or trace ({cause(error)})") from None

    @classmethod
    def of(cls, columns: Mapping[str, Any]) -> Trace:
        """A trace with these columns, each as long as the others."""
        if not isinstance(columns, Mapping):
            raise ValueError(f"a {type(columns).__name__} instead of columns with names")
        own = {}
        for name, column in columns.items():
            try:
                own[name] = [float(x) for x in column]
            except (TypeError, ValueError):
                raise ValueError(f"{name} is no column of numbers") from None
        if len({len(column) for column in own.values()}) > 1:
            raise ValueError("its columns have different lengths")
        return cls(own)


def _checked(path: str | Path) -> Path:
    """The path of a trace, whose form its end tells."""
    path = Path(path)
    if path.suffix not in (".csv", ".json", ".npz"):
        raise ProblemError(f"path ends in {path.suffix!r}: use .csv, .json or .npz")
    return path


@dataclass(frozen=True, eq=False, repr=False)
class Result(Answer):
    """The best point of a run and how it went.

    *Best* is judged at recorded iterations by the function the method descends on at the β of the
    moment: objective + Σ ω_t dist_t²/(2β), or the augmented Lagrangian if the method keeps
    multipliers. If a gap is asked for it is judged by how far gap and relative infeasibility are
    from their tolerances. The last iterate always takes part.
    """

    W: Array
    """The best point, an array or, if it was kept as factors and has more than four million
    entries, a `condgrad.points.Factored`."""
    status: Status
    objective: float
    """Smooth and Lipschitz terms at `W`."""
    infeasibility: float
    """Total infeasibility at `W`."""
    families: dict[str, Violation]
    """Violation of each constraint family at `W`."""
    iterations: int
    best_iteration: int
    """Iteration that produced `W`; 0 is the start."""
    epochs: float
    """Rows of composite terms evaluated per composite row (smooth ones if there are none). A row
    evaluated at two points, as by STORM and SPIDER, counts twice."""
    seconds: float
    """Seconds of the method alone; `summary` has those of the whole run, the sum of `profile`."""
    lmo_calls: int
    matvecs: int
    """Matrix-vector products in the oracle; 0 if LAPACK answered."""
    rows: dict[str, int]
    """Rows evaluated, per term."""
    trace: Trace
    method: str
    seed: Any
    metrics: dict[str, float] = field(default_factory=dict)
    """The user's own metrics at `W`."""
    proposed: bool = False
    """Whether `W` is a point that `propose` offered, such as a rounded solution."""
    lower_bound: float = -np.inf
    """The optimum is not below this number; −∞ if nothing was certified, +∞ if the problem
    is infeasible."""
    gap: float = np.inf
    """|objective − lower_bound| / max(|objective|, |lower_bound|, `Problem.unit`). An infeasible
    point can lie below the bound: read it together with `families`."""
    bound_kind: str = "none"
    """Kind of proof of the bound: ``exact``, ``exact-eigenvalue``, ``exact-singular-value``,
    ``probabilistic``, ``oracle``, ``given`` (by the user, as `floor`) or ``none``; see
    `condgrad.domains._base.Minimum`."""
    bound_failure: float = 0.0
    """Probability that the bound does not hold; 0 unless it, or one that it was chosen over, is
    ``probabilistic``."""
    bound_source: str = ""
    """The dual point that gave the bound."""
    profile: dict[str, float] = field(default_factory=dict)
    """Seconds of the whole run by parts: ``method`` (its iterations, with what it measures for its
    own use), ``certificate``, ``proposal``, ``metrics`` (with callbacks and the trace) and
    ``compiling``."""
    duals: dict[str, Array] = field(default_factory=dict)
    """Multipliers y of the composite terms behind the bound, if ``solve(..., duals=True)`` asked
    for them: ∇f + Σ ω A*y is the direction, and −ωy the price of the right-hand sides."""
    ray: dict[str, Array] = field(default_factory=dict)
    """Multipliers y of the constraint families that prove the status ``INFEASIBLE``: the minimum
    of ⟨Σ ω A*y, s⟩ over the domain is above Σ ω h*(y), which it would not be if some s met all
    constraints. Left out above a million rows, unless ``solve(..., duals=True)`` asked for it."""
    device: str = "cpu"
    """Device that kept the arrays of the run, ``cpu`` or ``cuda`` with the name of the GPU."""
    note: str = ""
    """Shortage of memory that ended the run: its use, how much was free, and a remedy. On a
    cluster: the shards that were lost, and with what they began again."""
    resumed: int | None = None
    """The iteration from which the run went on, if it was resumed from a checkpoint."""

    sense = "min"
    """A run minimises."""

    @property
    def bound(self) -> float:
        """Alias of `lower_bound`."""
        return self.lower_bound

    @property
    def returned(self) -> Trace:
        """Row of the trace at the iteration that gave `W`, with the numbers of `W`.

        There is no row if the trace lacks that iteration, or begins with another point.
        """
        trace = self.trace["k"] if len(self.trace) else ()
        at = [i for i, k in enumerate(trace) if k == self.best_iteration]
        row = {name: float(self.trace[name][at[-1]]) for name in self.trace if at}
        if not row or not (self.proposed or row["objective"] == self.objective):
            return Trace()
        row |= {"objective": self.objective, "infeasibility": self.infeasibility, "gap": self.gap}
        for name, violation in self.families.items():
            row |= {f"{name}.{kind}": v for kind, v in violation._asdict().items()}
        return Trace.of({name: [value] for name, value in row.items()})

    @property
    def worst(self) -> float:
        """The largest relative infeasibility of a family, which `feasibility` is compared with."""
        return worst(self.families)

    @property
    def worst_row(self) -> float:
        """The largest relative infeasibility of a row; `row_feasibility` is compared with it."""
        return worst_row(self.families)

    def summary(self) -> str:
        """The numbers of the run and why it ended, as a sentence."""
        digits = digits_for(self.objective, self.lower_bound, "min", 6)
        where = "" if self.device == "cpu" else f" on {self.device}"
        return (
            f"{self.method}: objective {self.objective:.{digits}g}, "
            f"lower bound {down(self.lower_bound, digits)}, gap {up(self.gap, 2)}, "
            f"relative infeasibility {self._missed()} after "
            f"{counted(self.iterations, 'iteration')} "
            f"({sum(self.profile.values()):.2f} s{where}){self.resumption}; "
            f"{self.status}{self._whence()}{self.note and f' ({self.note})'}"
        )

    def _missed(self) -> str:
        return missed(self.families)

    @property
    def resumption(self) -> str:
        """That the run was resumed, in words; empty if it was not."""
        if self.resumed is None:
            return ""
        every = self.resumed >= self.iterations
        return f", {'all' if every else self.resumed} of them from the checkpoint"

    def _whence(self) -> str:
        """The origin of the point, in words, if it is not the last iterate."""
        if self.proposed:
            return "; the best point is one that was proposed"
        if self.best_iteration == self.iterations:
            return ""
        if self.best_iteration == 0:
            return "; no iterate was better than the start, which is returned"
        return f"; the best point is that of iteration {self.best_iteration}"
