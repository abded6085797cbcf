"""Base of all answers."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from html import escape
from typing import TYPE_CHECKING, ClassVar

from condgrad._round import bound_text, digits_for, percent

if TYPE_CHECKING:
    from condgrad.run.result import Status, Trace


class Answer(ABC):
    """The best that was found, and what is proved of it: the base of all that is returned.

    An answer stays as it was given. If it was made from the `Result` of a run, in other units or
    with a further proof, it has numbers of its own; the result is still that of the run.

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
        `objective`. Infinite if nothing is proved, or if nothing is feasible.
    gap : float
        |objective − bound| / max(|objective|, |bound|, u), infinite without a bound. Here u = 0, or
        a small part of the range of the objective, so that an optimum of 0 can be met.
    infeasibility : float
        How far what was found is from the constraints; 0 if it meets all of them.
    trace : Trace
        The history of the last run, in the units of that run; empty if none was needed.
    """

    _application: ClassVar[str] = "problem"
    """Noun of the problem that was solved."""
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
        """Sentence on the answer, its proof and why the run ended."""

    def __str__(self) -> str:
        return self.summary()

    _named: ClassVar[str] = "objective"
    """Name of `objective` in words."""

    def _resumed(self) -> str:
        """That the run behind the answer was resumed, in words; empty if it was not."""
        run = getattr(self, "result", None)
        words = "" if run is None else run.resumption.removeprefix(", ")
        return words and f"; {words.replace('of them', 'of the iterations')}"

    def _missed(self) -> str:
        """The infeasibility that was tested, as text; empty if there is none to speak of."""
        return "" if self._feasible else f"{self.infeasibility:.2g}"

    def _per(self) -> str:
        """Number that the gap is relative to, in words, if neither the objective nor the bound."""
        return ""

    def _facts(self) -> dict[str, str]:
        """The numbers that matter, by name."""
        side = "upper bound" if self.sense == "max" else "lower bound"
        digits = digits_for(self.objective, self.bound, self.sense, 6)
        facts = {self._named: f"{self.objective:.{digits}g}"}
        if math.isfinite(self.bound):
            facts |= {side: bound_text(self.bound, digits, self.sense)}
            facts |= {"gap": f"{percent(self.gap, 2)} %{self._per()}"}
        facts |= {"infeasibility": self._missed(), "status": self.status.name.lower()}
        return {name: text for name, text in facts.items() if text}

    def __repr__(self) -> str:
        facts = self._facts()
        status = facts.pop("status").replace("_", " ")
        numbers = ", ".join(f"{name} {text}" for name, text in facts.items())
        return f"<{type(self).__name__}: {numbers}; {status}>"

    def _repr_html_(self) -> str:
        """Table of the answer, with the sentence below it, for notebooks."""
        rows = "".join(
            f'<tr><th style="text-align:left">{escape(name)}</th>'
            f'<td style="text-align:left">{escape(text)}</td></tr>'
            for name, text in self._facts().items()
        )
        title = f"<caption><b>{escape(type(self).__name__)}</b></caption>"
        return f"<table>{title}{rows}</table><p>{escape(self.summary())}</p>"
