"""Actors that are lost or hang at awkward moments: between questions that belong together."""

import os
import pickle
import shutil
import signal
import threading
import time

import numpy as np
import pytest

import condgrad as cg
from condgrad import Problem, Term, _deadline, applications, domains, functions, maps
from condgrad.cluster import Engine, Ray, Sharded
from condgrad.cluster.connect import _own_signals
from condgrad.errors import InputError
from test_cluster import _adjoint, _both, cluster, graph, killed, needs_ray  # noqa: F401

pytestmark = [pytest.mark.xdist_group("ray"), needs_ray]


def held(run):
    """How far the gradients at the driver are from those of the multipliers at the actors."""
    worst = 0.0
    for rows in run.state.terms:
        if isinstance(rows, Sharded):
            G = _adjoint(rows.term.map, rows.point("slopes", run.state.W.array, 1.0))
            worst = max(worst, np.abs(_both(rows, rows.state.G) - _both(rows, G)).max())
    return worst


def two_families(**more):
    found = applications.max_cut(graph(16), triangles=True)
    how = {"start": found.start, "gap": 1e-9, "n_jobs": 1, "cluster": Ray(shards=2), **more}
    return cg.start(found.problem, cg.spdhg(first=0), **how).advance(iterations=10)


def test_an_actor_is_lost_where_another_method_follows(cluster, monkeypatch):  # noqa: F811
    found = applications.sparsest_cut(graph(24))
    how = {"start": found.start, "gap": 1e-4, "n_jobs": 1, "cluster": Ray(shards=2)}
    run, switch, seen = cg.start(found.problem, cg.spdhg(batch=0.1), **how), Engine.switch, []

    def once(self, name, estimator):
        if not seen:
            seen.append(killed(run, 0))
        switch(self, name, estimator)

    monkeypatch.setattr(Engine, "switch", once)
    run.advance(iterations=120)
    assert seen
    assert held(run) < 1e-9
    assert "shard 1 of 2 was lost" in run.note
    run.close()


@pytest.mark.parametrize("which", [1, 2])
def test_the_clock_ends_a_repair(cluster, monkeypatch, which):  # noqa: F811
    """What the actors have is summed anew before the run goes on."""
    run, gather, calls = two_families(), Sharded.gather, []
    rows = next(r for r in run.state.terms if isinstance(r, Sharded))
    killed(run, 0)

    def late(self):
        calls.append(self)
        if len(calls) == which:
            raise _deadline.OutOfTime
        gather(self)

    monkeypatch.setattr(Sharded, "gather", late)
    with pytest.raises(_deadline.OutOfTime):
        rows.pairing("slopes", run.state.W.array, 1.0)
    run.advance(iterations=3)
    assert len(calls) > which
    assert held(run) < 1e-9
    run.close()


def test_multipliers_are_scaled_once(cluster):  # noqa: F811
    run = two_families()
    rows = next(r for r in run.state.terms if isinstance(r, Sharded))
    before = rows.engine.ask("tables", rows.term.name)[1]["y"]
    killed(run, 0)
    rows.over(run.problem, 0.5)
    after = rows.engine.ask("tables", rows.term.name)[1]["y"]
    assert np.abs(before).max() > 0
    np.testing.assert_array_equal(after, 0.5 * before)
    assert held(run) < 1e-9
    run.close()


def test_a_straggler_that_hangs_does_not_hold_up_the_clock(cluster):  # noqa: F811
    found = applications.sparsest_cut(graph(24))
    how = {"start": found.start, "gap": 1e-9, "n_jobs": 1}
    wish, method = Ray(shards=2, staleness=1), cg.spdhg(batch=0.1, first=0)
    run = cg.start(found.problem, method, cluster=wish, **how).advance(iterations=8)
    pid = run._engine.facts()[0][1]
    os.kill(pid, signal.SIGSTOP)
    rescue = threading.Timer(60, os.kill, (pid, signal.SIGCONT))
    rescue.start()
    began = time.monotonic()
    try:
        run.advance(seconds=1)
        assert time.monotonic() - began < 55  # well before the rescue
    finally:
        rescue.cancel()
        os.kill(pid, signal.SIGCONT)
    assert run.result().status is cg.Status.MAX_SECONDS
    run.advance(iterations=2)
    run.state.terms[-1]._settle()
    assert held(run) < 1e-9
    run.close()


class Lower(maps.Covering):
    """Entries below the diagonal, each three times: its adjoint is not symmetric."""

    row_norm, depth = 1.0, 10

    def __init__(self, n):
        self.shape, self.storage = (n, n), n * n
        self.mask = np.tril(np.ones((n, n)), -1)
        self.ids = np.tile(np.flatnonzero(self.mask), 3)
        self.size = self.ids.size

    def rows(self, W, at=slice(None)):
        return (W * self.mask).reshape(-1)[self.ids[at]]

    def scatter(self, G, at, y):
        np.add.at(G, self.ids[at], y)

    def add_to(self, G, weight, out):
        super().add_to((G.reshape(self.shape) * self.mask).reshape(-1), weight, out)

    def set_to(self, G, weight, out):
        out.fill(0)
        self.add_to(G, weight, out)


def test_a_map_of_the_user_s_own_gets_its_whole_cotangent(cluster):  # noqa: F811
    import ray

    n, C = 12, np.random.default_rng(0).standard_normal((12, 12))
    cost = Term(maps.Inner(C + C.T), functions.Linear(), name="cost")
    own = Term(Lower(n), functions.Interval(-0.05, 0.05), name="own")
    problem = Problem(domains.Spectrahedron(n, 2.0, equality=True), [cost, own])
    ray.cloudpickle.register_pickle_by_value(__import__(__name__))
    how = {"max_iter": 1000, "gap": 1e-4, "n_jobs": 1}
    here = cg.solve(problem, cg.spdhg(), **how)
    there = cg.solve(problem, cg.spdhg(), cluster=Ray(shards=2), **how)
    assert there.status is here.status is cg.Status.CONVERGED
    np.testing.assert_allclose(there.W, here.W, atol=1e-8)


def test_a_function_of_the_user_s_own_is_sent():
    import ray

    engine = Engine.__new__(Engine)
    engine._ray, engine.point = ray, None
    for value in (len, lambda x: len(x) + 1):
        what, found = pickle.loads(engine._message(("what", value)))
        assert what == "what"
        assert found("ab") == value("ab")


def rows_of_data(n=30, size=5000):
    """A problem whose rows are listed."""
    rng = np.random.default_rng(1)
    A, x = rng.standard_normal((size, n)), np.full(n, 1 / n)
    cost = Term(maps.Inner(rng.standard_normal(n)), functions.Linear(), name="cost")
    rows = Term(maps.DataMatrix(A), functions.AtMost(A @ x + 0.1), name="rows")
    return Problem(domains.Simplex(n), [cost, rows])


def test_a_shard_of_which_no_row_is_drawn(cluster):  # noqa: F811
    problem, how = rows_of_data(), {"max_iter": 60, "n_jobs": 1}
    here = cg.solve(problem, cg.sag_cgal(batch=8), **how)
    there = cg.solve(problem, cg.sag_cgal(batch=8), cluster=Ray(shards=2), **how)
    np.testing.assert_allclose(there.W, here.W, atol=1e-9)


def test_folders_of_tables(cluster, tmp_path, monkeypatch):  # noqa: F811
    found = applications.sparsest_cut(graph(24))
    how = {"start": found.start, "gap": 1e-9, "n_jobs": 1}
    file, folder = tmp_path / "file", tmp_path / "folder"
    file.write_text("")
    with pytest.raises(cg.ProblemError, match="where nothing can be written"):
        cg.start(found.problem, cg.spdhg(), cluster=Ray(shards=2, checkpoint=file), **how)
    wish = Ray(shards=2, checkpoint=folder, every=0)
    run = cg.start(found.problem, cg.spdhg(), cluster=wish, **how).advance(iterations=3)
    run.save(tmp_path / "run.ckpt")
    shutil.rmtree(folder)
    folder.write_text("")  # a disk that fails
    with pytest.warns(RuntimeWarning, match="tables of the shards could not be written"):
        run.advance(iterations=2)
    assert run.result().iterations == 5
    folder.unlink()
    run.close()
    with pytest.raises(InputError, match="belongs together with the folder"):
        cg.resume(tmp_path / "run.ckpt", found.problem, cluster=wish)
    left = run.advance(iterations=1).result()
    assert left.status is cg.Status.LOST
    assert "the run was closed" in left.note


def test_ray_does_not_keep_the_handlers_of_signals():
    """SIGTERM gives the best answer with a cluster, too."""
    before = signal.getsignal(signal.SIGTERM)
    with _own_signals():
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    assert signal.getsignal(signal.SIGTERM) is before
