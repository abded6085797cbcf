"""`SDPKMeans` and `certify` with weights of the points."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from sklearn.base import clone

from condgrad import ProblemError
from condgrad.sklearn import SDPKMeans, certify
from partitioned import blobs


def every_inertia(X, k, a):
    """The inertia by weight of every partition into at most k clusters."""
    every = np.array(list(itertools.product(range(k), repeat=len(X))))
    found = np.zeros(len(every))
    for j in range(k):
        part = (every == j) * a
        size = part.sum(axis=1)
        means = part @ X / np.where(size > 0, size, 1.0)[:, None]
        found += part @ (X**2).sum(axis=1) - size * (means**2).sum(axis=1)
    return found


@pytest.mark.parametrize("tight", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_weighted_clusterings_by_brute_force(seed, tight):
    rng, k = np.random.default_rng(seed), 2 + seed % 2
    X, a = rng.normal(size=(8, 2)), rng.choice([0.01, 0.5, 1.0, 3.0, 400.0], 8)
    model = SDPKMeans(k, gap=1e-3, random_state=0, max_iter=2000, tight=tight)
    model.fit(X, sample_weight=a)
    best = every_inertia(X, k, a).min()
    assert model.lower_bound_ <= best * (1 + 1e-12)
    assert model.inertia_ == pytest.approx(best)
    assert model.score(X, sample_weight=a) == pytest.approx(-best, abs=1e-9 * a.sum())
    parts = [model.labels_ == j for j in range(k)]
    centres = [np.average(X[part], axis=0, weights=a[part]) for part in parts]
    assert np.allclose(model.cluster_centers_, centres)
    proof = certify(X, model.labels_, sample_weight=a, tight=tight, gap=1e-3, max_iter=2000)
    assert proof.inertia == pytest.approx(best)
    assert proof.bound <= best * (1 + 1e-12)
    assert proof.bound > 0.7 * best


def test_weights_are_copies_of_points_and_none_is_no_point():
    X, _ = blobs(12)
    counts = np.array([1, 0, 2, 3] * 9)
    model = SDPKMeans(3, gap=1e-3, random_state=0)
    by_weight = clone(model).fit(X, sample_weight=counts)
    copies = clone(model).fit(np.repeat(X, counts, axis=0))
    assert by_weight.inertia_ == pytest.approx(copies.inertia_)
    assert by_weight.lower_bound_ == pytest.approx(copies.lower_bound_, rel=1e-2)
    assert np.repeat(by_weight.labels_, counts).tolist() == copies.labels_.tolist()
    assert by_weight.labels_.tolist() == by_weight.predict(X).tolist()
    scaled = clone(model).fit(X, sample_weight=1e-30 * counts)
    assert scaled.inertia_ == pytest.approx(1e-30 * by_weight.inertia_)


@pytest.mark.parametrize(
    ("weights", "words"),
    [
        ([1.0, -1, 1, 1], "negative"),
        ([0.0] * 4, "zero for all"),
        ([1e-20, 1, 1, 1], "spreads"),
        ([0.0, 0, 0, 1], "at most n_samples=1"),
    ],
)
def test_weights_that_cannot_be(weights, words):
    with pytest.raises(ProblemError, match=words):
        SDPKMeans(2).fit(np.arange(8.0).reshape(4, 2), sample_weight=weights)
