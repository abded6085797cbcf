"""CUDA kernels equal their plain twins, and give the same bits every time."""

import numpy as np
import pytest

from condgrad.backends import _reference_fused, _reference_segments, tiles
from on_gpu import gpu

cupy = gpu()
TWINS = {
    kind: _reference_fused.fused(f"{kind}_sweep", f"{kind}_add")
    for kind in ("triangle", "perimeter")
}
KINDS = pytest.mark.parametrize("kind", TWINS)
SIDES = pytest.mark.parametrize("n", [3, 5, 34, 64, 65, 129, 200])
REAL = pytest.mark.parametrize("real", [np.float64, np.float32])
BOUNDS = pytest.mark.parametrize("bounds", [(-np.inf, 0.0), (-0.3, 0.4), (0.0, 0.0)])


def drivers(kind="triangle"):
    from condgrad.backends import _cupy

    return _cupy.fused(f"{kind}_sweep", f"{kind}_add")


class Case:
    """A symmetric W and tables with zeros in them, in the order of rows and on the GPU."""

    def __init__(self, n, real, seed=0, kind="triangle"):
        rng, self.others = np.random.default_rng(seed), kind == "perimeter"
        self.n, self.pairs = n, (n - 1) * (n - 2) // 2
        self.size = n * self.pairs // (3 if self.others else 1)
        W = rng.standard_normal((n, n))
        self.W = W + W.T
        self.y, self.slopes = (self._table(rng, real) for _ in range(2))
        apexes = np.sort(rng.permutation(n)[: max(1, n // 3)])
        self.ends = np.stack([apexes, apexes + 1], axis=1) * self.pairs
        if self.others:
            ends = np.stack([apexes, apexes + 1], axis=1)
            self.ends = ends * (ends - 1) * (ends - 2) // 6
        self.tolerance = 1e-11 if real == np.float64 else 3e-5

    def _table(self, rng, real):
        y = rng.standard_normal(self.size) * (rng.random(self.size) < 0.4)
        return y.astype(real)

    def there(self):
        """W, G, y and slopes on the GPU."""
        tables = (tiles.filled(self.n, 0, y, perimeters=self.others) for y in (self.y, self.slopes))
        return [cupy.asarray(x) for x in (self.W, np.zeros((self.n, self.n)), *tables)]

    def here(self):
        """The same for the twin, in float64."""
        return self.W, np.zeros((self.n, self.n)), self.y.astype(float), self.slopes.astype(float)

    def same(self, found, wanted, size=1.0):
        np.testing.assert_allclose(found, wanted, rtol=self.tolerance, atol=size * self.tolerance)

    def same_table(self, table, wanted):
        values = table.get()
        self.same(tiles.listed(self.n, table, self.size, self.others), wanted)
        values[tiles.places(self.n, np.arange(self.size), self.others)] = 0
        assert not values.any()  # nothing was written where there is no row


@KINDS
@SIDES
@REAL
@BOUNDS
def test_ascend(n, real, bounds, kind):
    case = Case(n, real, kind=kind)
    (W, G, y, _), (V, H, x, _) = case.there(), case.here()
    total = drivers(kind).ascend(W, G, y, case.ends, *bounds, 0.7)
    case.same(total, TWINS[kind].ascend(V, H, x, case.ends, *bounds, 0.7))
    case.same(G.get(), H, n)
    case.same_table(y, x)


@SIDES
def test_ascend_with_sums_in_single_precision(n):
    case, bounds = Case(n, np.float32), (-np.inf, 0.0)
    (W, G, y, _), (V, H, x, _) = case.there(), case.here()
    G = G.astype(np.float32)
    drivers().ascend(W, G, y, case.ends, *bounds, 0.7)
    TWINS["triangle"].ascend(V, H, x, case.ends, *bounds, 0.7)
    assert G.dtype == np.float32
    case.same(G.get(), H, n)


@KINDS
@SIDES
@REAL
@BOUNDS
def test_dual(n, real, bounds, kind):
    case = Case(n, real, kind=kind)
    (W, G, y, s), (V, H, x, t) = case.there(), case.here()
    drivers(kind).dual(W, G, y, s, case.ends, *bounds, 0.7, 0.3)
    TWINS[kind].dual(V, H, x, t, case.ends, *bounds, 0.7, 0.3)
    case.same(G.get(), H, n)
    case.same_table(y, x)
    case.same_table(s, t)


@KINDS
@SIDES
@REAL
@BOUNDS
def test_sums(n, real, bounds, kind):
    case = Case(n, real, kind=kind)
    (W, _, y, s), (V, _, x, t) = case.there(), case.here()
    own, whole = drivers(kind), (0, case.size)
    close = {"rtol": 1e-11}
    np.testing.assert_allclose(
        own.miss(W, *whole, *bounds), TWINS[kind].miss(V, *whole, *bounds), **close
    )
    found = own.merit(W, y, *whole, *bounds, 0.7)
    np.testing.assert_allclose(found, TWINS[kind].merit(V, x, *whole, *bounds, 0.7), **close)
    found = own.squares(W, s, case.ends)
    np.testing.assert_allclose(found, TWINS[kind].squares(V, t, case.ends), **close)


@KINDS
@SIDES
@REAL
@pytest.mark.parametrize("images", [True, False])
def test_pair(n, real, images, kind):
    """In float64 whatever the table is."""
    case = Case(n, real, kind=kind)
    (W, G, y, _), (V, H, x, _) = case.there(), case.here()
    found = drivers(kind).pair(W, images, G, y, 0, case.size, 0.0, np.inf)
    wanted = TWINS[kind].pair(V, images, H, x, 0, case.size, 0.0, np.inf)
    np.testing.assert_allclose(found, wanted, rtol=1e-11, atol=1e-9)
    np.testing.assert_allclose(G.get(), H, rtol=1e-11, atol=1e-11 * n)


@REAL
def test_price_square_and_rows(real):
    from condgrad.backends import _cupy, _reference

    case = Case(70, real)
    W, G, y, _ = case.there()
    z = np.empty(case.size)
    _reference.triangle_sweep(case.W, 0, case.size, z)
    price = float(np.abs(case.y.astype(float) * np.maximum(z, 0)).sum())
    assert _cupy.triangle_price(W, y, 0, case.size, -np.inf, 0.0) == pytest.approx(price)
    square = float(np.square(case.y.astype(float)).sum())
    assert _cupy.triangle_square(y) == pytest.approx(square)
    out = cupy.empty(50)
    _cupy.triangle_sweep(W, 100, 150, out)
    np.testing.assert_allclose(out.get(), z[100:150])
    _cupy.triangle_add(G, 100, 150, out)
    H = np.zeros((70, 70))
    _reference.triangle_add(H, 100, 150, z[100:150])
    np.testing.assert_allclose(G.get(), H, atol=1e-12)


@SIDES
@REAL
def test_symmetrise(n, real):
    from condgrad.backends import _cupy

    V = np.random.default_rng(n).standard_normal((n, n)).astype(real)
    there = cupy.asarray(V)
    _cupy.symmetrise(there)
    _reference_segments.symmetrise(V)
    assert np.array_equal(there.get(), V)
    assert np.array_equal(V, V.T)


@REAL
def test_axpy_at(real):
    from condgrad.backends import _cupy, _reference

    rng = np.random.default_rng(0)
    out, y = rng.standard_normal(5000), rng.standard_normal(1200).astype(real)
    index = rng.permutation(5000)[:1200]
    there = cupy.asarray(out)
    _cupy.axpy_at(there, cupy.asarray(index), 0.3, cupy.asarray(y))
    _reference.axpy_at(out, index, 0.3, y)
    np.testing.assert_allclose(there.get(), out, rtol=1e-6)


@REAL
def test_sums_and_steps(real):
    from condgrad.backends import _cupy

    rng, near = np.random.default_rng(0), 1e-12 if real == np.float64 else 1e-6
    x, y, W = (rng.standard_normal((301, 257)).astype(real) for _ in range(3))
    there = [cupy.asarray(a) for a in (x, y, W)]
    pairs = [(0, 1), (1, 1), (2, 0)]
    found = _cupy.dots(*((there[i], there[j]) for i, j in pairs))
    wanted = _reference_segments.dots(*(([x, y, W][i], [x, y, W][j]) for i, j in pairs))
    np.testing.assert_allclose(found, wanted, rtol=near)
    assert found == _cupy.dots(*((there[i], there[j]) for i, j in pairs))
    strided = _cupy.dots((there[0].T, there[1].T), (there[0][:, :9], there[1][:, :9]))
    np.testing.assert_allclose(strided, [wanted[0], np.vdot(x[:, :9], y[:, :9])], rtol=1e-4)


@pytest.mark.parametrize("n", [2, 3, 256, 257, 700])
def test_orders_of_vertices(n):
    from condgrad.backends import _cupy

    rng = np.random.default_rng(n)
    A, mu = np.triu(rng.random((n, n)) < 0.2, 1) * rng.random((n, n)), 1 + rng.random(n)
    A += A.T
    vertex, ends = (x.astype(np.int32) for x in np.nonzero(A))
    starts = np.concatenate([[0], np.cumsum(np.bincount(vertex, minlength=n))]).astype(np.int32)
    edges = starts, ends, A[vertex, ends]
    order = np.argsort(rng.random((5, n)), axis=1)
    place = _reference_segments.places(order)
    before = _reference_segments.earlier(place, *edges)
    there = cupy.asarray(order)
    np.testing.assert_array_equal(_cupy.places(there).get(), place)
    found = _cupy.earlier(cupy.asarray(place), *map(cupy.asarray, edges))
    np.testing.assert_allclose(found.get(), before, atol=1e-13)
    degree, total = A.sum(axis=1), float(mu.sum())
    own = _cupy.prefixes(there, found, cupy.asarray(degree), cupy.asarray(mu), total)
    wanted = _reference_segments.prefixes(order, before, degree, mu, total)
    np.testing.assert_allclose(own.get(), wanted, rtol=1e-11, atol=1e-11)


@REAL
def test_the_same_bits_every_time(real):
    case, found = Case(300, real), []
    for _ in range(2):
        W, G, y, s = case.there()
        own = drivers()
        numbers = [own.ascend(W, G, y, case.ends, -np.inf, 0.0, 0.7)]
        own.dual(W, G, y, s, case.ends, -np.inf, 0.0, 0.7, 0.3)
        numbers += own.pair(W, True, G, y, 0, case.size, 0.0, np.inf)
        numbers += own.miss(W, 0, case.size, -np.inf, 0.0)
        found.append((G.get().tobytes(), y.get().tobytes(), s.get().tobytes(), numbers))
    assert found[0] == found[1]


@KINDS
@SIDES
@REAL
@pytest.mark.parametrize("shards", [2, 3])
def test_shares_of_the_tiles_are_the_whole_together(n, real, kind, shards):
    """What actors of a cluster do, each with some tiles of the tables."""
    from condgrad.backends import _cupy

    if tiles.count(n) < shards:
        pytest.skip("there are fewer tiles")
    case, bounds, name = Case(n, real, kind=kind), (-np.inf, 0.1), f"{kind}_sweep"
    (W, G, y, s), (_, H, _, _) = case.there(), case.there()
    whole, unit = drivers(kind), n * tiles.SIDE**2
    numbers = np.zeros(6)
    for i in range(shards):
        first, count = tiles.dealt(n, shards, i)
        at = slice(first * unit, (first + count) * unit)
        own, y_own, s_own = (
            _cupy.fused(name, f"{kind}_add", (first, count)),
            y[at].copy(),
            s[at].copy(),
        )
        own.dual(W, H, y_own, s_own, case.ends, *bounds, 0.7, 0.3)
        numbers[0] += own.ascend(W, H, y_own, case.ends, *bounds, 0.4)
        numbers[1] += own.squares(W, s_own, case.ends)
        numbers[2] += own.miss(W, 0, case.size, *bounds)[0]
        numbers[3] += own.merit(W, y_own, 0, case.size, *bounds, 0.7)[0]
        numbers[4] += own.pair(W, True, H, y_own, 0, case.size, 0.0, np.inf)[0]
        how = (0, case.size, *bounds, case.others, (first, count))
        numbers[5] += _cupy.triangle_price(W, y_own, *how)
    whole.dual(W, G, y, s, case.ends, *bounds, 0.7, 0.3)
    wanted = [whole.ascend(W, G, y, case.ends, *bounds, 0.4), whole.squares(W, s, case.ends)]
    wanted += [whole.miss(W, 0, case.size, *bounds)[0]]
    wanted += [whole.merit(W, y, 0, case.size, *bounds, 0.7)[0]]
    wanted += [whole.pair(W, True, G, y, 0, case.size, 0.0, np.inf)[0]]
    wanted += [_cupy.triangle_price(W, y, 0, case.size, *bounds, case.others)]
    np.testing.assert_allclose(numbers, wanted, rtol=1e-9 if real == np.float64 else 1e-4)
    case.same(H.get(), G.get(), n)
