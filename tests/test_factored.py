"""W as factors: runs over a nuclear ball in which no array has the shape of W."""

import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp

import condgrad as cg
from condgrad import Problem, Status, Term, domains, functions, maps
from condgrad.backends import memory
from condgrad.domains import singular
from condgrad.errors import MemoryLimit, ProblemError
from condgrad.functions.group import project_simplex
from condgrad.maps.pattern import Pattern
from condgrad.methods.factored import RULE, FactoredStep, Rule
from condgrad.points import Factored
from condgrad.points import factored as points
from condgrad.record import Record
from condgrad.rows.observed import Observed
from condgrad.run import factored_loop
from condgrad.run.factored_loop import fit


def ratings(rng, shape, count=None):
    """Distinct places in any order, with numbers of rank 2 and noise."""
    n, m = shape
    flat = rng.permutation(n * m)[: count or max(1, int(0.4 * n * m))]
    i, j = np.divmod(flat, m)
    truth = rng.standard_normal((n, 2)) @ rng.standard_normal((2, m))
    return i, j, truth[i, j] + 0.1 * rng.standard_normal(i.size)


LOSSES = {
    "squared": lambda x: functions.Squared(x),
    "huber": lambda x: functions.Huber(x, 0.7),
    "logistic": lambda x: functions.Logistic(np.where(x > 0, 1.0, -1.0)),
    "linear": lambda x: functions.Linear(x),
}


def problem(seed=0, shape=(12, 9), loss="squared", radius=6.0, scaled=False, dtype=np.float64):
    rng = np.random.default_rng(seed)
    i, j, x = ratings(rng, shape)
    entries = maps.Entries(i, j, shape)
    if scaled:
        entries = maps.Scaled(entries, rng.uniform(0.5, 2.0, i.size))
    term = Term(entries, LOSSES[loss](x), weight=2.0, name="fit")
    return Problem(domains.NuclearBall(shape, radius), [term], dtype=dtype)


def ball(X, radius):
    """The projection onto a nuclear ball by all singular vectors."""
    U, s, VT = np.linalg.svd(X, full_matrices=False)
    return (U * (s if s.sum() <= radius else project_simplex(s, radius))) @ VT


def by_arrays(problem, steps=3000):
    """The optimum by accelerated projected gradients on arrays, with all singular vectors."""
    radius, W = problem.domain.radius, np.zeros(problem.domain.shape)
    before, t = W, 1.0
    L = sum(term.weight * term.function.smoothness * term.map.row_norm**2 for term in problem.terms)
    for _ in range(steps):
        later = (1 + np.sqrt(1 + 4 * t * t)) / 2
        Z = W + (t - 1) / later * (W - before)
        new = ball(Z - sum(term.gradient(Z, 1.0) for term in problem.terms) / (L or 1e-3), radius)
        t = 1.0 if np.vdot(Z - new, new - W) > 0 else later
        W, before = new, W
    return problem.objective(W)


# Points.


def test_a_point_stands_for_its_matrix():
    rng = np.random.default_rng(0)
    U, s, V = rng.standard_normal((6, 3)), np.array([3.0, 2.0, 1.0]), rng.standard_normal((4, 3))
    W, array = Factored(U, s, V), (U * s) @ V.T
    np.testing.assert_allclose(np.asarray(W), array)
    np.testing.assert_allclose(W.T.dense(), array.T)
    np.testing.assert_allclose(W @ np.eye(4), array)
    np.testing.assert_allclose(W.entries([0, 5], 2), array[[0, 5], 2])
    np.testing.assert_allclose(W.entries([[0], [5]], [[1, 3]]), array[[0, 5]][:, [1, 3]])
    np.testing.assert_allclose(W.dot(Factored(V, s, U).T), np.vdot(array, array))
    assert (W.shape, W.size, W.rank, W.ndim) == ((6, 4), 24, 3, 2)
    assert np.asarray(W, dtype=np.float32).dtype == np.float32
    assert W.astype(np.float32).dtype == W.astype(np.float32).entries(1, 1).dtype == np.float32
    found = W.decomposed()
    np.testing.assert_allclose(found.dense(), array)
    np.testing.assert_allclose(found.s, np.linalg.svd(array, compute_uv=False)[:3])
    np.testing.assert_allclose(Factored.of(array).dense(), array)
    copy = W.copy()
    copy.U[:] = 0
    np.testing.assert_allclose(W.dense(), array)
    assert "rank 3" in repr(W)
    rows = maps.Scaled(maps.Entries([5, 0], [3, 1], (6, 4)), [2.0, 3.0])
    np.testing.assert_allclose(W.rows(rows), rows.rows(array))
    np.testing.assert_allclose(W.rows(rows, slice(1, 2)), rows.rows(array)[1:])
    zero = Factored.zeros((3, 2))
    assert not zero.dense().any()
    assert not zero.entries([0, 1], [1, 1]).any()


def test_entries_in_chunks(monkeypatch):
    rng = np.random.default_rng(1)
    W = Factored(rng.standard_normal((30, 3)), np.ones(3), rng.standard_normal((20, 3)))
    i, j = rng.integers(30, size=500), rng.integers(20, size=500)
    monkeypatch.setattr(points, "CHUNK", 7)
    np.testing.assert_allclose(W.entries(i, j), W.dense()[i, j])


@pytest.mark.parametrize(
    ("i", "j", "words"),
    [([0], [4], "j leaves"), ([-1], [0], "i leaves"), ([0.5], [0], "i has dtype")],
)
def test_places_outside_are_refused(i, j, words):
    with pytest.raises(ProblemError, match=words):
        Factored(np.ones((2, 1)), [1.0], np.ones((4, 1))).entries(i, j)


def test_factors_that_do_not_fit_are_refused():
    with pytest.raises(ProblemError, match=r"must be \(n, r\)"):
        Factored(np.ones((2, 1)), [1.0, 2.0], np.ones((4, 1)))
    with pytest.raises(ValueError, match="copy"):
        np.asarray(Factored.zeros((2, 2)), copy=False)


def test_the_objective_reads_factors():
    p, rng = problem(scaled=True), np.random.default_rng(0)
    W = Factored(rng.standard_normal((12, 2)), np.ones(2), rng.standard_normal((9, 2)))
    assert p.objective(W) == pytest.approx(p.objective(np.asarray(W)), rel=1e-12)
    assert p.unit == pytest.approx(1e-6 * p.objective(np.zeros((12, 9))))


def test_the_unit_of_a_linear_term():
    p = problem(loss="linear", scaled=True)
    v = p.terms[0].gradient(np.zeros((12, 9)), 1.0)
    assert p.unit == pytest.approx(1e-6 * np.linalg.norm(v) * p.domain.radius)


# Projections.


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("shape", [(12, 9), (5, 40), (30, 3), (1, 6), (6, 1), (1, 1)])
def test_a_step_is_the_projection(seed, shape):
    rng = np.random.default_rng(seed)
    radius = float(rng.uniform(1, 8))
    p = problem(seed, shape, radius=radius)
    start = Factored.of(ball(rng.standard_normal(shape), 0.9 * radius))
    step = FactoredStep(Observed(p), radius, start, rng, RULE)
    one, _ = step.move(start, lambda part: None)
    two, _ = step.move(one, lambda part: None)
    X = Observed(p).pattern.matrix(Observed(p).gradient(Observed(p).entries(two))[0])
    step.state.before = one
    found, inner = step._projected(two, 0.5, X, 1.7)
    expected = two.dense() + 0.5 * (two.dense() - one.dense()) - X.compressed().toarray() / 1.7
    np.testing.assert_allclose(found.dense(), ball(expected, radius), atol=1e-9)
    assert inner == pytest.approx(np.vdot(found.dense(), expected), abs=1e-8)


def test_a_frame_that_is_narrow_finds_the_projection_in_a_few_steps():
    """A few products of a small frame are as good as all singular vectors."""
    rng = np.random.default_rng(3)
    p = problem(3, (150, 130), radius=60.0)
    observed, W = Observed(p), Factored.zeros((150, 130))
    step = FactoredStep(observed, 60.0, W, rng, Rule(small=0, guard=6))
    X = observed.pattern.matrix(observed.gradient(observed.entries(W))[0])
    for _ in range(60):
        found, _ = step._projected(W, 0.0, X, 0.2)
    expected = ball(-X.compressed().toarray() / 0.2, 60.0)
    assert found.rank < 60
    np.testing.assert_allclose(found.dense(), expected, atol=1e-3 * np.linalg.norm(expected))


# Bounds on the largest singular value.


@pytest.mark.parametrize("lanczos", [False, True])
@pytest.mark.parametrize("seed", range(20))
def test_the_largest_singular_value_is_bounded(seed, lanczos, monkeypatch):
    if lanczos:
        monkeypatch.setattr(singular, "LARGE", 0)
    rng = np.random.default_rng(seed)
    shape = n, m = tuple(int(x) for x in rng.integers(1, 60, 2))
    flat = rng.permutation(n * m)[: rng.integers(1, n * m + 1)]
    unit = 10.0 ** rng.integers(-300, 300)
    V = Pattern([maps.Entries(*np.divmod(flat, m), shape)]).matrix(
        unit * rng.standard_normal(flat.size)
    )
    top = singular.top_bound(V)
    true = np.linalg.norm(V.compressed().toarray() / unit, 2) * unit
    assert true <= top.value <= true * (1 + 1e-6)
    assert (top.failure > 0) == lanczos


@pytest.mark.parametrize("lanczos", [False, True])
def test_numbers_at_one_place_add_up(lanczos, monkeypatch):
    """Three maps read every entry, so that no number is as large as what stands there."""
    if lanczos:
        monkeypatch.setattr(singular, "LARGE", 0)
    shape = (9, 7)
    entries = maps.Entries(*np.nonzero(np.ones(shape)), shape)
    V = Pattern(3 * [entries]).matrix(np.ones(3 * 63))
    true = 3 * np.sqrt(63)
    assert V.compressed().nnz == 63
    assert true <= singular.top_bound(V).value <= true * (1 + 1e-6)


def test_lanczos_may_end_early(monkeypatch):
    monkeypatch.setattr(singular, "LARGE", 0)
    rng = np.random.default_rng(0)
    V = sp.random(500, 300, density=0.1, random_state=0, format="csr")
    V = Pattern([maps.Entries.of(V)]).matrix(V.data + rng.standard_normal(V.nnz))
    true = np.linalg.norm(V.compressed().toarray(), 2)
    seen = []

    def enough(low, high):
        seen.append((low, high))
        return high <= 1.05 * low

    top = singular.top_bound(V, enough)
    whole = singular.top_bound(V)
    assert true <= whole.value <= top.value <= 1.06 * true
    assert top.products < whole.products
    assert all(low <= true * (1 + 1e-9) and true <= high for low, high in seen)


def test_the_largest_singular_value_of_nothing():
    V = Pattern([maps.Entries([0], [0], (3, 3))]).matrix(np.zeros(1))
    assert singular.top_bound(V) == (0.0, 0.0, 0)


# Runs.


@pytest.mark.parametrize("loss", ["squared", "huber", "logistic"])
@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("radius", [1.5, 8.0])
def test_the_optimum_of_arrays(loss, scaled, radius):
    p = problem(5, loss=loss, scaled=scaled, radius=radius)
    result = fit(p, gap=1e-7, max_iter=5000)
    best = by_arrays(p)
    assert result.status is Status.CONVERGED
    assert result.lower_bound <= best * (1 + 1e-12)
    assert result.objective == pytest.approx(best, rel=1e-6)
    assert result.objective == pytest.approx(p.objective(np.asarray(result.W)), rel=1e-12)
    assert np.linalg.norm(np.asarray(result.W), "nuc") <= radius * (1 + 1e-9)
    assert result.bound_kind == "exact-singular-value"


def test_a_linear_term_has_a_formula():
    p = problem(2, loss="linear", radius=3.0)
    result = fit(p, gap=1e-9, max_iter=500)
    v = p.terms[0].gradient(np.zeros((12, 9)), 1.0)
    assert result.status is Status.CONVERGED
    assert result.objective == pytest.approx(-3.0 * np.linalg.norm(v, 2), rel=1e-8)


def test_terms_of_several_kinds_that_share_entries():
    rng, shape = np.random.default_rng(8), (10, 14)
    i, j, x = ratings(rng, shape, 60)
    k, l, y = ratings(rng, shape, 50)
    terms = [
        Term(maps.Entries(i, j, shape), functions.Squared(x), name="fit"),
        Term(maps.Scaled(maps.Entries(k, l, shape), 0.5), functions.Huber(y, 0.3), weight=3.0),
        Term(maps.Entries(i[:5], j[:5], shape), functions.Linear(0.1)),
    ]
    p = Problem(domains.NuclearBall(shape, 5.0), terms)
    result = fit(p, gap=1e-6, max_iter=5000)
    best = by_arrays(p)
    assert result.status is Status.CONVERGED
    assert result.objective == pytest.approx(best, rel=1e-5)
    assert result.lower_bound <= best + 1e-12 * abs(best)


def test_bounds_of_terms_that_read_the_same_entries():
    rng, shape = np.random.default_rng(0), (4, 3)
    target = rng.normal(size=shape) + 2
    entries, x = maps.Entries(*np.nonzero(np.ones(shape)), shape), target.reshape(-1)
    terms = [Term(entries, functions.Squared(x), name=f"fit {i}") for i in range(3)]
    radius = 0.9 * np.linalg.norm(target, "nuc")
    best = 1.5 * np.sum(np.square(ball(target, radius) - target))
    result = fit(Problem(domains.NuclearBall(shape, radius), terms), gap=1e-9, max_iter=1000)
    assert result.status is Status.CONVERGED
    assert result.lower_bound <= best * (1 + 1e-12)
    assert result.objective == pytest.approx(best, rel=1e-8)


@pytest.mark.parametrize("seed", range(40))
def test_bounds_lie_below_the_optimum(seed):
    """After one to nine iterations, where nothing has converged."""
    rng = np.random.default_rng(seed)
    loss = list(LOSSES)[seed % 4]
    shape = tuple(int(x) for x in rng.integers(1, 8, 2))
    p = problem(seed, shape, loss, float(rng.uniform(0.1, 6)), bool(rng.integers(2)))
    result = fit(p, max_iter=int(rng.integers(1, 10)))
    best = by_arrays(p, 1000)
    assert np.isfinite(result.lower_bound)
    assert result.lower_bound <= best + 1e-9 * abs(best)
    assert result.lower_bound <= result.objective


def test_scaled_slopes_prove_more():
    """Squares by a formula, others by a search."""
    for loss in ("squared", "huber", "logistic"):
        p = problem(4, loss=loss, radius=8.0)
        result = fit(p, max_iter=3)
        assert result.bound_source == "slopes, scaled", loss


def test_an_optimum_inside_the_ball():
    """All entries are fitted, and all singular values survive."""
    p = problem(1, (40, 30), radius=1e3)
    result = fit(p, gap=1e-6, max_iter=2000)
    assert result.status is Status.CONVERGED
    assert result.objective <= 1e-6 * p.objective(np.zeros((40, 30)))
    assert result.W.s.sum() < 1e3


def test_a_frame_grows_to_the_rank():
    """An optimum of a higher rank than the frame to begin with, side above the small ones."""
    rng, shape = np.random.default_rng(0), (130, 120)
    truth = rng.standard_normal((130, 40)) @ rng.standard_normal((40, 120))
    i, j = np.nonzero(np.ones(shape))
    term = Term(maps.Entries(i, j, shape), functions.Squared(truth[i, j]))
    radius = 0.98 * np.linalg.norm(truth, "nuc")
    result = fit(Problem(domains.NuclearBall(shape, radius), [term]), gap=1e-6, max_iter=500)
    assert result.status is Status.CONVERGED
    assert result.W.rank == 40
    np.testing.assert_allclose(result.W.dense(), ball(truth, radius), atol=1e-2)


@pytest.mark.parametrize("shape", [(1, 7), (7, 1), (1, 1), (2, 200)])
def test_one_row_or_one_column(shape):
    p = problem(3, shape, radius=0.5)
    result = fit(p, gap=1e-8, max_iter=2000)
    assert result.status is Status.CONVERGED
    assert result.objective == pytest.approx(by_arrays(p), rel=1e-7, abs=1e-9)


def test_rows_and_columns_without_ratings():
    shape = (8, 6)
    term = Term(maps.Entries([1, 1, 5], [2, 4, 4], shape), functions.Squared([1.0, 2.0, 3.0]))
    p = Problem(domains.NuclearBall(shape, 2.0), [term])
    result = fit(p, gap=1e-9, max_iter=3000)
    W = np.asarray(result.W)
    assert result.status is Status.CONVERGED
    assert np.abs(np.delete(W, [1, 5], axis=0)).max() < 1e-6
    assert np.abs(np.delete(W, [2, 4], axis=1)).max() < 1e-6


def test_ratings_of_zero():
    term = Term(maps.Entries([0, 1], [0, 1], (3, 3)), functions.Squared(0.0))
    result = fit(Problem(domains.NuclearBall((3, 3), 1.0), [term]), gap=1e-3, max_iter=10)
    assert (result.status, result.objective) == (Status.CONVERGED, 0.0)


@pytest.mark.parametrize("loss", ["squared", "huber"])
def test_single_precision(loss):
    p = problem(6, (40, 30), loss, radius=20.0, dtype=np.float32)
    result = fit(p, gap=1e-4, max_iter=2000)
    best = by_arrays(problem(6, (40, 30), loss, radius=20.0))
    assert result.W.dtype == np.float32
    assert result.status is Status.CONVERGED
    assert result.lower_bound <= best * (1 + 1e-9)
    assert result.objective == pytest.approx(best, rel=1e-3)


def test_many_small_columns_by_lanczos(monkeypatch):
    """The bound of a large side, here of a small one, and the sum of its chances."""
    monkeypatch.setattr(singular, "LARGE", 10)
    p = problem(7, (60, 50), radius=25.0)
    result = fit(p, gap=1e-5, max_iter=2000)
    assert result.status is Status.CONVERGED
    assert result.bound_kind == "probabilistic"
    assert 1e-10 <= result.bound_failure <= 1e-8
    assert result.lower_bound <= by_arrays(p) * (1 + 1e-9)


# Doors.


def test_solve_takes_factors_where_it_can(monkeypatch):
    p = problem(0)
    result = cg.solve(p, gap=1e-6)
    assert (result.method, result.status) == (factored_loop.NAME, Status.CONVERGED)
    assert isinstance(result.W, np.ndarray)
    shapes = []
    monkeypatch.setattr(points, "SHOWN", 100)
    large = cg.solve(
        p,
        gap=1e-6,
        metrics={"rank": lambda W: W.rank},
        callbacks=[lambda info: shapes.append(type(info.W))],
    )
    assert isinstance(large.W, Factored)
    assert set(shapes) == {Factored}
    assert large.metrics["rank"] == large.W.rank == large.trace["rank"][-1]
    np.testing.assert_array_equal(np.asarray(large.W), result.W)


def test_solve_takes_arrays_elsewhere():
    p = problem(0)
    named = cg.solve(p, cg.sag_cgal(), max_iter=5)
    asked = cg.solve(p, propose=lambda W: None, max_iter=5)
    box = Term(maps.AllEntries((12, 9)), functions.Interval(-1.0, 1.0))
    boxed = cg.solve(Problem(p.domain, [*p.terms, box]), max_iter=5)
    for result in (named, asked, boxed):
        assert result.method != factored_loop.NAME
        assert isinstance(result.W, np.ndarray)
    with pytest.raises(ProblemError, match=r"use condgrad\.solve"):
        fit(Problem(p.domain, [*p.terms, box]))


def test_limits_status_and_trace(clock):
    p = problem(0, (40, 30), radius=30.0)
    result = cg.solve(p, max_iter=7)
    assert (result.status, result.iterations, result.epochs) == (Status.MAX_ITER, 7, 7.0)
    assert result.lmo_calls == 7
    assert result.matvecs >= 14
    assert list(result.trace["k"]) == [0, 1, 2, 3, 4, 5, 6, 7]
    assert np.all(np.diff(result.trace["lower_bound"]) >= 0)
    assert result.profile["oracle"] > 0
    assert result.rows == {"fit": 7 * p.terms[0].map.size}
    clock.tick = 0.01
    timed = cg.solve(p, max_seconds=1.0)
    assert timed.status is Status.MAX_SECONDS
    stopped = cg.solve(p, callbacks=[lambda info: info.k == 4])
    assert (stopped.status, stopped.iterations) == (Status.STOPPED, 4)
    assert cg.solve(p, max_epochs=3).iterations == cg.solve(p, max_lmo=3).iterations == 3


def test_runs_are_the_same_bit_for_bit():
    p = problem(0, (150, 130), radius=60.0)
    one = fit(p, max_iter=12)
    others = [
        fit(p, max_iter=12, certify=False),
        fit(p, max_iter=12, n_jobs=2),
        fit(p, max_iter=12, gap=1e-12),
    ]
    run = cg.start(p)
    for _ in range(4):
        run.advance(iterations=3)
    others.append(run.result(factors=True))
    for other in others:
        np.testing.assert_array_equal(one.W.U, other.W.U)
        np.testing.assert_array_equal(one.W.s, other.W.s)
    assert not np.array_equal(one.W.U, fit(p, max_iter=12, seed=1).W.U)
    assert [info.k for info, _ in zip(cg.start(p), range(3), strict=False)] == [1, 2, 3]


@pytest.mark.parametrize("where", ["callback", "kernel"])
def test_keyboard_interrupt(where, monkeypatch):
    p, calls = problem(0, (40, 30), radius=30.0), []
    real = FactoredStep._projected

    def stop(*given):
        calls.append(1)
        if len(calls) == 9:
            raise SystemError("kernel") from KeyboardInterrupt()
        return real(*given)

    def press(info):
        if info.k == 5:
            raise KeyboardInterrupt

    if where == "kernel":
        monkeypatch.setattr(FactoredStep, "_projected", stop)
        result = cg.solve(p, gap=1e-12)
    else:
        result = cg.solve(p, gap=1e-12, callbacks=[press])
    assert result.status is Status.INTERRUPTED
    assert 1 <= result.iterations < 9
    assert result.objective == p.objective(result.W) < p.objective(np.zeros((40, 30)))
    assert result.lower_bound <= by_arrays(p) * (1 + 1e-9)


def test_warm_starts():
    p = problem(0, (60, 50), radius=40.0)
    cold = fit(p, gap=1e-6, max_iter=5000)
    warm = fit(p, cold.W, gap=1e-5, max_iter=5000)
    again = fit(p, np.asarray(cold.W), gap=1e-5, max_iter=5000)
    assert max(warm.iterations, again.iterations) < cold.iterations / 2
    assert warm.objective <= cold.objective * (1 + 1e-9)
    larger = Problem(domains.NuclearBall((60, 50), 44.0), p.terms)
    onwards = fit(larger, cold.W, gap=1e-6, max_iter=5000)
    assert onwards.objective < cold.objective
    with pytest.raises(ProblemError, match="outside"):
        fit(Problem(domains.NuclearBall((60, 50), 30.0), p.terms), cold.W)


@pytest.mark.parametrize(
    ("start", "words"),
    [
        (np.zeros((3, 3)), "shape"),
        (np.full((12, 9), np.nan), "NaN"),
        (np.zeros((12, 9), int), "dtype"),
        (Factored.zeros((3, 3)), "shape"),
    ],
)
def test_starts_that_are_refused(start, words):
    with pytest.raises(ProblemError, match=words):
        fit(problem(0), start)


def test_going_on_over_a_larger_ball():
    p = problem(0, (40, 30), radius=10.0)
    run = cg.start(p, gap=1e-6).advance(iterations=500)
    small = run.result()
    run.move(domains.NuclearBall((40, 30), 20.0)).advance(iterations=2000)
    large = run.result()
    expected = by_arrays(Problem(domains.NuclearBall((40, 30), 20.0), p.terms))
    assert small.status is large.status is Status.CONVERGED
    assert large.objective == pytest.approx(expected, rel=1e-5)
    with pytest.raises(ProblemError, match="does not contain"):
        run.move(domains.NuclearBall((40, 30), 1.0))
    with pytest.raises(ProblemError, match="over a NuclearBall"):
        run.move(domains.Simplex(3))


def test_a_floor_that_is_too_high_is_seen():
    p = problem(0, radius=8.0)
    result = cg.solve(p, floor=10 * by_arrays(p), max_iter=50)
    assert result.status is Status.CONTRADICTION
    assert result.lower_bound == -np.inf


def test_a_bound_that_was_too_high_once_is_seen(monkeypatch):
    calls = []

    def wrong(V, enough=None):
        calls.append(1)
        top = singular.top_bound(V, enough)
        return top._replace(value=top.value / 3) if len(calls) == 1 else top

    monkeypatch.setattr("condgrad.certificate.factored.top_bound", wrong)
    result = fit(problem(0, radius=8.0), gap=1e-9, max_iter=300)
    assert result.status is Status.CONTRADICTION
    assert result.lower_bound == -np.inf


def test_a_conjugate_that_is_too_small_is_seen():
    class Wrong(functions.Squared):
        def conjugate(self, y, at=cg.maps._base.ALL):
            return super().conjugate(y, at) - 1.0

    i, j, x = ratings(np.random.default_rng(0), (12, 9))
    term = Term(maps.Entries(i, j, (12, 9)), Wrong(x))
    with pytest.raises(ProblemError, match="conjugate"):
        cg.solve(Problem(domains.NuclearBall((12, 9), 5.0), [term]))


def test_numbers_that_overflow_end_the_run():
    class Steep(functions.Squared):
        def derivative(self, z, at=cg.maps._base.ALL):
            return np.full_like(z, np.nan) if z.any() else super().derivative(z, at)

    i, j, x = ratings(np.random.default_rng(0), (12, 9))
    term = Term(maps.Entries(i, j, (12, 9)), Steep(x))
    result = cg.solve(Problem(domains.NuclearBall((12, 9), 5.0), [term]), certify=False)
    assert result.status is Status.NONFINITE
    assert np.isfinite(result.W).all()


def test_records_keep_factors(tmp_path):
    result = fit(problem(0), max_iter=5)
    Record.of(result).save(tmp_path / "run.npz")
    W = Record.load(tmp_path / "run.npz").W
    assert isinstance(W, Factored)
    np.testing.assert_array_equal(W.U, result.W.U)
    np.testing.assert_array_equal(W.dense(), result.W.dense())


# Memory.


def large(shape=(20_000, 15_000), count=3000):
    rng = np.random.default_rng(0)
    flat = rng.choice(shape[0] * shape[1], count, replace=False)
    term = Term(maps.Entries(*np.divmod(flat, shape[1]), shape), functions.Squared(1.0))
    return Problem(domains.NuclearBall(shape, 50.0), [term])


def test_no_array_has_the_shape_of_W():
    p = large()
    fit(problem(0), max_iter=2)  # compiled before
    tracemalloc.start()
    try:
        result = cg.solve(p, max_iter=8)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert isinstance(result.W, Factored)
    assert peak < 20_000 * 15_000 / 2
    needed = memory.require(factored_loop.needs(p), np.inf)
    assert peak < needed < 2 * 20_000 * 15_000
    assert 0 < result.lower_bound <= result.objective


def test_too_little_memory_is_refused(monkeypatch):
    monkeypatch.setattr(memory, "free_memory", lambda: 100 << 20)
    with pytest.raises(MemoryLimit, match=r"factors .* MiB") as error:
        cg.solve(large((3_000_000, 15_000)))
    assert "leave out users and items" in str(error.value)


def test_a_frame_that_does_not_fit_ends_the_run(monkeypatch):
    p = problem(0, (150, 130), radius=1e4)
    run = cg.start(p).advance(iterations=2)
    monkeypatch.setattr(memory, "free_memory", lambda: 1000.0)
    result = run.advance(iterations=50).result()
    assert result.status is Status.OUT_OF_MEMORY
    assert result.objective < p.objective(np.zeros((150, 130)))
