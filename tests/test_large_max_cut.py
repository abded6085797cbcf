"""Max-cut with W kept as a factor: cuts, bounds, limits and memory."""

from __future__ import annotations

import json
import tracemalloc
from fractions import Fraction

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp

import condgrad
from condgrad import ProblemError, Status
from condgrad.applications import large_max_cut, max_cut, max_cut_value
from condgrad.applications import mixing as sweeps
from condgrad.applications.annealing import Search
from condgrad.domains import chebyshev, eigen
from condgrad.io import read_graph
from condgrad.points import Gram
from condgrad.record import Record
from test_max_cut import largest


@pytest.fixture
def factored(monkeypatch):
    """W is never dense, and no bound is that of LAPACK, however small the graph is."""
    monkeypatch.setattr(large_max_cut, "FACTORED", 0)
    monkeypatch.setattr(eigen, "LARGE", 2)


def sparse(n, m, seed, signs=False, whole=True):
    """A random graph with about m edges."""
    rng = np.random.default_rng(seed)
    u, v = rng.integers(n, size=(2, m))
    weight = np.ones(m) if whole else rng.exponential(size=m)
    weight = weight * rng.choice([-1.0, 1.0], m) if signs else weight
    A = sp.coo_array((weight, (u, v)), shape=(n, n))
    A = sp.csr_array(A + A.T)
    A.setdiag(0)
    A.eliminate_zeros()
    return A


@pytest.mark.parametrize("weight", [1e-150, 1e-161, 2e-162, 1e-170])
def test_rows_have_length_one_whatever_the_weights(factored, weight):
    """Squares of some are not precise; a triangle of those beside one of weight 1."""
    triangle = np.ones((3, 3)) - np.eye(3)
    A = sp.csr_array(sp.block_diag([triangle, weight * triangle]))
    point = max_cut(A).run(gap=1e-9, max_iter=30).result.W
    np.testing.assert_allclose(np.linalg.norm(point.factor, axis=1), 1, rtol=1e-12)


@pytest.mark.parametrize("signs", [False, True])
@pytest.mark.parametrize("whole", [False, True])
def test_bounds_and_cuts_of_many_small_graphs(factored, signs, whole):
    for seed in range(60):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(3, 11))
        A = sparse(n, int(rng.integers(1, 3 * n)), seed, signs, whole)
        best = largest(A.toarray())
        run = max_cut(A).run(gap=1e-2, max_iter=int(rng.integers(0, 40)))
        slack = 1e-12 * (1 + abs(best))
        assert -run.result.lower_bound >= best - slack
        assert -run.rounded.value <= best + slack
        assert run.rounded.answer.value == pytest.approx(max_cut_value(A, run.rounded.answer.side))
        assert run.objective <= run.bound + slack


def test_bounds_of_bad_points(factored):
    """Any V proves a bound."""
    for seed in range(40):
        rng = np.random.default_rng(seed)
        A = sparse(9, 20, seed, signs=True, whole=False)
        V = rng.standard_normal((9, 3)) * 10.0 ** rng.integers(-4, 5, (9, 1))
        found = sweeps._sparse_bound(A, V, 1e-3)
        assert found.value >= largest(A.toarray()) - 1e-12
        assert (found.kind, found.failure) == ("probabilistic", eigen.FAILURE)


@pytest.mark.parametrize("signs", [False, True])
def test_the_relaxation_is_that_of_dense_matrices(monkeypatch, signs):
    A = sparse(200, 1000, 3, signs)
    dense = max_cut(A, warm=1e-4).run(gap=1e-4)
    monkeypatch.setattr(large_max_cut, "FACTORED", 100)
    monkeypatch.setattr(eigen, "LARGE", 100)
    run = max_cut(A).run(gap=5e-4)
    assert isinstance(run.result.W, Gram)
    assert run.result.gap <= 5e-4
    assert run.bound >= dense.objective * (1 - 1e-9)
    assert run.bound == pytest.approx(dense.bound, rel=1e-3)
    assert run.objective == pytest.approx(dense.objective, rel=1e-3)
    assert run.rounded.answer.value >= 0.99 * dense.rounded.answer.value
    L = sp.diags_array(A.sum(axis=1)) - A
    assert run.objective == pytest.approx(0.25 * np.vdot(L.toarray(), np.asarray(run.result.W)))
    np.testing.assert_allclose(np.diag(run.result.W.dense()), 1)
    assert 0 < run.bound_failure < 1e-8
    assert run.bound_kind == "probabilistic"


def test_bipartite_graphs_take_no_sweep(factored):
    for graph in (nx.grid_2d_graph(7, 9), nx.random_labeled_tree(40, seed=1), nx.cycle_graph(8)):
        cut = condgrad.max_cut(graph)
        assert (cut.value, cut.bound, cut.gap) == (graph.size(), graph.size(), 0)
        assert (cut.status, cut.result.iterations) == (Status.CONVERGED, 0)
        assert cut.bound_failure == 0
    balanced = np.outer([1, -1, 1, -1, -1], [1, -1, 1, -1, -1])  # of both signs
    cut = condgrad.max_cut(-balanced.astype(float))
    assert (cut.value, cut.gap) == (6, 0)


@pytest.mark.parametrize("n", [5, 21])
def test_odd_cycles(factored, n):
    cut = condgrad.max_cut(nx.cycle_graph(n), gap=1e-3)
    assert (cut.value, cut.bound, cut.status) == (n - 1, n - 1, Status.CONVERGED)


def test_components_and_single_vertices(factored):
    parts = [sp.csr_array(nx.to_scipy_sparse_array(nx.cycle_graph(5), dtype=float))] * 3
    A = sp.csr_array(sp.block_diag([*parts, np.zeros((4, 4))]))
    cut = condgrad.max_cut(A, gap=1e-2, presolve=False)
    assert cut.value == 12
    assert 12 <= cut.bound <= 3 * 4.53
    assert cut.status is Status.RELAXED


def test_power_laws_are_bounded_as_well(factored):
    A = sp.csr_array(
        nx.to_scipy_sparse_array(nx.barabasi_albert_graph(600, 3, seed=2), dtype=float)
    )
    run = max_cut(A).run(gap=5e-3, max_iter=2000)
    assert run.result.gap <= 5e-3
    assert run.rounded_gap < 0.08


def test_seeds(factored):
    A = sparse(80, 300, 1)
    one, same, other = (condgrad.max_cut(A, gap=1e-2, seed=s) for s in (1, 1, 2))
    np.testing.assert_array_equal(one.side, same.side)
    assert one.bound == same.bound
    np.testing.assert_array_equal(one.result.W.factor, same.result.W.factor)
    assert not np.array_equal(one.result.W.factor, other.result.W.factor)


def test_limits_are_kept_and_said(factored, clock):
    A = sparse(60, 200, 1)
    run = max_cut(A).run(gap=1e-9, max_iter=7)
    assert (run.status, run.result.iterations) == (Status.MAX_ITER, 7)
    run = max_cut(A).run(gap=1e-9, max_epochs=3)
    assert (run.status, run.result.iterations) == (Status.MAX_EPOCHS, 3)
    run = max_cut(A).run(gap=1e-9, max_seconds=0)
    assert (run.status, run.result.iterations) == (Status.MAX_SECONDS, 0)
    assert 0 < run.rounded_gap < 1
    clock.tick = 0.01
    run = max_cut(A).run(gap=1e-9, max_seconds=2.0)
    assert run.status is Status.MAX_SECONDS
    assert 0 < run.result.iterations < 200
    assert run.result.seconds < 3


def test_no_gap_is_a_run_to_the_limit(factored):
    run = max_cut(sparse(30, 100, 0)).run(max_iter=25)
    assert (run.status, run.result.iterations, run.asked) == (Status.MAX_ITER, 25, None)


@pytest.mark.parametrize(("name", "after"), [("_sweep", 3), ("_sparse_bound", 1)])
def test_interrupted_sweeps_leave_a_cut_and_a_bound(factored, monkeypatch, name, after):
    real, calls = getattr(sweeps, name), []

    def stop(*arguments):
        calls.append(name)
        if len(calls) == after:
            raise KeyboardInterrupt
        return real(*arguments)

    monkeypatch.setattr(sweeps, name, stop)
    A = sparse(50, 200, 1)
    cut = condgrad.max_cut(A)
    assert cut.status is Status.INTERRUPTED
    assert 0 < cut.value <= cut.bound < np.inf


def test_interrupted_annealing_leaves_a_cut(factored, monkeypatch):
    def stop(*_):
        raise SystemError("kernel") from KeyboardInterrupt()

    monkeypatch.setattr(Search, "anneal", stop)
    cut = condgrad.max_cut(sparse(50, 200, 1), gap=1e-2)
    assert cut.status is Status.INTERRUPTED
    assert 0.85 < cut.value / cut.bound < 1


def test_callbacks_see_it_and_stop_it(factored):
    seen = []

    def stop(info):
        seen.append((info.k, info.objective, info.infeasibility))
        return info.k >= 40

    run = max_cut(sparse(50, 200, 1)).run(gap=1e-9, callbacks=[stop], max_iter=500)
    assert [k for k, *_ in seen] == [20, 40]
    assert (run.status, run.result.iterations) == (Status.STOPPED, 40)
    assert seen[-1][1] == -run.objective
    assert seen[-1][2] < 1e-12


def test_what_there_is_not_is_refused(factored):
    application = max_cut(sparse(20, 60, 0))
    for arguments, options, word in (
        (("spdhg",), {}, "leave method"),
        ((), {"beta0": 1.0}, "leave method"),
        ((), {"device": "cuda"}, "on the CPU"),
        ((), {"device": "tpu"}, "device is 'tpu'"),
        ((), {"gap": -1}, "gap is -1"),
        ((), {"max_seconds": -1}, "max_seconds is -1"),
        ((), {"duals": True}, "duals: where W is too large"),
        ((), {"callbacks": 3}, "callbacks must be"),
    ):
        with pytest.raises(ProblemError, match=word):
            application.run(*arguments, **options)


def test_more_columns_where_few_do_not_do(factored, monkeypatch):
    monkeypatch.setattr(sweeps, "RANK", 2)
    run = max_cut(sparse(60, 300, 4)).run(gap=2e-3, max_iter=2000)
    assert run.settings["columns"] > 2
    assert run.result.gap <= 2e-3


def test_annealing_is_better_than_one_vertex_at_a_time():
    A = sparse(400, 2000, 5, signs=True)
    search = Search(A, 0)
    first = search.best.value
    search.hyperplanes(np.random.default_rng(0).standard_normal((400, 5)), 20)
    second = search.best.value
    assert search.anneal(300)
    assert first <= second < search.best.value
    assert search.best.value == max_cut_value(A, search.best.side)
    flipped = [max_cut_value(A, search.best.side ^ (np.arange(400) == i)) for i in range(400)]
    assert max(flipped) <= search.best.value
    assert not search.anneal(10, end=-np.inf)


def test_no_matrix_of_n_by_n():
    n = 20_000
    A = sparse(n, 60_000, 0)
    tracemalloc.start()
    try:
        cut = condgrad.max_cut(A, gap=0.07, hyperplanes=16)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert cut.gap <= cut.result.gap <= 0.07
    assert cut.status is Status.CONVERGED
    assert peak < 0.05 * 8 * n * n


def test_command_saves_and_draws(factored, run, tmp_path):
    args = ("solve", "max-cut", "les_miserables", "--gap", 1e-2, "--whole")
    saved, page = tmp_path / "a.npz", tmp_path / "a.html"
    code, out, _ = run(*args, "--save", saved, "--report", page, "--json", "-")
    data = json.loads(out)
    assert (code, data["method"], data["status"]) == (0, "mixing", "relaxed")
    assert data["rounded"]["value"] <= data["rounded"]["bound"] <= data["relaxation"]["upper_bound"]
    record = Record.load(saved)
    assert isinstance(record.W, Gram)
    A = read_graph("les_miserables")
    np.testing.assert_allclose(
        (A.sum() - np.vdot(A.toarray(), record.W.dense())) / 4, data["relaxation"]["objective"]
    )
    assert "mixing method" in page.read_text()
    code, out, _ = run(*args)
    assert code == 0
    assert "With probability 1 - " in out
    code, _, err = run(*args, "--method", "spdhg")
    assert (code, "leave method" in err) == (2, True)


def test_little_memory_keeps_w_a_factor(monkeypatch):
    monkeypatch.setattr("condgrad.backends.memory.free_memory", lambda: 1e8)
    assert isinstance(max_cut(sparse(1500, 3000, 0)), large_max_cut.LargeMaxCut)
    assert not isinstance(max_cut(sparse(500, 3000, 0)), large_max_cut.LargeMaxCut)


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("steps", [1, 10, 60])
def test_eigenvalues_of_sparse_matrices_are_bounded(seed, steps):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 80))
    M = sparse(n, 3 * n, seed, signs=True, whole=False) * 10.0 ** rng.integers(-8, 8)
    M = sp.csr_array(M + sp.diags_array(rng.standard_normal(n)))
    values = np.linalg.eigvalsh(M.toarray())
    bound = chebyshev.bound_by_products(M, 1e-10, steps)
    size = np.abs(values).max()
    assert bound <= values[0] + 1e-13 * size
    if steps == 60:
        assert bound >= values[0] - 0.05 * (values[-1] - values[0]) - 1e-3 * size


def test_guesses_do_not_make_a_bound_wrong(monkeypatch):
    """Whatever is taken for the ends of the spectrum, the bound holds."""
    M = sparse(60, 200, 0, signs=True)
    lowest = np.linalg.eigvalsh(M.toarray())[0]
    for ends in ((-100.0, 100.0), (0.0, 1.0), (3.0, 4.0), (-1.0, -0.9), (0.0, 0.0)):
        monkeypatch.setattr(chebyshev, "_ends", lambda *_, ends=ends: ends)
        for steps in (1, 7, 40, 300):
            assert chebyshev.bound_by_products(M, 1e-10, steps) <= lowest


def test_equal_numbers_on_the_diagonal():
    for value in (-2.0, 3.0):
        M = sp.csr_array(value * sp.eye_array(50))
        bound = chebyshev.bound_by_products(M, 1e-10, 40)
        assert value - 0.2 < bound <= value
    assert eigen.lowest_bound(sp.csr_array((9, 9))) == (0.0, 0.0)
    value, failure = eigen.lowest_bound(sp.csr_array(np.diag([1.0, -2.0])))
    assert (failure, Fraction(value) <= -2) == (0.0, True)
    assert value == pytest.approx(-2)
