"""The command `condgrad solve sdp`: a semidefinite program from an SDPA file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from rich.console import Console
from scipy.linalg import block_diag

from condgrad._types import Array
from condgrad.cli.options import RunOptions, grouped
from condgrad.cli.outputs import Outputs, write_json
from condgrad.errors import ProblemError
from condgrad.methods import METHODS, Method

if TYPE_CHECKING:
    from condgrad.sdp import SDP, Solution


@grouped("batch", "cluster", "epochs", "preset", "shards")
def solve_sdp(
    file: Annotated[Path, typer.Argument(help="An SDPA sparse file, .dat-s or .dat-s.gz.")],
    *,
    trace_bound: Annotated[
        float | None,
        typer.Option(help="Tr Y is at most this; default: from the rows, or guessed and raised."),
    ] = None,
    options: RunOptions,
    outputs: Outputs,
) -> None:
    """A semidefinite program from an SDPA file: max ⟨F0, Y⟩, ⟨Fi, Y⟩ = ci, Y ⪰ 0."""
    from condgrad.io import read_sdpa
    from condgrad.sdp import SDP

    options.check(outputs, [file])
    slug, built, used = _method(options.method, options.beta0)
    sdp = SDP.from_sdpa(read_sdpa(file))
    limits = options.limits()
    solution = sdp.solve(
        trace_bound=trace_bound,
        method=built,
        seed=options.seed,
        n_jobs=options.jobs,
        device=options.device.value,
        verbose=not outputs.quiet,
        **limits,
    )
    about = {"file": str(file), "slug": slug, "beta0": used, "limits": limits}
    finish(sdp, solution, outputs, about)


def finish(sdp: SDP, solution: Solution, outputs: Outputs, asked: Mapping[str, Any]) -> None:
    """Print and write a solution."""
    from condgrad.applications import Outcome

    slug, limits = asked["slug"], asked["limits"]
    if slug is None:  # what suits
        name = "" if solution.result is None else solution.result.method
        slug = next((e.slug for e in METHODS.values() if e.name == name), "presolve")
    settings = {
        "side": sdp.layout.side,
        "rows": sdp.size,
        "blocks": len(sdp.blocks),
        "trace_bound": solution.trace_bound,
        "trace_from": solution.trace_from,
    }
    more = {
        "input": asked["file"],
        "value": solution.value,
        "bound": solution.bound,
        "proviso": solution.proviso,
        "conditional_bound": solution.conditional_bound,
        "worst_row": solution.worst_row,
        "dimacs": solution.errors._asdict(),
    }

    def answer(console: Console) -> None:
        console.print(str(solution))
        if np.isfinite(solution.errors).all():
            errors = ", ".join(f"{x:.1e}" for x in solution.errors)
            console.print(f"DIMACS errors: {errors}")

    if solution.result is None:
        status = {"status": solution.status.name.lower(), "message": str(solution.status)}
        about = {"application": "sdp", "sense": "max", "method": slug, "settings": settings}
        about["device"] = solution.device
        about |= {"gap": solution.gap, "infeasibility": {"total": solution.infeasibility}}
        fields = {**about, **status, **more}

        def show(console: Console) -> None:
            answer(console)
            if outputs.save or outputs.plot or outputs.report_file:
                console.print("There was no run: nothing to save or draw.")

        if code := outputs.give(show, [(outputs.json_file, lambda path: write_json(path, fields))]):
            raise typer.Exit(code)
        return
    named: dict[str, Any] = {"settings": settings, "sense": "max", "solution": solution}
    run = Outcome("sdp", "auto", slug, asked["beta0"], None, solution.result, **named)
    outputs.finish(run, answer, more, limits=limits, W=_square(solution.W))


def _method(
    name: str | None, beta0: float | None
) -> tuple[str | None, Method | None, float | str | None]:
    """The method of that name, or None for what suits, and the β0 in use."""
    if name is None and beta0 is None:
        return None, None, "auto"
    slug = (name or "sag-cgal").replace("_", "-")
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
