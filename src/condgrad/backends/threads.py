"""Threads for compiled kernels, which let go of the interpreter's lock while they run.

Work is cut into as many parts as there are threads, each part is done in order, and what the parts
sum up is added in order: a run is the same bit for bit wherever the number of threads is the same.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from contextvars import ContextVar
from threading import Lock
from typing import Any

import numpy as np

from condgrad.errors import ProblemError

WORTH = 200_000
"""Rows a thread must get before it is worth waking."""

try:
    import threadpoolctl
except ImportError:  # images for GPUs often lack it
    threadpoolctl = None

_chosen: ContextVar[int | None] = ContextVar("condgrad_jobs", default=None)
_pool: ThreadPoolExecutor | None = None


def available() -> int:
    """Cores this process may use, at most OMP_NUM_THREADS where that is set."""
    try:
        cores = len(os.sched_getaffinity(0))
    except AttributeError:  # not on every system
        cores = os.cpu_count() or 1
    wanted = os.environ.get("OMP_NUM_THREADS", "").split(",")[0]
    return min(cores, int(wanted)) if wanted.isdigit() and int(wanted) > 0 else cores


def count() -> int:
    """Threads in use here and now."""
    return _chosen.get() or available()


@contextmanager
def using(n_jobs: int | None) -> Iterator[int]:
    """Use that many threads within the context; None: all of them, −1: every core."""
    whole = isinstance(n_jobs, (int, np.integer)) and not isinstance(n_jobs, bool)
    if n_jobs is not None and not (whole and (n_jobs >= 1 or n_jobs == -1)):
        raise ProblemError(
            f"n_jobs is {n_jobs!r}: it must be a number of threads, -1 for all cores, or None"
        )
    if n_jobs == -1:
        n_jobs = os.cpu_count() or 1
    token = _chosen.set(None if n_jobs is None else int(n_jobs))
    try:
        yield count()
    finally:
        _chosen.reset(token)


class _OneThread:
    """One thread of BLAS while anyone is inside; the last to leave restores what there was.

    The number belongs to the process. Two solves in two threads that each put back what they found
    would leave behind whatever the second had found.
    """

    def __init__(self) -> None:
        self._lock, self._inside, self._limit = Lock(), 0, None

    @contextmanager
    def __call__(self, blas: Any) -> Iterator[None]:
        with self._lock:
            if not self._inside:
                self._limit = blas.limit(limits=1, user_api="blas")
            self._inside += 1
        try:
            yield
        finally:
            with self._lock:
                self._inside -= 1
                if not self._inside and self._limit is not None:
                    self._limit.restore_original_limits()


_one_thread = _OneThread()


class Calm:
    """A context with that many threads of ours and one of BLAS, to be entered as often as wanted.

    Threads of BLAS make products with vectors and small eigenproblems slower: twice for a matrix of
    1675 × 943 on two idle cores, twentyfold for side 100 on a busy machine. The libraries are
    looked up once. Without `threadpoolctl` BLAS has the threads that its environment gives it.
    """

    def __init__(self, n_jobs: int | None) -> None:
        self._jobs = n_jobs
        self._blas = None if threadpoolctl is None else threadpoolctl.ThreadpoolController()

    def __reduce__(self) -> tuple[Any, ...]:
        return Calm, (self._jobs,)  # the libraries are those of the process

    @contextmanager
    def __call__(self) -> Iterator[None]:
        with using(self._jobs):
            if self._blas is None:
                yield
            else:
                with _one_thread(self._blas):
                    yield


def share(ranges: Sequence[slice], worth: int = WORTH) -> list[list[slice]]:
    """Deal rows in parts of equal size, one a thread; fewer if a part would be too small.

    Examples
    --------
    >>> with using(2):
    ...     share([slice(0, 4), slice(10, 14)], worth=1)
    [[slice(0, 4, None)], [slice(10, 14, None)]]
    """
    rows = sum(r.stop - r.start for r in ranges)
    threads = max(1, min(count(), rows // worth))
    if threads == 1:
        return [list(ranges)]
    parts: list[list[slice]] = [[] for _ in range(threads)]
    done = 0
    for r in ranges:
        start = r.start
        while start < r.stop:
            part = min(done * threads // rows, threads - 1)
            left = -(-(part + 1) * rows // threads) - done
            stop = min(r.stop, start + left)
            parts[part].append(slice(start, stop))
            done, start = done + stop - start, stop
    return parts


def run(tasks: Sequence[Callable[[], Any]]) -> list[Any]:
    """Results of the tasks, each in its own thread, the first in this one."""
    if len(tasks) == 1:
        return [tasks[0]()]
    others = [_threads(len(tasks) - 1).submit(task) for task in tasks[1:]]
    try:
        first = tasks[0]()
    finally:
        wait(others)  # nothing may be at work on arrays that the caller gets back
    return [first, *(other.result() for other in others)]


def _threads(least: int) -> ThreadPoolExecutor:
    global _pool
    if _pool is None or _pool._max_workers < least:
        _pool = ThreadPoolExecutor(least, thread_name_prefix="condgrad")
    return _pool


def _forget() -> None:
    global _pool, _one_thread
    _pool = None  # a forked process has none of its parent's threads
    _one_thread = _OneThread()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
