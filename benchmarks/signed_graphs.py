"""Correlation clustering of generated signed graphs: disagreements, bound, gap and CPU seconds.

    python benchmarks/signed_graphs.py [--n 200] [--seconds 60] [--only planted …]

* `planted-p`: clusters of random sizes, every pair says +1 within and −1 between, and p percent of
  the pairs, chosen at random, the opposite;
* `sparse-d`: the same with 10 percent of mistakes, but only pairs that are edges of a random graph
  of mean degree d say something;
* `real-s`: similarities 1 − distance of points in the plane, with noise of deviation s percent;
* `random`: ±1 with equal chance, which fits no clustering.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

import condgrad as cg

KINDS = ("planted-5", "planted-20", "planted-30", "sparse-20", "sparse-8", "real-30", "random")


def signed(kind: str, n: int, seed: int) -> np.ndarray:
    """A similarity matrix."""
    rng, (name, *level) = np.random.default_rng(seed), kind.split("-")
    groups = rng.choice(6, n, p=[0.3, 0.25, 0.2, 0.1, 0.1, 0.05])
    S = np.where(groups[:, None] == groups, 1.0, -1.0)
    if name == "random":
        S = rng.choice([-1.0, 1.0], (n, n))
    elif name == "real":
        points = rng.normal(size=(6, 2))[groups] + 0.3 * rng.normal(size=(n, 2))
        far = np.linalg.norm(points[:, None] - points, axis=2)
        S = 1 - far + int(level[0]) / 100 * rng.normal(size=(n, n))
    else:
        S = np.where(rng.random((n, n)) < (int(level[0]) if name == "planted" else 10) / 100, -S, S)
        if name == "sparse":
            S = S * (rng.random((n, n)) < int(level[0]) / n)
    S = np.triu(S, 1)
    return S + S.T


def main() -> None:
    """Print one row a graph."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--only", nargs="*", default=KINDS)
    asked = parser.parse_args()
    print("| graph | n | clusters | disagreements | bound | gap | CPU s | ended |")
    print("|---|---|---|---|---|---|---|---|")
    for kind in asked.only:
        S, began = signed(kind, asked.n, asked.seed), time.process_time()
        found = cg.correlation_clustering(S, max_seconds=asked.seconds, n_jobs=1)
        spent = time.process_time() - began
        print(
            f"| {kind} | {asked.n} | {len(found.parts)} | {found.value:.6g} | {found.bound:.6g} | "
            f"{100 * found.gap:.2f} % | {spent:.1f} | {found.status.name} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
