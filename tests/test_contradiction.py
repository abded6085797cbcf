"""A bound that a feasible point refutes is taken back; one that an infeasible point passes is not.

The checks at the start would refuse most of these parts, so they are left out here.
"""

import sys

import numpy as np
import pytest

import condgrad
from condgrad import METHODS, Problem, Status, Term, domains, functions, maps, solve
from condgrad._ours import ours
from condgrad.certificate import Certificate
from condgrad.certificate.contradiction import Suspicion
from condgrad.estimators import Full
from condgrad.functions.group import project_simplex
from condgrad.rows import Keeper
from general import GENERAL, refused
from random_problems import DOMAINS, random_problem
from test_checks import D, Own, Shifted
from test_checks_domains import Set
from test_infeasible import KINDS, feasible
from test_methods import least_squares, max_cut


@pytest.fixture
def unchecked(monkeypatch):
    monkeypatch.setattr(sys.modules["condgrad.run.loop"], "check_parts", lambda *_: None)


def contradicted(result):
    assert result.status is Status.CONTRADICTION
    assert (result.lower_bound, result.gap) == (-np.inf, np.inf)
    assert (result.bound_kind, result.bound_source, result.duals) == ("none", "", {})
    assert np.all(result.trace["lower_bound"] == -np.inf)
    assert np.all(result.trace["gap"] == np.inf)
    assert "there is no bound" in str(result)


def least_norm(rng, slip, rows=None):
    """min ½‖X w − b‖² over the simplex, X w ≤ 2 beside it, by a map with a slip."""
    X = rng.standard_normal((rows or int(rng.integers(3, 30)), D))
    b = X @ rng.dirichlet(np.ones(D)) + 0.1
    A = Own(X, slip, rng)
    terms = [Term(A, functions.Squared(b), name="fit")]
    if rng.random() < 0.5:
        terms.append(Term(A, functions.AtMost(2.0), name="cap"))
    return Problem(domains.Simplex(D), terms), X, b


@pytest.mark.parametrize("slip", ["factor", "sign", "entry", "one row", "order", "affine"])
def test_a_wrong_adjoint_is_seen_on_all_rows(slip, unchecked):
    """Also one that the checks can miss: each certificate compares ⟨A*y, W⟩ with ⟨y, A W⟩."""
    for seed in range(40):
        rng = np.random.default_rng([seed, *slip.encode()])
        problem, *_ = least_norm(rng, slip)
        options = {"gap": 1e-3} if seed % 2 else {}
        contradicted(solve(problem, max_iter=300, **options))


def test_a_wrong_row_among_many_is_missed_by_the_checks_and_seen_by_the_run():
    rng = np.random.default_rng(8)
    A = Own(rng.standard_normal((100_000, D)))
    A.other[77] += 100.0
    problem = Problem(domains.Simplex(D), [Term(A, functions.Squared(1.0), name="fit")])
    contradicted(solve(problem, condgrad.hcgm(1.0), max_iter=30, gap=1e-2))


def test_a_right_map_is_none(unchecked):
    for seed in range(15):
        problem, X, b = least_norm(np.random.default_rng(seed), None)
        result = solve(problem, gap=1e-3, max_iter=400)
        assert result.status in (Status.CONVERGED, Status.MAX_ITER)
        w = np.full(D, 1 / D)  # the optimum, by projected gradients
        for _ in range(500):
            w = project_simplex(w - X.T @ (X @ w - b) / np.linalg.norm(X, 2) ** 2, 1.0)
        if (X @ w).max() <= 2:
            assert result.lower_bound <= 0.5 * np.sum((X @ w - b) ** 2) + 1e-12


@pytest.mark.parametrize("slip", ["data", "below"])
def test_a_conjugate_that_is_too_small(slip, unchecked):
    h = Shifted()
    h.slip = slip
    terms = [
        Term(maps.Inner(-np.arange(D) / D), functions.Linear(), name="cost"),
        Term(maps.AllEntries((D,)), h, name="price"),
    ]
    contradicted(solve(Problem(domains.Simplex(D), terms), gap=1e-3, max_iter=2000))


class Half(functions.AtMost):
    """Limits that the conjugate halves."""

    def conjugate(self, y, at=slice(None)):
        return 0.5 * super().conjugate(y, at)


def halved(function=Half):
    """Capped shares of the simplex."""
    cost = Term(maps.Inner(-np.arange(1.0, D + 1)), functions.Linear(), name="cost")
    return Problem(
        domains.Simplex(D), [cost, Term(maps.AllEntries((D,)), function(0.3), name="cap")]
    )


def test_a_support_function_that_is_too_small(unchecked):
    """Of a constraint, where only feasible points can tell."""
    problem = halved()
    contradicted(solve(problem, gap=1e-3, max_iter=20_000))
    best = np.r_[0.0, 0.0, 0.1, 0.3, 0.3, 0.3]  # proposed, it is enough at once
    early = solve(problem, gap=1e-3, max_iter=20_000, propose=lambda W: best)
    contradicted(early)
    right = solve(halved(functions.AtMost), gap=1e-3, propose=lambda W: best)
    assert right.status is Status.CONVERGED
    assert right.lower_bound <= right.objective + 1e-9


@pytest.mark.parametrize("slip", ["max", "first", "minimum"])
def test_a_wrong_oracle(slip, unchecked):
    cost = Term(maps.Inner(np.array([5.0, 1, 2, 3, 4, 6])), functions.Linear(), name="cost")
    fit = Term(maps.AllEntries((D,)), functions.Squared(0.3), name="fit")
    contradicted(solve(Problem(Set(slip), [cost, fit]), gap=1e-6, max_iter=3000))


def test_a_floor_that_is_too_high():
    problem, optimum = least_squares()
    high = solve(problem, gap=1e-9, floor=optimum + 0.5 * abs(optimum), max_iter=3000)
    contradicted(high)
    for floor in (optimum - 1.0, optimum):
        assert solve(problem, gap=1e-2, floor=floor).status is Status.CONVERGED
    free = Problem(domains.Simplex(3), [Term(maps.Inner(np.ones(3)), functions.Linear())])
    contradicted(solve(free, floor=1.001, max_iter=10))
    assert solve(free, floor=1.0, max_iter=10).lower_bound == 1.0


def test_without_a_certificate_nothing_is_claimed(unchecked):
    problem, *_ = least_norm(np.random.default_rng(0), "sign")
    result = solve(problem, certify=False, max_iter=20)
    assert result.status is Status.MAX_ITER


def test_an_interrupted_run_stays_one_and_has_no_bound(unchecked, monkeypatch):
    problem = halved()
    monkeypatch.setattr(Suspicion, "due", lambda self, k, final: final)

    def stop(info):
        if info.k == 3000:
            raise KeyboardInterrupt

    result = solve(problem, max_iter=5000, callbacks=[stop])
    assert result.status is Status.INTERRUPTED
    assert result.lower_bound == -np.inf
    assert solve(problem, max_iter=3000).status is Status.CONTRADICTION
    assert solve(problem, max_iter=3000, callbacks=[lambda info: info.k == 2999]).gap == np.inf


# What is no contradiction.


@pytest.fixture
def suspicious(monkeypatch):
    """Every point below the bound is looked at, however far from feasible."""
    seen = []
    confirmed = Suspicion.confirmed

    def look(self, *args):
        seen.append(1)
        return confirmed(self, *args)

    monkeypatch.setattr(Suspicion, "due", lambda self, k, final: True)
    monkeypatch.setattr(Suspicion, "confirmed", look)
    monkeypatch.setattr("condgrad.run.limits.Goal.far", lambda self, evaluation: 0.0)
    return seen


@pytest.mark.parametrize("kind", DOMAINS)
def test_infeasible_points_below_the_bound_are_none(kind, suspicious):
    for seed in range(10):
        case = random_problem(kind, seed, built=True)
        for dtype in (np.float64, np.float32):
            if dtype == np.float32 and seed % 3:
                continue
            result = solve(case.problem.astype(dtype), max_iter=60)
            assert result.status is Status.MAX_ITER, seed
    assert suspicious or kind == "l2"


@pytest.mark.parametrize("kind", KINDS)
def test_not_without_interior_either(kind, suspicious):
    for seed in range(10):
        result = solve(feasible(kind, seed), max_iter=60)
        assert result.status is Status.MAX_ITER, seed


@pytest.mark.parametrize("slug", [s for s in GENERAL if s != "sag-fw"])
@pytest.mark.parametrize("make", [least_squares, max_cut])
def test_not_with_any_method(make, slug, suspicious):
    problem, optimum = make()
    for beta0 in (1e-2, 1.0):
        method = METHODS[slug](beta0)
        if refused(problem, method):
            return
        result = solve(problem, method, max_iter=100)
        assert result.status is Status.MAX_ITER
        assert result.lower_bound <= optimum + 1e-9 * abs(optimum)


@pytest.mark.parametrize("power", [1, 3, 6, 9, 12])
def test_a_small_violation_may_be_worth_much(power, suspicious):
    """min −W_12 with W_11 = 0: a violation of ε is worth √ε, so multipliers are large."""
    cost, corner = np.zeros((2, 2)), np.zeros((2, 2))
    cost[0, 1] = cost[1, 0] = -0.5
    corner[0, 0] = 1.0
    terms = [
        Term(maps.Inner(cost), functions.Linear(), name="cost"),
        Term(maps.Inner(corner), functions.Equal(0.0), name="corner"),
    ]
    problem = Problem(domains.Spectrahedron(2, 1.0, equality=True), terms)
    eps = 10.0**-power
    point = np.array([[eps, np.sqrt(eps * (1 - eps))], [np.sqrt(eps * (1 - eps)), 1 - eps]])
    result = solve(problem, condgrad.cgal(1e-3), start=point, max_iter=300)
    assert result.status is Status.MAX_ITER
    assert result.lower_bound <= 0
    again = solve(problem, gap=1e-9, propose=lambda W: point, max_iter=300)
    assert again.status is not Status.CONTRADICTION
    assert again.lower_bound <= 0


@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e12])
@pytest.mark.parametrize("weight", [1e-9, 1.0, 1e9])
def test_adjoints_are_compared_in_the_units_of_their_rows(scale, weight):
    for slip in (None, "sign", "one row"):
        rng = np.random.default_rng(3)
        X = scale * rng.standard_normal((7, D))
        fit = Term(Own(X, slip, rng), functions.Squared(X[:, 0]), weight)
        problem = Problem(domains.Simplex(D), [fit])
        keepers = [Keeper(fit, Full(), problem)]
        W = rng.dirichlet(np.ones(D))
        assert Suspicion(problem).one_sided(W, keepers, [1.0]) is (slip is not None)


@pytest.mark.parametrize("lost", [False, True])
def test_answers_before_and_after_a_loss_do_not_belong_together(lost, monkeypatch):
    """Multipliers that begin again at 0 between two questions: no contradiction, no duals."""
    cost = Term(maps.Inner([1.0, 2.0, 3.0]), functions.Linear(), name="cost")
    cap = Term(maps.Inner([1.0, 0.0, 0.0]), functions.AtMost(0.2), name="cap")
    problem = Problem(domains.Simplex(3), [cost, cap])
    run = condgrad.start(problem, condgrad.cgal(), seed=0).advance(iterations=200)
    rows, W = run.state.terms, run.state.W.array
    betas, below = [1.0, 1.0], np.array([1.0, 0.0, 0.0])  # at its price the violation is too much
    certificate, doubt = Certificate(problem, keep=True), Suspicion(problem)
    first = certificate.best
    own = certificate.evaluate(W, rows, betas).bound
    assert 1.5 < own.value <= 1.8
    assert not doubt.confirmed(below, W, rows, betas, own)

    def gone(self, *_):
        self.losses = self.losses + lost
        return 0.0

    with monkeypatch.context() as patch:
        patch.setattr(Keeper, "price", gone)
        assert doubt.confirmed(below, W, rows, betas, own) is not lost
    monkeypatch.setattr(Keeper, "point", gone)
    certificate = Certificate(problem, keep=True)
    assert certificate.evaluate(W, rows, betas).bound == own
    assert certificate.best == (first if lost else own)
    assert set(certificate.duals) == (set() if lost else {"cap"})


def test_a_map_within_a_map_is_not_taken_for_ours():
    """What condgrad's maps are made of may be a user's: ⟨y, z⟩ is then summed over rows."""
    own = maps.Triangles(4)
    assert ours(own)
    own.inner = Wrong(4)
    assert not ours(own)


class Wrong(maps.Diagonal):
    """A user's map."""
