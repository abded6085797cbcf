"""W as factors: points, steps, bounds and optima over a nuclear ball."""

from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp

from condgrad import Problem, Status, Term, domains, functions, maps
from condgrad.backends import threads
from condgrad.domains import singular
from condgrad.errors import ProblemError
from condgrad.maps.pattern import Pattern
from condgrad.methods import FactoredApg
from condgrad.methods.protocol import Known
from condgrad.points import Factored
from factored_problems import LOSSES, ball, by_arrays, fit, problem, ratings

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
    np.testing.assert_allclose(rows.rows(W), rows.rows(array))
    np.testing.assert_allclose(rows.rows(W, slice(1, 2)), rows.rows(array)[1:])
    zero = Factored.zeros((3, 2))
    assert not zero.dense().any()
    assert not zero.entries([0, 1], [1, 1]).any()


def test_entries_by_threads(monkeypatch):
    rng = np.random.default_rng(1)
    W = Factored(rng.standard_normal((30, 3)), np.ones(3), rng.standard_normal((20, 3)))
    i, j = rng.integers(30, size=500), rng.integers(20, size=500)
    monkeypatch.setattr(threads, "share", partial(threads.share, worth=7))
    with threads.using(3):
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


def gradient(p, W):
    """∇f as a sparse matrix on the entries that are read."""
    entries = p.terms[0].map
    return Pattern([entries]).matrix(p.terms[0].gradient(W.dense(), 1.0)[entries.positions()])


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("shape", [(12, 9), (5, 40), (30, 3), (1, 6), (6, 1), (1, 1)])
def test_a_step_is_the_projection(seed, shape):
    rng = np.random.default_rng(seed)
    radius = float(rng.uniform(1, 8))
    p = problem(seed, shape, radius=radius)
    start = Factored.of(ball(rng.standard_normal(shape), 0.9 * radius))
    method = FactoredApg()
    state = method.init(p, start, rng, Known())
    for _ in range(2):
        state = method.step(p, state)
    one, two, X = state.before, state.W, gradient(p, state.W)
    found, inner = method._projected(p, state, X, 0.5, 1.7)
    expected = two.dense() + 0.5 * (two.dense() - one.dense()) - X.compressed().toarray() / 1.7
    np.testing.assert_allclose(found.dense(), ball(expected, radius), atol=1e-9)
    assert inner == pytest.approx(np.vdot(found.dense(), expected), abs=1e-8)


def test_a_frame_that_is_narrow_finds_the_projection_in_a_few_steps():
    """A few products of a small frame are as good as all singular vectors."""
    rng = np.random.default_rng(3)
    p = problem(3, (150, 130), radius=60.0)
    method = FactoredApg(small=0, guard=6)
    state = method.init(p, Factored.zeros((150, 130)), rng, Known())
    X = gradient(p, state.W)
    for _ in range(60):
        found, _ = method._projected(p, state, X, 0.0, 0.2)
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
    """By a formula, which is exact for squares, and for the squares of a Huber loss."""
    for loss in ("squared", "huber"):
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


def test_rounding_in_single_precision_contradicts_nothing():
    p = problem(5, (200, 160), radius=70.0, dtype=np.float32)
    assert fit(p, max_iter=40).status is Status.MAX_ITER


def test_many_small_columns_by_lanczos(monkeypatch):
    """The bound of a large side, here of a small one, and the sum of its chances."""
    monkeypatch.setattr(singular, "LARGE", 10)
    p = problem(7, (60, 50), radius=25.0)
    result = fit(p, gap=1e-5, max_iter=2000)
    assert result.status is Status.CONVERGED
    assert result.bound_kind == "probabilistic"
    assert 1e-10 <= result.bound_failure <= 1e-8
    assert result.lower_bound <= by_arrays(p) * (1 + 1e-9)
