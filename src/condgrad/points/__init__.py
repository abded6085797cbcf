"""Iterates and the atoms they are mixed from."""

from condgrad.points.atoms import Atom, Blocks, Coordinate, Full, Moved, RankOne, Zero
from condgrad.points.dense import Dense
from condgrad.points.factored import Factored
from condgrad.points.gram import Gram

__all__ = [
    "Atom",
    "Blocks",
    "Coordinate",
    "Dense",
    "Factored",
    "Full",
    "Gram",
    "Moved",
    "RankOne",
    "Zero",
]
