"""Threads: rows shared out whole, the same run for the same number, good manners."""

import multiprocessing
import os

import networkx as nx
import numpy as np
import pytest
import threadpoolctl

import condgrad as cg
from condgrad.applications import kmeans, sparsest_cut
from condgrad.backends import threads
from condgrad.errors import ProblemError
from condgrad.passes import Plain


@pytest.fixture
def eager(monkeypatch):
    """Wake threads for a handful of rows."""
    share = threads.share
    monkeypatch.setattr(threads, "share", lambda ranges: share(ranges, worth=50))


def graph(n=24, seed=0):
    return nx.to_numpy_array(nx.gnp_random_graph(n, 0.4, seed=seed))


@pytest.mark.parametrize("seed", range(20))
def test_shares_hold_every_row_once_in_order(seed):
    rng = np.random.default_rng(seed)
    ends = np.sort(rng.choice(1000, 2 * int(rng.integers(1, 9)), replace=False)).tolist()
    ranges = [slice(a, b) for a, b in zip(ends[::2], ends[1::2], strict=True)]
    rows = np.concatenate([np.arange(r.start, r.stop) for r in ranges])
    count = int(rng.integers(1, 6))
    with threads.using(count):
        parts = threads.share(ranges, worth=7)
    assert len(parts) == max(1, min(count, rows.size // 7))
    sizes = [sum(r.stop - r.start for r in part) for part in parts]
    assert max(sizes) - min(sizes) <= 1
    shared = [np.arange(r.start, r.stop) for part in parts for r in part]
    assert np.array_equal(np.concatenate(shared), rows)


def test_how_many(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    assert threads.count() == cores
    for text, expected in (("1", 1), ("1,4", 1), ("0", cores), ("many", cores), ("", cores)):
        monkeypatch.setenv("OMP_NUM_THREADS", text)
        assert threads.count() == expected
    with threads.using(3):
        assert threads.count() == 3
        with threads.using(None):
            assert threads.count() == cores
        assert threads.count() == 3
    with threads.using(-1):
        assert threads.count() == os.cpu_count()
    for bad in (0, -2, 1.5, True, "2"):
        with pytest.raises(ProblemError, match="n_jobs"), threads.using(bad):
            pass


def test_solve_refuses_a_bad_number():
    application = sparsest_cut(graph())
    with pytest.raises(ProblemError, match="n_jobs is 0"):
        cg.solve(application.problem, n_jobs=0, max_iter=2)


def test_run_keeps_the_order_and_waits_before_it_raises():
    assert threads.run([lambda i=i: i for i in range(5)]) == list(range(5))
    done = []

    def fail():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        threads.run([fail, lambda: done.append(1), lambda: done.append(2)])
    assert sorted(done) == [1, 2]
    with pytest.raises(ZeroDivisionError):
        threads.run([lambda: None, lambda: 1 / 0])


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("batch", [None, 1.0])
def test_the_same_run_for_the_same_number_of_threads(batch):
    application = sparsest_cut(graph())
    limits = {"max_iter": 60, "gap": 1e-9, "batch": batch}
    runs = {
        jobs: [application.run(n_jobs=jobs, **limits).result for _ in range(2)]
        for jobs in (1, 2, 3)
    }
    for first, second in runs.values():
        assert np.array_equal(first.W, second.W)
        assert first.lower_bound == second.lower_bound
    for jobs in (2, 3):  # sums in another order
        assert pytest.approx(runs[1][0].W, abs=1e-6) == runs[jobs][0].W
        assert runs[jobs][0].lower_bound == pytest.approx(runs[1][0].lower_bound, rel=1e-6)
        assert runs[jobs][0].rows == runs[1][0].rows


@pytest.mark.usefixtures("eager")
def test_threads_on_entries_of_w():
    points = np.random.default_rng(0).standard_normal((30, 2))
    distances = np.square(points[:, None] - points[None]).sum(axis=2)
    application = kmeans(distances, 3)
    one, two = (application.run(n_jobs=jobs, max_iter=40).result for jobs in (1, 2))
    assert pytest.approx(one.W, abs=1e-8) == two.W


def _child(queue):
    queue.put(threads.run([lambda: 1, lambda: 2]))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_forked_process_gets_threads_of_its_own():
    threads.run([lambda: 1, lambda: 2])
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    process = context.Process(target=_child, args=(queue,))
    process.start()
    assert queue.get(timeout=3000) == [1, 2]
    process.join(3000)
    assert process.exitcode == 0


def test_blas_keeps_to_one_thread():
    def used():
        found = [lib["num_threads"] for lib in threadpoolctl.threadpool_info()]
        return max(found, default=1)

    seen = []
    application = sparsest_cut(graph())
    with threadpoolctl.threadpool_limits(2, user_api="blas"):
        application.run(max_iter=2, n_jobs=2, callbacks=[lambda info: seen.append(used())])
        before = used()
    assert seen == [1, 1]
    assert before == 2  # given back


@pytest.mark.usefixtures("eager")
def test_the_augmented_lagrangian_is_the_sum_over_threads():
    term = sparsest_cut(graph()).problem.terms[1]
    rng = np.random.default_rng(0)
    W = rng.standard_normal((24, 24))
    W, y = W + W.T, rng.random(term.map.size)
    z = term.map.rows(W)
    expected = np.square(np.maximum(z + 0.3 * y, 0)).sum() / 0.6 - 0.15 * (y @ y)
    for jobs in (1, 3):
        with threads.using(jobs):
            assert term.merit(W, y, 0.3) == pytest.approx(expected)
    plain = Plain(term.map, term.function).merit(W, slice(0, y.size), y, 0.3)
    assert plain == pytest.approx(expected)
