from __future__ import annotations

import importlib
import itertools
import sys
import warnings
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import condgrad.sklearn
from condgrad import ProblemError, Status, datasets, solve
from condgrad._round import percent
from condgrad.backends import memory
from condgrad.sklearn import CorrelationClustering, MatrixCompletion, SDPKMeans, certify
from partitioned import best_inertia, blobs, inertia

QUICK = SDPKMeans(gap=0.1, max_iter=10)


NUMBERED = "clusters are numbered by their first points, which the check puts in another order"


@parametrize_with_checks(
    [QUICK],
    expected_failed_checks=lambda _: {"check_sample_weight_equivalence_on_dense_data": NUMBERED},
)
def test_check_estimator(estimator, check):
    """One is expected to fail; the check of array API input skips itself without that setting."""
    assert check(estimator) is None


def test_without_scikit_learn_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.utils.validation", None)
    with pytest.raises(ImportError, match=r"install condgrad\[sklearn\]") as error:
        importlib.reload(condgrad.sklearn)
    assert "1.6" in str(error.value)


def test_separated_clusters_are_found_and_proved_optimal():
    X, truth = blobs()
    model = SDPKMeans(3, gap=1e-4, random_state=0).fit(X)
    np.testing.assert_array_equal(model.labels_, truth)
    assert model.optimality_gap_ <= 1e-4
    assert model.result_.status is Status.CONVERGED
    assert model.n_iter_ == model.result_.iterations >= 1
    np.testing.assert_allclose(model.cluster_centers_[1], X[truth == 1].mean(axis=0))


@pytest.mark.parametrize("seed", range(8))
def test_bound_against_every_partition(seed):
    rng = np.random.default_rng(seed)
    n, k, d = int(rng.integers(4, 9)), int(rng.integers(2, 4)), int(rng.integers(1, 4))
    X = rng.normal(size=(n, d)) * 10.0 ** rng.integers(-3, 4)
    best = best_inertia(X, k)
    model = SDPKMeans(k, gap=1e-3, max_iter=1000, random_state=0).fit(X)
    assert 0.5 * best < model.lower_bound_ <= best
    assert model.inertia_ == pytest.approx(best, rel=1e-9)
    gap = (model.inertia_ - model.lower_bound_) / model.inertia_
    assert model.optimality_gap_ == pytest.approx(gap)
    labels = np.append(np.arange(k), rng.integers(k, size=n - k))
    found = certify(X, labels, max_iter=200)
    assert found.n_clusters == k
    assert found.lower_bound <= best <= found.inertia
    assert found.inertia == pytest.approx(inertia(X, labels))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_units_are_those_of_kmeans(dtype):
    X = (100 + blobs()[0]).astype(dtype)
    other = KMeans(3, n_init=5, random_state=0).fit(X)
    model = SDPKMeans(3, random_state=0).fit(X)
    assert adjusted_rand_score(other.labels_, model.labels_) == 1
    assert model.inertia_ == pytest.approx(other.inertia_, rel=1e-5)
    assert model.score(X) == pytest.approx(other.score(X), rel=1e-5)
    assert model.score(X) == pytest.approx(-model.inertia_)
    np.testing.assert_array_equal(model.predict(X), model.labels_)
    order = model.predict(other.cluster_centers_)
    np.testing.assert_allclose(model.transform(X)[:, order], other.transform(X), rtol=1e-4)
    found = certify(X, other.labels_)
    assert found.inertia == pytest.approx(other.inertia_, rel=1e-5)
    assert found.gap <= 0.01


@pytest.mark.parametrize("scale", [1e-30, 1e30])
def test_scale_does_not_matter(scale):
    X = blobs(8)[0]
    one, other = (SDPKMeans(2, random_state=0).fit(c * X) for c in (1.0, scale))
    assert other.lower_bound_ == pytest.approx(scale**2 * one.lower_bound_)
    np.testing.assert_array_equal(one.labels_, other.labels_)


def test_same_seed_same_run():
    X = np.random.default_rng(0).normal(size=(24, 3))
    one, other = (SDPKMeans(4, random_state=7).fit(X) for _ in range(2))
    np.testing.assert_array_equal(one.labels_, other.labels_)
    assert (one.lower_bound_, one.n_iter_) == (other.lower_bound_, other.n_iter_)
    assert certify(X, one.labels_).lower_bound == certify(X, one.labels_).lower_bound


def test_one_cluster_needs_no_run():
    X = blobs()[0]
    model = SDPKMeans(1).fit(X)
    assert model.result_ is None
    assert model.n_iter_ == 0
    assert model.inertia_ == pytest.approx(inertia(X, np.zeros(len(X))))
    assert 0 < model.optimality_gap_ < 1e-12  # rounding of the sum
    assert 0 < certify(X, ["all"] * len(X)).gap < 1e-12


@pytest.mark.parametrize("seed", range(5))
def test_bound_of_one_cluster_far_from_zero(seed):
    X = 1e6 + 1e-8 * np.random.default_rng(seed).normal(size=(7, 2))
    n, exact = len(X), [[Fraction(v) for v in column] for column in X.T]
    true = sum(sum(v * v for v in column) - sum(column) ** 2 / n for column in exact)
    found = certify(X, np.zeros(n))
    assert Fraction(found.lower_bound) <= true
    assert found.inertia == pytest.approx(float(true), rel=1e-13)


@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_copies_whose_mean_rounds_have_no_inertia(offset):
    X = np.repeat([[0.1], [0.7]], 3, axis=0) + offset
    found = certify(X, [0, 0, 0, 1, 1, 1])
    assert (found.inertia, found.lower_bound, found.gap) == (0, 0, 0)


@pytest.mark.parametrize(
    ("X", "k"),
    [
        (np.arange(12.0).reshape(6, 2), 6),
        (np.ones((7, 2)), 3),
        (np.repeat(np.eye(3), 4, axis=0), 3),
        (np.repeat(np.eye(3), 4, axis=0), 5),
        (np.ones((1, 1)), 1),
    ],
)
def test_no_more_points_than_clusters(X, k):
    model = SDPKMeans(k, random_state=0).fit(X)
    assert (model.inertia_, model.lower_bound_, model.optimality_gap_) == (0, 0, 0)
    assert set(model.labels_) == set(range(k))
    assert certify(X, model.labels_).gap == 0


def test_duplicates():
    X = np.repeat([[0.0], [1.0], [5.0]], [4, 2, 6], axis=0)
    model = SDPKMeans(2, gap=1e-3, random_state=0).fit(X)
    assert model.inertia_ == pytest.approx(4 / 3)
    assert model.optimality_gap_ <= 1e-3
    poor = certify(X, [0] * 5 + [1] * 5 + [2] * 2)
    assert (poor.gap, poor.lower_bound) == (1, 0)


def test_certify_ends_once_the_gap_is_proved():
    X = load_digits().data[:100]
    labels = KMeans(10, n_init=5, random_state=0).fit(X).labels_
    loose, tight = (certify(X, labels, gap=gap) for gap in (0.2, 0.01))
    assert tight.gap < loose.gap <= 0.2
    assert loose.status is Status.CONVERGED
    assert "asked for" not in str(loose)
    limited = certify(X, labels, gap=1e-6, max_iter=30)
    assert limited.status is Status.MAX_ITER
    assert "the limit on iterations was reached" in str(limited)
    assert limited.lower_bound < limited.inertia


def test_certify_says_what_a_longer_run_cannot_prove():
    X, truth = blobs()
    found = certify(X, np.sort(truth), gap=0.05)
    assert found.gap > 0.9
    assert found.status is Status.RELAXED
    assert "a longer run would prove little more" in str(found)


def test_certify_takes_any_labels():
    X, truth = blobs(5)
    expected = certify(X, truth).lower_bound
    names = np.array(["red", "green", "blue"])[truth]
    kinds = [names, names.tolist(), pd.Series(names), pd.Categorical(names), truth + 0.5, truth * 7]
    assert [certify(X, labels).lower_bound for labels in kinds] == [expected] * len(kinds)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([0, 1], r"labels has shape \(2,\): give one label for each of 4 points"),
        ([[0], [1], [0], [1]], r"labels has shape \(4, 1\)"),
        ([0, -1, -1, 1], r"labels marks 2 points as noise \(-1\)"),
        ([0.0, np.nan, 1.0, 1.0], "labels has 1 missing values"),
        (pd.Series([0, None, 1, 1], dtype="Int64"), "labels has 1 missing values"),
        (np.array([0, "a", None, 1], dtype=object), "labels cannot be compared"),
    ],
)
def test_labels_that_are_no_partition(labels, message):
    with pytest.raises(ProblemError, match=message):
        certify(np.arange(4.0)[:, None], labels)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_clusters": 0}, "n_clusters is 0"),
        ({"n_clusters": 61}, "at most n_samples=60"),
        ({"n_clusters": 2.0}, "n_clusters is 2.0"),
        ({"n_clusters": True}, "n_clusters is True"),
        ({"gap": 0}, "gap is 0"),
        ({"gap": "small"}, "gap is 'small'"),
        ({"n_clusters": 1, "max_iter": -1}, "max_iter is -1"),
        ({"max_seconds": "long"}, "max_seconds is 'long'"),
    ],
)
def test_options_that_cannot_work(options, message):
    with pytest.raises(ProblemError, match=message):
        SDPKMeans(**options).fit(blobs()[0])


def test_points_that_cannot_work(monkeypatch):
    X, truth = blobs()
    with pytest.raises(TypeError, match="dense data is required"):
        certify(sp.csr_array(X), truth)
    with pytest.raises(ProblemError, match="rescale X"):
        certify(1e200 * X, truth)
    with pytest.raises(ProblemError, match="rescale X"):
        certify(1e-200 * X, truth)
    monkeypatch.setattr(memory, "free_memory", lambda: 1e6)
    with pytest.raises(ProblemError, match=r"matrices of 60 × 60, .*: cluster a sample of X"):
        SDPKMeans(3).fit(X)


def test_pipeline_pandas_and_set_output():
    X, truth = blobs()
    frame = pd.DataFrame(X, columns=["a", "b"], index=np.arange(60) + 5)
    model = SDPKMeans(3, random_state=0)
    pipe = make_pipeline(StandardScaler(), model).set_output(transform="pandas")
    out = pipe.fit_transform(frame)
    assert list(out.columns) == ["sdpkmeans0", "sdpkmeans1", "sdpkmeans2"]
    assert list(out.index) == list(frame.index)
    np.testing.assert_array_equal(pipe.predict(frame), truth)
    np.testing.assert_array_equal(np.argmin(out.to_numpy(), axis=1), truth)
    assert list(clone(model).fit(frame).feature_names_in_) == ["a", "b"]


def test_grid_search_over_the_number_of_clusters():
    X = blobs(10)[0]
    search = GridSearchCV(SDPKMeans(random_state=0), {"n_clusters": [1, 2, 3]}, cv=3).fit(X)
    assert search.best_params_ == {"n_clusters": 3}
    scores = search.cv_results_["mean_test_score"]
    assert (np.diff(scores) > 0).all()


@pytest.mark.parametrize("subset", ["first", "random"])
def test_best_of_50_runs_on_digits(subset):
    X = load_digits().data
    at = np.random.default_rng(1).choice(len(X), 300, replace=False)
    X = X[:300] if subset == "first" else X[at]
    labels = KMeans(10, n_init=50, random_state=0).fit(X).labels_
    assert certify(X, labels, gap=0.08).gap <= 0.08


def test_best_of_50_runs_on_mnist(data):
    X = datasets.load("kmeans/mnist-250").points
    labels = KMeans(10, n_init=50, random_state=0).fit(X).labels_
    found = certify(X, labels, gap=0.03)
    assert found.gap < 0.03
    assert 2 * found.lower_bound <= datasets.optimum("kmeans/mnist-250") * (1 + 1e-8)


def test_only_a_limit_that_was_set_ends_a_fit():
    X = np.random.default_rng(0).standard_normal((30, 2))
    timed = SDPKMeans(4, gap=1e-5, max_seconds=300, random_state=0).fit(X)
    assert timed.certificate_.status is Status.RELAXED  # after more than 10,000 iterations
    with pytest.warns(ConvergenceWarning, match="iterations"):
        SDPKMeans(4, gap=1e-5, random_state=0).fit(X)


def test_what_is_called_solved_on_mnist_is_within_the_gap_of_the_optimum(data):
    X, optimum = datasets.load("kmeans/mnist-250").points, datasets.optimum("kmeans/mnist-250")
    model = SDPKMeans(10, random_state=0).fit(X)
    assert model.result_.status is Status.CONVERGED
    assert 2 * model.lower_bound_ >= optimum * (1 - 1e-3)  # a tenth of the gap
    assert model.optimality_gap_ < 0.012


def test_an_interrupted_fit_keeps_what_it_has_and_stops_the_search(monkeypatch):
    def interrupted(*args, **options):
        return replace(solve(*args, **options), status=Status.INTERRUPTED)

    monkeypatch.setattr("condgrad.sklearn._kmeans.solve", interrupted)
    model, (X, _) = clone(QUICK).set_params(n_clusters=3), blobs(5)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X)
    assert model.certificate_.status is Status.INTERRUPTED
    assert model.predict(X).tolist() == model.labels_.tolist()
    with pytest.raises(KeyboardInterrupt):
        GridSearchCV(model, {"gap": [0.1, 0.2]}, cv=2).fit(X)


def test_certification_speaks_of_the_inertia():
    X, labels = blobs()
    found = certify(X, labels)
    assert "% of the best" not in str(found)
    assert f"no clustering has an inertia lower by more than {percent(found.gap, 3)} %" in str(
        found
    )


def test_tight_bounds_are_better_and_hold():
    X = np.random.default_rng(2).normal(size=(9, 2))
    plain, tight = (
        SDPKMeans(3, gap=1e-3, random_state=0, max_iter=1000, tight=tight).fit(X)
        for tight in (False, True)
    )
    every = np.array(list(itertools.product(range(3), repeat=9)))
    inertia = np.zeros(len(every))
    for j in range(3):
        members = (every == j).astype(float)
        size = np.maximum(members.sum(axis=1), 1)
        inertia += members @ (X**2).sum(axis=1) - ((members @ X) ** 2).sum(axis=1) / size
    assert plain.lower_bound_ < tight.lower_bound_ <= inertia.min() * (1 + 1e-12)
    assert certify(X, tight.labels_, tight=True, gap=0.01).lower_bound <= inertia.min()


def test_a_limit_that_ends_a_fit_is_a_warning():
    X = np.random.default_rng(0).normal(size=(40, 2))
    with pytest.warns(ConvergenceWarning, match=r"SDPKMeans stopped early: .*max_iter or max_sec"):
        SDPKMeans(4, gap=1e-6, max_iter=3, random_state=0).fit(X)
    like = np.sign(X @ X.T)
    with pytest.warns(ConvergenceWarning, match="CorrelationClustering stopped early"):
        CorrelationClustering(gap=1e-9, max_seconds=1e-3, random_state=0).fit(like)
    ratings = np.where(X[:, :1] * X[:, 1] > 0, np.round(X @ X.T), np.nan)
    with pytest.warns(ConvergenceWarning, match="MatrixCompletion stopped early"):
        MatrixCompletion(max_iter=1, tol=1e-9).fit(ratings)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        SDPKMeans(2, random_state=0).fit(X[:4] + 9 * np.array([[0], [0], [1], [1]]))
