"""Callbacks: what may watch a run and stop it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, Protocol

from condgrad import _progress as progress
from condgrad._check import dimension
from condgrad._types import Array
from condgrad.backends.arrays import host
from condgrad.errors import ProblemError
from condgrad.evaluation import Evaluation
from condgrad.points.factored import shown
from condgrad.problem import Problem
from condgrad.run.result import Status, Trace


class Scalars(NamedTuple):
    """The scalars of an iteration."""

    k: int
    eta: float
    """η, the length of the step."""
    beta: float
    """β before it is scaled for each term."""


@dataclass
class Info:
    """View of an iteration for a callback. Metrics are computed when first asked for."""

    k: int
    params: Any
    """The `Scalars` of the iteration."""
    point: Array = field(repr=False)
    """W_{k+1} on the device of the run."""
    seconds: float
    epochs: float
    lmo_calls: int
    trace: Trace
    problem: Problem = field(repr=False)

    @cached_property
    def W(self) -> Array:
        """W_{k+1} as an array of NumPy; copy it to keep it. A `Factored` if the run keeps factors
        of more than four million entries.
        """
        point: Array = shown(host(self.point))
        return point

    @cached_property
    def evaluation(self) -> Evaluation:
        """Objective and violations of the iterate."""
        return self.problem.evaluate(self.point)

    @property
    def objective(self) -> float:
        """Smooth and Lipschitz terms at the iterate."""
        return self.evaluation.objective

    @property
    def infeasibility(self) -> float:
        """Total infeasibility of the iterate."""
        return self.evaluation.infeasibility


class Callback(Protocol):
    """Called after every iteration with the clock stopped; a `Status` or True stops the run."""

    def __call__(self, info: Info) -> Any: ...


class StopWhen:
    """Stop when a test of `Info` holds, looked at every `every` iterations.

    Examples
    --------
    >>> stop = StopWhen(lambda info: info.objective < 1.0, every=10)
    """

    def __init__(self, test: Callable[[Info], bool], every: int = 1) -> None:
        if not callable(test):
            raise ProblemError("test is not callable: pass a function of Info")
        self.test, self.every = test, dimension("every", every)

    def __call__(self, info: Info) -> Status | None:
        return Status.STOPPED if info.k % self.every == 0 and self.test(info) else None


class Progress:
    """A live line of progress for what is solved in its block; ``verbose=True`` is shorter.

    It is drawn on standard error in a terminal or a notebook, and elsewhere not at all. It can be
    among the callbacks of a run, and need not.

    Parameters
    ----------
    max_iter, max_epochs, max_seconds : number, optional
        The limits of the run; the bar shows the one that is nearest.
    console : rich Console, optional
        The console to draw on instead.
    """

    def __init__(
        self,
        max_iter: float | None = None,
        max_epochs: float | None = None,
        max_seconds: float | None = None,
        console: Any = None,
    ) -> None:
        limits = {"max_iter": max_iter, "max_epochs": max_epochs, "max_seconds": max_seconds}
        self._how: dict[str, Any] = {**limits, "console": console}
        self._shown = ExitStack()

    def __enter__(self) -> Progress:
        self._shown.enter_context(progress.shown(True, **self._how))
        return self

    def __exit__(self, *_: object) -> None:
        self._shown.close()

    def __call__(self, info: Info) -> None:
        """Nothing is left to do: the runs of the block are shown without it."""


def check_callbacks(callbacks: Any) -> None:
    """Refuse what cannot be called after an iteration."""
    listed = isinstance(callbacks, Iterable) and not callable(callbacks)
    if not (listed and all(callable(c) for c in callbacks)):
        raise ProblemError("callbacks must be a sequence of callables: pass [callback]")
