"""A recommender: mean, biases and a residual of low rank, its settings chosen on ratings held out.

The radius of the nuclear ball comes from a path of growing radii, each fit the start of the next,
which ends where the ratings held out are not predicted better. The factors found are then fitted
again without shrinkage (`factor_fit`), for as many sweeps as the same ratings say. With both
choices all ratings are fitted once more.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from condgrad import _deadline as deadline
from condgrad import _keyboard
from condgrad import _progress as progress
from condgrad._types import Array
from condgrad.applications.factor_fit import FactorFit, NewRows, pair_dots
from condgrad.applications.graphs import check_size
from condgrad.applications.ratings import Observed, held_out, norm_weights, ridge, rmse, row_biases
from condgrad.applications.residual import ResidualFit
from condgrad.backends import threads
from condgrad.errors import from_keyboard
from condgrad.methods.registry import Method
from condgrad.run.result import Result, Status

FIRST, GROWTH, LAST = 0.15, 1.6, 20.0
"""The path of relative radii."""
BETTER, PATIENCE = 1e-4, 2
"""By what share a radius or a sweep must lower the RMSE on the ratings held out to count; how many
radii are tried that do not."""
WORSE = 2e-3
"""A rise of the RMSE by this share ends the path at once."""
LOOSE = 0.99
"""A fit whose norm is below this share of the radius does not feel it, nor any larger one."""
ROUGH = 15
"""Iterations for a radius of the path, each from the fit of the radius before."""
SWEEPS, WAIT = 40, 3
"""Sweeps over the factors at most, and without a lower RMSE."""
RANK = 32
"""Directions that are fitted again at most, those of the largest singular values."""
ROOM = 1 << 30
"""Bytes that the second moments of all users and items may take; directions are fewer otherwise."""
SHARE = 0.5
"""The part of a limit on time in which radius and sweeps are chosen."""
SMALL, MOST = 100, 0.3
"""Ratings to hold out where there are few, but not a larger share than this."""
ENOUGH = 20
"""Ratings held out without which nothing can be chosen."""
USUAL = 1.0
"""The relative radius without a choice."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What a fit is told, as `condgrad.sklearn.MatrixCompletion` explains it."""

    radius: float | str = "auto"
    relative: bool = True
    corrective: bool = True
    rank: int = RANK
    validation: float = 0.1
    method: str | Method | None = None
    max_iter: int = 200
    tol: float | None = 1e-2
    n_jobs: int | None = None
    max_seconds: float | None = None
    convex: dict[str, Any] = field(default_factory=dict)
    """Arguments of `ResidualFit`."""


class Tried(NamedTuple):
    """A radius of the path."""

    radius: float
    errors: tuple[float, ...]
    """RMSE on the ratings held out: of the convex fit, and after each sweep over its factors."""
    W: Any = None
    """The convex fit, without the ratings held out."""

    @property
    def sweeps(self) -> int:
        """The sweeps that are worth making; 0: none."""
        return _earliest(self.errors)

    @property
    def rmse(self) -> float:
        """RMSE after these."""
        return self.errors[self.sweeps]


@dataclass(frozen=True, eq=False)
class Choice:
    """What the ratings held out said; nothing where there were too few."""

    auto: bool = False
    """Whether the radius was to be chosen."""
    held_out: int = 0
    """How many ratings were held out."""
    biases: float = np.nan
    """RMSE of the mean and biases alone."""
    path: tuple[Tried, ...] = ()
    best: int = 0
    interrupted: bool = False
    """Whether the keyboard ended the choice."""
    short: bool = False
    """Whether a limit on time ended the search."""

    @property
    def chosen(self) -> Tried | None:
        """The best of the path."""
        return self.path[self.best] if self.path else None

    def table(self) -> Array:
        """A row for every radius: it, the RMSE of the convex fit and of the best sweep, sweeps."""
        rows = [(t.radius, t.errors[0], t.rmse, t.sweeps) for t in self.path]
        return np.array(rows).reshape(-1, 4)

    def bare(self) -> Choice:
        """The same without the fits."""
        return replace(self, path=tuple(t._replace(W=None) for t in self.path))


@dataclass(frozen=True, eq=False)
class Recommender:
    """A fitted model."""

    mean: float
    user_biases: Array
    item_biases: Array
    user_factors: Array
    item_factors: Array
    bounds: tuple[float, float] | None
    radius: float
    """That of the ball, without unit."""
    result: Result
    """The run of the convex part."""
    choice: Choice
    sweeps: int
    """How often the factors were fitted again."""
    ridge: float
    """Half of the multiplier of the ball; for new rows where the factors are those of the run."""
    user_mean: float
    """Ratings of a user on average."""
    damping: float | None
    """Of the biases; None where there are none."""
    weighting: float
    new_rows: NewRows | None
    """What completes new rows where the factors were fitted again."""

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
    """Fit the model to ratings without repeats.

    Examples
    --------
    >>> i, j = np.nonzero(np.ones((8, 6)))
    >>> model = fit_recommender(Observed(i, j, (i + j) / 2.0, (8, 6)), Settings())
    >>> float(model.rate(np.array([2]), np.array([4])).round(1)[0])
    3.0
    """
    check_size("the ratings", observed.values)
    ready: list[Recommender] = []  # the last is what there is
    with _keyboard.offers(lambda _: ready[-1] if ready else None) as offer:
        with deadline.within(settings.max_seconds), threads.Calm(settings.n_jobs)():
            try:
                for model in _models(observed, settings, seed):
                    ready.append(model)
            except (KeyboardInterrupt, Exception) as error:
                if not (from_keyboard(error) or _keyboard.came()):
                    raise
                if not ready:  # mean and biases at least
                    ready.append(_convex(observed, settings, Choice(interrupted=True), seed)[1])
                ended = replace(ready[-1].result, status=Status.INTERRUPTED)
                ready.append(replace(ready[-1], result=ended))
        return offer.keep(ready[-1])


def _models(observed: Observed, settings: Settings, seed: int) -> Iterator[Recommender]:
    """The convex fit as a model, then the one with its factors fitted again.

    Ctrl-C ends the choice of a radius, and then the best so far is not fitted again.
    """
    choice = Choice()
    if settings.radius == "auto" or settings.corrective:
        choice = choose(observed, settings, seed)
    tried = choice.chosen
    try:
        base, model = _convex(observed, settings, choice, seed)
    except (KeyboardInterrupt, SystemError) as error:
        if not from_keyboard(error):
            raise
        base, model = _convex(observed, settings, replace(choice, interrupted=True), seed)
    yield model
    progress.part("")
    result, P, Q = model.result, model.user_factors, model.item_factors
    if tried is None or not tried.sweeps or result.status is Status.INTERRUPTED:
        return
    try:
        fit, sweeps = _factor_fit(base, P, Q, settings.rank), 0
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
    except (KeyboardInterrupt, SystemError) as error:  # the convex fit is there
        if not from_keyboard(error):
            raise
        yield replace(model, result=replace(result, status=Status.INTERRUPTED))
        return
    yield replace(
        model,
        user_biases=of_users,
        item_biases=of_items,
        user_factors=users,
        item_factors=items,
        sweeps=sweeps,
        new_rows=fit.new_rows,
    )


def _convex(
    observed: Observed, settings: Settings, choice: Choice, seed: int
) -> tuple[ResidualFit, Recommender]:
    """The convex fit, or what a broken choice has of it, as a model."""
    base, tried = ResidualFit(observed, **settings.convex), choice.chosen
    radius = settings.radius
    if isinstance(radius, str):
        radius = USUAL if tried is None else tried.radius
    if settings.relative or settings.radius == "auto":
        radius *= base.unit
    how: Any = {"method": settings.method, "start": tried and tried.W, "seed": seed}
    how |= {"max_iter": settings.max_iter, "tol": settings.tol, "n_jobs": settings.n_jobs}
    if choice.interrupted:
        how |= {"max_iter": 0, "tol": None}
    progress.part("all ratings")
    result = base.solve(radius, **how)
    if choice.interrupted:
        result = replace(result, status=Status.INTERRUPTED)
    elif choice.short and result.status is not Status.INTERRUPTED:
        result = replace(result, status=Status.MAX_SECONDS)
    P, Q, penalty = base.factors(result)
    return base, Recommender(
        mean=base.mean,
        user_biases=base.user_biases,
        item_biases=base.item_biases,
        user_factors=P,
        item_factors=Q,
        bounds=base.bounds,
        radius=radius,
        result=result,
        choice=choice.bare(),
        sweeps=0,
        ridge=penalty,
        user_mean=base.user_mean,
        damping=base.damping if base.biases else None,
        weighting=base.weighting,
        new_rows=None,
    )


def choose(observed: Observed, settings: Settings, seed: int) -> Choice:
    """Choose the radius and the number of sweeps on a part of the ratings, by fits of the rest."""
    share = min(max(settings.validation, SMALL / observed.values.size), MOST)
    share = share if settings.validation > 0 else 0.0
    chosen, size = held_out(observed, share, np.random.default_rng(seed))
    if size < ENOUGH:
        return Choice()
    train, test = observed.at(~chosen), observed.at(chosen)
    free = {**settings.convex, "constrain": False, "l1": None}
    base = ResidualFit(train, **free)
    known = base.base(test.rows, test.cols)
    biases = rmse(base.clip(known), test.values)
    auto = settings.radius == "auto"
    unit = base.unit if auto or settings.relative else 1.0
    radius = FIRST if auto else float(settings.radius)
    tried: list[Tried] = []
    start: Any = None
    best, end = 0, deadline.share(SHARE)
    interrupted = short = False
    try:
        while True:
            least = f", RMSE {tried[best].rmse:.4f} so far" if tried else ""
            progress.part(f"choosing, radius {radius:.2g}{least}")
            how: Any = {"start": start, "max_iter": ROUGH, "tol": None, "n_jobs": settings.n_jobs}
            with deadline.within(end - time.perf_counter()):
                result = base.solve(radius * unit, **how)
            if result.status is Status.INTERRUPTED:
                raise KeyboardInterrupt
            start = result.W
            P, Q, _ = base.factors(result)
            rated = base.clip(known + pair_dots(P, Q, test.rows, test.cols))
            errors = [rmse(rated, test.values)]
            if settings.corrective:
                errors += _corrected(_factor_fit(base, P, Q, settings.rank), base, test, end)
            tried.append(Tried(radius, tuple(errors), start))
            if tried[-1].rmse < tried[best].rmse * (1 - BETTER):
                tried[best] = tried[best]._replace(W=None)  # frees memory
                best = len(tried) - 1
            elif len(tried) - 1 != best:
                tried[-1] = tried[-1]._replace(W=None)
            radius *= GROWTH
            rise = tried[-1].rmse / (tried[best].rmse or 1.0) - 1
            slack = float(start.s.sum()) < LOOSE * tried[-1].radius * unit
            short = time.perf_counter() > end
            grows = auto and len(tried) - best <= PATIENCE and rise <= WORSE and not slack
            if short or not grows or radius > LAST:
                break
    except (KeyboardInterrupt, SystemError) as error:
        if not from_keyboard(error):
            raise
        interrupted = True
    return Choice(auto, size, biases, tuple(tried), best, interrupted, short)


def _corrected(fit: FactorFit, base: ResidualFit, test: Observed, end: float) -> list[float]:
    """RMSE on the ratings held out after each sweep, until it does not fall, or the time is up."""
    errors: list[float] = []
    while len(errors) < SWEEPS and (not errors or len(errors) - _earliest(errors) <= WAIT):
        if errors and time.perf_counter() > end:
            break
        fit.sweep()
        errors.append(rmse(base.clip(fit.rate(test.rows, test.cols)), test.values))
    return errors


def _earliest(errors: Sequence[float]) -> int:
    """The place from which on none lowers the error by much.

    Examples
    --------
    >>> _earliest([1.0, 0.9, 0.8, 0.79999, 0.81])
    2
    """
    least = min(errors)
    return next(k for k, error in enumerate(errors) if error <= least * (1 + BETTER))


def _factor_fit(base: ResidualFit, P: Array, Q: Array, rank: int) -> FactorFit:
    """A fit of the factors that starts from those of the largest singular values."""
    most = slice(0, max(1, min(rank, int(np.sqrt(ROOM / 8 / sum(base.observed.shape))) - 1)))
    Z = pair_dots(P, Q, base.observed.rows, base.observed.cols)
    noise = float(np.mean(np.square(base.residual - Z)))
    users, items = (P[:, most], base.user_biases), (Q[:, most], base.item_biases)
    return FactorFit(base.observed, base.mean, users, items, noise, base.biases)
