"""Vectors over sets with a projection or an oracle: nearest points, known optima, bounds, steps."""

from __future__ import annotations

from importlib import import_module
from itertools import pairwise

import cvxpy as cp
import numpy as np
import pytest

import condgrad as cg
from condgrad import Problem, Status, Term, domains, functions, maps
from test_run import same_state

D, M = 7, 12
SETS = {
    "simplex": (lambda: domains.Simplex(D, 2.0), lambda w: [w >= 0, cp.sum(w) == 2]),
    "l1": (lambda: domains.L1Ball(D, 1.5), lambda w: [cp.norm1(w) <= 1.5]),
    "l2": (lambda: domains.L2Ball(D, 1.2), lambda w: [cp.norm2(w) <= 1.2]),
    "box": (lambda: domains.Box(-0.5, np.linspace(0.2, 1, D)), lambda w: box_of(w, -0.5)),
    "product": (
        lambda: domains.Product([domains.Simplex(3), domains.LinfBall(D - 3, 0.5)]),
        lambda w: [w[:3] >= 0, cp.sum(w[:3]) == 1, cp.abs(w[3:]) <= 0.5],
    ),
}


def box_of(w, lower):
    return [w >= lower, w <= np.linspace(0.2, 1, D)]


def inside(domain, rng):
    """A point in the middle of the set."""
    drawn = [domain.lmo(rng.standard_normal(D)).dense() for _ in range(9)]
    return np.mean([*drawn, domain.center()], axis=0)


def small(name, kind, seed=0):
    """A problem of a kind over a set, its optimum, and the method that suits it."""
    rng = np.random.default_rng([seed, *name.encode(), *kind.encode()])
    make, rules = SETS[name]
    domain, w = make(), cp.Variable(D)
    X, c = rng.standard_normal((M, D)), rng.standard_normal(D)
    b, t = X @ rng.standard_normal(D), np.where(rng.random(M) < 0.5, 1.0, -1.0)
    here, rules = X @ inside(domain, rng), rules(w)
    data, cost = maps.DataMatrix(X), Term(maps.Inner(c), functions.Linear(), name="cost")
    if kind == "squares":
        terms, loss = [Term(data, functions.Squared(b), 0.1)], 0.05 * cp.sum_squares(X @ w - b)
    elif kind == "logistic":
        terms = [Term(data, functions.Logistic(t)), cost]
        loss = cp.sum(cp.logistic(cp.multiply(-t, X @ w))) + c @ w
    elif kind == "rows":
        terms, loss = [cost, Term(data, functions.AtMost(here + 0.1), 3.0)], c @ w
        rules.append(X @ w <= here + 0.1)
    elif kind == "equations":
        terms, loss = [cost, Term(maps.DataMatrix(X[:3]), functions.Equal(here[:3]))], c @ w
        rules.append(X[:3] @ w == here[:3])
    elif kind == "squares with rows":
        terms = [Term(data, functions.Squared(b)), Term(data, functions.AtLeast(here - 0.1))]
        loss = cp.sum_squares(X @ w - b) / 2
        rules.append(X @ w >= here - 0.1)
    elif kind == "absolute":
        terms, loss = [Term(data, functions.Absolute(b), 0.5)], 0.5 * cp.norm1(X @ w - b)
    else:
        terms, loss = [Term(data, functions.Hinge(t)), cost], c @ w
        loss += cp.sum(cp.pos(1 - cp.multiply(t, X @ w)))
    program = cp.Problem(cp.Minimize(loss), rules)
    program.solve(solver=cp.CLARABEL)
    assert program.status == "optimal"
    smooth = {"squares": "APG", "logistic": "APG", "squares with rows": "PDHG"}
    return Problem(domain, terms), float(program.value), smooth.get(kind, "R-PDHG")


KINDS = ("squares", "logistic", "rows", "equations", "squares with rows", "absolute", "hinge")


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_projections_are_nearest_points(name, dtype):
    """S is nearest to X where no s has ⟨X − S, s − S⟩ > 0."""
    domain, rng = SETS[name][0](), np.random.default_rng(0)
    for size in (0.01, 1.0, 100.0):
        X = (size * rng.standard_normal(D)).astype(dtype)
        S = domain.projector().project(X)[0]
        assert S.dtype == dtype
        assert S is not X
        off, tolerance = X.astype(float) - S, 30 * float(np.finfo(dtype).eps)
        assert domain.contains(S.astype(float), tolerance)
        assert domain.support(off) - np.vdot(off, S) <= tolerance * (1 + size**2)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", SETS)
def test_known_optima(name, kind):
    problem, optimum, method = small(name, kind)
    result = cg.solve(problem, gap=1e-5, feasibility=1e-6, max_iter=20_000)
    assert (result.method, result.status) == (method, Status.CONVERGED)
    assert result.objective == pytest.approx(optimum, rel=3e-5)
    assert result.lower_bound <= optimum + 1e-7 * (1 + abs(optimum))
    assert problem.domain.contains(result.W, 1e-9)


def test_a_class_derived_from_a_set_may_mean_another():
    for known, *sizes in ((domains.Simplex, 3), (domains.L1Ball, 3), (domains.L2Ball, 3)):
        assert type("Own", (known,), {})(*sizes).projector() is None
    assert type("Own", (domains.Box,), {})(0, 1, 3).projector() is None


def anchored(problem, scalars):
    """Halpern's iteration as it is written, with ω, N and j of every iteration given."""
    (cost, rows), proj = problem.terms, problem.domain.projector()
    A, c = rows.map._dense, cost.map._data
    unit = rows.map.row_norm
    W = start = problem.domain.center()
    y = first = np.zeros(len(A))
    S = W
    for (omega, norm, turn), later in pairwise(scalars):
        beta = rows.weight * unit**2 * norm / omega
        z = A @ (2 * S - W) + beta * y
        gamma = (z - rows.function.prox(z, beta)) / beta
        share = 1 / (max(turn, 0) + 2)
        y = (1 - share) * (2 * gamma - y) + share * first
        if turn >= 0:
            W = (1 - share) * (2 * S - W) + share * start
        omega, norm, turn = later
        if turn == 0:
            start, first = W, y
        S = proj.project(W - (c + rows.weight * A.T @ y) / (omega * norm))[0]
    return S, W, y


def test_steps_are_those_of_the_formula():
    problem, *_ = small("box", "rows")
    run = cg.start(problem, cg.rpdhg())
    state = run.state
    scalars = [(state.weight, state.norm, state.turn)]
    for _ in range(60):
        run.advance(iterations=1)
        scalars.append((state.weight, state.norm, state.turn))
    assert sum(turn == 0 for *_, turn in scalars) > 3
    assert len({norm for _, norm, _ in scalars}) > 2
    assert max(norm for _, norm, _ in scalars) <= state.largest
    S, W, y = anchored(problem, scalars)
    np.testing.assert_allclose(state.W, S, atol=1e-11)
    np.testing.assert_allclose(state.before, W, atol=1e-11)
    np.testing.assert_allclose(state.tables[1].y, y, atol=1e-11)


@pytest.mark.parametrize("kind", ["squares", "rows", "absolute"])
def test_watching_and_pieces_change_nothing(kind):
    problem, *_ = small("simplex", kind)
    plain = cg.start(problem).advance(iterations=90)
    for watch in ({"certify": False}, {"record": 1}, {"callbacks": [lambda info: False]}):
        same_state(plain, cg.start(problem, **watch).advance(iterations=90))
    pieces = cg.start(problem)
    for count in (1, 7, 82):
        pieces.advance(iterations=count)
    same_state(plain, pieces)


def test_it_goes_on_over_another_set():
    problem, optimum, _ = small("l1", "rows")
    inner = Problem(domains.L1Ball(D, 1.4), problem.terms)
    run = cg.start(inner, gap=1e-5).advance(iterations=40)
    run.move(problem.domain).advance(iterations=5000)
    assert run.result().objective == pytest.approx(optimum, rel=3e-5)


def oracle_of(name):
    """The same set, of which no more than an oracle is known."""
    known = SETS[name][0]()
    return domains.Oracle(lambda v: known.lmo(v).dense(), D, known.diameter, known.contains)


@pytest.mark.parametrize("kind", ["squares", "logistic"])
@pytest.mark.parametrize("name", ["simplex", "l1", "l2", "box"])
def test_oracles_are_enough(name, kind):
    problem, optimum, _ = small(name, kind)
    problem = Problem(oracle_of(name), problem.terms)
    result = cg.solve(problem, gap=1e-5, max_iter=4000)
    assert (result.method, result.status) == ("PFW", Status.CONVERGED)
    assert result.objective == pytest.approx(optimum, rel=3e-5)
    assert result.lower_bound <= optimum + 1e-7 * (1 + abs(optimum))
    assert problem.domain.contains(result.W, 1e-9)


@pytest.mark.parametrize("most", [500, 10])
def test_a_point_is_mixed_from_its_atoms(most, monkeypatch):
    monkeypatch.setattr(import_module("condgrad.methods.pfw"), "MOST", most)
    problem, *_ = small("l2", "squares")
    run, before = cg.start(Problem(oracle_of("l2"), problem.terms)), np.inf
    for _ in range(25):
        s = run.advance(iterations=1).state
        assert s.weights.min() > 0
        assert s.weights.sum() == pytest.approx(1, abs=1e-12)
        assert s.weights.size <= most
        np.testing.assert_allclose(s.weights @ s.atoms, s.W, atol=1e-12)
        value = problem.objective(s.W)
        assert value <= before + 1e-12
        before = value
    assert (s.weights.size == most) == (most == 10)


def test_rows_without_a_solution_are_refuted():
    above = Term(maps.DataMatrix(np.ones((2, 4))), functions.AtLeast([1.1, 0.5]))
    problem = Problem(domains.Simplex(4), [above])
    assert cg.solve(problem, gap=1e-3).status is Status.INFEASIBLE


@pytest.mark.parametrize("kind", ["trace", "blocks", "pinned"])
def test_squares_over_a_spectrahedron_take_accelerated_steps(kind):
    rng, n = np.random.default_rng(3), 6
    M = rng.standard_normal((n, n))
    X = cp.Variable((n, n), PSD=True)
    rules, corner = [cp.trace(X) <= 2], np.arange(n) < 4
    domain = domains.Spectrahedron(n, 2.0)
    if kind == "blocks":
        domain = domains.BlockSpectrahedron((4, 1, 1), 2.0, equality=True)
        apart = (corner[:, None] != corner) | (~corner[:, None] & ~corner & ~np.eye(n, dtype=bool))
        rules = [cp.trace(X) == 2, cp.multiply(apart, X) == 0]
    if kind == "pinned":
        domain = domains.PinnedSpectrahedron(np.ones(n), 2.0, values=1.0, equality=True)
        rules = [cp.trace(X) == 2, X @ np.ones(n) == 1]
    problem = Problem(domain, [Term(maps.AllEntries(n), functions.Squared(M.reshape(-1)))])
    best = cp.Problem(cp.Minimize(cp.sum_squares(X - M) / 2), rules).solve(solver=cp.CLARABEL)
    found = cg.solve(problem, gap=1e-6)
    assert (found.method, found.status) == ("APG", Status.CONVERGED)
    assert found.lower_bound <= best * (1 + 1e-6)
    assert found.objective == pytest.approx(best, rel=1e-5)
