"""The judge of the benchmark that runs CVXPY's own problems."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest

cp = pytest.importorskip("cvxpy")

SCRIPT = Path(__file__).parents[1] / "benchmarks" / "cvxpy_problems.py"


@pytest.fixture(scope="module")
def bench():
    spec = importlib.util.spec_from_file_location("cvxpy_problems", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


NAN = float("nan")
CASES = [
    (("optimal", 1.001, 0.999), ("optimal", 1.0), False, "right"),
    (("optimal", 1.2, 0.999), ("optimal", 1.0), False, "WRONG"),
    (("optimal", 1.0, 1.1), ("optimal", 1.0), False, "WRONG"),  # a bound on the wrong side
    (("optimal", 1.0, 1.1), ("optimal", 1.0), True, "right"),
    (("optimal", NAN, NAN), ("optimal", 1.0), False, "WRONG"),
    (("user_limit", 7.0, -np.inf), ("optimal", 1.0), False, "limit"),
    (("user_limit", 7.0, 2.0), ("optimal", 1.0), False, "WRONG"),
    (("user_limit", 7.0, 2.0), ("unbounded", -np.inf), False, "WRONG"),
    (("infeasible", np.inf, NAN), ("infeasible", np.inf), False, "right"),
    (("infeasible", np.inf, NAN), ("optimal", 1.0), False, "WRONG"),
    (("optimal", 1.0, 1.0), ("infeasible", np.inf), False, "WRONG"),
    (("infeasible_or_unbounded", NAN, NAN), ("unbounded", -np.inf), False, "right"),
    (("optimal", 1.0, 1.0), ("solver_error", NAN), False, "no reference"),
    (("refused", NAN, NAN, "a sentence"), ("optimal", 1.0), False, "refused"),
    (("KeyError", NAN, NAN, "x"), ("optimal", 1.0), False, "CRASH"),
    (("KeyError", NAN, NAN, ""), ("optimal", 1.0), False, "CRASH"),
    (("KeyError", NAN, NAN, "x"), ("KeyError", NAN, NAN, "x"), False, "refused"),
]


@pytest.mark.parametrize(("answer", "truth", "maximise", "expected"), CASES)
def test_outcomes(bench, answer, truth, maximise, expected):
    assert bench.outcome(bench.Answer(*answer), bench.Answer(*truth), maximise) == expected


def test_answers_of_solvers(bench):
    x = cp.Variable(name="x")
    problem = cp.Problem(cp.Maximize(x), [x <= 2])
    answer = bench.asked(problem, lambda p: p.solve(solver=cp.CLARABEL))
    assert answer.status == "optimal"
    assert answer.value == pytest.approx(2)
    assert bench.asked(problem, lambda p: p.solve(solver="NONE")).status == "refused"
    assert bench.asked(problem, lambda p: p.there_is_no_such_thing).status == "AttributeError"


def test_problems_are_told_apart(bench):
    def marks(scale, integer=False):
        x = cp.Variable(2, integer=integer)
        rows = [scale * np.ones(2) @ x <= 1, cp.norm(x, 1) <= 5]
        return list(bench.marks(cp.Problem(cp.Minimize(cp.sum_squares(x)), rows)))

    assert marks(1.0) == marks(1.0)
    assert marks(1.0) != marks(2.0)
    assert marks(1.0) != marks(1.0, True)
