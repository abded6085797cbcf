"""Run the whole suite, a process per solver and instance, and write the report.

    python benchmarks/run.py [--quick] [--limit SECONDS] [--only TEXT] [--out FOLDER]
    python benchmarks/run.py --front

`--front` prints the table of the README: the default beside the strongest rival of each problem.

FOLDER (benchmarks/results) gets results.json, results.csv, table.md and report.html. The classes
are those that `benchopt run benchmarks/NAME` uses; a process of its own gives each run its limits
of time and memory and its peak memory, which benchopt does not offer. One core is used.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import report

HERE = Path(__file__).parent
THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
DATA = bool(os.environ.get("CONDGRAD_DATA"))
PLAN = {
    "sparsest_cut": [
        *(["animals[mammalia-primate-association-13]"] if DATA else []),
        "generated[karate]",
        *(["animals[insecta-ant-colony1-day37]"] if DATA else []),
        "generated[rand80]",
        *(["animals[insecta-ant-colony4-day10]"] if DATA else []),
        "generated[rand150]",
        "generated[geo150]",
        "generated[rand300]",
    ],
    "kmeans": ["digits[100]", "mnist[250]" if DATA else "digits[300]"],
    "max_cut": ["generated[rand100]", "generated[rand300]", "generated[rand800]"],
    "matrix_completion": [
        "generated[300x200]",
        *(["movielens-100k[radius 4500]"] if DATA else []),
    ],
}
"""Instances from small to large."""
QUICK = {
    "sparsest_cut": ["generated[karate]"],
    "kmeans": ["digits[100]"],
    "max_cut": ["generated[rand100]"],
    "matrix_completion": ["generated[300x200]"],
}
FRONT = (
    ("sparsest_cut", "generated[rand80]", "default, rounded", "cut loop"),
    ("sparsest_cut", "generated[rand150]", "default, rounded", "cut loop"),
    ("sparsest_cut", "generated[geo150]", "default, rounded", "cut loop"),
    ("kmeans", "digits[300]", "default, rounded", "ADMM"),
    ("matrix_completion", "generated[300x200]", "default, iterate", "ADMM"),
    ("max_cut", "generated[rand800]", "default, iterate", "mixing"),
)
"""Rows of the README's table: problem, instance, condgrad's parameters, the strongest rival."""
FRONT_LIMIT = 120.0
"""Seconds for each solver of a row of the README's table."""
PATIENT = {
    ("generated[rand150]", "SCS"): 200.0,
    ("generated[rand300]", "SCS"): 120.0,
    ("generated[rand300]", "cut loop"): 60.0,
}
"""Sparsest-cut cells that are run whatever came before, with limits of their own in seconds."""
NO_MEMORY = ("memory allocation of", "MemoryError", "bad_alloc", "Cannot allocate memory")


def environment(limit: float, gib: float) -> dict:
    """One thread, and the limits that the solvers read."""
    limits = {"CONDGRAD_BENCH_LIMIT": str(limit), "CONDGRAD_BENCH_GIB": str(gib)}
    return {**os.environ, **dict.fromkeys(THREADS, "1"), **limits}


def measure(bench: str, dataset: str, solver: str, limit: float, gib: float) -> list[dict]:
    """The lines that the worker wrote, and how it ended."""
    with tempfile.TemporaryDirectory() as folder:
        out, errors = Path(folder) / "lines.json", Path(folder) / "errors"
        out.touch()
        command = [sys.executable, str(HERE / "worker.py"), str(HERE / bench), dataset, solver]
        with errors.open("w", encoding="utf-8") as err:
            process = subprocess.Popen(
                [*command, str(out)],
                env=environment(limit, gib),
                stdout=subprocess.DEVNULL,
                stderr=err,
                start_new_session=True,  # CSDP is a child of the child
            )
        killed, size, since = False, 0, time.monotonic()
        try:
            while process.poll() is None and not killed:
                time.sleep(0.1)
                if out.stat().st_size != size:
                    size, since = out.stat().st_size, time.monotonic()
                killed = time.monotonic() - since > 1.3 * limit + 30
        finally:  # also where the keyboard interrupts
            if process.poll() is None:
                os.killpg(process.pid, 9)
                process.wait()
        lines = [json.loads(x) for x in out.read_text(encoding="utf-8").splitlines()]
        text = errors.read_text(encoding="utf-8", errors="replace")
    if killed:
        lines.append({"status": "time-out"})
    elif process.returncode and (process.returncode == -9 or any(x in text for x in NO_MEMORY)):
        lines.append({"status": "out of memory"})
    elif process.returncode:
        last = (text.strip().splitlines() or [""])[-1].replace(sys.prefix, "")[:200]
        lines.append({"status": f"error: exit code {process.returncode}: {last}"})
    return lines


def front(gib: float) -> None:
    """Print seconds to a certified 1e-3 of the default, of its rival, and their ratio."""
    print("| problem | instance | condgrad, s | strongest rival, s | ratio |")
    print("|---|---|---|---|---|")
    for bench, dataset, ours, rival in FRONT:
        cells = [
            report.Cell(bench, dataset, name, measure(bench, dataset, name, FRONT_LIMIT, gib))
            for name in (f"condgrad[{ours}]", rival)
        ]
        mine, other = (cell.reached(1e-3) for cell in cells)
        ratio = "–" if mine is None or other is None else f"{other / mine:.2g}"
        entry = f"{cells[0].entry(1e-3)} | {rival}: {cells[1].entry(1e-3)}"
        print(f"| {report.TITLES[bench]} | {dataset} | {entry} | {ratio} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="one small instance each")
    parser.add_argument("--limit", type=float, help="seconds per run (default 30, quick 3)")
    parser.add_argument("--memory", type=float, default=20, help="GiB per process")
    parser.add_argument("--budget", type=float, default=2700, help="seconds for everything")
    parser.add_argument("--only", default="", help="cells that contain this text; others are kept")
    parser.add_argument("--out", type=Path, default=HERE / "results")
    parser.add_argument("--front", action="store_true", help="the table of the README alone")
    args = parser.parse_args()
    if args.front:
        return front(args.memory)
    limit = args.limit or (3.0 if args.quick else 30.0)
    start, cells = time.monotonic(), []
    if args.only and (args.out / "results.json").exists():  # the other cells stay
        cells = [c for c in report.load(args.out)[0] if args.only not in c.name]
    for bench, datasets in (QUICK if args.quick else PLAN).items():
        command = [sys.executable, str(HERE / "worker.py"), str(HERE / bench)]
        listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        solvers = json.loads(listed.strip().splitlines()[-1])
        failed: dict[str, str] = {}
        for dataset in datasets:
            for solver, missing in solvers.items():
                other = solver.startswith("condgrad") and "default" not in solver
                if args.only not in f"{bench} {dataset} {solver}" or (args.quick and other):
                    continue
                patient = PATIENT.get((dataset, solver)) if bench == "sparsest_cut" else None
                if missing is not None:
                    lines = [{"status": f"not installed: {missing}"}]
                elif solver in failed and patient is None:
                    lines = [{"status": f"not run: failed to reach 1e-2 on {failed[solver]}"}]
                elif time.monotonic() - start > args.budget:
                    lines = [{"status": f"not run: the {args.budget:.0f} s of the suite are spent"}]
                else:
                    seconds = limit if patient is None else max(limit, patient)
                    lines = measure(bench, dataset, solver, seconds, args.memory)
                cell = report.Cell(bench, dataset, solver, lines)
                cells.append(cell)
                ours = solver.startswith("condgrad[default")
                if cell.reached(1e-2) is None and not ours:
                    failed.setdefault(solver, dataset)
                seconds = time.monotonic() - start
                print(f"{seconds:6.0f} s  {cell.summary()}", flush=True)
                report.write(args.out, cells, limit, args.memory, seconds, pictures=False)
    report.write(args.out, cells, limit, args.memory, time.monotonic() - start)
    print(f"{args.out}/table.md and report.html written")


if __name__ == "__main__":
    main()
