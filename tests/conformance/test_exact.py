"""The numbers that a bound is made of, against exact arithmetic.

Conjugates, A*y and minima over domains are computed in fractions or in decimals with 60 digits, at
magnitudes between 1e-60 and 1e60 and where sums cancel: what is computed in floats is off by no
more than the margins say.
"""

from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp

from condgrad import domains, functions, maps
from condgrad._floats import EPS, length, lengths, power_of_two
from condgrad.backends import _reference, backend
from condgrad.maps import Perimeters, Triangles
from conformance.test_maps import MAPS
from exact import DIGITS, DUAL, decimal, dot, fractions, function, linear_map, norm, total

CASES = 200


def odd(rng: np.random.Generator) -> float:
    """A number of any magnitude."""
    return float(10 ** rng.uniform(-60, 60))


# Functions.


@pytest.mark.parametrize("name", DUAL)
def test_a_conjugate_is_off_by_its_rounding_only(name):
    for seed in range(CASES):
        rng = np.random.default_rng([seed, *name.encode()])
        size, m = odd(rng) if seed % 2 else 1.0, int(rng.integers(1, 30))
        with localcontext(DIGITS):
            pair = function(rng, name, size * rng.standard_normal(m), size)
            y = pair.made.into_dual(odd(rng) * rng.standard_normal(m))
            if seed % 7 == 0:
                y = pair.made.into_dual(y * 1e-250)  # products underflow
            exact = pair.conjugate([decimal(x) for x in y])
            assert exact is not None
            found, scale = pair.made.conjugate(y), pair.made.conjugate_size(y)
            margin = EPS / 2 * (m + 16) * scale
            assert abs(decimal(found) - exact) <= decimal(1.01 * margin), seed


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_points_put_into_the_domain_lie_there(dtype):
    for seed in range(CASES):
        rng = np.random.default_rng(seed)
        m, scale = int(rng.integers(2, 40)), odd(rng)
        size = odd(rng) if dtype == np.float64 else 10.0 ** rng.uniform(-15, 15)
        y = (size * rng.standard_normal(m)).astype(dtype)
        labels = rng.choice([-1.0, 1.0], m)
        with localcontext(DIGITS):
            assert norm([decimal(x) for x in functions.L2Norm(scale).into_dual(y)]) <= decimal(
                scale
            )
            s, *u = (decimal(x) for x in functions.SecondOrder().into_dual(y))
            assert norm(u) <= -s
        assert np.abs(functions.Absolute(0.0, scale).into_dual(y)).max() <= scale
        assert np.abs(functions.Huber(0.0, scale).into_dual(y)).max() <= scale
        p = -labels * functions.Logistic(labels).into_dual(y)
        assert 0 <= p.min() <= p.max() <= 1
        p = -labels * functions.Hinge(labels).into_dual(y)
        assert 0 <= p.min() <= p.max() <= 1
        c = scale * rng.standard_normal(m)
        assert np.array_equal(functions.Linear(c).into_dual(y), c)


@pytest.mark.parametrize(
    ("f", "end"),
    [
        (functions.Linear(1e-12), 1e-12),
        (functions.Linear(3e50), 3e50),
        (functions.Absolute(0.0, 1e-12), 1e-12),
        (functions.L1(0.1), 0.1),
        (functions.Huber(0.0, 1e-30), 1e-30),
        (functions.Logistic(-1.0), 1.0),
        (functions.Hinge(-1.0), 1.0),
        (functions.AtLeast(1e-30), 0.0),
    ],
)
def test_there_is_no_tolerance_at_the_end_of_the_domain(f, end):
    assert np.isfinite(f.conjugate(np.array([end])))
    assert f.conjugate(np.array([np.nextafter(end, np.inf)])) == np.inf


def test_a_small_linear_function_is_not_zero():
    for c in (1e-9, -1e-12, 1e-300, 5e-324):
        assert functions.Linear(c).conjugate(np.zeros(1)) == np.inf
        assert functions.Linear(c).conjugate(np.full(1, c)) == 0


def test_a_norm_outside_its_ball_is_infinite():
    for seed in range(CASES):
        rng = np.random.default_rng(seed)
        m, scale = int(rng.integers(1, 40)), odd(rng)
        y = rng.standard_normal(m)
        y *= scale / np.linalg.norm(y)
        assert functions.L2Norm(scale).conjugate(1.00001 * y) == np.inf
        assert functions.L2Norm(scale).conjugate(0.99999 * y) == 0
        s = float(np.linalg.norm(y))
        assert functions.SecondOrder().conjugate(np.r_[-0.99999 * s, y]) == np.inf
        assert functions.SecondOrder().conjugate(np.r_[-1.00001 * s, y]) == 0
        assert functions.SecondOrder().conjugate(np.r_[1e-9 * s, 0 * y]) == np.inf


# Maps.


def adjoint_error(A: maps.LinearMap, rows: list[list[Fraction]], y: np.ndarray) -> tuple:
    """‖A*y − exact‖², what it may be, and the size of the sum."""
    found, numbers = fractions(A.adjoint(y)), fractions(y)
    used = [(x, row) for x, row in zip(numbers, rows, strict=True) if x]
    exact = [sum((x * row[e] for x, row in used), Fraction(0)) for e in range(len(found))]
    squares = sum(((a - b) ** 2 for a, b in zip(found, exact, strict=True)), Fraction(0))
    size = float(np.sum(np.abs(y) * A.lengths()))
    return squares, Fraction(1.01 * EPS / 2 * (A.depth + 4) * size), size


EXACT = {  # rows that one product with 1 leaves as they are
    name: A for name, A in MAPS.items() if not name.startswith(("Scaled", "LowRank", "Sandwich"))
}


@pytest.mark.parametrize("name", EXACT)
def test_the_adjoint_is_off_by_its_depth_only(name):
    A = EXACT[name]
    rows = [fractions(A.adjoint(e)) for e in np.eye(A.size)]
    for seed in range(10):
        rng = np.random.default_rng(seed)
        y = odd(rng) * rng.standard_normal(A.size) * 10 ** rng.uniform(-3, 3, A.size)
        y[A.size // 2 :] = -y[: A.size - A.size // 2] * (1 + 1e-9)
        squares, most, _ = adjoint_error(A, rows, y)
        assert squares <= most**2


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_the_adjoint_of_products(kind):
    for seed in range(10):
        rng = np.random.default_rng(seed)
        p, n, m, q = rng.integers(1, 7, 4)
        A, B = (odd(rng) * rng.standard_normal(shape) for shape in ((p, n), (m, q)))
        rows = [
            [a * b for a in fractions(A[i]) for b in fractions(B[:, j])]
            for i in range(p)
            for j in range(q)
        ]
        y = odd(rng) * rng.standard_normal(p * q)
        squares, most, _ = adjoint_error(maps.Sandwich(kind(A), kind(B)), rows, y)
        assert squares <= most**2


@pytest.mark.parametrize("shape", [(3,), (2, 2)], ids=["vector", "matrix"])
def test_the_adjoint_of_rows_that_cancel(shape):
    worst = 0.0
    for seed in range(CASES):
        rng = np.random.default_rng([seed, *shape])
        A, rows = linear_map(rng, shape, odd(rng), 40)
        squares, most, size = adjoint_error(A, rows, odd(rng) * rng.standard_normal(A.size))
        assert squares <= most**2
        worst = max(worst, float(squares) ** 0.5 / size if size else 0.0)
        exact = [decimal(sum((x * x for x in row), Fraction(0))).sqrt() for row in rows]
        given = np.broadcast_to(A.lengths(), A.size)
        assert all(decimal(g * (1 + 1e-12)) >= x for g, x in zip(given, exact, strict=True))
    assert worst > 0  # something was rounded


def check_adjoint(A, signs, rng):
    """A*y of rows with these signs at pairs of (p, q, r), in fractions."""
    triples = dict(zip("pqr", A.triples(np.arange(A.size)), strict=True))
    y = 10 ** rng.uniform(-8, 8, A.size) * rng.choice([-1.0, 1.0], A.size)
    exact = np.zeros(A.shape, object)
    exact[:] = Fraction(0)
    for l, x in enumerate(fractions(y)):
        for sign, (i, j) in signs:
            exact[triples[i][l], triples[j][l]] += sign * x
    pairs = zip(fractions(A.adjoint(y)), exact.reshape(-1), strict=True)
    squares = sum((a - b) ** 2 for a, b in pairs)
    assert squares <= Fraction(1.01 * EPS / 2 * (A.depth + 4) * A.row_norm * np.abs(y).sum()) ** 2


@pytest.mark.parametrize("kernels", ["numba", "reference"])
def test_the_adjoint_of_triangles(kernels, monkeypatch):
    if kernels == "numba" and backend() != "numba":
        pytest.skip("there are no compiled kernels")
    if kernels == "reference":
        monkeypatch.setattr("condgrad.maps.triangles.kernels", lambda array: _reference)
        monkeypatch.setattr("condgrad.maps.triangles.backend", lambda: "reference")
    for seed in range(20):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(3, 14))
        check_adjoint(Triangles(n), ((1, "qp"), (1, "qr"), (-1, "pr"), (-1, "qq")), rng)
        check_adjoint(Triangles(n, unit=True), ((1, "qp"), (1, "qr"), (-1, "pr")), rng)
        check_adjoint(Perimeters(n), ((1, "qr"), (1, "qp"), (1, "rp")), rng)
    assert Triangles(300).depth <= 1000 or kernels == "reference"


# Domains.


def exactly_known(rng: np.random.Generator, n: int, m: int) -> tuple[np.ndarray, list[int]]:
    """P diag(λ) R for P, R = qI − 2uuᵀ, integers: its singular values are |λ| times the second."""
    most = 10 ** int(rng.integers(1, 11))
    spectrum = [int(x) for x in rng.integers(-most, most, min(n, m))]
    if rng.random() < 0.5:
        spectrum = [most + int(x) for x in rng.integers(0, 3, min(n, m))]  # a cluster
    if rng.random() < 0.5:
        spectrum = [-x for x in spectrum]
    u, w = rng.integers(-2, 3, n), rng.integers(-2, 3, m)
    u[0], w[0] = 1, 1
    w = u if n == m else w
    reflections = [int(x @ x) * np.eye(x.size, dtype=object) - 2 * np.outer(x, x) for x in (u, w)]
    middle = np.zeros((n, m), object)
    for i, x in enumerate(spectrum):
        middle[i, i] = x
    V = reflections[0] @ middle @ reflections[1]
    scale = int(u @ u) * int(w @ w)
    assert max(abs(int(x)) for x in V.reshape(-1)) < 2**53
    return V.astype(float), [x * scale for x in spectrum]


def scaled(rng: np.random.Generator, V: np.ndarray) -> tuple[np.ndarray, Fraction]:
    """V times a power of two, which rounds nothing."""
    power = int(rng.integers(-290, 290))
    return np.ldexp(V, power), Fraction(2) ** power


def holds(found: float, exact: Fraction, size: Fraction) -> None:
    assert Fraction(found) <= exact
    assert Fraction(found) >= exact - Fraction(1, 10**9) * size


def test_eigenvalues_are_proved():
    for seed in range(CASES):
        rng = np.random.default_rng(seed)
        V, values = exactly_known(rng, n := int(rng.integers(2, 9)), n)
        V, unit = scaled(rng, V)
        trace, equality = odd(rng), bool(seed % 2)
        low = min(values) if equality else min(0, *values)
        size = Fraction(trace) * unit * max(map(abs, values))
        found = domains.Spectrahedron(n, trace, equality).minimum(V)
        holds(found.value, Fraction(trace) * unit * low, size)
        assert found.kind == "exact-eigenvalue"


def test_eigenvalues_of_blocks_are_proved():
    for seed in range(CASES):
        rng = np.random.default_rng([seed, 1])
        (A, a), (B, b) = (exactly_known(rng, k, k) for k in rng.integers(2, 5, 2))
        n, single = len(a) + len(b) + 1, int(rng.integers(-(10**9), 10**9))
        V = np.zeros((n, n))
        V[: len(a), : len(a)], V[len(a) : -1, len(a) : -1], V[-1, -1] = A, B, single
        V, unit = scaled(rng, V)
        trace = odd(rng)
        domain = domains.BlockSpectrahedron([len(a), len(b), 1], trace, equality=True)
        values = [*a, *b, single]
        size = Fraction(trace) * unit * max(map(abs, values))
        holds(domain.minimum(V).value, Fraction(trace) * unit * min(values), size)


def test_eigenvalues_off_pinned_vectors_are_proved():
    for seed in range(CASES):
        rng = np.random.default_rng([seed, 2])
        n = int(rng.integers(3, 8))
        u = rng.integers(-2, 3, n)
        u[0] = 1
        q = int(u @ u)
        vectors = q * np.eye(n, dtype=int) - 2 * np.outer(u, u)
        most = 10 ** int(rng.integers(1, 11))
        spectrum = [int(x) for x in rng.integers(-most, most, n)]
        V = (vectors.astype(object) * spectrum) @ vectors.astype(object).T
        V, unit = scaled(rng, V.astype(float))
        r, mu = int(rng.integers(1, n - 1)), float(rng.choice([0.0, 1.0, rng.uniform(0, 3)]))
        trace = r * mu + float(10 ** rng.uniform(-3, 3))
        domain = domains.PinnedSpectrahedron(
            vectors[:, :r].astype(float), trace, mu, bool(seed % 2)
        )
        low = min(spectrum[r:]) if domain.equality else min(0, *spectrum[r:])
        rest = Fraction(trace) - r * Fraction(mu)
        exact = unit * q * q * (Fraction(mu) * sum(spectrum[:r]) + rest * low)
        size = unit * q * q * Fraction(trace) * max(map(abs, spectrum))
        holds(domain.minimum(V).value, exact, size)


def test_singular_values_are_proved():
    for seed in range(CASES):
        rng = np.random.default_rng([seed, 3])
        n, m = (int(x) for x in rng.integers(2, 8, 2))
        V, values = exactly_known(rng, n, m)
        V, unit = scaled(rng, V)
        radius = odd(rng)
        exact = -Fraction(radius) * unit * max(map(abs, values))
        holds(domains.NuclearBall((n, m), radius).minimum(V).value, exact, -exact)


def test_minima_over_vectors_are_proved():
    for seed in range(CASES):
        rng = np.random.default_rng([seed, 4])
        d, r = int(rng.integers(1, 60)), odd(rng)
        v = odd(rng) * rng.standard_normal(d) * 10 ** rng.uniform(-8, 8, d)
        low, high = np.sort(r * rng.standard_normal((2, d)) + 1e6 * r * rng.integers(-1, 2), axis=0)
        exact, R = fractions(v), Fraction(r)
        corners = [
            min(x * a, x * b)
            for x, a, b in zip(exact, fractions(low), fractions(high), strict=True)
        ]
        size = sum(map(abs, corners))
        sizes = [abs(x) for x in exact]
        box, simplex = domains.Box(low, high), domains.Simplex(d, r)
        holds(box.minimum(v).value, sum(corners), size)
        holds(simplex.minimum(v).value, R * min(exact), R * abs(min(exact)))
        holds(domains.L1Ball(d, r).minimum(v).value, -R * max(sizes), R * max(sizes))
        holds(domains.LinfBall(d, r).minimum(v).value, -R * sum(sizes), R * sum(sizes))
        both = domains.Product([box, simplex]).minimum(np.r_[v, v]).value
        holds(both, sum(corners) + R * min(exact), size + R * abs(min(exact)))
        found = Fraction(domains.L2Ball(d, r).minimum(v).value)
        squares = R * R * dot(exact, exact)
        assert squares <= found * found <= squares * (1 + Fraction(1, 10**9))
        assert found <= 0


# Norms.


def test_norms_without_overflow_or_underflow():
    for seed in range(CASES):
        rng = np.random.default_rng([seed, 5])
        x = rng.standard_normal(30) * 10.0 ** rng.uniform(-300, 300) * 10 ** rng.uniform(-5, 5, 30)
        with localcontext(DIGITS):
            exact = total(decimal(a) ** 2 for a in x).sqrt()
            assert abs(Decimal(length(x)) / exact - 1) <= Decimal("1e-14")
            assert lengths(np.array([x, 0 * x])) == pytest.approx([length(x), 0], rel=1e-14)
        unit = power_of_two(x)
        assert np.array_equal(x / unit * unit, x)
        assert 0.5 <= np.abs(x / unit).max() <= 2
    assert length(np.zeros(3)) == 0
    assert length(np.array([np.inf, 1.0])) == np.inf
    assert np.isnan(length(np.array([np.nan, 1.0])))
