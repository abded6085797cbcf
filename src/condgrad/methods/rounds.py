"""Which entries have multipliers where all of them are held in an interval: rounds of steps.

At the end of a round entries whose multiplier is 0 leave the table, and entries of W that miss the
interval come in, a part of them where they are many. At an optimum of rank r there are about as
many multipliers as W has degrees of freedom, r (n + m), however many entries there are.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from condgrad._types import Array
from condgrad.backends import memory
from condgrad.maps import Entries
from condgrad.points.factored import Factored
from condgrad.problem import Problem
from condgrad.rows.everywhere import DRAWN, Seen, draw, exact, look
from condgrad.rows.observed import Observed, everywhere

FIRST = 10
"""Steps of the first rounds but one, which has one; later ones have a tenth of the steps so far."""
LEAST = 10_000
"""Entries that may come into a table at the end of any round."""
BYTES = 200
"""Bytes for each entry of a table, while another is made."""


@dataclass
class Rounds:
    """When a round ends, and which entries take part in the next."""

    next: int = 1
    """The step with which the round ends."""
    missed: dict[int, int] = field(default_factory=dict)
    """Number of entries that missed an interval the last time, by the index of the term."""

    def over(self, k: int) -> bool:
        """Whether a round ends with step k."""
        if k < self.next:
            return False
        self.next = k + max(FIRST, k // 10)
        return True

    def renewed(
        self, problem: Problem, observed: Observed, y: Array, W: Factored, rng: np.random.Generator
    ) -> tuple[Observed, Array, dict[int, Seen]]:
        """The rows of the next round, their multipliers, and what was seen of all entries."""
        held = [i for i, t in enumerate(problem.terms) if everywhere(t)]
        if not held:
            return observed, y, {}
        (n, m), tables, seen, own = W.shape, {}, {}, {}
        losses = sum(t.map.size for i, t in enumerate(problem.terms) if i not in held)
        most = max(losses, W.rank * (n + m), LEAST)
        for i in held:
            t, count = problem.terms[i], max(1, self.missed.get(i, n * m))
            if exact(t):
                seen[i] = look(t, W, most / count, int(rng.integers(2**63)))
            else:
                seen[i] = draw(t, W, rng, max(DRAWN, losses // 4))[0]
            self.missed[i], new = seen[i].missed, seen[i].places
            if new.size > most:
                new = rng.choice(new, most, replace=False)
            old, values = _kept(observed, i, y)
            places = np.union1d(old, new)
            if BYTES * places.size > 0.9 * memory.free_memory():
                raise MemoryError
            own[i] = np.zeros(places.size, y.dtype)
            own[i][np.searchsorted(places, old)] = values
            if places.size:
                tables[i] = Entries(*np.divmod(places, m), (n, m))
        fresh = Observed(problem, tables)
        multipliers = np.zeros(fresh.size, y.dtype)
        for i, (there, here) in enumerate(zip(observed.parts, fresh.parts, strict=True)):
            multipliers[here] = own[i] if i in own else y[there]
        return fresh, multipliers, seen


def _kept(observed: Observed, term: int, y: Array) -> tuple[Array, Array]:
    """The places of a table whose multipliers are not 0, and these."""
    if term not in observed.tables:
        return np.zeros(0, np.int64), np.zeros(0, y.dtype)
    i, j = observed.tables[term].positions()
    values = y[observed.parts[term]]
    return (i * observed.pattern.shape[1] + j)[values != 0], values[values != 0]
