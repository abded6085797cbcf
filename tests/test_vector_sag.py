"""The compiled iterations for vectors are those of Table 1, only faster."""

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp

import condgrad as cg
from condgrad import Problem, Status, Term, domains, functions, maps, solve
from condgrad.backends import backend, ops
from condgrad.methods import SAG, ConditionalGradient, Full, homotopy, sampling, vector_sag
from condgrad.methods.sampling import draw, draw_many
from condgrad.problem import RANGE
from condgrad.schedules import Constant, Power, Schedule, values

pytestmark = pytest.mark.skipif(backend() != "numba", reason="there is no compiled form")

SAME = ("k", "epochs", "rows", "lmo_calls", "matvecs", "eta", "beta", "epochs.f")
CLOSE = ("objective", "lower_bound", "smoothed")


def problem(loss="logistic", domain="ball", dense=False, dtype=np.float64, n=120, d=150, scale=1.0):
    rng = np.random.default_rng(3)
    X = sp.random_array((n, d), density=0.06, rng=rng, data_sampler=rng.standard_normal).tocsr()
    truth = np.where(rng.random(d) < 0.1, rng.standard_normal(d), 0.0)
    z = X @ truth + 0.1 * rng.standard_normal(n)
    function = {
        "logistic": functions.Logistic(np.where(z > 0, 1.0, -1.0)),
        "squared": functions.Squared(z),
        "huber": functions.Huber(z, 0.2),
        "linear": functions.Linear(z),
        "zero": functions.Squared(0.5),
    }[loss]
    domain = {"ball": domains.L1Ball(d, 5.0), "simplex": domains.Simplex(d, 2.0)}[domain]
    map = maps.DataMatrix(X.toarray() if dense else X)
    return Problem(domain, [Term(map, function, scale / n)], dtype=dtype)


@pytest.fixture
def calls(monkeypatch):
    """How many iterations each compiled call made."""
    kernel, made = ops.vector_sag, []

    def counted(*args):
        kernel(*args)
        made.append(int(args[-1][0]))

    monkeypatch.setitem(ops.__dict__, "vector_sag", counted)
    return made


def generic(*args, **options):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ConditionalGradient, "on", lambda method, problem: method)
        return solve(*args, **options)


def check_same(a, b, tol=1e-9):
    assert a.status == b.status
    assert (a.iterations, a.epochs, a.rows) == (b.iterations, b.epochs, b.rows)
    assert (a.lmo_calls, a.matvecs) == (b.lmo_calls, b.matvecs)
    assert a.trace.columns == b.trace.columns
    for name in SAME:
        assert np.allclose(a.trace[name], b.trace[name], rtol=1e-12, equal_nan=True), name
    for name in CLOSE:
        ours, theirs = np.array(a.trace[name]), np.array(b.trace[name])
        assert np.allclose(ours, theirs, rtol=tol, atol=tol, equal_nan=True), name
    assert a.lower_bound == pytest.approx(b.lower_bound, rel=tol, abs=tol)
    if tol < 1e-6:
        assert np.allclose(a.W, b.W, rtol=tol, atol=tol)


@pytest.mark.parametrize("loss", ["logistic", "squared", "huber", "linear", "zero"])
@pytest.mark.parametrize("domain", ["ball", "simplex"])
@pytest.mark.parametrize("dense", [False, True], ids=["csr", "dense"])
@pytest.mark.parametrize("batch", [1, 10, 0.05, 0.7])
def test_equals_the_generic_loop(calls, loss, domain, dense, batch):
    case, method = problem(loss, domain, dense), cg.sag_fw(batch=batch)
    check_same(solve(case, method, max_iter=600), generic(case, method, max_iter=600))
    assert sum(calls) == 600
    assert len(calls) < 100


@pytest.mark.parametrize("loss", ["logistic", "squared"])
@pytest.mark.parametrize("domain", ["ball", "simplex"])
@pytest.mark.parametrize("batch", [1, 10, 0.05])
def test_single_precision(calls, loss, domain, batch):
    case, method = problem(loss, domain, dtype=np.float32), cg.sag_fw(batch=batch)
    ours = solve(case, method, max_iter=1000)
    assert ours.W.dtype == np.float32
    check_same(ours, generic(case, method, max_iter=1000), tol=1e-2)
    assert sum(calls) == 1000


def test_rounding_in_single_precision_contradicts_no_bound():
    """A linear loss is solved by one step, and the bound is the optimum to more digits."""
    case = problem("linear", "simplex", dtype=np.float32)
    result = solve(case, cg.sag_fw(warm_start=True), max_iter=300)
    assert (result.status, result.iterations) == (Status.MAX_ITER, 300)
    assert result.gap < 1e-6


@pytest.mark.parametrize(
    "method",
    [
        cg.h_sag_v1(beta0=2.0, batch=3),
        cg.h_sag_v2(beta0="auto"),
        cg.sag_fw(batch=5, replace=True),
        cg.sag_fw(warm_start=True),
        cg.sag_fw(table_dtype=np.float32),
        cg.hcgm().override({"f": SAG(batch=2)}),
        ConditionalGradient(SAG(), Full(), Schedule(Constant(0.3), Power(1, 1, 0.5))),
        ConditionalGradient(SAG(), Full(), Schedule(lambda k: 2 / (k + 1), Power(1, 1, 0.5))),
    ],
    ids=["v1", "auto", "replace", "warm", "options", "override", "constant", "callable"],
)
def test_methods(calls, method):
    tol = 1e-9 if method.estimators or method.smooth.table_dtype is np.float64 else 1e-5
    case = problem("squared")
    check_same(solve(case, method, max_iter=700), generic(case, method, max_iter=700), tol)
    assert sum(calls) == 700


@pytest.mark.parametrize(
    "options",
    [
        {"max_iter": 1},
        {"max_iter": 777},
        {"max_iter": 0},
        {"max_epochs": 3.3},
        {"max_epochs": 5},
        {"max_lmo": 61},
        {"max_iter": 500, "record": 3},
        {"max_iter": 100, "record": 500},
        {"max_iter": 500, "certify": False},
        {"gap": 0.3, "max_iter": 3000},
        {"max_iter": 300, "metrics": {"top": np.max}},
        {"max_iter": 300, "seed": 17, "start": np.eye(150)[7]},
        {"max_iter": 200, "propose": lambda W: W, "gap": 1e-9},
    ],
    ids=lambda options: " ".join(options),
)
@pytest.mark.parametrize("batch", [1, 7])
def test_options_and_limits(options, batch):
    case, method = problem("squared"), cg.sag_fw(batch=batch)
    check_same(solve(case, method, **options), generic(case, method, **options))


def test_time_ends_it_after_a_whole_call(calls, monkeypatch, clock):
    monkeypatch.setattr(vector_sag, "WORK", 10_000)
    result = solve(problem(), cg.sag_fw(), max_seconds=0.05, record=1)
    assert result.status is Status.MAX_SECONDS
    assert result.seconds <= 0.05 <= clock.now < 0.06
    assert result.iterations == sum(calls) == result.rows["f"]
    assert max(calls) <= 1000


def test_the_same_seed_gives_the_same_run_whatever_the_clock_says():
    case = problem()
    timed = solve(case, cg.sag_fw(), max_iter=3000, max_seconds=1000)
    again = solve(case, cg.sag_fw(), max_iter=3000)
    assert np.array_equal(timed.W, again.W)
    assert timed.objective == again.objective
    other = solve(case, cg.sag_fw(), max_iter=3000, seed=1)
    assert not np.array_equal(timed.W, other.W)


@pytest.mark.parametrize("when", ["before", "after"])
def test_an_interruption_gives_the_best_point_so_far(monkeypatch, when):
    """The kernel cannot be broken off: the signal arrives when it returns."""
    kernel, calls = ops.vector_sag, []

    def interrupted(*args):
        calls.append(1)
        if len(calls) == 30 and when == "before":
            raise KeyboardInterrupt
        kernel(*args)
        if len(calls) == 30:
            raise KeyboardInterrupt

    case = problem("squared")
    monkeypatch.setitem(ops.__dict__, "vector_sag", interrupted)
    result = solve(case, cg.sag_fw(batch=2), max_iter=2000)
    assert result.status is Status.INTERRUPTED
    assert result.rows["f"] == 2 * result.iterations
    monkeypatch.undo()
    plain = generic(case, cg.sag_fw(batch=2), max_iter=result.iterations)
    assert result.trace["k"][-1] == plain.trace["k"][-1]
    assert result.objective == pytest.approx(plain.objective, rel=1e-9)
    assert case.domain.contains(result.W)


@pytest.mark.parametrize("domain", ["ball", "simplex"])
def test_a_gradient_that_overflows_ends_the_run_honestly(domain, monkeypatch):
    monkeypatch.setitem(RANGE, "float64", 300)  # else refused at the door
    X, target = np.eye(40), np.ones(40)
    X[30, 30] = 1e150 if domain == "ball" else -1e150
    target[30] = 1e10
    W = np.eye(40)[0]  # the objective stays finite until row 30 is drawn
    shape = domains.L1Ball(40) if domain == "ball" else domains.Simplex(40)
    case = Problem(shape, [Term(maps.DataMatrix(X), functions.Squared(target))])
    ours = solve(case, cg.sag_fw(), max_iter=500, start=W, certify=False)
    theirs = generic(case, cg.sag_fw(), max_iter=500, start=W, certify=False)
    assert ours.status is Status.NONFINITE
    assert ours.iterations > 1
    check_same(ours, theirs)


def test_where_it_does_not_apply(calls):
    class Other(functions.Squared):
        """A class of its own, which may mean something else."""

    class OtherSAG(SAG):
        """An estimator of its own."""

    class OtherMethod(ConditionalGradient):
        """A method of its own."""

    case = problem("squared")
    (term,) = case.terms
    twice = Problem(case.domain, [term, Term(term.map, term.function, name="again")])
    solve(twice, cg.sag_fw(), max_iter=5)
    solve(Problem(case.domain, [Term(term.map, Other(0.0))]), cg.sag_fw(), max_iter=5)
    solve(Problem(domains.LinfBall(150), [term]), cg.sag_fw(), max_iter=5)
    parts = Full(), homotopy(1.0)
    others = ConditionalGradient(OtherSAG(), *parts), OtherMethod(SAG(), *parts)
    for method in (cg.sag_fw(batch=1.0), cg.hcgm(), cg.shcgm(), *others):
        solve(case, method, max_iter=5)
    assert calls == []
    solve(case, cg.sag_fw(), max_iter=5)
    assert sum(calls) == 5


def test_watched_iteration_by_iteration(calls):
    """Errors and callbacks are shown every iteration, and change none."""
    case = problem("squared")
    plain = solve(case, cg.sag_fw(), max_iter=50)
    calls.clear()
    for watch in ({"errors": True}, {"callbacks": [lambda info: None]}):
        watched = solve(case, cg.sag_fw(), max_iter=50, **watch)
        assert calls == [1] * 50
        np.testing.assert_array_equal(watched.W, plain.W)
        calls.clear()


def test_a_term_of_one_row(calls):
    X = np.array([[1.0, -2.0, 0.5]])
    case = Problem(domains.L1Ball(3), [Term(maps.DataMatrix(X), functions.Squared(7.0))])
    check_same(solve(case, cg.sag_fw(), max_iter=50), generic(case, cg.sag_fw(), max_iter=50))
    assert sum(calls) == 50


@pytest.mark.parametrize("loss", ["logistic", "squared"])
@pytest.mark.parametrize("domain", ["ball", "simplex"])
def test_known_optimum(loss, domain):
    rng = np.random.default_rng(0)
    X, t = rng.standard_normal((60, 8)), np.where(rng.random(60) < 0.5, -1.0, 1.0)
    w = cp.Variable(8)
    fit = {"logistic": cp.logistic(-cp.multiply(t, X @ w)), "squared": cp.square(X @ w - t) / 2}
    inside = {"ball": [cp.norm1(w) <= 0.4], "simplex": [w >= 0, cp.sum(w) == 1]}
    exact = cp.Problem(cp.Minimize(cp.sum(fit[loss]) / 60), inside[domain])
    optimum = exact.solve(solver=cp.CLARABEL)
    function = {"logistic": functions.Logistic(t), "squared": functions.Squared(t)}[loss]
    shape = {"ball": domains.L1Ball(8, 0.4), "simplex": domains.Simplex(8)}[domain]
    case = Problem(shape, [Term(maps.DataMatrix(sp.csr_array(X)), function, 1 / 60)])
    result = solve(case, cg.sag_fw(), max_iter=200_000)
    assert result.lower_bound <= optimum + 1e-7
    assert result.objective >= optimum - 1e-7
    assert result.objective == pytest.approx(optimum, abs=1e-4)
    assert result.lower_bound == pytest.approx(optimum, abs=1e-3)


@pytest.mark.parametrize("size", [1, 2, 5, 20, 50, 400, 20_000])
@pytest.mark.parametrize("batch", [1, 2, 3, 10, 40, 100])
@pytest.mark.parametrize("replace", [False, True])
def test_many_draws_are_the_single_ones(size, batch, replace):
    if batch > 1 and batch >= size:
        return  # drawn as a slice
    draws, at_once, states = both_draws(size, batch, replace)
    assert np.array_equal(draws, at_once)
    assert states[0] == states[1]


def both_draws(size, batch, replace):
    """300 draws one by one and at once, and the states of the generators after them."""
    one, many = np.random.default_rng(1), np.random.default_rng(1)
    draws = np.array([draw(size, batch, replace, one) for _ in range(300)])
    at_once = draw_many(300, size, batch, replace, many)
    return draws, at_once, [rng.bit_generator.state for rng in (one, many)]


def test_a_draw_that_falls_short_is_made_again(monkeypatch):
    def ids(draws, more, size, batch, rng):
        return rng.integers(0, size, (*draws, more), np.int32)

    monkeypatch.setattr(sampling, "_ids", ids)
    draws, at_once, states = both_draws(20, 10, False)
    assert np.array_equal(draws, at_once)
    assert all(len(set(row)) == 10 for row in at_once.tolist())
    assert states[0] == states[1]


def test_values_of_a_sequence():
    for sequence in (Power(9, 8, 1), Power(4, 7, 2 / 3), Constant(0.5), lambda k: 1 / k):
        assert values(sequence, 5, 4) == pytest.approx([sequence(k) for k in range(5, 9)])
