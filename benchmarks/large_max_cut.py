"""Max-cut of sparse graphs with 10^5 vertices: cut, proven bound, seconds, memory.

    python benchmarks/large_max_cut.py [--gap 1e-3] [--seconds 300] [--vertices 100000] [--whole]
                                       [NAME ...]

One thread, each graph in a process of its own, so that memory is that of the graph. With `--whole`
there is no presolve. A table in Markdown goes to standard output.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import time

import networkx as nx
import numpy as np
import scipy.sparse as sp


def random(n: int, edges: int, signs: bool = False) -> sp.csr_array:
    """Ends of edges drawn at random."""
    rng = np.random.default_rng(7)
    u, v = rng.integers(n, size=(2, edges))
    u, v = u[u != v], v[u != v]
    pairs = np.unique(np.column_stack([np.minimum(u, v), np.maximum(u, v)]), axis=0)
    weight = rng.choice([-1.0, 1.0], len(pairs)) if signs else np.ones(len(pairs))
    A = sp.coo_array((weight, pairs.T), shape=(n, n))
    return sp.csr_array(A + A.T)


def regular(n: int) -> sp.csr_array:
    """Three neighbours for each vertex."""
    graph = nx.random_regular_graph(3, n, seed=1)
    return sp.csr_array(nx.to_scipy_sparse_array(graph, dtype=float))


def grid(n: int, signs: bool) -> sp.csr_array:
    """A torus of odd sides, or a square grid with weights of both signs."""
    side = int(np.sqrt(n)) // 2 * 2 + 1
    graph = nx.grid_2d_graph(side, side, periodic=not signs)
    A = sp.triu(nx.to_scipy_sparse_array(graph, dtype=float), format="csr")
    if signs:
        A.data = np.random.default_rng(7).choice([-1.0, 1.0], A.nnz)
    return sp.csr_array(A + A.T)


def power_law(n: int) -> sp.csr_array:
    """Preferential attachment, four edges a vertex."""
    graph = nx.barabasi_albert_graph(n, 4, seed=1)
    return sp.csr_array(nx.to_scipy_sparse_array(graph, dtype=float))


GRAPHS = {
    "random, mean degree 2": lambda n: random(n, n),
    "random, mean degree 3": lambda n: random(n, 3 * n // 2),
    "random, mean degree 4": lambda n: random(n, 2 * n),
    "random, 3-regular": regular,
    "random, mean degree 10": lambda n: random(n, 5 * n),
    "random, degree 10, weights ±1": lambda n: random(n, 5 * n, signs=True),
    "random, mean degree 60": lambda n: random(n, 30 * n),
    "power law": power_law,
    "torus of odd sides": lambda n: grid(n, signs=False),
    "grid, weights ±1": lambda n: grid(n, signs=True),
    "100 random parts": lambda n: sp.csr_array(sp.block_diag(100 * [random(n // 100, n // 20)])),
}


def measure(name: str, n: int, gap: float, seconds: float, presolve: bool) -> None:
    """Solve one and print its row."""
    import condgrad

    A = GRAPHS[name](n)
    condgrad.max_cut(random(5001, 20_000), gap=0.05, hyperplanes=1, presolve=presolve)  # compile
    began, worked = time.perf_counter(), time.process_time()
    cut = condgrad.max_cut(A, gap=gap, max_seconds=seconds, presolve=presolve)
    spent, work = time.perf_counter() - began, time.process_time() - worked
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"| {name} | {A.shape[0]} | {A.nnz // 2} | {-cut.result.objective:.0f} | {cut.value:.0f} "
        f"| {cut.bound:.0f} | {100 * cut.result.gap:.2f} % | {100 * cut.gap:.2f} % "
        f"| {cut.result.iterations} | {work:.0f} | {spent:.0f} | {peak:.0f} | {cut.status.name} |",
        flush=True,
    )


def main() -> None:
    """Measure the graphs that were named, or all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--gap", type=float, default=1e-3)
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--vertices", type=int, default=100_000)
    parser.add_argument("--whole", action="store_true")
    given = parser.parse_args()
    print("| graph | vertices | edges | value of W | cut | bound | gap of W | gap of the cut "
          "| sweeps | CPU seconds | seconds | MiB | status |")  # fmt: skip
    print("|---|" + 12 * "---:|", flush=True)
    for name in given.names or GRAPHS:
        arguments = (name, given.vertices, given.gap, given.seconds, not given.whole)
        process = multiprocessing.get_context("spawn").Process(target=measure, args=arguments)
        process.start()
        process.join()


if __name__ == "__main__":
    main()
