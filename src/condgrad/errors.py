"""The errors condgrad raises on purpose: each a `ValueError`, each a sentence with a remedy."""

from __future__ import annotations

from pathlib import Path
from typing import Any


class Sentence(ValueError):
    """The base of the package's errors: a copy, also in another process, is the same error.

    Python copies an exception by calling its class with the message. A class that makes its message
    of several arguments cannot be called so, and a pool of processes then waits without end.
    """

    def __reduce__(self) -> tuple[Any, ...]:
        return _again, (type(self), self.args, self.__dict__)


def _again(kind: type[Sentence], args: tuple[Any, ...], state: dict[str, Any]) -> Sentence:
    """An error as it was, made without its own constructor."""
    error = kind.__new__(kind, *args)
    error.__dict__.update(state)
    return error


class ProblemError(Sentence):
    """A problem, a method or an option that cannot work; the message says what to change."""


class MemoryLimit(ProblemError):
    """A run that does not fit into the free memory; the message has the figures and a remedy.

    Parameters
    ----------
    figures, remedy : str
        What is needed and what there is; what to change.
    """

    def __init__(self, figures: str, remedy: str) -> None:
        super().__init__(f"{figures}: {remedy}")


class InputError(Sentence):
    """A file that cannot be read as what it should be.

    Parameters
    ----------
    path : str or Path
        The file.
    reason : str
        What is wrong, in one line.
    line : int, optional
        Line number, counted from 1, where the fault is.

    Examples
    --------
    >>> str(InputError("g.edges", "expected 'u v w'", line=3))
    "g.edges:3: expected 'u v w'"
    """

    def __init__(self, path: str | Path, reason: str, line: int | None = None) -> None:
        self.path, self.reason, self.line = Path(path), " ".join(reason.split()), line
        where = f"{path}:{line}" if line is not None else f"{path}"
        super().__init__(f"{where}: {self.reason}")


class InputWarning(UserWarning):
    """Something in a file or a graph that was taken in the one way that makes sense."""


def cause(error: Exception) -> str:
    """Fault that a library found in a file, in short, without its advice to load objects.

    Examples
    --------
    >>> cause(ValueError("Object arrays cannot be loaded when allow_pickle=False"))
    'it holds Python objects'
    """
    if isinstance(error, InputError):
        return error.reason
    text = " ".join(str(error).split()) or type(error).__name__
    return "it holds Python objects" if "pickle" in text else text[:200]


def from_keyboard(error: BaseException | None) -> bool:
    """Whether Ctrl-C is behind an exception.

    In a compiled kernel it becomes a `SystemError` that has the `KeyboardInterrupt` as its cause
    or its context.
    """
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error is not None
