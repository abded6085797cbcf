"""What all answers have in common."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from condgrad.run.result import Status, Trace


class Answer(ABC):
    """The best that was found, and what is proved of it: the base of all that is returned.

    An answer stays as it was given. Where it was made from the `Result` of a run, in other units or
    with a further proof, it has numbers of its own, and the result is still that of the run.

    Attributes
    ----------
    status : Status
        Why it ended.
    sense : str
        ``"min"`` or ``"max"``.
    objective : float
        The value of what was found.
    bound : float
        Proven: the optimum is not better than this number, in the units and the sense of
        `objective`. Infinite where nothing is proved, or where it is that nothing is feasible.
    gap : float
        |objective − bound| / max(|objective|, |bound|, u), infinite without a bound. Here u = 0, or
        a small part of the range of the objective, so that an optimum of 0 can be met.
    infeasibility : float
        How far what was found is from the constraints; 0 where it meets all of them.
    trace : Trace
        The history of the last run, in the units of that run; empty where none was needed.
    """

    _feasible: ClassVar[bool] = False
    """Whether what was found is feasible by its construction."""

    if TYPE_CHECKING:  # fields of some answers, properties of others

        @property
        def status(self) -> Status: ...
        @property
        def sense(self) -> str: ...
        @property
        def objective(self) -> float: ...
        @property
        def bound(self) -> float: ...
        @property
        def gap(self) -> float: ...
        @property
        def infeasibility(self) -> float: ...
        @property
        def trace(self) -> Trace: ...

    @property
    def lower_bound(self) -> float:
        """The optimum is not below this: `bound` of a minimum.

        Of a maximum it is the value of a cut, which is feasible; a point that meets its constraints
        only nearly proves nothing: −∞.
        """
        if self.sense == "max":
            return self.objective if self._feasible else -math.inf
        return self.bound

    @property
    def upper_bound(self) -> float:
        """The optimum is not above this: `bound` of a maximum, and of a minimum as above."""
        if self.sense == "min":
            return self.objective if self._feasible else math.inf
        return self.bound

    @abstractmethod
    def summary(self) -> str:
        """What was found, what is proved of it and why it ended, as a sentence."""

    def __str__(self) -> str:
        return self.summary()

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.summary()}>"
