"""All pictures that a run allows."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from condgrad.errors import ProblemError
from condgrad.plot._base import new_figure, save
from condgrad.plot.curves import convergence, profile
from condgrad.plot.partitions import clusters, cut, heat_map

if TYPE_CHECKING:
    from condgrad.record import Record

DRAWN = 5000
"""A graph with more vertices is no picture."""


class Picture(NamedTuple):
    """A picture that can be drawn."""

    name: str
    words: str
    """What is to be seen, for those who do not see it."""
    height: float
    """Inches, at a width of 8.8."""
    draw: Callable[..., Any]
    """Takes `path` and `figure`."""


def pictures(record: Record, x: str | tuple[str, ...] = ("epochs", "seconds")) -> list[Picture]:
    """The pictures of a run: convergence and profile, the partition and W where it has them."""
    facts, arrays, last = record.facts, record.arrays, record.trace.last
    sign = -1 if record.sense == "max" else 1
    words = (
        "Objective, bound and infeasibility; at the last of the recorded iterations "
        f"({len(record.trace)}) the objective is {sign * last['objective']:.6g} and the "
        f"infeasibility {last['infeasibility']:.3g}."
    )
    draw = partial(convergence, record.trace, x=x, sense=record.sense)
    found = [Picture("convergence", words, 5.4, draw)]
    if seconds := {part: s for part, s in facts.get("profile", {}).items() if s and s > 0}:
        longest = max(seconds, key=lambda part: seconds[part])
        words = f"Seconds by part of the run; most went to {longest}, {seconds[longest]:.3g} s."
        found.append(
            Picture("profile", words, 1.2 + 0.32 * len(seconds), partial(profile, seconds))
        )
    side, labels = arrays.get("side"), arrays.get("labels")
    if side is not None and side.size <= DRAWN and record.adjacency is not None:
        draw = partial(cut, record.adjacency, side, names=arrays.get("names"))
        words = f"The graph of {side.size} vertices with {int(side.sum())} of them on one side."
        found.append(Picture("cut", words, 6.4, draw))
    if labels is not None and "points" in arrays:
        words = f"The {labels.size} points in their principal plane, coloured by cluster."
        found.append(Picture("clusters", words, 5.2, partial(clusters, arrays["points"], labels)))
    groups = side if labels is None else labels
    if (
        groups is not None
        and isinstance(record.W, np.ndarray)
        and record.W.shape == 2 * groups.shape
    ):
        by = "side" if labels is None else "cluster"
        words = f"The matrix W, rows and columns sorted by {by}, with lines between the blocks."
        found.append(Picture("heat-map", words, 5.4, partial(heat_map, record.W, groups)))
    return found


def sheet(
    record: Record,
    path: str | Path | None = None,
    *,
    only: str | None = None,
    x: str | tuple[str, ...] = ("epochs", "seconds"),
) -> Any:
    """All pictures of a run, one below the other, or only that of a name.

    Parameters
    ----------
    record : Record
        The run.
    path : str or Path, optional
        Image file.
    only : str, optional
        ``convergence``, ``profile``, ``cut``, ``clusters`` or ``heat-map``.
    x : str or tuple of str
        As for `convergence`.

    Returns
    -------
    Figure
    """
    chosen = pictures(record, x)
    if only is not None:
        names = ", ".join(picture.name for picture in chosen)
        chosen = [picture for picture in chosen if picture.name == only]
        if not chosen:
            raise ProblemError(f"picture is {only!r}: this run has {names}")
        return chosen[0].draw(path=path)
    fig = new_figure(8.8, sum(picture.height for picture in chosen))
    parts = fig.subfigures(len(chosen), 1, height_ratios=[p.height for p in chosen], squeeze=False)
    for picture, part in zip(chosen, parts[:, 0], strict=True):
        picture.draw(figure=part, title=picture.name.replace("-", " "))
    return save(fig, path)
