from __future__ import annotations

import numpy as np
import pytest

from condgrad.errors import InputError
from condgrad.io import (
    Ratings,
    index_ratings,
    read_features,
    read_ratings,
)
from files import (
    POINTS,
    SQUARED,
    check_refused,
    npy,
    npz,
    put,
)


@pytest.mark.parametrize(
    "content",
    [
        "1\t10\t3\t88\n2\t10\t4.5\t89\n",
        "1\t10\t3\n\n2\t10\t4.5",
        "userId,movieId,rating,timestamp\n1,10,3.0,88\n2,10,4.5,89\n",
        "\ufeffuser,item,rating\r\n1, 10 ,3.0\r\n2,10,4.5\r\n",
        "1,10,3.0\n2,10,4.5\n",
        "1::10::3::88\n2::10::4.5::89\n",
        "1 10 3 88\n2 10 4.5 89\n",
        "score,uid,sku\n3,1,10\n4.5,2,10\n",
        ",rating,user_id,item_id,when\n0,3,1,10,x\n1,4.5,2,10,y\n",
    ],
)
@pytest.mark.parametrize("name", ["r.data", "r.csv.gz"])
def test_good_ratings(name, content, tmp_path):
    ratings = read_ratings(put(tmp_path, name, content))
    assert ratings.users.tolist() == ["1", "2"]
    assert ratings.items.tolist() == ["10", "10"]
    assert ratings.values.tolist() == [3.0, 4.5]
    assert ratings.values.dtype == np.float64
    assert ratings.users.dtype.kind == ratings.items.dtype.kind == "U"


@pytest.mark.parametrize(
    ("content", "line", "word"),
    [
        ("1-2-3\n", 1, "separated by tabs, commas, semicolons, blanks or '::', found '1-2-3'"),
        ("1 2\n", 1, "expected 3 fields or more separated by blank, found 2"),
        ("user,a,b,c\n1,2,3,4\n", 1, "expected columns user, item and rating, found 'user', 'a'"),
        ("item,rating,timestamp\n1,2,3\n", 1, "expected columns user, item and rating, found"),
        ("user,item,rating\n", 1, "no ratings"),
        ("1\t2\n", 1, "found 2"),
        ("1\t2\t3\n\n1\t3\n", 3, "found 2"),
        ("1\t2\t3\n1,3,4\n", 2, "separated by tab, found 1"),
        ("1\t2\tx\n", 1, "'x' is not a number"),
        ("1\t2\t3\n1\t3\tx\n", 2, "'x' is not a number"),
        ("u,i,r\nu,i,r\n", 2, "not a number"),
        ("1,2,3\n1,3,\n", 2, "not a number"),
        ("1,2,3\n1,3,1_0\n", 2, "not a number"),
        ("1,2,3\n1,3,nan\n", 2, "not finite"),
        ("1,2,3\n1,3,inf\n", 2, "not finite"),
        (f"1,2,3\n1,3,{'9' * 400}\n", 2, "not finite"),
        ("1,2,3\n ,3,4\n", 2, "user is empty"),
        ("1,2,3\n1,,4\n", 2, "item is empty"),
        (f"1,2,3\n1,{'i' * 300},4\n", 2, "item is longer"),
        ("u,i,r\n1,2,3\n\n1,2,4\n", 4, "line 2"),
        ("user,1,2,3\nann,5,4,3\n", 1, "found a column for '1': write a line for each rating"),
        (",1,2\nann,5,4\n", 1, "found a column for '1'"),
        (",Alien,Brazil,Casino\nann,5,4,3\n", 1, "expected columns user, item and rating"),
        ("".join(f"{k},ann,{k % 3},4\n" for k in range(12)), 1, "counts the lines, 0 … 11"),
        ("1;2;3\n1;3;3,5\n", 2, "'3,5' is not a number: write a point for the comma"),
    ],
)
def test_bad_ratings(content, line, word, tmp_path):
    check_refused(read_ratings, put(tmp_path, "r.csv", content), line, word)


def test_ratings_in_parquet(tmp_path):
    columns = {"when": [1, 2], "rating": [3, 4.5], "user": [1.0, 2.0], "item": ["10", "10"]}
    for name in ("r.parquet", "r.gz"):
        ratings = read_ratings(put(tmp_path, name, parquet(**columns)))
        assert ratings.users.tolist() == ["1", "2"]
        assert ratings.items.tolist() == ["10", "10"]
        assert ratings.values.tolist() == [3.0, 4.5]
    for changed, word in (
        ({"rating": [3, None]}, "the rating is missing in row 2"),
        ({"rating": ["3", "good"]}, "the rating is 'good', not a number in row 2"),
        ({"user": [1, None]}, "the user is empty in row 2"),
        ({"user": [1, 1]}, "user '1' rated item '10' before, on row 1, and in row 2"),
        ({"user": [1, 1], "rater": [1, 1]}, "expected columns user, item and rating, found 'when'"),
    ):
        path = put(tmp_path, "bad.parquet", parquet(**(columns | changed)))
        check_refused(read_ratings, path, None, word)


def make(*rows: tuple[str, str, float]) -> Ratings:
    users, items, values = zip(*rows, strict=True)
    return Ratings(np.array(users), np.array(items), np.array(values))


def test_index_ratings():
    train = make(("10", "b", 1.0), ("9", "a", 2.0), ("10", "a", 3.0))
    test = make(("9", "b", 4.0), ("9", "c", 5.0), ("11", "a", 6.0))
    got = index_ratings(train, test)
    assert got.shape == (2, 2)
    assert got.rows.tolist() == [1, 0, 0]
    assert got.cols.tolist() == [1, 0, 1]  # numeric order: 9 before 10
    assert got.values.tolist() == [1.0, 2.0, 3.0]
    assert (got.test_rows.tolist(), got.test_cols.tolist()) == ([1], [0])
    assert got.test_values.tolist() == [4.0]
    assert got.dropped == 2
    alone = index_ratings(train, None)
    assert alone.test_rows is alone.test_cols is alone.test_values is None
    assert alone.dropped == 0
    mixed = index_ratings(make(("10", "1", 1.0), ("9", "1", 1.0), ("x", "1", 1.0)))
    assert mixed.cols.tolist() == [0, 1, 2]  # lexicographic: "10" before "9"


@pytest.mark.parametrize(
    ("name", "content", "has_points"),
    [
        ("a.npz", npz(C=SQUARED), False),
        ("a.npz", npz(C=SQUARED, X=POINTS, labels=np.arange(3)), True),
        ("a.npz", npz(C=SQUARED, images=POINTS.T.astype(np.uint8)), True),
        ("a.npz", npz(X=POINTS, images=np.ones((9, 9)), other=np.ones((2, 2))), True),
        ("a.npz", npz(images=POINTS.T.astype(np.float32), labels=np.arange(3)), True),
        ("a.npz", npz(anything=POINTS.astype(int), k=np.int64(3)), True),
        ("a.npz", npz(C=SQUARED + np.diag([0, 1e-12, 0]) + np.diag([1e-13, 0], 1)), False),
        ("a.npy", npy(POINTS), True),
        ("a.npy", npy(np.asfortranarray(POINTS)), True),
        ("a.npy.gz", npy(POINTS), True),
        ("named-otherwise", npz(X=POINTS), True),
        ("a.csv", "x,y\n0,0\n3,4\n1,0\n", True),
        ("a.csv.gz", "0,0\n3,4\n1,0\n", True),
        ("a.csv", "\ufeffx;y\r\n0;0\r\n\r\n3;4\r\n1;0", True),
        ("a.tsv", "first one\tsecond\n0\t0\n3\t4\n1\t0\n", True),
        ("a.txt", "# saved\n0 0\n 3e0   4.0\n1 0\n", True),
    ],
)
def test_good_features(name, content, has_points, tmp_path):
    features = read_features(put(tmp_path, name, content))
    assert features.distances.dtype == np.float64
    np.testing.assert_allclose(features.distances, SQUARED, atol=1e-9)
    np.testing.assert_array_equal(features.distances, features.distances.T)
    assert not np.diag(features.distances).any()
    if has_points:
        assert features.points.dtype == np.float64
        np.testing.assert_array_equal(features.points, POINTS)
    else:
        assert features.points is None


def parquet(**columns: object) -> bytes:
    pytest.importorskip("pyarrow")
    return pytest.importorskip("pandas").DataFrame(columns).to_parquet()


X, Y = [0, 3, 1], [0.0, 4.0, 0.0]


@pytest.mark.parametrize(
    ("name", "content", "columns", "names"),
    [
        ("a.csv", "id,x,y\n7,0,0\n8,3,4\n9,1,0\n", None, ("7", "8", "9")),
        ("a.csv", ",x,y\n0,0,0\n1,3,4\n2,1,0\n", None, ("0", "1", "2")),
        ("a.csv", 'city,x,y\nRome,0,0\n"Bonn, am Rhein",3,4\nOslo,1,0\n', None, "Rome"),
        ("a.txt", "Rome 0 0\nBonn 3 4\nOslo 1 0\n", None, ("Rome", "Bonn", "Oslo")),
        ("a.csv", "x,kind,y\n0,a,0\n3,b,4\n1,c,0\n", ["x", "y"], None),
        ("a.csv", "x,kind,y\n0,a,0\n3,b,4\n1,c,0\n", [1, "3"], None),
        ("a.parquet", lambda: parquet(x=X, y=Y), None, None),
        ("a.pq", lambda: parquet(name=["a", "b", "c"], x=X, y=Y), None, ("a", "b", "c")),
        ("other.gz", lambda: parquet(x=X, kind=["a", "b", "c"], y=Y), ["x", "y"], None),
    ],
)
def test_columns_of_tables(name, content, columns, names, tmp_path):
    data = content() if callable(content) else content
    features = read_features(put(tmp_path, name, data), columns=columns)
    np.testing.assert_array_equal(features.points, POINTS)
    found = features.names
    assert found[0] == "Rome" if names == "Rome" else found == names


def test_columns_that_are_not_there(tmp_path):
    path = put(tmp_path, "a.csv", "x,y\n0,0\n3,4\n")
    with pytest.raises(InputError, match="no column 'z', the columns are 'x', 'y'"):
        read_features(path, columns=["z"])
    with pytest.raises(InputError, match="a file of NumPy"):
        read_features(put(tmp_path, "a.npy", npy(POINTS)), columns=["z"])
    check_refused(
        read_features,
        put(tmp_path, "a.parquet", parquet(x=[0, None], y=[1, 2])),
        *(None, "column 'x' is missing in row 2"),
    )


def test_one_column(tmp_path):
    features = read_features(put(tmp_path, "a.csv", "x\n1\n4\n"))
    assert features.points.tolist() == [[1.0], [4.0]]
    assert features.distances.tolist() == [[0.0, 9.0], [9.0, 0.0]]


@pytest.mark.parametrize(
    ("content", "line", "word"),
    [
        ("# c\n", None, "no numbers"),
        ("x,y\n", 1, "no numbers"),
        ("x,y\n1,2\n", None, "at least 2 points"),
        ("1,2\n\n3\n", 3, "2 columns expected, found 1"),
        ("1,2\n3,4,5\n", 2, "2 columns expected, found 3"),
        ("x,y,z\n1,2\n", 2, "3 columns expected"),
        ("1,x\n1,2\n", 1, "column 2: 'x' is not a number"),
        ("x,y\n1,2\n3,\n", 3, "column 2 ('y'): '' is not a number: fill it in"),
        ("x,y\n1,2\n3,nan\n", 3, "column 2 ('y'): 'nan' is not finite: fill it in"),
        ("x,kind\n1,a\n3,b\n", 2, "column 2 ('kind'): 'a' is not a number: leave such columns"),
        ("1 2\n3 four\n", 2, "column 2: 'four'"),
        ("1;2\n1_0;3\n", 2, "column 1: '1_0'"),
        ("1\t2\n3\tnan\n", 2, "column 2: 'nan' is not finite"),
        ("1,2\n1e999,2\n", 2, "column 1: '1e999' is not finite"),
        ("1e200,2\n-1e200,2\n", None, "overflow"),
        ("x;y\n0,5;2\n1,5;3\n", 2, "column 1 ('x'): '0,5' is not a number: write a point"),
        ('x,y\n"1,000",2\n"2,000",3\n', 2, "'1,000' is not a number: write it without a comma"),
        ("x,y\n10%,2\n20%,3\n", 2, "column 1 ('x'): '10%' is not a number: leave such columns"),
    ],
)
def test_bad_tables(content, line, word, tmp_path):
    check_refused(read_features, put(tmp_path, "a.csv", content), line, word)


def bent(row: int, column: int, value: float) -> np.ndarray:
    matrix = SQUARED.copy()
    matrix[row, column] = value
    return matrix


LIES = npy(POINTS).replace(b"(3, 2), }            ", b"(300000000, 30000), }")
assert npy(POINTS) != LIES


@pytest.mark.parametrize(
    ("name", "content", "word"),
    [
        ("a.npz", npz(), "none"),
        ("a.npz", npz(a=np.ones(3), b=np.ones((2, 2, 2))), "found: a, b"),
        ("a.npz", npz(a=np.ones((3, 2)), b=np.ones((3, 2))), "found: a, b"),
        ("a.npz", npz(a=np.array([["x", "y"]])), "found: a"),
        ("a.npz", npz(X=np.ones(3)), "X is not a 2-D array"),
        ("a.npz", npz(X=np.ones((3, 2)) * 1j), "complex"),
        ("a.npz", npz(X=np.ones((0, 2))), "X is not"),
        ("a.npz", npz(X=np.ones((1, 2))), "at least 2 points"),
        ("a.npz", npz(images=np.ones((4, 4, 5))), "images is not a 2-D array"),
        ("a.npz", npz(X=np.array([[1.0, 2.0], [3.0, np.nan]])), "row 2, column 2"),
        ("a.npz", npz(X=np.array([[1.0, -np.inf], [3.0, 4.0]])), "row 1, column 2"),
        ("a.npz", npz(X=np.zeros((50_001, 1), dtype=np.int8)), "too large"),
        ("a.npz", npz(C=np.ones(4)), "C is not a 2-D array"),
        ("a.npz", npz(C=np.ones((2, 3))), "not square"),
        ("a.npz", npz(C=bent(0, 1, 24.0)), "not symmetric"),
        ("a.npz", npz(C=bent(1, 1, 1.0)), "diagonal"),
        ("a.npz", npz(C=-SQUARED), "negative"),
        ("a.npz", npz(C=bent(0, 1, np.nan)), "not finite"),
        ("a.npz", npz(C=SQUARED, X=np.ones((4, 2))), "4 points"),
        ("a.npz", npz(X=np.array([[1, "a"], [2, None]], dtype=object)), "numpy file"),
        ("a.npy", npy(np.array([[1, None]], dtype=object), pickled=True), "numpy file"),
        ("a.npy", npy(np.ones(5)), "not a 2-D array"),
        ("a.npy", npy(POINTS)[:-8], "numpy file"),
        ("a.npy", npy(POINTS)[:20], "numpy file"),
        ("a.npy", LIES, "numpy file"),
        ("a.npy", "1,2\n3,4\n", "numpy file"),
        ("a.npz", npz(X=POINTS)[:-30], "numpy file"),
        ("a.npz", "garbage", "numpy file"),
    ],
)
def test_bad_numpy_files(name, content, word, tmp_path):
    check_refused(read_features, put(tmp_path, name, content), None, word)


@pytest.mark.parametrize("text", ["0,1,2\n4,5,6\n1,1,2\n", "0,1\n0.5,1.0\n2.0,3.5\n"])
def test_numbers_of_columns_are_no_point(tmp_path, text):
    path = tmp_path / "points.csv"
    path.write_text(text)
    with pytest.raises(InputError, match="may be the numbers of columns"):
        read_features(path)
    path.write_text(text.replace("0,1", "0.0,1", 1))
    assert read_features(path).points[0, :2].tolist() == [0, 1]


@pytest.mark.parametrize("rest", ["a,x,4\nb,x,3\n", "7,8,4.0\n8,8,3.5\n"])
def test_numbers_of_columns_are_no_rating(tmp_path, rest):
    path = tmp_path / "ratings.csv"
    path.write_text("0,1,2\n" + rest)
    with pytest.raises(InputError, match="may be the numbers of columns"):
        read_ratings(path)
    path.write_text("0,1,2\n1,1,4\n2,1,5\n")
    assert read_ratings(path).values[0] == 2
