"""One HTML page per run: the answer, its tables, its pictures, how to repeat it.

The page needs no other file and no network: styles and pictures are part of it.
"""

from __future__ import annotations

import base64
import io
import math
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from html import escape
from pathlib import Path
from typing import Any

from condgrad import report
from condgrad._files import replaced
from condgrad._round import bound_text, percent, up
from condgrad.errors import ProblemError
from condgrad.evaluation import Violation, missed, worst
from condgrad.plot import Picture, pictures, write
from condgrad.record import Record
from condgrad.run.answer import Answer

MARKS = 2000
"""A picture with more vertices and edges than this is a PNG: as SVG it would be large."""
ROWS = 12
"""Rows of the trace that are shown."""
COLUMNS = ("k", "epochs", "seconds", "objective", "lower_bound", "gap", "infeasibility")
STYLE = """
:root { color-scheme: light dark; --ink: #1c2024; --paper: #fff; --line: #d0d5da; --soft: #f3f5f7;
  --good: #0a6b3d; --note: #8a4b00; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6e8ea; --paper: #15181b; --line: #3a4046; --soft: #20252a;
    --good: #6fd19b; --note: #f0b060; } }
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper);
  max-width: 62rem; margin: 0 auto; padding: 1rem 1.25rem 3rem; }
h1 { font-size: 1.7rem; margin-bottom: 0.2rem; overflow-wrap: anywhere; }
h2 { font-size: 1.2rem; margin-top: 2.2rem; border-bottom: 1px solid var(--line); }
.answer { font-size: 1.1rem; background: var(--soft); padding: 0.8rem 1rem; border-radius: 6px;
  border-left: 5px solid var(--note); overflow-wrap: anywhere; }
.answer.converged { border-left-color: var(--good); }
.answer p { margin: 0.2rem 0; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
caption { text-align: left; font-weight: 600; padding: 0.4rem 0; }
th, td { padding: 0.2rem 0.9rem 0.2rem 0; border-bottom: 1px solid var(--line); text-align: left;
  vertical-align: top; }
td { overflow-wrap: anywhere; }
.numbers td, .numbers thead th:not(:first-child) { text-align: right; white-space: nowrap; }
figure { margin: 1.2rem 0; }
img { max-width: 100%; height: auto; background: #fff; border-radius: 4px; }
figcaption { font-size: 0.92rem; opacity: 0.85; }
pre { background: var(--soft); padding: 0.7rem 1rem; border-radius: 6px; white-space: pre-wrap;
  overflow-wrap: anywhere; }
"""


def write_report(path: str | Path, run: Answer | Record, *, title: str = "", **facts: Any) -> None:
    """Write the report of a run.

    Parameters
    ----------
    path : str or Path
        The file, whose name ends in .html or .htm.
    run : Answer or Record
        The run: an Outcome, a Result or what else a call has returned, such as a GraphCut; a
        `Record` is what `Record.load` reads from a saved run.
    title : str, optional
        Title of the page; default: application and method.
    **facts
        What goes to `Record.of` with an answer, such as ``adjacency`` and ``points``
        for the pictures.
    """
    path = Path(path)
    if path.suffix.lower() not in (".html", ".htm"):
        raise ProblemError(f"path is {str(path)!r}: end it in .html")
    if isinstance(run, Record) and facts:
        raise ProblemError(f"run is a Record, which has its facts: leave out {', '.join(facts)}")
    record = run if isinstance(run, Record) else Record.of(run, **facts)
    text = page(record, title)
    with replaced(path) as file:
        file.write(text.encode("utf-8", "xmlcharrefreplace"))


def page(record: Record, title: str = "") -> str:
    """The report as text."""
    facts = record.facts
    if not facts:
        raise ProblemError("the run has a trace but no facts: solve again with --save")
    title = escape(title or str(facts["title"]))
    parts = [
        f"<h1>{title}</h1>",
        _answer(facts),
        _section("Result", _pairs(_numbers(facts), "Numbers of the run")),
        _section("Pictures", *(_figure(picture) for picture in pictures(record))),
        _section("Constraints", _families(facts)),
        _section("Time", _profile(facts)),
        _section("Settings", _pairs(_settings(facts), "What was asked for")),
        _section("Last rows of the trace", _trace(record)),
        _section("How to repeat", _repeat(facts)),
        _section("Environment", _pairs(facts["versions"].items(), "Versions")),
    ]
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title} – condgrad</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n"
        + "\n".join(part for part in parts if part)
        + "\n</main>\n</body>\n</html>\n"
    )


def _answer(facts: Any) -> str:
    """The answer in words: what was found, what is proved, why the run ended."""
    lines = [*facts["answer"]] or [_objective(facts)]
    if facts["message"] not in " ".join(lines):
        lines.append(f"The run ended because {facts['message']}.")
    kind = "answer converged" if facts["status"] == "converged" else "answer"
    return f'<div class="{kind}">' + "".join(f"<p>{escape(line)}</p>" for line in lines) + "</div>"


def _objective(facts: Any) -> str:
    """The numbers of a run that has no other answer."""
    value, bound = facts["objective"], facts[facts["bound_name"]]
    words = f"Objective {value:.6g}"
    if math.isfinite(bound):
        words += f", {_known(facts, bound)}, gap {percent(facts['gap'], 3)} %"
    families = facts["infeasibility"]["families"]
    if worst(known := {name: Violation(**family) for name, family in families.items()}):
        words += f", relative infeasibility {missed(known)}"
    return f"{words}."


def _known(facts: Any, bound: float) -> str:
    """The bound and how it is known."""
    text = f"{facts['bound_name'].replace('_', ' ')} {bound_text(bound, 6, facts['sense'])}"
    if facts["bound_kind"] == "given":
        return f"{text} (taken as given)"
    if facts["bound_kind"] == "oracle":
        return f"{text} (if the oracle of the domain is right)"
    chance = f" (wrong with probability {up(facts['bound_failure'], 1)})"
    _, comma, proviso = facts["bound_kind"].partition(", ")
    return f"proven {text}{chance if facts['bound_failure'] else ''}{comma}{proviso}"


def _numbers(facts: Any) -> list[Sequence[str]]:
    """The summary without what is said above it, and without the families of the table below."""
    return [row for row in facts["summary"] if row[0].strip() == row[0] != "status"]


def _settings(facts: Any) -> list[tuple[str, str]]:
    """Settings of a run, by name."""
    named = {
        "application": facts["application"],
        "preset": facts["preset"] or None,
        "input": facts.get("input") and Path(str(facts["input"])).name,
        "method": facts["method_name"],
        "β0": facts["beta0"],
        "batch": facts["batch"],
        "seed": facts["seed"],
        **facts["settings"],
        **facts.get("limits", {}),
    }
    return [
        (str(name).replace("_", " "), _text(value))
        for name, value in named.items()
        if value is not None
    ]


def _families(facts: Any) -> str:
    """Infeasibility by family."""
    families = facts["infeasibility"]["families"]
    if not families:
        return "<p>The problem has no constraints besides its domain.</p>"
    columns = ["l2", "max", "relative", "scaled"]
    rows = [[name, *(f"{v[c]:.4g}" for c in columns)] for name, v in families.items()]
    return _table("Violation of each constraint family", ["family", *columns], rows)


def _profile(facts: Any) -> str:
    """Table of the seconds of a run, by parts."""
    rows = report.profile_rows(facts["profile"], facts["iterations"])
    return _table("Profile", report.PROFILE, rows) if rows else "<p>No time was recorded.</p>"


def _trace(record: Record) -> str:
    """The last rows, in the sense of the application."""
    trace, sign = record.trace, -1 if record.sense == "max" else 1
    columns = [c for c in COLUMNS if c in trace.columns]
    turned = {"objective": sign, "lower_bound": sign}
    found = {**{c: trace[c] for c in columns}, "infeasibility": trace.missed}
    values = [turned.get(c, 1) * found[c][-ROWS:] for c in columns]
    called = {"lower_bound": record.facts["bound_name"], "infeasibility": trace.missed_name}
    names = [called.get(c, c) for c in columns]
    proven: dict[str, Callable[[float, int], str]]
    proven = {"lower_bound": partial(bound_text, sense=record.sense), "gap": up}
    write = [proven.get(c, _nearest) for c in columns]
    rows = [[w(v, 6) for w, v in zip(write, row, strict=True)] for row in zip(*values, strict=True)]
    caption = f"{len(rows)} of {len(trace)} recorded"
    return _table(caption, [name.replace("_", " ") for name in names], rows)


def _nearest(value: float, digits: int) -> str:
    return f"{value:.{digits}g}"


def _repeat(facts: Any) -> str:
    """The command line, or what else repeats the run."""
    if facts["command"]:
        return f"<pre><code>{escape(facts['command'])}</code></pre>"
    words = f"The same problem with method {facts['method_name']} and seed {facts['seed']}."
    return f"<p>{escape(words)}</p>"


def _figure(picture: Picture) -> str:
    """A picture with its caption, as SVG where it has few marks."""
    figure = picture.draw()
    kind = "png" if _marks(figure) > MARKS else "svg"
    file = io.BytesIO()
    settings = {"svg.fonttype": "path", "svg.hashsalt": picture.name}
    dated = {"Date": None} if kind == "svg" else {}
    write(figure, file, settings, format=kind, dpi=130, metadata=dated)
    data = base64.b64encode(file.getvalue()).decode("ascii")
    source = f"data:image/{'svg+xml' if kind == 'svg' else 'png'};base64,{data}"
    width, height = (round(96 * inches) for inches in figure.get_size_inches())
    words = escape(picture.words)
    return (
        f'<figure id="{picture.name}">\n<img src="{source}" alt="{words}" width="{width}" '
        f'height="{height}">\n<figcaption>{words}</figcaption>\n</figure>'
    )


def _marks(figure: Any) -> float:
    """How many marks a picture has; infinitely many where it shows a matrix."""
    axes = figure.axes
    if any(ax.images for ax in axes):
        return math.inf
    found = [c for ax in axes for c in ax.collections]
    return sum(max(len(c.get_paths()), len(c.get_offsets())) for c in found)


def _section(title: str, *parts: str) -> str:
    """A section with its heading."""
    return f"<section>\n<h2>{escape(title)}</h2>\n" + "\n".join(parts) + "\n</section>"


def _pairs(rows: Iterable[Sequence[str]], caption: str) -> str:
    """A table of names and texts."""
    body = "".join(
        f'<tr><th scope="row">{escape(name.strip())}</th><td>{escape(text)}</td></tr>\n'
        for name, text in rows
    )
    return f'<div class="scroll"><table><caption>{escape(caption)}</caption>\n{body}</table></div>'


def _table(caption: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of numbers; the first cell of a row names it."""
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in columns)
    body = "".join(
        f'<tr><th scope="row">{escape(first)}</th>'
        + "".join(f"<td>{escape(cell)}</td>" for cell in rest)
        + "</tr>\n"
        for first, *rest in rows
    )
    return (
        f'<div class="scroll"><table class="numbers"><caption>{escape(caption)}</caption>\n'
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody></table></div>"
    )


def _text(value: Any) -> str:
    """A setting as text."""
    if isinstance(value, float):
        return f"{value:g}"
    return ", ".join(map(_text, value)) if isinstance(value, (list, tuple)) else str(value)
