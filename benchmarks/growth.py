"""How time and memory grow with the graph: sparsest cut on planted graphs, 50 to 1000 vertices.

    python benchmarks/growth.py [--sizes 50,100,200] [--out docs/growth]

Each size runs in a process of its own, one thread: seconds per pass over the triangle rows, and for
the rest of an iteration, most of it the oracle's; the peak memory of the process beside what was
predicted. Exponents are fitted by least squares on the logarithms from n = 100 on.
Writes OUT.csv and OUT.svg.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import subprocess
import sys
import time
from pathlib import Path

SIZES = (50, 70, 100, 140, 200, 280, 400, 560, 800, 1000)
OTHER = 64 << 20
"""Bytes that a forecast adds for small things."""
COLUMNS = {
    "epoch": "seconds per pass over the rows",
    "rest": "seconds per iteration beside the rows",
    "memory": "peak memory, GiB",
    "predicted": "predicted memory, GiB",
}


def measure(n: int) -> dict[str, float]:
    """One size, in this process."""
    import resource

    from graphs import planted

    from condgrad import sag_cgal, solve, start
    from condgrad.applications import sparsest_cut

    small = sparsest_cut(planted(45)).problem
    solve(small, max_iter=20, gap=1e-9)  # compiled
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    problem, method = sparsest_cut(planted(n)).problem, sag_cgal()
    predicted = method.memory(problem) + OTHER
    term = problem.terms[1]
    iterations = int(min(400, max(12, 4e9 / term.map.size)))
    run = start(problem, method, record=1, certify=False).advance(iterations=iterations)
    r = run.result()
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before
    epoch = passes(term, run.state.W, run.state.tables[1])
    return {
        "n": n,
        "rows": term.map.size,
        "epoch": epoch,
        "rest": (r.profile["method"] - r.epochs * epoch) / r.iterations,
        "products": r.matvecs / r.iterations,
        "memory": memory / 2**30,
        "predicted": predicted / 2**30,
    }


def passes(term, W, table) -> float:
    """Median seconds of a pass over all rows, in the stretches that an iteration draws."""
    import numpy as np

    seconds, size, step = [], term.map.size, table.stretches.stretch
    drawn = [slice(i, min(i + step, size)) for i in range(0, size, step)]
    for _ in range(5):
        began = time.perf_counter()
        term.passes.renew(W, table.G, drawn, table.y, table.followed, 100.0, 0.5)
        seconds.append(time.perf_counter() - began)
    return float(np.median(seconds))


def exponent(rows: list[dict[str, float]], column: str) -> float:
    """Slope of log(column) against log(n) from n = 100 on."""
    import numpy as np

    some = [(r["n"], r[column]) for r in rows if r["n"] >= 100 and r[column] > 0]
    n, y = np.log(np.array(some)).T
    return float(np.polyfit(n, y, 1)[0])


def draw(rows: list[dict[str, float]], path: Path) -> None:
    """Time on the left, memory on the right, with the fitted exponents."""
    import matplotlib

    matplotlib.use("svg")
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), constrained_layout=True)
    n = [r["n"] for r in rows]
    for column, axes in (("epoch", left), ("rest", left), ("memory", right)):
        label = f"{COLUMNS[column].split(',')[0]}: n^{exponent(rows, column):.2f}"
        axes.loglog(n, [max(r[column], 1e-9) for r in rows], "o-", label=label)
    right.loglog(n, [r["predicted"] for r in rows], "k:", label="predicted")
    left.set(xlabel="vertices n", ylabel="seconds", title="time, one thread")
    right.set(xlabel="vertices n", ylabel="GiB", title="memory")
    for axes in (left, right):
        axes.legend()
        axes.grid(alpha=0.3)
    figure.savefig(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)))
    parser.add_argument("--out", type=Path, default=Path("docs/growth"))
    parser.add_argument("--worker", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        print(json.dumps(measure(args.worker)))
        return
    one = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    rows = []
    for n in map(int, args.sizes.split(",")):
        command = [sys.executable, __file__, "--worker", str(n)]
        run = subprocess.run(
            command, env={**os.environ, **one}, capture_output=True, text=True, check=True
        )
        rows.append(json.loads(run.stdout))
        print(" ".join(f"{k} {v:.4g}" for k, v in rows[-1].items()), flush=True)
    args.out.parent.mkdir(parents=True, exist_ok=True)
    with args.out.with_suffix(".csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows({k: f"{v:.6g}" for k, v in r.items()} for r in rows)
    draw(rows, args.out.with_suffix(".svg"))
    for column, name in COLUMNS.items():
        print(f"{name}: n^{exponent(rows, column):.2f}")


if __name__ == "__main__":
    main()
