"""A signal while the program `condgrad` loads: one line and the exit code 128 + signal.

This is the first module of the package, and it imports nothing that Python has not loaded already:
until it is there a signal has its usual effect, and Ctrl-C shows a traceback. `_keyboard` takes
over once there is something to save. Where another program imports the package nothing is done.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # `signal` takes longer
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

NAMES = ("SIGINT", "SIGTERM", "SIGHUP")
SIGNALS = {int(getattr(_signal, name)): name for name in NAMES if hasattr(_signal, name)}
"""The signals that are answered, with their names."""


def is_program() -> bool:
    """Whether this process was started as ``condgrad`` or ``python -m condgrad``."""
    name, words = (getattr(sys, "argv", None) or [""])[0], sys.orig_argv
    if name == "-m":  # Python is still looking for the module
        return "condgrad" in words[words.index("-m") + 1 :][:1]
    return name in words and os.path.splitext(os.path.basename(name))[0] == "condgrad"


def leave(signum: int, frame: object = None) -> NoReturn:
    """End the process at once."""
    try:
        os.write(2, f"condgrad: interrupted ({SIGNALS[signum]})\n".encode())
    finally:
        os._exit(128 + signum)


if is_program():
    for _number in SIGNALS:
        if _signal.getsignal(_number) in (_signal.SIG_DFL, _signal.default_int_handler):
            _signal.signal(_number, leave)
