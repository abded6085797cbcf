"""Every method solves a problem, or refuses it with a sentence that says what it needs."""

import numpy as np
import pytest

import condgrad as cg
from condgrad import METHODS, Problem, Term, domains, functions, maps
from general import GENERAL, OTHERS

D = 4
X = np.random.default_rng(0).standard_normal((6, D))
FIT = Term(maps.DataMatrix(X), functions.Squared(np.ones(6)), 0.1, "fit")
COST = Term(maps.Inner(X[0]), functions.Linear(), name="cost")
CAPS = Term(maps.AllEntries((D,)), functions.AtMost(0.6), name="caps")
BALL = Term(maps.AllEntries((D,)), functions.L2Ball(0.9), name="ball")
SIMPLEX = domains.Simplex(D)
ORACLE = domains.Oracle(SIMPLEX.lmo, D, np.sqrt(2))
PSD = domains.Spectrahedron(D)
NEAR = Term(maps.AllEntries(D), functions.Squared(1.0), name="near")
TRACE = Term(maps.Inner(np.diag(X[0])), functions.Linear(), name="trace")
DIAGONAL = Term(maps.Diagonal(D), functions.AtMost(0.5), name="diagonal")

FACE, PROJECTED, SMOOTH = {"spdhg"}, {"pdhg", "rpdhg"}, {"sag-fw", "apg", "pfw"}
"""Methods for spectrahedra with a g, for other sets with a projection and a g, and for g = 0."""
SAMPLED = {"h-1sfw", "h-spider-fw", "most-fw-plus", "h-sag-v2"}
"""Methods that draw rows of g."""

REFUSED = {
    "f and g": (Problem(SIMPLEX, [FIT, CAPS]), FACE | SMOOTH),
    "linear f and g": (Problem(SIMPLEX, [COST, CAPS]), FACE | SMOOTH),
    "g alone": (Problem(SIMPLEX, [CAPS]), FACE | SMOOTH),
    "g not separable": (Problem(SIMPLEX, [FIT, BALL]), FACE | SMOOTH | SAMPLED),
    "f alone": (Problem(SIMPLEX, [FIT]), FACE | PROJECTED),
    "linear f alone": (Problem(SIMPLEX, [COST]), FACE | PROJECTED | SMOOTH - {"sag-fw"}),
    "oracle": (Problem(ORACLE, [FIT, CAPS]), FACE | PROJECTED | SMOOTH),
    "oracle, f alone": (Problem(ORACLE, [FIT]), FACE | PROJECTED | {"apg"}),
    "matrix": (Problem(PSD, [TRACE, DIAGONAL]), PROJECTED | SMOOTH),
    "matrix, f alone": (Problem(PSD, [NEAR]), FACE | PROJECTED),
}
"""Problems by name, and the methods that must refuse them; the others of `OURS` must not."""
OURS = {*GENERAL, *OTHERS}


@pytest.mark.parametrize("slug", METHODS)
@pytest.mark.parametrize("name", REFUSED)
def test_a_method_solves_a_problem_or_says_what_it_needs(name, slug):
    (problem, refused), method = REFUSED[name], METHODS[slug]()
    objection = method.suits(problem)
    if objection is None:
        assert slug not in refused
        result = cg.solve(problem, method, max_iter=3)
        assert result.method == METHODS[slug].name
        assert problem.domain.contains(result.W, 1e-6)
        return
    assert slug in refused or slug not in OURS
    assert objection.startswith((f"method is {method.name}, which needs ", f"{method.name} "))
    assert ": " in objection, "there is no remedy"
    for call in (cg.solve, cg.start):
        with pytest.raises(cg.ProblemError) as caught:
            call(problem, method)
        assert str(caught.value) == objection
