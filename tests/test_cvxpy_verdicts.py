"""What the cone door says is true of the user's problem: status, value, bound, sense and offset."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy.optimize import linprog

cp = pytest.importorskip("cvxpy")
door = pytest.importorskip("condgrad.cvxpy")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings(
        "ignore:Solution may be", r"ignore:\s*The problem is either infeasible"
    ),
]
CHUNK = 20
"""Random cases of one test."""
LIMIT = {"solver": door.CONDGRAD, "max_iter": 500}


def integers(rng, *shape):
    return rng.integers(-3, 4, shape).astype(float)


def check(problem, truth, value):
    """Status, value and bound of a solved problem against the truth; whether it was decided."""
    certificate = problem.solver_stats.extra_stats
    side = -1.0 if isinstance(problem.objective, cp.Maximize) else 1.0
    size = 1 + abs(value)
    allowed = {truth, "user_limit"}
    if truth != "optimal":
        allowed.add("infeasible_or_unbounded")
    assert problem.status in allowed
    if problem.status == "optimal":
        assert certificate.gap <= 1e-3
        assert problem.value == pytest.approx(value, abs=5e-3 * size)
        assert max((np.max(c.violation()) for c in problem.constraints), default=0.0) <= 5e-3 * size
    if problem.value is not None:
        assert certificate.value == pytest.approx(problem.value)
    reached = side * value if truth == "optimal" else {"infeasible": np.inf}.get(truth, -np.inf)
    assert side * certificate.bound <= reached + 1e-9 * size
    return problem.status == truth


# random linear programs in small integers, most of them degenerate


def linear_program(seed):
    """A problem, and its status and value by HiGHS."""
    rng = np.random.default_rng(seed)
    n, m, k = int(rng.integers(1, 5)), int(rng.integers(0, 6)), int(rng.integers(0, 3))
    A, G, x0 = integers(rng, m, n), integers(rng, k, n), integers(rng, n)
    b = A @ x0 + rng.integers(0, 3, m) if rng.random() < 0.7 else integers(rng, m)
    h = G @ x0 if rng.random() < 0.8 else integers(rng, k)
    if k and rng.random() < 0.3:
        G, h = np.vstack([G, 2 * G[0]]), np.append(h, 2 * h[0])
    c = integers(rng, n)
    if rng.random() < 0.6:  # bounded
        c = G.T @ integers(rng, h.size) - A.T @ rng.integers(0, 3, m)
    offset, side = float(rng.integers(-5, 6)), rng.choice([-1.0, 1.0])
    x = cp.Variable(n)
    rows = [A @ x <= b] * bool(m) + [G @ x == h] * bool(h.size)
    goal = cp.Minimize(c @ x + offset) if side > 0 else cp.Maximize(-c @ x + offset)
    found = linprog(c, A, b, G, h, [(None, None)] * n, options={"presolve": False})
    word = {0: "optimal", 2: "infeasible", 3: "unbounded"}[found.status]
    values = {"optimal": found.fun, "infeasible": np.inf, "unbounded": -np.inf}
    return cp.Problem(goal, rows), word, side * values[word] + offset


@pytest.mark.parametrize("first", range(0, 50, CHUNK))
def test_linear_programs(first):
    decided = 0
    for seed in range(first, first + CHUNK):
        problem, truth, value = linear_program(seed)
        problem.solve(**LIMIT)
        decided += check(problem, truth, value if truth == "optimal" else 0.0)
        if problem.status in ("infeasible", "unbounded"):
            assert problem.value == value
    assert decided >= 0.8 * CHUNK


# equations that repeat each other


@pytest.mark.parametrize("first", range(0, 50, CHUNK))
def test_redundant_integer_rows(first):
    """min y'Gx + z with Gx = h, z ≥ 1, rows of G repeated or summed: the optimum is y'h + 1."""
    for seed in range(first, first + CHUNK):
        rng = np.random.default_rng(seed)
        m, n = int(rng.integers(1, 4)), int(rng.integers(1, 6))
        G, y = integers(rng, m, n), integers(rng, m)
        h = G @ integers(rng, n)
        more = integers(rng, int(rng.integers(0, 3)), m)
        x, z = cp.Variable(n), cp.Variable()
        rows = [np.vstack([G, more @ G]) @ x == np.concatenate([h, more @ h]), z >= 1]
        problem = cp.Problem(cp.Minimize((y @ G) @ x + z), rows)
        problem.solve(**LIMIT)
        assert check(problem, "optimal", y @ h + 1)


def solvable(G, h):
    """Whether Gx = h has a solution, over the integers modulo a large prime."""
    p, M = 1_000_003, np.column_stack([G, h]).astype(int) % 1_000_003
    row = 0
    for col in range(M.shape[1]):
        at = next((i for i in range(row, len(M)) if M[i, col]), None)
        if at is None:
            continue
        if col == G.shape[1]:
            return False
        M[[row, at]] = M[[at, row]]
        M[row] = M[row] * pow(int(M[row, col]), -1, p) % p
        for i in range(len(M)):
            if i != row:
                M[i] = (M[i] - M[i, col] * M[row]) % p
        row += 1
    return True


@pytest.mark.parametrize("first", range(0, 50, CHUNK))
def test_equations_alone(first):
    """Many solutions, one, or none; a cost that follows from them, or none."""
    for seed in range(first, first + CHUNK):
        rng = np.random.default_rng(seed)
        m, n = int(rng.integers(1, 6)), int(rng.integers(1, 5))
        G, y = integers(rng, m, n), integers(rng, m)
        h = G @ integers(rng, n) if rng.random() < 0.7 else integers(rng, m)
        c = y @ G if rng.random() < 0.7 else integers(rng, n)
        truth = "optimal" if solvable(G.T, c) else "unbounded"
        truth = truth if solvable(G, h) else "infeasible"
        value = c @ np.linalg.lstsq(G, h)[0] if truth == "optimal" else 0.0
        x, side = cp.Variable(n), rng.choice([-1.0, 1.0])
        goal = cp.Minimize(c @ x + 2) if side > 0 else cp.Maximize(-c @ x - 2)
        problem = cp.Problem(goal, [G @ x == h])
        problem.solve(**LIMIT)
        assert check(problem, truth, side * (value + 2))


# one by one


@pytest.mark.parametrize(
    ("limit", "status"), [(2.0, "optimal"), (1.0, "optimal"), (0.5, "infeasible")]
)
def test_equations_that_leave_one_point(limit, status):
    x, X = cp.Variable(2), cp.Variable((2, 2), PSD=True)
    one = cp.Problem(cp.Maximize(x[0] + 3), [x[0] + x[1] == 2, x[0] - x[1] == 0, x <= limit])
    one.solve(**LIMIT)
    assert one.status == status
    M = np.array([[1, 1], [1, limit]])
    fixed = cp.Problem(cp.Minimize(cp.sum(X)), [X - M == 0])
    fixed.solve(**LIMIT)
    assert fixed.status == status
    if status == "optimal":
        assert one.value == pytest.approx(4)
        assert one.solver_stats.extra_stats.bound >= 4
        assert fixed.value == pytest.approx(3 + limit)


@pytest.mark.parametrize("eps", [1e-3, 1e-5, 1e-7, 1e-8, 1e-9])
def test_large_solutions_are_not_ruled_out(eps):
    """x = (1, 1/ε) is the only point."""
    x = cp.Variable(2)
    for rows in ([x[0] == 1, eps * x[1] == x[0]], [x[0] >= 1, eps * x[1] == x[0]]):
        problem = cp.Problem(cp.Minimize(x[0]), [*rows, x >= 0])
        problem.solve(**LIMIT)
        assert problem.status in ("optimal", "user_limit")
        assert problem.solver_stats.extra_stats.bound <= 1 + 1e-9


@pytest.mark.parametrize(("scale", "offset"), list(product([1e-9, 1e-3, 1.0, 1e6], [0.0, -7.5])))
def test_units_do_not_matter(scale, offset):
    x = cp.Variable(2)
    rows = [x[0] <= scale, x[0] >= scale, 1e3 * x[1] >= 2e3 * scale]
    problem = cp.Problem(cp.Minimize(x[0] + x[1] + offset), rows)
    problem.solve(**LIMIT)
    assert problem.status == "optimal"
    certificate = problem.solver_stats.extra_stats
    assert certificate.bound <= 3 * scale + offset + 1e-9 * scale
    assert problem.value == pytest.approx(3 * scale + offset, abs=1e-2 * scale)
    assert certificate.bound == pytest.approx(3 * scale + offset, abs=1e-2 * scale)


@pytest.mark.parametrize("short", [1e-2, 1e-4, 1e-6])
@pytest.mark.parametrize("cost", [0.0, 1.0, -1.0])
def test_constraints_that_nearly_hold_together(short, cost):
    """By less than the tolerance asked for: still no point meets them."""
    x = cp.Variable(2)
    problem = cp.Problem(cp.Minimize(cost * x[0]), [x[0] >= 1, x[0] <= 1 - short, x[1] == x[0]])
    problem.solve(**LIMIT)
    assert problem.status == "infeasible"


@pytest.mark.parametrize("large", [1e3, 1e6, 1e8])
def test_a_large_limit_does_not_blur_the_others(large):
    x = cp.Variable(2)
    rows = [x[0] >= 1, x[0] <= large, x[1] >= -2, x[1] <= 1e-3]
    problem = cp.Problem(cp.Minimize(cp.sum(x)), rows)
    problem.solve(solver=door.CONDGRAD, max_iter=3000)
    assert problem.status == "optimal" or large > 1e6
    if problem.status == "optimal":
        assert problem.value == pytest.approx(-1, abs=1e-2)
        assert problem.solver_stats.extra_stats.bound >= -1.01
    assert problem.solver_stats.extra_stats.bound <= -1 + 1e-9


@pytest.mark.parametrize("cost", [0.0, 1.0, -1.0])
def test_weakly_infeasible(cost):
    """(x 1; 1 0) is never semidefinite, but misses it by as little as one likes."""
    x = cp.Variable()
    problem = cp.Problem(cp.Minimize(cost * x), [cp.bmat([[x, 1], [1, 0]]) >> 0])
    problem.solve(**LIMIT)
    assert problem.status in ("infeasible", "infeasible_or_unbounded", "user_limit")


def test_neither_infeasible_nor_unbounded_is_said_alone():
    """A direction without a point: the constraints contradict each other."""
    x = cp.Variable(2)
    problem = cp.Problem(cp.Minimize(x[0]), [x[1] >= 1, x[1] <= 0])
    problem.solve(**LIMIT)
    assert problem.status == "infeasible"
    problem = cp.Problem(cp.Maximize(x[0]), [x[1] >= 1])
    assert problem.solve(**LIMIT) == np.inf
    assert problem.status == "unbounded"


@pytest.mark.parametrize("noise", [1e-16, 1e-17])
def test_rows_that_may_be_rounding(noise):
    """As CVXPY leaves them of the imaginary parts of equations that have none."""
    x = cp.Variable(2)
    plain = [cp.sum(x) == 1, x >= 0, x <= 5]
    harmless = noise * (x[0] - 3 * x[1]) == -3 * noise
    problem = cp.Problem(cp.Minimize(2 * x[0] + x[1]), [*plain, harmless])
    assert problem.solve(**LIMIT) == pytest.approx(1, abs=1e-2)
    assert problem.status == "optimal"
    assert problem.solver_stats.extra_stats.bound <= 1 + 1e-9
    assert all(np.shape(c.dual_value) == c.shape for c in problem.constraints)
    other = noise * (x[0] - 3 * x[1]) == 2 * noise
    with pytest.raises(cp.SolverError, match="depends on whether that is rounding"):
        cp.Problem(problem.objective, [*plain, other]).solve(**LIMIT)


@pytest.mark.parametrize("unit", [2.0**-50, 1e-16, 2.0**-60, 1e-25, 1e-60, 1e16, 1e60])
def test_rows_in_other_units(unit):
    """They say the same in any."""
    x = cp.Variable(2)
    other = unit if not 1e-18 < unit < 1e18 else 1.0
    rows = [unit * x[0] <= 2 * unit, x[1] <= 3, other * (x[0] - x[1]) == -other]
    problem = cp.Problem(cp.Maximize(x[0] + x[1]), rows)
    assert problem.solve(**LIMIT) == pytest.approx(5, rel=2e-3)
    assert problem.status == "optimal"
    for row, word in ((unit * x[0] >= 3 * unit, "infeasible"), (unit * x[0] >= unit, "unbounded")):
        problem = cp.Problem(cp.Maximize(x[0] + x[1]), [*(rows if word[0] == "i" else []), row])
        problem.solve(**LIMIT)
        assert problem.status == word


@pytest.mark.parametrize("off", [0.0, 1e-14, 1e-13])
def test_what_holds_up_to_rounding_is_called_inaccurate(off):
    """Exactly (off = 0) there is no solution, or no end; else one lies at about 1/off."""
    x = cp.Variable(2)
    end = "_inaccurate" if off else ""
    for objective, rows, word in (
        (cp.Minimize(x[0]), [x[0] + x[1] == 1, x[0] + (1 + off) * x[1] == 2], "infeasible"),
        (cp.Minimize(x[0]), [x[1] - x[0] <= -1, x[0] - (1 + off) * x[1] <= 0], "infeasible"),
        (cp.Minimize(-x[0]), [x[0] <= x[1], x[1] <= (1 - off) * x[0] + 1], "unbounded"),
    ):
        problem = cp.Problem(objective, rows)
        problem.solve(**LIMIT)
        assert problem.status in (word + end, "user_limit", "infeasible_or_unbounded")
        assert off or problem.status == word


def test_nothing_but_constants():
    x = cp.Variable()
    problem = cp.Problem(cp.Minimize(x), [cp.Constant(1) <= 0, x >= 0])
    problem.solve(**LIMIT)
    assert problem.status == "infeasible"
    problem = cp.Problem(cp.Minimize(x), [x >= -np.inf, x >= 2, x <= np.inf])
    assert problem.solve(**LIMIT) == pytest.approx(2)
    assert problem.status == "optimal"


def test_a_monomial_program_reports_in_its_own_units():
    x = cp.Variable(2, pos=True)
    problem = cp.Problem(cp.Maximize(x[0] * x[1]), [x[0] <= 2, x[1] <= 8])
    assert problem.solve(gp=True, **LIMIT) == pytest.approx(16, rel=1e-2)
    certificate = problem.solver_stats.extra_stats
    assert certificate.value == pytest.approx(problem.value)
    assert 16 - 1e-9 <= certificate.bound <= 16.2


def test_the_sense_survives_a_second_solve_and_parameters():
    x, level = cp.Variable(), cp.Parameter(value=2.0)
    problem = cp.Problem(cp.Maximize(x - 5), [x <= level, x >= 0])
    for value in (2.0, 3.0):
        level.value = value
        problem.solve(**LIMIT)
        assert problem.value == pytest.approx(value - 5, abs=1e-2)
        assert value - 5 <= problem.solver_stats.extra_stats.bound <= value - 4.9


def test_cones_that_are_not_ours_are_named():
    x = cp.Variable()
    with pytest.raises(cp.error.SolverError, match="ExpCone: use another"):
        cp.Problem(cp.Minimize(cp.exp(x)), [x >= 0]).solve(**LIMIT)
    with pytest.raises(cp.error.SolverError, match="mixed-integer"):
        cp.Problem(cp.Minimize(cp.Variable(integer=True)), [x >= 0]).solve(**LIMIT)
