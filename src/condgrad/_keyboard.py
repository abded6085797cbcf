"""Signals that end the program `condgrad`: SIGINT (Ctrl-C), SIGTERM and SIGHUP.

The program answers each of them in the same way, with the exit code 128 + signal, within about two
seconds unless an eigenvalue routine of LAPACK is at work, which is waited for:

* Where there is nothing to save (modules load, files are read, kernels compile) it ends at once
  with one line.
* Where a run is at work `KeyboardInterrupt` is raised in it, and once or twice more while the last
  certificate and the rounding take long: each ends what is at work, and what there is is printed
  and written.
* Numba is never interrupted, which may crash: it is tried again a moment later.
* A thread watches. If the run does not come back from a compiled kernel, that thread takes the last
  recorded answer, prints and writes it, and ends the process.
* While an answer is printed and written a signal is only remembered.
* A second signal ends the process at once; files that are not whole are removed.

Code that has an answer says so by `offers`, which does nothing in other programs: there Ctrl-C is
Python's `KeyboardInterrupt`. While the package loads `_early` answers.
"""

from __future__ import annotations

import _thread
import contextlib
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any, Generic, NoReturn, Self, TypeVar

from condgrad import _early
from condgrad._early import SIGNALS as SIGNALS
from condgrad._early import is_program as is_program

SOON = (0.02, 0.05, 0.1, 0.2, 0.3)
"""Seconds after a signal at which it is tried again to interrupt a run that could not be yet."""
AGAIN = (0.4, 0.8)
"""Seconds after a signal at which what is still at work is interrupted again."""
LAST = 1.2
"""Seconds after which the thread that watches answers itself."""
DRAWN = 1.7
"""Seconds after which a picture is not waited for: a saved run can be drawn later."""
TRIES = 50
"""Tenths of a second that it waits for Numba, without which there may be no answer."""
STUCK = 10.0
"""Seconds after which it ends the process whatever happens."""
Kept = TypeVar("Kept")


class _State:
    """Interruptions of this process, and its answer to them."""

    def __init__(self) -> None:
        self.came: int = 0
        """The first signal."""
        self.since = 0.0
        """Time at which the first signal came."""
        self.raised = False
        """Whether the run was interrupted."""
        self.nudges = 0
        """Interruptions that this module sent itself and has not seen yet."""
        self.phase = "loading"
        """``loading``, ``working``, ``writing`` (never broken off) or ``drawing`` (if late)."""
        self.lock = threading.Lock()
        """Held while the phase is changed or the answer taken."""
        self.taken = False
        """Whether the thread that watches has the answer."""
        self.compiling = False
        """True if the main thread could not stand still, as Numba was at work and held a lock."""
        self.over = False
        """Whether there is no more time for pictures."""
        self.frozen = threading.Event()
        """Set once the main thread stands still for it."""
        self.finish: Callable[[Any], int] | None = None
        self.root: _Offer[Any] = _Offer(lambda found: found)
        self.current = self.root
        self.armed = False


class _Offer(Generic[Kept]):
    """A place in the code that has an answer, or makes one of what a place further in has."""

    def __init__(self, make: Callable[[Any], Kept | None], source: bool = False) -> None:
        self.make: Callable[[Any], Kept | None] | None = make
        self.source = source
        self.kept: Kept | None = None
        self.inner: _Offer[Any] | None = None
        self.earlier: _Offer[Any] | None = None
        """At the root the one before `inner`, which counts until that has an answer."""
        self.outer: _Offer[Any] | None = None

    def __enter__(self) -> Self:
        if _state.armed and threading.current_thread() is threading.main_thread():
            self.outer = _state.current
            before = self.outer.inner
            if self.outer is _state.root and before is not None and before.any():
                self.outer.earlier = before
            self.outer.inner = self
            _state.current = self
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.outer is None:
            return
        _state.current = self.outer
        if error is not None and not _state.came:  # it may be dealt with, and memory freed
            self.outer.inner = None

    def keep(self, answer: Kept) -> Kept:
        """Hold the answer that is about to be returned instead of what makes one."""
        if self.outer is not None:
            self.kept, self.make, self.inner, self.earlier = answer, None, None, None
        return answer

    def value(self) -> Kept | None:
        """The answer at this moment."""
        if self.make is None:
            return self.kept
        found = None if self.inner is None else self.inner.value()
        if found is None and self.earlier is not None:
            found = self.earlier.value()
        return self.make(found)

    def any(self) -> bool:
        """True if this offer, or one further in, has an answer."""
        further = (self.inner, self.earlier)
        return (
            self.source or self.kept is not None or any(o is not None and o.any() for o in further)
        )


def offers(make: Callable[[Any], Kept | None], source: bool = False) -> _Offer[Kept]:
    """A context within which there is an answer, should a signal end the program.

    Parameters
    ----------
    make : callable
        Gets what the code further in has, or None, and returns the answer, or None. It may be
        called in another thread while the one that runs this stands still.
    source : bool
        Whether it has an answer even where nothing further in has.
    """
    return _Offer(make, source)


_state = _State()


def came() -> int:
    """The signal that came, or 0."""
    return _state.came


def code() -> int:
    """The exit code of a program that a signal, or else the keyboard, ended."""
    return 128 + (_state.came or int(signal.SIGINT))


def by() -> str:
    """The name of the signal in brackets, or nothing."""
    return f" ({signal.Signals(_state.came).name})" if _state.came else ""


def line() -> str:
    """Sentence of an interruption that leaves nothing to save."""
    return f"condgrad: interrupted{by()}\n"


def late() -> bool:
    """Whether a signal came so long ago that only what matters is still to be done."""
    return bool(_state.came) and time.monotonic() - _state.since > LAST


def leave(signum: int, frame: FrameType | None = None) -> NoReturn:
    """End the process at once."""
    _note(signum)
    _abandon()
    with contextlib.suppress(OSError):
        os.write(2, ("\x1b[?25h" if os.isatty(2) else "").encode() + line().encode())
    os._exit(code())


def finishes(finish: Callable[[Any], int]) -> None:
    """Say what prints and writes an answer, and returns the exit code."""
    _state.finish = finish


def finish(found: Any) -> int:
    """Print and write an answer; the exit code."""
    assert _state.finish is not None
    return _state.finish(found)


def phase(name: str) -> None:
    """Say what the program is about to do: ``working``, ``writing`` or ``drawing``.

    Where the thread that watches has the answer this does not return.
    """
    if threading.current_thread() is not threading.main_thread():
        return
    with _state.lock:
        if not _state.taken:
            _state.phase = name
            return
    _freeze()


def answer() -> Any:
    """Answer to print and write after an interruption, or None."""
    return _state.root.value()


def ready() -> None:
    """From now on signals interrupt the program, and a thread watches over it."""
    _state.__init__()  # type: ignore[misc]  # tests call the program more than once
    _state.phase = "working"
    mine = [number for number in SIGNALS if signal.getsignal(number) is _early.leave]
    if not mine:
        return
    _state.armed = True
    if os.name == "posix":
        end, start = os.pipe()
        os.set_blocking(start, False)
        threading.Thread(target=_watch, args=(end,), name="condgrad-signals", daemon=True).start()
        signal.set_wakeup_fd(start, warn_on_full_buffer=False)
    sys.unraisablehook = _unraisable
    for number in mine:
        signal.signal(number, _handle)


def done(status: int) -> None:
    """Let no signal change the exit code while Python takes the process down.

    Where one came the process ends here, without waiting for threads at work.
    """
    if not is_program():
        return
    for number in SIGNALS:
        if signal.getsignal(number) in (_early.leave, _handle):
            signal.signal(number, signal.SIG_IGN)
    if _state.came:
        _flush()
        os._exit(status)


def _note(signum: int) -> None:
    if not _state.came:
        _state.came, _state.since = signum, time.monotonic()


def _handle(signum: int, frame: FrameType | None) -> None:
    """Handle a signal, or an interruption by the thread that watches, in the main thread."""
    if _state.taken:
        _state.compiling = _compiling(frame)
        if _state.compiling:
            return
        _freeze()
    _note(signum)
    if _state.phase == "writing":
        return
    if _state.phase == "drawing" and not _state.over:
        return
    if _state.phase == "working" and not _state.root.any():
        leave(_state.came)
    if not _compiling(frame):
        _state.raised = True
        raise KeyboardInterrupt


def _compiling(frame: FrameType | None) -> bool:
    """Whether Numba is at work, which may lose an exception there, or crash."""
    while frame is not None:
        name = str(frame.f_globals.get("__name__", "")).partition(".")[0]
        if name in ("numba", "llvmlite"):
            return True
        if name == "condgrad":
            return False
        frame = frame.f_back
    return False


def _freeze() -> NoReturn:
    """Stand still: another thread prints the answer and ends the process."""
    _state.frozen.set()
    while True:
        time.sleep(60)


def _watch(end: int) -> None:
    """Read the numbers of signals as they come, and see to it that the process ends."""
    _note(_next(end, None) or int(signal.SIGINT))
    for after in (*SOON, *AGAIN, LAST):
        if second := _next(end, _state.since + after):
            at_once(second)
        wanted = after in AGAIN or (after in SOON and not _state.raised)
        if _state.phase == "working" and wanted:
            _nudge()
    with _state.lock:
        _state.taken = _state.phase == "working"
    if _state.taken:
        _nudge()
        threading.Thread(target=_take_over, daemon=True).start()
        if second := _next(end, time.monotonic() + STUCK):
            at_once(second)
        leave(_state.came)
    if second := _next(end, _state.since + DRAWN):
        at_once(second)
    _state.over = True
    if _state.phase == "drawing":
        _nudge()
    if second := _next(end, None):
        at_once(second)


def _next(end: int, until: float | None) -> int:
    """The next signal, or 0 at that time."""
    while True:
        left = None if until is None else max(0.0, until - time.monotonic())
        if not select.select([end], [], [], left)[0]:
            return 0
        number = os.read(end, 1)[0]
        if number in SIGNALS:
            if number == _state.came and _state.nudges:
                _state.nudges -= 1
            else:
                return number


def _nudge() -> None:
    """Interrupt the main thread once more."""
    _state.nudges += 1
    _thread.interrupt_main(signal.Signals(_state.came))


def at_once(signum: int, frame: FrameType | None = None) -> NoReturn:
    """End the process without a word: at a second signal, or one of many at work."""
    _abandon()
    os._exit(128 + signum)


def _take_over() -> None:
    """Print and write what there is, while the main thread stands still or does not come back."""
    for _ in range(TRIES):
        if _state.frozen.wait(0.1) or not _state.compiling:
            break
        _nudge()
    status = code()
    if os.isatty(2):  # over the line of progress, with the cursor shown again
        os.write(2, b"\r\x1b[2K\x1b[?25h")
    try:
        found = answer()
        if found is None or _state.finish is None:
            leave(_state.came)
        status = _state.finish(found)
    except BaseException as error:
        with contextlib.suppress(OSError):
            os.write(2, f"condgrad: interrupted{by()}: {error}\n".encode("utf-8", "replace"))
    _flush()
    _abandon()
    os._exit(status)


def _abandon() -> None:
    """Remove files that are not whole."""
    files: Any = sys.modules.get("condgrad._files")
    if files is not None:
        files.abandon()


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()


def _unraisable(unraisable: Any) -> None:
    """Say nothing of an interruption where Python cannot raise; the next one comes soon."""
    if not isinstance(unraisable.exc_value, KeyboardInterrupt):
        sys.__unraisablehook__(unraisable)
