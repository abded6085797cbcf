"""Recommenders that the command saved, read again."""

from __future__ import annotations

import csv

import numpy as np
import pytest

import condgrad
from condgrad import InputError, ProblemError


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A file of ratings, and how to write it."""
    folder = tmp_path_factory.mktemp("saved")
    rng = np.random.default_rng(0)
    truth = 3 + rng.normal(size=(30, 2)) @ rng.normal(size=(2, 20)) / 2
    at = np.nonzero(rng.random(truth.shape) < 0.6)
    lines = [f"{i},film {j},{truth[i, j]:.3f}" for i, j in zip(*at, strict=True)]
    (folder / "r.csv").write_text("\n".join(["user,item,rating", *lines]))
    return folder


def test_it_predicts_as_the_command_did(run, saved):
    files = ("--save", saved / "m.npz", "--predictions", saved / "p.csv")
    code, _, err = run("solve", "matrix-completion", saved / "r.csv", "--holdout", 0.2, *files)
    assert (code, err) == (0, "")
    with (saved / "p.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    model = condgrad.load_model(saved / "m.npz")
    users, items = [int(row["user"]) for row in rows], [row["item"] for row in rows]
    expected = [float(row["prediction"]) for row in rows]
    np.testing.assert_allclose(model.predict(users, items), expected, rtol=1e-12)
    assert repr(model).startswith(f"SavedModel(users={model.users.size}, items=20, factors=")
    new = model.predict(["nobody", users[0], "nobody"], [items[0], "no film", "no film"])
    known = [
        model.mean + model.item_biases[list(model.items).index(items[0])],
        model.mean + model.user_biases[list(model.users).index(str(users[0]))],
        model.mean,
    ]
    np.testing.assert_allclose(new, np.clip(known, *model.bounds))
    for missing in (None, np.nan):
        with pytest.raises(ProblemError, match="None or NaN for a user"):
            model.predict(["1", missing], "film 1")


def test_a_run_without_a_model_is_refused(run, saved):
    assert run("solve", "max-cut", "petersen", "--save", saved / "cut.npz")[0] == 0
    with pytest.raises(InputError, match=r"cut.npz: this run has no model: .*matrix-completion"):
        condgrad.load_model(saved / "cut.npz")
