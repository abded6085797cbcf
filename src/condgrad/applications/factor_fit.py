r"""Factors fitted again on the subspace of a convex fit, without its shrinkage.

A nuclear ball shrinks every direction alike, which costs accuracy. Here users and items are fitted
in turn by ridge regressions,

.. math:: X_{ij} = μ + b_i + c_j + p_i'q_j + ε_{ij}, \quad ε ∼ N(0, σ^2), \quad
          p_i ∼ N(0, Λ^{-1}), \; q_j ∼ N(0, Γ^{-1}),

that know how uncertain the factors of the other side are: the Gram matrix of a row is the sum of
q_j q_j' + Cov(q_j). This is variational Bayes [1]_. Λ, Γ and σ² are those that explain the ratings
best, so that there is no ridge to choose, every direction has its own, and directions that are
noise vanish by themselves.

References
----------
.. [1] Y. J. Lim, Y. W. Teh, "Variational Bayesian approach to movie rating prediction", KDD Cup and
   Workshop, 2007.
"""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from condgrad._types import Array
from condgrad.applications.ratings import Observed
from condgrad.backends import ops, threads
from condgrad.points.factored import pair_dots

WIDER = 2.0
"""The first priors are wider by this than the factors of the convex fit, which are shrunk."""
FLAT = 1e-5
"""A direction is left out whose part of a rating has this share of σ², or less."""
LEAST, TINY = 1e-6, 1e-12
"""No σ² and no variance of a factor or bias is taken to be smaller, in units of the ratings' own
spread."""
NEVER = 1e150
"""The precision of a bias that is to stay 0."""
WORTH = 20_000
"""Ratings a thread must get before it is worth waking."""


class Side(NamedTuple):
    """The users or the items: mean and second moments of (factors, bias), and their precisions."""

    X: Array
    M: Array
    precision: Array

    def parts(self, unit: float) -> tuple[Array, Array]:
        """Factors and biases in the units of the ratings."""
        return self.X[:, :-1] * np.sqrt(unit), self.X[:, -1] * unit

    def only(self, kept: Array) -> Side:
        """Return this side with fewer directions."""
        X, M = self.X[:, kept], self.M[:, kept][:, :, kept]
        return Side(np.ascontiguousarray(X), np.ascontiguousarray(M), self.precision[kept])


class FactorFit:
    """Factors and biases that are fitted in turn, from a start on.

    Parameters
    ----------
    observed : Observed
        The ratings.
    mean : float
        μ.
    users, items : (array, array)
        Factors, one column a direction, and biases to start from.
    noise : float
        A first σ².
    biases : bool
        Whether there are biases; without them b and c stay 0.
    """

    def __init__(
        self,
        observed: Observed,
        mean: float,
        users: tuple[Array, Array],
        items: tuple[Array, Array],
        noise: float,
        biases: bool = True,
    ) -> None:
        i, j, values, shape = observed
        centred = values - mean
        self.mean, self.biases, self._size = mean, biases, values.size
        self._unit = float(np.sqrt(np.mean(centred**2))) or 1.0
        table = sp.csr_array((centred / self._unit, (i, j)), shape=shape)
        self._by_user, self._by_item = table, table.T.tocsr()
        self._noise = max(noise / self._unit**2, LEAST)
        self._users, self._items = (self._start(*side) for side in (users, items))

    def _start(self, factors: Array, bias: Array) -> Side:
        own = bias / self._unit if self.biases else np.zeros_like(bias)
        X = np.column_stack([factors / np.sqrt(self._unit), own])
        precision = self._precision(WIDER * np.mean(X**2, axis=0))
        return Side(X, X[:, :, None] * X[:, None, :], precision)

    def _precision(self, second: Array) -> Array:
        precision = 1 / np.maximum(second, TINY)
        precision[-1] = precision[-1] if self.biases else NEVER
        return precision

    @property
    def rank(self) -> int:
        """Directions that are left."""
        return self._users.X.shape[1] - 1

    @property
    def users(self) -> tuple[Array, Array]:
        """Factors and biases of the users, in the units of the ratings."""
        return self._users.parts(self._unit)

    @property
    def items(self) -> tuple[Array, Array]:
        """Factors and biases of the items."""
        return self._items.parts(self._unit)

    @property
    def noise(self) -> float:
        """σ²."""
        return self._noise * self._unit**2

    def sweep(self) -> None:
        """Fit the items, given the users, then the users, given the items, and σ²."""
        self._leave_out()
        self._items, _ = self._half(self._by_item, self._items, self._users)
        how = self._items, self._users.precision, self._noise
        self.new_rows = NewRows(self.mean, self._unit, *how)
        self._users, error = self._half(self._by_user, self._users, self._items)
        self._noise = max(error / self._size, LEAST)

    def _leave_out(self) -> None:
        """Forget the directions that vanish."""
        part = np.mean(self._users.X**2, axis=0) * np.mean(self._items.X**2, axis=0)
        kept = part > FLAT * self._noise
        kept[-1] = True
        if not kept.all():
            self._users, self._items = self._users.only(kept), self._items.only(kept)

    def _half(self, table: Any, mine: Side, other: Side) -> tuple[Side, float]:
        """One side, given the other; its precisions fitted after that."""
        X, M = mine.X, mine.M  # written over
        error = _solve_rows(table, other, mine.precision, self._noise, X, M)
        return Side(X, M, self._precision(np.einsum("iaa->a", M) / X.shape[0])), error

    def rate(self, i: Array, j: Array) -> Array:
        """The ratings at given positions."""
        (P, b), (Q, c) = self.users, self.items
        return self.mean + b[i] + c[j] + pair_dots(P, Q, i, j)


class NewRows(NamedTuple):
    """Map from the ratings of a new row to its factors and bias."""

    mean: float
    unit: float
    items: Side
    precision: Array
    noise: float

    def __call__(self, observed: Observed) -> tuple[Array, Array]:
        """Factors and biases of rows; those of the last sweep for the rows of the fit."""
        i, j, values, shape = observed
        table = sp.csr_array(((values - self.mean) / self.unit, (i, j)), shape=shape)
        width = self.precision.size
        X, M = np.empty((shape[0], width)), np.empty((shape[0], width, width))
        _solve_rows(table, self.items, self.precision, self.noise, X, M)
        return Side(X, M, self.precision).parts(self.unit)


def _solve_rows(
    table: Any, other: Side, precision: Array, noise: float, X: Array, M: Array
) -> float:
    """Write means and second moments of all rows, in threads; the expected squared error."""
    parts = max(1, min(threads.count(), table.nnz // WORTH))
    cuts = np.searchsorted(table.indptr, np.linspace(0, table.nnz, parts + 1)[1:-1])
    ends = [0, *cuts.tolist(), table.shape[0]]
    data = (table.indptr, table.indices, table.data, other.X, other.M, precision, noise)
    tasks = [partial(ops.ridge_rows, *data, *part, X, M) for part in pairwise(ends)]
    return float(sum(threads.run(tasks)))
