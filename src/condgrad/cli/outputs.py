"""What a command makes of a run: files, tables, an exit code."""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from condgrad import __version__
from condgrad._keyboard import CODE
from condgrad.cli.options import Quiet, ReportFile
from condgrad.errors import ProblemError, from_keyboard

if TYPE_CHECKING:
    from condgrad.record import Record


@dataclass(frozen=True)
class Outputs:
    """What is written and printed of a run."""

    json_file: Annotated[
        str | None,
        typer.Option("--json", help="Write the run to this file; - is standard output."),
    ] = None
    plot: Annotated[Path | None, typer.Option(help="Draw the convergence to a file.")] = None
    save: Annotated[
        Path | None, typer.Option(help="Write the run, its W and its trace to this .npz file.")
    ] = None
    report_file: ReportFile = None
    profile: Annotated[bool, typer.Option("--profile", help="Print where the time went.")] = False
    quiet: Quiet = False

    def check(self, plot_option: str = "--plot") -> None:
        """Refuse output files that cannot be written before a long run, not after it."""
        save, page = self.save, self.report_file
        files = {"--json": self.json_file, plot_option: self.plot, "--save": save, "--report": page}
        for option, path in files.items():
            if path is None or str(path) == "-":
                continue
            folder = Path(path).resolve().parent
            if not folder.is_dir() or Path(path).is_dir():
                raise ProblemError(
                    f"{option} is {str(path)!r}: that is no file in an existing folder"
                )
        if save is not None and save.suffix != ".npz":
            raise ProblemError(f"--save is {str(save)!r}: end it in .npz")
        if page is not None and page.suffix.lower() not in (".html", ".htm"):
            raise ProblemError(f"--report is {str(page)!r}: end it in .html")
        if self.plot is not None or page is not None:
            from condgrad.plot import check_path

            check_path(plot_option, self.plot or "report.svg")

    def finish(
        self,
        run: Any,
        answer: Callable[[Console], None] | None = None,
        more: Mapping[str, Any] | None = None,
        **data: Any,
    ) -> None:
        """Write and print a run; the exit code says whether it ended as planned.

        `more` goes to the JSON file; `data` is what pictures and pages need besides the run, such
        as ``adjacency``, ``points`` and ``limits``.
        """
        from condgrad import report
        from condgrad.run.result import Status

        fields = {**run.to_json(), **(more or {})}

        def record() -> Record:
            from condgrad.record import Record

            command = ["condgrad", *sys.argv[1:]]
            return Record.of(run, command=command, answer=answer, input=fields.get("input"), **data)

        outputs: dict[Any, Callable[[Any], None]] = {
            self.json_file: lambda path: write_json(path, fields),
            self.save: lambda path: record().save(path),
            self.report_file: lambda path: write_page(path, record()),
            self.plot: lambda path: report.draw(run, path),
        }
        lost = write_all({path: write for path, write in outputs.items() if path is not None})
        if not self.quiet and self.json_file != "-":
            console = Console()
            report.print_run(run, console)
            if self.profile:
                report.print_profile(run, console)
            if answer is not None:
                answer(console)
        if lost:
            sys.stderr.write(f"condgrad: interrupted, not written: {', '.join(lost)}\n")
        codes = {Status.INTERRUPTED: CODE, Status.NONFINITE: 1, Status.OUT_OF_MEMORY: 1}
        if lost or run.status in codes:
            raise typer.Exit(CODE if lost else codes[run.status])


def write_all(outputs: Mapping[Any, Callable[[Any], None]]) -> list[str]:
    """Write files one after the other; return those that Ctrl-C left out, the one at work too.

    A file takes the place of an older one when it is whole.
    """
    paths = list(outputs)
    for i, path in enumerate(paths):
        target = Path(path).resolve()
        plain = str(path) != "-" and (target.is_file() or not target.exists())  # no device, no pipe
        part = target.with_name(f"part-{target.name}") if plain else path
        try:
            outputs[path](part)
            if plain:
                os.replace(part, target)
        except BaseException as error:
            if plain:
                part.unlink(missing_ok=True)
            if isinstance(error, OSError):
                error.filename = str(path)
            if not from_keyboard(error):
                raise
            return [str(path) for path in paths[i:]]
    return []


def write_json(json_file: str | Path, fields: Mapping[str, Any]) -> None:
    """Write numbers and texts to a file, or to standard output for ``-``."""
    text = json.dumps(finite({**fields, "version": __version__}), indent=2) + "\n"
    if str(json_file) == "-":
        sys.stdout.write(text)
    else:
        Path(json_file).write_text(text)


def write_page(path: Path, record: Record) -> None:
    """Write the report of a run; what it draws with is imported here."""
    from condgrad.html import write_report

    write_report(path, record)


def finite(value: Any) -> Any:
    """Replace infinite numbers and NaN, which JSON does not have, by null."""
    if isinstance(value, dict):
        return {key: finite(v) for key, v in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value
