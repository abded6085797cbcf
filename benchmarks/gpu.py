"""Runs on a GPU, from data in memory to answers.

    python benchmarks/gpu.py runs             cuts and clusterings
    python benchmarks/gpu.py cut graph.edges  the sparsest cut of a graph
    python benchmarks/gpu.py networks         those of two graphs with degrees by a power law

`benchmarks/kernels/gpu.py` measures the passes alone.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import cupy as cp

import condgrad as cg
from condgrad import applications
from condgrad.datasets import load

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
from on_gpu import blobs, planted, social  # after the path


def shown(name: str, call) -> None:
    """Run something on the GPU and print what came of it."""
    began = time.perf_counter()
    found = call()
    spent = time.perf_counter() - began
    result = found.result
    gap = found.rounded_gap if hasattr(found, "rounded_gap") else found.gap
    parts = ", ".join(f"{k} {v:.2f}" for k, v in result.profile.items() if v >= 0.01)
    memory = cp.get_default_memory_pool().total_bytes() / 2**30
    print(
        f"{name:<16} {spent:7.2f} s  gap {gap:.1e}  relaxation {result.gap:.1e} "
        f"{result.iterations:>5} iterations, {result.epochs:.0f} passes, {found.status.name}, "
        f"{memory:.1f} GiB; {parts}",
        flush=True,
    )
    cp.get_default_memory_pool().free_all_blocks()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("what", choices=["runs", "cut", "networks"])
    parser.add_argument("files", nargs="*", help="files of edges")
    parser.add_argument("--sides", type=int, nargs="*", default=[500, 1000, 2000, 3000])
    parser.add_argument("--points", type=int, nargs="*", default=[1000, 2000])
    parser.add_argument("--whole", action="store_true", help="not block by block")
    parser.add_argument("--seconds", type=float, default=60.0, help="limit of a run")
    parser.add_argument("--gap", type=float, default=1e-3, help="proven gap to end at")
    parser.add_argument("--mnist", action="store_true", help="1000 points of MNIST, too")
    given = parser.parse_args()
    name = cp.cuda.runtime.getDeviceProperties(0)["name"].decode()
    print(f"{name}, CUDA driver {cp.cuda.runtime.driverGetVersion()}, CuPy {cp.__version__}")
    how = {"gap": given.gap, "max_seconds": given.seconds, "device": "cuda"}
    began = time.perf_counter()
    for n in (900, 2100):  # each with kernels of its own
        cg.sparsest_cut(planted(n, 1), **how)
    half = cg.spdhg(table_dtype="bfloat16")
    cg.solve(applications.sparsest_cut(planted(90)).problem, half, max_iter=9, device="cuda")
    for n in (900, 2100):
        applications.kmeans(blobs(n), 10).run(**how)
    cp.get_default_memory_pool().free_all_blocks()
    print(f"compiling and warming up {time.perf_counter() - began:.1f} s")
    if given.what == "networks":
        for which in ((1500, 16700, 2, 12, 1.4, 1), (3100, 119000, 5, 6, 2.5, 2)):
            A = social(*which)
            shown(f"social {which[0]}", lambda A=A: cg.sparsest_cut(A, **how))
        return
    if given.what == "cut":
        whole = {"presolve": not given.whole}
        for file in given.files:
            graph = cg.io.read_graph(file)
            shown(Path(file).stem, lambda graph=graph: cg.sparsest_cut(graph, **how, **whole))
        return
    for n in given.sides:
        A = planted(n, n)
        shown(f"planted {n}", lambda A=A: cg.sparsest_cut(A, **how))
    if given.mnist:
        C = load("kmeans/mnist-1000").distances
        shown("mnist 1000", lambda: applications.kmeans(C, 10).run(**how))
    for n in given.points:
        C = blobs(n, seed=n)
        shown(f"blobs {n}", lambda C=C: applications.kmeans(C, 10).run(**how))


if __name__ == "__main__":
    main()
