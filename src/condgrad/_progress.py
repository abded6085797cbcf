"""Progress of a call that takes long: one display, made at the door.

`shown` makes it where a user's `verbose` comes in, and calls inside of that one draw on it. Whoever
does something that takes a while says so by `doing`, a run is shown by `look`, and who makes an
answer of a run, such as a cut, says by `answers` what its value, bound and gap are. Where nobody
asked for a display nothing here has any effect.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import wraps
from importlib import import_module
from typing import Any, NamedTuple, ParamSpec, TypeVar

from condgrad._round import bound_text, percent, up
from condgrad.errors import ProblemError
from condgrad.evaluation import families_of, missed

P = ParamSpec("P")
T = TypeVar("T")

EVERY = 0.1
"""Seconds between two updates of a terminal."""
PAGE = 0.5
"""Seconds between two updates of a notebook."""
LINE, LATER = 1.0, 0.1
"""Least seconds between two printed lines, and their least distance as a share of the run time."""
BAR = 20
"""Characters of the bar in a notebook."""


class Seen(NamedTuple):
    """The numbers of an answer."""

    what: str
    """Noun of the value, such as ``cut``, ``inertia`` or ``value``."""
    value: float
    bound: float
    """Infinite where there is none."""
    gap: float
    """NaN where the value is not that of an answer yet."""
    sense: str = "min"


Measure = Callable[[Mapping[str, float]], Seen | None]
"""From the last row of a trace to the numbers of the answer that is made of the run."""


class Display:
    """A line that says what is being done, drawn as often as it pays.

    Parameters
    ----------
    drawing : object
        What draws, a `Terminal`, a `Page` or `Lines`.
    limits : tuple of three numbers or None
        Limits on iterations, epochs and seconds; the share that is done is that of the nearest.
    clock : callable
        The time.
    """

    def __init__(
        self,
        drawing: Any,
        limits: tuple[float | None, float | None, float | None] = (None, None, None),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._drawing, self._limits, self._clock = drawing, limits, clock
        self._began = self._last = clock()
        self._what, self._numbers, self.part, self._ended = "starting", "", "", False
        self.measure: Measure | None = None
        self.inner: Measure | None = None
        self.change: Callable[[Seen], Seen] | None = None

    def within(self, limits: tuple[float | None, float | None, float | None]) -> None:
        """Take the limits of a call inside where there are none yet."""
        if not any(self._limits):
            self._limits = limits

    def doing(self, what: str, at_once: bool) -> None:
        """Say what is being done, at once if it is something else than before."""
        new = what.partition(",")[0] != self._what.partition(",")[0]
        self._what = what
        if (new and (at_once or self._drawing.quick)) or self._due():
            self._draw(0.0)

    def look(self, run: Any) -> None:
        """Show a run, by its `counts` and `trace`, where it is."""
        if not self._due():
            return
        k, epochs, _ = run.counts
        self.row(k, epochs, run.trace.last)

    def row(self, k: int, epochs: float, last: Mapping[str, float]) -> None:
        """Show an iteration with the last row of its trace."""
        seen = None if self.measure is None else self.measure(last)
        if seen is not None and self.change is not None:
            seen = self.change(seen)
        self._what = f"k {k}"
        self._numbers = numbers(seen) if seen is not None else plain(last)
        done = zip((k, epochs), self._limits, strict=False)
        self._draw(max((a / b for a, b in done if b), default=0.0))

    def end(self) -> None:
        """Nothing more comes."""
        if not self._ended:
            self._drawing.end()
        self._ended = True

    def _due(self) -> bool:
        now = self._clock()
        return now - self._last >= self._drawing.wait(now - self._began)

    def _draw(self, share: float) -> None:
        if self._ended:
            return
        self._last = self._clock()
        spent, limit = self._last - self._began, self._limits[2]
        share = min(max(share, spent / limit if limit else 0.0), 1.0)
        parts = [part for part in (self.part, self._what, self._numbers) if part]
        self._drawing.draw("  ".join(parts), share, spent)


def numbers(seen: Seen) -> str:
    """The numbers of an answer as text."""
    text = f"{seen.what} {seen.value:.6g}"
    if abs(seen.bound) == float("inf"):
        return text
    gap = f"  gap {percent(seen.gap, 2)} %" if seen.gap < 1 else ""
    return f"{text}  bound {bound_text(seen.bound, 6, seen.sense)}{gap}"


def plain(last: Mapping[str, float]) -> str:
    """The numbers of a run of which nothing else is made."""
    text = f"objective {last['objective']:.6g}"
    if families := families_of(last):
        text += f"  infeasibility {missed(families)}"
    if abs(last["lower_bound"]) == float("inf"):
        return text
    return f"{text}  bound {bound_text(last['lower_bound'], 6, 'min')}  gap {up(last['gap'], 2)}"


class Terminal:
    """A bar of rich on standard error, which is gone at the end."""

    quick = True
    """True if the display may be drawn on at any time."""

    def __init__(self, console: Any) -> None:
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        columns = (BarColumn(bar_width=BAR), TextColumn("{task.percentage:>3.0f}%"))
        text = TextColumn("{task.description}", markup=False)
        self._bar = Progress(
            *(text, *columns, TimeElapsedColumn()), console=console, transient=True
        )
        self._task = self._bar.add_task("starting", total=1.0)
        self._bar.start()

    def wait(self, spent: float) -> float:
        """Seconds from one time to the next."""
        return EVERY

    def draw(self, text: str, share: float, spent: float) -> None:
        """Show a text and the share that is done."""
        self._bar.update(self._task, description=text, completed=share)

    def end(self) -> None:
        """Leave the terminal as it was."""
        self._bar.stop()


class Page:
    """A line under a cell of a notebook, which says at the end how long it took."""

    quick = False

    def __init__(self) -> None:
        display = import_module("IPython.display").display
        self._began = time.monotonic()
        self._handle = display({"text/plain": "starting"}, raw=True, display_id=True)

    def wait(self, spent: float) -> float:
        """Seconds from one time to the next."""
        return PAGE

    def draw(self, text: str, share: float, spent: float) -> None:
        """Show a text and the share that is done."""
        full = round(BAR * share)
        bar = "█" * full + "░" * (BAR - full)
        text = f"{text}  {bar} {100 * share:.0f}%  {spent:.0f} s"
        self._handle.update({"text/plain": text}, raw=True)

    def end(self) -> None:
        """Leave no numbers that an answer has better ones of."""
        spent = time.monotonic() - self._began
        self._handle.update({"text/plain": f"done in {spent:.0f} s"}, raw=True)


class Lines:
    """Plain lines on standard error, fewer the longer it takes."""

    quick = False
    _said = ""

    def wait(self, spent: float) -> float:
        """Seconds from one time to the next."""
        return max(LINE, LATER * spent)

    def draw(self, text: str, share: float, spent: float) -> None:
        """Print a line that says something new."""
        if text != self._said:
            with suppress(OSError, ValueError):  # nobody is there to read it
                print(f"{spent:7.1f} s  {text}", file=sys.stderr, flush=True)
        self._said = text

    def end(self) -> None:
        """Nothing is left to do."""


_current: ContextVar[Display | None] = ContextVar("condgrad_display", default=None)


@contextmanager
def shown(
    verbose: Any,
    *,
    max_iter: float | None = None,
    max_epochs: float | None = None,
    max_seconds: float | None = None,
    console: Any = None,
) -> Iterator[None]:
    """Show what is done in the block, unless it is shown by a call around it.

    Parameters
    ----------
    verbose : bool or int
        0: show nothing; 1: a bar in a terminal or a notebook, and nothing elsewhere; 2: plain lines
        on standard error, wherever that leads.
    max_iter, max_epochs, max_seconds : number, optional
        Limits, for the bar.
    console : rich Console, optional
        Where to draw instead of standard error.
    """
    if not isinstance(verbose, (bool, int)) and not hasattr(verbose, "__index__"):
        raise ProblemError(
            f"verbose is {verbose!r}: give False, True for a bar, or 2 for plain lines"
        )
    limits, outer = (max_iter, max_epochs, max_seconds), _current.get()
    drawing = _drawing(int(verbose), console) if outer is None else None
    if outer is not None:
        outer.within(limits)
    if drawing is None:
        yield
        return
    display = Display(drawing, limits)
    token = _current.set(display)
    try:
        yield
    finally:
        _current.reset(token)
        display.end()


def visible(call: Callable[P, T]) -> Callable[P, T]:
    """Show what a function does whose options by name may have `verbose`, and limits."""

    @wraps(call)
    def inner(*args: P.args, **kwargs: P.kwargs) -> T:
        bar: dict[str, Any] = {name: kwargs.get(name) for name in ("max_iter", "max_seconds")}
        with shown(kwargs.get("verbose", False), **bar):
            doing("reading the model")
            return call(*args, **kwargs)

    return inner


def _drawing(verbose: int, console: Any) -> Any:
    """Display for this verbosity, or None if nothing shall be drawn."""
    if verbose <= 0:
        return None
    if verbose > 1:
        return Lines()
    from rich.console import Console

    console = console or Console(stderr=True)
    if console.is_jupyter:
        return Page()
    return Terminal(console) if console.is_terminal else None


def doing(what: str, at_once: bool = True) -> None:
    """Say what is being done; what follows a comma is a detail.

    What often takes no time is not said `at_once`.
    """
    if (display := _current.get()) is not None:
        display.doing(what, at_once)


def done() -> None:
    """Show nothing from now on: an answer is printed."""
    if (display := _current.get()) is not None:
        display.end()


def part(which: str) -> None:
    """Say which part of the whole is being done; nothing: all of it."""
    if (display := _current.get()) is not None:
        display.part = which


def look(run: Any) -> None:
    """Show a run, by its `counts` and `trace`, where it is."""
    if (display := _current.get()) is not None:
        display.look(run)


@contextmanager
def answers(measure: Measure) -> Iterator[None]:
    """Show the numbers of what is made of the runs in the block; those of the outermost count."""
    display = _current.get()
    if display is None or (display.measure is not None and display.inner is not None):
        yield
        return
    name = "measure" if display.measure is None else "inner"
    setattr(display, name, measure)
    try:
        yield
    finally:
        setattr(display, name, None)


def inner(last: Mapping[str, float]) -> Seen | None:
    """Measure of a run inside of the block of `answers`, for the display of that block."""
    display = _current.get()
    return None if display is None or display.inner is None else display.inner(last)


@contextmanager
def changed(change: Callable[[Seen], Seen]) -> Iterator[None]:
    """Show the numbers of answers in the block as those of something that is made of them."""
    display = _current.get()
    if display is None or display.change is not None:
        yield
        return
    display.change = change
    try:
        yield
    finally:
        display.change = None
