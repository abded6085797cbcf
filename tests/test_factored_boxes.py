"""W as factors with constraints and regularisers: boxes on all entries, and terms on given ones."""

import tracemalloc

import numpy as np
import pytest

import condgrad as cg
from condgrad import Problem, Status, Term, domains, functions, maps
from condgrad.applications import matrix_completion
from condgrad.methods import FactoredApg, factored_apg
from condgrad.points import Factored
from condgrad.points import factored as points
from factored_problems import LOSSES, fit, problem, ratings


def boxed(seed=0, shape=(14, 11), radius=9.0, kind="box", loss="squared", dtype=np.float64):
    """Losses on some entries, and something else on all or on given ones."""
    p, (i, j, x) = problem(seed, shape, loss, radius), ratings(np.random.default_rng(seed), shape)
    everywhere_, given = maps.AllEntries(shape), maps.Entries(i[::2], j[::2], shape)
    more = {
        "box": Term(everywhere_, functions.Interval(-0.6, 0.8), name="box"),
        "half": Term(everywhere_, functions.AtLeast(-0.3), name="half"),
        "given": Term(given, functions.Interval(x[::2] - 0.1, x[::2] + 0.2), name="given"),
        "norm": Term(maps.Scaled(given, 2.0), functions.L1(0.3), name="norm"),
        "weight": Term(everywhere_, functions.Interval(-0.6, 0.8), weight=7.0, name="box"),
    }
    return Problem(p.domain, [*p.terms, more[kind]], dtype=dtype)


def both(seed, shape=(9, 7), radius=5.0):
    p, (i, j, _) = boxed(seed, shape, radius), ratings(np.random.default_rng(seed + 1), shape)
    norm = Term(maps.Entries(i, j, shape), functions.L1(0.2), name="norm")
    return Problem(p.domain, [*p.terms, norm])


def by_arrays(p, gap=1e-5):
    """The proven optimum of the loop of arrays."""
    found = cg.solve(p, cg.pdhg(), gap=gap, feasibility=gap, max_iter=20_000)
    assert found.status is Status.CONVERGED
    return found


@pytest.mark.parametrize("loss", ["squared", "huber"])
@pytest.mark.parametrize("kind", ["box", "half", "given", "norm", "weight"])
def test_the_optimum_of_arrays(kind, loss):
    p = boxed(1, kind=kind, loss=loss, radius=30.0 if kind == "given" else 9.0)
    result, best = fit(p, gap=1e-4, feasibility=1e-5, max_iter=5000), by_arrays(p)
    assert (result.method, result.status) == (FactoredApg.name, Status.CONVERGED)
    assert result.lower_bound <= best.objective + 2e-5 * abs(best.objective)
    assert result.objective == pytest.approx(best.objective, rel=3e-4, abs=1e-5)
    assert result.infeasibility == pytest.approx(p.infeasibility(np.asarray(result.W)), abs=1e-9)
    assert np.linalg.norm(np.asarray(result.W), "nuc") <= p.domain.radius * (1 + 1e-9)


def test_a_converged_bound_is_within_the_gap_of_the_optimum():
    p = boxed(1, kind="half")
    result, best = fit(p, gap=1e-2, feasibility=1e-2), by_arrays(p)
    assert result.status is Status.CONVERGED
    assert best.lower_bound - result.lower_bound <= 1e-2 * best.objective


def test_several_terms_and_a_linear_loss():
    for p in (both(3), boxed(2, loss="linear")):
        result, best = fit(p, gap=1e-4, feasibility=1e-5, max_iter=5000), by_arrays(p)
        assert result.status is Status.CONVERGED
        assert result.objective == pytest.approx(best.objective, rel=3e-4)


@pytest.mark.parametrize("seed", range(24))
def test_bounds_lie_below_the_optimum(seed, monkeypatch):
    """After one to forty iterations, whatever the tables have."""
    rng = np.random.default_rng(seed)
    monkeypatch.setattr(factored_apg, "LEAST_NEW_ENTRIES", int(rng.integers(1, 20)))
    shape = tuple(int(x) for x in rng.integers(2, 9, 2))
    radius, loss = float(rng.uniform(0.5, 6)), list(LOSSES)[seed % 4]
    kind = ["box", "half", "norm", "weight"][seed // 4 % 4]
    p = boxed(seed, shape, radius, kind, loss)
    result = fit(p, max_iter=int(rng.integers(1, 41)))
    best = by_arrays(p)
    assert np.isfinite(result.lower_bound)
    assert result.lower_bound <= best.objective + 2e-5 * abs(best.objective)


def test_a_box_without_a_solution():
    """Entries between 1 and 2 need a nuclear norm of √(nm) at least."""
    shape = (40, 30)
    p = problem(0, shape, radius=0.9 * np.sqrt(1200))
    box = Term(maps.AllEntries(shape), functions.Interval(1.0, 2.0), name="box")
    result = fit(Problem(p.domain, [*p.terms, box]), gap=1e-3, max_iter=3000)
    assert result.status is Status.INFEASIBLE
    assert result.lower_bound == np.inf


def test_a_box_that_nothing_misses():
    p = boxed(0)
    wide = Term(maps.AllEntries((14, 11)), functions.Interval(-50.0, 50.0), name="box")
    result = fit(Problem(p.domain, [p.terms[0], wide]), gap=1e-6, max_iter=3000)
    alone = fit(Problem(p.domain, [p.terms[0]]), gap=1e-6, max_iter=3000)
    assert result.status is Status.CONVERGED
    assert result.objective == pytest.approx(alone.objective, rel=3e-6)
    assert result.infeasibility == 0.0


def test_single_precision():
    p, best = boxed(6, (40, 30), 20.0, dtype=np.float32), by_arrays(boxed(6, (40, 30), 20.0))
    result = fit(p, gap=1e-3, max_iter=3000)
    assert result.W.dtype == np.float32
    assert result.status is Status.CONVERGED
    assert result.lower_bound <= best.objective * (1 + 2e-5)


# Entries that are looked at.


def point(rng, shape=(37, 23), rank=3):
    return Factored(
        rng.standard_normal((shape[0], rank)), np.ones(rank), rng.standard_normal((shape[1], rank))
    )


@pytest.mark.parametrize("chunk", [7, 23, 100, 10_000])
def test_all_entries_are_looked_at(chunk, monkeypatch):
    monkeypatch.setattr(maps.AllEntries, "chunk", chunk)
    W = point(np.random.default_rng(0))
    term = Term(maps.AllEntries(W.shape), functions.Interval(-1.0, 1.5))
    array = W.dense()
    bad = np.flatnonzero((array < -1.0) | (array > 1.5))
    missed, places = factored_apg.look(term, W, 1.0, 0)
    np.testing.assert_array_equal(places, bad)
    assert missed == bad.size
    expected = term.violation(array, 4.0)
    np.testing.assert_allclose(term.violation(W, 4.0), expected, rtol=1e-9)
    np.testing.assert_allclose(maps.AllEntries(W.shape).rows(W), array.reshape(-1))
    some = np.array([3, 400, 3, 850])
    np.testing.assert_allclose(maps.AllEntries(W.shape).rows(W, some), array.reshape(-1)[some])


def test_a_share_of_those_that_miss_is_chosen():
    W = point(np.random.default_rng(1), (300, 200))
    term = Term(maps.AllEntries(W.shape), functions.Interval(-0.5, 0.5))
    _, everyone = factored_apg.look(term, W, 1.0, 0)
    (_, some), (_, others) = (factored_apg.look(term, W, 0.1, seed) for seed in (1, 2**63 - 1))
    for chosen in (some, others):
        assert np.isin(chosen, everyone).all()
        assert abs(chosen.size - 0.1 * everyone.size) < 5 * np.sqrt(0.1 * everyone.size)
    assert np.isin(some, others).mean() < 0.2
    rows = np.bincount(some // 200, minlength=300)
    assert rows.max() < 40  # no row of W has more than its share of 20


# What `solve`, applications and checkpoints make of it.


def test_solve_takes_factors_where_arrays_are_large(monkeypatch):
    p = boxed(0)
    assert cg.solve(p, max_iter=3).method != FactoredApg.name
    monkeypatch.setattr(points, "SHOWN", 100)
    result = cg.solve(p, gap=1e-3)
    assert (result.method, result.status) == (FactoredApg.name, Status.CONVERGED)
    assert isinstance(result.W, Factored)
    assert result.rows["box"] > p.terms[1].map.size
    assert result.trace["box.max"][-1] == result.families["box"].max
    for how in ({"duals": True}, {"propose": lambda W: None}):
        assert cg.solve(p, max_iter=3, **how).method != FactoredApg.name


def test_the_application_keeps_factors_of_large_matrices(monkeypatch):
    monkeypatch.setattr(points, "SHOWN", 100)
    rng = np.random.default_rng(0)
    i, j = np.divmod(rng.permutation(30 * 20)[:250], 20)
    x = rng.integers(1, 6, 250).astype(float)
    application = matrix_completion(
        i[:200], j[:200], x[:200], (30, 20), test=(i[200:], j[200:], x[200:])
    )
    run = application.run(gap=1e-2)
    assert (run.status, run.slug) == (Status.CONVERGED, "factors")
    assert isinstance(application.start, Factored)
    assert isinstance(run.result.W, Factored)
    assert run.result.metrics["test_rmse"] > 0
    dense = matrix_completion(i[:200], j[:200], x[:200], (30, 20)).run("pdhg", gap=1e-3)
    assert run.objective == pytest.approx(dense.objective, rel=2e-2)
    with pytest.raises(cg.ProblemError, match="batch"):
        application.run(batch=5, max_iter=3)


def test_runs_are_the_same_bit_for_bit(tmp_path, monkeypatch):
    monkeypatch.setattr(points, "SHOWN", 100)
    monkeypatch.setattr(maps.AllEntries, "chunk", 500)
    p = boxed(0, (150, 130), 60.0)
    one = fit(p, max_iter=25)
    others = [fit(p, max_iter=25, certify=False), fit(p, max_iter=25, n_jobs=2)]
    run = cg.start(p).advance(iterations=13)
    run.save(tmp_path / "run.ckpt")
    others.append(run.advance(iterations=12).result())
    others.append(cg.resume(tmp_path / "run.ckpt", p).advance(iterations=12).result())
    for other in others:
        np.testing.assert_array_equal(one.W.U, other.W.U)
        np.testing.assert_array_equal(one.W.s, other.W.s)
        assert one.rows == other.rows
    assert not np.array_equal(one.W.U, fit(p, max_iter=25, seed=1).W.U)


def test_going_on_over_a_larger_ball(monkeypatch):
    p = boxed(0, (40, 30), 10.0)
    monkeypatch.setattr(points, "SHOWN", 100)
    run = cg.start(p).advance(iterations=60)
    run.move(domains.NuclearBall((40, 30), 20.0)).advance(iterations=300)
    expected = by_arrays(Problem(domains.NuclearBall((40, 30), 20.0), p.terms))
    assert run.result().objective == pytest.approx(expected.objective, rel=1e-3)


def test_no_array_has_the_shape_of_W():
    shape = n, m = (5000, 4000)
    rng = np.random.default_rng(0)
    i, j = np.divmod(np.sort(rng.choice(n * m, 20_000, replace=False)), m)
    x = rng.integers(1, 6, i.size).astype(float)
    fit(boxed(0), max_iter=2)  # compiled before
    tracemalloc.start()
    try:
        run = matrix_completion(i, j, x, shape).run(max_iter=3)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert isinstance(run.result.W, Factored)
    assert peak < 8 * n * m / 2
    assert np.isfinite(run.bound)
