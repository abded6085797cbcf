"""SPDHG: the iteration written out, its kernels, known optima, and what its bounds rest on."""

import networkx as nx
import numpy as np
import pytest

import condgrad as cg
from condgrad import Problem, Status, Term, domains, functions, maps
from condgrad import applications as apps
from condgrad.backends import _reference as reference
from condgrad.methods import choose
from condgrad.methods.balance import Pressure
from condgrad.methods.protocol import Known
from condgrad.methods.spdhg import LEAST_RATIO, MOST_RATIO, Spdhg
from condgrad.passes import passes_of
from conformance.test_maps import MAPS, matrix_of
from conformance.test_renew import FUNCTIONS
from projections import nearest
from random_problems import interior_point
from test_steps import cut, max_cut

PURE = cg.spdhg(first=0)
numba_kernels = pytest.importorskip("condgrad.backends._numba", exc_type=ImportError)


@pytest.mark.parametrize("stored", [np.float64, np.float32])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("bounds", [(-np.inf, 0.1), (0.0, np.inf), (-0.3, 0.2), (0.2, 0.2)])
def test_ascent_twins(bounds, dtype, stored):
    n, rng = 19, np.random.default_rng(0)  # more rows than a chunk are in test_passes
    size = n * (n - 1) * (n - 2) // 2
    W = rng.standard_normal((n, n)).astype(dtype)
    W, y = W + W.T, rng.standard_normal(size).astype(stored)
    found = []
    for module in (reference, numba_kernels):
        own, G = y.copy(), np.zeros((n, n), dtype)
        drivers = module.fused(module.triangle_sweep, module.triangle_add)
        ends = np.array([[3, 700], [900, size]])
        found.append((drivers.ascend(W, G, own, ends, *bounds, 0.7), G, own))
    tol = 1e-11 if {dtype, stored} == {np.float64} else 2e-4
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a, b, rtol=tol, atol=tol * np.abs(b).max())


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("name", MAPS)
def test_ascent_is_its_definition(name, function):
    A, rng = MAPS[name], np.random.default_rng(5)
    h, M = FUNCTIONS[function](A.size), matrix_of(A)
    y = h.into_dual(rng.standard_normal(A.size))
    W, G, beta, at = rng.standard_normal(A.shape), A.zeros(), 0.6, slice(0, max(1, A.size // 2))
    z = M @ W.reshape(-1)
    new = y.copy()
    new[at] = h.into_dual(h.slope((z + beta * y)[at], beta, at), at)
    before = y.copy()
    squares = passes_of(A, h).ascend(W, G, [at], y, beta)
    np.testing.assert_allclose(y, new, atol=1e-11)
    assert squares == pytest.approx(np.square(new - before).sum(), abs=1e-11)
    out = np.zeros(A.shape)
    A.add_to(G, 1.0, out)
    np.testing.assert_allclose(out.reshape(-1), M.T @ (new - before), atol=1e-10)


@pytest.mark.parametrize("batch", [1.0, 0.3])
def test_the_iteration_written_out(batch):
    """y ← proj(y + σ A W) on the drawn rows, then W ← proj(W − τ(C + A*(y + Δy/p)))."""
    n = 7
    problem = cut(n)
    C, triangles = problem.terms[0].gradient(np.eye(n), 1.0), problem.terms[1]
    M = matrix_of(triangles.map)
    method = cg.spdhg(batch=batch, first=0)
    run = cg.start(problem, method, certify=False)
    state, y, norm = run.state, np.zeros(triangles.map.size), np.sqrt(n * (n - 1) / 2) / 2
    share = state.tables[1].stretches.share
    least = np.sqrt(share) / norm  # rows have length 2
    assert state.length == pytest.approx(least)
    state.weight, state.due = 0.3, np.inf
    for k in range(1, 40):
        s, omega, before, rows = state.length, state.weight, state.W.copy(), state.rows[1]
        state = run.advance(iterations=1).state
        now, sigma, tau = state.tables[1].y, s * omega / 4, s / omega
        drawn = np.flatnonzero(now != y)
        new = np.maximum(y + sigma * (M @ before.reshape(-1) - triangles.function.upper), 0)
        np.testing.assert_allclose(now[drawn], new[drawn], atol=1e-12)
        change, y, p = now - y, now.copy(), (state.rows[1] - rows) / triangles.map.size
        v = C + (M.T @ (y + change / p)).reshape(n, n)
        v = (v + v.T) / 2
        np.testing.assert_allclose(state.W, nearest(problem.domain, before - tau * v), atol=1e-9)
        D = state.W - before
        across = 2 * abs(np.vdot(D, (M.T @ change).reshape(n, n)))
        top = share * omega * np.vdot(D, D) + 4 * np.square(change).sum() / omega
        longer = (1 + (k + 1) ** -0.6) * s
        expected = min(max(0.9 * top / max(across, 1e-300), least), longer)
        assert state.length == pytest.approx(expected, rel=1e-6)


def k_means(seed=0):
    """Two families beside the cost: row sums and W ≥ 0."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((9, 2)) + 5 * rng.integers(0, 3, (9, 1))
    distances = np.square(X[:, None] - X[None]).sum(2)
    terms = [
        Term(maps.Inner(distances), functions.Linear(), name="cost"),
        Term(maps.RowSums(9), functions.Equal(1.0), name="sums"),
        Term(maps.AllEntries(9), functions.AtLeast(0.0), weight=3.0, name="entries"),
    ]
    return Problem(domains.Spectrahedron(9, 3.0, equality=True), terms)


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("make", [lambda s: cut(9, s), lambda s: max_cut(9, s), k_means])
def test_known_optima(make, seed):
    problem = make(seed)
    optimum, missed = interior_point(problem)
    assert missed <= 1e-6
    result = cg.solve(problem, PURE, gap=1e-4, feasibility=1e-4, seed=seed)
    assert result.status is Status.CONVERGED
    assert result.method == "SPDHG"
    assert result.lower_bound <= optimum + 1e-6 * abs(optimum)
    assert result.objective == pytest.approx(optimum, rel=3e-4)


def test_a_quadratic_loss():
    """A step of W is shorter where f bends: the nearest point with given diagonal."""
    n, rng = 6, np.random.default_rng(0)
    X = rng.standard_normal((n, n))
    X = X + X.T
    terms = [
        Term(maps.AllEntries(n), functions.Squared(X.reshape(-1)), name="near"),
        Term(maps.Diagonal(n), functions.Equal(1.0), name="diagonal"),
    ]
    problem = Problem(domains.Spectrahedron(n, float(n), equality=True), terms)
    result = cg.solve(problem, PURE, gap=1e-5, feasibility=1e-5)
    other = cg.solve(problem, gap=1e-5, feasibility=1e-5, max_iter=50_000)
    assert result.status is Status.CONVERGED
    assert result.objective == pytest.approx(other.objective, rel=1e-3)
    assert result.lower_bound <= other.objective * (1 + 1e-4)


def test_it_is_refused_off_spectrahedra_and_without_g():
    simplex = Problem(
        domains.Simplex(3),
        [
            Term(maps.Inner([1.0, 2.0, 3.0]), functions.Linear(), name="cost"),
            Term(maps.DataMatrix(np.eye(3)), functions.AtMost(0.5), name="caps"),
        ],
    )
    free = Problem(domains.Spectrahedron(4), [cut(4).terms[0]])
    for problem in (simplex, free):
        with pytest.raises(cg.ProblemError, match=r"method is SPDHG, which needs .*spectrahedron"):
            cg.solve(problem, PURE)


def test_one_number_a_row():
    problem = cut(8)
    state = cg.start(problem, cg.spdhg(batch=0.25, first=0)).advance(iterations=8).state
    rows = [t.y for t in state.tables if t.y is not None]
    assert [y.size for y in rows] == [problem.terms[1].map.size]
    assert state.tables[1].changed.size == state.tables[1].G.size == 64


def test_the_weight_stays_near_the_ratio_of_the_distances():
    run = cg.start(cut(9), PURE, gap=1e-9).advance(iterations=300)
    far = np.linalg.norm(run.state.W - run.state.origin)
    ratio = 2 * np.linalg.norm(run.state.tables[1].y) / far
    assert 0.9 * LEAST_RATIO * ratio <= run.state.weight <= 1.1 * MOST_RATIO * ratio


@pytest.mark.parametrize("seed", range(1, 5))  # connected, so that a cut is not free
def test_bounds_hold_on_the_way(seed):
    problem = cut(8, seed)
    optimum, _ = interior_point(problem)
    result = cg.solve(problem, cg.spdhg(batch=0.2, first=0), max_iter=400, seed=seed)
    bounds = result.trace["lower_bound"]
    assert np.all(bounds <= optimum + 1e-6 * abs(optimum))
    assert bounds[-1] >= optimum - 0.05 * abs(optimum)


def test_a_cut_uses_it():
    cut = cg.sparsest_cut(nx.karate_club_graph(), presolve=False)
    assert cut.status is Status.CONVERGED
    assert cut.result.method == "SPDHG"


@pytest.mark.parametrize("n", [8, 30])
def test_the_first_passes_are_sag_cgal_and_go_over(n):
    problem = cut(n, 1)
    run = cg.start(problem, cg.spdhg(batch=0.3, first=4), gap=1e-12)
    plain = cg.start(problem, cg.sag_cgal(batch=0.3), gap=1e-12)
    while run.advance(iterations=1).result().epochs < 4:
        plain.advance(iterations=1)
        assert np.array_equal(run.state.W, plain.state.W)
    plain.advance(iterations=1)
    y, rows = plain.state.tables[1].y.copy(), plain.state.rows[1]
    assert np.array_equal(run.state.W, plain.state.W)
    table = run.advance(iterations=1).state.tables[1]
    off = np.flatnonzero(table.y != y)
    assert off.size <= run.state.rows[1] - rows < y.size
    G = (matrix_of(problem.terms[1].map).T @ table.y).reshape(n, n)
    np.testing.assert_allclose(table.G.reshape(n, n), G, atol=1e-9 * (1 + np.abs(G).max()))
    assert run.result().method == "SPDHG"
    assert run.result().trace["k"][0] == 0


def test_whole_passes_need_no_others_before():
    problem = cut(8, 1)
    ends = [cg.solve(problem, cg.spdhg(batch=1.0, first=first), max_iter=9) for first in (0, 5)]
    assert np.array_equal(ends[0].W, ends[1].W)


def test_what_suits():
    """SPDHG with inequalities over a spectrahedron, SAG-CGAL with equations or elsewhere."""
    A = nx.to_numpy_array(nx.petersen_graph())
    points = np.random.default_rng(0).standard_normal((12, 2))
    C = ((points[:, None] - points) ** 2).sum(-1)
    cases = {
        "spdhg": [apps.sparsest_cut(A), apps.kmeans(C, 3)],
        "sag-cgal": [apps.max_cut(A), apps.kmeans(C, 3, preset="paper")],
    }
    for slug, applications in cases.items():
        for application in applications:
            assert application.default(None) == slug
    assert cg.solve(apps.kmeans(C, 3).problem, max_iter=3).method == "SPDHG"
    assert cg.solve(apps.max_cut(A).problem, max_iter=3).method == "SAG-CGAL"
    floor = Term(maps.AllEntries((4,)), functions.AtLeast(0.1), name="floor")
    box = Problem(domains.Simplex(4), [floor])
    assert choose(box).slug == "rpdhg"
    assert apps.sparsest_cut(A).default(1.0) == "sag-cgal"


def test_whether_it_is_advanced_in_pieces_does_not_matter():
    problem = cut(12, 2)
    runs = [cg.start(problem, cg.spdhg(batch=0.2, first=5), seed=1) for _ in range(2)]
    runs[0].advance(iterations=40)
    for _ in range(8):
        runs[1].advance(iterations=5)
    assert np.array_equal(runs[0].state.W, runs[1].state.W)
    assert runs[0].result().lower_bound == runs[1].result().lower_bound


def test_a_bad_number_of_first_passes():
    for bad in (-1, np.inf, "all"):
        with pytest.raises(cg.ProblemError, match="first is"):
            cg.spdhg(first=bad)


def test_rows_of_zero():
    cost = Term(maps.Inner(np.diag([1.0, 2.0, 3.0])), functions.Linear(), name="cost")
    zero = Term(maps.Inner(np.zeros((3, 3))), functions.Equal(0.0), name="zero")
    some = Term(maps.Diagonal(3), functions.AtLeast(0.1), name="diagonal")
    for terms in ([cost, zero], [cost, zero, some]):
        problem = Problem(domains.Spectrahedron(3, trace=1.0), terms)
        result = cg.solve(problem, PURE, propose=lambda W: np.eye(3) / 3, max_iter=300)
        assert np.isfinite(result.objective)
        assert result.status is Status.MAX_ITER


def test_how_long_the_first_method_goes_on():
    """Ten passes; five where little is gained by then; more where a lot is."""
    problem, method = cut(8, 1), cg.spdhg(batch=0.3)
    known = Known(below=0.0, above=1.0)

    def over(passes, measured, bound, bound_before=-np.inf, passes_before=0.0, known=known):
        state = method.init(problem, problem.domain.center(), np.random.default_rng(0), known)
        state.rows[1] = round(passes * problem.terms[1].map.size)
        rest = {"factors": [], "moves": [], "speed": [], "due": 0.0}
        state.pressure = Pressure(
            **rest,
            bound=bound,
            passes=measured,
            bound_before=bound_before,
            passes_before=passes_before,
        )
        return method.over(problem, state)

    assert not over(9.9, 4.9, -np.inf)  # nothing was measured in time
    assert over(10.0, 4.9, -np.inf)
    assert not over(6.0, 6.0, 0.21)
    assert over(6.0, 6.0, 0.19)
    assert over(30.0, 30.0, 0.99, 0.989, 25.0)
    assert not over(30.0, 30.0, 0.993, 0.993, 25.0)  # 0.85^30 is 0.0076
    assert not over(12.0, 12.0, 0.75, 0.5, 8.0)  # 0.5 · 0.85^4 is 0.26
    assert over(12.0, 12.0, 0.7, 0.69, 8.0)
    assert [over(t, t, 0.9, known=Known()) for t in (9.0, 10.0)] == [False, True]


def test_batches_grow_with_the_rank(monkeypatch):
    """Every row is still drawn once a round, and its share enters the steps."""
    monkeypatch.setattr(Spdhg, "least", 1)
    problem = cut(30, 1)
    run = cg.start(problem, cg.spdhg(first=0), certify=False)
    before = run.state.tables[1].stretches.share
    while run.state.tables[1].stretches.share == before and run.state.k < 400:
        run.advance(iterations=1)
    stretches = run.state.tables[1].stretches
    assert before < stretches.share < 1
    drawn = np.zeros(problem.terms[1].map.size, int)
    for _ in range(int(np.floor(1 / stretches.share))):
        for at in stretches.draw(np.random.default_rng(0)):
            drawn[at] += 1
    assert drawn.max() == 1
    assert drawn.mean() >= 1 - stretches.share
    rows = run.state.rows[1]
    run.advance(iterations=1)
    assert run.state.rows[1] - rows == pytest.approx(stretches.share * drawn.size, rel=0.1)
    fixed = cg.start(problem, cg.spdhg(batch=0.1, first=0), certify=False)
    share = fixed.state.tables[1].stretches.share
    assert fixed.advance(iterations=run.state.k).state.tables[1].stretches.share == share


@pytest.mark.parametrize("seed", range(3))
def test_bounds_from_tables_in_single_precision(seed):
    problem = cut(9, seed + 1)
    optimum, _ = interior_point(problem)
    method = cg.spdhg(batch=0.3, first=0, table_dtype=np.float32)
    result = cg.solve(problem, method, gap=1e-5, feasibility=1e-5, seed=seed, max_iter=20_000)
    assert result.lower_bound <= optimum + 1e-7 * abs(optimum)
    assert result.lower_bound == pytest.approx(optimum, rel=1e-4)
    run = cg.start(problem, method).advance(iterations=300)
    s = run.state.tables[1]
    G = (matrix_of(problem.terms[1].map).T @ s.y.astype(float)).reshape(9, 9)
    assert (s.y.dtype, s.changed.dtype, s.G.dtype) == (np.float32, np.float32, np.float64)
    np.testing.assert_allclose(s.G.reshape(9, 9), G, atol=3e-5 * np.abs(G).max())


@pytest.mark.parametrize("seen", [np.float64, np.float32])
@pytest.mark.parametrize("n", [2, 20])
def test_the_weight_stands_still_where_the_start_is_the_solution(seen, n):
    """W then is away from the start by rounding alone, and no number gets beyond all bounds."""
    cost = Term(maps.Inner(np.eye(n) - 2 * np.diag(np.arange(n)) / n), functions.Linear())
    rows = Term(maps.Diagonal(n), functions.Equal(1.0))
    problem = Problem(domains.Spectrahedron(n, 2.0 * n), [cost, rows], dtype=seen)
    run = cg.start(problem, cg.spdhg(), start=np.eye(n)).advance(iterations=600)
    assert run.result().status is Status.MAX_ITER
    assert run.state.weight < 1e20
