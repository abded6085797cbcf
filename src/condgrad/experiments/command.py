"""`condgrad reproduce`: plan, run with one progress display, summarise, draw."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from condgrad.errors import ProblemError
from condgrad.experiments import summary
from condgrad.experiments.draw import draw
from condgrad.experiments.figures import Job
from condgrad.experiments.runner import reproduce, set_aside


def run(
    jobs: Sequence[Job], folder: Path, workers: int, command: str, *, redraw: bool, quiet: bool
) -> int:
    """Run what is missing (unless `redraw`), write tables and figures; return how many failed."""
    if workers < 1:
        raise ProblemError(f"--jobs is {workers}: it must be at least 1")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ProblemError(f"--out is {str(folder)!r}: {error.strerror}") from None
    if redraw and not any((folder / f"{job.key}.npz").exists() for job in jobs):
        raise ProblemError(
            f"--redraw found no run of these in {str(folder)!r}: leave it out to run them, or name "
            "the folder they are in with --out"
        )
    errors = Console(stderr=True, highlight=False, soft_wrap=True)
    for sentence in set_aside(jobs, folder):
        errors.print(f"condgrad: {sentence}", markup=False)
    faults = Counter[str]() if redraw else _run(jobs, folder, workers, quiet)
    summary.write(jobs, folder, command, faults)
    paths = draw(jobs, folder)
    if not quiet:
        console = Console(highlight=False, soft_wrap=True)
        console.print((folder / "summary.md").read_text(encoding="utf-8"), markup=False)
        console.print(f"{len(paths)} pictures and summary.csv in {folder}")
    return faults.total()


def _run(jobs: Sequence[Job], folder: Path, workers: int, quiet: bool) -> Counter[str]:
    """Run what is missing; return how many runs ended with each fault."""
    faults, errors = Counter[str](), Console(stderr=True, highlight=False, soft_wrap=True)
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=errors,
        transient=True,
        disable=quiet or not errors.is_terminal,
    )
    with bar:
        task = bar.add_task("runs", total=len(jobs))
        for job, fault in reproduce(jobs, folder, workers):
            bar.update(task, advance=1, description=f"{job.instance} {job.method}")
            if fault:
                faults[fault] += 1
                errors.print(f"failed: {job.key}: {fault}", markup=False)
    return faults
