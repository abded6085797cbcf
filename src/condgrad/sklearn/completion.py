"""Matrix completion as an estimator: a recommender with a certificate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from condgrad._check import positive
from condgrad._types import Array
from condgrad.applications import Application, require_room
from condgrad.applications.matrix_completion import FEWER
from condgrad.domains import NuclearBall
from condgrad.errors import ProblemError
from condgrad.functions import L1, Interval, Squared
from condgrad.maps import AllEntries, Entries, LinearMap, Scaled
from condgrad.methods.control import Balance
from condgrad.methods.registry import Method
from condgrad.problem import Problem, Term
from condgrad.run.solve import solve
from condgrad.schedules import Power
from condgrad.sklearn._interrupt import pass_on
from condgrad.sklearn._ratings import (
    Ids,
    Observed,
    balanced_factors,
    broadcast,
    entries_of,
    fit_biases,
    id_columns,
    merged,
    range_of,
    ratings_of,
    ridge,
    row_biases,
    two_columns,
)

LAYOUTS, CHUNK = ("auto", "matrix", "pairs"), 1 << 14
"""How X may be given; pairs predicted at a time."""


class MatrixCompletion(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    r"""Fill in a users × items matrix: a mean, biases, and a residual of small nuclear norm.

    .. math:: X_{ij} ≈ μ + b_i + c_j + Z_{ij}, \qquad
              \min_{‖D Z E‖_* ≤ r} \sum_{(i,j) ∈ Ω} (Z_{ij} - R_{ij})^2 \; [+ λ‖Z‖_1]
              \quad [\text{s.t. } lo ≤ X ≤ hi]

    R are the residuals of the biases. D and E are diagonal: D_ii² = 1 − α + α n_i/n̄, n_i the number
    of ratings of user i and n̄ their mean, and E likewise for items: the norm weighs users and items
    by how many ratings they have [2]_.

    The data come in one of two layouts. *matrix*: X has a row per user and a column per item, as an
    array or a DataFrame with NaN where a rating is missing, or as a SciPy sparse matrix, whose
    stored entries are the ratings, stored zeros among them. *pairs*: X has two columns, user and
    item, with ids of any kind, and y has the ratings; those of a repeated pair are averaged.
    Cross-validation wants pairs: it holds ratings out, not users.

    Parameters
    ----------
    radius : float, default 1
        r, in units of the root mean square of R times √(users · items), see `relative`. Around 1
        suits ratings; choose it by cross-validation.
    relative : bool, default True
        Whether `radius` has that unit; one value then serves ratings of all scales and sizes.
    bounds : "auto", (float, float) or None, default "auto"
        Range that predictions are clipped to; ``"auto"``: that of the ratings.
    constrain : bool, default False
        Have every entry within the bounds in the optimisation too, as in [1]_. Slower.
    l1 : float, optional
        λ > 0.
    center, biases : bool, default True
        Whether there is a μ, the mean rating, and whether there are b and c. Neither, with
        ``weighting=0``, is the problem of [1]_.
    bias_damping : float, default 5
        δ ≥ 0: b and c minimise the squared error + δ (‖b‖² + ‖c‖²).
    weighting : float, default 0.5
        α in [0, 1); 0 is the plain nuclear norm.
    layout : {"auto", "matrix", "pairs"}, default "auto"
        ``"auto"``: pairs where y is given and X, not sparse, has exactly two columns; a matrix
        otherwise, whose y is ignored.
    method : str or Method, default "sag-cgal"
        How to solve, a name out of `condgrad.METHODS`, whose steps are then 2/(k + 1 + 2r/σ), σ
        the largest singular value of R in the units of D and E; or a `Method`, used as it is.
    max_iter : int, default 200
        Iterations. Fewer regularise as well.
    tol : float or None, default 1e-2
        Stop at this proven relative gap; None proves nothing, in about half of the time.
    random_state : int, RandomState or None, default 0
        Seed of the oracle and of sampling methods.

    Attributes
    ----------
    layout_ : str
        ``"matrix"`` or ``"pairs"``.
    user_ids_, item_ids_ : array
        Ids in the order of the rows and columns: those of the pairs, the index and the columns of a
        DataFrame, or numbers from 0.
    global_mean_, user_biases_, item_biases_ : float, array, array
        μ, b and c.
    user_factors_, item_factors_ : array
        Z = user_factors_ @ item_factors_.T.
    completed_ : array
        The completed matrix, clipped, users × items.
    radius_, bounds_ : float, tuple or None
        r without unit, and the bounds in use.
    result_ : condgrad.Result
        The run; its W is D Z E.
    lower_bound_, gap_, n_iter_ : float, float, int
        From the run: the proven bound on the objective, the gap to it, the iterations.
    n_features_in_, feature_names_in_
        As everywhere in scikit-learn: of the matrix, or of the two columns of the pairs.

    Notes
    -----
    All of scikit-learn's ``check_estimator`` holds but ``check_estimator_sparse_array`` and
    ``..._matrix``, which want one number a row from `predict`: a matrix has a rating per item.

    References
    ----------
    .. [1] G. Dresdner et al., AISTATS 2022, section 5.1.
    .. [2] R. Foygel, R. Salakhutdinov, O. Shamir, N. Srebro, "Learning with the weighted trace-norm
       under arbitrary sampling distributions", NeurIPS 2011.

    Examples
    --------
    >>> pairs = [["ann", 1], ["ann", 2], ["bob", 1], ["bob", 3], ["eve", 2], ["eve", 3]]
    >>> model = MatrixCompletion().fit(pairs, [5, 4, 4, 2, 4, 3])
    >>> model.predict(["ann", "someone"], [3, 1]).shape
    (2,)
    """

    def __init__(
        self,
        radius: float = 1.0,
        *,
        relative: bool = True,
        bounds: str | tuple[float, float] | None = "auto",
        constrain: bool = False,
        l1: float | None = None,
        center: bool = True,
        biases: bool = True,
        bias_damping: float = 5.0,
        weighting: float = 0.5,
        layout: str = "auto",
        method: str | Method = "sag-cgal",
        max_iter: int = 200,
        tol: float | None = 1e-2,
        random_state: Any = 0,
    ) -> None:
        self.radius = radius
        self.relative = relative
        self.bounds = bounds
        self.constrain = constrain
        self.l1 = l1
        self.center = center
        self.biases = biases
        self.bias_damping = bias_damping
        self.weighting = weighting
        self.layout = layout
        self.method = method
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit to a matrix, or to pairs with ratings y, ignored where X has not two columns."""
        self._check_parameters()
        observed = self._pairs(X, y) if self._is_pairs(X, y) else self._matrix(X)
        i, j, values, shape = observed
        require_room(shape, 2, FEWER)
        self.bounds_ = range_of(self.bounds, values)
        self.global_mean_ = float(values.mean()) if self.center else 0.0
        self.user_biases_, self.item_biases_ = np.zeros(shape[0]), np.zeros(shape[1])
        if self.biases:
            found = fit_biases(observed, self.global_mean_, self.bias_damping)
            self.user_biases_, self.item_biases_ = found
        residual = values - self.global_mean_ - self.user_biases_[i] - self.item_biases_[j]
        self._user_mean = values.size / shape[0]
        D = self._weights(np.bincount(i, minlength=shape[0]), self._user_mean)
        E = self._weights(np.bincount(j, minlength=shape[1]), values.size / shape[1])
        unit = float(np.sqrt(np.mean(residual**2) * shape[0] * shape[1])) if self.relative else 1.0
        self.radius_ = self.radius * (unit or 1.0)  # a perfect fit has no residual
        problem = self._problem(observed, residual, D, E)
        self.result_ = solve(
            problem,
            self._method(problem),
            max_iter=self.max_iter,
            gap=self.tol,
            certify=self.tol is not None,
            floor=0.0,
            seed=int(check_random_state(self.random_state).randint(2**31 - 1)),
        )
        self.n_iter_ = self.result_.iterations
        self.lower_bound_, self.gap_ = self.result_.lower_bound, self.result_.gap
        self._factor(problem, self.result_.W, D, E)
        pass_on(self.result_)
        return self

    def predict(self, X: Any, items: Any = None) -> Array:
        """Ratings, clipped to the bounds: ``predict(users, items)`` or ``predict(X)``.

        With ids of users and items, one rating for each; one of the two may be a single id. An
        unknown user or item has no bias and no residual. With X in the layout of the fit, the
        rating of every pair, or for a matrix what `transform` returns.
        """
        check_is_fitted(self)
        if items is not None:
            return self._rate(*broadcast(X, items))
        if self.layout_ == "matrix":
            return self._complete(self._matrix(X, reset=False, needed=False))
        validate_data(self, X, reset=False, skip_check_array=True)
        return self._rate(*id_columns(X))

    def transform(self, X: Any) -> Array:
        r"""Complete the rows of a matrix; for pairs, their ratings as one column.

        Every row is completed from its own ratings, so it may be a new user: its bias, and the z
        that minimises Σ (z'q_j − R_j)² + (κ/2) d² ‖z‖² over its ratings, q_j the factors of the
        items, d² its entry of D² and κ the multiplier of the nuclear ball. At an exact solution the
        users of the fit get their row of `completed_` (`l1` and `constrain` play no part here).
        """
        rated = self.predict(X)
        return rated if rated.ndim == 2 else rated[:, None]

    def score(self, X: Any, y: Any = None) -> float:
        """−RMSE: of the ratings y of pairs of ids, or of `transform` at the ratings of a matrix.

        The latter measures the fit, since the ratings it asks for are those it is given.
        """
        check_is_fitted(self)
        if self.layout_ == "pairs":
            found, wanted = self.predict(X), ratings_of(X, y)
        elif y is not None and two_columns(X):
            found, wanted = self._rate(*id_columns(X)), ratings_of(X, y)
        else:
            i, j, wanted, _ = observed = self._matrix(X, reset=False)
            found = self._complete(observed)[i, j]
        return -float(np.sqrt(np.mean(np.square(found - wanted))))

    def get_feature_names_out(self, input_features: Any = None) -> Any:
        """Names of the columns of `transform`: those of the matrix, or ``rating``."""
        check_is_fitted(self)
        if self.layout_ == "pairs":
            return np.array(["rating"], dtype=object)
        return super().get_feature_names_out(input_features)

    @property
    def completed_(self) -> Array:
        """The completed matrix."""
        check_is_fitted(self)
        base = self.global_mean_ + self.user_biases_[:, None] + self.item_biases_
        return self._clip(base + self.user_factors_ @ self.item_factors_.T)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = True
        return tags

    def _check_parameters(self) -> None:
        if self.layout not in LAYOUTS:
            raise ProblemError(f"layout is {self.layout!r}: choose one of {', '.join(LAYOUTS)}")
        positive("radius", self.radius)
        for name, value, most in (
            ("bias_damping", self.bias_damping, np.inf),
            ("weighting", self.weighting, 1.0),
        ):
            if not (isinstance(value, (int, float, np.number)) and 0 <= value < most):
                raise ProblemError(f"{name} is {value!r}: it must be at least 0 and below {most:g}")
        if not (isinstance(self.max_iter, (int, np.integer)) and self.max_iter > 0):
            raise ProblemError(f"max_iter is {self.max_iter!r}: it must be a positive integer")
        if self.tol is not None:
            positive("tol", self.tol)
        if not isinstance(self.method, (str, Method)):
            raise ProblemError(f"method is {self.method!r}: give its name, or a condgrad.Method")
        if self.constrain and self.bounds is None:
            raise ProblemError("constrain needs bounds: give them, or leave them at 'auto'")

    def _is_pairs(self, X: Any, y: Any) -> bool:
        if self.layout == "auto":
            return y is not None and two_columns(X)
        return self.layout == "pairs"

    def _matrix(self, X: Any, reset: bool = True, needed: bool = True) -> Observed:
        """The ratings of a matrix; names its rows and columns where `reset` says that it is new."""
        options = {"accept_sparse": "csr", "dtype": np.float64, "ensure_all_finite": "allow-nan"}
        array = validate_data(self, X, reset=reset, **options)
        if reset:
            self.layout_ = "matrix"
            names = X.axes if hasattr(X, "iloc") else [range(side) for side in array.shape]
            self._name(list(names[0]), list(names[1]), ordered=True)
        observed = entries_of(array)
        if needed and not observed.values.size:
            raise ProblemError("X has no observed entry: every one is missing, give some ratings")
        return observed

    def _pairs(self, X: Any, y: Any) -> Observed:
        validate_data(self, X, skip_check_array=True)
        users, items = id_columns(X)
        values = ratings_of(X, y)
        self.layout_ = "pairs"
        self._name(users, items)
        shape = len(self._users.names), len(self._items.names)
        return merged(self._users.positions(users), self._items.positions(items), values, shape)

    def _name(self, users: list[Any], items: list[Any], ordered: bool = False) -> None:
        self._users, self._items = Ids("user", users, ordered), Ids("item", items, ordered)
        self.user_ids_, self.item_ids_ = self._users.array, self._items.array

    def _weights(self, counts: Array, mean: float) -> Array:
        """The diagonal of D or E."""
        return np.sqrt(1 - self.weighting + self.weighting * counts / mean)

    def _problem(self, observed: Observed, residual: Array, D: Array, E: Array) -> Problem:
        i, j, _, shape = observed
        fit: LinearMap = Entries(i, j, shape)
        everywhere: LinearMap = AllEntries(shape)
        if self.weighting:
            fit = Scaled(fit, 1 / (D[i] * E[j]))
            if self.constrain or self.l1 is not None:
                everywhere = Scaled(everywhere, (1 / np.outer(D, E)).reshape(-1))
        terms = [Term(fit, Squared(residual), weight=2.0, name="fit")]
        if self.constrain:
            assert self.bounds_ is not None
            base: Any = self.global_mean_
            if self.biases:
                base = (base + self.user_biases_[:, None] + self.item_biases_).reshape(-1)
            low, high = self.bounds_
            terms.append(Term(everywhere, Interval(low - base, high - base), name="box"))
        if self.l1 is not None:
            terms.append(Term(everywhere, L1(positive("l1", self.l1)), name="l1"))
        return Problem(NuclearBall(shape, self.radius_), terms)

    def _method(self, problem: Problem) -> Method:
        """The method, its first step as long as the largest singular value σ of the residuals.

        That is the best step where every entry is observed. Where few are it is a short one, but
        2/(k + 1) would overshoot for the first r/σ iterations or so.
        """
        if isinstance(self.method, Method):
            return self.method
        start, size = np.zeros(problem.domain.shape), problem.terms[0].map.size
        application = Application("", "auto", problem, start, {"": "auto"}, min(1000, size))
        method, _, _ = application.method(self.method)
        v = problem.terms[0].gradient(start, 1.0)
        sigma = -float(np.vdot(v, problem.domain.lmo(v).dense())) / (2 * self.radius_)
        late = 2 * self.radius_ / sigma if sigma > 0 else 0.0
        method = replace(method, schedule=replace(method.schedule, eta=Power(2, 1 + late, 1)))
        return method if self.tol is not None else replace(method, control=Balance(per_decade=0))

    def _factor(self, problem: Problem, W: Array, D: Array, E: Array) -> None:
        """Factors of Z out of W = D Z E, and the multiplier κ = −⟨∇f, W⟩/‖W‖_* of the ball, halved.

        ‖W‖_* is the least (‖P‖² + ‖Q‖²)/2 over W = PQᵀ, so where W is optimal a row p of P
        minimises Σ (Z_ij − R_ij)² + (κ/2) ‖p‖² given Q.
        """
        P, Q = balanced_factors(W, self.n_iter_)  # one atom an iteration
        self.user_factors_, self.item_factors_ = P / D[:, None], Q / E[:, None]
        norm = float(np.vdot(Q, Q))
        slope = -float(np.vdot(problem.terms[0].gradient(W, 1.0), W))
        self._ridge = max(slope / norm / 2, 0.0) if norm > 0 else 0.0

    def _complete(self, observed: Observed) -> Array:
        """Rows completed from their own ratings."""
        i, j, values, shape = observed
        bias = np.zeros(shape[0])
        if self.biases:
            bias = row_biases(observed, self.global_mean_, self.item_biases_, self.bias_damping)
        residual = values - self.global_mean_ - bias[i] - self.item_biases_[j]
        counts = np.bincount(i, minlength=shape[0])
        penalty = self._ridge * np.square(self._weights(counts, self._user_mean))
        order, ends = np.argsort(i, kind="stable"), np.cumsum(counts)
        factors = np.zeros((shape[0], self.item_factors_.shape[1]))
        for row in np.nonzero(counts)[0]:
            mine = order[ends[row] - counts[row] : ends[row]]
            factors[row] = ridge(self.item_factors_[j[mine]], residual[mine], penalty[row])
        base = self.global_mean_ + bias[:, None] + self.item_biases_
        return self._clip(base + factors @ self.item_factors_.T)

    def _rate(self, users: Sequence[Any], items: Sequence[Any]) -> Array:
        """The ratings of pairs of ids."""
        i, j = self._users.positions(users), self._items.positions(items)
        out = np.full(i.size, self.global_mean_)
        out[i >= 0] += self.user_biases_[i[i >= 0]]
        out[j >= 0] += self.item_biases_[j[j >= 0]]
        known = np.nonzero((i >= 0) & (j >= 0))[0]
        for first in range(0, known.size, CHUNK):
            at = known[first : first + CHUNK]
            out[at] += np.sum(self.user_factors_[i[at]] * self.item_factors_[j[at]], axis=1)
        return self._clip(out)

    def _clip(self, ratings: Array) -> Array:
        return ratings if self.bounds_ is None else np.clip(ratings, *self.bounds_)
