"""Ctrl-C inside a compiled kernel, and during the warm start of max-cut."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import condgrad
from condgrad import Problem, Status, Term, cli, domains, functions, maps, solve
from condgrad.applications import max_cut
from condgrad.applications import mixing as warm_start
from condgrad.backends import ops

DATA = np.random.default_rng(0).normal(size=(2, 20, 20))
PROBLEM = Problem(domains.Simplex(20), [Term(maps.DataMatrix(DATA[0]), functions.Squared(1.0))])
GRAPH = DATA[1] + DATA[1].T - 2 * np.diag(np.diag(DATA[1]))


@pytest.mark.parametrize("shown", [True, False])
def test_keyboard_interrupt_in_a_compiled_kernel(shown):
    """It arrives as a SystemError, with the interrupt as its cause or its context."""

    def stop(info):
        if info.k == 7:
            try:
                raise KeyboardInterrupt
            except KeyboardInterrupt as error:
                if shown:
                    raise SystemError("returned a result with an exception set") from error
                raise SystemError("returned a result with an exception set")  # noqa: B904

    result = solve(PROBLEM, max_iter=50, callbacks=[stop])
    assert (result.status, result.iterations) == (Status.INTERRUPTED, 7)
    assert PROBLEM.domain.contains(result.W, 1e-9)
    assert np.isfinite(result.objective)


def test_another_system_error_is_not_hidden():
    def fail(info):
        raise SystemError("broken") from ValueError("not the keyboard")

    with pytest.raises(SystemError, match="broken"):
        solve(PROBLEM, max_iter=50, callbacks=[fail])


@pytest.fixture
def impatient(monkeypatch):
    """Interrupts the warm start in the middle of its third sweep, or while it proves a bound."""

    def interrupt(name, after):
        real, calls = getattr(warm_start, name), []

        def stop(A, V):
            calls.append(name)
            if len(calls) == after:
                raise SystemError("kernel") from KeyboardInterrupt()
            return real(A, V)

        monkeypatch.setattr(warm_start, name, stop)

    return interrupt


@pytest.mark.parametrize(("name", "after"), [("_sweep", 3), ("_bound", 1), ("_bound", 2)])
def test_interrupted_warm_start_ends_the_run(impatient, name, after):
    impatient(name, after)
    run = max_cut(GRAPH, warm=1e-9).run(gap=1e-9)
    assert (run.status, run.result.iterations) == (Status.INTERRUPTED, 0)
    np.testing.assert_allclose(np.diag(run.result.W), 1)
    positive = GRAPH[GRAPH > 0].sum() / 2
    assert 0 < -run.rounded.value <= -run.result.lower_bound < positive


def test_interrupted_warm_start_of_the_function(impatient):
    impatient("_sweep", 3)
    cut = condgrad.max_cut(GRAPH)
    assert cut.status is Status.INTERRUPTED
    assert 0 < cut.value <= cut.bound


def test_another_error_of_the_warm_start_is_not_hidden(monkeypatch):
    def fail(A, V):
        raise SystemError("broken")

    monkeypatch.setattr(warm_start, "_sweep", fail)
    with pytest.raises(SystemError, match="broken"):
        max_cut(GRAPH, warm=1e-3)


def test_command_prints_what_an_interrupted_warm_start_found(impatient, monkeypatch, capsys):
    impatient("_sweep", 3)
    monkeypatch.setattr(sys, "argv", ["condgrad", "solve", "max-cut", "petersen"])
    monkeypatch.setenv("COLUMNS", "160")
    with pytest.raises(SystemExit) as end:
        cli.main()
    out = capsys.readouterr().out
    assert end.value.code == 130
    assert "the run was interrupted" in out
    assert "Cut found" in out


def test_keyboard_interrupt_in_the_compiled_form(monkeypatch):
    real, calls = ops.vector_sag, []

    def stop(*args):
        real(*args)
        calls.append(int(args[-1][0]))
        if len(calls) == 3:
            raise SystemError("kernel") from KeyboardInterrupt()

    monkeypatch.setitem(ops.__dict__, "vector_sag", stop)
    result = solve(PROBLEM, condgrad.sag_fw(batch=5), max_iter=500)
    assert (result.status, len(calls)) == (Status.INTERRUPTED, 3)
    assert result.iterations == sum(calls) < 500
