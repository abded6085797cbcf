"""The command `condgrad plot`: pictures of a saved run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from condgrad.cli.options import ReportFile
from condgrad.cli.outputs import Outputs, write_page
from condgrad.errors import InputError, ProblemError, cause


class Axis(StrEnum):
    """Abscissa of a convergence plot."""

    seconds = "seconds"
    iterations = "iterations"
    epochs = "epochs"


def plot_run(
    file: Annotated[
        Path, typer.Argument(help="A run written by --save, or a trace (.npz, .csv, .json).")
    ],
    out: Annotated[
        Path | None, typer.Option(help="Picture, .png, .svg or .pdf; default: RUN-pictures.png.")
    ] = None,
    x: Annotated[Axis, typer.Option(help="What the convergence is drawn against.")] = Axis.seconds,
    picture: Annotated[
        str | None,
        typer.Option(
            help="Only cut, clusters, radius, answer, convergence, heat-map or profile; default: "
            "all that the run has."
        ),
    ] = None,
    report_file: ReportFile = None,
) -> None:
    """Pictures of a saved run: its cut or clusters, how it converged, where the time went."""
    from condgrad.plot import sheet
    from condgrad.plot.pictures import named
    from condgrad.record import Record

    if out is None and report_file is None:
        out = Path(f"{file.stem}-pictures.png")
        if out.exists():
            raise ProblemError(f"{out} is there already: say by --out where the picture goes")
    outputs = Outputs(plot=out, report_file=report_file, quiet=True)
    outputs.check([file], plot_option="--out")
    record = Record.load(file)

    def draw(path: Path) -> None:
        with drawable(file):
            sheet(record, path, only=picture, x=x.value)
        typer.echo(f"Picture: {path}")

    def write(path: Path) -> None:
        with drawable(file):
            write_page(path, record)
        typer.echo(f"Report: {path}")

    if picture is not None:
        with drawable(file):
            named(record, picture)
    if lost := outputs.give(lambda console: None, [(out, draw), (report_file, write)]):
        raise typer.Exit(lost)


@contextmanager
def drawable(file: Path) -> Iterator[None]:
    """Let what a library says of a run that cannot be drawn be a sentence about its file."""
    try:
        yield
    except (OSError, ProblemError, InputError, MemoryError):
        raise
    except Exception as error:
        raise InputError(file, f"this run cannot be drawn ({cause(error)})") from None
