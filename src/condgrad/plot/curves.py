"""Convergence and profile of a run, its value and bound, and the errors of a path of radii."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from condgrad._types import Array
from condgrad.applications import gap_of
from condgrad.applications.answers import outcome_of
from condgrad.errors import ProblemError
from condgrad.plot._base import COLOURS, new_figure, plain, save
from condgrad.run.answer import Answer
from condgrad.run.result import Result, Trace

LABELS = {"epochs": "epochs", "seconds": "seconds", "k": "iterations"}
ANSWER = COLOURS[3]
"""Colour of what was found."""
CLOSED = 1e-6
"""Gaps below this are as good as closed: the axis ends there."""
TINY = 1e-100
"""Numbers below this, and above its inverse, are not drawn."""
SMALL = 1e-4
"""Least range of an answer's picture, relative to the largest number: digits that can be read."""
SQUEEZED = 0.15
"""Share of an axis that the second half of a run takes at least; else early values are cut off."""
START = 1e-3
"""How far below the second half of a run an axis goes for its start."""


class Line(NamedTuple):
    """A curve of a panel."""

    trace: Trace
    y: Array
    colour: str
    label: str | None = None
    style: str = "-"
    scales: bool = True
    """Whether all of it is to be in sight."""


class Found(NamedTuple):
    """A solution that was rounded from a relaxation."""

    name: str
    """Noun of the solution: a cut, a clustering."""
    value: float
    """In the sense in which the run is drawn."""
    whole: bool = False
    """Whether such solutions have integer values, so that bounds are rounded to integers."""

    def gaps(self, bounds: Array, sense: str) -> Array:
        """The gap to each of the bounds, relative to the larger of value and bound."""
        sign = -1 if sense == "max" else 1
        return np.array([gap_of(sign * self.value, sign * b, self.whole) for b in bounds])


def convergence(
    traces: Mapping[str, Trace | Answer] | Trace | Answer,
    path: str | Path | None = None,
    *,
    title: str = "",
    optimum: float | None = None,
    x: str | tuple[str, ...] = "seconds",
    sense: str = "min",
    found: Found | None = None,
    returned: Trace | None = None,
    figure: Any = None,
) -> Any:
    """Draw objective, lower bound (dashed), gap and relative infeasibility of one or several runs.

    Parameters
    ----------
    traces : Trace, Answer or mapping of label to either
        What to draw: a `Result`, or what a call has returned, such as a `GraphCut`, which is drawn
        beside its relaxation.
    path : str or Path, optional
        Image file; its ending (.png, .svg, .pdf) decides the format.
    title : str, optional
        Title of the figure.
    optimum : float, optional
        Known optimal value; then relative suboptimality is drawn instead of objective and gap.
    x : str or tuple of str
        One column of panels for each of ``"seconds"``, ``"iterations"`` (or ``"k"``) and
        ``"epochs"``.
    sense : {"min", "max"}
        ``"max"`` where the negative of what is wanted was minimised: both are turned round.
    found : Found, optional
        What was rounded from the relaxation that the run solved: its value is a line, and its gap
        to the bound of each moment stands beside that of the relaxation.
    returned : Trace, optional
        One row: the point that the run returned, drawn as a dot. An `Answer` has its own.
    figure : Figure or SubFigure, optional
        Where to draw; default: a new figure.

    Returns
    -------
    Figure

    Notes
    -----
    Axes are logarithmic where their values allow it. The start, at 0, is left out then, and a gap
    or an infeasibility of exactly 0 is a triangle at the lower edge. The point returned is a dot,
    which can lie beside the curve: a rounded solution is no iterate. Early values that would
    squeeze the second half of a run into a strip are cut off.
    """
    if sense not in ("min", "max"):
        raise ProblemError(f"sense is {sense!r}: use 'min' or 'max'")
    if isinstance(traces, Answer) and not isinstance(traces, Result):
        run = outcome_of(traces)
        sense, traces, returned = run.sense, run.trace, run.returned
        if found is None and run.rounded is not None:
            found = Found(run.called, run.value, run.whole)
    given = {"": traces} if isinstance(traces, (Trace, Result)) else dict(traces)
    runs = {
        label: outcome_of(t).trace if isinstance(t, Answer) else t for label, t in given.items()
    }
    if not runs:
        raise ProblemError("traces is empty: pass at least one Trace or Result")
    columns = _columns(x, runs)
    ends = {label: outcome_of(t).returned for label, t in given.items() if isinstance(t, Answer)}
    if returned is not None and list(given) == [""]:
        ends[""] = returned
    panels = _panels(runs, ends, optimum, sense, found)
    missed = {t.missed_name for t in runs.values()}
    width = 6.4 if len(columns) == 1 else 4.4 * len(columns)
    fig = figure or new_figure(width, 0.5 + 2.1 * len(panels))
    axes = fig.subplots(len(panels), len(columns), squeeze=False, sharex="col", sharey="row")
    for column, own in zip(columns, axes.T, strict=True):
        scale_across(own[-1], np.concatenate([_across(t, column) for t in runs.values()]))
        own[-1].set_xlabel(LABELS.get(column, column))
        for ax, (name, lines) in zip(own, panels.items(), strict=True):
            level = found if name == "objective" else None
            _draw(ax, lines, column, level, positive=name in ("gap", "infeasibility"))
            ax.grid(True, which="major", alpha=0.25)
    for ax, (name, lines) in zip(axes[:, 0], panels.items(), strict=True):
        own_name = missed.pop() if name == "infeasibility" and len(missed) == 1 else name
        ax.set_ylabel(own_name.replace(" of ", "\nof "))
        _scale(ax, name, lines, found)
        if ax.get_legend_handles_labels()[1]:
            ax.legend(fontsize="small")
    return save(fig, path, title)


def _columns(x: str | tuple[str, ...], runs: Mapping[str, Trace]) -> list[str]:
    """The columns of the trace that `x` names."""
    chosen = ["k" if c == "iterations" else c for c in ((x,) if isinstance(x, str) else x)]
    for column in chosen:
        if not all(column in t.columns for t in runs.values()):
            raise ProblemError(f"x names {column!r}: use columns of the trace, such as 'seconds'")
    if not chosen:
        raise ProblemError("x is empty: name at least one column of the trace, such as 'seconds'")
    return chosen


def _panels(
    runs: Mapping[str, Trace],
    ends: Mapping[str, Trace],
    optimum: float | None,
    sense: str,
    found: Found | None,
) -> dict[str, list[Line]]:
    """The lines of each panel by what it shows; a panel without anything positive is left out."""
    sign, bound_name = (-1, "upper bound") if sense == "max" else (1, "lower bound")
    alone = list(runs) == [""]

    def value(trace: Trace) -> Array:
        y = sign * trace["objective"]
        return y if optimum is None else np.abs(y - optimum) / max(abs(optimum), 1e-300)

    values: list[Line] = []
    gaps: list[Line] = []
    missed: list[Line] = []
    for i, (label, trace) in enumerate(runs.items()):
        colour, style = COLOURS[i % len(COLOURS)], "-" if i < len(COLOURS) else "-."
        missed.append(Line(trace, trace.missed, colour, None, style))
        curve = Line(trace, value(trace), colour, "objective" if alone else plain(label), style)
        values.append(curve)
        if len(end := ends.get(label, Trace())):
            dot = Line(end, value(end), colour, "returned" if alone else None, "o", False)
            values.append(dot)
            missed.append(dot._replace(y=end.missed, label=None))
        if optimum is not None or "lower_bound" not in trace.columns:
            continue
        bound = sign * trace["lower_bound"]
        values.append(Line(trace, bound, colour, bound_name if alone else None, "--", False))
        if "gap" in trace.columns:
            gaps.append(Line(trace, trace["gap"], colour, "relaxation" if found else None, style))
            if len(end):
                gaps.append(dot._replace(y=end["gap"], label=None))
        if found is not None and alone:
            gaps.append(Line(trace, found.gaps(bound, sense), ANSWER, plain(found.name), "-."))
    panels = {"gap": gaps, "infeasibility": missed}
    shown = {name: lines for name, lines in panels.items() if any(_any(line.y) for line in lines)}
    return {"objective" if optimum is None else "relative suboptimality": values, **shown}


def _any(y: Array) -> bool:
    """Whether something can be drawn on a logarithmic axis."""
    return bool(np.any((y > 0) & np.isfinite(y)))


def _across(trace: Trace, column: str) -> Array:
    """Abscissas of the points of a trace, the start at 0."""
    x = np.where(trace["k"] > 0, trace[column], 0.0)
    return x[np.isfinite(x)]


def _points(line: Line) -> Array:
    """Which points can be drawn."""
    size = np.abs(line.y)
    return (size < 1 / TINY) & ((size > TINY) | (size == 0))


def _draw(
    ax: Any, lines: Sequence[Line], column: str, found: Found | None, *, positive: bool
) -> None:
    """The lines of a panel; if it is for positive numbers, zeros are marks at its edge."""
    at_edge = {"transform": ax.get_xaxis_transform(), "clip_on": False, "in_layout": False}
    for line in lines:
        x = np.where(line.trace["k"] > 0, line.trace[column], 0.0)
        seen = _points(line) & np.isfinite(x)
        if ax.get_xscale() == "log":
            seen &= x > 0
        zero = seen & (line.y == 0) & positive
        seen &= ~zero
        if seen.any():
            style = line.style if seen.sum() > 1 else "o"
            width = 1.5 if line.scales else 1.0
            ax.plot(x[seen], line.y[seen], style, color=line.colour, lw=width, label=line.label)
        if zero.any():
            marker = "o" if line.style == "o" else "v"
            ax.plot(x[zero], 0 * x[zero], marker, color=line.colour, ms=5, **at_edge)
    if found is not None and np.isfinite(found.value):
        ax.axhline(found.value, color=ANSWER, ls="-.", lw=1, label=plain(f"{found.name} found"))


def _scale(ax: Any, name: str, lines: Sequence[Line], found: Found | None) -> None:
    """The vertical axis of a panel, from what is drawn on it."""
    logged = ax.get_xscale() == "log"
    drawn = [
        (line, line.y[_points(line) & ((line.trace["k"] > 0) | (not logged))]) for line in lines
    ]
    if name in ("gap", "infeasibility"):
        scale_positive(ax, [y for _, y in drawn], CLOSED if name == "gap" else 0.0)
        return
    curves = [y for line, y in drawn if line.scales]
    ends = [y[-1:] for line, y in drawn if not line.scales]  # early bounds may be far off
    if found is not None and np.isfinite(found.value) and name == "objective":
        ends.append(np.array([found.value]))
    scale_values(ax, curves, np.concatenate([[], *ends]))


def scale_across(ax: Any, x: Array) -> None:
    """A logarithmic axis where what comes after the start spans a factor of ten."""
    later = x[x > 0]
    if later.size and later.max() >= 10 * later.min():
        ax.set_xscale("log")
    else:
        ax.xaxis.get_major_locator().set_params(nbins=6)


def scale_values(ax: Any, curves: Sequence[Array], ends: Array) -> None:
    """Limits around curves and what they should end at; logarithmic over a factor of ten.

    Parameters
    ----------
    ax : Axes
        Where they are drawn.
    curves : sequence of array
        Values in the order of their recording.
    ends : array
        Numbers that must be in sight.
    """
    values = np.concatenate([*curves, ends])
    late = np.concatenate([*(y[y.size // 2 :] for y in curves), ends])
    if not values.size:
        return
    shown = values
    if _spans(values) and _spans(late):
        squeezed = np.ptp(np.log10(late)) < SQUEEZED * np.ptp(np.log10(values))
    else:
        squeezed = _size(late) < SQUEEZED * _size(values)
    if squeezed and (size := _size(late)) > 0:
        reach = np.array([late.min() - size, late.max() + size])
        shown = np.clip(reach, values.min(), values.max())
    low, high = float(shown.min()), float(shown.max())
    if low > 0 and high / 10 >= low:
        pad = 0.05 * (np.log10(high) - np.log10(low))
        scale_log(ax, *10.0 ** np.clip([np.log10(low) - pad, np.log10(high) + pad], -307, 307))
    else:
        pad = 0.1 * (high / 2 - low / 2) or 0.05 * abs(high) or 1.0
        ax.set_ylim(low - pad, high + pad)
        ax.ticklabel_format(axis="y", useOffset=False)


def scale_positive(ax: Any, curves: Sequence[Array], least: float = 0.0) -> None:
    """A logarithmic axis for numbers that should fall; those of a feasible start are cut off.

    Parameters
    ----------
    ax : Axes
        Where they are drawn.
    curves : sequence of array
        Numbers of at least 0, in the order of their recording.
    least : float, default 0
        Where the axis ends if some are below.
    """
    values = np.concatenate([y[y > 0] for y in curves])
    if values.size:
        late = np.concatenate([y[y.size // 2 :] for y in curves])
        low = max(values.min(), START * late[late > 0].min(initial=values.max()))
        scale_log(ax, 0.8 * max(low, min(least, values.max())), 1.25 * values.max())


def scale_log(ax: Any, low: float, high: float) -> None:
    """A logarithmic axis from `low` to `high`, or somewhat beyond, so that there are labels."""
    middle = np.sqrt(low) * np.sqrt(high)
    low, high = min(low, middle / 2), max(high, 2 * middle)
    ax.set_yscale("log")
    ax.set_ylim(low, high)


def _spans(values: Array) -> bool:
    """Whether all are positive."""
    return bool(values.size and values.min() > 0)


def _size(values: Array) -> float:
    """Half of the largest less half of the smallest, which cannot overflow."""
    return float(values.max() / 2 - values.min() / 2) * 2 if values.size else 0.0


def profile(
    run: Answer | Mapping[str, float],
    path: str | Path | None = None,
    *,
    title: str = "",
    figure: Any = None,
) -> Any:
    """Draw where the time of a run went, a bar for each part that took any.

    Parameters
    ----------
    run : Answer or mapping of part to seconds
        What to draw: a `Result`, what else a call has returned, or seconds.
    path, title, figure
        As for `convergence`.

    Returns
    -------
    Figure
    """
    seconds = outcome_of(run).found.profile if isinstance(run, Answer) else run
    parts = {name: s for name, s in seconds.items() if np.isfinite(s) and s > 0}
    total = sum(parts.values())
    fig = figure or new_figure(6.4, 1.2 + 0.32 * max(len(parts), 1))
    ax = fig.subplots()
    ax.set_xlabel("seconds")
    if not parts:
        ax.set_yticks([])
        ax.text(0.5, 0.5, "no time was recorded", ha="center", transform=ax.transAxes)
    else:
        bars = ax.barh([plain(name) for name in parts], list(parts.values()), color=COLOURS[0])
        shares = [f"{100 * s / total:.1f} %" for s in parts.values()]
        ax.bar_label(bars, labels=shares, padding=3, fontsize="small")
        ax.margins(x=0.15)
        ax.invert_yaxis()
    ax.spines[["top", "right"]].set_visible(False)
    return save(fig, path, title)


def answer(
    found: Mapping[str, float],
    bound: Mapping[str, float],
    path: str | Path | None = None,
    *,
    title: str = "",
    figure: Any = None,
) -> Any:
    """Draw values on a line each, with a band between the first and its bound.

    The picture of a run without a history: one that ended at its start, or was not needed.

    Parameters
    ----------
    found : mapping of str to float
        Values by what they are of, that of the answer first.
    bound : mapping of str to float
        The bound by its name, or nothing; with an infinite bound no band is drawn.
    path, title, figure
        As for `convergence`.

    Returns
    -------
    Figure
    """
    values = {name: v for name, v in {**found, **bound}.items() if np.isfinite(v)}
    fig = figure or new_figure(6.4, 1.0 + 0.4 * max(len(values), 1))
    ax = fig.subplots()
    ax.spines[["top", "right", "left"]].set_visible(False)
    if not values:
        ax.set_axis_off()
        ax.text(0.5, 0.5, "no value was found", ha="center", transform=ax.transAxes)
        return save(fig, path, title)
    low, high = min(values.values()), max(values.values())
    size = max(high / 2 - low / 2, SMALL * abs(high)) or 0.5
    ax.set_xlim(low - 0.3 * size, high + 0.9 * size)
    first = next(iter(found.values()))
    for limit in bound.values():
        if np.isfinite(limit) and np.isfinite(first) and limit != first:
            ax.axvspan(min(first, limit), max(first, limit), color=COLOURS[4], alpha=0.25, lw=0)
    for i, (name, value) in enumerate(values.items()):
        known = name in bound
        ax.plot([value], [i], "D" if known else "s" if not i else "o", ms=8,
                color=COLOURS[0] if known else COLOURS[3] if not i else COLOURS[2])  # fmt: skip
        ax.annotate(f"{value:.6g}", (value, i), (9, 0), textcoords="offset points", va="center")
    ax.set_yticks(range(len(values)), [plain(name) for name in values])
    ax.set_ylim(len(values) - 0.5, -0.5)
    ax.tick_params(axis="y", length=0)
    ax.ticklabel_format(axis="x", useOffset=False)
    ax.xaxis.get_major_locator().set_params(nbins=5)
    ax.grid(True, axis="x", alpha=0.25)
    return save(fig, path, title)


def radius(
    path_of_radii: Any,
    biases: float = np.nan,
    chosen: float = np.nan,
    path: str | Path | None = None,
    *,
    title: str = "",
    figure: Any = None,
) -> Any:
    """Draw the error on ratings held out against the radius of the nuclear ball.

    Parameters
    ----------
    path_of_radii : array
        A row for each radius, as `condgrad.applications.choosing.Choice.table` has it: the
        radius, the root mean square error (RMSE) of the convex fit, that of its factors fitted
        again, and for how many sweeps.
    biases : float, optional
        The error of mean and biases alone, a line.
    chosen : float, optional
        The radius that was chosen, to be marked.
    path, title, figure
        As for `convergence`.

    Returns
    -------
    Figure
    """
    table = np.asarray(path_of_radii, dtype=np.float64)
    if table.ndim != 2 or table.shape[1] != 4 or not len(table):
        raise ProblemError(
            f"path_of_radii has shape {table.shape}: give a row of 4 for each radius"
        )
    table = table[np.argsort(table[:, 0], kind="stable")]
    fig = figure or new_figure(6.4, 3.4)
    ax = fig.subplots()
    at, convex, fitted = table.T[:3]
    ax.plot(at, convex, "s--", color=COLOURS[0], ms=5, label="convex fit")
    ax.plot(at, fitted, "o-", color=COLOURS[2], ms=5, label="factors fitted again")
    if np.isfinite(biases):
        ax.axhline(biases, color=COLOURS[6], ls=":", label="mean and biases alone")
    if (best := at == chosen).any():
        ax.plot(at[best], fitted[best], "D", color=COLOURS[3], ms=9, label="chosen", zorder=3)
    ax.set_xlabel("radius of the nuclear ball")
    ax.set_ylabel("RMSE, ratings held out")
    ax.grid(True, alpha=0.25)
    ax.legend(fontsize="small")
    return save(fig, path, title)
