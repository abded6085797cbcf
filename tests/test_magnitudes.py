"""Units far from 1: what the arithmetic cannot hold is refused, all else is solved as usual."""

import warnings
from fractions import Fraction

import numpy as np
import pytest

import condgrad as cg
from condgrad import Problem, Status, Term, domains, functions, maps, solve
from condgrad.errors import ProblemError
from exact import fractions

PRICE = np.random.default_rng(0).standard_normal(8)
CAP = 0.3
LENGTH = 8
"""Run lengths may differ by this factor, as in `test_units`."""


def capped(cost=1.0, rows=1.0, weight=1.0, size=1.0, split=False, dtype=np.float64) -> Problem:
    """min ⟨price, w⟩ over the simplex with no share above 0.3; the cost may sit in `Linear`."""
    if split:
        price = Term(maps.AllEntries((8,)), functions.Linear(cost * PRICE), name="cost")
    else:
        price = Term(maps.Inner(cost * PRICE), functions.Linear(), name="cost")
    shares = maps.Scaled(maps.AllEntries((8,)), rows)
    caps = Term(shares, functions.AtMost(rows * CAP * size), weight, name="caps")
    return Problem(domains.Simplex(8, size), [price, caps], dtype=dtype)


def optimum(cost: float, size: float) -> Fraction:
    """0.3 of the three cheapest and the rest of the fourth."""
    cheap = sorted(fractions(cost * PRICE))
    cap, rest = Fraction(CAP * size), Fraction(size)
    return cap * sum(cheap[:3]) + (rest - 3 * cap) * cheap[3]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_the_answer_is_right_in_any_unit(dtype):
    solved, refused, far = 0, 0, 40 if dtype == np.float64 else 7
    plain = solve(capped(dtype=dtype), gap=0.05, max_iter=5000)
    for seed in range(60):
        rng = np.random.default_rng(seed)
        powers = np.round(rng.uniform(-far, far, 4) / np.log10(2)).astype(int)
        cost, rows, weight, size = (float(2.0**p) for p in powers)  # rounds nothing
        try:
            problem = capped(cost, rows, weight, size, bool(seed % 2), dtype)
        except ProblemError:
            refused += 1
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # no overflow on the way
            result = solve(problem, gap=0.05, max_iter=5000)
        exact = optimum(cost, size)
        assert result.status is Status.CONVERGED
        assert Fraction(result.lower_bound) <= exact
        assert abs(Fraction(result.objective) / exact - 1) <= Fraction(1, 10)
        assert 1 / LENGTH <= result.iterations / plain.iterations <= LENGTH
        solved += 1
    assert solved >= 38
    assert refused >= 2


@pytest.mark.parametrize("scale", [1.0, 1e-8, 2e-9, 1e-40, 1e40])
@pytest.mark.parametrize("split", [False, True])
def test_coefficients_count_in_the_unit_of_the_gap(scale, split):
    problem = capped(cost=scale, split=split)
    assert problem.unit == pytest.approx(1e-6 * scale * np.linalg.norm(PRICE))
    result = solve(problem, gap=1e-2, max_iter=5000)
    assert result.status is Status.CONVERGED
    assert result.objective == pytest.approx(float(optimum(scale, 1.0)), rel=2e-2)
    assert Fraction(result.lower_bound) <= optimum(scale, 1.0)


@pytest.mark.parametrize("rows", [1e12, 1.0])
def test_small_coefficients_are_no_zero(rows):
    """A tolerance of 1e-9 on c once made 0 a bound where the optimum is −5000."""
    cost = rows * np.diag([-5.0, -4, -3, -2, -1])
    term = Term(maps.DataMatrix(cost), functions.Linear(1e-9), name="cost")
    for method in (None, cg.hcgm(), cg.sag_fw()):
        result = solve(Problem(domains.Simplex(5), [term]), method, max_iter=50)
        assert result.lower_bound == pytest.approx(-5e-9 * rows, rel=1e-9)
        assert Fraction(result.lower_bound) <= -5 * Fraction(rows) * Fraction(1e-9)


@pytest.mark.parametrize(
    ("options", "part"),
    [
        ({"size": 1e71}, "the size of the domain"),
        ({"size": 1e-71}, "the size of the domain"),
        ({"cost": 1e71}, "the longest row of term 'cost'"),
        ({"cost": 1e-40, "size": 1e-40}, "the largest image of term 'cost'"),
        ({"cost": 1e71, "split": True}, "the gradient of the objective"),
        ({"rows": 1e71}, "the longest row of term 'caps'"),
        ({"rows": 1e-71}, "the longest row of term 'caps'"),
        ({"weight": 1e71}, "the weighted images of term 'caps'"),
        ({"weight": 1e-71}, "the weighted images of term 'caps'"),
        ({"weight": 1e-40, "cost": 1e40}, "the multipliers of term 'caps'"),
        ({"size": 1e16, "dtype": np.float32}, "the size of the domain"),
        ({"weight": 1e16, "dtype": np.float32}, "the weighted images of term 'caps'"),
    ],
)
def test_what_the_arithmetic_cannot_hold_is_refused(options, part):
    with pytest.raises(ProblemError, match=f"^{part} would be about .* in other units$"):
        capped(**options)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("far", [15, 30, 45, 60, 69, 75, 90, 120, 139])
def test_units_that_cancel_are_refused_or_computed_in(far, dtype):
    """A large W and small rows, or the reverse: the images are about 1."""
    rng = np.random.default_rng(0)
    c, row = rng.standard_normal(4), rng.standard_normal(4)
    for size in (10.0**far, 10.0**-far):
        box = domains.Box(np.full(4, -size), np.full(4, size))
        cost = Term(maps.AllEntries((4,)), functions.Linear(c), name="cost")
        for length in (1 / size, size**-2.0):
            rows = maps.Inner(length * row)
            for weight in (1.0, size):
                try:
                    terms = [cost, Term(rows, functions.L1(1.0), weight)]
                    problem = Problem(box, terms, dtype=dtype)
                except ProblemError:
                    continue
                result = solve(problem, gap=1e-3, max_iter=200)
                assert result.status in (Status.CONVERGED, Status.MAX_ITER)
                assert result.lower_bound <= result.objective


def test_large_data_is_refused_and_small_data_is_not():
    rows = maps.AllEntries((2,))
    with pytest.raises(ProblemError, match="the data of term 'g' would be about 1e\\+80"):
        Problem(domains.Simplex(2), [Term(rows, functions.AtMost([1.0, 1e80]))])
    Problem(domains.Simplex(2), [Term(rows, functions.AtMost([1.0, 1e-80]))])
    Problem(domains.Simplex(2), [Term(maps.DataMatrix([[1.0, 1e-200]]), functions.Equal(0.5))])


@pytest.mark.parametrize("zeros", [True, False])
@pytest.mark.parametrize(
    "domain",
    [domains.Simplex(3), domains.Box(-1.0, 1.0, 3), domains.L2Ball(3)],
    ids=lambda d: type(d).__name__,
)
def test_nothing_to_minimise(domain, zeros):
    """Zeros are no small numbers."""
    terms = [Term(maps.AllEntries((3,)), functions.AtMost(0.5))]
    if zeros:
        terms.append(Term(maps.Inner(np.zeros(3)), functions.Linear()))
    result = solve(Problem(domain, terms), gap=1e-3, max_iter=2000)
    assert result.status is Status.CONVERGED
    assert result.lower_bound == 0 == result.objective


@pytest.mark.parametrize(
    ("scale", "dtype"),
    [(s, np.float64) for s in (1e-139, 1e-90, 1e-40, 1e40, 1e90, 1e137)]
    + [(s, np.float32) for s in (1e-14, 1e-8, 1e8, 1e12)],
)
def test_oracles_at_odd_magnitudes(scale, dtype):
    """Sides above those that LAPACK answers for."""
    rng = np.random.default_rng(0)
    V = rng.standard_normal((60, 60)).astype(dtype)
    scale = dtype(scale)
    for domain, W in (
        (domains.Spectrahedron(60, equality=True), V + V.T),
        (domains.NuclearBall((60, 60), 1.0), V),
        (domains.PinnedSpectrahedron(np.ones(60), 1.0, equality=True), V + V.T),
    ):
        plain = float(np.vdot(W, domain.lmo(W).dense()))
        atom = domain.lmo(scale * W).dense()
        assert float(np.vdot(W, atom)) == pytest.approx(plain, rel=1e-5)
        assert domain.minimum(scale * W).value / float(scale) == pytest.approx(plain, rel=1e-5)
        hurried = domain.lmo(scale * W, effort=2.0, rng=rng).dense()
        assert float(np.vdot(W, hurried)) <= 0.5 * plain
