"""Pictures of a value and the interval between it and its bound."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from condgrad.plot._base import COLOURS, new_figure, plain, save

SMALL = 1e-4
"""Least range of a picture, relative to the largest number: digits that can be read."""


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
