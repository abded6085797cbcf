"""Signals while a recommender is fitted: there is a model as soon as an iteration was made."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import numpy as np
import pytest

import condgrad as cg
import processes
from condgrad.applications.choosing import Settings
from condgrad.applications.ratings import Observed
from condgrad.applications.recommender import fit_recommender
from condgrad.run.result import Status

SCRIPT = """
import os, signal
from condgrad.applications.factor_fit import FactorFit
from condgrad.cli import main

sweep, calls = FactorFit.sweep, []

def impatient(self):
    calls.append(1)
    if len(calls) == 5:
        os.kill(os.getpid(), signal.SIGINT)
    sweep(self)

FactorFit.sweep = impatient
main()
"""


def ratings():
    rng = np.random.default_rng(0)
    truth = 3 + rng.normal(size=(30, 2)) @ rng.normal(size=(2, 20))
    i, j = np.nonzero(rng.random(truth.shape) < 0.6)
    return Observed(i, j, truth[i, j], truth.shape)


@pytest.mark.skipif(os.name != "posix", reason="needs signals of POSIX")
def test_the_command_gives_the_model_there_is(tmp_path):
    (tmp_path / "condgrad").write_text(SCRIPT)
    lines = [f"u{i},v{j},{value:.3f}" for i, j, value in zip(*ratings()[:3], strict=True)]
    (tmp_path / "r.csv").write_text("\n".join(["user,item,rating", *lines]))
    args = ("solve", "matrix-completion", "r.csv", "--json", "r.json", "--save", "r.npz")
    done = processes.run(
        *(sys.executable, str(tmp_path / "condgrad"), *args, "--gap", "1e-9"),
        env={**os.environ, "PYTHONPATH": str(Path(cg.__file__).parents[1])},
        cwd=tmp_path,
    )
    assert (done.returncode, done.stderr) == (130, "")
    assert "mean, biases and" in done.stdout
    assert json.loads((tmp_path / "r.json").read_text())["status"] == "interrupted"
    with np.load(tmp_path / "r.npz", allow_pickle=False) as file:
        assert any("factors" in name for name in file.files)


@pytest.mark.parametrize("where", ["first", "choosing", "all ratings", "again"])
def test_a_model_at_any_moment(monkeypatch, where):
    looks, parts = [], [""]
    monkeypatch.setattr("condgrad._progress.part", parts.append)

    def look(run):
        looks.append(run)
        due = {"first": len(looks) == 2, "choosing": len(looks) == 20}
        due["all ratings"] = parts[-1] == "all ratings" and not due["first"]
        if due.get(where, False):
            raise KeyboardInterrupt

    def again(what, **_):
        if where == "again" and what.startswith("fitting the factors again"):
            raise KeyboardInterrupt

    monkeypatch.setattr("condgrad._progress.look", look)
    monkeypatch.setattr("condgrad._progress.doing", again)
    data = ratings()
    model = fit_recommender(data, Settings(tol=1e-9))
    assert model.result.status is Status.INTERRUPTED
    assert np.sqrt(np.mean(np.square(model.rate(*data[:2]) - data.values))) < data.values.std()
    whole = 2 * np.square(model.rate(*data[:2], clipped=False) - data.values).sum() / 2
    assert model.result.objective == pytest.approx(whole, rel=1e-6)
