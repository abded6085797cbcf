"""Every function keeps what `Function` promises: slope, prox, conjugate and envelope agree."""

from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import minimize_scalar

from condgrad import functions
from condgrad.errors import ProblemError
from condgrad.functions import (
    L1,
    Absolute,
    AtLeast,
    AtMost,
    Equal,
    Hinge,
    Huber,
    Interval,
    L2Ball,
    L2Norm,
    Linear,
    Logistic,
    SecondOrder,
    Simplex,
    Squared,
)

ROWS = 5
B = np.array([-1.5, 0.0, 0.3, 2.0, 4.0])
T = np.array([1.0, -1.0, -1.0, 1.0, 1.0])
INF = np.inf
LOW = np.array([-INF, -1.0, -INF, 0.0, 2.0])
HIGH = np.array([INF, INF, 3.0, 1.0, 2.0])


class Case(NamedTuple):
    """A separable function with the ends of dom h and of dom h*, written down here by hand."""

    f: functions.Function
    low: np.ndarray
    high: np.ndarray
    ylow: np.ndarray
    yhigh: np.ndarray


def case(f, z=(-INF, INF), y=(-INF, INF)):
    return Case(f, *(np.broadcast_to(np.asarray(end, float), ROWS) for end in (*z, *y)))


def interval(f, low, high):
    low, high = np.broadcast_to(low, ROWS), np.broadcast_to(high, ROWS)
    return case(f, (low, high), (np.where(low == -INF, 0, -INF), np.where(high == INF, 0, INF)))


SEPARABLE = {
    "Linear": case(Linear(), y=(1, 1)),
    "Linear number": case(Linear(-2.5), y=(-2.5, -2.5)),
    "Linear rows": case(Linear(B), y=(B, B)),
    "Squared": case(Squared()),
    "Squared number": case(Squared(-3)),
    "Squared rows": case(Squared(B)),
    "Logistic number": case(Logistic(1), y=(-1, 0)),
    "Logistic rows": case(Logistic(T), y=(np.minimum(-T, 0), np.maximum(-T, 0))),
    "Huber": case(Huber(), y=(-1, 1)),
    "Huber rows": case(Huber(B, 0.3), y=(-0.3, 0.3)),
    "Interval": interval(Interval(-1, 2), -1.0, 2.0),
    "Interval rows": interval(Interval(B, B + 1), B, B + 1),
    "Interval mixed": interval(Interval(-1.5, B), -1.5, B),
    "Interval infinite": interval(Interval(LOW, HIGH), LOW, HIGH),
    "Interval free": interval(Interval(-INF, INF), -INF, INF),
    "Equal": interval(Equal(0.5), 0.5, 0.5),
    "Equal rows": interval(Equal(B), B, B),
    "AtMost": interval(AtMost(), -INF, 0.0),
    "AtMost rows": interval(AtMost(B), -INF, B),
    "AtLeast": interval(AtLeast(), 0.0, INF),
    "AtLeast rows": interval(AtLeast(B), B, INF),
    "Absolute": case(Absolute(), y=(-1, 1)),
    "Absolute rows": case(Absolute(B, 2.5), y=(-2.5, 2.5)),
    "L1": case(L1(0.3), y=(-0.3, 0.3)),
    "Hinge number": case(Hinge(-1), y=(0, 1)),
    "Hinge rows": case(Hinge(T), y=(np.minimum(-T, 0), np.maximum(-T, 0))),
}


def in_ball(center, radius):
    def member(rng):
        x = rng.standard_normal(ROWS)
        return center + radius * x / np.linalg.norm(x) * rng.choice([1.0, rng.random()])

    return member


def in_cone(rng):
    x = 30 * rng.standard_normal(ROWS - 1)
    return np.r_[np.linalg.norm(x) + rng.choice([0.0, rng.exponential(10)]), x]


def in_simplex(total):
    return lambda rng: total * rng.dirichlet(np.full(ROWS, rng.choice([0.05, 1.0])))


GROUP = {  # function, random points of its domain
    "L2Ball": (L2Ball(1.5), in_ball(0.0, 1.5)),
    "L2Ball number": (L2Ball(2, -1), in_ball(-1.0, 2)),
    "L2Ball rows": (L2Ball(20.0, B), in_ball(B, 20.0)),
    "L2Norm": (L2Norm(), in_ball(0.0, 40.0)),
    "L2Norm rows": (L2Norm(0.7, B), in_ball(B, 40.0)),
    "SecondOrder": (SecondOrder(), in_cone),
    "Simplex": (Simplex(), in_simplex(1.0)),
    "Simplex total": (Simplex(30.0), in_simplex(30.0)),
}
EVERY = {name: c.f for name, c in SEPARABLE.items()} | {name: b[0] for name, b in GROUP.items()}
SMOOTH = {name: f for name, f in EVERY.items() if f.smooth}
PROXIMABLE = {name: f for name, f in EVERY.items() if not f.smooth}
INDICATORS = {name: f for name, f in EVERY.items() if f.indicator}
LIPSCHITZ = {name: f for name, f in PROXIMABLE.items() if not f.indicator}

SOME = [np.array([4, 0, 0, 2]), np.array([], int), slice(1, 4), slice(0, 5), slice(2, 2)]

images = arrays(np.float64, ROWS, elements=st.integers(-6400, 6400).map(lambda i: i / 64))
betas = st.floats(-3, 3).map(lambda e: 10.0**e)


def over(cases):
    return pytest.mark.parametrize("f", cases.values(), ids=cases.keys())


def minimise(objective, low, high):
    """Numerical minimum of a convex function of one number on [low, high], ends included."""
    if low == high:
        return low
    found = minimize_scalar(objective, bounds=(low, high), method="bounded", options={"xatol": 0})
    return min((found.x, low, high), key=objective)


def test_every_public_function_is_tested():
    abstract = {"Function", "Indicator", "Proximable", "Smooth"}
    assert {type(f).__name__ for f in EVERY.values()} == set(functions.__all__) - abstract
    assert all(f.separable for f in (c.f for c in SEPARABLE.values()))
    assert not any(f.separable for f, _ in GROUP.values())


@over(EVERY)
@given(z=images, beta=betas)
def test_slope_is_the_derivative_of_smoothed(f, z, beta):
    # For a convex function a difference quotient lies between the slopes at its two ends.
    slope, h = f.slope(z, beta), 1e-4
    for l, e in enumerate(h * np.eye(ROWS)):
        up, down = f.smoothed(z + e, beta), f.smoothed(z - e, beta)
        quotient = (up - down) / (z + e - (z - e))[l]
        tol = 1e-14 * (1 + abs(up)) / h + 1e-8 * (1 + abs(slope[l]))
        assert f.slope(z - e, beta)[l] - tol <= quotient <= f.slope(z + e, beta)[l] + tol
        assert abs(quotient - slope[l]) <= tol + h * (f.smoothness if f.smooth else 1 / beta)


@over(EVERY)
@given(a=images, b=images, beta=betas)
def test_prox_is_firmly_nonexpansive(f, a, b, beta):
    d = f.prox(a, beta) - f.prox(b, beta)
    assert d @ d <= d @ (a - b) + 1e-9 * (1 + (a - b) @ (a - b))


@pytest.mark.parametrize("c", SEPARABLE.values(), ids=SEPARABLE.keys())
@given(z=images, beta=betas)
def test_prox_is_the_scalar_minimiser(c, z, beta):
    u = c.f.prox(z, beta)
    assert np.all((c.low <= u) & (u <= c.high))
    for l in range(ROWS):

        def objective(x, l=l):
            h = 0.0 if c.f.indicator else c.f.value(np.array([x]), slice(l, l + 1))
            return h + (x - z[l]) ** 2 / (2 * beta)

        reach = 10 + 2 * abs(z[l]) + 5 * beta  # the slopes of all cases here are below 5
        best = minimise(objective, max(c.low[l], -reach), min(c.high[l], reach))
        tol = 1e-10 * (1 + abs(objective(best)))
        assert objective(u[l]) <= objective(best) + tol
        assert abs(u[l] - best) <= 1e-5 * (1 + abs(z[l]) + beta)


@pytest.mark.parametrize("c", SEPARABLE.values(), ids=SEPARABLE.keys())
@given(z=images, beta=betas)
def test_moreau_identity(c, z, beta):
    u = c.f.prox(z, beta)
    for l in range(ROWS):

        def objective(y, l=l):
            y = min(max(y, c.ylow[l]), c.yhigh[l])
            return c.f.conjugate(np.array([y]), slice(l, l + 1)) + beta / 2 * (y - z[l] / beta) ** 2

        reach = (10 + 2 * abs(z[l]) + 5 * beta) / beta
        best = minimise(objective, max(c.ylow[l], -reach), min(c.yhigh[l], reach))
        gap = 1e-10 * (1 + abs(objective(best)))
        assert abs(u[l] + beta * best - z[l]) <= np.sqrt(2 * beta * gap) + 1e-9 * (1 + abs(z[l]))


@over(EVERY)
@given(z=images, beta=betas)
def test_fenchel_equality_at_the_prox(f, z, beta):
    u = f.prox(z, beta)
    y = f.into_dual((z - u) / beta)
    total, conjugate = u @ y, f.conjugate(y)
    assert abs(f.value(u) + conjugate - total) <= 1e-9 * (
        1 + abs(conjugate) + np.abs(u) @ np.abs(y)
    )


@pytest.mark.parametrize(("f", "member"), GROUP.values(), ids=GROUP.keys())
@given(z=images, beta=betas, seed=st.integers(0, 1000))
def test_block_prox_beats_feasible_points(f, member, z, beta, seed):
    def objective(x):
        return f.value(x) + (x - z) @ (x - z) / (2 * beta)

    rng, u = np.random.default_rng(seed), f.prox(z, beta)
    least = objective(u)
    assert np.isfinite(least)
    for _ in range(20):
        v = member(rng)
        assert np.isfinite(f.value(v))
        for t in (1.0, 0.1, 1e-3):
            assert least <= objective(u + t * (v - u)) + 1e-9 * (1 + abs(least))
        if f.indicator:
            assert (z - u) @ (v - u) <= 1e-9 * (1 + z @ z)
            assert f.prox(v, beta) == pytest.approx(v, abs=1e-12 * (1 + np.linalg.norm(v)))


@over(EVERY)
@given(z=images, y=images, beta=betas)
def test_fenchel_young(f, z, y, beta):
    for p in (z, f.prox(z, beta)):
        for q in (y, f.slope(y, beta), np.sign(y), np.zeros(ROWS)):
            both = f.value(p) + f.conjugate(q)
            assert both >= p @ q - 1e-9 * (1 + np.abs(p) @ np.abs(q))


@pytest.mark.parametrize("c", SEPARABLE.values(), ids=SEPARABLE.keys())
def test_conjugate_is_infinite_outside_its_domain_only(c):
    assert np.isfinite(c.f.conjugate(np.clip(0.0, c.ylow, c.yhigh)))
    for end, sign in ((c.ylow, -1), (c.yhigh, 1)):
        at_end = np.where(np.isfinite(end), end, sign * 50.0)
        assert np.isfinite(c.f.conjugate(at_end))
        for l in np.nonzero(np.isfinite(end))[0]:
            y = at_end.copy()
            y[l] += sign * 1e-3
            assert c.f.conjugate(y) == np.inf


@pytest.mark.parametrize(
    ("f", "y"),
    [(L2Norm(2.0), [2.001, 0, 0]), (SecondOrder(), [0, 0, 0.1]), (SecondOrder(), [1.0, 0, 0])],
)
def test_block_conjugate_is_infinite_outside_its_domain(f, y):
    assert f.conjugate(np.array(y, float)) == np.inf


@over(LIPSCHITZ)
@given(z=images, beta=betas)
def test_envelope_sandwich(f, z, beta):
    constant = f.lipschitz**2 * (ROWS if f.separable else 1)
    g, smoothed = f.value(z), f.smoothed(z, beta)
    assert smoothed <= g * (1 + 1e-12) + 1e-12
    assert g <= smoothed + beta * constant / 2 + 1e-9 * (1 + g)


@over(LIPSCHITZ)
@given(a=images, b=images)
def test_lipschitz_constant(f, a, b):
    length = np.abs(a - b).sum() if f.separable else np.linalg.norm(a - b)
    assert abs(f.value(a) - f.value(b)) <= f.lipschitz * length * (1 + 1e-12) + 1e-9
    far = f.slope(np.full(ROWS, 1e4), 1e-3), f.slope(np.full(ROWS, -1e4), 1e-3)
    steepest = max(np.abs(far).max() if f.separable else np.linalg.norm(y) for y in far)
    assert steepest == pytest.approx(f.lipschitz, rel=1e-6)


@over(INDICATORS)
@given(z=images, beta=betas)
def test_envelope_of_an_indicator(f, z, beta):
    distance = np.linalg.norm(z - f.prox(z, beta))
    assert f.distance(z) == pytest.approx(distance)
    assert f.smoothed(z, beta) == pytest.approx(distance**2 / (2 * beta))
    assert np.array_equal(f.residual(z), z - f.prox(z, 17.0))
    assert f.value(f.prox(z, beta)) == 0
    assert f.value(z) == (0 if distance <= 1e-9 * (1 + np.linalg.norm(z)) else np.inf)
    assert f.lipschitz == np.inf


@pytest.mark.parametrize("c", SEPARABLE.values(), ids=SEPARABLE.keys())
@pytest.mark.parametrize("at", SOME, ids=str)
@settings(max_examples=8)
@given(z=images, beta=betas)
def test_rows_follow_their_data(c, at, z, beta):
    f, ids = c.f, np.arange(ROWS)[at]
    assert np.array_equal(f.slope(z[at], beta, at), f.slope(z, beta)[at])
    assert np.allclose(f.prox(z[at], beta, at), f.prox(z, beta)[at], rtol=1e-14, atol=0)
    u = f.prox(z, beta)
    y = f.slope(u, beta)
    for call, x in ((f.value, z), (f.value, u), (f.conjugate, y), (f.conjugate, z)):
        each = sum(call(x[[l]], slice(l, l + 1)) for l in ids)
        assert call(x[at], at) == pytest.approx(each, rel=1e-12, abs=1e-9)
    each = sum(f.smoothed(z[[l]], beta, slice(l, l + 1)) for l in ids)
    assert f.smoothed(z[at], beta, at) == pytest.approx(each, rel=1e-12, abs=1e-9)


@over(SMOOTH)
@given(a=images, b=images)
def test_smoothness_is_valid_and_attained(f, a, b):
    gap = np.abs(f.derivative(a) - f.derivative(b))
    assert np.all(gap <= f.smoothness * np.abs(a - b) * (1 + 1e-9) + 1e-12)
    grid = np.linspace(-6, 6, 2401)
    slopes = np.array([f.derivative(np.full(ROWS, x)) for x in grid])
    steepest = np.max(np.diff(slopes, axis=0)) / (grid[1] - grid[0])
    assert steepest == pytest.approx(f.smoothness, rel=1e-2, abs=1e-12)


@over(EVERY)
@pytest.mark.parametrize("real", [float, np.float64])
@given(z=images, beta=betas)
def test_single_precision_stays_single(f, real, z, beta):
    short, beta = z.astype(np.float32), real(beta)
    wide = short.astype(np.float64)
    scale = 1 + np.abs(z).max() + np.abs(f.prox(wide, beta)).max()
    u, y = f.prox(short, beta), f.slope(short, beta)
    assert np.isfinite(f.value(u))
    assert u.dtype == np.float32
    assert y.dtype == np.float32
    assert np.abs(u - f.prox(wide, beta)).max() <= 1e-5 * scale
    assert np.abs(y - f.slope(wide, beta)).max() <= 1e-5 * scale * (1 + 1 / beta)


@over(EVERY)
@pytest.mark.parametrize("beta", [1e-3, 1.0, 1e3])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(
    "z", [np.full(ROWS, 1e6), np.full(ROWS, -1e6), 1e6 * np.cos(np.arange(ROWS)), np.zeros(ROWS)]
)
def test_extreme_images_stay_finite(f, beta, dtype, z):
    z = z.astype(dtype)
    for out in (f.prox(z, beta), f.slope(z, beta), f.smoothed(z, beta)):
        assert np.isfinite(out).all()
    assert f.indicator or np.isfinite(f.value(z))


def test_logistic_tails():
    assert Logistic(1.0).value(np.array([-1e6])) == 1e6
    assert Logistic(1.0).value(np.array([1e6])) == 0
    assert Logistic(1.0).value(np.array([40.0])) == pytest.approx(np.exp(-40))
    assert Logistic(-1.0).derivative(np.array([1e6, -1e6])).tolist() == [1, 0]


def test_simplex_projection_survives_far_points():
    z = np.array([1e18, 1e18, 0.0])
    assert Simplex(1.0).prox(z, 1.0).tolist() == [0.5, 0.5, 0]
    assert np.isnan(Simplex(1.0).prox(np.array([np.nan, 1.0]), 1.0)).any()


NAN, TWO = np.nan, np.ones((2, 2))
ROW_DATA = {
    "c": [Linear],
    "target": [Squared, Huber, Absolute],
    "labels": [Logistic, Hinge],
    "value": [Equal],
    "bound": [AtMost, AtLeast],
    "center": [lambda c: L2Ball(1.0, c), lambda c: L2Norm(1.0, c)],
}
POSITIVE = {
    "delta": [lambda d: Huber(0, d)],
    "scale": [L1, L2Norm, lambda s: Absolute(0, s)],
    "radius": [L2Ball],
    "total": [Simplex],
}
BAD_ROW_DATA = [NAN, [1.0, NAN], INF, [-INF, 0], TWO, "x", "1.5", ["1"], 1j, np.array([1j]), None]
BAD_POSITIVE = [NAN, INF, 0.0, -1.0, [1.0, 2.0], "x", None, 1j]
BAD_LOWER = [(NAN, 1), (TWO, 1), ("x", 1), (2, 1), ([0, 2], [1, 1]), (INF, INF), ([0, 0], -1)]
BAD_UPPER = [(0, NAN), (0, TWO), (0, "x"), (0, [1, -1]), (-INF, -INF)]
REFUSED = [
    *((n, make, x) for n, many in ROW_DATA.items() for make in many for x in BAD_ROW_DATA),
    *((n, make, x) for n, many in POSITIVE.items() for make in many for x in BAD_POSITIVE),
    *(("labels", make, x) for make in ROW_DATA["labels"] for x in (0, [1, 2], [1, -1, 0.5])),
    *(("lower", lambda pair: Interval(*pair), pair) for pair in BAD_LOWER),
    *(("upper", lambda pair: Interval(*pair), pair) for pair in BAD_UPPER),
    ("lengths", lambda pair: Interval(*pair), ([0, 0], [1, 1, 1])),
]


@pytest.mark.parametrize(("name", "make", "value"), REFUSED)
def test_bad_data_is_refused_by_name(name, make, value):
    with pytest.raises(ProblemError, match=rf"\b{name}\b"):
        make(value)


def test_data_is_copied():
    b = B.copy()
    f = Squared(b)
    b[:] = 99
    assert np.array_equal(f.target, B)
