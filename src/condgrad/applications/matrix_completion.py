"""Matrix completion."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from condgrad._check import numbers, positive
from condgrad._types import Array
from condgrad.applications._base import Application, check_preset, require_room
from condgrad.domains import NuclearBall
from condgrad.errors import ProblemError
from condgrad.functions import L1, Interval, Squared
from condgrad.maps import AllEntries, Entries
from condgrad.methods.factored_apg import chosen
from condgrad.points.factored import Factored
from condgrad.problem import Problem, Term

FEWER = "leave out users and items with few ratings, or take a sample"
"""The remedy for a matrix that does not fit."""


def matrix_completion(
    rows: Any,
    cols: Any,
    values: Any,
    shape: tuple[int, int],
    *,
    radius: float | None = None,
    bounds: tuple[float, float] | None = None,
    l1: float | None = None,
    test: tuple[Any, Any, Any] | None = None,
    preset: str = "auto",
) -> Application:
    r"""Fit a matrix of small nuclear norm to observed entries.

    .. math:: \min_{‖W‖_* ≤ r} \sum_{(i,j) ∈ Ω} (W_{ij} - X_{ij})^2
              \quad\text{s.t. } lo ≤ W ≤ hi, \quad\text{or } + λ‖W‖_1

    Parameters
    ----------
    rows, cols, values : array
        Observed entries (i, j, X_ij), positions counted from 0.
    shape : (int, int)
        Shape of the matrix.
    radius : float, optional
        r; default 1.58 times the norm of the constant matrix of the mean value, to two digits,
        which on MovieLens-100k is the paper's 7000.
    bounds : (float, float), optional
        lo and hi, for every entry; default: the smallest and largest value observed, unless `l1`
        is given.
    l1 : float, optional
        λ > 0.
    test : (rows, cols, values), optional
        Entries held out, for the metric ``test_rmse``.
    preset : {"auto", "paper", "published"}
        ``auto``: β0 is found by the library. The other two agree here.

    Notes
    -----
    Above four million entries W is kept as factors, unless a method is named or there is an `l1`:
    some entries have multipliers of the box, and it is measured on all entries, a block of them at
    a time (docs/large.md).

    References
    ----------
    .. [1] G. Dresdner et al., AISTATS 2022, section 5.1.
    """
    check_preset(preset)
    entries, target = _entries(rows, cols, values, shape)
    radius = default_radius(target, shape) if radius is None else positive("radius", radius)
    if bounds is None and l1 is None:
        bounds = (float(target.min()), float(target.max()))
    terms = [Term(entries, Squared(target), weight=2.0, name="fit")]
    if bounds is not None:
        low, high = bounds = lowest_highest(bounds)
        size = np.sqrt(shape[0] * shape[1])
        nearest = min(abs(low), abs(high)) if low * high > 0 else 0.0
        if nearest * size > radius:
            raise ProblemError(
                f"radius is {radius:g}, but a matrix with every entry in [{low:g}, {high:g}] has a "
                f"nuclear norm of at least {nearest * size:g}: raise the radius"
            )
        terms.append(Term(AllEntries(shape), Interval(low, high), name="box"))
    if l1 is not None:
        positive("l1", l1)
        terms.append(Term(AllEntries(shape), L1(l1), name="l1"))
    metrics = {"train_rmse": partial(_error, entries, target)}
    if test is not None:
        if not isinstance(test, (tuple, list)) or len(test) != 3:
            raise ProblemError(f"test is a {type(test).__name__}: give (rows, cols, values)")
        metrics["test_rmse"] = partial(_error, *_entries(*test, shape, name="test values"))
    problem = Problem(NuclearBall(shape, radius), terms)
    factors = preset == "auto" and chosen(problem)
    if not factors:
        require_room((entries.shape[0], entries.shape[1]), 2, FEWER)
    return Application(
        name="matrix-completion",
        preset=preset,
        problem=problem,
        start=constant(float(target.mean()), shape, radius, bounds) if factors else np.zeros(shape),
        beta0={"": "auto" if preset == "auto" else 10.0},
        batch=min(1000, target.size),
        metrics=metrics,
        formula="box" if bounds is not None else "",
        settings={
            "shape": list(shape),
            "radius": radius,
            "bounds": None if bounds is None else list(bounds),
            "l1": l1,
        },
        floor=0.0,  # squares and absolute values
    )


def default_radius(values: Array, shape: tuple[int, int]) -> float:
    """1.58 |mean| √(rows · columns), to two digits.

    Examples
    --------
    >>> default_radius(np.full(3, 3.53), (1675, 943))
    7000.0
    """
    size = 1.58 * float(np.sqrt(np.mean(values**2)) if np.mean(values) == 0 else abs(values.mean()))
    return float(f"{max(size, 1e-12) * np.sqrt(shape[0] * shape[1]):.1e}")


def constant(
    value: float, shape: tuple[int, int], radius: float, bounds: tuple[float, float] | None = None
) -> Factored:
    """A matrix with one number everywhere, as near to a value as bounds and radius allow.

    Examples
    --------
    >>> np.asarray(constant(7.0, (2, 2), 100.0, (1.0, 5.0)))
    array([[5., 5.],
           [5., 5.]])
    """
    n, m = shape
    most = radius / float(np.sqrt(n * m))
    value = float(np.clip(value if bounds is None else np.clip(value, *bounds), -most, most))
    side = [np.full((k, 1), 1 / np.sqrt(k)) for k in (n, m)]
    sign = -1.0 if value < 0 else 1.0
    return Factored(sign * side[0], [abs(value) * np.sqrt(n * m)], side[1])


def _entries(
    rows: Any, cols: Any, values: Any, shape: Any, name: str = "values"
) -> tuple[Entries, Array]:
    """Observed entries and their values, checked."""
    entries, target = Entries(rows, cols, shape), numbers(name, values)
    if target.shape != (entries.size,):
        raise ProblemError(
            f"{name} has shape {target.shape}: give one value for each of the {entries.size} rows"
        )
    return entries, target


def lowest_highest(bounds: Any) -> tuple[float, float]:
    """Check the range of entries."""
    try:
        low, high = (float(bound) for bound in bounds)
    except (TypeError, ValueError):
        low, high = np.nan, np.nan
    if not low <= high:
        raise ProblemError(f"bounds is {bounds!r}: give (lowest, highest)")
    return low, high


def _error(entries: Entries, target: Array, W: Array) -> float:
    return float(np.sqrt(np.mean(np.square(entries.rows(W) - target))))
