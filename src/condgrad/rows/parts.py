"""One term at one dual point, and what rounding can do to its sums."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import NamedTuple

import numpy as np

from condgrad._ours import ours
from condgrad._types import Array
from condgrad.backends import threads
from condgrad.backends.arrays import foreign
from condgrad.maps import Covering
from condgrad.passes import Pairing
from condgrad.problem import CHUNK, Term


class Sizes(NamedTuple):
    """Sizes against which two sums are rounded, and numbers of operations."""

    spread: float = 0.0
    """Σ_l ω|y_l|‖a_l‖, of the sum v."""
    depth: int = 0
    """Operations that a number passes through on its way into v."""
    conjugates: float = 0.0
    """ω times the absolute values that the conjugate is summed from."""
    additions: int = 0
    """Operations that a number passes through on its way into the conjugate."""


@dataclass
class Part:
    """One term at one dual point."""

    v: Array
    conjugate: float
    product: float
    """ω⟨y, z⟩."""
    value: float
    """ω h(z) of a term that is no constraint."""
    sizes: Sizes
    losses: int = 0
    """`Keeper.losses` when it was made."""


def part_of(term: Term, W: Array | None, y: Array | None, beta: float) -> Part:
    """One term at the dual point y, or at the slopes of W where none is kept.

    Of a constraint with a map of condgrad's own, whose adjoint is not in doubt, ⟨y, z⟩ is ⟨v, W⟩.
    """
    trusted = y is not None and term.function.indicator and ours(term.map)
    images = None if trusted else W

    def work(part: list[slice]) -> tuple[Array, list[Pairing]]:
        G = term.map.zeros()
        return G, [term.passes.pair(images, G, at, y, beta) for at in part]

    parts = [list(term.chunks())]
    if y is not None and term.passes.parallel:  # slopes at W make an array
        parts = [list(chain(*map(_cut, part))) for part in term.parts()]
    done = threads.run([partial(work, part) for part in parts])
    G = done[0][0]
    for other, _ in done[1:]:
        G += other
    sums = [sum(column) for column in zip(*(p for _, pairs in done for p in pairs), strict=True)]
    conjugate, conjugates, spread, product, value = sums
    v = _dense(term, G)
    w, pieces = term.weight, list(chain(*parts))
    if images is None and W is not None:
        product = float(np.vdot(v, W)) / w
    sizes = sizes_of(term, spread, conjugates, pieces, len(parts))
    return Part(v, w * conjugate, w * product, w * value, sizes)


def _dense(term: Term, G: Array) -> Array:
    """ω A*y by its cotangent, in a dense array."""
    if foreign(G) and type(term.map).add_to is Covering.add_to:  # an array less
        if term.weight != 1:
            G *= term.weight
        return G.reshape(term.map.shape)
    v = np.zeros(term.map.shape, like=G)
    term.map.add_to(G, term.weight, v)
    return v


def _cut(at: slice) -> list[slice]:
    """Rows in pieces, so that sums over them stay short."""
    starts = range(at.start, at.stop, CHUNK)
    return [slice(i, min(i + CHUNK, at.stop)) for i in starts]


def sizes_of(
    term: Term, spread: float, conjugates: float, pieces: Sequence[slice], threads: int = 1
) -> Sizes:
    """The sizes of a dual point from the sums over its rows."""
    longest, w = max(p.stop - p.start for p in pieces), term.weight
    additions = longest + len(pieces) + 16
    return Sizes(w * spread, term.map.depth + threads + 4, w * conjugates, additions)
