"""Rounding of the iterates of a run."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from condgrad import _deadline as deadline
from condgrad._types import Array
from condgrad.applications._outcome import Rounded, gap_of
from condgrad.backends.arrays import HOST, foreign, host
from condgrad.run.callbacks import Info
from condgrad.run.result import Result


class Rounder:
    """Rounds iterates and remembers the best solution found.

    It answers with a feasible point: that solution, or what `feasible` makes of it and W.
    """

    anywhere = True
    """True: the rounder takes W on the device of the run."""
    remembers = ("best", "_like", "_rounding")
    """Attributes that a checkpoint keeps."""

    def __init__(
        self,
        rounding: Callable[[Array], Rounded],
        feasible: Callable[[Array, Rounded], Array] | None = None,
    ) -> None:
        fresh = getattr(rounding, "fresh", None)
        self._rounding = rounding if fresh is None else fresh()
        self._feasible, self._like = feasible, HOST
        self.best: Rounded | None = None
        self._took = 0.0

    def __call__(self, W: Array) -> Array:
        began = time.perf_counter()
        point = self._round(W)
        self._took = time.perf_counter() - began
        return point

    def end(self, W: Array) -> None:
        """Round the last point, if there is time for it or no solution yet."""
        if self.best is None or deadline.fits(self._took):
            self(W)

    def _round(self, W: Array) -> Array:
        if foreign(W):
            self._like = W
        if getattr(self._rounding, "anywhere", False):
            found = self._rounding(W if foreign(W) else np.asarray(W, like=self._like))
        else:
            found = self._rounding(host(W))
        if self.best is None or found.value < self.best.value:
            self.best = found
        return self.best.W if self._feasible is None else self._feasible(host(W), self.best)

    def made(self, result: Result) -> bool:
        """Whether a run on a GPU ended with a point of its own, which says nothing new."""
        own = result.proposed and self._feasible is None and self.best is not None
        return own and result.device != "cpu"

    @property
    def result(self) -> Rounded | None:
        """The best solution, its matrix in an array of NumPy.

        Where the first rounding was broken off it is what that had until then, if it says so.
        """
        best: Rounded | None = self.best or getattr(self._rounding, "so_far", None)
        return None if best is None else best._replace(W=host(best.W))

    def gap(self, info: Info, whole: bool) -> float:
        """Gap of the best solution, at the latest bound of a run."""
        value = np.inf if self.best is None else self.best.value
        return gap_of(value, info.trace.last["lower_bound"], whole)
