"""Checks of X and y by scikit-learn, with the package's own error, and fits that ended early."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from condgrad._check import array_of, as_float64
from condgrad._round import up
from condgrad._types import Array
from condgrad.errors import ProblemError
from condgrad.run.result import Result, Status


class KindError(ProblemError, TypeError):
    """X is no array of numbers; scikit-learn expects a `TypeError` of such a thing."""


def checked(check: Callable[..., Any], X: Any, *, name: str = "X", **options: Any) -> Any:
    """X as a check of scikit-learn returns it; what it refuses is a `ProblemError`.

    Masked entries, which it would read as numbers, and dates, which it would count, are refused;
    dates not where it only looks at the names of columns, one of which may say when.
    """
    refuse_guesses(name, X, not options.get("skip_check_array"))
    try:
        with np.errstate(over="ignore"):  # it refuses what does not fit into float64
            return check(X, **options)
    except ProblemError:
        raise
    except TypeError as error:
        raise KindError(f"{name}: {error}") from error
    except Exception as error:  # also of what is behind the array, a frame or a class of a user
        text = "could not convert string" in str(error)
        hint = "; leave columns of text out, or make numbers of them" if text else ""
        raise ProblemError(f"{name}: {error}{hint}") from error


def refuse_guesses(name: str, X: Any, numbers: bool = True) -> None:
    """Refuse masked entries, and among `numbers` dates and integers that would be rounded."""
    if isinstance(X, np.ma.MaskedArray) and np.ma.getmaskarray(X).any():
        raise ProblemError(f"{name} has masked entries: give them values with .filled(...)")
    if not numbers:
        return
    dtypes: Any = getattr(X, "dtypes", None) if hasattr(X, "iloc") else getattr(X, "dtype", None)
    several = list(dtypes) if hasattr(dtypes, "__iter__") else [dtypes]
    if all(isinstance(dtype, np.dtype) and dtype.kind in "iu" for dtype in several):
        as_float64(name, X.to_numpy() if hasattr(X, "iloc") else X)
    if any(getattr(dtype, "kind", "") in ("m", "M") for dtype in several):
        raise ProblemError(f"{name} has dates or times: pass numbers, such as days since the first")


def unmasked(X: Any) -> Any:
    """A matrix whose masked entries are missing ones, as NaN."""
    if isinstance(X, np.ma.MaskedArray) and X.dtype.kind in "biuf":
        with np.errstate(over="ignore"):
            return np.ma.filled(X.astype(np.float64), np.nan)
    return X


def partition(labels: Any, n: int) -> Array:
    """Labels 0 … k − 1 in the order of first appearance."""
    given = array_of("labels", labels)
    if given.shape != (n,):
        raise ProblemError(f"labels has shape {given.shape}: give one label for each of {n} points")
    values = given.tolist()
    try:
        missing = sum(v is None or v != v for v in values)  # NaN differs from itself
        _, first, inverse = np.unique(given, return_index=True, return_inverse=True)
    except TypeError:
        raise ProblemError(
            "labels cannot be compared with each other: use integers, or strings, throughout"
        ) from None
    if missing:
        raise ProblemError(f"labels has {missing} missing values: give every point a cluster")
    if noise := sum(v == -1 for v in values):
        raise ProblemError(
            f"labels marks {noise} points as noise (-1), but a partition has a cluster for every "
            "point: pass X[labels != -1] and labels[labels != -1], or relabel them"
        )
    return np.argsort(np.argsort(first))[inverse]


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
