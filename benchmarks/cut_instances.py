"""Random graphs with weights of both signs, of the kinds that max-cut codes are tried on.

A name has a kind, sizes and, after a colon, a seed: `g05-200:1`. Kinds, after those of the
Biq Mac library [1]_:

* `g05-n`: an edge with chance ½, weight 1;
* `pm1s-n`, `pm1d-n`: ±1 with chance 0.1 and 0.99;
* `w01-n`, `w05-n`, `w09-n`: integers from −10 to 10 with chance 0.1, 0.5, 0.9;
* `be-n-p`: a quadratic program in n zeros and ones, integers from −50 to 50 beside its diagonal
  with chance p percent and from −100 to 100 on it, as a graph of n + 1 vertices;
* `ising25-n`, `ising30-n`: a chain closed to a ring, Gaussian couplings of all pairs divided by
  their distance to the power of 2.5 or 3, times 10⁵ and rounded;
* `toruspm2-s`, `torusg2-s`, `toruspm3-s`, `torusg3-s`: grids of side s in two or three dimensions,
  closed to a torus, weights ±1, or Gaussian times 10⁵ and rounded.

.. [1] A. Wiegele, "Biq Mac Library", 2007.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from condgrad.quadratic import qubo_graph


def generated(name: str) -> sp.csr_array:
    """The adjacency matrix of a graph by name."""
    what, seed = name.split(":")
    kind, *sizes = what.split("-")
    rng, n = np.random.default_rng(int(seed)), int(sizes[0])
    if kind.startswith("torus"):
        return _torus(kind, n, rng)
    if kind == "be":
        Q = rng.integers(-50, 51, (n, n)) * (rng.random((n, n)) < int(sizes[1]) / 100)
        Q = np.triu(Q, 1) + np.diag(rng.integers(-100, 101, n))
        return sp.csr_array(qubo_graph(Q, sense="min").adjacency)
    if kind.startswith("ising"):
        far = np.abs(np.arange(n)[:, None] - np.arange(n))
        far = np.minimum(far, n - far) + np.eye(n)
        weights = np.rint(1e5 * rng.standard_normal((n, n)) / far ** (int(kind[5:]) / 10))
    elif kind == "g05":
        weights = rng.random((n, n)) < 0.5
    elif kind in ("pm1s", "pm1d"):
        there = rng.random((n, n)) < (0.1 if kind == "pm1s" else 0.99)
        weights = there * rng.choice([-1, 1], (n, n))
    elif kind in ("w01", "w05", "w09"):
        weights = (rng.random((n, n)) < int(kind[1:]) / 10) * rng.integers(-10, 11, (n, n))
    else:
        raise SystemExit(f"no kind {kind!r}: see {__doc__}")
    upper = np.triu(weights, 1).astype(float)
    return sp.csr_array(upper + upper.T)


def _torus(kind: str, side: int, rng: np.random.Generator) -> sp.csr_array:
    """A grid that is closed in every direction."""
    dimensions = int(kind[-1])
    at = np.arange(side**dimensions).reshape((side,) * dimensions)
    ends = [(at.ravel(), np.roll(at, -1, axis).ravel()) for axis in range(dimensions)]
    u, v = (np.concatenate(both) for both in zip(*ends, strict=True))
    if "pm" in kind:
        weights = rng.choice([-1.0, 1.0], u.size)
    else:
        weights = np.rint(1e5 * rng.standard_normal(u.size))
    half = sp.coo_array((weights, (u, v)), shape=(at.size, at.size))
    return sp.csr_array(half + half.T)
