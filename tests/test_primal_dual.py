"""SPDHG: the iteration written out, its kernels, known optima, and what its bounds rest on."""

import networkx as nx
import numpy as np
import pytest

import condgrad as cg
from condgrad import Problem, Status, Term, domains, functions, maps
from condgrad import applications as apps
from condgrad.backends import _reference as reference
from condgrad.estimators import Ascent, Full
from condgrad.methods import suited
from condgrad.methods.control import BalanceState
from condgrad.methods.lead import Lead, Look
from condgrad.methods.primal_dual import PRIMAL_DUAL, PRIMAL_WEIGHT, PrimalDualStep
from condgrad.passes import passes_of
from condgrad.points.dense import Dense
from condgrad.rows import keeper_of
from conformance.test_maps import MAPS, matrix_of
from conformance.test_renew import FUNCTIONS
from test_steps import cut, interior_point, max_cut, nearest

PURE = cg.spdhg(first=0)
numba_kernels = pytest.importorskip("condgrad.backends._numba", exc_type=ImportError)


@pytest.mark.parametrize("stored", [np.float64, np.float32])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("bounds", [(-np.inf, 0.1), (0.0, np.inf), (-0.3, 0.2), (0.2, 0.2)])
def test_ascent_twins(bounds, dtype, stored):
    n, rng = 19, np.random.default_rng(0)  # more rows than a chunk are in test_keepers
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
    n, rng = 7, np.random.default_rng(3)
    problem = cut(n)
    C, triangles = problem.terms[0].gradient(np.eye(n), 1.0), problem.terms[1]
    M = matrix_of(triangles.map)
    rows = [keeper_of(problem.terms[0], Full(), problem)]
    rows.append(keeper_of(triangles, Ascent(batch), problem))
    step = PRIMAL_DUAL.begin(problem, rows)
    assert isinstance(step, PrimalDualStep)
    W, y = Dense(problem.domain.center()), np.zeros(triangles.map.size)
    step.state.weight = 0.3
    norm = np.sqrt(n * (n - 1) / 2) / 2  # rows have length 2
    assert step.state.length == pytest.approx(np.sqrt(rows[1].share) / norm)
    for k in range(1, 40):
        s, omega, before = step.state.length, step.state.weight, W.array.copy()
        p = step.params(PURE.schedule(k))
        own = [p, cg.start(problem, PURE)._control.params(1, p)]
        rows[0].update(W, own[0], rng)
        rows[1].update(W, own[1], rng)
        sigma, tau, share = s * omega / 4, s / omega, rows[1].state.share
        drawn = np.flatnonzero(rows[1].state.y != y)
        new = np.maximum(y + sigma * (M @ before.reshape(-1) - triangles.function.upper), 0)
        np.testing.assert_allclose(rows[1].state.y[drawn], new[drawn], atol=1e-12)
        change = rows[1].state.y - y
        y = rows[1].state.y.copy()
        v = np.zeros((n, n))
        for r in rows:
            r.add_to(v)
        pull = (M.T @ (y + change / share)).reshape(n, n)
        np.testing.assert_allclose(v, C + pull, atol=1e-10)
        step.move(W, v, own, rng, lambda _: None)
        v = (v + v.T) / 2
        np.testing.assert_allclose(W.array, nearest(problem.domain, before - tau * v), atol=1e-9)
        D = W.array - before
        across = 2 * abs(np.vdot(D, (M.T @ change).reshape(n, n)))
        top = share * omega * np.vdot(D, D) + 4 * np.square(change).sum() / omega
        longer = (1 + (k + 1) ** -0.6) * s
        expected = min(max(0.9 * top / max(across, 1e-300), step.least), longer)
        assert step.state.length == pytest.approx(expected, rel=1e-6)


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


def test_one_number_a_row_and_the_rows_of_the_trace():
    problem = cut(8)
    run = cg.start(problem, cg.spdhg(batch=0.25, first=0))
    run.advance(iterations=8)
    listed = run.state.listed()
    assert listed["terms[1].y"].size == problem.terms[1].map.size
    assert "terms[1].slopes" not in listed
    assert listed["control.first"].shape == (8, 8)
    assert run.state.step.length > 0
    assert run.state.step.weight > 0


def test_the_weight_stays_near_the_ratio_of_the_distances():
    problem = cut(9)
    run = cg.start(problem, PURE, gap=1e-9)
    run.advance(iterations=300)
    y, W = run.state.terms[1].state.y, run.state.W.array
    far = np.linalg.norm(W - run.state.control.first)
    ratio = 2 * np.linalg.norm(y) / far
    least, most = 0.9 * PRIMAL_WEIGHT.least * ratio, 1.1 * PRIMAL_WEIGHT.most * ratio
    assert least <= run.state.step.weight <= most


def test_the_weight_moves_towards_the_side_that_is_behind():
    run = cg.start(cut(9), PURE)
    control, step = run._control, run.state.step
    for need, late, factor in [
        (40, False, 1.5),
        (20, False, 1),
        (20, True, 1.5),
        (1 / 5, True, 2 / 3),
    ]:
        step.weight = 1.0
        control._weigh(need, late)
        assert step.weight == pytest.approx(factor)


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
        assert np.array_equal(run.state.W.array, plain.state.W.array)
    plain.advance(iterations=1)
    y = plain.state.terms[1].state.y.copy()
    W, epochs = plain.state.W.array.copy(), plain.result().epochs
    assert np.array_equal(run.state.W.array, W)
    run.advance(iterations=1)
    state = run.state.terms[1].state
    off = np.flatnonzero(state.y != y)
    assert off.size <= np.ceil(state.share * y.size)
    assert run.result().epochs == pytest.approx(epochs + state.share)
    G = (matrix_of(problem.terms[1].map).T @ state.y).reshape(n, n)
    np.testing.assert_allclose(state.G.reshape(n, n), G, atol=1e-9 * (1 + np.abs(G).max()))
    assert run.result().method == "SPDHG"
    assert run.result().trace["k"][0] == 0


def test_whole_passes_need_no_others_before():
    problem = cut(8, 1)
    assert cg.spdhg(batch=1.0).on(problem).first is None
    assert cg.spdhg(batch=0.5).on(problem).first is not None
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
    assert suited(box).slug == "rpdhg"
    assert apps.sparsest_cut(A).default(1.0) == "sag-cgal"


def test_whether_it_is_advanced_in_pieces_does_not_matter():
    problem = cut(12, 2)
    runs = [cg.start(problem, cg.spdhg(batch=0.2, first=5), seed=1) for _ in range(2)]
    runs[0].advance(iterations=40)
    for _ in range(8):
        runs[1].advance(iterations=5)
    assert np.array_equal(runs[0].state.W.array, runs[1].state.W.array)
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


def test_who_has_the_lead():
    """Ten passes; five where little is gained by then; more where a lot is."""
    seen, lead = Look(np.eye(2), 0.0, 1.0), Lead(cg.sag_cgal())

    def over(passes, measured, bound, earlier=(-np.inf, 0.0), seen=seen):
        rest = {"factors": [], "before": [], "moves": [], "speed": []}
        state = BalanceState(**rest, bound=bound, passes=measured, earlier=earlier)
        return lead.over(passes, state, seen)

    assert not over(9.9, 4.9, -np.inf)  # nothing was measured in time
    assert over(10.0, 4.9, -np.inf)
    assert not over(6.0, 6.0, 0.21)
    assert over(6.0, 6.0, 0.19)
    assert over(30.0, 30.0, 0.99, (0.989, 25.0))
    assert not over(30.0, 30.0, 0.993, (0.993, 25.0))  # 0.85^30 is 0.0076
    assert not over(12.0, 12.0, 0.75, (0.5, 8.0))  # 0.5 · 0.85^4 is 0.26
    assert over(12.0, 12.0, 0.7, (0.69, 8.0))
    assert [over(t, t, 0.9, seen=None) for t in (9.0, 10.0)] == [False, True]


def test_batches_grow_with_the_rank(monkeypatch):
    """Every row is still drawn once a round, and its share enters the steps."""
    monkeypatch.setattr(Ascent, "least", 1)
    problem = cut(30, 1)
    run = cg.start(problem, cg.spdhg(first=0))
    keeper = run.advance(iterations=3).state.terms[1]
    before, step = keeper.share, run._step
    keeper.widen(6.0)
    assert before < keeper.share < 1
    assert step.least == pytest.approx(np.sqrt(keeper.share) / step.norm)
    drawn = np.zeros(keeper.term.map.size, int)
    for _ in range(int(np.floor(1 / keeper.share))):
        for at in keeper.state.stretches.draw(np.random.default_rng(0)):
            drawn[at] += 1
    assert drawn.max() == 1
    keeper.widen(6.5)  # nearly the same: nothing is dealt anew
    assert drawn.mean() >= 1 - keeper.share
    fixed = cg.start(problem, cg.spdhg(batch=0.1, first=0)).state.terms[1]
    share = fixed.share
    fixed.widen(100.0)
    assert fixed.share == share


@pytest.mark.parametrize("seed", range(3))
def test_bounds_from_tables_in_single_precision(seed):
    problem = cut(9, seed + 1)
    optimum, _ = interior_point(problem)
    method = cg.spdhg(batch=0.3, first=0, table_dtype=np.float32)
    result = cg.solve(problem, method, gap=1e-5, feasibility=1e-5, seed=seed, max_iter=20_000)
    assert result.lower_bound <= optimum + 1e-7 * abs(optimum)
    assert result.lower_bound == pytest.approx(optimum, rel=1e-4)
    run = cg.start(problem, method).advance(iterations=300)
    s = run.state.terms[1].state
    G = (matrix_of(problem.terms[1].map).T @ s.y.astype(float)).reshape(9, 9)
    assert (s.y.dtype, s.changed.dtype, s.G.dtype) == (np.float32, np.float32, np.float64)
    np.testing.assert_allclose(s.G.reshape(9, 9), G, atol=3e-5 * np.abs(G).max())
