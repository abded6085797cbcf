"""Spectral steps: the domain, the curvature, known optima."""

from dataclasses import replace

import networkx as nx
import numpy as np
import pytest

import condgrad as cg
from condgrad import Problem, Term, domains, functions, maps
from condgrad.applications import kmeans, sparsest_cut
from condgrad.applications.graphs import adjacency_matrix, laplacian_of
from condgrad.backends import threads
from condgrad.methods import Balance
from condgrad.methods.sag_cgal import SAFETY_WHOLE
from condgrad.passes import passes_of
from projections import nearest, symmetric
from random_problems import interior_point


def graph(n, seed=0):
    return nx.to_numpy_array(nx.gnp_random_graph(n, 0.4, seed=seed))


def cut(n, seed=0):
    return sparsest_cut(graph(n, seed)).problem


def clusters(n, k=3):
    points = np.random.default_rng(0).standard_normal((n, 2))
    return kmeans(np.square(points[:, None] - points[None]).sum(axis=2), k).problem


def max_cut(n, seed=0):
    L = laplacian_of(adjacency_matrix(graph(n, seed)))
    cost = Term(maps.Inner(-L.toarray() / 4), functions.Linear())
    ones = Term(maps.Diagonal(n), functions.Equal(1.0))
    return Problem(domains.Spectrahedron(n, n, equality=True), [cost, ones])


def spectral(problem, method=None):
    """Whether a run steps to projections; such runs alone keep the step before."""
    state = cg.start(problem, method).advance(iterations=3).state
    return getattr(state, "D", None) is not None


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize(
    "problem",
    [cut(12), cut(110), clusters(15), clusters(130, 20), max_cut(14), max_cut(110)],
    ids=["cut-12", "cut-110", "kmeans-15", "kmeans-130", "max-cut-14", "max-cut-110"],
)
def test_every_iterate_lies_in_the_domain(problem, dtype):
    tol, outside = 1e-9 if dtype == "float64" else 1e-5, []

    def look(info):
        if not problem.domain.contains(np.asarray(info.W, np.float64), tol):
            outside.append(info.k)

    for method in (cg.sag_cgal(), cg.spdhg()):
        cg.solve(problem.astype(dtype), method, max_iter=40, callbacks=[look])
        assert spectral(problem.astype(dtype), method)
    assert not outside


def with_terms(domain, *terms, smooth=None):
    cost = Term(maps.Inner(np.diag(np.arange(domain.shape[0]) - 2.0)), smooth or functions.Linear())
    return Problem(domain, [cost, *terms])


HALF = Term(maps.Diagonal(5), functions.AtMost(0.5), name="half")
WHOLE = domains.Spectrahedron(5, 1.0)
FITS = with_terms(WHOLE, HALF)


@pytest.mark.parametrize(
    ("problem", "method"),
    [
        (FITS, cg.sag_cgal()),
        (FITS, cg.sag_cgal(spectral=True, batch=1.0)),
        (with_terms(domains.PinnedSpectrahedron(np.ones(5), 2.0, 1.0), HALF), cg.sag_cgal()),
        (Problem(WHOLE, [HALF]), cg.sag_cgal()),
        (with_terms(WHOLE, HALF, Term(maps.AllEntries(5), functions.L1(0.1))), cg.sag_cgal()),
        (with_terms(WHOLE, HALF, Term(maps.AllEntries(5), functions.L2Norm(0.1))), cg.sag_cgal()),
        (with_terms(WHOLE, HALF, smooth=functions.Squared(1.0)), cg.sag_cgal()),
        (with_terms(domains.BlockSpectrahedron([3, 2], 1.0), HALF), cg.sag_cgal()),
    ],
    ids=["fits", "asked", "pinned", "no f", "Lipschitz", "not separable", "f", "blocks"],
)
def test_block_steps_where_they_fit(problem, method):
    assert spectral(problem, method)


NUCLEAR = domains.NuclearBall((5, 5), 1.0)


ORACLE = domains.Oracle(domains.Simplex(5).lmo, 5, 2.0)


@pytest.mark.parametrize(
    ("problem", "method"),
    [
        (FITS, cg.sag_cgal(spectral=False)),
        (FITS, cg.sag_cgal(beta0=1.0)),
        (FITS, cg.h_sag_v2(beta0="auto")),
        (FITS, cg.cgal()),
        (with_terms(WHOLE), None),
        (with_terms(NUCLEAR, HALF), cg.sag_cgal()),
        (Problem(ORACLE, [Term(maps.AllEntries((5,)), functions.AtMost(0.5))]), None),
    ],
    ids=["no spectral", "beta0", "v2", "cgal", "no g", "ball", "vector"],
)
def test_atoms_elsewhere(problem, method):
    assert not spectral(problem, method)


def test_nothing_to_gain_and_nothing_to_mend():
    zero = Term(maps.Inner(np.zeros((5, 5))), functions.Linear())
    result = cg.solve(Problem(WHOLE, [zero, HALF]), cg.sag_cgal(), max_iter=20)
    assert result.objective == 0
    assert WHOLE.contains(result.W)


@pytest.mark.parametrize("batch", [1.0, 0.3])
def test_the_curvature_is_measured(batch):
    """‖A D‖²/‖D‖² over the drawn rows with a slope, D the step before."""
    n = 8
    terms = [
        Term(maps.Triangles(n), functions.AtMost(0.0), weight=2.0, name="triangles"),
        Term(maps.AllEntries(n), functions.AtLeast(0.1), weight=0.5, name="entries"),
        Term(maps.Diagonal(n), functions.Absolute(0.2), name="absolute"),
    ]
    problem, method = with_terms(domains.Spectrahedron(n, 2.0), *terms), cg.sag_cgal(batch=batch)
    run = cg.start(problem, method).advance(iterations=1)
    D, rows = run.state.D.copy(), list(run.state.rows)
    before = [None if t.y is None else t.y.copy() for t in run.state.tables]
    state = run.advance(iterations=1).state
    for i, t in list(enumerate(problem.terms))[1:]:
        A = np.array([t.map.adjoint(e).reshape(-1) for e in np.eye(t.map.size)])
        table, drawn = state.tables[i], state.rows[i] - rows[i]
        active = np.flatnonzero((table.y != before[i]) & (table.followed != 0))
        assert 0 < active.size <= drawn <= t.map.size
        squares = np.square(A[active] @ D.reshape(-1)).sum() * t.map.size / drawn
        assert state.ratios[i] == pytest.approx(squares / np.vdot(D, D))


@pytest.mark.parametrize("seed", [1, 2, 3])  # connected, so that a cut is not free
@pytest.mark.parametrize("make", [cut, max_cut])
def test_known_optima(make, seed):
    problem = make(9, seed)
    optimum, missed = interior_point(problem)
    assert missed <= 1e-7
    for method in (cg.sag_cgal(), cg.spdhg()):
        result = cg.solve(problem, method, gap=1e-4, feasibility=1e-4, seed=seed)
        assert result.status is cg.Status.CONVERGED
        assert result.lower_bound <= optimum + 1e-6 * abs(optimum)
        assert result.objective == pytest.approx(optimum, rel=3e-4)


def test_fewer_passes_than_with_atoms():
    problem = cut(12)
    methods = (cg.sag_cgal(spectral=on) for on in (True, False))
    spectral, atoms = (cg.solve(problem, method, gap=1e-3, max_iter=20_000) for method in methods)
    assert (spectral.status, spectral.epochs < atoms.epochs) == (cg.Status.CONVERGED, True)


def test_the_same_seed_gives_the_same_run():
    problem = cut(30)
    runs = [cg.solve(problem, cg.sag_cgal(batch=0.2), max_iter=50, seed=s) for s in (1, 1, 2)]
    assert np.array_equal(runs[0].W, runs[1].W)
    assert runs[0].lower_bound == runs[1].lower_bound
    assert not np.array_equal(runs[0].W, runs[2].W)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("map", [maps.Triangles(9), maps.AllEntries(9), maps.Diagonal(9)])
def test_squares_of_active_rows(map, dtype, monkeypatch):
    share = threads.share
    monkeypatch.setattr(threads, "share", lambda ranges: share(ranges, worth=5))
    rng = np.random.default_rng(0)
    D = symmetric(rng, 9)
    slopes = (rng.standard_normal(map.size) * (rng.random(map.size) < 0.5)).astype(dtype)
    slopes[:2] = 0.0, -0.0
    ranges = [slice(0, map.size // 3), slice(map.size // 2, map.size)]
    z = np.array([np.vdot(map.adjoint(e), D) for e in np.eye(map.size)])
    drawn = np.concatenate([np.arange(map.size)[at] for at in ranges])
    active = drawn[slopes[drawn] != 0]
    passes = passes_of(map, functions.AtMost(0.0))
    for jobs in (1, 2, 3):
        with threads.using(jobs):
            assert passes.squares(D, ranges, slopes) == pytest.approx(np.square(z[active]).sum())
            assert passes.squares(D, ranges, None) == pytest.approx(np.square(z[drawn]).sum())


def test_the_same_run_for_the_same_number_of_threads(monkeypatch):
    share = threads.share
    monkeypatch.setattr(threads, "share", lambda ranges: share(ranges, worth=50))
    problem = cut(105)
    runs = [cg.solve(problem, max_iter=15, n_jobs=jobs) for jobs in (2, 2, 1)]
    assert np.array_equal(runs[0].W, runs[1].W)
    assert pytest.approx(runs[2].W, abs=1e-6) == runs[0].W


def at_most(n, seed=0):
    """Max cut with entries off the diagonal of at most 0.2."""
    cost, ones = max_cut(n, seed).terms
    bound = np.where(np.eye(n), 2.0, 0.2).reshape(-1)
    entries = Term(maps.AllEntries(n), functions.AtMost(bound), name="entries")
    return Problem(domains.Spectrahedron(n, n, equality=True), [cost, ones, entries])


@pytest.mark.parametrize("make", [max_cut, at_most])
def test_whole_steps_are_the_linearised_method_of_multipliers(make):
    """y ← y + ρ(AW − b), then W ← proj(W − (C + A*(y + ρ(AW − b)))/L), ρ = 1/(2β).

    With inequalities γ = (y + ρ(AW − b))₊ at the new y still, which is (y + (y + 2ρ(AW − b))₊)/2.
    """
    problem, method = make(7), cg.sag_cgal(batch=1.0)
    run = cg.start(problem, replace(method, balance=Balance(per_decade=0)))
    y, moves = [np.zeros(t.map.size) for t in problem.terms], 0.0
    for k in range(1, 400):
        before = run.state.W.copy()
        s = run.advance(iterations=1).state
        assert s.eta == 1.0
        v, L = problem.terms[0].gradient(before, 1.0), 0.0
        for i, t in list(enumerate(problem.terms))[1:]:
            rho, opened = 1 / (2 * s.betas[i]), t.name == "entries"
            away = t.map.rows(before) - t.function.upper
            new = y[i] + rho * away
            if opened:
                new = (y[i] + np.maximum(y[i] + 2 * rho * away, 0)) / 2
            np.testing.assert_allclose(s.tables[i].y, new, atol=1e-12)
            slopes, y[i] = new + rho * away, s.tables[i].y.copy()
            v = v + t.map.adjoint(np.maximum(slopes, 0) if opened else slopes)
            L += SAFETY_WHOLE * t.weight * s.ratios[i] / s.betas[i]
        if k > 1:
            X = before - (v + v.T) / (2 * L)
            np.testing.assert_allclose(s.W, nearest(problem.domain, X), atol=1e-9)
            moves = float(np.linalg.norm(s.W - before))
    assert moves < 1e-4
    assert max(v.relative for v in problem.violations(s.W).values()) < 1e-4
    assert problem.objective(s.W) == pytest.approx(interior_point(problem)[0], rel=1e-3)
