"""Convergence and profile."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from condgrad._types import Array
from condgrad.errors import ProblemError
from condgrad.plot._base import new_figure, plain, save
from condgrad.run.result import Result, Trace

LABELS = {"epochs": "epochs", "seconds": "seconds", "k": "iterations"}

TINY = 1e-100
"""Numbers below this, and above its inverse, are not drawn."""

Curve = tuple[Array, Array]


def convergence(
    traces: Mapping[str, Trace | Result] | Trace | Result,
    path: str | Path | None = None,
    *,
    title: str = "",
    optimum: float | None = None,
    x: str | tuple[str, ...] = ("epochs", "seconds"),
    sense: str = "min",
    figure: Any = None,
) -> Any:
    """Draw objective, lower bound (dashed) and infeasibility of one or several runs.

    Parameters
    ----------
    traces : Trace, Result or mapping of label to either
        What to draw.
    path : str or Path, optional
        Image file; its ending (.png, .svg, .pdf) decides the format.
    title : str, optional
        Title of the figure.
    optimum : float, optional
        Known optimal value; then relative suboptimality is drawn instead of the objective.
    x : str or tuple of str
        One column of panels for each of ``"epochs"``, ``"seconds"``, ``"iterations"`` (or
        ``"k"``).
    sense : {"min", "max"}
        ``"max"`` where the negative of what is wanted was minimised: both are turned round.
    figure : Figure or SubFigure, optional
        Where to draw; default: a new figure.

    Returns
    -------
    Figure

    Notes
    -----
    Axes are logarithmic where their values allow it. The start, at 0, is left out then, and an
    infeasibility of exactly 0 is a triangle at the lower edge.
    """
    if sense not in ("min", "max"):
        raise ProblemError(f"sense is {sense!r}: use 'min' or 'max'")
    given = {"": traces} if isinstance(traces, (Trace, Result)) else dict(traces)
    runs = {label: t.trace if isinstance(t, Result) else t for label, t in given.items()}
    if not runs:
        raise ProblemError("traces is empty: pass at least one Trace or Result")
    columns = _columns(x, runs)
    constrained = any(np.any(t["infeasibility"] > 0) for t in runs.values())
    names = ["objective", "infeasibility"] if constrained else ["objective"]
    fig = figure or new_figure(4.4 * len(columns), 2.8 * len(names))
    axes = fig.subplots(len(names), len(columns), squeeze=False, sharey="row")
    for name, row in zip(names, axes, strict=True):
        for column, ax in zip(columns, row, strict=True):
            if name == "infeasibility":
                _infeasibility(ax, runs, column)
            else:
                _objective(ax, runs, column, optimum, sense)
            ax.set_xlabel(LABELS.get(column, column))
            ax.grid(True, which="major", alpha=0.25)
    relative = optimum is not None
    axes[0, 0].set_ylabel("relative suboptimality" if relative else "objective")
    if constrained:
        axes[1, 0].set_ylabel("infeasibility")
    if axes[0, 0].get_legend_handles_labels()[1]:
        axes[0, 0].legend()
    return save(fig, path, title)


def _columns(x: str | tuple[str, ...], runs: Mapping[str, Trace]) -> list[str]:
    """The columns of the trace that `x` names."""
    chosen = ["k" if c == "iterations" else c for c in ((x,) if isinstance(x, str) else x)]
    for column in chosen:
        if not all(column in t.columns for t in runs.values()):
            raise ProblemError(f"x names {column!r}: use columns of the trace, such as 'epochs'")
    if not chosen:
        raise ProblemError("x is empty: name at least one column of the trace, such as 'epochs'")
    return chosen


def _objective(
    ax: Any, runs: Mapping[str, Trace], column: str, optimum: float | None, sense: str
) -> None:
    """Objectives with their bounds, or the distances to the optimum."""
    curves, bounds = {}, {}
    sign, bound_name = (-1, "upper bound") if sense == "max" else (1, "lower bound")
    for label, trace in runs.items():
        y = sign * trace["objective"]
        if optimum is not None:
            y = np.abs(y - optimum) / max(abs(optimum), 1e-300)
        elif "lower_bound" in trace.columns:
            bounds[label] = _points(trace, column, sign * trace["lower_bound"])
        curves[label] = _points(trace, column, y)
    curves = _scale_x(ax, curves)
    ends = [y[-1:] for _, y in bounds.values()]  # early bounds may be far off: they do not scale
    _scale_y(ax, np.concatenate([y for _, y in curves.values()]), np.concatenate([[], *ends]))
    alone = list(runs) == [""]
    for label, (x, y) in curves.items():
        (line,) = ax.plot(x, y, _style(x), label="objective" if alone else plain(label), zorder=3)
        bound_x, bound = bounds.get(label, (x[:0], y[:0]))
        shown = np.isin(bound_x, x) & ((bound > 0) | (ax.get_yscale() != "log"))
        if shown.any():
            name = bound_name if alone else None
            style = _style(bound_x[shown], "--")
            ax.plot(bound_x[shown], bound[shown], style, color=line.get_color(), lw=1, label=name)


def _infeasibility(ax: Any, runs: Mapping[str, Trace], column: str) -> None:
    """Infeasibilities on a logarithmic axis; zeros as triangles at its lower edge."""
    curves = {n: _points(t, column, t["infeasibility"]) for n, t in runs.items()}
    curves = _scale_x(ax, curves)
    if any((y > 0).any() for _, y in curves.values()):
        ax.set_yscale("log")
    for i, (x, y) in enumerate(curves.values()):
        ax.plot(x[y > 0], y[y > 0], _style(x[y > 0]), color=f"C{i % 10}")
        at_edge = {"transform": ax.get_xaxis_transform(), "clip_on": False, "in_layout": False}
        ax.plot(x[y == 0], 0 * x[y == 0], "v", color=f"C{i % 10}", ms=5, **at_edge)


def _points(trace: Trace, column: str, y: Array) -> Curve:
    """The points that can be drawn, the start at 0."""
    x = np.where(trace["k"] > 0, trace[column], 0.0)
    size = np.abs(y)
    seen = np.isfinite(x) & (size < 1 / TINY) & ((size > TINY) | (size == 0))
    return x[seen], y[seen]


def _scale_x(ax: Any, curves: Mapping[str, Curve]) -> dict[str, Curve]:
    """A logarithmic axis without the start, where what comes after it spans a factor of ten."""
    later = np.concatenate([x[x > 0] for x, _ in curves.values()])
    if not later.size or later.max() < 10 * later.min():
        return dict(curves)
    ax.set_xscale("log")
    ax.xaxis.set_minor_formatter("")
    return {label: (x[x > 0], y[x > 0]) for label, (x, y) in curves.items()}


def _scale_y(ax: Any, values: Array, ends: Array) -> None:
    """Limits around the values and the last bounds; logarithmic where they span a factor of ten."""
    if not values.size:
        return
    if values.min() > 0 and values.max() / 10 >= values.min():
        logs = np.log10(np.concatenate([values, ends[ends > 0]]))
        low, high = logs.min(), logs.max()
        pad, few = 0.05 * (high - low), high - low < 2.5
        ax.set_yscale("log")
        ax.set_ylim(*10.0 ** np.clip([low - pad, high + pad], -307, 307))
        ax.yaxis.set_major_formatter("{x:g}")
        ax.yaxis.set_minor_formatter(lambda v, _: f"{v:g}" if few and f"{v:e}"[0] in "25" else "")
    elif ax.get_yscale() != "log":  # which the panel beside it, of the same axis, may have chosen
        seen = np.concatenate([values, ends])
        low, high = seen.min(), seen.max()
        pad = 0.1 * (high / 2 - low / 2) or 0.05 * abs(high) or 1.0
        ax.set_ylim(low - pad, high + pad)
        ax.ticklabel_format(axis="y", useOffset=False)


def _style(x: Array, line: str = "-") -> str:
    """A single point needs a marker to be seen."""
    return line if x.size > 1 else "o"


def profile(
    run: Result | Mapping[str, float],
    path: str | Path | None = None,
    *,
    title: str = "",
    figure: Any = None,
) -> Any:
    """Draw where the time of a run went, a bar for each part that took any.

    Parameters
    ----------
    run : Result or mapping of part to seconds
        What to draw.
    path, title, figure
        As for `convergence`.

    Returns
    -------
    Figure
    """
    seconds = run.profile if isinstance(run, Result) else run
    parts = {name: s for name, s in seconds.items() if np.isfinite(s) and s > 0}
    total = sum(parts.values())
    fig = figure or new_figure(6.4, 1.2 + 0.32 * max(len(parts), 1))
    ax = fig.subplots()
    ax.set_xlabel("seconds")
    if not parts:
        ax.set_yticks([])
        ax.text(0.5, 0.5, "no time was recorded", ha="center", transform=ax.transAxes)
    else:
        bars = ax.barh([plain(name) for name in parts], list(parts.values()), color="C0")
        shares = [f"{100 * s / total:.1f} %" for s in parts.values()]
        ax.bar_label(bars, labels=shares, padding=3, fontsize="small")
        ax.margins(x=0.15)
        ax.invert_yaxis()
    ax.spines[["top", "right"]].set_visible(False)
    return save(fig, path, title)
