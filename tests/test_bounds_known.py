"""No run proves a bound above the optimum, on problems whose optimum is known as a fraction.

    python tests/test_bounds_known.py 3000 [first]

All data are small integers and powers of two. A problem is built around its solution: a point of
the domain, a direction v that it minimises there, a subgradient y of every function at its images,
and the cost ⟨v − Σ ω A*y, W⟩. Membership, feasibility and value of the point are computed in
fractions, so that its value is at least the optimum, and is it where nothing was rounded. Rows of
maps are written down here. A method drawn at random runs for some iterations; some runs are saved
and resumed, and some move to a larger domain, over which the optimum is the same.
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.linalg import block_diag, hadamard

import condgrad as cg
from condgrad import METHODS, Problem, Status, Term, domains, functions, maps
from condgrad.certificate import bound, part_of
from condgrad.domains import Domain
from condgrad.functions import Function
from condgrad.maps import LinearMap

DIGITS = Context(prec=60, Emin=-(10**6), Emax=10**6)
SHARP = 1e-9
"""Relative distance of an optimum from the bound of its own multipliers."""


@dataclass
class Known:
    """A problem, its solution, and the exact value of that."""

    problem: Problem
    W: np.ndarray
    duals: list[np.ndarray]
    optimum: Fraction
    size: float
    """About the largest number that is added up to a bound."""
    larger: Domain | None
    """A domain with the same optimum."""


def exact(array: np.ndarray) -> np.ndarray:
    """Floats as fractions."""
    flat = [Fraction(float(x)) for x in np.asarray(array, float).reshape(-1)]
    return np.array(flat, dtype=object).reshape(np.shape(array))


def integers(rng: np.random.Generator, shape: object, most: int = 4) -> np.ndarray:
    return rng.integers(-most, most + 1, shape).astype(float)


def power(rng: np.random.Generator, most: int) -> float:
    """A power of two, rarely a very large or a very small one."""
    return float(2.0 ** rng.integers(*((-30, 31) if rng.random() < 0.1 else (-most, most + 1))))


def shares(rng: np.random.Generator, count: int) -> np.ndarray:
    """Positive powers of two that sum to 1."""
    parts = [1.0]
    while len(parts) < count:
        half = parts.pop(int(rng.integers(len(parts)))) / 2
        parts += [half, half]
    return rng.permutation(parts)


def frame(rng: np.random.Generator, n: int, first: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Orthogonal columns of 0 and ±1, and their squared lengths, which are powers of two.

    The block of the first column has the side `first` if that is given.
    """
    sides = [first] if first else []
    while sum(sides) < n:
        sides.append(int(rng.choice([s for s in (1, 2, 4) if s <= n - sum(sides)])))
    Q = block_diag(*(hadamard(s) for s in sides)).astype(float)
    Q = rng.permutation(Q, axis=0) * rng.choice([-1.0, 1.0], n)[:, None]
    return Q, np.square(Q).sum(axis=0)


# Domains: a point, a direction that it minimises, whether the trace is free, a larger domain.

Face = tuple[Domain, np.ndarray, np.ndarray, "Domain | None"]


def spectrum(
    rng: np.random.Generator, n: int, trace: float, free: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A frame with eigenvalues of W and of v, which are lowest where W is not 0; all exact."""
    Q, squares = frame(rng, n)
    rank = int(rng.integers(1, n + 1))
    low = 0.0 if free else -float(rng.integers(1, 4))
    values = low + np.r_[np.zeros(rank), rng.integers(0, 4, n - rank)]
    weights = np.r_[
        shares(rng, rank) * trace * (rng.choice([0.5, 1.0]) if free else 1.0), np.zeros(n - rank)
    ]
    order = rng.permutation(n)
    Q, squares = Q[:, order], squares[order]
    return (Q * (weights / squares)) @ Q.T, (Q * (values / squares)) @ Q.T, Q


def spectrahedron(rng: np.random.Generator) -> Face:
    n, trace, equality = (
        int(rng.integers(1, 7)),
        2.0 ** rng.integers(-2, 4),
        bool(rng.random() < 0.4),
    )
    free = not equality and rng.random() < 0.5
    W, V, _ = spectrum(rng, n, trace, free)
    larger = domains.Spectrahedron(n, trace * float(rng.integers(2, 6))) if free else None
    return domains.Spectrahedron(n, trace, equality), W, V, larger


def blocks(rng: np.random.Generator) -> Face:
    sides, trace = [int(s) for s in rng.integers(1, 4, 3)], 2.0 ** rng.integers(-1, 3)
    free, parts = bool(rng.random() < 0.5), []
    low = 0.0 if free else -float(rng.integers(1, 4))
    for side, share in zip(sides, shares(rng, 3), strict=True):
        W, V, _ = spectrum(rng, side, share * trace, True)
        parts.append((W, V + low * np.eye(side)))
    W, V = (block_diag(*pair) for pair in zip(*parts, strict=True))
    trace = trace if free else float(np.trace(W))
    larger = domains.BlockSpectrahedron(sides, 4 * trace) if free else None
    equality = not free and bool(rng.random() < 0.5)
    return domains.BlockSpectrahedron(sides, trace, equality), W, V, larger


def pinned(rng: np.random.Generator) -> Face:
    """One column of a frame is the pinned vector; W has a given share of it."""
    n = int(rng.choice([2, 4, 5, 6]))
    Q, squares = frame(rng, n, first=2 if n == 2 else 4)
    value, trace = float(rng.choice([0.0, 1.0, 2.0])), 2.0 ** rng.integers(-1, 3)
    free, rank = bool(rng.random() < 0.5), int(rng.integers(1, n))
    low = 0.0 if free else -float(rng.integers(1, 4))
    weights = np.r_[
        value, shares(rng, rank) * trace * (0.5 if free else 1.0), np.zeros(n - 1 - rank)
    ]
    values = np.r_[integers(rng, 1), low + np.r_[np.zeros(rank), rng.integers(0, 4, n - 1 - rank)]]
    V = (Q * (values / squares)) @ Q.T
    own = np.outer(integers(rng, n), Q[:, 0])  # what v says of the pinned vector is free
    W = (Q * (weights / squares)) @ Q.T
    equality = not free and bool(rng.random() < 0.5)
    larger = domains.PinnedSpectrahedron(Q[:, 0], value + 3 * trace, value) if free else None
    domain = domains.PinnedSpectrahedron(Q[:, 0], value + trace, value, equality)
    return domain, W, V + own + own.T, larger


def nuclear(rng: np.random.Generator) -> Face:
    side, radius = int(rng.choice([1, 2, 4])), 2.0 ** rng.integers(0, 4)
    rows, columns = (side + int(x) for x in rng.integers(0, 3, 2))
    flat, rank = bool(rng.random() < 0.3), int(rng.integers(1, side + 1))
    U, Z = (rng.permutation(hadamard(side), axis=0) * 1.0 for _ in range(2))
    top = 0.0 if flat else float(rng.integers(2, 5))
    s = np.r_[np.full(rank, top), rng.integers(0, int(top) + 1, side - rank)]
    w = np.r_[shares(rng, rank), np.zeros(side - rank)] * radius * (0.5 if flat else 1.0)
    V, W = np.zeros((rows, columns)), np.zeros((rows, columns))
    at = np.ix_(rng.permutation(rows)[:side], rng.permutation(columns)[:side])
    V[at], W[at] = -(U * (s / side)) @ Z.T, (U * (w / side)) @ Z.T
    shape = (rows, columns)
    return (
        domains.NuclearBall(shape, radius),
        W,
        V,
        domains.NuclearBall(shape, 3 * radius) if flat else None,
    )


def simplex(rng: np.random.Generator) -> Face:
    d, total = int(rng.integers(1, 9)), 2.0 ** rng.integers(-2, 4)
    count = int(rng.integers(1, d + 1))
    W = rng.permutation(np.r_[shares(rng, count), np.zeros(d - count)]) * total
    low = float(rng.integers(-3, 4))
    return domains.Simplex(d, total), W, np.where(W > 0, low, low + rng.integers(0, 4, d)), None


def l1(rng: np.random.Generator) -> Face:
    d, radius = int(rng.integers(1, 9)), 2.0 ** rng.integers(-2, 4)
    count, flat = int(rng.integers(1, d + 1)), bool(rng.random() < 0.3)
    size = rng.permutation(np.r_[shares(rng, count), np.zeros(d - count)]) * radius
    sign, top = rng.choice([-1.0, 1.0], d), 0 if flat else int(rng.integers(1, 4))
    v = -sign * np.where(size > 0, top, rng.integers(0, top + 1, d))
    W = sign * size * (0.5 if flat else 1.0)
    return domains.L1Ball(d, radius), W, v, domains.L1Ball(d, 3 * radius) if flat else None


def l2(rng: np.random.Generator) -> Face:
    """Whole numbers whose length is whole."""
    v = np.array(
        [(1.0,), (3.0, 4.0), (1.0, 2.0, 2.0), (2.0, 3.0, 6.0), (1.0,) * 4][rng.integers(5)]
    )
    d, unit, flat = (
        int(v.size + rng.integers(0, 4)),
        2.0 ** rng.integers(-2, 3),
        bool(rng.random() < 0.3),
    )
    v = rng.permutation(np.r_[v, np.zeros(d - v.size)]) * rng.choice([-1.0, 1.0], d)
    radius = unit * float(np.sqrt(v @ v))
    domain, larger = domains.L2Ball(d, radius), domains.L2Ball(d, 2 * radius) if flat else None
    return domain, -unit * v * (0.5 if flat else 1.0), 0 * v if flat else v, larger


def box(rng: np.random.Generator) -> Face:
    d, ball, unit = int(rng.integers(1, 9)), bool(rng.random() < 0.5), 2.0 ** rng.integers(-2, 3)
    radius = unit * rng.integers(1, 4, 1 if ball else d) * np.ones(d)
    middle = np.zeros(d) if ball else unit * integers(rng, d)
    v = integers(rng, d, 2)
    W = middle - radius * np.where(v == 0, rng.integers(-2, 3, d) / 2, np.sign(v))
    if ball:
        return domains.LinfBall(d, radius[0]), W, v, None
    return domains.Box(middle - radius, middle + radius), W, v, None


def product(rng: np.random.Generator) -> Face:
    parts = [PLAIN[i](rng) for i in rng.choice(len(PLAIN), 2, replace=False)]
    W, v = (np.concatenate([part[i].reshape(-1) for part in parts]) for i in (1, 2))
    return domains.Product([part[0] for part in parts]), W, v, None


PLAIN = (spectrahedron, simplex, nuclear, box, l1, l2)
DOMAINS = (spectrahedron, blocks, pinned, nuclear, simplex, l1, l2, box, product)


# Maps, with their rows written down.


def linear_map(
    rng: np.random.Generator, shape: tuple[int, ...], symmetric: bool
) -> tuple[LinearMap, np.ndarray]:
    """A map and its rows, one of which may be a multiple of another."""
    m, entries = int(rng.integers(1, 7)), int(np.prod(shape))
    kinds = ["all", "inner"]
    kinds += ["data"] if len(shape) == 1 else ["sums", "entries"]
    kinds += ["diagonal", "trace", "stack", "low rank", "triangles"] if symmetric else []
    kinds += ["left", "sandwich"] if len(shape) == 2 and not symmetric else []
    eye = np.eye(entries).reshape(-1, *shape)
    match rng.choice(kinds):
        case "all":
            made, rows = maps.AllEntries(shape), eye
        case "inner":
            rows = integers(rng, (1, *shape))
            rows = rows + rows.transpose(0, 2, 1) if symmetric else rows
            made = maps.Inner(rows[0])
        case "data":
            rows = integers(rng, (m, *shape))
            rows[m // 2 :] = 2 * rows[: m - m // 2]
            made = maps.DataMatrix(sp.csr_array(rows) if rng.random() < 0.5 else rows)
        case "sums":
            made, rows = (
                maps.RowSums(shape),
                np.array([np.outer(e, np.ones(shape[1])) for e in np.eye(shape[0])]),
            )
        case "entries":
            at = rng.choice(entries, min(m, entries), replace=False)
            made, rows = maps.Entries(*np.divmod(at, shape[1]), shape), eye[at]
        case "diagonal":
            made, rows = maps.Diagonal(shape[0]), np.array([np.diag(e) for e in np.eye(shape[0])])
        case "trace":
            made, rows = maps.Trace(shape[0]), np.eye(shape[0])[None]
        case "stack":
            rows = integers(rng, (m, *shape)) * (rng.random((m, *shape)) < 0.5)
            rows = rows + rows.transpose(0, 2, 1)
            made = maps.SparseStack(list(rows))
        case "low rank":
            U, s = integers(rng, (shape[0], 2 * m), 2), integers(rng, 2 * m, 3)
            made = maps.LowRankStack(U, [2] * m, s)
            pairs = [s[j] * np.outer(U[:, j], U[:, j]) for j in range(2 * m)]
            rows = np.array([a + b for a, b in zip(pairs[::2], pairs[1::2], strict=True)])
        case "triangles":
            n = shape[0]
            if n < 3:
                return linear_map(rng, shape, symmetric)
            made = maps.Triangles(n)
            rows = np.array([made.adjoint(e) for e in np.eye(made.size)])
            assert all(sorted(R[R != 0]) == [-1, -1, 1, 1] and np.trace(R) == -1 for R in rows)
        case "left":
            A = integers(rng, (m, shape[0]))
            made = maps.Left(A, shape[1])
            rows = np.array([np.outer(a, e) for a in A for e in np.eye(shape[1])])
        case _:
            A, B = integers(rng, (2, shape[0])), integers(rng, (shape[1], 2))
            made, rows = maps.Sandwich(A, B), np.array([np.outer(a, b) for a in A for b in B.T])
    if rng.random() < 0.3:
        factor = power(rng, 2) * 2.0 ** rng.integers(-1, 2, len(rows))
        made, rows = maps.Scaled(made, factor), rows * factor.reshape(-1, *[1] * len(shape))
    return made, rows.reshape(len(rows), entries)


def cone_rows(
    rng: np.random.Generator, W: np.ndarray, symmetric: bool
) -> tuple[LinearMap, np.ndarray] | None:
    """Rows by which W is on the boundary of the second-order cone, if an entry allows that."""
    if W.ndim == 2 and not symmetric:
        return None
    flat, step = W.reshape(-1), W.shape[0] + 1 if symmetric else 1
    at = [j for j in range(0, W.size, step) if np.frexp(abs(flat[j]))[0] == 0.5]
    if not at:
        return None
    lengths = [(5.0, 3.0, 4.0), (3.0, 1.0, 2.0, 2.0), (2.0, 0.0, -2.0), (7.0, 2.0, -3.0, 6.0)]
    target = np.array(lengths[rng.integers(len(lengths))]) * 2.0 ** rng.integers(-2, 2)
    rows = integers(rng, (target.size, *W.shape), 2)
    rows = rows + rows.transpose(0, 2, 1) if symmetric else rows
    rows = rows.reshape(target.size, -1)
    images = [sum(a * x for a, x in zip(exact(r), exact(flat), strict=True)) for r in rows]
    rows[:, at[0]] += (target - np.array(images, float)) / flat[at[0]]
    shaped = rows.reshape(-1, *W.shape)
    return maps.SparseStack(list(shaped)) if symmetric else maps.DataMatrix(rows), rows


# Functions: data around images z, a subgradient there, and value and conjugate in fractions.


def function(
    rng: np.random.Generator, kind: str, z: np.ndarray, unit: float
) -> tuple[Function, np.ndarray, Fraction]:
    """A function with data of a size beside z, a subgradient, and at least its value."""
    m, e = z.size, exact(z)
    noise, room = unit * integers(rng, m), unit * rng.integers(1, 5, m)
    scale, labels = float(2.0 ** rng.integers(-2, 3)), rng.choice([-1.0, 1.0], m)
    kink = rng.integers(-2, 3, m) / 2
    zero = Fraction(0)
    match kind:
        case "Linear":
            return functions.Linear(noise), noise, sum(exact(noise) * e, zero)
        case "Squared":
            return functions.Squared(z - noise), noise, sum(exact(noise) ** 2 / 2, zero)
        case "Huber":
            delta = 2 * unit
            r, d = exact(noise), Fraction(delta)
            value = sum((x * x / 2 if abs(x) <= d else d * (abs(x) - d / 2) for x in r), zero)
            return functions.Huber(z - noise, delta), np.clip(noise, -delta, delta), value
        case "Logistic":
            made = functions.Logistic(labels)
            value = sum((softplus(-b * x) for b, x in zip(labels, z, strict=True)), zero)
            return made, made.derivative(z), value
        case "Absolute":
            y = scale * np.where(noise == 0, kink, np.sign(noise))
            return (
                functions.Absolute(z - noise, scale),
                y,
                Fraction(scale) * sum(abs(exact(noise)), zero),
            )
        case "L1":
            y = scale * np.where(z == 0, kink, np.sign(z))
            return functions.L1(scale), y, Fraction(scale) * sum(abs(e), zero)
        case "Hinge":
            slack = 1 - labels * z
            y = -labels * np.where(slack == 0, abs(kink), slack > 0)
            return functions.Hinge(labels), y, sum((max(zero, x) for x in exact(slack)), zero)
        case "L2Norm":
            r = np.zeros(m)
            r[: 4 if m >= 4 and rng.random() < 0.5 else 1] = unit * labels[0]
            r = rng.permutation(r) * (rng.random() < 0.8)
            length = float(np.sqrt(r @ r))
            y = scale * r / length if length else np.r_[scale * kink[0], np.zeros(m - 1)]
            return functions.L2Norm(scale, z - r), y, Fraction(scale * length)
        case "L2Ball":
            r = np.zeros(m)
            r[: 4 if m >= 4 and rng.random() < 0.5 else 1] = unit * labels[0]
            active = bool(rng.random() < 0.7)
            radius = float(np.sqrt(r @ r)) * (1.0 if active else 2.0)
            return functions.L2Ball(radius, z - r), active * scale * r, zero
        case "Simplex" if (z >= 0).all() and z.sum() > 0:
            return functions.Simplex(float(z.sum())), noise[0] - room * (z == 0), zero
        case "SecondOrder" if m > 1 and z[0] > 0 and e[0] ** 2 == sum(e[1:] ** 2, zero):
            return functions.SecondOrder(), scale * np.r_[-z[0], z[1:]], zero
        case "Equal":
            return functions.Equal(z), noise, zero
        case "AtMost":
            active = rng.random(m) < 0.5
            return functions.AtMost(z + room * ~active), abs(noise) * active, zero
        case "AtLeast":
            top = float(z.min())  # one number for all rows
            return functions.AtLeast(top), -abs(noise) * (z == top), zero
        case _:
            side = rng.integers(-1, 2, m)
            low = np.where(rng.random(m) < 0.3, -np.inf, z - room)
            high = np.where(rng.random(m) < 0.3, np.inf, z + room)
            low, high = np.where(side < 0, z, low), np.where(side > 0, z, high)
            return functions.Interval(low, high), side * abs(noise), zero


def softplus(x: float) -> Fraction:
    """At least ln(1 + exp x), and hardly more."""
    if abs(x) > 600:
        return Fraction(max(x, 0.0)) + Fraction(1, 10**200)
    with localcontext(DIGITS):
        return Fraction((1 + Decimal(x).exp()).ln()) + Fraction(1, 10**50)


KINDS = (
    *("Linear", "Squared", "Huber", "Logistic", "Absolute", "L1", "Hinge", "L2Norm", "L2Ball"),
    *("Simplex", "Equal", "AtMost", "AtLeast", "Interval", "Interval"),
)


def known(seed: int) -> Known:
    """Problem number `seed`."""
    rng = np.random.default_rng([seed, 34])
    domain, W, v, larger = DOMAINS[seed % len(DOMAINS)](rng)
    v = v * power(rng, 3)
    point, whole = exact(W).reshape(-1), exact(v)
    terms, duals, optimum, size = [], [np.ones(1)], Fraction(0), 0.0
    for i in range(int(rng.integers(0, 4))):
        cone = cone_rows(rng, W, domain.symmetric) if rng.random() < 0.15 else None
        A, rows = cone or linear_map(rng, domain.shape, domain.symmetric)
        images = np.array([sum(a * x for a, x in zip(exact(r), point, strict=True)) for r in rows])
        z = images.astype(float)
        assert (exact(z) == images).all()
        kind = "SecondOrder" if cone else str(rng.choice(KINDS))
        unit = 2.0 ** (rng.integers(-2, 3) + np.frexp(np.abs(z).max())[1])
        made, y, value = function(rng, kind, z, float(unit))
        weight = float(rng.choice([1.0, 3.0, 5.0])) * power(rng, 4)
        term = Term(A, made, weight, f"{type(made).__name__} {i}")
        terms.append(term)
        duals.append(np.asarray(y, float))
        optimum += Fraction(weight) * value
        size += weight * (
            abs(float(value)) + abs(float(made.conjugate_size(duals[-1]))) + abs(y) @ abs(z)
        )
        pull = [
            Fraction(weight) * sum(a * b for a, b in zip(exact(c), exact(y), strict=True))
            for c in rows.T
        ]
        whole = whole - np.array(pull).reshape(whole.shape)
    if domain.symmetric:
        whole = (whole + whole.T) / 2
    C = whole.astype(float)
    optimum += sum(a * b for a, b in zip(exact(C).reshape(-1), point, strict=True))
    size += float(np.linalg.norm(C) * domain.reach) + abs(float(optimum))
    cost = Term(maps.Inner(C), functions.Linear(), name="cost")
    return Known(Problem(domain, [cost, *terms]), W, duals, optimum, size, larger)


# Runs.


def suited(rng: np.random.Generator, problem: Problem) -> tuple[str, object]:
    """A method drawn at random among those for a problem, with random constants."""
    rare = [slug for slug in ("pdhg", "rpdhg", "apg", "pfw") if rng.random() < 0.2]
    for slug in (*rare, *rng.permutation(list(METHODS))):
        entry, options = METHODS[slug], {}
        if entry.batched and rng.random() < 0.7:
            options["batch"] = float(rng.choice([0.3, 0.5, 1.0]))
        if entry.smoothed and rng.random() < 0.5:
            options["beta0"] = float(10 ** rng.uniform(-2, 1))
        method = entry(**options)
        if method.suits(problem) is None:
            return str(slug), method
    raise AssertionError("no method for the problem")


def wrong(case: Known, result: cg.Result) -> str:
    """What a run says that is false; empty if nothing."""
    bounds = [float(b) for b in (*result.trace["lower_bound"], result.lower_bound)]
    above = [b for b in bounds if b == np.inf or (np.isfinite(b) and Fraction(b) > case.optimum)]
    if above:
        return f"bound {max(above)!r} above {float(case.optimum)!r} ({result.bound_source})"
    if result.status in (Status.INFEASIBLE, Status.CONTRADICTION):
        return result.status.name
    return ""


def answered(seed: int, seen: Counter[str] | None = None) -> str:
    """What a random run on problem number `seed` says that is false."""
    case, rng = known(seed), np.random.default_rng([seed, 35])
    dtype = np.float32 if rng.random() < 0.25 else np.float64
    try:
        problem = case.problem.astype(dtype)
    except cg.ProblemError:  # units that float32 has no room for
        problem, dtype = case.problem, np.float64
    slug, method = suited(rng, problem)
    goal = cg.Goal(gap=float(10 ** rng.uniform(-6, -1))) if rng.random() < 0.5 else None
    steps = int(np.ceil(10 ** rng.uniform(0, 2)))
    told, proposed = {}, {"propose": lambda W: case.W} if rng.random() < 0.2 else {}
    if rng.random() < 0.2:
        floor = float(case.optimum)
        told["floor"] = floor if Fraction(floor) <= case.optimum else np.nextafter(floor, -np.inf)
    run = cg.start(problem, method, seed=seed, **told, **proposed)
    run.advance(iterations=steps, until=goal)
    ways, found = [slug, np.dtype(dtype).name, *told, *proposed], [run.result()]
    if rng.random() < 0.3:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "run"
            run.save(path)
            run = cg.resume(path, problem, **proposed).advance(iterations=steps)
        ways, found = [*ways, "resumed"], [*found, run.result()]
    if case.larger is not None and result_open(found[-1]):
        with suppress(cg.ProblemError):  # not every method can
            run.move(case.larger).advance(iterations=steps)
            ways, found = [*ways, "moved"], [*found, run.result()]
    if seen is not None:
        close = float(case.optimum) - found[-1].lower_bound <= 1e-2 * case.size
        kinds = {type(t.function).__name__ for t in problem.terms}
        seen.update(
            [*ways, type(problem.domain).__name__, *kinds, *["close"] * int(close), "problems"]
        )
        seen.update([found[-1].bound_source])
    faults = [wrong(case, result) for result in found]
    return next((f"{seed}: {', '.join(ways)}: {fault}" for fault in faults if fault), "")


def result_open(result: cg.Result) -> bool:
    """Whether the run can go on."""
    return result.status in (*Status.limits(), Status.PAUSED, Status.CONVERGED)


def sharp(seed: int) -> bool:
    """Whether the multipliers of the solution prove its value, but for rounding, and no more."""
    case = known(seed)
    pairs = zip(case.problem.terms, case.duals, strict=True)
    found = bound(case.problem, [part_of(t, None, y) for t, y in pairs], "known").bound.value
    assert Fraction(found) <= case.optimum, seed
    return float(case.optimum) - found <= SHARP * case.size + 1e-300


@pytest.mark.parametrize("domain", [d.__name__ for d in DOMAINS])
def test_no_bound_is_above_a_known_optimum(domain: str) -> None:
    first = [d.__name__ for d in DOMAINS].index(domain)
    seeds: Sequence[int] = range(first, 8 * len(DOMAINS), len(DOMAINS))
    assert [answered(seed) for seed in seeds] == [""] * len(seeds)


def test_the_optimum_is_proved_by_its_multipliers() -> None:
    assert all(sharp(seed) for seed in range(120))


def main() -> int:
    count, first = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0
    seen: Counter[str] = Counter()
    faults = 0
    for seed in range(first, first + count):
        fault = answered(seed, seen)
        fault = fault or (
            "" if sharp(seed) else f"{seed}: the multipliers do not prove the optimum"
        )
        if fault:
            faults += 1
            print(fault, flush=True)
    print(", ".join(f"{n} {name}" for name, n in seen.most_common()))
    print(f"{count} problems, {faults} with a false answer")
    return int(faults > 0)


if __name__ == "__main__":
    sys.exit(main())
