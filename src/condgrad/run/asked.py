"""Options of a run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from condgrad.cluster import Ray
from condgrad.problem import Problem
from condgrad.run.callbacks import Watch
from condgrad.run.limits import Goal

if TYPE_CHECKING:
    from condgrad.run.loop import Run


@dataclass(frozen=True)
class Options:
    """Options of a run beside its method."""

    start: Any
    goal: Goal
    watch: Watch
    seed: Any
    n_jobs: int | None
    device: str = "cpu"
    cluster: Ray | None = None


class Asked(NamedTuple):
    """A run that is not made yet."""

    kind: type[Run]
    problem: Problem
    method: Any
    options: Options

    def begin(self) -> Run:
        """The run before its first iteration."""
        return self.kind(*self[1:])
