"""One iteration of H-SAG-CGM/v1 on matrix completion, 1675 × 943, beside plain NumPy.

    make bench-kernels

runs on MovieLens-100k where the environment variable CONDGRAD_DATA names a folder that holds it,
and on random ratings of that size otherwise. An iteration should be bound by memory, so the figures
are: ms per iteration, products of the oracle, passes over an array of the size of W, the bytes they
move per second beside those of a plain copy (of W, which may stay in the cache, and of eight times
as much, which does not), and the time of the same iteration in plain NumPy with
`scipy.sparse.linalg.svds`. Everything is interleaved: a busy machine slows all of it.

Passes are counted, not measured. Outside the oracle there are four:

=====================================  ========================
slopes of the box, to the direction    read W, write v
step                                   read W, write W
=====================================  ========================

and the oracle adds one over v a Lanczos step and one for the left vector: 5 + steps in all, where
the oracle's products are 2 · steps + 1.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse.linalg import svds

import condgrad as cg
from condgrad.applications import matrix_completion
from condgrad.io import index_ratings, read_ratings

SHAPE, OBSERVED, BATCH, BETA0 = (1675, 943), 90_570, 1000, 10.0
STEPS, ROUNDS = 100, 7


def ratings():
    """Positions, values and shape: MovieLens-100k, or random ratings of its size."""
    folder = Path(os.environ.get("CONDGRAD_DATA", "")) / "movielens-100k"
    if os.environ.get("CONDGRAD_DATA") and (folder / "ub.base").exists():
        d = index_ratings(read_ratings(folder / "ub.base"), read_ratings(folder / "ub.test"))
        return d.rows, d.cols, d.values, d.shape
    rng = np.random.default_rng(0)
    at = np.sort(rng.choice(SHAPE[0] * SHAPE[1], OBSERVED, replace=False))
    rows, cols = np.divmod(at, SHAPE[1])
    tastes = rng.standard_normal((SHAPE[0], 5)) @ rng.standard_normal((5, SHAPE[1]))
    values = np.clip(np.round(3.5 + 0.5 * tastes.reshape(-1)[at]), 1, 5)
    return rows, cols, values, SHAPE


class Plain:
    """The same method, written down as in the paper."""

    def __init__(self, rows, cols, values, shape, radius, dtype):
        self.at, self.target, self.radius = (rows, cols), values.astype(dtype), radius
        self.W, self.table = np.zeros(shape, dtype), np.zeros(values.size, dtype)
        self.rng, self.k = np.random.default_rng(0), 1

    def step(self):
        beta, eta = BETA0 / np.sqrt(self.k + 1), 2 / (self.k + 1)
        drawn = self.rng.choice(self.table.size, BATCH, replace=False)
        i, j = self.at[0][drawn], self.at[1][drawn]
        self.table[drawn] = self.W[i, j] - self.target[drawn]
        v = (self.W - np.clip(self.W, 1, 5)) / beta
        v[self.at] += 2 * self.table
        u, _, vt = svds(v, k=1)
        self.W = (1 - eta) * self.W - eta * self.radius * np.outer(u[:, 0], vt[0])
        self.W = self.W.astype(v.dtype, copy=False)
        self.k += 1


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_iteration(benchmark, dtype):
    rows, cols, values, shape = ratings()
    application = matrix_completion(rows, cols, values, shape, bounds=(1, 5))
    given = application.problem
    problem = cg.Problem(given.domain, given.terms, dtype=dtype)
    method = cg.h_sag_v1(beta0=BETA0, batch=BATCH)
    plain = Plain(rows, cols, values, shape, given.domain.radius, np.dtype(dtype))
    source = np.ones(shape, dtype)
    large = np.ones((8, *shape), dtype)
    target, beyond, seconds, copy, copy_large, twin = source.copy(), large.copy(), [], [], [], []

    def run():
        return cg.solve(problem, method, start=given.domain.center(), max_iter=STEPS, record=1)

    def clock(f, times):
        began = time.perf_counter()
        for _ in range(times):
            f()
        return (time.perf_counter() - began) / times

    run()
    for _ in range(ROUNDS):
        copy.append(clock(lambda: np.copyto(target, source), 20))
        copy_large.append(clock(lambda: np.copyto(beyond, large), 3))
        result = run()
        seconds.append(result.seconds / STEPS)
        twin.append(clock(plain.step, 4))
    benchmark.group = f"matrix completion {shape[0]} x {shape[1]}, {dtype}"
    benchmark.pedantic(run, rounds=1)
    products = result.matvecs / STEPS
    passes = 5 + (products - 1) / 2
    ours = np.median(seconds)
    benchmark.extra_info.update(
        ms_per_iteration=1e3 * ours,
        products=products,
        passes=passes,
        GB_per_second=passes * source.nbytes / ours / 1e9,
        copy_GB_per_s=2 * source.nbytes / np.median(copy) / 1e9,
        copy_memory_GB=2 * large.nbytes / np.median(copy_large) / 1e9,
        ms_plain_numpy=1e3 * np.median(twin),
        plain_to_ours=np.median(twin) / ours,
    )
