"""Intervals on all entries of a W kept as factors: entries looked at, a block of them at a time.

Up to `EXACT` entries all of them are computed, of which none is kept but those that miss. Above, as
many as `DRAWN` are drawn, and what is said of all is an estimate.
"""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from scipy.special import betaincinv

from condgrad._types import Array
from condgrad.backends import threads
from condgrad.functions import Proximable
from condgrad.passes import Miss
from condgrad.passes.plain import row_misses
from condgrad.points.factored import Factored
from condgrad.problem import Term, entry_size

EXACT = 10**9
"""Entries up to which all of them are looked at."""
DRAWN = 1 << 20
"""Entries that are drawn where these are too many."""
SURE = 1e-3
"""Probability with which the share of entries that miss may exceed what is said of it."""


class Seen(NamedTuple):
    """Violations of an interval by some or all entries."""

    misses: list[Miss]
    missed: int
    """Number of entries that miss the interval."""
    places: Array
    """Chosen ones of these, as numbers of the flattened matrix, in order."""


class Sampled(NamedTuple):
    """Violations of an interval by drawn entries, as an estimate for all of them."""

    drawn: int
    entries: int
    """Entries of W, of which so many were drawn."""
    missed: int
    """Number of drawn entries that miss the interval by more than rounding."""
    worst: float
    """Largest distance of a drawn entry from the interval."""
    share: float
    """Bound on the share of all entries that miss the interval."""
    failure: float
    """Probability that the bound on the share is wrong."""

    def __str__(self) -> str:
        return (
            f"on {self.drawn:,} drawn of {self.entries:,} entries: {self.missed:,} of them miss "
            f"it, by {self.worst:.2g} at most, so that {100 * self.share:.2g} % of all do at most, "
            f"but for a chance of {self.failure:g}"
        )


def exact(term: Term) -> bool:
    """Whether all entries are looked at."""
    return term.map.size <= EXACT


def look(term: Term, W: Factored, share: float = 0.0, salt: int = 0) -> Seen:
    """Look at all entries; of those that miss the interval choose about a share.

    Which are chosen depends on their places and the salt, not on who works on what.
    """
    left, size = W.left, entry_size(W)

    def work(part: list[slice]) -> list[tuple[Miss, int, Array]]:
        return [one(at) for at in part]

    def one(at: slice) -> tuple[Miss, int, Array]:
        z = W.ranged(at, left)
        r = _proximable(term).residual(z)
        found = _miss(term, z, r, size)
        if not found.worst:
            return found, 0, np.zeros(0, np.int64)
        bad = np.flatnonzero(r) + at.start
        return found, bad.size, bad[_drawn(bad, salt) < share] if share < 1 else bad

    blocks = list(term.chunks())
    ends = np.linspace(0, len(blocks), min(threads.count(), len(blocks)) + 1).astype(int)
    parts = [blocks[a:b] for a, b in pairwise(ends)]
    done = [x for part in threads.run([partial(work, p) for p in parts]) for x in part]
    places = np.concatenate([x[2] for x in done])
    return Seen([x[0] for x in done], sum(x[1] for x in done), places)


def draw(
    term: Term, W: Factored, rng: np.random.Generator, count: int | None = None
) -> tuple[Seen, int]:
    """Look at drawn entries, and say what all would be by them; and how many these were."""
    n, m = W.shape
    flat = np.unique(rng.integers(term.map.size, size=count or DRAWN))
    z = W.entries(*np.divmod(flat, m))
    r = _proximable(term).residual(z)
    found = _miss(term, z, r, entry_size(W))
    scale = n * m / flat.size
    bad = flat[r != 0]
    seen = found._replace(squares=scale * found.squares, images=W.dot(W))
    return Seen([seen], int(scale * bad.size), bad), flat.size


def sampled(term: Term, W: Factored, rng: np.random.Generator) -> Sampled:
    """Violations by newly drawn entries, with a bound on the share of all (Clopper, Pearson).

    An entry misses by more than rounding where it does by more than 10⁻⁶ of the size of its data.
    """
    i, j = (rng.integers(side, size=DRAWN) for side in W.shape)
    z, h = W.entries(i, j), _proximable(term)
    far = np.abs(h.residual(z))
    bad = far > 1e-6 * np.maximum(h.data_size(z), entry_size(W))
    missed = int(np.count_nonzero(bad))
    share = 1.0
    if missed < DRAWN:
        share = float(betaincinv(missed + 1, DRAWN - missed, 1 - SURE))
    worst = float(np.max(far, initial=0.0, where=bad))
    return Sampled(DRAWN, term.map.size, missed, worst, share, SURE)


def missed(term: Term, W: Factored, entries: Array) -> Miss:
    """How some entries of W miss the interval."""
    return _miss(term, entries, _proximable(term).residual(entries), entry_size(W))


def _proximable(term: Term) -> Proximable:
    assert isinstance(term.function, Proximable)
    return term.function


def _miss(term: Term, z: Array, r: Array, unit: float) -> Miss:
    worst = float(np.max(np.abs(r), initial=0.0))
    rows = row_misses(worst, 1.0, term.function.data_size(z[:1]), unit)  # one number for all
    return Miss(float(np.vdot(r, r)), float(np.vdot(z, z)), worst, *rows)


def _drawn(places: Array, salt: int) -> Array:
    """A number in [0, 1) for each place, as if drawn [1]_.

    References
    ----------
    .. [1] G. Steele, D. Lea, C. Flood, "Fast splittable pseudorandom number generators", OOPSLA
       2014: the finaliser of SplitMix.
    """
    x = places.astype(np.uint64) + np.uint64(salt)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        x = (x ^ (x >> np.uint64(shift))) * np.uint64(factor)
    found: Array = ((x ^ (x >> np.uint64(31))) >> np.uint64(11)) * 2.0**-53
    return found
