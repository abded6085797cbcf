"""Rows at actors on a GPU, which share one where there are no more."""

import os
import signal

import numpy as np
import pytest

import condgrad as cg
from condgrad import applications
from condgrad.cluster import Ray
from on_gpu import gpu, planted

cupy = gpu()
ray = pytest.importorskip("ray", reason="Ray is not installed: pip install 'condgrad[ray]'")
HALVES = Ray(shards=2, gpus_per_shard=0.4)


@pytest.fixture(scope="module", autouse=True)
def cluster():
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    quiet = {"include_dashboard": False, "log_to_driver": False, "logging_level": "ERROR"}
    ray.init(address="local", num_cpus=4, num_gpus=1, object_store_memory=400_000_000, **quiet)
    yield
    ray.shutdown()


def asked(name):
    """What to solve; max-cut has two families of rows, and is left before it is done."""
    if name == "max_cut":
        found, most = applications.max_cut(planted(70), triangles=True), 300
    else:
        found, most = applications.sparsest_cut(planted(150)), 4000
    return found.problem, {"start": found.start, "gap": 1e-3, "max_iter": most}


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("name", ["sparsest_cut", "max_cut"])
def test_actors_on_a_gpu_prove_what_the_gpu_proves(name, device):
    problem, how = asked(name)
    alone = cg.solve(problem, cg.spdhg(), device="cuda", **how)
    found = [cg.solve(problem, cg.spdhg(), device=device, cluster=HALVES, **how) for _ in range(2)]
    assert alone.status is found[0].status
    assert name == "max_cut" or alone.status is cg.Status.CONVERGED
    assert found[0].device.startswith(device)
    close = 0.02 if name == "max_cut" else 2e-3
    assert found[0].lower_bound == pytest.approx(alone.lower_bound, rel=close)
    assert found[0].lower_bound == found[1].lower_bound
    assert np.array_equal(found[0].W, found[1].W)


def test_an_actor_on_a_gpu_is_killed():
    problem, how = asked("sparsest_cut")
    del how["max_iter"]
    run = cg.start(problem, cg.spdhg(), device="cuda", cluster=HALVES, **how)
    run.advance(iterations=10)
    os.kill(run._engine.facts[1][1], signal.SIGKILL)
    end = run.advance(until=cg.Goal(gap=1e-3)).result()
    run.close()
    assert end.status is cg.Status.CONVERGED
    assert "shard 2 of 2 was lost" in end.note
