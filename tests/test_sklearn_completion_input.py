"""What X and y may be for `MatrixCompletion`, and what is refused instead of guessed."""

import itertools
import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score

from condgrad import ProblemError
from condgrad.io.ids import Ids
from condgrad.sklearn import MatrixCompletion

QUICK = MatrixCompletion(0.5, corrective=False, max_iter=10)


def triples(users=12, items=9, seed=0, kind=int):
    """A frame of whole numbers."""
    rng = np.random.default_rng(seed)
    i, j = np.nonzero(rng.random((users, items)) < 0.6)
    frame = pd.DataFrame({"user": i + 100, "item": j + 1, "rating": rng.integers(1, 6, i.size)})
    return frame.astype({"user": kind, "item": kind})


def same_as_pairs(model, frame):
    wanted = clone(QUICK).fit(frame[["user", "item"]].to_numpy(), frame["rating"].to_numpy())
    assert model.layout_ == "triples"
    assert np.array_equal(model.user_ids_, wanted.user_ids_)
    return np.allclose(model.completed_, wanted.completed_)


@pytest.mark.parametrize("order", list(itertools.permutations(["user", "item", "rating"])))
def test_named_columns_of_a_frame_in_any_order(order):
    frame = triples()
    assert same_as_pairs(clone(QUICK).fit(frame[list(order)]), frame)


@pytest.mark.parametrize(
    "names",
    [
        ["userId", "movieId", "rating"],
        ["User-ID", "ISBN", "Book-Rating"],
        ["uid", "iid", "stars"],
        ["reviewerID", "asin", "overall"],
        ["customer", "what", "how much"],
        ["who", "what", "Score"],
    ],
)
def test_names_that_tell(names):
    frame = triples()
    assert same_as_pairs(clone(QUICK).fit(frame.set_axis(names, axis=1)), frame)


@pytest.mark.parametrize("kind", ["category", "Int64", "int8", "float32", "object", "uint64"])
def test_columns_of_any_type_beside_a_date(kind):
    frame = triples()
    dated = frame.astype({"rating": kind, "item": kind}).assign(when=pd.Timestamp("2024-02-29"))
    assert same_as_pairs(clone(QUICK).fit(dated), frame)
    text = frame.astype(str).assign(timestamp=pd.Timestamp("2024-02-29"))
    found = clone(QUICK).fit(text)
    assert found.user_ids_.tolist() == [str(x) for x in clone(QUICK).fit(frame).user_ids_]
    with pytest.raises(ProblemError, match="name the columns user, item and rating"):
        clone(QUICK).fit(text.set_index("user"))


def test_more_columns_where_the_names_tell():
    frame = triples()
    frame.insert(0, "timestamp", 881250949 + np.arange(len(frame)))
    frame["comment"] = "good"
    model = clone(QUICK).fit(frame)
    assert same_as_pairs(model, frame)
    assert np.allclose(model.predict(frame), model.predict(frame["user"], frame["item"]))


@pytest.mark.parametrize("kind", [np.int8, np.uint64, float, str, "category", "Int64", "string"])
def test_ids_of_any_dtype(kind):
    frame = triples(kind=kind)
    model = clone(QUICK).fit(frame)
    assert model.layout_ == "triples"
    assert model.user_ids_.size == 12
    plain = clone(QUICK).fit(triples())
    assert np.allclose(np.sort(model.predict(frame)), np.sort(plain.predict(triples())))


@pytest.mark.parametrize("kind", [np.int16, np.float32, object, "Float64"])
def test_ratings_of_any_dtype(kind):
    frame = triples()
    assert same_as_pairs(clone(QUICK).fit(frame.astype({"rating": kind})), frame)


def test_texts_tell_triples_in_that_order():
    frame = triples(kind=str)
    wanted = clone(QUICK).fit(frame).completed_
    for X in (frame.set_axis(list("abc"), axis=1), frame.astype(object).to_numpy()):
        model = clone(QUICK).fit(X)
        assert model.layout_ == "triples"
        assert np.allclose(model.completed_, wanted)
    rows = list(frame.itertuples(index=False, name=None))
    assert np.allclose(clone(QUICK).fit(rows).completed_, wanted)


@pytest.mark.parametrize("columns", [2, 3, 4])
@pytest.mark.parametrize("container", [np.asarray, pd.DataFrame, lambda X: X.astype(float)])
def test_whole_numbers_that_may_be_ids_are_refused(columns, container):
    X = np.random.default_rng(0).integers(1, 6, (20, columns))
    with pytest.raises(ProblemError, match=r"layout='triples' .*layout='matrix'"):
        MatrixCompletion().fit(container(X))
    model = clone(QUICK).set_params(layout="matrix").fit(container(X))
    assert model.completed_.shape == (20, columns)


def test_arrays_of_triples_when_said():
    frame = triples()
    model = clone(QUICK).set_params(layout="triples")
    assert same_as_pairs(clone(model).fit(frame.to_numpy()), frame)
    four = np.column_stack([frame.to_numpy(), np.arange(len(frame))])
    assert same_as_pairs(clone(model).fit(four), frame)


@pytest.mark.parametrize(
    ("X", "y", "layout", "message"),
    [
        (triples().assign(movie=1), None, "auto", "do not tell user, item and rating apart"),
        (triples(kind=str).set_axis(list("abc"), axis=1).assign(d=1), None, "auto", "text in it"),
        (triples().assign(rating="x"), None, "auto", "not all numbers"),
        (
            triples().assign(rating=np.nan),
            None,
            "auto",
            r"NaN .* \d+ times, first in row 1: drop",
        ),
        (triples().assign(rating=pd.NA), None, "auto", "missing values: drop those rows"),
        (triples().assign(user=np.nan), None, "auto", "NaN for a user"),
        (triples(), np.ones(len(triples())), "triples", "leave y out"),
        (triples()[["user", "item"]], None, "triples", "triples need three columns"),
        (triples()[["user", "item"]], None, "auto", "do not tell"),
        (triples().set_index(["user", "item"]), None, "auto", r"pass X.reset_index\(\)"),
        (triples().set_index(["user", "item"]).rating, None, "auto", r"pass X.reset_index\(\)"),
        (triples()[["user", "item"]], None, "pairs", "y is missing"),
        (triples().iloc[:0], None, "auto", "0 sample|no ratings"),
    ],
)
def test_what_is_refused(X, y, layout, message):
    with pytest.raises(ValueError, match=message):
        MatrixCompletion(layout=layout).fit(X, y)


def test_pairs_among_other_columns():
    frame = triples().assign(when=3)
    model = clone(QUICK).fit(frame[["when", "item", "user"]], frame["rating"])
    assert model.layout_ == "pairs"
    wanted = clone(QUICK).fit(frame[["user", "item"]], frame["rating"])
    assert np.allclose(model.completed_, wanted.completed_)
    found = model.predict(frame[["when", "item", "user"]])
    assert np.allclose(found, wanted.predict(frame[["user", "item"]]))
    with pytest.raises(ProblemError, match="and there is a y: say which"):
        clone(QUICK).fit(frame[["user", "item", "when"]].to_numpy(), frame["rating"])


def test_pairs_with_names_may_be_swapped():
    frame = triples()
    model = clone(QUICK).fit(frame[["item", "user"]], frame["rating"])
    assert model.layout_ == "pairs"
    assert model.user_ids_.min() >= 100
    wanted = clone(QUICK).fit(frame[["user", "item"]], frame["rating"])
    assert np.allclose(model.predict(frame[["item", "user"]]), wanted.predict(frame.iloc[:, :2]))


@pytest.mark.parametrize("y", [None, np.arange(8)])
@pytest.mark.parametrize("width", [1, 2, 3, 4, 5, 9])
@pytest.mark.parametrize("value", [3.0, 0.5, np.nan])
def test_a_frame_is_a_matrix_only_if_that_is_said(width, value, y):
    """Columns of a table may be anything: ages, prices, clicks."""
    X = np.full((8, width), value)
    X[:3] = np.random.default_rng(0).normal(size=(3, width))
    frame = pd.DataFrame(X, columns=[f"measured {j}" for j in range(width)])
    pivot = frame.rename_axis(index="user", columns="item")
    if width != 2 or y is None:  # else they are pairs of ids
        for given in (frame, pivot, frame.astype(object)):
            with pytest.raises(ProblemError, match=r"X has .* column.* layout='matrix'"):
                clone(QUICK).fit(given, y)
    model = clone(QUICK).set_params(layout="matrix").fit(pivot, y)
    assert model.layout_ == clone(QUICK).set_params(layout="matrix").fit(X).layout_ == "matrix"
    assert model.item_ids_.tolist() == frame.columns.tolist()


def test_a_pivot_is_a_matrix_if_that_is_said():
    frame = triples(4, 3).drop_duplicates(["user", "item"])
    table = frame.pivot(index="user", columns="item", values="rating")
    model = clone(QUICK).set_params(layout="matrix").fit(table)
    assert model.layout_ == "matrix"
    assert model.user_ids_.tolist() == table.index.tolist()


def test_wide_frames_of_other_packages_are_refused_too():
    arrow = pytest.importorskip("pyarrow")
    wide = pd.DataFrame(np.random.default_rng(0).normal(size=(8, 6)), columns=list("abcdef"))
    with pytest.raises(ProblemError, match=r"X has 6 columns .* layout='matrix'"):
        clone(QUICK).fit(arrow.Table.from_pandas(wide))


def test_frames_that_are_not_of_pandas():
    arrow = pytest.importorskip("pyarrow")
    frame = triples()
    assert same_as_pairs(clone(QUICK).fit(arrow.Table.from_pandas(frame)), frame)

    class Polars:
        """As much of a Polars frame as is used."""

        def __init__(self, frame):
            self._frame, self.columns, self.shape = frame, list(frame.columns), frame.shape

        def __len__(self):
            return len(self._frame)

        def get_columns(self):
            return [self._frame[name] for name in self.columns]

    assert same_as_pairs(clone(QUICK).fit(Polars(frame)), frame)


def test_triples_in_scikit_learn():
    frame = triples(40, 30)
    scores = cross_val_score(QUICK, frame, cv=KFold(3, shuffle=True, random_state=0))
    assert scores.shape == (3,)
    assert (scores < 0).all()
    search = GridSearchCV(QUICK, {"radius": [0.1, 0.5]}, cv=KFold(2, shuffle=True)).fit(frame)
    assert search.score(frame) == search.best_estimator_.score(frame)
    model = search.best_estimator_
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(again.predict(frame[["user", "item"]]), model.predict(frame))
    assert model.transform(frame).shape == (len(frame), 1)
    assert model.score(frame) == pytest.approx(
        -np.sqrt(np.mean((model.predict(frame) - frame["rating"]) ** 2))
    )


@pytest.mark.parametrize(
    "ids",
    [
        np.array([5, 3, 3, -7]),
        np.array([1, 10**12, 5]),
        np.array([-(2**62), 2**62]),
        np.array([2**63 + 5, 3], dtype=np.uint64),
        np.array([-100, 100, 7], dtype=np.int8),
        np.array([0.5, 2.0, -3.5]),
        np.array(["b", "a", "c"]),
        [True, False],
        ["x", 3, (1, 2)],
    ],
    ids=str,
)
def test_positions_of_ids_agree_with_a_dictionary(ids):
    known = Ids("user", ids)
    listed = ids.tolist() if isinstance(ids, np.ndarray) else ids
    place = {name: k for k, name in enumerate(known.names)}
    assert set(known.names) == set(listed)
    assert known.positions(ids).tolist() == [place[name] for name in listed]
    strangers = [*listed, 10**15, -(10**15), "nobody", 7.25, 100]
    wanted = [place.get(name, -1) for name in strangers]
    assert known.positions(strangers).tolist() == wanted
    numbers = np.array([-(2**63), -8, -7, 0, 3, 6, 10**12, 2**63 - 1])
    if isinstance(ids, np.ndarray) and ids.dtype.kind in "iuf":
        wanted = [place.get(name, -1) for name in numbers.tolist()]
        assert known.positions(numbers).tolist() == wanted


@pytest.mark.parametrize("X", [None, "ann", 3, np.float64(2.0), np.array(3)])
def test_one_id_without_items_is_refused(X):
    model = MatrixCompletion().fit([["ann", 1], ["ann", 2], ["bob", 1]], [5, 4, 3])
    with pytest.raises(ProblemError, match="and no items: give ids of users and of items"):
        model.predict(X)


@pytest.mark.parametrize("users", [["ann", None], [np.nan], np.array([np.nan]), [None, None]])
def test_a_missing_id_is_not_a_new_user(users):
    model = MatrixCompletion().fit([["ann", 1], ["ann", 2], ["bob", 1]], [5, 4, 3])
    with pytest.raises(ProblemError, match="None or NaN for a user: give an id"):
        model.predict(users, 1)
    numbers = MatrixCompletion().fit([[7, 1], [7, 2], [8, 1]], [5, 4, 3])
    with pytest.raises(ProblemError, match="None or NaN for a user: give an id"):
        numbers.predict(users, 1)


def test_transform_keeps_no_rating_and_gives_a_frame_when_asked():
    pd = pytest.importorskip("pandas")
    X = pd.DataFrame(np.random.default_rng(0).normal(size=(8, 4)), columns=list("abcd"))
    X.iloc[0, 0] = np.nan
    model = MatrixCompletion(corrective=False, radius=0.5, layout="matrix").fit(X)
    found = model.transform(X)
    assert isinstance(found, np.ndarray)
    assert not np.isclose(found, X).any(axis=1).all()
    framed = model.set_output(transform="pandas").transform(X)
    assert list(framed.columns) == list("abcd")
    np.testing.assert_array_equal(framed, found)
