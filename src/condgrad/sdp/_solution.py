"""Solution of a semidefinite program."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from condgrad._round import bound_text, digits_for, down, up
from condgrad._types import Array
from condgrad.certificate import relative_gap
from condgrad.evaluation import Violation, missed
from condgrad.run.answer import Answer
from condgrad.run.result import Result, Status, Trace


class DimacsErrors(NamedTuple):
    r"""The six error measures of the DIMACS challenge, for min ⟨C, W⟩.

    ‖b‖₁ and ‖C‖₁ stand for the largest magnitude. Z is C − A*y by definition, so the third is 0.

    References
    ----------
    .. [1] H. D. Mittelmann, "An independent benchmarking of SDP and SOCP solvers", Math. Program.
       95, 2003.
    """

    primal: float
    """‖A W − b‖/(1 + ‖b‖₁), of a row with ≤ only its violation."""
    primal_cone: float
    """max(0, −λ_min(W))/(1 + ‖b‖₁)."""
    dual: float
    """‖A*y + Z − C‖/(1 + ‖C‖₁)."""
    dual_cone: float
    """max(0, −λ_min(Z))/(1 + ‖C‖₁)."""
    gap: float
    """(⟨C, W⟩ − b'y)/(1 + |⟨C, W⟩| + |b'y|)."""
    complementarity: float
    """⟨W, Z⟩/(1 + |⟨C, W⟩| + |b'y|), the slack of rows with ≤ included."""


@dataclass(frozen=True, eq=False, repr=False)
class Solution(Answer):
    """The best point found for a semidefinite program, and what is proved about it."""

    W: Any
    """The point: a matrix, or a list with a matrix or a vector for each block."""
    value: float
    """Objective at `W`, which meets the rows up to `errors.primal` only."""
    bound: float
    """Proven: the optimum is not better than this number; infinite where nothing is proved. It
    holds for all W ⪰ 0, unless `proviso` names a trace bound of the user's."""
    conditional_bound: float
    """Proven for W with Tr W ≤ `trace_bound` alone; where that is a guess it decides nothing."""
    y: Array
    """A multiplier for each row, the price of its right-hand side: ∂ optimum/∂b."""
    Z: Any
    """C − A*y, or A*y − C where the objective is maximised, shaped as `W`."""
    status: Status
    errors: DimacsErrors
    sense: str
    trace_bound: float
    """τ: the run looked at W with Tr W ≤ τ."""
    trace_from: str
    """Source of τ: ``"rows"`` (they imply it), ``"user"`` or ``"guess"``."""
    conditional: bool
    """Whether `bound`, or the proof that no W is feasible, needs the user's trace bound."""
    seconds: float
    result: Result | None
    """The last run of the method, as it was: it minimises, over scaled variables and rows of length
    1, what the bound on the trace allows. None where the rows leave at most W = 0."""
    infeasibility: float = 0.0
    """‖A W − b‖, of a row with ≤ only its violation."""
    families: Mapping[str, Violation] = field(default_factory=dict)
    """The violation of all rows in their own units, under the name of each family of the run."""
    worst_row: float = 0.0
    """The largest violation of a row relative to its own scale: the larger of |b_l| and
    Σ |A_l,ij| √(W_ii W_jj), or ‖A_l‖ ‖W‖ where b_l = 0."""
    unit: float = 0.0
    """A millionth of Σ |C_ij W_ij|, or of ‖C‖ times about the least ‖W‖ that the rows allow: an
    optimum of 0 can be met."""
    bound_failure: float = 0.0
    """Probability that `bound`, or the proof that no W is feasible, does not hold: 1e-10 for each
    eigenvalue that was bounded by Lanczos, beyond side 3000 or where time was short."""
    ray: Any = None
    """D ⪰ 0, shaped as `W`, where the status is UNBOUNDED: W + tD is as feasible as W for every
    t ≥ 0 up to rounding, and its value improves for ever. The rows of D are off by less than 10⁻¹²
    of what it gains, so that every dual point, if there is one, has multipliers above 10¹²."""

    _application = "sdp"

    @property
    def objective(self) -> float:
        """Alias of `value`."""
        return self.value

    @property
    def trace(self) -> Trace:
        """Trace of `result`, whose units are not those of the program."""
        return Trace() if self.result is None else self.result.trace

    @property
    def bound_kind(self) -> str:
        """Kind of proof of the bound, as `Result.bound_kind`; ``none`` if nothing is proved."""
        worst = np.inf if self.sense == "max" else -np.inf
        if self.bound == worst:
            return "none"
        if self.bound_failure:
            return "probabilistic"
        if self.result is None:
            return "exact"
        own = self.result.bound_kind  # of a bound of the run, which may have none
        return "exact-eigenvalue" if own in ("none", "probabilistic") else own

    @property
    def device(self) -> str:
        """Device of the last run, as `Result.device`."""
        return "cpu" if self.result is None else self.result.device

    @property
    def profile(self) -> dict[str, float]:
        """Seconds by part: those of the last run, and all ``before`` it."""
        parts = {} if self.result is None else self.result.profile
        return {"before": max(0.0, self.seconds - sum(parts.values())), **parts}

    @property
    def gap(self) -> float:
        """|value − bound| / max(|value|, |bound|, unit)."""
        return relative_gap(self.value, self.bound, self.unit)

    def factors(self, tol: float = 1e-6) -> Any:
        """U with U Uᵀ = W, shaped as `W`: n × r for a matrix, a vector as it is.

        Parameters
        ----------
        tol : float, default 1e-6
            Eigenvalues of W below this part of the largest are left out, which decides the rank.
        """
        if isinstance(self.W, list):
            return [_factor(W, tol) for W in self.W]
        return _factor(self.W, tol)

    _named = "value"

    def _missed(self) -> str:
        return missed(self.families) if self.families else f"{self.errors.primal:.2g}"

    def summary(self) -> str:
        """Value, bound, gap and infeasibility, and why it ended, as a sentence."""
        side = "upper" if self.sense == "max" else "lower"
        where = "" if self.device == "cpu" else f" on {self.device}"
        digits = digits_for(self.value, self.bound, self.sense, 8)
        text = bound_text(self.bound, digits, self.sense)
        proviso = f", {self.proviso}" if self.proviso else ""
        if self.bound_failure:
            text += f" (wrong with probability {up(self.bound_failure, 2)})"
        proved = f"proven {side} bound {text}{proviso}; gap {up(self.gap, 3)}{self._per()}"
        if not np.isfinite(self.bound):
            proved = "no bound proved"
            if np.isfinite(self.conditional_bound):
                text = bound_text(self.conditional_bound, 8, self.sense)
                within = f"Tr W ≤ {down(self.trace_bound, 4)}"
                proved += f" ({side} bound {text} if {within}, a guess)"
        if self.status is Status.INFEASIBLE:
            return f"{self.status}{proviso} ({self.seconds:.2f} s{where})"
        return (
            f"value {self.value:.{digits}g}, {proved}, "
            f"relative infeasibility {self._missed()}; {self.status} "
            f"({self.seconds:.2f} s{where}){self._resumed()}"
            f"{self.advice and f'; {self.advice}'}"
        )

    @property
    def advice(self) -> str:
        """Advice if a limit came first; empty if none is known."""
        guessed = self.trace_from == "guess" and self.result is not None
        if not guessed or self.status not in Status.limits():
            return ""
        return "the rows do not bound Tr W: pass a trace_bound if you know one"

    def _per(self) -> str:
        small = max(abs(self.value), abs(self.bound)) < self.unit
        return f" of {self.unit:.2g}, a millionth of the objective's terms" if small else ""

    @property
    def proviso(self) -> str:
        """Under what condition bound and infeasibility are proved; empty where there is none."""
        return f"if Tr W ≤ {down(self.trace_bound, 4)}" if self.conditional else ""


def _factor(W: Array, tol: float) -> Array:
    if W.ndim == 1:
        return W
    values, vectors = np.linalg.eigh(W)
    kept = values > max(tol * values[-1], 0.0)
    U: Array = vectors[:, kept] * np.sqrt(values[kept])
    return U[:, ::-1]
