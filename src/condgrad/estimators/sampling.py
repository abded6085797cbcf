"""Drawing rows of a term."""

from __future__ import annotations

from time import perf_counter

import numpy as np

from condgrad._types import Array, Rows
from condgrad.backends import ops
from condgrad.errors import ProblemError

Batch = int | float
"""Rows per draw: an integer is a count, a float in (0, 1] a fraction of the rows."""


def batch_size(batch: Batch, size: int, name: str = "") -> int:
    """Rows that `batch` means for a term of `size` rows. A term of one row is taken whole.

    Examples
    --------
    >>> batch_size(0.05, 6900), batch_size(10, 6900), batch_size(10, 1)
    (345, 10, 1)
    """
    check_batch(batch)
    if size == 1:
        return 1
    if isinstance(batch, (int, np.integer)):
        if batch > size:
            raise ProblemError(
                f"batch is {batch}, but term {name!r} has only {size} rows: use at most {size}, or "
                "a fraction between 0 and 1"
            )
        return int(batch)
    return max(1, round(batch * size))


def check_batch(batch: Batch) -> None:
    """Refuse what is neither a count nor a fraction."""
    whole = isinstance(batch, (int, np.integer)) and not isinstance(batch, bool)
    part = isinstance(batch, (float, np.floating)) and 0 < batch <= 1
    if not ((whole and batch >= 1) or part):
        raise ProblemError(
            f"batch is {batch!r}: it must be a count of at least 1, or a fraction in (0, 1]"
        )


class Sampler:
    """Uniform rows of a term, with or without replacement.

    Without replacement ids are drawn one after the other and those already drawn are thrown back,
    marked in a bit per row; more than half of the rows come from a partial shuffle, and a full
    batch is the slice of all rows.

    Parameters
    ----------
    size : int
        Rows of the term.
    replace : bool
        With replacement.
    """

    whole = False
    share = 0.0  # it depends on the call

    def __init__(self, size: int, replace: bool) -> None:
        self.size, self.replace = size, replace
        self._narrow = np.int32 if size < 2**31 else np.int64  # half the cost to draw
        self._seen: Array | None = None
        self.seconds = 0.0
        """Time spent drawing."""

    def draw(self, batch: int, rng: np.random.Generator) -> Rows:
        """`batch` rows as integer ids, or a slice where that is all of them."""
        began = perf_counter()
        drawn = self._draw(batch, rng)
        self.seconds += perf_counter() - began
        return drawn

    def _draw(self, batch: int, rng: np.random.Generator) -> Rows:
        if self.replace or batch == 1:
            return rng.integers(0, self.size, batch)
        if batch == self.size:
            return slice(0, self.size)
        if 2 * batch > self.size:  # most draws would be thrown back
            return rng.choice(self.size, batch, replace=False, shuffle=False)
        seen, out, count = self._marks(), np.empty(batch, np.int64), 0
        while count < batch:
            more = self._enough(batch - count, batch)
            count = ops.fresh(rng.integers(0, self.size, more, self._narrow), seen, out, count)
        ops.forget(out, seen)
        return out

    def draw_many(self, count: int, batch: int, rng: np.random.Generator) -> Array:
        """`count` draws, one a row: the same ids as by `draw` one after the other."""
        began = perf_counter()
        drawn = self._draw_many(count, batch, rng)
        self.seconds += perf_counter() - began
        return drawn

    def _draw_many(self, count: int, batch: int, rng: np.random.Generator) -> Array:
        if self.replace or batch == 1:
            return rng.integers(0, self.size, (count, batch))
        if 2 * batch <= self.size:
            before, out = rng.bit_generator.state, np.empty((count, batch), np.int64)
            shape = (count, self._enough(batch, batch))
            if ops.fresh_rows(rng.integers(0, self.size, shape, self._narrow), self._marks(), out):
                return out
            rng.bit_generator.state = before  # rare: a draw that has to draw again
        return np.array([self._draw(batch, rng) for _ in range(count)])

    def _enough(self, more: int, batch: int) -> int:
        """Ids to draw where `more` of a batch are missing."""
        return more + more * batch // self.size + 8

    def _marks(self) -> Array:
        """A bit per row, none set."""
        if self._seen is None:
            self._seen = np.zeros(self.size // 64 + 1, np.uint64)
        return self._seen


class Stretches:
    """Contiguous stretches of rows in random order, every stretch once before any comes again.

    Parameters
    ----------
    size : int
        Rows of the term.
    stretch : int
        Rows that belong together.
    batch : int
        Rows wanted at a time. Neighbouring stretches are merged until a draw takes at most 16.
    """

    AT_ONCE = 16

    def __init__(self, size: int, stretch: int, batch: int) -> None:
        self.size, self.batch = size, batch
        self.stretch = min(size, stretch * max(1, -(-batch // (stretch * self.AT_ONCE))))
        total = -(-size // self.stretch)
        short = total * self.stretch - size  # rows that the last stretch lacks
        self._count = -(-(batch + short) // self.stretch)
        if self._count >= total:
            self.stretch, self._count = size, 1
        self._order: list[int] = []
        self.seconds = 0.0
        """Time spent drawing."""

    @property
    def whole(self) -> bool:
        """Whether a draw takes all rows."""
        return len(self.starts) == 1

    @property
    def share(self) -> float:
        """The share of all rows that a draw takes."""
        return min(1.0, self._count * self.stretch / self.size)

    @property
    def starts(self) -> range:
        """First row of every stretch."""
        return range(0, self.size, self.stretch)

    def draw(self, rng: np.random.Generator) -> list[slice]:
        """Stretches that hold at least `batch` rows together, at most all rows."""
        began = perf_counter()
        drawn = self._draw(rng)
        self.seconds += perf_counter() - began
        return drawn

    def _draw(self, rng: np.random.Generator) -> list[slice]:
        count, total = self._count, len(self.starts)
        if total == 1:
            return [slice(0, self.size)]
        drawn, self._order = self._order[:count], self._order[count:]
        if len(drawn) < count:  # a new round; a stretch still in `drawn` must not come twice
            fresh, seen = rng.permutation(total).tolist(), set(drawn)
            order = [b for b in fresh if b not in seen] + [b for b in fresh if b in seen]
            more = count - len(drawn)
            drawn, self._order = drawn + order[:more], order[more:]
        starts = [b * self.stretch for b in sorted(drawn)]
        return [slice(s, min(s + self.stretch, self.size)) for s in starts]
