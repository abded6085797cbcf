"""Tables of finished runs."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from condgrad._files import replaced
from condgrad._round import counted
from condgrad._types import Array
from condgrad.experiments.figures import FIGURES, Job
from condgrad.experiments.runner import instance_of, stored
from condgrad.methods import METHODS
from condgrad.run.result import Trace

SHOWN = ("objective", "suboptimality", "infeasibility", "train_rmse", "test_rmse")
COSTS = ("k", "epochs", "seconds", "lmo_calls")
CHOICES = ("objective", "infeasibility")
"""Columns that choose the best β0 of a grid, never the test ratings."""

Row = dict[str, Any]


class Setting(NamedTuple):
    """All that decides a run but the seed."""

    figure: str
    instance: str
    preset: str
    method: str
    beta0: float | None
    dtype: str


Runs = list[tuple[Job, Trace]]
Groups = dict[Setting, Runs]


def column(trace: Trace, name: str, optimum: float | None) -> Array:
    """A column of a trace, or its ``suboptimality``."""
    if name != "suboptimality":
        return trace[name] if name in trace.columns else np.full(len(trace), np.nan)
    if optimum is None:
        return np.full(len(trace), np.nan)
    return suboptimality(trace["objective"], optimum)


def suboptimality(objective: Any, optimum: float) -> Any:
    """|objective − optimum|/|optimum|, of a number or an array."""
    return abs(objective - optimum) / abs(optimum)


def last(runs: Runs, name: str) -> Array:
    """A column at the last record of each seed."""
    optimum = instance_of(runs[0][0])[1].optimum
    return np.array([column(trace, name, optimum)[-1] for _, trace in runs])


def groups(jobs: Sequence[Job], folder: Path) -> Groups:
    """Stored runs that differ by the seed alone."""
    out: Groups = {}
    for job in jobs:
        found = stored(job, folder)
        if found is not None:
            beta0 = found[0]["run"]["beta0"]
            key = Setting(job.figure, job.instance, job.preset, job.method, beta0, job.dtype)
            out.setdefault(key, []).append((job, found[1]))
    return out


def label(method: str, dtype: str) -> str:
    """Name of a method, with the precision where it is not the usual one."""
    return METHODS[method].name + ("" if dtype == "float64" else f", {dtype}")


def rows(found: Groups) -> list[Row]:
    """One row per setting: mean and standard deviation over seeds of the last record."""
    table = []
    for key, runs in found.items():
        job = runs[0][0]
        _, instance = instance_of(job)
        row: Row = {**key._asdict(), "seeds": len(runs)}
        if instance.at is not None:
            row["at"] = instance.at
        families = [c for c in runs[0][1].columns if c.endswith((".l2", ".max"))]
        for name in (*SHOWN, *families, *COSTS, "matvecs"):
            ends = last(runs, name)
            if np.isfinite(ends).all():
                row[name], row[f"{name}.std"] = ends.mean(), ends.std(ddof=int(ends.size > 1))
        published = dict(instance.published.get(job.method, {}))
        if instance.optimum is not None and "objective" in published:
            published["suboptimality"] = suboptimality(published["objective"], instance.optimum)
        row.update({f"published.{name}": value for name, value in published.items()})
        table.append(row)
    return table


def write(jobs: Sequence[Job], folder: Path, command: str, faults: Mapping[str, int]) -> None:
    """`summary.csv` and parquet files with every number, `summary.md` with the ones to read.

    `faults` says how many runs failed, and why.
    """
    found = groups(jobs, folder)
    table = rows(found)
    names = list(dict.fromkeys(name for row in table for name in row))
    lines = io.StringIO(newline="")
    writer = csv.DictWriter(lines, names)
    writer.writeheader()
    writer.writerows(table)
    with replaced(folder / "summary.csv") as file:
        file.write(lines.getvalue().encode())
    text = [
        f"# Summary\n\nMade by `{command}`. Last record of each run, mean ± standard deviation."
    ]
    for fault, count in faults.items():
        text += [f"\n{count} of {counted(len(jobs), 'run')} failed: {fault}"]
    if faults and not any(job.embedded for job in jobs):
        text += ["\n`--embedded` runs the same methods on data that come with condgrad."]
    if not write_parquet(found, table, folder):
        text += ["\nParquet files need condgrad[frame]."]
    for name in dict.fromkeys(row["figure"] for row in table):
        part = [row for row in table if row["figure"] == name]
        text += [f"\n## {name}\n", *_ends(part), *_path(part)]
        if len(FIGURES[name].beta0s) > 1:
            text += _best(part)
    with replaced(folder / "summary.md") as file:
        file.write("\n".join([*text, ""]).encode("utf-8", "backslashreplace"))


def write_parquet(found: Groups, table: list[Row], folder: Path) -> bool:
    """`summary.parquet` and `curves.parquet`; False where pandas or pyarrow is not installed."""
    try:
        import pandas as pd  # an extra, imported on request only

        short = pd.DataFrame(table).astype({"beta0": float} if table else {})
        with replaced(folder / "summary.parquet") as file:
            short.to_parquet(file, engine="pyarrow")
    except ImportError:
        return False
    curves = []
    for key, runs in found.items():
        for job, trace in runs:
            settings = {**key._asdict(), "seed": job.seed}
            settings["beta0"] = np.nan if key.beta0 is None else key.beta0
            about = pd.DataFrame(settings, index=range(len(trace)))
            curves.append(pd.concat([about, trace.to_frame()], axis=1))
    whole = pd.concat(curves, ignore_index=True) if curves else pd.DataFrame()
    with replaced(folder / "curves.parquet") as file:
        whole.to_parquet(file, engine="pyarrow")
    return True


def _ends(part: list[Row]) -> list[str]:
    """The table of a figure, published values beside ours; families where there are several."""
    families = list(dict.fromkeys(n for row in part for n in row if n.endswith(".l2")))
    names = (*SHOWN, *(families if len(families) > 1 else ()), *COSTS)
    shown = [n for n in names if any(n in row for row in part)]
    published = [n for n in shown if any(f"published.{n}" in row for row in part)]
    head = ["instance", "preset", "method", "β0", "seeds"]
    for name in shown:
        head += [name, f"published {name}"] if name in published else [name]
    lines = []
    for row in part:
        cells = [*_setting(row), _beta0(row), str(row["seeds"])]
        for name in shown:
            cells.append(_cell(row, name))
            if name in published:
                value = row.get(f"published.{name}")
                cells.append("" if value is None else f"{value:.4g}")
        lines.append(cells)
    return _markdown(head, lines)


def _path(part: list[Row]) -> list[str]:
    """A sentence per path on its smallest test RMSE."""
    paths: dict[tuple[str, ...], list[Row]] = {}
    for row in part:
        if "at" in row and "test_rmse" in row:
            _, preset, name = _setting(row)
            paths.setdefault((preset, name, f"β0 = {_beta0(row)}"), []).append(row)
    text = []
    for key, path in paths.items():
        best = min(path, key=lambda row: row["test_rmse"])
        which = f" ({', '.join(key)})" if len(paths) > 1 else ""
        text.append(
            f"\nSmallest test RMSE{which}: {_cell(best, 'test_rmse')} at {best['at']:g} "
            "(chosen by looking at the test ratings)"
        )
    return text


def _best(part: list[Row]) -> list[str]:
    """The table of the best β0 of a grid, by the same rule for every method."""
    grids: dict[tuple[str, ...], list[Row]] = {}
    for row in part:
        grids.setdefault(_setting(row), []).append(row)
    shown = [n for n in (*CHOICES, "test_rmse") if any(n in row for row in part)]
    lines = []
    for key, grid in grids.items():
        for name in CHOICES:
            finite = [row for row in grid if name in row]
            if finite:
                best = min(finite, key=lambda row: row[name])
                lines.append([*key, name, _beta0(best), *(_cell(best, n) for n in shown)])
    head = ["instance", "preset", "method", "smallest", "β0", *shown]
    return ["\nBest β0 of the grid, the same rule for every method:\n", *_markdown(head, lines)]


def _setting(row: Row) -> tuple[str, ...]:
    return row["instance"], row["preset"], label(row["method"], row["dtype"])


def _beta0(row: Row) -> str:
    return "" if row["beta0"] is None else f"{row['beta0']:g}"


def _cell(row: Row, name: str) -> str:
    if name not in row:
        return ""
    spread = row[f"{name}.std"]
    return f"{row[name]:.4g}" + (f" ± {spread:.2g}" if row["seeds"] > 1 and spread > 0 else "")


def _markdown(head: list[str], lines: list[list[str]]) -> list[str]:
    table = [head, ["---"] * len(head), *lines]
    return ["| " + " | ".join(cells) + " |" for cells in table]
