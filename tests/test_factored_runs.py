"""W as factors: what `solve` does with it, limits, starts, what is refused, and memory."""

import tracemalloc

import numpy as np
import pytest

import condgrad as cg
from condgrad import Problem, Status, Term, domains, functions, maps
from condgrad.backends import memory
from condgrad.domains import singular
from condgrad.errors import MemoryLimit, ProblemError
from condgrad.methods import FactoredApg
from condgrad.points import Factored
from condgrad.points import factored as points
from condgrad.record import Record
from factored_problems import by_arrays, fit, problem, ratings


def test_solve_takes_factors_where_it_can(monkeypatch):
    p = problem(0)
    result = cg.solve(p, gap=1e-6)
    assert (result.method, result.status) == (FactoredApg.name, Status.CONVERGED)
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
        assert result.method != FactoredApg.name
        assert isinstance(result.W, np.ndarray)
    norm = Term(maps.AllEntries((12, 9)), functions.L1(0.1))
    with pytest.raises(ProblemError, match="not over a NuclearBall with separable terms"):
        fit(Problem(p.domain, [*p.terms, norm]))


def test_limits_status_and_trace(clock):
    p = problem(0, (40, 30), radius=30.0)
    result = cg.solve(p, max_iter=7)
    assert (result.status, result.iterations, result.epochs) == (Status.MAX_ITER, 7, 7.0)
    assert result.lmo_calls == 7
    assert result.matvecs >= 14
    assert list(result.trace["k"]) == [0, 1, 2, 3, 4, 5, 6, 7]
    assert np.all(np.diff(result.trace["lower_bound"]) >= 0)
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
    real = FactoredApg._projected

    def stop(*given):
        calls.append(1)
        if len(calls) == 9:
            raise SystemError("kernel") from KeyboardInterrupt()
        return real(*given)

    def press(info):
        if info.k == 5:
            raise KeyboardInterrupt

    if where == "kernel":
        monkeypatch.setattr(FactoredApg, "_projected", stop)
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

    monkeypatch.setattr("condgrad.methods.factored_apg.top_bound", wrong)
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
    assert peak < FactoredApg().memory(p) + memory.OTHER < 2 * 20_000 * 15_000
    assert 0 < result.lower_bound <= result.objective


def test_too_little_memory_is_refused(monkeypatch):
    monkeypatch.setattr(memory, "free_memory", lambda: 100 << 20)
    with pytest.raises(MemoryLimit, match=r"needs .* of memory, but 100 MiB") as error:
        cg.solve(large((3_000_000, 15_000)))
    assert "leave out users and items" in str(error.value)


def test_a_shortage_of_memory_ends_the_run_with_the_best_point(monkeypatch):
    p = problem(0, (150, 130), radius=1e4)
    run = cg.start(p).advance(iterations=2)

    def none(*given):
        raise MemoryError

    monkeypatch.setattr(FactoredApg, "_framed", none)
    result = run.advance(iterations=50).result()
    assert result.status is Status.OUT_OF_MEMORY
    assert result.objective < p.objective(np.zeros((150, 130)))
