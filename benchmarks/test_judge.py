"""The judge against optima of independent CVXPY models, on small instances."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import cvxpy as cp
import numpy as np
import pytest
from benchopt.benchmark import Benchmark

HERE = Path(__file__).parent


def sparsest_cut(adjacency):
    n = len(adjacency)
    W = cp.Variable((n, n), PSD=True)
    d = cp.diag(W)
    rows = [n * cp.trace(W) - cp.sum(W) == n**2 / 2, cp.trace(W) <= n]
    for q in range(n):
        p, r = np.array([(p, r) for p in range(n) for r in range(p + 1, n) if q not in (p, r)]).T
        rows.append(W[p, q] + W[q, r] - W[p, r] - d[q] <= 0)
    return np.diag(adjacency.sum(axis=1)) - adjacency, W, rows


def kmeans(distances, k):
    W = cp.Variable(distances.shape, PSD=True)
    return distances, W, [cp.trace(W) == k, cp.sum(W, axis=1) == 1, W >= 0]


def max_cut(adjacency):
    W = cp.Variable(adjacency.shape, PSD=True)
    return 0.25 * (adjacency - np.diag(adjacency.sum(axis=1))), W, [cp.diag(W) == 1]


@pytest.mark.parametrize("model", [sparsest_cut, kmeans, max_cut])
def test_bound_lies_below_the_optimum_and_is_tight(model):
    benchmark = Benchmark(HERE / model.__name__)
    objective = benchmark.get_benchmark_objective().get_instance()
    data = objective.tiny(10)
    objective.set_data(**data)
    cost, W, constraints = model(**data)
    optimum = cp.Problem(cp.Minimize(cp.trace(cost @ W)), constraints).solve(solver="CLARABEL")
    rng = np.random.default_rng(0)
    family = objective.problem.terms[1]
    for _ in range(5):  # any y at all gives a bound that holds
        poor = {family.name: rng.normal(size=family.map.size)}
        found = objective.evaluate_result(W.value, poor)
        assert found["lower_bound"] <= optimum + 1e-6 * abs(optimum)
        assert found["objective"] == pytest.approx(optimum, rel=1e-5)
    for solver in benchmark.get_solvers():
        if solver.name not in ("SCS", "Clarabel", "CSDP", "condgrad") or not solver.is_installed():
            continue
        one = solver.get_instance(**next(iter(parameters(solver))))
        one.set_objective(data, objective.tiny, objective.application)
        one.run(1e-6 if solver.name != "condgrad" else 1e-3)
        found = SimpleNamespace(**objective.evaluate_result(**one.get_result()))
        close = 1e-3 if solver.name == "condgrad" else 1e-4
        assert found.value <= close, solver.name
        assert found.lower_bound <= optimum + 1e-6 * abs(optimum)
        assert found.lower_bound == pytest.approx(optimum, rel=3 * close)
        assert found.objective == pytest.approx(optimum, rel=3 * close)


def parameters(solver):
    from benchopt.utils.parametrized_name_mixin import product_param

    return product_param(solver.parameters)
