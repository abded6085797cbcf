"""Processes that tests start: none outlives its test, and none runs for more than `LIMIT` seconds.

`conftest.py` sees to it that signals reach them, however the tests were started.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from subprocess import DEVNULL, PIPE, CompletedProcess, Popen
from typing import Any

LIMIT = 1200
"""Seconds, many times what any process of a test takes on a busy machine."""


@contextlib.contextmanager
def started(*command: Any, **options: Any) -> Iterator[Popen[Any]]:
    """Start a process in a session of its own, and kill the session at the end."""
    late = threading.Event()

    def end() -> None:
        late.set()
        kill(process)

    options = {"stdin": DEVNULL, "start_new_session": True, **options}
    with Popen(command, **options) as process:
        timer = threading.Timer(LIMIT, end)
        timer.start()
        try:
            yield process
        finally:
            timer.cancel()
            kill(process)
    assert not late.is_set(), f"no end in {LIMIT} s"


def kill(process: Popen[Any]) -> None:
    """Kill a process and what it started."""
    if os.name != "posix":
        process.kill()
        return
    with contextlib.suppress(ProcessLookupError, PermissionError):  # it has ended
        os.killpg(process.pid, signal.SIGKILL)


def run(*command: Any, **options: Any) -> CompletedProcess[str]:
    """Run a process to its end; its exit code and what it wrote, as text."""
    options = {"stdout": PIPE, "stderr": PIPE, "encoding": "utf-8", **options}
    with started(*command, **options) as process:
        out, err = process.communicate()
    return CompletedProcess(command, process.returncode, out, err)
