"""All that is returned is an `Answer`: the same names, with the same meanings."""

import importlib
import math
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

import condgrad as cg
from condgrad import Answer, Status, Trace, applications
from condgrad._round import bound_text
from condgrad.run.result import Result
from condgrad.sdp import SDP

RING = np.roll(np.eye(7), 1, axis=0) + np.roll(np.eye(7), -1, axis=0)
POINTS = np.random.default_rng(0).normal(size=(12, 2))
E = np.eye(3)
COST = np.array([[2.0, 1.0, 0.0], [1.0, -1.0, 1.0], [0.0, 1.0, 4.0]])
"""With W_ii = 1 its values go from 1 to 9, at W = xxᵀ with signs x."""
"""Modules that call `solve` and make an answer of what it returns."""


def simplex(**options):
    price = cg.Term(cg.maps.Inner(np.array([3.0, 1.0, 2.0])), cg.functions.Linear(), name="price")
    most = cg.Term(cg.maps.AllEntries((3,)), cg.functions.AtMost(0.5), name="most")
    return cg.solve(cg.Problem(cg.domains.Simplex(3), [price, most]), **options)


def sdp(sense="min", unit=1.0, entries=(1.0, 1.0, 1.0), **options):
    program = SDP(unit * COST, sense)
    for i, b in enumerate(entries):
        program.subject_to(np.diag(E[i]), "==", b)
    return program.solve(**{"gap": 1e-4, "max_iter": 3000, **options})


def guessed(**options):
    """A program whose rows do not bound the trace."""
    program = SDP(np.diag([1.0, 1.0]))
    off = np.array([[0.0, 0.5], [0.5, 0.0]])
    return program.subject_to(off, "==", 1.0).solve(max_iter=500, **options)


def unbounded():
    program = SDP(np.array([[1.0, 0.5], [0.5, 0.0]]), "max")
    return program.subject_to(np.diag([1.0, -1.0]), "==", 0.0).solve(max_iter=300)


def certified(labels):
    return pytest.importorskip("condgrad.sklearn").certify(POINTS, labels, max_iter=300)


def of_program():
    """What the command `condgrad solve sdp` reports."""
    s = sdp("max")
    named = {"sense": "max", "solution": s}
    return applications.Outcome("sdp", "auto", "sag-cgal", "auto", None, s.result, **named)


MADE = {
    "result": lambda: simplex(gap=1e-3),
    "result of a few iterations": lambda: simplex(max_iter=3),
    "result without a certificate": lambda: simplex(max_iter=3, certify=False),
    "sdp min": sdp,
    "sdp max": lambda: sdp("max"),
    "sdp in small units": lambda: sdp(unit=1e-9),
    "sdp of a few iterations": lambda: sdp("max", max_iter=3),
    "sdp under a condition": lambda: guessed(trace_bound=5.0),
    "sdp with a guessed trace": guessed,
    "sdp without a run": lambda: sdp(entries=(0.0, 0.0, 0.0)),
    "sdp without a point": lambda: sdp("max", entries=(1.0, -1.0, 1.0)),
    "sdp without an end": unbounded,
    "sparsest cut": lambda: cg.sparsest_cut(RING, presolve=False),
    "sparsest cut of an edge": lambda: cg.sparsest_cut(1 - np.eye(2)),
    "maximum cut": lambda: cg.max_cut(RING),
    "qubo": lambda: cg.qubo(RING - 3 * np.eye(len(RING)), offset=20.0),
    "qubo max": lambda: cg.qubo(RING - 1.1 * np.eye(len(RING)), sense="max", offset=2.0),
    "clustering": lambda: certified(np.arange(12) // 4),
    "clustering without a run": lambda: certified(np.zeros(12)),
    "outcome of sparsest cut": lambda: applications.sparsest_cut(RING).run(gap=1e-2),
    "outcome of max-cut": lambda: applications.max_cut(RING).run(gap=1e-2),
    "outcome of the program": of_program,
}
MAXIMA = {"sdp max", "sdp of a few iterations", "sdp without a point", "sdp without an end",
          "maximum cut", "qubo max", "outcome of max-cut", "outcome of the program"}  # fmt: skip


@pytest.fixture(params=MADE)
def name(request):
    return request.param


@cache
def made(name):
    return MADE[name]()


@pytest.fixture
def answer(name):
    return made(name)


def test_the_names_of_the_base(answer, name):
    assert isinstance(answer, Answer)
    assert isinstance(answer.status, Status)
    assert isinstance(answer.trace, Trace)
    assert answer.sense == ("max" if name in MAXIMA else "min")
    for number in ("objective", "bound", "gap", "infeasibility", "lower_bound", "upper_bound"):
        assert isinstance(getattr(answer, number), float)
        assert not math.isnan(getattr(answer, number))
    assert answer.infeasibility >= 0
    assert answer.gap >= 0
    assert bool(len(answer.trace)) == ("without a run" not in name and "a point" not in name)


def test_a_trace_is_that_of_the_run(answer):
    run = answer if isinstance(answer, Result) else answer.result
    scale = (
        answer.unit.scale if isinstance(answer, applications.Outcome) else 1.0
    )  # others have the run's own
    if run is not None and scale != 1:
        assert answer.trace["k"].tolist() == run.trace["k"].tolist()
        assert answer.trace["gap"].tolist() == run.trace["gap"].tolist()
        for name in ("objective", "lower_bound"):
            assert answer.trace[name].tolist() == (scale * run.trace[name]).tolist()
    else:
        assert run is None or answer.trace is run.trace


def test_the_gap_is_that_of_objective_and_bound(answer):
    objective, bound = answer.objective, answer.bound
    if not (math.isfinite(objective) and math.isfinite(bound)):
        assert answer.gap == math.inf
        return
    size = max(abs(objective), abs(bound), 1e-300)
    assert answer.gap <= abs(objective - bound) / size * (1 + 1e-12) + 1e-14
    if abs(objective) > 1e-3:  # far from 0 no unit counts
        assert answer.gap == pytest.approx(abs(objective - bound) / size, abs=1e-14)


def test_bounds_by_sense(answer, name):
    """Of a minimum the bound is below; a cut or a clustering bounds the optimum from above."""
    feasible = name.startswith(("sparsest", "maximum", "qubo", "clustering"))
    ends = [answer.bound, answer.objective]
    if not feasible:
        ends[1] = -math.inf if answer.sense == "max" else math.inf
    if answer.sense == "max":
        ends.reverse()
    assert [answer.lower_bound, answer.upper_bound] == ends
    if feasible:
        assert answer.infeasibility == 0
        assert answer.lower_bound <= answer.upper_bound * (1 + 1e-15)


@pytest.mark.parametrize(
    ("name", "optimum"),
    [
        ("result", 1.5),
        ("sdp min", 1.0),
        ("sdp max", 9.0),
        ("sdp in small units", 1e-9),
        ("sdp without an end", math.inf),
        ("sdp without a point", -math.inf),
        ("sparsest cut", 2 / 12),
        ("maximum cut", 6.0),
        ("outcome of max-cut", 3.5 * (1 + math.cos(math.pi / 7))),
        ("outcome of the program", 9.0),
    ],
)
def test_the_optimum_lies_between_the_bounds(name, optimum):
    answer = made(name)
    assert answer.lower_bound <= optimum * (1 + 1e-12)
    assert answer.upper_bound >= optimum * (1 - 1e-12)
    cut = name == "outcome of max-cut"  # done when the cut is, which has integer weight
    if math.isfinite(optimum) and answer.status is Status.CONVERGED and not cut:
        assert answer.objective == pytest.approx(optimum, rel=1e-2)


def test_summaries(answer, name):
    text = answer.summary()
    assert text == str(answer)
    assert repr(answer).startswith(f"<{type(answer).__name__}: ")
    assert len(repr(answer)) < 160
    assert answer.status.name.lower().replace("_", " ") in repr(answer)
    page = answer._repr_html_()
    assert page.count("<tr>") == page.count("</tr>") >= 2
    assert "infeasibility 0" not in repr(answer) or not answer._feasible
    assert "\n" not in text
    if answer.status is Status.INFEASIBLE:
        assert text.startswith(str(answer.status))
        return
    assert any(f"{answer.objective:.{digits}g}" in text for digits in (6, 8))
    if math.isfinite(answer.bound):
        assert any(bound_text(answer.bound, d, answer.sense) in text for d in (6, 8))


@pytest.mark.parametrize("name", [n for n in MADE if not n.startswith("result")])
def test_the_result_inside_is_what_the_run_returned(name, monkeypatch):
    returned = []

    made = cg.Run.result

    def spy(self):
        returned.append(made(self))
        return returned[-1]

    monkeypatch.setattr(cg.Run, "result", spy)
    answer = MADE[name]()
    if answer.result is None:
        assert "without" in name
    elif name == "sparsest cut of an edge":
        assert (answer.result.iterations, answer.result.objective, len(answer.trace)) == (0, 2, 1)
    else:
        assert any(answer.result is one for one in returned)


def test_the_result_of_an_application_is_that_of_solve():
    application = applications.max_cut(RING)
    inside = application.run(max_iter=40, propose=None).result
    method, options = application.method("sag-cgal")[0], {"floor": application.floor}
    plain = cg.solve(application.problem, method, start=application.start, max_iter=40, **options)
    np.testing.assert_array_equal(inside.W, plain.W)
    for field in ("status", "objective", "lower_bound", "gap", "infeasibility", "families"):
        assert getattr(inside, field) == getattr(plain, field)


def test_a_guess_changes_the_status_of_the_solution_alone(monkeypatch):
    """That nothing with a small trace is feasible is the run's word, not the program's."""
    module, seen = importlib.import_module("condgrad.sdp._run"), []
    made = module.answer

    def spy(*args):
        seen.append((args[1], made(*args)))
        return seen[-1][1]

    monkeypatch.setattr(module, "answer", spy)
    program = SDP(np.eye(2)).subject_to(np.array([[0.0, 0.5], [0.5, 0.0]]), "==", 1.0)
    program.subject_to(np.diag([0.0, 1.0]), "==", 1e-3).solve(max_iter=300)  # W_00 ≥ 1000
    assert all(solution.result is result for result, solution in seen)
    refuted = [solution for result, solution in seen if result.status is Status.INFEASIBLE]
    assert refuted
    assert all(solution.status is Status.UNDECIDED for solution in refuted)


def test_an_interrupted_start_is_said_by_the_outcome():
    outcome = replace(applications.max_cut(RING), interrupted=True).run()
    assert outcome.status is Status.INTERRUPTED
    assert outcome.result.status is Status.INTERRUPTED
    assert outcome.to_json()["status"] == "interrupted"
