"""A run is a value: it can be advanced in pieces, watched and left, and is the same run."""

import dataclasses
import itertools

import numpy as np
import pytest
import scipy.sparse as sp

import condgrad as cg
from condgrad import METHODS, Problem, ProblemError, Status, Term, domains, functions, maps
from general import GENERAL, refused
from test_methods import least_squares, max_cut

EVERY = [s for s in GENERAL if s != "sag-fw"]
BOTH = pytest.mark.parametrize("make", [least_squares, max_cut])


def method(slug):
    return METHODS[slug](1.0) if slug == "cgal" else METHODS[slug]("auto")


def vector_problem(dense=False):
    """One that the compiled loop serves."""
    rng = np.random.default_rng(0)
    X = sp.random_array((80, 40), density=0.3, rng=rng, data_sampler=rng.standard_normal)
    map = maps.DataMatrix(X.toarray() if dense else X)
    loss = functions.Squared(rng.standard_normal(80))
    return Problem(domains.L1Ball(40, 3.0), [Term(map, loss, 1 / 80)])


def listed(value, place="state"):
    """(place, value) of every array and number in a state, but for what was known before."""
    if dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            if field.name == "known":
                continue
            yield from listed(getattr(value, field.name), f"{place}.{field.name}")
    elif isinstance(value, (list, tuple)):
        for i, inner in enumerate(value):
            yield from listed(inner, f"{place}[{i}]")
    elif isinstance(value, np.random.Generator):
        yield place, str(value.bit_generator.state)
    else:
        yield place, value


def same_state(one, two):
    """Every array and number of two runs, bit for bit."""
    for (place, a), (other, b) in zip(listed(one.state), listed(two.state), strict=True):
        assert place == other
        np.testing.assert_array_equal(a, b, err_msg=place)


def runs(slug, make):
    """How to start the same run again and again, with options."""
    if slug == "vector":
        return lambda **watch: cg.start(vector_problem(), cg.sag_fw(batch=3), **watch)
    return lambda **watch: cg.start(make()[0], method(slug), seed=3, **watch)


@BOTH
@pytest.mark.parametrize("slug", [*EVERY, "vector"])
def test_nobody_who_watches_changes_a_run(slug, make):
    if slug != "vector" and refused(make()[0], method(slug)):
        return
    begin = runs(slug, make)
    plain = begin().advance(iterations=120)
    for watch in (
        {"certify": False},
        {"record": 1},
        {"record": 100},
        {"callbacks": [lambda info: info.objective < -1e99]},
        {"metrics": {"first": lambda W: W.flat[0]}},
        {"propose": lambda W: W},
        {"duals": True},
    ):
        other = begin(**watch).advance(iterations=120)
        same_state(plain, other)
    watched = begin()
    for i in range(4):
        watched.advance(iterations=30).result()
        assert watched.state.k == 30 * (i + 1)
    same_state(plain, watched)


@BOTH
@pytest.mark.parametrize("slug", [*EVERY, "vector"])
def test_pieces_are_the_whole(slug, make):
    if slug != "vector" and refused(make()[0], method(slug)):
        return
    begin = runs(slug, make)
    whole = begin().advance(iterations=120)
    pieces = begin().advance(iterations=60).advance(iterations=60)
    same_state(whole, pieces)
    step_by_step = begin()
    for info in itertools.islice(step_by_step, 120):
        assert info.k == step_by_step.state.k
    same_state(whole, step_by_step)
    a, b, c = (run.result() for run in (whole, pieces, step_by_step))
    assert a.status is b.status is Status.MAX_ITER
    assert c.status is Status.PAUSED
    assert a.lower_bound == b.lower_bound == c.lower_bound
    assert a.objective == b.objective == c.objective
    for column in set(a.trace) - {"seconds"}:
        np.testing.assert_array_equal(a.trace[column], b.trace[column])


@BOTH
def test_solve_is_start_advance_result(make):
    problem, _ = make()
    ours = cg.solve(problem, gap=1e-3, max_iter=3000)
    run = cg.start(problem, gap=1e-3).advance(iterations=3000)
    theirs = run.result()
    np.testing.assert_array_equal(ours.W, theirs.W)
    assert ours.status is theirs.status is Status.CONVERGED
    assert ours.iterations == theirs.iterations == run.state.k
    again = run.advance(iterations=10).result()  # it has ended
    assert again.iterations == ours.iterations
    assert again.status is Status.CONVERGED


def test_limits_count_from_now(clock):
    problem, _ = max_cut()
    run = cg.start(problem, cg.h_sag_v2(1.0, batch=2))
    assert run.state.k == 0
    assert run.result().status is Status.PAUSED
    assert run.advance(iterations=5).result().status is Status.MAX_ITER
    assert run.advance(lmo_calls=7).result().status is Status.MAX_LMO
    assert run.state.k == run.state.calls == 12
    before = run.result().epochs
    assert run.advance(epochs=2).result().status is Status.MAX_EPOCHS
    assert run.result().epochs == pytest.approx(before + 2, abs=0.5)
    began, k = clock.now, run.state.k
    assert run.advance(seconds=1.0).result().status is Status.MAX_SECONDS
    assert 1 <= clock.now - began < 1.1
    assert run.state.k > k
    assert run.advance(until=lambda info: info.k % 100 == 0).result().status is Status.PAUSED
    assert run.state.k % 100 == 0
    assert run.advance(iterations=0).result().iterations == run.state.k


@pytest.mark.parametrize("name", ["iterations", "epochs", "seconds", "lmo_calls"])
def test_bad_limits_are_named(name):
    run = cg.start(max_cut()[0])
    with pytest.raises(ProblemError, match=f"^{name} is -1: it must be a number of at least 0"):
        run.advance(**{name: -1})


def test_the_observer_does_not_steer():
    """Without a certificate β is found all the same."""
    problem, _ = max_cut()
    with_, without = (
        cg.start(problem, certify=certify).advance(iterations=300) for certify in (True, False)
    )
    assert with_.state.pressure == without.state.pressure
    assert without.state.pressure.moves != [0] * len(problem.terms)
    assert without.result().lower_bound == -np.inf


@pytest.mark.parametrize("where", ["callbacks", "metrics", "propose", "map"])
def test_after_an_error_of_a_user_the_best_point_is_there_and_nothing_is_saved(where, tmp_path):
    calls = itertools.count()
    armed = []

    def fails(_):
        if armed and next(calls) == 5:
            raise ZeroDivisionError("mine")
        return 0.0 if where == "metrics" else None

    class Own(maps.Diagonal):
        def add_to(self, G, scale, V):
            fails(None)
            super().add_to(G, scale, V)

    problem = max_cut()[0]
    if where == "map":
        own = [dataclasses.replace(t, map=Own(t.map.shape[0])) for t in problem.composite]
        problem = Problem(problem.domain, [*problem.smooth, *own])
    given = {"callbacks": [fails], "metrics": {"m": fails}, "propose": fails}.get(where)
    told = {} if given is None else {where: given}
    run = cg.start(problem, cg.sag_cgal(), gap=1e-9, **told)
    armed.append(True)
    with pytest.raises(ZeroDivisionError, match="mine"):
        run.advance(iterations=1000)
    found = run.result()
    assert found.status is Status.INTERRUPTED
    assert np.isfinite([found.objective, found.lower_bound]).all()
    assert run.advance(iterations=1).result().iterations == found.iterations
    with pytest.raises(ProblemError, match="broken off"):
        run.save(tmp_path / "run")
