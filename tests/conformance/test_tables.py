"""Tables of slopes and the drawing of rows."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from condgrad import Term, functions, maps
from condgrad.errors import ProblemError
from condgrad.methods import SAG
from condgrad.methods.sampling import batch_size, check_batch, draw
from condgrad.methods.table1 import swap
from condgrad.methods.tables import objection

REAL = pytest.mark.parametrize("dtype", [np.float64, np.float32])
STORED = pytest.mark.parametrize("stored", [np.float64, np.float32])


def swaps(rng, size, dtype):
    """Rows and new values: ids with repeats, slices, none at all; many zeros."""
    for _ in range(12):
        low, high = np.sort(rng.integers(0, size + 1, 2))
        ids = rng.integers(0, size, rng.integers(0, 40))
        at = [ids, slice(int(low), int(high)), slice(None), slice(0, 0)][
            rng.choice(4, p=[0.6, 0.3, 0.05, 0.05])
        ]
        count = np.arange(size)[at].size
        yield at, (rng.standard_normal(count) * (rng.random(count) < 0.7)).astype(dtype)


@REAL
@STORED
@settings(max_examples=15)
@given(size=st.integers(1, 3000), seed=st.integers(0, 10**6))
def test_a_swap_gives_what_changed(dtype, stored, size, seed):
    rng = np.random.default_rng(seed)
    table, plain, total = np.zeros(size, stored), np.zeros(size, stored), np.zeros(size)
    for at, new in swaps(rng, size, dtype):
        ids, kept = np.arange(size)[at], new.copy()
        change = swap(table, at, new)
        assert change.dtype == dtype
        assert np.array_equal(new, kept)
        for i, v in zip(ids, new, strict=True):
            plain[i] = v
        np.add.at(total, ids, change.astype(float))
        assert np.array_equal(table, plain)
        assert total == pytest.approx(plain, abs=1e-12 if dtype == np.float64 else 1e-5)


def test_single_precision_changes_are_of_what_is_stored():
    # A cotangent that follows the differences must not drift from the rounded table.
    table = np.zeros(1, np.float32)
    changes = [
        swap(table, at, np.array([v]))[0]
        for v in (0.1, 1 / 3)
        for at in (np.array([0]), slice(0, 1))
    ]
    assert sum(changes) == float(np.float32(1 / 3))


@pytest.mark.parametrize("dtype", [np.int64, np.float16, "fancy", complex])
def test_bad_tables_are_refused(dtype):
    with pytest.raises(ProblemError, match=r"^table_dtype "):
        SAG(table_dtype=dtype)


@given(size=st.integers(2, 3000), part=st.floats(0.001, 1), seed=st.integers(0, 10**6))
def test_draws_without_replacement_are_distinct(size, part, seed):
    rng = np.random.default_rng(seed)
    batch = batch_size(part, size)
    for _ in range(3):
        at = draw(size, batch, False, rng)
        if batch == size:
            assert at == slice(0, size)
            continue
        assert at.dtype == np.int64
        assert at.size == batch == np.unique(at).size
        assert at.min() >= 0
        assert at.max() < size


@pytest.mark.parametrize("batch", [1, 2, 5, 13, 39])
@pytest.mark.parametrize("replace", [True, False])
def test_every_row_is_equally_likely(batch, replace):
    rng, size = np.random.default_rng(11), 40
    counts, repeats = np.zeros(size), 0
    for _ in range(8000 // batch + 200):
        at = draw(size, batch, replace, rng)
        counts += np.bincount(at, minlength=size)
        repeats += at.size - np.unique(at).size
    assert (repeats > 0) == (replace and batch > 1)
    # Drawn without replacement counts vary less, so that the test can only be too kind there.
    spread = 1.0 if replace else 1 - batch / size
    statistic = chisquare(counts).statistic / spread
    assert statistic < 75  # 39 degrees of freedom: one run in 2000
    assert statistic > 13  # nor is it too even to be drawn


@pytest.mark.parametrize("batch", [2, 5, 39])
def test_pairs_are_equally_likely(batch):
    rng = np.random.default_rng(5)
    together = np.zeros((40, 40))
    for _ in range(4000):
        at = draw(40, batch, False, rng)
        together[np.ix_(at, at)] += 1
    pairs = together[np.triu_indices(40, 1)]
    expected = 4000 * batch * (batch - 1) / (40 * 39)
    assert np.abs(pairs - expected).max() < 6 * np.sqrt(expected) + 1


def test_all_but_one_row_is_quick():
    size = 200_000
    rng = np.random.default_rng(0)
    at = draw(size, size - 1, False, rng)
    assert np.unique(at).size == at.size == size - 1
    calls = []

    class Counting:
        def __getattr__(self, name):
            calls.append(name)
            return getattr(rng, name)

    draw(size, size - 1, False, Counting())
    assert len(calls) < 100


def test_full_batch():
    rng = np.random.default_rng(0)
    assert draw(7, 7, False, rng) == slice(0, 7)
    assert draw(7, 7, True, rng).shape == (7,)
    one = draw(1, 1, False, rng)
    assert np.arange(1)[one].tolist() == [0]


def test_draws_repeat_with_the_seed():
    for replace in (True, False):
        first, second = (draw(500, 30, replace, np.random.default_rng(9)) for _ in range(2))
        assert np.array_equal(first, second)


def test_ids_beyond_32_bits():
    at = draw(2**33, 1000, True, np.random.default_rng(0))
    assert at.max() > 2**32
    assert at.dtype == np.int64


@pytest.mark.parametrize(
    ("batch", "size", "rows"),
    [
        (1, 10, 1),
        (10, 10, 10),
        (np.int32(4), 10, 4),
        (1.0, 10, 10),
        (0.25, 10, 2),
        (0.001, 10, 1),
        (np.float32(0.5), 10, 5),
        (99, 1, 1),
        (0.2, 1, 1),
    ],
)
def test_batch_size(batch, size, rows):
    assert batch_size(batch, size) == rows


@pytest.mark.parametrize(
    "batch", [0, -1, 0.0, -0.5, 1.5, np.nan, np.inf, True, "5", None, 2.0, [3]]
)
def test_bad_batches_are_refused(batch):
    with pytest.raises(ProblemError, match=r"^batch is "):
        check_batch(batch)


def test_a_batch_beyond_the_rows_names_the_term():
    term = Term(maps.DataMatrix(np.eye(10)), functions.AtMost(0.0), name="cuts")
    words = "cannot draw its rows: batch is 11, but term 'cuts' has only 10 rows: use at most 10"
    assert str(objection(term, 11)).startswith(words)
    assert objection(term, 10) is None
