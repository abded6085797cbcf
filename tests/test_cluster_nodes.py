"""A cluster of several nodes, of which some are lost."""

import os
import time

import networkx as nx
import pytest

import condgrad as cg
from condgrad import applications
from condgrad.cluster import Ray

ray = pytest.importorskip("ray", reason="Ray is not installed: pip install 'condgrad[ray]'")
pytestmark = pytest.mark.xdist_group("ray")
SOON = {
    "health_check_initial_delay_ms": 0,
    "health_check_period_ms": 200,
    "health_check_timeout_ms": 2000,
    "health_check_failure_threshold": 3,
}
"""A lost node is noticed within a second, not after a quarter of a minute."""


@pytest.fixture
def nodes():
    """A driver's node without CPUs, and two for an actor each, or for both."""
    from ray.cluster_utils import Cluster

    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    small = {"include_dashboard": False, "object_store_memory": 80_000_000}
    cluster = Cluster(True, head_node_args={"num_cpus": 0, "_system_config": SOON, **small})
    cluster.own = [cluster.add_node(num_cpus=2, **small) for _ in range(2)]
    ray.init(address=cluster.address, log_to_driver=False, logging_level="ERROR")
    yield cluster
    ray.shutdown()
    cluster.shutdown()


def lost(cluster, place):
    """Take a node away, and wait until the cluster has noticed."""
    node = next(n for n in cluster.own if n.node_id == place)
    cluster.remove_node(node, allow_graceful=False)
    for _ in range(600):
        if not any(n["NodeID"] == place and n["Alive"] for n in ray.nodes()):
            return
        time.sleep(0.1)
    raise AssertionError("the node is still there")


def places_of(run):
    """The nodes of the actors."""
    return [place.split()[0] for place, *_ in run._engine.facts.values()]


def test_a_lost_node_and_then_all_of_them(nodes, monkeypatch):
    monkeypatch.setattr("condgrad.cluster.engine.PATIENCE", 60.0)
    A = nx.to_numpy_array(nx.random_regular_graph(3, 24, seed=1))
    found = applications.sparsest_cut(A)
    how = {"start": found.start, "gap": 1e-3, "n_jobs": 1}
    here = cg.solve(found.problem, cg.spdhg(), max_iter=2000, **how)
    wish = Ray(shards=2)
    run = cg.start(found.problem, cg.spdhg(), cluster=wish, **how).advance(iterations=8)
    places = places_of(run)
    assert len(set(places)) == 2  # the actors are spread
    lost(nodes, places[0])
    end = run.advance(until=cg.Goal(gap=1e-3)).result()
    assert end.status is cg.Status.CONVERGED
    assert "shard 1 of 2 was lost" in end.note
    assert end.lower_bound <= here.objective * (1 + 2e-3)
    assert places_of(run) == [places[1]] * 2

    monkeypatch.setattr("condgrad.cluster.engine.PATIENCE", 1.0)
    lost(nodes, places[1])
    last = run.advance(until=cg.Goal(gap=1e-13)).result()
    assert last.status is cg.Status.LOST
    assert last.lower_bound >= end.lower_bound
    assert "could not be brought back" in last.note
    run.close()
