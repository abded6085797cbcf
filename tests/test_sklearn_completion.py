from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import check_estimator

import condgrad as cg
from condgrad import ProblemError
from condgrad.applications.ratings import Observed, fit_biases
from condgrad.io import read_ratings
from condgrad.run.journal import solved
from condgrad.sklearn import MatrixCompletion

PLAIN = {"center": False, "biases": False, "weighting": 0, "bounds": None, "corrective": False}
"""The nuclear ball and nothing else."""

WANTS_ONE_NUMBER_A_ROW = "predict on a matrix has a rating for every item, not one number a row"
CANNOT_APPLY = {
    "check_estimator_sparse_array": WANTS_ONE_NUMBER_A_ROW,
    "check_estimator_sparse_matrix": WANTS_ONE_NUMBER_A_ROW,
}


@pytest.mark.parametrize("options", [{}, {"layout": "matrix", "tol": None, "max_iter": 5}])
def test_check_estimator(options):
    """But for what cannot apply; the check of array API input skips itself without that setting."""
    found = check_estimator(
        MatrixCompletion(**options), expected_failed_checks=CANNOT_APPLY, on_skip=None
    )
    assert {c["check_name"] for c in found if c["status"] == "xfail"} == set(CANNOT_APPLY)
    assert sum(c["status"] == "passed" for c in found) > 40


def low_rank(users=30, items=20, rank=2, share=0.6, seed=0):
    """A matrix of that rank, and the same with NaN where it is not observed."""
    rng = np.random.default_rng(seed)
    truth = rng.normal(size=(users, rank)) @ rng.normal(size=(rank, items))
    return truth, np.where(rng.random(truth.shape) < share, truth, np.nan)


def ratings(users=60, items=40, share=0.4, seed=0):
    """Ratings on a half-star scale with biases and a factor, as pairs of ids that are texts."""
    rng = np.random.default_rng(seed)
    truth = 3 + rng.normal(size=(users, 1)) / 2 + rng.normal(size=items) / 2
    truth = truth + np.outer(rng.normal(size=users), rng.normal(size=items))
    i, j = np.nonzero(rng.random(truth.shape) < share)
    values = np.clip(np.round(2 * truth[i, j]) / 2, 0.5, 5.0)
    return pd.DataFrame({"user": [f"u{k}" for k in i], "item": [f"film {k}" for k in j]}), values


def as_pairs(matrix):
    i, j = np.nonzero(~np.isnan(matrix))
    return np.column_stack([i, j]), matrix[i, j]


def test_a_planted_matrix_is_recovered():
    truth, seen = low_rank()
    radius = np.linalg.norm(truth, "nuc")
    model = MatrixCompletion(radius, relative=False, max_iter=1500, tol=None, **PLAIN).fit(seen)
    missing = np.isnan(seen)
    error = np.linalg.norm((model.completed_ - truth)[missing]) / np.linalg.norm(truth[missing])
    assert error < 0.03
    assert model.radius_ == radius
    assert np.allclose(model.user_factors_ @ model.item_factors_.T, model.result_.W)


def test_transform_agrees_with_the_completed_matrix_at_a_solution():
    _, seen = low_rank(seed=1)
    model = MatrixCompletion(0.5, max_iter=1500, tol=5e-4).fit(seen)
    assert model.gap_ <= 5e-4
    assert model.lower_bound_ <= model.result_.objective
    assert np.abs(model.transform(seen) - model.completed_).max() < 1e-3 * np.nanstd(seen)


def test_a_new_row_is_completed_from_its_own_entries():
    truth, seen = low_rank(users=60, seed=2)
    model = MatrixCompletion(2.0, max_iter=1000, tol=None, weighting=0).fit(seen[:50])
    missing = np.isnan(seen[50:])
    error = (model.transform(seen[50:]) - truth[50:])[missing]
    assert np.sqrt(np.mean(error**2)) < 0.4 * truth[50:][missing].std()
    assert np.allclose(model.transform(seen[52:53])[0], model.transform(seen[50:])[2])
    blank = model.transform(np.full((1, 20), np.nan))
    assert np.allclose(blank, np.clip(model.global_mean_ + model.item_biases_, *model.bounds_))
    with pytest.raises(ProblemError, match="no observed entry"):
        model.score(np.full((1, 20), np.nan))


def test_biases_solve_their_least_squares_problem():
    _, seen = low_rank(seed=3)
    i, j = np.nonzero(~np.isnan(seen))
    values, damping, mean = seen[i, j], 3.0, float(np.nanmean(seen))
    A = np.zeros((values.size, 50))
    A[np.arange(values.size), i] = A[np.arange(values.size), 30 + j] = 1
    slow = np.linalg.solve(A.T @ A + damping * np.eye(50), A.T @ (values - mean))
    users, items = fit_biases(Observed(i, j, values, seen.shape), mean, damping)
    assert np.allclose(np.concatenate([users, items]), slow, atol=1e-6)


def test_without_a_residual_the_prediction_is_the_biases():
    X, y = ratings()
    model = MatrixCompletion(1e-9, bounds=None, tol=None, max_iter=1).fit(X, y)
    i, j = model.user_ids_.tolist().index("u3"), model.item_ids_.tolist().index("film 7")
    base = model.global_mean_ + model.user_biases_[i] + model.item_biases_[j]
    assert model.predict("u3", "film 7") == pytest.approx([base])


@pytest.mark.parametrize("container", [sp.csr_array, sp.coo_matrix, pd.DataFrame])
def test_all_forms_of_a_matrix_and_pairs_give_the_same(container):
    _, seen = low_rank(seed=4)
    model = MatrixCompletion(max_iter=20, tol=None).fit(seen)
    if container is pd.DataFrame:
        X = pd.DataFrame(seen)
    else:
        i, j = np.nonzero(~np.isnan(seen))
        X = container((seen[i, j], (i, j)), shape=seen.shape)
    again = clone(model).set_params(layout="matrix").fit(X)
    assert np.allclose(again.completed_, model.completed_)
    assert np.allclose(model.transform(X), model.transform(seen))
    pairs, values = as_pairs(seen)
    other = clone(model).fit(pairs, values)
    assert other.layout_ == "pairs"
    assert np.allclose(other.completed_, model.completed_)


def test_stored_zeros_are_ratings():
    X = sp.csr_array(([0.0, 4.0, 4.0], ([0, 0, 1], [0, 1, 1])), shape=(2, 2))
    assert MatrixCompletion().fit(X).global_mean_ == pytest.approx(8 / 3)
    assert MatrixCompletion().fit(sp.csr_array([[0, 4.0], [0, 4.0]])).global_mean_ == 4


def test_repeated_pairs_are_averaged():
    X, y = [["a", 1], ["b", 1], ["b", 1], ["b", 2]], [1.0, 2.0, 4.0, 5.0]
    once = MatrixCompletion(tol=None, bounds=None).fit([["a", 1], ["b", 1], ["b", 2]], [1, 3, 5])
    twice = MatrixCompletion(tol=None, bounds=None).fit(X, y)
    assert np.array_equal(once.completed_, twice.completed_)


def test_unknown_users_and_items_have_no_bias():
    X, y = ratings()
    model = MatrixCompletion(max_iter=20, tol=None).fit(X, y)
    nobody, bias = model.predict(["x", "u1"], "new film")
    assert nobody == model.global_mean_
    user = model.user_ids_.tolist().index("u1")
    assert bias == pytest.approx(model.global_mean_ + model.user_biases_[user])
    assert np.array_equal(model.predict(X), model.predict(X["user"], X["item"]))


def test_ids_of_the_other_type_are_refused_rather_than_unknown():
    X, y = np.array([["1", "7"], ["2", "8"]]), [1.0, 2.0]
    with pytest.raises(ProblemError, match="users are numbers, but fit got text"):
        MatrixCompletion().fit(X, y).predict([1, 2], ["7", "8"])
    with pytest.raises(ProblemError, match="items are text, but fit got numbers"):
        MatrixCompletion().fit(X.astype(int), y).predict(1, "7")


@pytest.mark.parametrize("ids", [[1, 2], [1.5, 2.0], ["a", "b"], ["a", 1], [("a", 1), ("b", 2)]])
def test_ids_of_any_type(ids):
    X = pd.DataFrame({"user": pd.Series([ids[0], ids[1], ids[1]], dtype=object), "item": [1, 1, 2]})
    model = MatrixCompletion(tol=None).fit(X, [1.0, 2.0, 3.0])
    assert model.user_ids_.tolist() == ids
    assert model.predict(X).shape == (3,)


def test_names_of_a_frame_are_ids():
    frame = pd.DataFrame([[5.0, np.nan], [4.0, 2.0]], index=["ann", "bob"], columns=["x", "y"])
    model = MatrixCompletion(layout="matrix").fit(frame)
    assert model.predict("ann", "y") == pytest.approx([model.completed_[0, 1]])
    assert model.score(frame) == pytest.approx(
        -np.sqrt(np.nanmean((model.transform(frame) - frame.to_numpy()) ** 2))
    )
    held_out = pd.DataFrame({"user": ["ann"], "item": ["y"]})
    assert model.score(held_out, [3.0]) == pytest.approx(-abs(model.completed_[0, 1] - 3))


@pytest.mark.parametrize(("factor", "shift"), [(10.0, 0.0), (1e-6, 0.0), (20.0, -50.0)])
def test_any_scale_of_ratings_gives_the_same_answer(factor, shift):
    X, y = ratings()
    model = MatrixCompletion(max_iter=30, tol=None).fit(X, y)
    other = clone(model).fit(X, factor * y + shift)
    assert np.allclose(other.completed_, factor * model.completed_ + shift, atol=1e-4 * factor)
    assert other.bounds_ == pytest.approx(tuple(factor * np.array(model.bounds_) + shift))


def test_the_paper_problem_is_solved_with_the_box():
    X, y = ratings()
    options = {**PLAIN, "bounds": (2, 4), "constrain": True, "max_iter": 1000, "tol": None}
    model = MatrixCompletion(1.58, **options).fit(X, y)
    W = model.result_.W
    assert model.result_.worst < 1e-3
    assert 1.9 < W.min() < W.max() < 4.1
    free = clone(model).set_params(constrain=False).fit(X, y).result_.W
    assert np.asarray(free).min() < 1


def test_the_box_holds_for_biases_and_residual_together():
    X, y = ratings()
    model = MatrixCompletion(constrain=True, bounds=(2, 4), max_iter=300, tol=None).fit(X, y)
    base = model.global_mean_ + model.user_biases_[:, None] + model.item_biases_
    whole = base + model.user_factors_ @ model.item_factors_.T
    assert np.abs(whole - model.completed_).max() < 0.1
    assert np.abs(base - np.clip(base, *model.bounds_)).max() > 0.1


def test_l1_shrinks_the_residual():
    X, y = ratings()
    size = [
        np.abs(m.user_factors_ @ m.item_factors_.T).sum()
        for m in (MatrixCompletion(l1=l1, max_iter=200, tol=None).fit(X, y) for l1 in (None, 1.0))
    ]
    assert size[1] < 0.7 * size[0]


def test_predictions_stay_within_the_bounds():
    X, y = ratings()
    for bounds in ("auto", (2.0, 3.5)):
        low, high = (y.min(), y.max()) if bounds == "auto" else bounds
        found = MatrixCompletion(bounds=bounds, tol=None).fit(X, y).predict(X)
        assert low <= found.min()
        assert found.max() <= high


@pytest.mark.parametrize("constant", [0.0, 3.0])
def test_constant_ratings_are_predicted(constant):
    X = np.where(np.eye(5) > 0, np.nan, constant)
    assert np.allclose(MatrixCompletion().fit(X).completed_, constant)


def test_the_same_seed_gives_the_same_model():
    X, y = ratings()
    model = MatrixCompletion(method="h-sag-v1", max_iter=20, tol=None, random_state=3)
    first, second = clone(model).fit(X, y), clone(model).fit(X, y)
    other = clone(model).set_params(random_state=4).fit(X, y)
    assert np.array_equal(first.completed_, second.completed_)
    assert first.result_.seed != other.result_.seed
    assert np.array_equal(pickle.loads(pickle.dumps(first)).predict(X), first.predict(X))


def test_a_method_of_ones_own_is_used_as_it_is():
    X, y = ratings()
    model = MatrixCompletion(method=cg.hcgm(), max_iter=5, tol=None).fit(X, y)
    assert model.result_.method == "HCGM"
    assert model.result_.trace["eta"][1] == 1.0
    model = MatrixCompletion(1.0, method="sag-cgal", max_iter=5, tol=None).fit(X, y)
    assert model.result_.trace["eta"][1] < 0.5


def test_grid_search_finds_a_radius_better_than_the_biases():
    X, y = ratings()
    grid = {"radius": [1e-6, 0.5, 1.0]}
    search = GridSearchCV(
        MatrixCompletion(max_iter=20), grid, cv=KFold(3, shuffle=True, random_state=0)
    )
    search.fit(X, y)
    scores = search.cv_results_["mean_test_score"]
    assert search.best_params_["radius"] > 1e-6
    assert scores.max() > 0.75 * scores[0]
    assert search.score(X, y) < 0
    assert cross_val_score(MatrixCompletion(max_iter=20), X.to_numpy(), y, cv=3).shape == (3,)


def test_in_a_pipeline_with_frames():
    _, seen = low_rank(seed=5)
    frame = pd.DataFrame(seen, columns=[f"item {j}" for j in range(20)], index=range(100, 130))
    model = MatrixCompletion(max_iter=30, tol=None, layout="matrix").set_output(transform="pandas")
    filled = model.fit_transform(frame)
    assert filled.columns.tolist() == frame.columns.tolist() == list(model.get_feature_names_out())
    assert filled.index.tolist() == frame.index.tolist()
    assert not filled.isna().any(axis=None)
    line = make_pipeline(MatrixCompletion(layout="matrix", tol=None), LinearRegression())
    assert line.fit(seen, np.arange(30)).predict(seen).shape == (30,)


def test_pairs_in_a_pipeline_become_one_column():
    X, y = ratings()
    model = MatrixCompletion(tol=None).set_output(transform="pandas")
    assert model.fit_transform(X, y).columns.tolist() == ["rating"]
    line = make_pipeline(FunctionTransformer(), MatrixCompletion(tol=None)).fit(X, y)
    assert line.score(X, y) == pytest.approx(model.score(X, y))
    assert model.n_features_in_ == 2
    with pytest.raises(ValueError, match="feature names"):
        model.predict(X.rename(columns={"user": "who"}))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"radius": -1}, "radius is -1"),
        ({"layout": "coo"}, "layout is 'coo': choose one of"),
        ({"weighting": 1.0}, "weighting is 1.0"),
        ({"bias_damping": "no"}, "bias_damping is 'no'"),
        ({"bounds": (5, 1)}, r"bounds is \(5, 1\)"),
        ({"bounds": "none"}, "bounds is 'none'"),
        ({"bounds": None, "constrain": True}, "constrain needs bounds"),
        ({"l1": -2.0}, "l1 is -2"),
        ({"tol": 0}, "tol is 0"),
        ({"method": "sgd"}, "method is 'sgd': choose one of"),
        ({"method": 3}, "method is 3"),
        ({"max_iter": 0}, "max_iter"),
    ],
)
def test_bad_parameters_are_named(options, message):
    with pytest.raises(ProblemError, match=message):
        MatrixCompletion(**options).fit([["a", 1], ["b", 2]], [1.0, 2.0])


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        (np.full((3, 3), np.nan), None, "X has no observed entry"),
        (np.ones((3, 3)), [1, 2, 3], "pairs need two columns"),
        ([["a", 1]], None, "y is missing"),
        ([["a", 1], [None, 1]], [1, 2], "NaN for a user"),
        ([["a", 1], ["b", np.nan]], [1, 2], "NaN for a item"),
        (pd.DataFrame({"u": [1, pd.NA], "i": [1, 2]}), [1, 2], "NaN for a user"),
        ([["a", 1], ["b", 1]], [1, np.nan], "y contains NaN"),
        ([["a", 1], ["b", 1]], [1], "inconsistent numbers of samples"),
    ],
)
def test_bad_data_are_named(X, y, message):
    layout = "auto" if message.startswith("X has") else "pairs"
    with pytest.raises(ValueError, match=message):
        MatrixCompletion(layout=layout).fit(X, y)


def test_predict_wants_as_many_users_as_items():
    X, y = ratings()
    model = MatrixCompletion(tol=None, max_iter=2).fit(X, y)
    with pytest.raises(ProblemError, match="2 users and 3 items"):
        model.predict(["u1", "u2"], ["film 1", "film 2", "film 3"])
    with pytest.raises(ProblemError, match="X alone"):
        model.predict(X, "film 1")
    assert np.array_equal(model.predict(np.array("u1"), "film 1"), model.predict("u1", ["film 1"]))


@pytest.mark.slow
@pytest.mark.parametrize(("split", "most"), [("ua", 0.930), ("ub", 0.945)])
def test_movielens(data, split, most):
    train, test = (
        read_ratings(data / "movielens-100k" / f"{split}.{part}") for part in ("base", "test")
    )
    pairs = [np.column_stack([part.users, part.items]) for part in (train, test)]
    model = MatrixCompletion().fit(pairs[0], train.values)
    assert -model.score(pairs[1], test.values) <= most
    assert model.gap_ <= 1e-2


def test_an_interrupted_fit_keeps_what_it_has_and_stops_the_search(monkeypatch):
    def interrupted(*args, **options):
        return replace(solved(*args, **options), status=cg.Status.INTERRUPTED)

    monkeypatch.setattr("condgrad.applications.residual.solved", interrupted)
    pairs = np.argwhere(np.ones((6, 4)))
    ratings = pairs.sum(axis=1) / 2.0
    model = MatrixCompletion(max_iter=5)
    with pytest.raises(KeyboardInterrupt):
        model.fit(pairs, ratings)
    assert np.isfinite(model.predict(pairs)).all()
    with pytest.raises(KeyboardInterrupt):
        GridSearchCV(model, {"radius": [0.5, 1.0]}, cv=KFold(2)).fit(pairs, ratings)
    pairs = np.argwhere(np.ones((20, 20)))
    with pytest.raises(KeyboardInterrupt):  # while the radius is chosen
        clone(model).fit(pairs, pairs.sum(axis=1) / 2.0)
