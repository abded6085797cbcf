"""Proof about a clustering."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from condgrad._round import apart, counted, down, percent, up
from condgrad._types import Array
from condgrad.applications.kmeans import INERTIA
from condgrad.run.answer import Answer
from condgrad.run.result import Result, Status, Trace


@dataclass(frozen=True, repr=False)
class Certification(Answer):
    """Proof about a clustering of n points into k clusters."""

    inertia: float
    """Σ_i ‖x_i − mean of its cluster‖², the number that ``KMeans.inertia_`` is."""
    bound: float
    """No partition of these points into at most k clusters has a smaller inertia."""
    gap: float
    """(inertia − bound)/inertia, 0 where the inertia is 0."""
    n_clusters: int
    """k, the number of clusters."""
    target: float
    """The gap that was asked for."""
    bound_kind: str
    """Kind of proof of the bound, as in `Result.bound_kind`."""
    bound_failure: float
    """Probability that the bound does not hold; 0 unless the kind is ``probabilistic``."""
    status: Status
    """``CONVERGED``: the gap asked for is proved; ``RELAXED``: the relaxation is solved, and a
    longer run would prove little more; otherwise the limit that ended the run."""
    seconds: float
    """Wall time."""
    result: Result | None = field(default=None, compare=False)
    """The run on the relaxation, whose objective is twice the inertia; None where none was needed:
    one cluster, or no more different points than clusters."""

    labels: Array | None = field(default=None, compare=False)
    """The clusters of which this is proved, numbered from 0."""
    better: Array | None = field(default=None, compare=False)
    """Labels of a clustering with a lower inertia that was found where the gap was not proved of
    the given one; None where none was."""
    better_inertia: float = np.inf
    """Inertia of the better clustering."""

    sense = "min"
    infeasibility = 0.0
    """Every partition is feasible."""
    _feasible = True
    _named = "inertia"
    _application = "kmeans"
    unit = INERTIA

    @property
    def objective(self) -> float:
        """Alias of `inertia`."""
        return self.inertia

    @property
    def trace(self) -> Trace:
        """Trace of `result`, in its units; empty if no run was needed."""
        return Trace() if self.result is None else self.result.trace

    def summary(self) -> str:
        """Inertia, bound and gap, and why it ended, as a sentence."""
        clusters = counted(self.n_clusters, "cluster")
        sure = (
            f" (wrong with probability {up(self.bound_failure, 2)})" if self.bound_failure else ""
        )
        lower = f"no clustering has an inertia lower by more than {percent(self.gap, 3)} %"
        lower = lower if self.gap < 1 else "nothing of how good this clustering is"
        text = (
            f"inertia {self.inertia:.6g}; no partition of these points into at most {clusters} has "
            f"less than {down(self.bound, 6)}: proved{sure}, {lower}, "
            f"{self.seconds:.2f} s{self._resumed()}"
        )
        if self.gap <= self.target:
            return text
        why = str(self.status)
        if self.status is Status.RELAXED:
            why = "the relaxation is solved, so that a longer run would prove little more"
        text = f"{text}; the {100 * self.target:.3g} % asked for are not proved: {why}"
        return f"{text}; {self._blame()}"

    def _blame(self) -> str:
        """Whether what is missing is due to the labels or to the relaxation."""
        solved = self.status is Status.RELAXED
        rest = "the relaxation" if solved else "the relaxation, or to a run that was too short"
        if self.better is None:
            return f"no better clustering was found, so that the gap may well be due to {rest}"
        lower = 1 - self.better_inertia / self.inertia
        left = apart(self.better_inertia, min(self.bound, self.better_inertia))
        found = (
            f"the labels are not the best: a clustering with an inertia of "
            f"{self.better_inertia:.6g}, lower by {down(100 * lower, 2)} %, was found (`better`)"
        )
        if left <= self.target:
            most = f"none is lower than that by more than {percent(left, 2)} %"
            return f"{found}, and {most}: the labels are to blame"
        return f"{found}, of which {percent(left, 2)} % are left to prove, due to {rest}"
