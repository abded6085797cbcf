"""Corrections, bounds and repairs of cone programs, against exact answers."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from scipy import sparse

pytest.importorskip("cvxpy")

from condgrad.cvxpy._cone_exact import exact_bound
from condgrad.cvxpy._cone_factors import Numbers
from condgrad.cvxpy._cone_point import complementary, contradict, descends, meets, repaired
from condgrad.cvxpy._cone_program import ConeProgram, cone_blocks, kernel
from condgrad.cvxpy._cone_proof import Multipliers, dual_of, refuted
from condgrad.cvxpy._rows import Space

CHUNK = 20
"""Random cases of one test."""


def program(c, A, b, blocks, G=None, h=None):
    """A cone program as it is."""
    space = Space(blocks, [])
    G = np.zeros((0, len(c))) if G is None else G
    h = np.zeros(0) if h is None else h
    ones = np.ones(len(b)), np.arange(len(h)), np.ones(len(h))
    A = sparse.csr_array(space.symmetric(sparse.csr_array(A).T).T)
    eye = sparse.eye_array(len(b), format="csr")
    return ConeProgram(c, sparse.csr_array(G), h, A, b, space, eye, *ones, 1.0, 1.0)


def solved_pair(rng):
    """A program with a solution x and multipliers y, by complementarity, and its optimum c'x."""
    n, k, side = int(rng.integers(1, 6)), int(rng.integers(1, 8)), int(rng.integers(1, 4))
    size = k + side**2
    A, x = rng.normal(size=(size, n)), rng.normal(size=n)
    Q = np.linalg.qr(rng.normal(size=(side, side)))[0]
    rank = int(rng.integers(0, side + 1))
    on = rng.random(k) < 0.5
    slack = [
        np.where(on, 0.0, rng.random(k)),
        Q[:, rank:] @ np.diag(rng.random(side - rank)) @ Q[:, rank:].T,
    ]
    y = [np.where(on, rng.random(k), 0.0), Q[:, :rank] @ np.diag(rng.random(rank)) @ Q[:, :rank].T]
    m = int(rng.integers(0, n))
    G, nu = rng.normal(size=(m, n)), rng.normal(size=m)
    T = A[k:].reshape(side, side, n)
    A[k:] = ((T + T.transpose(1, 0, 2)) / 2).reshape(side**2, n)
    flat = [np.concatenate([part[0], part[1].ravel()]) for part in (slack, y)]
    c = -A.T @ flat[1] - G.T @ nu
    return program(c, A, A @ x + flat[0], (-k, side), G, G @ x), x, y


@pytest.mark.parametrize("first", range(0, 100, CHUNK))
def test_bounds_from_disturbed_multipliers(first):
    """Never above the optimum, and near it where something is proved."""
    near = 0
    for seed in range(first, first + CHUNK):
        rng = np.random.default_rng(seed)
        p, x, y = solved_pair(rng)
        optimum, noise = float(p.c @ x), 10.0 ** rng.uniform(-12, -2)
        rough = [
            y[0] + noise * rng.random(y[0].size),
            y[1] + noise * np.diag(rng.random(len(y[1]))),
        ]
        dual = dual_of(p, p.c, rough)
        size = float(np.abs(p.c) @ np.abs(x)) + float(np.abs(p.b).max()) + 1
        assert dual.bound <= optimum + 1e-12 * size
        assert dual.value <= optimum + 1e-8 * size
        near += max(dual.bound, dual.value) >= optimum - 0.1 * size
    assert near >= CHUNK / 4


@pytest.mark.parametrize("first", range(0, 100, CHUNK))
def test_a_bound_is_below_every_feasible_value(first):
    """Any multipliers, any feasible point."""
    for seed in range(first, first + CHUNK):
        rng = np.random.default_rng(seed)
        p, x, _ = solved_pair(rng)
        k, side = -p.space.blocks[0], p.space.blocks[1]
        R = rng.normal(size=(side, side))
        dual = dual_of(p, p.c, [rng.random(k), R @ R.T])
        assert dual.bound <= float(p.c @ x) + 1e-12 * (1 + float(np.abs(p.c) @ np.abs(x)))
        assert not refuted(p, [rng.random(k), R @ R.T])
        assert not contradict(p, rng.normal(size=p.h.size))


@pytest.mark.parametrize("first", range(0, 100, CHUNK))
def test_exact_residuals(first):
    """The residual with its rounding holds the exact one, by rational arithmetic."""
    from condgrad.cvxpy._cone_proof import _start, residual

    for seed in range(first, first + CHUNK):
        rng = np.random.default_rng(seed)
        n, k = int(rng.integers(1, 4)), int(rng.integers(1, 5))
        A, y = rng.normal(size=(k, n)), rng.random(k) * 10.0 ** rng.uniform(-9, 9, k)
        c = -A.T @ y
        p = program(c, A, np.zeros(k), (-k,))
        r, off = residual(p, c, _start(p, [y]))
        for j in range(n):
            terms = (Fraction(float(A[i, j])) * Fraction(float(y[i])) for i in range(k))
            exact = Fraction(float(c[j])) + sum(terms)
            assert abs(exact - Fraction(float(r[j]))) <= Fraction(float(off[j]))


@pytest.mark.parametrize("first", range(0, 100, CHUNK))
def test_rational_corrections(first):
    """Integer programs with unseen directions: the bound is the optimum −b'y − h'ν itself."""
    for seed in range(first, first + CHUNK):
        rng = np.random.default_rng(seed)
        n, k, m = int(rng.integers(2, 6)), int(rng.integers(1, 4)), int(rng.integers(0, 3))
        A, G = (rng.integers(-3, 4, (rows, n)).astype(float) for rows in (k, m))
        y, nu = rng.integers(0, 4, k) / 3, rng.integers(-3, 4, m) / 7  # not exact in binary
        c = -np.round(21 * (A.T @ y + G.T @ nu))
        b, h = rng.integers(-3, 4, k).astype(float), rng.integers(-3, 4, m).astype(float)
        p = program(c, A, b, (-k,), G, h)
        near = np.where(y > 0, 21 * y + 1e-13 * rng.normal(size=k), 0.0)
        rough = Multipliers([Numbers(near)], 21 * nu)
        exact = -round(21 * float(b @ y)) - round(21 * float(h @ nu))
        assert exact_bound(p, p.c, rough) == pytest.approx(exact, abs=1e-9)
        if n > k + m:  # then hardly any cost is a combination of the rows
            assert exact_bound(p, p.c + rng.normal(size=n), rough) == -np.inf


def test_directions_and_contradictions():
    """Up to rounding, but no further."""
    A = np.array([[1.0, -1.0], [-1.0, 1.0]])
    falls = "unbounded"
    for c, expected in (([1.0, 1.0], falls), ([1.0, -1.0], None), ([1.0, -1.0 + 1e-6], falls)):
        p = program(np.array(c), A, np.zeros(2), (-2,))
        found = kernel(p.G.toarray(), p.h)
        assert descends(p, found, np.array([-1.0, -1.0 + 1e-3])) == expected
        assert descends(p, found, np.array([1.0, 1.0])) == (expected if sum(c) < 0 else None)
    G = np.array([[1.0, 2.0], [2.0, 4.0]])
    gone = "infeasible"
    for h, expected in (([1.0, 2.0], None), ([1.0, 3.0], gone), ([1.0, 2.0 + 1e-14], None)):
        p = program(np.zeros(2), np.zeros((1, 2)), np.ones(1), (-1,), G, np.array(h))
        assert contradict(p, kernel(G, p.h).missed) == expected


def test_repaired_and_complementary_points():
    """min x₀ + x₁ over (x₀ 1; 1 x₁) ⪰ 0, from a point that misses it."""
    A = -np.array([[1.0, 0], [0, 0], [0, 0], [0, 1.0]])
    p = program(np.ones(2), A, np.array([0.0, 1, 1, 0]), (2,))
    found = kernel(p.G.toarray(), p.h)
    x = np.array([0.9, 0.8])
    assert not meets(p, x, 1e-3)
    inside = repaired(p, found, x)
    assert meets(p, inside, 1e-9)
    assert np.abs(inside - x).max() < 0.5
    y = np.array([1.0, -1, -1, 1])
    np.testing.assert_allclose(complementary(p, found, x, y, 1e-6), np.ones(2), atol=1e-9)


def test_second_order_cones_as_matrices():
    """The matrices are semidefinite where ‖x‖ ≤ t, and as far from it as t is from ‖x‖."""
    rng = np.random.default_rng(0)
    for d in range(1, 6):
        lift, blocks, _ = cone_blocks(np.zeros(0, bool), [d], [])
        for _ in range(40):
            x = rng.normal(size=d)
            parts = Space(blocks, []).split(lift @ x)
            low = min(float(np.min(p) if p.ndim == 1 else np.linalg.eigvalsh(p)[0]) for p in parts)
            assert low == pytest.approx(x[0] - np.linalg.norm(x[1:]), abs=1e-12)
