"""Ctrl-C while the program loads: one line and exit code 130, not a traceback.

NumPy, SciPy and the rest take the first half second of the program `condgrad`, before its `main` is
there to answer, and there is nothing to save yet. So the package begins with this module. Where the
package is imported by another program it does nothing.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any, NoReturn

CODE = 130
"""The exit code of a program that Ctrl-C ended."""
LINE = "condgrad: interrupted\n"


def is_program() -> bool:
    """Whether this process was started as ``condgrad`` or ``python -m condgrad``."""
    name, line = (getattr(sys, "argv", None) or [""])[0], sys.orig_argv
    if name == "-m":  # Python is still looking for the module
        return "condgrad" in line[line.index("-m") + 1 :][:1]
    return name in line and os.path.splitext(os.path.basename(name))[0] == "condgrad"


def leave(*_: Any) -> NoReturn:
    """End the process at once."""
    os.write(2, LINE.encode())
    os._exit(CODE)


def ready() -> None:
    """From now on Ctrl-C raises `KeyboardInterrupt`."""
    if signal.getsignal(signal.SIGINT) is leave:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def done() -> None:
    """Let Ctrl-C not change the exit code while Python takes the process down."""
    if is_program():
        signal.signal(signal.SIGINT, signal.SIG_IGN)


if is_program() and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, leave)
