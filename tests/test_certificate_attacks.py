"""Inputs that once led to a bound above the optimum, or to none."""

import numpy as np
import pytest

import condgrad
from condgrad import Problem, Term, domains, functions, maps, solve
from condgrad._ours import ours
from condgrad.methods.table1 import SAG


def rows():
    X = np.random.default_rng(0).standard_normal((50, 4)) - 2
    fit = Term(maps.DataMatrix(X), functions.Linear(), name="f")
    return Problem(domains.Simplex(4), [fit]), X.sum(axis=0).min()


@pytest.mark.parametrize(
    "slug", ["sag_fw", "h_sag_v1", "shcgm", "h_1sfw", "most_fw", "h_spider_fw"]
)
def test_an_estimate_of_a_linear_term_is_no_dual_point(slug):
    problem, optimum = rows()
    for seed in range(5):
        bound = solve(problem, getattr(condgrad, slug)(), max_iter=40, seed=seed).lower_bound
        assert optimum - 1e-6 <= bound <= optimum


def test_a_sampled_linear_term_beside_multipliers():
    problem, _ = rows()
    cap = Term(maps.AllEntries((4,)), functions.AtMost(0.6), name="cap")
    problem = Problem(problem.domain, [*problem.terms, cap])
    X = np.sort(problem.terms[0].map.adjoint(np.ones(50)))
    optimum = 0.6 * X[0] + 0.4 * X[1]
    method = condgrad.cgal().override({"f": SAG(1)})
    assert solve(problem, method, max_iter=60).lower_bound <= optimum


@pytest.mark.parametrize(("far", "beta0"), [(1e8, 100), (1e7, 10), (1e7, 100), (1e6, 100)])
def test_slopes_that_rounding_pushed_out_of_the_polar_cone(far, beta0):
    domain = domains.Box([far - 1, far - 1, -1], [far + 1, far + 1, 1])
    cost = Term(maps.Inner(np.array([1, -1, -0.4])), functions.Linear())
    cone = Term(maps.AllEntries((3,)), functions.SecondOrder())
    method = condgrad.sag_cgal(beta0=beta0)
    bound = solve(Problem(domain, [cost, cone]), method, max_iter=1000).lower_bound
    assert bound <= -0.4 + 1 / (2 * (far + 1))


class Dip(functions.Absolute):
    """|z| − 1, whose conjugate is 1 at 0."""

    def value(self, z, at=slice(None)):
        return super().value(z, at) - z.size

    def conjugate(self, y, at=slice(None)):
        return super().conjugate(y, at) + y.size


def test_rows_that_were_never_drawn_count_with_their_conjugate():
    A = np.random.default_rng(1).standard_normal((100, 3))
    dip = Term(maps.DataMatrix(A), Dip(), name="g")
    problem = Problem(domains.Simplex(3), [dip])
    result = solve(problem, condgrad.sag_cgal(batch=1), max_iter=16)
    points = np.random.default_rng(2).dirichlet(np.ones(3), 2000)
    assert result.lower_bound <= (np.abs(points @ A.T).sum(axis=1) - 100).min()


class Soft(functions.Proximable):
    """A tenth of the distance from [lower, upper]: no indicator, though it has such names."""

    lipschitz = 0.1

    def __init__(self, lower, upper):
        self.lower, self.upper = lower, upper

    def value(self, z, at=slice(None)):
        return 0.1 * float(np.abs(z - np.clip(z, self.lower, self.upper)).sum())

    def slope(self, z, beta, at=slice(None)):
        return np.clip((z - np.clip(z, self.lower, self.upper)) / beta, -0.1, 0.1)

    def prox(self, z, beta, at=slice(None)):
        return z - beta * self.slope(z, beta, at)

    def into_dual(self, y, at=slice(None)):
        return np.clip(y, -0.1, 0.1).astype(float)

    def conjugate(self, y, at=slice(None)):
        inside = np.all(np.abs(y) <= 0.1)
        ends = self.upper * np.maximum(y, 0) - self.lower * np.maximum(-y, 0)
        return float(ends.sum()) if inside else np.inf


@pytest.mark.parametrize("ends", [(0.25, 0.25), (-0.1, 0.0)])
@pytest.mark.parametrize("rows", [maps.Triangles(4), maps.Diagonal(4), maps.AllEntries(4)])
def test_a_function_with_ends_is_no_interval(ends, rows):
    C = np.diag([-3.0, -1, 0, 1])
    cost = Term(maps.Inner(C), functions.Linear(), name="cost")
    problem = Problem(domains.Spectrahedron(4), [cost, Term(rows, Soft(*ends), name="soft")])
    points = [np.outer(u, u) for u in np.random.default_rng(0).standard_normal((200, 4))]
    best = min(problem.objective(P / np.trace(P)) for P in [*points, np.diag([1.0, 0, 0, 0])])
    for method in (None, condgrad.hcgm(), condgrad.cgal()):
        result = solve(problem, method, max_iter=100)
        assert result.lower_bound <= min(best, result.objective)
        assert result.lower_bound >= -3.1


class Loose(functions.AtMost):
    """At most b, or else a tenth of the excess is paid: derived from a constraint, but none."""

    indicator, lipschitz = False, 0.1

    def value(self, z, at=slice(None)):
        return 0.1 * float(np.maximum(z - self.upper, 0).sum())

    def slope(self, z, beta, at=slice(None)):
        return np.clip((z - self.upper) / beta, 0.0, 0.1)

    def prox(self, z, beta, at=slice(None)):
        return z - beta * self.slope(z, beta, at)

    def conjugate(self, y, at=slice(None)):
        return super().conjugate(y, at) if np.all(y <= 0.1) else np.inf

    def into_dual(self, y, at=slice(None)):
        return np.clip(y, 0.0, 0.1)


def test_a_class_derived_from_an_interval_is_asked_for_its_conjugate():
    C = np.diag([-3.0, -1, 0, 1])
    cost = Term(maps.Inner(C), functions.Linear(), name="cost")
    rows = Term(maps.Triangles(4), Loose(0.0), name="rows")
    problem = Problem(domains.Spectrahedron(4), [cost, rows])
    result = solve(problem, max_iter=100)
    best = problem.objective(np.diag([1.0, 0, 0, 0]))
    assert best - 0.1 <= result.lower_bound <= min(best, result.objective)


def test_nearly_dependent_pinned_vectors_widen_the_margin():
    rng = np.random.default_rng(0)
    q, e = rng.standard_normal(6), rng.standard_normal(6)
    C = rng.standard_normal((6, 6))
    C = C + C.T
    basis = np.linalg.qr(np.column_stack([q, e]))[0]
    P = np.eye(6) - basis @ basis.T
    exact = np.linalg.eigvalsh(P @ C @ P + 100 * basis @ basis.T)[0]
    for distance in (1.0, 1e-3, 1e-6, 1e-9):
        domain = domains.PinnedSpectrahedron(
            np.column_stack([q, q + distance * e]), trace=1.0, equality=True
        )
        assert domain.minimum(C).value <= exact
        assert domain.minimum(C).value >= exact - 1e-4


def test_a_sum_of_squares_is_not_negative():
    fit = Term(maps.AllEntries((3,)), functions.Squared([5.0, -4.0, 3.0]), name="fit")
    result = solve(Problem(domains.Simplex(3), [fit]), condgrad.hcgm(), max_iter=1)
    assert result.lower_bound >= 0


def test_a_floor_is_a_bound_and_is_named():
    cost = Term(maps.Inner(np.eye(3) - 1 / 3), functions.Linear(), name="cost")
    diagonal = Term(maps.Diagonal(3), functions.Equal(1.0), name="diagonal")
    problem = Problem(domains.Spectrahedron(3, trace=6.0), [cost, diagonal])
    result = solve(problem, gap=1e-2, floor=0.0, max_iter=2000)
    assert result.lower_bound >= 0
    with pytest.raises(condgrad.ProblemError, match="floor is nan"):
        solve(problem, floor=float("nan"))


class Wrong(maps.Diagonal):
    """A user's map."""


def test_a_map_within_a_map_is_not_taken_for_ours():
    """What condgrad's maps are made of may be a user's: ⟨y, z⟩ is then summed over rows."""
    own = maps.Triangles(4)
    assert ours(own)
    own.inner = Wrong(4)
    assert not ours(own)
