"""Pages that a journal writes of the stages that are at work."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from condgrad.run import saved
from condgrad.run.files import Pack
from condgrad.run.limits import Counts
from condgrad.run.prints import Print
from condgrad.run.result import Status
from condgrad.run.saved import Entry

if TYPE_CHECKING:
    from condgrad.run.journal import Journal
    from condgrad.run.loop import Run


@dataclass
class Open:
    """A run that may go on."""

    run: Run
    prints: Print
    number: int
    """Number of the stage in which the run began."""
    last: int
    """Number of the latest stage that advanced the run."""
    since: Counts = (0, 0.0, 0)
    """Counts at the beginning of that latest stage."""

    def pack(self) -> Entry:
        """Entry of the run, as it is written."""
        about = {"number": self.number, "last": self.last, "since": self.since}
        return saved.entry_of(self.run, self.prints, **about)


@dataclass
class Page:
    """A stage that is no run, and keeps what it needs to go on by itself."""

    name: str
    journal: Journal | None = None
    number: int = 0
    result: Any = None
    """Result of a stage that was done when the file was written; else None."""
    known: Any = None
    """State of a stage that was not done when the file was written, or None."""
    prints: Print = field(default_factory=dict)
    _state: Callable[[], Any] | None = None

    @property
    def begun(self) -> bool:
        """Whether there is something to keep."""
        return self._state is not None

    def keep(self, state: Callable[[], Any]) -> None:
        """Between two steps: write the state if it is time."""
        if self.journal is not None:
            self._state = state
            self.journal.tick()

    def leave(self, status: Status) -> None:
        """The clock ends it, or something worse."""
        if self.journal is not None:
            self.journal.leave(status)

    def end(self, result: Callable[[], Any]) -> None:
        """Note that the stage is done."""
        if self.journal is not None:
            self.journal.turn(self, result())

    def pack(self) -> Entry:
        """Entry of the state, as it is written."""
        assert self._state is not None
        about = {"number": self.number, "prints": self.prints}
        return Entry(about, Pack.of(self._state(), "the state"))
