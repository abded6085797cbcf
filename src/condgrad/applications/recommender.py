"""A recommender: mean, biases and a residual of low rank, its settings chosen on ratings held out.

The radius of the nuclear ball, and for how many sweeps the factors found are fitted again without
shrinkage (`factor_fit`), are chosen on ratings held out (`choosing`). With both choices all ratings
are fitted once more.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from condgrad import _deadline as deadline
from condgrad import _progress as progress
from condgrad._types import Array
from condgrad.applications.choosing import Choice, Settings, choose, factor_fit_of
from condgrad.applications.factor_fit import NewRows, pair_dots
from condgrad.applications.graphs import check_size
from condgrad.applications.ratings import Observed, norm_weights, ridge, row_biases
from condgrad.applications.residual import ResidualFit
from condgrad.backends import threads
from condgrad.errors import from_keyboard
from condgrad.run.result import Result, Status

USUAL = 1.0
"""The relative radius without a choice."""


@dataclass(frozen=True, eq=False)
class Factors:
    """Factors and biases that rate: x_ij = μ + b_i + c_j + p_i'q_j, clipped to the bounds."""

    mean: float
    user_biases: Array
    item_biases: Array
    user_factors: Array
    item_factors: Array
    bounds: tuple[float, float] | None

    def clip(self, ratings: Array) -> Array:
        """The ratings within the bounds."""
        return ratings if self.bounds is None else np.clip(ratings, *self.bounds)

    def rate(self, i: Array, j: Array, clipped: bool = True) -> Array:
        """The ratings at given positions; −1 is an unknown user or item, which has no bias."""
        known = (i >= 0) & (j >= 0)
        if known.all():
            out = pair_dots(self.user_factors, self.item_factors, i, j)
            out += self.user_biases[i]
            out += self.item_biases[j]
        else:
            out = np.where(i >= 0, self.user_biases[i], 0.0)
            out += np.where(j >= 0, self.item_biases[j], 0.0)
            out[known] += pair_dots(self.user_factors, self.item_factors, i[known], j[known])
        out += self.mean
        return self.clip(out) if clipped else out


@dataclass(frozen=True, eq=False)
class Recommender(Factors):
    """A fitted model."""

    radius: float
    """Radius of the ball, without unit."""
    result: Result
    """The run of the convex part."""
    choice: Choice
    sweeps: int
    """Number of sweeps that fitted the factors again."""
    ridge: float
    """Half of the multiplier of the ball; for new rows where the factors are those of the run."""
    user_mean: float
    """Ratings of a user on average."""
    damping: float | None
    """Damping of the biases; None if there are none."""
    weighting: float
    new_rows: NewRows | None
    """Map that completes new rows if the factors were fitted again."""

    def complete(self, observed: Observed) -> Array:
        """Rows completed from their own ratings."""
        if self.new_rows is not None:
            factors, bias = self.new_rows(observed)
        else:
            factors, bias = self._rows(observed)
        base = self.mean + bias[:, None] + self.item_biases
        return self.clip(base + factors @ self.item_factors.T)

    def _rows(self, observed: Observed) -> tuple[Array, Array]:
        """Factors and biases of rows where the factors are those of the run."""
        i, j, values, shape = observed
        bias = np.zeros(shape[0])
        if self.damping is not None:
            bias = row_biases(observed, self.mean, self.item_biases, self.damping)
        residual = values - self.mean - bias[i] - self.item_biases[j]
        counts = np.bincount(i, minlength=shape[0])
        penalty = self.ridge * np.square(norm_weights(counts, self.user_mean, self.weighting))
        order, ends = np.argsort(i, kind="stable"), np.cumsum(counts)
        factors = np.zeros((shape[0], self.item_factors.shape[1]))
        for row in np.nonzero(counts)[0]:
            mine = order[ends[row] - counts[row] : ends[row]]
            factors[row] = ridge(self.item_factors[j[mine]], residual[mine], penalty[row])
        return factors, bias


def fit_recommender(observed: Observed, settings: Settings, seed: int = 0) -> Recommender:
    """Fit the model to ratings without repeats; Ctrl-C ends that with the model there is.

    Examples
    --------
    >>> i, j = np.nonzero(np.ones((8, 6)))
    >>> model = fit_recommender(Observed(i, j, (i + j) / 2.0, (8, 6)), Settings())
    >>> float(model.rate(np.array([2]), np.array([4])).round(1)[0])
    3.0
    """
    check_size("the ratings", observed.values)
    fits, ready = _Fits(observed, settings, seed), None
    with deadline.within(settings.max_seconds), threads.Calm(settings.n_jobs)():
        try:
            for model in fits.models():
                ready = model
        except (KeyboardInterrupt, SystemError) as error:
            if not from_keyboard(error):
                raise
            ready = _ended(ready or fits.stopped())  # mean and biases at least
    assert ready is not None
    return ready


class _Fits:
    """The fits of a call."""

    def __init__(self, observed: Observed, settings: Settings, seed: int) -> None:
        self.observed, self.settings, self.seed = observed, settings, seed
        self.base: ResidualFit | None = None
        """Mean and biases of all ratings."""
        self.choice = Choice()

    def stopped(self) -> Recommender:
        """The best of a broken choice as a model; it is not fitted any more."""
        return self._convex(replace(self.choice, interrupted=True))

    def models(self) -> Iterator[Recommender]:
        """The convex fit as a model, then the one with its factors fitted again."""
        settings = self.settings
        self.base = ResidualFit(self.observed, **settings.convex)
        if settings.radius == "auto" or settings.corrective:
            self.choice = choose(self.observed, settings, self.seed)
        tried = self.choice.chosen
        model = self._convex(self.choice)
        yield model
        progress.part("")
        result, P, Q = model.result, model.user_factors, model.item_factors
        if tried is None or not tried.sweeps or result.status is Status.INTERRUPTED:
            return
        fit, sweeps = factor_fit_of(self.base, P, Q, settings.rank), 0
        while sweeps < tried.sweeps and not deadline.over():
            progress.doing(f"fitting the factors again, sweep {sweeps + 1} of {tried.sweeps}")
            fit.sweep()
            sweeps += 1
        if sweeps < tried.sweeps:
            model = replace(model, result=replace(result, status=Status.MAX_SECONDS))
        if not sweeps:
            yield model
            return
        (users, of_users), (items, of_items) = fit.users, fit.items
        yield replace(
            model,
            user_biases=of_users,
            item_biases=of_items,
            user_factors=users,
            item_factors=items,
            sweeps=sweeps,
            new_rows=fit.new_rows,
        )

    def _convex(self, choice: Choice) -> Recommender:
        """The convex fit, or what a broken choice has of it, as a model."""
        settings, tried = self.settings, choice.chosen
        base = self.base or ResidualFit(self.observed, **settings.convex)
        radius = settings.radius
        if isinstance(radius, str):
            radius = USUAL if tried is None else tried.radius
        if settings.relative or settings.radius == "auto":
            radius *= base.unit
        how: Any = {"method": settings.method, "seed": self.seed, "n_jobs": settings.n_jobs}
        how |= {"max_iter": settings.max_iter, "tol": settings.tol}
        if choice.interrupted:
            how |= {"max_iter": 0, "tol": None}
        progress.part("all ratings")
        result = base.solve(radius, start=None if tried is None else tried.W, **how)
        if choice.interrupted:
            result = replace(result, status=Status.INTERRUPTED)
        elif choice.short and result.status is not Status.INTERRUPTED:
            result = replace(result, status=Status.MAX_SECONDS)
        return _model(base, radius, choice.bare(), result)


def _ended(model: Recommender) -> Recommender:
    """The model, of a fit that was interrupted."""
    return replace(model, result=replace(model.result, status=Status.INTERRUPTED))


def _model(base: ResidualFit, radius: float, choice: Choice, result: Result) -> Recommender:
    """A convex fit as a model."""
    P, Q, penalty = base.factors(result)
    return Recommender(
        mean=base.mean,
        user_biases=base.user_biases,
        item_biases=base.item_biases,
        user_factors=P,
        item_factors=Q,
        bounds=base.bounds,
        radius=radius,
        result=result,
        choice=choice,
        sweeps=0,
        ridge=penalty,
        user_mean=base.user_mean,
        damping=base.damping if base.biases else None,
        weighting=base.weighting,
        new_rows=None,
    )
