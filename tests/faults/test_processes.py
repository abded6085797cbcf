"""Pools of processes and threads: errors and answers come back whole, and are the same answers."""

from __future__ import annotations

import multiprocessing
import sys
import threading
from concurrent.futures import ProcessPoolExecutor

import numpy as np
import pytest

import condgrad as cg
import processes
from condgrad.io import read_graph
from condgrad.sklearn import SDPKMeans, certify

X = np.random.default_rng(17).standard_normal((24, 2))


def ring(n=11):
    A = np.roll(np.eye(n), 1, axis=0)
    A = A + A.T
    A[0, n // 2] = A[n // 2, 0] = 1
    return A


def cut(seed):
    return cg.sparsest_cut(ring(11 + seed), seed=seed, presolve=False)


def fit(seed):
    return SDPKMeans(3, max_iter=60, random_state=seed).fit(X)


def read(path):
    return read_graph(path)


def refuse(size):
    return cg.applications.sparsest_cut(np.ones((size, size + 1)))


def same(one, other):
    assert one.value == other.value
    assert one.bound == other.bound
    np.testing.assert_array_equal(one.result.W, other.result.W)
    np.testing.assert_array_equal(one.trace["objective"], other.trace["objective"])


SCRIPT = """
import multiprocessing, sys
sys.path[:0] = [{folder!r}, {folder!r} + "/.."]
import test_processes as t

if __name__ == "__main__":
    with multiprocessing.get_context({how!r}).Pool(2) as pool:
        for got, seed in zip(pool.map(t.cut, range(3)), range(3)):
            t.same(got, t.cut(seed))
        for call, given in ((t.read, ["a.edges", "b.mtx"]), (t.refuse, [4, 5])):
            try:
                pool.map(call, given)
            except ValueError as error:
                print(type(error).__name__, error)
"""


@pytest.mark.parametrize("how", ["fork", "spawn", "forkserver"])
def test_pools(how, tmp_path):
    if how not in multiprocessing.get_all_start_methods():
        pytest.skip(f"this system has no {how}")
    script = tmp_path / "main.py"
    script.write_text(SCRIPT.format(folder=str(__file__).rpartition("/")[0], how=how))
    done = processes.run(sys.executable, "-W", "ignore::DeprecationWarning", str(script))
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.splitlines()
    assert first.startswith(("InputError a.edges: ", "InputError b.mtx: "))
    assert second.startswith("ProblemError adjacency ")


def test_an_executor_gives_back_the_error():
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        with pytest.raises(cg.InputError, match="no-such") as found:
            pool.submit(read_graph, "no-such/file").result(timeout=processes.LIMIT)
        assert found.value.reason


def test_joblib():
    joblib = pytest.importorskip("joblib")
    pool = joblib.Parallel(2, timeout=processes.LIMIT)
    work = (joblib.delayed(cut)(seed) for seed in range(2))
    for got, seed in zip(pool(work), range(2), strict=True):
        same(got, cut(seed))
    models = pool(joblib.delayed(fit)(seed) for seed in range(2))
    for got, seed in zip(models, range(2), strict=True):
        again = fit(seed)
        np.testing.assert_array_equal(got.labels_, again.labels_)
        assert got.lower_bound_ == again.lower_bound_
    with pytest.raises(cg.InputError, match="no-such"):
        pool([joblib.delayed(read)("no-such/file")] * 2)


def test_two_solves_in_two_threads():
    alone = [cut(seed) for seed in range(4)]
    found = {}

    def work(seed):
        found[seed] = cut(seed), certify(X, np.arange(24) % 3, max_iter=40, random_state=seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for seed, one in enumerate(alone):
        same(found[seed][0], one)


def test_threads_leave_blas_as_it_was():
    control = pytest.importorskip("threadpoolctl").ThreadpoolController()
    before = [pool.num_threads for pool in control.lib_controllers]
    threads = [threading.Thread(target=cut, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [pool.num_threads for pool in control.lib_controllers] == before
