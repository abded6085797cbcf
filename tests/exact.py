"""Small random problems along a line, whose optimum is known to 25 digits.

The points of the domain are W(s) = P + s Q, s in an interval, with P and Q known exactly; so are
the rows, and with them the images z_l(s) = α_l + β_l s. Functions are evaluated in decimal
arithmetic with 60 digits and the convex objective is minimised by golden section, so that the
optimum is off by 1e-25 of the terms at most, and never too low. Nothing of the library is used but
its constructors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from functools import cached_property
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from condgrad import Problem, Term, domains, functions, maps
from condgrad.domains import Domain
from condgrad.functions import Function
from condgrad.maps import LinearMap

DIGITS = Context(prec=60, Emin=-(10**6), Emax=10**6)
GOLDEN = Decimal("0.618033988749894848204586834365638117720309179805762862135448")
STEPS = 130
"""Of golden section: the interval shrinks by 1e-27."""

Values = list[Decimal]
Exact = Callable[[Values], Decimal | None]
"""The value of a function at images, None outside of its domain."""


def fractions(array: np.ndarray) -> list[Fraction]:
    """Floats as they are."""
    return [Fraction(float(x)) for x in np.asarray(array).reshape(-1)]


def decimal(x: Fraction | Decimal | float) -> Decimal:
    x = Fraction(x)
    return Decimal(x.numerator) / Decimal(x.denominator)


@dataclass
class Line:
    """A domain that is a segment, or whose other coordinates no term sees."""

    domain: Domain
    origin: list[Fraction]
    along: list[Fraction]
    low: Fraction
    high: Fraction


def line(rng: np.random.Generator, kind: str, size: float) -> Line:
    """A domain of the given kind and size."""
    r = float(size * rng.uniform(0.5, 2))
    zero, one, R = Fraction(0), Fraction(1), Fraction(r)
    match kind:
        case "box":
            low, high = np.sort(size * rng.standard_normal(2)) + size * rng.choice([0.0, 100.0])
            return Line(domains.Box([low], [high]), [zero], [one], Fraction(low), Fraction(high))
        case "l1" | "l2" | "linf":
            make = {"l1": domains.L1Ball, "l2": domains.L2Ball, "linf": domains.LinfBall}[kind]
            return Line(make(1, r), [zero], [one], -R, R)
        case "nuclear":
            return Line(domains.NuclearBall((1, 1), r), [zero], [one], -R, R)
        case "simplex":
            return Line(domains.Simplex(2, r), [zero, R], [one, -one], zero, R)
        case "segment":
            return Line(domains.Spectrahedron(1, r), [zero], [one], zero, R)
        case "spectrahedron":
            domain = domains.Spectrahedron(2, r, equality=True)
            return Line(domain, [zero, zero, zero, R], [one, zero, zero, -one], zero, R)
        case "blocks":
            domain = domains.BlockSpectrahedron([1, 1], r, equality=True)
            return Line(domain, [zero, zero, zero, R], [one, zero, zero, -one], zero, R)
        case "pinned":
            half = Fraction(1, 2)
            domain = domains.PinnedSpectrahedron(np.ones(2), r)
            return Line(domain, [zero] * 4, [half, -half, -half, half], zero, R)
    raise ValueError(kind)


KINDS = (
    *("box", "l1", "l2", "linf", "simplex", "nuclear"),
    *("segment", "spectrahedron", "blocks", "pinned"),
)


def rows_of(rng: np.random.Generator, shape: tuple[int, ...], m: int) -> np.ndarray:
    """Random rows, symmetric for square matrices; often the second half nearly undoes the first."""
    A = rng.standard_normal((m, *shape))
    if rng.random() < 0.7:
        half = m // 2
        A[half : 2 * half] = -A[:half] * (1 + 1e-9 * rng.standard_normal((half, *shape)))
    if len(shape) == 2:
        A = A * np.eye(*shape) if rng.random() < 0.5 else A + A.transpose(0, 2, 1)
    return A


def linear_map(
    rng: np.random.Generator, shape: tuple[int, ...], size: float, most: int
) -> tuple[LinearMap, list[list[Fraction]]]:
    """A map and its rows."""
    m = int(rng.integers(1, most + 1))
    A = size * rows_of(rng, shape, m)
    exact = [fractions(row) for row in A]
    if len(shape) == 1:
        kind = rng.choice(["dense", "sparse", "inner", "scaled", "stack"])
        if kind == "inner":
            return maps.Inner(A[0]), exact[:1]
        if kind == "scaled":
            c = rng.uniform(0.5, 2, m)
            factor = fractions(c)
            rows = [[f * x for x in row] for f, row in zip(factor, exact, strict=True)]
            return maps.Scaled(maps.DataMatrix(A), c), rows
        if kind == "stack":
            return maps.Stack([maps.DataMatrix(A), maps.Inner(A[0])]), [*exact, exact[0]]
        return maps.DataMatrix(sp.csr_array(A) if kind == "sparse" else A), exact
    kind = rng.choice(["stack", "inner", "low rank", "trace"])
    if kind == "trace":
        c = float(size * rng.standard_normal())
        return maps.Scaled(maps.Trace(shape[0]), c), [fractions(c * np.eye(shape[0]))]
    if kind == "inner":
        return maps.Inner(A[0]), exact[:1]
    if kind == "stack":
        return maps.SparseStack(list(A)), exact
    n, columns = shape[0], 2 * m
    U, s = rng.standard_normal((n, columns)), size * rng.standard_normal(columns)
    if rng.random() < 0.7:
        U[:, 1::2], s[1::2] = U[:, ::2] * (1 + 1e-9), -s[::2]
    rows = []
    for l in range(m):
        total = [Fraction(0)] * (n * n)
        for j in (2 * l, 2 * l + 1):
            u, weight = fractions(U[:, j]), Fraction(float(s[j]))
            total = [t + weight * a * b for t, (a, b) in zip(total, pairs(u), strict=True)]
        rows.append(total)
    return maps.LowRankStack(U, [2] * m, s), rows


def pairs(u: list[Fraction]) -> list[tuple[Fraction, Fraction]]:
    return [(a, b) for a in u for b in u]


# Functions: an instance with data around given images, and the same in decimals.


def norm(x: Values) -> Decimal:
    return total(a * a for a in x).sqrt()


def total(numbers: Iterable[Decimal]) -> Decimal:
    return sum(numbers, Decimal(0))


class Pair(NamedTuple):
    """A function, and its value and its conjugate in decimals."""

    made: Function
    value: Exact
    conjugate: Exact


def _each(data: np.ndarray, term: Callable[[Decimal, Decimal], Decimal]) -> Exact:
    numbers = [decimal(d) for d in data]
    return lambda z: total(term(x, b) for x, b in zip(z, numbers, strict=True))


def _interval(made: Function, low: np.ndarray, high: np.ndarray) -> Pair:
    ends = list(zip(low, high, strict=True))

    def value(z: Values) -> Decimal | None:
        for x, (a, b) in zip(z, ends, strict=True):
            if (np.isfinite(a) and x < decimal(a)) or (np.isfinite(b) and x > decimal(b)):
                return None
        return Decimal(0)

    def conjugate(y: Values) -> Decimal:
        parts = zip(y, ends, strict=True)
        return total(x * decimal(b if x > 0 else a) for x, (a, b) in parts if x != 0)

    return Pair(made, value, conjugate)


def _huber(delta: Decimal) -> Callable[[Decimal, Decimal], Decimal]:
    def term(x: Decimal, b: Decimal) -> Decimal:
        r = abs(x - b)
        return r * r / 2 if r <= delta else delta * (r - delta / 2)

    return term


def _entropy(p: Decimal) -> Decimal:
    assert 0 <= p <= 1
    if p < Decimal("1e-25"):  # 1 − p would be rounded; (1 − p) ln(1 − p) = −p + p²/2 + O(p³)
        return p * p.ln() - p + p * p / 2 if p > 0 else Decimal(0)
    return total(x * x.ln() for x in (p, 1 - p) if x > 0)


def _away(c: np.ndarray) -> Callable[[Values], Values]:
    """From z to z − c."""
    numbers = [decimal(x) for x in c]
    return lambda z: [a - b for a, b in zip(z, numbers, strict=True)]


def function(rng: np.random.Generator, kind: str, z: np.ndarray, size: float) -> Pair:
    """A function of the given kind, with data around images z of the given size if it has any."""
    m, scale, far = z.size, float(rng.uniform(0.2, 2)), float(10 ** rng.choice([0, 0, 3, 6]))
    room, noise = size * rng.uniform(0.1, 1, m), size * far * rng.standard_normal(m)
    labels, data, infinite = rng.choice([-1.0, 1.0], m), z + noise, np.full(m, np.inf)
    square = _each(data, lambda y, b: y * y / 2 + b * y)
    product = _each(data, lambda y, b: b * y)
    factor, away = decimal(scale), _away(data)
    match kind:
        case "Linear":
            c = rng.standard_normal(m)
            c[m // 2 : 2 * (m // 2)] = c[: m // 2]  # rows that undo each other
            return Pair(functions.Linear(c), _each(c, lambda x, b: b * x), lambda y: Decimal(0))
        case "Squared":
            made = functions.Squared(data)
            return Pair(made, _each(data, lambda x, b: (x - b) ** 2 / 2), square)
        case "Huber":
            made = functions.Huber(data, size * scale)
            return Pair(made, _each(data, _huber(decimal(size * scale))), square)
        case "Logistic":
            value = _each(labels, lambda x, b: (1 + (-b * x).exp()).ln())
            return Pair(
                functions.Logistic(labels), value, _each(labels, lambda y, b: _entropy(-b * y))
            )
        case "Hinge":
            value = _each(labels, lambda x, b: max(Decimal(0), 1 - b * x))
            return Pair(functions.Hinge(labels), value, _each(labels, lambda y, b: b * y))
        case "Absolute":
            value = _each(data, lambda x, b: factor * abs(x - b))
            return Pair(functions.Absolute(data, scale), value, product)
        case "L2Norm":
            return Pair(functions.L2Norm(scale, data), lambda x: factor * norm(away(x)), product)
        case "L2Ball":
            r = float(2 * np.linalg.norm(noise) + size)
            R = decimal(r)
            value = lambda x: Decimal(0) if norm(away(x)) <= R else None  # noqa: E731
            return Pair(functions.L2Ball(r, data), value, lambda y: product(y) + R * norm(y))
        case "AtMost":
            return _interval(functions.AtMost(z + room), -infinite, z + room)
        case "AtLeast":
            return _interval(functions.AtLeast(z - room), z - room, infinite)
        case "Interval":
            low, high = z - room, z + 2 * room
            return _interval(functions.Interval(low, high), low, high)
        case "Cap":  # one number for all rows
            top = float(np.max(z) + room[0])
            return _interval(functions.AtMost(top), -infinite, np.full(m, top))
        # The others are only asked for dual values: on a line they leave a point or nothing.
        case "Equal":
            return _interval(functions.Equal(z), z, z)
        case "SecondOrder":
            return Pair(functions.SecondOrder(), lambda x: None, lambda y: Decimal(0))
        case "Simplex":
            side = decimal(size * scale)
            made = functions.Simplex(size * scale)
            return Pair(made, lambda x: None, lambda y: side * max(y))
    raise ValueError(kind)


FUNCTIONS = (
    *("Linear", "Squared", "Huber", "Logistic", "Hinge", "Absolute", "L2Norm", "L2Ball"),
    *("AtMost", "AtLeast", "Interval", "Cap"),
)
DUAL = (*FUNCTIONS, "Equal", "SecondOrder", "Simplex")


@dataclass
class Fact:
    """A term as it is: weight, images α + βs, value and conjugate, rows."""

    weight: Decimal
    images: list[tuple[Decimal, Decimal]]
    pair: Pair


@dataclass
class Known:
    """A problem over a line, and what is known of it."""

    problem: Problem
    facts: list[Fact]
    low: Decimal
    middle: Decimal
    high: Decimal

    def values(self, s: Decimal) -> list[Decimal] | None:
        """The terms at W(s); None where it is not feasible."""
        found = []
        for f in self.facts:
            value = f.pair.value([a + b * s for a, b in f.images])
            if value is None:
                return None
            found.append(f.weight * value)
        return found

    @cached_property
    def optimum(self) -> Decimal:
        """The minimum over the part of the line where all is feasible; `middle` is."""
        with localcontext(DIGITS):
            assert self.values(self.middle) is not None
            a, b = (self._end(end) for end in (self.low, self.high))
            ends, x, y = (a, b), b - GOLDEN * (b - a), a + GOLDEN * (b - a)
            fx, fy = self._at(x), self._at(y)
            for _ in range(STEPS):
                if fx <= fy:
                    b, y, fy = y, x, fx
                    x = b - GOLDEN * (b - a)
                    fx = self._at(x)
                else:
                    a, x, fx = x, y, fy
                    y = a + GOLDEN * (b - a)
                    fy = self._at(y)
            return min(self._at(s) for s in (*ends, x, y))

    def _at(self, s: Decimal) -> Decimal:
        found = self.values(s)
        assert found is not None
        return total(found)

    def _end(self, end: Decimal) -> Decimal:
        """The last feasible point from the middle towards an end."""
        inside, outside = self.middle, end
        if self.values(end) is not None:
            return end
        for _ in range(90):
            half = (inside + outside) / 2
            inside, outside = (half, outside) if self.values(half) is not None else (inside, half)
        return inside

    def dual_value(self, duals: Sequence[Iterable[float | Decimal]]) -> Decimal:
        """min_s ⟨v, W(s)⟩ − Σ ω h*(y), no term of which is rounded to less than 60 digits."""
        with localcontext(DIGITS):
            alpha, beta, cost = Decimal(0), Decimal(0), Decimal(0)
            for f, y in zip(self.facts, duals, strict=True):
                numbers = [decimal(x) for x in y]
                conjugate = f.pair.conjugate(numbers)
                assert conjugate is not None
                cost += f.weight * conjugate
                alpha += f.weight * total(
                    x * a for x, (a, _) in zip(numbers, f.images, strict=True)
                )
                beta += f.weight * total(x * b for x, (_, b) in zip(numbers, f.images, strict=True))
            return alpha + min(beta * self.low, beta * self.high) - cost


def known(
    seed: int,
    kind: str,
    names: tuple[str, ...],
    scales: tuple[float, float, float, float] = (1.0, 1.0, 1.0, 1.0),
    most: int = 6,
    dtype: type = np.float64,
) -> Known:
    """A problem with a linear cost and the functions named; cost, rows, weights, domain scaled."""
    cost, rows, weights, size = scales
    rng = np.random.default_rng([seed, *kind.encode()])
    space = line(rng, kind, size)
    share = Fraction(float(rng.uniform(0.2, 0.8)))
    middle = space.low + share * (space.high - space.low)
    terms: list[Term] = []
    facts: list[Fact] = []
    with localcontext(DIGITS):
        for i, name in enumerate(("Linear", *names)):
            here = cost if i == 0 else rows
            A, a = linear_map(rng, space.domain.shape, here, most)
            images = [(dot(row, space.origin), dot(row, space.along)) for row in a]
            z = np.array([float(x + y * middle) for x, y in images])
            pair = function(rng, name, z, here * size)
            weight = float(rng.uniform(0.3, 3)) * (1.0 if i == 0 else weights)
            terms.append(Term(A, pair.made, weight, f"{name} {i}"))
            lines = [(decimal(x), decimal(y)) for x, y in images]
            facts.append(Fact(decimal(weight), lines, pair))
        problem = Problem(space.domain, terms, dtype=dtype)
        return Known(problem, facts, *(decimal(x) for x in (space.low, middle, space.high)))


def dot(a: Sequence[Fraction], b: Sequence[Fraction]) -> Fraction:
    return sum((x * y for x, y in zip(a, b, strict=True)), Fraction(0))
