"""Options that commands share: each is declared once, as a field of a group.

A command under `grouped` has a parameter for each group that it takes; the fields of the group
are its options, and it gets the group filled.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from copy import copy
from dataclasses import dataclass, is_dataclass, replace
from enum import StrEnum
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer

from condgrad import _progress as progress
from condgrad._deadline import STARTED, within
from condgrad.errors import ProblemError

if TYPE_CHECKING:
    from condgrad.applications import Application, Outcome
    from condgrad.cli.outputs import Outputs


class Preset(StrEnum):
    """Named settings."""

    auto = "auto"
    paper = "paper"
    published = "published"


class Precision(StrEnum):
    """Types of numbers."""

    float64 = "float64"
    float32 = "float32"


class Device(StrEnum):
    """Device that keeps the arrays of a run."""

    cpu = "cpu"
    cuda = "cuda"
    auto = "auto"


Seed = Annotated[int, typer.Option(help="Seed of all randomness.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="Print nothing but errors.")]
ReportFile = Annotated[
    Path | None, typer.Option("--report", help="Write one HTML page with tables and pictures.")
]


def grouped(*left_out: str, **helps: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Replace the parameters of a command that are groups by their fields, less those left out.

    `helps` has other help texts for fields that mean something else in this command.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        own = inspect.signature(command, eval_str=True).parameters
        groups: dict[str, Any] = {}
        fields: dict[str, list[inspect.Parameter]] = {}
        for name, parameter in own.items():
            if is_dataclass(parameter.annotation):
                groups[name] = parameter.annotation
                declared = inspect.signature(groups[name], eval_str=True).parameters.values()
                fields[name] = [_helped(f, helps) for f in declared if f.name not in left_out]

        @wraps(command)
        def run(**given: Any) -> None:
            for name, group in groups.items():
                given[name] = group(**{f.name: given.pop(f.name) for f in fields[name]})
            kept = [g for g in map(given.get, groups) if isinstance(g, RunOptions)]
            seconds = [getattr(given[name], "seconds", None) for name in groups]
            limit = within(next((s for s in seconds if s is not None), None), since=STARTED)
            quiet = any(getattr(given[name], "quiet", False) for name in groups)
            bar = {"max_seconds": next((s for s in seconds if s is not None), None)}
            with (
                limit,
                kept[0].keeping() if kept else nullcontext(),
                progress.shown(not quiet, **bar),
            ):
                progress.doing("reading")
                command(**given)

        shown = [option for name, p in own.items() for option in fields.get(name, [p])]
        keywords = [option.replace(kind=option.KEYWORD_ONLY) for option in shown]
        run.__signature__ = inspect.Signature(keywords)  # type: ignore[attr-defined]  # for Typer
        return run

    return decorate


def _helped(field: inspect.Parameter, helps: Mapping[str, str]) -> inspect.Parameter:
    """The field, with its own help text if there is one."""
    if field.name not in helps:
        return field
    kind, option = get_args(field.annotation)
    option = copy(option)
    option.help = helps[field.name]
    return field.replace(annotation=Annotated[kind, option])


@dataclass(frozen=True)
class RunOptions:
    """How to solve, and when to stop."""

    method: Annotated[
        str | None,
        typer.Option(help="One of `condgrad methods`; default: what suits the problem."),
    ] = None
    beta0: Annotated[
        float | None,
        typer.Option(help="First smoothing parameter β0 of the --method; default: found."),
    ] = None
    batch: Annotated[
        str | None,
        typer.Option(
            help="Constraints looked at in an iteration: a count, or a fraction like 0.05."
        ),
    ] = None
    epochs: Annotated[
        float | None, typer.Option(help="Stop after so many passes over the constraints.")
    ] = None
    iterations: Annotated[int | None, typer.Option(help="Stop after so many iterations.")] = None
    seconds: Annotated[
        float | None, typer.Option(help="Stop after so many seconds, all in all.")
    ] = None
    gap: Annotated[
        float | None,
        typer.Option(help="Stop at this relative gap to the proven bound; default: 1e-3."),
    ] = None
    feasibility: Annotated[
        float | None, typer.Option(help="… and this relative infeasibility; default: 1e-3.")
    ] = None
    seed: Seed = 0
    preset: Annotated[
        Preset,
        typer.Option(help="What suits, or method and β0 of the H-SAG-CGM experiments and no gap."),
    ] = Preset.auto
    jobs: Annotated[
        int | None,
        typer.Option(
            help="Threads; default (and -1): all cores; OMP_NUM_THREADS bounds the default."
        ),
    ] = None
    device: Annotated[
        Device, typer.Option(help="Where to solve: on the CPU, on a GPU by CuPy, or where it pays.")
    ] = Device.cpu
    cluster: Annotated[
        str | None,
        typer.Option(
            help="Deal rows to a Ray cluster: local, or an address like ray://HOST:10001."
        ),
    ] = None
    shards: Annotated[
        int | None, typer.Option(help="… in so many parts; default: as it has CPUs.")
    ] = None
    checkpoint: Annotated[
        Path | None,
        typer.Option(help="Keep the state of the run in this file; default: that of --resume."),
    ] = None
    every: Annotated[float, typer.Option(help="… written every so many seconds.")] = 60.0
    resume: Annotated[
        Path | None,
        typer.Option(help="Go on from this checkpoint of the same command."),
    ] = None
    resume_or_start: Annotated[
        bool,
        typer.Option("--resume-or-start", help="… or begin, if that file is not there yet."),
    ] = False

    @property
    def written(self) -> dict[str, Path]:
        """The file of checkpoints by the option that names it."""
        if self.checkpoint is not None:
            return {"--checkpoint": self.checkpoint}
        return {} if self.resume is None else {"--resume": self.resume}

    def check(
        self, outputs: Outputs, inputs: Iterable[Any], more: Mapping[str, Any] | None = None
    ) -> None:
        """Check the files of a command, and say which checkpoint will be written over."""
        outputs.check(inputs, {**(more or {}), **self.written})
        file = self.checkpoint
        if file is None or not file.exists() or self.resume == file:
            return
        if self.resume is not None or not self.resume_or_start:
            sys.stderr.write(
                f"condgrad: {file} is there already and will be written over; stop this and add "
                f"--resume {file} to go on from it\n"
            )

    @contextmanager
    def keeping(self) -> Iterator[None]:
        """Keep checkpoints of what is solved meanwhile, where that is asked for."""
        from condgrad.run.journal import checkpoints

        file, there = self.resume or self.checkpoint, self.resume
        if self.resume_or_start:
            if file is None:
                raise ProblemError("--resume-or-start is given, but no file: add --resume FILE")
            there = file if file.exists() else None
        elif there is not None and not there.exists():
            raise ProblemError(
                f"--resume is {str(there)!r}, which is not there: leave it out, or add "
                "--resume-or-start to begin in that case"
            )
        with checkpoints(self.checkpoint or file, self.every, there):
            yield

    def limits(self, **default: float) -> dict[str, Any]:
        """When to stop, for `solve`: the limits and tolerances given.

        `default` is the limit of a run to a tolerance where none is given; a run without tolerance
        then ends at 1000 of the same unit. Preset auto has a tolerance of its own.
        """
        for option in ("gap", "feasibility", "beta0"):
            if (value := getattr(self, option)) is not None and not value > 0:
                raise ProblemError(f"--{option} is {value:g}: it must be positive")
        for option in ("epochs", "iterations", "seconds"):
            if (value := getattr(self, option)) is not None and not value >= 0:
                raise ProblemError(f"--{option} is {value:g}: it must be at least 0")
        auto = self.gap is None and self.preset is Preset.auto
        goal = _given(gap=1e-3 if auto else self.gap, feasibility=self.feasibility)
        usual = default if goal else dict.fromkeys(default, 1000)
        given = _given(max_epochs=self.epochs, max_iter=self.iterations, max_seconds=self.seconds)
        return {**(given or usual), **goal}

    def run(
        self, application: Application, paper: str, limits: dict[str, Any], quiet: bool
    ) -> Outcome:
        """Solve; `paper` is the method of the presets other than auto."""
        from condgrad import report

        method = self.method or (None if self.preset is Preset.auto else paper)
        if method is None and self.beta0 is not None:
            raise ProblemError(
                "--beta0 is given without --method: add the method that it is for, as "
                "--method h-sag-v2, or leave it out"
            )
        how = {**limits, "seed": self.seed, "n_jobs": self.jobs, "quiet": quiet}
        how["device"] = self.device.value
        if self.shards is not None and self.cluster is None:
            raise ProblemError("--shards is given without --cluster: add --cluster local")
        if self.cluster is not None:
            from condgrad.cluster import cluster_of

            wish = cluster_of(self.cluster)
            assert wish is not None
            how["cluster"] = replace(wish, shards=self.shards)
        return report.run_live(application, method, self.beta0, parse_batch(self.batch), **how)


def _given(**options: float | None) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


def parse_batch(text: str | None) -> int | float | None:
    """A count (``100``) or a fraction (``0.05``)."""
    for number in (int, float):
        try:
            return None if text is None else number(text)
        except ValueError:
            pass
    raise ProblemError(f"--batch is {text!r}: give a count or a fraction")
