"""Calls that make one run after the other and can be taken up again.

A *journal* is the file of such a call. Every run, and whatever else takes long, is a *stage*, and
stages are numbered in the order in which they begin. The file has the results of the stages that
are done, and the state of those at work. A call that is resumed does the same again from its
beginning, since all it does is determined by what is given to it; but its stages are not gone
through once more: those that were done are answered from the file, and the one at work goes on.
"""

from __future__ import annotations

import contextlib
import functools
import os
import time
import warnings
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from condgrad._files import sweep
from condgrad.errors import InputError, MemoryLimit, ProblemError, cause
from condgrad.run import saved
from condgrad.run.files import Pack
from condgrad.run.limits import Limits
from condgrad.run.loop import Asked, Run
from condgrad.run.result import KEEP, Result, Status
from condgrad.run.saved import Entry, Print, print_of

EVERY = 60.0
"""Seconds between two checkpoints."""
REST = 10
"""A checkpoint is not written before this many times what the last one took has passed."""
KEPT = ("checkpoint", "every", "resume")
"""Options of calls that keep a journal."""
PathLike = str | os.PathLike[str]
Answer = TypeVar("Answer")

_current: ContextVar[Journal | None] = ContextVar("condgrad_journal", default=None)


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
    state: Callable[[], Any] | None = None
    """Arrays and numbers to keep, if the stage has begun."""

    def keep(self, state: Callable[[], Any]) -> None:
        """Between two steps: write the state if it is time."""
        if self.journal is not None:
            self.state = state
            self.journal.tick()

    def leave(self, status: Status) -> None:
        """The clock ends it, or something worse."""
        if self.journal is not None:
            self.journal.leave(status)

    def end(self, result: Callable[[], Any]) -> None:
        """Note that the stage is done."""
        if self.journal is not None:
            self.journal._page = None
            self.journal._finish(result(), self.name, self.prints)
            self.journal.leave(None)

    def pack(self) -> list[Entry]:
        """Entry of the state, as it is written, if there is one."""
        about = {"number": self.number, "prints": self.prints}
        return [] if self.state is None else [Entry(about, Pack.of(self.state(), "the state"))]


class Journal:
    """The file of a call. It is written while the call waits.

    Parameters
    ----------
    path : path
        Where to write.
    every : float
        Seconds between two times that it is written; 0: every time.
    resume : path or None
        The file to go on from.
    """

    def __init__(self, path: PathLike, every: float, resume: PathLike | None) -> None:
        self._path, self._every = Path(path), every
        folder = self._path.parent
        if self._path.is_dir() or not folder.is_dir() or not os.access(folder, os.W_OK):
            raise ProblemError(
                f"checkpoint is {str(path)!r}, which cannot be written: give a file in a folder "
                "that is there"
            )
        sweep(folder)
        self._due = time.monotonic() + every
        kept = saved.opened(resume) if resume else {name: [] for name in saved.PARTS}
        self._file, self._stored = Path(resume or ""), kept["done"]
        self._runs = {entry.about["number"]: entry for entry in kept["runs"]}
        self._pages = {entry.about["number"]: entry for entry in kept["pages"]}
        self._done: list[Entry] = []
        self._open: dict[int, tuple[Run, dict[str, Any]]] = {}
        """The runs that may go on, by the stage in which they began, and the facts of each: the
        latest stage that advanced it (``last``), and its counts at the beginning of that
        (``since``)."""
        self._page: Page | None = None
        self._next = 0
        self._broken = self._late = False

    def solve(self, asked: Asked, limits: Limits, **how: Any) -> Result:
        """Make a run, advance it and return its result: a stage of its own."""
        prints = saved.prints(asked)
        number, known = self._stage("solve", prints)
        if known is not None:
            result, memories = known
            if result is None:
                message, limit = memories
                raise MemoryLimit(*message.split(": ", 1)) if limit else ProblemError(message)
            saved.remind_all(asked, memories)
            found: Result = result
            return replace(found, resumed=found.iterations)
        entry = self._runs.pop(number, None)
        try:
            if entry is not None:
                self._check(entry, prints)
                run = saved.revived(asked, entry, self._file)
            else:
                run = Run(asked)
        except ProblemError as error:  # as for want of memory, which may be another one later
            self._finish((None, (str(error), isinstance(error, MemoryLimit))), "solve", prints)
            raise
        except BaseException:
            self._broken = True
            raise
        about = {"number": number, "last": number, "since": (0, 0.0, 0), "prints": prints}
        self._open[number] = run, about
        how["over"] = entry is not None and saved.ended(run)
        del entry  # with arrays that the run will not keep
        try:
            result = self._advance(run, about, limits, None, **how)
        finally:
            run.close()
        del self._open[number]
        self._finish((result, saved.memories_of(asked)), "solve", prints)
        return result

    def advance(self, run: Run, limits: Limits, until: Any, **how: Any) -> Result:
        """Take a run further and return its result: a stage of a run that goes on afterwards."""
        number, known = self._stage("advance", {})
        about = next((about for own, about in self._open.values() if own is run), {})
        if not about:
            about |= {"number": number, "prints": saved.prints(run.asked)}
            self._open[number] = run, about
        about |= {"last": number, "since": run._monitor.counts}
        entry = self._runs.get(about["number"])
        here = entry is not None and entry.about["last"] == number
        if entry is not None and here:
            self._check(entry, about["prints"])
            saved.restore(run, entry, self._file)
            about["since"] = entry.about["since"]
            del self._runs[about["number"]], entry
        if known is not None:
            found: Result = known
            return found
        over = here and saved.ended(run)
        result = self._advance(run, about, limits, until, over=over, **how)
        self._finish(result, "advance", {})
        return result

    def _stage(self, name: str, prints: Print) -> tuple[int, Any]:
        """The number of the next stage, and what came of it where it was done before."""
        number, self._next = self._next, self._next + 1
        if number >= len(self._stored):
            if number in (self._pages if name in ("solve", "advance") else self._runs):
                raise InputError(self._file, "this checkpoint is of another call")
            return number, None
        entry = self._stored[number]
        if entry.about["name"] != name:
            raise InputError(self._file, "this checkpoint is of another call")
        self._check(entry, prints)
        self._done.append(entry)
        return number, entry.pack.tree(self._file)

    def _check(self, entry: Entry, prints: Print) -> None:
        saved.refuse(self._file, prints, entry.about["prints"])

    def _finish(self, value: Any, name: str, prints: Print) -> None:
        about = {"name": name, "prints": prints}
        self._done.append(Entry(about, Pack.of(value, "the result")))

    def _advance(
        self,
        run: Run,
        about: dict[str, Any],
        limits: Limits,
        until: Any,
        over: bool = False,
        **how: Any,
    ) -> Result:
        """Take a run further unless it is over, with checkpoints on the way and at the end."""
        token = _current.set(None)  # what callbacks solve is no stage
        try:
            saved.entry_of(run, **about)  # refused now what could not be written later
            run._monitor.keep = self.tick
            if not over:
                run.advance_to(limits, until, about["since"])
            run._monitor.keep = None
            record = run._monitor.record
            try:
                self.leave(record.status, record.hurried)
            except KeyboardInterrupt:  # there is an answer
                record.status, self._broken = Status.INTERRUPTED, True
            return run.result(**how)
        except BaseException:
            self._broken = True
            raise
        finally:
            _current.reset(token)

    def tick(self) -> None:
        """Between two iterations: write the file if it is time."""
        if time.monotonic() >= self._due:
            self._late = False
            self.save()

    def leave(self, status: Status | None, hurried: bool = False) -> None:
        """Write the file at the end of a run or a page, if nothing broke it off.

        Where the clock ended it, it shall go on when it is resumed: what comes after it then, in
        no time, is not written.
        """
        if status in KEEP or hurried:
            self._broken = True
        if not self._late:
            self.save()
        self._late = self._late or status is Status.MAX_SECONDS

    def save(self) -> None:
        """Write the file now."""
        if self._broken:
            return
        began = time.monotonic()
        try:
            runs = [saved.entry_of(run, **about) for run, about in self._open.values()]
            pages = [] if self._page is None else self._page.pack()
            saved.write(self._path, {"done": self._done, "runs": runs, "pages": pages})
        except (ProblemError, MemoryError, OSError) as error:  # the run matters more
            warnings.warn(
                f"the checkpoint {str(self._path)!r} could not be written ({cause(error)}): the "
                "run goes on, and the file is as it was before",
                RuntimeWarning,
                stacklevel=3,
            )
        rest = REST * (time.monotonic() - began)
        self._due = began + (max(self._every, rest) if self._every else 0.0)


@contextlib.contextmanager
def checkpoints(
    path: PathLike | None = None,
    every: float = EVERY,
    resume: PathLike | bool | None = None,
) -> Iterator[Journal | None]:
    """Keep checkpoints of all that is solved within the block, and go on from one.

    It serves every call of this package: `solve`, cuts of graphs, semidefinite programs, estimators
    and CVXPY. What the block does beside must be determined by what it is given, as a resumed block
    does it again.

    Parameters
    ----------
    path : path, optional
        The file to write, about every so many seconds and at the end of every run. Default: that of
        `resume`.
    every : float, default 60
        Seconds between two times that it is written, or ten times what writing takes.
    resume : path or bool, optional
        The file to go on from, which must be there; True: from `path` if that is there.

    Examples
    --------
    >>> import condgrad as cg, os, tempfile
    >>> file = os.path.join(tempfile.mkdtemp(), "run.ckpt")
    >>> cost = cg.Term(cg.maps.Inner([1.0, 2.0]), cg.functions.Linear())
    >>> problem = cg.Problem(cg.domains.Simplex(2), [cost])
    >>> with cg.checkpoints(file, resume=True):
    ...     cg.solve(problem, max_iter=10).objective
    1.0
    """
    active = _current.get()
    if path is None and not resume:
        yield active
        return
    if active is not None:
        raise ProblemError(
            "checkpoint is given within a call that keeps one already: leave it out there"
        )
    number = isinstance(every, (int, float, np.number)) and not isinstance(every, bool)
    if not (number and 0 <= every < np.inf):
        raise ProblemError(f"every is {every!r}: it must be a number of seconds")
    for name, given in (("checkpoint", path), ("resume", None if resume is True else resume)):
        if given and not isinstance(given, (str, os.PathLike)):
            raise ProblemError(f"{name} is a {type(given).__name__}: give the path of a file")
    if resume is True:
        if path is None:
            raise ProblemError("resume is True, but there is no checkpoint: give its path")
        resume = path if Path(path).exists() else None
    into: Any = resume if path is None else path
    journal = Journal(into, every, resume or None)
    token = _current.set(journal)
    try:
        yield journal
    finally:
        _current.reset(token)


def journaled(call: Callable[..., Answer]) -> Callable[..., Answer]:
    """Give a call the options ``checkpoint``, ``every`` and ``resume`` of `solve`."""

    @functools.wraps(call)
    def with_checkpoints(
        *args: Any,
        checkpoint: PathLike | None = None,
        every: float = EVERY,
        resume: PathLike | bool | None = None,
        **options: Any,
    ) -> Answer:
        with checkpoints(checkpoint, every, resume):
            return call(*args, **options)

    return with_checkpoints


def page(name: str, data: Any) -> Page:
    """A page for a stage that keeps its own state and is made of these data."""
    journal = _current.get()
    if journal is None:
        return Page(name)
    prints = print_of(data, name)
    number, result = journal._stage(name, prints)
    if result is not None:
        return Page(name, None, number, result)
    entry, known = journal._pages.pop(number, None), None
    if entry is not None:
        journal._check(entry, prints)
        known = entry.pack.tree(journal._file)
    journal._page = Page(name, journal, number, None, known, prints=prints)
    return journal._page


def advanced(run: Run, limits: Limits, until: Any = None, **how: Any) -> Result:
    """Take a run further and return its result."""
    journal = _current.get()
    if journal is None:
        return run.advance_to(limits, until).result(**how)
    return journal.advance(run, limits, until, **how)


def solved(asked: Asked, limits: Limits, **how: Any) -> Result:
    """Make a run, advance it and return its result."""
    journal = _current.get()
    if journal is None:
        run = Run(asked)
        try:
            return run.advance_to(limits).result(**how)
        finally:
            run.close()
    return journal.solve(asked, limits, **how)


def settled(name: str, work: Callable[[], Any], data: Any = None) -> Any:
    """A choice that a call which is resumed, with the same data, does not make again."""
    journal = _current.get()
    if journal is None:
        return work()
    prints = {} if data is None else print_of(data, name)
    _, known = journal._stage(name, prints)
    if known is None:
        known = work()
        journal._finish(known, name, prints)
    return known


def fresh_seed(draw: Callable[[], int] | None = None) -> int:
    """A fresh seed, or that of a call that is resumed."""
    draw = draw or (lambda: int(np.random.default_rng().integers(2**63)))
    return int(settled("seed", draw))
