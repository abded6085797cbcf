"""Ctrl-C during a fit."""

from __future__ import annotations

from condgrad.run.result import Result, Status


def pass_on(result: Result | None) -> None:
    """Raise the `KeyboardInterrupt` that ended a run, for what called the fit.

    A grid search would go on with the next candidate otherwise.
    """
    if result is not None and result.status is Status.INTERRUPTED:
        raise KeyboardInterrupt("the fit ended early: the estimator keeps the best found so far")
