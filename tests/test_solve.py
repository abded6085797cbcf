"""The loop: limits, callbacks, interruption, trace, clock, best point."""

from __future__ import annotations

import numpy as np
import pytest

import condgrad
from condgrad import Problem, ProblemError, Status, StopWhen, Term, Trace, domains, functions, maps
from condgrad.methods import SAG
from condgrad.run.solve import solve
from general import GENERAL, refused

RNG = np.random.default_rng(0)
X, B = RNG.standard_normal((20, 5)), RNG.standard_normal(20)
A = RNG.standard_normal((10, 5))
C = A @ RNG.dirichlet(np.ones(5))  # the middle of the intervals, so that the problem is feasible


def problem(dtype=np.float64, domain=None, **options):
    fit = Term(maps.DataMatrix(X), functions.Squared(B), 0.05, "fit")
    cut = Term(maps.DataMatrix(A), functions.Interval(C - 0.1, C + 0.1), name="cut")
    return Problem(domain or domains.Simplex(5), [fit, cut], dtype=dtype, **options)


def matrix(n=45, dtype=np.float64):
    terms = [
        Term(maps.AllEntries(n), functions.Squared(0.5), name="fit"),
        Term(maps.Diagonal(n), functions.Equal(1.0), name="diag"),
    ]
    return Problem(domains.Spectrahedron(n, float(n)), terms, dtype=dtype)


V2 = condgrad.h_sag_v2(1.0, batch=2)


@pytest.mark.parametrize(
    ("limits", "status", "iterations"),
    [
        ({}, Status.MAX_ITER, 1000),
        ({"max_iter": 7}, Status.MAX_ITER, 7),
        ({"max_lmo": 9}, Status.MAX_LMO, 9),
        ({"max_epochs": 3}, Status.MAX_EPOCHS, 15),  # 2 of 10 composite rows an iteration
        ({"max_epochs": 0.3}, Status.MAX_EPOCHS, 2),
        ({"max_iter": 7, "max_lmo": 5}, Status.MAX_LMO, 5),
        ({"max_iter": 4, "max_epochs": 3, "max_lmo": 5}, Status.MAX_ITER, 4),
        ({"max_iter": 100, "max_epochs": 1, "max_seconds": 1e6}, Status.MAX_EPOCHS, 5),
        ({"max_iter": 0}, Status.MAX_ITER, 0),
        ({"max_epochs": 0}, Status.MAX_EPOCHS, 0),
        ({"max_seconds": 0}, Status.MAX_SECONDS, 0),
        ({"max_lmo": 0}, Status.MAX_LMO, 0),
        ({"max_iter": np.int64(3), "max_seconds": np.inf}, Status.MAX_ITER, 3),
    ],
)
def test_limits(limits, status, iterations):
    result = solve(problem(), V2, **limits)
    assert (result.status, result.iterations) == (status, iterations)
    assert result.lmo_calls == iterations
    assert result.rows == {"fit": 2 * iterations, "cut": 2 * iterations}
    assert result.epochs == pytest.approx(0.2 * iterations)
    assert result.trace["k"][0] == 0
    assert result.trace["k"][-1] == iterations


def test_without_composite_rows_epochs_count_the_loss():
    smooth = Problem(domains.Simplex(5), problem().smooth)
    result = solve(smooth, condgrad.sag_fw(batch=5), max_epochs=2)
    assert (result.status, result.iterations) == (Status.MAX_EPOCHS, 8)
    assert result.infeasibility == 0.0


@pytest.mark.parametrize("answer", [True, np.bool_(True), Status.STOPPED, Status.MAX_EPOCHS])
def test_callback_stops(answer):
    result = solve(problem(), V2, max_iter=50, callbacks=[lambda i: answer if i.k == 6 else None])
    expected = answer if isinstance(answer, Status) else Status.STOPPED
    assert (result.status, result.iterations) == (expected, 6)
    assert result.trace["k"][-1] == 6


@pytest.mark.parametrize("answer", [None, False, 0, 1, "yes", np.bool_(False)])
def test_other_answers_do_not_stop(answer):
    assert solve(problem(), V2, max_iter=5, callbacks=[lambda i: answer]).iterations == 5


def test_callbacks_see_every_iteration_and_all_are_called():
    seen, late = [], []
    watch = [lambda i: i.k == 9, lambda i: seen.append((i.k, i.lmo_calls, i.params.k))]
    solve(problem(), V2, max_iter=20, callbacks=watch)
    assert seen == [(k, k, k) for k in range(1, 10)]
    full = problem()

    def check(info):
        late.append(info.infeasibility)
        assert info.objective == full.objective(info.W)
        assert info.epochs == pytest.approx(0.2 * info.k)

    solve(full, V2, max_iter=5, callbacks=[check])
    assert len(late) == 5


def test_stop_when():
    stop = StopWhen(lambda info: info.k >= 5, every=4)
    result = solve(problem(), V2, max_iter=50, callbacks=[stop])
    assert (result.status, result.iterations) == (Status.STOPPED, 8)
    for every in (0, -1, 1.5, True):
        with pytest.raises(ProblemError, match="every is"):
            StopWhen(lambda info: True, every=every)


def test_keyboard_interrupt_in_a_callback():
    def stop(info):
        if info.k == 7:
            raise KeyboardInterrupt

    result = solve(problem(), V2, max_iter=50, callbacks=[stop])
    assert (result.status, result.iterations) == (Status.INTERRUPTED, 7)
    assert result.trace["k"][-1] == 7
    check_best(problem(), result)


def test_keyboard_interrupt_in_an_estimator(monkeypatch):
    follow = SAG.follow

    def stop(self, s, term, run, p):
        if p.k == 7:
            raise KeyboardInterrupt
        return follow(self, s, term, run, p)

    monkeypatch.setattr(SAG, "follow", stop)
    result = solve(problem(), V2, max_iter=50)
    assert (result.status, result.iterations) == (Status.INTERRUPTED, 6)
    check_best(problem(), result)


def test_keyboard_interrupt_in_the_middle_of_a_step(monkeypatch):
    """A half-made step leaves a point outside the domain, which must never be the answer."""
    blend = condgrad.points.Coordinate.blend
    calls = []

    def stop(self, W, eta):
        calls.append(eta)
        if len(calls) == 9:
            W *= 1 - eta
            raise KeyboardInterrupt
        blend(self, W, eta)

    smooth = [Term(maps.DataMatrix(np.eye(5)), functions.Squared(0.0), name="fit")]
    small = Problem(domains.Simplex(5), smooth)  # the half-made point has the lower objective
    monkeypatch.setattr(condgrad.points.Coordinate, "blend", stop)
    result = solve(small, condgrad.sag_fw(batch=1.0), max_iter=50, record=1, certify=False)
    assert result.status is Status.INTERRUPTED
    assert result.iterations == 8
    assert small.domain.contains(result.W, 1e-9)


class Breaks(functions.Squared):
    """A loss that turns NaN once it has been asked for `left` derivatives."""

    left = 12

    def derivative(self, z, at=slice(None)):
        self.left -= 1
        return super().derivative(z, at) * (1.0 if self.left >= 0 else np.nan)


@pytest.mark.parametrize("n", [6, 45])
@pytest.mark.parametrize("kind", ["spectral", "nuclear", "l2"])
def test_nonfinite_slopes_return_the_best_finite_point(n, kind, capsys):
    balls = {"nuclear": domains.NuclearBall, "l2": domains.L2Ball}
    domain = balls[kind]((n, n), 2.0) if kind in balls else domains.Spectrahedron(n, 2.0)
    terms = [
        Term(maps.AllEntries(n), Breaks(0.3), name="fit"),
        Term(maps.Diagonal(n), functions.Equal(0.1), name="diag"),
    ]
    broken = Problem(domain, terms)
    result = solve(broken, condgrad.hcgm(1.0), max_iter=100, certify=False)
    assert result.status is Status.NONFINITE
    assert 12 <= result.iterations < 30
    assert np.isfinite(result.W).all()
    assert result.best_iteration > 0
    assert domain.contains(result.W, 1e-9)
    check_best(broken, result, last=False)
    assert capsys.readouterr() == ("", "")


def test_nonfinite_oracle_returns_the_best_finite_point():
    calls = []

    def lmo(v):
        calls.append(1)
        return np.where(v > 0, -1.0, 1.0) * (np.nan if len(calls) > 15 else 1.0)

    domain = domains.Oracle(lmo, 5, 2 * np.sqrt(5))
    p = problem(domain=domain)
    result = solve(p, condgrad.hcgm(1.0), max_iter=100, start=np.ones(5), certify=False)
    assert result.status is Status.NONFINITE
    assert np.isfinite(result.W).all()
    assert 0 < result.best_iteration < 15
    assert result.objective == problem().objective(result.W)


def test_metrics_need_not_stand_nan():
    """A metric that refuses NaN does not lose the run."""
    calls = []

    def lmo(v):
        calls.append(1)
        return -np.sign(v) * (np.nan if len(calls) > 9 else 1.0)

    def metric(W):
        return np.linalg.norm(np.asarray_chkfinite(W))

    domain = domains.Oracle(lmo, 5, 2 * np.sqrt(5))
    for record in (1, 1000):
        calls.clear()
        p = problem(domain=domain)
        result = solve(p, V2, metrics={"norm": metric}, record=record, certify=False)
        assert result.status is Status.NONFINITE
        assert np.isfinite(result.metrics["norm"])


def test_nonfinite_start():
    class Never(functions.Squared):
        def value(self, z, at=slice(None)):
            return np.nan

    bad = Problem(domains.Simplex(5), [Term(maps.DataMatrix(X), Never(B))])
    result = solve(bad, condgrad.hcgm(1.0), max_iter=5)
    assert (result.status, result.iterations) == (Status.NONFINITE, 0)


def check_best(p, result, last=True):
    """The result is the point it says, and no worse than any recorded one by the last merit."""
    again = p.evaluate(result.W)
    assert (result.objective, result.infeasibility) == (again.objective, again.infeasibility)
    assert result.families == again.families
    at = list(result.trace["k"]).index(result.best_iteration)
    assert result.trace["objective"][at] == again.objective
    if last:
        beta, end = result.trace["beta"][-1], result.trace.last

        def merit(objective, distances):
            return objective + sum(
                t.weight * distances[t.name] ** 2 / (2 * beta) for t in p.composite
            )

        mine = merit(again.objective, {name: v.l2 for name, v in again.families.items()})
        final = merit(end["objective"], {t.name: end[f"{t.name}.l2"] for t in p.composite})
        assert mine <= final + 1e-12


@pytest.mark.parametrize("slug", [s for s in GENERAL if s != "sag-fw"])
@pytest.mark.parametrize("steps", [0, 1, 37, 200])
def test_best_point(slug, steps):
    p, method = problem(), condgrad.METHODS[slug](0.01)
    if refused(p, method):
        return
    result = solve(p, method, max_iter=steps, record=4)
    check_best(p, result, last=steps > 0 and "cgal" not in slug)  # which has another merit
    assert p.domain.contains(result.W, 1e-9)


def test_best_point_is_not_always_the_last():
    """A noisy method: the best recorded point is kept."""
    found = [
        solve(problem(), condgrad.h_1sfw(1e-3, batch=1), max_iter=60, seed=s, record=40)
        for s in range(5)
    ]
    assert any(r.best_iteration < 60 for r in found)
    for r in found:
        check_best(problem(), r)


def test_trace_columns():
    result = solve(matrix(), condgrad.h_sag_v1(1.0, batch=7), max_iter=60, record=10)
    trace = result.trace
    measures = {f"diag.{kind}" for kind in ("l2", "max", "relative", "scaled", "row")}
    named = {"epochs.fit", "epochs.diag"} | measures
    counts = {"k", "seconds", "epochs", "lmo_calls", "matvecs", "rows"}
    numbers = {"objective", "smoothed", "infeasibility", "eta", "beta", "lower_bound", "gap"}
    assert set(trace) == counts | numbers | named == set(trace.columns)
    assert {len(trace[c]) for c in trace} == {len(trace)}
    for column in ("k", "seconds", "epochs", "rows", "lmo_calls", "matvecs"):
        assert np.all(np.diff(trace[column]) >= 0), column
    assert np.all(np.diff(trace["k"]) >= 1)
    assert trace["matvecs"][-1] == result.matvecs > 60
    k = trace["k"][1:]
    np.testing.assert_array_equal(trace["lmo_calls"][1:], k)
    np.testing.assert_allclose(trace["eta"][1:], 2 / (k + 1))
    np.testing.assert_allclose(trace["beta"][1:], 1 / np.sqrt(k + 1))
    assert np.isnan(trace["eta"][0])
    np.testing.assert_array_equal(trace["rows"][1:], k * (7 + 45))
    np.testing.assert_allclose(trace["epochs"], trace["epochs.diag"])
    np.testing.assert_allclose(trace["epochs.fit"][1:], k * 7 / 45**2)
    np.testing.assert_allclose(trace["diag.l2"], trace["infeasibility"])
    assert np.all(trace["diag.max"] <= trace["diag.l2"])


def test_record_is_rows_per_decade():
    for record in (3, 10, 40):
        k = solve(problem(), V2, max_iter=1000, record=record).trace["k"]
        middle = np.count_nonzero((k > 100) & (k <= 1000))
        assert 0.8 * record <= middle <= 1.1 * record + 1
        assert k[1] == 1


def test_metrics_and_weights():
    p = problem(infeasibility_weights={"cut": 3.0})
    result = solve(p, V2, max_iter=30, metrics={"norm": np.linalg.norm, "first": lambda W: W[0]})
    assert result.metrics == {"norm": np.linalg.norm(result.W), "first": result.W[0]}
    assert len(result.trace["norm"]) == len(result.trace)
    assert result.infeasibility == pytest.approx(3 * problem().infeasibility(result.W))


@pytest.mark.parametrize("suffix", [".csv", ".json", ".npz"])
def test_trace_round_trip(tmp_path, suffix):
    trace = solve(problem(), V2, max_iter=30).trace
    trace.save(tmp_path / f"t{suffix}")
    back = Trace.load(str(tmp_path / f"t{suffix}"))
    assert back.columns == trace.columns
    for column in trace:
        np.testing.assert_array_equal(back[column], trace[column])
    with pytest.raises(ProblemError, match=r"path ends in '\.txt': use"):
        trace.save(tmp_path / "t.txt")
    with pytest.raises(ProblemError, match=r"path ends in '\.txt': use"):
        Trace.load(tmp_path / "t.txt")


def test_to_frame():
    pandas = pytest.importorskip("pandas")
    trace = solve(problem(), V2, max_iter=30).trace
    pandas.testing.assert_frame_equal(
        trace.to_frame(), pandas.DataFrame({c: trace[c] for c in trace.columns})
    )


def test_nothing_is_printed(capsys):
    result = solve(matrix(), V2, max_iter=20)
    assert capsys.readouterr() == ("", "")
    assert "20 iterations" in str(result)
    assert str(Status.MAX_ITER) in str(result)


@pytest.mark.parametrize("slug", [s for s in GENERAL if s != "sag-fw"])
@pytest.mark.parametrize("make", [problem, matrix])
def test_float32_problem(make, slug):
    p = make(dtype=np.float32)
    method = condgrad.METHODS[slug](*([5.0] if condgrad.METHODS[slug].smoothed else []))
    if refused(p, method):
        return
    result = solve(p, method, max_iter=150)
    assert result.W.dtype == np.float32
    assert result.status is Status.MAX_ITER
    assert p.domain.contains(result.W.astype(float), 1e-4)
    again = solve(p, method, max_iter=3, start=result.W)
    assert again.status is Status.MAX_ITER


def test_start_is_used_and_nothing_is_mutated():
    data, start = X.copy(), np.eye(5)[2]
    p = problem()
    result = solve(p, condgrad.most_fw(1.0, batch=3), start=start, max_iter=40)
    assert np.array_equal(start, np.eye(5)[2])
    assert np.array_equal(X, data)
    assert result.trace["objective"][0] == p.objective(start)
    at_rest = solve(p, V2, start=[0.0, 0.0, 1.0, 0.0, 0.0], max_iter=0)
    assert np.array_equal(at_rest.W, start)
    assert not np.shares_memory(at_rest.W, start)
    assert solve(p, V2, start=start.astype(np.float32), max_iter=1).W.dtype == np.float64


def test_seed_none_draws_a_seed_that_repeats_the_run():
    once = solve(problem(), V2, max_iter=40, seed=None)
    other = solve(problem(), V2, max_iter=40, seed=None)
    assert once.seed != other.seed
    again = solve(problem(), V2, max_iter=40, seed=once.seed)
    np.testing.assert_array_equal(once.trace["objective"], again.trace["objective"])
    assert not np.array_equal(once.trace["objective"], other.trace["objective"])
    assert solve(problem(), V2, max_iter=1, seed=5).seed == 5
