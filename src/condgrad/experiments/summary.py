"""Tables of finished runs."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from condgrad._types import Array
from condgrad.experiments._base import Job
from condgrad.experiments.runner import instance_of, stored
from condgrad.registry import METHODS
from condgrad.result import Trace

SHOWN = ("objective", "suboptimality", "infeasibility", "train_rmse", "test_rmse")


def column(trace: Trace, name: str, optimum: float | None) -> Array:
    """A column of a trace; ``suboptimality`` is |objective − optimum|/|optimum|."""
    if name != "suboptimality":
        return trace[name] if name in trace.columns else np.full(len(trace), np.nan)
    if optimum is None:
        return np.full(len(trace), np.nan)
    return np.abs(trace["objective"] - optimum) / abs(optimum)


def groups(jobs: Sequence[Job], folder: Path) -> dict[tuple[str, ...], list[tuple[Job, Trace]]]:
    """Stored runs that differ by the seed alone, by (figure, instance, preset, method, β0)."""
    out: dict[tuple[str, ...], list[tuple[Job, Trace]]] = {}
    for job in jobs:
        found = stored(job, folder)
        if found is not None:
            beta0 = found[0]["run"]["beta0"]
            key = (job.figure, job.instance, job.preset, job.method, str(beta0))
            out.setdefault(key, []).append((job, found[1]))
    return out


def rows(jobs: Sequence[Job], folder: Path) -> list[dict[str, Any]]:
    """One row per setting: mean and standard deviation over seeds of the last record."""
    table = []
    for key, runs in groups(jobs, folder).items():
        job = runs[0][0]
        _, instance = instance_of(job)
        row: dict[str, Any] = dict(
            zip(("figure", "instance", "preset", "method", "beta0"), key, strict=True)
        )
        row["seeds"] = len(runs)
        families = [c for c in runs[0][1].columns if c.endswith((".l2", ".max"))]
        for name in (*SHOWN, *families, "k", "epochs", "seconds", "lmo_calls", "matvecs"):
            last = np.array([column(t, name, instance.optimum)[-1] for _, t in runs])
            if np.isfinite(last).all():
                row[name], row[f"{name}.std"] = last.mean(), last.std(ddof=int(last.size > 1))
        row.update({f"published.{c}": v for c, v in instance.published.get(job.method, {}).items()})
        table.append(row)
    return table


def write(jobs: Sequence[Job], folder: Path, command: str) -> None:
    """`summary.csv` with every number and `summary.md` with the ones to read."""
    table = rows(jobs, folder)
    names = list(dict.fromkeys(name for row in table for name in row))
    with (folder / "summary.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, names)
        writer.writeheader()
        writer.writerows(table)
    text = [
        f"# Summary\n\nMade by `{command}`. Last record of each run, mean ± standard deviation."
    ]
    for figure in dict.fromkeys(row["figure"] for row in table):
        part = [row for row in table if row["figure"] == figure]
        shown = [
            n for n in (*SHOWN, "k", "epochs", "seconds", "lmo_calls") if any(n in r for r in part)
        ]
        published = [n for n in SHOWN if any(f"published.{n}" in r for r in part)]
        head = ["instance", "preset", "method", "β0", "seeds", *shown]
        head += [f"published {n}" for n in published]
        text += [f"\n## {figure}\n", "| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
        for row in part:
            cells = [row["instance"], row["preset"], METHODS[row["method"]].name, row["beta0"]]
            cells += [str(row["seeds"]), *(_cell(row, n) for n in shown)]
            cells += [
                f"{row[f'published.{n}']:.4g}" if f"published.{n}" in row else "" for n in published
            ]
            text.append("| " + " | ".join(cells) + " |")
    (folder / "summary.md").write_text("\n".join(text) + "\n", encoding="utf-8")


def _cell(row: dict[str, Any], name: str) -> str:
    if name not in row:
        return ""
    spread = row[f"{name}.std"]
    return f"{row[name]:.4g}" + (f" ± {spread:.2g}" if row["seeds"] > 1 and spread > 0 else "")
