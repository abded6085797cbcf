"""Interface of a domain."""

from __future__ import annotations

import functools
import inspect
from abc import ABC, abstractmethod
from typing import Any, ClassVar, NamedTuple, cast

import numpy as np

from condgrad._check import positive
from condgrad._floats import EPS, TINY, length
from condgrad._shown import shown
from condgrad._types import Array
from condgrad.backends.arrays import HOST, moved, placed
from condgrad.domains.projections import Formula, Projector
from condgrad.errors import ProblemError
from condgrad.points.atoms import Atom, Full


class Minimum(NamedTuple):
    """A number that min ⟨v, s⟩ over a domain does not fall below, and how that is known."""

    value: float
    kind: str
    """``exact``: a formula; ``exact-eigenvalue``, ``exact-singular-value``: all of them by LAPACK;
    ``probabilistic``: products with random columns; ``oracle``: the user's oracle is believed. In
    all of them `value` has been lowered by what rounding can have done to it."""
    failure: float = 0.0
    """Probability that `value` is too large."""


KINDS = ("exact", "exact-singular-value", "exact-eigenvalue", "probabilistic", "oracle")
"""From the strongest to the weakest; a sum of bounds is of the weakest kind among them."""


class Face(NamedTuple):
    """{W' + offset : W' ⪰ 0, QᵀW' = 0, Tr W' = trace or at most that}: what a projection needs.

    W' is block-diagonal: `parts` are the blocks, `diagonal` the positions of blocks of side 1.
    """

    trace: float
    equality: bool
    parts: tuple[slice, ...]
    diagonal: Array
    basis: Array
    """Q, orthonormal columns; none where there are several blocks."""
    offset: Array | None


class Domain(ABC):
    """A compact convex set, known by its linear minimisation oracle.

    A subclass has `shape`, `diameter`, `lmo`, `contains` and `center`; where its oracle is a
    formula it says so by ``proof = "exact"``. Its `lmo` may leave out the keywords that it does not
    need, and may return the point as an array.
    """

    shape: tuple[int, ...]
    diameter: float
    """max ‖u − v‖ over the set, Frobenius norm for matrices."""
    symmetric: ClassVar[bool] = False
    """Whether all points are symmetric matrices; then only the symmetric part of v counts."""
    finite_only: ClassVar[bool] = False
    """Whether the oracle raises `LinAlgError` for a direction with NaN or infinity in it."""
    face: Face | None = None
    """Face that a projection needs, if the set is a spectrahedron."""
    portable: ClassVar[bool] = False
    """True if points of the domain can lie on a GPU; a derived class says so anew."""
    like: Array = HOST
    """An array on the device of the points."""
    proof: ClassVar[str] = "oracle"
    """Kind of proof if `minimum` is the oracle's own answer: ``"exact"`` for a formula."""

    def __repr__(self) -> str:
        return shown(self, "shape")

    def on(self, like: Array) -> Domain:
        """Return this domain with points that lie where `like` does."""
        new = moved(self, like)
        if (face := self.face) is not None:
            diagonal, basis = (placed(x, like) for x in (face.diagonal, face.basis))
            offset = None if face.offset is None else placed(face.offset, like)
            new.face = face._replace(diagonal=diagonal, basis=basis, offset=offset)
        return new

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "lmo" in cls.__dict__:
            cls.lmo = _answering(cls.__dict__["lmo"])  # type: ignore[method-assign]

    @abstractmethod
    def lmo(
        self,
        v: Array,
        *,
        effort: float | None = None,
        hint: Array | None = None,
        rng: np.random.Generator | None = None,
    ) -> Atom:
        """A point s of the set with ⟨v, s⟩ = min over the set.

        Parameters
        ----------
        v : array
            The direction, shaped as the points; it must not be changed.
        effort : float, optional
            Krylov steps in units of ln n, for oracles that iterate. Default: to full accuracy.
        hint : array, optional
            The current iterate; spectral oracles start from it.
        rng : Generator, optional
            Source of randomness of an oracle that iterates.

        Returns
        -------
        Atom
            One of `condgrad.points`, such as ``RankOne(scale, u, v)`` for scale · uvᵀ and
            ``Coordinate(index, value, shape)``, which make a step cheap. A subclass may return an
            array shaped as v instead.
        """

    @abstractmethod
    def contains(self, W: Array, tol: float = 1e-8) -> bool:
        """Whether W lies in the set up to `tol`, relative to the size of the set."""

    @abstractmethod
    def center(self) -> Array:
        """A point of the set to start from when the user names none."""

    @property
    def reach(self) -> float:
        """max ‖s‖ over the set, or more: what rounding of a direction can cost."""
        return length(self.center()) + float(self.diameter)

    def projector(self) -> Projector | None:
        """Projector onto the set, if projections are cheap.

        By default it is `_nearest` of this very class; a derived one may mean another set.
        """
        found = "_nearest" in vars(type(self))
        return Formula(cast(Any, self)._nearest) if found else None

    def minimum(self, v: Array) -> Minimum:
        """A proven lower bound on min ⟨v, s⟩ over the set, tight up to rounding where it can be.

        By default ⟨v, s⟩ at the oracle's answer s, less the rounding of that sum and of an s that a
        few operations have made.
        """
        v = np.asarray(v, dtype=np.float64)
        if not v.any():
            return Minimum(0.0, self.proof)
        s = self.lmo(v).dense()
        rounding = (v.size + 10) * EPS * (float(np.vdot(np.abs(v), np.abs(s))) + TINY)
        return Minimum(float(np.vdot(v, s)) - rounding, self.proof)

    def support(self, v: Array) -> float:
        """max ⟨v, s⟩ over the set."""
        v = np.asarray(v, dtype=np.float64)
        return float(np.vdot(v, self.lmo(-v).dense()))


class Ball(Domain):
    """The points up to a length r, in a norm that is at least the Euclidean one."""

    def __init__(self, shape: tuple[int, ...], radius: float) -> None:
        self.shape, self.radius = shape, positive("radius", radius)
        self.diameter = 2 * self.radius

    def center(self) -> Array:
        return np.zeros(self.shape)

    @property
    def reach(self) -> float:
        return self.radius


def _answering(lmo: Any) -> Any:
    """An oracle that takes every keyword and answers with an atom, made of any oracle."""
    parameters = inspect.signature(lmo).parameters.values()
    taken = {p.name for p in parameters}
    every = any(p.kind is p.VAR_KEYWORD for p in parameters)

    @functools.wraps(lmo)
    def answer(self: Domain, v: Array, **options: Any) -> Atom:
        known = options if every else {n: o for n, o in options.items() if n in taken}
        s = lmo(self, v, **known)
        if isinstance(s, Atom):
            return s
        try:
            s = np.asarray(s, dtype=v.dtype if v.dtype.kind == "f" else np.float64)
        except (TypeError, ValueError) as error:
            raise ProblemError(f"lmo returned no array of numbers ({error})") from None
        if s.shape != self.shape:
            raise ProblemError(
                f"lmo returned shape {s.shape}: it must return an array of shape {self.shape}"
            )
        return Full(s)

    return answer
