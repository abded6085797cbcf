"""The command `condgrad solve sdp`: a semidefinite program from an SDPA file."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from scipy.linalg import block_diag

from condgrad._types import Array
from condgrad.cli.options import (
    Beta0,
    Feasibility,
    Gap,
    Iterations,
    Jobs,
    JsonFile,
    MethodName,
    PlotFile,
    Preset,
    Quiet,
    ReportFile,
    SaveFile,
    Seconds,
    Seed,
    ShowProfile,
    check_outputs,
    finish,
    goal_of,
    limits_of,
    write_json,
)
from condgrad.errors import ProblemError
from condgrad.methods.registry import METHODS, Method


def solve_sdp(
    file: Annotated[Path, typer.Argument(help="An SDPA sparse file, .dat-s or .dat-s.gz.")],
    trace_bound: Annotated[
        float | None,
        typer.Option(help="Tr Y is at most this; default: from the rows, or guessed and raised."),
    ] = None,
    method: MethodName = None,
    beta0: Beta0 = None,
    iterations: Iterations = None,
    seconds: Seconds = None,
    gap: Gap = None,
    feasibility: Feasibility = None,
    seed: Seed = 0,
    json_file: JsonFile = None,
    plot: PlotFile = None,
    save: SaveFile = None,
    jobs: Jobs = None,
    profile: ShowProfile = False,
    quiet: Quiet = False,
    report_file: ReportFile = None,
) -> None:
    """A semidefinite program from an SDPA file: max ⟨F0, Y⟩, ⟨Fi, Y⟩ = ci, Y ⪰ 0."""
    from condgrad.applications import Outcome
    from condgrad.io import read_sdpa
    from condgrad.run.callbacks import Progress
    from condgrad.sdp import SDP

    check_outputs(json_file, plot, save, report_file)
    slug, built, used = _method(method or "sag-cgal", beta0)
    sdp = SDP.from_sdpa(read_sdpa(file))
    limits = {**limits_of(None, iterations, seconds), **goal_of(gap, feasibility, Preset.auto)}
    live = nullcontext() if quiet else Progress(max_seconds=seconds, max_iter=iterations)
    with live as progress:
        solution = sdp.solve(
            trace_bound=trace_bound,
            method=built,
            seed=seed,
            n_jobs=jobs,
            callbacks=() if progress is None else (progress,),
            **limits,
        )
    settings = {
        "side": sdp.layout.side,
        "rows": sdp.size,
        "blocks": len(sdp.blocks),
        "trace_bound": solution.trace_bound,
        "trace_from": solution.trace_from,
    }
    more = {
        "input": str(file),
        "value": solution.value,
        "bound": solution.bound,
        "proviso": solution.proviso,
        "conditional_bound": solution.conditional_bound,
        "worst_row": solution.worst_row,
        "dimacs": solution.errors._asdict(),
    }

    def answer(console: Console) -> None:
        console.print(str(solution))
        if np.isfinite(solution.value):
            errors = ", ".join(f"{x:.1e}" for x in solution.errors)
            console.print(f"DIMACS errors: {errors}")

    if solution.result is None:
        status = {"status": solution.status.name.lower(), "message": str(solution.status)}
        about = {"application": "sdp", "sense": "max", "method": slug, "settings": settings}
        if json_file is not None:
            write_json(json_file, {**about, **status, **more})
        if not quiet and json_file != "-":
            answer(Console())
            if save or plot or report_file:
                Console().print("No run was needed: there is nothing to save or draw.")
        return
    named: dict[str, Any] = {"settings": settings, "sense": "max", "solution": solution}
    run = Outcome("sdp", "auto", slug, used, None, solution.result, **named)
    outputs = (run, json_file, plot, save, quiet, more, answer, profile, report_file)
    finish(*outputs, limits=limits, W=_square(solution.W))


def _method(name: str, beta0: float | None) -> tuple[str, Method, float | str | None]:
    """The method of that name, and the β0 in use."""
    slug = name.replace("_", "-")
    if slug not in METHODS:
        raise ProblemError(f"--method is {slug!r}: choose one of {', '.join(METHODS)}")
    if not METHODS[slug].smoothed:
        return slug, METHODS[slug](), None
    if slug == "cgal" and beta0 is None:
        raise ProblemError("CGAL cannot find its β0: give --beta0, or use --method sag-cgal")
    used = "auto" if beta0 is None else beta0
    return slug, METHODS[slug](beta0=used), used


def _square(W: Any) -> Array:
    """The blocks of a solution on the diagonal of one matrix."""
    blocks = W if isinstance(W, list) else [W]
    square: Array = block_diag(*(np.diag(b) if b.ndim == 1 else b for b in blocks))
    return square
