"""Limits on time and the seconds of a run, by a clock that the tests move."""

from __future__ import annotations

import pytest

import condgrad
from condgrad import Status
from condgrad.estimators import Full
from condgrad.solve import solve
from test_solve import V2, problem


def test_time_limit_is_a_silent_status(capsys, recwarn, clock):
    result = solve(problem(), V2, max_seconds=0.1)
    assert result.status is Status.MAX_SECONDS
    assert 0.1 <= result.seconds < 0.11
    assert clock.now < 0.2
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


def test_clock_runs_in_the_method(monkeypatch, clock):
    real = Full.update

    def update(*arguments):
        clock.now += 5.0
        real(*arguments)

    monkeypatch.setattr(Full, "update", update)
    assert 100 <= solve(problem(), condgrad.hcgm(1.0), max_iter=10).seconds < 101
