"""Steps to projections: nearest points, known optima, bounds, and that watching changes nothing."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest

import condgrad as cg
from condgrad import Problem, Status, Term, domains, functions, maps
from condgrad.certificate import nuclear
from condgrad.domains import projections
from condgrad.domains.projections import NuclearProjector
from condgrad.methods.pdhg import Pdhg, change
from test_run import same_state


def nearest(X, radius):
    """The projection by all singular values, the threshold by bisection."""
    U, s, Vt = np.linalg.svd(X, full_matrices=False)
    if s.sum() <= radius:
        return X
    low, high = 0.0, s[0]
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if np.maximum(s - middle, 0).sum() > radius else (low, middle)
    return (U * np.maximum(s - high, 0)) @ Vt


@pytest.mark.parametrize("shape", [(7, 4), (4, 7), (1, 5), (5, 1), (40, 30)])
@pytest.mark.parametrize("radius", [0.3, 3.0, 1e4])
def test_small_matrices_are_projected_exactly(shape, radius):
    X = np.random.default_rng(0).standard_normal(shape)
    S = NuclearProjector(radius).project(X)[0]
    np.testing.assert_allclose(S, nearest(X, radius), atol=1e-12)


@pytest.mark.parametrize("shape", [(90, 60), (60, 90)])
def test_large_ones_from_a_warm_subspace(shape, monkeypatch):
    monkeypatch.setattr(projections, "SMALL", 10)
    rng = np.random.default_rng(1)
    base = rng.standard_normal((shape[0], 4)) @ rng.standard_normal((4, shape[1]))
    projector, frame = NuclearProjector(0.8 * np.linalg.norm(base, "nuc")), None
    for i in range(12):
        X = base + 0.02 * 0.5**i * rng.standard_normal(shape)
        S, frame, products = projector.project(X, frame)
        assert products > 0
        assert np.linalg.norm(S, "nuc") <= projector.radius * (1 + 1e-12)
    np.testing.assert_allclose(S, nearest(X, projector.radius), atol=1e-4 * np.abs(base).max())
    assert frame.shape[1] <= 15


def test_the_subspace_grows_where_all_its_values_stay(monkeypatch):
    monkeypatch.setattr(projections, "SMALL", 10)
    X = np.random.default_rng(2).standard_normal((80, 60))
    radius = 0.7 * np.linalg.norm(X, "nuc")
    S = NuclearProjector(radius).project(X)[0]  # of rank 50 or so
    np.testing.assert_allclose(S, nearest(X, radius), atol=1e-10)


def test_single_precision_stays_single():
    X = np.random.default_rng(3).standard_normal((30, 20)).astype(np.float32)
    S = NuclearProjector(5.0).project(X)[0]
    assert S.dtype == np.float32
    np.testing.assert_allclose(S, nearest(X.astype(float), 5.0), atol=1e-4)


def dense_rows(A, shape):
    """⟨a, W⟩ for the rows a of a matrix."""
    return maps.Stack([maps.Inner(a.reshape(shape)) for a in A])


def completion(kind, shape=(8, 6), radius=6.0, seed=0, noise=0.0):
    """A small problem of every kind, and its optimum by an interior-point solver."""
    rng = np.random.default_rng(seed)
    M = 2 + rng.standard_normal((shape[0], 2)) @ rng.standard_normal((2, shape[1]))
    M += noise * rng.standard_normal(shape)
    seen = rng.random(shape) < 0.6
    i, j = np.nonzero(seen)
    X = cp.Variable(shape)
    entries, everywhere = maps.Entries(i, j, shape), maps.AllEntries(shape)
    fit, loss = (
        Term(entries, functions.Squared(M[seen]), 2.0, "fit"),
        cp.sum_squares(X - M, axis=None),
    )
    loss, terms, rules = cp.sum_squares(cp.multiply(seen, X - M)), [fit], [cp.normNuc(X) <= radius]
    if kind == "box":
        terms.append(Term(everywhere, functions.Interval(0.1, 1.5), name="box"))
        rules += [X >= 0.1, X <= 1.5]
    elif kind == "scaled box":
        factor = rng.uniform(0.5, 2, X.size)
        terms.append(Term(maps.Scaled(everywhere, factor), functions.Interval(0, 2), 3.0, "box"))
        spread = factor.reshape(shape)
        rules += [cp.multiply(spread, X) >= 0, cp.multiply(spread, X) <= 2]
    elif kind == "l1":
        terms.append(Term(everywhere, functions.L1(0.7), name="l1"))
        loss += 0.7 * cp.sum(cp.abs(X))
    elif kind == "rows":
        A = rng.standard_normal((9, X.size))
        b = A @ np.full(X.size, 0.2) + 0.1
        terms.append(Term(dense_rows(A, shape), functions.AtMost(b), name="rows"))
        rules.append(A @ cp.reshape(X, (X.size,), order="C") <= b)
    elif kind == "huber":
        terms[0] = Term(entries, functions.Huber(M[seen], 0.5), 1.0, "fit")
        loss = cp.sum(cp.huber(cp.multiply(seen, X - M), 0.5)) / 2
    elif kind == "linear":
        C = rng.standard_normal(shape)
        terms.append(Term(maps.Inner(C), functions.Linear(), name="cost"))
        terms.append(Term(everywhere, functions.AtMost(1.0), name="box"))
        loss += cp.sum(cp.multiply(C, X))
        rules.append(X <= 1)
    program = cp.Problem(cp.Minimize(loss), rules)
    program.solve(solver=cp.CLARABEL)
    assert program.status == "optimal"
    return Problem(domains.NuclearBall(shape, radius), terms), float(program.value)


KINDS = ("plain", "box", "scaled box", "l1", "rows", "huber", "linear")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(3))
def test_known_optima(kind, seed):
    problem, optimum = completion(kind, seed=seed)
    smooth = kind in ("plain", "huber")  # where W is kept as factors by itself
    method = cg.apg() if smooth else None
    result = cg.solve(problem, method, gap=1e-5, feasibility=1e-6, max_iter=4000)
    assert (result.method, result.status) == ("APG" if smooth else "PDHG", Status.CONVERGED)
    assert result.objective == pytest.approx(optimum, rel=3e-5)
    assert result.lower_bound <= optimum * (1 + 1e-7)
    assert problem.domain.contains(result.W, 1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_bounds_hold_at_every_iteration(kind):
    """Also where the run is far from the optimum, and with other methods."""
    problem, optimum = completion(kind, seed=5)
    own = cg.pdhg() if problem.composite else cg.apg()
    for method in (own, cg.hcgm(beta0=0.1), cg.sag_cgal()):
        run = cg.start(problem, method, record=1000)
        for _ in range(12):
            run.advance(iterations=3)
            bound = method.measure(problem, run.state).bound
            assert bound.value <= optimum + 1e-6 * abs(optimum)


@pytest.mark.parametrize("kind", ["box", "scaled box"])
def test_clipping_gains_on_a_box(kind, monkeypatch):
    """The same dual points with and without, early in a run."""
    problem, optimum = completion(kind, (24, 16), 40.0, seed=1, noise=1.5)
    method, gains = cg.pdhg(), []
    run = cg.start(problem, method, certify=False)
    for _ in range(10):
        state = run.advance(iterations=2).state
        one = method.measure(problem, state).bound
        with monkeypatch.context() as patch:
            patch.setattr(nuclear, "serves", lambda problem: False)
            two = method.measure(problem, state).bound
        assert one.value <= optimum * (1 + 1e-7)
        gains.append((one.value - two.value) * ("clipped" in one.source))
    assert max(gains) > 1e-3 * optimum


def test_bounds_close_where_conjugates_are_not_quadratic():
    """Scaled slopes would lose what a parabola through their conjugates promises."""
    labels = np.where(np.random.default_rng(3).random(20) < 0.5, 1.0, -1.0)
    everywhere = maps.AllEntries((5, 4))
    fit = Term(everywhere, functions.Logistic(labels), name="fit")
    for terms in ([fit], [fit, Term(everywhere, functions.Interval(-0.5, 0.6), name="box")]):
        problem = Problem(domains.NuclearBall((5, 4), 2.0), terms)
        result = cg.solve(problem, gap=1e-6, feasibility=1e-6, max_iter=2000)
        assert result.status is Status.CONVERGED


def test_an_optimum_of_zero_without_smooth_terms():
    """A gap relative to 0 would never close, and the start, which violates g, would be the best."""
    rng, shape = np.random.default_rng(0), (5, 4)
    M = rng.standard_normal((5, 1)) @ rng.standard_normal((1, 4))
    everywhere = maps.AllEntries(shape)
    exact = Term(everywhere, functions.Absolute(M.reshape(-1)), name="fit")
    some = maps.Scaled(everywhere, np.repeat([1.0, 0.0], [5, 15]))
    sparse = Term(some, functions.L1(), name="l1")
    total = Term(maps.Inner(np.ones(shape)), functions.AtLeast(3.0), name="sum")
    radius = 2 * np.linalg.norm(M, "nuc")
    for terms in ([exact], [sparse, total]):
        problem = Problem(domains.NuclearBall(shape, radius), terms)
        result = cg.solve(problem, gap=1e-3, max_iter=3000)
        assert result.status is Status.CONVERGED
        assert result.infeasibility < 1e-2
        assert abs(result.objective) <= 1e-3 * problem.unit


@pytest.mark.parametrize("scale", [1.0, -0.5])
def test_duals_are_those_behind_a_changed_bound(scale):
    rng, shape = np.random.default_rng(1), (6, 5)
    M = 2 * rng.standard_normal(shape)
    i, j = np.nonzero(rng.random(shape) < 0.7)
    box = functions.Interval(-0.3, 0.4)
    terms = [
        Term(maps.Entries(i, j, shape), functions.Absolute(M[i, j]), 2.0, "fit"),
        Term(maps.Scaled(maps.AllEntries(shape), scale), box, 3.0, "box"),
    ]
    result = cg.solve(Problem(domains.NuclearBall(shape, 4.0), terms), max_iter=5, duals=True)
    v = sum(t.weight * t.map.adjoint(result.duals[t.name]) for t in terms)
    proved = -4 * np.linalg.norm(v, 2)
    proved -= sum(t.weight * t.function.conjugate(result.duals[t.name]) for t in terms)
    assert "clipped" in result.bound_source
    assert result.lower_bound == pytest.approx(proved, rel=1e-9)


def test_a_product_of_balls():
    one, first = completion("plain", seed=2)
    two, second = completion("plain", (5, 9), 4.0, seed=3)
    domain = domains.Product([one.domain, two.domain])
    terms = [
        Term(maps.Restricted(p.terms[0].map, domain, i), p.terms[0].function, 2.0, f"fit{i}")
        for i, p in enumerate((one, two))
    ]
    result = cg.solve(Problem(domain, terms), gap=1e-4, max_iter=3000)
    assert (result.method, result.status) == ("APG", Status.CONVERGED)
    assert result.objective == pytest.approx(first + second, rel=2e-4)


def test_constraints_without_a_solution_are_refuted():
    """Entries of 1 and more have a nuclear norm of √48 and more."""
    terms = completion("plain")[0].terms
    for bound in (0.6, 1.05):
        box = Term(maps.AllEntries((8, 6)), functions.AtLeast(bound), name="box")
        result = cg.solve(Problem(domains.NuclearBall((8, 6), 6.5), [*terms, box]), gap=1e-3)
        wanted = Status.INFEASIBLE if bound > 1 else Status.CONVERGED
        assert result.status is wanted


def test_methods_that_need_a_projection_are_refused_without_one():
    oracle = domains.Oracle(domains.Simplex(4).lmo, 4, 2.0)
    own = Problem(oracle, [Term(maps.AllEntries((4,)), functions.AtMost(0.5))])
    matrix = Problem(domains.Spectrahedron(4), [Term(maps.Diagonal(4), functions.Equal(0.25))])
    for method in (cg.pdhg(), cg.rpdhg(), cg.apg()):
        for problem in (own, matrix):
            with pytest.raises(cg.ProblemError, match=f"method is {method.name}, which needs"):
                cg.solve(problem, method)

    class Smaller(domains.NuclearBall):
        """It may mean another set."""

    own = Problem(Smaller((3, 3), 1.0), [Term(maps.AllEntries(3), functions.Squared(1.0))])
    assert cg.solve(own, max_iter=2).method == "PFW"


@pytest.mark.parametrize("relax", [1.0, 2.0, "auto", True, np.nan])
def test_relaxation_is_checked(relax):
    with pytest.raises(cg.ProblemError, match=r"relax is .*between 1 and 2"):
        cg.pdhg(relax)


@pytest.mark.parametrize("kind", ["plain", "box", "rows"])
def test_watching_and_pieces_change_nothing(kind):
    problem, _ = completion(kind)
    method = cg.pdhg() if problem.composite else cg.apg()
    plain = cg.start(problem, method).advance(iterations=60)
    for watch in ({"certify": False}, {"record": 1}, {"callbacks": [lambda info: False]}):
        same_state(plain, cg.start(problem, method, **watch).advance(iterations=60))
    pieces = cg.start(problem, method)
    for count in (1, 7, 52):
        pieces.advance(iterations=count)
    same_state(plain, pieces)


def test_it_goes_on_over_another_ball():
    problem, optimum = completion("box", radius=9.0)
    small = Problem(domains.NuclearBall((8, 6), 8.5), problem.terms)
    run = cg.start(small, gap=1e-5).advance(iterations=300)
    run.move(problem.domain).advance(iterations=3000)
    assert run.result().objective == pytest.approx(optimum, rel=3e-5)


def test_multipliers_are_those_of_the_formula():
    """γ = h'_β(z + βy), y + θ(γ − y), and A*y beside it, of stored and of other rows."""
    rng = np.random.default_rng(4)
    W = rng.standard_normal((4, 3))
    A = rng.standard_normal((5, 12))
    rows = dense_rows(A, (4, 3))
    for map, matrix in ((maps.AllEntries((4, 3)), np.eye(12)), (rows, A)):
        for function in (functions.Interval(-0.3, 0.2), functions.Squared(0.5), functions.L1(0.4)):
            term = Term(map, function, 2.0, "t")
            side = Pdhg()._side(term, Problem(domains.NuclearBall((4, 3), 9.0), [term]))
            y = np.zeros(map.size)
            for _ in range(3):
                side.move(term, W, 0.7, 1.6)
                z = matrix @ W.reshape(-1) + 0.7 * y
                slope = (z - function.prox(z, 0.7)) / 0.7
                before, y = y, y + 1.6 * (slope - y)
                np.testing.assert_allclose(side.y, y, atol=1e-12)
                spread = np.zeros((4, 3))
                map.add_to(side.estimate, 1.0, spread)
                np.testing.assert_allclose(spread.reshape(-1), matrix.T @ y, atol=1e-12)
                assert change(side, 1.6) == pytest.approx(np.sum((slope - before) ** 2), abs=1e-12)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_rows_that_never_bind_leave_the_steps_finite(dtype):
    """No multiplier moves, so that nothing says how large the norm of the rows is."""
    cost = Term(maps.Inner(np.arange(3.0)), functions.Linear())
    rows = Term(maps.DataMatrix(np.eye(3)), functions.AtMost(5.0))
    problem = Problem(domains.Box(np.zeros(3), np.ones(3)), [cost, rows], dtype=dtype)
    run = cg.start(problem, cg.rpdhg()).advance(iterations=2500)
    result = run.result()
    assert result.status is Status.MAX_ITER
    assert result.objective == pytest.approx(0.0, abs=1e-9)
    assert result.lower_bound == pytest.approx(0.0, abs=1e-9)
