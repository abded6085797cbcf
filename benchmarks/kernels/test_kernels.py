"""Time per row of every compiled kernel beside its twin, and one iteration beside one `eigh`.

    make bench-kernels

prints ns per row, compiled and reference, and the ratio of one iteration of H-SAG-CGM/v2 on a graph
of 102 vertices to one dense eigendecomposition of that size; medians, one BLAS thread, one run.
"""

from __future__ import annotations

import time

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp

import condgrad as cg
from condgrad import maps
from condgrad.applications import sparsest_cut
from condgrad.backends import _numba, _reference

N, BATCH = 102, 25_755
RNG = np.random.default_rng(0)
W = RNG.standard_normal((N, N))
W += W.T
X = RNG.standard_normal((20_000, 60))
S = sp.random_array((20_000, 2_000), density=0.01, rng=np.random.default_rng(1), format="csr")
STACK = [sp.random_array((N, N), density=0.001, rng=np.random.default_rng(i)) for i in range(500)]

CASES = {
    "AllEntries": (maps.AllEntries(N), W, 5_000),
    "Entries": (maps.Entries.of(sp.random_array((N, N), density=0.5, rng=RNG)), W, 2_000),
    "Diagonal": (maps.Diagonal(N), W, 50),
    "RowSums": (maps.RowSums(N), W, 50),
    "Triangles": (maps.Triangles(N), W, BATCH),
    "SparseStack": (maps.SparseStack([A + A.T for A in STACK]), W, 400),
    "DataMatrix dense": (maps.DataMatrix(X), RNG.standard_normal(60), 5_000),
    "DataMatrix CSR": (maps.DataMatrix(S), RNG.standard_normal(2_000), 5_000),
}


@pytest.fixture(params=["numba", "reference"])
def kernels(request, monkeypatch):
    module = {"numba": _numba, "reference": _reference}[request.param]
    for name in [n for n in vars(_reference) if callable(getattr(_reference, n))]:
        if hasattr(module, name) and not name.startswith("_"):
            monkeypatch.setitem(cg.backends.ops.__dict__, name, getattr(module, name))
    return request.param


@pytest.mark.parametrize("case", CASES)
def test_gather(benchmark, kernels, case):
    map, point, rows = CASES[case]
    ids = np.random.default_rng(2).integers(0, map.size, rows)
    benchmark.group = f"gather {case}"
    map.rows(point, ids)
    benchmark(map.rows, point, ids)
    benchmark.extra_info["ns_per_row"] = 1e9 * benchmark.stats["median"] / rows


@pytest.mark.parametrize("case", CASES)
def test_scatter(benchmark, kernels, case):
    map, _, rows = CASES[case]
    rng = np.random.default_rng(3)
    ids, y, G = rng.integers(0, map.size, rows), rng.standard_normal(rows), map.zeros()
    benchmark.group = f"scatter {case}"
    map.scatter(G, ids, y)
    benchmark(map.scatter, G, ids, y)
    benchmark.extra_info["ns_per_row"] = 1e9 * benchmark.stats["median"] / rows


def test_table_swap(benchmark, kernels):
    rng = np.random.default_rng(4)
    table, ids = np.zeros(515_100), rng.integers(0, 515_100, BATCH)
    new = rng.standard_normal(BATCH)
    benchmark.group = "table swap"
    cg.backends.ops.table_swap(table, ids, new)
    benchmark(cg.backends.ops.table_swap, table, ids, new)
    benchmark.extra_info["ns_per_row"] = 1e9 * benchmark.stats["median"] / BATCH


def test_triangle_sweep(benchmark, kernels):
    map = maps.Triangles(N)
    benchmark.group = "sweep Triangles"
    map.rows(W)
    benchmark(map.rows, W)
    benchmark.extra_info["ns_per_row"] = 1e9 * benchmark.stats["median"] / map.size


def test_iteration_beside_eigh(benchmark):
    """Interleaved, so that a busy machine slows both: the ratio of the medians is what counts."""
    graph = nx.gnp_random_graph(N, 0.78, seed=0)
    application = sparsest_cut(nx.to_scipy_sparse_array(graph), "published")
    method, _, _ = application.method("h-sag-v2")
    steps, eigh = 200, []

    def run() -> float:
        began = time.perf_counter()
        for _ in range(20):
            np.linalg.eigh(W)
        eigh.append((time.perf_counter() - began) / 20)
        limits = {"max_iter": steps, "record": 1}
        return cg.solve(application.problem, method, start=application.start, **limits).seconds

    run()
    seconds = [run() / steps for _ in range(25)]
    benchmark.group = "one iteration of H-SAG-CGM/v2, n = 102, 5 % batches"
    benchmark.pedantic(run, rounds=1)
    benchmark.extra_info["ms_per_iteration"] = 1e3 * np.median(seconds)
    benchmark.extra_info["ms_per_eigh"] = 1e3 * np.median(eigh)
    benchmark.extra_info["ratio"] = np.median(seconds) / np.median(eigh)
