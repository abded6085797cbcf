"""The template: a domain and a sum of terms."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import chain
from typing import Any

import numpy as np

from condgrad._check import floats, precision
from condgrad._floats import length
from condgrad._round import counted
from condgrad._types import Array
from condgrad.backends import threads
from condgrad.backends.arrays import HOST, foreign
from condgrad.backends.scalars import norm
from condgrad.domains import Domain, NuclearBall
from condgrad.errors import ProblemError
from condgrad.evaluation import Evaluation, Violation
from condgrad.functions import Function, Proximable
from condgrad.functions.smooth import Linear
from condgrad.maps import AllEntries, LinearMap
from condgrad.maps.pattern import read_entries
from condgrad.passes import Miss, Plain, chunks, passes_of
from condgrad.points.factored import Factored

CHUNK = LinearMap.chunk
"""Rows handled at a time in a full pass."""
RANGE = {"float64": 70, "float32": 15}
"""Largest decimal exponent k: numbers that a run squares must lie between 10⁻ᵏ and 10ᵏ.

Products of squares are then in the range of float64; in float32 the squares are.
"""


@dataclass(frozen=True, eq=False, repr=False)
class Term:
    r"""One term ω Σ_l h_l(⟨a_l, W⟩) of the objective: a loss, a regulariser or a constraint.

    Parameters
    ----------
    map : LinearMap
        A, which gives the images z = A W.
    function : Function
        h. A `Smooth` one is a part of f; a `Proximable` one a part of g and is smoothed.
    weight : float, default 1
        ω > 0, a factor on the function *after* smoothing: ω h_β(A W). The averages of the paper are
        ``weight=1/map.size``; on an indicator the weight acts on the squared distance.
    name : str, optional
        Name of the family in traces, overrides and messages.
    """

    map: LinearMap
    function: Function
    weight: float = 1.0
    name: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.map, LinearMap):
            raise ProblemError(f"map is a {type(self.map).__name__}: pass one of condgrad.maps")
        if not isinstance(self.function, Function):
            raise ProblemError(
                f"function is a {type(self.function).__name__}: pass one of condgrad.functions"
            )
        if isinstance(self.function, Proximable) and not self.function.indicator:
            name = f"lipschitz of {type(self.function).__name__}"
            constant = floats(name, self.function.lipschitz)
            if constant.ndim or not 0 <= constant < np.inf:
                raise ProblemError(
                    f"{name} is {constant}: give a number, at least 0, or derive a constraint, "
                    "which has none, from functions.Indicator"
                )
        try:
            weight = float("nan" if isinstance(self.weight, (bool, str)) else self.weight)
        except (TypeError, ValueError):
            raise ProblemError(f"weight is {self.weight!r}: it must be a number") from None
        if not (np.isfinite(weight) and weight > 0):
            raise ProblemError(
                f"weight is {self.weight!r}: it must be positive and finite (leave the term out "
                "instead of giving it weight 0)"
            )
        if not isinstance(self.name, str):
            raise ProblemError(f"name is {self.name!r}: it must be a string")
        object.__setattr__(self, "weight", weight)
        if self.function.size not in (None, self.map.size):
            raise ProblemError(
                f"function has data for {self.function.size} rows, but the map of term "
                f"{self.name!r} has {self.map.size}: give one entry per row, or one number"
            )

    def __repr__(self) -> str:
        parts = f"{type(self.function).__name__} of {counted(self.map.size, 'row')}"
        weight = "" if self.weight == 1 else f", weight {self.weight:g}"
        return f"<Term {self.name!r}: {parts} by {type(self.map).__name__}{weight}>"

    @cached_property
    def passes(self) -> Plain:
        """Object that makes the passes over the rows of the term."""
        return passes_of(self.map, self.function)

    @property
    def loose(self) -> bool:
        """Whether some row is an inequality."""
        ends = self.function.interval
        return ends is not None and bool(np.any(ends[0] < ends[1]))

    def chunks(self) -> Iterator[slice]:
        """All rows, in contiguous chunks; in one chunk where the function does not separate."""
        return chunks(self.map, self.function)

    def parts(self) -> list[list[slice]]:
        """All rows for a pass, a list of ranges for each thread."""
        if self.passes.parallel:
            return threads.share([slice(0, self.map.size)])
        return [list(self.chunks())]

    def merit(self, W: Array, y: Array, beta: float) -> float:
        """Share of the term in the augmented Lagrangian with multipliers y, without ω."""

        def work(part: list[slice]) -> float:
            return sum(self.passes.merit(W, at, y, beta) for at in part)

        return sum(threads.run([partial(work, part) for part in self.parts()]))

    def violation(self, W: Array, diameter: float) -> Violation:
        """Violation of a constraint family, over a domain of this diameter."""
        return self.judged(self.misses(W, entry_size(W)), W, diameter)

    def judged(self, misses: Sequence[Miss], W: Any, diameter: float) -> Violation:
        """Violation from what passes over the rows have found."""
        assert isinstance(self.function, Proximable)
        squares, images, worst, row = self._total(misses, entry_size(W))
        size = float(max(np.sqrt(images), self.function.data_norm(self.map.size)))
        l2, least = float(np.sqrt(squares)), 0.1 * self.map.row_norm * diameter
        scaled = l2 / (2 * max(size, least)) if l2 > 0 else 0.0
        return Violation(l2, worst, l2 / (1 + size), scaled, row)

    def _total(self, misses: Sequence[Miss], unit: float) -> tuple[float, float, float, float]:
        """Σ r², Σ z², max |r| and `Violation.row`; `unit` is the size of an entry of W."""
        squares, images, worst, row, plain = zip(*misses, strict=True)
        total, length = float(sum(images)), float(self.map.row_norm)
        if any(plain) and length:  # rows of 0 read 0, and miss no more than their data
            reads = max(unit, float(np.sqrt(total / self.map.size)) / length)
            row = (*row, max(plain) / reads if reads else np.inf)
        return sum(squares), total, max(worst), max(row)

    def misses(self, W: Array, unit: float) -> list[Miss]:
        """Misses of the set of an indicator, in parts; `unit` is the size of an entry."""

        def work(part: list[slice]) -> list[Miss]:
            return [self.passes.miss(W, at, unit) for at in part]

        return list(chain(*threads.run([partial(work, part) for part in self.parts()])))

    def lengths(self, W: Array) -> float:
        """‖A W‖²."""
        return sum(self.passes.lengths(W, b) for b in self.chunks())

    def value(self, W: Array) -> float:
        """ω h(A W)."""
        return self.weight * sum(self.function.value(self.map.rows(W, b), b) for b in self.chunks())

    def smoothed(self, W: Array, beta: float) -> float:
        """ω h_β(A W); the same as `value` for smooth functions."""
        return self.weight * sum(
            self.function.smoothed(self.map.rows(W, b), beta, b) for b in self.chunks()
        )

    def gradient(self, W: Array, beta: float) -> Array:
        """Gradient of `smoothed` with respect to W, dense."""
        G = self.map.zeros()
        out = np.zeros(self.map.shape, like=G)
        for b in self.chunks():
            self.map.scatter(G, b, self.function.slope(self.map.rows(W, b), beta, b))
        self.map.add_to(G, self.weight, out)
        return out


class Problem:
    r"""min over W ∈ domain of Σ_t ω_t h_t(A_t W).

    Parameters
    ----------
    domain : Domain
        Compact set with a linear minimisation oracle.
    terms : sequence of Term
        Losses, regularisers and constraints, in any mix.
    infeasibility_weights : mapping, optional
        Total infeasibility is √(Σ_t dist_t²) over the constraint families; with weights c_t by
        name it is Σ_t c_t dist_t, which is how several papers report it.
    dtype : float64 or float32, default float64
        Precision of the iterate and of all work.

    Notes
    -----
    A run squares and divides, so that units far from 1 would overflow or vanish. Let D be the
    largest ‖W‖, a_t the largest row norm of a term and F about the largest |objective| on the
    domain. The numbers D, a_t, a_t D, F/D, and ω_t a_t D and F/(ω_t a_t D) of composite terms must
    lie between 1e-70 and 1e70 (1e-15 and 1e15 in float32) or be 0. The data of a constraint must
    not exceed that. Otherwise the problem is refused. Bounds hold without it.

    Examples
    --------
    >>> from condgrad import domains, functions, maps
    >>> problem = Problem(
    ...     domains.Simplex(3),
    ...     [Term(maps.DataMatrix(np.eye(3)), functions.Squared([1.0, 0.0, 0.0]), name="fit")],
    ... )
    >>> problem.objective(np.array([1.0, 0.0, 0.0]))
    0.0
    """

    def __init__(
        self,
        domain: Domain,
        terms: Sequence[Term],
        *,
        infeasibility_weights: Mapping[str, float] | None = None,
        dtype: Any = np.float64,
    ) -> None:
        if not isinstance(domain, Domain):
            raise ProblemError(
                f"domain is a {type(domain).__name__}: pass one of condgrad.domains "
                "(Oracle takes any function)"
            )
        missing = [name for name in ("shape", "diameter") if not hasattr(domain, name)]
        if missing:
            raise ProblemError(
                f"domain ({type(domain).__name__}) has no {' and no '.join(missing)}: set "
                "self.shape, that of its points, and self.diameter, at least the largest distance "
                "of two of them"
            )
        terms = tuple(terms) if isinstance(terms, Iterable) else (terms,)
        if not terms:
            raise ProblemError("terms is empty: a problem needs at least one Term")
        for i, t in enumerate(terms):
            if not isinstance(t, Term):
                raise ProblemError(f"terms[{i}] is a {type(t).__name__}: it must be a Term")
            if t.map.shape != domain.shape:
                raise ProblemError(
                    f"term {t.name or i!r} reads W of shape {t.map.shape}, but the points of the "
                    f"domain have shape {domain.shape}: they must agree"
                )
            if domain.symmetric:
                t.map.require_symmetric()
        self.dtype = precision("dtype", dtype)
        self.domain, self.terms = domain, _named(terms)
        names = [t.name for t in self.terms]
        for name in names:
            if names.count(name) > 1:
                raise ProblemError(f"two terms are named {name!r}: give each its own name")
        self.infeasibility_weights = dict(infeasibility_weights or {})
        for name, c in self.infeasibility_weights.items():
            if not (isinstance(c, (int, float, np.number)) and np.isfinite(c) and c >= 0):
                raise ProblemError(
                    f"infeasibility_weights[{name!r}] is {c!r}: it must be a finite number of at "
                    "least 0"
                )
        constraints = {t.name for t in self.terms if t.function.indicator}
        if self.infeasibility_weights and set(self.infeasibility_weights) != constraints:
            raise ProblemError(
                f"infeasibility_weights names {sorted(self.infeasibility_weights)}: it must name "
                f"every constraint family, {sorted(constraints)}"
            )
        _require_units(domain, self.terms, RANGE[self.dtype.name])

    like: Array = HOST
    """An array on the device of W."""

    def __repr__(self) -> str:
        shape = " × ".join(map(str, self.domain.shape))
        terms = ", ".join(map(repr, self.terms))
        return f"<Problem: {type(self.domain).__name__} {shape}; {terms}>"

    def astype(self, dtype: Any) -> Problem:
        """Return this problem in another precision, float64 or float32."""
        weights = self.infeasibility_weights
        return Problem(self.domain, self.terms, infeasibility_weights=weights, dtype=dtype)

    def over(self, domain: Domain, terms: Sequence[Term], like: Array) -> Problem:
        """Return this problem with another domain and other terms, where `like` lies."""
        weights = self.infeasibility_weights
        there = Problem(domain, terms, infeasibility_weights=weights, dtype=self.dtype)
        if like is not there.like:
            there.like = like
        return there

    @property
    def smooth(self) -> tuple[Term, ...]:
        """The terms of f."""
        return tuple(t for t in self.terms if t.function.smooth)

    @property
    def composite(self) -> tuple[Term, ...]:
        """The terms of g."""
        return tuple(t for t in self.terms if not t.function.smooth)

    @cached_property
    def unit(self) -> float:
        """The least number that a relative gap is taken of, so that an optimum of 0 can be met.

        A millionth of the largest that a linear term can be on the domain, the length of its
        gradient times the largest ‖W‖, and of what other terms are at its centre; constraints do
        not count. Where all of that is 0, as for a norm alone, of what a row can be.
        """
        center, reach, total = center_of(self.domain, self.terms), float(self.domain.reach), 0.0
        for t in self.smooth:
            if not isinstance(t.function, Linear):
                total += abs(t.value(center))
            elif isinstance(center, Factored):  # the entries that a term reads are different ones
                slopes = t.weight * t.function.c * t.map.lengths()
                total += length(np.broadcast_to(slopes, t.map.size)) * reach
            else:
                total += length(t.gradient(center, 1.0)) * reach
        others = [t for t in self.composite if not t.function.indicator]
        values = [abs(t.value(center)) for t in others]
        total += sum(x for x in values if np.isfinite(x))
        if total == 0 and np.isfinite(reach):
            total = sum(t.weight * steepest(t, reach) * (t.map.row_norm * reach) for t in others)
        return 1e-6 * total

    def objective(self, W: Array) -> float:
        """Value of the smooth and the Lipschitz terms; constraints do not count."""
        W = self._point(W)
        with np.errstate(over="ignore"):  # far from the domain it may be infinite
            return sum(t.value(W) for t in self.terms if not t.function.indicator)

    def smoothed(self, W: Array, beta: float) -> float:
        """F_β(W) = f + g_β."""
        W = self._point(W)
        with np.errstate(over="ignore"):
            return sum(t.smoothed(W, beta) for t in self.terms)

    def violations(self, W: Array) -> dict[str, Violation]:
        """Distance from each constraint family."""
        W, reach = self._point(W), self.domain.diameter
        return {t.name: t.violation(W, reach) for t in self.terms if t.function.indicator}

    def infeasibility(self, W: Array) -> float:
        """Total infeasibility, see `infeasibility_weights`."""
        return self.total(self.violations(W))

    def evaluate(self, W: Array) -> Evaluation:
        """Objective, violations and total infeasibility in one pass."""
        W, families = self._point(W), self.violations(W)
        objective = sum(t.value(W) for t in self.terms if not t.function.indicator)
        return Evaluation(objective, families, self.total(families))

    def _point(self, W: Any) -> Array:
        """W as an array of floats of the right shape."""
        ready = foreign(W) or isinstance(W, Factored)
        array = W if ready else np.asarray(_floats(W), like=self.like)
        if array.shape != self.domain.shape:
            raise ProblemError(
                f"W has shape {array.shape}, but points of the domain have {self.domain.shape}"
            )
        return array

    def total(self, families: Mapping[str, Violation]) -> float:
        """Total infeasibility by the violations of all families."""
        if self.infeasibility_weights:
            return sum(self.infeasibility_weights[name] * v.l2 for name, v in families.items())
        return float(np.sqrt(sum(v.l2**2 for v in families.values())))


def entry_size(W: Any) -> float:
    """The size of an entry of W."""
    if isinstance(W, Factored):
        return float(np.sqrt(W.dot(W) / W.size))
    return norm(W) / float(np.sqrt(W.size))


def _floats(W: Any) -> Array:
    """W, which a user may have given, as an array of float64 or float32."""
    plain = type(W) is np.ndarray and W.dtype in (np.float64, np.float32)
    return W if plain else floats("W", W)


def _named(terms: Sequence[Term]) -> tuple[Term, ...]:
    """Give nameless terms the names f, g, f2, g2 and so on."""
    taken = {t.name for t in terms}
    out = []
    for t in terms:
        if not t.name:
            stem = "f" if t.function.smooth else "g"
            tail = (f"{stem}{i}" if i > 1 else stem for i in range(1, len(terms) + 2))
            name = next(n for n in tail if n not in taken)
            taken.add(name)
            t = replace(t, name=name)
        out.append(t)
    return tuple(out)


def center_of(domain: Domain, terms: Sequence[Term]) -> Any:
    """A point of the domain, as factors of rank 0 if these are enough for all terms."""
    sparse = all(
        read_entries(t.map) is not None
        or (t.function.interval is not None and type(t.map) is AllEntries)
        for t in terms
    )
    if sparse and type(domain) is NuclearBall:
        return Factored.zeros(domain.shape)
    return domain.center()


def _require_units(domain: Domain, terms: Sequence[Term], digits: int) -> None:
    """Refuse units whose squares would overflow or vanish (`Problem`); all is in logarithms."""

    def check(name: str, size: float) -> None:
        if size > -math.inf and not abs(size) <= digits:
            raise ProblemError(
                f"{name} would be about 1e{size:+.0f}, and numbers between 1e-{digits} and "
                f"1e+{digits} can be computed with here: measure W, rows or weights in other units"
            )

    reach, total = _log(domain.reach), -math.inf
    check("the size of the domain", reach)
    for t in terms:
        row, name = float(t.map.row_norm), f"term {t.name!r}"
        check(f"the longest row of {name}", _log(row))
        check(f"the largest image of {name}", _log(row) + reach)
        data = t.function.data_norm(t.map.size) if t.function.indicator else _datum(t.function)
        check(f"the data of {name}", max(0.0, _log(data)))
        slope = steepest(t, float(domain.reach))
        total = max(total, _log(t.weight) + _log(slope) + _log(row) + reach)
    if reach == -math.inf:
        return
    check("the gradient of the objective", total - reach)
    for t in terms:
        image = _log(t.weight) + _log(t.map.row_norm) + reach
        if not t.function.smooth and image > -math.inf:
            check(f"the weighted images of term {t.name!r}", image)
            check(f"the multipliers of term {t.name!r}", total - image)


def _datum(function: Function) -> float:
    """The largest finite number among the targets, centres and factors of a function of f or g."""
    parts = [] if isinstance(function, Linear) else list(vars(function).values())
    arrays = [np.asarray(x) for x in parts if isinstance(x, (float, np.ndarray))]
    sizes = [np.abs(x) for x in arrays if x.dtype.kind == "f"]
    return max((float(np.max(x, initial=0.0, where=np.isfinite(x))) for x in sizes), default=0.0)


def steepest(term: Term, reach: float) -> float:
    """About the largest |h'_l| for ‖W‖ up to `reach`, 0 for a constraint."""
    function: Any = term.function
    if isinstance(function, Linear):
        sizes = np.abs(function.c)
        return float(np.max(sizes, initial=0.0, where=np.isfinite(sizes)))
    if function.smooth:
        return float(function.smoothness * term.map.row_norm * reach)
    return float(function.lipschitz) if np.isfinite(function.lipschitz) else 0.0


def _log(x: float) -> float:
    """The decimal logarithm, −∞ for 0, ∞ for NaN, which comes of numbers beyond the range."""
    if math.isnan(x):
        return math.inf
    return math.log10(x) if x > 0 else -math.inf
