"""How a recommender chooses the radius of its ball and the sweeps over its factors.

A path of growing radii is fitted to a part of the ratings, each fit the start of the next, and ends
where the ratings held out are not predicted better; after each the factors are fitted again for as
many sweeps as the same ratings say.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from condgrad import _deadline as deadline
from condgrad import _progress as progress
from condgrad._types import Array
from condgrad.applications.factor_fit import FactorFit, pair_dots
from condgrad.applications.ratings import Observed, held_out, rmse
from condgrad.applications.residual import ResidualFit
from condgrad.errors import from_keyboard
from condgrad.methods import Method
from condgrad.run.result import Status

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


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Settings of a fit, as `condgrad.sklearn.MatrixCompletion` explains them."""

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
    """Result of the ratings held out; empty if there were too few."""

    auto: bool = False
    """Whether the radius was to be chosen."""
    held_out: int = 0
    """Number of ratings held out."""
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
        """Return this choice without the fits."""
        return replace(self, path=tuple(t._replace(W=None) for t in self.path))


def choose(observed: Observed, settings: Settings, seed: int) -> Choice:
    """Choose the radius and the number of sweeps on a part of the ratings, by fits of the rest.

    Ctrl-C ends the search, with the best so far.
    """
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
    errors: list[float] = []
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
            start = result.W
            P, Q, _ = base.factors(result)
            rated = base.clip(known + pair_dots(P, Q, test.rows, test.cols))
            errors = [rmse(rated, test.values)]
            if result.status is Status.INTERRUPTED:
                raise KeyboardInterrupt
            if settings.corrective:
                errors += _corrected(factor_fit_of(base, P, Q, settings.rank), base, test, end)
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
        if errors and not tried:  # in the first fit, or the sweeps over its factors
            tried.append(Tried(radius, (errors[0],), start))
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


def factor_fit_of(base: ResidualFit, P: Array, Q: Array, rank: int) -> FactorFit:
    """A fit of the factors that starts from those of the largest singular values."""
    most = slice(0, max(1, min(rank, int(np.sqrt(ROOM / 8 / sum(base.observed.shape))) - 1)))
    Z = pair_dots(P, Q, base.observed.rows, base.observed.cols)
    noise = float(np.mean(np.square(base.residual - Z)))
    users, items = (P[:, most], base.user_biases), (Q[:, most], base.item_biases)
    return FactorFit(base.observed, base.mean, users, items, noise, base.biases)
