"""Fits that something ended before they were done."""

from __future__ import annotations

import warnings
from typing import Any

from sklearn.exceptions import ConvergenceWarning

from condgrad._round import up
from condgrad.run.result import Result, Status


def pass_on(result: Result | None) -> None:
    """Raise the `KeyboardInterrupt` that ended a run, for what called the fit.

    A grid search would go on with the next candidate otherwise.
    """
    if result is not None and result.status is Status.INTERRUPTED:
        raise KeyboardInterrupt("the fit ended early: the estimator keeps the best found so far")


def say_early(model: Any, status: Status, gap: float, asked: float | None) -> None:
    """Warn, as scikit-learn does, where a limit ended a fit before the gap asked for is proved."""
    if asked is not None and status in Status.limits() and gap > asked:
        limits = [name for name in ("max_iter", "max_seconds") if hasattr(model, name)]
        warnings.warn(
            f"{type(model).__name__} stopped early: {status}, and the gap is {up(gap, 2)}, not "
            f"{asked:g}; raise {' or '.join(limits)}, or the gap asked for",
            ConvergenceWarning,
            stacklevel=3,
        )
