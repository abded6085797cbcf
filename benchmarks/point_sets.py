"""Bounds on k-means of ten small point sets, with and without triangle inequalities.

    CONDGRAD_DATA=… python benchmarks/point_sets.py [--seconds 120] [--only glass …] [--plain]

Six sets are in the folder ``clustering`` of `CONDGRAD_DATA`, four come with scikit-learn. The table
has the best inertia found, the proven bound, the gap and the CPU seconds of one thread, of which
there are `--seconds` for each run.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path

import numpy as np
from sklearn import datasets

import condgrad as cg
from condgrad.applications import kmeans

CLUSTERS = {"ruspini": 4, "iris": 3, "wine": 3, "seeds": 3, "glass": 6, "ecoli": 8}
OTHERS = {"iris": 3, "wine": 3, "breast_cancer": 2, "digits": 10}


def sets() -> dict[str, tuple[np.ndarray, int]]:
    """Points and number of clusters by name; those of scikit-learn with columns of variance 1."""
    found = {}
    folder = Path(os.environ.get("CONDGRAD_DATA", "")) / "clustering"
    for name, k in CLUSTERS.items():
        if (folder / f"{name}.txt").exists():
            found[name] = np.loadtxt(folder / f"{name}.txt", skiprows=1), k
    for name, k in OTHERS.items():
        X = getattr(datasets, f"load_{name}")().data
        spread = X.std(axis=0)
        found[f"sklearn {name}"] = (X - X.mean(axis=0)) / np.where(spread > 0, spread, 1.0), k
    return found


def main() -> None:
    """Print one row a set and relaxation."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--gap", type=float, default=1e-4)
    parser.add_argument("--only", nargs="*")
    parser.add_argument("--plain", action="store_true", help="without triangle inequalities only")
    parser.add_argument("--tight", action="store_true", help="with triangle inequalities only")
    asked = parser.parse_args()
    print("| points | n | k | relaxation | inertia | bound | gap | CPU s | ended |")
    print("|---|---|---|---|---|---|---|---|---|")
    for name, (X, k) in sets().items():
        if asked.only and name not in asked.only:
            continue
        C = ((X[:, None] - X) ** 2).sum(axis=2)
        for tight in (False,) if asked.plain else (True,) if asked.tight else (False, True):
            began = time.process_time()

            def over(_: object, began: float = began) -> cg.Status | None:
                spent = time.process_time() - began > asked.seconds
                return cg.Status.MAX_SECONDS if spent else None

            run = kmeans(C, k, tight=tight).run(gap=asked.gap, n_jobs=1, callbacks=[over])
            seconds, value = time.process_time() - began, run.rounded.value / 2
            print(
                f"| {name} | {len(X)} | {k} | {'tight' if tight else 'plain'} | {value:.6g} | "
                f"{run.rounded_bound / 2:.6g} | {run.rounded_gap:.2e} | {seconds:.1f} | "
                f"{run.status.name} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
