"""The run behind a certified clustering."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from scipy.spatial.distance import cdist
from sklearn.utils import check_random_state

from condgrad import _progress as progress
from condgrad._check import flag, numbers
from condgrad._floats import EPS
from condgrad._round import apart, toward
from condgrad._types import Array
from condgrad.applications import Rounded, Rounder, clustering_matrix, kmeans, round_clusters
from condgrad.backends import memory
from condgrad.backends.devices import check_device
from condgrad.errors import ProblemError
from condgrad.run.callbacks import Info
from condgrad.run.journal import fresh_seed, settled
from condgrad.run.limits import Limits
from condgrad.run.result import Result, Status
from condgrad.run.solve import solve
from condgrad.sklearn._certification import Certification

ARRAYS = 32
"""Matrices of n × n that a run holds at once, with the distances and the rounding."""
SMALLEST = 1e-70
"""The least spread of the points whose distances to the fourth power are numbers, and 1/most."""
FINER = 10
"""The relaxation counts as solved where iterate and bound are within a tenth of the gap, and the
iterate is feasible to a tenth of that."""
MOST = 10_000
"""Limit on iterations if the call has none, nor one on time."""
WIDEST = 1e12
"""The most that the largest weight may be of the smallest."""


class Points(NamedTuple):
    """Points of positive weight, and what is computed of them once."""

    X: Array
    C: Array
    """Squared distances."""
    weights: Array | None
    """Weights of the points, in units of `unit`; None: 1 each."""
    unit: float
    """A power of 2."""
    used: Array | slice
    """Indices of these points among those that were given."""


def weights_given(sample_weight: Any, n: int) -> Array:
    """Check weights of n points, one number or as many."""
    given = numbers("sample_weight", sample_weight)
    given = np.full(n, given) if given.ndim == 0 else given
    if given.shape != (n,):
        raise ProblemError(f"sample_weight has shape {given.shape}: there are {n} points")
    if (given < 0).any():
        raise ProblemError("sample_weight has a negative entry: weights are at least 0")
    return given


def points_of(X: Array, sample_weight: Any) -> Points:
    """The points with their distances, where what follows has room and stays within the numbers."""
    if sample_weight is None:
        return Points(X, distances_of(X), None, 1.0, slice(None))
    given = weights_given(sample_weight, len(X))
    used = given > 0
    a = given[used]
    if not a.size:
        raise ProblemError("sample_weight is zero for all points: give one of them more")
    if a.max() > WIDEST * a.min():
        raise ProblemError(
            f"sample_weight spreads over a factor of {a.max() / a.min():.1e}: set the smallest to 0"
        )
    unit = float(2.0 ** np.floor(np.log2(a.max())))
    return Points(X[used], distances_of(X[used]), a / unit, unit, used)


class Ends(NamedTuple):
    """When a run ends, and its seed."""

    gap: float
    max_iter: int | None
    max_seconds: float | None
    seed: int
    device: str
    tight: bool


def run_for(
    points: Points, k: int, rounding: Callable[[Array], Rounded], ends: Ends
) -> tuple[Rounded, Result | None]:
    """The best clustering offered by `rounding`, and the run that bounds it if one is needed."""
    rounder, X, C = Rounder(rounding), points.X, points.C
    rounder(np.eye(len(C)))  # W = I: the points themselves
    first = rounder.best
    assert first is not None
    if k == 1 or len(np.unique(X, axis=0)) <= k:  # one partition only; no inertia at best
        return first, None

    def seen(last: Mapping[str, float]) -> progress.Seen | None:
        assert rounder.best is not None
        return application.seen(rounder.best.value, last["lower_bound"])

    def proved(info: Info) -> Status | None:
        best = rounder.best
        assert best is not None
        near = best.value - info.trace.last["lower_bound"] <= ends.gap * best.value
        return Status.CONVERGED if near else None

    application = kmeans(C, k, tight=ends.tight, weights=points.weights)
    settled("gap", lambda: True, ends.gap)  # the run has none
    with progress.answers(seen):
        result = solve(
            application.problem,
            start=application.start,
            max_iter=ends.max_iter,
            max_seconds=ends.max_seconds,
            gap=ends.gap / FINER,
            feasibility=min(1e-3, 0.1 * ends.gap / FINER),
            propose=rounder,
            callbacks=[proved],
            floor=application.floor,
            seed=ends.seed,
            device=ends.device,
        )
    rounder.end(result.W)
    assert rounder.best is not None
    return rounder.best, result


def certified(
    points: Points,
    labels: Array,
    k: int,
    best: Rounded,
    result: Result | None,
    target: float,
    since: float,
) -> Certification:
    """From ⟨C, W⟩ to inertia, which is half of it, for these labels of all points.

    Computed distances are off by less than (d + 4)ε, relatively, and so is ⟨C, W⟩ for W ≥ 0; of a
    clustering its two sums add 2nε at most. Means far from 0 would round more. Weights a have roots
    that are rounded: the run is for weights within 3ε of a, and so are the inertias of all
    partitions, which are monotone in a.
    """
    unit, (n, d) = 0.5 * points.unit, points.X.shape
    inertia = unit * best.value
    d += 0 if points.weights is None else 8
    bound, kind, failure, status = 0.0, "exact", 0.0, Status.CONVERGED
    if result is not None:
        status = result.status
        if result.lower_bound > 0:
            bound = unit * result.lower_bound * (1 - (d + 4) * EPS)
            kind, failure = result.bound_kind, result.bound_failure
            kind = "exact" if kind == "given" else kind  # `forest_floor`
    elif k == 1:
        bound = inertia * (1 - (d + 3 * n + 8) * EPS)
    gap = toward(Fraction(apart(inertia, min(bound, inertia))), math.inf)
    if status is Status.CONVERGED and gap > target:
        status = Status.RELAXED
    seconds = time.perf_counter() - since
    return Certification(
        inertia, bound, gap, k, target, kind, failure, status, seconds, result, labels
    )


def rounded(points: Points, k: int, seed: int, W: Array) -> Rounded:
    """The best clustering read off W."""
    found = round_clusters(points.C, W, k, seed, points.weights)
    W = clustering_matrix(found.labels, weights=points.weights)
    return Rounded(found.value, W, found.labels)


def centres(points: Points, labels: Array, k: int) -> Array:
    """The means of the clusters."""
    X, a = points.X, points.weights
    if a is None:
        return np.stack([X[labels == j].mean(axis=0) for j in range(k)])
    parts = [labels == j for j in range(k)]
    return np.stack([np.average(X[part], axis=0, weights=a[part]) for part in parts])


def distances_of(X: Array) -> Array:
    """Squared distances, where what follows has room and stays within the numbers."""
    n = len(X)
    memory.require_room(ARRAYS * 8 * n * n, "cluster a sample of X", f"matrices of {n} × {n}")
    with np.errstate(over="ignore"):
        spread = float(np.ptp(X, axis=0).max())
    if spread and not SMALLEST < spread < 1 / SMALLEST:
        raise ProblemError(f"a column of X spreads over {spread:.1e}, too far from 1: rescale X")
    return np.asarray(cdist(X, X, "sqeuclidean"))


def count_of(k: Any, n: int) -> int:
    """Check the number of clusters."""
    if isinstance(k, bool) or not isinstance(k, (int, np.integer)) or not 1 <= k <= n:
        raise ProblemError(
            f"n_clusters is {k!r}: it must be an integer of at least 1 and at most n_samples={n}"
        )
    return int(k)


def ends_of(
    gap: Any, max_iter: Any, max_seconds: Any, random_state: Any, device: Any, tight: Any
) -> Ends:
    """Check when a run is to end."""
    number = isinstance(gap, (int, float, np.number)) and not isinstance(gap, bool)
    if not (number and 0 < gap < 1):
        raise ProblemError(f"gap is {gap!r}: it must be a number between 0 and 1, such as 0.01")
    Limits(max_iter, None, max_seconds, None)  # refuses what is no limit, also without a run
    random = check_random_state(random_state)
    seed = fresh_seed(lambda: int(random.randint(np.iinfo(np.int32).max)))
    check_device(device)
    if max_iter is max_seconds is None:
        max_iter = MOST
    return Ends(float(gap), max_iter, max_seconds, seed, device, flag("tight", tight))
