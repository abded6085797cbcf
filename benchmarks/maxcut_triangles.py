"""Maximum cuts with all triangle inequalities on the instances of `maxcut.csv`.

`python benchmarks/maxcut_triangles.py --seconds 60 pm1s_80.0 g05_100.0` prints a table: the proven
bound, the best cut, the gap between them (where weights are integers that of the bound rounded
down), seconds to the bound that was asked for, or to a gap of 0, and in all, passes over the
rows, and what is listed: the plain relaxation, the specialist's bound with triangle inequalities,
the optimum or the best cut known. Without names all instances are run, the small ones first.

Seconds are those of the processor, or with `--device cuda` those of the clock after a run that
compiles and is not counted; the last column is then what the GPU's memory has held at most. With
`--stop` a run ends where its target is reached. A name with a colon is that of a random graph and
its seed (`cut_instances.py`), `toruspm3-15:1` for one.
"""

from __future__ import annotations

import argparse
import csv
import os
import time
from pathlib import Path
from typing import Any

from cut_instances import generated

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
FIELDS = ("sdp_bound", "triangle_bound_biqbin", "optimum_or_best_cut")


class Watch:
    """Notes the seconds at which a bound was reached."""

    def __init__(self, target: float, most: float, clock: Any, stop: bool) -> None:
        self.target, self.most, self.clock, self.stop = target, most, clock, stop
        self.began, self.reached = clock(), float("nan")

    @property
    def spent(self) -> float:
        """Seconds since the beginning."""
        return float(self.clock() - self.began)

    def __call__(self, info: Any) -> Any:
        if not self.reached > 0 and -info.trace.last["lower_bound"] <= self.target:
            self.reached = self.spent
        over = self.spent > self.most or (self.stop and self.reached > 0)
        return cg.Status.MAX_SECONDS if over else None


def table(folder: Path) -> dict[str, dict[str, str]]:
    """The instances and what is known of them, by name."""
    with open(folder / "maxcut.csv", encoding="utf-8") as file:
        return {row["instance"]: row for row in csv.DictReader(file)}


def target_of(row: dict[str, str]) -> float:
    """The bound to reach, 0 where none is known."""
    name, listed = row["instance"], row["triangle_bound_biqbin"]
    return TARGETS.get(name, 1.001 * float(listed) if listed else 0.0)


def held() -> str:
    """GiB that the GPU's memory has held."""
    import cupy as cp

    return f"{cp.get_default_memory_pool().total_bytes() / 2**30:.1f}"


def run(asked: argparse.Namespace, row: dict[str, str]) -> list[str]:
    """A line of the table."""
    name, on_gpu = row["instance"], asked.device == "cuda"
    if ":" in name:
        A = generated(name)
    else:
        A = read_graph(str(Path(asked.data) / "maxcut" / f"{name}.mc"), signed=True)

    clock = time.perf_counter if on_gpu else time.process_time
    watch = Watch(asked.target or target_of(row), asked.seconds, clock, asked.stop)
    application = max_cut(A, triangles=True, warm=1e-2)
    limits: dict[str, Any] = {"gap": asked.gap, "n_jobs": asked.jobs, "device": asked.device}
    found = application.run(**limits, callbacks=[watch])
    spent = watch.spent
    assert found.rounded is not None
    cut, bound = -found.rounded.value, -found.result.lower_bound
    there = bound <= watch.target or found.rounded_gap == 0  # the last bound is not watched
    reached = spent if there and not watch.reached > 0 else watch.reached
    if row["optimum_or_best_cut"]:
        assert bound >= float(row["optimum_or_best_cut"]), "below the optimum"
    assert bound >= cut, "below a cut"
    if asked.profile:
        print({what: round(long, 1) for what, long in found.result.profile.items()})
    return [
        name,
        str(A.shape[0]),
        f"{bound:.2f}",
        f"{cut:.0f}",
        f"{100 * found.rounded_gap:.2f} %",
        f"{reached:.0f}",
        f"{spent:.0f}",
        f"{found.result.epochs:.0f}",
        row["sdp_bound"] or "–",
        row["triangle_bound_biqbin"] or "–",
        row["optimum_or_best_cut"] or "–",
        *([held()] if on_gpu else []),
    ]


def main() -> None:
    """Print the table, a line as soon as it is there."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("instances", nargs="*")
    parser.add_argument("--seconds", type=float, default=60.0, help="the most for each")
    parser.add_argument("--gap", type=float, default=1e-4, help="of the relaxation")
    parser.add_argument("--target", type=float, help="the bound to reach, in place of those listed")
    parser.add_argument("--stop", action="store_true", help="end where the target is reached")
    parser.add_argument("--profile", action="store_true", help="print where the time went")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--data", default=os.environ.get("CONDGRAD_DATA", "data"))
    asked = parser.parse_args()
    known: dict[str, dict[str, str]] = {}
    if not asked.instances or any(":" not in name for name in asked.instances):
        known = table(Path(asked.data) / "maxcut")
    if asked.device == "cuda":
        for warm in ("pm1s-80:1", "toruspm3-7:1"):  # kernels for both kinds of projection
            A = generated(warm)
            max_cut(A, triangles=True, warm=1e-2).run(gap=1e-4, device="cuda", max_seconds=20)
    names = asked.instances or sorted(known, key=lambda name: int(known[name]["n"]))
    columns = (*COLUMNS, *LISTED, *(["GiB"] if asked.device == "cuda" else []))
    print("| " + " | ".join(columns) + " |")
    print("|" + "---|" * len(columns))
    for name in names:
        line = run(asked, known.get(name, dict.fromkeys(FIELDS, "") | {"instance": name}))
        print("| " + " | ".join(line) + " |", flush=True)


if __name__ == "__main__":
    main()
