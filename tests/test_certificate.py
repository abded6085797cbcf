"""The lower bound of a result holds: against optima known by construction and by interior points.

`random_problems` makes the problems. Half of them are built around their solution, whose value a
bound may pass by rounding only; the others are solved by an interior-point method, whose accuracy
is what a bound may pass.
"""

from functools import cache

import numpy as np
import pytest

from condgrad import (
    METHODS,
    Problem,
    Result,
    Status,
    Term,
    domains,
    functions,
    maps,
    sag_cgal,
    solve,
)
from condgrad.applications import sparsest_cut
from condgrad.certificate.lower_bound import Proof, bound, part_of
from condgrad.certificate.section import HALVINGS
from condgrad.domains import eigen
from condgrad.methods.table1 import Full
from general import GENERAL, refused
from random_problems import DOMAINS, Case, interior_point, random_problem

ROUNDING = 1e-9
"""What a bound may lie above an optimum known by construction, relative to 1 + |F*|."""
INTERIOR = 1e-6
"""The same for an optimum found by the interior-point method."""
SEEDS = 8
"""Problems of each domain and sort; 24 times as many in all."""
EXACT = {
    "nuclear": {"exact-singular-value"},
    "product": {"exact", "exact-eigenvalue", "exact-singular-value"},
    **{kind: {"exact"} for kind in ("simplex", "l1", "l2", "linf", "box")},
}
"""How the bound over a domain is known; over the others by an eigenvalue."""
BUILT = [(kind, seed) for kind in DOMAINS for seed in range(SEEDS)]
RANDOM = [(kind, seed) for kind in DOMAINS for seed in range(SEEDS, 2 * SEEDS)]


@cache
def built(kind: str, seed: int) -> tuple[Case, Result]:
    case = random_problem(kind, seed, built=True)
    return case, solve(case.problem, max_iter=300)


def check_bounds(
    result: Result, kind: str, optimum: float, accuracy: float, unit: float = 0.0
) -> None:
    """Every bound of the run holds, is finite and says how it is known."""
    bounds = result.trace["lower_bound"]
    assert np.isfinite(bounds).all()
    assert bounds.max() - optimum <= accuracy * (1 + abs(optimum))
    assert (np.diff(bounds) >= 0).all()
    assert result.lower_bound == bounds[-1]
    assert result.bound_kind in EXACT.get(kind, {"exact-eigenvalue"})
    assert result.bound_failure == 0
    size = max(abs(result.objective), abs(result.lower_bound), unit)
    assert result.gap == pytest.approx(abs(result.objective - result.lower_bound) / size)
    objective = result.trace["objective"]
    sizes = np.maximum(np.maximum(np.abs(objective), np.abs(bounds)), unit)
    np.testing.assert_allclose(result.trace["gap"], np.abs(objective - bounds) / sizes)


@pytest.mark.parametrize(("kind", "seed"), BUILT)
def test_a_bound_never_passes_a_known_optimum(kind: str, seed: int) -> None:
    case, result = built(kind, seed)
    assert case.problem.infeasibility(case.point) <= 1e-12 * (1 + np.abs(case.point).max()) * 10
    check_bounds(result, kind, case.value, ROUNDING, case.problem.unit)


@pytest.mark.parametrize(("kind", "seed"), RANDOM)
def test_a_bound_never_passes_the_interior_point_optimum(kind: str, seed: int) -> None:
    case = random_problem(kind, seed, built=False)
    optimum, missed = interior_point(case.problem)
    assert missed <= 1e-7
    result = solve(case.problem, max_iter=300)
    check_bounds(result, kind, optimum, INTERIOR, case.problem.unit)


@pytest.mark.parametrize("kind", DOMAINS)
def test_the_known_optimum_is_the_optimum(kind: str) -> None:
    # the construction itself, against the interior-point method
    case = random_problem(kind, 3, built=True)
    optimum, missed = interior_point(case.problem)
    assert missed <= 1e-7
    assert optimum == pytest.approx(case.value, rel=INTERIOR, abs=INTERIOR)


def test_the_problems_cover_every_function_and_map() -> None:
    cases = [random_problem(*name, built=True) for name in BUILT]
    cases += [random_problem(*name, built=False) for name in RANDOM]
    terms = [t for case in cases for t in case.problem.terms]
    assert len(cases) >= 190
    abstract = {"Function", "Indicator", "Proximable", "Smooth"}
    kinds = set(functions.__all__) - abstract
    assert {type(t.function).__name__ for t in terms} == kinds
    inner = [getattr(t.map, "map", t.map) for t in terms]
    assert {type(m).__name__ for m in inner} >= {
        *("AllEntries", "DataMatrix", "Diagonal", "Entries", "Inner", "RowSums", "SparseStack"),
        *("Left", "Sandwich", "Stack", "Trace", "Triangles"),
    }
    assert len({t.weight for t in terms}) == 3
    assert {type(c.problem.domain).__name__ for c in cases} == {
        name for name in domains.__all__ if name not in ("Domain", "Oracle")
    }


def test_the_bounds_are_close() -> None:
    loose = {}
    for kind, seed in BUILT:
        case, result = built(kind, seed)
        miss = (case.value - result.lower_bound) / abs(case.value)
        if miss > 0.2:
            loose[kind, seed] = round(miss, 2)
    assert len(loose) <= 0.1 * len(BUILT), loose


@pytest.mark.parametrize("slug", [slug for slug in GENERAL if slug not in ("sag-cgal", "sag-fw")])
@pytest.mark.parametrize("kind", DOMAINS)
def test_the_bounds_of_the_other_methods_hold(kind: str, slug: str) -> None:
    seed = list(METHODS).index(slug)  # another problem for each
    case = random_problem(kind, seed, built=True)
    whole = {t.name: Full() for t in case.problem.composite if not t.function.separable}
    entry = METHODS[slug]
    method = entry(batch=0.5) if entry.batched else entry()
    method = method.override(whole) if slug not in ("cgal", "sag-cgal", "spdhg") else method
    if refused(case.problem, method):
        return
    result = solve(case.problem, method, max_iter=200)
    check_bounds(result, kind, case.value, ROUNDING, case.problem.unit)


@pytest.mark.parametrize("kind", DOMAINS)
def test_the_bounds_of_sag_frank_wolfe_hold(kind: str) -> None:
    cases = (random_problem(kind, seed, built=False) for seed in range(100))
    problem = next(
        Problem(c.problem.domain, c.problem.smooth) for c in cases if len(c.problem.smooth) > 1
    )
    optimum, _ = interior_point(problem)
    check_bounds(
        solve(problem, METHODS["sag-fw"](batch=0.5), max_iter=200), kind, optimum, INTERIOR
    )


FLOAT32 = [
    (kind, method, seed)
    for method, seed in (("sag-cgal", 30), ("h-sag-v2", 31), ("cgal", 26))
    for kind in DOMAINS
]
FLOAT32 += [
    ("simplex", "sag-cgal", 23),
    ("pinned", "sag-cgal", 22),
    ("pinned-value", "sag-cgal", 25),
]


@pytest.mark.parametrize(("kind", "method", "seed"), FLOAT32)
def test_the_bounds_of_float32_runs_hold(kind: str, method: str, seed: int) -> None:
    case = random_problem(kind, seed, built=True)
    whole = {t.name: Full() for t in case.problem.composite if not t.function.separable}
    chosen = METHODS[method]()
    if method == "h-sag-v2":
        chosen = METHODS[method](batch=0.5).override(whole)
    result = solve(case.problem.astype(np.float32), chosen, max_iter=400)
    assert result.W.dtype == np.float32
    check_bounds(result, kind, case.value, ROUNDING, case.problem.unit)


def test_a_users_oracle_is_believed_and_named() -> None:
    case = random_problem("linf", 2, built=True)
    radius, d = case.problem.domain.radius, case.problem.domain.shape[0]
    domain = domains.Oracle(lambda v: -radius * np.sign(v), d, 2 * radius * np.sqrt(d))
    result = solve(Problem(domain, case.problem.terms), max_iter=300)
    assert result.bound_kind == "oracle"
    assert result.lower_bound <= case.value + ROUNDING * (1 + abs(case.value))
    assert result.lower_bound >= case.value - 0.2 * abs(case.value)


@pytest.mark.parametrize("kind", ["spectrahedron-equal", "pinned-equal"])
def test_an_equality_that_the_domain_implies_does_no_harm(kind: str) -> None:
    C = np.random.default_rng(3).standard_normal((6, 6))
    C = C + C.T
    pinned = domains.PinnedSpectrahedron(np.ones(6), 2.0, 1.0, equality=True)
    domain = pinned if kind == "pinned-equal" else domains.Spectrahedron(6, 2.0, equality=True)
    cost = Term(maps.Inner(C), functions.Linear(), name="cost")
    trace = Term(maps.Trace(6), functions.Equal(2.0), name="trace")
    sums = Term(maps.RowSums(6), functions.Equal(1.0), name="sums")
    terms = [cost, trace, sums] if kind == "pinned-equal" else [cost, trace]
    optimum = domain.minimum(C).value
    result = solve(Problem(domain, terms), max_iter=300)
    assert result.objective == pytest.approx(optimum, rel=0.05)
    assert result.lower_bound == pytest.approx(optimum, rel=0.05)


# Repairs of a dual point.


def proof_of(problem: Problem, duals: list[np.ndarray]) -> Proof:
    """What a dual point proves."""
    pairs = zip(problem.terms, duals, strict=True)
    return bound(problem, [part_of(t, None, y) for t, y in pairs], "test")


def indicator_cases(count: int) -> list[Case]:
    """Built problems whose composite terms are all constraints without a fixed identity."""
    found = []
    for seed in range(100):
        for kind in ("spectrahedron", "blocks", "nuclear", "simplex", "l2", "box"):
            case = random_problem(kind, seed, built=True)
            composite = case.problem.composite
            if len(composite) == 2 and all(t.function.indicator for t in composite):
                found.append(case)
    return found[:count]


def test_a_dual_point_that_is_too_large_is_scaled_back() -> None:
    used = 0
    for case in indicator_cases(40):
        domain, duals = case.problem.domain, [np.ones(1), *(3 * y for y in case.duals[1:])]
        pairs = zip(case.problem.terms, duals, strict=True)
        parts = [part_of(t, None, y) for t, y in pairs]
        base, pull = parts[0].v, parts[1].v + parts[2].v
        cost = parts[1].conjugate + parts[2].conjugate
        grid = np.linspace(0, 1, 64 * 2**4 + 1)
        values = np.array([domain.minimum(base + t * pull).value - t * cost for t in grid])
        slack = ROUNDING * (1 + abs(case.value))
        best = int(np.argmax(values >= values.max() - slack))  # the first, where it is flat
        window = values[max(0, best - len(grid) // 2 ** HALVINGS["scale"] - 1) : best + 1]
        value = proof_of(case.problem, duals).bound.value
        assert value >= window.min() - slack
        assert value <= case.value + slack
        used += values[best] > values[-1] + 0.1 * abs(values[best])
    assert used >= 30  # the repair was needed


def test_the_trace_that_an_equality_implies_is_used() -> None:
    rng = np.random.default_rng(0)
    for n in (3, 4, 5, 6, 7):
        C = rng.standard_normal((n, n))
        C = C + C.T
        terms = [
            Term(maps.Inner(C), functions.Linear(), name="cost"),
            Term(maps.Diagonal(n), functions.Equal(1.0), 2.5, "diagonal"),
        ]
        problem = Problem(domains.Spectrahedron(n, trace=10 * n), terms)
        plain = n * np.linalg.eigvalsh(C)[0]  # trace n, not the 10 n of the domain
        for y in (np.zeros(n), rng.standard_normal(n), 5 * rng.standard_normal(n)):
            value = proof_of(problem, [np.ones(1), y]).bound.value
            full = n * np.linalg.eigvalsh(C + 2.5 * np.diag(y))[0] - 2.5 * y.sum()
            if y.any():  # y is scaled by some t in [0, 1] before the shift
                assert value >= min(plain, full) - 1e-6 * abs(full)
            else:
                assert value == pytest.approx(plain, rel=1e-6)


def graph(n: int, seed: int) -> np.ndarray:
    """A connected random graph."""
    rng = np.random.default_rng(seed)
    A = np.triu(rng.random((n, n)) < 0.3, 1) + np.eye(n, k=1) > 0
    return (A + A.T).astype(float)


@pytest.mark.parametrize("n", [6, 12])
def test_sparsest_cut_starts_from_the_spectral_bound(n: int) -> None:
    A = graph(n, n)
    L = np.diag(A.sum(axis=1)) - A
    result = solve(sparsest_cut(A, "paper").problem, max_iter=1)
    spectral = n / 2 * np.linalg.eigvalsh(L)[1]
    assert result.trace["lower_bound"][0] >= spectral * (1 - 1e-6)
    assert result.lower_bound >= spectral * (1 - 1e-6)


def test_the_answer_of_a_hurried_oracle_is_not_believed() -> None:
    rng = np.random.default_rng(0)
    C = rng.standard_normal((80, 80))
    C = (C + C.T) / 2
    for domain, lowest in (
        (domains.Spectrahedron(80, 2.0), 2 * np.linalg.eigvalsh(C)[0]),
        (domains.NuclearBall((80, 80), 2.0), -2 * np.linalg.norm(C, 2)),
        (domains.Product([domains.Spectrahedron(80, 2.0)]), 2 * np.linalg.eigvalsh(C)[0]),
    ):
        v = C.reshape(domain.shape)
        answer = float(np.vdot(v, domain.lmo(v, effort=0.1, rng=rng).dense()))
        assert answer > lowest + 1e-5 * abs(lowest)  # it lies above the minimum
        assert lowest - 1e-9 * abs(lowest) <= domain.minimum(v).value <= lowest
        cost = Term(maps.Inner(v), functions.Linear())
        result = solve(Problem(domain, [cost]), sag_cgal().with_effort(0.1), max_iter=20)
        assert result.lower_bound <= lowest
        assert result.lower_bound == pytest.approx(lowest, rel=1e-6)


def large_run(monkeypatch: pytest.MonkeyPatch) -> tuple[Result, float, int]:
    """A run whose bounds come from Lanczos, its optimum, and how many there were."""
    calls, honest = [], eigen.lowest_bound

    def counted(V: np.ndarray, near: None, spent: bool) -> tuple[float, float]:
        calls.append(V.shape)
        return honest(V)

    monkeypatch.setattr(eigen, "LARGE", 10)
    monkeypatch.setattr("condgrad.domains.spectral.lowest_bound", counted)
    n = 60
    C = np.random.default_rng(1).standard_normal((n, n))
    C = C + C.T
    terms = [
        Term(maps.Inner(C), functions.Linear(), name="cost"),
        Term(maps.Diagonal(n), functions.AtMost(0.5), name="diagonal"),
    ]
    problem = Problem(domains.Spectrahedron(n), terms)
    return solve(problem, max_iter=100), float(np.linalg.eigvalsh(C)[0]), len(calls)


def test_a_bound_by_lanczos_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    result, lowest, calls = large_run(monkeypatch)
    assert result.bound_kind == "probabilistic"
    assert 0 < result.bound_failure <= calls * eigen.FAILURE * (1 + 1e-9)
    assert result.lower_bound <= result.objective + 1e-6
    assert result.lower_bound >= lowest * 1.5


def test_the_chance_of_failure_counts_every_bound_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    result, _, calls = large_run(monkeypatch)
    assert result.bound_failure >= calls * eigen.FAILURE * (1 - 1e-9)


def test_the_gap_of_a_stopped_run_is_that_of_its_last_bound() -> None:
    case = random_problem("spectrahedron", 5, built=True)
    result = solve(case.problem, record=100_000, callbacks=[lambda info: info.k == 14], max_iter=99)
    last = result.trace.last
    assert last["lower_bound"] == result.lower_bound
    size = max(abs(last["objective"]), abs(last["lower_bound"]))
    assert last["gap"] == pytest.approx(abs(last["objective"] - last["lower_bound"]) / size)


def test_a_direction_that_is_not_a_number_gives_no_bound() -> None:
    case = random_problem("box", 0, built=True)
    parts = [part_of(t, None, y) for t, y in zip(case.problem.terms, case.duals, strict=True)]
    parts[1].v[0] = np.nan
    found = bound(case.problem, parts, "test").bound
    assert (found.value, found.kind) == (-np.inf, "none")


def test_an_optimum_of_zero_can_be_met() -> None:
    """min 1'W1 over diag W = 1 is 0: a gap relative to the objective alone would never close."""
    cost = Term(maps.Inner(np.ones((3, 3))), functions.Linear(), name="cost")
    ones = Term(maps.Diagonal(3), functions.Equal(1.0), name="diagonal")
    problem = Problem(domains.Spectrahedron(3, 3.0, equality=True), [cost, ones])
    result = solve(problem, gap=1e-3, max_iter=20_000)
    assert result.status is Status.CONVERGED
    assert abs(result.objective) <= 1e-3
    assert result.gap == abs(result.objective - result.lower_bound) / problem.unit <= 1e-3
