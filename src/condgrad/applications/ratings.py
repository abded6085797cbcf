"""Ratings as entries of a users × items matrix: repeats, biases, weights, a part held out."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from condgrad._types import Array
from condgrad.applications.matrix_completion import lowest_highest

SWEEPS, SETTLED = 200, 1e-8
"""Sweeps at most over the biases; the change that ends them, relative to the centred ratings."""


class Observed(NamedTuple):
    """The observed entries of a matrix: values[l] stands at (rows[l], cols[l])."""

    rows: NDArray[np.intp]
    cols: NDArray[np.intp]
    values: Array
    shape: tuple[int, int]

    def at(self, chosen: Array) -> Observed:
        """Some of them, in a matrix of the same shape."""
        return Observed(self.rows[chosen], self.cols[chosen], self.values[chosen], self.shape)


def merged(rows: Array, cols: Array, values: Array, shape: tuple[int, int]) -> Observed:
    """The entries by rows and columns, repeats replaced by their mean.

    Examples
    --------
    >>> merged(np.array([1, 0, 1]), np.array([0, 2, 0]), np.array([1.0, 2.0, 4.0]), (2, 3)).values
    array([2. , 2.5])
    """
    flat = rows * shape[1] + cols
    order = np.argsort(flat, kind="stable")
    flat, values = flat[order], values[order]
    first = np.concatenate([[True], flat[1:] != flat[:-1]])
    if not first.all():
        starts = np.nonzero(first)[0]
        values = np.add.reduceat(values, starts) / np.diff(np.append(starts, values.size))
        flat = flat[first]
    return Observed(flat // shape[1], flat % shape[1], values, shape)


def held_out(
    observed: Observed, share: float, rng: np.random.Generator
) -> tuple[NDArray[np.bool_], int]:
    """Draw a share of the ratings of every user; which they are, and how many.

    A user of n ratings gives share · n of them, rounded up or down at random, and no user or item
    gives its last one.
    """
    i, j, _, (users, items) = observed
    counts = np.bincount(i, minlength=users)
    wanted = np.floor(share * counts + rng.random(users))
    wanted = np.minimum(wanted, counts - 1)
    order = np.lexsort((rng.random(i.size), i))  # by user, in random order
    place = np.arange(i.size) - np.repeat(np.cumsum(counts) - counts, counts)
    chosen = np.zeros(i.size, dtype=bool)
    chosen[order] = place < np.repeat(wanted, counts)
    left = np.bincount(j[~chosen], minlength=items)
    chosen &= left[j] > 0
    return chosen, int(np.count_nonzero(chosen))


def fit_biases(
    observed: Observed, mean: float, damping: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    r"""Biases of users and items by alternating damped means.

    .. math:: \min_{b, c} \sum_{(i,j) ∈ Ω} (X_{ij} - μ - b_i - c_j)^2 + δ (‖b‖^2 + ‖c‖^2)

    The users' come last, so that `row_biases` gives the same for the rows of the fit.
    """
    i, j, values, (users, items) = observed
    b, c = np.zeros(users), np.zeros(items)
    centred = values - mean
    for _ in range(SWEEPS):
        before = b
        c = _damped_means(j, centred - b[i], items, damping)
        b = _damped_means(i, centred - c[j], users, damping)
        if np.abs(b - before).max() <= SETTLED * np.abs(centred).max():
            break
    return b, c


def row_biases(
    observed: Observed, mean: float, item_biases: Array, damping: float
) -> NDArray[np.float64]:
    """The biases of users, given those of the items."""
    i, j, values, (users, _) = observed
    return _damped_means(i, values - mean - item_biases[j], users, damping)


def _damped_means(at: Array, values: Array, size: int, damping: float) -> NDArray[np.float64]:
    """Σ values/(count + δ) for each position, 0 where nothing was observed."""
    counts = np.bincount(at, minlength=size)
    return np.bincount(at, values, size) / np.where(counts > 0, counts + damping, 1.0)


def norm_weights(counts: Array, mean: float, weighting: float) -> Array:
    """The diagonal of D or E of the weighted nuclear norm: its square is 1 − α + α n_i/n̄."""
    return np.sqrt(1 - weighting + weighting * counts / mean)


def range_of(bounds: Any, values: Array) -> tuple[float, float] | None:
    """The bounds asked for, checked; those of the ratings for ``"auto"``."""
    if bounds is None:
        return None
    if isinstance(bounds, str) and bounds == "auto":
        return float(values.min()), float(values.max())
    return lowest_highest(bounds)


def balanced_factors(W: Array, rank: int) -> tuple[Array, Array]:
    """P and Q with PQᵀ = W and ‖P‖² = ‖Q‖² = ‖W‖_*, where W has that rank or less.

    Its range is that of W times a few more random vectors than that [1]_.

    References
    ----------
    .. [1] N. Halko, P. G. Martinsson, J. A. Tropp, "Finding structure with randomness", SIAM Review
       53(2), 2011.
    """
    width = min(rank + 5, *W.shape)
    basis = np.linalg.qr(W @ np.random.default_rng(0).normal(size=(W.shape[1], width)))[0]
    U, s, V = np.linalg.svd(basis.T @ W, full_matrices=False)
    kept = s > 1e-10 * s[0]
    roots = np.sqrt(s[kept])
    return basis @ U[:, kept] * roots, V[kept].T * roots


def ridge(Q: Array, target: Array, penalty: float) -> Array:
    """Argmin ‖Qz − target‖² + penalty ‖z‖², in the smaller of the two dimensions."""
    rows, columns = Q.shape
    if penalty <= 0:
        return np.linalg.lstsq(Q, target, rcond=1e-10)[0]
    if rows < columns:
        return Q.T @ scipy.linalg.solve(Q @ Q.T + penalty * np.eye(rows), target, assume_a="pos")
    return scipy.linalg.solve(Q.T @ Q + penalty * np.eye(columns), Q.T @ target, assume_a="pos")


def rmse(found: Array, wanted: Array) -> float:
    """Root mean square of the difference."""
    return float(np.sqrt(np.mean(np.square(found - wanted))))
