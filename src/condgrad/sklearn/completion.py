"""Matrix completion as an estimator: a recommender with a certificate."""

from __future__ import annotations

from functools import partial
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from condgrad import _progress as progress
from condgrad._check import positive
from condgrad._types import Array
from condgrad.applications.choosing import RANK, Settings
from condgrad.applications.ratings import Observed, merged
from condgrad.applications.recommender import fit_recommender
from condgrad.backends import threads
from condgrad.errors import ProblemError
from condgrad.io.ids import Ids, broadcast
from condgrad.methods import Method
from condgrad.run.journal import fresh_seed
from condgrad.run.limits import Limits
from condgrad.sklearn._checks import checked, pass_on, say_early, unmasked
from condgrad.sklearn._tables import (
    LAYOUTS,
    Places,
    entries_of,
    ids_of,
    layout_of,
    names_of,
    ratings_of,
    two_columns,
)


class MatrixCompletion(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    r"""Fill in a users × items matrix: a mean, biases, and a residual of low rank.

    .. math:: X_{ij} ≈ μ + b_i + c_j + Z_{ij}, \qquad
              \min_{‖D Z E‖_* ≤ r} \sum_{(i,j) ∈ Ω} (Z_{ij} - R_{ij})^2 \; [+ λ‖Z‖_1]
              \quad [\text{s.t. } lo ≤ X ≤ hi]

    R are the residuals of the biases. D and E are diagonal: D_ii² = 1 − α + α n_i/n̄, n_i the number
    of ratings of user i and n̄ their mean, and E likewise for items: the norm weighs users and items
    by how many ratings they have [2]_. That problem is convex, and how near its optimum is reached
    is proved. The ball shrinks what it finds, so b, c and the factors of Z are then fitted again by
    ridge regressions in turn, on the directions found, each with a ridge of its own that the
    ratings give (variational Bayes [3]_, `corrective`).

    The radius and the number of those sweeps are chosen on a part of the ratings that is held out
    (`validation`); then all ratings are fitted. With fewer than 20 to hold out there is no choice:
    the radius is 1 and nothing is fitted again.

    The data come in one of three layouts. *matrix*: X has a row per user and a column per item, as
    an array with NaN where a rating is missing, or as a SciPy sparse matrix, whose stored entries
    are the ratings, stored zeros among them. A DataFrame is one only by ``layout="matrix"``;
    otherwise it is refused unless its columns are clear. *pairs*: X has two columns, user and
    item, with ids of any kind, and y has the ratings. *triples*: X has the ratings too, as a frame
    of pandas, Polars or Arrow whose columns are called user, item and rating (or userId, movie_id,
    score, …) in any order, or in that order by any names; more columns are allowed where the names
    tell. The ratings of a repeated pair are averaged; missing ratings and ids are refused.
    Cross-validation wants pairs or triples: it holds ratings out, not users.

    Parameters
    ----------
    radius : float or "auto", default "auto"
        r, in units of the root mean square of R times √(users · items), see `relative`.
        ``"auto"``: from a path of growing radii, each fit the start of the next, that ends where
        the ratings held out are not predicted better.
    relative : bool, default True
        Whether `radius` has that unit; one value then serves ratings of all scales and sizes.
    corrective : bool or "auto", default "auto"
        Whether to fit the factors again; ``"auto"``: unless `constrain` or `l1` is given. Without
        it the model is the solution of the convex problem.
    rank : int, default 32
        Directions that are fitted again at most, those of the largest singular values; fewer where
        k² numbers for every user and item would take more than 1 GiB. Directions that are noise are
        left out.
    validation : float, default 0.1
        Share of every user's ratings that is held out for the choices; more where that is fewer
        than 100 ratings, 0.3 at most; 0: nothing is held out.
    bounds : "auto", (float, float) or None, default "auto"
        Range that predictions are clipped to; ``"auto"``: that of the ratings.
    constrain : bool, default False
        Have every entry within the bounds in the optimisation too, as in [1]_. Slower, and needs
        arrays of users × items.
    l1 : float, optional
        λ > 0. Likewise. The radius is chosen without this term and without the bounds.
    center, biases : bool, default True
        Whether there is a μ, the mean rating, and whether there are b and c. Neither, with
        ``weighting=0`` and ``corrective=False``, is the problem of [1]_.
    bias_damping : float, default 5
        δ ≥ 0: b and c of the convex part minimise the squared error + δ (‖b‖² + ‖c‖²).
    weighting : float, default 0.5
        α in [0, 1); 0 is the plain nuclear norm.
    layout : {"auto", "matrix", "pairs", "triples"}, default "auto"
        ``"auto"``: pairs where y is given and X, not sparse, has exactly two columns or names that
        tell user and item; without y triples where names or texts tell; else an array is a matrix,
        whose y is ignored, and a frame is refused. Two to four columns that begin with two of whole
        numbers may be several of these, and are refused.
    method : str, Method or None, default None
        How to solve the convex problem. None: by accelerated projections onto the ball, W kept as
        factors, or by ``"pdhg"`` where `constrain` or `l1` is given. A name out of
        `condgrad.METHODS`, whose steps are then 2/(k + 1 + 2r/σ), σ the largest singular value of R
        in the units of D and E; or a `Method`, used as it is. These need arrays of users × items.
        Radii are tried by projections in any case.
    max_iter : int, default 200
        Iterations.
    tol : float or None, default 1e-2
        Stop at this proven relative gap; None proves nothing and makes all iterations.
    max_seconds : float, optional
        Limit on the time of a fit, all in all: half of it is for choosing. A fit ends near it,
        between two iterations. Default: none.
    n_jobs : int, optional
        Threads; default: all cores, at most OMP_NUM_THREADS.
    random_state : int, RandomState or None, default 0
        Seed of the ratings held out, of the oracle and of sampling methods.
    verbose : bool or int, default 0
        Show what is being chosen and fitted, as for `condgrad.solve`.

    Attributes
    ----------
    layout_ : str
        ``"matrix"``, ``"pairs"`` or ``"triples"``.
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
        r itself, without the unit that `radius` has where `relative`, and the bounds in use.
    n_sweeps_ : int
        How often the factors were fitted again; 0: they are those of the convex problem.
    path_ : array
        A row for every radius tried: the radius, the RMSE of the convex fit on the ratings held
        out, the RMSE of what would be used, its sweeps. Empty where nothing was held out.
    result_ : condgrad.Result
        The run of the convex problem; its W is D Z E before the factors were fitted again.
    lower_bound_, gap_, n_iter_ : float, float, int
        From that run: the proven bound on its objective, the gap to it, the iterations.
    n_features_in_, feature_names_in_
        As everywhere in scikit-learn: of the matrix, or of the columns of the table.

    Notes
    -----
    Memory: some 200 bytes a rating, and for every user and item 14 numbers for each direction of
    the convex fit, and k² for the k ≤ `rank` that are fitted again. There is no array of
    users × items but `completed_`, `transform`, and what `constrain`, `l1` and `method` need.

    All of scikit-learn's ``check_estimator`` holds but ``check_estimator_sparse_array`` and
    ``..._matrix``, which want one number a row from `predict`: a matrix has a rating per item.

    References
    ----------
    .. [1] G. Dresdner et al., AISTATS 2022, section 5.1.
    .. [2] R. Foygel, R. Salakhutdinov, O. Shamir, N. Srebro, "Learning with the weighted trace-norm
       under arbitrary sampling distributions", NeurIPS 2011.
    .. [3] Y. J. Lim, Y. W. Teh, "Variational Bayesian approach to movie rating prediction", KDD Cup
       and Workshop, 2007.

    Examples
    --------
    >>> pairs = [["ann", 1], ["ann", 2], ["bob", 1], ["bob", 3], ["eve", 2], ["eve", 3]]
    >>> model = MatrixCompletion().fit(pairs, [5, 4, 4, 2, 4, 3])
    >>> model.predict(["ann", "someone"], [3, 1]).shape
    (2,)
    """

    def __init__(
        self,
        radius: float | str = "auto",
        *,
        relative: bool = True,
        corrective: bool | str = "auto",
        rank: int = RANK,
        validation: float = 0.1,
        bounds: str | tuple[float, float] | None = "auto",
        constrain: bool = False,
        l1: float | None = None,
        center: bool = True,
        biases: bool = True,
        bias_damping: float = 5.0,
        weighting: float = 0.5,
        layout: str = "auto",
        method: str | Method | None = None,
        max_iter: int = 200,
        tol: float | None = 1e-2,
        max_seconds: float | None = None,
        n_jobs: int | None = None,
        random_state: Any = 0,
        verbose: bool | int = 0,
    ) -> None:
        self.radius = radius
        self.relative = relative
        self.corrective = corrective
        self.rank = rank
        self.validation = validation
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
        self.max_seconds = max_seconds
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit to a matrix, to triples, or to pairs with ratings y; see `layout`."""
        self._check_parameters()
        self.layout_, self._places = layout_of(X, y, self.layout)
        observed = self._matrix(X) if self._places is None else self._table(X, y, self._places)
        random = check_random_state(self.random_state)
        seed = fresh_seed(lambda: int(random.randint(2**31 - 1)))
        with progress.shown(self.verbose, max_seconds=self.max_seconds):
            model = fit_recommender(observed, self._settings(), seed)
        self._model, self.result_ = model, model.result
        self.global_mean_ = model.mean
        self.user_biases_, self.item_biases_ = model.user_biases, model.item_biases
        self.user_factors_, self.item_factors_ = model.user_factors, model.item_factors
        self.radius_, self.bounds_ = model.radius, model.bounds
        self.n_sweeps_, self.path_ = model.sweeps, model.choice.table()
        self.n_iter_ = self.result_.iterations
        self.lower_bound_, self.gap_ = self.result_.lower_bound, self.result_.gap
        pass_on(self.result_)
        say_early(self, self.result_.status, self.gap_, self.tol)
        return self

    def predict(self, X: Any, items: Any = None) -> Array:
        """Ratings, clipped to the bounds: ``predict(users, items)`` or ``predict(X)``.

        With ids of users and items, one rating for each; one of the two may be a single id. An
        unknown user or item has no bias and no residual. With X in the layout of the fit, the
        rating of every pair (triples need no ratings here), or for a matrix what `transform`
        returns.
        """
        check_is_fitted(self)
        if items is not None:
            return self._rate(*broadcast(X, items))
        if X is None or isinstance(X, (str, int, float)) or getattr(X, "ndim", 1) == 0:
            raise ProblemError(
                f"predict got {X!r} and no items: give ids of users and of items, or X as in fit"
            )
        if self._places is None:
            return self._complete(self._matrix(X, reset=False, needed=False))
        if self.layout_ == "pairs" or not two_columns(X):
            checked(partial(validate_data, self), X, reset=False, skip_check_array=True)
        return self._rate(*ids_of(X, self._places))

    def transform(self, X: Any) -> Array:
        r"""Complete the rows of a matrix; for pairs and triples, their ratings as one column.

        Every row is completed from its own ratings, given the items, so it may be a new user: by
        the ridge regression of the last sweep, or, where the factors are those of the convex
        problem, by its bias and the z that minimises Σ (z'q_j − R_j)² + (κ/2) d² ‖z‖² over its
        ratings, q_j the factors of the items, d² its entry of D² and κ the multiplier of the
        nuclear ball. The users of the fit get their row of `completed_`, in the second case at an
        exact solution (`l1` and `constrain` play no part here).

        All entries are predictions, those that X has ratings for too: to keep these, write
        ``np.where(np.isnan(X), found, X)``. The answer is an array also for a frame, unless
        ``set_output(transform="pandas")`` asks for one.
        """
        rated = self.predict(X)
        return rated if rated.ndim == 2 else rated[:, None]

    def score(self, X: Any, y: Any = None) -> float:
        """−RMSE: of ratings of pairs or triples, or of `transform` at the ratings of a matrix.

        The latter measures the fit, since the ratings it asks for are those it is given.
        """
        check_is_fitted(self)
        if self._places is not None:
            found, wanted = self.predict(X), ratings_of(X, y, self._places if y is None else None)
        elif y is not None and two_columns(X):
            found, wanted = self._rate(*ids_of(X, Places(0, 1))), ratings_of(X, y)
        else:
            i, j, wanted, _ = observed = self._matrix(X, reset=False)
            found = self._complete(observed)[i, j]
        return -float(np.sqrt(np.mean(np.square(found - wanted))))

    def get_feature_names_out(self, input_features: Any = None) -> Any:
        """Names of the columns of `transform`: those of the matrix, or ``rating``."""
        check_is_fitted(self)
        if self._places is not None:
            return np.array(["rating"], dtype=object)
        return super().get_feature_names_out(input_features)

    @property
    def completed_(self) -> Array:
        """The completed matrix."""
        check_is_fitted(self)
        base = self.global_mean_ + self.user_biases_[:, None] + self.item_biases_
        return self._model.clip(base + self.user_factors_ @ self.item_factors_.T)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = True
        return tags

    def _check_parameters(self) -> None:
        if self.layout not in LAYOUTS:
            raise ProblemError(f"layout is {self.layout!r}: choose one of {', '.join(LAYOUTS)}")
        if not (isinstance(self.radius, str) and self.radius == "auto"):
            positive("radius", self.radius)
        if self.corrective not in (True, False, "auto"):
            raise ProblemError(f"corrective is {self.corrective!r}: choose True, False or 'auto'")
        for name, value, most in (
            ("bias_damping", self.bias_damping, np.inf),
            ("weighting", self.weighting, 1.0),
            ("validation", self.validation, 1.0),
        ):
            if not (isinstance(value, (int, float, np.number)) and 0 <= value < most):
                raise ProblemError(f"{name} is {value!r}: it must be at least 0 and below {most:g}")
        Limits(None, None, self.max_seconds, None)
        for name in ("max_iter", "rank"):
            value = getattr(self, name)
            if not (isinstance(value, (int, np.integer)) and value > 0):
                raise ProblemError(f"{name} is {value!r}: it must be a positive integer")
        for name in ("tol", "l1"):
            if getattr(self, name) is not None:
                positive(name, getattr(self, name))
        if not isinstance(self.method, (str, Method, type(None))):
            raise ProblemError(f"method is {self.method!r}: give its name, or a condgrad.Method")
        if self.constrain and self.bounds is None:
            raise ProblemError("constrain needs bounds: give them, or leave them at 'auto'")

    def _settings(self) -> Settings:
        auto = not self.constrain and self.l1 is None
        names = ("center", "biases", "bias_damping", "weighting", "bounds", "constrain", "l1")
        same = ("radius", "relative", "rank", "validation", "method")
        ends = ("max_iter", "tol", "max_seconds", "n_jobs")
        return Settings(
            corrective=auto if self.corrective == "auto" else bool(self.corrective),
            convex={name: getattr(self, name) for name in names},
            **{name: getattr(self, name) for name in (*same, *ends)},
        )

    def _matrix(self, X: Any, reset: bool = True, needed: bool = True) -> Observed:
        """The ratings of a matrix; names its rows and columns where `reset` says that it is new."""
        options: dict[str, Any] = {
            "accept_sparse": "csr",
            "dtype": np.float64,
            "ensure_all_finite": "allow-nan",
        }
        X = unmasked(X)
        array = checked(partial(validate_data, self), X, reset=reset, **options)
        if reset:
            self._name(*names_of(X, array.shape), ordered=True)
        observed = entries_of(array)
        if needed and not observed.values.size:
            raise ProblemError("X has no observed entry: every one is missing, give some ratings")
        return observed

    def _table(self, X: Any, y: Any, places: Places) -> Observed:
        checked(partial(validate_data, self), X, skip_check_array=True)
        users, items = ids_of(X, places)
        values = ratings_of(X, y, places)
        self._name(users, items)
        shape = len(self._users.names), len(self._items.names)
        return merged(self._users.positions(users), self._items.positions(items), values, shape)

    def _name(self, users: Any, items: Any, ordered: bool = False) -> None:
        self._users, self._items = Ids("user", users, ordered), Ids("item", items, ordered)
        self.user_ids_, self.item_ids_ = self._users.array, self._items.array

    def _complete(self, observed: Observed) -> Array:
        """Rows completed from their own ratings."""
        with threads.using(self.n_jobs):
            return self._model.complete(observed)

    def _rate(self, users: Any, items: Any) -> Array:
        """The ratings of pairs of ids."""
        with threads.using(self.n_jobs):
            return self._model.rate(self._users.positions(users), self._items.positions(items))
