"""Ends of a run: convergence is proved, proposals are judged, limits are honest."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.distance import cdist

import condgrad
from condgrad import METHODS, Problem, ProblemError, Status, Term, domains, functions, maps, solve
from condgrad._round import down
from condgrad.applications import kmeans
from condgrad.certificate import Bound
from condgrad.domains import eigen
from condgrad.evaluation import Evaluation, Violation
from condgrad.methods import Balance
from condgrad.run.limits import Goal, Limits
from general import GENERAL, refused
from test_methods import N, least_squares, max_cut

EVERY = [s for s in GENERAL if s != "sag-fw"]
BOTH = pytest.mark.parametrize("make", [least_squares, max_cut])


def method(slug):
    return METHODS[slug](1.0) if slug == "cgal" else METHODS[slug]("auto")


def measured(problem, result):
    """Relative gap and infeasibility of result.W, from the data of the problem alone."""
    W = result.W
    if problem.domain.shape == (N, N):
        C = problem.terms[0].map.adjoint(np.ones(1))
        objective = float(np.sum(C * W))
        z = np.diag(W)
        off, size = np.linalg.norm(z - 1), max(np.linalg.norm(z), np.sqrt(N))
    else:
        fit, cut = problem.terms
        objective = 0.5 * np.mean((fit.map._dense @ W - fit.function.target) ** 2)
        low, high = cut.function.lower, cut.function.upper
        z = cut.map._dense @ W
        off = np.linalg.norm(np.maximum(low - z, 0) + np.maximum(z - high, 0))
        size = max(np.linalg.norm(z), np.linalg.norm(low), np.linalg.norm(high))
    low = result.lower_bound
    return abs(objective - low) / max(abs(objective), abs(low)), off / (1 + size)


@BOTH
@pytest.mark.parametrize("slug", EVERY)
def test_converged_is_a_proof_and_nothing_else_is(make, slug):
    problem, optimum = make()
    if refused(problem, method(slug)):
        return
    result = solve(problem, method(slug), gap=2e-2, feasibility=5e-3, max_iter=1500)
    gap, feasibility = measured(problem, result)
    assert result.lower_bound <= optimum + 1e-9 * abs(optimum)
    assert result.gap == pytest.approx(gap, rel=1e-9)
    assert next(iter(result.families.values())).relative == pytest.approx(feasibility, abs=1e-12)
    found = problem.evaluate(result.W)
    within = gap <= 2e-2 and found.worst <= 5e-3 and found.worst_row <= 5e-2
    assert within == (result.status is Status.CONVERGED)
    assert result.status in (Status.CONVERGED, Status.MAX_ITER)
    if result.status is Status.MAX_ITER:
        assert result.iterations == 1500
    assert problem.domain.contains(result.W, 1e-9)
    assert result.bound_failure == 0.0
    assert result.bound_kind == ("exact-eigenvalue" if make is max_cut else "exact")
    assert result.bound_source


@BOTH
def test_the_default_method_converges(make):
    problem, optimum = make()
    result = solve(problem, gap=1e-3)
    assert result.status is Status.CONVERGED
    assert result.method == ("SAG-CGAL" if make is max_cut else "PDHG")
    assert result.objective == pytest.approx(optimum, rel=3e-3)
    gap, feasibility = measured(problem, result)
    assert gap <= 1e-3
    assert feasibility <= 1e-3


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_converged_bound_is_within_the_gap_of_the_optimum(seed):
    """Iterate and bound can agree far below it: what the iterate violates is worth something."""
    X = np.random.default_rng(seed).standard_normal((20, 2))
    application = kmeans(cdist(X, X, "sqeuclidean"), 3)
    how = {"start": application.start, "max_iter": 10_000}
    best = solve(application.problem, gap=1e-5, feasibility=1e-6, **how)
    result = solve(application.problem, gap=1e-2, feasibility=1e-2, **how)
    assert (best.status, result.status) == (Status.CONVERGED, Status.CONVERGED)
    assert best.lower_bound - result.lower_bound <= 1e-2 * best.objective


def test_a_problem_without_objective_converges_by_feasibility_alone():
    b = np.random.default_rng(0).random(N) + 0.5
    domain = domains.Spectrahedron(N, trace=2 * b.sum())
    term = Term(maps.Diagonal(N), functions.Equal(b), name="diagonal")
    result = solve(Problem(domain, [term]), feasibility=1e-6)
    assert (result.status, result.gap) == (Status.CONVERGED, 0.0)


@BOTH
def test_the_other_tolerance_is_a_thousandth(make):
    problem, _ = make()
    result = solve(problem, gap=0.2)
    gap, feasibility = measured(problem, result)
    assert result.status is Status.CONVERGED
    assert gap <= 0.2
    assert feasibility <= 1e-3
    result = solve(problem, feasibility=0.2)
    gap, feasibility = measured(problem, result)
    assert result.status is Status.CONVERGED
    assert gap <= 1e-3
    assert Goal(gap=0.2).tolerances == (0.2, 1e-3)
    assert Goal(feasibility=0.2).tolerances == (1e-3, 0.2)
    assert Goal().tolerances == (1e-3, 1e-3)
    assert (
        Goal(feasibility=0.2).row_tolerance,
        Goal(0.2, 0.2, row_feasibility=0.1).row_tolerance,
    ) == (2.0, 0.1)
    assert not Goal().wanted
    assert Goal(gap=0.2).wanted
    assert Goal(feasibility=0.2).wanted
    assert Goal(row_feasibility=0.2).wanted


def test_miss_by_hand():
    def point(objective, relative, row=0.0):
        return Evaluation(objective, {"c": Violation(1.0, 1.0, relative, row=row)}, 1.0)

    goal = Goal(gap=0.1, feasibility=0.01)
    assert goal.distance(point(10.0, 0.005), Bound(9.5)) == pytest.approx(0.5)
    assert goal.distance(point(10.0, 0.02), Bound(9.5)) == pytest.approx(2.0)
    assert goal.distance(point(10.0, 0.0), Bound(5.0)) == pytest.approx(5.0)
    assert goal.distance(point(10.0, 0.0), Bound()) == np.inf
    assert goal.distance(point(10.0, 0.005, 0.3), Bound(9.5)) == pytest.approx(3.0)
    goal = Goal(gap=0.1, feasibility=0.01, row_feasibility=0.2)
    assert goal.distance(point(10.0, 0.005, 0.3), Bound(9.5)) == pytest.approx(1.5)


def test_without_a_goal_nothing_converges():
    problem, _ = max_cut()
    result = solve(problem, condgrad.cgal(1.0), max_iter=400)
    assert result.status is Status.MAX_ITER
    assert result.gap < 1e-3


@pytest.mark.parametrize("name", ["gap", "feasibility", "row_feasibility"])
@pytest.mark.parametrize("bad", [0, 0.0, -1e-3, np.nan, np.inf, "0.1", True, [0.1], 1j])
def test_bad_tolerances(name, bad):
    problem, _ = least_squares()
    with pytest.raises(ProblemError, match=rf"^{name} is .*: it must be a positive number"):
        solve(problem, max_iter=1, **{name: bad})


@pytest.mark.parametrize("name", ["gap", "feasibility"])
def test_a_gap_needs_the_certificate(name):
    problem, _ = least_squares()
    with pytest.raises(ProblemError, match=r"^certify is False, but a gap is asked for"):
        solve(problem, max_iter=1, certify=False, **{name: 0.1})
    with pytest.raises(ProblemError, match=r"^propose is not callable: pass a function"):
        solve(problem, max_iter=1, propose=3, **{name: 0.1})


@BOTH
def test_without_a_certificate_there_is_no_bound_and_the_same_run(make):
    problem, _ = make()
    plain = solve(problem, condgrad.h_sag_v2(1.0, batch=2), max_iter=50, certify=False)
    assert (plain.lower_bound, plain.gap, plain.bound_kind) == (-np.inf, np.inf, "none")
    assert np.all(plain.trace["lower_bound"] == -np.inf)
    more = solve(problem, condgrad.h_sag_v2(1.0, batch=2), max_iter=50)
    assert np.isfinite(more.lower_bound)
    np.testing.assert_array_equal(plain.W, more.W)
    assert more.lmo_calls == plain.lmo_calls == 50


def simple():
    """min ½‖w − (3, 0, 0)‖², w in the simplex, w_1 ≤ 1/2: w = (1/2, 1/4, 1/4)."""
    target, bound = np.array([3.0, 0.0, 0.0]), np.array([0.5, 1.0, 1.0])
    terms = [
        Term(maps.AllEntries((3,)), functions.Squared(target), name="fit"),
        Term(maps.AllEntries((3,)), functions.AtMost(bound), name="cap"),
    ]
    best = np.array([0.5, 0.25, 0.25])
    return Problem(domains.Simplex(3), terms), best, 0.5 * (2.5**2 + 2 * 0.25**2)


def low_rank(problem):
    """The optimum of max-cut, as `max_cut` finds and proves it."""
    C, V = problem.terms[0].map.adjoint(np.ones(1)), np.eye(N)
    for _ in range(3000):
        for i in range(N):
            g = C[i] @ V
            V[i] = -g / np.linalg.norm(g)
    return V @ V.T


def test_a_proposed_optimum_is_returned_and_ends_the_run():
    problem, optimum = max_cut()
    best, asked = low_rank(problem), []

    def propose(W):
        asked.append(W.copy())
        return best

    goal = {"gap": 1e-3, "feasibility": 1e-4}
    result = solve(problem, **goal, propose=propose, metrics={"m": np.sum}, max_iter=2000)
    assert result.status is Status.CONVERGED
    np.testing.assert_array_equal(result.W, best)
    assert result.objective == pytest.approx(optimum, rel=1e-12)
    assert result.families["diag"].l2 <= 1e-14
    assert result.lower_bound <= optimum
    assert result.metrics == {"m": np.sum(best)}
    assert asked
    assert all(problem.domain.contains(W, 1e-9) for W in asked)
    alone = solve(problem, **goal, max_iter=result.iterations)
    assert alone.status is Status.MAX_ITER  # the iterates were not there yet
    assert not np.shares_memory(result.W, best)


@pytest.mark.parametrize(
    "bad",
    [
        lambda W: None,
        lambda W: 2 * W,
        lambda W: np.array([0.5, 0.75, -0.25]),
        lambda W: np.full(3, np.nan),
        lambda W: W - 0.1,
    ],
)
def test_a_point_outside_the_domain_is_ignored(bad):
    problem, _, _ = simple()
    plain = solve(problem, gap=1e-3, max_iter=300)
    with np.errstate(all="ignore"):
        other = solve(problem, gap=1e-3, max_iter=300, propose=bad)
    np.testing.assert_array_equal(plain.W, other.W)
    assert (plain.status, plain.iterations) == (other.status, other.iterations)


def test_a_proposal_with_nan_is_ignored_over_a_ball_of_singular_values():
    fit = Term(maps.AllEntries((3, 4)), functions.Squared(np.arange(12.0)), name="fit")
    problem = Problem(domains.NuclearBall((3, 4), 1.0), [fit])
    result = solve(problem, gap=1e-3, propose=lambda W: np.full((3, 4), np.nan))
    assert result.status is Status.CONVERGED


def test_a_bad_proposal_does_not_replace_a_better_iterate():
    problem, _, _ = simple()
    plain = solve(problem, gap=1e-3, max_iter=300)
    corner = np.array([1.0, 0.0, 0.0])
    other = solve(problem, gap=1e-3, max_iter=300, propose=lambda W: corner)
    np.testing.assert_array_equal(plain.W, other.W)


def test_proposals_are_asked_for_only_with_a_goal():
    problem, best, _ = simple()

    def refuse(W):
        raise AssertionError("asked")

    assert solve(problem, max_iter=40, propose=refuse).iterations == 40
    result = solve(problem, gap=1e-12, max_iter=40, propose=lambda W: best)
    assert result.status is Status.MAX_ITER  # the bound is not there
    np.testing.assert_array_equal(result.W, best)


@pytest.mark.parametrize(
    ("limit", "status"),
    [
        ({"max_iter": 57}, Status.MAX_ITER),
        ({"max_lmo": 57}, Status.MAX_LMO),
        ({"max_epochs": 57.0}, Status.MAX_EPOCHS),
        ({"max_seconds": 0.01}, Status.MAX_SECONDS),
        ({"callbacks": [lambda info: info.k == 57]}, Status.STOPPED),
    ],
)
@BOTH
def test_a_limit_returns_the_best_point(make, limit, status, clock):
    problem, optimum = make()
    result = solve(problem, gap=1e-9, feasibility=1e-9, **limit)
    assert result.status is status
    if status is not Status.MAX_SECONDS:
        assert result.iterations == 57
    again = problem.evaluate(result.W)
    assert (result.objective, result.families) == (again.objective, again.families)
    goal, bound = Goal(1e-9, 1e-9), Bound(result.lower_bound)
    mine, trace = goal.distance(again, bound), result.trace
    (name,) = result.families
    kinds = [trace[f"{name}.{kind}"][-1] for kind in ("relative", "scaled")]
    last = Evaluation(trace["objective"][-1], {name: Violation(0, 0, *kinds)}, 0)
    assert mine <= goal.distance(last, bound) * (1 + 1e-12)
    assert result.lower_bound <= optimum + 1e-9 * abs(optimum)
    assert trace["lower_bound"][-1] == result.lower_bound


@pytest.mark.parametrize("n", [8, 45])
@pytest.mark.parametrize("slug", [s for s in EVERY if s != "cgal"])
def test_same_seed_same_run_with_automatic_beta(n, slug):
    rng = np.random.default_rng(0)
    C = rng.standard_normal((n, n))
    terms = [
        Term(maps.Inner(C + C.T), functions.Linear(), name="cost"),
        Term(maps.Triangles(n), functions.AtMost(0.0), name="triangles"),
        Term(maps.Diagonal(n), functions.Equal(1.0), name="diag"),
    ]
    problem = Problem(domains.Spectrahedron(n, float(n), equality=True), terms)
    options = {} if slug == "h-spider-fw" else {"batch": 0.2}
    runs = []
    for seed in (3, 3, 4):
        beta0 = {"beta0": "auto"} if METHODS[slug].smoothed else {}
        built = METHODS[slug](**beta0, **({} if slug == "hcgm" else options))
        runs.append(solve(problem, built, max_iter=60, seed=seed, gap=1e-6))
    one, two, other = runs
    np.testing.assert_array_equal(one.W, two.W)
    for column in set(one.trace) - {"seconds"}:
        np.testing.assert_array_equal(one.trace[column], two.trace[column])
    assert one.lower_bound == two.lower_bound
    sampled = slug != "hcgm" and (n > 40 or slug in ("sag-cgal", "h-sag-v2", "h-1sfw"))
    same = np.array_equal(one.trace["objective"], other.trace["objective"])
    assert not sampled or not same
    assert "triangles.beta" in one.trace
    assert np.all(one.trace["triangles.beta"] > 0)
    if slug == "spdhg":  # which moves ω
        return
    changed = np.diff(np.log(one.trace["diag.beta"] / one.trace["beta"])[1:]) / np.log(
        Balance().factor
    )
    halvings = -np.log2(np.abs(changed[np.abs(changed) > 1e-9]))  # of the first move's exponent
    np.testing.assert_allclose(halvings, np.round(halvings), atol=1e-6)
    assert np.all(halvings > -1e-6)


@BOTH
@pytest.mark.parametrize("slug", EVERY)
def test_bounds_never_fall_and_hold(make, slug):
    problem, optimum = make()
    if refused(problem, method(slug)):
        return
    for dtype in (np.float64, np.float32):
        trace = solve(problem.astype(dtype), method(slug), max_iter=300).trace
        bound = trace["lower_bound"]
        assert np.all(np.diff(bound) >= 0)
        assert bound[-1] <= optimum + 1e-9 * abs(optimum)
        assert np.isfinite(bound[-1])
        assert bound[-1] > bound[0]


@BOTH
@pytest.mark.parametrize("steps", [0, 1, 2, 17, 57, 100])
def test_gap_column_belongs_to_its_row(make, steps):
    """Also in the last row, whose bound is amended where a callback stopped the run."""
    problem, _ = make()
    stopped = {"callbacks": [lambda info: info.k == max(steps, 1)]}
    for limit in ({"max_iter": steps}, stopped):
        result = solve(problem, condgrad.hcgm(1.0), **limit)
        objective, bound, gap = (result.trace[c] for c in ("objective", "lower_bound", "gap"))
        expected = np.abs(objective - bound) / np.maximum(np.abs(objective), np.abs(bound))
        np.testing.assert_allclose(gap, np.where(np.isfinite(bound), expected, np.inf), rtol=1e-12)
        assert bound[-1] == result.lower_bound > -np.inf


def test_nan_in_a_certificate_is_no_bound():
    class Breaks(functions.Squared):
        left = 20

        def derivative(self, z, at=slice(None)):
            self.left -= 1
            return super().derivative(z, at) * (1.0 if self.left >= 0 else np.nan)

    for steps in (5, 20, 60):
        broken = Breaks(0.3)
        broken.left = steps
        terms = [
            Term(maps.AllEntries(6), broken, name="fit"),
            Term(maps.Diagonal(6), functions.Equal(0.1), name="diag"),
        ]
        problem = Problem(domains.Spectrahedron(6, 2.0), terms)
        result = solve(problem, condgrad.hcgm(1.0), max_iter=200)
        assert result.status is Status.NONFINITE
        assert not np.isnan(result.lower_bound)
        exact = [Term(maps.AllEntries(6), functions.Squared(0.3), name="fit"), terms[1]]
        value = Problem(problem.domain, exact).objective(np.eye(6) * 0.1 + 0.05 - 0.05 * np.eye(6))
        assert result.lower_bound <= value


@pytest.mark.parametrize("slug", ["hcgm", "sag-cgal"])
def test_a_bound_holds_in_single_precision_too(slug):
    """0.1 is above 0.1 in float32: a bound of that number is none."""
    cost = Term(maps.Inner(np.array([0.1, 0.2, 0.3])), functions.Linear(), name="cost")
    problem = Problem(domains.Simplex(3), [cost], dtype=np.float32)
    result = solve(problem, METHODS[slug]("auto"), max_iter=30)
    assert result.lower_bound <= 0.1
    assert result.lower_bound == pytest.approx(0.1, rel=1e-5)


def test_a_probabilistic_bound_says_so(monkeypatch):
    problem, optimum = max_cut()
    monkeypatch.setattr(eigen, "LARGE", 3)
    result = solve(problem, condgrad.cgal(1.0), max_iter=100)
    assert result.bound_kind == "probabilistic"
    assert 0 < result.bound_failure <= 1e-6
    assert result.lower_bound <= optimum


def test_without_limits_a_goal_gets_many_iterations(monkeypatch):
    seen = {}

    def remember(self, *limits):
        seen["limits"] = limits
        raise ProblemError("seen")

    monkeypatch.setattr(Limits, "__init__", remember)
    problem, _ = least_squares()
    for options, expected in (({}, None), ({"gap": 0.1}, 100_000), ({"feasibility": 1}, 100_000)):
        with pytest.raises(ProblemError, match="seen"):
            solve(problem, **options)
        assert seen["limits"] == (expected, None, None, None)
    with pytest.raises(ProblemError, match="seen"):
        solve(problem, gap=0.1, max_seconds=3)
    assert seen["limits"] == (None, None, 3, None)


def test_text_of_a_result():
    result = solve(max_cut()[0], gap=1e-2)
    assert f"lower bound {down(result.lower_bound, 6)}" in str(result)
    assert str(Status.CONVERGED) in str(result)
