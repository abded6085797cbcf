"""All pictures that a run allows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from condgrad._round import bound_text, counted, percent
from condgrad.errors import ProblemError
from condgrad.plot._base import new_figure, save
from condgrad.plot.curves import Found, answer, convergence, profile, radius
from condgrad.plot.partitions import clusters, cut, heat_map
from condgrad.record import Record
from condgrad.run.answer import Answer
from condgrad.run.result import Trace

DRAWN = 5000
"""A graph with more vertices is no picture."""
ANSWERS = {"side": "cut", "labels": "clustering"}
"""Noun of a rounded solution, by the array that holds it."""
SOON, RETURNED = 4, 10
"""Fewer recorded iterations than this are no history, and of a run that returned its start."""


class Picture(NamedTuple):
    """A picture that can be drawn."""

    name: str
    words: str
    """Description of the picture, for those who do not see it."""
    height: float
    """Inches, at a width of 8.8."""
    draw: Callable[..., Any]
    """Takes `path` and `figure`."""


def pictures(record: Record, x: str | tuple[str, ...] = "seconds") -> list[Picture]:
    """The pictures of a run: its partition, convergence (or answer), W and profile."""
    facts, arrays = record.facts, record.arrays
    found: list[Picture] = []
    side, labels = arrays.get("side"), arrays.get("labels")
    if side is not None and side.size <= DRAWN and record.adjacency is not None:
        draw = partial(cut, record.adjacency, side, names=_names(record, side.size))
        words = f"The graph of {side.size} vertices with {int(side.sum())} of them on one side."
        found.append(Picture("cut", words, 6.4, draw))
    if labels is not None and labels.size <= DRAWN and record.adjacency is not None:
        draw = partial(cut, record.adjacency, labels, names=_names(record, labels.size))
        parts = np.unique(labels).size
        words = f"The graph of {labels.size} vertices in {counted(parts, 'part')}."
        found.append(Picture("partition", words, 6.4, draw))
    if labels is not None and "points" in arrays:
        words = f"The {labels.size} points in their principal plane, coloured by cluster."
        found.append(Picture("clusters", words, 5.2, partial(clusters, arrays["points"], labels)))
    if (choice := facts.get("choice")) and len(choice["path"]) > 1:
        held = f"The error on {choice['held_out']} ratings held out"
        words = f"{held} against the radius, of the convex fit and of its factors fitted again."
        draw = partial(radius, choice["path"], choice["biases"], choice["chosen"])
        found.append(Picture("radius", words, 3.8, draw))
    found.append(_short(record) if is_short(record) else _long(record, x))
    groups = side if labels is None else labels
    if (
        groups is not None
        and isinstance(record.W, np.ndarray)
        and record.W.shape == 2 * groups.shape
    ):
        by = "side" if labels is None else "cluster"
        words = f"The matrix W, rows and columns sorted by {by}, with lines between the blocks."
        found.append(Picture("heat-map", words, 5.4, partial(heat_map, record.W, groups)))
    if seconds := {part: s for part, s in facts.get("profile", {}).items() if s and s > 0}:
        longest = max(seconds, key=lambda part: seconds[part])
        words = f"Seconds by part of the run; most went to {longest}, {seconds[longest]:.3g} s."
        draw = partial(profile, seconds)
        found.append(Picture("profile", words, 1.2 + 0.32 * len(seconds), draw))
    return found


def _names(record: Record, n: int) -> Any:
    """The names of the vertices, or their numbers as the command counts them."""
    return record.arrays.get("names", np.arange(1, n + 1))


def is_short(record: Record) -> bool:
    """Whether a run has no history: it ended soon, or came back to its start."""
    later = np.unique(record.trace["k"][record.trace["k"] > 0]).size
    returned = record.facts.get("best_iteration") == 0
    return bool(record.facts) and later < (RETURNED if returned else SOON)


def rounded(record: Record) -> Found | None:
    """Solution that was rounded from the relaxation that a run solved."""
    known, bound = record.facts.get("rounded"), _relaxed(record).get(_bound_name(record))
    if not isinstance(known, dict) or not isinstance(known.get("value"), (int, float)):
        return None
    name = next((what for a, what in ANSWERS.items() if a in record.arrays), "answer")
    name = str(record.facts.get("called", name))
    return Found(name, float(known["value"]), known.get("bound") != bound)


def _relaxed(record: Record) -> Mapping[str, Any]:
    """The numbers of the relaxation in the unit of the answer; in older files they are on top."""
    own = record.facts.get("relaxation")
    return own if isinstance(own, dict) and "gap" in own else record.facts


def _bound_name(record: Record) -> str:
    return str(record.facts.get("bound_name", "lower_bound"))


def _short(record: Record) -> Picture:
    """Picture of the value and its bound."""
    facts, name, found = record.facts, _bound_name(record).replace("_", " "), rounded(record)
    values = {} if found is None else {found.name: found.value}
    values["objective" if found is None else "relaxation"] = float(_relaxed(record)["objective"])
    limit = float(facts[_bound_name(record)] if found is None else facts["rounded"]["bound"])
    gap = percent(facts["gap"] if found is None else facts["rounded"]["gap"], 2)
    listed = ", ".join(f"{what} {value:.6g}" for what, value in values.items())
    words = f"What was found, {listed}"
    whole = found is not None and found.whole
    if np.isfinite(limit):
        how = " (rounded to a whole number)" if whole else ""
        words += f", and its {name} {bound_text(limit, 6, record.sense)}{how}: the gap is {gap} %"
    draw = partial(answer, values, {f"{name}, whole" if whole else name: limit})
    return Picture("answer", f"{words}.", 2.4, draw)


def _proven(record: Record) -> Trace:
    """The trace, without its bounds where the run proved none, such as one under a guess."""
    sign = -1 if record.sense == "max" else 1
    if sign * float(record.facts.get(_bound_name(record), 0.0)) > -np.inf:
        return record.trace
    kept = [name for name in record.trace if name not in ("lower_bound", "gap")]
    return Trace.of({name: record.trace[name] for name in kept})


def _long(record: Record, x: str | tuple[str, ...]) -> Picture:
    """Objective, gap and infeasibility in their course."""
    last, found = record.trace.last, rounded(record)
    sign = -1 if record.sense == "max" else 1
    missed = record.trace.missed_name
    words = (
        f"Objective, bound, gap and infeasibility; at the last of {len(record.trace)} recorded "
        f"iterations the objective is {sign * last['objective']:.6g} and the {missed} "
        f"{record.trace.missed[-1]:.3g}."
    )
    end = Trace.of({name: [x] for name, x in (record.facts.get("returned") or {}).items()})
    if len(end):
        words += (
            f" A dot is the point returned, with objective {sign * end.last['objective']:.6g} and "
            f"{missed} {end.missed[0]:.3g}."
        )
    if found is not None:
        words += (
            f" The gap of the {found.name} is that of the one found in the end to the bound of "
            "each moment."
        )
    how: dict[str, Any] = {"x": x, "sense": record.sense, "found": found, "returned": end}
    draw = partial(convergence, _proven(record), **how)
    return Picture("convergence", words, 6.6, draw)


def sheet(
    record: Record | Answer,
    path: str | Path | None = None,
    *,
    only: str | Sequence[str] | None = None,
    x: str | tuple[str, ...] = "seconds",
    title: str = "",
    **facts: Any,
) -> Any:
    """All pictures of a run, one below the other, or only those of some names.

    Parameters
    ----------
    record : Record or Answer
        The run, or what a call has returned.
    path : str or Path, optional
        Image file.
    only : str or sequence of str, optional
        Of ``cut``, ``partition``, ``clusters``, ``radius``, ``answer``, ``convergence``,
        ``heat-map`` and ``profile``. A name alone must be a picture that the run has, or
        ``convergence``; of several those are drawn that it has.
    x : str or tuple of str
        As for `convergence`.
    title : str, optional
        Title of the figure.
    **facts
        What goes to `Record.of` with an answer, such as ``adjacency`` and ``points``.

    Returns
    -------
    Figure
    """
    if not isinstance(record, Record):
        record = Record.of(record, **facts)
    elif facts:
        raise ProblemError(f"record is a Record, which has its facts: leave out {', '.join(facts)}")
    chosen = pictures(record, x)
    if isinstance(only, str):
        return named(record, only, x).draw(path=path, title=title)
    if only is not None:
        chosen = [picture for picture in chosen if picture.name in only]
    fig = new_figure(8.8, sum(picture.height for picture in chosen))
    parts = fig.subfigures(len(chosen), 1, height_ratios=[p.height for p in chosen], squeeze=False)
    for picture, part in zip(chosen, parts[:, 0], strict=True):
        own = picture.name.replace("-", " ")
        picture.draw(figure=part, title="" if title and len(chosen) == 1 else own)
    return save(fig, path, title)


def named(record: Record, name: str, x: str | tuple[str, ...] = "seconds") -> Picture:
    """The picture of that name; a convergence has every run, if it is asked for."""
    there = pictures(record, x)
    if name == "convergence":
        return _long(record, x)
    for picture in there:
        if picture.name == name:
            return picture
    names = ", ".join(dict.fromkeys([*(p.name for p in there), "convergence"]))
    raise ProblemError(f"picture is {name!r}: this run has {names}")
