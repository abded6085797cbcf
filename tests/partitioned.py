"""Points in clusters, and their inertia by its definition."""

from __future__ import annotations

import itertools

import numpy as np


def blobs(n=20, seed=0):
    rng = np.random.default_rng(seed)
    centres = np.array([[0.0, 0.0], [9.0, 0.0], [0.0, 9.0]])
    truth = np.arange(3 * n) % 3
    return centres[truth] + rng.normal(size=(3 * n, 2)), truth


def inertia(X, labels):
    """The definition, cluster by cluster."""
    parts = [X[labels == j] for j in np.unique(labels)]
    return sum(((part - part.mean(axis=0)) ** 2).sum() for part in parts)


def best_inertia(X, k):
    """The least inertia of all partitions into at most k clusters."""
    every = itertools.product(range(k), repeat=len(X) - 1)
    return min(inertia(X, np.array((0, *rest))) for rest in every)
