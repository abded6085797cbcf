"""Proven numbers are printed on the safe side, everywhere."""

from __future__ import annotations

import re
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from io import StringIO
from unittest import mock

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from rich.console import Console

import condgrad as cg
from condgrad import report
from condgrad._round import apart, bound_text, down, percent, up
from condgrad.applications import closeness, kmeans, max_cut, sparsest_cut
from condgrad.applications._outcome import ROUNDING
from condgrad.applications.answers import outcome_of
from condgrad.applications.presolve import of_all
from condgrad.graphs import GraphCut
from condgrad.html import page
from condgrad.partitions import Partition
from condgrad.quadratic import Qubo
from condgrad.record import Record
from condgrad.sdp import SDP

NO_RUN = of_all(1.0, 1.0, [], 0, 1.0)
FINITE = st.floats(allow_nan=False, allow_infinity=False)
many = settings(max_examples=500)


@many
@given(FINITE, st.integers(1, 17))
@example(0.0, 3)
@example(-0.0, 3)
@example(5e-324, 1)
@example(-2.5e-310, 4)
@example(1.7976931348623157e308, 2)
@example(0.1, 17)
@example(99999.5, 5)
@example(np.float32(0.1), 3)
@example(12345678901234567890, 3)
def test_the_nearest_number_on_the_safe_side(x, digits):
    """Within a unit of the last digit, on the right side; `up` is the mirror of `down`."""
    exact = Fraction(x) if isinstance(x, int) else Fraction(float(x))
    low, high = Decimal(down(x, digits)), Decimal(up(x, digits))
    assert Fraction(low) <= exact <= Fraction(high)
    assert Decimal(up(-x, digits)) == -low
    if exact == 0:
        assert down(x, digits) == up(x, digits) == "0"
        return
    for number in (low, high):
        assert len(number.normalize().as_tuple().digits) <= digits
        unit = Fraction(10) ** (number.adjusted() - digits + 1)
        assert abs(Fraction(number) - exact) < unit


@many
@given(st.floats(1e-300, 1e300), st.integers(1, 15))
def test_the_form_is_that_of_python(x, digits):
    for text in (down(x, digits), up(x, digits), down(-x, digits)):
        assert text == f"{float(text):.{digits}g}"


def test_what_is_no_number():
    assert [down(x, 3) for x in (np.inf, -np.inf, np.nan)] == ["inf", "-inf", "nan"]
    assert percent(np.inf, 2) == "inf"


@many
@given(st.floats(0, 1e300), st.integers(1, 8))
def test_percent_is_exact(gap, digits):
    found = Fraction(percent(gap, digits))
    assert 100 * Fraction(gap) <= found <= 100 * Fraction(gap) * (1 + Fraction(10) ** (1 - digits))


ORDINARY = st.floats(1e-9, 1e9) | st.floats(-1e9, -1e-9)
GAPS = st.floats(ROUNDING, 1.0)


def number(text, pattern):
    """What stands for {} in a pattern, exactly."""
    before, after = map(re.escape, pattern.split("{}"))
    found = re.search(before + r"([-+]?\d[\d.]*(?:e[-+]\d+)?)" + after, text)
    assert found, f"{pattern!r} is not in {text!r}"
    return Fraction(found[1].rstrip("."))


def problem():
    cost = cg.Term(cg.maps.Inner(np.array([1.0, 2.0, 3.0])), cg.functions.Linear(), name="cost")
    return cg.Problem(cg.domains.Simplex(3), [cost])


RESULT = cg.solve(problem(), max_iter=2)
TRIANGLE = np.ones((3, 3)) - np.eye(3)
RUNS = [
    (sparsest_cut(TRIANGLE).run(max_iter=2), report.print_cut, "lower bound {}", 1),
    (max_cut(TRIANGLE / 3).run(max_iter=2), report.print_cut, "upper bound {}", -1),
    (kmeans(TRIANGLE, 2).run(max_iter=2), report.print_clusters, "lower bound {}", 1),
]
SOLUTIONS = [
    SDP(np.diag([1.0, 2.0]), sense).subject_to(np.eye(2), "==", 1).solve(max_iter=5)
    for sense in ("min", "max")
]


@many
@given(ORDINARY)
def test_of_a_result(value):
    assert number(str(replace(RESULT, lower_bound=value)), "lower bound {},") <= Fraction(value)


SENSES = st.sampled_from(["min", "max"])
SHARES = st.floats(1e-10, 3.0)


def answers(value, share, sense):
    """A cut, values of a program and a partition with a bound that far beyond, and what is said."""
    bound = value + (1 if sense == "max" else -1) * share * abs(value)
    assume(bound != value)
    gap = abs(value - bound) / max(abs(value), abs(bound))
    ended, side = cg.Status.MAX_ITER, np.array([True, False])
    cut = GraphCut(((0,), (1,)), side, value, bound, gap, ended, sense, NO_RUN)
    yield cut, "cut"
    yield Qubo(side.astype(int), value, bound, gap, ended, sense, 0.0, cut), "value"
    if sense == "min":
        yield (
            Partition(((0,), (1,)), side.astype(int), value, bound, gap, ended, NO_RUN),
            ("partition"),
        )


@many
@given(ORDINARY | st.integers(-1000, 1000).map(float), SHARES, SENSES)
@example(-740.0, 20 / 740, "min")
@example(-740.0, 1.0, "min")
@example(-3.0, 0.25, "max")
def test_what_is_said_of_a_value_follows_from_its_bound(value, share, sense):
    """The optimum can be the bound: a share of the value, or of the best possible, covers it."""
    for found, what in answers(value, share, sense):
        off = abs(Fraction(found.value) - Fraction(found.bound))
        if "not proved" in str(found):
            assert off >= max(abs(Fraction(found.value)), abs(Fraction(found.bound)))
        elif "% of the best possible" in str(found):
            assert number(str(found), "within {} %") * abs(Fraction(found.bound)) >= 100 * off
        elif "up to rounding" in str(found):
            assert off <= Fraction(ROUNDING) * abs(Fraction(found.bound))
        else:
            worse = f"no {what} is {'higher' if sense == 'max' else 'lower'} by more than {{}} %"
            assert number(str(found), worse) * abs(Fraction(found.value)) >= 100 * off


@many
@given(ORDINARY, SHARES, SENSES)
@example(-9.0, 1.5, "max")
def test_what_is_promised_follows_from_the_bound(value, share, sense):
    for found, what in answers(value, share, sense):
        run = outcome_of(found)
        text, bound = report.promise(run, what), Fraction(run.value_bound)
        off = abs(Fraction(run.value) - bound)
        if "positive lower bound" in text:
            assert sense == "min"
            assert run.value > 0 >= run.value_bound
        elif f"no {what} has a value" in text:
            beyond = f"no {what} has a value {'above' if sense == 'max' else 'below'} {{}}."
            limit = number(text, beyond)
            assert limit >= bound if sense == "max" else limit <= bound
        elif "% of the best possible" in text:
            assert number(text, "within {} %") * abs(bound) >= 100 * off
        elif "best possible" not in text:
            assert number(text, "by more than {} %") * abs(Fraction(run.value)) >= 100 * off


@pytest.mark.parametrize("solution", SOLUTIONS, ids=["min", "max"])
@settings(max_examples=200)
@given(ORDINARY, st.floats(1e-3, 1e9))
def test_of_a_semidefinite_program(solution, value, trace):
    changed = replace(solution, bound=value, conditional=True, trace_bound=trace)
    text = str(changed)
    if solution.sense == "max":
        assert number(text, "upper bound {},") >= Fraction(value)
    else:
        assert number(text, "lower bound {},") <= Fraction(value)
    assert number(text, "gap {},") >= Fraction(changed.gap)
    assert number(text, "Tr W ≤ {};") <= Fraction(trace)


@pytest.mark.parametrize(("run", "answer", "words", "sign"), RUNS, ids=["min", "max", "clusters"])
@settings(max_examples=200)
@given(st.floats(1e-9, 2.0), st.floats(1e-9, 1.0), st.floats(1e-30, 0.5))
def test_of_tables_and_pages(run, answer, words, sign, value, gap, failure):
    """The table and the sentence of the command line, the words and the trace of the page."""
    result = replace(run.result, lower_bound=sign * value, gap=gap, bound_failure=failure)
    result.trace.amend({"lower_bound": sign * value, "gap": gap})
    changed = replace(run, result=result)
    record = Record.of(changed)
    record = replace(record, facts={**record.facts, "answer": []})  # then the page has the numbers
    table, text = dict(report.summary(changed)), _page(record)
    shown = [
        number(table[words.split(" {")[0]], "{} ("),
        number(text, f"proven {words} (wrong"),
    ]
    assert all((shown_value - Fraction(value)) * sign <= 0 for shown_value in shown)
    assert Fraction(table["gap"]) >= Fraction(changed.rounded_gap)
    assert number(table["of the relaxation"] + ";", "gap {};") >= Fraction(gap)
    assert number(text, "gap {} %") >= 100 * Fraction(changed.rounded_gap)
    cells = re.findall(r"<td>([^<]*)</td>", text.split("Last rows of the trace")[1])
    columns = ["epochs", "seconds", "objective", "lower_bound", "gap", "infeasibility"]
    last = dict(
        zip(columns, cells[: len(columns) * len(record.trace)][-len(columns) :], strict=True)
    )
    assert (Fraction(last["lower_bound"]) - Fraction(value)) * sign <= 0
    assert Fraction(last["gap"]) >= Fraction(gap)
    for said in (
        number(table[words.split(" {")[0]], "probability {})"),
        number(text, "probability {})"),
    ):
        assert said >= Fraction(changed.bound_failure)
    if changed.rounded_gap > ROUNDING:
        out = StringIO()
        answer(changed, Console(file=out))
        promised = number(out.getvalue(), "within {} %" if sign < 0 else "more than {} %")
        assert promised >= 100 * apart(changed.value, changed.value_bound)
        assert number(out.getvalue(), "With probability 1 - {}:") >= Fraction(changed.bound_failure)


def _page(record):
    with mock.patch("condgrad.html.pictures", return_value=[]):
        return page(record)


def test_a_gap_just_above_a_percent_is_not_called_one():
    assert closeness(1.0, 1 - 0.01043, "cut", "min") == "no cut is lower by more than 1.1 %"
    assert bound_text(-1 / 3, 3, "min") == "-0.334"
