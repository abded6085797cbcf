"""Limits on time and the seconds of a run, by a clock that the tests move."""

from __future__ import annotations

import re

import pytest

import condgrad
from condgrad import Status
from condgrad.methods import Full
from condgrad.run.limits import Clock
from condgrad.run.result import Trace
from condgrad.run.solve import solve
from test_solve import V2, problem


def test_time_limit_is_a_silent_status(capsys, recwarn, clock):
    result = solve(problem(), V2, max_seconds=0.1)
    assert result.status is Status.MAX_SECONDS
    assert 0.01 < result.seconds <= 0.1 <= clock.now < 0.11  # checks before the run count as well
    assert result.iterations > 10
    assert capsys.readouterr() == ("", "")
    assert not recwarn.list


def test_clock_stands_in_metrics_and_callbacks(clock):
    def slow(_):
        clock.now += 5.0
        return 0.0

    result = solve(problem(), V2, max_iter=10, record=1000, metrics={"m": slow}, callbacks=[slow])
    assert clock.now > 100
    assert result.seconds < 1
    assert result.trace["seconds"][-1] == pytest.approx(result.seconds)
    assert float(re.search(r"\((\S+) s\)", result.summary())[1]) > 100  # all that passed


def test_clock_runs_in_the_method(monkeypatch, clock):
    real = Full.follow

    def follow(*arguments):
        clock.now += 5.0
        return real(*arguments)

    monkeypatch.setattr(Full, "follow", follow)
    assert 100 <= solve(problem(), condgrad.hcgm(1.0), max_iter=10).seconds < 101


def test_trace_amend_changes_the_last_row_only():
    trace = Trace()
    for k in range(3):
        trace.append({"k": k, "x": 10 * k})
    trace.amend({"x": -1})
    assert trace["x"].tolist() == [0, 10, -1]
    assert trace["k"].tolist() == [0, 1, 2]


def test_clock_gives_every_second_to_one_part(monkeypatch):
    now = iter([0.0, 1.0, 3.0, 6.0, 10.0])
    monkeypatch.setattr("condgrad.run.limits.time.perf_counter", lambda: next(now))
    clock = Clock()
    assert clock.lap("rows") == 1.0
    assert clock.lap("metrics", counts=False) == 2.0
    assert clock.lap("rows") == 3.0
    assert clock.seconds == 4.0
    clock.start()  # four seconds that belong to nobody
    assert clock.parts == {"rows": 4.0, "metrics": 2.0}
