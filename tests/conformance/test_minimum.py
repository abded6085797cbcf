"""`Domain.minimum` of every domain and `lowest_bound`: never above the minimum, and close to it."""

import numpy as np
import pytest

from condgrad._floats import length
from condgrad.domains import Domain, Oracle, Product, Simplex, Spectrahedron, eigen
from condgrad.domains._base import KINDS, Minimum
from condgrad.domains.eigen import FAILURE, lowest_bound
from conformance.test_domains import DOMAINS, LEAST, mixture, sym

EVERY = pytest.mark.parametrize("domain", DOMAINS.values(), ids=DOMAINS.keys())


def directions(shape, rng):
    """Random ones, huge and tiny ones, ones near a multiple of the identity, and 0."""
    yield from (rng.standard_normal(shape) for _ in range(5))
    yield 1e9 * rng.standard_normal(shape)
    yield 1e-9 * rng.standard_normal(shape)
    yield rng.standard_normal(shape).astype(np.float32)
    yield np.zeros(shape)
    yield np.ones(shape)
    if len(shape) == 2:
        near = rng.standard_normal(shape)
        yield 1e6 * np.eye(*shape) + near
        yield -1e6 * np.eye(*shape) + near
        yield np.asfortranarray(rng.standard_normal(shape))


@EVERY
def test_minimum_is_a_bound_and_tight(domain):
    rng = np.random.default_rng(0)
    points = [mixture(domain, rng) for _ in range(5)] + [domain.center()]
    points += [domain.lmo(rng.standard_normal(domain.shape)).dense() for _ in range(10)]
    for v in directions(domain.shape, rng):
        kept = v.copy()
        found = domain.minimum(v)
        assert np.array_equal(v, kept)
        exact = v.astype(np.float64)
        least = LEAST[type(domain)](domain, exact)
        for s in [*points, domain.lmo(exact).dense()]:
            assert found.value <= np.vdot(exact, s)
        size = np.linalg.norm(exact) or 1e-2  # where v = 0 rounding is all there is
        slack = 1e-9 * (abs(least) + size * max(np.abs(points[0]).max(), 1.0))
        assert found.value <= least + 1e-6 * slack
        assert least <= found.value + slack
        assert isinstance(found, Minimum)
        assert found.failure == 0.0


@EVERY
def test_no_point_is_longer_than_the_reach(domain):
    rng = np.random.default_rng(1)
    points = [domain.lmo(rng.standard_normal(domain.shape)).dense() for _ in range(30)]
    points += [domain.center(), mixture(domain, rng)]
    longest = max(np.linalg.norm(W) for W in points)
    assert longest <= domain.reach * (1 + 1e-12)
    assert domain.reach <= length(domain.center()) + domain.diameter * (1 + 1e-12)


@EVERY
def test_minimum_says_how_it_is_known(domain):
    kinds = {"Oracle": "oracle", "NuclearBall": "exact-singular-value", "Product": None}
    name, symmetric = type(domain).__name__, "exact-eigenvalue" if domain.symmetric else "exact"
    expected = kinds.get(name, symmetric)
    found = domain.minimum(np.ones(domain.shape)).kind
    assert found in KINDS
    if expected:
        assert found == expected


def test_a_product_is_as_good_as_its_worst_factor(monkeypatch):
    oracle = Oracle(lambda v: -np.sign(v), 2, 4.0)
    parts = Simplex(3), Spectrahedron(12, 2.0)
    assert Product([parts[0], parts[0]]).minimum(np.ones(6)).kind == "exact"
    assert Product(parts).minimum(np.ones(147)).kind == "exact-eigenvalue"
    assert Product([*parts, oracle]).minimum(np.ones(149)).kind == "oracle"
    monkeypatch.setattr(eigen, "LARGE", 10)
    found = Product([*parts, parts[1]]).minimum(np.ones(291))
    assert (found.kind, found.failure) == ("probabilistic", 2 * FAILURE)


def test_a_user_domain_gets_a_bound_from_its_oracle():
    class Segment(Domain):
        shape, diameter = (2,), 1.0

        def lmo(self, v, **_):
            return Simplex(2).lmo(v)

        def contains(self, W, tol=1e-8):
            return Simplex(2).contains(W, tol)

        def center(self):
            return np.full(2, 0.5)

    found = Segment().minimum([3.0, -1.0])
    assert found.value < -1.0
    assert found.value == pytest.approx(-1.0, rel=1e-12)


@pytest.mark.parametrize("n", [1, 2, 5, 30, 100])
@pytest.mark.parametrize("scale", [1e-8, 1.0, 1e8])
def test_lowest_bound_is_below_lapack_and_tight(n, scale):
    for seed in range(10):
        V = scale * sym(np.random.default_rng(seed).standard_normal((n, n)))
        value, failure = lowest_bound(V)
        least = np.linalg.eigvalsh(V)[0]
        assert failure == 0.0
        assert value < least
        assert value == pytest.approx(least, abs=1e-11 * np.linalg.norm(V))


@pytest.mark.parametrize("shift", [0.0, 2.0**40, -(2.0**40)])
def test_lowest_bound_where_the_eigenvalue_is_known_exactly(shift):
    """Blocks [[a, b], [b, a]] have the eigenvalues a ± b, without any rounding."""
    rng, n = np.random.default_rng(0), 20
    for _ in range(20):
        V, low = np.zeros((2 * n, 2 * n)), np.inf
        for i in range(n):
            a, b = rng.integers(-1000, 1000, 2) / 8
            V[2 * i : 2 * i + 2, 2 * i : 2 * i + 2] = [[a + shift, b], [b, a + shift]]
            low = min(low, a + shift - abs(b))
        order = rng.permutation(2 * n)
        value, _ = lowest_bound(np.ascontiguousarray(V[np.ix_(order, order)]))
        assert value <= low
        assert value >= low - 1e-11 * np.linalg.norm(V)


def matrices(count):
    """Random ones, low-rank ones, clusters at the lower end and a lone smallest eigenvalue."""
    for seed in range(count):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(11, 60))
        Q = np.linalg.qr(rng.standard_normal((n, n)))[0]
        spectrum = [
            rng.standard_normal(n),
            np.r_[-1.0, np.zeros(n - 1)],
            np.r_[-1 - 1e-6 * rng.random(n // 2), rng.random(n - n // 2)],
            np.r_[-1e-3, rng.random(n - 1)],
        ][seed % 4]
        yield sym((Q * spectrum) @ Q.T * 10.0 ** rng.integers(-3, 4))


def test_the_bound_of_a_large_matrix_stays_below_the_smallest_eigenvalue(monkeypatch):
    monkeypatch.setattr(eigen, "LARGE", 10)
    count = 0
    for V in matrices(200):
        value, failure = lowest_bound(V)
        assert value <= np.linalg.eigvalsh(V)[0]
        assert failure == FAILURE
        count += 1
    assert count == 200


def test_a_bound_from_few_products(monkeypatch):
    """It must make up for the steps that are not taken."""
    monkeypatch.setattr(eigen, "LARGE", 10)
    rng = np.random.default_rng(0)
    for n in (650, 700):
        spectrum = np.r_[-1.0, np.linspace(-0.999999, 1, n - 1)]  # hardly any gap to find
        Q = np.linalg.qr(rng.standard_normal((n, n)))[0]
        V = sym((Q * spectrum) @ Q.T)
        value, failure = lowest_bound(V)
        assert -1 - 1e-3 <= value <= -1
        assert failure == FAILURE


def test_bound_of_a_domain_from_products(monkeypatch):
    monkeypatch.setattr(eigen, "LARGE", 10)
    rng = np.random.default_rng(1)
    for name in ("spectrahedron=60", "pinned lanczos", "nuclear-tall-lanczos", "blocks-lanczos"):
        domain = DOMAINS[name]
        v = rng.standard_normal(domain.shape)
        found, least = domain.minimum(v), LEAST[type(domain)](domain, v)
        assert found.kind == "probabilistic"
        assert 0 < found.failure <= 3 * FAILURE
        size = np.linalg.norm(v, 2) * (domain.trace if domain.symmetric else domain.radius)
        assert least - 4 * size <= found.value <= least
