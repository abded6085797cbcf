"""Checkpoints written while the run goes on."""

from __future__ import annotations

import contextlib
import os
import threading
import time
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path

from condgrad._files import sweep
from condgrad.backends.memory import free_memory
from condgrad.errors import ProblemError, cause
from condgrad.run import files
from condgrad.run.files import Pack

SHARE = 2
"""Copies are made where they take at most the free memory divided by this."""
REST = 10
"""A checkpoint is not written before this many times what the last one took has passed."""


class Writing:
    """Writes one file again and again.

    Tables are copied, and a thread writes the copies; where there is no memory for that the run
    waits.

    Parameters
    ----------
    path : path
        The file.
    every : float
        Seconds between two times; 0: every time, and the run waits.
    """

    def __init__(self, path: str | os.PathLike[str], every: float) -> None:
        self.path, self._every = Path(path), every
        folder = self.path.parent
        if self.path.is_dir() or not folder.is_dir() or not os.access(folder, os.W_OK):
            raise ProblemError(
                f"checkpoint is {str(path)!r}, which cannot be written: give a file in a folder "
                "that is there"
            )
        sweep(folder)
        self._next = time.monotonic() + every
        self._thread: threading.Thread | None = None
        self._trouble: Exception | None = None

    @property
    def due(self) -> bool:
        """True if it is time to write."""
        return time.monotonic() >= self._next and (self._thread is None or not self._busy)

    @property
    def _busy(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    @contextlib.contextmanager
    def timed(self) -> Iterator[None]:
        """Count the seconds of the block as the cost of a checkpoint."""
        began = time.monotonic()
        try:
            yield
        finally:
            took = time.monotonic() - began
            self._next = began + max(self._every, REST * took if self._every else 0.0)

    def put(self, packs: Sequence[Pack], still: int) -> None:
        """Write trees, the first `still` of which will not change."""
        self.wait()
        aside = self._every > 0 and sum(p.nbytes for p in packs[still:]) < free_memory() / SHARE
        if aside:
            try:
                packs = [*packs[:still], *(pack.copy() for pack in packs[still:])]
            except MemoryError:
                aside = False
        work = threading.Thread(target=self._write, args=(packs,), name="checkpoint", daemon=True)
        if aside:
            self._thread = work
            work.start()
        else:
            work.run()
            self.wait()

    def _write(self, packs: Sequence[Pack]) -> None:
        try:
            files.save(self.path, packs)
        except Exception as error:  # the run matters more
            self._trouble = error

    def wait(self, at_most: float | None = None) -> None:
        """Wait until it is there, and say so where it could not be written."""
        if self._thread is not None:
            self._thread.join(at_most)
            self._thread = None
        trouble, self._trouble = self._trouble, None
        if trouble is not None:
            self.warn(trouble)

    def warn(self, trouble: Exception) -> None:
        """Say that a checkpoint could not be written."""
        warnings.warn(
            f"the checkpoint {str(self.path)!r} could not be written ({cause(trouble)}): the run "
            "goes on, and the file is as it was before",
            RuntimeWarning,
            stacklevel=3,
        )
