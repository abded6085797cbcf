"""Semidefinite programs of integers whose truth is known by construction, exactly.

A program with an optimum is made from W ⪰ 0 and (y, Z), Z ⪰ 0, ZW = 0: with b = A W and C = A*y + Z
the optimum is b'y. Nothing makes W or Z definite, so that many have no interior on one side or on
both. An infeasible one has multipliers y with A*y ⪯ 0 and b'y > 0, an unbounded one a direction
D ⪰ 0 with A D = 0 and ⟨C, D⟩ < 0. Every number is a small integer, so that sums are exact.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from condgrad.sdp import SDP

BLOCKS = [(-3,), (-5,), (2,), (3,), (4,), (2, -2), (3, 2), (-1, 3)]


class Known(NamedTuple):
    sdp: SDP
    kind: str
    """``optimum``, ``infeasible`` or ``unbounded``."""
    value: float = np.nan
    """The optimum of the program, in its own sense."""
    W: list = None
    """A feasible point, where there is one."""


def integer(rng, b, most=3):
    """A symmetric matrix, or a vector."""
    if b < 0:
        return rng.integers(-most, most + 1, -b).astype(float)
    A = rng.integers(-most, most + 1, (b, b)).astype(float)
    return A + A.T


def split(rng, b):
    """Two semidefinite matrices of integers with product 0, either of them perhaps 0."""
    if b < 0:
        on = rng.random(-b) < 0.5
        x, z = rng.integers(0, 4, -b), rng.integers(0, 4, -b)
        return np.where(on, x, 0).astype(float), np.where(on, 0, z).astype(float)
    basis = np.eye(b)
    if b > 1 and rng.random() < 0.7:
        v = rng.integers(-1, 2, b).astype(float)
        v[0] = 1.0
        basis = v @ v * np.eye(b) - 2 * np.outer(v, v)  # orthogonal columns
    r = int(rng.integers(0, b + 1))
    W = basis[:, :r] @ np.diag(rng.integers(0, 3, r).astype(float)) @ basis[:, :r].T
    Z = basis[:, r:] @ np.diag(rng.integers(0, 3, b - r).astype(float)) @ basis[:, r:].T
    return W, Z


def inner(A, W):
    return float(sum(np.vdot(a, w) for a, w in zip(A, W, strict=True)))


def add(*parts):
    """A sum of multiples of block matrices, (factor, blocks) each."""
    return [sum(f * blocks[i] for f, blocks in parts) for i in range(len(parts[0][1]))]


def build(C, rows, sense):
    sdp = SDP(C, sense)
    for A, kind, b in rows:
        sdp.subject_to(A, kind, b)
    return sdp


def redundant(rng, rows):
    """Rows and integer combinations of the equalities among them."""
    equal = [r for r in rows if r[1] == "=="]
    out = list(rows)
    for _ in range(int(rng.integers(0, 3)) if equal else 0):
        k = rng.integers(-2, 3, len(equal))
        if k.any():
            A = add(*((float(f), r[0]) for f, r in zip(k, equal, strict=True)))
            out.append((A, "==", float(sum(f * r[2] for f, r in zip(k, equal, strict=True)))))
    order = rng.permutation(len(out))
    return [out[i] for i in order]


def optimum(seed, size=1.0):
    """A program with an optimum; `size` multiplies W."""
    rng = np.random.default_rng([1, seed])
    blocks, sense = BLOCKS[seed % len(BLOCKS)], ("min", "max")[seed // 8 % 2]
    sign = 1.0 if sense == "min" else -1.0
    pairs = [split(rng, b) for b in blocks]
    W, Z = [size * p[0] for p in pairs], [p[1] for p in pairs]
    rows, C, value = [], Z, 0.0
    for _ in range(int(rng.integers(1, 5))):
        A, kind = [integer(rng, b) for b in blocks], ("==", "==", "<=", ">=")[rng.integers(4)]
        y = float(rng.integers(-2, 3)) if kind == "==" else float(rng.integers(0, 3))
        y = -y if kind == "<=" else y
        loose = 0.0 if y or kind == "==" else float(rng.integers(0, 3))
        b = inner(A, W) + (loose if kind == "<=" else -loose)
        rows.append((A, kind, b))
        C, value = add((1.0, C), (y, A)), value + y * b
    return Known(build(add((sign, C)), redundant(rng, rows), sense), "optimum", sign * value, W)


def infeasible(seed):
    """A program whose rows add up to a contradiction."""
    rng = np.random.default_rng([2, seed])
    blocks, sense = BLOCKS[seed % len(BLOCKS)], ("min", "max")[seed // 8 % 2]
    rows, count = [], int(rng.integers(1, 4))
    total = [-split(rng, b)[int(rng.integers(2))] for b in blocks]
    right = float(rng.integers(1, 4))
    for _ in range(count - 1):
        A, b = [integer(rng, b) for b in blocks], float(rng.integers(-3, 4))
        rows.append((A, "==", b))
        f = float(rng.integers(-2, 3))
        total, right = add((1.0, total), (-f, A)), right - f * b
    rows.append((total, ("==", ">=")[int(rng.integers(2))], right))
    C = [integer(rng, b) for b in blocks]
    return Known(build(C, redundant(rng, rows), sense), "infeasible")


def unbounded(seed):
    """A feasible program with a direction along which its value improves."""
    rng = np.random.default_rng([3, seed])
    blocks, sense = BLOCKS[seed % len(BLOCKS)], ("min", "max")[seed // 8 % 2]
    sign = 1.0 if sense == "min" else -1.0
    while True:
        D = [split(rng, b)[0] for b in blocks]
        size = inner(D, D)
        if size:
            break
    W, rows = [split(rng, b)[0] for b in blocks], []
    for _ in range(int(rng.integers(1, 4))):
        A = [integer(rng, b) for b in blocks]
        A = add((size, A), (-inner(A, D), D))  # A D = 0, in integers
        kind = ("==", "==", "<=", ">=")[rng.integers(4)]
        if kind != "==":  # the direction may leave the row alone or go into it
            A = add((1.0, A), (float(rng.integers(0, 2)) * (-1.0 if kind == "<=" else 1.0), D))
        rows.append((A, kind, inner(A, W)))
    C = [integer(rng, b) for b in blocks]
    C = add((size, C), (-inner(C, D) - float(rng.integers(1, 4)), D))
    return Known(build(add((sign, C)), redundant(rng, rows), sense), "unbounded", W=W)
