"""Small random problems of every kind, with an optimum that is known or can be found.

A problem starts from a point of its domain; the data of every term is set around the images of
that point, so that it is feasible. In a *built* problem the point is the solution: with y_t in
∂h_t(A_t W) for every term, and v a direction that W minimises over the domain, the objective gets
the linear term ⟨v − Σ ω_t A_t* y_t, W⟩, which makes W optimal. Other problems get a random linear
term; an interior-point solver (`interior_point`) finds their optimum.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass

import cvxpy as cp
import numpy as np
import scipy.sparse as sp

from condgrad import Problem, Term, domains, functions, maps
from condgrad.domains import Domain
from condgrad.functions import Function
from condgrad.maps import LinearMap

TOLERANCES = ("tol_gap_abs", "tol_gap_rel", "tol_feas")
Face = tuple[np.ndarray, np.ndarray]
"""A direction, and a point of the domain that minimises it."""


@dataclass
class Case:
    problem: Problem
    point: np.ndarray
    """Feasible, and optimal where the problem is built."""
    duals: list[np.ndarray]
    """A subgradient of every term there; optimal with it."""

    @property
    def value(self) -> float:
        return self.problem.objective(self.point)


# Domains: a random direction and a random point of the face that it minimises.


def _spectrum(rng: np.random.Generator, n: int, trace: float, free: bool) -> Face:
    """V = Q diag Qᵀ with a multiple lowest eigenvalue; trace below `trace` only where that is 0."""
    Q = np.linalg.qr(rng.standard_normal((n, n)))[0]
    rank = int(rng.integers(1, max(2, n)))
    lowest = 0.0 if free else -rng.uniform(0.5, 2)
    values = lowest + np.r_[np.zeros(rank), rng.uniform(0.2, 3, n - rank)]
    shares = rng.dirichlet(np.ones(rank)) * trace * (rng.uniform(0.3, 1) if free else 1.0)
    W = (Q[:, :rank] * shares) @ Q[:, :rank].T
    V = (Q * values) @ Q.T
    return (V + V.T) / 2, (W + W.T) / 2


def _whole(rng: np.random.Generator, equality: bool) -> tuple[Domain, Face]:
    n, trace = int(rng.integers(3, 8)), rng.uniform(0.5, 6)
    free = not equality and rng.random() < 0.3
    return domains.Spectrahedron(n, trace, equality), _spectrum(rng, n, trace, free)


def _blocks(rng: np.random.Generator) -> tuple[Domain, Face]:
    sides, trace, equality = rng.integers(1, 4, 3), rng.uniform(0.5, 6), bool(rng.random() < 0.5)
    lowest, n, start = -rng.uniform(0.5, 2), int(sides.sum()), 0
    V, W, shares = np.zeros((n, n)), np.zeros((n, n)), rng.dirichlet(np.ones(3)) * trace
    for side, share in zip(sides, shares, strict=True):
        part = np.s_[start : start + side, start : start + side]
        v, W[part] = _spectrum(rng, side, share, True)
        W[part] *= share / np.trace(W[part])
        V[part] = v + lowest * np.eye(side)
        start += side
    return domains.BlockSpectrahedron([int(s) for s in sides], trace, equality), (V, W)


def _pinned(rng: np.random.Generator, values: float) -> tuple[Domain, Face]:
    n, rest, equality = int(rng.integers(4, 8)), rng.uniform(0.5, 4), bool(rng.random() < 0.5)
    q = np.ones(n) if rng.random() < 0.5 else rng.standard_normal(n)
    domain = domains.PinnedSpectrahedron(q, rest + values, values, equality)
    Q = np.linalg.qr(np.c_[q, rng.standard_normal((n, n - 1))])[0]
    v, W = _spectrum(rng, n - 1, rest, not equality and rng.random() < 0.3)
    out = rng.standard_normal((n, 1)) @ Q[:, :1].T  # what the pinned direction may say is free
    V = Q[:, 1:] @ v @ Q[:, 1:].T + out + out.T
    return domain, (V, Q[:, 1:] @ W @ Q[:, 1:].T + values * np.outer(Q[:, 0], Q[:, 0]))


def _nuclear(rng: np.random.Generator) -> tuple[Domain, Face]:
    rows, columns, radius = int(rng.integers(3, 7)), int(rng.integers(3, 7)), rng.uniform(1, 5)
    side = min(rows, columns)
    U = np.linalg.qr(rng.standard_normal((rows, side)))[0]
    Z = np.linalg.qr(rng.standard_normal((columns, side)))[0]
    rank, top = int(rng.integers(1, side)), rng.uniform(1, 2)
    s = np.r_[np.full(rank, top), rng.uniform(0, top, side - rank)]
    shares = np.r_[rng.dirichlet(np.ones(rank)) * radius, np.zeros(side - rank)]
    return domains.NuclearBall((rows, columns), radius), (-(U * s) @ Z.T, (U * shares) @ Z.T)


def _ties(rng: np.random.Generator, d: int) -> tuple[np.ndarray, np.ndarray]:
    """Shares on some coordinates, and a size of v for each, largest on those."""
    count = int(rng.integers(1, d))
    shares = rng.permutation(np.r_[rng.dirichlet(np.ones(count)), np.zeros(d - count)])
    return shares, np.where(shares > 0, 2.0, rng.uniform(0, 2, d))


def _simplex(rng: np.random.Generator) -> tuple[Domain, Face]:
    d, total = int(rng.integers(3, 8)), rng.uniform(0.5, 3)
    shares, size = _ties(rng, d)
    return domains.Simplex(d, total), (rng.uniform(-2, 2) - size, total * shares)


def _l1(rng: np.random.Generator) -> tuple[Domain, Face]:
    d, radius = int(rng.integers(3, 8)), rng.uniform(0.5, 3)
    (shares, size), sign = _ties(rng, d), rng.choice([-1.0, 1.0], d)
    return domains.L1Ball(d, radius), (-sign * size, radius * sign * shares)


def _l2(rng: np.random.Generator) -> tuple[Domain, Face]:
    d, radius = int(rng.integers(3, 8)), rng.uniform(0.5, 3)
    v = rng.standard_normal(d)
    return domains.L2Ball(d, radius), (v, -radius * v / np.linalg.norm(v))


def _box(rng: np.random.Generator, ball: bool) -> tuple[Domain, Face]:
    d = int(rng.integers(3, 8))
    radius, middle = rng.uniform(0.5, 2, d), np.zeros(d) if ball else 3 * rng.standard_normal(d)
    radius = radius[0] * np.ones(d) if ball else radius
    v = rng.standard_normal(d) * (rng.random(d) < 0.7)
    W = middle + radius * np.where(v == 0, rng.uniform(-1, 1, d), -np.sign(v))
    domain = (
        domains.LinfBall(d, radius[0]) if ball else domains.Box(middle - radius, middle + radius)
    )
    return domain, (v, W)


def _product(rng: np.random.Generator) -> tuple[Domain, Face]:
    makers = [lambda r: _whole(r, False), _simplex, _nuclear, lambda r: _box(r, False)]
    parts = [makers[i](rng) for i in sorted(rng.choice(4, 2, replace=False))]
    joined = tuple(np.concatenate([face[i].reshape(-1) for _, face in parts]) for i in (0, 1))
    return domains.Product([domain for domain, _ in parts]), joined


DOMAINS: dict[str, Callable[[np.random.Generator], tuple[Domain, Face]]] = {
    "spectrahedron": lambda rng: _whole(rng, False),
    "spectrahedron-equal": lambda rng: _whole(rng, True),
    "blocks": _blocks,
    "pinned": lambda rng: _pinned(rng, 0.0),
    "pinned-value": lambda rng: _pinned(rng, 1.0),
    "nuclear": _nuclear,
    "product": _product,
    "simplex": _simplex,
    "l1": _l1,
    "l2": _l2,
    "linf": lambda rng: _box(rng, True),
    "box": lambda rng: _box(rng, False),
}


# Functions: data around images z, and a subgradient there.


def _interval(rng: np.random.Generator, z: np.ndarray, kind: str) -> tuple[Function, np.ndarray]:
    """Rows that are active above (+1), below (−1) or not at all; a side may be infinite."""
    room, size = rng.uniform(0.1, 1, z.size), np.abs(rng.standard_normal(z.size))
    if kind == "Equal":
        return functions.Equal(z), rng.standard_normal(z.size)
    if kind in ("AtMost", "AtLeast"):
        sign = 1.0 if kind == "AtMost" else -1.0
        active = rng.random(z.size) < 0.5
        bound = z + sign * np.where(active, 0.0, room)
        if rng.random() < 0.5:  # one number for all rows
            bound = sign * np.max(sign * z)
            active = z == bound
        return getattr(functions, kind)(bound), sign * size * active
    state = rng.integers(-1, 2, z.size)
    lower, upper = z - room * (state != -1), z + room * (state != 1)
    if kind == "one side":
        drop = rng.random(z.size) < 0.5
        lower[(state == 1) | ((state == 0) & drop)] = -np.inf
        upper[(state == -1) | ((state == 0) & ~drop)] = np.inf
    return functions.Interval(lower, upper), state * size


def _function(rng: np.random.Generator, z: np.ndarray, kind: str) -> tuple[Function, np.ndarray]:
    noise, scale = rng.standard_normal(z.size), rng.uniform(0.2, 2)
    labels = rng.choice([-1.0, 1.0], z.size)
    match kind:
        case "Linear":
            return functions.Linear(noise), noise
        case "Squared" | "Logistic" | "Huber":
            made = {
                "Squared": lambda: functions.Squared(z + noise),
                "Logistic": lambda: functions.Logistic(labels),
                "Huber": lambda: functions.Huber(z + noise, scale),
            }[kind]()
            return made, made.derivative(z)
        case "Absolute" | "L1":
            target = np.where(rng.random(z.size) < 0.3, z, z + noise) if kind == "Absolute" else 0.0
            made = functions.Absolute(target, scale) if kind == "Absolute" else functions.L1(scale)
            kink = rng.uniform(-1, 1, z.size)
            return made, scale * np.where(z == target, kink, np.sign(z - target))
        case "Hinge":
            return functions.Hinge(labels), -labels * (labels * z < 1)
        case "L2Ball":
            unit = noise / np.linalg.norm(noise)
            return functions.L2Ball(scale, z - scale * unit), rng.uniform(0, 2) * unit
        case "L2Norm":
            if rng.random() < 0.3:
                return functions.L2Norm(scale, z), scale * 0.5 * noise / np.linalg.norm(noise)
            return functions.L2Norm(scale, z + noise), -scale * noise / np.linalg.norm(noise)
        case "SecondOrder":  # `aim` has put z on the cone
            return functions.SecondOrder(), rng.uniform(0, 2) * np.r_[-z[0], z[1:]]
        case "Simplex":
            free = rng.uniform(0, 1, z.size) * (z < 1e-12)
            return functions.Simplex(float(z.sum())), rng.standard_normal() - free
        case _:
            return _interval(rng, z, kind)


def _aim(rng: np.random.Generator, rows: np.ndarray, W: np.ndarray, kind: str) -> np.ndarray:
    """Rows moved along W so that the images of W lie on the cone or the simplex."""
    W, z = W.reshape(-1), rows @ W.reshape(-1)
    target = z
    if kind == "SecondOrder":
        target = np.r_[np.linalg.norm(z[1:]), z[1:]]
    elif kind == "Simplex":
        target = rng.dirichlet(np.ones(z.size)) * rng.uniform(0.5, 2)
    return rows + np.outer(target - z, W) / float(W @ W)


def _map(rng: np.random.Generator, W: np.ndarray, name: str, kind: str) -> LinearMap:
    """A map of the given name whose images of W suit the function."""
    shape, m = W.shape, int(rng.integers(2, 9))
    match name:
        case "DataMatrix":
            rows = _aim(rng, rng.standard_normal((m, shape[0])), W, kind)
            return maps.DataMatrix(sp.csr_array(rows) if rng.random() < 0.5 else rows)
        case "SparseStack":
            A = rng.standard_normal((m, *shape)) * (rng.random((m, *shape)) < 0.5)
            rows = _aim(rng, (A + A.transpose(0, 2, 1)).reshape(m, -1), W, kind)
            return maps.SparseStack(list(rows.reshape(m, *shape)))
        case "Left":
            return maps.Left(rng.standard_normal((m, shape[0])), shape[1])
        case "Sandwich":
            return maps.Sandwich(*(rng.standard_normal(s) for s in ((2, shape[0]), (shape[1], 3))))
        case "Inner":
            C = rng.standard_normal(shape)
            return maps.Inner(C + C.T if len(shape) == 2 and shape[0] == shape[1] else C)
        case "Entries":
            flat = rng.choice(W.size, m, replace=False)
            return maps.Entries(*np.divmod(flat, shape[1]), shape)
        case "Stack":
            return maps.Stack([maps.Scaled(maps.RowSums(shape), 0.5), maps.AllEntries(shape)])
        case "AllEntries" | "RowSums":
            return getattr(maps, name)(shape)
        case _:
            return getattr(maps, name)(shape[0])


PAIRS = {
    "square": """Trace Equal, Inner Equal, Diagonal Equal, RowSums Equal, AllEntries AtLeast,
        Entries both sides, Triangles AtMost, SparseStack both sides, SparseStack one side,
        SparseStack AtMost, SparseStack Squared, Entries Huber, AllEntries L1, SparseStack Hinge,
        SparseStack Logistic, Entries Absolute, Diagonal L2Norm, SparseStack L2Ball,
        SparseStack SecondOrder, SparseStack Simplex, Triangles both sides, Stack AtLeast""",
    "matrix": """Inner Equal, RowSums Equal, AllEntries AtLeast, Entries both sides,
        Entries Squared, Entries one side, Entries Huber, Stack AtMost, AllEntries L1,
        RowSums L2Ball, AllEntries L2Norm, Entries Hinge, Entries Absolute, Entries Logistic,
        Sandwich Squared, Left both sides, Sandwich AtMost""",
    "vector": """DataMatrix Equal, DataMatrix both sides, DataMatrix Squared, DataMatrix one side,
        DataMatrix AtMost, AllEntries AtLeast, DataMatrix Hinge, DataMatrix Huber,
        DataMatrix Logistic, DataMatrix Absolute, AllEntries L1, DataMatrix L2Ball,
        DataMatrix L2Norm, Inner AtLeast, DataMatrix SecondOrder, DataMatrix Simplex,
        DataMatrix Linear""",
}
"""A map and a function; *both sides* and *one side* are an `Interval`."""


def _pairs(domain: Domain) -> list[list[str]]:
    shape = "square" if domain.symmetric else "vector" if len(domain.shape) == 1 else "matrix"
    return [pair.split(maxsplit=1) for pair in PAIRS[shape].replace("\n", " ").split(",")]


def random_problem(kind: str, seed: int, built: bool) -> Case:
    """Problem number `seed` over a domain: the pairs in turn, each with another at random."""
    rng = np.random.default_rng([seed, built, *kind.encode()])
    domain, (v, W) = DOMAINS[kind](rng)
    if not built:  # inside the domain: a mixture with atoms of other directions
        atoms = [domain.lmo(rng.standard_normal(domain.shape)).dense() for _ in range(8)]
        W = 0.3 * W + 0.7 * np.tensordot(rng.dirichlet(np.ones(8)), np.array(atoms), 1)
    product = isinstance(domain, domains.Product)
    terms, duals, pull = [], [np.ones(1)], np.zeros(domain.shape)
    for i in range(2):
        block = (seed + i) % 2
        part = domain.domains[block] if product else domain
        pairs = _pairs(part)
        name, function = pairs[seed % len(pairs) if i == 0 else rng.integers(len(pairs))]
        A = _map(rng, domain.block(W, block) if product else W, name, function)
        A = maps.Restricted(A, domain, block) if product else A
        made, y = _function(rng, A.rows(W), function)
        weight = float(rng.choice([0.3, 1.0, 2.5]))
        terms.append(Term(A, made, weight, f"{name} {function} {i}"))
        duals.append(np.asarray(y, np.float64))
        pull += weight * A.adjoint(duals[-1])
    C = v - pull if built else rng.standard_normal(domain.shape)
    C = (C + C.T) / 2 if domain.symmetric else C
    cost = Term(maps.Inner(C), functions.Linear(), name="cost")
    return Case(Problem(domain, [cost, *terms]), W, duals)


# The interior-point solver.


def _variable(domain: Domain) -> tuple[cp.Expression, list[cp.Constraint]]:
    """A point of the domain, read row by row, and the constraints that keep it there."""
    match domain:
        case domains.Product():
            parts = [_variable(d) for d in domain.domains]
            return cp.hstack([x for x, _ in parts]), [c for _, rules in parts for c in rules]
        case domains.BlockSpectrahedron():
            n, start, W = domain.shape[0], 0, 0
            for side in domain.blocks:
                E = np.eye(n)[:, start : start + side]
                W, start = W + E @ cp.Variable((side, side), PSD=True) @ E.T, start + side
            total = cp.trace(W)
            rule = total == domain.trace if domain.equality else total <= domain.trace
            return cp.vec(W, order="C"), [rule]
        case domains.PinnedSpectrahedron():
            (n, r), Q = domain.face.basis.shape, domain.face.basis
            E = np.linalg.qr(np.c_[Q, np.eye(n)])[0][:, r:]
            inner = cp.Variable((n - r, n - r), PSD=True)
            total, rest = cp.trace(inner), domain.trace - domain.values.sum()
            rule = total == rest if domain.equality else total <= rest
            return cp.vec((Q * domain.values) @ Q.T + E @ inner @ E.T, order="C"), [rule]
        case domains.NuclearBall():
            W = cp.Variable(domain.shape)
            return cp.vec(W, order="C"), [cp.normNuc(W) <= domain.radius]
    x = cp.Variable(domain.shape)
    match domain:
        case domains.Simplex():
            return x, [x >= 0, cp.sum(x) == domain.total]
        case domains.L1Ball():
            return x, [cp.norm1(x) <= domain.radius]
        case domains.L2Ball():
            return x, [cp.norm2(x) <= domain.radius]
        case _:
            return x, [x >= domain.lower, x <= domain.upper]


def _cost(h: Function, z: cp.Expression) -> tuple[cp.Expression | float, list[cp.Constraint]]:
    match h:
        case functions.Linear():
            return cp.sum(cp.multiply(h.c, z)), []
        case functions.Squared():
            return 0.5 * cp.sum_squares(z - h.target), []
        case functions.Logistic():
            return cp.sum(cp.logistic(-cp.multiply(h.labels, z))), []
        case functions.Huber():
            return 0.5 * cp.sum(cp.huber(z - h.target, h.delta)), []
        case functions.Absolute():
            return h.scale * cp.norm1(z - h.target), []
        case functions.Hinge():
            return cp.sum(cp.pos(1 - cp.multiply(h.labels, z))), []
        case functions.L2Norm():
            return h.scale * cp.norm2(z - h.center), []
        case functions.L2Ball():
            return 0.0, [cp.norm2(z - h.center) <= h.radius]
        case functions.SecondOrder():
            return 0.0, [cp.SOC(z[0], z[1:])]
        case functions.Simplex():
            return 0.0, [z >= 0, cp.sum(z) == h.total]
    low, high = (np.broadcast_to(b, z.shape) for b in (h.lower, h.upper))
    same = low == high
    below, above = (np.flatnonzero(~same & np.isfinite(b)) for b in (low, high))
    same = np.flatnonzero(same)
    rules = [z[same] == low[same]] if same.size else []
    rules += [z[below] >= low[below]] if below.size else []
    return 0.0, rules + ([z[above] <= high[above]] if above.size else [])


def interior_point(problem: Problem) -> tuple[float, float]:
    """The optimum, and the largest relative infeasibility of the point that has it."""
    x, rules = _variable(problem.domain)
    total: cp.Expression | float = 0.0
    for t in problem.terms:
        A = np.array([t.map.adjoint(e).reshape(-1) for e in np.eye(t.map.size)])
        cost, more = _cost(t.function, A @ x)
        total, rules = total + t.weight * cost, rules + more
    program = cp.Problem(cp.Minimize(total), rules)
    for accuracy in (1e-9, 1e-8, 1e-7):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # cvxpy warns where the accuracy was not reached
            program.solve(solver=cp.CLARABEL, **dict.fromkeys(TOLERANCES, accuracy))
        if program.status == cp.OPTIMAL:
            break
    assert program.status == cp.OPTIMAL, program.status
    W = np.asarray(x.value).reshape(problem.domain.shape)
    return float(program.value), max(
        (v.relative for v in problem.violations(W).values()), default=0
    )
