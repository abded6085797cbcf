"""Signals while a recommender is fitted: there is a model as soon as an iteration was made."""

from __future__ import annotations

import json
import os
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import condgrad as cg
import processes
from condgrad import _keyboard
from condgrad.applications.choosing import Settings
from condgrad.applications.ratings import Observed
from condgrad.applications.recommender import fit_recommender
from condgrad.run.result import Status

SCRIPT = """
import os, signal, threading, time
from condgrad.applications.factor_fit import FactorFit
from condgrad.applications.residual import ResidualFit
from condgrad.cli import main

solve, sweep, calls = ResidualFit.solve, FactorFit.sweep, []

def slow(self, radius, **how):
    if calls[4:] and threading.current_thread() is threading.main_thread():
        time.sleep(60)  # as where the machine is busy
    return solve(self, radius, **how)

def impatient(self):
    calls.append(1)
    if len(calls) == 5:
        os.kill(os.getpid(), signal.SIGINT)
    sweep(self)

ResidualFit.solve, FactorFit.sweep = slow, impatient
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


@pytest.mark.parametrize("where", ["first", "choosing", "all ratings"])
def test_a_model_at_any_moment(monkeypatch, where):
    """Asked for in another thread, as by the one that watches where the fit does not come back."""
    state = _keyboard._State()
    state.armed = True
    monkeypatch.setattr(_keyboard, "_state", state)
    looks, parts, found = [], [""], []
    monkeypatch.setattr("condgrad._progress.part", parts.append)

    def ask():
        found.extend([state.root.any(), _keyboard.answer()])

    def look(run):
        if threading.current_thread() is not threading.main_thread():
            return
        looks.append(run)
        due = {"first": True, "choosing": len(looks) == 20, "all ratings": parts[-1] == where}
        if due[where] and not found and run.counts[0] > 1:
            asking = threading.Thread(target=ask)
            asking.start()
            asking.join()
            raise KeyboardInterrupt

    monkeypatch.setattr("condgrad._progress.look", look)
    data = ratings()
    fitted = fit_recommender(data, Settings(tol=1e-9))
    there, model = found
    assert there
    errors = [np.sqrt(np.mean(np.square(m.rate(*data[:2]) - data.values))) for m in (model, fitted)]
    for m in (model, fitted):
        assert m.result.status is Status.INTERRUPTED
    assert max(errors) < data.values.std()
    whole = 2 * np.square(model.rate(*data[:2], clipped=False) - data.values).sum() / 2
    assert model.result.objective == pytest.approx(whole, rel=1e-6)
