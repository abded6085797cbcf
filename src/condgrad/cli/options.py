"""Options that the commands share, and what they do with them."""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from typer.core import TyperGroup

from condgrad import __version__
from condgrad._keyboard import CODE
from condgrad.errors import ProblemError, from_keyboard


class Preset(StrEnum):
    """Named settings."""

    auto = "auto"
    paper = "paper"
    published = "published"


class Precision(StrEnum):
    """Types of numbers."""

    float64 = "float64"
    float32 = "float32"


MethodName = Annotated[
    str | None,
    typer.Option(
        "--method", help="A method, see `condgrad methods`; default sag-cgal, or the preset's."
    ),
]
Beta0 = Annotated[float | None, typer.Option(help="β0; default: the preset's value, or found.")]
BatchSize = Annotated[
    str | None,
    typer.Option("--batch", help="Rows per iteration: a count, or a fraction like 0.05."),
]
Epochs = Annotated[float | None, typer.Option(help="Stop after so many passes over g's rows.")]
Iterations = Annotated[int | None, typer.Option(help="Stop after so many iterations.")]
Gap = Annotated[
    float | None,
    typer.Option(help="Stop at this relative gap to the proven bound; 1e-3 with preset auto."),
]
Feasibility = Annotated[
    float | None, typer.Option(help="… and this relative infeasibility; 1e-3 with a gap.")
]
Seconds = Annotated[float | None, typer.Option(help="Stop after so much time.")]
Seed = Annotated[int, typer.Option(help="Seed of all randomness.")]
PresetName = Annotated[Preset, typer.Option("--preset", help="Whose settings to use.")]
JsonFile = Annotated[
    str | None, typer.Option("--json", help="Write the run to this file; - is standard output.")
]
PlotFile = Annotated[Path | None, typer.Option("--plot", help="Draw the convergence to a file.")]
SaveFile = Annotated[
    Path | None,
    typer.Option("--save", help="Write the run, its W and its trace to this .npz file."),
]
ReportFile = Annotated[
    Path | None, typer.Option("--report", help="Write one HTML page with tables and pictures.")
]
Jobs = Annotated[
    int | None,
    typer.Option(
        "--jobs", help="Threads; default (and -1): all cores; OMP_NUM_THREADS bounds the default."
    ),
]
ShowProfile = Annotated[bool, typer.Option("--profile", help="Print where the time went.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="Print nothing but errors.")]


class Interrupted(Exception):
    """Ctrl-C where there is no answer to print, by a name that Typer leaves to `main`."""


class Program(TyperGroup):
    """The commands; Ctrl-C ends each in the same way."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command that was asked for."""
        try:
            return super().invoke(ctx)
        except (KeyboardInterrupt, ImportError, SystemError) as error:
            if not from_keyboard(error):
                raise
            raise Interrupted from None


def parse_batch(text: str | None) -> int | float | None:
    """A count (``100``) or a fraction (``0.05``)."""
    if text is None:
        return None
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        raise ProblemError(f"--batch is {text!r}: give a count or a fraction") from None


def preset_method(preset: Preset, paper: str) -> str:
    """The method of a preset."""
    return "sag-cgal" if preset is Preset.auto else paper


def goal_of(gap: float | None, feasibility: float | None, preset: Preset) -> dict[str, Any]:
    """The tolerances asked for; preset auto has its own."""
    for option, value in {"--gap": gap, "--feasibility": feasibility}.items():
        if value is not None and not value > 0:
            raise ProblemError(f"{option} is {value:g}: it must be positive")
    given = {"gap": gap, "feasibility": feasibility}
    if preset is Preset.auto and gap is None:
        given["gap"] = 1e-3
    return {name: value for name, value in given.items() if value is not None}


def limits_of(
    epochs: float | None, iterations: int | None, seconds: float | None, **default: float
) -> dict[str, Any]:
    """The limits given, or the default one where none is."""
    options = {"--epochs": epochs, "--iterations": iterations, "--seconds": seconds}
    for option, value in options.items():
        if value is not None and not value >= 0:
            raise ProblemError(f"{option} is {value:g}: it must be at least 0")
    given = {"max_epochs": epochs, "max_iter": iterations, "max_seconds": seconds}
    return {name: value for name, value in given.items() if value is not None} or default


def check_outputs(
    json_file: str | None,
    plot: Path | None,
    save: Path | None = None,
    report_file: Path | None = None,
    plot_option: str = "--plot",
) -> None:
    """Refuse output files that cannot be written before a long run, not after it."""
    files = {"--json": json_file, plot_option: plot, "--save": save, "--report": report_file}
    for option, path in files.items():
        if path is None or str(path) == "-":
            continue
        folder = Path(path).resolve().parent
        if not folder.is_dir() or Path(path).is_dir():
            raise ProblemError(f"{option} is {str(path)!r}: that is no file in an existing folder")
    if save is not None and save.suffix != ".npz":
        raise ProblemError(f"--save is {str(save)!r}: end it in .npz")
    if report_file is not None and report_file.suffix.lower() not in (".html", ".htm"):
        raise ProblemError(f"--report is {str(report_file)!r}: end it in .html")
    if plot is not None or report_file is not None:
        from condgrad.plot import check_path

        check_path(plot_option, plot or "report.svg")


def finish(
    run: Any,
    json_file: str | None,
    plot: Path | None,
    save: Path | None,
    quiet: bool,
    more: dict[str, Any],
    answer: Callable[[Console], None] | None = None,
    profile: bool = False,
    report_file: Path | None = None,
    **data: Any,
) -> None:
    """Write and print a run; the exit code says whether it ended as planned.

    `data` is what pictures need besides the run, ``adjacency`` or ``points``.
    """
    from condgrad import report
    from condgrad.run.result import Status

    fields = {**run.to_json(), **more}
    about = {"answer": answer, "input": more.get("input"), **data}
    outputs: dict[Any, Callable[[Any], None]] = {
        json_file: lambda path: write_json(path, fields),
        save: lambda path: keep(run, path, None, **about),
        report_file: lambda path: keep(run, None, path, **about),
        plot: lambda path: report.draw(run, path),
    }
    lost = write_all({path: write for path, write in outputs.items() if path is not None})
    if not quiet and json_file != "-":
        console = Console()
        report.print_run(run, console)
        if profile:
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


def write_json(json_file: str | Path, fields: dict[str, Any]) -> None:
    """Write numbers and texts to a file, or to standard output for ``-``."""
    text = json.dumps(finite({**fields, "version": __version__}), indent=2) + "\n"
    if str(json_file) == "-":
        sys.stdout.write(text)
    else:
        Path(json_file).write_text(text)


def keep(run: Any, save: Path | None, report_file: Path | None, **data: Any) -> None:
    """Save a run and write its report, where asked for."""
    from condgrad.record import Record

    record = Record.of(run, command=["condgrad", *sys.argv[1:]], **data)
    if save is not None:
        record.save(save)
    if report_file is not None:
        from condgrad.html import write_report

        write_report(report_file, record)


def as_json(rounded: Any, names: Sequence[str] | None = None) -> dict[str, Any] | None:
    """A cut: its value and the vertices of the smaller side, counted from 1, with their names."""
    if rounded is None:
        return None
    cut = rounded.answer
    chosen = np.nonzero(cut.side)[0].tolist()
    named = {} if names is None else {"names": [names[i] for i in chosen]}
    return {"value": cut.value, "vertices": [i + 1 for i in chosen], **named}


def finite(value: Any) -> Any:
    """Replace infinite numbers and NaN, which JSON does not have, by null."""
    if isinstance(value, dict):
        return {key: finite(v) for key, v in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value
