"""Certified sparsest cuts at gap 1e-3, and the iterate alone: the tables of docs/certificates.md.

    python benchmarks/cuts.py [--graphs karate,rand150] [--gap 1e-3]

Each graph runs in a process of its own, one thread, kernels compiled before on a small graph: as
`condgrad solve sparsest-cut --whole` does, with rounded cuts offered as points, by SAG-CGAL alone,
and without rounded cuts. Prints a line of Markdown for each: CPU seconds from the adjacency matrix
to the answer, and the peak memory of the process. The animal networks need the folder named by
CONDGRAD_DATA.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import time

ANIMALS = (
    "mammalia-primate-association-13",
    "insecta-ant-colony1-day37",
    "insecta-ant-colony4-day10",
)
GRAPHS = (
    "karate",
    *(ANIMALS if os.environ.get("CONDGRAD_DATA") else ()),
    *(f"{kind}{n}" for n in (80, 150, 200, 300) for kind in ("rand", "geo")),
    *(f"rand300-{seed}" for seed in range(1, 6)),
    "rand500",
    "rand1000",
)
FIRST = ("graph", "n", "rows", "cut", "bound", "gap", "passes", "CPU s", "GiB")
COLUMNS = (*FIRST, "SAG-CGAL: gap", "passes", "CPU s")
COLUMNS += ("iterate: gap", "infeasibility", "passes", "CPU s")


def measure(name: str, gap: float) -> str:
    """One graph, in this process."""
    from graphs import named
    from proved import down, up

    from condgrad.applications import sparsest_cut
    from condgrad.datasets import load

    for method in (None, "sag-cgal"):
        sparsest_cut(named("geo110")).run(method, gap=0.1, max_iter=40)  # compiled
    adjacency = load(f"graph/{name}") if name in ANIMALS else named(name)
    limits = {"gap": gap, "max_epochs": 3000, "max_seconds": 600}
    began = time.process_time()
    run = sparsest_cut(adjacency).run(**limits)
    middle = time.process_time()
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    r, rows = run.result, run.result.W.shape[0]
    cells = [name, f"{rows}", f"{rows * (rows - 1) * (rows - 2) // 2:,}"]
    cells += [f"{run.rounded.value:.8g}", down(r.lower_bound, 8), up(run.rounded_gap, 2)]
    cells += [f"{r.epochs:.0f}", f"{middle - began:.2f}", f"{memory:.2f}"]
    again = time.process_time()
    old = sparsest_cut(adjacency).run("sag-cgal", **limits)
    seconds = time.process_time() - again
    cells += [up(old.rounded_gap, 2), f"{old.result.epochs:.0f}", f"{seconds:.2f}"]
    if rows <= 500:
        again = time.process_time()
        q = sparsest_cut(adjacency).run(propose=None, **limits).result
        seconds = time.process_time() - again
        cells += [up(q.gap, 2), f"{q.worst:.1e}", f"{q.epochs:.0f}", f"{seconds:.2f}"]
    else:
        cells += ["not run"] * 4
    return "| " + " | ".join(cells) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--graphs", default=",".join(GRAPHS))
    parser.add_argument("--gap", type=float, default=1e-3)
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        print(measure(args.worker, args.gap))
        return
    print("| " + " | ".join(COLUMNS) + " |")
    print("|" + "---|" * len(COLUMNS), flush=True)
    one = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    for name in args.graphs.split(","):
        command = [sys.executable, __file__, "--worker", name, "--gap", str(args.gap)]
        subprocess.run(command, env={**os.environ, **one}, check=True)


if __name__ == "__main__":
    main()
