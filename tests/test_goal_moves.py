"""A run goes on towards another goal, and over another domain, with what it remembers."""

import numpy as np
import pytest

import condgrad as cg
from condgrad import Goal, Problem, ProblemError, Status, Term, domains, functions, maps
from condgrad.sdp._reduce import Reduced
from random_sdps import random_sdp
from test_methods import max_cut
from test_run import BOTH, EVERY, method, same_state, vector_problem


def test_a_goal_is_what_solve_asks_for():
    assert Goal(1e-2, 1e-4, 1e-5).all == (1e-2, 1e-4, 1e-5)
    assert Goal(feasibility=1e-4).all == (1e-3, 1e-4, 1e-3)
    for name in ("gap", "feasibility", "row_feasibility"):
        with pytest.raises(ProblemError, match=f"^{name} is -1: it must be a positive number"):
            Goal(**{name: -1})


def fixed(slug, make, **watch):
    """A run whose β is given, so that nothing in it reads the tolerances."""
    if slug == "vector":
        return cg.start(vector_problem(), cg.sag_fw(batch=3), **watch)
    return cg.start(make()[0], cg.METHODS[slug](1.0), seed=3, **watch)


@BOTH
@pytest.mark.parametrize("slug", [*sorted(set(EVERY) - {"spdhg"}), "vector"])
def test_another_goal_continues_the_same_run(slug, make):
    """Bit for bit the run that had it from the start."""
    whole = fixed(slug, make, gap=3e-13, feasibility=1e-12).advance(iterations=120)
    assert whole.result().status is Status.MAX_ITER
    assert getattr(whole.state, "pressure", None) is None
    parts = fixed(slug, make, gap=3e4, feasibility=1e4).advance(iterations=120)
    assert parts.state.k < 120
    assert parts.result().status is Status.CONVERGED
    for goal in (Goal(1e-2, 1.0), Goal(3e-13, 1e-12)):
        parts.advance(iterations=120 - parts.state.k, until=goal)
    assert parts.result().status is Status.MAX_ITER
    same_state(whole, parts)


@pytest.mark.parametrize("ends", ["converged", "limit", "callback"])
def test_with_control_too(ends):
    """Control weighs gap against feasibility, so that only their ratio counts until both are met.

    A lag below a thousandth of the gap that is asked for counts as one: closer than that the
    tolerances themselves matter.
    """
    problem, _ = max_cut()
    stop = [cg.StopWhen(lambda info: info.k == 8)] if ends == "callback" else []
    run = cg.start(problem, gap=2e-2, feasibility=1e-2, callbacks=stop)
    run.advance(iterations=8 if ends == "limit" else 1000)
    expected = {
        "converged": Status.CONVERGED,
        "limit": Status.MAX_ITER,
        "callback": Status.STOPPED,
    }
    assert run.result().status is expected[ends]
    run.advance(iterations=60 - run.state.k, until=Goal(2e-9, 1e-9))
    whole = cg.start(problem, gap=2e-9, feasibility=1e-9).advance(iterations=60)
    assert run.result().status is whole.result().status is Status.MAX_ITER
    same_state(whole, run)


def test_control_follows_the_goal():
    """Rows that must hold more closely are pressed harder from then on."""
    problem, _ = max_cut()
    plain, closer = (cg.start(problem).advance(iterations=10) for _ in range(2))
    same_state(plain, closer)
    plain.advance(iterations=60, until=Goal(1e-9, 1e-7))
    closer.advance(iterations=60, until=Goal(1e-7, 1e-9))
    assert closer.state.pressure.factors[1] < plain.state.pressure.factors[1]


def test_a_result_stays_what_it_was():
    problem, _ = max_cut()
    run = cg.start(problem, gap=0.1, feasibility=0.1).advance(iterations=1000)
    first = run.result()
    W, rows = first.W.copy(), len(first.trace)
    second = run.advance(until=Goal(gap=1e-3)).result()
    assert first.status is second.status is Status.CONVERGED
    assert second.iterations > first.iterations
    assert second.gap <= 1e-3
    assert second.lower_bound >= first.lower_bound
    np.testing.assert_array_equal(first.W, W)
    assert len(first.trace) == rows < len(second.trace)


def test_what_a_goal_changes():
    problem, _ = max_cut()
    run = cg.start(problem).advance(iterations=300)
    k = run.state.k
    assert run.advance(until=Goal(gap=0.5, feasibility=0.5)).result().status is Status.CONVERGED
    assert run.state.k == k  # it was met
    assert run.advance(iterations=10).state.k == k
    assert run.advance(iterations=10, until=Goal()).state.k == k + 10  # none: the limit counts
    assert run.advance(iterations=10).state.k == k + 20


def test_what_is_no_goal():
    run = cg.start(max_cut()[0], certify=False)
    with pytest.raises(ProblemError, match=r"^certify is False, but a gap is asked for"):
        run.advance(until=Goal(gap=0.1))
    with pytest.raises(ProblemError, match=r"^until is no Goal and not callable"):
        run.advance(until=1e-3)


def test_a_proof_that_nothing_is_feasible_stays():
    rows = Term(maps.Diagonal(3), functions.Equal([1.0, 1.0, 1.0]), name="ones")
    run = cg.start(Problem(domains.Spectrahedron(3, 2.0), [rows]), gap=1e-3)
    assert run.advance(iterations=1000).result().status is Status.INFEASIBLE
    k = run.state.k
    assert run.advance(until=Goal(gap=1e-6)).result().status is Status.INFEASIBLE
    assert run.state.k == k
    assert run.move(domains.Spectrahedron(3, 4.0)).result().status is Status.PAUSED
    assert run.result().lower_bound < np.inf
    assert run.advance(iterations=1000).result().status is Status.CONVERGED


@pytest.mark.parametrize("slug", [*sorted(set(EVERY) - {"cgal", "sag-cgal", "spdhg"}), "vector"])
def test_moving_nowhere_changes_nothing(slug):
    """Where nothing is found for the domain: neither multipliers nor β."""

    whole = fixed(slug, max_cut).advance(iterations=120)
    moved = fixed(slug, max_cut).advance(iterations=60)
    moved.move(moved.problem.domain).advance(iterations=60)
    same_state(whole, moved)
    assert moved.result().iterations == 120
    assert moved.result().trace["k"][0] == 60
    assert moved.result().seconds > 0


def cost_and_rows(trace, equality=False):
    """min −⟨C, W⟩ with three rows over Tr W ≤ trace."""
    rng = np.random.default_rng(0)
    A = rng.standard_normal((6, 6))
    cost = Term(maps.Inner(-A @ A.T), functions.Linear(), name="cost")
    rows = Term(maps.Diagonal(6), functions.AtMost(1.0), name="rows")
    return Problem(domains.Spectrahedron(6, trace, equality), [cost, rows])


def multipliers(run):
    """Those of the rows."""
    return run.form.multipliers(run.problem, run.state)[1]


@pytest.mark.parametrize("slug", ["sag-cgal", "cgal"])
def test_a_moved_run_keeps_its_multipliers(slug):
    run = cg.start(cost_and_rows(4.0), method(slug), gap=1e-6, duals=True)
    run.advance(iterations=200)
    before, k = multipliers(run).copy(), run.state.k
    bound = run.result().lower_bound
    run.move(domains.Spectrahedron(6, 8.0))
    after = multipliers(run)
    share = after[before != 0] / before[before != 0]
    assert 0.1 < share[0] <= 1
    np.testing.assert_allclose(share, share[0])
    result = run.result()
    assert result.status is Status.PAUSED
    assert (result.iterations, result.lmo_calls, len(result.trace)) == (k, k, 1)
    assert result.lower_bound < bound  # less is known of the larger set
    optimum = cg.solve(cost_and_rows(8.0), gap=1e-7, feasibility=1e-7).objective
    assert result.lower_bound <= optimum + 1e-6
    found = run.advance(iterations=3000).result()
    assert found.lower_bound <= optimum + 1e-6
    assert found.objective == pytest.approx(optimum, rel=0.05)


def test_a_fixed_trace_scales_the_iterate():
    run = cg.start(cost_and_rows(4.0, True)).advance(iterations=50)
    W = run.state.W.copy()
    run.move(domains.Spectrahedron(6, 5.0, equality=True))
    np.testing.assert_allclose(run.state.W, 1.25 * W)
    assert run.advance(iterations=50).problem.domain.contains(run.state.W, 1e-9)
    ones = np.ones(6)
    pinned = Problem(domains.PinnedSpectrahedron(ones, 3.0, 1.0, True), cost_and_rows(1.0).terms)
    run = cg.start(pinned).advance(iterations=20)
    run.move(domains.PinnedSpectrahedron(ones, 5.0, 1.0, True)).advance(iterations=20)
    assert run.problem.domain.contains(run.state.W, 1e-9)


def test_where_a_run_cannot_move():
    run = cg.start(cost_and_rows(4.0)).advance(iterations=50)
    with pytest.raises(ProblemError, match=r"^domain, a Spectrahedron, does not contain"):
        run.move(domains.Spectrahedron(6, 1.0))
    with pytest.raises(ProblemError, match=r"^domain is a NuclearBall: the run is over"):
        run.move(domains.NuclearBall((6, 6), 1.0))
    with pytest.raises(ProblemError, match=r"reads W of shape"):
        run.move(domains.Spectrahedron(5, 4.0))
    assert run.advance(iterations=10).state.k == 60


def test_a_moved_run_is_saved_as_one_over_its_domain(tmp_path):
    """A bound over a small domain is none for a larger one."""
    large, small = cost_and_rows(4.0), cost_and_rows(1.0)
    run = cg.start(large, gap=1e-4, start=np.eye(6) / 8).move(small.domain)
    run.advance(iterations=2000).save(tmp_path / "run")
    with pytest.raises(cg.InputError, match=r"trace is 4.0 here and was 1.0"):
        cg.resume(tmp_path / "run", large)
    assert cg.resume(tmp_path / "run", small).result().lower_bound == run.result().lower_bound
    assert run.result().lower_bound > cg.solve(large, gap=1e-3).objective + 1


def test_a_run_whose_move_was_broken_off_cannot_go_on(tmp_path, monkeypatch):
    run = cg.start(cost_and_rows(4.0)).advance(iterations=5)
    before = run.result()

    def broken(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(type(run.form), "rebase", broken)
    with pytest.raises(KeyboardInterrupt):
        run.move(domains.Spectrahedron(6, 8.0))
    assert run.advance().result().status is Status.INTERRUPTED
    assert run.result().lower_bound == before.lower_bound
    with pytest.raises(ProblemError, match="broken off"):
        run.save(tmp_path / "run")


def test_blocks_may_differ():
    run = cg.start(
        Problem(domains.BlockSpectrahedron([3, 3], 4.0), cost_and_rows(4.0).terms)
    ).advance(iterations=50)
    run.move(domains.BlockSpectrahedron([6], 8.0)).advance(iterations=50)
    assert run.problem.domain.contains(run.state.W, 1e-9)


def far(result, goal):
    """The worse of gap and infeasibility, in units of their tolerances."""
    return max(result.gap / goal.gap, result.worst / goal.feasibility)


def test_sixty_and_sixty_carried_are_better_than_restarted():
    """Programs whose first trace bound binds, which is then raised: most gain, and all together."""
    goal, ratios = Goal(1e-6, 1e-6), []
    for seed in range(12):
        sdp = random_sdp(seed, (8,), ("==",) * 5)
        reduced = Reduced(sdp)
        trace = 0.8 * float(np.trace(sdp.solve(gap=1e-4, feasibility=1e-4).W))
        tolerances = {"gap": goal.gap, "feasibility": goal.feasibility}
        run = cg.start(reduced.problem(trace, False), **tolerances).advance(iterations=60)
        wide = reduced.problem(10 * trace, False)
        again = cg.start(wide, start=run.result().W, **tolerances).advance(iterations=60)
        run.move(wide.domain).advance(iterations=60)
        ratios.append(far(run.result(), goal) / far(again.result(), goal))
    assert np.median(ratios) < 1
    assert np.exp(np.mean(np.log(ratios))) < 0.7


def test_sixty_and_sixty_towards_a_goal_are_better_than_restarted():
    goal, ratios = Goal(1e-7, 1e-7), []
    for seed in range(8):
        problem = Reduced(random_sdp(seed, (8,), ("==",) * 5)).problem(30.0, False)
        run = cg.start(problem, gap=1e-5, feasibility=1e-5).advance(iterations=60)
        tolerances = {"gap": goal.gap, "feasibility": goal.feasibility}
        again = cg.start(problem, start=run.result().W, **tolerances).advance(iterations=60)
        run.advance(iterations=60, until=goal)
        ratios.append(far(run.result(), goal) / far(again.result(), goal))
    assert np.exp(np.mean(np.log(ratios))) < 0.5
