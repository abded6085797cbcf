"""`Plain.renew` of every map against its definition, and the rows it is called for."""

import numpy as np
import pytest

from condgrad import functions
from condgrad.maps import AllEntries, DataMatrix, Diagonal, Triangles
from condgrad.maps._base import RowStorage
from condgrad.passes import Plain, passes_of
from conformance.test_maps import MAPS, matrix_of

RNG = np.random.default_rng(11)
FUNCTIONS = {
    "interval": lambda m: functions.Interval(-0.5, 0.25),
    "interval per row": lambda m: functions.Interval(-0.5, np.linspace(-0.4, 1, m)),
    "at most": lambda m: functions.AtMost(0.1),
    "at least": lambda m: functions.AtLeast(np.linspace(-1, 1, m)),
    "equal": lambda m: functions.Equal(0.3),
    "absolute": lambda m: functions.Absolute(np.linspace(-1, 1, m), 0.7),
    "l1": lambda m: functions.L1(0.3),
    "hinge": lambda m: functions.Hinge(np.where(np.arange(m) % 2, 1.0, -1.0)),
}


def slopes_by_hand(function, z, beta, at):
    """h'_β(z) from the three formulas, without the library's slope."""
    m = z.size

    def rows(data):
        return np.broadcast_to(data, m)[at] if np.ndim(data) else data

    if isinstance(function, functions.Interval):
        y = (z[at] - np.clip(z[at], rows(function.lower), rows(function.upper))) / beta
    elif isinstance(function, functions.Absolute):
        y = np.clip((z[at] - rows(function.target)) / beta, -function.scale, function.scale)
    else:
        t = rows(function.labels)
        y = -t * np.clip((1 - t * z[at]) / beta, 0, 1)
    return y


def pieces(size):
    a, b = sorted((size // 3, max(1, 2 * size // 3)))
    return [slice(0, size), slice(a, b), slice(0, 1), slice(size - 1, size)]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("name", MAPS)
def test_renew_is_its_definition(name, function, dtype):
    A, rng = MAPS[name], np.random.default_rng(5)
    h, M = FUNCTIONS[function](A.size), matrix_of(A)
    own = isinstance(A, RowStorage)
    tol = 1e-11 if dtype == np.float64 else 1e-4
    G, y = A.zeros(dtype), rng.standard_normal(A.size).astype(dtype)
    y = h.into_dual(y).astype(dtype)
    slopes = G if own else np.zeros(A.size, dtype)  # as methods keep them
    table, multipliers = np.zeros(A.size), y.astype(float)
    for i, at in enumerate(pieces(A.size) * 2):
        beta, theta = (0.4, 2.0, 0.05)[i % 3], (0.5, 1.0, 0.1)[i % 3]
        W = rng.standard_normal(A.shape).astype(dtype)
        kept = W.copy()
        z = M @ W.astype(float).reshape(-1)
        new = slopes_by_hand(h, z + beta * multipliers, beta, at)
        table[at] = new
        multipliers[at] += theta * (new - multipliers[at])
        passes_of(A, h).renew(W, G, [at], y, slopes, beta, theta)
        assert np.array_equal(W, kept)
        assert G.dtype == y.dtype == slopes.dtype == dtype
        size = 1 + np.abs(table).max()
        assert np.abs(slopes - table).max() <= tol * size
        assert np.abs(y - multipliers).max() <= tol * size
        out = np.zeros(A.shape, dtype)
        A.add_to(G, 1.0, out)
        grown = tol * size * (1 + np.abs(M).sum(axis=0).max())
        assert np.abs(out.reshape(-1) - M.T @ table).max() <= grown


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("name", [n for n, A in MAPS.items() if isinstance(A, RowStorage)])
def test_row_storage_keeps_the_slopes_in_the_cotangent(name, function):
    A, rng = MAPS[name], np.random.default_rng(6)
    h, W = FUNCTIONS[function](A.size), rng.standard_normal(A.shape)
    G, y = np.full(A.size, 7.0), np.zeros(A.size)
    elsewhere = np.full(A.size, 5.0)
    passes_of(A, h).renew(W, G, [slice(0, A.size)], y, elsewhere, 0.5, 0.25)
    assert np.all(elsewhere == 5.0)
    expected = slopes_by_hand(h, A.rows(W), 0.5, slice(0, A.size))
    np.testing.assert_allclose(G, expected, atol=1e-13)
    np.testing.assert_allclose(y, 0.25 * expected, atol=1e-13)


@pytest.mark.parametrize("name", ["Triangles 6", "Triangles 7", "AllEntries wide", "Diagonal"])
@pytest.mark.parametrize("function", ["interval", "at most", "equal"])
def test_the_fused_pass_is_the_plain_one(name, function):
    """One number for all rows takes a kernel; it must not differ from the general way."""
    A, rng = MAPS[name], np.random.default_rng(7)
    h, W = FUNCTIONS[function](A.size), rng.standard_normal(A.shape)
    outcomes = []
    for plain in (False, True):
        G, y, slopes = A.zeros(), np.linspace(-1, 1, A.size), np.zeros(A.size)
        for at in pieces(A.size):
            if plain:
                Plain(A, h).renew(W, G, [at], y, slopes, 0.3, 0.4)
            else:
                store = G if isinstance(A, RowStorage) else slopes
                passes_of(A, h).renew(W, G, [at], y, store, 0.3, 0.4)
        outcomes.append((G, y))
    for a, b in zip(*outcomes, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-12)


def test_renewed_reads_only_the_rows_asked_for():
    A, h = DataMatrix(RNG.standard_normal((9, 4))), functions.Absolute(np.linspace(-1, 1, 9), 0.6)
    w, y = RNG.standard_normal(4), RNG.standard_normal(9)
    y[:2] = y[6:] = np.nan
    got = Plain(A, h)._renewed(w, slice(2, 6), y, 0.5)
    z = A.rows(w)[2:6] + 0.5 * y[2:6]
    expected = np.clip((z - np.linspace(-1, 1, 9)[2:6]) / 0.5, -0.6, 0.6)
    np.testing.assert_allclose(got, expected)


def test_blocks_of_a_map():
    assert [Triangles(n).stretch for n in (3, 5, 8)] == [1, 6, 21]
    q = Triangles(6).triples(np.arange(60))[1]
    assert all(len(set(q[i : i + 10].tolist())) == 1 for i in range(0, 60, 10))  # one apex each
    assert AllEntries((3, 5)).stretch == 5
    assert AllEntries((7,)).stretch == 1
    assert Diagonal(4).stretch == 1
    assert all(A.stretch >= 1 and A.size >= A.stretch for A in MAPS.values())
