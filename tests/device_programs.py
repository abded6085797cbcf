"""Rows, and ten semidefinite programs with such, for both devices; `size` makes them larger."""

import numpy as np
import scipy.sparse as sp

from condgrad import maps
from condgrad.sdp import SDP, LowRank


def symmetric(rng, n, density=0.2):
    A = sp.random_array((n, n), density=density, rng=rng)
    return A + A.T


def row_maps(n, sparse_rows, low_rank_rows, density, *more):
    """Makers of maps with rows of every kind; `more` are sparse rows before the random ones."""

    def sparse(rng):
        densities = rng.uniform(0, density, sparse_rows)
        return maps.SparseStack([*more, *(symmetric(rng, n, d) for d in densities)])

    def low_rank(rng):
        counts = rng.integers(1, 5, low_rank_rows)
        r = int(counts.sum())
        return maps.LowRankStack(rng.standard_normal((n, r)), counts, rng.standard_normal(r))

    def scaled(rng):
        return maps.Scaled(sparse(rng), rng.standard_normal(sparse_rows + len(more)))

    return {
        "sparse": sparse,
        "low rank": low_rank,
        "stack": lambda rng: maps.Stack([sparse(rng), low_rank(rng), maps.Diagonal(n)]),
        "scaled": scaled,
        "one factor": lambda rng: maps.Scaled(low_rank(rng), -2.0),
    }


def graph(n, chance, seed):
    A = np.triu(np.random.default_rng(seed).random((n, n)) < chance, 1).astype(float)
    return A + A.T


def units(at, n):
    """Flat rows E_ij + E_ji, or E_ii."""
    i, j = at
    values, rows = np.ones(i.size), np.arange(i.size)
    E = sp.csr_array((values, (rows, i * n + j)), shape=(i.size, n * n))
    return E + sp.csr_array((values * (i != j), (rows, j * n + i)), shape=E.shape)


def max_cut(A):
    n = len(A)
    sdp = SDP((np.diag(A.sum(axis=1)) - A) / 4, "max")
    return sdp.subject_to_rows(units((np.arange(n), np.arange(n)), n), "==", 1.0)


def theta(A, plus=False):
    """The Lovász number of a graph; with `plus` entries must not be negative."""
    n = len(A)
    sdp = SDP(np.ones((n, n)), "max").subject_to(np.eye(n), "==", 1.0)
    sdp.subject_to_rows(units(np.nonzero(np.triu(A)), n), "==", 0.0)
    rest = np.nonzero(np.triu(1 - A, 1))
    return sdp.subject_to_rows(units(rest, n), ">=", 0.0) if plus else sdp


def blocks(sides, length, seed):
    """Some matrices and a vector, tied by rows of all kinds."""
    rng = np.random.default_rng(seed)
    costs = [symmetric(rng, n, 0.6).toarray() + 3 * np.eye(n) for n in sides]
    sdp = SDP([*costs, rng.uniform(1, 2, length)])
    sdp.subject_to([*(np.eye(n) for n in sides), np.ones(length)], "<=", 2.0 * sum(sides) + length)
    for kind in ("==", "<=", ">=", "=="):
        A, u = [symmetric(rng, n, 0.3).toarray() for n in sides], rng.uniform(0, 1, length)
        sdp.subject_to([*A, u], kind, sum(np.trace(a) for a in A) + u.sum())  # W = I, w = 1
    return sdp


def factors(n, seed):
    """Rows that are kept as factors, of all kinds."""
    rng = np.random.default_rng(seed)
    sdp = SDP(symmetric(rng, n, 0.5)).subject_to(np.eye(n), "==", float(n))
    for i in range(n // 2):
        U = rng.standard_normal((n, 1 + i % 3))
        sdp.subject_to(LowRank(U), ("==", "<=", ">=")[i % 3], float(np.square(U).sum()))
    return sdp


def packing(n, seed):
    """max ⟨C, W⟩ with uᵀWu ≤ 1 for many u."""
    rng = np.random.default_rng(seed)
    sdp = SDP(LowRank(rng.standard_normal((n, 3))), "max")
    for _ in range(3 * n):
        sdp.subject_to(LowRank(rng.standard_normal(n)), "<=", 1.0)
    return sdp


def unbounded_trace(n, seed):
    """Rows that bound no trace: that is guessed."""
    rng = np.random.default_rng(seed)
    sdp = SDP(np.diag(1.0 + rng.random(n)))
    for i in range(3):
        sdp.subject_to(symmetric(rng, n, 0.4), "==", 1.0 + i)
    return sdp


def equations(n, seed):
    """Sparse equations that a W ≻ 0 meets."""
    rng = np.random.default_rng(seed)
    rows = [symmetric(rng, n, 2 / n) for _ in range(n)]
    sdp = SDP(symmetric(rng, n, 0.3)).subject_to(np.eye(n), "==", float(n))
    for A in rows:
        sdp.subject_to(A, "==", float(A.diagonal().sum()))
    return sdp


PROGRAMS = {
    "max-cut": lambda size: max_cut(graph(25 * size, 0.3, 0)),
    "sparse max-cut": lambda size: max_cut(graph(30 * size, 0.15 / size, 1)),
    "theta": lambda size: theta(graph(12 * size, 0.4, 2)),
    "theta plus": lambda size: theta(graph(10 * size, 0.4, 3), plus=True),
    "blocks": lambda size: blocks((9 * size, 4 * size), 5, 4),
    "many blocks": lambda size: blocks((5, 6, 7, 8 * size), 9, 5),
    "factors": lambda size: factors(10 * size, 6),
    "packing": lambda size: packing(8 * size, 7),
    "guessed": lambda size: unbounded_trace(8 * size, 8),
    "equations": lambda size: equations(12 * size, 9),
}
