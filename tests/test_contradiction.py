"""A bound that a feasible point refutes is taken back; an infeasible point refutes none."""

import numpy as np
import pytest

import condgrad
from condgrad import METHODS, Problem, Status, Term, domains, functions, maps, solve
from general import GENERAL, refused
from random_problems import DOMAINS, random_problem
from test_infeasible import KINDS, feasible
from test_methods import least_squares, max_cut


def contradicted(result):
    assert result.status is Status.CONTRADICTION
    assert (result.lower_bound, result.gap) == (-np.inf, np.inf)
    assert (result.bound_kind, result.bound_source, result.duals) == ("none", "", {})
    assert np.all(result.trace["lower_bound"] == -np.inf)
    assert np.all(result.trace["gap"] == np.inf)
    assert "there is no bound" in str(result)


def test_a_floor_that_is_too_high():
    problem, optimum = least_squares()
    high = solve(problem, gap=1e-9, floor=optimum + 0.5 * abs(optimum), max_iter=3000)
    contradicted(high)
    for floor in (optimum - 1.0, optimum):
        assert solve(problem, gap=1e-2, floor=floor).status is Status.CONVERGED
    free = Problem(domains.Simplex(3), [Term(maps.Inner(np.ones(3)), functions.Linear())])
    contradicted(solve(free, floor=1.001, max_iter=10))
    assert solve(free, floor=1.0, max_iter=10).lower_bound == 1.0


@pytest.mark.parametrize("kind", DOMAINS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_floor_is_refuted_by_a_point_that_is_proposed(kind, dtype):
    refuted = 0
    for seed in range(6):
        case = random_problem(kind, seed, built=True)
        problem, unit = case.problem.astype(dtype), 1e6 * case.problem.unit
        known = {"propose": lambda W, case=case: case.point, "gap": 1e-6, "max_iter": 20}
        high = solve(problem, floor=case.value + 0.2 * (abs(case.value) + unit), **known)
        met = problem.evaluate(case.point.astype(dtype)).families.values()
        if all(v.max == 0 for v in met):
            contradicted(high)
            refuted += 1
        right = solve(problem, floor=case.value - 1e-9 * (abs(case.value) + unit), **known)
        assert right.status is not Status.CONTRADICTION
    assert refuted >= 1


# What is no contradiction.


@pytest.mark.parametrize("kind", DOMAINS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_infeasible_points_below_the_bound_are_none(kind, dtype):
    for seed in range(10):
        case = random_problem(kind, seed, built=True)
        result = solve(case.problem.astype(dtype), max_iter=60)
        assert result.status is Status.MAX_ITER, seed


@pytest.mark.parametrize("kind", KINDS)
def test_not_without_interior_either(kind):
    for seed in range(10):
        result = solve(feasible(kind, seed), max_iter=60)
        assert result.status is Status.MAX_ITER, seed


@pytest.mark.parametrize("slug", [s for s in GENERAL if s != "sag-fw"])
@pytest.mark.parametrize("make", [least_squares, max_cut])
def test_not_with_any_method(make, slug):
    problem, optimum = make()
    for beta0 in (1e-2, 1.0):
        method = METHODS[slug](beta0)
        if refused(problem, method):
            return
        result = solve(problem, method, max_iter=100)
        assert result.status is Status.MAX_ITER
        assert result.lower_bound <= optimum + 1e-9 * abs(optimum)


@pytest.mark.parametrize("power", [1, 3, 6, 9, 12])
def test_a_small_violation_may_be_worth_much(power):
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
