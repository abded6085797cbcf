"""Real networks, from the command line: the table of docs/networks.md.

    python benchmarks/networks.py [NAME …] [--gap 1e-3] [--jobs 1] [--whole]

Needs the folder `networks` in the folder named by CONDGRAD_DATA, with edge lists and
`networks.csv`. Every network is one `condgrad solve sparsest-cut FILE`, after one that compiles;
seconds are those of the processor for the whole command, the start of Python included.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import resource
import subprocess
import sys
from pathlib import Path

from proved import down, up

COLUMNS = ("network", "n", "rows", "block", "cut", "sides", "bound", "gap", "status")
MORE = ("passes", "CPU s", "GiB", "LP s")


def solve(path: Path, options: list[str]) -> tuple[dict, float, float]:
    """The JSON of `condgrad solve sparsest-cut`, CPU seconds and the peak memory in GiB."""
    command = [sys.executable, __file__, "--worker", "--", "solve", "sparsest-cut", str(path)]
    one = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    out = subprocess.run(
        [*command, "--quiet", "--json", "-", *options],
        env={**os.environ, **one},
        capture_output=True,
        text=True,
    )
    if out.returncode not in (0, 1):  # 1: there was no memory to go on
        raise SystemExit(out.stderr)
    answer, spent = out.stdout.rstrip().rsplit("\n", 1)
    seconds, memory = map(float, spent.split())
    return json.loads(answer), seconds, memory


def worker(arguments: list[str]) -> None:
    """The command in this process, then what it took of processor and memory."""
    from condgrad.cli import app

    sys.argv = ["condgrad", *arguments]
    try:
        app()
    finally:
        used = resource.getrusage(resource.RUSAGE_SELF)
        print(f"{used.ru_utime + used.ru_stime} {used.ru_maxrss / 2**20}")


def main() -> None:
    """Print a line of Markdown for every network."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("names", nargs="*")
    parser.add_argument("--gap", default="1e-3")
    parser.add_argument("--jobs", default="1")
    parser.add_argument("--whole", action="store_true")
    args = parser.parse_args()
    folder = Path(os.environ["CONDGRAD_DATA"]) / "networks"
    with (folder / "networks.csv").open() as file:
        known = {row["graph"]: row for row in csv.DictReader(file)}
    options = ["--gap", args.gap, "--jobs", args.jobs, *(["--whole"] if args.whole else [])]
    solve(folder / "dolphins.edges", options)  # compiled
    columns = (*COLUMNS, *MORE)
    print("| " + " | ".join(columns) + " |")
    print("|" + "---|" * len(columns), flush=True)
    for name in args.names or known:
        run, seconds, memory = solve(folder / f"{name}.edges", options)
        n, found = int(known[name]["n"]), run["rounded"]
        unit, one = 2 / n, len(run["cut"]["vertices"])  # to n·w(S, S̄)/(|S||S̄|)
        cells = [name, f"{n}", f"{n * (n - 1) * (n - 2) // 2:,}"]
        cells += [str(run["settings"].get("largest block", n)), f"{unit * found['value']:.6g}"]
        cells += [f"{one} + {n - one}", down(unit * found["bound"], 6), up(found["gap"], 2)]
        cells += [run["status"], f"{run['epochs']:.0f}", f"{seconds:.1f}", f"{memory:.2f}"]
        print("| " + " | ".join([*cells, known[name]["dykstra_seconds_2018"]]) + " |", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--worker"]:
        worker(sys.argv[3:])
    else:
        main()
