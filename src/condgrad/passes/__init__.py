"""Who keeps the rows of a term: passes over them, compiled or plain, behind one seam.

A map knows its rows, a function its slopes; a keeper does what a method, a certificate and a
monitor need of both together. `keeper_of` is the one place that decides who serves: the first of
`KEEPERS` that can.
"""

from condgrad.functions import Function
from condgrad.maps import LinearMap
from condgrad.passes.fused import Fused
from condgrad.passes.plain import Miss, Pairing, Plain, Stored

KEEPERS: list[type[Plain]] = [Fused, Stored, Plain]
"""The faster first."""


def keeper_of(map: LinearMap, function: Function) -> Plain:
    """The keeper of the rows of a map under a function."""
    return next(keeper for keeper in KEEPERS if keeper.serves(map, function))(map, function)


__all__ = ["KEEPERS", "Miss", "Pairing", "Plain", "Stored", "keeper_of"]
