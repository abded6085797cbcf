"""The command line: options in, an application run, tables, JSON and pictures out."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console

from condgrad import __version__
from condgrad.errors import InputError, ProblemError

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Projection-free convex optimisation with stochastic conditional gradient methods.",
)
solve_app = typer.Typer(no_args_is_help=True, help="Solve one of the applications.")
app.add_typer(solve_app, name="solve")


class Preset(StrEnum):
    """Named settings."""

    paper = "paper"
    published = "published"


class Precision(StrEnum):
    """Types of numbers."""

    float64 = "float64"
    float32 = "float32"


MethodName = Annotated[str, typer.Option("--method", help="A method, see `condgrad methods`.")]
Beta0 = Annotated[float | None, typer.Option(help="β0; default: the preset's value.")]
BatchSize = Annotated[
    str | None,
    typer.Option("--batch", help="Rows per iteration: a count, or a fraction like 0.05."),
]
Epochs = Annotated[float | None, typer.Option(help="Stop after so many passes over g's rows.")]
Iterations = Annotated[int | None, typer.Option(help="Stop after so many iterations.")]
Seconds = Annotated[float | None, typer.Option(help="Stop after so much time.")]
Seed = Annotated[int, typer.Option(help="Seed of all randomness.")]
PresetName = Annotated[Preset, typer.Option("--preset", help="Whose settings to use.")]
JsonFile = Annotated[
    str | None, typer.Option("--json", help="Write the run to this file; - is standard output.")
]
PlotFile = Annotated[Path | None, typer.Option("--plot", help="Draw the convergence to a file.")]
SaveFile = Annotated[
    Path | None, typer.Option("--save", help="Write W and the trace to this .npz file.")
]
Quiet = Annotated[bool, typer.Option("--quiet", help="Print nothing but errors.")]


def print_version(wanted: bool) -> None:
    """Print the version and end."""
    if wanted:
        typer.echo(f"condgrad {__version__}")
        raise typer.Exit


@app.callback()
def top(
    version: Annotated[
        bool,
        typer.Option("--version", callback=print_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Projection-free convex optimisation with stochastic conditional gradient methods."""


@app.command()
def demo(
    plot: Annotated[Path, typer.Option(help="Where the picture goes.")] = Path("condgrad-demo.png"),
    epochs: Annotated[float, typer.Option(help="Passes over the triangle inequalities.")] = 600,
    seed: Seed = 0,
    quiet: Quiet = False,
) -> None:
    """Sparsest cut of the karate club with H-SAG-CGM/v2: the main job on embedded data."""
    from condgrad import report
    from condgrad.applications import sparsest_cut, sweep_cut
    from condgrad.io import read_graph

    check_outputs(None, plot)
    adjacency = read_graph("karate_club")
    application = sparsest_cut(adjacency, "published")
    run = report.run_live(
        application, "h-sag-v2", beta0=10.0, quiet=quiet, max_epochs=epochs, seed=seed
    )
    report.draw(run, plot)
    if not quiet:
        console = Console()
        report.print_run(run, console)
        report.print_cut(sweep_cut(adjacency, run.result.W), run.result.objective, console)
        console.print(f"Convergence plot: {plot}")


@app.command("methods")
def list_methods() -> None:
    """The table of methods."""
    from condgrad import report

    report.print_methods(Console())


@solve_app.command("sparsest-cut")
def solve_sparsest_cut(
    graph: Annotated[
        str, typer.Argument(help="Edge list, .mtx or .graphml file, or a networkx name.")
    ],
    method: MethodName = "h-sag-v2",
    beta0: Beta0 = None,
    batch: BatchSize = None,
    epochs: Epochs = None,
    iterations: Iterations = None,
    seconds: Seconds = None,
    seed: Seed = 0,
    preset: PresetName = Preset.paper,
    json_file: JsonFile = None,
    plot: PlotFile = None,
    save: SaveFile = None,
    quiet: Quiet = False,
) -> None:
    """Uniform sparsest cut of a graph by its semidefinite relaxation."""
    from condgrad import report
    from condgrad.applications import sparsest_cut, sweep_cut
    from condgrad.io import read_graph

    check_outputs(json_file, plot, save)
    adjacency = read_graph(graph)
    application = sparsest_cut(adjacency, preset.value)
    limits = limits_of(epochs, iterations, seconds, max_epochs=1000)
    options = (method, beta0, parse_batch(batch))
    run = report.run_live(application, *options, quiet=quiet, seed=seed, **limits)

    cut = sweep_cut(adjacency, run.result.W)

    def answer(console: Console) -> None:
        report.print_cut(cut, run.result.objective, console)

    finish(run, json_file, plot, save, quiet, {"input": graph, "cut": as_json(cut)}, answer)


@solve_app.command("kmeans")
def solve_kmeans(
    data: Annotated[Path, typer.Argument(help="Points in an .npz, .npy or .csv file.")],
    k: Annotated[int, typer.Option("-k", help="Number of clusters.")],
    method: MethodName = "h-sag-v2",
    beta0: Beta0 = None,
    batch: BatchSize = None,
    epochs: Epochs = None,
    iterations: Iterations = None,
    seconds: Seconds = None,
    seed: Seed = 0,
    preset: PresetName = Preset.paper,
    json_file: JsonFile = None,
    plot: PlotFile = None,
    save: SaveFile = None,
    quiet: Quiet = False,
) -> None:
    """k-means clustering by its semidefinite relaxation."""
    from condgrad import report
    from condgrad.applications import kmeans
    from condgrad.io import read_features

    check_outputs(json_file, plot, save)
    application = kmeans(read_features(data).distances, k, preset.value)
    limits = limits_of(epochs, iterations, seconds, max_epochs=1000)
    options = (method, beta0, parse_batch(batch))
    run = report.run_live(application, *options, quiet=quiet, seed=seed, **limits)
    finish(run, json_file, plot, save, quiet, {"input": str(data)})


@solve_app.command("matrix-completion")
def solve_matrix_completion(
    ratings: Annotated[Path, typer.Argument(help="user, item, rating by tab, comma or ::")],
    test: Annotated[Path | None, typer.Option(help="Ratings held out.")] = None,
    radius: Annotated[float | None, typer.Option(help="Nuclear-norm bound.")] = None,
    bounds: Annotated[
        tuple[float, float] | None, typer.Option(help="LO HI for every entry.")
    ] = None,
    l1: Annotated[float | None, typer.Option(help="Weight λ of an l1 term.")] = None,
    method: MethodName = "h-sag-v1",
    beta0: Beta0 = None,
    batch: BatchSize = None,
    epochs: Epochs = None,
    iterations: Iterations = None,
    seconds: Seconds = None,
    seed: Seed = 0,
    preset: PresetName = Preset.paper,
    json_file: JsonFile = None,
    plot: PlotFile = None,
    save: SaveFile = None,
    quiet: Quiet = False,
) -> None:
    """Matrix completion from ratings, with box constraints or an l1 term."""
    from condgrad import report
    from condgrad.applications import matrix_completion
    from condgrad.io import index_ratings, read_ratings

    check_outputs(json_file, plot, save)
    data = index_ratings(read_ratings(ratings), None if test is None else read_ratings(test))
    held_out = (
        (data.test_rows, data.test_cols, data.test_values)
        if data.test_values is not None and data.test_values.size
        else None
    )
    application = matrix_completion(
        data.rows,
        data.cols,
        data.values,
        data.shape,
        radius=radius,
        bounds=bounds,
        l1=l1,
        test=held_out,
        preset=preset.value,
    )
    if not quiet and data.dropped:
        note = f"{data.dropped} test ratings dropped: their user or item has no training rating"
        Console(stderr=True).print(note)
    limits = limits_of(epochs, iterations, seconds, max_iter=1000)
    options = (method, beta0, parse_batch(batch))
    run = report.run_live(application, *options, quiet=quiet, seed=seed, **limits)
    more = {"input": str(ratings), "test_dropped": data.dropped}
    finish(run, json_file, plot, save, quiet, more)


@app.command("reproduce")
def reproduce_figures(
    figures: Annotated[
        list[str],
        typer.Argument(
            help="fig1, fig1-grid, fig1-radius, fig2, fig3-kmeans, fig3-sparsest-cut, or all."
        ),
    ],
    preset: Annotated[
        Preset | None, typer.Option(help="Only these settings; default: the figure's.")
    ] = None,
    seeds: Annotated[
        int | None, typer.Option(help="Runs per setting; 3, or 1 with --quick.")
    ] = None,
    methods: Annotated[
        str | None, typer.Option(help="Methods by comma, or `all` nine; default: the figure's.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Short runs.")] = False,
    embedded: Annotated[bool, typer.Option("--embedded", help="Data that needs no file.")] = False,
    dtype: Annotated[Precision, typer.Option(help="Precision of the runs.")] = Precision.float64,
    redraw: Annotated[bool, typer.Option("--redraw", help="Only what is on disk.")] = False,
    jobs: Annotated[int, typer.Option(help="Processes at a time.")] = 2,
    out: Annotated[Path, typer.Option(help="Folder for runs and figures.")] = Path("reproduction"),
    quiet: Quiet = False,
) -> None:
    """The paper's figures from our code: run, keep, summarise, draw; start again to go on."""
    from condgrad.experiments import FIGURES, command, plan
    from condgrad.experiments.figures import NINE

    if seeds is not None and seeds < 1:
        raise ProblemError(f"--seeds is {seeds}: it must be at least 1")
    chosen = None if methods is None else NINE if methods == "all" else methods.split(",")
    todo = plan(
        list(FIGURES) if "all" in figures else figures,
        presets=None if preset is None else [preset.value],
        seeds=seeds or (1 if quick else 3),
        quick=quick,
        embedded=embedded,
        methods=chosen,
        dtype=dtype.value,
    )
    line = " ".join(["condgrad", *sys.argv[1:]])
    if command.run(todo, out, jobs, line, redraw=redraw, quiet=quiet):
        raise typer.Exit(1)


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


def check_outputs(json_file: str | None, plot: Path | None, save: Path | None = None) -> None:
    """Refuse output files that cannot be written before a long run, not after it."""
    for option, path in (("--json", json_file), ("--plot", plot), ("--save", save)):
        if path is None or str(path) == "-":
            continue
        folder = Path(path).resolve().parent
        if not folder.is_dir() or Path(path).is_dir():
            raise ProblemError(f"{option} is {str(path)!r}: that is no file in an existing folder")
    if save is not None and save.suffix != ".npz":
        raise ProblemError(f"--save is {str(save)!r}: end it in .npz")
    if plot is not None:
        from condgrad.plot import pyplot

        known = pyplot().figure().canvas.get_supported_filetypes()
        pyplot().close("all")
        if plot.suffix.lstrip(".").lower() not in known:
            raise ProblemError(f"--plot is {str(plot)!r}: end it in .png, .svg or .pdf")


def finish(
    run: Any,
    json_file: str | None,
    plot: Path | None,
    save: Path | None,
    quiet: bool,
    more: dict[str, Any],
    answer: Callable[[Console], None] | None = None,
) -> None:
    """Write and print a run; the exit code says whether it ended as planned."""
    from condgrad import report
    from condgrad.result import Status

    if json_file is not None:
        text = json.dumps(finite({**run.to_json(), **more, "version": __version__}), indent=2)
        if json_file == "-":
            sys.stdout.write(text + "\n")
        else:
            Path(json_file).write_text(text + "\n")
    if save is not None:
        trace = run.result.trace
        np.savez_compressed(save, W=run.result.W, **{f"trace.{c}": trace[c] for c in trace})
    if plot is not None:
        report.draw(run, plot)
    if not quiet and json_file != "-":
        console = Console()
        report.print_run(run, console)
        if answer is not None:
            answer(console)
    codes = {Status.INTERRUPTED: 130, Status.NONFINITE: 1}
    if run.result.status in codes:
        raise typer.Exit(codes[run.result.status])


def as_json(cut: Any) -> dict[str, Any]:
    """A cut: its value and the vertices of the smaller side, counted from 1."""
    return {"value": cut.value, "vertices": (np.nonzero(cut.side)[0] + 1).tolist()}


def finite(value: Any) -> Any:
    """Replace infinite numbers and NaN, which JSON does not have, by null."""
    if isinstance(value, dict):
        return {key: finite(v) for key, v in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value


def main() -> None:
    """Entry point: bad input is one line on standard error and exit code 2."""
    try:
        app()
    except (InputError, ProblemError) as error:
        sys.stderr.write(f"condgrad: {error}\n")
        raise SystemExit(2) from None
