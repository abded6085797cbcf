"""The few types every module shares."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[Any]

Rows: TypeAlias = NDArray[np.int64] | slice
"""Rows of a term: integer ids (repeats allowed) or a slice with start and stop."""

Ranges: TypeAlias = Sequence[slice]
"""Contiguous rows of a term, range by range."""

ALL = slice(None)
"""Every row of a term."""


class Params(NamedTuple):
    """The scalars of one iteration, with the values of η and β one iteration before."""

    k: int
    eta: float
    beta: float
    rho: float
    effort: float
    eta_before: float
    beta_before: float


def pick(data: Array | float, at: Rows) -> Array | float:
    """Per-row data of the rows `at`; a scalar serves every row."""
    return data if isinstance(data, (float, int, np.generic)) else data[at]


def span(at: Rows, size: int) -> tuple[int, int]:
    """First and past-the-last row of a slice, for a term of `size` rows."""
    assert isinstance(at, slice)
    start, stop, _ = at.indices(size)
    return start, stop


def ids_of(at: Rows, size: int) -> Array:
    """The rows `at` as an integer array."""
    return np.arange(*span(at, size)) if isinstance(at, slice) else at
