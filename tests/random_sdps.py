"""Random semidefinite programs, and their optimum and prices by an interior-point solver.

A program starts from a point W ≻ 0 that meets its rows and a dual point with Z ≻ 0 that makes the
cost, so that an optimum exists. It is unique in general.
"""

from __future__ import annotations

import warnings
from typing import NamedTuple

import cvxpy as cp
import numpy as np
import scipy.sparse as sp

from condgrad.sdp import SDP

TOLERANCES = ("tol_gap_abs", "tol_gap_rel", "tol_feas")


class Optimum(NamedTuple):
    value: float
    y: np.ndarray
    """Prices ∂ value/∂b."""
    W: np.ndarray
    """In flat form."""


def symmetric(rng, n, density=1.0):
    A = rng.standard_normal((n, n)) * (rng.random((n, n)) < density)
    return (A + A.T) / 2


def positive(rng, n, least=0.3):
    U = rng.standard_normal((n, n))
    return U @ U.T / n + least * np.eye(n)


def block(rng, b, make, *more):
    """A matrix made for a semidefinite block, the diagonal of one for a non-negative block."""
    return make(rng, b, *more) if b > 0 else np.diagonal(make(rng, -b, *more)).copy()


def inner(A, W):
    return sum(float(np.vdot(a, w)) for a, w in zip(A, W, strict=True))


def random_sdp(seed, blocks=(5,), senses=("==",) * 4, sense="min", trace=None, density=0.5):
    """A program with one row for each of `senses`, and one for the trace where asked for."""
    rng = np.random.default_rng([seed, len(senses), *(b % 97 for b in blocks)])
    sign = 1.0 if sense == "min" else -1.0
    W = [block(rng, b, positive) for b in blocks]
    C = [sign * block(rng, b, positive) for b in blocks]
    rows = []
    for kind in senses:
        A = [block(rng, b, symmetric, density) for b in blocks]
        side = {"==": 0.0, "<=": 1.0, ">=": -1.0}[kind]
        right = inner(A, W) + side * rng.choice([0.0, 0.5])
        price = rng.standard_normal() if side == 0 else -sign * side * rng.random()
        rows.append((A, kind, right))
        C = [c + price * a for c, a in zip(C, A, strict=True)]
    if trace is not None:
        eye = [np.eye(b) if b > 0 else np.ones(-b) for b in blocks]
        rows.append((eye, trace, inner(eye, W)))
    sdp = SDP(C, sense)
    for A, kind, right in rows:
        sdp.subject_to(A, kind, right)
    return sdp


def clarabel(sdp: SDP, accuracy: float = 1e-9) -> Optimum:
    """Optimum, prices and solution of a program, losses (all `Squared`) included."""
    layout, parts, rules = sdp.layout, [], []
    for b in sdp.blocks:
        X = cp.Variable((b, b), symmetric=True) if b > 0 else cp.Variable(-b)
        parts.append(cp.vec(X, order="C") if b > 0 else X)
        rules.append(X >> 0 if b > 0 else X >= 0)
    x = cp.hstack(parts)
    z, b, kinds = sp.csr_array(sdp.sparse_rows()) @ x, sdp.b, sdp.kinds
    own = {k: np.flatnonzero(kinds == k) for k in (-1, 0, 1)}
    made = {k: _rule(k, z[at], b[at]) for k, at in own.items() if at.size}
    total = sdp.cost @ x
    for one in sdp.losses:
        total = total + one.weight / 2 * cp.sum_squares(one.A @ x - one.function.target)
    goal = cp.Minimize(total) if sdp.sense == "min" else cp.Maximize(total)
    program = cp.Problem(goal, [*rules, *made.values()])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # cvxpy warns where the accuracy was not reached
        program.solve(solver=cp.CLARABEL, **dict.fromkeys(TOLERANCES, accuracy))
    assert program.status in (cp.OPTIMAL, cp.OPTIMAL_INACCURATE), program.status
    y, sign = np.zeros(sdp.size), 1.0 if sdp.sense == "min" else -1.0
    for k, at in own.items():
        if at.size:
            y[at] = sign * (k or -1) * np.atleast_1d(made[k].dual_value)
    assert layout.size == x.size
    return Optimum(float(program.value), y, np.asarray(x.value))


def _rule(kind, z, b):
    return z <= b if kind < 0 else z >= b if kind > 0 else z == b
