"""Parts and answers as texts, and answers compared."""

from __future__ import annotations

import io
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console

from condgrad import Problem, Status, Term, domains, functions, maps, report, solve, start
from condgrad.applications import sparsest_cut
from condgrad.domains import eigen
from condgrad.io import Ratings

PROBLEM = Problem(domains.Simplex(3), [Term(maps.DataMatrix(np.eye(3)), functions.Squared(1.0))])


@pytest.mark.parametrize(
    ("part", "text"),
    [
        (domains.Simplex(5), "<Simplex: shape (5,), total 1>"),
        (domains.NuclearBall((3, 4), 2.5), "<NuclearBall: shape (3, 4), radius 2.5>"),
        (maps.Entries([0, 1], [1, 2], (3, 4)), "<Entries: size 2, shape (3, 4)>"),
        (maps.DataMatrix(np.eye(3)), "<DataMatrix: size 3, shape (3,)>"),
        (functions.Squared(np.ones(4)), "<Squared: target 4 numbers>"),
        (functions.Interval(0, 1), "<Interval: lower 0, upper 1>"),
        (functions.L1(0.1), "<L1: scale 0.1>"),
    ],
)
def test_parts_say_what_they_are(part, text):
    assert repr(part) == text


def test_one_is_one():
    result = solve(PROBLEM, max_iter=1)
    assert "after 1 iteration (" in str(result)
    assert "after 2 iterations (" in str(solve(PROBLEM, max_iter=2))
    run = start(PROBLEM)
    assert "after 1 iteration;" in repr(run.advance(iterations=1))
    one = Ratings(np.array(["a"]), np.array(["b"]), np.array([1.0]))
    assert repr(one) == "<Ratings: 1 of 1 item by 1 user>"


def test_answers_can_be_compared():
    one, other = (solve(PROBLEM, max_iter=3) for _ in range(2))
    assert (one == one, one == other, one != other) == (True, False, True)
    assert len({one, other}) == 2
    outcome = sparsest_cut(np.ones((4, 4)) - np.eye(4)).run(max_iter=3)
    assert (outcome == outcome, outcome == one) == (True, False)


@pytest.mark.parametrize(("seconds", "said"), [(11.0, True), (0.1, False)])
def test_a_limit_that_compiling_used_up(seconds, said):
    outcome = sparsest_cut(np.ones((4, 4)) - np.eye(4)).run(max_iter=3)
    profile = {"loop": 4.0, "compiling": seconds}
    result = replace(outcome.result, status=Status.MAX_SECONDS, profile=profile)
    console = Console(file=io.StringIO(), width=160)
    report.print_run(replace(outcome, result=result), console)
    text = console.file.getvalue()
    assert ("11 s of the time went into compiling kernels" in text) is said


def test_a_block_is_copied_once_for_the_oracle(monkeypatch):
    """Numba warns of products with arrays that are not contiguous, and copies them every time."""
    whole = np.random.default_rng(0).normal(size=(120, 120))
    whole += whole.T
    real, seen = eigen.ops.lanczos, []

    def looked(V, *rest):
        seen.append(V.flags.forc)
        return real(V, *rest)

    monkeypatch.setitem(eigen.ops.__dict__, "lanczos", looked)
    found = eigen._lanczos(whole[:100, :100], False, np.ones(100), None)
    assert all(seen)
    assert seen
    assert found.value == pytest.approx(np.linalg.eigvalsh(whole[:100, :100])[0])
