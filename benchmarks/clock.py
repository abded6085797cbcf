"""How long `condgrad solve … --seconds 5` takes: start-up, compiling, rounding and all.

    python benchmarks/clock.py [--seconds 5] [--only WORD] [--timeout 120]

Instances are generated, or taken from the folder CONDGRAD_DATA and left out where it is not set.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

Case = tuple[str, list[str]]


def planted(path: Path, n: int) -> None:
    """Two halves, joined by few edges."""
    rng, half = np.random.default_rng(n), n // 2
    likely = np.where(np.add.outer(*2 * [np.arange(n) >= half]) == 1, 0.02, 0.15)
    u, v = np.nonzero(np.triu(rng.random((n, n)) < likely, 1))
    write(path, n, np.column_stack([u, v]))


def sparse(path: Path, n: int) -> None:
    """A random graph of mean degree 8."""
    ends = np.random.default_rng(n).integers(n, size=(4 * n, 2))
    ends = np.unique(np.sort(ends[ends[:, 0] != ends[:, 1]], axis=1), axis=0)
    write(path, n, ends)


def write(path: Path, n: int, ends: np.ndarray) -> None:
    """An edge list with its header."""
    lines = [f"{n} {len(ends)}", *(f"{a + 1} {b + 1} 1" for a, b in ends)]
    path.write_text("\n".join(lines) + "\n")


def blobs(path: Path, n: int) -> None:
    """Five clusters in ten dimensions that overlap."""
    rng = np.random.default_rng(n)
    centres = 2.0 * rng.standard_normal((5, 10))
    np.save(path, centres[rng.integers(5, size=n)] + rng.standard_normal((n, 10)))


def cases(folder: Path) -> Iterator[Case]:
    """Names and arguments of ``condgrad solve``."""
    for n in (300, 500, 700):
        planted(graph := folder / f"planted{n}.edges", n)
        yield f"sparsest cut, planted, {n} vertices", ["sparsest-cut", str(graph)]
    for n in (2000, 5000):
        blobs(points := folder / f"blobs{n}.npy", n)
        yield f"k-means, {n} points", ["kmeans", str(points), "-k", "5"]
    for n in (1500, 3000, 6000):
        sparse(graph := folder / f"sparse{n}.edges", n)
        yield f"max-cut, sparse, {n} vertices", ["max-cut", str(graph)]
    if "CONDGRAD_DATA" not in os.environ:
        return
    data = Path(os.environ["CONDGRAD_DATA"])
    for name in ("maxG11.dat-s", "qpG11.dat-s", "theta4.dat-s.gz"):
        yield f"SDP {name.split('.')[0]}", ["sdp", str(data / "sdplib" / name)]
    yield "max-cut G22", ["max-cut", str(data / "gset" / "G22.txt")]
    ratings = str(data / "movielens-100k" / "ua.base")
    yield "MovieLens 100k, box", ["matrix-completion", ratings, "--plain"]
    yield "MovieLens 100k, box and l1", ["matrix-completion", ratings, "--plain", "--l1", "0.01"]
    yield "MovieLens 100k, recommender", ["matrix-completion", ratings]


def timed(arguments: list[str], seconds: float, timeout: float) -> tuple[float, float, str, str]:
    """Wall time, time of the processor, status and gap."""
    line = [sys.executable, "-m", "condgrad", "solve", *arguments, "--seconds", str(seconds)]
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    try:
        done = subprocess.run(
            [*line, "--quiet", "--json", "-"], capture_output=True, text=True, timeout=timeout
        )
    except subprocess.TimeoutExpired:
        return timeout, float("nan"), "still running", ""
    wall, after = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    try:
        found = json.loads(done.stdout)
    except ValueError:
        return wall, spent, f"exit code {done.returncode}: {done.stderr.strip()[-200:]}", ""
    gap = found.get("gap")
    return wall, spent, found["status"], "none" if gap is None else f"{gap:.2g}"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--timeout", type=float, default=120.0)
    parser.add_argument("--only", default="")
    given = parser.parse_args()
    print("| case | wall time, s | processor, s | status | gap |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for name, arguments in cases(Path(folder)):
            if given.only in name:
                wall, spent, status, gap = timed(arguments, given.seconds, given.timeout)
                print(f"| {name} | {wall:.1f} | {spent:.1f} | {status} | {gap} |", flush=True)


if __name__ == "__main__":
    main()
