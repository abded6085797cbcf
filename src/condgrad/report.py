"""Tables and sentences that the command line shows of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from condgrad._round import bound_text, up
from condgrad.applications import Application, Cut, Outcome, closeness
from condgrad.evaluation import missed, worst, worst_row
from condgrad.methods import METHODS
from condgrad.run.result import Status


def run_live(
    application: Application,
    method: str | None = None,
    beta0: float | None = None,
    batch: int | float | None = None,
    *,
    quiet: bool = False,
    **limits: Any,
) -> Outcome:
    """Run an application with a live progress line on standard error."""
    method = method or application.default(beta0)
    name, used = application.ready(method, beta0, batch)
    if batch is not None and used is None and not quiet:
        Console(stderr=True).print(f"{name} has no batch size to choose: --batch is ignored")
    return application.run(method, beta0, batch, verbose=not quiet, **limits)


def summary(run: Outcome, profile: Mapping[str, float] | None = None) -> list[tuple[str, str]]:
    """The numbers of a run as pairs of name and text; seconds are all of `profile`."""
    r, found = run.result, run.found
    value, bound, gap = run.objective, run.bound, run.gap
    if run.rounded is not None:
        value, bound, gap = run.value, run.value_bound, run.rounded_gap
    rows = [("status", run.message), ("objective", f"{value:.8g}")]
    rows += [("note", r.note)] if r.note else []
    rows += [("unit", run.unit.words)] if run.unit.words else []
    meaning = f"  = {run.formula}" if len(found.families) > 1 else ""
    if np.isfinite(bound):
        chance = f", wrong with probability {up(run.bound_failure, 2)}" if run.bound_failure else ""
        text = f"{bound_text(bound, 8, run.sense)} ({run.bound_kind}{chance})"
        rows.append((run.bound_name.replace("_", " "), text))
        rows.append(("gap", up(gap, 3)))
    if run.rounded is not None:
        limit = bound_text(run.bound, 8, run.sense)
        text = f"{run.objective:.8g}, bound {limit}, gap {up(run.gap, 3)}"
        rows.append(("of the relaxation", text))
    if found.families:
        families, single = worst(found.families), worst_row(found.families)
        text = f"{families:.2g} of the worst family, {single:.2g} of the worst row, relative"
        rows.append(("infeasibility", text))
    for name, violation in found.families.items() if len(found.families) > 1 else ():
        rows.append((f"  {name}", missed({name: violation})))
    if run.preset in ("paper", "published"):
        rows.append(("total infeasibility", f"{run.infeasibility:.4g}{meaning}"))
    for name, value in r.metrics.items():
        rows.append((name.replace("_", " "), f"{value:.5g}"))
    origin = "rounded at" if r.proposed else "from"
    count = f"{r.iterations}{r.resumption} (best point {origin} {r.best_iteration})"
    rows.append(("iterations", count))
    rows.append(("epochs", f"{r.epochs:.5g}"))
    rows.append(("seconds", f"{sum((profile or found.profile).values()):.3g}"))
    rows.append(("oracle calls", f"{r.lmo_calls} ({r.matvecs} matrix-vector products)"))
    return rows


def print_run(run: Outcome, console: Console, profile: Mapping[str, float] | None = None) -> None:
    """The final table."""
    r = run.result
    table = Table(title=f"{run.application} · {r.method} · preset {run.preset}", show_header=False)
    for row in summary(run, profile):
        table.add_row(*row)
    settings = [f"seed {r.seed}"]
    settings += [f"β0 {run.beta0}"] if run.beta0 is not None else []
    settings += [f"batch {run.batch}"] if run.batch is not None else []
    settings += [f"on {r.device}"] if r.device != "cpu" else []
    table.add_row("settings", ", ".join(settings))
    console.print(table)
    compiling = r.profile.get("compiling", 0.0)
    if run.status is Status.MAX_SECONDS and compiling > max(3.0, 0.2 * sum(r.profile.values())):
        console.print(
            f"{compiling:.3g} s of the time went into compiling kernels, which are kept for the "
            "next run: run it again."
        )
        return
    first = float(r.trace["infeasibility"][0])
    far = worst(run.found.families) > 1e-2
    if far and run.status in Status.limits() and run.infeasibility > 0.1 * first:
        number = isinstance(run.beta0, (int, float))
        lower = f"lower --beta0 (now {run.beta0:g}), " if number else ""
        other = ", or use preset auto." if run.preset != "auto" else "."
        console.print(f"The constraints are far from met: {lower}run longer{other}")


PROFILE = ("part", "seconds", "share", "µs per iteration")


def profile_rows(profile: Mapping[str, float], iterations: int) -> list[list[str]]:
    """The rows of a profile, under the columns `PROFILE`, with their total."""
    total, steps = sum(profile.values()), max(iterations, 1)
    return [
        [part, f"{s:.3f}", f"{100 * s / total:.1f} %", f"{1e6 * s / steps:.1f}"]
        for part, s in {**profile, "total": total}.items()
        if s > 0
    ]


def whole(profile: Mapping[str, float], spent: float) -> dict[str, float]:
    """A profile that adds up to what was spent: what belongs to no part of the run is ``other``."""
    return {**profile, "other": max(0.0, spent - sum(profile.values()))}


def print_profile(run: Outcome, console: Console, profile: Mapping[str, float]) -> None:
    """Print a table of the seconds of the program, by parts."""
    r = run.result
    table = Table(title="Profile")
    for column in PROFILE:
        table.add_column(column, justify="left" if column == "part" else "right")
    for row in profile_rows(profile, r.iterations):
        table.add_row(*row)
    console.print(table)
    rows = sum(r.rows.values()) / max(r.iterations, 1)
    products = r.matvecs / max(r.lmo_calls, 1)
    console.print(
        f"{run.found.seconds:.3f} s of it count as the method's own time; other: the program "
        "itself, reading, looking for a start, what comes after the run.",
        soft_wrap=True,
    )
    console.print(f"Per iteration {rows:.4g} rows and {products:.3g} matrix-vector products.")


UNROUNDED = "Nothing was rounded before the interruption."
SHOWN = 200
"""Number of vertices of a cut that are printed."""


def print_cut(run: Outcome, console: Console, names: Sequence[str] | None = None) -> None:
    """The partition found and what is proved of it."""
    if run.rounded is None:
        return console.print(UNROUNDED)
    cut: Cut = run.rounded.answer
    console = Console(file=console.file, highlight=False, soft_wrap=True, markup=False)
    chosen = np.nonzero(cut.side)[0].tolist()
    members = [str(i + 1) if names is None else names[i] for i in chosen]
    more = f" and {len(members) - SHOWN} more" if len(members) > SHOWN else ""
    counted = ", vertices counted from 1" if names is None else ""
    console.print(f"Cut found: {cut.side.sum()} of {cut.side.size} vertices, value {run.value:.6g}")
    console.print(f"Smaller side{counted}: {', '.join(members[:SHOWN]) or 'none'}{more}")
    if "warm_start" in run.settings:
        console.print(f"Start and first bound: {run.settings['warm_start']}.")
    console.print(promise(run, "cut"))


def print_clusters(run: Outcome, console: Console) -> None:
    """The clustering found and what is proved of it."""
    if run.rounded is None:
        return console.print(UNROUNDED)
    labels = run.rounded.answer.labels
    console = Console(file=console.file, highlight=False, soft_wrap=True)
    sizes = ", ".join(str(size) for size in np.bincount(labels))
    console.print(f"Clusters found: sizes {sizes}; inertia {run.value:.6g}")
    console.print(promise(run, "clustering"))


def promise(run: Outcome, what: str) -> str:
    """Sentence for what the bound proves of a rounded solution."""
    assert run.rounded is not None
    value, bound, failure = run.value, run.value_bound, run.bound_failure
    least = run.sense == "min" and value > 0
    if not np.isfinite(bound) or (least and not bound > 0):
        name = "positive lower bound" if least else "bound"
        return f"No {name} is proved yet: run longer to learn how good this {what} is."
    kind = "Proved" if not failure else f"With probability 1 - {up(failure, 2)}"
    if run.rounded_gap > 0 and value <= 0:  # a percentage of it says nothing
        beyond = "above" if run.sense == "max" else "below"
        limit = bound_text(bound, 3, run.sense)
        return f"{kind}: no {what} has a value {beyond} {limit}."
    return f"{kind}: {closeness(value, bound, what, run.sense)}."


def print_methods(console: Console) -> None:
    """The table of methods."""
    table = Table(title="Methods", show_lines=False)
    for column in ("--method", "name", "follows ∇f, ∇g", "iterations", "total cost"):
        table.add_column(column, no_wrap=column in ("--method", "name"))
    for e in METHODS.values():
        table.add_row(e.slug, e.name, e.estimates, e.iterations, e.cost)
    console.print(table)
    for e in METHODS.values():
        console.print(f"  {e.slug}: {e.reference}", soft_wrap=True, highlight=False)
    console.print("d: size of W; n, m: rows of f and of g; ε: accuracy. Needs:")
    for needs in dict.fromkeys(e.needs for e in METHODS.values()):
        slugs = ", ".join(e.slug for e in METHODS.values() if e.needs == needs)
        console.print(f"  {slugs}: {needs}", soft_wrap=True, highlight=False)
