"""Better dual points over a nuclear ball."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from condgrad._types import Array
from condgrad.problem import Problem


class Better(NamedTuple):
    """A dual point that may prove more than the one given."""

    points: Sequence[Array]
    """The multipliers of every term."""
    changes: tuple[str, ...]
    """What was changed: ``"clipped"``, ``"scaled"``, both or nothing."""
    lowest: float
    """min ⟨v, s⟩ at the point given, about."""
    level: int | None
    """The level at which singular values were cut off."""


def serves(problem: Problem) -> bool:
    """Whether dual points of a problem can be improved."""
    return False


def improved(
    problem: Problem, vs: Sequence[Array], points: Sequence[Array], level: int | None
) -> Better:
    """A better dual point."""
    raise NotImplementedError
