"""Checks of maps, functions and domains of your own.

A bound stands on parts that belong together: a map and its adjoint, a function and its conjugate,
an oracle and its set. A slip in one of them gives a number that looks like a proof. The checks try
a part at random arguments, a few rows at a time. Call them in your tests. A run tries each part
that is not condgrad's once, before its first iteration.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple
from weakref import finalize

import numpy as np

from condgrad._ours import ours
from condgrad._types import Array, Rows
from condgrad.domains import Domain, Product
from condgrad.errors import ProblemError
from condgrad.functions import Function, Proximable
from condgrad.maps import LinearMap
from condgrad.problem import Problem, Term, center_of

__all__ = ["check_domain", "check_function", "check_map"]

ROWS = 64
"""Rows that are tried at a time."""
SMALL = 1000
"""Rows of a function that are tried all at once."""
SCALES = (0.1, 1.0, 1.0, 10.0)
"""Sizes of the random images of a function, in units of those at the domain's centre."""
SLACK = 1e-6
"""Error allowed to functions and oracles, which may iterate, relative to the numbers compared."""
_passed: dict[int, set[str]] = {}
"""Roles in which parts have passed, by identity: of a map the precision and the kind of set."""


def check_domain(domain: Domain) -> None:
    """Compare `lmo`, `minimum`, `contains`, `center`, `reach` and `diameter` with each other.

    Raises
    ------
    ProblemError
        The sentence names the domain, what is wrong with it and by how much.

    Examples
    --------
    >>> from condgrad import domains
    >>> check_domain(domains.Simplex(5))
    """
    _check_domain(domain, np.random.default_rng(0))


def check_map(map: LinearMap, domain: Domain, dtype: Any = np.float64) -> None:
    """Compare `rows` with `scatter` and `add_to`, and `row_norm` with the lengths of some rows.

    Parameters
    ----------
    map : LinearMap
        The map, of arrays in the shape of the domain's points.
    domain : Domain
        Set from which the arguments are drawn.
    dtype : data type, default float64
        Precision of the arguments.

    Raises
    ------
    ProblemError
        The sentence names the map, what is wrong with it and by how much.
    """
    name = f"map ({type(map).__name__})"
    _check_map(name, map, domain, np.dtype(dtype), np.random.default_rng(0))


def check_function(function: Function, map: LinearMap, domain: Domain) -> None:
    """Compare `value`, `prox` or `derivative`, and `conjugate` by Fenchel's inequality.

    Parameters
    ----------
    function : Function
        The function.
    map : LinearMap
        Map whose images are the function's arguments.
    domain : Domain
        Set from which the images come.

    Raises
    ------
    ProblemError
        The sentence names the function, what is wrong with it and by how much.
    """
    name = f"function ({type(function).__name__})"
    _check_function(name, Term(map, function), domain, np.random.default_rng(0))


def check_parts(problem: Problem, proofs: bool = True) -> None:
    """Try the parts of a problem that are not condgrad's, each once.

    Parameters
    ----------
    problem : Problem
        The problem.
    proofs : bool, default True
        Whether a bound is wanted; else only the maps are tried.
    """
    rng, domain = np.random.default_rng(0), problem.domain
    if proofs:
        _once(domain, "domain", lambda: _check_domain(domain, rng))
    for t in problem.terms:
        named = f"map of term {t.name!r} ({type(t.map).__name__})"
        for dtype in dict.fromkeys((np.dtype(np.float64), problem.dtype)):
            check = partial(_check_map, named, t.map, domain, dtype, rng)
            _once(t.map, f"{dtype.name} over {type(domain).__name__}", check)
        if proofs:
            named = f"function of term {t.name!r} ({type(t.function).__name__})"
            _once(t.function, "function", partial(_check_function, named, t, domain, rng))


def _once(part: Any, role: str, check: Callable[[], None]) -> None:
    """Try a user's part in a role, unless it has passed before."""
    if ours(part) or role in _passed.get(id(part), ()):
        return
    check()
    with suppress(TypeError):  # parts without weak references are tried again
        if id(part) not in _passed:
            finalize(part, _passed.pop, id(part), None)
        _passed.setdefault(id(part), set()).add(role)


# Maps: ⟨A W, y⟩ = ⟨W, A*y⟩.


def _check_map(
    name: str, A: LinearMap, domain: Domain, dtype: np.dtype[Any], rng: np.random.Generator
) -> None:
    """Compare `rows` with `scatter` and `add_to` on random rows."""
    slack = float(np.sqrt(np.finfo(dtype).eps))
    for point in (_gaussian, _mixture):  # a map may rely on what points of the domain are like
        there, back, size = _adjoint(name, A, point(domain, rng).astype(dtype), rng)
        if not abs(there - back) > slack * size:
            break
    else:
        raise ProblemError(
            f"{name} does not belong to its adjoint: ⟨A W, y⟩ is {there:.6g} by rows, but "
            f"⟨W, A*y⟩ is {back:.6g} by scatter and add_to, for random W and y; scatter must "
            "add Σ y_l a_l to G and add_to weight · A*y to out, with the a_l that rows takes "
            "inner products with"
        )
    _check_lengths(name, domain, A, rng)
    _check_setting(name, A, dtype, rng)


def _adjoint(
    name: str, A: LinearMap, W: Array, rng: np.random.Generator
) -> tuple[float, float, float]:
    """⟨A W, y⟩ and ⟨W, A*y⟩ on a range of rows and on some drawn ones, and their sizes."""
    first = int(rng.integers(max(1, A.size - ROWS + 1)))
    some = slice(first, min(first + ROWS, A.size))
    drawn = rng.permutation(np.unique(rng.integers(A.size, size=ROWS)))
    G, out, there, size = A.zeros(W.dtype), np.zeros(A.shape, W.dtype), 0.0, 0.0
    for at in (some, drawn):
        z = _images(name, A, W, at)
        y = rng.standard_normal(z.size).astype(W.dtype)
        A.scatter(G, at, y)
        there += float(np.vdot(z, y))
        size += float(np.abs(z * y).sum())
    again = _images(name, A, W, np.arange(some.start, some.stop))
    rows = _images(name, A, W, some)
    most = np.sqrt(np.finfo(W.dtype).eps) * A.row_norm * float(np.linalg.norm(W))
    if np.abs(again - rows).max() > most:
        raise ProblemError(
            f"{name} reads other rows for a slice than for the same rows as integers: `at` may be "
            "either, and says which rows are wanted"
        )
    A.add_to(G, 1.0, out)
    A.add_to(G, 0.5, out)
    return there, float(np.vdot(out, W)) / 1.5, size + float(np.abs(out * W).sum())


def _images(name: str, A: LinearMap, W: Array, at: Rows) -> Array:
    """Rows of a map, with as many numbers as there should be."""
    count = at.stop - at.start if isinstance(at, slice) else at.size
    z = np.asarray(A.rows(W, at))
    if z.shape != (count,):
        raise ProblemError(
            f"{name} returned an array of shape {z.shape} for {count} rows: rows(W, at) must "
            "return one number for each row in `at`"
        )
    return z


def _check_lengths(name: str, domain: Domain, A: LinearMap, rng: np.random.Generator) -> None:
    """Hold `row_norm`, which the margins for rounding stand on, against two of some rows."""
    some = np.unique(rng.integers(A.size, size=ROWS))
    far = int(np.argmax(np.abs(A.rows(_gaussian(domain, rng), some))))
    for l in {int(some[far]), int(some[0])}:
        at = np.array([l])
        G, out = A.zeros(), np.zeros(A.shape)
        A.scatter(G, at, np.ones(1))
        A.add_to(G, 1.0, out)
        length = float(np.linalg.norm(_symmetrised(domain, out)))
        said = float(np.max(A.lengths(at)))
        if not length <= (1 + SLACK) * said:
            raise ProblemError(
                f"{name} says that its rows have a length of at most {said:.6g}, but row {l} has "
                f"{length:.6g}: row_norm must be at least the largest ‖a_l‖"
            )


def _check_setting(name: str, A: LinearMap, dtype: np.dtype[Any], rng: np.random.Generator) -> None:
    """Compare `set_to` with `add_to`."""
    some = slice(0, min(ROWS, A.size))
    G, added, out = A.zeros(dtype), np.zeros(A.shape, dtype), np.full(A.shape, np.nan, dtype)
    A.scatter(G, some, rng.standard_normal(some.stop).astype(dtype))
    A.add_to(G, 0.5, added)
    A.set_to(G, 0.5, out)
    if not np.abs(out - added).max() <= np.sqrt(np.finfo(dtype).eps) * np.abs(added).max():
        raise ProblemError(
            f"{name} sets out to another array in set_to than add_to adds: both take "
            "weight · A*y from G, which they must not change"
        )


# Functions: h(z) + h*(y) ≥ ⟨z, y⟩, with equality where y is the slope at z.


def _check_function(name: str, term: Term, domain: Domain, rng: np.random.Generator) -> None:
    """Check a function at images of points near the domain's centre."""
    h, A = term.function, term.map
    few = h.separable and A.size > SMALL
    at = np.unique(rng.integers(A.size, size=ROWS)) if few else slice(0, A.size)
    near = A.rows(center_of(domain, [term]), at).astype(np.float64)
    unit = float(np.abs(near).max()) or A.row_norm * float(domain.reach) or 1.0
    try:
        _check_conjugate(name, h, near, unit, at, rng)
    except (IndexError, ValueError) as error:
        if isinstance(error, ProblemError) or not few:
            raise
        raise ProblemError(
            f"{name} failed on {near.size} of its {A.size} rows ({error}): `at` says which rows "
            "the numbers belong to, take the data of those"
        ) from error


def _check_conjugate(
    name: str, h: Function, near: Array, unit: float, at: Rows, rng: np.random.Generator
) -> None:
    """Check a conjugate at images near some, of a size of `unit` and of others."""
    noise = (unit * scale * rng.standard_normal(near.shape) for scale in SCALES)
    images = [near, *(near + n for n in noise)]
    tangents = [_tangent(name, h, z, unit, at) for z in images]
    values = [(0.0, 0.0) if h.indicator else _value(h, t, at) for t in tangents]
    if isinstance(h, Proximable):
        _check_prox(name, h, images, tangents, values, unit, at)
    random = h.into_dual(rng.standard_normal(near.shape), at)
    for j, y in enumerate([*(t.y for t in tangents), random]):
        conjugate, spread = float(h.conjugate(y, at)), float(h.conjugate_size(y, at))
        for i, (t, (value, shaky)) in enumerate(zip(tangents, values, strict=True)):
            product = float(np.vdot(t.z, y))
            size = abs(value) + spread + t.size * float(np.abs(y).sum())
            off, slack = value + conjugate - product, SLACK * size + shaky
            if off < -slack:
                raise ProblemError(
                    f"{name} has a conjugate that is too small: h(z) + h*(y) is "
                    f"{value + conjugate:.6g} and ⟨z, y⟩ is {product:.6g} for some z and y, but "
                    "h*(y) is the largest of all ⟨z, y⟩ − h(z); a bound would be wrong by that much"
                )
            if i == j and slack < off < np.inf:
                slope = "derivative" if h.smooth else "prox"
                raise ProblemError(
                    f"{name} has a conjugate that does not belong to its {slope}: at a slope "
                    f"h(z) + h*(y) must be ⟨z, y⟩, but they are {value + conjugate:.6g} and "
                    f"{product:.6g}; check value, {slope} and conjugate against each other"
                )


def _check_prox(
    name: str,
    h: Proximable,
    images: list[Array],
    tangents: list[Tangent],
    values: list[tuple[float, float]],
    beta: float,
    at: Rows,
) -> None:
    """Hold u = prox(z), which minimises h(u) + ‖u − z‖²/(2β), against other points."""
    points, heights = [t.z for t in tangents], [value for value, _ in values]
    if not h.indicator:
        middles = [(t.z + z) / 2 for t, z in zip(tangents, images, strict=True)]
        points, heights = points + middles, heights + [float(h.value(u, at)) for u in middles]
        if np.isinf(heights).any():
            raise ProblemError(
                f"{name} is infinite at some images, so that it has no Lipschitz constant: derive "
                "a constraint, which is 0 or infinite, from functions.Indicator"
            )
    for i, z in enumerate(images):
        far = [float(np.vdot(u - z, u - z)) / (2 * beta) for u in points]
        costs = [height + part for height, part in zip(heights, far, strict=True)]
        least = int(np.argmin(costs))
        size = sum(abs(heights[j]) + far[j] for j in (i, least))
        if costs[i] - costs[least] > SLACK * size + values[i][1]:
            raise ProblemError(
                f"{name} has a prox that does not minimise: h(u) + ‖u − z‖²/(2β) is "
                f"{costs[i]:.6g} at u = prox(z) and {costs[least]:.6g} at another point; "
                "prox(z, β) is the point where it is least"
            )


def _value(h: Function, t: Tangent, at: Rows) -> tuple[float, float]:
    """h(z), and ten times what rounding of z does to it."""
    value, step = float(h.value(t.z, at)), 4 * np.finfo(np.float64).eps * t.size
    moved = [float(h.value(t.z + side, at)) for side in (step, -step)]
    return value, 10 * max(abs(m - value) for m in moved)


class Tangent(NamedTuple):
    """A point and the slope there: (z, h'(z)), or (u, (z − u)/β) with u = prox(z)."""

    z: Array
    y: Array
    size: float
    """Size against which z is rounded."""


def _tangent(name: str, h: Function, z: Array, beta: float, at: Rows) -> Tangent:
    """The tangent at z, or at its prox."""
    y, size = np.asarray(h.slope(z, beta, at), np.float64), float(np.abs(z).max())
    if y.shape != z.shape:
        raise ProblemError(f"{name} has slopes of shape {y.shape} for images of shape {z.shape}")
    if isinstance(h, Proximable):
        u = np.asarray(h.prox(z, beta, at), np.float64)
        size += float(np.abs(u).max())
        off = float(np.abs(u + beta * y - z).max())
        if off > SLACK * size:
            raise ProblemError(
                f"{name} has a slope that does not belong to its prox: prox(z) + β slope(z) "
                f"differs from z by {off:.3g}; slope is (z − prox(z))/β, leave it out"
            )
        off = float(np.abs(h.prox(u, beta, at) - u).max()) if h.indicator else 0.0
        if off > SLACK * size:
            raise ProblemError(
                f"{name} has a prox that is no projection: what it returns it moves again, by "
                f"{off:.3g}; the prox of an indicator is the nearest point of its set"
            )
        z = u
    inside = h.into_dual(y, at)
    off = float(np.abs(inside - y).max())
    if off > SLACK * (float(np.abs(y).max()) + size / beta):
        raise ProblemError(
            f"{name} has slopes outside of the domain of its conjugate: into_dual moves one by "
            f"{off:.3g}, and should not move slopes but for their rounding"
        )
    return Tangent(z, inside, size)


# Domains: the oracle's answer is a point of the set, and none is below.


def _check_domain(domain: Domain, rng: np.random.Generator) -> None:
    """Compare a domain's answers with each other."""
    name = type(domain).__name__
    vs = [_symmetrised(domain, rng.standard_normal(domain.shape)) for _ in range(2)]
    points = {f"lmo(v) number {i + 1}": domain.lmo(v, rng=rng).dense() for i, v in enumerate(vs)}
    points["center()"] = np.asarray(domain.center(), np.float64)
    for what, s in points.items():
        if s.shape != domain.shape:
            raise ProblemError(f"{what} of {name} has shape {s.shape}: points have {domain.shape}")
        if not np.isfinite(s).all():
            raise ProblemError(
                f"{what} of {name} has entries that are no finite numbers, for a random v: check "
                "what it divides by, and whether the set is bounded"
            )
        if not domain.contains(s, SLACK):
            raise ProblemError(
                f"{what} of {name} lies outside of it by its own `contains`: both must mean the "
                "same set"
            )
    sizes = [float(np.linalg.norm(s)) for s in points.values()]
    wide = max(float(np.linalg.norm(a - b)) for a in points.values() for b in points.values())
    if wide > (1 + SLACK) * float(domain.diameter):
        raise ProblemError(
            f"diameter of {name} is {domain.diameter:.6g}, but two of its points are {wide:.6g} "
            "apart: it must be at least the largest distance"
        )
    if max(sizes) > (1 + SLACK) * float(domain.reach):
        raise ProblemError(
            f"reach of {name} is {domain.reach:.6g}, but one of its points has length "
            f"{max(sizes):.6g}: it must be at least the largest"
        )
    said = float(domain.minimum(vs[0]).value)
    for i, v in enumerate(vs):
        values = {what: float(np.vdot(v, s)) for what, s in points.items()}
        lowest, slack = min(values, key=values.__getitem__), SLACK * np.linalg.norm(v) * max(sizes)
        own = values[f"lmo(v) number {i + 1}"]
        if own > values[lowest] + slack:
            raise ProblemError(
                f"lmo of {name} does not minimise: ⟨v, s⟩ is {own:.6g} at its answer and "
                f"{values[lowest]:.6g} at {lowest}, which is a point of the set as well"
            )
        if i == 0 and said > values[lowest] + slack:
            raise ProblemError(
                f"minimum of {name} is {said:.6g} for some v, but ⟨v, s⟩ is {values[lowest]:.6g} "
                f"at {lowest}: it must not be above any"
            )
    projector = domain.projector()
    if projector is None:
        return
    X = vs[0] * (3 * max(sizes) / float(np.linalg.norm(vs[0])))
    S = projector.project(X.copy())[0]
    if S.shape != domain.shape or not domain.contains(S, SLACK):
        raise ProblemError(f"projector of {name} returns a point outside of the set")
    size = float(np.linalg.norm(X)) + max(sizes)
    points["lmo(S − X)"] = domain.lmo(S - X, rng=rng).dense()
    for what, s in points.items() if projector.exact else ():
        if float(np.vdot(S - X, s - S)) < -SLACK * size * size:  # as it is at the nearest point
            raise ProblemError(
                f"projector of {name} does not return the nearest point S of some X: that is on "
                f"the way from S to {what}"
            )


# Random points.


def _gaussian(domain: Domain, rng: np.random.Generator) -> Array:
    """A random array of about the size of the points, symmetric where they are."""
    W = _symmetrised(domain, rng.standard_normal(domain.shape))
    return W * (float(domain.reach) / float(np.linalg.norm(W)))


def _mixture(domain: Domain, rng: np.random.Generator) -> Array:
    """A random combination of points of the domain, in their span but not among them."""
    W = rng.standard_normal() * np.asarray(domain.center(), np.float64)
    for _ in range(4):
        v = _symmetrised(domain, rng.standard_normal(domain.shape))
        W += rng.standard_normal() * domain.lmo(v, rng=rng).dense()
    return W


def _symmetrised(domain: Domain, V: Array) -> Array:
    """V with its symmetric part where only that counts, block by block of a product."""
    if isinstance(domain, Product):
        V = np.array(V)
        for i, part in enumerate(domain.domains):
            domain.block(V, i)[...] = _symmetrised(part, domain.block(V, i))
        return V
    return 0.5 * (V + V.T) if domain.symmetric else V
