"""Problems with A W, W B and A W B run by every method, and are those of their rows written out."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from condgrad import METHODS, Problem, Status, Term, domains, functions, maps, solve
from general import GENERAL, refused

RNG = np.random.default_rng(0)
A, B = RNG.standard_normal((5, 3)), RNG.standard_normal((3, 4))
MAPS = {
    "Left": (maps.Left(A, 3), np.kron(A, np.eye(3))),
    "Right": (maps.Right(sp.csr_array(B), 3), np.kron(np.eye(3), B.T)),
    "Sandwich": (maps.Sandwich(A, B), np.kron(A, B.T)),
}
DOMAINS = {
    "nuclear": domains.NuclearBall((3, 3), 1.5),
    "spectrahedron": domains.Spectrahedron(3, 1.0, equality=True),
}


def problem(domain, map):
    """A loss, and a part of the images bounded from above."""
    fit = Term(map, functions.Squared(np.linspace(-1, 1, map.size)), 1 / map.size, "fit")
    return Problem(domain, [fit, Term(map, functions.AtMost(0.8), 1 / map.size, "cut")])


@pytest.fixture(scope="module")
def solved():
    """Every problem with its rows written out, in the symmetric part over symmetric matrices."""
    found = {}
    for where, domain in DOMAINS.items():
        for name, (_, rows) in MAPS.items():
            cube = rows.reshape(-1, 3, 3)
            if domain.symmetric:
                cube = (cube + cube.transpose(0, 2, 1)) / 2
            plain = problem(domain, maps.DataMatrix(cube))
            found[where, name] = solve(plain, gap=1e-5, feasibility=1e-6)
    return found


@pytest.mark.parametrize("name", MAPS)
@pytest.mark.parametrize("where", DOMAINS)
def test_the_answer_is_that_of_the_rows(solved, where, name):
    plain = solved[where, name]
    result = solve(problem(DOMAINS[where], MAPS[name][0]), gap=1e-5, feasibility=1e-6)
    assert result.status is plain.status is Status.CONVERGED
    assert result.objective == pytest.approx(plain.objective, rel=1e-4)
    assert result.lower_bound <= plain.objective * (1 + 1e-5)


@pytest.mark.parametrize("slug", GENERAL)
@pytest.mark.parametrize("where", DOMAINS)
def test_every_method(solved, where, slug):
    if slug == "sag-fw":
        pytest.skip("takes no constraints")
    method = METHODS[slug](**({} if slug in ("sag-cgal", "spdhg") else {"beta0": 0.1}))
    given = problem(DOMAINS[where], MAPS["Sandwich"][0])
    if refused(given, method):
        return
    result = solve(given, method, max_iter=200)
    best = solved[where, "Sandwich"].objective
    assert result.lower_bound <= best * (1 + 1e-5)
    assert result.lower_bound > -np.inf
    assert DOMAINS[where].contains(result.W, 1e-6)


def test_a_loss_alone_by_frank_wolfe_and_projections():
    map = MAPS["Sandwich"][0]
    fit = Term(map, functions.Squared(np.linspace(-1, 1, map.size)), 1 / map.size, "fit")
    smooth = Problem(DOMAINS["nuclear"], [fit])
    best = solve(smooth, METHODS["apg"](), gap=1e-6)
    assert best.status is Status.CONVERGED
    some = solve(smooth, METHODS["sag-fw"](batch=0.3), max_iter=300)
    assert some.lower_bound <= best.objective <= some.objective * (1 + 1e-9)


def test_rows_over_a_rectangle_by_lists_and_arrays():
    cube = RNG.standard_normal((6, 2, 4))
    ball, found = domains.NuclearBall((2, 4), 1.0), []
    for map in (maps.DataMatrix(cube), maps.SparseStack([sp.csr_array(X) for X in cube])):
        fit = Term(map, functions.Squared(1.0), name="fit")
        found.append(solve(Problem(ball, [fit]), gap=1e-5))
    assert all(r.status is Status.CONVERGED for r in found)
    assert found[0].objective == pytest.approx(found[1].objective, rel=1e-4)
