"""Ratings as entries of a users × items matrix: their ids, biases and factors."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils import column_or_1d
from sklearn.utils.validation import check_array, check_consistent_length

from condgrad._types import Array
from condgrad.applications.matrix_completion import lowest_highest
from condgrad.errors import ProblemError

SWEEPS, SETTLED = 200, 1e-8
"""Sweeps at most over the biases; the change that ends them, relative to the centred ratings."""


class Observed(NamedTuple):
    """The observed entries of a matrix: values[l] stands at (rows[l], cols[l])."""

    rows: NDArray[np.intp]
    cols: NDArray[np.intp]
    values: Array
    shape: tuple[int, int]


def entries_of(X: Any) -> Observed:
    """What a matrix holds: the stored entries of a sparse one, in any case without NaN."""
    if sp.issparse(X):
        coo = X.tocoo()
        rows, cols, values = coo.row, coo.col, coo.data
    else:
        rows, cols = np.nonzero(~np.isnan(X))
        values = X[rows, cols]
    kept = ~np.isnan(values)
    return Observed(rows[kept].astype(np.intp), cols[kept].astype(np.intp), values[kept], X.shape)


def merged(rows: Array, cols: Array, values: Array, shape: tuple[int, int]) -> Observed:
    """The entries with repeats replaced by their mean."""
    flat, owner = np.unique(rows * shape[1] + cols, return_inverse=True)
    mean = np.bincount(owner, values) / np.bincount(owner)
    return Observed(flat // shape[1], flat % shape[1], mean, shape)


class Ids:
    """Names of users or items and their positions.

    Repeated names are one, and all are sorted where they can be, unless they come `ordered`, as
    those of the rows of a matrix. There a repeated name means its first row.
    """

    def __init__(self, kind: str, names: list[Any], ordered: bool = False) -> None:
        unique = list(dict.fromkeys(names))
        if any(map(_missing, unique)):
            raise ProblemError(f"X has None or NaN for a {kind}: give an id, or drop those ratings")
        if not ordered:
            with contextlib.suppress(TypeError):  # ids of several types stay as they came
                unique.sort()
            names = unique
        self.kind, self.names = kind, names
        self._at = {name: k for k, name in reversed(list(enumerate(names)))}

    @property
    def array(self) -> NDArray[Any]:
        """The names as an array, of objects where they are not all of one plain type."""
        plain = any(all(type(name) is kind for name in self.names) for kind in (int, float, str))
        out = np.array(self.names) if plain else np.empty(len(self.names), dtype=object)
        out[:] = self.names
        return out

    def positions(self, names: Sequence[Any]) -> NDArray[np.intp]:
        """Position of each name, −1 for those that are not known."""
        found = np.array([self._at.get(name, -1) for name in names], dtype=np.intp)
        if found.size and found.max() < 0:
            texts = {isinstance(name, str) for name in self.names}
            if texts.isdisjoint(isinstance(name, str) for name in names):
                given, known = (("text", "numbers"), ("numbers", "text"))[texts == {True}]
                raise ProblemError(
                    f"the {self.kind}s are {given}, but fit got {known}: give them as in fit"
                )
        return found


def _missing(name: Any) -> bool:
    """Whether an id is None, NaN or the NA of pandas, whose comparisons have no truth value."""
    try:
        return name is None or bool(name != name)
    except TypeError:
        return True


def two_columns(X: Any) -> bool:
    """Whether X can be a table of pairs."""
    shape = X.shape if hasattr(X, "shape") else np.asarray(X, dtype=object).shape
    return not sp.issparse(X) and len(shape) == 2 and shape[1] == 2


def id_columns(X: Any) -> tuple[list[Any], list[Any]]:
    """Users and items, the two columns of a table of pairs, as plain Python objects."""
    if hasattr(X, "iloc"):
        if X.shape[1] == 2:
            return X.iloc[:, 0].tolist(), X.iloc[:, 1].tolist()
        found = tuple(X.shape)
    else:
        table = np.asarray(X) if hasattr(X, "dtype") else np.array(X, dtype=object)
        if table.ndim == 2 and table.shape[1] == 2:
            return table[:, 0].tolist(), table[:, 1].tolist()
        found = table.shape
    raise ProblemError(f"X has shape {found}: pairs need two columns, user and item")


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


def range_of(bounds: Any, values: Array) -> tuple[float, float] | None:
    """The bounds asked for, checked."""
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


def ratings_of(X: Any, y: Any) -> Array:
    """The ratings y of pairs, checked."""
    if y is None:
        raise ProblemError("y is missing: pairs of user and item need their ratings")
    values = column_or_1d(check_array(y, ensure_2d=False, dtype=np.float64, input_name="y"))
    check_consistent_length(X, values)
    return values


def broadcast(users: Any, items: Any) -> tuple[list[Any], list[Any]]:
    """Ids of users and items as lists of one length."""
    lists = []
    for ids in (users, items):
        if getattr(ids, "ndim", 1) > 1:
            raise ProblemError("predict got a table and items: give ids of users, or X alone")
        plain = ids.tolist() if hasattr(ids, "tolist") else ids
        one = isinstance(plain, str) or not hasattr(plain, "__len__")
        lists.append([plain] if one else list(plain))
    length = max(map(len, lists))
    if not {len(ids) for ids in lists} <= {1, length}:
        raise ProblemError(
            f"predict got {len(lists[0])} users and {len(lists[1])} items: give one item per user"
        )
    first, second = (ids * length if len(ids) == 1 else ids for ids in lists)
    return first, second
