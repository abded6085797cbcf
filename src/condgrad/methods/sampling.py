"""Which rows an iteration takes: single rows at random, or stretches in a random order."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from condgrad._types import Array, Rows
from condgrad.backends import ops
from condgrad.errors import ProblemError

Batch = int | float
"""Rows per draw: an integer is a count, a float in (0, 1] a fraction of the rows."""
AT_ONCE = 16
"""The most stretches in a draw: neighbours are merged until so few will do."""


def check_batch(batch: Any) -> None:
    """Refuse a batch that is neither a count nor a fraction."""
    whole = isinstance(batch, (int, np.integer)) and not isinstance(batch, bool)
    part = isinstance(batch, (float, np.floating)) and 0 < batch <= 1
    if not ((whole and batch >= 1) or part):
        raise ProblemError(
            f"batch is {batch!r}: it must be a count of at least 1, or a fraction in (0, 1]"
        )


def batch_size(batch: Batch, size: int) -> int:
    """Rows that `batch` means for a term of `size` rows. A term of one row is taken whole.

    Examples
    --------
    >>> batch_size(0.05, 6900), batch_size(10, 6900), batch_size(10, 1)
    (345, 10, 1)
    """
    if size == 1:
        return 1
    return int(batch) if isinstance(batch, (int, np.integer)) else max(1, round(batch * size))


def draw(size: int, batch: int, replace: bool, rng: np.random.Generator) -> Rows:
    """`batch` of `size` rows, uniformly; the slice of all rows if that is what it comes to.

    Without replacement ids are drawn one after the other and those already drawn are thrown back,
    marked in a bit per row; more than half of the rows come from a partial shuffle.
    """
    if replace or batch == 1:
        return rng.integers(0, size, batch)
    if batch == size:
        return slice(0, size)
    if 2 * batch > size:  # most draws would be thrown back
        return rng.choice(size, batch, replace=False, shuffle=False)
    seen, drawn, count = np.zeros(size // 64 + 1, np.uint64), np.empty(batch, np.int64), 0
    while count < batch:
        count = ops.fresh(_ids((), batch - count, size, batch, rng), seen, drawn, count)
    return drawn


def draw_many(count: int, size: int, batch: int, replace: bool, rng: np.random.Generator) -> Array:
    """`count` draws, one a row: the same ids as by `draw` one after the other."""
    if replace or batch == 1:
        return rng.integers(0, size, (count, batch))
    if 2 * batch <= size:
        before, out = rng.bit_generator.state, np.empty((count, batch), np.int64)
        ids, seen = _ids((count,), batch, size, batch, rng), np.zeros(size // 64 + 1, np.uint64)
        if ops.fresh_rows(ids, seen, out):
            return out
        rng.bit_generator.state = before  # rare: a draw that has to draw again
    return np.array([draw(size, batch, replace, rng) for _ in range(count)])


def _ids(
    draws: tuple[int, ...], more: int, size: int, batch: int, rng: np.random.Generator
) -> Array:
    """Ids for so many draws of which `more` are missing, and some to throw back."""
    kind = np.int32 if size < 2**31 else np.int64  # half the cost to draw
    return rng.integers(0, size, (*draws, more + more * batch // size + 8), kind)


@dataclass
class Stretches:
    """Contiguous stretches of rows in random order, each once before any comes again."""

    size: int
    """Rows of the term."""
    batch: int
    """Rows wanted at a time."""
    stretch: int
    """Rows of a stretch."""
    count: int
    """Stretches of a draw."""
    order: list[int] = field(default_factory=list)
    """Numbers of the stretches that are left of the round."""

    @classmethod
    def of(cls, size: int, least: int, batch: int) -> Stretches:
        """Stretches of a multiple of `least` rows, so that a draw has about `batch` rows."""
        stretch = min(size, least * max(1, -(-batch // (least * AT_ONCE))))
        total = -(-size // stretch)
        short = total * stretch - size  # rows that the last stretch lacks
        count = -(-(batch + short) // stretch)
        if count >= total:
            stretch, count = size, 1
        return cls(size, batch, stretch, count)

    @property
    def whole(self) -> bool:
        """Whether a draw takes all rows."""
        return self.stretch >= self.size

    @property
    def share(self) -> float:
        """The share of the rows that a draw takes."""
        return min(1.0, self.count * self.stretch / self.size)

    def draw(self, rng: np.random.Generator) -> list[slice]:
        """The stretches of the next draw, in the order of the rows."""
        if self.whole:
            return [slice(0, self.size)]
        drawn, self.order = self.order[: self.count], self.order[self.count :]
        if len(drawn) < self.count:  # a new round; a stretch in `drawn` must not come twice
            fresh, seen = rng.permutation(-(-self.size // self.stretch)).tolist(), set(drawn)
            order = [b for b in fresh if b not in seen] + [b for b in fresh if b in seen]
            more = self.count - len(drawn)
            drawn, self.order = drawn + order[:more], order[more:]
        starts = [b * self.stretch for b in sorted(drawn)]
        return [slice(i, min(i + self.stretch, self.size)) for i in starts]


def rows_of(drawn: list[slice]) -> int:
    """Number of rows in some stretches."""
    return sum(at.stop - at.start for at in drawn)
