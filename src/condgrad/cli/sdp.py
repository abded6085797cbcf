"""The command `condgrad solve sdp`: a semidefinite program from an SDPA file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from scipy.linalg import block_diag

from condgrad._types import Array
from condgrad.cli.options import RunOptions, grouped
from condgrad.cli.outputs import Outputs, write_json
from condgrad.errors import ProblemError
from condgrad.methods.registry import METHODS, Method


@grouped("batch", "epochs", "preset")
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
    from condgrad import report
    from condgrad.applications import Outcome
    from condgrad.io import read_sdpa
    from condgrad.sdp import SDP

    outputs.check()
    slug, built, used = _method(options.method, options.beta0)
    sdp = SDP.from_sdpa(read_sdpa(file))
    limits = options.limits()
    with report.live(outputs.quiet, limits) as callbacks:
        solution = sdp.solve(
            trace_bound=trace_bound,
            method=built,
            seed=options.seed,
            n_jobs=options.jobs,
            device=options.device.value,
            callbacks=callbacks,
            **limits,
        )
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
        about["device"] = solution.device
        if outputs.json_file is not None:
            write_json(outputs.json_file, {**about, **status, **more})
        if not outputs.quiet and outputs.json_file != "-":
            answer(Console())
            if outputs.save or outputs.plot or outputs.report_file:
                Console().print("No run was needed: there is nothing to save or draw.")
        return
    named: dict[str, Any] = {"settings": settings, "sense": "max", "solution": solution}
    run = Outcome("sdp", "auto", slug, used, None, solution.result, **named)
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
