"""Data sets that need no file."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from scipy.spatial.distance import cdist

from condgrad._types import Array
from condgrad.errors import InputError
from condgrad.io import Features, IndexedRatings, Ratings, graph_from_networkx, index_ratings
from condgrad.io.graphs import import_networkx


def karate() -> sp.csr_array:
    """Zachary's karate club, weighted."""
    return graph_from_networkx(import_networkx("embedded/karate").karate_club_graph())


def miserables() -> sp.csr_array:
    """Characters of Les Misérables, weighted."""
    return graph_from_networkx(import_networkx("embedded/les-miserables").les_miserables_graph())


def digits() -> Features:
    """The first 100 digits of scikit-learn, pixels in [0, 1]."""
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        reason = "this needs scikit-learn: install condgrad[data]"
        raise InputError("embedded/digits-100", reason) from None
    points = np.ascontiguousarray(load_digits().data[:100], dtype=np.float64) / 16.0
    return Features(cdist(points, points, "sqeuclidean"), points)


def planted() -> Array:
    """The 120 × 80 matrix behind `embedded/ratings`: users rate three genres, rank 3."""
    rng = np.random.default_rng(3)
    tastes = rng.integers(1, 6, size=(3, 80))
    return tastes[rng.permutation(np.arange(120) % 3)].astype(np.float64)


def ratings() -> IndexedRatings:
    """Ratings of known rank: the planted matrix with noise, 30 % seen, a tenth of that held out."""
    truth = planted()
    rng = np.random.default_rng(5)
    noisy = np.clip(truth + 0.1 * rng.standard_normal(truth.shape), 1.0, 5.0)
    seen = rng.permutation(truth.size)[: round(0.3 * truth.size)]
    held_out = round(0.1 * seen.size)

    def part(at: Array) -> Ratings:
        items, users = np.unravel_index(np.sort(at), truth.shape)
        return Ratings((users + 1).astype(str), (items + 1).astype(str), noisy[items, users])

    return index_ratings(part(seen[held_out:]), part(seen[:held_out]))
