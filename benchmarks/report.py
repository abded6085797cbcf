"""Tables and pictures from what the workers measured."""

from __future__ import annotations

import base64
import csv
import html
import io
import json
import os
import platform
import sys
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

TARGETS = (1e-2, 1e-3, 1e-4)
TITLES = {
    "sparsest_cut": "Sparsest cut, all triangle inequalities",
    "kmeans": "k-means, W ≥ 0",
    "max_cut": "Maximum cut, diag W = 1",
    "matrix_completion": "Matrix completion, nuclear ball and box",
}


@dataclass
class Cell:
    """One solver on one instance."""

    bench: str
    dataset: str
    solver: str
    lines: list[dict]

    @property
    def name(self) -> str:
        return f"{self.bench} {self.dataset} {self.solver}"

    @property
    def runs(self) -> list[dict]:
        return [x for x in self.lines if "seconds" in x]

    @property
    def best(self) -> float:
        return min((x["value"] for x in self.runs), default=float("inf"))

    def reached(self, target: float) -> float | None:
        """Seconds of the fastest run that is certified to the target."""
        return min((x["seconds"] for x in self.runs if x["value"] <= target), default=None)

    def why(self) -> str:
        """Why a target was not reached."""
        said = [x["status"] for x in self.lines if x["status"] not in ("warm", "ran", "end")]
        if not self.lines:
            return "error: the worker said nothing"
        if said:
            return said[-1]
        return "never: its own test stops earlier"

    def entry(self, target: float) -> str:
        """A cell of the table, never empty."""
        seconds = self.reached(target)
        if seconds is not None:
            return f"{seconds:.2f}" if seconds < 10 else f"{seconds:.0f}"
        return self.why().split(":")[0]

    @property
    def remark(self) -> str:
        """The whole reason where the last target was not reached."""
        return "" if self.reached(TARGETS[-1]) is not None else self.why().partition(": ")[2]

    @property
    def memory(self) -> str:
        peaks = [x["megabytes"] for x in self.lines if x.get("megabytes")]
        if not self.runs:  # it was killed, or broke down: its peak is not known
            return "not measured"
        return f"{max(peaks):.0f} ({peaks[0]:.0f})"

    def summary(self) -> str:
        times = ", ".join(self.entry(t) for t in TARGETS)
        return f"{self.name}: {times}; best {self.best:.1e} {self.remark}"


def table(cells: list[Cell]) -> list[list[str]]:
    """Header and rows of one benchmark; the fastest of an instance in bold."""
    rows = [["instance", "solver", "1e-2", "1e-3", "1e-4", "best certified", "MB", "remark"]]
    for dataset in dict.fromkeys(c.dataset for c in cells):
        group = [c for c in cells if c.dataset == dataset]
        fastest = [min(c.reached(t) or 1e9 for c in group) for t in TARGETS]
        for c in group:
            entries = []
            for t, quickest in zip(TARGETS, fastest, strict=True):
                entries.append(f"**{c.entry(t)}**" if c.reached(t) == quickest else c.entry(t))
            best = f"{c.best:.1e}" if c.best < float("inf") else "none"
            rows.append([dataset, c.solver, *entries, best, c.memory, c.remark or "–"])
    return rows


def notes(cells: list[Cell], limit: float, gib: float, seconds: float) -> list[str]:
    """What the numbers mean."""
    long = [x for c in cells for x in c.runs if x["seconds"] > 1]
    ratio = sum(x["seconds"] for x in long) / max(sum(x["cpu"] for x in long), 1e-9)
    names = ("condgrad", "numpy", "scipy", "scs", "clarabel", "benchopt")
    found = ", ".join(f"{n} {version(n)}" for n in names)
    return [
        "Wall seconds of one thread until a point is certified to the accuracy, "
        "max(gap, infeasibility) as in docs/certificates.md: set-up included, imports and "
        "compilation (a tiny instance first) excluded. The same code judges every solver, from its "
        "point and its dual variables; the bound of condgrad is its own, proved by the same code. "
        "Fastest in bold.",
        "condgrad `rounded` is what a user gets: cuts or clusterings that it rounds to are offered "
        "as points. `iterate` is the Frank-Wolfe iterate alone. The other solvers are not given a "
        "rounding.",
        f"Every run was limited to {limit:.0f} s and {gib:.0f} GiB; the suite took "
        f"{seconds / 60:.0f} minutes. SCS and the loops were run for 1e-2, 1e-3, … until 1e-4 was "
        "certified (at most 1e-6), and the fastest certified run counts; interior-point solvers "
        "have one run with their own tolerance.",
        "MB: peak resident memory of the process, in brackets what it was before the run "
        "(interpreter, packages, warm-up).",
        f"Wall time was {ratio:.2f} times CPU time over all runs above a second; well above 1 "
        "means that other programs were busy. results.csv has both.",
        f"{platform.machine()}, {os.cpu_count()} cores, "
        f"Python {platform.python_version()}, {found}.",
    ]


def version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "not installed"


def picture(cells: list[Cell]) -> bytes:
    """Certified accuracy against seconds, one panel per instance."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    datasets = list(dict.fromkeys(c.dataset for c in cells))
    solvers = list(dict.fromkeys(c.solver for c in cells))
    rows = -(-len(datasets) // 2)
    fig, axes = plt.subplots(rows, 2, figsize=(11, 3.6 * rows), squeeze=False)
    for ax, dataset in zip(axes.flat, datasets, strict=False):
        for c in (c for c in cells if c.dataset == dataset):
            color = f"C{solvers.index(c.solver) % 10}"
            run = max(c.runs, key=lambda x: len(x["trace"]), default=None)
            longest = run["trace"] if run else []
            points = sorted((x["seconds"], x["value"]) for x in c.runs)
            if longest:  # and the judge's word on where it ended
                points = [*longest, (run["seconds"], run["value"])]
            points = [(t, max(v, 1.3e-6)) for t, v in points if v < 2]  # at the edge if below it
            if points:
                style = "-" if longest else "o--"
                ax.loglog(
                    *zip(*points, strict=True), style, ms=4, lw=1.2, color=color, label=c.solver
                )
        for t in TARGETS:
            ax.axhline(t, color="0.85", lw=0.8, zorder=0)
        ax.set(title=dataset, xlabel="seconds", ylabel="certified accuracy", ylim=(1e-6, 2))
        ax.legend(fontsize=7)
    for ax in list(axes.flat)[len(datasets) :]:
        ax.set_visible(False)
    fig.tight_layout()
    out = io.BytesIO()
    fig.savefig(out, format="png", dpi=90)
    plt.close(fig)
    return out.getvalue()


def markdown(cells: list[Cell], said: list[str]) -> str:
    parts = ["# Time to a certified accuracy", *said]
    for bench, title in TITLES.items():
        rows = table([c for c in cells if c.bench == bench])
        if len(rows) > 1:
            lines = [rows[0], ["---"] * len(rows[0]), *rows[1:]]
            text = "\n".join(
                "| " + " | ".join(x.replace("|", "/") for x in r) + " |" for r in lines
            )
            parts += [f"## {title}", text]
    return "\n\n".join(parts) + "\n"


def page(cells: list[Cell], said: list[str]) -> str:
    """One HTML page that needs nothing else."""
    css = (
        "body{font:15px sans-serif;max-width:75em;margin:2em auto;padding:0 1em}"
        "table{border-collapse:collapse;font-size:13px}td,th{border:1px solid #ccc;padding:3px 7px}"
        "tr.ours{background:#eef5ff}img{max-width:100%}"
    )
    body = ["<h1>Time to a certified accuracy</h1>", *(f"<p>{html.escape(x)}</p>" for x in said)]
    for bench, title in TITLES.items():
        some = [c for c in cells if c.bench == bench]
        if not some:
            continue
        head, *rows = table(some)
        body.append(f"<h2>{html.escape(title)}</h2><table>")
        body.append("<tr>" + "".join(f"<th>{x}</th>" for x in head) + "</tr>")
        for row in rows:
            kind = ' class="ours"' if row[1].startswith("condgrad") else ""
            shown = "".join(f"<td>{bold(html.escape(x))}</td>" for x in row)
            body.append(f"<tr{kind}>{shown}</tr>")
        image = base64.b64encode(picture(some)).decode()
        body.append(f'</table><p><img alt="{title}" src="data:image/png;base64,{image}"></p>')
    start = (
        "<!doctype html><html lang='en'><meta charset='utf-8'><title>condgrad benchmarks</title>"
    )
    return f"{start}<style>{css}</style><body>{''.join(body)}</body></html>"


def bold(text: str) -> str:
    return f"<b>{text[2:-2]}</b>" if text.startswith("**") else text


def write(
    folder: Path,
    cells: list[Cell],
    limit: float,
    gib: float,
    seconds: float,
    pictures: bool = True,
) -> None:
    """All files of the report; the page takes a while to draw."""
    folder.mkdir(parents=True, exist_ok=True)
    said = notes(cells, limit, gib, seconds)
    (folder / "table.md").write_text(markdown(cells, said), encoding="utf-8")
    if pictures:
        (folder / "report.html").write_text(page(cells, said), encoding="utf-8")
    settings = {"limit": limit, "gib": gib, "seconds": seconds}
    text = json.dumps({"settings": settings, "notes": said, "cells": [vars(c) for c in cells]})
    text = text.replace("Infinity", "null").replace("NaN", "null")  # plain JSON has neither
    (folder / "results.json").write_text(text, encoding="utf-8")
    with (folder / "results.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        names = ["tolerance", "status", "seconds", "cpu", "megabytes", "value", "gap"]
        names += ["infeasibility", "objective", "lower_bound"]
        writer.writerow(["benchmark", "instance", "solver", *names])
        for c in cells:
            for x in c.lines:
                if x["status"] not in ("warm", "end"):
                    row = [c.bench, c.dataset, c.solver, *(x.get(n, "") for n in names)]
                    writer.writerow(row)


def load(folder: Path) -> tuple[list[Cell], dict]:
    """What `write` wrote."""
    found = json.loads((folder / "results.json").read_text(encoding="utf-8"))
    cells = [Cell(**c) for c in found["cells"]]
    for x in (x for c in cells for x in c.runs):
        x["value"] = float("inf") if x["value"] is None else x["value"]
        x["trace"] = [(t, float("inf") if v is None else v) for t, v in x["trace"]]
    return cells, found["settings"]


if __name__ == "__main__":  # the report anew from results.json
    where = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "results"
    known, settings = load(where)
    write(where, known, **settings)
