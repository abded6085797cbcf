"""Calls that make several runs go on from a checkpoint as if they had never stopped."""

import contextlib
import json
import os
from dataclasses import fields
from enum import Enum

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp

import condgrad as cg
from condgrad import _deadline, applications
from condgrad.applications import Application, large_max_cut
from condgrad.applications.graphs import adjacency_matrix
from condgrad.run.journal import Journal, Page
from condgrad.sdp import SDP
from condgrad.sklearn import MatrixCompletion, SDPKMeans
from saving import equal, graph


class Killed(BaseException):
    """As by SIGKILL: nobody catches it."""


@pytest.fixture
def kill(monkeypatch):
    """Writes at the n-th moment between two iterations, and two moments later ends the process."""
    left = [np.inf]

    def tick(journal):
        left[0] -= 1
        if left[0] == 2:
            journal.save()
        if left[0] <= 0:
            raise Killed

    monkeypatch.setattr(Journal, "tick", tick)
    monkeypatch.setattr(os, "fsync", lambda _: None)
    return lambda n: left.__setitem__(0, n)


def two_blocks():
    """A graph of two blocks that share a vertex, and both take some iterations."""
    A = np.zeros((20, 20))
    A[:12, :12] = nx.to_numpy_array(nx.random_regular_graph(3, 12, seed=0))
    A[11:, 11:] = nx.to_numpy_array(nx.random_regular_graph(4, 9, seed=0))
    return A


def points(n=24):
    rng = np.random.default_rng(3)
    return rng.standard_normal((n, 2)) + 2.0 * rng.integers(0, 2, (n, 1))


def program(bound=False):
    """A program whose trace bound is guessed, or none at all."""
    rng = np.random.default_rng(5)
    n = 8
    rows = [np.outer(a, a) for a in rng.standard_normal((6, n))]
    X = np.eye(n) + np.outer(*[rng.standard_normal(n)] * 2)
    sdp = SDP(np.diag(rng.uniform(0.5, 1.5, n)))
    for A in rows:
        sdp = sdp.subject_to(A, "==", float(np.vdot(A, X)))
    return sdp


def ratings():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, 2)) @ rng.standard_normal((2, 20))
    i, j = np.divmod(rng.permutation(600)[:300], 20)
    return np.c_[i, j], X[i, j]


def kmeans(**how):
    C = np.square(points()[:, None] - points()[None]).sum(axis=-1)
    return applications.kmeans(C, 2).run(gap=1e-3, **how).to_json()


def completed(**how):
    with cg.checkpoints(how.get("checkpoint"), resume=how.get("resume")):
        model = MatrixCompletion(max_iter=30).fit(*ratings())
    return {"found": model.predict(ratings()[0]), "radius": model.radius_}


def clustered(state=0, **how):
    with cg.checkpoints(how.get("checkpoint"), resume=how.get("resume")):
        model = SDPKMeans(3, gap=0.02, random_state=state).fit(points())
    return {"labels": model.labels_, "bound": model.lower_bound_}


def clustered_to(gap, **how):
    with cg.checkpoints(how.get("checkpoint"), resume=how.get("resume")):
        SDPKMeans(3, gap=gap, random_state=0).fit(points())


def cut_to(gap, **how):
    applications.sparsest_cut(graph(12)).run(gap=gap, **how)


def ring(n=60):
    A = graph(n, 6)
    return np.triu(A * (np.random.default_rng(1).random((n, n)) < 0.4), 1) + np.tril(
        A * (np.random.default_rng(1).random((n, n)) < 0.4).T, -1
    )


def large(**how):
    application = large_max_cut.LargeMaxCut(
        **{f.name: getattr(applications.max_cut(ring()), f.name) for f in fields(Application)},
        adjacency=adjacency_matrix(ring(), signed=True),
    )
    return application.run(gap=1e-6, **how)


def presolved(**how):
    graph = sp.csr_array(np.triu(np.random.default_rng(3).random((70, 70)) < 0.1, 1) * 1.0)
    return applications.max_cut(graph + graph.T, presolve=True).run(gap=1e-6, max_iter=60, **how)


DOORS = {
    "sparsest cut": lambda **how: cg.sparsest_cut(two_blocks(), gap=1e-4, max_seconds=None, **how),
    "max-cut": lambda **how: cg.max_cut(graph(30), gap=1e-5, max_seconds=None, **how),
    "max-cut by factors": large,
    "max-cut presolved": presolved,
    "k-means": kmeans,
    "sdp": lambda **how: program().solve(gap=1e-4, **how),
    "completion": completed,
    "clustering": clustered,
}


def numbers(answer):
    """All that an answer says, by name; seconds aside."""
    found = {}

    def enter(name, value):
        if name.endswith(("seconds", "profile", "clock", "fit_seconds", "resumed")):
            return
        if isinstance(value, cg.Trace):
            for column in value:
                enter(f"{name}.{column}", value[column])
        elif isinstance(value, dict):
            for key, part in value.items():
                enter(f"{name}.{key}", part)
        elif isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
            for i, part in enumerate(value):
                enter(f"{name}[{i}]", part)
        elif isinstance(value, (np.ndarray, str, int, float, type(None), Enum)):
            found[name] = value
        else:
            parts = value._asdict() if hasattr(value, "_asdict") else vars(value)
            for key, part in parts.items():
                enter(f"{name}.{key}", part)

    enter("answer", answer)
    return found


@pytest.mark.parametrize("name", DOORS)
def test_a_call_that_was_killed_goes_on_bit_for_bit(name, kill, tmp_path):
    door, path = DOORS[name], tmp_path / "kept"
    whole, killed = numbers(door()), 0
    for moment in (3, 20, 31):  # each counted from where the one before ended
        kill(moment)
        with contextlib.suppress(Killed):
            door(checkpoint=path, resume=True)
            continue
        killed += 1
    kill(np.inf)
    assert killed > 1
    for _ in range(2):  # the second time all is there
        found = numbers(door(checkpoint=path, resume=path))
        assert found.keys() == whole.keys()
        for key, value in whole.items():
            equal(value, found[key], key)


def test_a_run_that_was_over_does_not_go_on(kill, tmp_path):
    """The file is of a run that its own callback has ended, and of no later moment."""
    path, door = tmp_path / "kept", DOORS["sdp"]
    whole = door()
    kill(5)
    with pytest.raises(Killed):
        door(checkpoint=path)
    kill(np.inf)
    assert door(checkpoint=path, resume=path).bound == whole.bound


def test_a_cut_begun_in_a_hurry_goes_on_with_more_time(monkeypatch, tmp_path):
    path, how = tmp_path / "kept", {"gap": 1e-5, "max_seconds": 60.0}
    monkeypatch.setattr(_deadline, "fits", lambda seconds: False)
    cg.max_cut(graph(30), checkpoint=path, **how)
    monkeypatch.undo()
    found = cg.max_cut(graph(30), resume=path, **how)
    assert found.result.method == "mixing method"


def test_no_memory_for_a_checkpoint_costs_the_checkpoint_alone(monkeypatch, tmp_path):
    def full(self):
        raise MemoryError

    monkeypatch.setattr(Page, "pack", full)
    ring = np.roll(np.eye(9), 1, axis=0) + np.roll(np.eye(9), -1, axis=0)
    with pytest.warns(RuntimeWarning, match=r"could not be written \(MemoryError\)"):
        cut = cg.max_cut(ring, checkpoint=tmp_path / "a.ckpt", every=0)
    assert cut.value == 8


def test_a_seed_that_nobody_knows_is_kept(kill, tmp_path):
    path = tmp_path / "kept"
    kill(5)
    with contextlib.suppress(Killed):
        clustered(None, checkpoint=path)
    kill(np.inf)
    found, again = (clustered(None, checkpoint=path, resume=path) for _ in range(2))
    assert found["labels"].tolist() == again["labels"].tolist()
    assert found["bound"] == again["bound"]


@pytest.mark.parametrize("door", [clustered_to, cut_to])
def test_another_gap_is_refused_as_the_user_gave_it(door, tmp_path):
    """The run behind it has another one, or none."""
    door(0.02, checkpoint=tmp_path / "kept")
    with pytest.raises(cg.InputError, match=r"gap is 0\.03 here and was 0\.02"):
        door(0.03, resume=tmp_path / "kept")


def test_the_command_goes_on(run, tmp_path):
    kept, out = tmp_path / "kept", tmp_path / "out.json"

    def solved(iterations, *more):
        how = ["--iterations", iterations, "--quiet", "--json", out, "--gap", 1e-9]
        code, _, err = run("solve", "sparsest-cut", "petersen", *how, *more)
        assert (code, err) == (0, "")
        found = json.loads(out.read_text())
        return {n: v for n, v in found.items() if n not in ("seconds", "profile", "command")}

    whole = solved(40)
    solved(15, "--checkpoint", kept)
    assert solved(40, "--resume", kept) == whole
    kept.unlink()
    again = ["--checkpoint", kept, "--resume", kept]
    code, _, err = run("solve", "sparsest-cut", "petersen", *again)
    assert code == 2
    assert "which is not there" in err
    solved(15, *again, "--resume-or-start")
    assert solved(40, *again, "--resume-or-start", "--every", 5) == whole
    code, _, err = run("solve", "sparsest-cut", "karate_club", "--gap", 1e-9, *again)
    assert code == 2
    assert "something else" in err
    code, _, err = run("solve", "sparsest-cut", "petersen", "--quiet", "--checkpoint", kept)
    assert code == 0
    assert f"{kept} is there already and will be written over" in err
    assert f"--resume {kept}" in err
    kept.write_bytes(kept.read_bytes()[:-9])
    code, _, err = run("solve", "sparsest-cut", "petersen", "--gap", 1e-9, *again)
    assert code == 2
    assert "damaged" in err
