"""Tables in bfloat16, and passes over the entries of W, against their plain twins."""

import numpy as np
import pytest

import condgrad as cg
from condgrad import applications
from condgrad.backends import _reference, _reference_fused, tiles
from on_gpu import gpu, planted

cupy = gpu()
TWIN = _reference_fused.fused("triangle_sweep", "triangle_add")
SIDES = pytest.mark.parametrize("n", [3, 34, 64, 65, 129, 200])
BOUNDS = pytest.mark.parametrize("bounds", [(-np.inf, 0.0), (-0.3, 0.4)])
REAL = pytest.mark.parametrize("real", [np.float64, np.float32])


def drivers():
    from condgrad.backends import _cupy

    return _cupy.fused("triangle_sweep", "triangle_add")


class Case:
    """A symmetric W and two tables of numbers that bfloat16 has."""

    def __init__(self, n, seed=0):
        rng = np.random.default_rng(seed)
        self.n, self.size = n, n * (n - 1) * (n - 2) // 2
        W = rng.standard_normal((n, n))
        self.W = W + W.T
        drawn = rng.standard_normal((2, self.size)) * (rng.random((2, self.size)) < 0.4)
        self.halves = [tiles.narrowed(np.maximum(y, 0)) for y in drawn]
        self.tables = [tiles.widened(y).astype(float) for y in self.halves]
        apexes, pairs = np.sort(rng.permutation(n)[: max(1, n // 3)]), self.size // n
        self.ends = np.stack([apexes, apexes + 1], axis=1) * pairs

    def there(self):
        tables = [cupy.asarray(tiles.filled(self.n, 0, y)) for y in self.halves]
        return cupy.asarray(self.W), cupy.zeros((self.n, self.n)), *tables

    def listed(self, table):
        values = table.get()
        found = tiles.listed(self.n, table, self.size).astype(float)
        values[tiles.places(self.n, np.arange(self.size))] = 0
        assert not values.any()  # nothing was written where there is no row
        return found

    def near(self, found, wanted):
        """A neighbour of the number wanted."""
        assert (np.abs(found - wanted) <= 2.0**-7 * np.abs(wanted) + 1e-6).all()
        assert not found[wanted == 0].any()
        assert (found * wanted >= 0).all()

    def same(self, G, change):
        H = np.zeros((self.n, self.n))
        _reference.triangle_add(H, 0, self.size, change)
        np.testing.assert_allclose(G.get(), H, rtol=3e-5, atol=3e-5 * self.n)


@SIDES
@BOUNDS
def test_ascend(n, bounds):
    case = Case(n)
    W, G, y, _ = case.there()
    before, x, H = case.tables[0], case.tables[0].copy(), np.zeros((n, n))
    total = drivers().ascend(W, G, y, case.ends, *bounds, 0.7)
    TWIN.ascend(case.W, H, x, case.ends, *bounds, 0.7)
    found = case.listed(y)
    case.near(found, x)
    case.same(G, found - before)
    assert total == pytest.approx(np.square(found - before).sum(), rel=1e-4, abs=1e-6)


@SIDES
@BOUNDS
def test_dual(n, bounds):
    case = Case(n)
    W, G, y, s = case.there()
    (x, t), H = (table.copy() for table in case.tables), np.zeros((n, n))
    drivers().dual(W, G, y, s, case.ends, *bounds, 0.7, 0.3)
    TWIN.dual(case.W, H, x, t, case.ends, *bounds, 0.7, 0.3)
    case.near(case.listed(y), x)
    case.near(case.listed(s), t)
    case.same(G, case.listed(s) - case.tables[1])


@SIDES
def test_sums(n):
    case, close = Case(n), {"rtol": 1e-11, "atol": 1e-9}
    (W, G, y, _), (x, _), H = case.there(), case.tables, np.zeros((n, n))
    own, whole, bounds = drivers(), (0, case.size), (-np.inf, 0.0)
    found = own.merit(W, y, *whole, *bounds, 0.7)
    np.testing.assert_allclose(found, TWIN.merit(case.W, x, *whole, *bounds, 0.7), **close)
    for images in (False, True):
        found = own.pair(W, images, G, y, *whole, 0.0, np.inf)
        wanted = TWIN.pair(case.W, images, H, x, *whole, 0.0, np.inf)
        np.testing.assert_allclose(found, wanted, **close)
        np.testing.assert_allclose(G.get(), H, rtol=1e-11, atol=1e-11 * n)


def test_small_steps_are_not_lost():
    """Steps of a hundredth of what bfloat16 can tell apart add up."""
    n, steps = 40, 400
    W = np.zeros((n, n))
    np.fill_diagonal(W, -1.0)  # z = 1 for every row
    size = n * (n - 1) * (n - 2) // 2
    y = cupy.asarray(tiles.filled(n, 0, tiles.narrowed(np.ones(size))))
    own, there, G = drivers(), cupy.asarray(W), cupy.zeros((n, n))
    for i in range(steps):
        own.ascend(there, G, y, [[0, size]], -np.inf, 0.0, 2.0**7 * 100 * (1 + 1e-4 * i))
    wanted = 1 + sum(1 / (2.0**7 * 100 * (1 + 1e-4 * i)) for i in range(steps))
    assert tiles.listed(n, y, size).mean() == pytest.approx(wanted, abs=2e-3)


def test_the_same_bits_every_time():
    found = []
    for _ in range(2):
        how = {"table_dtype": "bfloat16"}
        problem = applications.sparsest_cut(planted(90)).problem
        result = cg.solve(problem, cg.spdhg(**how), max_iter=40, device="cuda", gap=1e-3)
        found.append((result.W.tobytes(), result.lower_bound))
    assert found[0] == found[1]


@REAL
@pytest.mark.parametrize("n", [1, 31, 32, 100])
def test_entries(real, n):
    from condgrad.backends import _cupy

    rng, close = np.random.default_rng(n), {"rtol": 1e-5 if real == np.float32 else 1e-13}
    v, W, offset = rng.standard_normal((3, n, n)).astype(real)
    z, y, G = rng.standard_normal((3, n * n)).astype(real)
    there = [cupy.asarray(x) for x in (v, W, offset, z, y, G)]
    out, wanted = cupy.empty((n, n), real), np.empty((n, n), real)
    _cupy.symmetric_part(there[0], out)
    _reference.symmetric_part(v, wanted)
    np.testing.assert_allclose(out.get(), wanted, **close)
    for own, other in ((None, None), (offset, there[2])):
        _cupy.descended(there[1], there[0], 0.3, other, out)
        _reference.descended(W, v, 0.3, own, wanted)
        np.testing.assert_allclose(out.get(), wanted, atol=10 * close["rtol"])
    found = _cupy.interval_ascend(there[3], 0.0, np.inf, 0.7, *there[4:])
    assert found == pytest.approx(_reference.interval_ascend(z, 0.0, np.inf, 0.7, y, G), rel=1e-5)
    np.testing.assert_allclose(there[4].get(), y, atol=10 * close["rtol"])
    np.testing.assert_allclose(there[5].get(), G, atol=10 * close["rtol"])
    _cupy.axpy(there[5], 0.3, there[4])
    _reference.axpy(G, 0.3, y)
    np.testing.assert_allclose(there[5].get(), G, atol=10 * close["rtol"])
