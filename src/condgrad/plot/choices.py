"""Pictures of the error on held-out ratings at each radius."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from condgrad.errors import ProblemError
from condgrad.plot._base import COLOURS, new_figure, save


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
