"""What tests on a GPU share; without one they are skipped."""

import numpy as np
import pytest


def gpu():
    """CuPy, where it finds a GPU."""
    cupy = pytest.importorskip("cupy", reason="CuPy is not installed")
    try:
        count = cupy.cuda.runtime.getDeviceCount()
    except Exception as error:
        pytest.skip(f"CuPy finds no GPU: {error}", allow_module_level=True)
    if not count:
        pytest.skip("CuPy finds no GPU", allow_module_level=True)
    return cupy


def planted(n, seed=0):
    """A graph of four groups, denser within."""
    rng = np.random.default_rng(seed)
    group = rng.integers(0, 4, n)
    chance = np.where(group[:, None] == group, 0.3, 0.1)
    A = np.triu(rng.random((n, n)) < chance, 1).astype(float)
    return A + A.T


def social(n, edges, groups, ratio, power, seed=0):
    """A graph of groups, `ratio` times denser within, whose degrees follow a power law."""
    rng = np.random.default_rng(seed)
    group, weight = rng.integers(0, groups, n), (rng.random(n) + 0.002) ** (-1 / power)
    weight = np.minimum(weight, 15 * weight.mean())
    weight /= weight.sum()
    chance = np.outer(weight, weight) * np.where(group[:, None] == group, ratio, 1.0)
    chance *= 2 * edges / chance.sum()
    A = np.triu(rng.random((n, n)) < chance, 1).astype(float)
    return A + A.T


def blobs(n, clusters=10, dimensions=10, spread=1.2, seed=0):
    """Squared distances of points around random centres."""
    rng = np.random.default_rng(seed)
    centres = spread * rng.standard_normal((clusters, dimensions))
    X = centres[rng.integers(0, clusters, n)] + rng.standard_normal((n, dimensions))
    squares = np.square(X).sum(axis=1)
    C = np.maximum(squares[:, None] + squares - 2 * X @ X.T, 0.0)
    np.fill_diagonal(C, 0.0)
    return (C + C.T) / 2
