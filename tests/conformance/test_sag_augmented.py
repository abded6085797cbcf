"""`SagAugmented` against its docstring, written out in NumPy, and what stays true with batches."""

import numpy as np
import pytest

import condgrad
from condgrad import Problem, ProblemError, Term, domains, functions, maps
from condgrad.estimators import Full, SagAugmented
from condgrad.maps._base import RowStorage
from condgrad.schedules import Constant, Power, Schedule
from conformance.test_estimators import gradient, make, run

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
    method = condgrad.sag_cgal(BETA0, batch=1.0).with_effort(None)
    look = [lambda info: seen.append(info.W.copy())]
    result = condgrad.solve(problem, method, max_iter=STEPS, callbacks=look)
    assert len(seen) == STEPS
    for k, (mine, theirs) in enumerate(zip(path, seen, strict=True), 1):
        np.testing.assert_allclose(theirs, mine, atol=1e-9, err_msg=f"iteration {k}")
    assert all(np.abs(m).max() > 0.01 for m in y.values()), "some family never pulls"
    assert np.abs(path[-1] - path[0]).max() > 0.1
    assert result.rows == {t.name: STEPS * t.map.size for t in problem.terms}


@pytest.mark.parametrize("make_problem", [sdp, vector])
def test_multipliers_of_a_full_batch(make_problem, monkeypatch):
    problem, smooth, slopes = make_problem()
    _, y = by_hand(problem, smooth, slopes, STEPS)
    states = {}
    init = SagAugmented.init

    def remember(self, term, problem):
        states[term.name] = init(self, term, problem)
        return states[term.name]

    monkeypatch.setattr(SagAugmented, "init", remember)
    method = condgrad.sag_cgal(BETA0, batch=1.0).with_effort(None)
    condgrad.solve(problem, method, max_iter=STEPS)
    assert set(states) == set(y)
    for name, mine in y.items():
        np.testing.assert_allclose(states[name].y, mine, atol=1e-8)


def families():
    """Terms of every kind of map, by name."""
    tri = Problem(
        domains.Spectrahedron(8, 8.0), [Term(maps.Triangles(8), functions.AtMost(-1.0), name="t")]
    )
    per_row = functions.Interval(np.linspace(-1, 0, 168), np.linspace(0, 1, 168))
    rows = Problem(tri.domain, [Term(maps.Triangles(8), per_row, name="t")])
    entries = Problem(tri.domain, [Term(maps.AllEntries(8), functions.AtLeast(0.1), 0.3, name="t")])
    stack = maps.Stack([maps.RowSums(8), maps.Diagonal(8), maps.Triangles(8)])
    stacked = Problem(tri.domain, [Term(stack, functions.Interval(0.0, 1.0), name="t")])
    out = {"triangles": tri, "triangles per row": rows, "entries": entries, "stack": stacked}
    made = {name: (p, p.terms[0]) for name, p in out.items()}
    for name, f in (
        ("l1", functions.L1(0.3)),
        ("hinge", functions.Hinge(1)),
        ("at most", functions.AtMost(0.2)),
        ("at least", functions.AtLeast(0.2)),
    ):
        made[name] = make(f)
    return made


CASES = families()
CASE = pytest.mark.parametrize("case", CASES)


@CASE
@pytest.mark.parametrize("batch", [1, 0.3, 0.6])
@pytest.mark.parametrize("table", [np.float64, np.float32])
def test_cotangent_stays_the_adjoint_of_the_slopes(case, batch, table):
    problem, term = CASES[case]
    tol = 1e-10 if table is np.float64 else 1e-4
    estimator = SagAugmented(batch, table_dtype=table)
    *_, (_, _, s, _) = run(estimator, problem, term, 250, schedule=SCHEDULE)
    y = s.slopes.astype(float)
    assert np.count_nonzero(y) > 1
    expected = term.weight * term.map.adjoint(y)
    size = 1 + np.abs(y).max() * np.abs(rows_of(term.map)).sum(axis=0).max()
    assert np.abs(gradient(s, term) - expected).max() <= tol * size
    if not isinstance(term.map, RowStorage):
        assert s.slopes.dtype == s.y.dtype == table


@CASE
def test_only_drawn_rows_change(case):
    problem, term = CASES[case]
    slopes, y = np.zeros(term.map.size), np.zeros(term.map.size)
    before = 0
    for _, p, s, W in run(SagAugmented(0.3), problem, term, 40, schedule=SCHEDULE):
        theta = p.beta / BETA0
        new = term.function.slope(term.map.rows(W.array) + p.beta * y, p.beta)
        drawn = np.flatnonzero((s.slopes != slopes) | (s.y != y))
        spent = s.evaluated - before
        assert spent >= 0.3 * term.map.size - 1
        assert drawn.size <= spent <= term.map.size
        np.testing.assert_allclose(s.slopes[drawn], new[drawn], atol=1e-12)
        moved = y[drawn] + theta * (new[drawn] - y[drawn])
        np.testing.assert_allclose(s.y[drawn], moved, atol=1e-12)
        slopes, y, before = s.slopes.copy(), s.y.copy(), s.evaluated


@CASE
@pytest.mark.parametrize("table", [np.float64, np.float32])
def test_multipliers_stay_in_the_domain_of_the_conjugate(case, table):
    problem, term = CASES[case]
    f, nonzero = term.function, 0
    eps = 4 * float(np.finfo(table).eps)
    for _, _, s, _ in run(SagAugmented(0.4, table_dtype=table), problem, term, 200):
        for y in SagAugmented().duals(s, term).values():
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
    problem, term = make(functions.L2Ball(0.05))
    pairs = zip(
        run(SagAugmented(2), problem, term, 20, schedule=SCHEDULE),
        run(SagAugmented(1.0), problem, term, 20, schedule=SCHEDULE),
        strict=True,
    )
    for (k, _, a, _), (_, _, b, _) in pairs:
        assert a.evaluated == k * term.map.size
        np.testing.assert_array_equal(a.G, b.G)
        np.testing.assert_array_equal(a.y, b.y)
    assert np.abs(a.y).max() > 0
    assert SagAugmented(2).objection(term) is None


@pytest.mark.parametrize("name", ["triangles", "entries", "at most"])
def test_without_multipliers_a_full_batch_is_the_full_gradient(name):
    problem, term = CASES[name]
    frozen = SagAugmented(1.0, rate=Constant(0.0))
    pairs = zip(run(frozen, problem, term, 15), run(Full(), problem, term, 15), strict=True)
    for (_, _, a, _), (_, _, b, _) in pairs:
        np.testing.assert_allclose(a.G, b.G, atol=1e-11 * (1 + np.abs(b.G).max()))
        assert not a.y.any()


@pytest.mark.parametrize(
    ("batch", "size", "expected"),
    [("auto", 60, 60), (0.25, 60, 15), (7, 60, 7), (1.0, 60, 60)],
)
def test_rows_per_iteration(batch, size, expected):
    term = Term(maps.Triangles(6), functions.AtMost(0.0), name="t")
    assert term.map.size == size
    assert SagAugmented(batch).rows_now(term) == expected


def test_automatic_batch_is_a_fifth_of_a_large_term():
    term = Term(maps.Triangles(300), functions.AtMost(0.0), name="t")
    assert SagAugmented().rows_now(term) == -(-term.map.size // 5)
    term = Term(maps.Triangles(60), functions.AtMost(0.0), name="t")
    assert SagAugmented().rows_now(term) == 20 * 3600
    assert SagAugmented().rows_now(make(functions.L1(1.0))[1]) == 23


def test_objections_and_bad_options():
    _, smooth = make(functions.Squared(0.0))
    assert "which is smooth: use Full()" in SagAugmented().objection(smooth)
    _, rows = make(functions.AtMost(0.0))
    assert "batch is 24, but term 't' has only 23 rows" in SagAugmented(24).objection(rows)
    assert SagAugmented().objection(rows) is None
    for bad in (0, -1, 1.5, True, None, "all"):
        with pytest.raises(ProblemError, match=r"^batch is"):
            SagAugmented(bad)
    for bad in (int, "float16", np.complex128):
        with pytest.raises(ProblemError, match=r"^table_dtype is"):
            SagAugmented(table_dtype=bad)


def test_tables_of_many_rows_are_in_single_precision(monkeypatch):
    problem, term = CASES["triangles"]
    assert SagAugmented().init(term, problem).y.dtype == np.float64
    monkeypatch.setattr("condgrad.estimators.multipliers.FINE", term.map.size - 1)
    s = SagAugmented().init(term, problem)
    assert s.y.dtype == s.slopes.dtype == np.float32
