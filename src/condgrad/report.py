"""What the command line shows of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from condgrad.applications import Application, Cut, Run
from condgrad.callbacks import Progress
from condgrad.methods import METHODS, check


def run_live(
    application: Application,
    method: str,
    beta0: float | None = None,
    batch: int | float | None = None,
    *,
    quiet: bool = False,
    **limits: Any,
) -> Run:
    """Run an application with a live progress line on standard error."""
    check(application.problem, application.method(method, beta0, batch)[0])
    if quiet:
        return application.run(method, beta0, batch, **limits)
    with Progress(
        max_epochs=limits.get("max_epochs"),
        max_iter=limits.get("max_iter"),
        max_seconds=limits.get("max_seconds"),
    ) as progress:
        return application.run(method, beta0, batch, callbacks=[progress], **limits)


def print_run(run: Run, console: Console) -> None:
    """The final table."""
    r = run.result
    table = Table(title=f"{run.application} · {r.method} · preset {run.preset}", show_header=False)
    table.add_row("status", str(r.status))
    table.add_row("objective", f"{r.objective:.8g}")
    table.add_row("infeasibility", f"{r.infeasibility:.4g}")
    for name, violation in r.families.items():
        table.add_row(f"  {name}", f"l2 {violation.l2:.4g}, max {violation.max:.4g}")
    for name, value in r.metrics.items():
        table.add_row(name.replace("_", " "), f"{value:.5g}")
    table.add_row("iterations", f"{r.iterations} (best point from {r.best_iteration})")
    table.add_row("epochs", f"{r.epochs:.5g}")
    table.add_row("seconds", f"{r.seconds:.3g}")
    table.add_row("oracle calls, products", f"{r.lmo_calls}, {r.matvecs}")
    settings = [f"seed {r.seed}"]
    settings += [f"β0 {run.beta0:g}"] if run.beta0 is not None else []
    settings += [f"batch {run.batch:g}"] if run.batch is not None else []
    table.add_row("settings", ", ".join(settings))
    console.print(table)


def print_cut(cut: Cut, relaxed: float, console: Console) -> None:
    """The partition found."""
    members = ", ".join(str(i + 1) for i in np.nonzero(cut.side)[0])
    console.print(
        f"Cut found: {cut.side.sum()} of {cut.side.size} vertices, value {cut.value:.6g} "
        f"(the relaxation ended at {relaxed:.6g})"
    )
    console.print(f"Smaller side, vertices counted from 1: {members}")


def print_methods(console: Console) -> None:
    """The table of methods."""
    table = Table(title="Methods", show_lines=False)
    for column in ("--method", "name", "follows ∇f, ∇g", "iterations", "total cost", "reference"):
        table.add_column(column, no_wrap=column == "--method", overflow="fold")
    for e in METHODS.values():
        table.add_row(e.slug, e.name, e.estimates, e.iterations, e.cost, e.reference)
    console.print(table)
    console.print("d: size of W; n, m: rows of f and of g; ε: accuracy. Needs:")
    for needs in dict.fromkeys(e.needs for e in METHODS.values()):
        slugs = ", ".join(e.slug for e in METHODS.values() if e.needs == needs)
        console.print(f"  {slugs}: {needs}")


def draw(run: Run, path: Path) -> None:
    """The convergence plot of a run."""
    from condgrad.plot import convergence

    convergence(run.result.trace, path, title=f"{run.application}, {run.result.method}")
