"""Lemmas 4.2 and 4.3: the errors of the estimates as a trace records them, and their bounds."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import condgrad as cg
from condgrad import Problem, ProblemError, Status, Term, domains, functions, maps, solve
from condgrad.methods import SAG, Full, table1
from condgrad.theory import constants, diameters, estimator_error

RNG = np.random.default_rng(3)
X, B = RNG.standard_normal((30, 6)), RNG.standard_normal(30)
A = RNG.standard_normal((12, 6))
C = A @ RNG.dirichlet(np.ones(6))  # feasible, as Lemma 4.3 needs
BETA0 = 0.8


def vector(h=None, dtype=np.float64):
    fit = Term(maps.DataMatrix(X), functions.Squared(B), 1 / 30, "fit")
    cut = Term(maps.DataMatrix(A), h or functions.AtMost(C), 1 / 12, "cut")
    return Problem(domains.Simplex(6), [fit, cut], dtype=dtype)


def matrix(weight=2.0):
    at = np.arange(7)
    seen = maps.Entries(at, (at + 2) % 7, 7)
    fit = Term(seen, functions.Logistic(np.where(at % 3, 1.0, -1.0)), 0.5, "fit")
    diag = Term(maps.Diagonal(7), functions.Equal(1.0), weight, "diag")
    return Problem(domains.Spectrahedron(7, 7.0), [fit, diag])


V2 = cg.h_sag_v2(BETA0)
MIXED = cg.most_fw(BETA0).override({"cut": SAG(1)})
PROBLEMS = {
    "vector": vector(),
    "lipschitz": vector(functions.Absolute(C, 2.0)),
    "matrix": matrix(),
}
METHODS = {
    "one": V2,
    "batch": cg.h_sag_v2(BETA0, batch=3),
    "replace": cg.h_sag_v2(BETA0, batch=3, replace=True),
    "warm": cg.h_sag_v2(BETA0, warm_start=True),
    "single": cg.h_sag_v2(BETA0, batch=2, table_dtype=np.float32),
}


def twin(problem, method, K, seed, monkeypatch, **options):
    """Errors at k = 1, …, K from the iterates and the rows drawn by a run that records none."""
    drawn, draw = [], table1.draw
    with monkeypatch.context() as patch:
        patch.setattr(table1, "draw", lambda *a: drawn.append(draw(*a)) or np.array(drawn[-1]))
        points = [problem.domain.center()]

        def stop(info):
            points.append(info.W.copy())
            return info.k == K

        run = solve(problem, method, seed=seed, callbacks=[stop], max_iter=10 * K, **options)
    assert run.status is Status.STOPPED
    out = {t.name: [] for t in problem.terms}
    tables = {t.name: np.zeros(t.map.size) for t in problem.terms}
    for k in range(1, K + 1):
        beta = method.schedule(k).beta
        for t in problem.terms:
            warm = method.estimator(t).warm_start and k == 1
            at = np.arange(t.map.size) if warm else drawn.pop(0)
            y = t.function.slope(t.map.rows(points[k - 1]), beta)
            tables[t.name][at] = y[at]
            out[t.name].append(t.weight * np.abs(y - tables[t.name]).sum())
    assert not drawn
    return out


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", PROBLEMS)
def test_column_is_the_definition(name, method, monkeypatch):
    problem, K = PROBLEMS[name], 40
    expected = twin(problem, METHODS[method], K, 4, monkeypatch)
    monkeypatch.setattr("condgrad.problem.CHUNK", 5)
    trace = solve(problem, METHODS[method], max_iter=K, seed=4, errors=True).trace
    k = trace["k"][1:].astype(int)
    close = {"rtol": 1e-6, "atol": 1e-6} if method == "single" else {"rtol": 1e-9, "atol": 1e-12}
    for t in problem.terms:
        error = trace[f"{t.name}.error"]
        assert np.isnan(error[0])
        assert error[1:].max() > 0
        np.testing.assert_allclose(error[1:], np.array(expected[t.name])[k - 1], **close)


def test_single_precision_problem_and_table(monkeypatch):
    method = cg.h_sag_v2(BETA0, batch=2, table_dtype=np.float32)
    trace = solve(vector(dtype=np.float32), method, max_iter=30, errors=True).trace
    whole = solve(vector(), method, max_iter=30, errors=True).trace
    np.testing.assert_allclose(trace["fit.error"], whole["fit.error"], rtol=1e-3)
    exact = solve(vector(), cg.h_sag_v2(BETA0, batch=1.0, table_dtype=np.float32), errors=True)
    assert 0 < exact.trace["fit.error"][1:].max() < 1e-6  # what the table rounds off


def test_full_has_no_error():
    trace = solve(vector(), cg.hcgm(BETA0), max_iter=50, errors=True).trace
    for name in ("fit.error", "cut.error"):
        assert np.isnan(trace[name][0])
        assert np.all(trace[name][1:] == 0)
    trace = solve(matrix(), cg.h_sag_v1(BETA0), max_iter=50, errors=True).trace
    assert np.all(trace["diag.error"][1:] == 0)
    assert trace["fit.error"][-1] > 0
    trace = solve(vector(), cg.h_sag_v2(BETA0, batch=1.0), max_iter=50, errors=True).trace
    assert trace["cut.error"][1:].max() < 1e-12  # a table of which every row is fresh


def test_columns_are_there_on_request_only():
    def columns(method, **options):
        trace = solve(vector(), method, max_iter=5, **options).trace
        return [c for c in trace if c.endswith(".error")]

    assert columns(V2) == []
    assert columns(V2, errors=True) == ["fit.error", "cut.error"]
    assert columns(MIXED, errors=True) == ["cut.error"]
    assert columns(cg.cgal(BETA0), errors=True) == ["fit.error"]
    for build in (cg.most_fw_plus, cg.h_1sfw, cg.h_spider_fw):
        assert columns(build(BETA0), errors=True) == []
    with pytest.raises(ProblemError, match=r"cut\.error"):
        columns(V2, errors=True, metrics={"cut.error": np.sum})


@pytest.mark.parametrize("method", [*METHODS.values(), cg.most_fw(BETA0), cg.cgal(BETA0)])
@pytest.mark.parametrize("name", PROBLEMS)
def test_the_run_stays_the_same(name, method):
    runs = []
    for errors in (False, True):
        points = []
        look = lambda info, points=points: points.append(info.W.copy())  # noqa: E731
        result = solve(PROBLEMS[name], method, max_iter=60, callbacks=[look], errors=errors)
        runs.append((np.array(points), result))
    (before, plain), (after, more) = runs
    assert np.array_equal(before, after)
    assert np.array_equal(plain.W, more.W)
    assert plain.rows == more.rows
    for column in set(plain.trace) - {"seconds"}:
        np.testing.assert_array_equal(plain.trace[column], more.trace[column])


def test_end_of_a_run(monkeypatch):
    # Stopped between two recorded iterations: the last row is that of iteration 47 all the same.
    expected = twin(vector(), V2, 47, 1, monkeypatch)
    stop = lambda info: info.k == 47  # noqa: E731
    trace = solve(vector(), V2, record=1, callbacks=[stop], seed=1, errors=True).trace
    assert trace["k"].tolist() == [0, 1, 10, 47]
    assert trace["cut.error"][-1] == pytest.approx(expected["cut"][-1])

    class Interrupted(domains.Simplex):
        calls = 0

        def lmo(self, *args, **options):  # the tables of iteration 8 are made, its step is not
            self.calls += 1
            if self.calls == 8:
                raise KeyboardInterrupt
            return super().lmo(*args, **options)

    broken = Problem(Interrupted(6), vector().terms)
    result = solve(broken, V2, record=1, errors=True, certify=False)  # which asks the oracle too
    assert result.status is Status.INTERRUPTED
    assert result.iterations == 7
    assert result.trace["k"].tolist() == [0, 1]


# The bounds


def measured(problem, method, seeds, **options):
    runs = [solve(problem, method, seed=i, errors=True, **options).trace for i in range(seeds)]
    k = runs[0]["k"][1:].astype(int)
    names = [c for c in runs[0] if c.endswith(".error")]
    return k, {c[:-6]: np.mean([t[c][1:] for t in runs], axis=0) for c in names}


@pytest.mark.parametrize("method", sorted(set(METHODS) - {"single"}))
@pytest.mark.parametrize("name", PROBLEMS)
def test_mean_error_is_below_the_lemmas(name, method):
    problem, method = PROBLEMS[name], METHODS[method]
    k, error = measured(problem, method, 10, max_iter=300)
    bound = estimator_error(problem, method, k)
    assert set(bound) == set(error)
    for t in bound:
        assert np.all(error[t] <= bound[t])


# A heavier diagonal holds the other entries back at first: with weight 2, k times their error rises
# from 1 at k = 100 to 3.5 at k = 20,000, a thirteenth of the bound, before the rate shows.
RATES = {**PROBLEMS, "matrix": matrix(0.2)}


@pytest.mark.parametrize("name", RATES)
def test_error_falls_at_the_rate_of_the_lemmas(name):
    k, error = measured(RATES[name], V2, 12, max_iter=3000, record=40)
    late = k >= 150
    for t in RATES[name].terms:
        slope = np.polyfit(np.log(k[late]), np.log(error[t.name][late]), 1)[0]
        assert slope <= (-1.0 if t.function.smooth else -0.5) + 0.1, (t.name, slope)


def test_lemmas_by_hand():
    # The paper's: ω = 1/n and 1/m, one row an iteration.
    k, W = np.array([2, 5, 1000]), np.eye(6)[2]
    D = [diameters(t.map, vector().domain).l1 for t in vector().terms]
    e_f = np.abs(X @ W - B).mean()
    e_g = np.maximum(A @ W - C, 0).mean() / BETA0
    bound = estimator_error(vector(), V2, k, W)
    fresh = (29 / 30) ** k * e_f + 2 / 30 * D[0] * (29 / 30) ** (k / 2) * np.log(k)
    np.testing.assert_allclose(bound["fit"], fresh + 4 * 29 / 30 * D[0] / k)
    tail = 10 * D[1] / BETA0 / np.sqrt(k)
    np.testing.assert_allclose(bound["cut"], (11 / 12) ** k * e_g + 11 / 12 * tail)


def test_bound_of_weights_batches_and_warm_starts():
    one, k = vector(), [1, 7, 500]
    tenfold = Problem(one.domain, [replace(t, weight=10 * t.weight) for t in one.terms])
    bound, ten = estimator_error(one, V2, k), estimator_error(tenfold, V2, k)
    batch, warm = (
        estimator_error(one, METHODS["batch"], k),
        estimator_error(one, METHODS["warm"], k),
    )
    for t in ("fit", "cut"):
        np.testing.assert_allclose(ten[t], 10 * bound[t])
        assert np.all(batch[t] < bound[t])
        assert np.all(warm[t][:2] < bound[t][:2])
        assert np.all(estimator_error(one, cg.h_sag_v2(BETA0, batch=1.0), k)[t] == 0)
    np.testing.assert_array_equal(estimator_error(one, MIXED, k)["cut"], bound["cut"])
    assert list(estimator_error(one, MIXED, k)) == ["cut"]
    assert estimator_error(one, V2.override({"fit": Full(), "cut": Full()}), k) == {}


def test_bounds_make_the_constants_of_the_theorem():
    # Lemma 4.1 with Σ i ε_i D_∞ and these bounds stays below the SAG part of C1, C2 and C3.
    i = np.arange(1, 3001)
    for name in ("vector", "lipschitz"):
        problem = PROBLEMS[name]
        bound, W = estimator_error(problem, V2, i), problem.domain
        total = sum(
            diameters(t.map, W).linf * np.cumsum(2 * i * bound[t.name]) for t in problem.terms
        )
        sampled, whole = constants(problem, V2), constants(problem, cg.hcgm(BETA0))
        assert np.all(total / (i * (i + 1)) <= sampled.gap(i) - whole.gap(i))


def test_refusals():
    with pytest.raises(ProblemError, match=r"which Lemmas 4\.2 and 4\.3 are for"):
        estimator_error(vector(), cg.shcgm(BETA0), [1])
    with pytest.raises(ProblemError, match="ks must hold"):
        estimator_error(vector(), V2, [0])
    with pytest.raises(ProblemError, match="W1 has shape"):
        estimator_error(vector(), V2, [1], np.zeros(2))
