"""Every method of METHODS reaches known optima; the sequences are those of the papers."""

from __future__ import annotations

import inspect
from functools import cache

import cvxpy as cp
import numpy as np
import pytest
import scipy.optimize

import condgrad
from condgrad import METHODS, Problem, Status, Term, domains, functions, maps, solve
from condgrad.methods import SAG, Augmented, Full, Momentum, Spider, Storm
from general import GENERAL, refused

D, ROWS, CUTS, N = 6, 20, 8, 7


def mean_squares(X, b, w, constraints):
    """Reference optimum by an interior-point solver, good to 1e-7 or so."""
    program = cp.Problem(cp.Minimize(cp.sum_squares(X @ w - b) / (2 * len(b))), constraints)
    program.solve(solver=cp.CLARABEL)
    assert program.status == "optimal"
    return program.value


def simplex():
    w = cp.Variable(D)
    return w, [w >= 0, cp.sum(w) == 1]


@cache
def least_squares():
    """Mean squares over the simplex with interval constraints that bind, and the optimum."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((ROWS, D))
    b = X @ rng.standard_normal(D) + 0.1 * rng.standard_normal(ROWS)
    A, inside = rng.standard_normal((CUTS, D)), rng.dirichlet(np.ones(D))
    low, high = A @ inside - 0.1, A @ inside + 0.1
    w, domain = simplex()
    optimum = mean_squares(X, b, w, [*domain, low <= A @ w, A @ w <= high])
    assert np.r_[A @ w.value - low, high - A @ w.value].min() < 1e-4, "nothing binds"
    fit = Term(maps.DataMatrix(X), functions.Squared(b), 1 / ROWS, "fit")
    cut = Term(maps.DataMatrix(A), functions.Interval(low, high), name="cut")
    return Problem(domains.Simplex(D), [fit, cut]), optimum


@cache
def max_cut():
    """min <C, W>, diag W = 1: a low-rank solution whose multipliers prove it optimal."""
    rng = np.random.default_rng(1)
    C = rng.standard_normal((N, N))
    C = 0.5 * (C + C.T)
    np.fill_diagonal(C, 0.0)
    V = np.linalg.qr(rng.standard_normal((N, N)))[0]
    for _ in range(3000):
        for i in range(N):
            g = C[i] @ V
            V[i] = -g / np.linalg.norm(g)
    y = -np.linalg.norm(C @ V, axis=1)
    optimum = float(np.sum(C * (V @ V.T)))
    bound = y.sum() + N * min(0.0, np.linalg.eigvalsh(C - np.diag(y))[0])
    assert optimum == pytest.approx(bound, rel=1e-7), "the dual bound does not meet the primal"
    terms = [
        Term(maps.Inner(C), functions.Linear(), name="cost"),
        Term(maps.Diagonal(N), functions.Equal(1.0), name="diag"),
    ]
    return Problem(domains.Spectrahedron(N, float(N), equality=True), terms), optimum


BETA0 = {  # per method, as the exponents of its β ask
    "hcgm": 0.1,
    "cgal": 1.0,
    "shcgm": 0.3,
    "most-fw": 0.1,
    "h-sag-v1": 0.1,
    "h-1sfw": 0.02,
    "h-spider-fw": 0.1,
    "most-fw-plus": 0.1,
    "h-sag-v2": 0.1,
    "sag-fw": None,
    "sag-cgal": "auto",
    "spdhg": None,
}


def build(slug, batch=4):
    entry = METHODS[slug]
    options = {"batch": batch} if entry.batched else {}
    return entry(**options) if BETA0[slug] is None else entry(BETA0[slug], **options)


@pytest.mark.parametrize("slug", GENERAL)
def test_vector_problem_with_known_optimum(slug):
    problem, optimum = least_squares()
    if slug == "sag-fw":  # g = 0: the same loss without the constraint
        problem = Problem(problem.domain, problem.smooth)
        X, b = problem.terms[0].map._dense, problem.terms[0].function.target
        optimum = mean_squares(X, b, *simplex())
    method = build(slug)
    if refused(problem, method):
        return
    result = solve(problem, method, max_iter=6000)
    assert result.status is Status.MAX_ITER
    assert problem.domain.contains(result.W, 1e-9)
    assert result.objective == pytest.approx(optimum, rel=0.01)
    assert result.infeasibility <= 0.025


@pytest.mark.parametrize("slug", [s for s in GENERAL if s != "sag-fw"])
def test_matrix_problem_with_known_optimum(slug):
    problem, optimum = max_cut()
    result = solve(problem, build(slug), max_iter=3000)
    assert problem.domain.contains(result.W, 1e-9)
    assert result.objective == pytest.approx(optimum, rel=0.03)
    assert result.infeasibility <= 0.08


def test_sag_fw_on_a_matrix_problem():
    """min ||W - M||² / 2 over {W psd, Tr W = 1}: M = projection target with known projection."""
    rng = np.random.default_rng(2)
    Q = np.linalg.qr(rng.standard_normal((N, N)))[0]
    M = (Q * np.r_[0.9, 0.5, -0.3, -1.0, -1.0, -2.0, 0.0]) @ Q.T
    best = (Q * np.r_[0.7, 0.3, 0, 0, 0, 0, 0]) @ Q.T  # eigenvalues onto the simplex
    problem = Problem(
        domains.Spectrahedron(N, 1.0, equality=True),
        [Term(maps.AllEntries(N), functions.Squared(M.reshape(-1)), name="fit")],
    )
    optimum = 0.5 * np.sum((best - M) ** 2)
    result = solve(problem, condgrad.sag_fw(batch=10), max_iter=4000)
    assert result.objective == pytest.approx(optimum, rel=2e-3)
    np.testing.assert_allclose(result.W, best, atol=0.05)


@pytest.mark.parametrize("slug", ["hcgm", "cgal", "h-sag-v1", "h-sag-v2"])
def test_smaller_steps_of_beta_close_in(slug):
    """More iterations come nearer: distance to the optimum in objective and constraint."""
    problem, optimum = max_cut()
    gaps = []
    for steps in (100, 4000):
        result = solve(problem, build(slug), max_iter=steps)
        gaps.append(abs(result.objective / optimum - 1) + result.infeasibility)
    assert gaps[1] < 0.5 * gaps[0]


@cache
def mixed_data():
    """A loss and a few half-spaces that the centre of the simplex meets."""
    rng = np.random.default_rng(3)
    X = rng.standard_normal((ROWS, D))
    b = X @ rng.standard_normal(D)
    a, inside = rng.standard_normal((5, D)), np.full(D, 1 / D)
    high = a @ inside + 0.02
    return X, b, a, high


BLOCKS = {  # function of w, its map, and what is 0 at least in the same constraint
    "L2Ball": (functions.L2Ball(0.45), np.eye(D), lambda w: 0.45 - cp.norm(w)),
    "SecondOrder": (
        functions.SecondOrder(),
        np.vstack([np.full(D, 0.45), np.eye(D)]),
        lambda w: 0.45 - cp.norm(w),  # the same set: the entries sum to 1
    ),
    "Simplex": (
        functions.Simplex(0.5),
        np.eye(3, D),
        lambda w: -cp.abs(cp.sum(w[:3]) - 0.5),
    ),
}


@pytest.mark.parametrize("kind", ["v1", "v2-override", "cgal-override"])
@pytest.mark.parametrize("name", BLOCKS)
def test_block_terms_are_mixed_with_sampled_ones(name, kind):
    function, matrix, constraint = BLOCKS[name]
    X, b, a, high = mixed_data()
    w, domain = simplex()
    optimum = mean_squares(X, b, w, [*domain, constraint(w) >= 0, a @ w <= high])
    assert constraint(w.value).value < 1e-4, "the block does not bind"
    terms = [
        Term(maps.DataMatrix(X), functions.Squared(b), 1 / ROWS, "fit"),
        Term(maps.DataMatrix(a), functions.AtMost(high), name="cut"),
        Term(maps.DataMatrix(matrix), function, name="block"),
    ]
    problem = Problem(domains.Simplex(D), terms)
    method = {
        "v1": condgrad.h_sag_v1(0.05, batch=4),
        "v2-override": condgrad.h_sag_v2(0.05, batch=2).override({"block": Full()}),
        "cgal-override": condgrad.h_sag_v2(0.05, batch=2).override({"block": Augmented(1.0)}),
    }[kind]
    result = solve(problem, method, max_iter=6000)
    assert result.objective == pytest.approx(optimum, rel=0.01)
    assert result.infeasibility <= 0.01
    assert result.rows["block"] == 6000 * matrix.shape[0]
    assert result.rows["cut"] == 6000 * (5 if kind == "v1" else 2)


@pytest.mark.parametrize("slug", [s for s in GENERAL if s != "sag-fw"])
def test_lipschitz_g_against_linear_programming(slug):
    """min <c, w> + ||A w - b||_1 over the simplex, a linear program."""
    rng = np.random.default_rng(4)
    c, A, b = rng.standard_normal(D), rng.standard_normal((10, D)), 0.3 * rng.standard_normal(10)
    program = scipy.optimize.linprog(
        np.r_[c, np.ones(10)],
        A_ub=np.block([[A, -np.eye(10)], [-A, -np.eye(10)]]),
        b_ub=np.r_[b, -b],
        A_eq=np.r_[np.ones(D), np.zeros(10)][None],
        b_eq=[1.0],
        bounds=[(0, None)] * (D + 10),
    )
    assert program.success
    terms = [
        Term(maps.Inner(c), functions.Linear(), name="cost"),
        Term(maps.DataMatrix(A), functions.Absolute(b), name="deviation"),
    ]
    problem, method = Problem(domains.Simplex(D), terms), build(slug)
    if refused(problem, method):
        return
    result = solve(problem, method, max_iter=4000)
    assert result.infeasibility == 0.0
    assert program.fun - 1e-9 <= result.objective <= program.fun + 0.03 * abs(program.fun)


def test_l1_regularisation_against_an_interior_point():
    """Mean squares + 0.1 ||w||_1 over an l1 ball that does not bind."""
    rng = np.random.default_rng(5)
    X = rng.standard_normal((ROWS, D))
    b = X @ np.array([1.0, -0.5, 0, 0, 0.2, 0]) + 0.01 * rng.standard_normal(ROWS)
    w = cp.Variable(D)
    program = cp.Problem(cp.Minimize(cp.sum_squares(X @ w - b) / (2 * ROWS) + 0.1 * cp.norm1(w)))
    optimum = program.solve(solver=cp.CLARABEL)
    terms = [
        Term(maps.DataMatrix(X), functions.Squared(b), 1 / ROWS, "fit"),
        Term(maps.DataMatrix(np.eye(D)), functions.L1(0.1), name="l1"),
    ]
    problem = Problem(domains.L1Ball(D, 3.0), terms)
    for method in (condgrad.h_sag_v1(1.0, batch=5), condgrad.h_sag_v2(1.0, batch=5)):
        result = solve(problem, method, max_iter=6000)
        assert optimum - 1e-6 <= result.objective <= optimum * 1.02


SEQUENCES = {  # η_k, β_k / β0, ρ_k: those of the papers, written out
    "hcgm": (lambda k: 2 / (k + 1), lambda k: (k + 1) ** (-1 / 2), lambda k: 0),
    "cgal": (lambda k: 2 / (k + 1), lambda k: (k + 1) ** (-1 / 2), lambda k: 0),
    "shcgm": (
        lambda k: 9 / (k + 8),
        lambda k: (k + 8) ** (-1 / 2),
        lambda k: 4 / (k + 7) ** (2 / 3),
    ),
    "most-fw": (lambda k: 2 / (k + 1), lambda k: (k + 1) ** (-1 / 2), lambda k: 2 / (k + 1)),
    "h-sag-v1": (lambda k: 2 / (k + 1), lambda k: (k + 1) ** (-1 / 2), lambda k: 0),
    "h-1sfw": (
        lambda k: 2 / (k + 1),
        lambda k: (k + 1) ** (-1 / 6),
        lambda k: 3 / (k + 5) ** (2 / 3),
    ),
    "h-spider-fw": (lambda k: 2 / (k + 1), lambda k: (k + 1) ** (-1 / 2), lambda k: 0),
    "most-fw-plus": (lambda k: 2 / (k + 1), lambda k: (k + 1) ** (-1 / 4), lambda k: 2 / (k + 1)),
    "h-sag-v2": (lambda k: 2 / (k + 1), lambda k: (k + 1) ** (-1 / 2), lambda k: 0),
}
ESTIMATORS = {
    "hcgm": (Full, Full),
    "cgal": (Full, Augmented),
    "shcgm": (Momentum, Full),
    "most-fw": (Storm, Full),
    "h-sag-v1": (SAG, Full),
    "h-1sfw": (Momentum, Momentum),
    "h-spider-fw": (Spider, Spider),
    "most-fw-plus": (Storm, Storm),
    "h-sag-v2": (SAG, SAG),
}


@pytest.mark.parametrize("slug", SEQUENCES)
def test_method_has_the_sequences_and_estimators_of_its_paper(slug):
    method = METHODS[slug](beta0=3.0)
    assert (type(method.smooth), type(method.composite)) == ESTIMATORS[slug]
    eta, beta, rho = SEQUENCES[slug]
    for k in range(1, 6):
        p, before = method.schedule(k), max(k - 1, 1)
        assert p.k == k
        assert p.eta == pytest.approx(eta(k), rel=1e-15)
        assert p.beta == pytest.approx(3.0 * beta(k), rel=1e-15)
        assert p.rho == pytest.approx(rho(k), rel=1e-15)
        assert p.eta_before == pytest.approx(eta(before), rel=1e-15)
        assert p.beta_before == pytest.approx(3.0 * beta(before), rel=1e-15)
    if slug == "cgal":
        assert method.composite.step == pytest.approx(1 / 3)


def test_sag_cgal_has_its_sequences():
    """θ_k is β_k/β0, so that the dual step is CGAL's 1/β0."""
    method = condgrad.sag_cgal(beta0=3.0)
    for k in range(1, 6):
        assert method.schedule(k).eta == pytest.approx(2 / (k + 1), rel=1e-15)
        assert method.schedule(k).beta == pytest.approx(3 * method.rate(k), rel=1e-15)
        assert method.rate(k) == pytest.approx((k + 1) ** (-1 / 3), rel=1e-15)


@pytest.mark.parametrize("slug", METHODS)
def test_every_method_can_be_given_an_effort(slug):
    """It is the oracle's: a method that asks it for none stays as it is."""
    method = METHODS[slug]()
    for effort in (None, 2.0, lambda k: float(k)):
        other = method.with_effort(effort)
        assert (type(other), other.name) == (type(method), method.name)
        if hasattr(method, "schedule"):
            wanted = effort(3) if callable(effort) else effort
            assert other.schedule(3).effort == wanted
        else:
            assert other == method


def test_spider_epochs():
    spider = condgrad.h_spider_fw(1.0).composite
    assert [k for k in range(1, 40) if spider.restart(k)] == [1, 2, 4, 8, 16, 32]
    assert [spider.batch_at(k) for k in range(1, 9)] == [1, 2, 2, 4, 4, 4, 4, 8]


@pytest.mark.parametrize("slug", METHODS)
def test_metadata(slug):
    entry = METHODS[slug]
    assert entry.slug == slug
    assert getattr(condgrad, slug.replace("-", "_")) is entry.build
    assert repr(entry).startswith(f"<{entry.name}")
    for text in (entry.name, entry.estimates, entry.needs, entry.iterations, entry.cost):
        assert text.strip()
    assert any(f"{year}" in entry.reference for year in range(2009, 2030))
    assert 0 < entry.exponent <= 2 or (
        entry.iterations == "not proved" and np.isnan(entry.exponent)
    )
    parameters = inspect.signature(entry.build).parameters
    assert all(name in inspect.getdoc(entry.build) for name in parameters)
    method = entry()
    assert (method.slug, method.name) == (slug, entry.name)
    if entry.batched:
        assert "batch=0.5" in repr(entry(batch=0.5))
