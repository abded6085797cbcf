"""Points of dom h*: `into_dual`, the data's norm, and relative infeasibility by hand."""

import numpy as np
import pytest

from condgrad import Problem, Term, domains, functions, maps
from condgrad.certificate import relative_gap
from condgrad.evaluation import Violation
from condgrad.functions import L1, AtLeast, AtMost, Equal, Interval, L2Ball
from conformance.test_functions import EVERY, HIGH, LOW, ROWS, SEPARABLE, B, over

INF = np.inf


def inside(f, z):
    """A point where f is finite."""
    return f.prox(z, 1.0) if f.indicator else z


@over(EVERY)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_any_vector_is_put_into_the_domain(f, dtype):
    rng = np.random.default_rng(0)
    for scale in (1e-6, 1.0, 1e6):
        for _ in range(20):
            y = (scale * rng.standard_normal(ROWS)).astype(dtype)
            kept = y.copy()
            dual = f.into_dual(y)
            assert np.array_equal(y, kept), "into_dual changed what it was given"
            assert dual.shape == y.shape
            assert np.isfinite(f.conjugate(dual))
            assert np.isfinite(f.conjugate(f.into_dual(y.astype(np.float64))))
            again = f.into_dual(dual)
            np.testing.assert_allclose(again, dual, rtol=1e-6, atol=1e-30)


@pytest.mark.parametrize("name", SEPARABLE)
def test_no_row_leaves_the_domain_by_a_rounding(name):
    """A certificate is a proof: here the ends of dom h* hold without any slack."""
    c, rng = SEPARABLE[name], np.random.default_rng(1)
    for scale in (1e-9, 0.1, 1.0, 1e5):
        y = c.f.into_dual(scale * rng.standard_normal(ROWS))
        assert np.all((c.ylow <= y) & (y <= c.yhigh))
        z, beta = 3 * scale * rng.standard_normal(ROWS), 10.0 ** rng.uniform(-4, 2)
        short = c.f.slope(z.astype(np.float32), beta).astype(np.float32)
        y = c.f.into_dual(short.astype(np.float64))
        assert np.all((c.ylow <= y) & (y <= c.yhigh))


@over(EVERY)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_slopes_stay_as_they_are(f, dtype):
    rng, eps = np.random.default_rng(2), float(np.finfo(dtype).eps)
    for beta in (1e-3, 0.3, 10.0):
        for scale in (0.1, 3.0, 50.0):
            z = (scale * rng.standard_normal(ROWS)).astype(dtype)
            y = f.slope(z, beta)
            stored = y.astype(np.float32).astype(np.float64)  # a float32 table
            size = 1 + np.abs(z).max() / beta + np.abs(y).max()
            np.testing.assert_allclose(f.into_dual(y), y, rtol=0, atol=20 * eps * size)
            dual = f.into_dual(stored)
            assert np.isfinite(f.conjugate(dual))
            np.testing.assert_allclose(dual, stored, rtol=0, atol=2e-6 * size)


@over(EVERY)
def test_fenchel_young(f):
    rng = np.random.default_rng(3)
    for _ in range(200):
        y = f.into_dual(10.0 ** rng.uniform(-2, 2) * rng.standard_normal(ROWS))
        z = inside(f, 10.0 ** rng.uniform(-2, 2) * rng.standard_normal(ROWS))
        value = 0.0 if f.indicator else f.value(z)
        conjugate, product = f.conjugate(y), float(y @ z)
        slack = 1e-9 * (1 + abs(value) + abs(conjugate) + np.linalg.norm(y) * np.linalg.norm(z))
        assert value + conjugate >= product - slack


@over(EVERY)
def test_fenchel_young_is_tight_at_a_slope(f):
    """⟨y, u⟩ = h(u) + h*(y) for u = prox(z), y the slope at z: `into_dual` may not cost this."""
    rng = np.random.default_rng(4)
    for _ in range(20):
        z = 3 * rng.standard_normal(ROWS)
        u, beta = (z, 1.0) if f.smooth else (f.prox(z, 0.7), 0.7)
        y = f.into_dual(f.slope(z, beta))
        value = 0.0 if f.indicator else f.value(u)
        assert value + f.conjugate(y) == pytest.approx(float(y @ u), rel=1e-8, abs=1e-8)


@pytest.mark.parametrize("name", SEPARABLE)
def test_rows_on_their_own(name):
    f, y = SEPARABLE[name].f, 3 * np.random.default_rng(5).standard_normal(ROWS)
    whole = f.into_dual(y)
    for at in (slice(1, 4), slice(0, 0), np.array([4, 0, 0, 2])):
        np.testing.assert_array_equal(f.into_dual(y[at], at), whole[at])


def test_signs_of_multipliers():
    y = np.array([-2.0, -0.0, 3.0, 1e-300, -1e-300])
    np.testing.assert_array_equal(AtMost(1.0).into_dual(y), [0, 0, 3, 1e-300, 0])
    np.testing.assert_array_equal(AtLeast(1.0).into_dual(y), [-2, 0, 0, 0, -1e-300])
    np.testing.assert_array_equal(Equal(1.0).into_dual(y), y)
    np.testing.assert_array_equal(Interval(-1, 1).into_dual(y), y)
    np.testing.assert_array_equal(Interval(-INF, INF).into_dual(y), 0 * y)
    np.testing.assert_array_equal(L1(0.5).into_dual(y), [-0.5, 0, 0.5, 1e-300, -1e-300])
    np.testing.assert_array_equal(functions.Linear(B).into_dual(y), B)
    np.testing.assert_array_equal(Interval(LOW, HIGH).into_dual(-np.ones(5)), [0, -1, 0, -1, -1])
    np.testing.assert_array_equal(Interval(LOW, HIGH).into_dual(np.ones(5)), [0, 0, 1, 1, 1])


@pytest.mark.parametrize(
    ("f", "size", "expected"),
    [
        (Equal(0.5), 4, 1.0),
        (Equal([3.0, 0.0, -4.0]), 3, 5.0),
        (AtMost(-2.0), 9, 6.0),
        (AtMost([1.0, 2.0, 2.0]), 3, 3.0),
        (AtLeast(0.0), 7, 0.0),
        (AtLeast(3.0), 1, 3.0),
        (Interval(-3, 4), 4, 8.0),
        (Interval(-5, 4), 4, 10.0),
        (Interval(-INF, INF), 4, 0.0),
        (Interval(LOW, HIGH), 5, np.sqrt(14)),
        (Interval(LOW - 3, HIGH), 5, np.sqrt(16 + 9 + 1)),
        (Interval(-2.0, [1.0, INF]), 2, np.sqrt(8)),
        (L2Ball(1.5), 4, 1.5),
        (L2Ball(1.5, -2.0), 4, 5.5),
        (L2Ball(1.0, [3.0, 4.0]), 2, 6.0),
        (functions.Simplex(30.0), 9, 30.0),
        (functions.SecondOrder(), 9, 0.0),
        (L1(2.0), 9, 0.0),
    ],
)
def test_norm_of_the_data(f, size, expected):
    assert f.data_norm(size) == pytest.approx(expected, rel=1e-14)


@pytest.mark.parametrize(
    ("f", "w", "l2", "largest", "relative"),
    [  # b and z by hand: ‖r‖ / (1 + max(‖z‖, ‖b‖))
        (Equal([0.0, 4.0]), [3.0, 0.0], 5.0, 4.0, 5 / (1 + 4)),
        (Equal([0.0, 1.0]), [12.0, -4.0], 13.0, 12.0, 13 / (1 + np.hypot(12, 4))),
        (Equal(1.0), [1.0, 1.0], 0.0, 0.0, 0.0),
        (AtMost(0.0), [3.0, -4.0], 3.0, 3.0, 3 / 6),
        (AtMost(-6.0), [0.0, 0.0], np.sqrt(72), 6.0, np.sqrt(72) / (1 + np.sqrt(72))),
        (AtMost([10.0, 0.0]), [3.0, 4.0], 4.0, 4.0, 4 / 11),
        (AtLeast(0.0), [3.0, -4.0], 4.0, 4.0, 4 / 6),
        (Interval(-1.0, 2.0), [5.0, -5.0], 5.0, 4.0, 5 / (1 + np.sqrt(50))),
        (Interval(-INF, 9.0), [12.0, 9.0], 3.0, 3.0, 3 / (1 + 15)),
        (Interval([-30.0, -INF], [0.0, 1.0]), [4.0, 4.0], 5.0, 4.0, 5 / (1 + 30)),
        (L2Ball(1.0), [3.0, 4.0], 4.0, 3.2, 4 / 6),
        (L2Ball(5.0, [30.0, 40.0]), [0.0, 0.0], 45.0, 36.0, 45 / 56),
    ],
)
def test_relative_infeasibility_by_hand(f, w, l2, largest, relative):
    domain = domains.Box(-100.0, 100.0, 2)
    terms = [
        Term(maps.AllEntries((2,)), functions.Squared(0.0), name="fit"),
        Term(maps.AllEntries((2,)), f, 7.0, name="c"),  # the weight plays no part
    ]
    problem = Problem(domain, terms)
    found = problem.violations(np.array(w))["c"]
    assert found[:3] == pytest.approx((l2, largest, relative), rel=1e-14, abs=1e-14)
    least = 0.1 * 200 * np.sqrt(2)  # a tenth of the box's diameter, rows of length 1
    size = l2 / relative - 1 if l2 else 0.0
    assert found.scaled == pytest.approx(l2 / (2 * max(size, least)))
    evaluation = problem.evaluate(np.array(w))
    assert evaluation.infeasibility == pytest.approx(l2)
    assert evaluation.worst == max(found.relative, found.scaled)


def test_relative_infeasibility_over_many_chunks(monkeypatch):
    n, w = 1000, np.linspace(-1, 1, 1000)
    problem = Problem(
        domains.LinfBall(n), [Term(maps.AllEntries((n,)), Interval(-0.5, w / 2), name="c")]
    )
    whole = problem.violations(w)["c"]
    monkeypatch.setattr("condgrad.problem.CHUNK", 7)
    assert tuple(problem.violations(w)["c"]) == pytest.approx(tuple(whole), rel=1e-13)
    r = w - np.clip(w, -0.5, w / 2)
    size = 1 + max(np.linalg.norm(w), np.linalg.norm(np.full(n, 0.5)), np.linalg.norm(w / 2))
    assert whole.relative == pytest.approx(np.linalg.norm(r) / size, rel=1e-13)


def test_violation_without_a_relative_part():
    assert Violation(1.0, 2.0).relative == 0.0


def test_relative_gap_by_hand():
    assert relative_gap(10.0, 9.0) == pytest.approx(0.1)
    assert relative_gap(9.0, 10.0) == pytest.approx(0.1)  # an infeasible point below the bound
    assert relative_gap(-9.0, -10.0) == pytest.approx(0.1)
    assert relative_gap(1.0, -1.0) == pytest.approx(2.0)
    assert relative_gap(0.0, 0.0) == 0.0
    assert relative_gap(1.0, -INF) == INF
    assert relative_gap(np.nan, 1.0) == INF
