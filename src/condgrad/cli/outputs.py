"""Results of a command: files, tables, an exit code."""

from __future__ import annotations

import contextlib
import json
import math
import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from condgrad import __version__, _files, _signals
from condgrad import _progress as progress
from condgrad._deadline import STARTED
from condgrad.cli.options import Quiet, ReportFile
from condgrad.errors import ProblemError, cause

if TYPE_CHECKING:
    from condgrad.record import Record


@dataclass(frozen=True)
class Outputs:
    """Files and tables to write and print of a run."""

    json_file: Annotated[
        str | None,
        typer.Option("--json", help="Write the run to this file; - is standard output."),
    ] = None
    plot: Annotated[
        Path | None,
        typer.Option(help="Draw the answer and how the run converged (.png, .svg or .pdf)."),
    ] = None
    save: Annotated[
        Path | None, typer.Option(help="Write the run, its W and its trace to this .npz file.")
    ] = None
    report_file: ReportFile = None
    profile: Annotated[bool, typer.Option("--profile", help="Print where the time went.")] = False
    quiet: Quiet = False

    def check(
        self,
        inputs: Iterable[Any] = (),
        more: Mapping[str, Any] | None = None,
        plot_option: str = "--plot",
    ) -> None:
        """Refuse output files that cannot be written before a long run, not after it.

        Parameters
        ----------
        inputs : iterable
            Files that the command reads; None is none.
        more : mapping, optional
            Further outputs of the command by their options.
        plot_option : str
            What `plot` is called here.
        """
        save, page = self.save, self.report_file
        files = {"--json": self.json_file, plot_option: self.plot, "--save": save, "--report": page}
        given = {o: path for o, path in {**files, **(more or {})}.items() if path is not None}
        if save is not None and save.suffix != ".npz":
            raise ProblemError(f"--save is {str(save)!r}: end it in .npz")
        if page is not None and page.suffix.lower() not in (".html", ".htm"):
            raise ProblemError(f"--report is {str(page)!r}: end it in .html")
        check_files({o: p for o, p in given.items() if str(p) != "-"}, inputs)
        if self.plot is not None or page is not None:
            from condgrad.plot import check_path

            check_path(plot_option, self.plot or "report.svg")

    def finish(
        self,
        run: Any,
        answer: Callable[[Console], None] | None = None,
        more: Mapping[str, Any] | None = None,
        own: Sequence[Output] = (),
        **data: Any,
    ) -> None:
        """Print and write a run; the exit code says whether it ended as planned.

        `more` goes to the JSON file; `own` are further files of the command; `data` is what
        pictures and pages need besides the run, such as ``adjacency``, ``points`` and ``limits``.
        """
        _signals.writing()
        from condgrad import report
        from condgrad.run.result import Status

        profile = report.whole(run.found.profile, time.perf_counter() - STARTED)
        fields = {**run.to_json(), "profile": profile, **(more or {})}

        @cache
        def record() -> Record:
            from condgrad.record import Record

            command = ["condgrad", *sys.argv[1:]]
            facts = {"input": fields.get("input"), "profile": profile, **data}
            return Record.of(run, command=command, answer=answer, **facts)

        def show(console: Console) -> None:
            report.print_run(run, console, profile)
            if self.profile:
                report.print_profile(run, console, profile)
            if answer is not None:
                answer(console)

        outputs: list[Output] = [
            (self.json_file, lambda path: write_json(path, fields)),
            (self.save, lambda path: record().save(path)),
            *own,
            (self.report_file, lambda path: write_page(path, record())),
            (self.plot, lambda path: draw(path, record())),
        ]
        codes = {Status.INTERRUPTED: _signals.code(), Status.NONFINITE: 1, Status.OUT_OF_MEMORY: 1}
        if code := self.give(show, outputs) or codes.get(run.status, 0):
            raise typer.Exit(code)

    def give(self, show: Callable[[Console], None], outputs: Iterable[Output]) -> int:
        """Print the answer, then write files; 0, or the exit code for what could not be.

        Whatever goes wrong costs one output: it is named on standard error, and the others are
        made all the same. A signal waits until they are.
        """
        _signals.writing()
        progress.done()
        wanted = [output for output in outputs if output[0] is not None]
        wanted.sort(key=lambda output: str(output[0]) != "-")  # that is the answer
        faults: list[str] = []
        if not self.quiet and self.json_file != "-":
            wanted.insert(0, ("-", lambda _: show(Console())))
        for path, write in wanted:
            try:
                write(path)
                if str(path) == "-":
                    sys.stdout.flush()
            except Exception as error:
                name = "standard output" if str(path) == "-" else str(path)
                faults.append(f"condgrad: {name}: {reason(error)}\n")
                if str(path) == "-":
                    mute()
        with contextlib.suppress(OSError):
            sys.stderr.write("".join(faults))
        return _signals.code() if _signals.came() else int(bool(faults))


Output = tuple[Any, Callable[[Any], None]]
"""A path or ``-`` or None, and what writes it."""


def check_files(files: Mapping[str, Any], inputs: Iterable[Any] = ()) -> None:
    """Refuse files that cannot be written, are named twice, or are read by the same command."""
    seen: dict[str, str] = {}
    for given in inputs:
        with contextlib.suppress(OSError, ValueError):
            if given is not None and os.path.exists(given):
                seen |= dict.fromkeys(identity(given), "a file that is read")
    for option, path in files.items():
        try:
            _files.writable(path)
            own = identity(path)
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            raise ProblemError(f"{option} is {str(path)!r}: it cannot be written ({why})") from None
        for mark in own:
            if mark in seen:
                raise ProblemError(f"{option} is {str(path)!r}: that is {seen[mark]} as well")
        seen |= dict.fromkeys(own, option)


def identity(path: Any) -> list[str]:
    """Identities of a file under all its names: the target of its links, and the file itself."""
    found = [os.path.realpath(path)]
    with contextlib.suppress(FileNotFoundError):
        facts = os.stat(path)
        if not os.path.isfile(path):
            return []  # a device or a pipe may be written to twice
        found.append(f"{facts.st_dev}:{facts.st_ino}")
    return found


def reason(error: Exception) -> str:
    """Why an output could not be written, in short."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return cause(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"


def mute() -> None:
    """Let what is left in the buffer of standard output not fail again at the end."""
    with contextlib.suppress(Exception):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def write_json(json_file: str | Path, fields: Mapping[str, Any]) -> None:
    """Write numbers and texts to a file, or to standard output for ``-``."""
    text = json.dumps(finite({**fields, "version": __version__}), indent=2) + "\n"
    if str(json_file) == "-":
        sys.stdout.write(text)
    else:
        with _files.replaced(json_file) as file:
            file.write(text.encode("ascii"))


def write_page(path: Path, record: Record) -> None:
    """Write the report of a run; what it draws with is imported here."""
    from condgrad.html import write_report

    write_report(path, record)


def draw(path: Path, record: Record) -> None:
    """Draw what was found, and how."""
    from condgrad.plot import sheet

    only = ("cut", "partition", "clusters", "radius", "answer", "convergence")
    sheet(record, path, only=only, title=str(record.facts["title"]))


def finite(value: Any) -> Any:
    """Replace infinite numbers and NaN, which JSON does not have, by null."""
    if isinstance(value, dict):
        return {key: finite(v) for key, v in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value
