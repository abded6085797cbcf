"""Kernels that stream memory, beside a plain copy measured in the same run.

    make bench-kernels

Each kernel is timed in turn with a copy of an array as large as the one it works on and with a
copy of one that no cache holds; the figures are medians. GB/s count every byte read and every byte
written once. The triangle kernel is given in ns per row with the time that its tables alone would
take at the speed of the large copy (two numbers a row, read and written): what no kernel can beat.
"""

from __future__ import annotations

import time

import numpy as np
import pytest

from condgrad.backends import ops, threads

ROUNDS = 25
LARGE = np.ones(25_000_000)
TARGET = LARGE.copy()
MOVIES = (1675, 943)


def interleaved(*tasks):
    """Median seconds of each task, run in turn."""
    for task in tasks:
        task()
    seconds = [[] for _ in tasks]
    for _ in range(ROUNDS):
        for task, spent in zip(tasks, seconds, strict=True):
            began = time.perf_counter()
            task()
            spent.append(time.perf_counter() - began)
    return [float(np.median(s)) for s in seconds]


def cases(dtype):
    """Name, task, bytes moved, and the array whose copy is the yardstick."""
    rng = np.random.default_rng(0)
    W = rng.standard_normal(MOVIES).astype(dtype)
    u, v = (
        rng.standard_normal(MOVIES[0]).astype(dtype),
        rng.standard_normal(MOVIES[1]).astype(dtype),
    )
    V = rng.standard_normal((1000, 1000)).astype(dtype)
    q, r = rng.standard_normal(1000).astype(dtype), np.empty(1000, dtype)
    G = np.empty(W.size, dtype)
    return {
        "rank-one step": (lambda: ops.rank_one_step(W, 0.999, 1e-3, u, v), 2 * W.nbytes, W),
        "prox pass": (lambda: ops.interval_slope(W.reshape(-1), -1, 1, 0.3, G), 2 * W.nbytes, W),
        "product": (lambda: np.dot(V, q, r), V.nbytes, V),
        "Gram product": (lambda: ops.gram_product(W, v), W.nbytes, W),
    }


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", list(cases("float64")))
def test_bandwidth(benchmark, name, dtype):
    task, moved, array = cases(np.dtype(dtype))[name]
    target = array.copy()
    kernel, near, far = interleaved(
        task, lambda: np.copyto(target, array), lambda: np.copyto(TARGET, LARGE)
    )
    benchmark.group = f"{name}, {array.shape[0]} x {array.shape[1]}, {dtype}"
    benchmark.pedantic(task, rounds=3)
    speed, copy = moved / kernel / 1e9, 2 * array.nbytes / near / 1e9
    large = 2 * LARGE.nbytes / far / 1e9
    benchmark.extra_info.update(
        GB_per_second=speed,
        copy_GB_per_s=copy,
        copy_memory_GB=large,
        share_of_copy=speed / copy,
        share_of_memory=speed / large,
    )


@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize("table", ["float64", "float32"])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("n", [102, 200, 300])
def test_triangle_pass(benchmark, n, dtype, table, jobs):
    rng, rows = np.random.default_rng(0), n * (n - 1) * (n - 2) // 2
    W = rng.standard_normal((n, n)).astype(dtype)
    W = np.ascontiguousarray((W + W.T) / 2)
    y, slopes = np.zeros(rows, table), np.zeros(rows, table)
    sums = [np.zeros((n, n), dtype) for _ in range(jobs)]

    dual = ops.fused(ops.triangle_sweep, ops.triangle_add).dual

    def work(part, G):
        ends = np.array([(r.start, r.stop) for r in part])
        dual(W, G, y, slopes, ends, -np.inf, 0.0, 2.0, 0.3)

    def task():
        with threads.using(jobs):
            parts = threads.share([slice(0, rows)])
            pairs = zip(parts, sums, strict=False)
            threads.run([lambda p=part, G=G: work(p, G) for part, G in pairs])

    kernel, far = interleaved(task, lambda: np.copyto(TARGET, LARGE))
    floor = 4 * y.itemsize * far / (2 * LARGE.nbytes)
    benchmark.group = f"triangle pass, n = {n}, W {dtype}, tables {table}, {jobs} thread(s)"
    benchmark.pedantic(task, rounds=3)
    benchmark.extra_info["ns_per_row"] = 1e9 * kernel / rows
    benchmark.extra_info["ns_tables_alone"] = 1e9 * floor
