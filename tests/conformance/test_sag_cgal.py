"""SAG-CGAL's tables against its docstring, written out in NumPy, and what stays with batches."""

import numpy as np
import pytest

import condgrad
from condgrad import Problem, ProblemError, Term, domains, functions, maps
from condgrad.maps._base import RowStorage
from condgrad.methods import ConditionalGradient, Full, sag_cgal
from condgrad.schedules import Constant, Power, Schedule
from conformance.test_estimators import make

RNG = np.random.default_rng(0)
N, STEPS, BETA0 = 6, 30, 0.5
C = RNG.standard_normal((N, N))
C = C + C.T
X, B = RNG.standard_normal((9, 5)), RNG.standard_normal(9)
A, LOW = RNG.standard_normal((7, 5)), 0.1 * RNG.standard_normal(7)
LABELS = np.array([1.0, -1.0, 1.0, 1.0, -1.0, 1.0, -1.0])
SCHEDULE = Schedule(Power(2, 1, 1), Power(BETA0, 1, 1 / 3))


def at_most(b):
    return lambda x, beta: np.maximum(x - b, 0) / beta


def box(low, high):
    return lambda x, beta: (x - np.clip(x, low, high)) / beta


def absolute(b, scale):
    return lambda x, beta: np.clip((x - b) / beta, -scale, scale)


def hinge(t):
    return lambda x, beta: -t * np.clip((1 - t * x) / beta, 0, 1)


def ball(radius):
    def slope(x, beta):
        norm = np.linalg.norm(x)
        return 0 * x if norm <= radius else (x - radius * x / norm) / beta

    return slope


def rows_of(map):
    """The map as an explicit matrix."""
    basis = np.eye(int(np.prod(map.shape))).reshape(-1, *map.shape)
    return np.array([map.rows(E) for E in basis]).T


def sdp():
    """Linear objective; triangles (scattered) and a diagonal (kept row by row)."""
    terms = [
        Term(maps.Inner(C), functions.Linear(), name="cost"),
        Term(maps.Triangles(N), functions.AtMost(-0.3), 0.8, "triangles"),
        Term(maps.Diagonal(N), functions.Equal(1.0), 1.7, "diag"),
    ]
    slopes = {"triangles": at_most(-0.3), "diag": box(1.0, 1.0)}
    problem = Problem(domains.Spectrahedron(N, 1.2 * N), terms)
    return problem, lambda W: C, slopes


def vector():
    """Least squares; a data matrix, entries, a hinge and a ball that does not separate."""
    terms = [
        Term(maps.DataMatrix(X), functions.Squared(B), 0.1, "fit"),
        Term(maps.DataMatrix(A), functions.Interval(LOW, LOW + 0.2), 1.3, "cut"),
        Term(maps.AllEntries((5,)), functions.L1(0.2), name="l1"),
        Term(maps.DataMatrix(A), functions.Hinge(LABELS), 0.2, "hinge"),
        Term(maps.DataMatrix(A), functions.L2Ball(0.4), 0.6, "ball"),
    ]
    slopes = {
        "cut": box(LOW, LOW + 0.2),
        "l1": absolute(0.0, 0.2),
        "hinge": hinge(LABELS),
        "ball": ball(0.4),
    }
    problem = Problem(domains.L1Ball(5, 2.0), terms)
    return problem, lambda W: 0.1 * X.T @ (X @ W - B), slopes


def by_hand(problem, smooth, slopes, steps):
    """γ_l ← h'_β(z_l + β y_l), y_l ← y_l + θ (γ_l − y_l), G = A*γ, one Frank-Wolfe step."""
    W = problem.domain.center()
    matrices = {t.name: rows_of(t.map) for t in problem.composite}
    y = {name: np.zeros(len(M)) for name, M in matrices.items()}
    path = []
    for k in range(1, steps + 1):
        beta, theta = BETA0 * (k + 1) ** (-1 / 3), (k + 1) ** (-1 / 3)
        v = smooth(W).astype(float)
        for t in problem.composite:
            M = matrices[t.name]
            gamma = slopes[t.name](M @ W.reshape(-1) + beta * y[t.name], beta)
            y[t.name] = y[t.name] + theta * (gamma - y[t.name])
            v = v + t.weight * (M.T @ gamma).reshape(W.shape)
        s = problem.domain.lmo(v, effort=None).dense()
        W = W + 2 / (k + 1) * (s - W)
        path.append(W)
    return path, y


@pytest.mark.parametrize("make_problem", [sdp, vector])
def test_full_batch_is_the_loop_of_the_docstring(make_problem):
    problem, smooth, slopes = make_problem()
    kinds = {isinstance(t.map, RowStorage) for t in problem.composite}
    assert kinds == {True, False}
    path, y = by_hand(problem, smooth, slopes, STEPS)
    seen = []
    method = sag_cgal(BETA0, batch=1.0).with_effort(None)
    look = [lambda info: seen.append(info.W.copy())]
    result = condgrad.solve(problem, method, max_iter=STEPS, callbacks=look)
    assert len(seen) == STEPS
    for k, (mine, theirs) in enumerate(zip(path, seen, strict=True), 1):
        np.testing.assert_allclose(theirs, mine, atol=1e-9, err_msg=f"iteration {k}")
    assert all(np.abs(m).max() > 0.01 for m in y.values()), "some family never pulls"
    assert np.abs(path[-1] - path[0]).max() > 0.1
    assert result.rows == {t.name: STEPS * t.map.size for t in problem.terms}


@pytest.mark.parametrize("make_problem", [sdp, vector])
def test_multipliers_of_a_full_batch(make_problem):
    problem, smooth, slopes = make_problem()
    _, y = by_hand(problem, smooth, slopes, STEPS)
    method = sag_cgal(BETA0, batch=1.0).with_effort(None)
    state = condgrad.start(problem, method).advance(iterations=STEPS).state
    found = {t.name: s.y for t, s in zip(problem.terms, state.tables, strict=True)}
    for name, mine in y.items():
        np.testing.assert_allclose(found[name], mine, atol=1e-8)


def families():
    """Problems with one g of every kind, and a cost that pulls against it."""
    domain, rng = domains.Spectrahedron(8, 8.0), np.random.default_rng(1)
    C = rng.standard_normal((8, 8))
    cost = Term(maps.Inner(C + C.T), functions.Linear(), name="cost")
    per_row = functions.Interval(np.linspace(-1, 0, 168), np.linspace(0, 1, 168))
    stack = maps.Stack([maps.RowSums(8), maps.Diagonal(8), maps.Triangles(8)])
    terms = {
        "triangles": Term(maps.Triangles(8), functions.AtMost(-1.0), name="t"),
        "triangles per row": Term(maps.Triangles(8), per_row, name="t"),
        "entries": Term(maps.AllEntries(8), functions.AtLeast(0.1), 0.3, name="t"),
        "stack": Term(stack, functions.Interval(0.0, 1.0), name="t"),
    }
    made = {name: (Problem(domain, [cost, t]), t) for name, t in terms.items()}
    for name, f in (
        ("l1", functions.L1(0.3)),
        ("hinge", functions.Hinge(1)),
        ("at most", functions.AtMost(0.2)),
        ("at least", functions.AtLeast(0.2)),
        ("ball", functions.L2Ball(0.05)),
    ):
        problem, t = make(f)
        slope = Term(maps.Inner(rng.standard_normal(5)), functions.Linear(), name="cost")
        made[name] = Problem(problem.domain, [slope, t]), t
    return made


CASES = families()
CASE = pytest.mark.parametrize("case", [name for name in CASES if name != "ball"])


def states(problem, method, steps):
    """The state after every iteration."""
    run = condgrad.start(problem, method, certify=False)
    for _ in range(steps):
        yield run.advance(iterations=1).state


@CASE
@pytest.mark.parametrize("batch", [1, 0.3, 0.6])
@pytest.mark.parametrize("table", [np.float64, np.float32])
def test_cotangent_stays_the_adjoint_of_the_slopes(case, batch, table):
    problem, term = CASES[case]
    tol = 1e-10 if table is np.float64 else 1e-4
    method = sag_cgal(BETA0, batch, table_dtype=table)
    _, s = condgrad.start(problem, method, certify=False).advance(iterations=250).state.tables
    y, G = s.followed.astype(float), np.zeros(term.map.shape)
    term.map.add_to(s.G.astype(float), 1.0, G)
    assert np.count_nonzero(y) > 1
    size = 1 + np.abs(y).max() * np.abs(rows_of(term.map)).sum(axis=0).max()
    assert np.abs(G - term.map.adjoint(y)).max() <= tol * size
    if not isinstance(term.map, RowStorage):
        assert s.slopes.dtype == s.y.dtype == table


@CASE
def test_only_drawn_rows_change(case):
    problem, term = CASES[case]
    slopes, y = np.zeros(term.map.size), np.zeros(term.map.size)
    before, W = 0, problem.domain.center()
    for s in states(problem, sag_cgal(BETA0, 0.3), 40):
        (_, beta), (_, table), theta = s.betas, s.tables, (s.k + 1) ** (-1 / 3)
        new = term.function.slope(term.map.rows(W) + beta * y, beta)
        drawn = np.flatnonzero((table.followed != slopes) | (table.y != y))
        spent = s.rows[1] - before
        assert spent >= 0.3 * term.map.size - 1
        assert drawn.size <= spent <= term.map.size
        np.testing.assert_allclose(table.followed[drawn], new[drawn], atol=1e-12)
        moved = y[drawn] + theta * (new[drawn] - y[drawn])
        np.testing.assert_allclose(table.y[drawn], moved, atol=1e-12)
        slopes, y, before, W = table.followed.copy(), table.y.copy(), s.rows[1], s.W.copy()


@CASE
@pytest.mark.parametrize("table", [np.float64, np.float32])
def test_multipliers_stay_in_the_domain_of_the_conjugate(case, table):
    problem, term = CASES[case]
    f, nonzero = term.function, 0
    eps, method = 4 * float(np.finfo(table).eps), sag_cgal(BETA0, 0.4, table_dtype=table)
    for s in states(problem, method, 200):
        for _, y in method.duals(problem, s).values():
            if isinstance(f, functions.L1):
                assert np.abs(y).max() <= f.scale * (1 + eps)
            elif isinstance(f, functions.Hinge):
                assert y.min() >= -1 - eps
                assert y.max() <= 0
            elif np.all(np.isneginf(f.lower)):
                assert y.min() >= 0
            elif np.all(np.isposinf(f.upper)):
                assert y.max() <= 0
            nonzero = max(nonzero, np.count_nonzero(y))
    assert nonzero > 0


def test_a_function_that_does_not_separate_is_taken_whole():
    problem, term = CASES["ball"]
    pairs = zip(*(states(problem, sag_cgal(BETA0, b), 20) for b in (2, 1.0)), strict=True)
    for a, b in pairs:
        assert a.rows[1] == a.k * term.map.size
        assert np.array_equal(a.W, b.W)
        assert np.array_equal(a.tables[1].y, b.tables[1].y)
    assert np.abs(a.tables[1].y).max() > 0


@pytest.mark.parametrize("name", ["triangles", "entries", "at most"])
def test_without_multipliers_a_full_batch_is_the_full_gradient(name):
    problem, _ = CASES[name]
    full = ConditionalGradient(Full(), Full(), SCHEDULE)
    frozen = sag_cgal(BETA0, batch=1.0, rate=Constant(0.0))
    for a, b in zip(states(problem, frozen, 15), states(problem, full, 15), strict=True):
        np.testing.assert_allclose(a.W, b.W, atol=1e-9)
        assert not a.tables[1].y.any()


@pytest.mark.parametrize(
    ("batch", "size", "expected"),
    [("auto", 60, 60), (0.25, 60, 15), (7, 60, 7), (1.0, 60, 60)],
)
def test_rows_per_iteration(batch, size, expected):
    term = Term(maps.Triangles(6), functions.AtMost(0.0), name="t")
    assert term.map.size == size
    assert sag_cgal(batch=batch).rows_now(term) == expected


def test_automatic_batch_is_a_fifth_of_a_large_term():
    for n, expected in ((300, -(-maps.Triangles(300).size // 5)), (60, 20 * 3600)):
        term = Term(maps.Triangles(n), functions.AtMost(0.0), name="t")
        assert sag_cgal().rows_now(term) == expected
    assert sag_cgal().rows_now(make(functions.L1(1.0))[1]) == 23


def test_bad_options():
    problem, _ = make(functions.AtMost(0.0))
    with pytest.raises(ProblemError, match="batch is 24, but term 't' has only 23 rows"):
        condgrad.solve(problem, sag_cgal(batch=24))
    for bad in (0, -1, 1.5, True, None, "all"):
        with pytest.raises(ProblemError, match=r"^batch is"):
            sag_cgal(batch=bad)
    for bad in (int, "float16", np.complex128):
        with pytest.raises(ProblemError, match=r"^table_dtype is"):
            sag_cgal(table_dtype=bad)


def test_tables_of_many_rows_are_in_single_precision(monkeypatch):
    problem, term = CASES["triangles"]
    _, table = condgrad.start(problem, sag_cgal()).state.tables
    assert table.y.dtype == np.float64
    monkeypatch.setattr("condgrad.methods.tables.FINE", term.map.size - 1)
    _, table = condgrad.start(problem, sag_cgal()).state.tables
    assert table.y.dtype == table.slopes.dtype == np.float32
