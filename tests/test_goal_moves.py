"""A run goes on towards another goal, and over another domain, with all that it remembers."""

import numpy as np
import pytest

import condgrad as cg
from condgrad import Goal, Problem, ProblemError, Status, Term, domains, functions, maps
from random_sdps import random_sdp
from test_methods import max_cut
from test_run import BOTH, EVERY, runs, same_state, vector_problem

CONTROLLED = ("sag-cgal",)
"""Methods whose iterates depend on the tolerances, by the control of β."""


def test_a_goal_is_what_solve_asks_for():
    assert Goal(1e-2, 1e-4, 1e-5).all == (1e-2, 1e-4, 1e-5)
    assert Goal(feasibility=1e-4).all == (1e-3, 1e-4, 1e-3)
    for name in ("gap", "feasibility", "row_feasibility"):
        with pytest.raises(ProblemError, match=f"^{name} is -1: it must be a positive number"):
            Goal(**{name: -1})


@BOTH
@pytest.mark.parametrize("slug", [*EVERY, "vector"])
def test_a_tighter_goal_continues_the_same_run(slug, make):
    """Bit for bit the run that had it from the start, where all tolerances move by one factor."""
    begin = runs(slug, make)
    whole = begin(gap=3e-5, feasibility=1e-5).advance(iterations=120)
    assert whole.result().status is Status.MAX_ITER
    parts = begin(gap=3.0, feasibility=1.0).advance(iterations=120)
    early = parts.state.k
    assert early < 120
    assert parts.result().status is Status.CONVERGED
    for shrink in (1e-2, 1e-5):
        parts.advance(iterations=120 - parts.state.k, until=Goal(3 * shrink, shrink))
    assert parts.result().status is Status.MAX_ITER
    same_state(whole, parts)
