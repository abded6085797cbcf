"""Passes over the rows of a term, compiled or plain, behind one seam.

A map knows its rows, a function its slopes; these do what a method, a certificate and a monitor
need of both together. `passes_of` is the one place that decides who serves: the first of `PASSES`
that can.
"""

from condgrad.functions import Function
from condgrad.maps import LinearMap
from condgrad.passes.fused import Fused, Tiled
from condgrad.passes.plain import Miss, Pairing, Plain, Stored, chunks

PASSES: list[type[Plain]] = [Tiled, Fused, Stored, Plain]
"""The faster first."""


def passes_of(map: LinearMap, function: Function) -> Plain:
    """Object that makes the passes over the rows of a map under a function."""
    return next(kind for kind in PASSES if kind.serves(map, function))(map, function)


__all__ = ["PASSES", "Fused", "Miss", "Pairing", "Plain", "Stored", "Tiled", "chunks", "passes_of"]
