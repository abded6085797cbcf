"""A family that converges has no row that does not: the worst row is measured by its own limit."""

import numpy as np
import pytest
import scipy.sparse as sp

from condgrad import (
    Problem,
    Status,
    Term,
    cgal,
    domains,
    functions,
    h_sag_v2,
    hcgm,
    maps,
    problem,
    solve,
)


def dense_rows(A):
    """The rows a_l of a map as vectors."""
    return np.array([A.adjoint(e).reshape(-1) for e in np.eye(A.size)])


def by_definition(term, W):
    """Violation.row from the rows as vectors."""
    rows, f = dense_rows(term.map), term.function
    z, lengths = rows @ W.reshape(-1), np.linalg.norm(rows, axis=1)
    low, high = (np.broadcast_to(b, z.shape) for b in (f.lower, f.upper))
    r = np.maximum(z - high, 0) + np.maximum(low - z, 0)
    entry = np.sqrt(np.mean(W**2))
    reads = np.sqrt(np.mean(z**2)) / lengths.max()
    worst = 0.0
    for l in np.flatnonzero(r):
        limit = max((abs(b) for b in (low[l], high[l]) if np.isfinite(b)), default=0.0)
        scale = max(limit, lengths[l] * entry) if limit else lengths[l] * max(entry, reads)
        worst = max(worst, r[l] / scale)
    return worst


def random_map(rng, d):
    m = int(rng.integers(1, 12))
    X = rng.standard_normal((m, d)) * 10.0 ** rng.integers(-3, 4, (m, 1))
    kind = rng.integers(5)
    if kind == 0:
        return maps.DataMatrix(sp.csr_array(X * (rng.random((m, d)) < 0.7) + 1e-3))
    if kind == 1:
        return maps.Stack([maps.AllEntries((d,)), maps.DataMatrix(X)])
    if kind == 2:
        return maps.Scaled(maps.DataMatrix(X), rng.uniform(-2, 2, m) + 3)
    if kind == 3:
        return maps.AllEntries((d,))
    return maps.DataMatrix(X)


def random_interval(rng, z):
    """Limits around the images, some of them 0, some infinite, one number or one a row."""
    if rng.random() < 0.3:
        return functions.AtMost(float(rng.choice([0.0, z.mean(), -1.0])))
    limit = z + rng.standard_normal(z.size) * rng.choice([0.1, 1.0])
    limit[rng.random(z.size) < 0.3] = 0.0
    side = rng.integers(3)
    if side == 0:
        return functions.Equal(limit)
    width = rng.random(z.size)
    high = np.where(rng.random(z.size) < 0.3, np.inf, limit + width)
    return functions.Interval(limit if side == 1 else -np.inf, high)


@pytest.mark.parametrize("seed", range(200))
def test_the_worst_row_by_its_definition(seed, monkeypatch):
    monkeypatch.setattr(problem, "CHUNK", 1 + seed % 5)
    rng = np.random.default_rng(seed)
    d = int(rng.integers(2, 8))
    A, W = random_map(rng, d), rng.random(d) * 10.0 ** rng.integers(-2, 3)
    term = Term(A, random_interval(rng, A.rows(W)), name="rows")
    found = Problem(domains.Box(-1e4, 1e4, d), [term]).violations(W)["rows"]
    assert found.row == pytest.approx(by_definition(term, W), rel=1e-9, abs=1e-15)
    assert found.max == pytest.approx(np.abs(term.function.residual(A.rows(W))).max())


@pytest.mark.parametrize("bound", [0.0, 0.3, [0.0, 0.2]])
def test_the_worst_triangle(bound):
    """The fused pass, and the one for limits row by row."""
    rng, n = np.random.default_rng(5), 7
    A, X = maps.Triangles(n), np.random.default_rng(6).standard_normal((n, n))
    limit = rng.choice(bound, A.size) if isinstance(bound, list) else bound
    term, W = Term(A, functions.AtMost(limit), name="rows"), X @ X.T
    found = Problem(domains.Spectrahedron(n, 100.0), [term]).violations(W)["rows"]
    assert found.row == pytest.approx(by_definition(term, W), rel=1e-9)
    assert found.row > 0.1


def test_constraints_on_all_rows_together():
    """One ball: how far z is outside of it, in units of its radius."""
    W = np.array([3.0, 4.0, 0.0])
    for function, expected in (
        (functions.L2Ball(4.0), 1 / 4),
        (functions.L2Ball(5.0), 0.0),
        (functions.L2Ball(4.0, [9.0, 4.0, 0.0]), 2 / 4),
        (functions.Simplex(7.0), 0.0),
        (functions.SecondOrder(), np.sqrt(0.5) / 5),  # (3, 4) to (3.5, 3.5)
    ):
        term = Term(maps.AllEntries((3,)), function, name="all")
        found = Problem(domains.Box(0, 9, 3), [term]).violations(W)["all"]
        assert found.row == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("seed", range(20))
def test_the_units_of_rows_with_limits_do_not_matter(seed):
    """Each row may be measured in its own unit; the other measures would see the largest only."""
    rng = np.random.default_rng(seed)
    X, W = rng.standard_normal((9, 5)), rng.dirichlet(np.ones(5))
    limit = X @ W - 0.01 * rng.random(9)
    units = 10.0 ** rng.integers(-6, 7, 9)
    found = []
    for c in (np.ones(9), units):
        term = Term(maps.DataMatrix(c[:, None] * X), functions.AtMost(c * limit), name="rows")
        found.append(Problem(domains.Simplex(5), [term]).violations(W)["rows"].row)
    assert found[0] == pytest.approx(found[1], rel=1e-9)


def portfolio(seed, rows=3000, limit=0.03):
    """The largest gain such that no scenario loses more than three per cent."""
    rng = np.random.default_rng(seed)
    d = 30
    common = rng.normal(size=(rows, 3)) @ rng.normal(size=(3, d))
    returns = 0.02 * (0.4 * common + rng.normal(size=(rows, d)))
    terms = [
        Term(maps.Inner(-0.001 * rng.random(d)), functions.Linear(), name="gain"),
        Term(maps.DataMatrix(-returns), functions.AtMost(limit), name="scenarios"),
    ]
    return Problem(domains.Simplex(d), terms), returns


@pytest.mark.parametrize("seed", range(8))
def test_a_limit_of_three_per_cent_holds(seed):
    problem, returns = portfolio(seed)
    result = solve(problem, gap=5e-2, max_iter=20_000)
    assert result.status is Status.CONVERGED
    passed = (-returns @ result.W).max() / 0.03 - 1
    assert passed <= 1e-2
    assert result.worst_row == pytest.approx(max(passed, 0.0), abs=1e-9)


def test_another_tolerance_for_the_rows():
    problem, returns = portfolio(1)
    strict = solve(problem, gap=5e-2, row_feasibility=1e-4, max_iter=50_000)
    loose = solve(problem, gap=5e-2, row_feasibility=1.0, max_iter=20_000)
    assert loose.status is strict.status is Status.CONVERGED
    assert (-returns @ strict.W).max() <= 0.03 * (1 + 1e-4)
    assert loose.worst <= 1e-3
    assert loose.worst_row > 1e-2  # what the norm of the family hides
    assert f"of the worst row {loose.worst_row:.2g}" in str(loose)


@pytest.mark.parametrize("method", [None, hcgm(1.0), cgal(1.0), h_sag_v2(beta0=1.0)])
@pytest.mark.parametrize("b", [0.0, 1.0, -1.0])
def test_rows_of_zero(method, b):
    """0 ≤ b holds or not, whatever W is."""
    rows = Term(maps.DataMatrix(np.zeros((2, 3))), functions.AtMost(np.full(2, b)))
    cost = Term(maps.Inner(np.array([1.0, 2.0, 3.0])), functions.Linear())
    result = solve(Problem(domains.Simplex(3), [rows, cost]), method, gap=1e-2)
    assert result.status is (Status.INFEASIBLE if b < 0 else Status.CONVERGED)
    if b >= 0:
        assert result.lower_bound <= 1 <= result.objective <= 1.02
