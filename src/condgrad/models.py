"""Recommenders that the command saved, to predict with: ``condgrad.load_model("model.npz")``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from condgrad._types import Array
from condgrad.applications.recommender import Factors
from condgrad.errors import InputError
from condgrad.io.frames import missing
from condgrad.io.ids import Ids, broadcast
from condgrad.record import MODEL, Record

ARRAYS = (
    *("users", "items", "mean"),
    *("user_biases", "item_biases", "user_factors", "item_factors"),
)
"""Arrays of a model in a file."""


class SavedModel:
    """A recommender out of a file, as `load_model` returns it.

    Attributes
    ----------
    users, items : array
        Their ids, as texts, in the order of the rows below.
    mean, user_biases, item_biases, user_factors, item_factors : float and arrays
        μ, b, c, p and q; a rating is μ + b_i + c_j + p_i'q_j, clipped to the bounds.
    bounds : tuple or None
        The range of ratings.
    """

    def __init__(self, users: Array, items: Array, factors: Factors) -> None:
        self.users, self.items, self._factors = users, items, factors
        self.mean, self.bounds = factors.mean, factors.bounds
        self.user_biases, self.item_biases = factors.user_biases, factors.item_biases
        self.user_factors, self.item_factors = factors.user_factors, factors.item_factors
        self._ids = Ids("user", users, ordered=True), Ids("item", items, ordered=True)

    def __repr__(self) -> str:
        """Size of the model."""
        rank = self.user_factors.shape[1]
        return f"SavedModel(users={self.users.size}, items={self.items.size}, factors={rank})"

    def predict(self, users: Any, items: Any) -> Array:
        """Ratings, clipped to the bounds, one for each user and item; one of them may be single.

        Ids are compared as texts, as they stood in the file of ratings: 7 is ``"7"``. A user or
        item that the model does not know has no bias and no factors: the rest predicts.
        """
        given = broadcast(users, items)
        i, j = (ids.positions(_texts(names)) for ids, names in zip(self._ids, given, strict=True))
        return self._factors.rate(i, j)


def load_model(path: str | Path) -> SavedModel:
    """Read the recommender that ``condgrad solve matrix-completion … --save FILE.npz`` wrote.

    Parameters
    ----------
    path : str or Path
        The file.

    Returns
    -------
    SavedModel
        Its `predict` is that of `condgrad.sklearn.MatrixCompletion`, without scikit-learn.
    """
    record = Record.load(path)
    if not all(f"{MODEL}{name}" in record.arrays for name in ARRAYS):
        raise InputError(
            path,
            "this run has no model: save one by condgrad solve matrix-completion, without --plain",
        )
    found = {name: record.arrays[f"{MODEL}{name}"] for name in ARRAYS}
    bounds = record.facts.get("settings", {}).get("bounds")
    factors = Factors(
        mean=float(found["mean"]),
        user_biases=found["user_biases"],
        item_biases=found["item_biases"],
        user_factors=found["user_factors"],
        item_factors=found["item_factors"],
        bounds=None if bounds is None else (float(bounds[0]), float(bounds[1])),
    )
    return SavedModel(found["users"], found["items"], factors)


def _texts(names: Any) -> list[Any]:
    """Ids as texts, but those that are missing."""
    return [name if missing(name) else str(name) for name in names.tolist()]
