"""Maximum cuts with all triangle inequalities on the instances of `maxcut.csv`.

`python benchmarks/maxcut_triangles.py --seconds 60 pm1s_80.0 g05_100.0` prints a table: the proven
bound, the best cut, the gap between them (weights are integers, so it is that of the bound rounded
down), CPU seconds to the bound that was asked for, or to a gap of 0, and in all, passes over the
rows, and what is listed: the plain relaxation, the specialist's bound with triangle inequalities,
the optimum or the best cut known. Without names all instances are run, the small ones first.
"""

from __future__ import annotations

import argparse
import csv
import os
import time
from pathlib import Path
from typing import Any

import condgrad as cg
from condgrad.applications import max_cut
from condgrad.io import read_graph

TARGETS = {
    "be200.8.3": 44200,
    "be250.1": 24110,
    "ising2.5-300_5555": 8581500,
    "toruspm3-8-50": 466,
}
"""Bounds to reach where the table lists none; elsewhere the listed one and a thousandth of it."""
COLUMNS = ("instance", "n", "bound", "cut", "gap", "to target", "all", "passes")
LISTED = ("SDP", "triangles", "optimum")


class Watch:
    """Notes the CPU seconds at which a bound was reached."""

    def __init__(self, target: float, most: float) -> None:
        self.target, self.most = target, most
        self.began, self.reached = time.process_time(), float("nan")

    def __call__(self, info: Any) -> Any:
        spent = time.process_time() - self.began
        if not self.reached > 0 and -info.trace.last["lower_bound"] <= self.target:
            self.reached = spent
        return cg.Status.MAX_SECONDS if spent > self.most else None


def table(folder: Path) -> dict[str, dict[str, str]]:
    """The instances and what is known of them, by name."""
    with open(folder / "maxcut.csv", encoding="utf-8") as file:
        return {row["instance"]: row for row in csv.DictReader(file)}


def target_of(row: dict[str, str]) -> float:
    """The bound to reach, or infinity."""
    name, listed = row["instance"], row["triangle_bound_biqbin"]
    return TARGETS.get(name, 1.001 * float(listed) if listed else float("inf"))


def run(folder: Path, row: dict[str, str], seconds: float, jobs: int, device: str) -> list[str]:
    """A line of the table."""
    A = read_graph(str(folder / f"{row['instance']}.mc"), signed=True)

    watch = Watch(target_of(row), seconds)
    application = max_cut(A, triangles=True, warm=1e-2)
    how: dict[str, Any] = {"gap": 1e-4, "n_jobs": jobs, "callbacks": [watch], "device": device}
    found = application.run(**how)
    spent = time.process_time() - watch.began
    assert found.rounded is not None
    cut, bound = -found.rounded.value, -found.result.lower_bound
    there = bound <= watch.target or found.rounded_gap == 0  # the last bound is not watched
    reached = spent if there and not watch.reached > 0 else watch.reached
    if row["optimum_or_best_cut"]:
        assert bound >= float(row["optimum_or_best_cut"]), "below the optimum"
    return [
        row["instance"],
        row["n"],
        f"{bound:.2f}",
        f"{cut:.0f}",
        f"{100 * found.rounded_gap:.2f} %",
        f"{reached:.0f}",
        f"{spent:.0f}",
        f"{found.result.epochs:.0f}",
        row["sdp_bound"] or "–",
        row["triangle_bound_biqbin"] or "–",
        row["optimum_or_best_cut"] or "–",
    ]


def main() -> None:
    """Print the table, a line as soon as it is there."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("instances", nargs="*")
    parser.add_argument("--seconds", type=float, default=60.0, help="CPU seconds for each")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--data", default=os.environ.get("CONDGRAD_DATA", "data"))
    asked = parser.parse_args()
    folder = Path(asked.data) / "maxcut"
    known = table(folder)
    names = asked.instances or sorted(known, key=lambda name: int(known[name]["n"]))
    print("| " + " | ".join((*COLUMNS, *LISTED)) + " |")
    print("|" + "---|" * len((*COLUMNS, *LISTED)))
    for name in names:
        line = run(folder, known[name], asked.seconds, asked.jobs, asked.device)
        print("| " + " | ".join(line) + " |", flush=True)


if __name__ == "__main__":
    main()
