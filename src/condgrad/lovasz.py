"""The theta function of a graph in one call, with what it proves of sets and colourings."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from condgrad import _progress as progress
from condgrad._adjacency import weights_of
from condgrad._check import flag
from condgrad._deadline import limited
from condgrad._round import bound_text, up
from condgrad._types import Array
from condgrad.applications import Constructed
from condgrad.applications.theta import (
    UNIT,
    Feasible,
    feasible,
    independent_set,
    of_set,
    theta_of,
)
from condgrad.backends.devices import check_device
from condgrad.certificate import relative_gap
from condgrad.run.callbacks import Info
from condgrad.run.journal import EVERY, checkpoints
from condgrad.run.limits import Goal, Limits
from condgrad.run.result import Result, Status

FINER = 30.0
"""The program is solved to the gap asked for divided by this, unless a feasible point is within the
gap before."""


@dataclass(frozen=True, eq=False, repr=False)
class Theta(Constructed):
    """The theta function of a graph, or θ⁺, between two proven bounds."""

    value: float
    """Value of a feasible W: the theta function is not smaller."""
    bound: float
    """The theta function is not larger."""
    gap: float
    """|value − bound| / max(|value|, |bound|)."""
    status: Status
    """Why the run ended."""
    plus: bool
    """Whether W ≥ 0 was asked for."""
    W: Array
    """The feasible point, with trace 1 and 0 at every edge."""
    independent_set: tuple[Any, ...]
    """A large independent set: nodes of a networkx graph, else indices from 0."""
    result: Result
    """The run, which minimises the negative."""
    bound_failure: float = 0.0
    """Probability that a bound does not hold; 0 up to 3000 vertices."""

    sense = "max"
    _application = "theta"
    unit = UNIT

    @property
    def independence_bound(self) -> int:
        """No independent set has more vertices, and no clique of the complement: ⌊bound⌋."""
        return math.floor(self.bound)

    @property
    def colouring_bound(self) -> int:
        """Fewer cliques do not cover the graph, fewer colours do not colour its complement."""
        return math.ceil(self.value)

    def summary(self) -> str:
        """Value, bound and what they say of the graph, as a sentence."""
        name = "Theta plus" if self.plus else "Theta"
        wrong = (
            f", wrong with probability {up(self.bound_failure, 2)}" if self.bound_failure else ""
        )
        return (
            f"{name}: between {bound_text(self.value, 6, 'min')} and "
            f"{bound_text(self.bound, 6, 'max')}{wrong}; no independent set has more than "
            f"{self.independence_bound} vertices (found: {len(self.independent_set)}), fewer than "
            f"{self.colouring_bound} cliques do not cover the graph; {self.status}"
        )


class _Met:
    """Offers points that meet all rows to a run, and ends it once the best of them is near."""

    remembers = ("best",)

    def __init__(self, A: Any, plus: bool, gap: float) -> None:
        self._A, self._plus, self._gap = A, plus, gap
        self.best: Feasible | None = None

    def __call__(self, W: Array) -> Array:
        found = feasible(self._A, W, self._plus)
        if self.best is None or found.value > self.best.value:
            self.best = found
        return self.best.W

    def enough(self, info: Info) -> Status | None:
        """Whether the best point is within the gap of the latest bound."""
        value = -math.inf if self.best is None else self.best.value
        bound = -info.trace.last["lower_bound"]
        near = math.isfinite(bound) and relative_gap(value, bound) <= self._gap
        return Status.CONVERGED if near else None


@limited
def theta(
    graph: Any,
    *,
    plus: bool = False,
    gap: float = 1e-4,
    max_seconds: float | None = 60.0,
    seed: int = 0,
    n_jobs: int | None = None,
    device: str = "cpu",
    checkpoint: str | os.PathLike[str] | None = None,
    every: float = EVERY,
    resume: str | os.PathLike[str] | bool | None = None,
    verbose: bool | int = False,
) -> Theta:
    r"""The theta function of Lovász, an upper bound on the size of independent sets.

    .. math:: α(G) ≤ θ^+(G) ≤ ϑ(G) ≤ \barχ(G)

    with α the largest independent set and χ̄ the least number of cliques that cover the vertices,
    that is, the least number of colours of the complement. For the largest clique and the colours
    of a graph itself pass its complement. `condgrad.applications.theta` has the program.

    Parameters
    ----------
    graph : networkx.Graph, SciPy sparse matrix, array, frame or NamedGraph
        Undirected; weights do not count, loops are ignored.
    plus : bool, default False
        θ⁺ (Schrijver): W ≥ 0 is asked for, which makes the bound on independent sets tighter.
    gap : float, default 1e-4
        Relative gap between both bounds to end at.
    max_seconds, seed, n_jobs, device, checkpoint, every, resume, verbose
        As for `condgrad.sparsest_cut`.

    References
    ----------
    .. [1] L. Lovász, "On the Shannon capacity of a graph", IEEE Trans. Inform. Theory 25(1), 1979.
    .. [2] A. Schrijver, "A comparison of the Delsarte and Lovász bounds", IEEE Trans. Inform.
       Theory 25(4), 1979.

    Examples
    --------
    The pentagon, where ϑ = √5 lies between α = 2 and χ̄ = 3:

    >>> import numpy as np
    >>> ring = np.roll(np.eye(5), 1, axis=0) + np.roll(np.eye(5), -1, axis=0)
    >>> answer = theta(ring)
    >>> round(answer.value, 3), answer.independence_bound, answer.colouring_bound
    (2.236, 2, 3)
    """
    check_device(device)
    Goal(gap)
    Limits(None, None, max_seconds, None)
    plus = flag("plus", plus)
    A, names = weights_of(graph, None, signed=True)
    application = theta_of(A, plus)

    met = _Met(A, plus, gap)

    def seen(last: Mapping[str, float]) -> progress.Seen:
        """Both bounds, to be shown."""
        bound = -last["lower_bound"]
        if met.best is None:
            return progress.Seen("relaxation", -last["objective"], bound, math.nan, "max")
        value = met.best.value
        return progress.Seen("theta", value, bound, relative_gap(value, bound), "max")

    how: dict[str, Any] = {"seed": seed, "n_jobs": n_jobs, "device": device}
    how |= {"gap": gap / FINER, "feasibility": min(1e-3, gap) / FINER}
    with (
        progress.shown(verbose, max_seconds=max_seconds),
        progress.answers(seen),
        checkpoints(checkpoint, every, resume),
    ):
        found = application.run(max_seconds=max_seconds, propose=met, callbacks=[met.enough], **how)
    result = found.result
    met(result.W)
    ends = met.best
    assert ends is not None
    members = independent_set(A, ends.W)
    if members.sum() > ends.value:
        ends = of_set(members)
    value = ends.value
    bound = max(-result.lower_bound, value)
    reached = relative_gap(value, bound)
    status = found.status
    if status is Status.CONVERGED and reached > gap:
        status = Status.RELAXED
    return Theta(
        value,
        bound,
        reached,
        status,
        plus,
        ends.W,
        tuple(name for name, member in zip(names, members, strict=True) if member),
        result,
        found.bound_failure + ends.failure,
    )
