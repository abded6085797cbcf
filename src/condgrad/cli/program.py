"""The command line: options in, an application run, tables, JSON and pictures out."""

from __future__ import annotations

import contextlib
import math
import sys
import warnings
from collections.abc import Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from rich.console import Console
from typer.core import TyperGroup

from condgrad import __version__, _signals
from condgrad.cli.inputs import GraphFile, GraphInput
from condgrad.cli.options import Precision, Preset, Quiet, RunOptions, Seed, grouped
from condgrad.cli.outputs import Outputs
from condgrad.cli.partitions import (
    solve_bisection,
    solve_correlation_clustering,
    solve_k_section,
    solve_theta,
)
from condgrad.cli.plot import plot_run
from condgrad.cli.ratings import solve_matrix_completion
from condgrad.cli.sdp import solve_sdp
from condgrad.errors import InputError, ProblemError, from_keyboard

if TYPE_CHECKING:
    from condgrad.applications import Outcome


FIRST = ("demo", "solve", "plot", "methods", "reproduce", "sparsest-cut", "max-cut", "kmeans")
"""Commands in the order of the help."""
CODES = (
    "Exit codes: 0 the run ended as planned, by a limit too; 1 numbers or memory ran out, or an "
    "output could not be written; 2 bad input; 128 + signal where a signal ended it (130: Ctrl-C)."
)


BEGIN = """Cuts, clusterings, ratings and semidefinite programs with proven bounds.

Begin with `condgrad demo`, which cuts a small graph and draws it. Then take data of your own: \
`condgrad solve sparsest-cut FILE`, or `max-cut`, `bisection`, `k-section`, `theta`, `kmeans`, \
`matrix-completion` or `sdp` instead of `sparsest-cut`. What each reads and can be told is in \
`condgrad solve sparsest-cut --help`."""


class Ordered(TyperGroup):
    """Commands that are listed in the order in which they are met."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Their names."""
        known = super().list_commands(ctx)
        return sorted(known, key=lambda name: FIRST.index(name) if name in FIRST else len(FIRST))


class Program(Ordered):
    """The commands; Ctrl-C ends each in the same way."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command that was asked for; if it has no answer a signal is one line."""
        try:
            return super().invoke(ctx)
        except typer.Exit:
            raise
        except (KeyboardInterrupt, Exception) as error:
            if not from_keyboard(error) and not _signals.came():
                raise
            sys.stderr.write(_signals.line())
            raise typer.Exit(_signals.code()) from None


app = typer.Typer(
    cls=Program,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    epilog=CODES,
)
solve_app = typer.Typer(
    cls=Ordered,
    no_args_is_help=True,
    epilog=CODES,
    help="Cut a graph, cluster points, fill in ratings or solve a semidefinite program.",
)
app.add_typer(solve_app, name="solve")
app.command("plot")(plot_run)
solve_app.command("bisection")(solve_bisection)
solve_app.command("k-section")(solve_k_section)
solve_app.command("correlation-clustering")(solve_correlation_clustering)
solve_app.command("theta")(solve_theta)
solve_app.command("sdp")(solve_sdp)
solve_app.command("matrix-completion")(solve_matrix_completion)


def print_version(wanted: bool) -> None:
    """Print the version and end."""
    if wanted:
        typer.echo(f"condgrad {__version__}")
        raise typer.Exit


@app.callback(help=BEGIN)
def top(
    version: Annotated[
        bool,
        typer.Option("--version", callback=print_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Options of the program itself."""


@app.command()
def demo(
    plot: Annotated[
        Path | None,
        typer.Option(
            help="Where the picture goes: condgrad-demo.png, or nowhere without matplotlib."
        ),
    ] = None,
    epochs: Annotated[float, typer.Option(help="Passes over the triangle inequalities.")] = 3000,
    seed: Seed = 0,
    quiet: Quiet = False,
) -> None:
    """A first example: a sparsest cut of the karate club, proved to be one, and its picture."""
    from condgrad import report
    from condgrad.applications import sparsest_cut
    from condgrad.datasets import load

    if plot is None and find_spec("matplotlib"):
        plot = Path("condgrad-demo.png")
    outputs = Outputs(plot=plot, quiet=quiet)
    outputs.check()
    adjacency = load("embedded/karate")
    application = sparsest_cut(adjacency)
    how: dict[str, Any] = {"max_epochs": epochs, "gap": 1e-3, "seed": seed}
    run = report.run_live(application, quiet=quiet, **how)
    outputs.finish(run, partial(report.print_cut, run), adjacency=adjacency)
    if not quiet:
        missing = "none, it needs matplotlib: install condgrad[plot]"
        Console().print(f"Picture: {plot or missing}", markup=False)


@app.command("methods")
def list_methods() -> None:
    """The table of methods."""
    from condgrad import report

    report.print_methods(Console())


@solve_app.command("sparsest-cut")
@grouped()
def solve_sparsest_cut(
    graph: GraphFile,
    *,
    presolve: Annotated[
        bool,
        typer.Option(
            "--presolve/--whole",
            help="Solve block by block, or the whole graph, as always with --method.",
        ),
    ] = True,
    given: GraphInput,
    options: RunOptions,
    outputs: Outputs,
) -> None:
    """The cut with the fewest edges for the sizes of its sides, w(S, S̄)/(|S||S̄|)."""
    from condgrad.applications import sparsest_cut
    from condgrad.applications.presolve import by_blocks

    options.check(outputs, [graph])
    adjacency, names = given.read(graph)
    blocks = presolve and options.method is None and options.preset is Preset.auto
    application = by_blocks(adjacency) if blocks else sparsest_cut(adjacency, options.preset.value)
    limits = options.limits(max_epochs=3000)
    run = options.run(application, "h-sag-v2", limits, outputs.quiet)
    finish_cut(run, outputs, graph, adjacency=adjacency, names=names, limits=limits)


@solve_app.command("max-cut")
@grouped("preset")
def solve_max_cut(
    graph: GraphFile,
    *,
    triangles: Annotated[
        bool,
        typer.Option("--triangles", help="Add all triangle inequalities: a better bound, slower."),
    ] = False,
    presolve: Annotated[
        bool | None,
        typer.Option(
            "--presolve/--whole",
            help="Make the graph smaller and its bound tighter, or not; by default where it has "
            "more than 5000 vertices.",
        ),
    ] = None,
    warm: Annotated[
        bool,
        typer.Option("--warm/--cold", help="Start from a quick solution, or from scratch."),
    ] = True,
    hyperplanes: Annotated[
        int, typer.Option(help="Random hyperplanes to round with, each time.")
    ] = 100,
    given: GraphInput,
    options: RunOptions,
    outputs: Outputs,
) -> None:
    """A cut across as many edges, or as much weight, as possible."""
    from condgrad.applications import max_cut

    options.check(outputs, [graph])
    adjacency, names = given.read(graph, signed=True)
    limits = options.limits(max_epochs=3000)
    application = max_cut(
        adjacency,
        triangles=triangles,
        presolve=presolve,
        warm=limits["gap"] if warm else None,
        warm_seconds=limits.get("max_seconds", math.inf),
        hyperplanes=hyperplanes,
        seed=options.seed,
    )
    run = options.run(application, "sag-cgal", limits, outputs.quiet)
    finish_cut(run, outputs, graph, adjacency=adjacency, names=names, limits=limits)


def finish_cut(
    run: Outcome, outputs: Outputs, graph: str, names: Sequence[str] | None, **data: Any
) -> None:
    """Write and print a cut: the smaller side with its vertices counted from 1, or named."""
    from condgrad import report

    found = None
    if run.rounded is not None:
        cut = run.rounded.answer
        chosen = np.nonzero(cut.side)[0].tolist()
        found = {"value": run.value, "vertices": [i + 1 for i in chosen]}
        found |= {} if names is None else {"names": [names[i] for i in chosen]}
    answer = partial(report.print_cut, run, names=names)
    outputs.finish(run, answer, {"input": graph, "cut": found}, names=names, **data)


@solve_app.command("kmeans")
@grouped()
def solve_kmeans(
    data: Annotated[
        Path, typer.Argument(help="Points as rows of a table (.csv, .parquet, …), .npy or .npz.")
    ],
    k: Annotated[int, typer.Option("-k", help="Number of clusters.")],
    columns: Annotated[
        str | None,
        typer.Option(help="The coordinates among the columns, as x,y or 2,3; default: all."),
    ] = None,
    *,
    options: RunOptions,
    outputs: Outputs,
) -> None:
    """Clusters of points with the least sum of squared distances (k-means)."""
    from condgrad import report
    from condgrad.applications import kmeans
    from condgrad.io import read_features

    options.check(outputs, [data])
    features = read_features(data, columns=None if columns is None else columns.split(","))
    if features.names is not None and not outputs.quiet:
        note = "The first column has the names of the points, it is no coordinate (see --columns)."
        Console(stderr=True, soft_wrap=True).print(note)
    application = kmeans(features.distances, k, options.preset.value)
    limits = options.limits(max_epochs=20_000)
    run = options.run(application, "h-sag-v2", limits, outputs.quiet)
    found = None if run.rounded is None else run.rounded.answer.labels.tolist()
    more = {"input": str(data), "labels": found}
    more |= {} if features.names is None else {"names": features.names}
    answer = partial(report.print_clusters, run)
    outputs.finish(run, answer, more, points=features.points, limits=limits)


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


for _command in solve_app.registered_commands:
    _command.epilog = CODES


def main() -> None:
    """Entry point.

    One line on standard error and exit code 2 for bad input, 1 for an output that cannot be
    written or no memory, 128 + signal for a signal, which Ctrl-C is.
    """
    _signals.ready()
    if _signals.is_program():
        warnings.showwarning = _warn
    for stream in (sys.stdout, sys.stderr):  # a letter that it does not have is no error
        with contextlib.suppress(Exception):
            stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    try:
        app()
    except MemoryError as error:
        sys.stderr.write(f"condgrad: there is not enough memory ({error}): solve a smaller one\n")
        raise SystemExit(1) from None
    except (InputError, ProblemError) as error:
        sys.stderr.write(f"condgrad: {error}\n")
        raise SystemExit(2) from None
    except OSError as error:
        where = f"{error.filename}: " if error.filename else "an output cannot be written: "
        sys.stderr.write(f"condgrad: {where}{error.strerror or error}\n")
        raise SystemExit(1) from None
    finally:
        _signals.done()


def _warn(message: Warning | str, *_: Any, **__: Any) -> None:
    """A warning as one line, without the place in the source."""
    sys.stderr.write(f"condgrad: warning: {message}\n")
