"""Actors that are lost or hang at awkward moments: between questions that belong together."""

import signal
from types import SimpleNamespace

import numpy as np
import pytest

import condgrad as cg
from condgrad import Problem, Term, applications, domains, functions, maps
from condgrad.certificate.lower_bound import part_of, point_of
from condgrad.cluster import Engine, Ray
from condgrad.cluster.connect import _as_it_was
from condgrad.methods.spdhg import Spdhg, SpdhgState
from test_cluster import cluster, graph, killed, needs_ray, off  # noqa: F401

pytestmark = [pytest.mark.xdist_group("ray"), needs_ray]


def two_families(method=None):
    found = applications.max_cut(graph(16), triangles=True)
    how = {"start": found.start, "gap": 1e-9, "n_jobs": 1, "cluster": Ray(shards=2)}
    return cg.start(found.problem, method or cg.spdhg(first=0), **how).advance(iterations=10)


def test_an_actor_is_lost_while_the_run_starts(cluster, monkeypatch):  # noqa: F811
    """Between rows that it was given and tables that it is asked to begin."""
    found = applications.sparsest_cut(graph(24))
    how = {"start": found.start, "gap": 1e-3, "n_jobs": 1, "cluster": Ray(shards=2)}
    begin, seen = Engine.begin, []

    def then_lost(self, *args):
        begin(self, *args)
        seen.append(killed(SimpleNamespace(_engine=self), 1))

    monkeypatch.setattr(Engine, "begin", then_lost)
    end = cg.solve(found.problem, cg.spdhg(), max_iter=400, **how)
    assert seen
    assert end.status is cg.Status.CONVERGED
    assert "shard 2 of 2 was lost" in end.note


def test_an_actor_is_lost_where_another_method_follows(cluster, monkeypatch):  # noqa: F811
    found = applications.sparsest_cut(graph(24))
    how = {"start": found.start, "gap": 1e-4, "n_jobs": 1, "cluster": Ray(shards=2)}
    run, seen = cg.start(found.problem, cg.spdhg(batch=0.1), **how), []
    init = Spdhg.init

    def once(self, *args):
        if not seen:
            seen.append(killed(run, 0))
        return init(self, *args)

    monkeypatch.setattr(Spdhg, "init", once)
    run.advance(iterations=120)
    assert seen
    assert isinstance(run.state, SpdhgState)
    assert off(run) < 1e-9
    assert "shard 1 of 2 was lost" in run.result().note
    run.close()


def test_an_actor_is_lost_within_a_pass(cluster, monkeypatch):  # noqa: F811
    """What the others have changed by then is in the direction of the same iteration."""
    run, ask, seen = two_families(), Engine._asked, []

    def lost(self, name, what, *args):
        asked = ask(self, name, what, *args)
        if what == "sweep" and not seen:
            self.get(list(asked.values()))
            seen.append(killed(run, 0))
            asked[0] = self.actors[0].where.remote()  # an answer that cannot come
        return asked

    monkeypatch.setattr(Engine, "_asked", lost)
    run.advance(iterations=1)
    assert seen
    assert off(run) < 1e-9
    assert "shard 1 of 2 was lost" in run.result().note
    run.close()


@pytest.mark.parametrize("which", [1, 2])
def test_ctrl_c_ends_a_repair(cluster, monkeypatch, which):  # noqa: F811
    """What the actors have is summed anew before the run goes on."""
    run, get, calls = two_families(), Engine.get, []
    term, table = run.problem.terms[-1], run.state.tables[-1]
    killed(run, 0, 1)

    def late(self, asked, patience=np.inf):
        if patience < np.inf:  # of actors that begin
            calls.append(patience)
            if len(calls) == which:
                raise KeyboardInterrupt
        return get(self, asked, patience)

    monkeypatch.setattr(Engine, "get", late)
    with pytest.raises(KeyboardInterrupt):
        part_of(term, run.state.W, table.y)
    run.advance(iterations=3)
    assert len(calls) > which
    assert off(run) < 1e-9
    run.close()


@pytest.mark.parametrize("method", [cg.spdhg(first=0), cg.sag_cgal()])
def test_an_actor_is_lost_while_multipliers_are_scaled(cluster, method):  # noqa: F811
    """What is left of them is in dom h*, and summed anew."""
    run = two_families(method=method)
    term, table = run.problem.terms[-1], run.state.tables[-1]
    before = point_of(term, run.state.W, table.followed)
    killed(run, 0)
    term.passes.scale(table.followed, table.G, 0.5)
    after = point_of(term, run.state.W, table.followed)
    there = after != 0  # the rows of the actor that is left
    assert 0 < there.sum() < (before != 0).sum()
    assert (np.abs(after) <= 0.5 * np.abs(before)).all()
    run.advance(iterations=1)
    assert off(run) < 1e-9
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


def test_a_run_that_was_closed_does_not_go_on(cluster):  # noqa: F811
    run = two_families()
    run.close()
    left = run.advance(iterations=1).result()
    assert left.status is cg.Status.LOST
    assert "the run was closed" in left.note


def test_ray_does_not_keep_the_handlers_of_signals():
    """SIGTERM gives the best answer with a cluster, too."""
    before = signal.getsignal(signal.SIGTERM)
    with _as_it_was(False):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    assert signal.getsignal(signal.SIGTERM) is before
