"""Identities between methods, checked on whole trajectories."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import condgrad
from condgrad import Problem, Status, Term, domains, functions, maps, solve
from condgrad.methods import SAG, ConditionalGradient, Full, Momentum, Storm
from condgrad.schedules import Constant
from general import refused

STEPS = 50
RNG = np.random.default_rng(0)
X, B = RNG.standard_normal((30, 6)), RNG.standard_normal(30)
A = RNG.standard_normal((9, 6))
C = A @ (2 * RNG.dirichlet(np.ones(6)))  # the middle of the intervals: the problem is feasible
COST = RNG.standard_normal((8, 8))


def vector(dtype=np.float64):
    fit = Term(maps.DataMatrix(X), functions.Squared(B), 1 / 30, "fit")
    cut = Term(maps.DataMatrix(A), functions.Interval(C - 0.1, C + 0.1), 0.5, "cut")
    pull = Term(maps.DataMatrix(np.eye(6)), functions.L1(0.1), name="pull")
    return Problem(domains.Simplex(6, 2.0), [fit, cut, pull], dtype=dtype)


def matrix(n=8, dtype=np.float64):
    cost = COST if n == 8 else np.random.default_rng(n).standard_normal((n, n))
    terms = [
        Term(maps.AllEntries(n), functions.Squared(cost.reshape(-1)), 0.1, "fit"),
        Term(maps.Diagonal(n), functions.Equal(1.0), name="diag"),
        Term(maps.Triangles(n), functions.AtMost(0.0), name="triangles"),
    ]
    return Problem(domains.Spectrahedron(n, float(n)), terms, dtype=dtype)


PROBLEMS = {"vector": vector, "matrix": matrix, "lanczos": lambda: matrix(45)}
EACH = pytest.mark.parametrize("problem", [f() for f in PROBLEMS.values()], ids=PROBLEMS.keys())


def path(problem, method, steps=STEPS, **options):
    """Every iterate W_1 … W_{steps + 1}."""
    points = []
    solve(
        problem, method, max_iter=steps, callbacks=[lambda i: points.append(i.W.copy())], **options
    )
    assert len(points) == steps
    return np.array(points)


def exact(method):
    """The same method with an oracle of full accuracy, so that no draw of the oracle matters."""
    return method.with_effort(None)


def tolerance(problem):
    """Eigenvectors are good to residual/gap: rounding grows where Lanczos answers."""
    return 1e-6 if problem.domain.shape[0] <= 40 else 1e-4


@EACH
def test_full_batches_are_hcgm(problem):
    reference = path(problem, exact(condgrad.hcgm(0.5)))
    assert np.linalg.norm(reference[-1] - reference[-2]) > 0
    for method in (
        condgrad.h_sag_v1(0.5, batch=1.0),
        condgrad.h_sag_v2(0.5, batch=1.0),
        condgrad.h_spider_fw(0.5, restart=lambda k: True),
        condgrad.h_spider_fw(0.5, batch_at=lambda k: 10**6),
        condgrad.cgal(0.5, bound=0.0),
        condgrad.most_fw(0.5, batch=1.0),
    ):
        np.testing.assert_allclose(path(problem, exact(method)), reference, atol=tolerance(problem))


@EACH
def test_momentum_and_storm_with_rho_one_and_full_batches_are_hcgm(problem):
    schedule = replace(condgrad.hcgm(0.5).schedule, rho=Constant(1.0))
    reference = path(problem, exact(condgrad.hcgm(0.5)))
    for estimator in (Momentum(1.0), Storm(1.0)):
        method = ConditionalGradient(estimator, estimator, schedule)
        np.testing.assert_allclose(path(problem, exact(method)), reference, atol=tolerance(problem))


@EACH
def test_storm_with_rho_one_is_plain_stochastic_cgm(problem):
    """Same seed, same draws: the earlier point cancels, and Momentum forgets all it had."""
    schedule = replace(condgrad.hcgm(2.0).schedule, rho=Constant(1.0))
    storm = path(problem, exact(ConditionalGradient(Storm(3), Storm(3), schedule)), seed=4)
    plain = path(problem, exact(ConditionalGradient(Momentum(3), Momentum(3), schedule)), seed=4)
    np.testing.assert_allclose(storm, plain, atol=1e-8)


def test_plain_stochastic_cgm_against_numpy():
    """Storm(rho = 1) on the vector problem, transcribed."""
    problem, beta0 = vector(), 2.0
    schedule = replace(condgrad.hcgm(beta0).schedule, rho=Constant(1.0))
    method = ConditionalGradient(Storm(3, replace=True), Storm(3, replace=True), schedule)
    got = path(problem, method, seed=4)
    rng, w = np.random.default_rng(4), np.full(6, 2.0 / 6)
    for k in range(1, STEPS + 1):
        beta = beta0 / np.sqrt(k + 1)
        i, j, l = (rng.integers(0, size, 3) for size in (30, 9, 6))
        z = A[j] @ w
        v = 30 / 3 * X[i].T @ (X[i] @ w - B[i]) / 30
        v += 0.5 * 9 / 3 * A[j].T @ (z - np.clip(z, C[j] - 0.1, C[j] + 0.1)) / beta
        np.add.at(v, l, 6 / 3 * np.clip(w[l] / beta, -0.1, 0.1))
        s = np.zeros(6)
        s[np.argmin(v)] = 2.0
        w = w + 2 / (k + 1) * (s - w)
        np.testing.assert_allclose(got[k - 1], w, atol=1e-12)


@pytest.mark.parametrize("slug", ["hcgm", "h-spider-fw"])
def test_a_split_term_is_the_term(slug):
    method = condgrad.METHODS[slug](0.5)
    if slug == "h-spider-fw":
        method = condgrad.h_spider_fw(0.5, restart=lambda k: True)
    fit, cut, pull = vector().terms
    top, rest = maps.DataMatrix(A[:4]), maps.DataMatrix(A[4:])
    by_rows = [
        Term(top, functions.Interval(C[:4] - 0.1, C[:4] + 0.1), 0.5, "a"),
        Term(rest, functions.Interval(C[4:] - 0.1, C[4:] + 0.1), 0.5, "b"),
    ]
    by_weight = [replace(cut, weight=0.2, name="a"), replace(cut, weight=0.3, name="b")]
    stack = [
        Term(maps.Stack([top, rest]), functions.Interval(C - 0.1, C + 0.1), 0.5, "cut"),
    ]
    reference = path(vector(), method)
    for parts in (by_rows, by_weight, stack):
        problem = Problem(vector().domain, [fit, *parts, pull])
        np.testing.assert_allclose(path(problem, method), reference, atol=1e-9)


def test_stack_of_matrix_maps_is_separate_terms():
    fit, diagonal, triangles = matrix().terms
    stacked = Term(
        maps.Stack([diagonal.map, triangles.map]),
        functions.Interval(
            np.r_[np.ones(8), np.full(triangles.map.size, -np.inf)],
            np.r_[np.ones(8), np.zeros(triangles.map.size)],
        ),
        name="both",
    )
    problem = Problem(matrix().domain, [fit, stacked])
    for method in (condgrad.hcgm(0.5), condgrad.h_sag_v2(0.5, batch=1.0)):
        np.testing.assert_allclose(path(problem, method), path(matrix(), method), atol=1e-7)


def test_linear_loss_makes_v1_exact_after_one_pass():
    """Slopes of a linear f never change, so a table that has seen every row is the gradient."""
    c = np.random.default_rng(1).standard_normal(30)
    problem = Problem(
        domains.Simplex(6), [Term(maps.DataMatrix(X), functions.Linear(c), 1 / 30, "f")]
    )
    run = condgrad.start(problem, condgrad.h_sag_v1(batch=7))
    while not np.all(run.state.terms[0].slopes):
        run.advance(iterations=1)
    assert 5 <= run.state.k < 199
    exact = problem.terms[0].gradient(run.state.W, 1.0)
    np.testing.assert_allclose(run.state.terms[0].G / 30, exact, atol=1e-12)
    warm = path(vector_linear(c), condgrad.h_sag_v1(0.5, batch=1, warm_start=True))
    np.testing.assert_allclose(warm, path(vector_linear(c), condgrad.hcgm(0.5)), atol=1e-9)


def vector_linear(c):
    _, cut, pull = vector().terms
    fit = Term(maps.DataMatrix(X), functions.Linear(c), 1 / 30, "fit")
    return Problem(domains.Simplex(6, 2.0), [fit, cut, pull])


def samplers():
    for slug, entry in condgrad.METHODS.items():
        if entry.batched and slug != "sag-fw":
            yield slug


@EACH
@pytest.mark.parametrize("slug", [*samplers(), "hcgm", "cgal", "h-spider-fw"])
def test_same_seed_same_run(problem, slug):
    entry = condgrad.METHODS[slug]
    options = {"batch": 2} if entry.batched else {}
    method = entry(0.5, **options) if entry.smoothed else entry(**options)
    if refused(problem, method):
        return
    once, again = path(problem, method, seed=7), path(problem, method, seed=7)
    np.testing.assert_array_equal(once, again)
    if entry.batched or slug == "h-spider-fw":
        assert not np.array_equal(once, path(problem, method, seed=8))


def test_a_callback_or_a_metric_does_not_change_the_run():
    problem, method = matrix(), condgrad.h_sag_v2(0.5, batch=2)
    plain = solve(problem, method, max_iter=STEPS, seed=1)
    watched = solve(
        problem,
        method,
        max_iter=STEPS,
        seed=1,
        record=5,
        metrics={"norm": np.linalg.norm},
        callbacks=[lambda info: info.objective < -1e9],
    )
    assert plain.trace["objective"][-1] == watched.trace["objective"][-1]


def test_estimators_named_one_by_one_are_the_method():
    problem, v2 = matrix(), condgrad.h_sag_v2(0.5, batch=2)
    named = condgrad.hcgm(0.5).override({t.name: SAG(2) for t in problem.terms})
    np.testing.assert_array_equal(path(problem, v2), path(problem, named))
    v1 = v2.override({"diag": Full(), "triangles": Full()})
    np.testing.assert_array_equal(path(problem, condgrad.h_sag_v1(0.5, batch=2)), path(problem, v1))


def test_float32_follows_float64():
    for make in (vector, matrix):
        double = path(make(), condgrad.hcgm(5.0), 10)
        single = path(make(dtype=np.float32), condgrad.hcgm(5.0), 10)
        assert single.dtype == np.float32
        np.testing.assert_allclose(single, double, atol=2e-3)


def test_sag_frank_wolfe_converges_as_one_over_k():
    """g = 0, optimum 0 in the interior: k · gap stays bounded and falls short of k^(1/2) growth."""
    w = np.array([0.3, 0.1, 0.2, 0.15, 0.15, 0.1])
    problem = Problem(
        domains.Simplex(6), [Term(maps.DataMatrix(X), functions.Squared(X @ w), 1 / 30, "fit")]
    )
    start = np.eye(6)[3]
    for seed in range(3):
        result = solve(
            problem, condgrad.sag_fw(batch=5), max_iter=20_000, seed=seed, start=start, record=8
        )
        assert result.status is Status.MAX_ITER
        k, gap = result.trace["k"], result.trace["objective"]
        late = k > 200
        slope = np.polyfit(np.log(k[late]), np.log(gap[late]), 1)[0]
        assert slope < -0.85
        assert gap[-1] * k[-1] < 50 * gap[0]


def test_spider_with_its_defaults_is_exact_at_restarts_only():
    problem, restarts, off = vector(), {1, 2, 4, 8}, []
    run = condgrad.start(problem, condgrad.h_spider_fw(1.0))
    term = problem.terms[0]
    for k in range(1, 12):
        W = run.state.W.copy()
        kept = run.advance(iterations=1).state.terms[0]
        gap = np.abs(term.weight * kept.G - term.gradient(W, 1.0)).max()
        if k in restarts:
            assert gap < 1e-12
        else:
            off.append(gap)
    assert min(off) > 1e-6
