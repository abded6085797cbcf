"""One deadline for a whole call, by a clock that the tests move."""

import numpy as np
import pytest

import condgrad as cg
from condgrad import Status, _deadline, applications
from condgrad.applications.clustering import round_clusters
from condgrad.applications.rounding import round_cut
from condgrad.domains.eigen import lowest_bound
from condgrad.sdp import SDP, _reduce
from condgrad.sdp._dual import Point, certified
from condgrad.sdp._reduce import _by_rows
from condgrad.sklearn import MatrixCompletion, SDPKMeans
from test_solve import V2, problem


def points(n=12):
    return np.random.default_rng(0).standard_normal((n, 2))


def ring(n=8):
    return np.roll(np.eye(n), 1, axis=0) + np.roll(np.eye(n), -1, axis=0)


def distances(n=12):
    X = points(n)
    return np.square(X[:, None] - X[None]).sum(axis=2)


def slow(monkeypatch, clock, where, name, seconds):
    """Let a function take so many seconds; return how often it was called."""
    real, calls = getattr(where, name), []

    def call(*arguments, **options):
        calls.append(clock.now)
        clock.now += seconds
        return real(*arguments, **options)

    monkeypatch.setattr(where, name, call)
    return calls


def test_without_a_limit_nothing_is_asked(clock):
    assert not _deadline.is_set()
    assert _deadline.left() == _deadline.room() == _deadline.share(0.5) == np.inf
    assert _deadline.cost(1e6, 1.0) == 0.0
    assert _deadline.fits(1e9)


def test_a_limit_an_end_and_what_is_between(clock):
    with _deadline.within(10.0):
        assert _deadline.left() == pytest.approx(10, abs=0.01)
        assert _deadline.room() == pytest.approx(12.5, abs=0.01)
        assert _deadline.fits(12.0)
        assert not _deadline.fits(13.0)
        clock.now += 10.5
        assert _deadline.over()
        assert _deadline.share(0.5) - clock.now == pytest.approx(1.0, abs=0.01)
    assert not _deadline.is_set()


def test_calls_inside_can_only_make_it_earlier(clock):
    with _deadline.within(10.0):
        with _deadline.within(100.0):
            assert _deadline.left() < 10
        with _deadline.within(1.0):
            assert _deadline.left() < 1
        with _deadline.within(None), _deadline.within("a word"), _deadline.within(-1):
            assert 9 < _deadline.left() < 10  # refused elsewhere
        assert 9 < _deadline.left() < 10


def test_a_limit_can_begin_before(clock):
    began = clock()
    clock.now += 3.0
    with _deadline.within(5.0, since=began):
        assert _deadline.left() == pytest.approx(2, abs=0.01)


def test_a_function_is_held_to_its_argument(clock):
    @_deadline.limited
    def left(first, max_seconds=7.0, **more):
        return _deadline.left()

    @_deadline.limited
    def other(**limits):
        return _deadline.left()

    assert left(1) == pytest.approx(7, abs=0.01)
    assert left(1, 3.0) == left(1, max_seconds=3.0) == pytest.approx(3, abs=0.01)
    assert left(1, None) == other() == np.inf
    assert other(max_seconds=2) == pytest.approx(2, abs=0.01)


def test_a_large_product_is_not_in_time(clock):
    with _deadline.within(1.0):
        assert not _deadline.fits(_deadline.cost(1e7, 1.0))
        assert _deadline.fits(_deadline.cost(10, 1.0))


def test_compiling_counts(monkeypatch, clock):
    """The clock of the trace leaves it out, the limit does not."""
    compiled = [0.0]

    def seconds():
        return compiled[0]

    monkeypatch.setattr("condgrad.run.limits.compile_seconds", seconds)

    def compiling(info):
        compiled[0] += 1.0
        clock.now += 1.0

    result = cg.solve(problem(), V2, max_seconds=5.0, callbacks=[compiling])
    assert result.status is Status.MAX_SECONDS
    assert result.iterations == 5
    assert result.seconds < 0.1


def test_a_last_certificate_is_planned_for(monkeypatch, clock):
    calls = slow(monkeypatch, clock, cg.Method, "measure", 3.0)
    result = cg.solve(problem(), V2, max_seconds=10.0, record=5)
    assert result.status is Status.MAX_SECONDS
    assert calls[-1] + 3.0 <= clock.now < 12.5
    assert np.isfinite(result.lower_bound)


def test_without_time_for_it_the_last_good_bound_stands(monkeypatch, clock):
    calls = slow(monkeypatch, clock, cg.Method, "measure", 3.0)

    def late(info):
        clock.now += 11.0 if info.k == 2 else 0.0

    result = cg.solve(problem(), V2, max_seconds=10.0, callbacks=[late])
    assert result.status is Status.MAX_SECONDS
    assert len(calls) == 1
    assert np.isfinite(result.lower_bound)
    assert result.iterations == 2


def test_no_time_to_begin(monkeypatch, clock):
    slow(monkeypatch, clock, cg.run.loop, "first_point", 9.0)
    result = cg.solve(problem(), V2, max_seconds=5.0, floor=-1e9)
    assert result.status is Status.MAX_SECONDS
    assert result.iterations == 0
    assert -1e9 <= result.lower_bound <= result.objective
    assert problem().domain.contains(result.W)
    assert result.objective == pytest.approx(problem().objective(result.W))
    assert len(result.trace) == 1
    assert "time" in str(result)


def test_what_is_known_beforehand_needs_no_time(monkeypatch, clock):
    slow(monkeypatch, clock, cg.run.monitor.Monitor, "_measured", 9.0)
    calls = slow(monkeypatch, clock, cg.Method, "measure", 3.0)
    result = cg.solve(problem(), V2, max_seconds=5.0, floor=-1e9)
    assert result.status is Status.MAX_SECONDS
    assert not calls
    assert result.lower_bound >= -1e9


def test_a_run_can_be_advanced_after_its_limit(clock):
    run = cg.start(problem(), V2)
    k = run.advance(seconds=0.01).state.k
    assert run.advance(iterations=5).state.k == k + 5


def test_rows_bound_an_eigenvalue():
    V = np.random.default_rng(0).standard_normal((90, 90))
    V += V.T
    assert _by_rows(V) <= np.linalg.eigvalsh(V)[0]
    assert _by_rows(np.diag([1.0, -2.0])) == pytest.approx(-2)


@pytest.mark.parametrize("seconds", [0.0, 1e-9])
def test_doors_answer_without_any_time(seconds, clock):
    clock.tick = 1.0
    cut = cg.sparsest_cut(ring(), max_seconds=seconds)
    assert len(cut.partition[0]) > 0
    assert cut.value >= cut.bound
    top = cg.max_cut(ring(7), max_seconds=seconds)
    assert top.value <= top.bound
    model = SDPKMeans(3, max_seconds=seconds).fit(points())
    assert set(model.labels_) == {0, 1, 2}
    assert model.certificate_.status is Status.MAX_SECONDS
    solution = SDP(np.diag([1.0, 2.0])).subject_to(np.eye(2), "==", 1.0).solve(max_seconds=seconds)
    assert solution.status in (Status.MAX_SECONDS, Status.CONVERGED)
    assert solution.bound <= 1.0


def test_the_recommender_has_a_limit(clock):
    rng = np.random.default_rng(0)
    X = np.where(rng.random((30, 20)) < 0.7, rng.integers(1, 6, (30, 20)), np.nan)
    whole = MatrixCompletion().fit(X)
    assert whole.result_.status is Status.CONVERGED
    clock.tick = 1.0
    short = MatrixCompletion(max_seconds=5.0).fit(X)
    assert short.result_.status is Status.MAX_SECONDS
    assert len(short.path_) < len(whole.path_)
    assert np.isfinite(short.completed_).all()
    with pytest.raises(cg.ProblemError, match="max_seconds"):
        MatrixCompletion(max_seconds=-1).fit(X)


def test_rounding_does_with_less(clock):
    A, C = ring(9), distances()
    free = round_cut(A, np.eye(9)), round_clusters(C, np.eye(12), 3)
    clock.tick = 1.0
    with _deadline.within(1.0):
        cut, clusters = round_cut(A, np.eye(9)), round_clusters(C, np.eye(12), 3)
    assert cut.value >= free[0].value
    assert clusters.value >= free[1].value
    assert set(clusters.labels) == {0, 1, 2}


def test_a_dense_matrix_that_takes_too_long_stays_a_factor(monkeypatch, clock):
    assert type(applications.max_cut(ring(9))) is applications.Application
    monkeypatch.setattr(applications.max_cut.__globals__["deadline"], "cost", lambda n, c: 1e9)
    with _deadline.within(60.0):
        found = applications.max_cut(ring(9))
    assert type(found).__name__ == "LargeMaxCut"
    assert found.run(gap=1e-2, max_seconds=60.0).rounded.value == -8.0


def test_limits_do_not_change_what_ends_before():
    C = distances(20)
    free = applications.kmeans(C, 3).run(gap=1e-3, max_iter=50)
    held = applications.kmeans(C, 3).run(gap=1e-3, max_iter=50, max_seconds=1e6)
    np.testing.assert_array_equal(free.result.W, held.result.W)
    assert free.result.lower_bound == held.result.lower_bound
    assert free.rounded.value == held.rounded.value


def small_program():
    """min ⟨C, W⟩ with Tr W = 1: the optimum is the smallest eigenvalue of C, −1."""
    return SDP(np.array([[0.0, 1.0], [1.0, 0.0]])).subject_to(np.eye(2), "==", 1.0)


def test_the_chance_of_eigenvalues_is_that_of_an_sdp(monkeypatch):
    monkeypatch.setattr(_reduce, "lowest_bound", lambda V: (lowest_bound(V)[0], 1e-10))
    found = small_program().solve()
    assert found.bound <= -1
    assert found.bound_failure >= 1e-10
    assert found.bound_kind == "probabilistic"
    assert "wrong with probability" in found.summary()


def test_rows_bound_an_eigenvalue_that_takes_too_long(monkeypatch):
    monkeypatch.setattr(_reduce.Reduced, "eigenvalue", lambda self, V: _by_rows(V))
    found = small_program().solve()
    assert found.value == pytest.approx(-1, abs=1e-2)
    assert -1.1 < found.bound <= -1


def test_multipliers_that_are_too_large_prove_nothing():
    sdp = SDP(np.array([[0.0, 1.0], [1.0, 0.0]])).subject_to(1e200 * np.eye(2), "==", 1.0)
    with np.errstate(all="ignore"):
        found = certified(_reduce.Reduced(sdp), Point(np.array([1e150])), None, 1.0)
    assert found.within == found.bound == -np.inf
