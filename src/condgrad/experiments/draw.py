"""Figures from stored runs."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from condgrad._files import replaced
from condgrad._types import Array
from condgrad.experiments.figures import Figure, Instance, Job
from condgrad.experiments.runner import instance_of
from condgrad.experiments.summary import (
    Groups,
    Runs,
    Setting,
    column,
    groups,
    label,
    last,
    suboptimality,
)
from condgrad.plot import new_figure, save

LABELS = {
    "suboptimality": "|f − f*| / |f*|",
    "infeasibility": "infeasibility",
    "train_rmse": "train RMSE",
    "test_rmse": "test RMSE",
    "objective": "objective",
    "epochs": "constraint epochs",
    "k": "iterations",
    "seconds": "seconds",
}
POINTS = 70
"""Points of a curve: enough to look at, few enough for a small file."""
OLD_NAMES = {"h-sag-v1": "hsagcgm", "h-sag-v2": "hsagcgm", "h-spider-fw": "hspiderfw"}
OLD_NAMES |= {"h-1sfw": "h1sfw", "shcgm": "shcgm"}
"""Names in the published files; both variants have one name, and an instance says which it is."""


def draw(jobs: Sequence[Job], folder: Path) -> list[Path]:
    """One PNG and one SVG per figure, instance and preset, one more per path; those written."""
    found, paths = groups(jobs, folder), []
    for panel in dict.fromkeys(key[:3] for key in found):
        paths += _one({key: runs for key, runs in found.items() if key[:3] == panel}, folder)
    on_path = {k: runs for k, runs in found.items() if _instance(runs).at is not None}
    for figure, preset in dict.fromkeys((key.figure, key.preset) for key in on_path):
        ends = {k: runs for k, runs in on_path.items() if (k.figure, k.preset) == (figure, preset)}
        paths += _path(ends, folder)
    return paths


def _instance(runs: Runs) -> Instance:
    return instance_of(runs[0][0])[1]


def _names(figure: Figure, instance: Instance) -> list[str]:
    """Columns that are drawn: there is no suboptimality without an optimum."""
    return [
        "objective" if name == "suboptimality" and instance.optimum is None else name
        for name in figure.columns
    ]


def _label(key: Setting, figure: Figure) -> str:
    beta0 = f", β0 = {key.beta0:g}" if figure.beta0s and key.beta0 is not None else ""
    return label(key.method, key.dtype) + beta0


def _one(runs: Groups, folder: Path) -> list[Path]:
    """The runs of one instance against iterations and seconds."""
    panel = next(iter(runs))
    figure, instance = instance_of(runs[panel][0][0])
    names = _names(figure, instance)
    axes_x = ("epochs" if figure.unit == "max_epochs" else "k", "seconds")
    fig = new_figure(4.2 * len(names) + 2, 6.4)
    axes = fig.subplots(2, len(names), squeeze=False, sharey="col")
    looks = _looks(runs, figure)
    for i, x in enumerate(axes_x):
        for j, name in enumerate(names):
            ax = axes[i, j]
            for key, group in runs.items():
                _band(ax, group, x, name, instance, looks[key], _label(key, figure))
                if i == 0 and not figure.beta0s:
                    _published(ax, instance, key.method, name, looks[key][0])
            ax.set_xscale("log")
            if name != "objective":
                ax.set_yscale("log")
            ax.set_xlabel(LABELS[x])
            ax.set_ylabel(LABELS[name])
            ax.grid(True, which="major", alpha=0.25)
            ax.minorticks_off()
    handles, labels = axes[0, 0].get_legend_handles_labels()
    fig.legend(handles, labels, loc="outside right center", fontsize=8)
    dotted = " (dotted: published)" if instance.curves and not figure.beta0s else ""
    title = f"{figure.title}, {panel.instance}, preset {panel.preset}{dotted}"
    return _save(fig, folder / "-".join(panel[:3]), title)


def _looks(runs: Groups, figure: Figure) -> dict[Any, tuple[str, str]]:
    """Colour and style of each line: on a grid of β0 a colour for each β0, a style by method."""
    if not figure.beta0s:
        return {key: (f"C{i}", "-") for i, key in enumerate(runs)}
    values = list(dict.fromkeys(key.beta0 for key in runs))
    methods = list(dict.fromkeys(key.method for key in runs))
    styles = ("-", "--", "-.", ":")
    return {
        key: (f"C{values.index(key.beta0)}", styles[methods.index(key.method) % len(styles)])
        for key in runs
    }


def _path(runs: Groups, folder: Path) -> list[Path]:
    """The last records against the place on the path; stars where the test RMSE is smallest."""
    panel = next(iter(runs))
    figure, instance = instance_of(runs[panel][0][0])
    names = _names(figure, instance)
    fig = new_figure(4.2 * len(names), 3.8)
    axes = fig.subplots(1, len(names), squeeze=False)
    lines: dict[Setting, list[Runs]] = {}
    for key, group in runs.items():
        lines.setdefault(key._replace(instance=""), []).append(group)
    for i, (key, members) in enumerate(lines.items()):
        path = sorted(members, key=lambda group: _instance(group).at or 0.0)
        x = np.array([_instance(group).at for group in path], dtype=float)
        best = _smallest([last(group, "test_rmse") for group in path])
        for ax, name in zip(axes[0], names, strict=True):
            values = [last(group, name) for group in path]
            mean = np.array([v.mean() for v in values])
            ax.plot(x, mean, f"C{i}o-", label=_label(key, figure), lw=1.3, ms=4)
            low, high = [v.min() for v in values], [v.max() for v in values]
            ax.fill_between(x, low, high, color=f"C{i}", alpha=0.2, lw=0)
            ax.plot(x[best], mean[best], f"C{i}*", ms=13, label="smallest test RMSE")
            ax.set_xlabel(figure.along)
            ax.set_ylabel(LABELS[name])
            ax.grid(True, alpha=0.25)
    axes[0, 0].legend(fontsize=8)
    title = f"{figure.title}, preset {panel.preset}"
    return _save(fig, folder / f"{figure.name}-path-{panel.preset}", title)


def _smallest(values: list[Array]) -> list[int]:
    """Position of the smallest mean; empty if there is none."""
    means = np.array([v.mean() for v in values])
    return [int(np.nanargmin(means))] if np.isfinite(means).any() else []


def _save(fig: Any, base: Path, title: str) -> list[Path]:
    paths = [base.with_name(f"{base.name}.{kind}") for kind in ("png", "svg")]
    for path in paths:
        save(fig, path, title)
    shrink(paths[-1])
    return paths


def shrink(svg: Path) -> None:
    """Keep one decimal of the coordinates in an SVG file, which nobody sees."""
    text = svg.read_text(encoding="utf-8")
    short = re.sub(r"\d+\.\d{3,}", lambda number: f"{float(number[0]):.1f}", text)
    with replaced(svg) as file:
        file.write(short.encode())


def _band(
    ax: Any,
    group: Runs,
    x: str,
    name: str,
    instance: Instance,
    look: tuple[str, str],
    label: str,
) -> None:
    """Mean over seeds with a band from the smallest to the largest, on a common grid of x."""
    curves = [(t[x][1:], column(t, name, instance.optimum)[1:]) for _, t in group]
    curves = [(a[b > 0], b[b > 0]) if name != "objective" else (a, b) for a, b in curves]
    curves = [(a, b) for a, b in curves if a.size > 1]
    if not curves:
        return
    low = max(max(a[0], 1e-9) for a, _ in curves)
    high = min(a[-1] for a, _ in curves)
    if not high > low:
        return
    grid = np.geomspace(low, high, POINTS)
    values = np.array([_at(grid, a, b, name) for a, b in curves])
    colour, style = look
    ax.plot(grid, values.mean(axis=0), style, color=colour, label=label, lw=1.3)
    if len(curves) > 1:
        ax.fill_between(grid, values.min(axis=0), values.max(axis=0), color=colour, alpha=0.2, lw=0)


def _at(grid: Array, x: Array, y: Array, name: str) -> Array:
    if name == "objective":
        return np.interp(np.log(grid), np.log(np.maximum(x, 1e-12)), y)
    return np.exp(np.interp(np.log(grid), np.log(np.maximum(x, 1e-12)), np.log(y)))


def _published(ax: Any, instance: Instance, method: str, name: str, colour: str) -> None:
    """Draw the published curve of a method, dotted, if its authors published one."""
    root = os.environ.get("CONDGRAD_DATA")
    if not (root and instance.curves and method in instance.published):
        return
    old = OLD_NAMES[method]
    path = Path(root) / "paper-curves" / instance.curves
    if not path.exists():
        return
    with np.load(path) as data:
        source = "objective" if name == "suboptimality" else name
        if f"{old}_{source}" not in data.files:
            return
        y = np.atleast_2d(data[f"{old}_{source}"]).mean(axis=0)
        x = data["iteration"] if "iteration" in data.files else data[f"{old}_epoch"]
    if name == "suboptimality" and instance.optimum is not None:
        y = suboptimality(y, instance.optimum)
    seen = np.unique(np.geomspace(1, x.size, POINTS).astype(int)) - 1
    seen = seen[y[seen] > 0]
    ax.plot(x[seen], y[seen], color=colour, ls=":", lw=1)
