"""Convergence plots, from a trace alone."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from condgrad._types import Array
from condgrad.errors import ProblemError
from condgrad.result import Result, Trace

LABELS = {"epochs": "epochs", "seconds": "seconds", "k": "iterations"}


def pyplot() -> Any:
    """matplotlib.pyplot with a backend that needs no screen, or a sentence how to get it."""
    try:
        import matplotlib as mpl

        mpl.use("Agg")
        mpl.rcParams["svg.fonttype"] = "none"  # text stays text: small files
        import matplotlib.pyplot as plt
    except ImportError:
        raise ProblemError("plots need matplotlib: install condgrad[plot]") from None
    return plt


def convergence(
    traces: Mapping[str, Trace | Result] | Trace | Result,
    path: str | Path,
    *,
    title: str = "",
    optimum: float | None = None,
    x: str | tuple[str, ...] = ("epochs", "seconds"),
) -> None:
    """Draw objective, lower bound (dashed) and infeasibility of one or several runs to a file.

    Parameters
    ----------
    traces : Trace, Result or mapping of label to either
        What to draw.
    path : str or Path
        Image file; its ending (.png, .svg, .pdf) decides the format.
    title : str, optional
        Title of the figure.
    optimum : float, optional
        Known optimal value; then relative suboptimality is drawn instead of the objective.
    x : str or tuple of str
        One column of panels for each of ``"epochs"``, ``"seconds"``, ``"k"``.
    """
    plt = pyplot()
    x = (x,) if isinstance(x, str) else x
    given = {"": traces} if isinstance(traces, (Trace, Result)) else dict(traces)
    runs = {label: t.trace if isinstance(t, Result) else t for label, t in given.items()}
    if not runs:
        raise ProblemError("traces is empty: pass at least one Trace or Result")
    for column in x:
        if not all(column in t.columns for t in runs.values()):
            raise ProblemError(f"x names {column!r}: use columns of the trace, such as 'epochs'")
    constrained = any(np.any(t["infeasibility"] > 0) for t in runs.values())
    names = ["objective", "infeasibility"] if constrained else ["objective"]
    fig, axes = plt.subplots(
        len(names), len(x), figsize=(4.4 * len(x), 2.8 * len(names)), squeeze=False, sharey="row"
    )
    for i, name in enumerate(names):
        for j, column in enumerate(x):
            ax = axes[i, j]
            for label, trace in runs.items():
                y = trace[name]
                if name == "objective" and optimum is not None:
                    y = np.abs(y - optimum) / max(abs(optimum), 1e-300)
                colour = _line(ax, trace[column], y, label)
                if name == "objective" and optimum is None and "lower_bound" in trace.columns:
                    _bound(ax, trace[column], trace["lower_bound"], colour)
            ax.set_xlabel(LABELS.get(column, column))
            ax.grid(True, which="both", alpha=0.25)
        relative = name == "objective" and optimum is not None
        axes[i, 0].set_ylabel("relative suboptimality" if relative else name)
    if any(runs):
        axes[0, 0].legend()
    if title:
        fig.suptitle(title)
    fig.tight_layout()
    try:
        fig.savefig(path, dpi=120)
    except ValueError as error:
        raise ProblemError(f"path is {str(path)!r}: {error}") from None
    finally:
        plt.close(fig)


def _line(ax: Any, x: Array, y: Array, label: str) -> Any:
    """One curve, its colour; a logarithmic axis where all values allow it."""
    seen = (x > 0) & np.isfinite(y)
    (line,) = ax.plot(x[seen], y[seen], label=label or None)
    ax.set_xscale("log")
    if seen.any() and (y[seen] > 0).all():
        ax.set_yscale("log")
    return line.get_color()


def _bound(ax: Any, x: Array, y: Array, colour: Any) -> None:
    """The lower bound of a curve, dashed, where the axis can show it."""
    seen = (x > 0) & np.isfinite(y) & ((y > 0) | (ax.get_yscale() != "log"))
    ax.plot(x[seen], y[seen], color=colour, ls="--", lw=1)
