"""Iterates and the atoms they are mixed from."""

from condgrad.points.atoms import Atom, Blocks, Coordinate, Full, Moved, RankOne
from condgrad.points.factored import Factored
from condgrad.points.gram import Gram

__all__ = [
    "Atom",
    "Blocks",
    "Coordinate",
    "Factored",
    "Full",
    "Gram",
    "Moved",
    "RankOne",
]
