"""Data sets that need no file."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from scipy.spatial.distance import cdist

from condgrad._types import Array
from condgrad.errors import InputError
from condgrad.io import Features, IndexedRatings, Ratings, graph_from_networkx, index_ratings
from condgrad.io.graphs import import_networkx

KARATE = """
0 1:4 2:5 3:3 4:3 5:3 6:3 7:2 8:2 10:2 11:3 12:1 13:3 17:2 19:2 21:2 31:2
1 2:6 3:3 7:4 13:5 17:1 19:2 21:2 30:2
2 3:3 7:4 8:5 9:1 13:3 27:2 28:2 32:2
3 7:3 12:3 13:3
4 6:2 10:3
5 6:5 10:3 16:3
6 16:3
8 30:3 32:3 33:4
9 33:2
13 33:3
14 32:3 33:2
15 32:3 33:4
18 32:1 33:2
19 33:1
20 32:3 33:1
22 32:2 33:3
23 25:5 27:4 29:3 32:5 33:4
24 25:2 27:3 31:2
25 31:7
26 29:4 33:2
27 33:4
28 31:2 33:2
29 32:4 33:2
30 32:3 33:3
31 32:4 33:4
32 33:5
"""
"""A vertex, and those after it with the weights of their edges. W. W. Zachary, An information flow
model for conflict and fission in small groups, J. Anthropological Research 33 (1977), figure 3."""


def karate() -> sp.csr_array:
    """Zachary's karate club, weighted."""
    A, i = np.zeros((34, 34)), 0
    for word in KARATE.split():
        j, _, weight = word.partition(":")
        if weight:
            A[i, int(j)] = A[int(j), i] = float(weight)
        else:
            i = int(j)
    return sp.csr_array(A)


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
