"""No bound is above what it stands on, in exact arithmetic, and none gives away more than it must.

`exact` has the problems. At a dual point the exact dual value is known, and many bounds would pass
it if rounding were not counted; whole runs are held against the exact optimum.
"""

from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp

import condgrad as cg
from condgrad import Problem, Term, domains, functions, maps, solve
from condgrad.certificate import lower_bound
from condgrad.certificate.lower_bound import Bound, _shift_of, part_of
from condgrad.errors import ProblemError
from condgrad.methods.table1 import Full
from exact import DIGITS, DUAL, FUNCTIONS, KINDS, Known, decimal, fractions, known
from random_problems import DOMAINS, random_problem


def bound_and_truth(case: Known, duals: list[np.ndarray], monkeypatch) -> tuple[Bound, Decimal]:
    """The bound of a dual point with its repairs, and the best exact value of the points tried."""
    steps, search = [], lower_bound.best_step

    def watched(*args):
        steps.append(search(*args))
        return steps[-1]

    monkeypatch.setattr(lower_bound, "best_step", watched)
    terms, moves = case.problem.terms, shifts(case.problem)
    parts = [part_of(t, None, y) for t, y in zip(terms, duals, strict=True)]
    bound = lower_bound.bound(case.problem, parts, "plain").bound
    monkeypatch.undo()
    with localcontext(DIGITS):
        points = [[[decimal(x) for x in y] for y in duals]]
        scale = decimal(steps.pop(0) if case.problem.composite else 1.0)
        if scale < 1:
            factors = [1 if t.function.smooth else scale for t in terms]
            points.append([[f * x for x in y] for f, y in zip(factors, points[0], strict=True)])
        for i, c in moves:
            for point in points[: 1 + (scale < 1)]:
                t, y = decimal(steps.pop(0)), list(point)
                y[i] = [a + t * decimal(b) for a, b in zip(y[i], c, strict=True)]
                points.append(y)
        assert not steps
        return bound, max(case.dual_value(y) for y in points)


def shifts(problem: Problem) -> list[tuple[int, np.ndarray]]:
    """The terms that are shifted, in order, and the directions of their multipliers."""
    used = [s.v for s in lower_bound.shifts(problem)]
    found = [(i, _shift_of(t)) for i, t in enumerate(problem.terms) if used]
    return [(i, s.c) for i, s in found if s and any(np.array_equal(s.v, v) for v in used)]


def dual_points(case: Known, rng: np.random.Generator, size: float) -> list[np.ndarray]:
    """Random points of the domains of the conjugates."""
    duals = []
    for t in case.problem.terms:
        y = size * 10 ** rng.uniform(-2, 4) * rng.standard_normal(t.map.size)
        duals.append(t.function.into_dual(y))
    return duals


def test_a_bound_is_not_above_the_exact_dual_value(monkeypatch):
    sources, sharp = set(), 0
    for seed in range(400):
        rng = np.random.default_rng(seed)
        names = tuple(str(name) for name in rng.choice(DUAL, 2))
        case = known(seed, KINDS[seed % len(KINDS)], names, most=24)
        duals = dual_points(case, rng, 1.0)
        bound, truth = bound_and_truth(case, duals, monkeypatch)
        assert Decimal(bound.value) <= truth, (seed, names)
        sources.add(bound.source)
        with localcontext(DIGITS):
            sharp += truth - Decimal(bound.value) <= Decimal("1e-9") * max(1, abs(truth))
    assert sources == {"plain", "plain, scaled", "plain, shifted", "plain, scaled, shifted"}
    assert sharp >= 300


def test_a_bound_is_not_above_the_exact_dual_value_in_odd_units(monkeypatch):
    tried = 0
    for seed in range(500):
        rng = np.random.default_rng([seed, 1])
        names = tuple(str(name) for name in rng.choice(DUAL, 2))
        scales = tuple(float(10 ** rng.uniform(-60, 60)) for _ in range(4))
        try:
            case = known(seed, KINDS[seed % len(KINDS)], names, scales)
        except ProblemError:  # refused, see `test_magnitudes`
            continue
        size = scales[0] / (scales[1] * scales[2])  # of multipliers that balance the cost
        bound, truth = bound_and_truth(case, dual_points(case, rng, size), monkeypatch)
        assert Decimal(bound.value) <= truth, (seed, names, scales)
        tried += 1
    assert tried >= 200


METHODS = {
    "default": lambda problem: None,
    "hcgm": lambda problem: cg.hcgm(),
    "cgal": lambda problem: cg.cgal(),
    "h-sag-v2": lambda problem: cg.h_sag_v2(batch=0.5).override(
        {t.name: Full() for t in problem.composite if not t.function.separable}
    ),
}


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("method", METHODS)
def test_no_bound_of_a_run_passes_the_exact_optimum(method, dtype):
    close = 0
    for seed in range(26):
        rng = np.random.default_rng([seed, *method.encode()])
        names = tuple(str(name) for name in rng.choice(FUNCTIONS, 2))
        case = known(seed, KINDS[seed % len(KINDS)], names, most=12, dtype=dtype)
        result = solve(case.problem, METHODS[method](case.problem), max_iter=30)
        assert Decimal(result.lower_bound) <= case.optimum, (seed, names)
        close += result.lower_bound >= float(case.optimum) - 0.1 * (1 + abs(float(case.optimum)))
    assert close >= 10


def ill_conditioned(seed: int) -> tuple[Problem, Fraction]:
    """Nearly parallel equality rows with one feasible diagonal, and the cost there."""
    rng = np.random.default_rng(seed)
    near, first = 10.0 ** -rng.uniform(2, 9), rng.standard_normal(2) * rng.choice([1.0, 30.0])
    second = first + near * (1 + rng.uniform(-0.3, 0.3, 2))
    c, w = rng.standard_normal(2), rng.uniform(0.2, 1, 2)
    b = np.array([second @ w, first @ w])
    (p, q), (r, s), (x, y) = fractions(second), fractions(first), fractions(b)
    det = p * s - q * r
    exact = [(x * s - q * y) / det, (p * y - r * x) / det]
    if min(exact) < 0:
        return ill_conditioned(seed + 1000)
    trace = float(sum(exact)) * float(rng.choice([1.5, 10.0, 1e3]))
    rows = maps.SparseStack([np.diag(second), np.diag(first)])
    terms = [
        Term(maps.Inner(np.diag(c)), functions.Linear(), name="cost"),
        Term(rows, functions.Equal(b), float(rng.choice([1.0, 0.01, 100.0])), name="rows"),
    ]
    optimum = sum(a * b for a, b in zip(fractions(c), exact, strict=True))
    return Problem(domains.Spectrahedron(2, trace), terms), optimum


@pytest.mark.parametrize("method", ["default", "hcgm", "cgal"])
def test_shifts_along_ill_conditioned_rows_do_not_pass_the_optimum(method):
    moved = 0
    for seed in range(70):
        problem, optimum = ill_conditioned(seed)
        result = solve(problem, METHODS[method](problem), max_iter=12)
        assert Fraction(result.lower_bound) <= optimum, seed
        moved += "shifted" in result.bound_source
    assert moved >= 30


def cancelling(rng: np.random.Generator, m: int) -> tuple[np.ndarray, np.ndarray, Fraction]:
    """Rows x of one column and coefficients t with Σ x t nearly 0, and the exact sum."""
    x, t = rng.standard_normal(m), 1e3 * rng.standard_normal(m)
    pairs = list(zip(fractions(x), fractions(t), strict=True))
    t[-1] -= float(sum(a * b for a, b in pairs)) / x[-1]
    last = Fraction(float(x[-1])) * Fraction(float(t[-1]))
    return x, t, sum(a * b for a, b in pairs[:-1]) + last


@pytest.mark.parametrize(("m", "count"), [(500, 70), (20_000, 2)])
@pytest.mark.parametrize("kind", ["dense", "sparse", "float32"])
def test_long_sums_that_cancel(kind, m, count):
    for seed in range(count):
        x, t, optimum = cancelling(np.random.default_rng([seed, m]), m)
        A = maps.DataMatrix(sp.csr_array(x[:, None]) if kind == "sparse" else x[:, None])
        dtype = np.float32 if kind == "float32" else np.float64
        problem = Problem(domains.Simplex(1), [Term(A, functions.Linear(t))], dtype=dtype)
        method = (None, cg.hcgm(), cg.sag_fw())[seed % 3]
        bound = solve(problem, method, max_iter=2).lower_bound
        assert Fraction(bound) <= optimum
        assert bound >= float(optimum) - 1e-9 * float(np.abs(x) @ np.abs(t))


@pytest.mark.parametrize("kind", DOMAINS)
def test_a_margin_is_a_billionth_where_nothing_cancels(kind):
    """At optimal multipliers the bound is the optimum, but for its margin."""
    for seed in range(20):
        case = random_problem(kind, seed, built=True)
        pairs = zip(case.problem.terms, case.duals, strict=True)
        parts = [part_of(t, None, y) for t, y in pairs]
        bound = lower_bound.bound(case.problem, parts, "test").bound
        size = sum(abs(t.value(case.point)) for t in case.problem.terms if not t.function.indicator)
        size += sum(abs(p.conjugate) + abs(p.product) for p in parts)
        assert case.value - bound.value <= 1e-9 * (size + abs(case.value))
