"""SIGKILL of actors and of the driver at random moments of runs on a cluster."""

import json
import os
import signal
import sys
import threading
import time

import networkx as nx
import pytest

import condgrad as cg
import processes
from condgrad.cluster import Engine, Ray

ray = pytest.importorskip("ray", reason="Ray is not installed: pip install 'condgrad[ray]'")
GAP = 1e-3


@pytest.fixture(scope="module")
def address():
    """A cluster on this machine."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    quiet = {"include_dashboard": False, "log_to_driver": False, "logging_level": "ERROR"}
    ray.init(address="local", num_cpus=2, object_store_memory=200_000_000, **quiet)
    yield ray.get_runtime_context().gcs_address
    ray.shutdown()


def graph(n=60):
    return nx.random_regular_graph(3, n, seed=1)


def cut(**more):
    return cg.sparsest_cut(graph(), gap=GAP, max_seconds=None, **more)


@pytest.fixture(scope="module")
def true():
    """A cut and a bound that are near each other."""
    return cg.sparsest_cut(graph(), gap=1e-5, max_seconds=None)


def test_actors_killed_at_random_moments(address, true, rng, many, monkeypatch):
    """A moment is a question to the actors, and some milliseconds after it went out."""
    wish = Ray(shards=2)
    send, moment = Engine._asked, {"asked": 0, "kill": None}

    def counted(self, *args):
        moment["asked"] += 1
        found = send(self, *args)
        if moment["asked"] == moment["kill"]:
            pid = self.facts[moment["victim"]][1]
            threading.Timer(moment["after"], os.kill, (pid, signal.SIGKILL)).start()
        return found

    monkeypatch.setattr(Engine, "_asked", counted)
    cut(cluster=wish)
    whole, lost = moment["asked"], 0
    for _ in range(many(10)):
        kill = int(rng.integers(1, whole))
        moment.update(asked=0, kill=kill, victim=int(rng.integers(2)), after=rng.uniform(0, 0.02))
        found = cut(cluster=wish)
        note, lost = found.result.note, lost + ("was lost" in found.result.note)
        print(f"question {kill} of {whole}: {found.status.name}, gap {found.gap:.2e}; {note}")
        assert found.status is cg.Status.CONVERGED
        assert found.gap <= GAP
        assert found.bound <= true.value
        assert found.value >= true.bound
    assert lost > 0


def test_the_driver_killed_and_resumed(address, true, rng, many, tmp_path):
    file, kept, out = tmp_path / "graph.edges", tmp_path / "kept", tmp_path / "out.json"
    edges = [f"{a + 1} {b + 1}" for a, b in graph().edges]
    file.write_text("\n".join([f"60 {len(edges)}", *edges]) + "\n")
    program = [sys.executable, "-m", "condgrad", "solve", "sparsest-cut", str(file), "--quiet"]
    program += ["--gap", str(GAP), "--cluster", address, "--shards", "2", "--json", str(out)]
    program += ["--checkpoint", str(kept), "--every", "0.05", "--resume", str(kept)]
    program += ["--resume-or-start"]
    for _ in range(many(3)):
        with processes.started(*program, stdout=processes.DEVNULL) as process:
            while process.poll() is None and not kept.exists():
                time.sleep(0.05)
            time.sleep(rng.uniform(0, 3))
    assert kept.exists()
    done = processes.run(*program)
    assert done.returncode == 0, done.stderr
    found = json.loads(out.read_text())
    assert found["status"] == "converged"
    assert found["rounded"]["bound"] <= true.value
    assert found["rounded"]["value"] >= true.bound
    assert found["rounded"]["gap"] <= GAP
