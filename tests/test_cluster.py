"""Rows dealt to the actors of a Ray cluster: the same run, and what faults do to it."""

import functools
import os
import signal
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import condgrad as cg
import processes
from condgrad import Problem, Term, applications, domains, functions, maps
from condgrad.backends.arrays import host
from condgrad.certificate import lower_bound
from condgrad.cluster import Engine, Ray, Table, cluster_of
from condgrad.errors import InputError, ProblemError
from stand_in import alike, ndarray

try:
    import ray
except ImportError:
    ray = None

pytestmark = pytest.mark.xdist_group("ray")
needs_ray = pytest.mark.skipif(
    ray is None, reason="Ray is not installed: pip install 'condgrad[ray]'"
)


@pytest.fixture(scope="module")
def cluster():
    """A cluster on this machine, small and silent."""
    quiet = {"include_dashboard": False, "log_to_driver": False, "logging_level": "ERROR"}
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    ray.init(address="local", num_cpus=4, object_store_memory=150_000_000, **quiet)
    yield
    ray.shutdown()


def graph(n, seed=0):
    rng = np.random.default_rng(seed)
    A = np.triu(rng.random((n, n)) < 0.3, 1).astype(float)
    A += np.diag(np.ones(n - 1), 1)
    return np.minimum(A, 1) + np.minimum(A, 1).T


def asked(n=24, method=cg.spdhg, **more):
    """What to solve."""
    found = applications.sparsest_cut(graph(n))
    how = {"start": found.start, "gap": 1e-3, "max_iter": 400, "n_jobs": 1, **more}
    return found.problem, method(), how


def solved(n=24, method=cg.spdhg, **more):
    problem, method, how = asked(n, method, **more)
    return cg.solve(problem, method, **how)


def started(n=24, method=cg.spdhg, **more):
    problem, method, how = asked(n, method, **more)
    return cg.start(problem, method, **{k: v for k, v in how.items() if k != "max_iter"})


@functools.cache
def local(method=cg.spdhg):
    return solved(method=method)


@needs_ray
@pytest.mark.parametrize("method", [cg.spdhg, cg.sag_cgal])
def test_one_shard_has_the_bits_of_the_local_run(cluster, method):
    here, there = local(method), solved(method=method, cluster=Ray(shards=1))
    assert here.status is cg.Status.CONVERGED
    assert np.array_equal(here.W, there.W)
    same = ("lower_bound", "gap", "iterations", "rows", "objective")
    assert [getattr(there, n) for n in same] == [getattr(here, n) for n in same]


@needs_ray
def test_several_shards_are_the_local_run_up_to_the_order_of_sums(cluster):
    here = local()
    first, again = (solved(cluster=Ray(shards=3)) for _ in range(2))
    assert np.array_equal(first.W, again.W)
    assert first.lower_bound == again.lower_bound
    assert first.iterations == here.iterations
    np.testing.assert_allclose(first.W, here.W, atol=1e-9)
    assert first.lower_bound == pytest.approx(here.lower_bound, rel=1e-9)
    assert first.note == ""


@needs_ray
def test_two_families(cluster):
    """Max-cut has triangles and perimeters."""
    application = applications.max_cut(graph(16), triangles=True)
    how = {"start": application.start, "gap": 1e-3, "max_iter": 3000, "n_jobs": 1}
    here = cg.solve(application.problem, **how)
    there = cg.solve(application.problem, cluster=Ray(shards=2), **how)
    assert there.status is here.status is cg.Status.CONVERGED
    assert there.lower_bound <= here.objective + 2e-3 * abs(here.objective)
    assert here.lower_bound <= there.objective + 2e-3 * abs(here.objective)


@needs_ray
@pytest.mark.parametrize("method", [cg.spdhg, cg.sag_cgal])
def test_w_on_a_gpu_and_rows_at_actors(cluster, monkeypatch, tmp_path, method):
    """On the stand-in: what travels is NumPy's, and tables stay where they are."""
    here = local(method)
    with alike(monkeypatch):
        run = started(method=method, cluster=Ray(shards=2), device="cuda")
        run.advance(iterations=10).save(tmp_path / "run.ckpt")
        term, table, W = run.problem.terms[-1], run.state.tables[-1], run.state.W
        assert all(isinstance(x, ndarray) for x in (W, table.G))
        assert isinstance(lower_bound.part_of(term, W, table.y).v, ndarray)
        assert off(run) < 1e-5 * np.abs(table.G.get()).max()
        assert term.violation(W, 1.0).l2 == pytest.approx(
            term.alone.violation(W.get(), 1.0).l2, rel=1e-6
        )
        killed(run)
        end = run.advance(until=cg.Goal(gap=1e-3)).result()
        run.close()
        assert end.device == "cuda (stand-in)"
        assert "shard 1 of 2 was lost" in end.note
        again = cg.resume(tmp_path / "run.ckpt", asked()[0], cluster=Ray(shards=2))
        found = again.advance(until=cg.Goal(gap=1e-3)).result()
        again.close()
    for result in (end, found):
        assert result.status is cg.Status.CONVERGED
        assert isinstance(result.W, np.ndarray)
        assert result.lower_bound <= here.objective * (1 + 2e-3)
        assert here.lower_bound <= result.objective * (1 + 2e-3)


def followed(table):
    """The multipliers whose cotangent the driver has."""
    return table.followed


def off(run):
    """How far cotangents at the driver are from those of the tables at the actors."""
    worst = 0.0
    for term, table in zip(run.problem.terms, run.state.tables, strict=True):
        if isinstance(table.y, Table):
            y = lower_bound.point_of(term, run.state.W, followed(table))
            G = term.alone.map.zeros()
            term.alone.map.scatter(G, slice(0, term.map.size), y)
            worst = max(worst, np.abs(host(table.G) - G).max())
    return worst


def held(run):
    """What the actors hold is what the bound and the direction are of."""
    term, W, y = run.problem.terms[-1], run.state.W, followed(run.state.tables[-1])
    point, part = lower_bound.point_of(term, W, y), lower_bound.part_of(term, W, y)
    v = term.weight * term.alone.map.adjoint(point)
    np.testing.assert_allclose(part.v, v, atol=1e-11)
    return point


# Faults.


def killed(run, *numbers):
    """Kill actors, the first one by default, and wait until they are gone."""
    facts = run._engine.facts
    for pid in [facts[number][1] for number in numbers or (0,)]:
        os.kill(pid, signal.SIGKILL)
        for _ in range(100):
            try:
                os.kill(pid, 0)
            except ProcessLookupError:
                break
            time.sleep(0.05)


@needs_ray
def test_actors_that_die_begin_anew_and_bounds_hold(cluster, monkeypatch):
    run = started(cluster=Ray(shards=2))
    run.advance(iterations=6)
    term, table, engine = run.problem.terms[-1], run.state.tables[-1], run._engine
    sizes = [part.size for part in engine.ask(term.name, "fetch", table.y)]
    assert sum(sizes) == term.map.size
    assert max(sizes) <= 0.51 * term.map.size
    before, send, seen = held(run), type(engine)._asked, []
    assert off(run) < 1e-9

    def once(self, *args):
        if not seen:
            seen.append(killed(run, 1))
        return send(self, *args)

    with monkeypatch.context() as patch:  # while a bound is computed
        patch.setattr(type(engine), "_asked", once)
        lower_bound.part_of(term, run.state.W, table.y)
    assert seen
    after = held(run)
    assert "shard 2 of 2 was lost" in run.result().note
    assert "empty multipliers" in run.result().note
    assert 0 < np.count_nonzero(after) < np.count_nonzero(before)
    seen.clear()
    with monkeypatch.context() as patch:  # while the point is judged
        patch.setattr(type(engine), "_asked", once)
        found = term.violation(run.state.W, 1.0)
    assert found.l2 == pytest.approx(term.alone.violation(run.state.W, 1.0).l2)
    killed(run)  # before a pass
    run.advance(iterations=1)
    held(run)
    assert off(run) < 1e-9
    end = run.advance(until=cg.Goal(gap=1e-3)).result()
    assert end.status is cg.Status.CONVERGED
    assert end.lower_bound <= local().objective * (1 + 2e-3)
    assert "shard 1 of 2 was lost" in end.summary()

    pid = engine.facts[0][1]
    os.kill(pid, signal.SIGSTOP)  # an actor that hangs does not hold up the clock
    try:
        late = run.advance(seconds=1, until=cg.Goal(gap=1e-9))
        assert late.result().status is cg.Status.MAX_SECONDS
    finally:
        os.kill(pid, signal.SIGCONT)
    run.advance(iterations=1)
    assert off(run) < 1e-9

    def broken(self, numbers):
        raise ray.exceptions.RaySystemError("no room")

    monkeypatch.setattr(type(engine), "_start", broken)
    killed(run)
    last = run.advance(until=cg.Goal(gap=1e-12)).result()
    run.close()
    assert last.status is cg.Status.LOST
    assert last.lower_bound >= end.lower_bound
    assert "could not be brought back" in last.note


@needs_ray
@pytest.mark.parametrize("method", [cg.spdhg, cg.sag_cgal])
@pytest.mark.parametrize("shards", [1, 2])
def test_a_driver_that_dies_goes_on_from_its_checkpoint(cluster, tmp_path, method, shards):
    wish = Ray(shards=shards)
    run = started(method=method, cluster=wish, gap=1e-9)
    run.advance(iterations=9).save(tmp_path / "run.ckpt")
    whole = run.advance(iterations=8).result()
    run.close()
    again = cg.resume(tmp_path / "run.ckpt", asked()[0], n_jobs=1, cluster=wish)
    found = again.advance(iterations=8).result()
    again.close()
    assert found.resumed == 9
    assert np.array_equal(found.W, whole.W)
    assert found.lower_bound == whole.lower_bound


@needs_ray
def test_a_checkpoint_wants_its_number_of_shards(cluster, tmp_path):
    problem, method, how = asked(max_iter=5)
    file, wish = tmp_path / "run.ckpt", Ray(shards=1)
    cg.solve(problem, method, cluster=wish, checkpoint=file, **how)
    with pytest.raises(ProblemError, match="with 1 shards: pass cluster=Ray"):
        cg.resume(file, problem)
    with pytest.raises(ProblemError, match="with 1 shards"):
        cg.resume(file, problem, cluster=Ray(shards=3))
    with pytest.raises(InputError, match="shards"):
        cg.solve(problem, method, cluster=Ray(shards=2), resume=file, **how)
    how["max_iter"] = 10
    found = cg.solve(problem, method, cluster=wish, resume=file, **how)
    assert (found.resumed, found.iterations) == (5, 10)


# Wishes that cannot be met.


LISTENING = """
import contextlib, ipaddress, os, sys
from pathlib import Path

import numpy as np

import condgrad as cg
from condgrad import applications


def family():
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            parents[stat.parent.name] = stat.read_text().rpartition(")")[2].split()[1]
    found = {str(os.getpid())}
    while more := {child for child, parent in parents.items() if parent in found} - found:
        found |= more
    return found


def sockets():
    for process in family():
        for link in Path("/proc", process, "fd").glob("*"):
            with contextlib.suppress(OSError):
                yield os.readlink(link)


def address(text):
    words = (int(text[i : i + 8], 16) for i in range(0, len(text), 8))
    found = ipaddress.ip_address(b"".join(word.to_bytes(4, sys.byteorder) for word in words))
    return getattr(found, "ipv4_mapped", None) or found


problem = applications.sparsest_cut(1 - np.eye(12)).problem
run = cg.start(problem, cg.spdhg(), cluster=CLUSTER, n_jobs=1).advance(iterations=2)
own = set(sockets())
for table in ("/proc/net/tcp", "/proc/net/tcp6"):
    for line in Path(table).read_text().splitlines()[1:] if Path(table).exists() else ():
        _, local, _, state, *_, inode = line.split()[:10]
        if state == "0A" and f"socket:[{inode}]" in own:
            found = address(local.partition(":")[0])
            print("listens", "alone" if found.is_loopback else found)
run.close()
"""


@needs_ray
@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="no /proc/net/tcp tells who listens")
@pytest.mark.parametrize("asked_for", ["'local'", "cg.cluster.Ray(shards=2)"])
def test_on_one_machine_it_listens_on_loopback_only(asked_for):
    program = LISTENING.replace("CLUSTER", asked_for)
    source = str(Path(cg.__file__).parents[1])
    home = {k: v for k, v in os.environ.items() if k != "RAY_ADDRESS"} | {"PYTHONPATH": source}
    done = processes.run(sys.executable, "-c", program, env=home)
    assert done.returncode == 0, done.stderr
    listening = [line for line in done.stdout.splitlines() if line.startswith("listens")]
    assert len(listening) >= 3  # the driver, Ray's directory, and what starts actors
    assert set(listening) == {"listens alone"}


def test_wishes_are_checked():
    for bad in ({"shards": 0}, {"shards": 1.5}, {"gpus_per_shard": -1}, {"address": 3}):
        with pytest.raises(ProblemError, match=f"^{next(iter(bad))} is "):
            Ray(**bad)
    for bad in ("rays", 3):
        with pytest.raises(ProblemError, match=r"^cluster is"):
            cluster_of(bad)
    with pytest.raises(ProblemError, match="leave device out"):
        solved(cluster="local", device="auto")


def test_without_ray_it_is_one_sentence(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ProblemError, match="not installed: pip install 'condgrad\\[ray\\]'"):
        solved(cluster="ray")


@needs_ray
def test_an_address_where_nobody_listens(monkeypatch):
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    for address in ("127.0.0.1:1", "ray://127.0.0.1:1", "ray://127.0.0.1", "127.0.0.1:x"):
        with pytest.raises(ProblemError, match="nothing answers at the address"):
            solved(cluster=address)


class Unsendable(maps.Triangles):
    """A map with something that cannot be copied to another process."""

    def __init__(self, n):
        super().__init__(n)
        self.file = sys.stderr.buffer


@needs_ray
def test_what_cannot_be_dealt(cluster):
    n = 8
    C = np.random.default_rng(0).standard_normal((n, n))
    cost = Term(maps.Inner(C + C.T), functions.Linear(), name="cost")
    domain = domains.Spectrahedron(n, 2.0, equality=True)

    def refused(sentence, rows, method=None, shards=2):
        problem = Problem(domain, [cost, rows])
        with pytest.raises(ProblemError, match=sentence):
            cg.solve(problem, method, max_iter=5, cluster=Ray(shards=shards))

    triangles = Term(maps.Triangles(n), functions.AtMost(0.1), name="triangles")
    refused("nothing to deal", Term(maps.Diagonal(n), functions.Equal(0.25)))
    refused("cannot be dealt to a cluster: use condgrad.spdhg", triangles, cg.cgal(beta0=1.0))
    refused("9 shards need 9 CPUs", triangles, shards=9)
    group = Term(maps.Triangles(n), functions.L2Ball(1.0), name="triangles")
    refused("cannot be dealt to 2 shards one by one", group, cg.sag_cgal())
    own = Term(Unsendable(n), functions.AtMost(0.1), name="own")
    refused("cannot be sent to other processes", own, cg.sag_cgal())
    few = Term(maps.DataMatrix(np.eye(3, 2)), functions.AtMost(0.9), name="few")
    few = Problem(domains.Simplex(2), [few])
    with pytest.raises(ProblemError, match=r"3 rows of term 'few' .* to 4 shards"):
        cg.solve(few, cg.sag_cgal(), max_iter=5, cluster=Ray(shards=4))


@needs_ray
def test_no_memory_on_a_node_is_one_sentence(cluster, monkeypatch):
    problem, method, how = asked()
    begin = Engine.begin

    def much(self, terms, needed, remedy):
        begin(self, terms, 1 << 60, remedy)

    monkeypatch.setattr(Engine, "begin", much)
    with pytest.raises(ProblemError, match=r"needs .* GiB .* each shard's part of the memory"):
        cg.solve(problem, method, cluster=Ray(shards=2), **how)
